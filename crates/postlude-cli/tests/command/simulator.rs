//! The simulator on the command line: `run --backend sim`, `corpus --backend sim`, `sim` and `emit --launch`.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::{postlude, postlude_in, repository};

const RELU: &str = "D = relu(A @ W.T + bias[N])";
const SIZES: [&str; 2] = ["--size", "M=72,N=80,K=40"];

/// Writes a kernel and its launch into a folder.
fn emit(folder: &Path, source: &str, more: &[&str]) {
    let emit = [&["emit", source][..], &SIZES, more].concat();
    fs::write(folder.join("k.ptx"), postlude(&emit).fine()).unwrap();
    let launch = postlude(&[&emit[..], &["--launch"]].concat()).fine();
    fs::write(folder.join("launch.toml"), launch).unwrap();
}

const SIM: [&str; 4] = ["sim", "k.ptx", "--launch", "launch.toml"];

#[test]
fn a_kernel_is_right_under_every_timing() {
    for timing in ["eager", "lazy", "random:7"] {
        let flags = ["--backend", "sim", "--timing", timing, "--check", "--findings", "--json"];
        let object = postlude(&[&["run", RELU][..], &SIZES, &flags].concat()).object();
        assert_eq!(object["backend"], json!("sim"));
        assert_eq!(object["check"]["ok"], json!(true), "{object}");
        assert_eq!(object["simulation"]["findings"], json!([]));
        assert_eq!(object["simulation"]["timing"], json!(timing));
    }
}

#[test]
fn what_is_for_the_simulator_means_it_and_is_refused_elsewhere() {
    let object = postlude(&[&["run", RELU, "--timing", "lazy", "--json"][..], &SIZES].concat());
    assert_eq!(object.object()["backend"], json!("sim"));
    for arguments in [
        &["run", RELU, "--backend", "cpu", "--meters"][..],
        &["run", RELU, "--backend", "reference", "--findings"],
        &["run", RELU, "--backend", "cuda", "--trace", "t.json"],
        &["corpus", "plain::", "--timing", "lazy"],
    ] {
        let errors = postlude_in(repository(), arguments).mistake();
        assert!(errors.contains("is for the simulator"), "{arguments:?}: {errors}");
    }
    let errors = postlude(&["run", RELU, "--timing", "late"]).mistake();
    assert!(errors.contains("`eager`, `lazy` or `random:SEED`"), "{errors}");
}

#[test]
fn what_the_planner_refuses_for_one_launch_is_refused_as_one_and_runs_as_several() {
    let run = ["run", "D = sum(A @ W.T, N, 5)", "--backend", "sim"];
    let errors = postlude(&[&run[..], &["--one-launch"], &SIZES].concat()).mistake();
    assert!(errors.contains("reduce groups of"), "{errors}");
    let printed = postlude(&[&run[..], &["--check"], &SIZES].concat()).fine();
    assert!(printed.contains("check ok"), "{printed}");
}

#[test]
fn what_one_launch_does_not_take_several_do() {
    let run = ["run", "z = A @ W.T; D = z - mean(z, M)", "--backend", "sim", "--check"];
    let printed = postlude(&[&run[..], &SIZES].concat()).fine();
    assert!(printed.contains("check ok"), "{printed}");
}

#[test]
fn the_corpus_runs_and_says_what_it_skips() {
    let corpus = ["corpus", "hopper_elementwise::", "--backend", "sim", "--timing", "lazy"];
    let printed = postlude_in(repository(), &corpus).fine();
    let last = printed.lines().last().unwrap();
    assert!(last.ends_with("on sim") && last.contains(" 0 failed"), "{printed}");
}

#[test]
fn an_emitted_launch_makes_a_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let source = "D = alpha * (A @ W.T) + C + bias[N]";
    emit(folder.path(), source, &["--set", "alpha=0.5"]);
    let launch = fs::read_to_string(folder.path().join("launch.toml")).unwrap();
    let with_file = launch.replace("[buffers.D]\n", "[buffers.D]\nwrite = \"D.safetensors\"\n");
    fs::write(folder.path().join("launch.toml"), with_file).unwrap();
    let flags = ["--timing", "lazy", "--findings", "--meters", "--trace", "t.json", "--json"];
    let object = postlude_in(folder.path(), &[&SIM[..], &flags].concat()).object();
    assert_eq!(object["simulation"]["findings"], json!([]), "{object}");
    assert_eq!(object["changed"].as_array().map(Vec::len), Some(1));
    let buffers = object["simulation"]["meters"]["buffers"].as_array().unwrap().clone();
    let written: Vec<_> = buffers.iter().filter(|buffer| buffer["once"] != json!(0)).collect();
    assert_eq!(written, [&json!({"name": "D", "never": 0, "once": 72 * 80 * 2, "more": 0})]);
    let trace = fs::read_to_string(folder.path().join("t.json")).unwrap();
    let trace: serde_json::Value = serde_json::from_str(&trace).unwrap();
    assert!(trace["traceEvents"].as_array().is_some_and(|events| events.len() > 50));
    let flags = ["--set", "alpha=0.5", "--backend", "sim", "--out", "D=E.safetensors"];
    postlude_in(folder.path(), &[&["run", source][..], &SIZES, &flags].concat()).fine();
    let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
    assert_eq!(read("D.safetensors"), read("E.safetensors"));
}

#[test]
fn a_broken_program_is_found_out() {
    let folder = tempfile::tempdir().unwrap();
    emit(folder.path(), RELU, &[]);
    let launch = fs::read_to_string(folder.path().join("launch.toml")).unwrap();
    // Half of the output's rows are not there.
    let short = launch.replace("shape = [72, 80]", "shape = [36, 80]");
    assert_ne!(short, launch);
    fs::write(folder.path().join("launch.toml"), short).unwrap();
    let errors = postlude_in(folder.path(), &SIM).mistake();
    assert!(errors.contains("global memory out of bounds"), "{errors}");
    let lines: Vec<&str> = errors.lines().collect();
    assert!(lines[0].starts_with("error: k.ptx: the simulator has "), "{errors}");
    assert!(lines[1].starts_with("  line ") && lines[1].contains(": CTA "), "{errors}");
    // The instruction stands on a line of its own, whole.
    assert!(lines[2].starts_with("      ") && lines[2].ends_with(';'), "{errors}");
    assert!(lines.iter().all(|line| !line.contains('…') && !line.contains("\\n")), "{errors}");
    assert!(errors.contains("help: `--findings` lists them all"), "{errors}");
    let ended = postlude_in(folder.path(), &[&SIM[..], &["--findings", "--json"]].concat());
    assert_eq!(ended.code, Some(1));
    let object = ended.object();
    let first = &object["simulation"]["findings"][0];
    assert_eq!(first["diagnosis"], json!("global memory out of bounds"));
    assert!(first["line"].as_u64().is_some_and(|line| line > 10), "{first}");
}

#[test]
fn an_emitted_launch_of_segments_draws_ends_that_rise_within_the_rows() {
    let folder = tempfile::tempdir().unwrap();
    for (kernel, sizes) in
        [("moe_linear", "T=96,E=4,N=64,K=64"), ("moe_swiglu", "T=96,E=3,N=128,K=64")]
    {
        let emit = ["emit", kernel, "--size", sizes];
        fs::write(folder.path().join("k.ptx"), postlude(&emit).fine()).unwrap();
        let launch = postlude(&[&emit[..], &["--launch"]].concat()).fine();
        let ends = launch.split("[buffers.ends]").nth(1).unwrap_or_default();
        assert!(ends.contains("fill = \"ends\"\ncount = 96"), "{launch}");
        fs::write(folder.path().join("launch.toml"), launch).unwrap();
        let printed = postlude_in(folder.path(), &[&SIM[..], &["--findings"]].concat()).fine();
        assert!(printed.contains("no findings"), "{kernel}: {printed}");
    }
}

#[test]
fn an_endless_loop_ends_with_its_budget() {
    let folder = tempfile::tempdir().unwrap();
    emit(folder.path(), RELU, &[]);
    let text = fs::read_to_string(folder.path().join("k.ptx")).unwrap();
    fs::write(folder.path().join("k.ptx"), text.replacen("    ret;", "L999:\n    bra L999;", 1))
        .unwrap();
    let errors =
        postlude_in(folder.path(), &[&SIM[..], &["--budget", "300000"]].concat()).mistake();
    let told = "budget of 300000 warp instructions used up; the kernel had not ended";
    assert!(errors.contains(told) && errors.contains("--budget"), "{errors}");
    let run = ["run", RELU, "--backend", "sim", "--budget", "100"];
    let errors = postlude(&[&run[..], &SIZES].concat()).mistake();
    assert!(errors.contains("budget of 100 warp instructions used up"), "{errors}");
    let errors = postlude(&["run", RELU, "--backend", "cpu", "--budget", "100"]).mistake();
    assert!(errors.contains("is for the simulator"), "{errors}");
}

#[test]
fn a_buffer_that_does_not_fit_is_refused_before_it_is_made() {
    let folder = tempfile::tempdir().unwrap();
    emit(folder.path(), RELU, &[]);
    let good = fs::read_to_string(folder.path().join("launch.toml")).unwrap();
    for size in [
        "bytes = 80000000000",
        "bytes = 9000000000000000000",
        "dtype = \"f32\"\nshape = [1000000000, 1000000000, 1000000000]",
    ] {
        let bad = format!("{good}\n[buffers.large]\n{size}\n");
        fs::write(folder.path().join("launch.toml"), &bad).unwrap();
        let errors = postlude_in(folder.path(), &SIM).mistake();
        assert!(errors.contains("`large` has") && errors.contains("room for"), "{errors}");
    }
    let bad = good.replacen("threads = 256", "threads = 256\nworkspace_bytes = 80000000000", 1);
    let bad = bad.replacen("workspace_bytes = 0\n", "", 1);
    fs::write(folder.path().join("launch.toml"), &bad).unwrap();
    let errors = postlude_in(folder.path(), &SIM).mistake();
    assert!(errors.contains("80.0 GB"), "{errors}");
}

#[test]
fn mistakes_in_a_launch_are_named_with_line_and_key() {
    let folder = tempfile::tempdir().unwrap();
    emit(folder.path(), RELU, &[]);
    let good = fs::read_to_string(folder.path().join("launch.toml")).unwrap();
    let line = |wanted: &str, text: &str| {
        1 + text.lines().position(|line| line.contains(wanted)).expect("a line of it")
    };
    let cases = [
        ("threads = 256", "threads = -1", "`threads`", "threads = -1"),
        ("threads = 256", "thread = 256", "`thread`", "thread = 256"),
        ("buffer = \"bias\"", "buffer = \"bios\"", "no buffer `bios`", "bios"),
        ("u32 = 72", "u33 = 72", "u33", "u33"),
        ("element = \"bf16\"", "element = \"bf17\"", "bf17", "bf17"),
        ("dtype = \"f32\"", "dtype = \"f33\"", "no dtype `f33`", "[buffers.bias]"),
        ("fill = \"poison\"", "fill = \"blue\"", "blue", "[buffers.D]"),
        ("fill = \"poison\"", "file = \"none.npy\"", "none.npy", "[buffers.D]"),
    ];
    for (from, to, told, at) in cases {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good, "{from}");
        fs::write(folder.path().join("launch.toml"), &bad).unwrap();
        let errors = postlude_in(folder.path(), &SIM).mistake();
        assert!(errors.contains(told), "{to}: {errors}");
        let place = format!("launch.toml:{}:", line(at, &bad));
        assert!(errors.contains(&place), "{to}: {place} {errors}");
    }
    fs::write(folder.path().join("launch.toml"), "threads = 1\n").unwrap();
    let errors = postlude_in(folder.path(), &SIM).mistake();
    assert!(errors.contains("missing field `grid`"), "{errors}");
}

#[test]
fn a_line_that_is_not_known_is_named() {
    let folder = tempfile::tempdir().unwrap();
    emit(folder.path(), RELU, &[]);
    let text = fs::read_to_string(folder.path().join("k.ptx")).unwrap();
    let at = text.lines().position(|line| line.contains("cluster.sync") || line.contains("ret;"));
    let at = at.expect("an end");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.insert(at, "    frobnicate.b32 %r1, %r2;");
    fs::write(folder.path().join("k.ptx"), lines.join("\n")).unwrap();
    let errors = postlude_in(folder.path(), &SIM).mistake();
    assert!(errors.contains(&format!("k.ptx: line {}", at + 1)), "{errors}");
    assert!(errors.contains("frobnicate"), "{errors}");
}
