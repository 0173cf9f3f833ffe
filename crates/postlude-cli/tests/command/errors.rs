//! Mistakes: exit code 2, the place underlined, the fix named, nothing on standard output.

use std::fs;

use super::{command, postlude, postlude_in};

/// A one-liner with sizes and more arguments.
fn run(source: &str, more: &[&str]) -> super::Ended {
    postlude(&[&["run", source, "--size", "M=2,N=2,K=2"], more].concat())
}

#[test]
fn the_place_is_underlined_and_the_fix_named() {
    let errors = postlude(&["check", "D = relu(A @ B) + geluu(C)"]).mistake();
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(
        lines,
        [
            "error: unknown function `geluu`",
            " --> <text>:1:19",
            "  |",
            "1 | D = relu(A @ B) + geluu(C)",
            "  |                   ^^^^^",
            "  |",
            "  = help: did you mean `gelu`?",
        ]
    );
}

#[test]
fn a_long_line_is_cut_around_the_place() {
    let long = format!("D = A @ B + {}geluu(C){}", "1 + ".repeat(2000), " + 1".repeat(2000));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.post");
    fs::write(&path, format!("{}{long}", " ".repeat(100_000))).unwrap();
    let errors = postlude(&["check", path.to_str().unwrap()]).mistake();
    assert!(errors.contains("geluu") && errors.contains("^^^^^"), "{errors}");
    assert!(errors.chars().count() < 700, "{errors}");
}

#[test]
fn long_names_do_not_flood_the_terminal() {
    let name = "x".repeat(100_000);
    let errors = postlude(&["check", &format!("D = A @ B + {name}")]).mistake();
    assert!(errors.chars().count() < 2000, "{}", errors.chars().count());
}

#[test]
fn control_characters_are_made_visible() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("odd.post");
    for bytes in [&b"D = A @ \x1b[31mB"[..], b"D = \0A @ B", b"D = A @ B + \xff\xfe", b"\x07", b""]
    {
        fs::write(&path, bytes).unwrap();
        let errors = postlude(&["check", path.to_str().unwrap()]).mistake();
        let is_plain = |c: char| c == '\n' || !c.is_control();
        assert!(errors.chars().all(is_plain), "{errors:?}");
    }
}

#[test]
fn colour_is_for_terminals() {
    let output = command(&["check", "D = "]).env("CLICOLOR", "1").output().unwrap();
    assert!(!output.stderr.contains(&0x1b));
}

#[test]
fn unknown_flags_and_values_are_answered_with_a_suggestion() {
    assert!(run("D = A @ B", &["--sead", "1"]).mistake().contains("--seed"));
    assert!(run("D = A @ B", &["--backend", "cpi"]).mistake().contains("cpu"));
    assert!(postlude(&["rum", "D = A @ B"]).mistake().contains("run"));
    assert!(run("D = A @ B", &["--dtype", "f31"]).mistake().contains("f32"));
    assert!(run("D = A @ B", &["--fill", "A=norml"]).mistake().contains("normal"));
}

#[test]
fn a_dim_that_nobody_sized_is_named() {
    let errors = postlude(&["run", "D = A @ B", "--size", "M=2,N=3"]).mistake();
    assert!(errors.contains("size of `K`") && errors.contains("--size K="), "{errors}");
}

#[test]
fn sizes_are_checked() {
    for (sizes, wanted) in [
        ("M=2,N=2,K=2,Q=1", "no dim `Q`"),
        ("M=2,M=2,N=2,K=2", "given twice"),
        ("M=-1,N=2,K=2", "invalid"),
        ("M=1k,N=2,K=2", "invalid"),
        ("M,N=2,K=2", "a name, `=` and a value"),
        ("M=99999999999999,N=99999999999999,K=2", "too large"),
        ("M=1000000,N=1000000,K=1", "are missing"),
    ] {
        let errors = postlude(&["run", "D = A @ B", "--size", sizes]).mistake();
        assert!(errors.contains(wanted), "{sizes}: {errors}");
    }
    let errors = postlude(&["run", "swiglu", "--size", "M=2,N=3,K=2"]).mistake();
    assert!(errors.contains("not even"), "{errors}");
}

#[test]
fn bindings_are_checked() {
    let scaled = "D = alpha * (A @ B)";
    for (source, more, wanted) in [
        (scaled, &[][..], "--set alpha=1.0"),
        (scaled, &["--set", "alpha=1", "--set", "alpha=2"], "bound twice"),
        (scaled, &["--set", "alpha=x"], "invalid"),
        (scaled, &["--set", "alpha=1", "--set", "alpah=2"], "did you mean `alpha`?"),
        (scaled, &["--set", "alpha=1", "--set", "A=2"], "A"),
        ("lincomb", &[], "--set alpha=1.0"),
        ("lincomb", &["--fill", "alpha=ones"], "scalar passed by the host"),
        ("lincomb", &["--set", "A=1"], "is a tensor"),
        ("D = A @ B", &["--only", "E"], "its outputs are D"),
        ("D = A @ B", &["--in", "A=x.bin"], "format is not known"),
        ("D = A @ B", &["--in", "A=missing.npy"], "missing.npy: no such file"),
        ("D = A @ B", &["--out", "E=x.npy"], "no output `E`"),
        ("D = A @ B", &["--out", "D=x.npy"], "cannot hold `D`, which is bf16"),
        ("D = A @ B", &["--out", "D=no/folder/x.safetensors"], "no such file"),
        ("D = A @ B", &["--threads", "0"], "threads"),
        ("linaer", &[], "did you mean `linear`?"),
        ("missing.post", &[], "missing.post: no such file"),
        ("lstm.txt", &[], "lstm.txt: no such file"),
        ("kernels/lstm", &[], "name a file that ends in `.post`"),
    ] {
        let errors = run(source, more).mistake();
        assert!(errors.contains(wanted), "{source} {more:?}: {errors}");
    }
}

#[test]
fn an_integer_scalar_is_whole() {
    let source =
        "kernel k(A: f32[M, K], B: f32[K, N], n: i32) -> D: f32[M, N] { D = A @ B + f32(n) }";
    let errors = run(source, &["--set", "n=1.5"]).mistake();
    assert!(errors.contains("not a whole number"), "{errors}");
    run(source, &["--set", "n=-3"]).fine();
}

#[test]
fn outputs_do_not_replace_what_is_not_a_file() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("D.npy")).unwrap();
    let arguments =
        ["run", "D = A @ B", "--size", "M=1,N=1,K=1", "--dtype", "f32", "--out", "D=D.npy"];
    let errors = postlude_in(folder.path(), &arguments).mistake();
    assert!(errors.contains("not a regular file"), "{errors}");
}

#[test]
fn a_failed_check_is_code_1() {
    // A case whose expectation does not hold.
    let folder = tempfile::tempdir().unwrap();
    let case = "## Wrong\n```\nD = A @ B\n```\n- sizes: M=1, N=1, K=1\n- fill: A=ones, B=ones\n- expect: values D = [2]\n";
    fs::write(folder.path().join("wrong.md"), case).unwrap();
    let ended = postlude(&["corpus", "--folder", folder.path().to_str().unwrap()]);
    assert_eq!(ended.code, Some(1), "{}", ended.errors);
    assert!(ended.output.contains("0 passed, 1 failed"), "{}", ended.output);
}

#[test]
fn a_bug_of_ours_is_code_3() {
    let ended = postlude(&["bug"]);
    assert_eq!(ended.code, Some(3));
    assert!(ended.errors.contains("this is a bug in Postlude"), "{}", ended.errors);
    assert!(ended.errors.contains("report it"), "{}", ended.errors);
    assert!(ended.errors.contains("the kernel:\nD = A @ B"), "{}", ended.errors);
}

#[test]
fn a_finding_in_code_that_we_emitted_is_a_bug_of_ours() {
    let ended = postlude(&["bug", "--finding"]);
    assert_eq!((ended.code, ended.output.as_str()), (Some(3), ""), "{}", ended.errors);
    for words in ["this is a bug in Postlude: the simulator", "report it", "the kernel:\nD = A @ B"]
    {
        assert!(ended.errors.contains(words), "{words}: {}", ended.errors);
    }
    let ended = postlude(&["bug", "--finding", "--json"]);
    assert_eq!((ended.code, ended.errors.as_str()), (Some(3), ""));
    assert_eq!(ended.object()["error"]["kernel"], "D = A @ B");
}

#[test]
fn what_the_processor_ran_instead_of_a_gpu_says_why() {
    let ended = run("D = A @ B", &["--json"]);
    let reason = ended.object()["reason"].to_string();
    assert!(reason.len() > 10, "{reason}");
    // A backend that the user named needs no reason.
    assert!(run("D = A @ B", &["--json", "--backend", "cpu"]).object()["reason"].is_null());
}

#[test]
fn an_unknown_function_comes_first_and_alone() {
    let errors = postlude(&["check", "D = std(X @ Y.T, N)"]).mistake();
    assert_eq!(errors.matches("error:").count(), 1, "{errors}");
    assert!(errors.contains("unknown function `std`") && errors.contains("sqrt(mean(square"));
}

#[test]
fn several_missing_sizes_are_named_together() {
    let errors = postlude(&["run", "D = A @ B"]).mistake();
    assert!(errors.contains("sizes of `M`, `K` and `N` are not known"), "{errors}");
    assert!(errors.contains("`--size M=...,K=...,N=...`"), "{errors}");
}

#[test]
fn numbers_and_sizes_on_the_command_line_are_those_of_the_language() {
    for (number, wanted) in [
        ("alpha=1e400", "beyond the largest f32"),
        ("alpha=-1e39", "beyond the largest f32"),
        ("alpha=1e99", "write `inf`"),
        ("alpha=one", "is not a number"),
        ("alpha=", "a name, `=` and a value"),
    ] {
        let errors = run("D = alpha * A @ B", &["--set", number]).mistake();
        assert!(errors.contains(wanted), "{number}: {errors}");
    }
    run("D = alpha * A @ B", &["--set", "alpha=inf"]).fine();
    for size in ["1e3", "1k", "2.0", "-2", "0x10", "1_000"] {
        let errors = postlude(&["run", "D = A @ B", "--size", &format!("M={size},N=2,K=2")]);
        let errors = errors.mistake();
        assert!(errors.contains("a size is a whole number such as `1024`"), "{size}: {errors}");
    }
}

#[test]
fn a_size_that_is_no_multiple_is_told_with_the_statement_that_needs_it() {
    let errors = postlude(&["run", "z = A @ B; s = max(z, N, 3)", "--size", "M=2,N=8,K=2"]);
    let errors = errors.mistake();
    assert!(errors.contains("`N` is 8, which is not a multiple of 3"), "{errors}");
    assert!(errors.contains("<text>:1:12") && errors.contains("^^^^^^^^^^^^^^^^"), "{errors}");
}

#[test]
fn the_index_of_pick_is_i32_in_a_one_liner() {
    let printed = postlude(&["check", "D = A @ B; d = pick(D, t[M])"]).fine();
    assert!(printed.contains("t: i32[M]"), "{printed}");
    run("d = pick(A @ B, t[M])", &["--fill", "t=labels", "--check"]).fine();
}

const UNUSED: &str = "kernel k(A: f32[M, K], B: f32[K, N], bias: f32[N]) -> D: f32[M, N] { z = relu(A @ B); D = z; e = D + 1.0 }";

#[test]
fn what_nothing_reads_is_a_warning_and_no_mistake() {
    let ended = postlude(&["run", UNUSED, "--size", "M=2,N=2,K=2"]);
    assert_eq!(ended.code, Some(0));
    for wanted in
        ["warning: input `bias` is never read", "warning: `e` is assigned, and nothing reads it"]
    {
        assert!(ended.errors.contains(wanted), "{}", ended.errors);
    }
    let ended = postlude(&["run", UNUSED, "--size", "M=2,N=2,K=2", "--json"]);
    let object = ended.object();
    assert_eq!(object["warnings"][0]["message"], "input `bias` is never read");
    assert_eq!(object["warnings"][0]["column"], 38);
    assert_eq!((object["kernel"].as_str(), ended.errors.as_str()), (Some("k"), ""));
    let object = postlude(&["check", "D = A @ B", "--json"]).object();
    assert!(object.get("warnings").is_none());
}

#[test]
fn an_assembler_that_does_nothing_is_no_bug_of_ours() {
    for (program, flag) in
        [("/bin/true", "--stats"), ("/bin/true", "--sass"), ("/bin/false", "--stats")]
    {
        let mut emit = command(&["emit", "D = A @ W.T", "--size", "M=64,N=64,K=64", flag]);
        let ended = super::Ended::of(&emit.env("PTXAS", program).output().unwrap());
        let errors = ended.mistake();
        assert!(errors.contains(&format!("{program} does not work as `ptxas`")), "{errors}");
    }
}

/// Whole command lines that are wrong.
#[rustfmt::skip]
const WRONG: &[&[&str]] = &[
    &["run"], &["run", "D = A @ B", "--size", "M=1e3"], &["check", "D = A @@ B"],
    &["check", "D = std(A @ B, N) + geluu(C) + x"], &["run", "D = A @ B", "--size", "M=2"],
    &["run", "D = A @ B", "--set", "x=1e400"], &["run", "no_such_kernel"], &["check", "D = exp(A) @ B"],
    &["run", "s = max(A @ B, N, 3)", "--size", "M=2,N=8,K=2"], &["run", "D = A @ B", "--backend", "none"],
    &["explain", "D = A @ B", "--schedule", "/nowhere", "--size", "M=8,N=8,K=8"],
];

#[test]
fn json_carries_the_same_first_error_as_the_text() {
    for arguments in WRONG {
        let text = postlude(arguments).mistake();
        let first = text.lines().next().unwrap_or_default();
        let first = first.strip_prefix("error: ").unwrap_or(first);
        let ended = postlude(&[arguments, &["--json"][..]].concat());
        assert_eq!(ended.code, Some(2), "{arguments:?}");
        let object = ended.object();
        let message = object["error"]["message"].as_str().unwrap_or_default();
        assert!(
            message.starts_with(first.trim_end_matches(':')),
            "{arguments:?}: {message} / {first}"
        );
    }
}
