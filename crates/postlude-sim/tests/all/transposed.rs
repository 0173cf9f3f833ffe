//! Tiles in either major order: the same bits as on the CPU, under every timing.

use crate::bound::{Bound, tile};
use postlude::DType;
use postlude::graph::Graph;
use postlude::placement::{Placement, Placements};
use postlude::problem::Problem;
use postlude::target::{Chip, Schedule, Tile};
use postlude_corpus::is_thorough;
use postlude_sim::meters::Meter;
use postlude_sim::{Options, run_observed};

const PLAIN: &str = "kernel k(A: T[B, M, K], W: T[B, N, K]) -> D: T[B, M, N] { D = A @ W.T }";
const WIDE: &str = "kernel k(A: T[B, M, K], W: T[B, N, K]) -> D: f32[B, M, N] { D = A @ W.T }";
const RESIDUAL: &str =
    "kernel k(A: T[B, M, K], W: T[B, N, K], C: T[B, M, N]) -> D: T[B, M, N] { D = A @ W.T + C }";
const WIDE_RESIDUAL: &str = "kernel k(A: T[B, M, K], W: T[B, N, K], C: f32[B, M, N]) -> D: f32[B, M, N] { D = A @ W.T + C }";
const MIXED: &str =
    "kernel k(A: T[B, M, K], W: T[B, N, K], C: T[B, M, N], E: f32[B, M, N]) -> (D: f32[B, M, N], Z: T[B, M, N]) {
    Z = A @ W.T + C
    D = Z - E
}";
/// Name, source, and the tensors whose columns are without gaps.
const KERNELS: &[(&str, &str, &[&str])] = &[
    ("D", PLAIN, &["D"]),
    ("wide D", WIDE, &["D"]),
    ("C", RESIDUAL, &["C"]),
    ("wide C", WIDE_RESIDUAL, &["C"]),
    ("C and D", RESIDUAL, &["C", "D"]),
    ("wide C and D", WIDE_RESIDUAL, &["C", "D"]),
    ("C and D of two each", MIXED, &["C", "D"]),
    ("E and Z of two each", MIXED, &["E", "Z"]),
];
/// B, M, N and K. Columns are unaligned but for the first, where row-major tiles travel by map, too.
const SIZES: &[[usize; 4]] = &[[2, 128, 64, 64], [2, 72, 95, 72], [1, 8, 3, 33], [1, 136, 67, 0]];

/// Columns without gaps, each padded to whole chunks and one more.
fn columns_first(shape: &[usize], dtype: DType) -> Placement {
    let [batch @ .., rows, columns] = shape else { panic!("a tile has rows and columns") };
    let chunk = 128 / dtype.bits();
    let column = (rows.next_multiple_of(chunk) + chunk) as isize;
    let mut strides = vec![column * *columns as isize; batch.len()];
    strides.extend([1, column]);
    Placement::at(strides, 0)
}

/// Transposes the named tensors.
fn transpose(names: &[&str], graph: &Graph, problem: &Problem, placements: &mut Placements) {
    for (input, placement) in graph.inputs().iter().zip(&mut placements.inputs) {
        if let (true, Some(dims)) = (names.contains(&input.name.as_str()), &input.dims) {
            *placement = Some(columns_first(&problem.shape(dims), input.dtype));
        }
    }
    for (output, placement) in graph.outputs().iter().zip(&mut placements.outputs) {
        if names.contains(&output.name.as_str()) {
            *placement = columns_first(&problem.shape(&output.dims), output.dtype);
        }
    }
}

/// How many tensors travel by transposed maps.
fn transposed(schedule: &Schedule) -> usize {
    let transfers = ["epilogue_loads", "epilogue_stores"].map(|knob| schedule.knob(knob));
    let transfers = transfers.into_iter().flatten().collect::<Vec<_>>().join(" ");
    transfers.split_whitespace().filter(|transfer| *transfer == "tma_transposed").count()
}

fn bound(
    (source, names): (&str, &[&str]),
    dtype: DType,
    sizes: [usize; 4],
    tile: Tile,
    (epilogue_tile, grid): (u32, u32),
) -> Bound {
    Bound::placed(
        &source.replace("T[", &format!("{dtype}[")),
        sizes,
        tile,
        |graph, problem, placements| transpose(names, graph, problem, placements),
        |schedule| {
            assert_eq!(transposed(schedule), names.len(), "{schedule}");
            // A narrower epilogue tile always fits.
            let epilogue_tile = schedule.number("epilogue_tile").min(epilogue_tile);
            schedule.with("epilogue_tile", epilogue_tile)?.with("grid_limit", grid)
        },
    )
}

#[test]
fn every_transposed_tile_on_the_small_tile_is_right() {
    for (at, (name, source, names)) in KERNELS.iter().enumerate() {
        for (place, sizes) in SIZES.iter().enumerate() {
            for epilogue_tile in [64, 32] {
                let dtype =
                    [DType::BF16, DType::F16][(at + place + epilogue_tile as usize / 32) % 2];
                let about = format!("{name} {dtype} {sizes:?}, {epilogue_tile} columns at a time");
                let work = (epilogue_tile, 1 + place as u32 % 2);
                bound((source, names), dtype, *sizes, tile(64, 64, 1), work).check(&about);
            }
        }
    }
}

#[test]
fn every_transposed_tile_on_the_large_tile_of_a_cluster_is_right() {
    for (at, (name, source, names)) in KERNELS.iter().enumerate() {
        let sizes = [1, 264, 300 + at, 72];
        let about = format!("{name} {sizes:?}");
        let large = tile(128, 256, 2);
        bound((source, names), DType::BF16, sizes, large, (64, 2)).check(&about);
    }
}

#[test]
fn ping_pong_kernels_transpose_their_tiles() {
    let tiles = Chip::STANDARD.tiles().iter().filter(|tile| tile.is_ping_pong());
    for (at, tile) in tiles.enumerate() {
        for (name, source, names) in KERNELS.iter().skip(at % 4).step_by(4) {
            let sizes = [1, 296, 280, 72];
            let about = format!("{name} {tile:?} {sizes:?}");
            let work = (64, tile.cluster.blocks());
            bound((source, names), DType::BF16, sizes, *tile, work).check(&about);
        }
    }
}

#[test]
fn every_transposed_tile_is_clean_under_many_seeds() {
    let seeds = if is_thorough() { 20 } else { 2 };
    for (name, source, names) in KERNELS {
        let kernel = (*source, *names);
        let bound = bound(kernel, DType::BF16, [2, 72, 71, 100], tile(64, 64, 1), (64, 2));
        bound.check_seeds(name, 0..seeds);
    }
}

#[test]
fn transposed_slots_meet_no_bank_conflicts() {
    for (source, requests) in [(RESIDUAL, 2 * 128 * 128 / 256), (WIDE_RESIDUAL, 2 * 128 * 128 / 32)]
    {
        for epilogue_tile in [64, 32] {
            let kernel: (&str, &[&str]) = (source, &["C", "D"]);
            let tile = tile(128, 128, 1);
            let bound = bound(kernel, DType::BF16, [1, 128, 128, 64], tile, (epilogue_tile, 1));
            let mut buffers = bound.buffers.clone();
            let sizes: Vec<usize> = buffers.iter().map(Vec::len).collect();
            let mut meter = Meter::new(&sizes, &bound.regions);
            let options = Options { regions: bound.regions.clone(), ..Options::default() };
            run_observed(&bound.text, &bound.launch, &mut buffers, &options, &mut meter)
                .unwrap_or_else(|error| panic!("{error}"));
            let text: Vec<&str> = bound.text.lines().collect();
            let mut staged = 0;
            for (line, counts) in meter.read().lines {
                let line = text[line as usize - 1];
                if ["ldmatrix", "stmatrix", "ld.shared", "st.shared"]
                    .iter()
                    .any(|name| line.contains(name))
                {
                    staged += counts.shared_requests;
                    assert_eq!(counts.wavefronts, counts.least_wavefronts, "{line}");
                }
            }
            assert_eq!(staged, requests, "each element of C and D once");
        }
    }
}
