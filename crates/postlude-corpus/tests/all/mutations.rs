//! A check has to be able to fail: right outputs of every case are corrupted, and the share of corruptions that pass is
//! recorded in `golden/mutations.txt` and may only fall.
//!
//! A corruption counts where it moves some element by more than twice what is allowed there; elements that allow everything
//! count always. `POSTLUDE_BLESS=1 cargo test -p postlude-corpus --test all mutations` rewrites the file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use postlude::DType;
use postlude::dtype::{Elem, round_to};
use postlude::reference::Evaluated;
use postlude::{Backend, Options};
use postlude_corpus::{Case, Random, bind, compile, read_folder, seed_for};

/// How many times each kind of corruption is tried on each output.
const TIMES: usize = 4;
/// The side of a tile that is shifted.
const TILE: usize = 8;
const HEAD: &str = "corruption elements corrupted passed";

/// A way to spoil an output.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Corruption {
    /// One element beyond twice its bound, up or down; an integer at least by one, a truth value turned.
    OneElement,
    /// One integer at either end of its dtype's range.
    Extreme,
    RowZeroed,
    ColumnZeroed,
    RowsSwapped,
    /// The columns of a tile are rotated by one.
    TileShifted,
}

impl Corruption {
    const ALL: [Corruption; 6] = [
        Corruption::OneElement,
        Corruption::Extreme,
        Corruption::RowZeroed,
        Corruption::ColumnZeroed,
        Corruption::RowsSwapped,
        Corruption::TileShifted,
    ];

    const fn name(self) -> &'static str {
        match self {
            Corruption::OneElement => "one_element",
            Corruption::Extreme => "extreme",
            Corruption::RowZeroed => "row_zeroed",
            Corruption::ColumnZeroed => "column_zeroed",
            Corruption::RowsSwapped => "rows_swapped",
            Corruption::TileShifted => "tile_shifted",
        }
    }
}

const fn class(dtype: DType) -> &'static str {
    match dtype.elem() {
        Elem::F32 => "float",
        Elem::I32 => "integer",
        Elem::Bool => "bool",
    }
}

/// The ends of an integer dtype.
const fn range(dtype: DType) -> Option<[f64; 2]> {
    match dtype {
        DType::I8 => Some([-128.0, 127.0]),
        DType::U8 => Some([0.0, 255.0]),
        DType::I4 => Some([-8.0, 7.0]),
        DType::U4 => Some([0.0, 15.0]),
        DType::I32 | DType::I64 => Some([i32::MIN as f64, i32::MAX as f64]),
        DType::F32
        | DType::TF32
        | DType::F16
        | DType::BF16
        | DType::F8E4M3
        | DType::F8E5M2
        | DType::F8E8M0 => None,
        DType::Bool | DType::B1 => None,
    }
}

/// An output that is to be spoilt.
struct Spoilt<'a> {
    want: &'a Evaluated,
    good: &'a [f64],
    /// Rows and columns of the last matrix; a vector is a column of rows of one.
    rows: usize,
    columns: usize,
}

impl Spoilt<'_> {
    /// The elements that a corruption changes, each with what it becomes.
    fn corrupt(&self, kind: Corruption, random: &mut Random) -> Vec<(usize, f64)> {
        let at = random.below(self.good.len());
        let (row, column) = (at / self.columns, at % self.columns);
        match kind {
            Corruption::OneElement => vec![(at, self.beyond_twice(at, random))],
            Corruption::Extreme => {
                let ends = range(self.want.dtype);
                ends.map(|ends| (at, ends[random.below(2)])).into_iter().collect()
            }
            Corruption::RowZeroed => {
                (0..self.columns).map(|column| (row * self.columns + column, 0.0)).collect()
            }
            Corruption::ColumnZeroed => {
                let first = row - row % self.rows;
                (first..first + self.rows).map(|row| (row * self.columns + column, 0.0)).collect()
            }
            Corruption::RowsSwapped => {
                let other = random.below(self.good.len() / self.columns);
                let one = |to: usize, from: usize| {
                    let place = move |row: usize, column: usize| row * self.columns + column;
                    (0..self.columns).map(move |c| (place(to, c), self.good[place(from, c)]))
                };
                one(row, other).chain(one(other, row)).collect()
            }
            Corruption::TileShifted => {
                let (top, left) = (row - row % TILE, column - column % TILE);
                let bottom = (top + TILE).min(self.good.len() / self.columns);
                let right = (left + TILE).min(self.columns);
                let cells = (top..bottom).flat_map(|row| (left..right).map(move |c| (row, c)));
                cells
                    .map(|(row, column)| {
                        let from = if column + 1 == right { left } else { column + 1 };
                        (row * self.columns + column, self.good[row * self.columns + from])
                    })
                    .collect()
            }
        }
    }

    /// The nearest number of the dtype that is more than twice the bound away, on a side where there is one.
    fn beyond_twice(&self, at: usize, random: &mut Random) -> f64 {
        let (value, dtype) = (self.want.values[at], self.want.dtype);
        if class(dtype) == "bool" {
            return 1.0 - self.good[at];
        }
        if !value.nominal.is_finite() {
            return 1.0;
        }
        let bound = value.bound();
        let first = if random.below(2) == 0 { 1.0 } else { -1.0 };
        let mut step = (2.0 * bound).max(value.nominal.abs() * f64::EPSILON).max(1e-45);
        if !step.is_finite() {
            step = 1.0 + value.nominal.abs();
        }
        // Farther and farther, until the dtype tells it from the bound; saturation may keep one side.
        for _ in 0..200 {
            for side in [first, -first] {
                let moved = round_to(dtype, value.nominal + side * step);
                if (moved - value.nominal).abs() > 2.0 * bound || bound.is_infinite() {
                    return moved;
                }
            }
            step *= 1.3;
        }
        self.good[at]
    }

    /// Whether a corruption changes an element by more than twice what is allowed.
    fn counts(&self, at: usize, got: f64) -> bool {
        let value = self.want.values[at];
        if got == self.good[at] || (got.is_nan() && self.good[at].is_nan()) {
            return false;
        }
        let range = range(self.want.dtype).map_or(f64::INFINITY, |[low, high]| high - low);
        let everything = value.bound() >= range / 8.0 || (value.nan && !value.nominal.is_nan());
        if everything || value.is_only_nan() || got.is_nan() || value.nominal.is_infinite() {
            return !value.contains(got) || everything;
        }
        (got - value.nominal).abs() > 2.0 * value.bound()
    }

    /// Whether the corruption counts, and if so whether the check lets it pass.
    fn passes(&self, changed: &[(usize, f64)]) -> Option<bool> {
        let rounded = changed.iter().map(|(at, got)| (*at, round_to(self.want.dtype, *got)));
        let counts = rounded.clone().any(|(at, got)| self.counts(at, got));
        counts.then(|| rounded.clone().all(|(at, got)| self.want.distance(at, got) <= 1.0))
    }
}

type Tally = BTreeMap<(Corruption, &'static str), (usize, usize)>;

/// Tries everything on every output of a case; names what passes.
fn spoil(case: &Case, tally: &mut Tally, passed: &mut Vec<String>) {
    let options =
        Options { backend: Backend::Cpu, math: case.math, threads: Some(1), ..Options::default() };
    let compiled =
        compile(case, &options).unwrap_or_else(|error| panic!("{}: {error}", case.place()));
    let (problem, arguments) = bind(case, &compiled, None).expect("the case binds");
    let mut outputs = compiled.outputs(&problem).expect("there is memory");
    compiled.run_into(&problem, &arguments, &mut outputs).expect("the case runs");
    let wanted = compiled.evaluate(&problem, &arguments).expect("it is bound");
    let mut random = Random::new(seed_for(1, &case.name()));
    for (want, output) in wanted.iter().zip(&outputs).filter(|(_, output)| !output.is_empty()) {
        let good = output.values();
        // Rows behind all segments are not written, so there is nothing to corrupt.
        if want.values.len() < good.len() {
            continue;
        }
        let (rows, columns) = match want.shape[..] {
            [] => (1, 1),
            [rows] => (rows, 1),
            [.., rows, columns] => (rows, columns),
        };
        let spoilt = Spoilt { want, good: &good, rows, columns };
        for kind in Corruption::ALL.into_iter().flat_map(|kind| [kind; TIMES]) {
            let changed = spoilt.corrupt(kind, &mut random);
            let Some(passes) = spoilt.passes(&changed) else { continue };
            let (count, passing) = tally.entry((kind, class(want.dtype))).or_default();
            *count += 1;
            if passes {
                *passing += 1;
                let (at, got) = changed[0];
                passed.push(format!(
                    "{} `{}` {} {} at {at}: {got} in {:?}",
                    case.name(),
                    want.name,
                    want.dtype,
                    kind.name(),
                    want.values[at]
                ));
            }
        }
    }
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/mutations.txt")
}

fn written(tally: &Tally) -> String {
    let row = |((kind, class), (count, passed)): (&(Corruption, &str), &(usize, usize))| {
        format!("{} {class} {count} {passed}\n", kind.name())
    };
    format!("{HEAD}\n{}", tally.iter().map(row).collect::<String>())
}

/// What passes of each kind, as a share.
fn recorded() -> BTreeMap<String, f64> {
    let text = fs::read_to_string(file()).unwrap_or_default();
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [kind, class, count, passed] = words[..] else { return None };
        let share = passed.parse::<f64>().ok()? / count.parse::<f64>().ok()?;
        Some((format!("{kind} {class}"), share))
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn corrupted_outputs_fail_the_check() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let cases = read_folder(&folder).unwrap_or_else(|error| panic!("{error}"));
    let (mut tally, mut passed) = (Tally::new(), Vec::new());
    for case in cases.iter().filter(|case| !case.expects_error()) {
        spoil(case, &mut tally, &mut passed);
    }
    let text = written(&tally);
    if std::env::var_os("POSTLUDE_BLESS").is_some_and(|value| value == "1") {
        fs::write(file(), &text).expect("the repository can be written");
    }
    let list = || format!("{text}these corruptions pass:\n{}", passed.join("\n"));
    let total = |wanted: fn(&str) -> bool| {
        let of = tally.iter().filter(|((_, class), _)| wanted(class));
        of.fold((0, 0), |(all, passing), (_, found)| (all + found.0, passing + found.1))
    };
    let (all, passing) = total(|_| true);
    assert!(passing * 50 <= all, "{passing} of {all} corruptions pass\n{}", list());
    let (all, passing) = total(|class| class != "float");
    assert!(passing == 0, "{passing} of {all} corruptions of integers pass\n{}", list());
    let before = recorded();
    for ((kind, class), (count, passing)) in &tally {
        let most = before.get(&format!("{} {class}", kind.name())).copied().unwrap_or(0.0);
        let share = *passing as f64 / *count as f64;
        assert!(
            share <= most,
            "{} {class}: {share} passes, recorded {most}\n{}",
            kind.name(),
            list()
        );
    }
}
