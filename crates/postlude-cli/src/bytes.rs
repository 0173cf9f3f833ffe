//! Numbers of bytes as people write them.

use std::fmt;
use std::str::FromStr;

/// A number of bytes: `600MB`, `1.5 GB`, `1GiB` or `4096`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bytes(pub(crate) u64);

/// Units, the largest first, so that the longest name is found.
const UNITS: &[(&str, f64)] = &[
    ("GiB", (1u64 << 30) as f64),
    ("MiB", (1u64 << 20) as f64),
    ("KiB", 1024.0),
    ("GB", 1e9),
    ("MB", 1e6),
    ("kB", 1e3),
    ("KB", 1e3),
    ("B", 1.0),
    ("", 1.0),
];

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Bytes, String> {
        let wrong = || format!("`{text}` is no number of bytes; write `1.5GB`, `600MB` or `4096`");
        let found = UNITS.iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?, size)));
        let (number, size) = found.ok_or_else(wrong)?;
        let number: f64 = number.trim().parse().map_err(|_| wrong())?;
        let bytes = number * size;
        let fits = bytes.is_finite() && (0.0..9e18).contains(&bytes);
        if fits { Ok(Bytes(bytes as u64)) } else { Err(wrong()) }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        match self.0 {
            0..1_000 => write!(f, "{} bytes", self.0),
            1_000..1_000_000 => write!(f, "{:.3} kB", bytes / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.3} MB", bytes / 1e6),
            _ => write!(f, "{:.3} GB", bytes / 1e9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_with_their_unit() {
        let read = |text: &str| text.parse::<Bytes>().map(|bytes| bytes.0);
        assert_eq!(read("1.5GB"), Ok(1_500_000_000));
        assert_eq!(read("2 MiB"), Ok(2 << 20));
        assert_eq!(read("4096"), Ok(4096));
        for wrong in ["", "GB", "-1GB", "1TB", "nanMB", "1e30GB"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Bytes(1_050_673_152).to_string(), "1.051 GB");
    }
}
