//! The simulator runs the launches that golden files, `explain` and `emit` name.

use std::path::Path;

use postlude::target::Chip;
use postlude::{Compiled, Options};
use postlude_corpus::{Case, bind, compile, read_folder};

/// A launch by its schedule and its PTX.
type Launch = (String, String);

/// What the simulator runs of a case, each once: launches that are repeated for chunks come again. Nothing is computed, for
/// no launch depends on values.
fn run(case: &Case, compiled: &Compiled) -> Result<Vec<Launch>, postlude::Error> {
    let (problem, arguments) = bind(case, compiled, None).expect("the case has what it needs");
    let mut outputs = compiled.outputs(&problem)?;
    let mut all: Vec<Launch> = Vec::new();
    compiled.simulate_launches(&problem, &arguments, &mut outputs, &mut |call, _| {
        let launch = (call.schedule().to_string(), call.text().to_owned());
        if !all.contains(&launch) {
            all.push(launch);
        }
        Ok(())
    })?;
    Ok(all)
}

/// What planning names.
fn named(case: &Case, compiled: &Compiled) -> Result<Vec<Launch>, postlude::Error> {
    let (problem, arguments) = bind(case, compiled, None).expect("the case has what it needs");
    let mut all: Vec<Launch> = Vec::new();
    for launch in compiled.chosen_with(&problem, &arguments, Chip::STANDARD)?.launches() {
        let planned = launch.planned();
        let launch = (planned.schedule().to_string(), launch.emitted(planned).to_string());
        if !all.contains(&launch) {
            all.push(launch);
        }
    }
    Ok(all)
}

#[test]
fn every_case_runs_the_launches_that_planning_names() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let cases = read_folder(&folder).expect("the corpus can be read");
    let mut compared = 0;
    for case in cases.iter().filter(|case| !case.expects_error()) {
        let compiled = compile(case, &Options::default()).expect("the case compiles");
        match (run(case, &compiled), named(case, &compiled)) {
            (Ok(run), Ok(named)) => {
                assert!(named.len() <= run.len(), "{}: more launches are named", case.name());
                for (number, launch) in named.iter().enumerate() {
                    assert!(run.contains(launch), "{}: launch {number}\n{}", case.name(), launch.0);
                }
                let repeated = run.len() > named.len();
                assert!(!repeated || case.name().contains("chunk"), "{}", case.name());
                compared += 1;
            }
            (Err(run), Err(named)) => assert_eq!(run.summary(), named.summary(), "{}", case.name()),
            (run, named) => panic!("{}: {:?} but {:?}", case.name(), run.err(), named.err()),
        }
    }
    assert!(compared > 1000, "{compared}");
}
