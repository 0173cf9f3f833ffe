//! Every case on the CPU again, with what must not matter varied: where inputs lie in memory, how many threads there are.

use std::path::Path;

use postlude::Backend;
use postlude_corpus::{Case, Layout, Outcome, RunOptions, Wanted, read_folder, run_again};

fn with_layout(layout: Layout) -> RunOptions {
    RunOptions { threads: Some(1), layout: Some(layout), ..RunOptions::default() }
}

#[test]
fn layouts_and_threads_change_nothing() {
    let variations = [
        ("padded", with_layout(Layout::Padded)),
        ("transposed", with_layout(Layout::Transposed)),
        ("reversed", with_layout(Layout::Reversed)),
        ("offset", with_layout(Layout::Offset)),
        ("three threads", RunOptions { threads: Some(3), ..RunOptions::default() }),
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let cases: Vec<Case> = match read_folder(&folder) {
        Ok(cases) => cases,
        Err(error) => panic!("{error}"),
    };
    let mut reports = Vec::new();
    for case in cases.iter().filter(|case| !case.expects_error()) {
        let wanted = Wanted::default();
        for (name, options) in &variations {
            if let Outcome::Failed(report) = run_again(case, Backend::Cpu, options, &wanted) {
                reports.push(format!("{name}: {report}"));
            }
        }
    }
    assert!(reports.is_empty(), "{} cases failed:\n{}", reports.len(), reports.join("\n"));
}
