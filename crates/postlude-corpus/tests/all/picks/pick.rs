//! What the planner picks for a call: its launches with their schedules, and smaller sizes at which they run.
//!
//! In: a case of the library and the sizes of a call. Out: a [`Pick`], or why there is none; and what the simulator has
//! against it.
//! Invariant: the launches and the schedules that run are those of the large call.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;

use postlude::graph::Side;
use postlude::reference::Extent;
use postlude::sim::{SimCall, SimOptions, Timing, accept};
use postlude::target::{Chip, Schedule};
use postlude::tensor::TensorViewMut;
use postlude::tuning::Records;
use postlude::{Backend, Compiled, Error, Hooks, Kernel, KernelLaunch, Options, Sizes, problem};
use postlude_corpus::{Case, bind};
use postlude_sim::observe::Nobody;

use super::sizes::smaller;

/// CTAs of a launch at most.
const GRID: u32 = 2;
/// Work tiles of a launch at least, where the large call has as many: of a single CTA, and of a cluster.
const TILES: [u32; 2] = [3, 2];
/// Columns of a row beyond which a quarter of so many tells what the whole row does: a lane goes around its loops.
const LONG: usize = 16384;
/// Timings of a structure that runs for the first time; others run under the last of these.
const TIMINGS: [Timing; 3] = [Timing::Eager, Timing::Random { seed: 1 }, Timing::Lazy];

/// A kernel of the library as its calls are planned.
pub(crate) struct Planner {
    case: Case,
    compiled: Compiled,
}

/// What is picked for a call.
pub(crate) struct Pick {
    /// The case with the sizes of the large call.
    case: Case,
    pinned: Compiled,
    launches: Vec<KernelLaunch>,
}

/// Knobs that say who fills and who releases shared memory, and with what; tiles and counts of stages do not.
const STRUCTURE: &[&str] = &[
    "kernel",
    "math_warpgroups",
    "cluster",
    "wgmma_in_flight",
    "reuse_c",
    "delay_store",
    "epilogue_loop",
    "operands",
    "promoted",
    "scaling",
    "segmented",
    "dynamic",
    "swap_ab",
    "epilogue_loads",
    "epilogue_stores",
    "products",
    "copied_bytes",
    "lists",
];

/// How a launch fills and releases shared memory.
fn structure(schedule: &Schedule) -> String {
    let knob = |name: &&str| -> Option<String> {
        let value = schedule.knob(name)?;
        let words: BTreeSet<&str> = value.split_whitespace().collect();
        Some(format!("{name} {words:?}"))
    };
    let slices = schedule.number("split_k_slices").min(2);
    let rings = ["c_stages", "d_stages"].map(|name| schedule.number(name).min(2));
    let knobs: Vec<_> = STRUCTURE.iter().filter_map(knob).collect();
    format!("{} {slices} {rings:?}", knobs.join(" "))
}

/// Structures that ran under every timing, of whatever kernel.
#[derive(Default)]
pub(crate) struct Known(Mutex<BTreeSet<String>>);

/// What a pick took in the simulator.
pub(crate) struct Ran {
    /// The smaller sizes.
    sizes: Sizes,
    /// Launches that ran, those whose structure was new, and warp instructions.
    launches: usize,
    fresh: usize,
    instructions: u64,
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ran { sizes, launches, fresh, instructions } = self;
        write!(f, "{}: {launches} launches, {fresh} new, {instructions} instructions", text(sizes))
    }
}

/// Sizes as the command line has them.
fn text(sizes: &Sizes) -> String {
    let all: Vec<_> = sizes.iter().map(|(dim, size)| format!("{dim}={size}")).collect();
    all.join(",")
}

impl Planner {
    pub(crate) fn new(case: &Case) -> Planner {
        let kernel = Kernel::parse(&case.source).unwrap_or_else(|error| panic!("{error}"));
        let hooks = Hooks { grid_limit: Some(GRID), guard: true, ..Hooks::default() };
        let (backend, threads) = (Backend::Sim, Some(1));
        let records = Records::Off;
        let options = Options { backend, threads, records, hooks, ..Options::default() };
        Planner { case: case.clone(), compiled: kernel.compile(&options) }
    }

    /// The dims that have sizes.
    pub(crate) fn dims(&self) -> Vec<&str> {
        problem::dim_names(self.compiled.defined())
    }

    /// What is picked for a call of these sizes; an error where the kernel has no such sizes, or the planner refuses them.
    pub(crate) fn pick(&self, sizes: &Sizes) -> Result<Pick, Error> {
        let problem = self.compiled.problem(sizes)?;
        let pinned = self.compiled.pinned(&problem)?;
        let launches = pinned.launches(&problem, Chip::STANDARD)?;
        let case = Case { sizes: sizes.clone(), ..self.case.clone() };
        Ok(Pick { case, pinned, launches })
    }
}

/// How far a CTA gets around its ring of stages at least, where the large call gets as far.
const AROUND: f64 = 1.25;

/// Clusters of work tiles of a launch, as many as run at a time.
fn clusters(launch: &KernelLaunch) -> u32 {
    let scalars = vec![Some(1.0); launch.graph().inputs().len()];
    let facts = launch.planned().launch(&scalars);
    facts.grid.iter().product::<u32>() / facts.cluster.iter().product::<u32>().max(1)
}

/// How often a CTA fills its shared memory with what it multiplies; 0 without a product.
fn rounds(launch: &KernelLaunch) -> f64 {
    let (graph, schedule) = (launch.graph(), launch.planned().schedule());
    let Some(product) = graph.products().first() else { return 0.0 };
    let bits = [Side::Left, Side::Right].map(|side| {
        let input = &graph.inputs()[product.operand(side).0.0 as usize];
        // Of an operand that load warps compute, what they read is in the ring.
        let read = input.computed.iter().filter(|_| input.in_mainloop);
        let read = read.flat_map(|graph| graph.inputs()).map(|input| input.dtype.bits());
        read.chain([input.dtype.bits()]).min().unwrap_or(0) as f64
    });
    let bits = if schedule.knob("swap_ab").is_some() { [bits[1], bits[0]] } else { bits };
    let (tile, shared) = (schedule.tile(), f64::from(schedule.shared_bytes()));
    let depth = f64::from(tile.rows) * bits[0] + f64::from(tile.columns) * bits[1];
    let parts = tile.cluster.split_k() * schedule.number("split_k_slices").max(1);
    let inner = launch.problem.inner() as f64 / f64::from(parts);
    let at_once = (GRID / tile.cluster.blocks()).max(1);
    f64::from(clusters(launch).div_ceil(at_once)) * inner * depth / 8.0 / shared
}

/// The dims that its products sum over.
fn inner(launch: &KernelLaunch) -> Vec<String> {
    let products = launch.graph().products().iter();
    products.map(|product| product.inner.to_string()).collect()
}

impl Pick {
    /// Its kernel and the sizes of the large call.
    pub(crate) fn about(&self) -> String {
        format!("{} --size {}", self.case.title, text(&self.case.sizes))
    }

    /// What distinguishes it: its kernel, and what the code of its launches depends on.
    pub(crate) fn code(&self) -> String {
        let codes =
            self.launches.iter().map(|launch| launch.planned().schedule().code().to_string());
        [self.case.title.clone()].into_iter().chain(codes).collect::<Vec<_>>().join("\n")
    }

    /// How its launches fill and release shared memory.
    pub(crate) fn structures(&self) -> impl Iterator<Item = String> {
        self.launches.iter().map(|launch| structure(&launch.planned().schedule()))
    }

    /// Whether its launches run a call of these sizes, with as many tiles as tell something, some of them whole.
    fn fits(&self, sizes: &Sizes) -> bool {
        let Ok(problem) = self.pinned.problem(sizes) else { return false };
        let Ok(launches) = self.pinned.launches(&problem, Chip::STANDARD) else { return false };
        launches.iter().zip(&self.launches).all(|(own, whole)| {
            let (problem, schedule) = (&own.problem, own.planned().schedule());
            let tile = schedule.tile();
            let wanted = TILES[usize::from(tile.cluster.blocks() > 1)];
            let large = &whole.problem;
            let has_whole = if own.graph().products().is_empty() {
                let wanted = if large.columns() > LONG { LONG / 4 } else { large.columns() };
                !tile.holds_rows() || problem.columns() >= wanted
            } else {
                let swapped = schedule.knob("swap_ab").is_some();
                let [rows, columns] =
                    if swapped { [tile.columns, tile.rows] } else { [tile.rows, tile.columns] };
                problem.rows() >= large.rows().min(rows as usize)
                    && problem.product_columns() >= large.product_columns().min(columns as usize)
            };
            has_whole
                && clusters(own) >= wanted.min(clusters(whole))
                && rounds(own) >= AROUND.min(rounds(whole))
        })
    }

    /// Small sizes of the pick: the dims are made as small as the schedule takes, contracted dims last, so that tiles are few
    /// and a CTA still goes around its ring.
    fn smaller(&self) -> Sizes {
        let mut sizes = self.case.sizes.clone();
        let inner: BTreeSet<String> = self.launches.iter().flat_map(inner).collect();
        let (inner, others): (Vec<_>, Vec<_>) =
            self.case.sizes.iter().partition(|(dim, _)| inner.contains(*dim));
        for (dim, size) in others.into_iter().chain(inner) {
            let with = |own: usize| -> Sizes {
                let own = [(dim.clone(), own)];
                sizes.clone().into_iter().chain(own).collect()
            };
            let fitting = smaller(dim, *size).into_iter().map(with).find(|sizes| self.fits(sizes));
            sizes = fitting.unwrap_or_else(|| panic!("{} does not fit as it is", self.about()));
        }
        sizes
    }

    /// Runs it at smaller sizes; an error that tells everything where something is wrong.
    pub(crate) fn run(&self, known: &Known) -> Result<Ran, String> {
        let sizes = self.smaller();
        let about = format!("{}, run at {}", self.about(), text(&sizes));
        let failed = |error: &dyn std::fmt::Display| format!("{about}: {error}");
        let case = Case { sizes: sizes.clone(), ..self.case.clone() };
        let bound = bind(&case, &self.pinned, None);
        let (problem, arguments) = bound.map_err(|error| failed(&error))?;
        let outputs = self.pinned.outputs(&problem);
        let mut outputs = outputs.map_err(|error| failed(&error))?;
        let mut ran = Ran { sizes, launches: 0, fresh: 0, instructions: 0 };
        let mut each = |call: &SimCall, outputs: &mut [TensorViewMut<'_>]| -> Result<(), Error> {
            let structure = structure(call.schedule());
            let is_fresh = known.0.lock().expect("nobody panics with it").insert(structure);
            ran.launches += 1;
            ran.fresh += usize::from(is_fresh);
            let timings = if is_fresh { &TIMINGS[..] } else { &TIMINGS[TIMINGS.len() - 1..] };
            for timing in timings {
                let options = SimOptions { timing: *timing, ..SimOptions::default() };
                let report = call.run_views(&options, &mut Nobody, outputs)?;
                ran.instructions += report.instructions;
                accept(&report)?;
            }
            Ok(())
        };
        let simulated =
            self.pinned.simulate_launches(&problem, &arguments, &mut outputs, &mut each);
        simulated.map_err(|error| failed(&error))?;
        let sample = (Extent::Sample, &|_, _| {});
        let compared = self.pinned.check_extent(&problem, &arguments, &outputs, sample.0, sample.1);
        for comparison in compared.map_err(|error| failed(&error))? {
            if comparison.wrong > 0 {
                return Err(failed(&format!("{comparison:?}")));
            }
        }
        Ok(ran)
    }
}
