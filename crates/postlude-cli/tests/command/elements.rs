//! `--print`: elements as NumPy shows them.

use super::{postlude, postlude_in};

#[test]
fn outputs_are_printed_as_numpy_does() {
    let arguments = ["run", "D = A @ B - 2.5; s = sum(D)", "--size", "M=2,N=3,K=4"];
    let more = ["--fill", "A=ones", "--fill", "B=ones", "--print", "D,s"];
    let output = postlude(&[&arguments[..], &more].concat()).fine();
    let wanted = "D: bf16[2, 3]\n[[1.5 1.5 1.5]\n [1.5 1.5 1.5]]\ns: f32[]\n9.0\n";
    assert!(output.ends_with(wanted), "{output}");
}

#[test]
fn large_outputs_are_cut() {
    let arguments = ["run", "D = A @ B", "--size", "M=100,N=100,K=1", "--fill", "A=ones"];
    let more = ["--fill", "B=ones", "--print", "D"];
    let output = postlude(&[&arguments[..], &more].concat()).fine();
    let rows = " [1. 1. 1. ... 1. 1. 1.]\n";
    let wanted = format!("[{}{rows}{rows} ...\n{rows}{rows}{}]\n", &rows[1..], rows.trim_end());
    assert!(output.ends_with(&wanted), "{output}");
}

#[test]
fn objects_carry_small_outputs() {
    let run = |sizes: &str| {
        let arguments = ["run", "D = A @ B", "--size", sizes, "--fill", "A=ones"];
        postlude(&[&arguments[..], &["--fill", "B=ones", "--print", "D", "--json"]].concat())
    };
    let output = &run("M=1,N=2,K=3").object()["outputs"][0];
    assert_eq!(output["values"].to_string(), "[[3.0,3.0]]");
    let output = &run("M=100,N=100,K=3").object()["outputs"][0];
    assert!(output["values"].is_null() && output.get("values").is_some(), "{output}");
    let plain = postlude(&["run", "D = A @ B", "--size", "M=1,N=2,K=3", "--json"]).object();
    assert!(plain["outputs"][0].get("values").is_none());
}

#[test]
fn what_is_not_computed_is_not_printed() {
    let folder = tempfile::tempdir().unwrap();
    let run = |more: &[&str]| {
        let arguments = ["run", "Z = A @ B; D = relu(Z)", "--size", "M=1,N=1,K=1"];
        postlude_in(folder.path(), &[&arguments[..], more].concat()).mistake()
    };
    assert!(run(&["--print", "E"]).contains("its outputs are Z, D"));
    assert!(run(&["--print", "Z", "--only", "D"]).contains("`--only Z`"));
}
