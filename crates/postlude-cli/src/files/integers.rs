//! Integers of other widths than the language's, read as i32.
//!
//! In: elements of a file, little-endian. Out: the same numbers as i32. Invariant: a number that i32 does not hold is an
//! error, never another number.

/// An integer type that becomes i32.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Integer {
    I16,
    U16,
    U32,
    I64,
    U64,
}

/// A number that i32 does not hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooLarge {
    /// Its place among the elements of the file.
    pub(super) at: usize,
    /// The number.
    pub(super) value: i128,
}

impl Integer {
    /// Bytes of one.
    pub(super) const fn bytes(self) -> usize {
        match self {
            Integer::I16 | Integer::U16 => 2,
            Integer::U32 => 4,
            Integer::I64 | Integer::U64 => 8,
        }
    }

    /// What NumPy calls it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Integer::I16 => "int16",
            Integer::U16 => "uint16",
            Integer::U32 => "uint32",
            Integer::I64 => "int64",
            Integer::U64 => "uint64",
        }
    }

    /// The bytes of the same numbers as i32, or the first that does not fit.
    pub(super) fn narrow(self, bytes: &[u8]) -> Result<Vec<u8>, TooLarge> {
        let mut narrow = Vec::with_capacity(bytes.len() / self.bytes() * size_of::<i32>());
        for (at, element) in bytes.chunks_exact(self.bytes()).enumerate() {
            let value = self.read(element);
            let fitting = i32::try_from(value).map_err(|_| TooLarge { at, value })?;
            narrow.extend(fitting.to_le_bytes());
        }
        Ok(narrow)
    }

    fn read(self, element: &[u8]) -> i128 {
        let mut wide = [0; 8];
        wide[..element.len()].copy_from_slice(element);
        let unsigned = u64::from_le_bytes(wide);
        match self {
            Integer::I16 => i128::from(unsigned as u16 as i16),
            Integer::I64 => i128::from(unsigned as i64),
            Integer::U16 | Integer::U32 | Integer::U64 => i128::from(unsigned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_fit_stay_what_they_are() {
        let numbers = |bytes: &[u8]| -> Vec<i32> {
            bytes.chunks(4).map(|four| i32::from_le_bytes(four.try_into().unwrap())).collect()
        };
        let wide: Vec<u8> =
            [-5_i64, i64::from(i32::MAX), 0].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(numbers(&Integer::I64.narrow(&wide).unwrap()), [-5, i32::MAX, 0]);
        assert_eq!(numbers(&Integer::I16.narrow(&(-2_i16).to_le_bytes()).unwrap()), [-2]);
        assert_eq!(numbers(&Integer::U16.narrow(&[255, 255]).unwrap()), [65535]);
    }

    #[test]
    fn the_first_number_that_does_not_fit_is_named() {
        let wide: Vec<u8> =
            [7_i64, -3_000_000_000, 1 << 40].iter().flat_map(|value| value.to_le_bytes()).collect();
        let error = Integer::I64.narrow(&wide).unwrap_err();
        assert_eq!(error, TooLarge { at: 1, value: -3_000_000_000 });
        let error = Integer::U64.narrow(&[255; 8]).unwrap_err();
        assert_eq!(error.value, i128::from(u64::MAX));
        assert!(Integer::U32.narrow(&(1_u32 << 31).to_le_bytes()).is_err());
    }
}
