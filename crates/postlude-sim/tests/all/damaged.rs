//! Damaged PTX: reader, checker and machine say what is wrong, and never panic or hang.
//!
//! `POSTLUDE_FUZZ=100000 cargo test --release -p postlude-sim --test all damaged` is the long run.

#![allow(clippy::print_stderr)] // A long run says what it did.

use postlude::placement::Placements;
use postlude::target::{Chip, Cluster};
use postlude::{Bindings, Kernel, MathMode, Problem};
use postlude_corpus::Random;
use postlude_ptx::check;
use postlude_ptx::entry::{Entry, Item};
use postlude_ptx::launch::Launch;
use postlude_ptx::text::{self, StatementKind};
use postlude_sim::{Options, Timing, run};

/// Texts without `POSTLUDE_FUZZ`, and how many of those that read well are run for this many texts.
const FEW: usize = 1500;
const RUN_ONE_IN: usize = 50;
/// Warp instructions of a damaged run.
const BUDGET: u64 = 20_000;
const SOURCES: &[&str] = &[
    "D = A @ W.T",
    "D = gelu_tanh(A @ W.T + bias[N])",
    "D = (A @ W.T + C) * scale[M]",
    "Z = A @ W.T\nD = where(col < row, Z / bias[N], 0.0)",
];

/// A kernel and what it is launched on.
struct Whole {
    entry: Entry,
    text: String,
    launch: Launch,
    buffers: Vec<Vec<u8>>,
}

fn whole(source: &str) -> Whole {
    let kernel = Kernel::infer(source, &Bindings::default()).expect("a kernel that types");
    let compiled = kernel.compile(&postlude::Options::default());
    let graph = compiled.optimised();
    let sizes = ["M", "N", "K"].map(|dim| (dim.to_owned(), 64)).into();
    let problem = Problem::new(graph, &sizes).expect("sizes of every dim");
    let placements = Placements::packed(graph, &problem);
    let planning =
        compiled.planning(&problem, &placements, Chip::STANDARD).expect("it is not refused");
    let smallest = *Chip::STANDARD
        .tiles()
        .iter()
        .filter(|tile| tile.cluster == Cluster::ONE)
        .min_by_key(|tile| tile.rows * tile.columns)
        .expect("there are candidates");
    let schedule = planning.fit(smallest).expect("it is not refused");
    let planned = planning.accept(&schedule.expect("the smallest tile fits"));
    let planned = planned.expect("what fits is accepted");
    let entry = planned.emit(MathMode::Default);
    let scalars = vec![None; graph.inputs().len()];
    let launch = planned.launch(&scalars);
    let buffers = vec![vec![0; 64 * 64 * 4]; graph.inputs().len() + graph.outputs().len()];
    Whole { text: entry.to_string(), entry, launch, buffers }
}

/// Breaks a few things: lines, words, characters.
fn damage(text: &str, random: &mut Random) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..=random.below(3) {
        let (at, other) = (random.below(lines.len()), random.below(lines.len()));
        match random.below(8) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[other].clone()),
            2 => lines.swap(at, other),
            3 => lines.truncate(at.max(8)),
            4 => {
                let number =
                    ["0", "-1", "4294967295", "18446744073709551616", "7"][random.below(5)];
                lines[at] = replace_number(&lines[at], number);
            }
            5 => {
                let mut characters: Vec<char> = lines[at].chars().collect();
                if !characters.is_empty() {
                    let place = random.below(characters.len());
                    characters[place] =
                        ['%', '.', '[', '0', 'x', '\u{e9}', ';', '{'][random.below(8)];
                }
                lines[at] = characters.into_iter().collect();
            }
            6 => {
                let words: Vec<&str> = lines[other].split(' ').collect();
                let word = words[random.below(words.len())].to_owned();
                lines[at] = format!("{} {word}", lines[at]);
            }
            _ => {
                let mut words: Vec<&str> = lines[at].split(' ').collect();
                let (first, second) = (random.below(words.len()), random.below(words.len()));
                words.swap(first, second);
                lines[at] = words.join(" ");
            }
        }
    }
    lines.join("\n")
}

/// The line with its last number exchanged.
fn replace_number(line: &str, number: &str) -> String {
    let Some(end) = line.rfind(|character: char| character.is_ascii_digit()) else {
        return line.to_owned();
    };
    let begin = line[..end].rfind(|character: char| !character.is_ascii_digit());
    format!("{}{number}{}", &line[..begin.map_or(0, |place| place + 1)], &line[end + 1..])
}

/// Whether every statement of the body is one of the table's, after the checker has seen them.
fn reads(whole: &Whole, damaged: &str) -> bool {
    let Ok(statements) = text::read(damaged) else { return false };
    let mut items = Vec::new();
    let mut known = true;
    for statement in &statements {
        match &statement.kind {
            StatementKind::Instruction(_) | StatementKind::Label(_) => {
                match Item::read(statement) {
                    Some(item) => items.push(item),
                    None => known = false,
                }
            }
            StatementKind::Directive(_) | StatementKind::Open | StatementKind::Close => {}
        }
    }
    check::check(&Entry { items, ..whole.entry.clone() });
    known
}

#[test]
fn damaged_kernels_never_panic_or_hang() {
    let count = std::env::var("POSTLUDE_FUZZ").ok().and_then(|count| count.parse().ok());
    let count: usize = count.unwrap_or(FEW);
    let wholes: Vec<Whole> = SOURCES.iter().map(|source| whole(source)).collect();
    let (mut good, mut run_through) = (0, 0);
    for seed in 0..count {
        let random = &mut Random::new(seed as u64);
        let whole = &wholes[seed % wholes.len()];
        let damaged = damage(&whole.text, random);
        if !reads(whole, &damaged) {
            continue;
        }
        good += 1;
        if run_through * RUN_ONE_IN >= count {
            continue;
        }
        run_through += 1;
        let timing = [Timing::Eager, Timing::Lazy, Timing::Random { seed: 1 }][seed % 3];
        let options = Options { timing, budget: BUDGET, ..Options::default() };
        // Whatever it says, it says it.
        run(&damaged, &whole.launch, &mut whole.buffers.clone(), &options).ok();
    }
    eprintln!("{count} damaged kernels: {good} read well, {run_through} of them were run");
    assert!(run_through * RUN_ONE_IN * 2 >= count, "too few read well to be run");
}
