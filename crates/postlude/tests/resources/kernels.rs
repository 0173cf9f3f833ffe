//! The kernels whose resources are pinned: every tile, and every variety of epilogue on a large, a middle and a small one.

use postlude::emit::sm90::emit;
use postlude::graph::Graph;
use postlude::plan::sm90::{CANDIDATES, Needs, Placements, Sharing, Sm90, Tile, fit};
use postlude::{Bindings, Kernel, MathMode, Options, Problem};

/// A kernel as text, with what it is called.
pub(crate) struct Emitted {
    kernel: &'static str,
    tile: Tile,
    /// The PTX.
    pub(crate) text: String,
    /// Shared memory of a launch.
    pub(crate) shared_bytes: u32,
}

impl Emitted {
    /// As in the file.
    pub(crate) fn name(&self) -> String {
        let Tile { rows, columns, cluster, sharing, .. } = self.tile;
        let turns = if sharing == Sharing::Tiles { "-in-turn" } else { "" };
        format!("{} {rows}x{columns}x{cluster}{turns}", self.kernel)
    }
}

/// Name, source, and the columns: what is no multiple of 8 takes the direct paths.
const KERNELS: &[(&str, &str, usize)] = &[
    ("plain", "D = A @ W.T", 4096),
    ("plain_unaligned", "D = A @ W.T", 4095),
    ("bias_relu", "D = relu(A @ W.T + bias[N])", 4096),
    ("bias_gelu_tanh", "D = gelu_tanh(A @ W.T + bias[N])", 4096),
    ("bias_gelu", "D = gelu(A @ W.T + bias[N])", 4096),
    ("bias_silu", "D = silu(A @ W.T + bias[N])", 4096),
    ("lincomb_bias_relu", "D = relu(alpha * (A @ W.T) + beta * C + bias[N])", 4096),
    ("residual_unaligned", "D = relu(A @ W.T + C + bias[N])", 4095),
    ("row_and_column_scale", "D = a[M] * (b[N] * (A @ W.T)) + bias[N]", 4096),
    ("two_outputs", "Z = A @ W.T + bias[N]\nD = silu(Z)", 4096),
    ("gelu_backward", "D = (A @ W.T) * grad(gelu_tanh)(Z)", 4096),
    ("two_operands", "D = (A @ W.T + C) * E", 4096),
];
const WIDE: &[(&str, &str)] = &[
    (
        "wide_output",
        "kernel wide(A: f16[M, K], W: f16[N, K], bias: f32[N]) -> D: f32[M, N] { D = A @ W.T + bias }",
    ),
    (
        "wide_operand",
        "kernel wide(A: f16[M, K], W: f16[N, K], C: f32[M, N]) -> D: f32[M, N] { D = A @ W.T + C }",
    ),
];
/// Kernels whose tiles all have columns without gaps.
const TRANSPOSED: &[(&str, &str)] = &[
    ("transposed_output", "D = relu(A @ W.T + bias[N])"),
    ("transposed_residual", "D = relu(A @ W.T + C + bias[N])"),
    (
        "transposed_wide",
        "kernel wide(A: f16[M, K], W: f16[N, K], C: f32[M, N]) -> D: f32[M, N] { D = A @ W.T + C }",
    ),
];

/// Tiles on which every epilogue is pinned: the first, a middle one, the smallest, and one whose warpgroups alternate.
const USUAL: [usize; 4] = [0, 5, 8, 9];

/// Every pinned kernel.
pub(crate) fn emitted() -> Vec<Emitted> {
    let mut all = Vec::new();
    for (kernel, source, columns) in KERNELS {
        let tiles: Vec<usize> =
            if *kernel == "plain" { (0..CANDIDATES.len()).collect() } else { USUAL.to_vec() };
        // Only a schedule that names them makes warpgroups alternate where outputs go straight to memory.
        let in_turn = |tile: &usize| CANDIDATES[*tile].sharing == Sharing::Tiles;
        let tiles: Vec<usize> =
            tiles.into_iter().filter(|tile| *columns % 8 == 0 || !in_turn(tile)).collect();
        let one = |tile| one(kernel, source, *columns, CANDIDATES[tile], Placements::packed);
        all.extend(tiles.into_iter().map(one));
    }
    for (kernel, source) in WIDE {
        all.extend(
            USUAL.map(|tile| one(kernel, source, 4096, CANDIDATES[tile], Placements::packed)),
        );
    }
    for (kernel, source) in TRANSPOSED {
        all.extend(USUAL.map(|tile| one(kernel, source, 4096, CANDIDATES[tile], transposed)));
    }
    all
}

/// Columns of tiles without gaps.
fn transposed(graph: &Graph, problem: &Problem) -> Placements {
    let mut placements = Placements::packed(graph, problem);
    let tiles = placements.inputs.iter_mut().zip(graph.inputs()).filter_map(|(place, input)| {
        let tile = input.dims.as_ref() == Some(&graph.outputs()[0].dims);
        place.as_mut().filter(|_| tile)
    });
    for placement in tiles.chain(&mut placements.outputs) {
        placement.strides = vec![1, problem.rows as isize];
    }
    placements
}

fn one(
    kernel: &'static str,
    source: &str,
    columns: usize,
    tile: Tile,
    place: fn(&Graph, &Problem) -> Placements,
) -> Emitted {
    let scalars = ["alpha", "beta"]
        .map(|name| (name.to_owned(), postlude::Bound::Scalar(postlude::DType::F32)));
    let bindings = Bindings { names: scalars.into(), ..Bindings::default() };
    let parsed =
        Kernel::infer(source, &bindings).unwrap_or_else(|error| panic!("{kernel}: {error}"));
    let compiled = parsed.compile(&Options::default());
    let graph = compiled.optimised();
    let sizes = [("M", 4096), ("N", columns), ("K", 4096)];
    let sizes = sizes.map(|(dim, size)| (dim.to_owned(), size)).into();
    let problem = Problem::new(graph, &sizes).expect("sizes of every dim");
    let needs = Needs::of(graph, &problem, &place(graph, &problem));
    let schedule = fit(tile, &needs, Sm90::H200).expect("every tile fits");
    let text = emit(graph, &schedule, MathMode::Default).to_string();
    Emitted { kernel, tile, text, shared_bytes: schedule.shared_bytes() }
}
