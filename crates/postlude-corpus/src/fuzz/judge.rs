//! Runs a random kernel on an engine and compares it with the reference.
//!
//! In: a specimen. Out: a [`Verdict`]; nothing panics, whatever the engine does.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use postlude::dtype;
use postlude::reference::{self, Evaluated};
use postlude::target::CopyRule;
use postlude::tuning::Records;
use postlude::{Arguments, Backend, Compiled, Error, Hooks, MathMode, Options, Problem, Tensor};

use super::specimen::Specimen;
use super::tally::Tally;
use super::tile;
use crate::expect;

/// What became of a random kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Every element is one that the reference allows.
    Agreed(Tally),
    /// The engine does not run it, and says so.
    Refused(String),
    /// Something is wrong.
    Wrong(Wrong),
}

/// What is wrong with a random kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong {
    /// What sort of thing.
    pub kind: Kind,
    /// In words.
    pub found: String,
}

/// The sorts of things that go wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A kernel that was meant to be well-typed does not compile, or its arguments do not fit.
    Text,
    /// The engine reports an error that is no refusal; the simulator's findings among them.
    Error,
    /// Something panicked.
    Panic,
    /// An element that the reference does not allow.
    Mismatch,
    /// It did not end in the time it was given.
    Hang,
}

impl Kind {
    /// Every sort.
    pub const ALL: [Kind; 5] = [Kind::Mismatch, Kind::Panic, Kind::Error, Kind::Hang, Kind::Text];

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Text => "a random kernel that is none",
            Kind::Error => "an error",
            Kind::Panic => "a panic",
            Kind::Mismatch => "a wrong result",
            Kind::Hang => "no end",
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.found)
    }
}

/// Wrong elements that are shown of each output.
const SHOWN: usize = 4;

/// What runs random kernels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Engine {
    /// The backend; it uses one thread.
    pub backend: Backend,
    /// The folder of compiled kernels; the user's own when `None`.
    pub cache: Option<PathBuf>,
    /// How far a kernel is taken.
    pub until: Until,
}

/// How far a kernel is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Until {
    /// It is run and compared with the reference.
    #[default]
    Compared,
    /// It is planned and emitted for a GPU, and not run: many more kernels in the same time, for what panics.
    Emitted,
}

/// Runs a random kernel on an engine.
pub fn judge(specimen: &Specimen, engine: &Engine) -> Verdict {
    let caught = catch_unwind(AssertUnwindSafe(|| attempt(specimen, engine)));
    caught.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        wrong(Kind::Panic, text)
    })
}

fn wrong(kind: Kind, found: impl fmt::Display) -> Verdict {
    Verdict::Wrong(Wrong { kind, found: found.to_string() })
}

fn attempt(specimen: &Specimen, engine: &Engine) -> Verdict {
    let options = Options {
        backend: engine.backend,
        cache: engine.cache.clone(),
        math: specimen.way.math,
        threads: Some(1),
        records: Records::Off,
        hooks: Hooks {
            grid_limit: specimen.way.grid_limit,
            guard: true,
            timing: specimen.way.timing,
            schedule: None,
            // A given tile is one launch's: there operands are read as they lie.
            copies: CopyRule::Always,
            overlap: specimen.way.overlap,
            lists: false,
        },
        ..Options::default()
    };
    let kernel = match specimen.kernel() {
        Ok(kernel) => kernel,
        Err(error) => return wrong(Kind::Text, error),
    };
    let compiled = kernel.compile(&options);
    let bound = specimen.bind(&compiled).and_then(|(problem, arguments)| {
        let outputs = specimen.outputs(&compiled, &problem)?;
        Ok((problem, arguments, outputs))
    });
    let (problem, arguments, mut outputs) = match bound {
        Ok(bound) => bound,
        Err(error) => return wrong(Kind::Text, error),
    };
    let tile = specimen.way.tile.filter(|_| matches!(engine.backend, Backend::Sim | Backend::Cuda));
    let schedule =
        tile.and_then(|number| tile::schedule(number, &compiled, &problem, &arguments, &outputs));
    let compiled = match &schedule {
        Some(_) => {
            let hooks = Hooks { schedule: schedule.clone(), ..options.hooks.clone() };
            kernel.compile(&Options { hooks, ..options })
        }
        None => compiled,
    };
    if engine.until == Until::Emitted {
        let emitted =
            compiled.simulate_launches(&problem, &arguments, &mut outputs, &mut |_, _| Ok(()));
        return match emitted {
            Ok(()) => Verdict::Agreed(Tally::default()),
            Err(error) => refused_or_wrong(&error),
        };
    }
    let mut verdict = compare(&compiled, specimen.way.math, (&problem, &arguments), outputs);
    if let (Verdict::Wrong(wrong), Some(schedule)) = (&mut verdict, schedule) {
        wrong.found = format!("{}\n{schedule}", wrong.found);
    }
    verdict
}

/// Runs a call into these outputs and compares them.
fn compare(
    compiled: &Compiled,
    math: MathMode,
    (problem, arguments): (&Problem, &Arguments),
    mut outputs: Vec<Tensor>,
) -> Verdict {
    if let Err(error) = compiled.run_into(problem, arguments, &mut outputs) {
        return refused_or_wrong(&error);
    }
    let wanted = match math {
        MathMode::Default | MathMode::Accurate => compiled.evaluate(problem, arguments),
        // Relaxed algebra changes what a kernel means, so what is meant is what it made of it.
        MathMode::Fast => {
            reference::evaluate(compiled.optimised(), problem, arguments, MathMode::Fast)
                .map_err(Error::from)
        }
    };
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(error) => return refused_or_wrong(&error),
    };
    let found: Vec<String> =
        wanted.iter().zip(&outputs).filter_map(|(want, got)| difference(want, got)).collect();
    if !found.is_empty() {
        return wrong(Kind::Mismatch, found.join("\n"));
    }
    let mut tally = Tally::default();
    for want in &wanted {
        tally.add(Tally::of(want));
    }
    Verdict::Agreed(tally)
}

fn refused_or_wrong(error: &Error) -> Verdict {
    if error.is_refusal() { Verdict::Refused(error.summary()) } else { wrong(Kind::Error, error) }
}

/// The first elements that the reference does not allow.
fn difference(want: &Evaluated, got: &Tensor) -> Option<String> {
    if let Err(found) = expect::same_type(want, got) {
        return Some(found);
    }
    let all = got.values();
    let elements = (0..want.values.len()).map(|at| (at, all[want.place(at)]));
    let outside: Vec<(usize, f64)> =
        elements.filter(|(at, got)| want.distance(*at, *got) > 1.0).collect();
    if outside.is_empty() {
        return overwritten(want, &all);
    }
    let shown = outside.iter().take(SHOWN);
    let shown = shown
        .map(|(at, got)| expect::element(want, want.place(*at), *got, want.values[*at].nominal));
    Some(format!(
        "{} of {} elements of `{}` are wrong\n  {}",
        outside.len(),
        want.values.len(),
        want.name,
        shown.collect::<Vec<_>>().join("\n  ")
    ))
}

/// The first element that the kernel does not write and that is not what memory held before: zeros, or the bytes of all ones
/// that guarded outputs begin with.
fn overwritten(want: &Evaluated, all: &[f64]) -> Option<String> {
    let mut kept = vec![true; all.len()];
    (0..want.values.len()).for_each(|at| kept[want.place(at)] = false);
    let before = Tensor::zeros(want.dtype, vec![1]).ok()?.values()[0];
    let guarded = dtype::load(want.dtype, &[0xff; 4], 0);
    let is = |got: f64, held: f64| got == held || (got.is_nan() && held.is_nan());
    let as_before = |got: f64| is(got, before) || is(got, guarded);
    let at = (0..all.len()).find(|at| kept[*at] && !as_before(all[*at]))?;
    Some(format!("element {at} of `{}` is behind all segments, and was written", want.name))
}
