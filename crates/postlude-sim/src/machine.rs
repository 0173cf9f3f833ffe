//! The machine: CTAs, warps, memory and operations under way.
//!
//! In: a program and a launch. Out: what it wrote, and a report. Invariant: a warp is either in its place in the list, or
//! taken out by the one function that runs it.

use std::collections::{BTreeMap, BTreeSet};

use postlude_ptx::launch::Launch;
use postlude_ptx::shared::Region;

use crate::barrier::{ClusterBarrier, Mbarriers, Named};
use crate::error::SimError;
use crate::lane_order::LaneOrder;
use crate::limits::{check_shared, zeros};
use crate::memory::{Fault, Global, SHARED_BASE, Shared};
use crate::observe::{Agent, At, Observer};
use crate::operation::{Operations, Warpgroup, Work};
use crate::order::Order;
use crate::parameters::Parameters;
use crate::program::Program;
use crate::report::{Diagnosis, Finding, Report};
use crate::run::Options;
use crate::timing::Clock;
use crate::warp::Warp;
use crate::watch::Watch;

/// Registers of a multiprocessor.
const REGISTER_FILE: u32 = 65_536;
/// Named barriers of a CTA.
const NAMED_BARRIERS: usize = 16;
/// The most findings that are kept.
const MOST_FINDINGS: usize = 1000;

/// A CTA that runs, or that has ended while its copies are under way.
#[derive(Debug)]
pub(crate) struct Cta {
    /// Its number in the grid, x first.
    pub(crate) number: u32,
    pub(crate) coordinates: [u32; 3],
    pub(crate) rank: u32,
    pub(crate) cluster: usize,
    pub(crate) shared: Shared,
    pub(crate) mbarriers: Mbarriers,
    pub(crate) named: Vec<Named>,
    pub(crate) warpgroups: Vec<Warpgroup>,
    /// Registers that no warp has.
    pub(crate) free_registers: u32,
    pub(crate) warps: std::ops::Range<usize>,
    /// Threads that have not ended.
    pub(crate) live: u32,
}

/// CTAs that run together.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) number: u32,
    pub(crate) ctas: std::ops::Range<usize>,
    pub(crate) barrier: ClusterBarrier,
    /// Threads that have not ended.
    pub(crate) live: u32,
}

impl Cluster {
    /// Completes the round of the barrier when all have arrived.
    pub(crate) fn settle(&mut self) {
        self.barrier.settle(self.live);
    }
}

/// Where symbols lie.
#[derive(Debug, Default)]
pub(crate) struct Symbols(BTreeMap<String, u64>);

impl Symbols {
    /// Addresses of all symbols, and the bytes of shared memory.
    fn new(program: &Program, launch: &Launch) -> Result<(Self, u32), SimError> {
        let mut places = BTreeMap::new();
        for parameter in &program.head.parameters {
            places.insert(parameter.name.clone(), u64::from(parameter.offset));
        }
        let (mut end, mut fixed) = (u64::from(SHARED_BASE), 0);
        let mut declared: Vec<_> = program.head.shared.iter().collect();
        declared.sort_by_key(|each| each.bytes.is_none());
        for each in declared {
            end = end.next_multiple_of(u64::from(each.alignment));
            places.insert(each.name.clone(), end);
            end += u64::from(each.bytes.unwrap_or(launch.shared_bytes));
            if each.bytes.is_some() {
                fixed = end - u64::from(SHARED_BASE);
            }
        }
        let bytes = end - u64::from(SHARED_BASE);
        let dynamic = program.head.shared.iter().any(|each| each.bytes.is_none());
        let unnamed = if dynamic { 0 } else { u64::from(launch.shared_bytes) };
        check_shared(fixed, bytes + unnamed)?;
        Ok((Symbols(places), bytes as u32))
    }

    pub(crate) fn address(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }
}

/// Everything.
pub(crate) struct Machine<'r> {
    pub(crate) program: &'r Program,
    pub(crate) launch: &'r Launch,
    pub(crate) options: &'r Options,
    pub(crate) observer: Watch<'r>,
    pub(crate) symbols: Symbols,
    shared_bytes: u32,
    pub(crate) parameters: Parameters,
    pub(crate) global: Global,
    pub(crate) ctas: Vec<Cta>,
    pub(crate) clusters: Vec<Cluster>,
    /// Places of clusters that ended; nothing refers to their CTAs and warps any more.
    pub(crate) free_clusters: Vec<usize>,
    /// Places of clusters that ended while their copies are still under way.
    pub(crate) ended_clusters: Vec<usize>,
    pub(crate) warps: Vec<Warp>,
    /// Copies and products under way, oldest first.
    pub(crate) operations: Operations,
    pub(crate) next_operation: u64,
    pub(crate) clock: Clock,
    pub(crate) report: Report,
    seen: BTreeSet<(Diagnosis, u32)>,
    /// Uses of barriers that were not there: CTA and address, warp and line.
    pub(crate) absent: BTreeMap<(usize, u32), (Option<u32>, u32)>,
    /// Counts what changes for others: when it stands still, waiting again is in vain.
    pub(crate) progress: u64,
}

impl<'r> Machine<'r> {
    /// A machine with this many buffers, which are still empty, and its own scratch memory.
    pub(crate) fn new(
        program: &'r Program,
        launch: &'r Launch,
        options: &'r Options,
        observer: &'r mut dyn Observer,
        buffers: usize,
    ) -> Result<Self, SimError> {
        let parameters = Parameters::new(program, launch, buffers)?;
        let mut memory = vec![Vec::new(); buffers];
        memory.push(zeros("the scratch memory", launch.workspace_bytes)?);
        let global = Global::new(memory);
        let (symbols, shared_bytes) = Symbols::new(program, launch)?;
        let order = options.findings.then(|| Box::new(Order::new(launch)));
        let lanes = options.findings.then(|| Box::new(LaneOrder::new(launch.threads.div_ceil(32))));
        Ok(Machine {
            program,
            launch,
            options,
            observer: Watch { order, lanes, observer },
            symbols,
            shared_bytes,
            parameters,
            global,
            ctas: Vec::new(),
            clusters: Vec::new(),
            free_clusters: Vec::new(),
            ended_clusters: Vec::new(),
            warps: Vec::new(),
            operations: Operations::default(),
            next_operation: 0,
            clock: Clock::new(options.timing),
            report: Report::default(),
            seen: BTreeSet::new(),
            absent: BTreeMap::new(),
            progress: 0,
        })
    }

    /// Whether scratch memory is left as the next launch wants it, where nothing else is wrong.
    pub(crate) fn check_scratch(&mut self) -> Result<(), SimError> {
        let left =
            self.global.buffers.last().and_then(|all| all.iter().position(|byte| *byte != 0));
        match left {
            Some(byte) if self.report.findings.is_empty() => {
                let (diagnosis, message) = (Diagnosis::ScratchLeft, format!("byte {byte} of it"));
                let (text, region, address) = (String::new(), None, None);
                self.find(Finding {
                    diagnosis,
                    line: 0,
                    text,
                    cta: 0,
                    warp: None,
                    region,
                    address,
                    message,
                })
            }
            _ => Ok(()),
        }
    }

    /// Starts the next cluster of the grid, in the place of one that ended where there is one; that place. Its number
    /// counts along x first.
    pub(crate) fn start_cluster(&mut self, number: u32) -> usize {
        let Launch { grid, cluster: shape, threads, .. } = *self.launch;
        let across = [grid[0] / shape[0], grid[1] / shape[1]];
        let corner = [
            number % across[0] * shape[0],
            number / across[0] % across[1] * shape[1],
            number / across[0] / across[1] * shape[2],
        ];
        let size = shape.iter().product::<u32>();
        let place = self.free_clusters.pop().unwrap_or(self.clusters.len());
        let first = place * size as usize;
        for rank in 0..size {
            let [x, y, z] =
                [rank % shape[0], rank / shape[0] % shape[1], rank / shape[0] / shape[1]];
            let coordinates = [corner[0] + x, corner[1] + y, corner[2] + z];
            self.start_cta(first + rank as usize, place, rank, coordinates);
        }
        let new = Cluster {
            number,
            ctas: first..first + size as usize,
            barrier: ClusterBarrier::default(),
            live: size * threads,
        };
        put(&mut self.clusters, place, new);
        place
    }

    fn start_cta(&mut self, place: usize, cluster: usize, rank: u32, coordinates: [u32; 3]) {
        let Launch { grid, threads, .. } = *self.launch;
        let warps = threads.div_ceil(32);
        let first = place * warps as usize;
        // What the assembler may give each thread when one CTA fills a multiprocessor.
        let limit = (REGISTER_FILE / (warps * 32) / 8 * 8).min(256);
        for number in 0..warps {
            let held = (threads - number * 32).min(32);
            let mut warp = Warp::new(place, number, held, self.program.registers);
            warp.limit = limit;
            put(&mut self.warps, first + number as usize, warp);
        }
        let new = Cta {
            number: coordinates[0] + grid[0] * (coordinates[1] + grid[1] * coordinates[2]),
            coordinates,
            rank,
            cluster,
            shared: Shared::new(self.shared_bytes),
            mbarriers: Mbarriers::new(),
            named: vec![Named::default(); NAMED_BARRIERS],
            warpgroups: vec![Warpgroup::default(); warps.div_ceil(4) as usize],
            free_registers: 0,
            warps: first..first + warps as usize,
            live: threads,
        };
        put(&mut self.ctas, place, new);
    }

    /// Who executes a line.
    pub(crate) fn at(&self, warp: &Warp, line: u32, lanes: u32) -> At {
        let agent = Agent::Warp { cta: self.ctas[warp.cta].number, warp: warp.number };
        At { agent, line, lanes }
    }

    /// The CTA of the cluster that an address of shared memory is in, and the address there.
    pub(crate) fn window(&self, cta: usize, address: u32) -> Option<(usize, u32)> {
        let (rank, address) = crate::memory::rank_of(address);
        let cluster = &self.clusters[self.ctas[cta].cluster];
        match rank {
            None => Some((cta, address)),
            Some(rank) => {
                let target = cluster.ctas.start + rank as usize;
                cluster.ctas.contains(&target).then_some((target, address))
            }
        }
    }

    /// The region that an address of shared memory is in, where it has a name.
    pub(crate) fn region(&self, address: u32) -> Option<String> {
        let start = self.symbols.address(postlude_ptx::entry::SHARED_SYMBOL)? as u32;
        let offset = address.checked_sub(start)?;
        let holds = |region: &&Region| (region.offset..region.end()).contains(&offset);
        self.options.regions.iter().find(holds).map(|region| region.name.clone())
    }

    /// Notes something wrong; the same line is noted once for each diagnosis.
    pub(crate) fn find(&mut self, finding: Finding) -> Result<(), SimError> {
        if !self.options.findings {
            return Err(SimError::Found(Box::new(finding)));
        }
        let new = self.seen.insert((finding.diagnosis, finding.line));
        if new && self.report.findings.len() < MOST_FINDINGS {
            self.report.findings.push(finding);
        }
        Ok(())
    }

    /// A finding at a warp's line.
    pub(crate) fn blame(
        &mut self,
        (cta, warp): (usize, Option<u32>),
        line: u32,
        diagnosis: Diagnosis,
        message: String,
    ) -> Result<(), SimError> {
        let (cta, text) = (self.ctas[cta].number, self.program.text(line));
        let (region, address) = (None, None);
        self.find(Finding { diagnosis, line, text, cta, warp, region, address, message })
    }

    /// A finding about shared memory.
    pub(crate) fn blame_shared(
        &mut self,
        (cta, warp): (usize, Option<u32>),
        line: u32,
        fault: Fault,
        address: u32,
    ) -> Result<(), SimError> {
        let diagnosis = match fault {
            Fault::Outside => Diagnosis::SharedBeyond,
            Fault::Misaligned => Diagnosis::Misaligned,
            Fault::Uninitialised => Diagnosis::UninitialisedRead,
        };
        // The copy that will write these bytes is known to come too late: the tracker says so when it does.
        if fault == Fault::Uninitialised
            && self.observer.order.is_some()
            && self.will_write(cta, address)
        {
            return Ok(());
        }
        let region = self.region(address);
        let message = format!("shared address {address:#x}");
        let (cta, text) = (self.ctas[cta].number, self.program.text(line));
        let address = Some(u64::from(address));
        self.find(Finding { diagnosis, line, text, cta, warp, region, address, message })
    }

    /// Whether a copy under way has an address of a CTA's shared memory in its destination.
    fn will_write(&self, cta: usize, address: u32) -> bool {
        self.operations.values().any(|operation| match &operation.work {
            Work::Load { receiver, to, from, .. } => {
                *receiver == cta && (*to..to.saturating_add(from.bytes())).contains(&address)
            }
            Work::Copy { to, bytes, .. } => {
                operation.cta == cta && (*to..to.saturating_add(*bytes)).contains(&address)
            }
            Work::Store { .. } | Work::Product(_) => false,
        })
    }

    /// A finding about global memory.
    pub(crate) fn blame_global(
        &mut self,
        (cta, warp): (usize, Option<u32>),
        line: u32,
        fault: Fault,
        address: u64,
    ) -> Result<(), SimError> {
        let diagnosis = match fault {
            Fault::Outside | Fault::Uninitialised => Diagnosis::OutOfBounds,
            Fault::Misaligned => Diagnosis::Misaligned,
        };
        let message = self.global.describe(address);
        let (cta, text) = (self.ctas[cta].number, self.program.text(line));
        let (region, address) = (None, Some(address));
        self.find(Finding { diagnosis, line, text, cta, warp, region, address, message })
    }

    /// What the simulator does not run.
    pub(crate) fn unsupported(&self, line: u32, why: &'static str) -> SimError {
        SimError::Unsupported { line: line as usize, text: self.program.text(line), why }
    }
}

/// Puts something in its place, which may be the next one of a list.
fn put<T>(list: &mut Vec<T>, place: usize, new: T) {
    match list.get_mut(place) {
        Some(old) => *old = new,
        None => list.push(new),
    }
}
