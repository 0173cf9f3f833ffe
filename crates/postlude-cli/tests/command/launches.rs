//! Kernels that take several launches: what is shown and counted is that of all of them.

use serde_json::{Value, json};

use super::postlude;

const PROGRAM: &str = "kernel k(X: bf16[M, K], U: bf16[F, K], V: bf16[N, F]) -> D: bf16[M, N] {
    D = bf16(relu(X @ U.T)) @ V.T
}";
const CUT: &str =
    "kernel k(A: bf16[M, K], W: bf16[N, K]) -> D: f32[M, N] { z = A @ W.T; D = z - mean(z, M) }";
const SIZES: [&str; 2] = ["--size", "M=64,N=64,K=64,F=64"];
const FEWER: [&str; 2] = ["--size", "M=64,N=64,K=64"];

#[test]
fn every_launch_is_explained_or_the_one_of_a_number() {
    for (stage, word) in
        [("tile", "tile program "), ("candidates", "# candidates"), ("schedule", "schedule sm90 {")]
    {
        let explain = ["explain", PROGRAM, "--target", "sm90", "--stage", stage];
        let all = postlude(&[&explain[..], &SIZES].concat()).fine();
        assert_eq!(all.matches(word).count(), 2, "{all}");
        assert!(all.starts_with("# launch 1 of 2, ") && all.contains("# launch 2 of 2, k\n"));
        let one = [&explain[..], &SIZES, &["--launch-number", "2"]].concat();
        let one = postlude(&one).fine();
        assert!(one.starts_with("# launch 2 of 2, k\n") && all.ends_with(&one), "{one}");
    }
    let missing = ["explain", PROGRAM, "--target", "sm90", "--launch-number", "3"];
    let errors = postlude(&[&missing[..], &SIZES].concat()).mistake();
    assert!(errors.contains("no launch 3: there are 2 launches"), "{errors}");
}

#[test]
fn the_partitions_of_a_kernel_are_explained_with_what_they_cost() {
    const SHARED: &str = "kernel k(X: bf16[M, K], Q: bf16[N, K], P: bf16[N, K], V: bf16[N, K])
        -> (D: bf16[M, N], E: bf16[M, N], F: bf16[M, N]) { D = X @ Q.T; E = X @ P.T; F = X @ V.T }";
    let explain =
        |sizes| postlude(&["explain", SHARED, "--target", "sm90", "--size", sizes]).fine();
    let taken = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with("# ") && line.contains(": moves "));
        assert_eq!(lines.clone().count(), 3, "{text}");
        let taken = lines.filter_map(|line| line.strip_suffix(", taken"));
        taken.map(|line| line.split_once(':').unwrap().0.to_owned()).collect()
    };
    let few = explain("M=16,N=4096,K=4096");
    assert_eq!(taken(&few), ["# 2 launches, with 2 + 1 of the products that share A"]);
    assert!(few.contains("# several launches, which cost less than one\n"), "{few}");
    assert!(few.contains("of 2 products that share A, reads 67.2 MB, writes 262.1 kB"), "{few}");
    assert!(few.contains("# launch 2, k, reads 33.7 MB, writes 131.1 kB\n"), "{few}");
    let many = explain("M=4096,N=4096,K=4096");
    assert_eq!(taken(&many), ["# 1 launch"]);
    assert!(many.contains("# one launch of 3 products that share A\n"), "{many}");
}

#[test]
fn a_launch_is_emitted_by_its_number_and_the_last_one_with_a_warning() {
    for (source, sizes) in [(PROGRAM, SIZES), (CUT, FEWER)] {
        let emit = [&["emit", source][..], &sizes].concat();
        let last = postlude(&emit);
        assert!(last.errors.contains("this is launch 2 of 2"), "{}", last.errors);
        let of = |number| postlude(&[&emit[..], &["--launch-number", number]].concat()).fine();
        assert!(of("1") != of("2") && of("2") == last.output);
    }
}

#[test]
fn the_simulator_counts_all_launches() {
    for (source, sizes) in [(PROGRAM, SIZES), (CUT, FEWER)] {
        let run = [&["run", source, "--backend", "sim", "--meters"][..], &sizes].concat();
        let object = postlude(&[&run[..], &["--json"]].concat()).object();
        let simulation = &object["simulation"];
        let Value::Array(launches) = &simulation["launches"] else { panic!("{simulation}") };
        let counts = launches.iter().map(|launch| launch["instructions"].as_u64().unwrap());
        assert_eq!(
            (launches.len(), json!(counts.sum::<u64>())),
            (2, simulation["instructions"].clone())
        );
        assert!(launches.iter().all(|launch| launch["meters"]["roles"].is_array()));
        let text = postlude(&run).fine();
        assert!(text.contains("warp instructions in 2 launches, eager"), "{text}");
        assert!(text.contains("launch 2 of 2, k: "), "{text}");
    }
}

#[test]
fn labels_that_an_earlier_graph_reads_are_drawn_in_range() {
    let run = ["run", "linear_cross_entropy", "--size", "M=16,N=64,K=32", "--backend", "cpu"];
    let object = postlude(&[&run[..], &["--json"]].concat()).object();
    assert_eq!(object["outputs"][0]["nan"], json!(0), "{object}");
}

#[test]
fn a_check_says_which_bounds_are_not_finite() {
    let source = "D = 1.0 / (sin(A @ B) - 0.84147098)";
    let run = ["run", source, "--size", "M=2,N=2,K=1", "--fill", "A=ones", "--fill", "B=ones"];
    let run = [&run[..], &["--backend", "cpu", "--check"]].concat();
    let text = postlude(&run).fine();
    assert!(text.contains("(no bound is finite; 4 elements without a finite bound)"), "{text}");
    assert!(text.contains("WARNING: 4 of 4 elements of `D` have no finite bound"), "{text}");
    let check = &postlude(&[&run[..], &["--json"]].concat()).object()["check"];
    assert_eq!((&check["outputs"][0]["open"], &check["bound"]), (&json!(4), &Value::Null));
}
