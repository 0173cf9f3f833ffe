//! Element types as they lie in memory, and bit-exact conversions to and from them.
//!
//! In: a value as f64 (every element type fits in one exactly). Out: the stored element, rounded once, to nearest even.

use std::fmt;

mod convert;
mod narrow;
mod nibble;
mod scale;
mod slices;
mod stochastic;
mod tf32;

pub(crate) use convert::load_integer;
pub use convert::{load, round_to, store};
pub use slices::{load_f32, load_i32, store_f32, store_i32};
pub(crate) use stochastic::precision;
pub use stochastic::round_randomly;
pub(crate) use tf32::{MASK as TF32_BITS, truncated as truncate_tf32};

/// An element type of a tensor in memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DType {
    /// IEEE single precision.
    F32,
    /// A single of which products read ten bits of the fraction.
    TF32,
    /// IEEE half precision.
    F16,
    /// The upper half of an [`DType::F32`].
    BF16,
    /// Eight bits, four of exponent; finite only, largest 448.
    F8E4M3,
    /// Eight bits, five of exponent; largest finite 57344.
    F8E5M2,
    /// A power of two from 2^-127 to 2^127, or nan: scales of blocks. It has no sign and no zero.
    F8E8M0,
    /// Signed byte.
    I8,
    /// Unsigned byte.
    U8,
    /// Signed 32-bit integer: indices, zero points, integer accumulators.
    I32,
    /// Signed 64-bit integer, as frameworks store labels and counts. A kernel declares `i32` and reads the nearest i32.
    I64,
    /// One byte, 0 or 1.
    Bool,
    /// Packed bits along the last dim, lowest bit first.
    B1,
    /// Signed, two in a byte along the last dim, lowest half first: -8 to 7. Inputs only.
    I4,
    /// Unsigned, two in a byte along the last dim, lowest half first: 0 to 15. Inputs only.
    U4,
}

/// What a value is while the body computes with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Elem {
    /// All floating-point arithmetic.
    F32,
    /// Integer arithmetic; wraps.
    I32,
    /// A condition.
    Bool,
}

impl DType {
    /// Every element type that a kernel declares, in the order of the documentation.
    pub const ALL: [DType; 14] = [
        DType::F32,
        DType::TF32,
        DType::F16,
        DType::BF16,
        DType::F8E4M3,
        DType::F8E5M2,
        DType::F8E8M0,
        DType::I8,
        DType::U8,
        DType::I32,
        DType::Bool,
        DType::B1,
        DType::I4,
        DType::U4,
    ];

    /// Names that mean something elsewhere and are refused with "not in this version".
    pub const RESERVED: [&'static str; 1] = ["f4e2m1"];

    /// The name in the language.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::TF32 => "tf32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F8E4M3 => "f8e4m3",
            DType::F8E5M2 => "f8e5m2",
            DType::F8E8M0 => "f8e8m0",
            DType::I8 => "i8",
            DType::U8 => "u8",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::Bool => "bool",
            DType::B1 => "b1",
            DType::I4 => "i4",
            DType::U4 => "u4",
        }
    }

    /// The element type that a kernel declares by that name.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Bits of one element in memory.
    pub const fn bits(self) -> usize {
        match self {
            DType::I64 => 64,
            DType::F32 | DType::TF32 | DType::I32 => 32,
            DType::F16 | DType::BF16 => 16,
            DType::F8E4M3 | DType::F8E5M2 | DType::F8E8M0 | DType::I8 | DType::U8 | DType::Bool => {
                8
            }
            DType::I4 | DType::U4 => 4,
            DType::B1 => 1,
        }
    }

    /// Elements of the last dim that a byte holds: one where elements are whole bytes.
    pub const fn per_byte(self) -> usize {
        8_usize.div_ceil(self.bits())
    }

    /// Whether several elements share a byte.
    pub const fn is_packed(self) -> bool {
        self.per_byte() > 1
    }

    /// Whether outputs have this type: halves of bytes and 64 bits are read only.
    pub const fn is_stored(self) -> bool {
        !matches!(self, DType::I4 | DType::U4 | DType::I64)
    }

    /// What holds the same values in whole bytes.
    pub const fn unpacked(self) -> DType {
        match self {
            DType::B1 => DType::Bool,
            DType::I4 => DType::I8,
            DType::U4 => DType::U8,
            whole => whole,
        }
    }

    /// Bytes that `count` contiguous elements take.
    pub const fn bytes_for(self, count: usize) -> usize {
        (count * self.bits()).div_ceil(8)
    }

    /// What a loaded element is in the body.
    pub const fn elem(self) -> Elem {
        match self {
            DType::F32
            | DType::TF32
            | DType::F16
            | DType::BF16
            | DType::F8E4M3
            | DType::F8E5M2
            | DType::F8E8M0 => Elem::F32,
            DType::I8 | DType::U8 | DType::I4 | DType::U4 | DType::I32 | DType::I64 => Elem::I32,
            DType::Bool | DType::B1 => Elem::Bool,
        }
    }

    /// Whether the type is floating point.
    pub const fn is_float(self) -> bool {
        matches!(self.elem(), Elem::F32)
    }

    /// Whether the type is floating point, narrower than f32 and of both signs.
    pub const fn is_narrow_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F8E4M3 | DType::F8E5M2)
    }

    /// What a product of two such operands accumulates in, if it may be an operand of `@`.
    pub const fn accumulator(self) -> Option<Elem> {
        match self {
            DType::F32 | DType::TF32 | DType::F16 | DType::BF16 | DType::F8E4M3 | DType::F8E5M2 => {
                Some(Elem::F32)
            }
            DType::I8 | DType::U8 => Some(Elem::I32),
            DType::F8E8M0
            | DType::I32
            | DType::I64
            | DType::Bool
            | DType::B1
            | DType::I4
            | DType::U4 => None,
        }
    }

    /// What a tensor of this type is widened to, exactly, before a product reads it.
    pub const fn multiplied_as(self) -> DType {
        match self {
            DType::I4 | DType::U4 => DType::I8,
            own => own,
        }
    }

    /// Whether a product has an operand of this and one of the other type.
    pub const fn multiplies(self, other: DType) -> bool {
        let integers =
            matches!(self, DType::I8 | DType::U8) && matches!(other, DType::I8 | DType::U8);
        self as u8 == other as u8 || (self.is_fp8() && other.is_fp8()) || integers
    }

    /// Whether a tensor of the other type has the bytes of one of this, whole elements each.
    pub const fn is_stored_as(self, other: DType) -> bool {
        matches!((self, other), (DType::TF32, DType::F32) | (DType::F8E8M0, DType::U8))
    }

    /// Whether the type is one of the 8-bit floats that products take.
    pub const fn is_fp8(self) -> bool {
        matches!(self, DType::F8E4M3 | DType::F8E5M2)
    }
}

impl Elem {
    /// The name in the language.
    pub const fn name(self) -> &'static str {
        match self {
            Elem::F32 => "f32",
            Elem::I32 => "i32",
            Elem::Bool => "bool",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Elem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
