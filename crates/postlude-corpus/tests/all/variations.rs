//! Every case on the CPU again, with what must not matter varied: where inputs lie in memory, how many threads there are.

use std::path::Path;

use postlude::Backend;
use postlude_corpus::{Case, Layout, Outcome, RunOptions, read_folder, run};

fn check_all(options: &RunOptions) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let cases: Vec<Case> = match read_folder(&folder) {
        Ok(cases) => cases,
        Err(error) => panic!("{error}"),
    };
    let mut reports = Vec::new();
    for case in cases.iter().filter(|case| !case.expects_error()) {
        if let Outcome::Failed(report) = run(case, Backend::Cpu, options) {
            reports.push(report.to_string());
        }
    }
    assert!(reports.is_empty(), "{} cases failed:\n{}", reports.len(), reports.join("\n"));
}

fn with_layout(layout: Layout) -> RunOptions {
    RunOptions { threads: Some(1), layout: Some(layout), ..RunOptions::default() }
}

#[test]
fn padded_inputs_change_nothing() {
    check_all(&with_layout(Layout::Padded));
}

#[test]
fn transposed_inputs_change_nothing() {
    check_all(&with_layout(Layout::Transposed));
}

#[test]
fn reversed_inputs_change_nothing() {
    check_all(&with_layout(Layout::Reversed));
}

#[test]
fn offset_inputs_change_nothing() {
    check_all(&with_layout(Layout::Offset));
}

#[test]
fn three_threads_change_nothing() {
    check_all(&RunOptions { threads: Some(3), ..RunOptions::default() });
}
