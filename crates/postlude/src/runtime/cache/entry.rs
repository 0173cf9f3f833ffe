//! One kernel in a file: a header that proves the rest, the cubin, its log.
//!
//! ```text
//! magic 16 · format 4 · key 32 · cubin length 8 · log length 8 · hash of cubin and log 32 · cubin · log
//! ```
//! Numbers are little-endian. Anything that is not exactly this is no entry.

use crate::runtime::compile::{CompileLog, Cubin};

const MAGIC: &[u8; 16] = b"postlude-kernel\n";
const FORMAT: u32 = 1;
const HEADER: usize = 16 + 4 + 32 + 8 + 8 + 32;

/// The bytes of an entry.
pub(crate) fn encode(key: [u8; 32], cubin: &Cubin) -> Vec<u8> {
    let log = cubin.log.text().as_bytes();
    let mut bytes = Vec::with_capacity(HEADER + cubin.bytes.len() + log.len());
    bytes.extend(MAGIC);
    bytes.extend(FORMAT.to_le_bytes());
    bytes.extend(key);
    bytes.extend((cubin.bytes.len() as u64).to_le_bytes());
    bytes.extend((log.len() as u64).to_le_bytes());
    bytes.extend(hash(&cubin.bytes, log));
    bytes.extend(&cubin.bytes);
    bytes.extend(log);
    bytes
}

/// The entry that the bytes are, if they are one for this key.
pub(crate) fn decode(key: [u8; 32], bytes: &[u8]) -> Option<Cubin> {
    let mut rest = bytes;
    let mut take = |count: usize| {
        let (part, after) = rest.split_at_checked(count)?;
        rest = after;
        Some(part)
    };
    let known = take(16)? == MAGIC && take(4)? == FORMAT.to_le_bytes() && take(32)? == key;
    if !known {
        return None;
    }
    let mut length = || Some(u64::from_le_bytes(take(8)?.try_into().ok()?));
    let (cubin_bytes, log_bytes) = (length()?, length()?);
    let proof = take(32)?;
    if cubin_bytes.checked_add(log_bytes)? != rest.len() as u64 {
        return None;
    }
    let (cubin, log) = rest.split_at_checked(usize::try_from(cubin_bytes).ok()?)?;
    if cubin.is_empty() || proof != hash(cubin, log) {
        return None;
    }
    let log = CompileLog::new(std::str::from_utf8(log).ok()?);
    Some(Cubin { bytes: cubin.to_vec(), log })
}

fn hash(cubin: &[u8], log: &[u8]) -> [u8; 32] {
    *blake3::Hasher::new().update(cubin).update(log).finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cubin() -> Cubin {
        Cubin { bytes: (0..200).collect(), log: CompileLog::new("Used 24 registers") }
    }

    #[test]
    fn an_entry_comes_back_as_it_went() {
        assert_eq!(decode([7; 32], &encode([7; 32], &cubin())), Some(cubin()));
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_noticed() {
        let good = encode([7; 32], &cubin());
        for place in 0..good.len() {
            let mut bad = good.clone();
            bad[place] ^= 0x10;
            assert_eq!(decode([7; 32], &bad), None, "byte {place} changed");
            assert_eq!(decode([7; 32], &good[..place]), None, "cut at {place}");
        }
        let longer = [good.as_slice(), &[0]].concat();
        assert_eq!(decode([7; 32], &longer), None);
        assert_eq!(decode([8; 32], &good), None, "another kernel's file under this name");
    }

    #[test]
    fn lengths_that_overflow_are_no_entry() {
        let mut bytes = encode([7; 32], &cubin());
        bytes[52..68].fill(0xff);
        assert_eq!(decode([7; 32], &bytes), None);
    }
}
