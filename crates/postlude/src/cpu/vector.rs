//! The vector registers a microkernel is written over.
//!
//! In: pointers to f32 or i32 lanes. Out: the same lanes after arithmetic.
//! Invariant: [`Vector::mul_add`] rounds once, on every machine, so every implementation gives the same bits.

/// A register of f32 lanes.
///
/// Every method is `unsafe`: the caller runs on a CPU that has the register's instructions, and every pointer is valid
/// for [`Vector::LANES`] elements, at any alignment.
pub(crate) trait Vector: Copy {
    /// Elements in one register.
    const LANES: usize;
    /// All lanes zero.
    unsafe fn zero() -> Self;
    /// All lanes the value at `from`.
    unsafe fn splat(from: *const f32) -> Self;
    /// Reads the lanes.
    unsafe fn load(from: *const f32) -> Self;
    /// Writes the lanes.
    unsafe fn store(self, to: *mut f32);
    /// `self + left * right`, rounded once.
    unsafe fn mul_add(self, left: Self, right: Self) -> Self;
    /// `self + left * right` where the caller knows every step to be exact, so that rounding twice is allowed.
    unsafe fn mul_add_exact(self, left: Self, right: Self) -> Self;
    /// Writes lanes that hold integers below 2^31 as i32.
    unsafe fn store_integers(self, to: *mut i32);
    /// Adds lanes that hold integers below 2^31 to i32 in memory, wrapping.
    unsafe fn add_integers(self, to: *mut i32);
}

/// Values of f32 in a cache line.
pub(super) const LINE: usize = 16;

/// Asks for the cache line at `pointer`, which need not be valid, to be brought into L2.
#[inline(always)]
pub(super) fn prefetch<T>(pointer: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults, and every x86-64 CPU has it.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(pointer.cast());
    };
    #[cfg(not(target_arch = "x86_64"))]
    let _ = pointer;
}

/// Four lanes in plain Rust, for CPUs without a vector unit of their own here.
#[derive(Clone, Copy)]
pub(super) struct Portable([f32; 4]);

impl Vector for Portable {
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn zero() -> Self {
        Portable([0.0; 4])
    }

    #[inline(always)]
    unsafe fn splat(from: *const f32) -> Self {
        // SAFETY: the caller passes a valid pointer.
        Portable([unsafe { *from }; 4])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller passes a pointer valid for four elements; an array of f32 is aligned as one f32.
        Portable(unsafe { *from.cast::<[f32; 4]>() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller passes a pointer valid for four elements; an array of f32 is aligned as one f32.
        unsafe { *to.cast::<[f32; 4]>() = self.0 };
    }

    #[inline(always)]
    unsafe fn mul_add(self, left: Self, right: Self) -> Self {
        Portable(std::array::from_fn(|lane| left.0[lane].mul_add(right.0[lane], self.0[lane])))
    }

    #[inline(always)]
    unsafe fn mul_add_exact(self, left: Self, right: Self) -> Self {
        Portable(std::array::from_fn(|lane| self.0[lane] + left.0[lane] * right.0[lane]))
    }

    #[inline(always)]
    unsafe fn store_integers(self, to: *mut i32) {
        // SAFETY: the caller passes a pointer valid for four elements; an array of i32 is aligned as one i32.
        unsafe { *to.cast::<[i32; 4]>() = self.0.map(|lane| lane as i32) };
    }

    #[inline(always)]
    unsafe fn add_integers(self, to: *mut i32) {
        // SAFETY: the caller passes a pointer valid for four elements; an array of i32 is aligned as one i32.
        let sums = unsafe { &mut *to.cast::<[i32; 4]>() };
        for (sum, lane) in sums.iter_mut().zip(self.0) {
            *sum = sum.wrapping_add(lane as i32);
        }
    }
}

/// Implements [`Vector`] over the registers of one x86 extension.
#[cfg(target_arch = "x86_64")]
macro_rules! x86_vector {
    ($register:ty, $lanes:literal, $zero:ident, $splat:ident, $load:ident, $store:ident, $fma:ident,
     $convert:ident, $add:ident, $load_integers:ident, $store_integers:ident) => {
        impl Vector for $register {
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn zero() -> Self {
                // SAFETY: the caller runs on a CPU with these registers.
                unsafe { $zero() }
            }

            #[inline(always)]
            unsafe fn splat(from: *const f32) -> Self {
                // SAFETY: as above, and the caller passes a valid pointer.
                unsafe { $splat(*from) }
            }

            #[inline(always)]
            unsafe fn load(from: *const f32) -> Self {
                // SAFETY: as above, valid for all lanes; the load is unaligned.
                unsafe { $load(from) }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut f32) {
                // SAFETY: as above, valid for all lanes; the store is unaligned.
                unsafe { $store(to, self) }
            }

            #[inline(always)]
            unsafe fn mul_add(self, left: Self, right: Self) -> Self {
                // SAFETY: the caller runs on a CPU with these registers.
                unsafe { $fma(left, right, self) }
            }

            #[inline(always)]
            unsafe fn mul_add_exact(self, left: Self, right: Self) -> Self {
                // SAFETY: the caller runs on a CPU with these registers.
                unsafe { $fma(left, right, self) }
            }

            #[inline(always)]
            unsafe fn store_integers(self, to: *mut i32) {
                // SAFETY: as for `store`.
                unsafe { $store_integers(to.cast(), $convert(self)) }
            }

            #[inline(always)]
            unsafe fn add_integers(self, to: *mut i32) {
                // SAFETY: as for `store`.
                unsafe {
                    $store_integers(to.cast(), $add($load_integers(to.cast()), $convert(self)))
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Vector;
    #[allow(
        clippy::wildcard_imports,
        reason = "every name is an instruction, listed once below"
    )]
    use std::arch::x86_64::*;

    x86_vector!(
        __m512,
        16,
        _mm512_setzero_ps,
        _mm512_set1_ps,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_fmadd_ps,
        _mm512_cvttps_epi32,
        _mm512_add_epi32,
        _mm512_loadu_si512,
        _mm512_storeu_si512
    );
    x86_vector!(
        __m256,
        8,
        _mm256_setzero_ps,
        _mm256_set1_ps,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_fmadd_ps,
        _mm256_cvttps_epi32,
        _mm256_add_epi32,
        _mm256_loadu_si256,
        _mm256_storeu_si256
    );
}
