//! Lists of the largest elements of rows in the simulator: rows of every kind, on every tile that ranks them.

use postlude::placement::Placements;
use postlude::sim::{SimOptions, Timing};
use postlude::target::{Chip, Schedule};
use postlude::{
    Argument, Arguments, Backend, Compiled, DType, Hooks, Kernel, Options, Problem, Tensor,
};
use postlude_corpus::{Random, is_thorough, pick};

use super::{GRIDS, TIMINGS, sizes};

/// An element by its column, the number of columns and a random number from 0 to 1.
type Element = fn(usize, usize, f64) -> f64;

/// Rows by their names.
const ROWS: [(&str, Element); 12] = [
    ("random", |_, _, random| random - 0.5),
    ("rising", |column, _, _| column as f64 - 5000.0),
    ("falling", |column, _, _| -(column as f64)),
    ("constant", |_, _, _| -0.25),
    ("zeros of either sign", |column, _, _| if column % 3 == 0 { -0.0 } else { 0.0 }),
    ("minus infinity", |_, _, _| f64::NEG_INFINITY),
    ("few are more than minus infinity", |column, count, _| {
        if column % (count / 7) == 5 { -1e30 } else { f64::NEG_INFINITY }
    }),
    ("nan", |_, _, _| f64::NAN),
    ("some nan and infinity", |column, _, random| match column % 701 {
        3 => f64::NAN,
        400 => f64::INFINITY,
        _ => random,
    }),
    ("few values", |_, _, random| (random * 4.0).floor()),
    (
        "one thread has all",
        |column, _, random| {
            if column % 2048 < 8 { 10.0 + random } else { random }
        },
    ),
    (
        "rises at the end",
        |column, count, random| {
            if column + 300 > count { column as f64 } else { random }
        },
    ),
];

/// A call of `topk`, and what it should give.
struct Case {
    kernel: Kernel,
    problem: Problem,
    arguments: Arguments<'static>,
    outputs: [Vec<f64>; 2],
}

/// Lists of so many elements, of rows as long, all at once or one after the other.
fn case(dtype: DType, count: usize, columns: usize) -> Case {
    let text = format!(
        "kernel k(X: {dtype}[M, N]) -> (v: f32[M, {count}], i: i32[M, {count}]) {{ v, i = topk(X, {count}, N) }}"
    );
    let kernel = Kernel::parse(&text).expect("it is a kernel");
    let problem = kernel
        .compile(&Options::default())
        .problem(&sizes(&[("M", ROWS.len()), ("N", columns)]))
        .expect("sizes of every dim");
    let mut random = Random::new((count * columns) as u64);
    let elements = ROWS.iter().flat_map(|(_, row)| {
        (0..columns)
            .map(|column| row(column, columns, random.below(1 << 24) as f64 / 16_777_216.0))
            .collect::<Vec<_>>()
    });
    let elements: Vec<f64> = elements.collect();
    let tensor = Tensor::from_values(dtype, [ROWS.len(), columns], &elements).expect("it fits");
    let (mut values, mut indices) = (Vec::new(), Vec::new());
    for row in tensor.values().chunks(columns) {
        let mut order: Vec<usize> = (0..columns).collect();
        let key = |column: usize| if row[column].is_nan() { f64::MAX } else { row[column] + 0.0 };
        order.sort_by(|a, b| {
            let infinite = |column: usize| row[column] == f64::INFINITY;
            let above = |a: usize, b: usize| row[a].is_nan() && infinite(b);
            match () {
                () if above(*a, *b) => std::cmp::Ordering::Less,
                () if above(*b, *a) => std::cmp::Ordering::Greater,
                () => key(*b).total_cmp(&key(*a)),
            }
        });
        values.extend(order[..count].iter().map(|column| row[*column]));
        indices.extend(order[..count].iter().map(|column| *column as f64));
    }
    let arguments = [("X".to_owned(), Argument::Tensor(tensor))].into();
    Case { kernel, problem, arguments, outputs: [values, indices] }
}

impl Case {
    fn compiled(&self, schedule: Option<&Schedule>, grid_limit: Option<u32>) -> Compiled {
        let schedule = schedule.cloned();
        let hooks = Hooks { grid_limit, guard: true, schedule, ..Hooks::default() };
        self.kernel.compile(&Options { backend: Backend::Sim, hooks, ..Options::default() })
    }

    /// Every schedule of the tiles that rank rows.
    fn schedules(&self) -> Vec<Schedule> {
        let compiled = self.compiled(None, None);
        let placements = Placements::packed(compiled.optimised(), &self.problem);
        let planning = compiled.planning(&self.problem, &placements, Chip::STANDARD);
        let every = planning.expect("it is one launch").every().expect("it is not refused");
        every.into_iter().filter(|one| one.tile().streams_rows()).collect()
    }

    fn check(&self, schedule: Option<&Schedule>, grid_limit: Option<u32>, timing: Timing) {
        let about = format!("{grid_limit:?} {timing:?}\n{:?}", schedule.map(ToString::to_string));
        let compiled = self.compiled(schedule, grid_limit);
        let mut outputs = compiled.outputs(&self.problem).expect("it fits");
        let call = compiled.simulated(&self.problem, &self.arguments, &outputs);
        let call = call.unwrap_or_else(|error| panic!("{about}\n{error}"));
        assert_eq!(call.schedule().knob("kernel").as_deref(), Some("streamed-rows"));
        let options = SimOptions { timing, ..SimOptions::default() };
        let report = call.run(&options, &mut postlude_sim::observe::Nobody, &mut outputs);
        let report = report.unwrap_or_else(|error| panic!("{about}\n{error}"));
        let first = report.findings.first().map(ToString::to_string);
        assert_eq!((first, report.finished), (None, true), "{about}");
        let count = self.outputs[0].len() / ROWS.len();
        for (output, wanted) in outputs.iter().zip(&self.outputs) {
            let rows = output.values();
            for (place, (name, _)) in ROWS.iter().enumerate() {
                let [have, wanted] =
                    [&rows[..], &wanted[..]].map(|all| &all[place * count..][..count]);
                let same = |(a, b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan());
                let first = have.iter().zip(wanted).position(|pair| !same(pair));
                assert_eq!(first, None, "{name}: {have:?}\n{wanted:?}\n{about}");
            }
        }
    }
}

/// Rows of every kind and timing: chunks that are not whole, CTAs of clusters that have none, one CTA for all rows.
#[test]
fn long_lists_of_every_row_are_right() {
    let cases = [(DType::BF16, 50, 17_000), (DType::F32, 64, 9004), (DType::F16, 9, 4104)];
    for (dtype, count, columns) in cases {
        let case = case(dtype, count, columns);
        let schedules = case.schedules();
        assert_eq!(schedules.len(), 8, "{dtype}");
        let about = format!("{dtype} {count} {columns}");
        let some = if is_thorough() { schedules.len() } else { 3 };
        let numbers: Vec<usize> = (0..schedules.len()).collect();
        for number in pick(&numbers, &about, some) {
            let schedule = &schedules[number];
            let number = number + count;
            case.check(Some(schedule), GRIDS[number % GRIDS.len()], TIMINGS[number % 3]);
        }
    }
}

/// Short lists of long rows, and lists that rounds of several launches gave until rows are long.
#[test]
fn planning_ranks_long_rows() {
    case(DType::BF16, 8, 16_400).check(None, None, Timing::Eager);
    case(DType::BF16, 33, 2056).check(None, None, Timing::Lazy);
    let short = case(DType::BF16, 33, 2048);
    let compiled = short.compiled(None, None);
    let placements = Placements::packed(compiled.optimised(), &short.problem);
    let planning = compiled.planning(&short.problem, &placements, Chip::STANDARD);
    assert!(planning.and_then(|planning| Ok(planning.every()?)).is_err());
}
