//! `postlude run`: results.

use std::io::Write;
use std::process::Stdio;

use super::{Ended, command, postlude, repository};

#[test]
fn a_library_kernel_runs_by_name_and_is_checked() {
    let output = postlude(&["run", "bce_loss", "--size", "M=33,N=24,K=17", "--check"]).fine();
    let lines: Vec<&str> = output.lines().collect();
    assert!(lines[0].starts_with("loss  f32[]  mean "), "{output}");
    assert!(lines[1].starts_with("check ok"), "{output}");
}

#[test]
fn a_kernel_runs_from_a_file_from_text_and_from_standard_input() {
    let path = repository().join("kernels/linear.post");
    let text = std::fs::read_to_string(&path).unwrap();
    let sizes = ["--size", "M=4,N=8", "--size", "K=3"];
    let from_file = postlude(&[&["run", path.to_str().unwrap()], &sizes[..]].concat()).fine();
    let from_text = postlude(&[&["run", &text], &sizes[..]].concat()).fine();
    let mut child = command(&[&["run", "-"], &sizes[..]].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let from_input = Ended::of(&child.wait_with_output().unwrap()).fine();
    assert!(from_file.starts_with("D  bf16[4, 8]  mean "));
    assert_eq!(from_file, from_text);
    assert_eq!(from_file, from_input);
}

#[test]
fn ones_through_a_one_liner_give_what_they_must() {
    let source = "D = alpha * (A @ B) + bias[N]";
    let fills = ["--fill", "A=ones", "--fill", "B=ones", "--fill", "bias=ones"];
    let sizes = ["--size", "M=2,N=3,K=5", "--set", "alpha=-2.0"];
    let output = postlude(&[&["run", source][..], &fills, &sizes].concat()).fine();
    assert_eq!(output, "D  bf16[2, 3]  mean -9  absmax 9\n");
}

#[test]
fn the_seed_decides_the_data() {
    let run =
        |seed| postlude(&["run", "D = A @ B", "--size", "M=8,N=8,K=8", "--seed", seed]).fine();
    assert_eq!(run("7"), run("7"));
    assert_ne!(run("7"), run("8"));
}

#[test]
fn the_index_of_pick_is_in_range_without_being_asked() {
    let sizes = ["--size", "M=64,N=3,K=4", "--check"];
    let output = postlude(&[&["run", "cross_entropy_loss"][..], &sizes].concat()).fine();
    assert!(!output.contains("nan"), "{output}");
    let source = "loss = mean(pick(A @ B, t[M]))";
    let output = postlude(&[&["run", source, "--fill", "t=labels"][..], &sizes].concat()).fine();
    assert!(!output.contains("nan"), "{output}");
}

#[test]
fn both_backends_agree_and_both_are_checked() {
    for backend in ["auto", "cpu", "reference"] {
        for math in [&["--math", "accurate"][..], &["--math", "fast"], &[]] {
            let arguments =
                ["run", "linear_gelu", "--size", "M=9,N=17,K=5", "--check", "--backend", backend];
            let output = postlude(&[&arguments[..], math].concat()).fine();
            assert!(output.contains("check ok"), "{output}");
        }
    }
}

#[test]
fn only_computes_what_is_named() {
    let source = "Z = A @ B; D = relu(Z); peak = max(D)";
    let sizes = ["--size", "M=2,N=2,K=2"];
    let output = postlude(&[&["run", source, "--only", "peak,D"][..], &sizes].concat()).fine();
    let names: Vec<&str> = output.lines().filter_map(|line| line.split("  ").next()).collect();
    assert_eq!(names, ["D", "peak"].map(|name| format!("{name:<4}")).map(|s| s.trim().to_owned()));
}

#[test]
fn empty_problems_run() {
    let output = postlude(&["run", "D = A @ B", "--size", "M=0,N=3,K=2", "--check"]).fine();
    assert!(output.starts_with("D  bf16[0, 3]  mean nan  absmax 0\n"), "{output}");
    let output = postlude(&["run", "D = A @ B", "--size", "M=2,N=3,K=0", "--check"]).fine();
    assert!(output.starts_with("D  bf16[2, 3]  mean 0  absmax 0\n"), "{output}");
}

#[test]
fn the_time_is_told_when_asked() {
    let output = postlude(&["run", "D = A @ B", "--size", "M=8,N=8,K=8", "--time"]).fine();
    assert!(output.lines().nth(1).is_some_and(|line| line.starts_with("time  ")), "{output}");
}

#[test]
fn a_check_tells_the_largest_errors_and_where_they_are() {
    let output = postlude(&["run", "D = exp(A @ B)", "--size", "M=9,N=17,K=5", "--check"]).fine();
    let line = output.lines().find(|line| line.starts_with("check D: ")).unwrap_or_default();
    assert!(line.starts_with("check D: largest error "), "{output}");
    assert!(line.ends_with("; all 153 elements checked"), "{output}");
}

#[test]
fn a_large_problem_is_sampled_and_says_so() {
    let source = "D = A @ B; s = sum(D, M)";
    let arguments = ["run", source, "--size", "M=1024,N=1024,K=1024", "--check"];
    let output = postlude(&arguments).fine();
    assert!(output.contains("; checked 64 of 1024 rows, all columns (65536 of "), "{output}");
    assert!(output.contains("; checked all rows, 64 of 1024 columns (64 of 1024 "), "{output}");
    assert_eq!(output, postlude(&arguments).fine());
    let object = postlude(&[&arguments[..], &["--json"]].concat()).object();
    assert_eq!(object["check"]["outputs"][0]["checked"], 65536);
    assert_eq!(object["check"]["outputs"][0]["elements"], 1 << 20);
}

#[test]
fn everything_is_checked_when_asked_and_where_a_total_needs_it() {
    let sizes = ["--size", "M=1024,N=1024,K=1000"];
    let all = postlude(&[&["run", "D = A @ B", "--check=all"][..], &sizes].concat()).fine();
    assert!(all.contains("; all 1048576 elements checked"), "{all}");
    let source = "D = A @ B; s = sum(D)";
    let total = postlude(&[&["run", source, "--check"][..], &sizes].concat()).fine();
    assert!(total.contains("; all 1048576 elements checked"), "{total}");
    let errors = postlude(&[&["run", source, "--check=some"][..], &sizes].concat()).mistake();
    assert!(errors.contains("sample") && errors.contains("all"), "{errors}");
}

#[test]
fn an_output_that_is_all_nan_says_so() {
    let arguments = ["run", "D = sqrt(-1.0 - square(A @ B))", "--size", "M=2,N=3,K=5"];
    let output = postlude(&arguments).fine();
    assert!(output.contains("WARNING: every element of `D` is nan\n"), "{output}");
    let output = postlude(&[&arguments[..], &["--check"]].concat()).fine();
    assert!(output.contains("6 nan, 6 expected"), "{output}");
}
