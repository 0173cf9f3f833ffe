//! Good kernels, and ways to break one thing of a text.

use postlude::DType;
use postlude::target::{Cluster, Tile};
use postlude_ptx::launch::{Parameter, TensorMap};
use postlude_sim::Diagnosis;

use crate::bound::{Bound, epilogue, tile};

pub(crate) mod emitted;
pub(crate) mod lanes;
pub(crate) mod ordered;
pub(crate) mod ordered_emitted;
pub(crate) mod written;

/// A copy of a tile from shared to global memory.
const STORE: &str = "cp.async.bulk.tensor.3d.global";

/// A good kernel of the library's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Base {
    /// 64x64, four tiles, nine steps in a ring of eight.
    Plain,
    /// The same on two CTAs.
    Pair,
    /// 128x256 on a cluster of two, twice around the ring.
    Cluster,
    /// C arrives by TMA: six tiles in a ring of four.
    Residual,
    /// Values along columns in shared memory.
    Bias,
    /// Two outputs, of two types.
    TwoOutputs,
    /// An output of single precision.
    Wide,
    /// A column-major output, for which the warps of a warpgroup meet.
    Columns,
    /// Sizes that are no multiples of anything, and outputs straight to memory.
    Odd,
    /// Partial results of rows, from two tiles.
    Reduction,
    /// Rows that two tiles of a cluster hold together.
    Across,
    /// A contraction that two CTAs of a cluster share.
    Halves,
}

impl Base {
    pub(crate) const ALL: [Base; 12] = [
        Base::Plain,
        Base::Pair,
        Base::Cluster,
        Base::Residual,
        Base::Bias,
        Base::TwoOutputs,
        Base::Wide,
        Base::Columns,
        Base::Odd,
        Base::Reduction,
        Base::Across,
        Base::Halves,
    ];

    pub(crate) fn bound(self) -> Bound {
        let (name, sizes, tile, grid) = match self {
            Base::Plain => ("plain", [1, 64, 256, 576], tile(64, 64, 1), 1),
            Base::Pair => ("plain", [1, 64, 256, 128], tile(64, 64, 1), 2),
            Base::Cluster => ("plain", [1, 256, 256, 512], tile(128, 256, 2), 2),
            Base::Residual => ("residual", [1, 64, 384, 64], tile(64, 64, 1), 1),
            Base::Bias => ("bias_relu", [1, 128, 384, 128], tile(128, 128, 1), 1),
            Base::TwoOutputs => ("two_outputs", [1, 64, 128, 128], tile(64, 64, 1), 1),
            Base::Wide => ("wide", [1, 64, 128, 128], tile(64, 64, 1), 1),
            Base::Columns => {
                let text = epilogue("plain", DType::BF16).replace("[M, N]", "[N, M]");
                return Bound::new(&text, [1, 64, 256, 576], tile(64, 64, 1), 1);
            }
            Base::Reduction => {
                let text =
                    "kernel k(A: bf16[M, K], W: bf16[N, K]) -> s: f32[M] { s = sum(A @ W.T, N) }";
                return Bound::new(text, [1, 64, 128, 64], tile(64, 64, 1), 2);
            }
            Base::Across => {
                let text = "kernel k(A: bf16[M, K], W: bf16[N, K]) -> D: f32[M, N] {
    z = A @ W.T
    D = z - max(z, N)
}";
                let beside = Cluster::ALL.into_iter().find(|each| each.columns() == 2);
                let cluster = beside.expect("two side by side");
                return Bound::new(text, [1, 64, 128, 64], Tile { cluster, ..tile(64, 64, 1) }, 2);
            }
            Base::Halves => {
                let (text, cluster) = (epilogue("plain", DType::BF16), Cluster::SPLIT_K_2);
                return Bound::new(&text, [1, 64, 64, 256], Tile { cluster, ..tile(64, 64, 1) }, 2);
            }
            Base::Odd => ("residual", [1, 70, 95, 72], tile(64, 64, 1), 2),
        };
        Bound::new(&epilogue(name, DType::BF16), sizes, tile, grid)
    }
}

/// Which of the lines that match a pattern.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which {
    /// That one, from 0.
    At(usize),
    /// The last.
    Last,
    /// All.
    All,
}

/// A change of a text, or of what it is launched with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Edit {
    /// Lines that match the pattern are dropped.
    Drop(Which, &'static str),
    /// In lines that match the pattern, the second text becomes the third.
    Replace(Which, &'static str, &'static str, &'static str),
    /// After a line that matches the pattern comes another.
    After(Which, &'static str, &'static str),
    /// A line that matches the pattern comes twice.
    Twice(Which, &'static str),
    /// The first coordinate of lines that match the pattern is another.
    Coordinate(Which, &'static str, &'static str),
    /// A wait for a phase, by its place among all, is always over.
    NoWait(usize),
    /// A wait starts with the other parity.
    OtherParity(usize),
    /// A wait keeps its parity when the ring comes round.
    SameParity(usize),
    /// A wait for a phase, by its place among all, is over at once for the warps of a warpgroup that are not named.
    WaitOnly(usize, u32),
    /// Lines that match the pattern are executed once by each warp.
    Once(Which, &'static str),
    /// Barriers lie at that place of shared memory.
    Barriers(u32),
    /// Barriers lie where that region is.
    Over(&'static str),
    /// Something else than the text.
    Launch(fn(&mut Bound)),
}

/// A broken kernel.
pub(crate) struct Broken {
    pub(crate) name: &'static str,
    pub(crate) base: Base,
    pub(crate) edit: Edit,
    pub(crate) diagnosis: Diagnosis,
    /// What the blamed instruction contains, and the region where it is, if it is in one.
    pub(crate) at: &'static str,
    pub(crate) region: Option<&'static str>,
}

/// A broken kernel that may be blamed in any region.
pub(crate) const fn broken(
    name: &'static str,
    base: Base,
    edit: Edit,
    diagnosis: Diagnosis,
    at: &'static str,
) -> Broken {
    Broken { name, base, edit, diagnosis, at, region: None }
}

impl Broken {
    /// The same, blamed in a region of shared memory.
    const fn within(self, region: &'static str) -> Broken {
        Broken { region: Some(region), ..self }
    }

    pub(crate) fn bound(&self) -> Bound {
        let mut bound = self.base.bound();
        if let Edit::Launch(change) = self.edit {
            change(&mut bound);
            return bound;
        }
        let edit = match self.edit {
            Edit::Over(name) => Edit::Barriers(bound.region(name).offset),
            other => other,
        };
        let barriers = bound.region("barriers").offset;
        let mut lines: Vec<String> = bound.text.lines().map(str::to_owned).collect();
        if let Edit::Barriers(place) = edit {
            let from = format!("shared_memory+{barriers};");
            for line in lines.iter_mut().filter(|line| line.contains(&from)) {
                *line = line.replace(&from, &format!("shared_memory+{place};"));
            }
        }
        apply(edit, &mut lines);
        let text = lines.join("\n") + "\n";
        assert_ne!(text, bound.text, "{}: nothing changed", self.name);
        bound.text = text;
        bound
    }
}

/// A tensor map of a launch, by its place among them.
pub(crate) fn map(bound: &mut Bound, place: usize) -> &mut TensorMap {
    let maps = bound.launch.parameters.iter_mut().filter_map(|parameter| match parameter {
        Parameter::Map(map) => Some(map),
        Parameter::Pointer { .. } | Parameter::U32(_) | Parameter::U64(_) | Parameter::F32(_) => {
            None
        }
    });
    maps.into_iter().nth(place).expect("a map")
}

/// Whether a line contains the parts of a pattern in turn; `*` is anything between two.
fn matches(line: &str, pattern: &str) -> bool {
    let mut rest = Some(line);
    for part in pattern.split('*') {
        rest = rest.and_then(|rest| rest.split_once(part)).map(|(_, after)| after);
    }
    rest.is_some()
}

/// Places of lines that match a pattern.
pub(crate) fn places(lines: &[String], which: Which, pattern: &str) -> Vec<usize> {
    let all = lines.iter().enumerate().filter(|(_, line)| matches(line, pattern));
    let all: Vec<usize> = all.map(|(place, _)| place).collect();
    assert!(!all.is_empty(), "no `{pattern}`");
    match which {
        Which::At(number) => vec![all[number]],
        Which::Last => vec![all[all.len() - 1]],
        Which::All => all,
    }
}

/// A register of a class that nothing uses.
fn fresh(lines: &mut [String], class: &str) -> String {
    let line = lines.iter_mut().find(|line| line.contains(".reg ") && line.contains(class));
    let line = line.expect("the class is declared");
    let (before, after) = line.split_once('<').expect("a count of registers");
    let count: u32 = after.trim_end_matches(">;").parse().expect("a number");
    let prefix = before.split_whitespace().last().expect("a prefix").to_owned();
    *line = format!("{before}<{}>;", count + 1);
    format!("{prefix}{count}")
}

/// The registers of a wait: its predicate and its parity.
fn wait(lines: &[String], number: usize) -> (usize, String, String) {
    let place = places(lines, Which::At(number), "mbarrier.try_wait")[0];
    let words: Vec<&str> = lines[place].trim().trim_end_matches(';').split_whitespace().collect();
    let predicate = words[1].trim_end_matches(',').to_owned();
    (place, predicate, words[words.len() - 1].to_owned())
}

fn apply(edit: Edit, lines: &mut Vec<String>) {
    match edit {
        Edit::Drop(which, pattern) => {
            let gone = places(lines, which, pattern);
            let mut place = 0;
            lines.retain(|_| {
                place += 1;
                !gone.contains(&(place - 1))
            });
        }
        Edit::Replace(which, pattern, from, to) => {
            for place in places(lines, which, pattern) {
                assert!(lines[place].matches(from).count() <= 1, "`{from}` in {}", lines[place]);
                lines[place] = lines[place].replace(from, to);
            }
        }
        Edit::After(which, pattern, new) => {
            for place in places(lines, which, pattern).into_iter().rev() {
                lines.insert(place + 1, new.to_owned());
            }
        }
        Edit::Twice(which, pattern) => {
            for place in places(lines, which, pattern).into_iter().rev() {
                lines.insert(place, lines[place].clone());
            }
        }
        Edit::Coordinate(which, pattern, other) => {
            for place in places(lines, which, pattern) {
                let (before, rest) = lines[place].split_once('{').expect("it has coordinates");
                let (_, after) = rest.split_once(',').expect("it has several");
                lines[place] = format!("{before}{{{other},{after}");
            }
        }
        Edit::NoWait(number) => {
            let (place, predicate, _) = wait(lines, number);
            lines[place] = format!("mov.pred {predicate}, 1;");
        }
        Edit::OtherParity(number) => {
            let (place, _, parity) = wait(lines, number);
            let start = format!("mov.b32 {parity}, ");
            let first = lines[..place].iter().rposition(|line| line.contains(&start));
            let line = &mut lines[first.expect("it starts somewhere")];
            *line = if line.ends_with(", 0;") {
                line.replace(", 0;", ", 1;")
            } else {
                line.replace(", 1;", ", 0;")
            };
        }
        Edit::SameParity(number) => {
            let (place, _, parity) = wait(lines, number);
            let change = format!(" mov.b32 {parity}, ");
            let after = lines[place..].iter().position(|line| line.contains(&change));
            lines.remove(place + after.expect("it changes somewhere"));
        }
        Edit::WaitOnly(number, warps) => wait_only(lines, number, warps),
        Edit::Once(which, pattern) => execute_once(lines, which, pattern),
        Edit::Barriers(_) | Edit::Over(_) | Edit::Launch(_) => {}
    }
}

/// A wait is over at once for the warps of a warpgroup that are not named.
fn wait_only(lines: &mut Vec<String>, number: usize, warps: u32) {
    let (place, predicate, _) = wait(lines, number);
    let [warp, named] = [fresh(lines, ".b32 %r<"), fresh(lines, ".b32 %r<")];
    let waits = fresh(lines, ".pred %p<");
    let line = lines[place].trim().to_owned();
    let new = format!(
        "mov.u32 {warp}, %tid.x;\nshr.u32 {warp}, {warp}, 5;\nand.b32 {warp}, {warp}, 3;
mov.b32 {named}, {warps};\nshr.u32 {named}, {named}, {warp};\nand.b32 {named}, {named}, 1;
setp.ne.u32 {waits}, {named}, 0;\nmov.pred {predicate}, 1;\n@{waits} {line}"
    );
    lines.splice(place..=place, new.lines().map(str::to_owned));
}

/// Each warp executes lines once.
fn execute_once(lines: &mut Vec<String>, which: Which, pattern: &str) {
    let first = fresh(lines, ".pred %p<");
    for place in places(lines, which, pattern).into_iter().rev() {
        let line = lines[place].trim().to_owned();
        let new = [format!("@{first} {line}"), format!("mov.pred {first}, 0;")];
        lines.splice(place..=place, new);
    }
    let declared = lines.iter().rposition(|line| line.contains(".reg ")).expect("registers");
    lines.insert(declared + 1, format!("mov.pred {first}, 1;"));
}
