//! Meters: what a program asks of the hardware, line by line and role by role.
//!
//! In: what the machine shows to observers. Out: a [`Reading`]: instructions, shared-memory wavefronts, global sectors and
//! lines beside the least that the bytes need, copies, products, and how often each byte of each buffer was written.
//! Invariant: lines and roles add up to the same totals.

mod memory;

use std::collections::BTreeMap;
use std::ops::AddAssign;

use postlude_ptx::inst::Inst;
use postlude_ptx::shared::Region;

use crate::memory::SHARED_BASE;
use crate::observe::{Access, Agent, At, Kind, Observer, Operation, Space};

use memory::Coverings;
pub use memory::{Coverage, global_cost, shared_cost};

/// What was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Instructions of warps; a wait that asks again counts again.
    pub instructions: u64,
    /// Reads and writes of shared memory by warps.
    pub shared_requests: u64,
    /// Wavefronts of 128 bytes that they take.
    pub wavefronts: u64,
    /// The fewest for the bytes they touch.
    pub least_wavefronts: u64,
    /// Reads and writes of global memory by warps.
    pub global_requests: u64,
    /// Sectors of 32 bytes that they touch.
    pub sectors: u64,
    /// The fewest for their bytes.
    pub least_sectors: u64,
    /// Lines of 128 bytes that they touch.
    pub lines: u64,
    /// The fewest for their bytes.
    pub least_lines: u64,
    /// Tensor and bulk copies into shared memory, once for each receiver.
    pub loads: u64,
    /// Their bytes in shared memory.
    pub loaded_bytes: u64,
    /// Tensor and bulk copies out of shared memory.
    pub stores: u64,
    /// Their bytes in global memory.
    pub stored_bytes: u64,
    /// Matrix products of warpgroups.
    pub products: u64,
    /// Their multiply-adds.
    pub multiply_adds: u64,
    /// Lanes that changed memory atomically.
    pub atomics: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.instructions += other.instructions;
        self.shared_requests += other.shared_requests;
        self.wavefronts += other.wavefronts;
        self.least_wavefronts += other.least_wavefronts;
        self.global_requests += other.global_requests;
        self.sectors += other.sectors;
        self.least_sectors += other.least_sectors;
        self.lines += other.lines;
        self.least_lines += other.least_lines;
        self.loads += other.loads;
        self.loaded_bytes += other.loaded_bytes;
        self.stores += other.stores;
        self.stored_bytes += other.stored_bytes;
        self.products += other.products;
        self.multiply_adds += other.multiply_adds;
        self.atomics += other.atomics;
    }
}

/// What warps of one kind asked for, in all CTAs together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Role {
    /// What they do.
    pub name: String,
    /// The first and the last of them in a CTA.
    pub warps: (u32, u32),
    /// What they asked for.
    pub counts: Counts,
}

/// What a run asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reading {
    /// All of it.
    pub total: Counts,
    /// By PTX line, from 1; lines that did nothing are left out.
    pub lines: Vec<(u32, Counts)>,
    /// By what warps do.
    pub roles: Vec<Role>,
    /// How often bytes were written, for each buffer.
    pub coverage: Vec<Coverage>,
}

/// Watches a run and counts.
#[derive(Debug)]
pub struct Meter {
    regions: Vec<Region>,
    lines: Vec<Counts>,
    warps: Vec<Counts>,
    /// Regions that each warp's copies arrive in.
    targets: BTreeMap<u32, Vec<String>>,
    /// Copies and products under way: kind and issuer.
    issuers: BTreeMap<u64, (Operation, u32)>,
    coverings: Coverings,
}

impl Meter {
    /// A meter for a run on buffers of these sizes; regions name what loads are for.
    pub fn new(sizes: &[usize], regions: &[Region]) -> Meter {
        Meter {
            regions: regions.to_vec(),
            lines: Vec::new(),
            warps: Vec::new(),
            targets: BTreeMap::new(),
            issuers: BTreeMap::new(),
            coverings: Coverings::new(sizes),
        }
    }

    /// What was counted so far.
    pub fn read(&self) -> Reading {
        let mut total = Counts::default();
        for counts in &self.warps {
            total += *counts;
        }
        let lines = self.lines.iter().copied().zip(0_u32..);
        let lines = lines.filter(|(counts, _)| *counts != Counts::default());
        Reading {
            total,
            lines: lines.map(|(counts, line)| (line, counts)).collect(),
            roles: self.roles(),
            coverage: self.coverings.read(),
        }
    }

    /// Warpgroups that multiply, warps that load, and the others.
    fn roles(&self) -> Vec<Role> {
        let mut roles: Vec<Role> = Vec::new();
        for (group, warps) in (0_u32..).zip(self.warps.chunks(4)) {
            let first = group * 4;
            if warps.iter().any(|counts| counts.products > 0 || counts.multiply_adds > 0) {
                let mut counts = Counts::default();
                for each in warps {
                    counts += *each;
                }
                let warps = (first, first + warps.len() as u32 - 1);
                let name = format!("multiply, warpgroup {group}");
                roles.push(Role { name, warps, counts });
                continue;
            }
            for (warp, counts) in (first..).zip(warps) {
                let name = match (counts.loads, self.targets.get(&warp)) {
                    (0, _) => "other".to_owned(),
                    (_, Some(targets)) if !targets.is_empty() => {
                        format!("load, {}", targets.join(" and "))
                    }
                    (_, _) => "load".to_owned(),
                };
                match roles.last_mut() {
                    Some(last) if last.name == name && last.warps.1 + 1 == warp => {
                        last.warps.1 = warp;
                        last.counts += *counts;
                    }
                    Some(_) | None => {
                        roles.push(Role { name, warps: (warp, warp), counts: *counts });
                    }
                }
            }
        }
        roles
    }

    fn count(&mut self, line: u32, warp: u32, counts: Counts) {
        let (line, warp) = (line as usize, warp as usize);
        if self.lines.len() <= line {
            self.lines.resize(line + 1, Counts::default());
        }
        if self.warps.len() <= warp {
            self.warps.resize(warp + 1, Counts::default());
        }
        self.lines[line] += counts;
        self.warps[warp] += counts;
    }

    /// Bytes of a copy on the side that counts: where a load arrives, where a store leaves to.
    fn copied(&mut self, at: At, access: Access<'_>, number: u64) {
        let Some((operation, warp)) = self.issuers.get(&number).copied() else { return };
        let bytes = access.pieces.iter().map(|(_, bytes)| u64::from(*bytes)).sum();
        let counts = match (operation, access.space, access.kind) {
            (
                Operation::Load | Operation::Copy | Operation::Word,
                Space::Shared { .. },
                Kind::Write,
            ) => {
                self.note_target(warp, access.pieces.first().map_or(0, |(address, _)| *address));
                Counts { loads: 1, loaded_bytes: bytes, ..Counts::default() }
            }
            (Operation::Store, Space::Global, Kind::Write | Kind::Atomic) => {
                Counts { stores: 1, stored_bytes: bytes, ..Counts::default() }
            }
            _ => return,
        };
        self.count(at.line, warp, counts);
    }

    fn note_target(&mut self, warp: u32, address: u64) {
        let offset = address.wrapping_sub(u64::from(SHARED_BASE));
        let holds = |region: &&Region| {
            (u64::from(region.offset)..u64::from(region.end())).contains(&offset)
        };
        let Some(region) = self.regions.iter().find(holds) else { return };
        let targets = self.targets.entry(warp).or_default();
        if !targets.contains(&region.name) {
            targets.push(region.name.clone());
        }
    }
}

impl Observer for Meter {
    fn executed(&mut self, at: At, inst: &Inst) {
        let Agent::Warp { warp, .. } = at.agent else { return };
        let mut counts = Counts { instructions: 1, ..Counts::default() };
        match inst {
            // A quarter for each of the four warps that issue it.
            Inst::Wgmma { shape, .. } => {
                counts.multiply_adds = u64::from(shape.m) * u64::from(shape.n * shape.k) / 4;
            }
            Inst::Mma { shape, .. } => {
                counts.multiply_adds = u64::from(shape.m) * u64::from(shape.n * shape.k);
            }
            _ => {}
        }
        self.count(at.line, warp, counts);
    }

    fn accessed(&mut self, at: At, access: Access<'_>) {
        if access.space == Space::Global && access.kind != Kind::Read {
            self.coverings.write(access.pieces);
        }
        let warp = match at.agent {
            Agent::Warp { warp, .. } => warp,
            Agent::Operation(number) => return self.copied(at, access, number),
        };
        let mut counts = Counts::default();
        match access.space {
            Space::Global => {
                let cost = global_cost(access.pieces);
                counts.global_requests = 1;
                (counts.sectors, counts.least_sectors) = cost.sectors;
                (counts.lines, counts.least_lines) = cost.lines;
            }
            Space::Shared { .. } => {
                counts.shared_requests = 1;
                (counts.wavefronts, counts.least_wavefronts) = shared_cost(access.pieces, at.lanes);
            }
        }
        if access.kind == Kind::Atomic {
            counts.atomics = access.pieces.len() as u64;
        }
        self.count(at.line, warp, counts);
    }

    fn issued(&mut self, at: At, operation: Operation, number: u64) {
        let Agent::Warp { warp, .. } = at.agent else { return };
        match operation {
            Operation::Product => {
                self.count(at.line, warp, Counts { products: 1, ..Counts::default() });
            }
            Operation::Load | Operation::Store | Operation::Copy | Operation::Word => {
                self.issuers.insert(number, (operation, warp));
            }
        }
    }

    fn completed(&mut self, _: At, number: u64) {
        self.issuers.remove(&number);
    }
}

#[cfg(test)]
mod tests;
