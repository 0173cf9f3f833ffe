//! The other subcommands.

use std::fs;
use std::process::Stdio;

use postlude::Kernel;
use postlude::lower::SweepProgram;
use postlude::plan::Schedule;

use super::{Ended, command, postlude, postlude_in, repository};

#[test]
fn check_prints_a_kernel_that_checks() {
    let printed = postlude(&["check", "z = A @ B + bias[N]; D = gelu(z)"]).fine();
    assert_eq!(
        printed,
        "kernel one_liner(A: bf16[M, K], B: bf16[K, N], bias: f32[N]) -> (D: bf16[M, N]) {\n    \
         z = A @ B + bias[N]  # f32[M, N]\n    \
         D = gelu(z)          # f32[M, N]\n}\n"
    );
    assert_eq!(postlude(&["check", &printed]).fine(), printed);
}

#[test]
fn every_stage_parses_back() {
    let stage = |stage| {
        let arguments = ["explain", "linear_gelu", "--size", "M=64,N=64,K=64", "--stage", stage];
        postlude(&arguments).fine()
    };
    let ast = stage("ast");
    assert_eq!(Kernel::parse(&ast).unwrap().ast().to_string().trim_end(), ast.trim_end());
    let graph = stage("graph");
    assert_eq!(postlude::graph::parse(&graph).unwrap().to_string(), graph);
    for part in stage("passes").split("# after ").skip(1) {
        let (_, graph) = part.split_once('\n').unwrap();
        assert_eq!(postlude::graph::parse(graph).unwrap().to_string().trim(), graph.trim());
    }
    let sweeps = stage("sweeps");
    assert_eq!(sweeps.parse::<SweepProgram>().unwrap().to_string(), sweeps);
    let errors =
        postlude(&["explain", "linear", "--target", "sm90", "--stage", "sweeps"]).mistake();
    assert!(errors.contains("for the CPU"), "{errors}");
    let schedule = stage("schedule");
    assert_eq!(schedule.parse::<Schedule>().unwrap().to_string(), schedule);
}

#[test]
fn a_schedule_needs_sizes_and_the_other_stages_do_not() {
    let errors = postlude(&["explain", "linear", "--stage", "schedule"]).mistake();
    assert!(errors.contains("--size"), "{errors}");
    assert!(!postlude(&["explain", "linear"]).fine().contains("schedule"));
    assert!(postlude(&["explain", "linear", "--size", "M=1,N=1,K=1"]).fine().contains("schedule"));
}

#[test]
fn list_and_show_know_the_library() {
    let list = postlude(&["list"]).fine();
    assert!(list.lines().any(|line| line.starts_with("  bce_loss ")), "{list}");
    assert!(list.lines().any(|line| line == "losses"), "{list}");
    let text = fs::read_to_string(repository().join("kernels/bce_loss.post")).unwrap();
    assert_eq!(postlude(&["show", "bce_loss"]).fine(), text);
    assert!(postlude(&["show", "bce_los"]).mistake().contains("bce_loss"));
    let functions = postlude(&["list", "--functions"]).fine();
    for name in ["gelu(x)", "leaky_relu(x, slope=0.01)", "logsumexp(", "halves(x)", "softmax("] {
        assert!(functions.contains(name), "{name}");
    }
}

/// What people look for, and a kernel that they find.
const SOUGHT: &[(&[&str], &str)] = &[
    (&["LinearCombination"], "lincomb"),
    (&["LinCombEltAct"], "lincomb_relu"),
    (&["LinCombPerRowBias"], "lincomb_row_bias"),
    (&["LinCombPerColBias"], "lincomb_bias"),
    (&["lincombpercolbias"], "lincomb_bias"),
    (&["LinCombPerRowBiasEltActAux"], "lincomb_row_bias_gelu_aux"),
    (&["LinCombDeEltAct"], "lincomb_gelu_backward"),
    (&["LinCombTopKSoftmaxCol"], "lincomb_topk_softmax"),
    (&["ScaledLinCombPerRowBiasEltActAmaxAux"], "fp8_row_bias_gelu_amax_aux"),
    (&["PerColResAddPerColBiasEltAct"], "col_scaled_relu_residual"),
    (&["LinCombBlockScaleFactor"], "lincomb_block_scale"),
    (&["ScaledAcc"], "scaled_product"),
    (&["LinearCombinationGroupedWgrad"], "moe_weight_gradient"),
    (&["swiglu", "backward"], "swiglu_backward"),
    (&["rotary halves"], "rotary_halves"),
    (&["quant"], "quantise_i8"),
    (&["experts"], "moe_linear"),
];

#[test]
fn the_library_is_searched_by_words_and_by_the_names_of_cutlass() {
    for (words, wanted) in SOUGHT {
        let printed = postlude(&[&["list"], *words].concat()).fine();
        let found = printed.lines().any(|line| line.starts_with(&format!("  {wanted} ")));
        assert!(found, "{words:?}: {printed}");
        let object = postlude(&[&["list", "--json"], *words].concat()).object();
        let kernels = object["kernels"].as_array().unwrap();
        assert!(kernels.iter().any(|kernel| kernel["name"] == *wanted), "{object}");
        assert!(kernels.len() < 100, "{words:?}");
    }
    let alone = postlude(&["list", "LinCombPerRowBias"]).fine();
    assert_eq!(alone.lines().count(), 2, "{alone}");
    let errors = postlude(&["list", "swigliu"]).mistake();
    assert!(errors.contains("did you mean `swiglu`?"), "{errors}");
}

#[test]
fn functions_are_listed_by_a_word_too() {
    assert_eq!(postlude(&["list", "functions"]).fine(), postlude(&["list", "--functions"]).fine());
    let found = postlude(&["list", "functions", "softmax"]).fine();
    assert!(found.contains("softmax(x, dim)") && !found.contains("gelu"), "{found}");
    let errors = postlude(&["list", "functions", "geluu"]).mistake();
    assert!(errors.contains("did you mean `gelu`?"), "{errors}");
}

#[test]
fn the_corpus_is_found_from_inside_the_repository() {
    let output = postlude_in(&repository().join("crates"), &["corpus", "activations::"]).fine();
    assert!(output.ends_with("0 failed, 0 skipped on cpu\n"), "{output}");
    let arguments = ["corpus", "activations::", "--backend", "reference"];
    let output = postlude_in(repository(), &arguments).fine();
    assert!(output.ends_with("0 failed, 0 skipped on reference\n"), "{output}");
    let elsewhere = tempfile::tempdir().unwrap();
    assert!(postlude_in(elsewhere.path(), &["corpus"]).mistake().contains("--folder"));
}

#[test]
fn bench_prints_a_line_a_kernel() {
    let arguments = ["bench", "product", "--size", "M=16,N=16,K=16", "--threads", "1"];
    let output = postlude(&arguments).fine();
    assert!(output.starts_with("kernel "), "{output}");
    assert!(output.lines().any(|line| line.starts_with("product_f32 ")), "{output}");
    assert!(output.ends_with("cpu on 1 thread\n"), "{output}");
}

#[test]
fn each_suite_refuses_the_flags_of_the_other() {
    for (arguments, flag, backend) in [
        (&["bench", "--backend", "cuda", "--size", "M=8"][..], "`--size`", "cpu"),
        (&["bench", "--backend", "cuda", "--threads", "1"], "`--threads`", "cpu"),
        (&["bench", "--backend", "cpu", "--rounds", "3"], "`--rounds`", "cuda"),
        (&["bench", "--threads", "1", "--against", "cublaslt"], "`--against`", "cuda"),
        (&["bench", "--backend", "cpu", "--suite", "layouts"], "`--suite`", "cuda"),
        (&["bench", "--backend", "cpu", "--seconds", "3"], "`--seconds`", "cuda"),
        (&["bench", "--backend", "cpu", "--every-schedule"], "`--every-schedule`", "cuda"),
    ] {
        let errors = postlude(arguments).mistake();
        assert!(errors.contains(flag), "{errors}");
        assert!(errors.contains(&format!("--backend {backend}")), "{errors}");
    }
}

#[test]
fn a_suite_without_such_a_row_names_its_rows() {
    let errors = postlude(&["bench", "--backend", "cuda", "no row is called so"]).mistake();
    assert!(errors.contains("P1, P2") && errors.contains("E1_1024"), "{errors}");
    let suites = ["bench", "--suite", "layouts,unaligned", "no row is called so"];
    let errors = postlude(&suites).mistake();
    assert!(errors.contains("P1-nn") && errors.contains("P2-k4095"), "{errors}");
    assert!(!errors.contains("E1_1024"), "{errors}");
    assert!(postlude(&["bench", "--suite", "sweet"]).mistake().contains("unaligned"));
}

#[test]
fn a_filter_is_not_taken_for_a_file_of_results() {
    let ended = postlude(&["bench", "--backend", "cpu", "--json", "product"]);
    let message = ended.object()["error"]["message"].to_string();
    assert!(message.contains("stands before `--json`"), "{message}");
}

#[test]
fn results_go_to_a_file_and_the_table_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.json");
    let sizes = ["--size", "M=16,N=16,K=16", "--threads", "1"];
    let arguments = [&["bench", "product_f32", "--json", file.to_str().unwrap()][..], &sizes];
    assert!(postlude(&arguments.concat()).fine().starts_with("kernel "));
    let text = fs::read_to_string(&file).unwrap();
    let object: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(object["kernels"][0]["kernel"], "product_f32");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_schedule_that_does_not_read_is_named_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.txt");
    fs::write(&file, "schedule sm90 {\n    tile large\n}\n").unwrap();
    let path = folder.path().to_str().unwrap();
    let errors = postlude(&["bench", "P3", "--backend", "cuda", "--schedules", path]).mistake();
    assert!(errors.contains("bad.txt:2"), "{errors}");
}

/// Whatever the machine has, hiding every GPU leaves none.
#[test]
fn the_suite_for_a_gpu_is_a_mistake_without_one() {
    let mut command = command(&["bench", "--backend", "cuda", "P3"]);
    let output = command.env("CUDA_VISIBLE_DEVICES", "").output().unwrap();
    let errors = Ended::of(&output).mistake();
    assert!(errors.starts_with("error: "), "{errors}");
}

#[test]
fn clearing_the_cache_leaves_what_is_not_ours() {
    let folder = tempfile::tempdir().unwrap();
    let ours = folder.path().join("0".repeat(64) + ".postlude-kernel");
    let foreign = folder.path().join("thesis.txt");
    fs::write(&ours, "12345").unwrap();
    fs::write(&foreign, "irreplaceable").unwrap();
    let cache = |action: &str| {
        let mut command = command(&["cache", action]);
        let output = command.env("POSTLUDE_CACHE_DIR", folder.path()).output().unwrap();
        super::Ended::of(&output).fine()
    };
    assert_eq!(cache("path").trim(), folder.path().to_str().unwrap());
    assert_eq!(cache("size"), "5 bytes in 1 kernel\n");
    assert_eq!(cache("clear"), "1 kernel removed\n");
    assert_eq!(cache("size"), "0 bytes in 0 kernels\n");
    assert!(!ours.exists() && foreign.exists());
}

#[test]
fn completions_exist_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(postlude(&["completions", shell]).fine().contains("postlude"), "{shell}");
    }
}

#[test]
fn the_version_has_a_commit() {
    let version = postlude(&["--version"]).fine();
    assert!(version.starts_with("postlude ") && version.contains(" ("), "{version}");
    assert!(postlude(&["--help"]).fine().contains("Exit codes"));
}

#[test]
fn a_closed_pipe_ends_quietly() {
    for arguments in [
        &["list", "--functions"][..],
        &["list", "--json"],
        &["show", "linear"],
        &["completions", "bash"],
        &["--help"],
        &["run", "D = A @ B", "--size", "M=4,N=4,K=4"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(arguments).stdout(Stdio::from(writer)).output().unwrap();
        let ended = super::Ended::of(&output);
        assert_eq!((ended.code, &*ended.errors), (Some(0), ""), "{arguments:?}");
    }
}
