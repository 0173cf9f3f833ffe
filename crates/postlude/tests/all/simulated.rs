//! Emitted kernels in the simulator: one kernel of each variety, on grids cut short, under every timing between them.
//!
//! `POSTLUDE_THOROUGH=1` runs each variety on every tile under every timing.
//!
//! Operands hold small whole numbers, so that every sum is exact and outputs are the CPU's to the bit. A variety is a tile
//! of the table, a way to load a tile operand or to store an output, batches, an empty contraction, or sizes that divide nothing.

mod calls;
mod chunks;
mod coalesced;
mod further_tiles;
mod half_bytes;
mod knobs;
mod narrow_slices;
mod nested;
#[path = "../gpu_kernels/problems.rs"]
#[allow(dead_code)] // Tests on a GPU use the others.
mod problems;
mod rows;
mod scales;
mod swapped_operands;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use postlude::sim::{SimOptions, Timing};
use postlude::target::{Chip, Cluster, Schedule, Tile};
use postlude::{Argument, Backend, DType, Hooks, Options, Tensor};
use postlude_corpus::{Random, SPLITS, is_thorough, pick};

use problems::{Bound, Data, Layout, Stored, difference, lay_out};

const TIMINGS: [Timing; 4] =
    [Timing::Eager, Timing::Lazy, Timing::Random { seed: 1 }, Timing::Random { seed: 2 }];
const GRIDS: [Option<u32>; 3] = [None, Some(1), Some(2)];
const OF_ALL_BATCHES: [&str; 2] = ["all_batches", "all_batches_further"];

/// A kernel of the table with `C` laid out as the variety wants it.
fn bound(name: &str, sizes: [usize; 4], layout: Layout) -> Bound {
    let mut bound =
        Bound::new(name, DType::BF16, sizes, Data::Integers, &mut Random::new(sizes[1] as u64));
    if let Some(Argument::Tensor(tensor)) = bound.arguments.get("C") {
        let tensor = lay_out(&tensor.to_contiguous(), layout);
        bound.arguments.insert("C".to_owned(), Argument::Tensor(tensor));
    }
    bound
}

/// The schedule of a tile for a problem, its tensors where the call has them, if the tile takes it.
fn fitted(bound: &Bound, tile: Tile) -> Option<Schedule> {
    let compiled = bound.kernel.compile(&Options::default());
    let placements = bound.placements(&compiled);
    let planning = compiled.planning(&bound.problem, &placements, Chip::STANDARD);
    planning.expect("it is one launch").fit(tile).expect("it is not refused")
}

/// The same schedule with another value of a knob.
fn with(schedule: &Schedule, knob: &str, value: impl std::fmt::Display) -> Schedule {
    schedule.with(knob, value).expect("a knob of every schedule")
}

/// The words of a knob.
fn words(schedule: &Schedule, knob: &str) -> Vec<String> {
    let value = schedule.knob(knob).expect("a knob of every schedule");
    value.split_whitespace().map(str::to_owned).collect()
}

/// The same for problems that every tile takes.
fn schedule(bound: &Bound, tile: Tile) -> Schedule {
    fitted(bound, tile).expect("every tile of the table fits")
}

/// Some tiles of the table: a sixth of them, other ones for each test, or all where everything is asked for.
fn tiles(test: usize) -> impl Iterator<Item = &'static Tile> {
    let (first, step) = if is_thorough() { (0, 1) } else { (test % 6, 6) };
    Chip::STANDARD.tiles().iter().skip(first).step_by(step)
}

/// Runs a problem on a grid and under a timing that it picks, into outputs laid out so; the schedule it had.
fn check(bound: &Bound, given: Option<&Schedule>, layout: Layout) -> Schedule {
    let tile = given.map(Schedule::tile);
    let about = format!("{} {tile:?} {layout:?}", bound.about);
    check_on(&pick(&GRIDS, &about, 1), bound, given, layout)
}

/// The same on these grids.
fn check_on(
    grids: &[Option<u32>],
    bound: &Bound,
    given: Option<&Schedule>,
    layout: Layout,
) -> Schedule {
    let wanted = bound.run(&Options::default()).expect("the processor runs it");
    let mut taken = None;
    for grid_limit in grids.iter().copied() {
        let options = Options {
            backend: Backend::Sim,
            hooks: Hooks { schedule: given.cloned(), grid_limit, guard: true, ..Hooks::default() },
            ..Options::default()
        };
        let compiled = bound.kernel.compile(&options);
        let outputs: Vec<Tensor> =
            wanted.iter().map(|tensor| lay_out(&zeros(tensor), layout)).collect();
        let call = compiled.simulated(&bound.problem, &bound.arguments, &outputs);
        let call = call.unwrap_or_else(|error| panic!("{}: {error}", bound.about));
        taken = Some(call.schedule().clone());
        let case = format!("{} {grid_limit:?}", bound.about);
        for timing in pick(&TIMINGS, &case, 1) {
            let about = format!("{} on {grid_limit:?} CTAs, {timing}", bound.about);
            let mut outputs = outputs.clone();
            let options = SimOptions { timing, ..SimOptions::default() };
            let report = call.run(&options, &mut postlude_sim::observe::Nobody, &mut outputs);
            let report = report.unwrap_or_else(|error| panic!("{about}: {error}"));
            let first = report.findings.first().map(ToString::to_string);
            assert_eq!((first, report.finished), (None, true), "{about}");
            for (got, want) in outputs.iter().zip(&wanted) {
                assert_eq!(difference(&got.to_contiguous(), want), None, "{about}");
            }
        }
    }
    taken.expect("a grid")
}

fn zeros(tensor: &Tensor) -> Tensor {
    Tensor::zeros(tensor.dtype(), tensor.shape()).expect("it fits")
}

/// Does something for every element on two threads, for the simulator uses one.
fn for_each<T: Sync>(all: &[T], check: impl Fn(&T) + Sync) {
    let next = Mutex::new(all.iter());
    let take = || next.lock().expect("nobody panics with it").next();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(one) = take() {
                    check(one);
                }
            });
        }
    });
}

#[test]
fn every_tile_of_the_table_is_right() {
    let kernels = ["residual", "two_outputs"].into_iter().cycle();
    let varieties: Vec<_> = tiles(0).zip(kernels).collect();
    for_each(&varieties, |(tile, name)| {
        let (rows, columns) =
            (tile.rows * tile.cluster.rows(), tile.columns * tile.cluster.columns());
        let sizes = [1, rows as usize + 8, columns as usize - 8, 136];
        // Where CTAs share a contraction, nobody loads tile operands.
        let name = if tile.cluster.split_k() > 1 { "two_outputs" } else { name };
        let bound = bound(name, sizes, Layout::Packed);
        let schedule = schedule(&bound, **tile);
        assert_eq!(check(&bound, Some(&schedule), Layout::Packed).tile(), **tile);
    });
}

/// Partial results meet in any order of arrival, and the last warpgroup writes.
#[test]
fn every_tile_finishes_reductions() {
    let tiles: Vec<&Tile> = tiles(1).collect();
    for_each(&tiles, |tile| {
        let sizes = [1, tile.rows as usize + 40, tile.columns as usize + 24, 72];
        let bound = bound("reductions", sizes, Layout::Packed);
        let schedule = schedule(&bound, **tile);
        check_on(&[None, Some(2)], &bound, Some(&schedule), Layout::Packed);
    });
}

#[test]
fn every_tile_passes_over_whole_rows() {
    let tiles: Vec<&Tile> = tiles(2).collect();
    for_each(&tiles, |tile| {
        let sizes = [1, tile.rows as usize + 40, tile.columns as usize - 3, 72];
        let bound = bound("rows_again", sizes, Layout::Packed);
        if let Some(schedule) = fitted(&bound, **tile) {
            check_on(&[None, Some(2)], &bound, Some(&schedule), Layout::Packed);
        }
    });
}

/// Groups of columns, alone and beside rows that are finished in the tile.
#[test]
fn every_tile_finishes_its_groups() {
    let kernels = ["groups", "small_groups", "groups_again"];
    let of = |tile| kernels.into_iter().map(move |name| (tile, name));
    let varieties: Vec<_> = tiles(3).flat_map(of).collect();
    let next = AtomicUsize::new(0);
    for_each(&varieties, |(tile, name)| {
        let wanted = if *name == "groups_again" { tile.columns } else { tile.columns + 64 };
        let columns = wanted.next_multiple_of(32) - 32;
        let sizes = [2, tile.rows as usize + 40, columns as usize, 72];
        let bound = bound(name, sizes, Layout::Packed);
        if let Some(schedule) = fitted(&bound, **tile) {
            next.fetch_add(1, Ordering::Relaxed);
            check_on(&[None, Some(2)], &bound, Some(&schedule), Layout::Packed);
        }
    });
    assert!(next.into_inner() > varieties.len() / 2);
}

#[test]
fn groups_that_no_tile_holds_are_refused_by_their_length_as_one_launch() {
    for (run, wanted) in [(512, "a multiple of 512"), (88, "a multiple of 88"), (6, "not of 6")] {
        let text = format!(
            "kernel k(A: f16[M, K], W: f16[N, K]) -> s: f32[M, N/{run}] {{ s = sum(A @ W.T, N, {run}) }}"
        );
        let random = &mut Random::new(3);
        let stored = [Stored::default(); 2];
        let sizes = [1, 8, 2 * run, 8];
        let bound = Bound::of("groups", &text, stored, sizes, Data::Integers, random);
        let options = Options { backend: Backend::Sim, one_launch: true, ..Options::default() };
        let refusal = bound.run(&options).err();
        let refusal = refusal.map(|error| error.to_string()).unwrap_or_default();
        assert!(refusal.contains(wanted), "{refusal}");
    }
}

/// Vectors of every kind are reduced further, each from another who finishes it.
#[test]
fn every_tile_reduces_finished_vectors() {
    let kernels = ["further", "further_rows", "further_again", "top"].into_iter().cycle();
    let varieties: Vec<_> = tiles(4).zip(kernels).collect();
    for_each(&varieties, |(tile, name)| {
        let again = ["further_again", "top"].contains(name);
        let columns = if again { tile.columns as usize - 3 } else { tile.columns as usize + 24 };
        let bound = bound(name, [1, tile.rows as usize + 40, columns, 72], Layout::Packed);
        if let Some(schedule) = fitted(&bound, **tile) {
            check_on(&[None, Some(2)], &bound, Some(&schedule), Layout::Packed);
        }
    });
}

#[test]
fn finished_vectors_are_reduced_whatever_the_sizes() {
    let varieties = [
        ("further", [1, 1, 1, 8]),
        ("further", [1, 300, 40, 24]),
        ("further_rows", [1, 40, 300, 24]),
        ("further_again", [1, 129, 65, 40]),
        ("batch_further", [3, 88, 136, 40]),
        ("batch_further", [2, 200, 24, 0]),
        ("top", [1, 65, 33, 40]),
        ("top", [1, 65, 2, 40]),
    ];
    for_each(&varieties, |(name, sizes)| {
        check(&bound(name, *sizes, Layout::Packed), None, Layout::Packed);
    });
}

#[test]
fn finished_results_are_of_every_type() {
    let text = "kernel k(A: f16[M, K], W: f16[N, K], s: f32[M]) -> (a: T[M], b: T[N], c: T[]) \
                { z = A @ W.T * s\n a = T(max(z, N) - s)\n b = T(min(z, M))\n c = T(sum(max(z, N), M)) }";
    let again = "kernel k(A: f16[M, K], W: f16[N, K]) -> (D: f32[M, N], a: T[M]) \
                 { z = A @ W.T\n m = max(z, N)\n D = z - m\n a = T(m) }";
    let types = NARROW_TYPES.into_iter().filter(|dtype| *dtype != DType::B1);
    let types = types.chain([DType::F16, DType::BF16]);
    let varieties: Vec<_> = types.flat_map(|dtype| [(dtype, text), (dtype, again)]).collect();
    for_each(&varieties, |(dtype, text)| {
        let text = text.replace("T[", &format!("{dtype}[")).replace("T(", &format!("{dtype}("));
        let random = &mut Random::new(5);
        let stored = [Stored::default(); 2];
        let sizes = [1, 71, 133, 40];
        let bound = Bound::of(dtype.name(), &text, stored, sizes, Data::Integers, random);
        check_on(&[None], &bound, None, Layout::Packed);
    });
}

/// Every reduction has its value of nothing, and what is empty needs nobody.
#[test]
fn reductions_of_nothing_are_right() {
    let kernels = ["rows_again", "reductions", "loss", "further", "groups", "batch_further"];
    let kernels = kernels.into_iter().chain(OF_ALL_BATCHES);
    let sizes = [[1, 8, 0, 8], [1, 0, 8, 8], [1, 0, 0, 8], [2, 70, 0, 9], [2, 0, 250, 0]];
    let of = |name| sizes.into_iter().map(move |sizes| (name, sizes));
    let mut varieties: Vec<_> = kernels.flat_map(of).collect();
    varieties.retain(|(name, [_, _, columns, _])| *name != "groups" || columns % 32 == 0);
    for_each(&varieties, |(name, sizes)| {
        check_on(&[None], &bound(name, *sizes, Layout::Packed), None, Layout::Packed);
    });
    let bound = bound("batch_reductions", [0, 8, 8, 8], Layout::Packed);
    assert!(bound.run(&Options { backend: Backend::Sim, ..Options::default() }).is_ok());
}

#[test]
fn reductions_without_tiles_and_of_batches_are_right() {
    let varieties = [
        ("loss", [1, 200, 152, 72]),
        ("batch_reductions", [3, 88, 136, 40]),
        ("integers", [3, 88, 136, 40]),
        ("integers", [1, 300, 24, 0]),
    ];
    for_each(&varieties, |(name, sizes)| {
        check(&bound(name, *sizes, Layout::Packed), None, Layout::Packed);
    });
}

/// The last of all batches finishes what they share, beside who finishes a batch's own.
#[test]
fn results_of_all_batches_are_finished_once() {
    let of = |name| [[3, 88, 136, 40], [1, 40, 24, 8], [2, 300, 24, 0]].map(|sizes| (name, sizes));
    let varieties: Vec<_> = OF_ALL_BATCHES.into_iter().flat_map(of).collect();
    for_each(&varieties, |(name, sizes)| {
        check(&bound(name, *sizes, Layout::Packed), None, Layout::Packed);
    });
    let tiles: Vec<_> = tiles(5).zip(OF_ALL_BATCHES.into_iter().cycle()).collect();
    for_each(&tiles, |(tile, name)| {
        let sizes = [2, tile.rows as usize + 40, tile.columns as usize + 24, 72];
        let bound = bound(name, sizes, Layout::Packed);
        let schedule = schedule(&bound, **tile);
        check_on(&[Some(2)], &bound, Some(&schedule), Layout::Packed);
    });
}

/// Halves of a product are products of their own, which every tile that can be halved computes side by side.
#[test]
fn every_tile_tells_halves_apart() {
    let kernels = SPLITS.iter().cycle();
    let varieties: Vec<_> = tiles(6).zip(kernels).collect();
    for_each(&varieties, |(tile, kernel)| {
        let sizes = [2, tile.rows as usize + 40, tile.columns as usize + 56, 72];
        let bound = bound(kernel.name, sizes, Layout::Packed);
        if let Some(schedule) = fitted(&bound, **tile) {
            check_on(&[Some(2)], &bound, Some(&schedule), Layout::Packed);
        }
    });
}

/// The second half of a tensor begins where the first ends: as it lies, that is anywhere.
#[test]
fn halves_are_right_however_tensors_lie() {
    let ways = [
        Stored::default(),
        Stored { inner_first: true, layout: Layout::Packed },
        Stored { inner_first: true, layout: Layout::Gaps },
        Stored { inner_first: false, layout: Layout::Gaps },
        Stored { inner_first: false, layout: Layout::Reversed },
    ];
    let mut varieties = Vec::new();
    for (place, kernel) in SPLITS.iter().enumerate() {
        for (other, stored) in ways.into_iter().enumerate() {
            let layout = Layout::ALL[(place + other) % Layout::ALL.len()];
            // Halves that are whole chunks of 16 bytes, and some that are not.
            varieties.push((kernel.name, stored, layout, [96, 100, 106][other % 3]));
        }
    }
    for_each(&varieties, |(name, stored, layout, columns)| {
        let sizes = [2, 72, *columns, 72];
        let random = &mut Random::new(*columns as u64);
        let bound = Bound::with(name, [*stored; 2], DType::BF16, sizes, Data::Integers, random);
        check(&bound, None, *layout);
    });
}

/// Clusters share what they load, larger tiles take several copies, and threads move more: every way on such tiles.
#[test]
fn every_way_of_an_operand_is_right_on_large_tiles() {
    let outer = Stored { inner_first: true, layout: Layout::Padded };
    let staggered = Stored { inner_first: false, layout: Layout::Gaps };
    let elements = Stored { inner_first: true, layout: Layout::Gaps };
    let plain = Stored::default();
    let shared = [[outer, outer], [plain, outer], [outer, plain], [staggered, staggered]];
    let written =
        [[staggered, staggered], [outer, staggered], [staggered, plain], [plain, elements]];
    let varieties: Vec<(&Tile, [Stored; 2])> = Chip::STANDARD
        .tiles()
        .iter()
        .flat_map(|tile| {
            let pairs = match (tile.cluster, tile.cluster.split_k()) {
                (Cluster::ONE, _) => &written[..],
                (_, 1) => &shared[..],
                _ => &shared[..1],
            };
            pairs.iter().map(move |stored| (tile, *stored))
        })
        .collect();
    for_each(&varieties, |(tile, stored)| {
        let (rows, columns) = (tile.rows * 2 + 16, tile.columns + 24);
        let sizes = [1, rows as usize, columns as usize, 88];
        let random = &mut Random::new(u64::from(rows));
        let alone = tile.cluster.split_k() == 1;
        let name = if tile.columns == 128 && alone { "residual" } else { "bias_relu" };
        let bound = Bound::with(name, *stored, DType::F16, sizes, Data::Integers, random);
        if let Some(schedule) = fitted(&bound, **tile) {
            check_on(&[Some(2)], &bound, Some(&schedule), Layout::Packed);
        }
    });
}

/// How an operand of 72 or 80 rows and a contraction of `inner` travels.
fn operand_load(stored: Stored, inner: usize) -> &'static str {
    let aligned = inner.is_multiple_of(8);
    let swapped = matches!(stored.layout, Layout::Transposed | Layout::TransposedPadded);
    match (stored.layout, stored.inner_first ^ swapped) {
        (Layout::Reversed, _) => "elements_k_major",
        (Layout::Padded | Layout::TransposedPadded, false) => "tma_k_major",
        (Layout::Packed | Layout::Transposed, false) if aligned => "tma_k_major",
        (_, false) => "staggered",
        (Layout::Gaps | Layout::Shifted, true) => "elements_mn_major",
        (_, true) => "tma_mn_major",
    }
}

#[test]
fn every_way_of_an_operand_is_right() {
    let ways: Vec<Stored> = [false, true]
        .into_iter()
        .flat_map(|inner_first| {
            Layout::ALL.into_iter().map(move |layout| Stored { inner_first, layout })
        })
        .collect();
    let mut varieties = Vec::new();
    for (place, left) in ways.iter().enumerate() {
        for (other, right) in ways.iter().enumerate() {
            // A third of the pairs, so that all ways of each operand are met with several of the other's.
            if (place + other) % 3 == 0 {
                let name = ["plain", "bias_relu", "residual", "two_outputs", "batch"][place % 5];
                varieties.push((name, [*left, *right], [128, 129, 135][other % 3]));
            }
        }
    }
    for_each(&varieties, |(name, stored, inner)| {
        let sizes = [1, 72, 80, *inner];
        let random = &mut Random::new(*inner as u64);
        let bound = Bound::with(name, *stored, DType::BF16, sizes, Data::Integers, random);
        let taken = check(&bound, None, Layout::Packed);
        let mut wanted = stored.map(|each| operand_load(each, *inner));
        if wanted.iter().any(|load| load.starts_with("elements")) {
            wanted = wanted.map(|load| if load == "staggered" { "elements_k_major" } else { load });
        }
        if taken.knob("swap_ab").is_some() {
            wanted.reverse();
        }
        assert_eq!(words(&taken, "operands"), wanted, "{}", bound.about);
    });
}

#[test]
fn every_epilogue_load_is_right() {
    let transfers = [
        (Layout::Packed, "tma"),
        (Layout::Gaps, "contiguous"),
        (Layout::Transposed, "tma_transposed"),
        (Layout::TransposedPadded, "tma_transposed"),
        (Layout::Reversed, "strided"),
    ];
    for_each(&transfers, |(layout, transfer)| {
        for name in ["residual", "shared_weights", "mask", "host_scalars"] {
            let taken = check(&bound(name, [2, 72, 80, 72], *layout), None, Layout::Packed);
            assert_eq!(words(&taken, "epilogue_loads"), [*transfer], "{name}");
        }
    });
}

#[test]
fn every_epilogue_store_is_right() {
    let transfers = [
        (72, 80, Layout::Packed, "tma"),
        (72, 81, Layout::Packed, "coalesced"),
        (72, 80, Layout::Gaps, "coalesced"),
        (72, 80, Layout::Transposed, "tma_transposed"),
        (72, 81, Layout::TransposedPadded, "tma_transposed"),
        (71, 80, Layout::Transposed, "strided"),
        (72, 80, Layout::Reversed, "strided"),
    ];
    for_each(&transfers, |(rows, columns, layout, transfer)| {
        for name in ["plain", "wide", "two_outputs", "batch"] {
            let taken =
                check(&bound(name, [2, *rows, *columns, 72], Layout::Packed), None, *layout);
            // With A and B swapped, rows of a tile are columns of the output.
            let wanted = match (taken.knob("swap_ab"), *transfer) {
                (Some(_), "tma") => "tma_transposed",
                (Some(_), "tma_transposed") => "tma",
                (Some(_), "strided") => "coalesced",
                (_, transfer) => transfer,
            };
            let stores = words(&taken, "epilogue_stores");
            assert!(stores.iter().all(|store| store == wanted), "{name}: {stores:?}");
        }
    });
}

/// Kernels of one output that is not a float of 16 or 32 bits, and of masks: name and text; `T` is the type.
const NARROW: [(&str, &str); 4] = [
    (
        "scaled",
        "kernel k(A: f16[M, K], W: f16[N, K], s: f32[M]) -> D: T[M, N] { D = T(s * (A @ W.T)) }",
    ),
    ("batches", "kernel k(A: f16[B, M, K], W: f16[N, K]) -> D: T[B, M, N] { D = T(A @ W.T) }"),
    (
        "wide",
        "kernel k(A: f16[M, K], W: f16[N, K]) -> (D: T[M, N], E: f32[M, N], G: bf16[M, N]) { z = A @ W.T\n D = T(z)\n E = z\n G = relu(z) }",
    ),
    (
        "columns_first",
        "kernel k(A: f16[M, K], W: f16[N, K], c: bf16[N]) -> D: T[N, M] { D = T(A @ W.T + c) }",
    ),
];
const NARROW_TYPES: [DType; 7] =
    [DType::F8E4M3, DType::F8E5M2, DType::I8, DType::U8, DType::I32, DType::Bool, DType::B1];

fn narrow(kernel: usize, dtype: DType, sizes: [usize; 4]) -> Bound {
    let (name, text) = NARROW[kernel];
    // A cast to bits is one to conditions.
    let cast = if dtype == DType::B1 { DType::Bool } else { dtype };
    let text = text.replace("T[", &format!("{dtype}[")).replace("T(", &format!("{cast}("));
    let random = &mut Random::new(kernel as u64 + 1);
    Bound::of(
        &format!("{name} {dtype}"),
        &text,
        [Stored::default(); 2],
        sizes,
        Data::Integers,
        random,
    )
}

#[test]
fn outputs_of_every_type_are_right() {
    let varieties: Vec<(DType, usize)> = NARROW_TYPES
        .into_iter()
        .flat_map(|dtype| (0..NARROW.len()).map(move |kernel| (dtype, kernel)))
        .collect();
    for_each(&varieties, |(dtype, kernel)| {
        // Packed dims are multiples of 8.
        let sizes = if *dtype == DType::B1 { [2, 72, 136, 40] } else { [2, 71, 133, 40] };
        let taken = check(&narrow(*kernel, *dtype, sizes), None, Layout::Packed);
        let swapped = taken.knob("swap_ab").is_some();
        let slots = if *dtype == DType::B1 { "contiguous" } else { "coalesced" };
        let transfer = if *kernel == 3 && !swapped { "strided" } else { slots };
        assert_eq!(words(&taken, "epilogue_stores")[0], transfer, "{dtype} {kernel}");
        if *dtype != DType::B1 {
            for layout in [Layout::Gaps, Layout::Transposed, Layout::Reversed, Layout::Shifted] {
                check_on(&[Some(1)], &narrow(*kernel, *dtype, sizes), None, layout);
            }
        }
    });
}

#[test]
fn outputs_of_every_type_are_right_on_every_tile() {
    let types = [DType::B1, DType::F8E4M3, DType::B1, DType::Bool].into_iter().cycle();
    let varieties: Vec<_> = tiles(8).zip(types).enumerate().collect();
    for_each(&varieties, |(place, (tile, dtype))| {
        let (rows, columns) =
            (tile.rows * tile.cluster.rows(), tile.columns * tile.cluster.columns());
        let sizes = [1, rows as usize + 8, columns as usize - 8, 72];
        let bound = narrow([0, 0, 3, 3][place % 4], *dtype, sizes);
        let schedule = schedule(&bound, **tile);
        check_on(&[Some(2)], &bound, Some(&schedule), Layout::Packed);
    });
}

/// A module for strides of any kind stores bits that lie row after row, too.
#[test]
fn bits_are_stored_by_the_more_general_code() {
    let bound = narrow(0, DType::B1, [1, 72, 136, 40]);
    let schedule = schedule(&bound, Chip::STANDARD.tiles()[0]);
    let schedule = with(&schedule, "epilogue_stores", "strided");
    check_on(&[None], &bound, Some(&schedule), Layout::Packed);
}

#[test]
fn masks_of_bits_are_right() {
    let dims = ["M, N", "N, M", "B, M, N", "B, N, M", "M, N, B"];
    for_each(&dims, |dims| {
        let text = format!(
            "kernel k(A: f16[B, M, K], W: f16[N, K], keep: b1[{dims}], columns: b1[N]) -> D: b1[B, M, N] \
             {{ D = keep & (A @ W.T > 0.0) | columns }}"
        );
        let random = &mut Random::new(7);
        let stored = [Stored::default(); 2];
        let bound = Bound::of(dims, &text, stored, [8, 24, 136, 40], Data::Integers, random);
        check(&bound, None, Layout::Packed);
    });
}

#[test]
fn batches_empty_contractions_and_ragged_sizes_are_right() {
    let varieties: &[(&str, [usize; 4])] = &[
        ("batch", [3, 70, 95, 33]),
        ("shared_weights", [3, 65, 72, 64]),
        ("batch", [2, 64, 64, 0]),
        ("bias_relu", [1, 40, 24, 0]),
        ("residual", [1, 1, 1, 1]),
        ("bias_relu", [1, 129, 257, 65]),
        ("row_scale", [1, 127, 63, 7]),
        ("memory_scalar", [1, 64, 128, 200]),
        ("host_scalars", [1, 200, 136, 64]),
    ];
    for_each(varieties, |(name, sizes)| {
        check(&bound(name, *sizes, Layout::Packed), None, Layout::Packed);
    });
}
