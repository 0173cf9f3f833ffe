//! A whole mainloop: copies into a ring on one side, matrix products on the other.

use postlude_ptx::entry::Entry;
use postlude_ptx::kernel::{
    Attributes, Descriptor, DescriptorLayout, Guard, Kernel, MatrixType, Reg, SharedAddress,
    TensorMap, Var, WgmmaForm, build,
};
use postlude_ptx::modifier::{Alignment, ProxySpace, Transposition, WaitFor};
use postlude_ptx::ring::{Agents, Consumers, Grid, Receivers, Ring};
use postlude_ptx::shared::Planner;
use postlude_ptx::target::{Architecture, Sm90a, Wgmma};
use postlude_ptx::types::{F32, U32};

use crate::ptxas;

const M: u32 = 128;
const N: u32 = 256;
const K: u32 = 64;
const GROUPS: u32 = 2;
const STAGES: u32 = 4;
const A_BYTES: u32 = M * K * 2;
const B_BYTES: u32 = N * K * 2;
const STAGE: u32 = A_BYTES + B_BYTES;

struct Tiles<'k> {
    base: SharedAddress<'k>,
    steps: Reg<'k, U32>,
    m0: Reg<'k, U32>,
    n0: Reg<'k, U32>,
}

fn load<'k, A: Wgmma>(
    k: Kernel<'k, A>,
    ring: &Ring<'k, A>,
    tiles: &Tiles<'k>,
    [a, b]: [TensorMap<'k>; 2],
    blocks: u32,
) {
    let at = ring.producer();
    let rank = k.cluster_rank();
    k.for_(0, tiles.steps, 1, |step| {
        ring.produce(&at, |slot| {
            let place = tiles.base + slot.stage * STAGE;
            let along = step * K;
            slot.load(place, a, &[along.into(), tiles.m0.into()], A_BYTES, Receivers::Own, None);
            let part = N / blocks;
            let place = place + A_BYTES + rank * (part * K * 2);
            let row = tiles.n0 + rank * part;
            let receivers = match blocks {
                1 => Receivers::Own,
                count => Receivers::Multicast { mask: ((1_u16 << count) - 1).into(), count },
            };
            slot.load(place, b, &[along.into(), row.into()], B_BYTES / blocks, receivers, None);
        });
    });
}

fn multiply<'k, A: Wgmma>(
    k: Kernel<'k, A>,
    ring: &Ring<'k, A>,
    tiles: &Tiles<'k>,
    group: Reg<'k, U32>,
    rank: Reg<'k, U32>,
) -> Vec<Var<'k, F32>> {
    let form = WgmmaForm::new(N, MatrixType::BF16, MatrixType::BF16);
    let layout = DescriptorLayout::K_MAJOR_128;
    let a = k.descriptor(tiles.base + group * (A_BYTES / GROUPS), layout);
    let b = k.descriptor(tiles.base + A_BYTES, layout);
    let accumulators: Vec<Var<'k, F32>> = (0..N / 2).map(|_| k.unset()).collect();
    let at = ring.consumer(rank);
    let keep = k.var(false);
    let step = k.var(0);
    k.do_while(|| {
        ring.consume_behind(&at, |stage| {
            let [a, b]: [Descriptor<'k>; 2] = [a, b].map(|each| each.element(stage, STAGE));
            k.wgmma_fence();
            for step in 0..K / form.k() {
                let bytes = step * form.k() * 2;
                k.wgmma(&form, &accumulators, a.advance(bytes), b.advance(bytes), keep);
                keep.set(true);
            }
            k.wgmma_commit();
            k.wgmma_wait(1);
        });
        step.set(step.get() + 1);
        step.get().lt(tiles.steps)
    });
    k.wgmma_wait(0);
    ring.release_held(&at);
    accumulators
}

fn kernel(blocks: u32) -> Entry {
    let mut planner = Planner::new();
    let tiles_region = planner.reserve("tiles", STAGES * STAGE, 1024);
    let staging_region = planner.reserve("staging", GROUPS * 64 * 64 * 2, 1024);
    let barriers = planner.reserve("barriers", Ring::<Sm90a>::barrier_bytes(STAGES), 8);
    let plan = planner.finish(Sm90a::TARGET).unwrap();
    let attributes =
        Attributes::new((GROUPS + 1) * 128).cluster([blocks, 1, 1]).blocks_per_multiprocessor(1);
    build::<Sm90a>("mainloop", attributes, |k| {
        let maps = ["a", "b", "d"].map(|name| k.parameter_map(name));
        let steps = k.parameter_u32("steps").load();
        k.use_plan(&plan);
        let consumers = Consumers::Warpgroups(GROUPS);
        let grid = Grid { rows: blocks, columns: 1 };
        let agents = Agents { producers: 1, consumers, grid };
        let ring = Ring::new(k, k.region(&barriers), STAGES, agents);
        let thread = k.thread();
        k.if_(thread.eq(0), || {
            for map in maps {
                map.prefetch();
            }
            ring.initialise();
            k.fence_barrier_init();
        });
        k.cluster_sync(Alignment::Aligned);
        let tiles = Tiles {
            base: k.region(&tiles_region),
            steps,
            m0: k.block() * M,
            n0: k.special_register(postlude_ptx::address::Special::BlockY) * N,
        };
        let group = thread >> 7;
        k.if_else(
            group.eq(0),
            || {
                k.decrease_registers(40);
                k.if_(thread.eq(0), || {
                    load(k, &ring, &tiles, [maps[0].address(), maps[1].address()], blocks);
                });
            },
            || {
                k.increase_registers(232);
                let rank = thread & 127;
                let group = group - 1;
                let accumulators = multiply(k, &ring, &tiles, group, rank);
                let staging = k.region(&staging_region) + group * (64 * 64 * 2);
                store(k, &accumulators, staging, &tiles, maps[2].address(), (group, rank));
            },
        );
        k.cluster_sync(Alignment::Any);
    })
}

fn store<'k, A: Wgmma>(
    k: Kernel<'k, A>,
    accumulators: &[Var<'k, F32>],
    staging: SharedAddress<'k>,
    tiles: &Tiles<'k>,
    map: TensorMap<'k>,
    (group, rank): (Reg<'k, U32>, Reg<'k, U32>),
) {
    let leader: Guard<'k> = rank.eq(0).into();
    let lane = rank & 31;
    let row = (rank >> 5).mad(16, lane & 15);
    let line = staging + row * 128;
    for block in 0..N / 64 {
        k.when(leader, || k.bulk_wait(0, WaitFor::Read));
        k.sync_named(group + 1, 128);
        for quarter in 0..4 {
            let first = (block * 8 + quarter * 2) as usize * 4;
            let packed: [_; 4] = std::array::from_fn(|pair| {
                let low = first + 2 * pair;
                let [low, high] = [low, low + 1].map(|at| accumulators[at]);
                k.pack_halves(postlude_ptx::kernel::Half::BF16, low, high)
            });
            let chunk = ((lane >> 4) + quarter * 2) ^ (row & 7);
            k.store_matrices(line + chunk * 16, packed, Transposition::None);
        }
        k.fence_proxy_async(ProxySpace::SharedCta);
        k.sync_named(group + 1, 128);
        let (x, y) = (tiles.n0 + block * 64, group.mad(64, tiles.m0));
        k.when(leader, || {
            k.tensor_store(map, &[x.into(), y.into()], staging, None);
            k.bulk_commit();
        });
    }
    k.when(leader, || k.bulk_wait(0, WaitFor::Complete));
}

#[test]
fn the_mainloop_assembles_without_spills_or_serialised_products() {
    for blocks in [1, 2] {
        let Some(remarks) = ptxas::assemble(&kernel(blocks)) else { return };
        assert!(remarks.contains("0 bytes stack frame, 0 bytes spill stores"), "{remarks}");
        assert!(!remarks.contains("C7510"), "{remarks}");
    }
}

#[test]
fn the_checks_find_nothing_in_the_mainloop() {
    for blocks in [1, 2] {
        assert_eq!(postlude_ptx::check::check(&kernel(blocks)), []);
    }
}

#[test]
fn promised_bytes_and_arrival_counts_are_derived() {
    let text = kernel(2).to_string();
    assert!(text.contains(&format!("], {STAGE};")), "{text}");
    let inits: Vec<&str> = text.lines().filter(|line| line.contains("mbarrier.init")).collect();
    assert_eq!(inits.len() as u32, 2 * STAGES);
    assert!(inits[0].ends_with(", 1;") && inits[1].ends_with(", 4;"), "{inits:?}");
}
