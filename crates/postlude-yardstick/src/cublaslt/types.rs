//! The library's numbers for the types of elements, sums and scales.

use std::ffi::c_void;

use postlude::DType;

/// `cudaDataType_t`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Element {
    /// `CUDA_R_32F`
    F32 = 0,
    /// `CUDA_R_16F`
    F16 = 2,
    /// `CUDA_R_8I`
    I8 = 3,
    /// `CUDA_R_8U`
    U8 = 8,
    /// `CUDA_R_32I`
    I32 = 10,
    /// `CUDA_R_16BF`
    BF16 = 14,
    /// `CUDA_R_8F_E4M3`
    E4M3 = 28,
    /// `CUDA_R_8F_E5M2`
    E5M2 = 29,
}

impl Element {
    /// How a matrix of this dtype lies in memory.
    pub(super) fn of(dtype: DType) -> Element {
        match dtype {
            DType::F32 | DType::TF32 => Element::F32,
            DType::F16 => Element::F16,
            DType::BF16 => Element::BF16,
            DType::F8E4M3 => Element::E4M3,
            DType::F8E5M2 => Element::E5M2,
            DType::I8 => Element::I8,
            DType::U8 => Element::U8,
            DType::I32 => Element::I32,
            DType::F8E8M0 | DType::I64 | DType::Bool | DType::B1 | DType::I4 | DType::U4 => {
                panic!("compiler bug: the suite asks cuBLASLt for {dtype}")
            }
        }
    }
}

/// `cublasComputeType_t`: what sums are made in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Compute {
    /// `CUBLAS_COMPUTE_32F`
    Single = 68,
    /// `CUBLAS_COMPUTE_32I`
    Integer = 72,
    /// `CUBLAS_COMPUTE_32F_FAST_TF32`
    SingleOfTf32 = 77,
}

impl Compute {
    /// For products of operands of this dtype.
    pub(super) fn of(dtype: DType) -> Compute {
        match dtype {
            DType::TF32 => Compute::SingleOfTf32,
            DType::I8 | DType::U8 => Compute::Integer,
            DType::F32
            | DType::F16
            | DType::BF16
            | DType::F8E4M3
            | DType::F8E5M2
            | DType::F8E8M0
            | DType::I32
            | DType::I64
            | DType::Bool
            | DType::B1
            | DType::I4
            | DType::U4 => Compute::Single,
        }
    }

    /// The type of the numbers that products and addends are multiplied by.
    pub(super) const fn scale(self) -> Element {
        match self {
            Compute::Single | Compute::SingleOfTf32 => Element::F32,
            Compute::Integer => Element::I32,
        }
    }

    /// What products and addends are multiplied by, in that type.
    pub(super) fn scales(self, alpha: f32, beta: f32) -> Scales {
        match self {
            Compute::Single | Compute::SingleOfTf32 => Scales::Single([alpha, beta]),
            Compute::Integer => {
                let whole = [alpha, beta].iter().all(|scale| scale.fract() == 0.0);
                assert!(whole, "compiler bug: the suite scales integers by {alpha} and {beta}");
                Scales::Integer([alpha as i32, beta as i32])
            }
        }
    }
}

/// Alpha and beta in the type that the library reads.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Scales {
    Single([f32; 2]),
    Integer([i32; 2]),
}

impl Scales {
    /// Where each of them is, as long as this lives.
    pub(super) fn pointers(&self) -> [*const c_void; 2] {
        match self {
            Scales::Single(both) => both.each_ref().map(|one| std::ptr::from_ref(one).cast()),
            Scales::Integer(both) => both.each_ref().map(|one| std::ptr::from_ref(one).cast()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_numbers_of_the_headers() {
        let dtypes = [
            (DType::F32, 0),
            (DType::TF32, 0),
            (DType::F16, 2),
            (DType::I8, 3),
            (DType::U8, 8),
            (DType::I32, 10),
            (DType::BF16, 14),
            (DType::F8E4M3, 28),
            (DType::F8E5M2, 29),
        ];
        for (dtype, number) in dtypes {
            assert_eq!(Element::of(dtype) as i32, number, "{dtype}");
        }
        let operands = [(DType::BF16, 68), (DType::F8E4M3, 68), (DType::TF32, 77), (DType::I8, 72)];
        for (dtype, number) in operands {
            assert_eq!(Compute::of(dtype) as i32, number, "{dtype}");
        }
    }

    #[test]
    fn integers_are_scaled_by_integers() {
        let compute = Compute::of(DType::I8);
        assert_eq!(compute.scale(), Element::I32);
        assert_eq!(compute.scales(1.0, 0.0), Scales::Integer([1, 0]));
        assert_eq!(Compute::of(DType::TF32).scale(), Element::F32);
    }
}
