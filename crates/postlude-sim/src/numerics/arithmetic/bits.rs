//! Bytes and bits of 32-bit registers.

use postlude_ptx::types::Scalar;

use super::{Fault, integer, ones};

/// `prmt.b32` without a mode: each hex digit of the lower half of `selector` names a byte of `a` (0 to 3) or `b` (4 to
/// 7); with its highest bit set that byte's sign fills the place (PTX ISA, "prmt").
pub fn permute(a: u32, b: u32, selector: u32) -> u32 {
    let bytes = u64::from(b) << 32 | u64::from(a);
    let place = |at: u32| {
        let digit = selector >> (4 * at) & 0xf;
        let byte = (bytes >> (8 * (digit & 7))) as u8;
        let byte = if digit & 8 == 0 { byte } else { ((byte as i8) >> 7) as u8 };
        u32::from(byte) << (8 * at)
    };
    (0..4).map(place).sum()
}

/// `lop3.b32`: any function of three bits; its value at `a`, `b`, `c` is bit `4a + 2b + c` of the table (PTX ISA,
/// "lop3").
pub fn lop3(a: u32, b: u32, c: u32, table: u8) -> u32 {
    let pick = |invert: bool, bits: u32| if invert { !bits } else { bits };
    (0..8_u32)
        .filter(|row| table >> row & 1 == 1)
        .map(|row| pick(row & 4 == 0, a) & pick(row & 2 == 0, b) & pick(row & 1 == 0, c))
        .fold(0, |sum, part| sum | part)
}

/// `popc`: of untyped bits only.
pub fn population_count(ty: Scalar, a: u64) -> Result<u64, Fault> {
    let counted = matches!(ty, Scalar::B32 | Scalar::B64);
    let (width, _) = integer(ty).filter(|_| counted).ok_or(Fault::Unsupported)?;
    Ok(u64::from((a & ones(width)).count_ones()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::random::Random;

    #[test]
    fn every_selector_picks_its_bytes() {
        let (a, b) = (0x8344_0211_u32, 0x7fc0_5580_u32);
        let bytes = [a.to_le_bytes(), b.to_le_bytes()].concat();
        for selector in 0..0x1_0000_u32 {
            let got = permute(a, b, selector | 0xabcd_0000).to_le_bytes();
            for (at, byte) in got.into_iter().enumerate() {
                let digit = (selector >> (4 * at) & 0xf) as usize;
                let source = bytes[digit % 8];
                let sign = if source >= 0x80 { 0xff } else { 0 };
                assert_eq!(byte, if digit < 8 { source } else { sign });
            }
        }
    }

    #[test]
    fn every_table_is_its_function() {
        let mut random = Random::new(14);
        for table in 0..=u8::MAX {
            let [a, b, c] = [random.bits(), random.bits(), random.bits()];
            let got = lop3(a, b, c, table);
            for bit in 0..32 {
                let row = (a >> bit & 1) * 4 + (b >> bit & 1) * 2 + (c >> bit & 1);
                assert_eq!(got >> bit & 1, u32::from(table) >> row & 1);
            }
        }
        assert_eq!(lop3(0xf0, 0xcc, 0xaa, 0x1a) & 0xff, 0x1a);
        assert_eq!(lop3(0b1100, 0b1010, 0, 0xc0), 0b1000);
    }

    #[test]
    fn ones_are_counted_within_the_width() {
        assert_eq!(population_count(Scalar::B32, u64::MAX), Ok(32));
        assert_eq!(population_count(Scalar::B64, u64::MAX), Ok(64));
        assert_eq!(population_count(Scalar::U32, 1), Err(Fault::Unsupported));
    }
}
