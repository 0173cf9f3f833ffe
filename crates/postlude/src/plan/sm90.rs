//! Schedules for Hopper: enumerate candidates, refuse with a reason, cost, pick.
//!
//! In: an optimised graph and a problem. Out: a [`Sm90Schedule`], everything the emitter needs. Code depends on it and
//! on dtypes alone; sizes and strides are parameters of the kernel.
//! Invariant: a schedule that is returned fits shared memory and registers, and the emitter can emit it.

mod candidates;
mod choose;
mod cost;
mod folds;
mod groups;
mod hints;
mod limits;
mod needs;
mod operand;
mod place;
mod rank;
mod raster;
mod refuse;
mod reuse;
mod row_pass;
mod shared_memory;
mod slots;
mod stored;
mod text;
mod unsupported;
mod views;
mod work;

use crate::graph::Graph;
use crate::problem::Problem;

pub use candidates::{CANDIDATES, Cluster, KernelSchedule, Tile};
pub use choose::{Wanted, schedules};
pub use folds::FoldWords;
pub(crate) use folds::{
    Batches, How, Reduction, ReductionScope, Source, Workspace, after_reductions, folds_of,
    reduction,
};
pub(crate) use groups::{
    column_runs, is_group_fold, least_common_multiple, lengths, levels, output_run, runs,
};
pub use hints::Hints;
pub(crate) use limits::body_inputs;
pub use needs::Needs;
pub(crate) use needs::column_values;
pub use operand::OperandLoad;
pub(crate) use operand::{OPERAND_BYTES, OperandElement, STAGGER};
pub(crate) use operand::{Operand, operands};
pub use place::{EpilogueTransfer, Major, Placement, Placements};
pub(crate) use place::{packed_major, tile_operands};
pub use rank::{Candidate, Ranked, candidates, plan_all};
pub use raster::{Raster, RasterOrder};
pub use refuse::Sm90Refusal;
pub(crate) use refuse::{is_plain, is_shared};
pub use reuse::SlotCounts;
pub(crate) use reuse::reused;
pub(crate) use row_pass::{passes, reductions_of_pass, terms_of};
use slots::{NARROWEST, Slots, choices};
pub(crate) use stored::as_stored;
pub use text::renamed_words;
pub(crate) use unsupported::Unsupported;
pub(crate) use views::Viewed;

/// What the chip offers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sm90 {
    /// Streaming multiprocessors.
    pub processors: u32,
    /// Shared memory that one CTA may ask for, in bytes.
    pub shared_bytes: u32,
}

impl Sm90 {
    /// An H200 or H100 SXM.
    pub const H200: Sm90 = Sm90 { processors: 132, shared_bytes: 232_448 };

    /// CTAs, one an SM, that run at a time in clusters of this many. A cluster stays within a group of SMs: larger ones
    /// leave some of each group idle, on an H200 twelve of all.
    pub const fn together(self, blocks: u32) -> u32 {
        let whole = if blocks > 2 { self.processors / 11 * 10 } else { self.processors };
        let whole = whole - whole % blocks;
        if whole < blocks { blocks } else { whole }
    }
}

/// How a product is run on Hopper.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Sm90Schedule {
    /// The tile of a CTA.
    pub tile: Tile,
    /// Stages of the mainloop's ring of A and B.
    pub stages: u32,
    /// Columns that the epilogue works on at a time: 64, 32 or 16, of which a tile has whole ones.
    pub epilogue_tile: u32,
    /// Columns that the graph is applied to at a time, before their values are converted and reduced: 8, 16, 32 or 64,
    /// of which an epilogue tile has whole ones.
    pub fragment: u32,
    /// C stages: slots of each math warpgroup's ring that tile operands are loaded into.
    pub c_stages: u32,
    /// D stages: slots of each math warpgroup's ring that tile outputs are stored through.
    pub d_stages: u32,
    /// Whether tile outputs are stored through the slots of tile operands of the same layout; where all are, there are
    /// no other slots for them, and `d_stages` says how many of the operands' stores may read at a time.
    pub reuse_c: bool,
    /// Whether a slot's store is issued only when the next one is filled: the threads that fill slots synchronise once
    /// for both.
    pub delay_store: bool,
    /// Whether the epilogue is a loop over epilogue tiles and not unrolled: less code, for a few moves.
    pub epilogue_loop: bool,
    /// Rounds of that loop, and of loops for passes over whole rows before it; 0 for as few as there are, and none
    /// before it.
    pub rounds: u32,
    /// wgmma groups in flight while the next stage's are issued: 0 or 1.
    pub wgmma_in_flight: u32,
    /// What L2 is told to keep.
    pub hints: Hints,
    /// The order in which work tiles are computed.
    pub raster: Raster,
    /// The most CTAs launched, but for those of one cluster; `None` for as many as fit.
    pub grid_limit: Option<u32>,
    /// What the graph needs of it.
    pub needs: Needs,
}

/// Bytes of a row of a stage: one swizzled row of shared memory.
pub(crate) const STAGE_ROW_BYTES: u32 = 128;
/// K of one stage.
pub const STAGE_DEPTH: u32 = STAGE_ROW_BYTES / OPERAND_BYTES;
/// Slots of staggered operands: TMA fills one while load warps empty the other.
pub(crate) const STAGING_SLOTS: u32 = 2;
/// Bytes of a staggered row as TMA loads it: a stage's, and up to seven elements before them.
pub(crate) const STAGGERED_ROW_BYTES: u32 = STAGE_ROW_BYTES + STAGGER * OPERAND_BYTES;
/// Rows of a slot: what one warpgroup's instruction computes.
pub const SLOT_ROWS: u32 = 64;

impl Sm90Schedule {
    /// Math warpgroups of a CTA.
    pub fn math_warpgroups(&self) -> u32 {
        self.tile.math_warpgroups
    }

    /// Warpgroups that load.
    pub fn loaders(&self) -> u32 {
        self.tile.loaders(&self.needs)
    }

    /// Threads of a CTA.
    pub fn threads(&self) -> u32 {
        128 * (self.loaders() + self.math_warpgroups())
    }

    /// Columns of every tile of the epilogue: the product's, or half of them where halves of it are products of their
    /// own.
    pub fn width(&self) -> u32 {
        self.needs.width(self.tile)
    }

    /// Columns of a span: the fewest epilogue tiles that hold whole groups.
    pub(crate) fn span(&self) -> u32 {
        least_common_multiple(self.needs.groups, self.epilogue_tile)
    }

    /// Whether a warpgroup visits the same columns of all its blocks before the next columns, so that its warps combine
    /// a column's reduction once for all blocks. Not where row passes come first, and not where many words would wait
    /// for the next block.
    pub(crate) fn visits_columns(&self) -> bool {
        self.epilogue_loop && self.needs.whole_columns == 0 && self.needs.folds.columns <= 1
    }

    /// Rows and columns of the product that one cluster computes.
    fn cluster_size(&self) -> [u32; 2] {
        let Tile { rows, cluster, .. } = self.tile;
        [rows * cluster.rows(), self.width() * cluster.columns()]
    }

    /// Clusters of tiles along the rows and along the columns of a problem.
    fn clusters(&self, problem: &Problem) -> [u64; 2] {
        let [rows, columns] = self.cluster_size().map(u64::from);
        let sizes = [problem.rows as u64, problem.product_columns() as u64];
        [sizes[0].div_ceil(rows), sizes[1].div_ceil(columns)]
    }

    /// What the kernel's code depends on: the same schedule whatever a launch decides.
    pub fn code(&self) -> Sm90Schedule {
        Sm90Schedule { grid_limit: None, raster: Raster::usual(self.tile.cluster), ..self.clone() }
    }

    /// Multiply-adds of all tiles of a problem, what lies beyond its edges counted.
    pub fn multiply_adds(&self, problem: &Problem) -> u64 {
        let [rows, columns] = self.cluster_size().map(|size| size as usize);
        let rows = problem.rows.next_multiple_of(rows);
        let columns = problem.product_columns().next_multiple_of(columns);
        let columns = columns * self.needs.products as usize;
        let inner = problem.inner.next_multiple_of(STAGE_DEPTH as usize);
        let sizes = [problem.batch, rows, columns, inner];
        sizes.into_iter().fold(1, |product, size| product.saturating_mul(size as u64))
    }

    /// CTAs for a problem on a chip.
    pub fn grid(&self, problem: &Problem, chip: Sm90) -> u32 {
        let [rows, columns] = self.clusters(problem);
        let clusters = rows.saturating_mul(columns).saturating_mul(problem.batch as u64);
        let blocks = self.tile.cluster.blocks();
        let together = chip.together(blocks);
        let limit = self.grid_limit.map_or(together, |limit| limit.min(together));
        (clusters.clamp(1, u64::from(limit / blocks).max(1)) as u32) * blocks
    }
}

/// The schedule the model likes best, or why there is none.
pub fn plan(
    graph: &Graph,
    problem: &Problem,
    placements: &Placements,
    chip: Sm90,
) -> Result<Sm90Schedule, Sm90Refusal> {
    let best = plan_all(graph, problem, placements, chip)?.into_iter().next();
    best.ok_or(Sm90Refusal::NoCandidate)
}

/// Whether a given schedule can run this problem, or why not.
pub fn accept(
    schedule: &Sm90Schedule,
    graph: &Graph,
    problem: &Problem,
    placements: &Placements,
    chip: Sm90,
) -> Result<(), Sm90Refusal> {
    let viewed = Viewed::of(graph)?;
    let (graph, problem) = (&*viewed.graph, &viewed.problem(problem));
    let placements = &viewed.placements(problem, placements);
    viewed.refuse(problem)?;
    refuse::refuse(graph)?;
    place::refuse(problem)?;
    let needs = Needs::of_viewed(graph, problem, placements);
    folds::refuse_nothing(graph, problem)?;
    row_pass::refuse(graph, &needs)?;
    groups::refuse_width(graph, &needs)?;
    refuse::refuse_products(&needs)?;
    limits::refuse_code(graph, &needs)?;
    if !schedule.needs.covers(&needs) {
        return Err(Sm90Refusal::OtherNeeds { wanted: needs.to_string() });
    }
    if !schedule.needs.counts_agree(&needs, SlotCounts::of(graph, &schedule.needs)) {
        return Err(Sm90Refusal::OtherNeeds { wanted: needs.to_string() });
    }
    refuse_knobs(schedule)?;
    if !schedule.fragment.is_multiple_of(8)
        || schedule.fragment == 0
        || !schedule.epilogue_tile.is_multiple_of(schedule.fragment)
    {
        return Err(Sm90Refusal::Fragment { epilogue_tile: schedule.epilogue_tile });
    }
    reuse::refuse(schedule)?;
    if schedule.delay_store && schedule.d_bytes() > 0 && schedule.d_stages < 2 {
        return Err(Sm90Refusal::DelayedSlot);
    }
    limits::refuse_parameters(graph, &schedule.needs)?;
    if !schedule.counts(problem) {
        return Err(Sm90Refusal::TooLarge);
    }
    let [rows, columns] = schedule.clusters(problem);
    if rows.max(columns) * u64::from(schedule.raster.group) > u64::from(u32::MAX) {
        return Err(Sm90Refusal::Knob { knob: "raster" });
    }
    if schedule.shared_bytes() > chip.shared_bytes {
        let (need, have) = (schedule.shared_bytes(), chip.shared_bytes);
        return Err(Sm90Refusal::SharedMemory { need, have });
    }
    Ok(())
}

/// Refuses a tile or a value that no kernel can be emitted for.
fn refuse_knobs(schedule: &Sm90Schedule) -> Result<(), Sm90Refusal> {
    let tile = schedule.tile;
    let known = CANDIDATES.iter().any(|known| Tile { cluster: tile.cluster, ..*known } == tile);
    let rounds = schedule.rounds.checked_mul(schedule.span());
    let rounds_fit = schedule.rounds == 0
        || schedule.epilogue_loop
            && rounds.is_some_and(|columns| schedule.width().is_multiple_of(columns));
    let stages = |count: u32| (1..=MOST_STAGES).contains(&count);
    let knobs = [
        ("cluster", Cluster::ALL.contains(&tile.cluster)),
        ("tile", known && tile.takes(&schedule.needs)),
        ("epilogue_loads", schedule.needs.clone().settled() == schedule.needs),
        (
            "epilogue_tile",
            [16, 32, 64].contains(&schedule.epilogue_tile)
                && schedule.width().is_multiple_of(schedule.epilogue_tile),
        ),
        ("stages", (FEWEST_STAGES..=MOST_STAGES).contains(&schedule.stages)),
        ("c_stages", stages(schedule.c_stages)),
        ("d_stages", stages(schedule.d_stages)),
        ("wgmma_in_flight", schedule.wgmma_in_flight <= 1),
        ("rounds", rounds_fit),
        ("raster", (1..=Raster::MOST).contains(&schedule.raster.group)),
    ];
    match knobs.into_iter().find(|(_, fits)| !fits) {
        Some((knob, _)) => Err(Sm90Refusal::Knob { knob }),
        None => Ok(()),
    }
}

/// The schedule of a tile with as many stages as shared memory holds, if it takes operands that lie so.
pub fn fit(tile: Tile, needs: &Needs, chip: Sm90) -> Option<Sm90Schedule> {
    if !tile.takes(needs) {
        return None;
    }
    let usual = fit_with(tile, needs, chip, false);
    let stages = usual.as_ref().map_or(0, |schedule| schedule.stages);
    if stages >= SCARCE_STAGES {
        return usual;
    }
    fit_with(tile, needs, chip, true).filter(|reusing| reusing.stages > stages).or(usual)
}

/// The same for a tile that does, with C's slots reused for D or not.
fn fit_with(tile: Tile, needs: &Needs, chip: Sm90, reuse_c: bool) -> Option<Sm90Schedule> {
    let choices = choices(tile, needs);
    let most = (FEWEST_STAGES..=MOST_STAGES).rev();
    let all = most.flat_map(|stages| choices.iter().map(move |slots| (stages, *slots)));
    // Where math threads are the bottleneck, wide epilogue tiles are worth more than a deep ring.
    let wide =
        all.clone().filter(|(stages, slots)| *stages >= ENOUGH_STAGES && slots.epilogue_tile == 64);
    wide.filter(|_| needs.is_heavy() && tile.is_ping_pong())
        .chain(all)
        .filter(|(stages, slots)| *stages <= WITH_FEW_SLOTS || !slots.few)
        .map(|(stages, Slots { epilogue_tile, c_stages, d_stages, .. })| Sm90Schedule {
            tile,
            stages,
            epilogue_tile,
            fragment: fragment(needs, epilogue_tile),
            c_stages,
            d_stages,
            reuse_c,
            delay_store: false,
            epilogue_loop: epilogue_loop(tile, needs, epilogue_tile)
                || rounds(tile, needs, epilogue_tile) > 0,
            rounds: rounds(tile, needs, epilogue_tile),
            wgmma_in_flight: wgmma_in_flight(stages, needs),
            hints: Hints::None,
            raster: Raster::usual(tile.cluster),
            grid_limit: None,
            needs: needs.clone(),
        })
        .filter(|schedule| reuse::refuse(schedule).is_ok())
        .find(|schedule| schedule.shared_bytes() <= chip.shared_bytes)
}

/// Whether epilogue tiles are a loop: where there is much code for many accumulators.
fn epilogue_loop(tile: Tile, needs: &Needs, epilogue_tile: u32) -> bool {
    (needs.is_heavy() || needs.folds.any())
        && tile.is_ping_pong()
        && tile.warpgroups_per_tile() == 1
        && needs.width(tile) > least_common_multiple(needs.groups, epilogue_tile)
}

/// Lines of code for all elements of a thread from which on they are loops: longer kernels take minutes to assemble.
const MOST_LINES: u32 = 9000;
/// About how many lines of code a kernel has for this many columns of a tile without a loop.
fn code_lines(tile: Tile, needs: &Needs, columns: u32) -> u32 {
    needs.lines.saturating_mul(tile.blocks() * columns / 2)
}
/// Rounds of the loops that a long kernel needs; 0 for a short one.
fn rounds(tile: Tile, needs: &Needs, epilogue_tile: u32) -> u32 {
    let width = needs.width(tile);
    if code_lines(tile, needs, width) <= MOST_LINES {
        return 0;
    }
    let spans = width / least_common_multiple(needs.groups, epilogue_tile);
    let short = |rounds: &u32| code_lines(tile, needs, width / rounds) <= MOST_LINES;
    let mut even = (2..=spans).filter(|rounds| spans.is_multiple_of(*rounds));
    even.clone().find(short).or(even.next_back()).unwrap_or(0)
}
/// Columns that are computed before their values are converted and reduced: few, so that few registers hold them.
/// Columns that are reduced together share shuffles, but reductions of several words fill registers.
fn fragment(needs: &Needs, epilogue_tile: u32) -> u32 {
    let together = match needs.folds {
        folds if !folds.any() || needs.widest_fold > 1 => 8,
        folds if folds.rows > 1 => 16,
        _ => 32,
    };
    together.min(epilogue_tile)
}

/// With two stages, one of them held until the next is full, warps that move staggered rows would have no stage to
/// fill.
fn wgmma_in_flight(stages: u32, needs: &Needs) -> u32 {
    u32::from(stages > 2 || !needs.operands.contains(&OperandLoad::Staggered))
}

/// The least shared memory that a schedule of a tile may have.
fn least_bytes(tile: Tile, needs: &Needs) -> u32 {
    let unlimited = Sm90 { processors: 1, shared_bytes: u32::MAX };
    let Some(schedule) = fit(tile, needs, unlimited) else { return 0 };
    let with = |slots: &Slots| {
        let Slots { epilogue_tile, c_stages, d_stages, .. } = *slots;
        let stages = FEWEST_STAGES;
        let with = |reuse_c| Sm90Schedule {
            stages,
            epilogue_tile,
            c_stages,
            d_stages,
            reuse_c,
            ..schedule.clone()
        };
        let allowed = [false, true].map(with).into_iter().filter(|it| reuse::refuse(it).is_ok());
        allowed.map(|schedule| schedule.shared_bytes()).min().unwrap_or(u32::MAX)
    };
    choices(tile, needs).iter().map(with).min().unwrap_or(0)
}

/// As many stages of A and B or fewer are worth having with few slots for outputs.
const WITH_FEW_SLOTS: u32 = 3;
/// With fewer, shared memory of D slots is better spent on one more.
const SCARCE_STAGES: u32 = 3;
/// As many are enough where the epilogue takes longer than the products.
const ENOUGH_STAGES: u32 = 4;
/// More hide nothing.
const MOST_STAGES: u32 = 12;
/// Fewer do not overlap loads with products.
const FEWEST_STAGES: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_candidate_fits_a_chip() {
        for tile in CANDIDATES {
            let schedule = fit(*tile, &Needs::plain(), Sm90::H200)
                .expect("a candidate that fits nowhere is no candidate");
            assert!(
                schedule.shared_bytes() <= Sm90::H200.shared_bytes && schedule.stages >= 3,
                "{tile:?}"
            );
        }
    }

    #[test]
    fn the_large_tile_has_four_stages() {
        let large = CANDIDATES.iter().find(|tile| tile.rows == 128 && tile.columns == 256).copied();
        assert_eq!(
            large
                .and_then(|tile| fit(tile, &Needs::plain(), Sm90::H200))
                .map(|schedule| schedule.stages),
            Some(4)
        );
    }

    #[test]
    fn slots_of_c_are_reused_where_stages_are_scarce() {
        let (epilogue_loads, epilogue_stores) =
            (vec![EpilogueTransfer::Tma], vec![EpilogueTransfer::Tma]);
        let slots = SlotCounts { loads: 1, stores: 1, reusable: 1 };
        let needs = Needs { epilogue_loads, epilogue_stores, slots, ..Needs::plain() };
        let mut reusing = 0;
        for kibibytes in 100..228 {
            let chip = Sm90 { shared_bytes: kibibytes * 1024, ..Sm90::H200 };
            let usual = fit_with(CANDIDATES[0], &needs, chip, false);
            let Some(taken) = fit(CANDIDATES[0], &needs, chip) else { continue };
            let stages = usual.map_or(0, |usual| usual.stages);
            assert!(taken.stages >= stages && (!taken.reuse_c || stages < SCARCE_STAGES));
            assert!(taken.shared_bytes() <= chip.shared_bytes);
            reusing += u32::from(taken.reuse_c && taken.stages > stages);
        }
        assert!(reusing > 0);
    }

    #[test]
    fn knobs_that_a_schedule_does_not_name_are_the_planners() {
        let schedule = fit(CANDIDATES[0], &Needs::plain(), Sm90::H200).expect("it fits");
        let named = |line: &&str| {
            ["fragment", "reuse_c", "delay_store", "slots"].iter().all(|knob| !line.contains(knob))
        };
        let printed = schedule.to_string();
        let fewer: Vec<&str> = printed.lines().filter(named).collect();
        let slots = SlotCounts::default();
        let needs = Needs { slots, ..schedule.needs.clone() };
        assert_eq!(fewer.join("\n").parse(), Ok(Sm90Schedule { needs, ..schedule }));
    }

    #[test]
    fn a_printed_schedule_reads_back() {
        for tile in CANDIDATES {
            let epilogue_loads = if tile.cluster.split_k() == 1 {
                EpilogueTransfer::ALL.to_vec()
            } else {
                Vec::new()
            };
            let needs = Needs { epilogue_loads, ..Needs::plain() };
            let slots = SlotCounts { loads: 2, stores: 1, reusable: 1 };
            let needs = Needs { slots, ..needs };
            let schedule = fit(*tile, &needs, Sm90::H200).expect("it fits");
            let (fragment, reuse_c, delay_store) = (16, true, true);
            for schedule in
                [Sm90Schedule { fragment, reuse_c, delay_store, ..schedule.clone() }, schedule]
            {
                assert_eq!(schedule.to_string().parse(), Ok(schedule));
            }
        }
    }
}
