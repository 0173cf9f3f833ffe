//! Division by numbers that the host knows: a product and a shift, where a division takes some twenty dependent instructions.
//!
//! A CTA divides several times, each quotient by the next number, before it loads its first stage; short launches wait for that.
//! Invariant: quotients of dividends below 2^31 are exact.

use postlude_ptx::kernel::{Kernel, Reg};
use postlude_ptx::launch::Parameter;
use postlude_ptx::target::Clusters;
use postlude_ptx::types::{Pred, U32};

/// A divisor as the host passes it.
#[derive(Clone, Copy)]
pub(super) struct Divisor<'k> {
    factor: Reg<'k, U32>,
    shift: Reg<'k, U32>,
}

impl<'k> Divisor<'k> {
    /// The parameters of a divisor of this name.
    pub(super) fn declare<C: Clusters>(k: Kernel<'k, C>, name: &str) -> Divisor<'k> {
        let [factor, shift] =
            ["factor", "shift"].map(|of| k.parameter_u32(&format!("{name}_{of}")).load());
        Divisor { factor, shift }
    }

    /// How often it is in a number below 2^31.
    pub(super) fn divide(self, number: Reg<'k, U32>) -> Reg<'k, U32> {
        (number << 1).mul_high(self.factor) >> self.shift
    }

    /// This one, or another.
    pub(super) fn select(self, other: Divisor<'k>, this: Reg<'k, Pred>) -> Divisor<'k> {
        Divisor {
            factor: self.factor.select(other.factor, this),
            shift: self.shift.select(other.shift, this),
        }
    }
}

/// What the number of a cluster's tiles is divided by on the way to its place.
#[derive(Clone, Copy)]
pub(super) struct RasterDivisors<'k> {
    /// Clusters of a batch.
    pub(super) batch: Divisor<'k>,
    /// Clusters of a group, which is this high but for the last one.
    pub(super) group: Divisor<'k>,
    pub(super) height: Divisor<'k>,
    pub(super) last_height: Divisor<'k>,
}

/// What the host passes for a divisor; one beyond all dividends gives 0, as 2^31 does.
pub(super) fn parameters(divisor: u64) -> [Parameter; 2] {
    factor_and_shift(divisor).map(Parameter::U32)
}

/// The smallest factor, and a shift, so that `2 n * factor / 2^(32 + shift)` is `n / divisor` for all n below 2^31: the factor is
/// less than one too large, which n times that error does not carry into the quotient.
fn factor_and_shift(divisor: u64) -> [u32; 2] {
    let divisor = divisor.clamp(1, 1 << 31);
    let shift = divisor.next_power_of_two().trailing_zeros();
    [(1_u64 << (31 + shift)).div_ceil(divisor) as u32, shift]
}

#[cfg(test)]
mod tests {
    use super::factor_and_shift;

    fn divided(number: u32, divisor: u32) -> u32 {
        let [factor, shift] = factor_and_shift(u64::from(divisor));
        ((u64::from(number << 1) * u64::from(factor)) >> 32 >> shift) as u32
    }

    #[test]
    fn quotients_are_exact() {
        let near = |of: u32| [of.saturating_sub(1), of, of + 1];
        let powers = (0..31).flat_map(|power| near(1 << power));
        let divisors: Vec<u32> = powers
            .chain(2..200)
            .chain([641, 9_999_991, 0x7fff_ffff])
            .filter(|it| *it > 0)
            .collect();
        for divisor in divisors {
            let most = (1_u32 << 31) - 1;
            let last = most / divisor * divisor;
            let numbers = [0, 1, divisor - 1, divisor, last - 1, last, most];
            let more = (0..64).map(|step| step * (most / 64) / divisor * divisor);
            for number in numbers.into_iter().chain(more.flat_map(near)) {
                let number = number.min(most);
                assert_eq!(divided(number, divisor), number / divisor, "{number} / {divisor}");
            }
        }
        assert_eq!(factor_and_shift(u64::MAX), factor_and_shift(1 << 31));
    }
}
