//! Graphs without a product on the CPU and in the simulator: elementwise math and reductions of stored tensors.
//!
//! Results are held to the reference's bounds. Each graph runs at sizes that fill tiles, at sizes that divide nothing and
//! at single rows and columns, and with inputs in other layouts.

mod ranked;
mod strips;

use postlude::graph::{self, Graph};
use postlude::lower::TileProgram;
use postlude::placement::Placements;
use postlude::sim::{SimOptions, Timing};
use postlude::target::{Chip, Cluster, KernelSchedule, Planned, Schedule, Tile};
use postlude::{
    Argument, Arguments, Backend, Compiled, DType, Hooks, Kernel, Options, Sizes, Tensor,
};
use postlude_corpus::{Fill, Layout, fill, is_thorough, lay_out, pick, seed_for};

const TIMINGS: [Timing; 3] = [Timing::Eager, Timing::Lazy, Timing::Random { seed: 3 }];
const GRIDS: [Option<u32>; 3] = [None, Some(1), Some(3)];

/// Whole tiles, nothing whole, one row, one column, a little of both.
const SIZES: [[usize; 2]; 5] = [[128, 256], [131, 77], [1, 200], [70, 1], [3, 5]];

fn parsed(text: &str) -> Graph {
    let graph = graph::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(graph::parse(&graph.to_string()).as_ref(), Ok(&graph), "{text}");
    graph
}

fn sizes(of: &[(&str, usize)]) -> Sizes {
    of.iter().map(|(dim, size)| ((*dim).to_owned(), *size)).collect()
}

/// Inputs of a graph, those of two dims and more in this layout.
fn arguments(graph: &Graph, at: &Sizes, layout: Option<Layout>) -> Arguments<'static> {
    let compiled = Compiled::of_graph(graph, &Options::default());
    let problem = compiled.problem(at).expect("sizes of every dim");
    let argument = |input: &graph::Input| {
        let Some(dims) = &input.dims else { return Argument::Scalar(0.75) };
        let kind = if input.dtype.is_float() { Fill::Normal } else { Fill::Integers };
        let shape = problem.shape(dims);
        let seed = seed_for(shape.len() as u64, &input.name);
        let mut tensor = fill(kind, input.dtype, &shape, 7, seed).expect("it fits");
        // All numbers of 8 bits there are.
        if matches!(input.dtype, DType::I8 | DType::U8) {
            let bytes = tensor.bytes_mut().iter_mut().enumerate();
            bytes.for_each(|(place, byte)| *byte = (place * 37 % 256) as u8);
        }
        Argument::Tensor(match layout {
            Some(layout) if dims.len() > 1 && input.dtype != DType::B1 => {
                lay_out(&tensor, layout).expect("it fits")
            }
            Some(_) | None => tensor,
        })
    };
    graph.inputs().iter().map(|input| (input.name.clone(), argument(input))).collect()
}

/// Runs a graph on the CPU and in the simulator, and compares both with the reference; the schedule that it had.
fn check_in(text: &str, at: &[(&str, usize)], layout: Option<Layout>) -> Schedule {
    check_with(text, at, layout, None)
}

fn check_with(
    text: &str,
    at: &[(&str, usize)],
    layout: Option<Layout>,
    schedule: Option<&Schedule>,
) -> Schedule {
    let graph = parsed(text);
    let about = format!("{text}\nat {at:?}, {layout:?}");
    let at = sizes(at);
    let arguments = arguments(&graph, &at, layout);
    let compare = |compiled: &Compiled, outputs: &[Tensor]| {
        let problem = compiled.problem(&at).expect("sizes of every dim");
        let all = compiled.check(&problem, &arguments, outputs).expect("it is compared");
        for (comparison, output) in all.iter().zip(graph.outputs()) {
            assert!(comparison.worst <= 1.0, "{about}\n`{}`: {comparison:?}", output.name);
        }
    };
    let on_cpu = Compiled::of_graph(&graph, &Options::default());
    let problem = on_cpu.problem(&at).expect("sizes of every dim");
    let mut outputs = on_cpu.outputs(&problem).expect("it fits");
    on_cpu.run_into(&problem, &arguments, &mut outputs).unwrap_or_else(|e| panic!("{about}\n{e}"));
    compare(&on_cpu, &outputs);

    let grid_limit = pick(&GRIDS, &about, 1)[0];
    let hooks = Hooks { grid_limit, guard: true, schedule: schedule.cloned(), ..Hooks::default() };
    let options = Options { backend: Backend::Sim, hooks, ..Options::default() };
    let simulated = Compiled::of_graph(&graph, &options);
    let program = simulated.program().unwrap_or_else(|error| panic!("{about}\n{error}"));
    let read: TileProgram = program.to_string().parse().expect("it reads back");
    assert_eq!(read.to_string(), program.to_string(), "{about}");
    let mut outputs = simulated.outputs(&problem).expect("it fits");
    let call = simulated.simulated(&problem, &arguments, &outputs);
    let call = call.unwrap_or_else(|error| panic!("{about}\n{error}"));
    let schedule = call.schedule().clone();
    assert_eq!(schedule.to_string().parse().as_ref(), Ok(&schedule), "{about}");
    assert_eq!(schedule.number("products"), 0);
    assert!(!call.text().contains("wgmma"), "{about}");
    let timing = pick(&TIMINGS, &about, 1)[0];
    let options = SimOptions { timing, ..SimOptions::default() };
    let report = call.run(&options, &mut postlude_sim::observe::Nobody, &mut outputs);
    let report = report.unwrap_or_else(|error| panic!("{about}\n{error}"));
    let first = report.findings.first().map(ToString::to_string);
    assert_eq!((first, report.finished), (None, true), "{about}\n{schedule}");
    compare(&simulated, &outputs);
    schedule
}

/// The same at all sizes of `M` and `N`.
fn check(text: &str) {
    for [m, n] in SIZES {
        check_in(text, &[("M", m), ("N", n)], None);
    }
}

/// A graph over `M, N`: its inputs and its lines.
fn graph(inputs: &str, lines: &str) -> String {
    let lines = lines.trim().replace(" ; ", "\n        ");
    format!("graph k({inputs}) {{\n    space M, N\n        {lines}\n}}\n")
}

const DTYPES: [DType; 11] = [
    DType::F32,
    DType::TF32,
    DType::F16,
    DType::BF16,
    DType::F8E4M3,
    DType::F8E5M2,
    DType::F8E8M0,
    DType::I8,
    DType::U8,
    DType::I32,
    DType::Bool,
];

/// A cast from one dtype to another, by f32.
fn cast(from: DType, to: DType) -> String {
    let lines = format!(
        "v0 = input A ; v1 = f32 v0 ; v2 = 0.75 ; v3 = multiply v1, v2 ; v4 = {to} v3 ; output D: {to}[M, N] = v4"
    );
    graph(&format!("A: {from}[M, N]"), &lines)
}

#[test]
fn every_dtype_is_cast_to_every_other() {
    for (place, from) in DTYPES.into_iter().enumerate() {
        for (number, to) in DTYPES.into_iter().enumerate() {
            let [m, n] = [[64, 64], [67, 45], [64, 48]][(place + number) % 3];
            let schedule = check_in(&cast(from, to), &[("M", m), ("N", n)], None);
            // Rows of 64 elements of every dtype are whole chunks, which threads hold, and 64-row tiles load by TMA.
            if n == 64 {
                assert_eq!(schedule.knob("kernel").as_deref(), Some("rows"), "{from}");
                let other = tiled(&cast(from, to), &[("M", m), ("N", n)]);
                assert_eq!(other.knob("epilogue_loads").as_deref(), Some("tma"), "{from}");
                check_with(&cast(from, to), &[("M", m), ("N", n)], None, Some(&other));
            }
        }
    }
}

#[test]
fn other_layouts_are_loaded_too() {
    for (place, from) in DTYPES.into_iter().enumerate() {
        let to = DTYPES[(place + 2) % DTYPES.len()];
        for (layout, load) in [
            (Layout::Transposed, "tma_transposed"),
            (Layout::Padded, "contiguous"),
            (Layout::Reversed, "strided"),
            (Layout::Offset, "contiguous"),
        ] {
            let at = &[("M", 192), ("N", 80)];
            let schedule = check_in(&cast(from, to), at, Some(layout));
            assert_eq!(schedule.knob("epilogue_loads").as_deref(), Some(load), "{from} {layout:?}");
        }
    }
}

#[test]
fn scales_of_blocks_widen_weights() {
    let text = graph(
        "W: i8[M, N], s: f32[M, N/64], z: u8[M, N/64]",
        "v0 = input W ; v1 = input z ; v2 = subtract v0, v1 ; v3 = f32 v2 ; v4 = input s ; v5 = multiply v3, v4 ; v6 = bf16 v5 ; output D: bf16[M, N] = v6",
    );
    for [m, n] in [[128, 256], [130, 192], [1, 64], [5, 1024], [0, 64], [3, 0]] {
        check_in(&text, &[("M", m), ("N", n)], None);
    }
    check_in(&text, &[("M", 130), ("N", 128)], Some(Layout::Transposed));
    let blocks = graph(
        "W: f8e4m3[M, N], s: f32[M/128, N/128]",
        "v0 = input W ; v1 = input s ; v2 = multiply v0, v1 ; v3 = bf16 v2 ; output D: bf16[M, N] = v3",
    );
    check_in(&blocks, &[("M", 256), ("N", 384)], None);
}

#[test]
fn several_inputs_and_outputs_of_different_dtypes_meet() {
    let text = graph(
        "A: i8[M, N], B: f32[M, N], C: bf16[M, N], keep: bool[M, N], bias: f32[N], r: f16[M], alpha: f32",
        "v0 = input A ; v1 = f32 v0 ; v2 = input B ; v3 = input C ; v4 = input keep ; v5 = input bias ; v6 = input r ; v7 = input alpha
        v8 = add v1, v2 ; v9 = add v8, v3 ; v10 = multiply v9, v7 ; v11 = add v10, v5 ; v12 = multiply v11, v6
        v13 = where v4, v12, v2 ; v14 = 0.0 ; v15 = maximum v13, v14 ; v16 = less v14, v13 ; v17 = i8 v13
        output D: bf16[M, N] = v15 ; output E: f32[M, N] = v13 ; output P: bool[M, N] = v16 ; output Q: i8[M, N] = v17",
    );
    check(&text);
    check_in(&text, &[("M", 64), ("N", 64)], Some(Layout::Transposed));
    check_in(&text, &[("M", 0), ("N", 64)], None);
}

#[test]
fn packed_bits_are_read_and_written() {
    let text = graph(
        "A: bf16[M, N], keep: b1[M, N]",
        "v0 = input A ; v1 = input keep ; v2 = 0.0 ; v3 = where v1, v0, v2 ; v4 = less v2, v3 ; output D: bf16[M, N] = v3 ; output P: b1[M, N] = v4",
    );
    check_in(&text, &[("M", 64), ("N", 64)], None);
    check_in(&text, &[("M", 33), ("N", 24)], None);
}

const SOFTMAX: &str = "v0 = input A ; v1 = max v0 over column ; v2 = subtract v0, v1 ; v3 = exp v2 ; v4 = sum v3 over column ; v5 = divide v3, v4 ; output D: bf16[M, N] = v5";
const RMS_NORM: &str = "v0 = input A ; v1 = multiply v0, v0 ; v2 = sum v1 over column ; v3 = extent N ; v4 = divide v2, v3 ; v5 = rsqrt v4 ; v6 = multiply v0, v5 ; v7 = input g ; v8 = multiply v6, v7 ; output D: f16[M, N] = v8 ; output s: f32[M] = v5";

#[test]
fn rows_meet_their_own_reductions() {
    check(&graph("A: bf16[M, N]", SOFTMAX));
    check(&graph("A: f32[M, N], g: bf16[N]", RMS_NORM));
    // Rows that threads hold, those of one wide tile, and those of a cluster's tiles.
    let softmax = graph("A: bf16[M, N]", SOFTMAX);
    let schedule = check_in(&softmax, &[("M", 70), ("N", 600)], None);
    assert_eq!(schedule.knob("kernel").as_deref(), Some("rows"), "{schedule}");
    let schedule = check_in(&softmax, &[("M", 70), ("N", 604)], None);
    assert_eq!(schedule.knob("kernel").as_deref(), Some("cooperative"), "{schedule}");
    let bytes = SOFTMAX.replace("v0 = input A", "w = input A ; v0 = f32 w");
    check_in(&graph("A: i8[M, N]", &bytes), &[("M", 70), ("N", 256)], None);
    let norm = graph("A: f32[M, N], g: bf16[N]", RMS_NORM);
    check_in(&norm, &[("M", 130), ("N", 1024)], None);
    let schedule = check_in(&norm, &[("M", 3), ("N", 4100)], Some(Layout::Padded));
    assert_eq!(schedule.knob("cluster").as_deref(), Some("1 x 4"), "{schedule}");
    check_in(&norm, &[("M", 3), ("N", 9000)], None);
    check_in(&norm, &[("M", 2), ("N", 17_000)], None);
    for (columns, most) in [(9001, 8192), (400_000, 393_216)] {
        let error = planned(&norm, &[("M", 3), ("N", columns)]).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(&format!("rows of at most {most} columns")), "{error}");
    }
}

/// The schedules of a graph whose tensors are packed, best first.
fn planned(text: &str, at: &[(&str, usize)]) -> Result<Vec<Schedule>, postlude::Error> {
    let compiled = Compiled::of_graph(&parsed(text), &Options::default());
    let problem = compiled.problem(&sizes(at))?;
    let placements = Placements::packed(compiled.optimised(), &problem);
    let planning = compiled.planning(&problem, &placements, Chip::STANDARD)?;
    let all = planning.all().map_err(postlude::Error::from)?;
    Ok(all.iter().map(Planned::schedule).collect())
}

/// The schedule of a 64-row tile, whatever planning would take by itself.
fn tiled(text: &str, at: &[(&str, usize)]) -> Schedule {
    let compiled = Compiled::of_graph(&parsed(text), &Options::default());
    let problem = compiled.problem(&sizes(at)).expect("sizes of every dim");
    let placements = Placements::packed(compiled.optimised(), &problem);
    let planning = compiled.planning(&problem, &placements, Chip::STANDARD).expect("one launch");
    let mut all = planning.every().expect("it is not refused").into_iter();
    let tiled = |one: &Schedule| one.knob("kernel").as_deref() == Some("cooperative");
    all.find(tiled).expect("64-row tiles run it, too")
}

/// Every tile whose rows threads hold, at its edges and with fewer CTAs than tiles; those of long rows take long.
#[test]
fn every_tile_of_held_rows_is_right() {
    let graphs = [
        graph("A: bf16[M, N]", SOFTMAX),
        graph("A: f32[M, N], g: bf16[N]", RMS_NORM),
        graph(
            "A: u8[M, N], b: f32[N], C: f16[M, N], r: i32[M]",
            "v0 = input A ; v1 = f32 v0 ; v2 = input b ; v3 = multiply v1, v2 ; v4 = input C ; v5 = add v3, v4 ; v6 = col ; v7 = input r ; v8 = less v6, v7 ; v9 = 0.5 ; v10 = where v8, v5, v9 ; output D: f32[M, N] = v10 ; output E: bf16[M, N] = v5",
        ),
        graph(
            "A: f16[M, N], t: i32[M]",
            "v0 = input A ; v1 = input t ; v2 = pick v0, v1 ; v3 = logsumexp v0 over column ; v4 = subtract v3, v2 ; v5 = argmax v0 over column ; v6 = i32 v5 ; output l: f32[M] = v4 ; output at: i32[M] = v6 ; output D: f16[M, N] = v0",
        ),
    ];
    let graphs: Vec<&str> = graphs.iter().map(String::as_str).collect();
    let (kernel, cluster) = (KernelSchedule::Rows, Cluster::ONE);
    let held = (0..6).flat_map(|power| [8, 16, 32].map(|each| (1 << power, each)));
    let held = held.map(|(rows, columns)| {
        let columns = 256 / rows * columns;
        let tile = Tile { rows, columns, kernel, math_warpgroups: 2, cluster };
        (tile, [("M", 2 * rows as usize + 1), ("N", columns as usize - 24)])
    });
    assert!(tried(&graphs, held) >= 12);
    // A CTA's part of a row is a whole chunk and a little of the next one, or less than one.
    let beside = Cluster::ALL.into_iter().filter(|cluster| cluster.columns() == cluster.blocks());
    let streamed = beside.flat_map(|cluster| [2, 4].map(|warpgroups| (cluster, warpgroups)));
    let streamed = streamed.map(|(cluster, math_warpgroups)| {
        let (kernel, columns) = (KernelSchedule::StreamedRows, 4096 * math_warpgroups);
        let tile = Tile { rows: 1, columns, kernel, math_warpgroups, cluster };
        let whole = (columns * cluster.columns()) as usize + 264;
        (tile, [("M", 5), ("N", if cluster.columns() < 4 { whole } else { 17_000 })])
    });
    assert!(tried(&[graphs[0], graphs[1], graphs[3]], streamed) >= 6);
}

/// Runs graphs on the tiles that take them; how many did.
fn tried(
    graphs: &[&str],
    tiles: impl Iterator<Item = (Tile, [(&'static str, usize); 2])>,
) -> usize {
    let mut tried = 0;
    for (tile, at) in tiles {
        let about = format!("{tile:?}");
        for text in pick(graphs, &about, if is_thorough() { graphs.len() } else { 1 }) {
            let compiled = Compiled::of_graph(&parsed(text), &Options::default());
            let problem = compiled.problem(&sizes(&at)).expect("sizes of every dim");
            let placements = Placements::packed(compiled.optimised(), &problem);
            let planning = compiled.planning(&problem, &placements, Chip::STANDARD);
            let schedule = planning.and_then(|planning| Ok(planning.fit(tile)?));
            if let Some(schedule) = schedule.expect("it is not refused") {
                check_with(text, &at, None, Some(&schedule));
                tried += 1;
            }
        }
    }
    tried
}

/// A ring that holds less than a row would lose what passes meet again.
#[test]
fn streamed_rows_need_rings_that_hold_them() {
    let text = graph("A: bf16[M, N]", SOFTMAX);
    let at = [("M", 3), ("N", 40_000)];
    let own = check_in(&text, &at, None);
    assert_eq!(own.knob("kernel").as_deref(), Some("streamed-rows"));
    let compiled = Compiled::of_graph(&parsed(&text), &Options::default());
    let problem = compiled.problem(&sizes(&at)).expect("sizes of every dim");
    let placements = Placements::packed(compiled.optimised(), &problem);
    let planning = compiled.planning(&problem, &placements, Chip::STANDARD).expect("one launch");
    for (knob, value) in [
        ("c_stages", "1"),
        ("c_stages", "2"),
        ("c_stages", "33"),
        ("held", "8 2 4 1 1 0 2 1 4294967295 1"),
        ("cluster", "2 x 1"),
        ("ctas", "9"),
    ] {
        let other = own.with(knob, value).expect("it reads");
        assert!(planning.accept(&other).is_err(), "{knob} {value}");
    }
}

#[test]
fn held_rows_run_with_any_ctas_that_fit() {
    let text = graph("A: bf16[M, N]", SOFTMAX);
    let at = [("M", 23), ("N", 264)];
    let own = check_in(&text, &at, None);
    for ctas in [1, 2, 5] {
        check_with(&text, &at, None, Some(&own.with("ctas", ctas).expect("it is a knob")));
    }
    let compiled = Compiled::of_graph(&parsed(&text), &Options::default());
    let problem = compiled.problem(&sizes(&at)).expect("sizes of every dim");
    let placements = Placements::packed(compiled.optimised(), &problem);
    let planning = compiled.planning(&problem, &placements, Chip::STANDARD).expect("one launch");
    for (knob, value) in [
        ("c_stages", "0"),
        ("c_stages", "2"),
        ("ctas", "0"),
        ("ctas", "9"),
        ("kernel", "cooperative"),
        ("cluster", "1 x 2"),
        ("tile", "0 x 512 x 0"),
        ("tile", "8 x 256 x 0"),
        ("held", "4 2 4 1 1 0 2 1 512 1"),
        // Not all of its columns are the problem's, and a tile has no multiple of these.
        ("held", "8 2 4 1 1 0 2 1 512 512"),
        ("held", "8 2 4 1 1 0 2 1 512 8"),
        ("math_warpgroups", "0"),
    ] {
        let other = own.with(knob, value).expect("it reads");
        assert!(planning.accept(&other).is_err(), "{knob} {value}");
    }
    assert!(own.with("held", "0 2 4 1 1 0 2 1 512 1").is_err());
}

/// What an SM has in flight: its slots of tile operands.
#[test]
fn enough_bytes_are_in_flight() {
    // Latency times the bandwidth of an H200, for each of its SMs.
    const ENOUGH: u32 = 40 << 10;
    const HELD: u32 = 32 << 10;
    for (from, to, bytes) in [
        (DType::I8, DType::BF16, 1),
        (DType::BF16, DType::F8E4M3, 2),
        (DType::F32, DType::BF16, 2),
        (DType::BF16, DType::F32, 2),
    ] {
        for [m, n] in [[8192, 8192], [4096, 512], [1000, 24576]] {
            let schedule = planned(&cast(from, to), &[("M", m), ("N", n)]).expect("it is planned");
            let number = |knob| schedule[0].number(knob);
            let word = |knob: &str, place: usize| -> u32 {
                let value = schedule[0].knob(knob).unwrap_or_default();
                let word = value.split([' ', 'x']).filter(|word| !word.is_empty()).nth(place);
                word.and_then(|word| word.parse().ok()).unwrap_or(0)
            };
            if word("held", 1) > 0 {
                let tile = word("tile", 0) * word("tile", 1) * word("held", 1);
                // CTAs of one tile, some of which load at a time.
                assert_eq!(number("c_stages"), 1);
                assert!(
                    number("ctas") * tile >= HELD,
                    "{from} to {to} at {m} x {n}:\n{}",
                    schedule[0]
                );
                continue;
            }
            let slots = number("math_warpgroups") * number("c_stages");
            let slot = 64 * number("epilogue_tile") * bytes;
            assert!(slots * slot >= ENOUGH, "{from} to {to} at {m} x {n}:\n{}", schedule[0]);
        }
    }
}

/// Tiles that planning would not take by itself are right, too.
#[test]
fn every_tile_runs_a_graph_without_a_product() {
    let text = graph(
        "A: i8[M, N], b: f32[N], C: bf16[M, N]",
        "v0 = input A ; v1 = f32 v0 ; v2 = input b ; v3 = multiply v1, v2 ; v4 = input C ; v5 = add v3, v4 ; v6 = sum v5 over row ; output D: bf16[M, N] = v5 ; output s: f32[N] = v6",
    );
    let at = [("M", 200), ("N", 280)];
    let compiled = Compiled::of_graph(&parsed(&text), &Options::default());
    let problem = compiled.problem(&sizes(&at)).expect("sizes of every dim");
    let placements = Placements::packed(compiled.optimised(), &problem);
    let planning = compiled.planning(&problem, &placements, Chip::STANDARD).expect("one launch");
    let schedules = planning.every().expect("it is not refused");
    assert!(schedules.len() > 20, "{}", schedules.len());
    let step = if is_thorough() { 1 } else { 5 };
    for schedule in schedules.iter().step_by(step) {
        check_with(&text, &at, None, Some(schedule));
    }
}

#[test]
fn reductions_are_finished_by_the_launch() {
    let text = graph(
        "A: bf16[M, N], t: i32[M]",
        "v0 = input A ; v1 = sum v0 over row column ; v2 = absmax v0 over column ; v3 = sum v0 over row ; v4 = logsumexp v0 over column
        v5 = input t ; v6 = pick v0, v5 ; v7 = subtract v4, v6 ; v8 = sum v7 over row ; v9 = argmax v0 over column ; v10 = i32 v9
        output all: f32[] = v1 ; output rows: f32[M] = v2 ; output columns: f32[N] = v3 ; output loss: f32[] = v8 ; output at: i32[M] = v10",
    );
    for [m, n] in [[128, 256], [131, 77], [1, 200], [3, 8]] {
        check_in(&text, &[("M", m), ("N", n)], None);
    }
    let one = graph(
        "A: f16[M, N]",
        "v0 = input A ; v1 = logsumexp v0 over column ; output l: f32[M] = v1",
    );
    check_in(&one, &[("M", 9), ("N", 5000)], None);
    let empty =
        graph("A: f16[M, N]", "v0 = input A ; v1 = sum v0 over row column ; output s: f32[] = v1");
    check_in(&empty, &[("M", 0), ("N", 64)], None);
    check_in(&empty, &[("M", 64), ("N", 0)], None);
}

#[test]
fn groups_and_blocks_are_quantised() {
    let groups = graph(
        "A: bf16[M, N]",
        "v0 = input A ; v1 = absmax v0 over column:128 ; v2 = 448.0 ; v3 = divide v1, v2 ; v4 = divide v0, v3 ; v5 = f8e4m3 v4 ; output D: f8e4m3[M, N] = v5 ; output s: f32[M, N/128] = v3",
    );
    for [m, n] in [[64, 256], [67, 384]] {
        check_in(&groups, &[("M", m), ("N", n)], None);
    }
    let blocks = graph(
        "A: f32[M, N]",
        "v0 = input A ; v1 = absmax v0 over row:128 column:128 ; v2 = 448.0 ; v3 = divide v1, v2 ; v4 = divide v0, v3 ; v5 = f8e4m3 v4 ; output D: f8e4m3[M, N] = v5 ; output s: f32[M/128, N/128] = v3",
    );
    check_in(&blocks, &[("M", 256), ("N", 384)], None);
}

#[test]
fn batches_and_shared_tensors_are_told_apart() {
    let text = "graph k(A: f16[L, M, N], B: u8[M, N], c: f32[L, N]) {
        space L, M, N
        v0 = input A
        v1 = input B
        v2 = f32 v1
        v3 = input c
        v4 = add v0, v2
        v5 = multiply v4, v3
        v6 = max v5 over column
        output D: bf16[L, M, N] = v5
        output m: f32[L, M] = v6
    }";
    for [l, m, n] in [[3, 64, 64], [2, 67, 33], [4, 1, 16]] {
        check_in(text, &[("L", l), ("M", m), ("N", n)], None);
    }
    check_in(text, &[("L", 2), ("M", 64), ("N", 32)], Some(Layout::Transposed));
}

#[test]
fn halves_are_views() {
    let text = graph(
        "A: bf16[M, N]",
        "v0 = input A ; v1 = first_half v0 ; v2 = second_half v0 ; v3 = multiply v1, v2 ; output D: bf16[M, N/2] = v3",
    );
    for [m, n] in [[64, 256], [67, 90]] {
        check_in(&text, &[("M", m), ("N", n)], None);
    }
}

#[test]
fn schedules_of_products_and_of_none_are_told_apart() {
    let text = cast(DType::I8, DType::BF16);
    let at = sizes(&[("M", 256), ("N", 256)]);
    let compiled = Compiled::of_graph(&parsed(&text), &Options::default());
    let problem = compiled.problem(&at).expect("sizes of every dim");
    let placements = Placements::packed(compiled.optimised(), &problem);
    let planning = compiled.planning(&problem, &placements, Chip::STANDARD).expect("one launch");
    let own = planning.best().expect("it is planned").schedule();
    let product = parsed(
        "graph p(A: bf16[M, K], W: bf16[N, K]) {\n    product A @ W.T\n    v0 = accumulator\n    output D: bf16[M, N] = v0\n}\n",
    );
    let other = Compiled::of_graph(&product, &Options::default());
    let all = sizes(&[("M", 256), ("N", 256), ("K", 64)]);
    let other_problem = other.problem(&all).expect("sizes of every dim");
    let other_placements = Placements::packed(other.optimised(), &other_problem);
    let other_planning = other.planning(&other_problem, &other_placements, Chip::STANDARD);
    let other_planning = other_planning.expect("one launch");
    let multiplied = other_planning.best().expect("it is planned").schedule();
    let refused = |schedule: &Schedule| planning.accept(schedule).unwrap_err().to_string();
    let wanted = "the schedule does not fit this problem, which has epilogue_loads tma";
    assert!(refused(&multiplied).starts_with(wanted), "{}", refused(&multiplied));
    assert!(other_planning.accept(&own).unwrap_err().to_string().contains("operands tma_k_major"));
    for (knob, value) in [("stages", "4"), ("wgmma_in_flight", "1"), ("kernel", "ping-pong")] {
        assert!(refused(&own.with(knob, value).expect("it reads")).contains("knob"), "{knob}");
    }
    assert!(own.with("products", 1).is_err());
}

#[test]
fn a_promise_of_one_launch_is_kept_or_refused() {
    let text = "kernel k(A: bf16[M, K], B: bf16[K, F], C: bf16[F, N]) -> D: bf16[M, N] { D = bf16(A @ B) @ C }";
    let sizes: Sizes = ["M", "N", "K", "F"].map(|dim| (dim.to_owned(), 16)).into();
    for text in [format!("fused {text}"), text.to_owned()] {
        let kernel = Kernel::parse(&text).unwrap();
        assert_eq!(kernel.ast().to_string().starts_with("fused kernel"), text.starts_with("fused"));
        let one_launch = !text.starts_with("fused");
        let compiled = kernel.compile(&Options { one_launch, ..Options::default() });
        let refusal = compiled.program().unwrap_err();
        assert_eq!(refusal.summary(), "this kernel is 2 launches, and one is promised");
        let problem = compiled.problem(&sizes).unwrap();
        let refused = compiled.chosen(&problem, Chip::STANDARD).unwrap_err();
        assert_eq!(refused.summary(), refusal.summary());
    }
}
