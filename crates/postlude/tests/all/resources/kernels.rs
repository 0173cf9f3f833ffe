//! The kernels whose resources are pinned: every tile, every variety of epilogue on a large, a middle and a small one, and
//! every way of A and B.

use postlude::graph::Graph;
use postlude::placement::Placements;
use postlude::target::{Chip, Schedule, Tile};
use postlude::{Bindings, Kernel, MathMode, Options, Problem};
use postlude_ptx::launch::Launch;

/// A kernel as text, with what it is called.
pub(crate) struct Emitted {
    kernel: &'static str,
    /// The tile.
    pub(crate) tile: Tile,
    /// The PTX.
    pub(crate) text: String,
    /// Threads and shared memory of a launch.
    threads: u32,
    pub(crate) shared_bytes: u32,
}

impl Emitted {
    /// A launch of one cluster, without parameters.
    pub(crate) fn launch(&self) -> Launch {
        let cluster = [self.tile.cluster.blocks(), 1, 1];
        let (threads, shared_bytes) = (self.threads, self.shared_bytes);
        let (parameters, workspace_bytes) = (Vec::new(), 0);
        Launch { grid: cluster, cluster, threads, shared_bytes, parameters, workspace_bytes }
    }

    /// As in the file.
    pub(crate) fn name(&self) -> String {
        let Tile { rows, columns, cluster, .. } = self.tile;
        let kernel = match (self.tile.is_ping_pong(), self.tile.warpgroups_per_tile()) {
            (false, _) => "",
            (true, 1) => "-ping-pong",
            (true, _) => "-ping-pong-pairs",
        };
        let together = match (cluster.rows(), cluster.columns(), cluster.split_k()) {
            (1, 1, 1) => String::new(),
            (1, 1, splits) => format!("-k{splits}"),
            (rows, columns, _) => format!("-{rows}x{columns}"),
        };
        format!("{} {rows}x{columns}{together}{kernel}", self.kernel)
    }
}

/// Kernels whose operands travel in other ways: name, source, columns and the contraction.
const FED: &[(&str, &str, usize, usize)] = &[
    ("outer_right", "D = A @ B", 4096, 4096),
    ("outer_left", "D = A.T @ W.T", 4096, 4096),
    ("outer_both", "D = A.T @ B", 4096, 4096),
    ("staggered", "D = A @ W.T", 4096, 4095),
    ("staggered_bias_relu", "D = relu(A @ W.T + bias[N])", 4096, 4095),
    ("staggered_residual", "D = A @ W.T + C", 4096, 4095),
    ("staggered_unaligned", "D = A @ W.T + C", 4095, 4095),
    ("staggered_left", "D = A @ B", 4096, 4095),
    ("elements_right", "D = A @ B", 4095, 4096),
    ("elements_both", "D = A.T @ B + C", 4095, 4096),
];

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
    ("row_statistic", "Y = A @ W.T + C\nO = Y * gamma[N]\nss = sum(Y * Y, N)", 4096),
    ("bias_gradient", "D = (A @ W.T) * grad(gelu_tanh)(Z)\ndbias = sum(D, M)", 4096),
    ("count", "n = sum(where(A @ W.T > 0.0, 1.0, 0.0))", 4096),
    ("logsumexp", "lse = logsumexp(A @ W.T, N)", 4096),
    ("softmax", "D = softmax(A @ W.T, N)", 64),
    ("topk_softmax", "D = topk_softmax(A @ W.T, 4, N)", 64),
    ("contrastive", "Z = A @ W.T\nloss = mean(logsumexp(Z, N)) + mean(logsumexp(Z, M))", 4096),
    ("head_norm", "z = A @ W.T\nD = z * rsqrt(mean(square(z), N, 128) + 1e-6) * gamma[N]", 4096),
];
const WIDE: &[(&str, &str)] = &[
    (
        "cross_entropy",
        "kernel loss(A: bf16[M, K], W: bf16[N, K], target: i32[M]) -> loss: f32[] {\n    z = A @ W.T\n    loss = mean(logsumexp(z, N) - pick(z, target))\n}",
    ),
    (
        "wide_output",
        "kernel wide(A: f16[M, K], W: f16[N, K], bias: f32[N]) -> D: f32[M, N] { D = A @ W.T + bias }",
    ),
    (
        "wide_operand",
        "kernel wide(A: f16[M, K], W: f16[N, K], C: f32[M, N]) -> D: f32[M, N] { D = A @ W.T + C }",
    ),
];
/// Kernels with an output or an operand of bytes or bits.
const NARROW: &[(&str, &str)] = &[
    (
        "f8_output",
        "kernel narrow(A: bf16[M, K], W: bf16[N, K], a: f32[M], b: f32[N]) -> D: f8e4m3[M, N] { D = a * (b * (A @ W.T)) }",
    ),
    (
        "block_scales",
        "kernel narrow(A: bf16[M, K], W: bf16[N, K], bias: f32[N]) -> (D: f8e4m3[M, N], scale: f32[M, N/32]) {\n    z = silu(A @ W.T + bias)\n    scale = maximum(absmax(z, N, 32), 1e-12) / 448.0\n    D = f8e4m3(z / scale)\n}",
    ),
    (
        "i8_output",
        "kernel narrow(A: bf16[M, K], W: bf16[N, K], a: f32[M]) -> D: i8[M, N] { D = a * (A @ W.T) }",
    ),
    (
        "mask_output",
        "kernel narrow(A: bf16[M, K], W: bf16[N, K], bias: f32[N]) -> (D: bf16[M, N], mask: b1[M, N]) {\n    z = A @ W.T + bias\n    D = relu(z)\n    mask = z > 0.0\n}",
    ),
    (
        "mask_output_columns_first",
        "kernel narrow(A: bf16[M, K], W: bf16[N, K]) -> mask: b1[N, M] { mask = A @ W.T > 0.0 }",
    ),
    (
        "mask_operand",
        "kernel narrow(A: bf16[M, K], W: bf16[N, K], keep: b1[M, N]) -> D: bf16[M, N] { D = where(keep, A @ W.T, 0.0) }",
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

/// Instructions an element that take longer than the products of short contractions.
const BUSY: u32 = 10;

/// The table of tiles.
fn table() -> &'static [Tile] {
    Chip::STANDARD.tiles()
}

/// Tiles on which every epilogue is pinned: a large one, a middle one, a small one, a ping-pong one, one of
/// three warpgroups, and a ping-pong one of two warpgroups a tile.
fn usual() -> Vec<usize> {
    let wanted = [(128, 256, 2), (128, 128, 1), (64, 64, 1), (128, 128, 2), (192, 128, 1)];
    let place = |(rows, columns, blocks): (u32, u32, u32)| {
        let like = |tile: &Tile| {
            (tile.rows, tile.columns, tile.cluster.blocks()) == (rows, columns, blocks)
        };
        table().iter().position(like).expect("a tile of the table")
    };
    let pairs = |tile: &Tile| tile.is_ping_pong() && tile.warpgroups_per_tile() > 1;
    wanted.into_iter().map(place).chain(table().iter().position(pairs)).collect()
}

/// Every pinned kernel.
pub(crate) fn emitted() -> Vec<Emitted> {
    let mut all = Vec::new();
    for (kernel, source, columns) in KERNELS {
        let tiles: Vec<usize> =
            if *kernel == "plain" { (0..table().len()).collect() } else { usual() };
        // Only a schedule that names it takes ping-pong where outputs go straight to memory.
        let ping_pong = |tile: &usize| table()[*tile].is_ping_pong();
        // A pass over rows keeps what the next one computes again; large tiles have no room for it.
        let passes = kernel.ends_with("softmax");
        let roomy = |tile: &usize| !passes || table()[*tile].accumulators() <= 64;
        let fits = |tile: &usize| (*columns % 8 == 0 || !ping_pong(tile)) && roomy(tile);
        let tiles: Vec<usize> = tiles.into_iter().filter(fits).collect();
        let sizes = [4096, *columns, 4096];
        let one = |tile| one(kernel, source, sizes, table()[tile], Placements::packed);
        all.extend(tiles.into_iter().filter_map(one));
    }
    for (kernel, source) in WIDE {
        let one = |tile| one(kernel, source, [4096; 3], table()[tile], Placements::packed);
        all.extend(usual().into_iter().filter_map(one));
    }
    for (kernel, source) in NARROW {
        let one = |tile| one(kernel, source, [4096; 3], table()[tile], Placements::packed);
        // As above, but for the one whose output is stored through slots.
        let ping_pong = |tile: &usize| table()[*tile].is_ping_pong();
        let tiles =
            usual().into_iter().filter(|tile| *kernel == "mask_operand" || !ping_pong(tile));
        all.extend(tiles.filter_map(one));
    }
    for (kernel, source) in TRANSPOSED {
        let one = |tile| one(kernel, source, [4096; 3], table()[tile], transposed);
        all.extend(usual().into_iter().filter_map(one));
    }
    for (kernel, source, columns, inner) in FED {
        // The left operand without gaps along M, where M is odd, is read by elements.
        let rows = if *kernel == "elements_both" { 4095 } else { 4096 };
        let sizes = [rows, *columns, *inner];
        let tiles = table().iter().filter(|tile| {
            let large = tile.rows == 128 && tile.columns == 256;
            let ping_pong = tile.is_ping_pong() && tile.columns == 128;
            // Four warpgroups have the fewest registers.
            let moved = kernel.starts_with("staggered") && (tile.rows, tile.columns) == (256, 128);
            large
                || moved
                || (tile.rows, tile.columns) == (64, 64)
                || (ping_pong && columns % 8 == 0)
        });
        let one = |tile: &Tile| one(kernel, source, sizes, *tile, Placements::packed);
        all.extend(tiles.filter_map(one));
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
        placement.strides = vec![1, problem.rows() as isize];
    }
    placements
}

/// A kernel on a tile, if it takes operands that lie so.
fn one(
    kernel: &'static str,
    source: &str,
    sizes: [usize; 3],
    tile: Tile,
    place: fn(&Graph, &Problem) -> Placements,
) -> Option<Emitted> {
    let scalars = ["alpha", "beta"]
        .map(|name| (name.to_owned(), postlude::Bound::Scalar(postlude::DType::F32)));
    let bindings = Bindings { names: scalars.into(), ..Bindings::default() };
    let parsed =
        Kernel::infer(source, &bindings).unwrap_or_else(|error| panic!("{kernel}: {error}"));
    let compiled = parsed.compile(&Options::default());
    let graph = compiled.optimised();
    let sizes = ["M", "N", "K"].map(str::to_owned).into_iter().zip(sizes).collect();
    let problem = Problem::new(graph, &sizes).expect("sizes of every dim");
    let placements = place(graph, &problem);
    let planning =
        compiled.planning(&problem, &placements, Chip::STANDARD).expect("it is one launch");
    let schedule = planning.fit(tile).expect("it is not refused")?;
    // Two warpgroups a tile have few registers in ping-pong, and are only for graphs that pay for them.
    let pairs = kernel != "plain" && tile.is_ping_pong() && tile.warpgroups_per_tile() > 1;
    if !has_room(&schedule) || (pairs && !pays_for_pairs(&schedule)) {
        return None;
    }
    let planned = planning.accept(&schedule).expect("what fits is accepted");
    let text = planned.emit(MathMode::Default).to_string();
    let Launch { threads, shared_bytes, .. } =
        planned.launch(&vec![Some(1.0); graph.inputs().len()]);
    Some(Emitted { kernel, tile, text, threads, shared_bytes })
}

/// Words of the reductions along rows, along columns and to scalars.
fn folds(schedule: &Schedule) -> [u32; 3] {
    let folds = schedule.knob("folds").expect("a knob of every schedule");
    let words: Vec<u32> =
        folds.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    words.try_into().expect("rows, columns and scalars")
}

/// Whether what is reduced fits the registers that large tiles and three warpgroups have beside their accumulators.
fn has_room(schedule: &Schedule) -> bool {
    let tile = schedule.tile();
    folds(schedule).iter().sum::<u32>() <= 4 || (tile.math_warpgroups != 3 && tile.columns <= 128)
}

/// Whether planning takes ping-pong of two warpgroups a tile: where threads compute much, store through slots, write no
/// partial results of rows or columns, and no pass over rows folds more than four words.
fn pays_for_pairs(schedule: &Schedule) -> bool {
    let stores = schedule.knob("epilogue_stores").expect("a knob of every schedule");
    let direct = stores.split_whitespace().any(|store| ["contiguous", "strided"].contains(&store));
    let [rows, columns, _] = folds(schedule);
    let passes = schedule.number("pass_words") <= 4;
    schedule.number("work") >= BUSY && !direct && rows + columns == 0 && passes
}
