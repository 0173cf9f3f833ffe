//! Launches that copy rows wherever they begin, in the simulator: every bit arrives as it was, and nothing else is written.

use postlude::graph;
use postlude::placement::Placements;
use postlude::sim::{SimOptions, Timing};
use postlude::target::{Chip, Schedule};
use postlude::{
    Argument, Arguments, Backend, Compiled, DType, Hooks, Kernel, Options, Sizes, Tensor,
};
use postlude_corpus::{Fill, Random, fill};

use crate::lists::assemble;

/// Dtypes with the bytes of an element, which a copy does not convert.
const DTYPES: [(DType, usize); 6] = [
    (DType::BF16, 2),
    (DType::F16, 2),
    (DType::F32, 4),
    (DType::I32, 4),
    (DType::I8, 1),
    (DType::F8E4M3, 1),
];
/// Batches, rows and columns: less than a warp's, a few more, about a chunk, several chunks, and nothing.
const SIZES: [[usize; 3]; 9] = [
    [1, 5, 1],
    [1, 3, 31],
    [2, 3, 33],
    [1, 7, 255],
    [3, 2, 511],
    [1, 4, 513],
    [2, 2, 1099],
    [2, 0, 33],
    [1, 3, 0],
];

/// A kernel that copies `A`, of batches where `batched`.
fn text(dtype: DType, batched: bool) -> String {
    let dims = if batched { "B, M, N" } else { "M, N" };
    format!(
        "graph k(A: {dtype}[{dims}]) {{\n    space {dims}\n    v0 = input A\n    output D: {dtype}[{dims}] = v0\n}}\n"
    )
}

fn compiled(text: &str, options: &Options) -> Compiled {
    Compiled::of_graph(&graph::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}")), options)
}

fn sizes([batches, rows, columns]: [usize; 3]) -> Sizes {
    [("B", batches), ("M", rows), ("N", columns)]
        .map(|(dim, size)| (dim.to_owned(), size))
        .into_iter()
        .collect()
}

/// A tensor of random bits whose first element, rows and batches lie apart by as many elements more than its own.
fn tensor(
    (dtype, bytes): (DType, usize),
    shape: &[usize],
    [offset, gap]: [usize; 2],
    random: &mut Random,
) -> Tensor {
    let [batches, rows, columns] = match *shape {
        [rows, columns] => [1, rows, columns],
        [batches, rows, columns] => [batches, rows, columns],
        _ => panic!("two dims or three"),
    };
    let row = columns + gap;
    let batch = rows * row + gap;
    let strides = [batch as isize, row as isize, 1];
    let count = (offset + batches * batch + 1) * bytes;
    // Every bit pattern: nan of any payload, infinities, subnormal numbers.
    let memory = (0..count).map(|_| random.below(256) as u8).collect();
    let strides = &strides[3 - shape.len()..];
    Tensor::with_strides(dtype, shape, strides, offset, memory).expect("it fits")
}

/// Whether a schedule is that of a copy of elements of as many bytes.
fn is_copy(schedule: &Schedule, bytes: usize) -> bool {
    schedule.knob("kernel").as_deref() == Some("elements")
        && schedule.knob("copied_bytes") == Some(bytes.to_string())
}

/// Copies a tensor to another one in the simulator, and compares all of its memory.
fn check(of: (DType, usize), size: [usize; 3], lies: [[usize; 2]; 2], limit: Option<u32>) {
    let (dtype, bytes) = of;
    let about = format!("{dtype} {size:?}, {lies:?}");
    let batched = size[0] > 1;
    let text = text(dtype, batched);
    let hooks = Hooks { grid_limit: limit, guard: true, ..Hooks::default() };
    let options = Options { backend: Backend::Sim, hooks, ..Options::default() };
    let mut at = sizes(size);
    if !batched {
        at.remove("B");
    }
    let compiled_kernel = compiled(&text, &options);
    let problem = compiled_kernel.problem(&at).expect("sizes of every dim");
    let shape = &size[usize::from(!batched)..];
    let mut random = Random::new(size[2] as u64 + bytes as u64);
    let [input, output] = lies.map(|lies| tensor(of, shape, lies, &mut random));
    let arguments = Arguments::from([("A".to_owned(), input.clone().into())]);
    let mut outputs = vec![output.clone()];
    let call = compiled_kernel.simulated(&problem, &arguments, &outputs);
    let call = call.unwrap_or_else(|error| panic!("{about}\n{error}"));
    let schedule = call.schedule().clone();
    assert!(is_copy(&schedule, bytes), "{about}\n{schedule}");
    let emitted = call.text().to_owned();
    assemble(&emitted);
    let options = SimOptions { timing: Timing::Lazy, ..SimOptions::default() };
    let report = call.run(&options, &mut postlude_sim::observe::Nobody, &mut outputs);
    let report = report.unwrap_or_else(|error| panic!("{about}\n{error}"));
    let first = report.findings.first().map(ToString::to_string);
    assert_eq!((first, report.finished), (None, true), "{about}\n{schedule}");
    let mut wanted = output;
    let mut index = vec![0; shape.len()];
    for _ in 0..shape.iter().product() {
        let [from, to] = [&input, &wanted].map(|tensor| tensor.place(&index) * bytes);
        wanted.bytes_mut()[to..to + bytes].copy_from_slice(&input.bytes()[from..from + bytes]);
        postlude::tensor::advance(&mut index, shape);
    }
    assert!(outputs[0].bytes() == wanted.bytes(), "{about}");

    // The same code for the schedule as it is read back.
    let read: Schedule = schedule.to_string().parse().expect("it reads back");
    assert_eq!(read, schedule);
    let hooks = Hooks { schedule: Some(read), ..Hooks::default() };
    let given = Options { backend: Backend::Sim, hooks, ..Options::default() };
    let given = compiled(&text, &given);
    let call = given.simulated(&problem, &arguments, &outputs);
    let call = call.unwrap_or_else(|error| panic!("{about}\n{error}"));
    assert_eq!(call.text(), emitted, "{about}");
}

#[test]
fn every_bit_of_rows_that_begin_anywhere_arrives() {
    for (place, dtype) in DTYPES.into_iter().enumerate() {
        for (number, size) in SIZES.into_iter().enumerate() {
            // From an odd element on, with odd gaps between rows, and to rows that are padded.
            let lies = [[[1, 0], [0, 3]], [[0, 5], [7, 0]], [[3, 1], [1, 2]]][(place + number) % 3];
            let limit = [None, Some(1), Some(3)][number % 3];
            check(dtype, size, lies, limit);
        }
    }
}

fn planned(text: &str, at: &Sizes) -> Schedule {
    let compiled = compiled(text, &Options::default());
    let problem = compiled.problem(at).expect("sizes of every dim");
    let placements = Placements::packed(compiled.optimised(), &problem);
    let planning = compiled.planning(&problem, &placements, Chip::STANDARD).expect("one launch");
    planning.best().expect("it is not refused").schedule()
}

fn at(rows: usize, columns: usize) -> Sizes {
    [("M", rows), ("N", columns)].map(|(dim, size)| (dim.to_owned(), size)).into_iter().collect()
}

#[test]
fn operands_of_odd_sizes_are_copied_by_it_and_aligned_ones_are_not() {
    let plain = text(DType::BF16, false);
    for rows in [3001, 5003] {
        let schedule = planned(&plain, &at(rows, 2047));
        assert!(is_copy(&schedule, 2), "{schedule}");
        assert_eq!(schedule.knob("epilogue_loads").as_deref(), Some("contiguous"));
    }
    let aligned = planned(&plain, &at(3001, 2048));
    assert_eq!(aligned.knob("kernel").as_deref(), Some("rows"));
}

#[test]
fn what_is_no_copy_of_all_bits_is_left_to_other_kernels() {
    let converted = text(DType::BF16, false).replace("A: bf16", "A: f16");
    let rounded = text(DType::TF32, false);
    let truths = text(DType::Bool, false);
    let computed = text(DType::BF16, false)
        .replace("\n    output", "\n    v1 = negate v0\n    output")
        .replace("= v0\n}", "= v1\n}");
    for text in [converted, rounded, truths, computed] {
        let schedule = planned(&text, &at(301, 207));
        assert_eq!(schedule.knob("copied_bytes"), None, "{text}\n{schedule}");
        assert_eq!(schedule.knob("kernel").as_deref(), Some("cooperative"), "{text}");
    }
}

#[test]
fn tiles_still_copy_rows_where_a_schedule_says_so() {
    let compiled = compiled(&text(DType::BF16, false), &Options::default());
    let problem = compiled.problem(&at(70, 33)).expect("sizes of every dim");
    let placements = Placements::packed(compiled.optimised(), &problem);
    let planning = compiled.planning(&problem, &placements, Chip::STANDARD).expect("one launch");
    let all = planning.all().expect("it is not refused");
    assert!(all.len() == 1 && is_copy(&all[0].schedule(), 2));
    let every = planning.every().expect("it is not refused");
    let tiles = every.iter().filter(|schedule| !is_copy(schedule, 2));
    let accepted = tiles.filter(|schedule| {
        assert_eq!(schedule.knob("copied_bytes"), None, "{schedule}");
        planning.accept(schedule).is_ok()
    });
    assert!(accepted.count() > 5 && every.iter().any(|schedule| is_copy(schedule, 2)));
}

/// A product that no output asks for leaves a launch with an input and no output.
#[test]
fn a_launch_without_outputs_is_no_copy() {
    let text = "kernel k(A: f16[M, K], B: f16[L, K, N], x: f32[M/3], ends: i32[L]) -> (d: f32[M/3]) \
         { v = segments(A, ends) @ B; d = x }";
    let (backend, hooks) = (Backend::Sim, Hooks::default());
    let kernel = Kernel::parse(text).expect("a kernel");
    let compiled = kernel.compile(&Options { backend, hooks, ..Options::default() });
    let x = Tensor::from_values(DType::F32, vec![2], &[2.0, -3.0]).expect("a vector");
    let mut arguments = Arguments::from([("x".to_owned(), Argument::Tensor(x))]);
    for (name, dtype, shape) in [
        ("A", DType::F16, vec![6, 8]),
        ("B", DType::F16, vec![1, 8, 5]),
        ("ends", DType::I32, vec![1]),
    ] {
        let ones = fill(Fill::Ones, dtype, &shape, 0, 0).expect("ones");
        arguments.insert(name.to_owned(), Argument::Tensor(ones));
    }
    let outputs = compiled.run(&arguments, &Sizes::new()).expect("a run");
    assert_eq!(outputs["d"].values(), [2.0, -3.0]);
}
