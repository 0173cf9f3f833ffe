//! Moves, and what lanes of a warp tell each other.

use postlude_ptx::address::Special;
use postlude_ptx::inst::Inst;
use postlude_ptx::modifier::{ShuffleMode, VoteMode};

use crate::error::SimError;
use crate::machine::Machine;
use crate::memory::of_rank;
use crate::scalar::{bits, extend};
use crate::warp::{Lanes, Warp, lanes};

use super::{Now, Outcome};

/// Nanoseconds that a warp instruction is said to take.
const NANOSECONDS: u64 = 2;

impl Machine<'_> {
    pub(super) fn execute_lane(
        &mut self,
        warp: &mut Warp,
        now: Now,
        inst: &Inst,
    ) -> Result<Outcome, SimError> {
        let mask = now.mask;
        match inst {
            Inst::MovSpecial { d, special, .. } => {
                let value = self.special(warp, *special);
                self.set(warp, d.0, mask, value);
            }
            Inst::MovSymbol { d, symbol, .. } => {
                let place = self.symbols.address(&symbol.name);
                let place = place.ok_or_else(|| self.unsupported(now.line, "no such symbol"))?;
                self.set(warp, d.0, mask, [place.wrapping_add_signed(symbol.offset); 32]);
            }
            Inst::Unpack { ty, d, a } => {
                let value = self.value(warp, a.0);
                let width = bits(*ty) / d.0.len().max(1) as u32;
                for (part, register) in d.0.iter().enumerate() {
                    let shift = part as u32 * width;
                    self.set(warp, *register, mask, value.map(|value| value >> shift));
                }
            }
            Inst::Pack { ty, d, a } => {
                let width = bits(*ty) / a.0.len().max(1) as u32;
                let mut packed = [0; 32];
                for (part, register) in a.0.iter().enumerate() {
                    let value = &warp.registers[self.program.place(*register)];
                    for lane in 0..32 {
                        packed[lane] |= value[lane] << (part as u32 * width);
                    }
                }
                self.set(warp, d.0, mask, packed);
            }
            Inst::Shuffle { mode, d, a, lane, clamp, .. } => {
                let [a, lane, clamp] = [a, lane, clamp].map(|each| self.value(warp, each.0));
                self.set(warp, d.0, mask, shuffle(*mode, &a, &lane, &clamp));
            }
            Inst::Vote { mode, d, a, .. } => {
                let yes = ballot(&self.value(warp, a.0)) & mask;
                let answer = match mode {
                    VoteMode::All => yes == mask,
                    VoteMode::Any => yes != 0,
                    VoteMode::Uniform => yes == mask || yes == 0,
                };
                self.set(warp, d.0, mask, [answer.into(); 32]);
            }
            Inst::Ballot { d, a, .. } => {
                let yes = ballot(&self.value(warp, a.0)) & mask;
                self.set(warp, d.0, mask, [yes.into(); 32]);
            }
            Inst::Elect { d, .. } => {
                let chosen = mask.trailing_zeros() as usize;
                let value = std::array::from_fn(|lane| u64::from(lane == chosen));
                self.set(warp, d.0, mask, value);
            }
            Inst::LoadParameter { ty, d, address } => {
                let place = self.address(warp, address, now.line)?;
                let mut values = [0; 32];
                for lane in lanes(mask) {
                    let found = self.parameters.read(place[lane], bits(*ty) as usize / 8);
                    let found = found.ok_or_else(|| self.unsupported(now.line, "no parameter"))?;
                    values[lane] = extend(found, *ty);
                }
                self.set(warp, d.0, mask, values);
            }
            Inst::MapAddress { d, a, rank } => {
                let [a, rank] = [a, rank].map(|each| self.value(warp, each.0));
                let mapped = |lane: usize| of_rank(a[lane] as u32, rank[lane] as u32 & 0x7f).into();
                self.set(warp, d.0, mask, std::array::from_fn(mapped));
            }
            Inst::CreatePolicy { d, .. } => self.set(warp, d.0, mask, [0; 32]),
            _ => return Err(self.unsupported(now.line, "no unit")),
        }
        Ok(Outcome::Next)
    }

    fn special(&self, warp: &Warp, special: Special) -> Lanes {
        let cta = &self.ctas[warp.cta];
        let (grid, cluster) = (self.launch.grid, self.launch.cluster);
        let all = |value: u32| [u64::from(value); 32];
        match special {
            Special::ThreadX => {
                std::array::from_fn(|lane| u64::from(warp.number) * 32 + lane as u64)
            }
            Special::Lane => std::array::from_fn(|lane| lane as u64),
            Special::BlockX => all(cta.coordinates[0]),
            Special::BlockY => all(cta.coordinates[1]),
            Special::BlockZ => all(cta.coordinates[2]),
            Special::GridX => all(grid[0]),
            Special::GridY => all(grid[1]),
            Special::GridZ => all(grid[2]),
            Special::ClusterX => all(cta.coordinates[0] / cluster[0]),
            Special::ClustersX => all(grid[0] / cluster[0]),
            Special::ClusterRank => all(cta.rank),
            Special::Multiprocessor => all(cta.number),
            Special::Clock => [self.report.instructions; 32],
            Special::Nanoseconds => [self.report.instructions * NANOSECONDS; 32],
        }
    }
}

/// Each lane's predicate as a bit.
fn ballot(values: &Lanes) -> u32 {
    (0..32).fold(0, |set, lane| set | (values[lane] as u32 & 1) << lane)
}

/// The lane that a lane reads: as the pseudo-code of PTX ISA, "shfl.sync", has it.
pub(super) fn shuffle_source(mode: ShuffleMode, lane: usize, b: u64, c: u64) -> usize {
    let (own, by) = (lane as i64, (b & 31) as i64);
    let (clamp, segment) = ((c & 31) as i64, (c >> 8 & 31) as i64);
    let most = (own & segment) | (clamp & !segment & 31);
    let (source, inside) = match mode {
        ShuffleMode::Up => (own - by, own - by >= most),
        ShuffleMode::Down => (own + by, own + by <= most),
        ShuffleMode::Butterfly => (own ^ by, own ^ by <= most),
        ShuffleMode::Index => {
            let source = (own & segment) | (by & !segment & 31);
            (source, source <= most)
        }
    };
    let inside = inside && (0..32).contains(&source);
    if inside { source as usize } else { lane }
}

fn shuffle(mode: ShuffleMode, a: &Lanes, b: &Lanes, c: &Lanes) -> Lanes {
    std::array::from_fn(|lane| a[shuffle_source(mode, lane, b[lane], c[lane])])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffles_stay_inside_the_warp() {
        let own: Lanes = std::array::from_fn(|lane| lane as u64);
        let go = |mode, by, clamp| shuffle(mode, &own, &[by; 32], &[clamp; 32]);
        assert_eq!(go(ShuffleMode::Butterfly, 1, 31)[6], 7);
        assert_eq!((go(ShuffleMode::Up, 4, 0)[3], go(ShuffleMode::Up, 4, 0)[4]), (3, 0));
        assert_eq!((go(ShuffleMode::Down, 4, 31)[30], go(ShuffleMode::Down, 4, 31)[1]), (30, 5));
        assert_eq!(go(ShuffleMode::Index, 9, 31), [9; 32]);
    }
}
