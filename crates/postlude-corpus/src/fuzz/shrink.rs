//! Makes a random kernel that fails smaller, as long as it fails in the same way.

use std::time::{Duration, Instant};

use postlude::dtype::Elem;
use postlude::sim::Timing;
use postlude::target::Overlap;
use postlude::{DType, MathMode};

use super::judge::{Engine, Kind, Verdict, Wrong, judge};
use super::sketch::Sketch;
use super::specimen::{Drawn, Specimen};
use crate::fill::Fill;

/// A smaller specimen that fails in the same way, and how. It takes about as long as it is given.
pub fn shrink(
    specimen: &Specimen,
    engine: &Engine,
    wrong: &Wrong,
    time: Duration,
) -> (Specimen, Wrong) {
    let search = Search { engine, wrong, end: Instant::now() + time };
    let mut best = (specimen.clone(), wrong.clone());
    // Each round may make room for the next.
    while Instant::now() < search.end && search.round(&mut best) {}
    best
}

struct Search<'a> {
    engine: &'a Engine,
    wrong: &'a Wrong,
    end: Instant,
}

impl Search<'_> {
    /// Whether anything became smaller.
    fn round(&self, best: &mut (Specimen, Wrong)) -> bool {
        let before = best.0.clone();
        let changes: [fn(&Specimen) -> Vec<Specimen>; 8] =
            [outputs, unused, plain_way, places, statements, sizes, fills, dtypes];
        for change in changes {
            let mut place = 0;
            // What was tried before a success is not tried again in this round.
            while let Some(smaller) = change(&best.0).into_iter().nth(place) {
                if Instant::now() > self.end {
                    return best.0 != before;
                }
                match self.fails(&smaller) {
                    Some(wrong) => *best = (smaller, wrong),
                    None => place += 1,
                }
            }
        }
        best.0 != before
    }

    /// Whether it fails in the same way: of panics and errors, with the same first words.
    fn is_the_same(&self, wrong: &Wrong) -> bool {
        // Names and numbers of nodes differ; what comes before them does not.
        let words = |text: &'_ str| -> String {
            text.chars().take_while(|letter| !letter.is_ascii_digit()).take(40).collect()
        };
        wrong.kind == self.wrong.kind
            && (wrong.kind == Kind::Mismatch || words(&wrong.found) == words(&self.wrong.found))
    }

    fn fails(&self, specimen: &Specimen) -> Option<Wrong> {
        match judge(specimen, self.engine) {
            Verdict::Wrong(wrong) if self.is_the_same(&wrong) => Some(wrong),
            Verdict::Wrong(_) | Verdict::Agreed(_) | Verdict::Refused(_) => None,
        }
    }
}

/// The same specimen of another kernel.
fn of(specimen: &Specimen, drawn: Drawn) -> Specimen {
    Specimen { drawn, ..specimen.clone() }
}

/// Without one of the outputs.
fn outputs(specimen: &Specimen) -> Vec<Specimen> {
    let count = match &specimen.drawn {
        Drawn::Kernel(sketch) => sketch.outputs.len(),
        Drawn::Program(program) => program.outputs.len(),
    };
    let without = |place: usize| {
        let mut smaller = specimen.clone();
        match &mut smaller.drawn {
            Drawn::Kernel(sketch) => drop(sketch.outputs.remove(place)),
            Drawn::Program(program) => drop(program.outputs.remove(place)),
        }
        smaller
    };
    if count > 1 { (0..count).map(without).collect() } else { Vec::new() }
}

/// Without one of the values that no output needs.
fn unused(specimen: &Specimen) -> Vec<Specimen> {
    let Drawn::Kernel(sketch) = &specimen.drawn else { return Vec::new() };
    let without = |place: usize| {
        let mut sketch = sketch.clone();
        sketch.unused.remove(place);
        of(specimen, Drawn::Kernel(sketch))
    };
    (0..sketch.unused.len()).map(without).collect()
}

/// Without one of the oddities of how it is run.
fn plain_way(specimen: &Specimen) -> Vec<Specimen> {
    let mut all = Vec::new();
    let mut add = |change: fn(&mut Specimen)| {
        let mut smaller = specimen.clone();
        change(&mut smaller);
        if smaller != *specimen {
            all.push(smaller);
        }
    };
    add(|smaller| smaller.way.timing = Timing::Eager);
    add(|smaller| smaller.way.grid_limit = None);
    add(|smaller| smaller.way.math = MathMode::Default);
    add(|smaller| smaller.way.tile = None);
    add(|smaller| smaller.way.overlap = Overlap::Never);
    all
}

/// With one tensor packed.
fn places(specimen: &Specimen) -> Vec<Specimen> {
    let names = specimen.places.keys();
    let packed = names.map(|name| {
        let mut smaller = specimen.clone();
        smaller.places.remove(name);
        smaller
    });
    packed.collect()
}

/// With what a statement reads in place of what it gives, the last statements first.
fn statements(specimen: &Specimen) -> Vec<Specimen> {
    let smaller: Vec<Drawn> = match &specimen.drawn {
        Drawn::Kernel(sketch) => with_one_less(sketch).into_iter().map(Drawn::Kernel).collect(),
        Drawn::Program(program) => {
            program.with_one_less().into_iter().map(Drawn::Program).collect()
        }
    };
    smaller.into_iter().map(|drawn| of(specimen, drawn)).collect()
}

fn with_one_less(sketch: &Sketch) -> Vec<Sketch> {
    let live = sketch.live();
    let mut all = Vec::new();
    for statement in sketch.statements.iter().rev() {
        for target in statement.targets.iter().filter(|target| live[**target]) {
            // An input of the same type is as good as what the statement reads, and needs less.
            let inputs = sketch.inputs.iter().map(|input| input.value);
            for operand in inputs.chain(statement.operands.iter().copied()) {
                // Where dims differ, the outputs would have to be declared anew.
                let [from, to] = [operand, *target].map(|id| &sketch.values[id]);
                if (from.ty, from.stack) == (to.ty, to.stack) {
                    all.push(sketch.replaced(*target, operand));
                }
            }
        }
    }
    all
}

/// With one size smaller.
fn sizes(specimen: &Specimen) -> Vec<Specimen> {
    let [batch, rows, columns] = match &specimen.drawn {
        Drawn::Kernel(sketch) => sketch.multiples(),
        Drawn::Program(_) => [1; 3],
    };
    let multiples = [batch, rows, columns].into_iter().chain(std::iter::repeat(1));
    let mut all = Vec::new();
    for (place, multiple) in multiples.take(specimen.sizes.len()).enumerate() {
        let size = specimen.sizes[place];
        let mut smaller: Vec<usize> = [1, 8, 16, 64, size / 2, size.saturating_sub(1)]
            .into_iter()
            .map(|size| size.next_multiple_of(multiple))
            .filter(|smaller| (1..size).contains(smaller))
            .collect();
        smaller.dedup();
        for size in smaller {
            let mut specimen = specimen.clone();
            specimen.sizes[place] = size;
            all.push(specimen);
        }
    }
    all
}

/// With one input of simpler data.
fn fills(specimen: &Specimen) -> Vec<Specimen> {
    let mut all = Vec::new();
    for (name, kind) in &specimen.fills {
        for simpler in [Fill::Ones, Fill::Integers, Fill::Normal] {
            if *kind == simpler || *kind == Fill::Labels {
                break;
            }
            let mut specimen = specimen.clone();
            specimen.fills.insert(name.clone(), simpler);
            all.push(specimen);
        }
    }
    all
}

/// With one output in the dtype that its value has.
fn dtypes(specimen: &Specimen) -> Vec<Specimen> {
    let mut all = Vec::new();
    match &specimen.drawn {
        Drawn::Kernel(sketch) => {
            for (place, output) in sketch.outputs.iter().enumerate() {
                let plain = match sketch.values[output.value].ty.elem {
                    Elem::F32 => DType::F32,
                    Elem::I32 => DType::I32,
                    Elem::Bool => DType::Bool,
                };
                if output.dtype != plain {
                    let mut sketch = sketch.clone();
                    sketch.outputs[place].dtype = plain;
                    all.push(of(specimen, Drawn::Kernel(sketch)));
                }
            }
        }
        Drawn::Program(program) => {
            for (place, output) in program.outputs.iter().enumerate() {
                if output.dtype != DType::F32 {
                    let mut program = program.clone();
                    program.outputs[place].dtype = DType::F32;
                    all.push(of(specimen, Drawn::Program(program)));
                }
            }
        }
    }
    all
}
