//! What accesses of a warp cost, and how often each byte was written.
//!
//! Shared memory has 32 banks of 4 bytes; one wavefront serves each bank one word. Lanes with 8 or 16 bytes are served 16
//! or 8 at a time, and so are the rows of 8x8 matrices, unless the whole request touches no more words than one wavefront
//! has. Global memory is moved in sectors of 32 bytes, four of which are a line.

use crate::memory::Global;

/// Banks of shared memory, and words of a wavefront.
const BANKS: usize = 32;
/// Bytes of a word of a bank.
const WORD: u64 = 4;
/// Bytes of a wavefront.
const WAVEFRONT: u32 = 128;
/// Bytes of a sector.
const SECTOR: u64 = 32;
/// Bytes of a line.
const LINE: u64 = 128;

/// What a request of global memory touches, and the least for its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GlobalCost {
    /// Sectors of 32 bytes.
    pub sectors: (u64, u64),
    /// Lines of 128 bytes.
    pub lines: (u64, u64),
}

/// Units of this many bytes that some pieces touch, each once.
fn units(pieces: &[(u64, u32)], unit: u64) -> Vec<u64> {
    let touched = |(address, bytes): &(u64, u32)| {
        let last = address + u64::from(*bytes).max(1) - 1;
        *address / unit..=last / unit
    };
    let mut units: Vec<u64> = pieces.iter().flat_map(touched).collect();
    units.sort_unstable();
    units.dedup();
    units
}

/// Different bytes.
fn distinct(pieces: &[(u64, u32)]) -> u64 {
    let mut sorted = pieces.to_vec();
    sorted.sort_unstable();
    let (mut end, mut count) = (0, 0);
    for (address, bytes) in sorted {
        let last = address + u64::from(bytes);
        count += last.saturating_sub(address.max(end));
        end = end.max(last);
    }
    count
}

/// Sectors and lines of one request, each beside the least.
pub fn global_cost(pieces: &[(u64, u32)]) -> GlobalCost {
    let bytes = distinct(pieces);
    let cost = |unit| (units(pieces, unit).len() as u64, bytes.div_ceil(unit));
    GlobalCost { sectors: cost(SECTOR), lines: cost(LINE) }
}

/// Wavefronts that words take together: as many as the fullest bank has words.
fn degree(words: &[u64]) -> u64 {
    let mut banks = [0_u64; BANKS];
    for word in words {
        banks[(word % BANKS as u64) as usize] += 1;
    }
    banks.into_iter().max().unwrap_or(0).max(1)
}

/// Wavefronts of one request of shared memory, and the least for its words. Pieces are those of `lanes`, in order.
pub fn shared_cost(pieces: &[(u64, u32)], lanes: u32) -> (u64, u64) {
    let all = units(pieces, WORD);
    let least = all.len().div_ceil(BANKS).max(1) as u64;
    let widest = pieces.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0).max(1);
    let together = (WAVEFRONT / widest).clamp(1, 32);
    if all.len() <= BANKS || together == 32 {
        return (degree(&all), least);
    }
    let set: Vec<u32> = (0..32).filter(|lane| lanes >> lane & 1 == 1).collect();
    // An access that reaches several CTAs comes in parts, whose lanes are not known.
    let lane = |place: usize| if set.len() == pieces.len() { set[place] } else { place as u32 };
    let mut wavefronts = 0;
    let mut first = 0;
    while first < pieces.len() {
        let phase = lane(first) / together;
        let rest = (first..pieces.len()).take_while(|place| lane(*place) / together == phase);
        let end = first + rest.count();
        wavefronts += degree(&units(&pieces[first..end], WORD));
        first = end;
    }
    (wavefronts, least)
}

/// How often the bytes of a buffer were written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Coverage {
    /// Bytes that nobody wrote.
    pub never: u64,
    /// Bytes written once.
    pub once: u64,
    /// Bytes written more often.
    pub more: u64,
}

/// Writes of every byte of every buffer.
#[derive(Debug)]
pub(super) struct Coverings(Vec<Vec<u8>>);

impl Coverings {
    pub(super) fn new(sizes: &[usize]) -> Coverings {
        Coverings(sizes.iter().map(|size| vec![0; *size]).collect())
    }

    pub(super) fn write(&mut self, pieces: &[(u64, u32)]) {
        let spacing = Global::address(1) - Global::address(0);
        for (address, bytes) in pieces {
            let Some(from) = address.checked_sub(Global::address(0)) else { continue };
            let (buffer, offset) = ((from / spacing) as usize, (from % spacing) as usize);
            let Some(counts) = self.0.get_mut(buffer) else { continue };
            let end = counts.len().min(offset.saturating_add(*bytes as usize));
            for count in &mut counts[offset.min(end)..end] {
                *count = count.saturating_add(1);
            }
        }
    }

    pub(super) fn read(&self) -> Vec<Coverage> {
        let coverage = |counts: &Vec<u8>| {
            let mut coverage = Coverage::default();
            for count in counts {
                match count {
                    0 => coverage.never += 1,
                    1 => coverage.once += 1,
                    _ => coverage.more += 1,
                }
            }
            coverage
        };
        self.0.iter().map(coverage).collect()
    }
}
