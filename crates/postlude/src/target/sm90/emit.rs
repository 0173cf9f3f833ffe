//! The Hopper kernel: one or two load warpgroups, and math warpgroups that multiply and run the epilogue.
//!
//! Persistent and warp-specialised. TMA loads A and B into a ring of swizzled stages and multicasts them over a
//! cluster. Each math warpgroup multiplies its rows, applies the graph to its accumulators in registers and stores the
//! tile through a small ring of slots. Without a product there are no stages, and math warpgroups only run the epilogue.
//! Sizes and strides are parameters: the code depends on the schedule and on dtypes alone.

mod batch;
mod block_scale;
mod chip;
mod divisor;
mod dynamic_scheduler;
mod elements;
mod epilogue;
mod fragment;
mod host;
mod launch;
mod load;
mod machine;
mod memory;
mod mma;
mod multiply;
mod operand;
mod parameters;
mod plan;
mod ranges;
mod rows;
mod scaling;
mod segment_tail;
mod segments;
mod shared_values;
mod short;
mod slices;
mod slot;
mod split_k;
mod swapped;
mod tile_scheduler;
mod values;
mod visit;
mod warpgroup;
mod widen;

use postlude_ptx::entry::Entry;
use postlude_ptx::kernel::{Attributes, Kernel, Reg, build};
use postlude_ptx::modifier::{Alignment, ArriveOrder, ProxySpace};
use postlude_ptx::ring::Ring;
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{B32, U32};

use crate::graph::MathMode;
use crate::lower::TileProgram;
use crate::target::seam::ENTRY;
use crate::target::sm90::plan::{Mainloop, STAGE_ROW_BYTES, SWAPPED_REGISTERS, Sm90Schedule};

use dynamic_scheduler::DynamicScheduler;
pub(super) use launch::launch;
use parameters::Parameters;
use plan::Plan;
use tile_scheduler::TileScheduler;

/// Emits the kernel.
pub(super) fn emit(
    program: &TileProgram,
    schedule: &Sm90Schedule,
    math: MathMode,
    overlaps: bool,
) -> Entry {
    let (plan, layout) = Plan::new::<Sm90a>(program, schedule, math);
    let attributes =
        Attributes::<Sm90a>::new(schedule.threads()).blocks_per_multiprocessor(schedule.ctas);
    // CTAs that know nothing of clusters start sooner.
    let attributes = if schedule.tile.has_blocks() || schedule.tile.cluster.blocks() > 1 {
        attributes.cluster([schedule.tile.cluster.blocks(), 1, 1])
    } else {
        attributes
    };
    build(ENTRY, attributes, |k| {
        k.use_plan(&layout);
        body(k, &plan, overlaps);
    })
}

fn body(k: Kernel<'_, Sm90a>, plan: &Plan<'_>, overlaps: bool) {
    let schedule = plan.schedule;
    let parameters = Parameters::declare(k, plan.program, schedule);
    if schedule.needs.by_elements {
        wait_for_launch_before(k, overlaps);
        return elements::compute_elements(k, plan, &parameters);
    }
    if let Some(needs) = schedule.needs.rows {
        wait_for_launch_before(k, overlaps);
        return rows::hold_rows(k, plan, &parameters, needs);
    }
    let [load_registers, math_registers] = schedule.tile.registers(&schedule.needs);
    let stages = plan.stage_ring(k);
    let thread = k.thread();
    k.if_(thread.eq(0), || {
        parameters.prefetch();
        initialise(k, plan, stages.as_ref().map(|(_, ring)| ring));
    });
    clear_short_rows(k, plan);
    meet(k, schedule);
    wait_for_launch_before(k, overlaps);
    let scheduler = TileScheduler::new(k, plan, &parameters);
    let warp = k.uniform(thread >> 5);
    let warpgroup = warp >> 2;
    k.if_else(
        warpgroup.lt(schedule.loaders()),
        || {
            let load = || {
                k.decrease_registers(load_registers);
                load_all(k, plan, &parameters, &scheduler, stages.as_ref(), warp);
            };
            match &stages {
                Some((_, ring)) if schedule.tile.is_swapped() => {
                    k.if_else(warpgroup.eq(0), load, || {
                        k.increase_registers(SWAPPED_REGISTERS[1]);
                        swapped::help(k, plan, &parameters, &scheduler, ring, warpgroup - 1);
                    });
                }
                Some(_) | None => load(),
            }
        },
        || {
            k.increase_registers(math_registers);
            let number = warpgroup - schedule.loaders();
            match &stages {
                Some((_, ring)) if schedule.tile.is_swapped() => {
                    swapped::multiply(k, plan, &parameters, &scheduler, ring);
                }
                Some((mainloop, ring)) => {
                    let stages = (*mainloop, ring);
                    multiply::multiply(k, plan, &parameters, &scheduler, stages, number);
                }
                None => visit::visit(k, plan, &parameters, &scheduler, number),
            }
        },
    );
    if schedule.tile.cluster.blocks() > 1 {
        // A CTA must not leave while another's copies still arrive in its shared memory.
        k.cluster_sync(Alignment::Any);
    }
}

/// All threads of a launch that overlaps wait for the one before, and then let the next one start; nothing before this
/// touches global memory.
fn wait_for_launch_before(k: Kernel<'_, Sm90a>, overlaps: bool) {
    if overlaps {
        k.grid_wait();
        k.grid_launch_dependents();
    }
}

/// The load warps: stages of A and B, and tile operands.
fn load_all<'k>(
    k: Kernel<'k, Sm90a>,
    plan: &Plan<'_>,
    parameters: &Parameters<'k>,
    scheduler: &TileScheduler<'k, Sm90a>,
    stages: Option<&(&Mainloop, Ring<'k, Sm90a>)>,
    warp: Reg<'k, U32>,
) {
    if let Some((mainloop, ring)) = stages {
        fill_stages(k, plan, parameters, scheduler, (mainloop, ring), warp);
    }
    let tiles = plan.schedule.c_bytes() > 0;
    for (warp_of, served) in (1..).zip(plan.served()).filter(|_| tiles) {
        k.if_(warp.eq(warp_of), || load::load_tiles(k, plan, parameters, scheduler, served));
    }
}

/// The load warps that keep the ring of stages full of A and B.
fn fill_stages<'k>(
    k: Kernel<'k, Sm90a>,
    plan: &Plan<'_>,
    parameters: &Parameters<'k>,
    scheduler: &TileScheduler<'k, Sm90a>,
    (mainloop, ring): (&Mainloop, &Ring<'k, Sm90a>),
    warp: Reg<'k, U32>,
) {
    if plan.schedule.tile.is_swapped() {
        k.if_(warp.eq(0), || swapped::load(k, plan, parameters, scheduler, ring));
    } else if mainloop.is_by_elements() {
        load::load_elements(k, plan, parameters, scheduler, ring);
    } else if mainloop.is_widened() {
        k.if_(warp.eq(0), || load::load_narrow(k, plan, parameters, scheduler));
        k.if_(warp.ge(1), || load::widen(k, plan, parameters, scheduler, ring));
    } else if mainloop.is_staggered() {
        k.if_(warp.eq(0), || load::load_staggered(k, plan, parameters, scheduler));
        k.if_(warp.ge(1), || load::move_staggered(k, plan, parameters, scheduler, ring));
    } else {
        k.if_(warp.eq(0), || load::load(k, plan, parameters, scheduler, ring));
        if plan.schedule.tile.cluster.split_k() > 1 {
            k.if_(warp.ge(1), || scheduler.for_each(|_| split_k::attend(k)));
        }
    }
}

/// One thread initialises the barriers of every ring and of cluster reductions. Lanes of a warp with one each take 0.4 us longer:
/// the instruction takes one address a warp.
fn initialise<'k>(k: Kernel<'k, Sm90a>, plan: &Plan<'_>, ring: Option<&Ring<'k, Sm90a>>) {
    if let Some(ring) = ring {
        ring.initialise();
    }
    if plan.schedule.c_bytes() > 0 {
        let all = 0..plan.schedule.math_warpgroups();
        all.for_each(|each| plan.load_ring(k, k.imm(each)).initialise());
    }
    if plan.schedule.staging_bytes() > 0 {
        plan.staging(k).initialise();
    }
    epilogue::ClusterReduction::initialise(k, plan);
    DynamicScheduler::initialise(k, plan);
    k.fence_barrier_init();
}

/// Bytes that a thread clears at a time.
const VECTOR_BYTES: u32 = 16;

/// All threads clear the rows of A that no load writes, which products read. Where A and B are swapped, none reads them.
fn clear_short_rows(k: Kernel<'_, Sm90a>, plan: &Plan<'_>) {
    let schedule = plan.schedule;
    let Some(loaded) = schedule.short_rows().filter(|_| !schedule.tile.is_swapped()) else {
        return;
    };
    let bytes = (schedule.tile.rows - loaded) * STAGE_ROW_BYTES;
    let first = k.region(&plan.stages) + loaded * STAGE_ROW_BYTES;
    let (thread, step) = (k.thread() * VECTOR_BYTES, schedule.threads() * VECTOR_BYTES);
    k.for_(thread, bytes, step, |at| {
        for stage in 0..schedule.stages {
            let to = first + stage * schedule.stage_bytes() + at;
            k.store_shared(to, [k.imm::<B32>(0); 4]);
        }
    });
    k.fence_proxy_async(ProxySpace::SharedCta);
    if schedule.tile.cluster.blocks() > 1 {
        // The cluster's barrier orders none of these writes.
        k.sync();
    }
}

/// All threads wait until the barriers are initialised.
fn meet(k: Kernel<'_, Sm90a>, schedule: &Sm90Schedule) {
    if schedule.tile.cluster.blocks() > 1 {
        // Only the barriers' initialisation has to be visible to other CTAs, and its fence sees to that: a release
        // would wait for all memory.
        k.cluster_arrive(ArriveOrder::Relaxed, Alignment::Aligned);
        k.cluster_wait(Alignment::Aligned);
    } else {
        k.sync();
    }
}

#[cfg(test)]
mod tests;
