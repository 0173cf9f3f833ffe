//! What is picked is what was checked: the schedules that the planner takes for kernels of the library at the sizes of
//! language models, in the simulator.
//!
//! A call is planned at its own sizes, and its launches run with the same schedules at smaller ones, on two CTAs, without a
//! finding. `POSTLUDE_THOROUGH=1 cargo test -p postlude-corpus --test all picks -- --nocapture` runs every pick and prints
//! what became of it; `POSTLUDE_KERNELS=linear,softmax_rows` leaves the other kernels out.

mod pick;
mod sizes;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use postlude::Sizes;
use postlude_corpus::{Case, is_thorough, kernels, read_file, read_text};

use pick::{Known, Pick, Planner};

/// A case of each kernel of the library: the first one of the corpus, or one that draws what is usual.
fn cases() -> Vec<Case> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/library.md");
    let all = read_file(&file).unwrap_or_else(|error| panic!("{error}"));
    let case = |name: &str| all.iter().find(|case| case.library.as_deref() == Some(name)).cloned();
    let named = std::env::var("POSTLUDE_KERNELS").ok();
    let wanted = kernels()
        .iter()
        .map(|kernel| kernel.name)
        .filter(|name| named.as_ref().is_none_or(|named| named.split(',').any(|own| own == *name)));
    let usual = |name: &str| {
        let text = format!("## {name}\n- kernel: {name}\n- sizes: M=1\n- expect: within bound\n");
        read_text("picks.md", &text).unwrap_or_else(|error| panic!("{error}")).remove(0)
    };
    let case = |name| case(name).unwrap_or_else(|| usual(name));
    wanted.map(|name| Case { title: name.to_owned(), ..case(name) }).collect()
}

/// Does something for every element on every core.
fn for_each<T: Sync>(all: &[T], work: impl Fn(&T) + Sync) {
    let next = Mutex::new(all.iter());
    let take = || next.lock().expect("nobody panics with it").next();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(one) = take() {
                    work(one);
                }
            });
        }
    });
}

#[derive(Default)]
struct Planned {
    /// Distinct picks.
    picks: Vec<Pick>,
    calls: usize,
    refused: BTreeMap<String, usize>,
}

/// The distinct picks of a kernel at these sizes.
fn planned(case: &Case, sizes: impl Fn(&[&str]) -> Vec<Sizes>) -> Planned {
    let planner = Planner::new(case);
    let (mut all, mut known) = (Planned::default(), BTreeSet::new());
    for sizes in sizes(&planner.dims()) {
        match planner.pick(&sizes) {
            Ok(pick) => {
                all.calls += 1;
                if known.insert(pick.code()) {
                    all.picks.push(pick);
                }
            }
            Err(refusal) => *all.refused.entry(refusal.summary()).or_default() += 1,
        }
    }
    all
}

/// Calls of every run of the tests: each way to load and to release stages, and launches that are several.
const SOME: &[(&str, &[(&str, usize)])] = &[
    ("w4a16_decode", &[("M", 64), ("N", 28672), ("K", 4096)]),
    ("linear", &[("M", 1), ("N", 50257), ("K", 768)]),
    ("fp8_block_linear", &[("M", 128), ("N", 4096), ("K", 4096)]),
    ("swiglu", &[("M", 64), ("N", 28672), ("K", 4096)]),
    ("moe_linear", &[("T", 2048), ("E", 64), ("N", 4096), ("K", 7168)]),
    ("rms_norm_rows", &[("M", 8192), ("N", 4096)]),
    ("softmax_rows", &[("M", 64), ("N", 50257)]),
];

#[test]
fn some_picks_run_without_a_finding() {
    let cases = cases();
    let picks = SOME.iter().filter_map(|(name, sizes)| {
        let case = cases.iter().find(|case| case.title == *name)?;
        let sizes = sizes.iter().map(|(dim, size)| ((*dim).to_owned(), *size)).collect();
        let pick = Planner::new(case).pick(&sizes);
        Some(pick.unwrap_or_else(|error| panic!("{name} {sizes:?}: {error}")))
    });
    let (picks, known) = (picks.collect::<Vec<_>>(), Known::default());
    for_each(&picks, |pick| {
        if let Err(error) = pick.run(&known) {
            panic!("{error}");
        }
    });
}

/// All of them: for each kernel those with a structure that no other one had, and then the rest.
#[test]
#[allow(clippy::print_stdout)] // Shown with `--nocapture` alone.
fn every_pick_for_a_language_model_runs_without_a_finding() {
    if !is_thorough() {
        return;
    }
    let start = Instant::now();
    let (known, seen) = (Known::default(), Mutex::new(BTreeSet::new()));
    let (later, failed) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let [calls, picks] = [(); 2].map(|()| AtomicUsize::new(0));
    let run = |pick: &Pick| match pick.run(&known) {
        Ok(ran) => println!("{:.0?} {}: {ran}", start.elapsed(), pick.about()),
        Err(error) => {
            println!("{:.0?} WRONG {error}", start.elapsed());
            failed.lock().expect("nobody panics with it").push(error);
        }
    };
    for_each(&cases(), |case| {
        let own = planned(case, sizes::of_dims);
        println!(
            "{}: {} calls, {} picks, refused {:?}",
            case.title,
            own.calls,
            own.picks.len(),
            own.refused
        );
        assert!(!own.picks.is_empty(), "{}", case.title);
        calls.fetch_add(own.calls, Ordering::Relaxed);
        picks.fetch_add(own.picks.len(), Ordering::Relaxed);
        for pick in own.picks {
            let fresh = {
                let mut seen = seen.lock().expect("nobody panics with it");
                pick.structures().fold(false, |fresh, own| seen.insert(own) | fresh)
            };
            if fresh { run(&pick) } else { later.lock().expect("nobody panics with it").push(pick) }
        }
    });
    let (later, seen) = (later.into_inner(), seen.into_inner());
    let (later, seen) =
        (later.expect("nobody panics with it"), seen.expect("nobody panics with it"));
    let [calls, picks] = [calls, picks].map(AtomicUsize::into_inner);
    println!(
        "{calls} calls, {picks} picks, {} structures; {} picks with no new one",
        seen.len(),
        later.len()
    );
    for_each(&later, run);
    let failed = failed.into_inner().expect("nobody panics with it");
    println!("{picks} picks, {} wrong, {:.0?}", failed.len(), start.elapsed());
    assert!(failed.is_empty(), "{} of {picks} picks\n{}", failed.len(), failed.join("\n"));
}
