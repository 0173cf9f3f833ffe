//! The planner's choices on products whose schedules were all timed on an H200: what its model loses to the best of the
//! table, without a GPU. `cargo test -p postlude --test all planner -- --nocapture` prints the rows that lose most.
//!
//! The data is that of `bench --suite random --every-tile`, whose seeds no bar is reported on: a change of a constant of
//! the model, or of a tile of the table, shows here first, and is then measured on another seed.

use std::collections::BTreeMap;

use postlude::target::Chip;
use postlude::tuning::Records;
use postlude::{Kernel, Options, Problem, Sizes};

use crate::workspace::{read, root};

const RECORDED: &str = "bench/results/h200_short_tiles.tsv";
/// What the choices reach of cuBLASLt's best on those rows, in geometric mean: may only grow.
const LEAST: f64 = 0.945;
/// What a choice has at least of the best schedule of its row.
const WORST: f64 = 0.86;

/// A schedule as the recorded columns tell it: kernel, tile, warpgroups, cluster, split K, slices, and whether A and B are
/// swapped.
type Columns = [String; 7];

/// Everything that was timed on one product.
struct Timed {
    seed: String,
    sizes: [usize; 3],
    /// Speed of a schedule, of cuBLASLt's best.
    of_bar: BTreeMap<Columns, f64>,
}

impl Timed {
    fn best(&self) -> f64 {
        self.of_bar.values().copied().fold(0.0, f64::max)
    }

    fn slowest(&self) -> f64 {
        self.of_bar.values().copied().fold(f64::INFINITY, f64::min)
    }
}

fn recorded() -> Vec<Timed> {
    let text = read(&root().join(RECORDED));
    let mut all: Vec<Timed> = Vec::new();
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.starts_with("seed"));
    for line in lines {
        let cells: Vec<&str> = line.split('\t').collect();
        let sizes = [2, 3, 4].map(|place| cells[place].parse().unwrap());
        let columns: Columns = [5, 6, 7, 8, 9, 10, 16].map(|place: usize| cells[place].to_owned());
        // Whole tiles before slices of K are for tuning alone.
        if cells[11] != "0" {
            continue;
        }
        let of_bar: f64 = cells[15].parse().unwrap();
        if all.last().is_none_or(|row| row.seed != cells[0] || row.sizes != sizes) {
            let seed = cells[0].to_owned();
            all.push(Timed { seed, sizes, of_bar: BTreeMap::new() });
        }
        all.last_mut().unwrap().of_bar.insert(columns, of_bar);
    }
    all
}

/// The planner's own choice, in the words of the recorded columns.
fn chosen([m, n, k]: [usize; 3]) -> Columns {
    let source = "kernel k(A: bf16[M, K], B: bf16[N, K]) -> D: bf16[M, N] { D = A @ B.T }";
    let options = Options { records: Records::Off, ..Options::default() };
    let compiled = Kernel::parse(source).unwrap().compile(&options);
    let sizes: Sizes = [("M", m), ("N", n), ("K", k)].map(|(dim, it)| (dim.to_owned(), it)).into();
    let problem = Problem::new(compiled.defined(), &sizes).unwrap();
    let planned = compiled.last_launch(&problem, Chip::STANDARD).unwrap();
    let text = planned.schedule().to_string();
    let knob = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.trim().strip_prefix(name));
        let value = lines.find_map(|rest| rest.strip_prefix(' '))?;
        Some(value.split('#').next()?.trim().replace(" x ", "x"))
    };
    let tile = knob("tile").unwrap();
    let matrix = tile.rsplit_once('x').unwrap().0.to_owned();
    let one = || "1".to_owned();
    [
        knob("kernel").unwrap(),
        matrix,
        knob("math_warpgroups").unwrap(),
        knob("cluster").unwrap(),
        knob("split_k").unwrap_or_else(one),
        knob("split_k_slices").unwrap_or_else(one),
        knob("swap_ab").unwrap_or_else(|| "0".to_owned()),
    ]
}

fn geometric_mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    (values.map(f64::ln).sum::<f64>() / count).exp()
}

#[test]
#[allow(clippy::print_stdout)] // Shown with `--nocapture` alone.
fn the_model_chooses_what_was_fast_on_recorded_products() {
    let mut rows = Vec::new();
    let mut missing = 0;
    for timed in recorded() {
        let columns = chosen(timed.sizes);
        let found = timed.of_bar.get(&columns).copied();
        missing += usize::from(found.is_none());
        // Of a row the fastest schedules are recorded: another one was slower than all of them.
        let of_bar = found.unwrap_or_else(|| timed.slowest());
        rows.push((of_bar / timed.best(), of_bar, timed, columns));
    }
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (regret, of_bar, timed, columns) in rows.iter().take(10) {
        println!(
            "{regret:.3} of the best, {of_bar:.3} of cuBLASLt: {:?} of seed {}, {}",
            timed.sizes,
            timed.seed,
            columns.join(" ")
        );
    }
    let mean = geometric_mean(rows.iter().map(|row| row.1));
    let best = geometric_mean(rows.iter().map(|row| row.2.best()));
    println!("{} products: chosen {mean:.4}, best of the table {best:.4} of cuBLASLt", rows.len());
    println!("{missing} choices are not among the fastest schedules");
    assert!(mean >= LEAST, "{mean}");
    assert!(rows[0].0 >= WORST, "{}", rows[0].0);
}
