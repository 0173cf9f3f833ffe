//! Rust's own number types as elements of tensors.

use half::{bf16, f16};
use zerocopy::IntoBytes;

use crate::dtype::DType;

mod sealed {
    pub trait Sealed: Sized {
        fn bytes(values: &[Self]) -> &[u8];
        fn bytes_mut(values: &mut [Self]) -> &mut [u8];
    }
}

pub(super) use sealed::Sealed;

/// A number type of Rust that is an element type of Postlude: `f32`, [`half::f16`], [`half::bf16`], `i32`, `i64`, `i8`, `u8`.
///
/// Element types without one (`f8e4m3`, `f8e5m2`, `bool`, `b1`, `i4`, `u4`) are bytes: [`TensorView::from_bytes`](super::TensorView::from_bytes).
pub trait Element: Copy + Sealed + 'static {
    /// The element type.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => {$(
        impl Sealed for $rust {
            fn bytes(values: &[$rust]) -> &[u8] {
                values.as_bytes()
            }

            fn bytes_mut(values: &mut [$rust]) -> &mut [u8] {
                values.as_mut_bytes()
            }
        }

        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}

elements! { f32 => F32, f16 => F16, bf16 => BF16, i32 => I32, i64 => I64, i8 => I8, u8 => U8 }
