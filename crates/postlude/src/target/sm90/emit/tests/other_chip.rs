//! The epilogue built for a chip with another tensor core, behind a stub of a mainloop.

use std::sync::Arc;

use postlude_ptx::entry::Entry;
use postlude_ptx::kernel::{Attributes, Kernel, Reg, Var, build};
use postlude_ptx::target::{Architecture, Sm90a, Sm100a};
use postlude_ptx::types::{F32, U32};

use crate::graph::{Graph, MathMode};
use crate::lower::{BoundProgram, lower};
use crate::placement::Placements;
use crate::problem::Problem;
use crate::target::seam::ENTRY;
use crate::target::sm90::plan::{Sm90, Sm90Schedule, fitted};

use super::super::chip::EpilogueChip;
use super::super::epilogue::{ClusterReduction, Epilogue};
use super::super::load::load_tiles;
use super::super::parameters::Parameters;
use super::super::plan::Plan;
use super::super::tile_scheduler::TileScheduler;
use super::super::warpgroup::WarpgroupIndex;
use super::assemble;
use super::elementwise::{graph, tile};

/// Bodies and their output's dtype: values along columns, a tile operand through a ring, conversions of 8-bit floats.
const BODIES: &[(&str, &str, &str)] = &[
    ("bias_gelu", "gelu(x + bias)", "bf16"),
    ("residual", "gelu(x + bias) + tile", "bf16"),
    ("eighths", "relu(x * scale) + small", "f8e4m3"),
];

fn planned(graph: &Graph) -> (BoundProgram, Sm90Schedule) {
    let sizes = ["M", "N", "K"].map(|dim| (dim.to_owned(), 512)).into();
    let problem = Problem::new(graph, &sizes).expect("sizes of every dim");
    let program = Arc::new(lower(graph).expect("it is one launch"));
    let placements = Placements::packed(graph, &problem);
    let bound = BoundProgram::new(&program, &problem, &placements).expect("it is not refused");
    let schedule = fitted(tile(64, 64), &bound, Sm90::H200).expect("it is not refused");
    (bound, schedule.expect("candidates fit"))
}

/// A kernel of everything but the mainloop, whose sums are made up.
fn stubbed<C: EpilogueChip>(bound: &BoundProgram, schedule: &Sm90Schedule) -> Entry {
    let (plan, layout) = Plan::new::<C>(bound.program(), schedule, MathMode::Default);
    let attributes = Attributes::<C>::new(schedule.threads()).blocks_per_multiprocessor(1);
    build(ENTRY, attributes, |k| {
        k.use_plan(&layout);
        let parameters = Parameters::declare(k, plan.program, schedule);
        k.if_(k.thread().eq(0), || initialise(k, &plan));
        k.sync();
        let scheduler = TileScheduler::new(k, &plan, &parameters);
        let warp = k.uniform(k.thread() >> 5);
        let warpgroup = warp >> 2;
        k.if_else(
            warpgroup.lt(schedule.loaders()),
            || {
                for (number, served) in (1..).zip(plan.served()) {
                    if schedule.c_bytes() > 0 {
                        k.if_(warp.eq(number), || {
                            load_tiles(k, &plan, &parameters, &scheduler, served);
                        });
                    }
                }
            },
            || stub(k, &plan, &parameters, &scheduler, warpgroup - schedule.loaders()),
        );
    })
}

fn initialise<C: EpilogueChip>(k: Kernel<'_, C>, plan: &Plan<'_>) {
    if plan.schedule.c_bytes() > 0 {
        let all = 0..plan.schedule.math_warpgroups();
        all.for_each(|each| plan.load_ring(k, k.imm(each)).initialise());
    }
    ClusterReduction::initialise(k, plan);
    k.fence_barrier_init();
}

/// The math warpgroups, with sums that depend on the thread and on the register.
fn stub<'k, C: EpilogueChip>(
    k: Kernel<'k, C>,
    plan: &Plan<'_>,
    parameters: &Parameters<'k>,
    scheduler: &TileScheduler<'k, C>,
    in_cta: Reg<'k, U32>,
) {
    let tile = plan.schedule.tile;
    let rank = k.thread() & 127;
    let warpgroup = WarpgroupIndex::new(k, tile, in_cta);
    let epilogue = Epilogue::new(k, plan, parameters, scheduler, warpgroup, rank);
    let sum = |place: u32| k.var(k.float_of_u32(rank + place));
    scheduler.for_own(warpgroup.order, |work_tile| {
        let prefetched = epilogue.begin(work_tile);
        let block = |_| (0..tile.columns / 2).map(sum).collect::<Vec<Var<'k, F32>>>();
        let blocks: Vec<_> = (0..tile.blocks()).map(block).collect();
        epilogue.finish(work_tile, prefetched, &blocks);
    });
    epilogue.drain();
}

#[test]
fn the_epilogue_assembles_for_blackwell_behind_a_stub_mainloop() {
    for (name, body, output) in BODIES {
        let (bound, schedule) = planned(&graph(body, output));
        let entry = stubbed::<Sm100a>(&bound, &schedule);
        assert!(entry.to_string().contains("\n.target sm_100a\n"), "{name}: {}", entry.target);
        assert!(!entry.to_string().contains("wgmma"), "{name} uses Hopper's tensor core");
        if let Some(log) = assemble(&format!("{name}-{}", Sm100a::TARGET), &entry) {
            assert!(!log.contains("warning"), "{name}: {log}");
        }
    }
}

/// Chips differ in the head of the file alone: the epilogue has no code of its own for either.
#[test]
fn the_epilogue_is_the_same_code_on_both_chips() {
    for (name, body, output) in BODIES {
        let (bound, schedule) = planned(&graph(body, output));
        let [hopper, blackwell] =
            [stubbed::<Sm90a>(&bound, &schedule), stubbed::<Sm100a>(&bound, &schedule)]
                .map(|entry| entry.to_string());
        let [hopper, blackwell] = [&hopper, &blackwell]
            .map(|text| text.find(".entry").map(|at| &text[at..]).expect("an entry"));
        assert!(hopper == blackwell, "{name} differs between chips");
    }
}
