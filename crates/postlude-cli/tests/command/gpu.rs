//! What the command says about GPUs, on a machine that shows it none.

use std::fs;

use postlude::target::Schedule;
use serde_json::json;

use super::{Ended, command, postlude, postlude_in, repository};

const SIZES: [&str; 2] = ["--size", "M=512,N=512,K=256"];
const RELU: &str = "D = relu(A @ W.T + bias[N])";

fn explain(stage: &str) -> String {
    let arguments = ["explain", RELU, "--target", "sm90", "--stage", stage];
    postlude(&[&arguments[..], &SIZES].concat()).fine()
}

#[test]
fn auto_says_why_the_processor_runs_a_kernel_and_json_does_not() {
    let run = ["run", "D = A @ W.T", "--size", "M=2,N=3,K=4"];
    let cache = tempfile::tempdir().unwrap();
    let output = command(&run).env("POSTLUDE_CACHE_DIR", cache.path()).output().unwrap();
    let ended = Ended::of(&output);
    assert!(ended.note.is_some_and(|note| note.len() > 40), "{}", ended.errors);
    let ended = postlude(&[&run[..], &["--json"]].concat());
    assert_eq!((ended.note.as_deref(), ended.errors.as_str()), (None, ""));
    assert_eq!(ended.object()["backend"], json!("cpu"));
    let ended = postlude(&[&run[..], &["--backend", "cpu"]].concat());
    assert_eq!(ended.note, None);
}

#[test]
fn a_gpu_that_is_not_there_is_a_mistake_with_a_fix() {
    let run = ["run", "D = A @ W.T", "--size", "M=2,N=3,K=4", "--backend", "cuda"];
    let errors = postlude(&run).mistake();
    assert!(errors.contains("CPU backend"), "{errors}");
    let corpus = postlude_in(repository(), &["corpus", "plain::", "--backend", "cuda"]).mistake();
    assert!(corpus.contains("CPU backend"), "{corpus}");
}

#[test]
fn what_is_for_a_gpu_is_refused_elsewhere() {
    for arguments in [
        &["run", "D = A @ W.T", "--backend", "cpu", "--grid-limit", "2"][..],
        &["run", "D = A @ W.T", "--backend", "reference", "--schedule", "s.txt"],
        &["corpus", "plain::", "--grid-limit", "2"],
        &["explain", "D = A @ W.T", "--stage", "candidates"],
    ] {
        let errors = postlude_in(repository(), arguments).mistake();
        assert!(errors.contains("is for a GPU"), "{arguments:?}: {errors}");
    }
}

#[test]
fn a_hopper_schedule_parses_back_and_is_taken_from_a_file() {
    let printed = explain("schedule");
    let schedule: Schedule = printed.parse().unwrap();
    assert_eq!(schedule.to_string(), printed);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.txt");
    fs::write(&path, SMALL).unwrap();
    let name = path.to_str().unwrap();
    let explain = ["explain", RELU, "--target", "sm90", "--stage", "schedule", "--schedule", name];
    let taken = postlude(&[&explain[..], &SIZES].concat()).fine();
    assert!(taken.contains("tile 64 x 64 x 64") && taken.contains("stages 2"), "{taken}");
    let code = postlude(&[&["emit", RELU, "--schedule", name][..], &SIZES].concat()).fine();
    assert!(code.contains(".maxntid 256") || code.contains(".reqntid 256"), "{code:.400}");
}

/// A schedule without the knobs that may be left out.
const SMALL: &str = "schedule sm90 {
    kernel cooperative
    tile 64 x 64 x 64
    math_warpgroups 1
    cluster 1 x 1
    stages 2
    wgmma_in_flight 1
    raster along_n group 1
    hints none
    epilogue_tile 32
    c_stages 1
    d_stages 2
    operands tma_k_major tma_k_major
    epilogue_loads
    epilogue_stores tma
    column_values 1
}
";

/// The same in words of the last release.
const OLD: &str = "schedule sm90 {
    tile 64 x 64
    consumers 1
    teams 1
    cluster 1 x 1
    stages 2
    subtile 32
    load_stages 1
    store_stages 2
    pending 1
    hints none
    walk rows 1
    operands inner inner
    loads
    stores map
    column_values 1
}
";

#[test]
fn a_schedule_of_the_last_release_is_taken_with_one_warning() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.txt");
    let name = path.to_str().unwrap();
    let explain = ["explain", RELU, "--target", "sm90", "--stage", "schedule", "--schedule", name];
    let explain = [&explain[..], &SIZES].concat();
    fs::write(&path, SMALL).unwrap();
    let small = postlude(&explain).fine();
    fs::write(&path, OLD).unwrap();
    let old = postlude(&explain);
    assert_eq!((old.code, old.output), (Some(0), small));
    assert_eq!(old.errors.matches("warning").count(), 1, "{}", old.errors);
    let wanted = "old.txt: this schedule is in words of the last release";
    assert!(old.errors.contains(wanted), "{}", old.errors);
    let object = postlude(&[&explain[..], &["--json"]].concat()).object();
    let message = object["warnings"][0]["message"].as_str().unwrap();
    assert!(message.contains(wanted), "{message}");
}

#[test]
fn a_bad_schedule_is_named_with_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.txt");
    let name = path.to_str().unwrap();
    let good = explain("schedule");
    let emit = || postlude(&[&["emit", RELU, "--schedule", name][..], &SIZES].concat()).mistake();
    fs::write(&path, good.replace("stages 2", "stages two")).unwrap();
    let errors = emit();
    assert!(
        errors.contains("s.txt:") && errors.contains("`two` is not a value of the knob `"),
        "{errors}"
    );
    fs::write(&path, good.replace("    raster along_n group 8\n", "")).unwrap();
    let errors = emit();
    assert!(errors.contains("s.txt: the schedule does not say `raster`"), "{errors}");
    let warpgroups = good.lines().find(|line| line.contains("math_warpgroups")).unwrap();
    let cluster = good.lines().find(|line| line.contains("cluster")).unwrap();
    for (knob, other) in [
        ("raster along_n group 8", "raster along_n group 0"),
        (warpgroups, "math_warpgroups 0"),
        ("x 64\n", "x 48\n"),
        (cluster, "cluster 3 x 1"),
        (cluster, "cluster 2 x 1\nsplit_k 2"),
    ] {
        fs::write(&path, good.replace(knob, other)).unwrap();
        let errors = emit();
        assert!(errors.contains("knob"), "{errors}");
    }
    let slots = good.lines().find(|line| line.contains("slots")).unwrap();
    let work = good.lines().find(|line| line.contains("    work")).unwrap();
    let lines = good.lines().count();
    for (text, wanted) in [
        (good.replace(slots, "slots 9 9 9"), "the schedule does not fit".to_owned()),
        (good.replace(work, "work 99999"), "the schedule does not fit".to_owned()),
        (good.replace(work, &format!("{work}\n{work}")), "the knob `work` stands twice".to_owned()),
        (good.replace(slots, "slotz 1 1 1"), "a schedule has no knob `slotz`".to_owned()),
        (good.replace("}\n", ""), format!("s.txt:{}: expected `}}`", lines - 1)),
        (good.replace("schedule sm90 {\n", ""), "s.txt:1: expected `schedule sm90 {`".to_owned()),
        (String::new(), "s.txt:1: expected `schedule sm90 {`".to_owned()),
    ] {
        fs::write(&path, text).unwrap();
        let errors = emit();
        assert!(errors.contains(&wanted), "{wanted}: {errors}");
    }
    fs::remove_file(&path).unwrap();
    assert!(emit().contains("s.txt"));
}

#[test]
fn every_candidate_has_its_cost_and_one_is_taken() {
    let candidates = explain("candidates");
    assert_eq!(candidates.lines().filter(|line| line.ends_with(", taken")).count(), 1);
    assert!(candidates.lines().count() > 5, "{candidates}");
    let all = postlude(&[&["explain", RELU, "--target", "sm90"][..], &SIZES].concat()).fine();
    assert!(all.contains("# candidates") && all.contains("schedule sm90 {"), "{all}");
    let size = ["--size", "M=256,N=2040,K=256"];
    let explain = ["explain", "D = sum(A @ W.T, N, 5)", "--target", "sm90", "--stage", "schedule"];
    let refused = [&explain[..], &["--one-launch"]].concat();
    let ended = postlude(&[&refused[..], &size].concat());
    assert_eq!(ended.code, Some(2));
    assert!(ended.errors.contains("groups"), "{}", ended.errors);
}

#[test]
fn several_launches_are_shown_with_the_reason() {
    let cut = ["explain", "D = softmax(A @ W.T, N)", "--target", "sm90"];
    let printed = postlude(&[&cut[..], &["--size", "M=256,N=2040,K=256"]].concat()).fine();
    assert!(printed.contains("# several launches, for one is refused"), "{printed}");
    assert!(printed.contains("_launch(") && printed.contains("products 0"), "{printed}");
    let before = ["explain", "D = bf16(exp(A)) @ W.T", "--target", "sm90"];
    let printed = postlude(&[&before[..], &SIZES].concat()).fine();
    assert!(printed.contains("# several launches; the last one reads"), "{printed}");
}

#[test]
fn code_is_printed_whatever_the_alignment() {
    let code = postlude(&["emit", RELU, "--size", "M=3,N=5,K=7"]).fine();
    assert!(code.contains(".target sm_90a") && code.contains(".entry postlude"), "{code:.400}");
    assert!(postlude(&["emit", RELU]).mistake().contains("--size"));
}

#[test]
fn an_assembler_that_is_not_there_is_a_mistake_with_a_fix() {
    for flag in ["--stats", "--sass"] {
        let arguments = [&["emit", RELU, flag][..], &SIZES].concat();
        let mut missing = command(&arguments);
        let output = missing.env("PTXAS", "/nowhere/ptxas").output().unwrap();
        let errors = super::Ended::of(&output).mistake();
        assert!(errors.contains("`ptxas` was not found"), "{errors}");
        assert!(errors.contains("CUDA toolkit"), "{errors}");
    }
}

#[test]
#[allow(clippy::print_stderr)] // A test that is skipped says so.
fn an_assembler_tells_what_the_code_takes() {
    if std::env::var_os("PTXAS").is_none() {
        eprintln!("SKIPPED: PTXAS names no assembler");
        return;
    }
    let stats = postlude(&[&["emit", RELU, "--stats"][..], &SIZES].concat()).fine();
    for word in ["registers", "spills", "stack", "shared memory", "instructions"] {
        assert!(stats.lines().any(|line| line.starts_with(word)), "{stats}");
    }
}

#[test]
fn information_says_why_there_is_no_gpu() {
    let text = postlude(&["info"]).fine();
    let line = text.lines().find(|line| line.starts_with("backend cuda")).unwrap();
    assert!(line.contains("not available: "), "{line}");
    let object = postlude(&["info", "--json"]).object();
    assert_eq!(object["gpus"], json!([]));
    assert_eq!(object["backends"][2]["available"], json!(false));
}
