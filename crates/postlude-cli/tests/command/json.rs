//! The objects that `--json` prints.

use serde_json::{Value, json};

use super::{postlude, repository};

fn keys(object: &Value) -> Vec<&str> {
    object.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn a_run_is_one_object_with_these_fields() {
    let arguments = ["run", "D = A @ B", "--size", "M=2,N=3,K=5", "--backend", "cpu", "--json"];
    let fills = ["--fill", "A=ones", "--fill", "B=ones"];
    let ended = postlude(&[&arguments[..], &fills].concat());
    assert_eq!(ended.code, Some(0));
    let wanted = json!({
        "schema": 1, "kernel": "one_liner", "backend": "cpu", "sizes": {"M": 2, "N": 3, "K": 5},
        "outputs": [{"name": "D", "dtype": "bf16", "shape": [2, 3], "mean": 5.0, "absmax": 5.0, "nan": 0}],
        "check": null, "seconds": null,
    });
    assert_eq!(ended.object(), wanted);
    let ended = postlude(&[&arguments[..], &fills, &["--check", "--time"]].concat());
    let object = ended.object();
    let error = json!({"error": 0.0, "at": [0, 0], "got": 5.0, "want": 5.0});
    let wanted = json!({
        "ok": true, "worst": 0.0, "bound": 0.0,
        "outputs": [{
            "name": "D", "ok": true, "worst": 0.0, "bound": 0.0, "open": 0, "wrong": 0,
            "absolute": error, "relative": error, "nan": 0, "expected_nan": 0,
            "checked": 6, "elements": 6,
        }],
    });
    assert_eq!(object["check"], wanted);
    assert!(object["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0));
}

#[test]
fn a_scalar_in_memory_has_the_empty_shape() {
    let object = postlude(&["run", "s = sum(A @ B)", "--size", "M=2,N=3,K=5", "--json"]).object();
    assert_eq!(object["outputs"][0]["shape"], json!([]));
}

#[test]
fn numbers_that_are_not_finite_are_null() {
    let source = "D = A @ B / 0.0";
    let arguments =
        ["run", source, "--size", "M=1,N=1,K=1", "--fill", "A=ones", "--fill", "B=ones"];
    let object = postlude(&[&arguments[..], &["--json"]].concat()).object();
    assert_eq!(object["outputs"][0]["mean"], Value::Null);
    assert_eq!(object["outputs"][0]["absmax"], Value::Null);
}

#[test]
fn a_mistake_in_the_kernel_has_a_place_and_a_fix() {
    let ended = postlude(&["run", "Z = A @ B\nD = geluu(Z)", "--json"]);
    assert_eq!((ended.code, ended.errors.as_str()), (Some(2), ""));
    let wanted = json!({"schema": 1, "error": {
        "message": "unknown function `geluu`", "line": 2, "column": 5, "fix": "did you mean `gelu`?",
    }});
    assert_eq!(ended.object(), wanted);
}

#[test]
fn other_mistakes_have_no_place() {
    for arguments in [
        &["run", "D = A @ B", "--json"][..],
        &["run", "missing.post", "--json"],
        &["run", "D = A @ B", "--sead", "1", "--json"],
        &["run", "--json"],
        &["corpus", "no case is called so", "--json"],
        &["bench", "no kernel is called so", "--json"],
    ] {
        let ended = postlude(arguments);
        assert_eq!((ended.code, ended.errors.as_str()), (Some(2), ""), "{arguments:?}");
        let object = ended.object();
        assert_eq!(keys(&object), ["error", "schema"]);
        assert_eq!(keys(&object["error"]), ["column", "fix", "line", "message"]);
        assert_eq!(object["error"]["line"], Value::Null, "{arguments:?}");
        assert!(object["error"]["message"].as_str().is_some_and(|text| !text.is_empty()));
    }
}

#[test]
fn a_bug_is_an_object_too() {
    let ended = postlude(&["bug", "--json"]);
    assert_eq!(ended.code, Some(3));
    let message = ended.object()["error"]["message"].to_string();
    assert!(message.contains("this is a bug in Postlude"), "{message}");
}

#[test]
fn every_listing_has_its_object() {
    let object = postlude(&["list", "--json"]).object();
    assert!(object["kernels"].as_array().is_some_and(|kernels| kernels.len() > 100));
    let object = postlude(&["list", "--functions", "--json"]).object();
    assert!(object["functions"].as_array().is_some_and(|functions| functions.len() > 50));
    let object = postlude(&["info", "--json"]).object();
    assert!(object["cores"].as_u64().is_some_and(|cores| cores > 0));
    let object = postlude(&["check", "z = A @ B; D = relu(z)", "--json"]).object();
    assert_eq!(object["names"][0], json!({"name": "z", "type": "f32[M, N]"}));
    assert_eq!(object["inputs"][0], json!({"name": "A", "dtype": "bf16", "dims": ["M", "K"]}));
    let sizes = ["--size", "M=8,N=8,K=8"];
    let object = postlude(&[&["explain", "D = A @ B", "--json"][..], &sizes].concat()).object();
    assert_eq!(keys(&object["stages"]), ["ast", "graph", "passes", "schedule"]);
    let object = postlude(&[&["bench", "product_f32", "--json"][..], &sizes].concat()).object();
    assert_eq!(object["kernels"][0]["kernel"], "product_f32");
    let corpus = repository().join("corpus");
    let arguments = ["corpus", "plain::", "--json", "--folder", corpus.to_str().unwrap()];
    let object = postlude(&arguments).object();
    assert_eq!((&object["failed"], &object["backend"]), (&json!(0), &json!("cpu")));
}
