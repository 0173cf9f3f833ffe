//! Random kernels on the command line.

use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use serde_json::json;

use super::{Ended, command, postlude};

#[test]
fn a_run_can_be_taken_up_where_it_ended() {
    let object = |arguments: &[&str]| {
        let fuzz = ["fuzz", "--backend", "cpu", "--seed", "3", "--json"];
        postlude(&[&fuzz[..], arguments].concat()).object()
    };
    let elements = |object: &serde_json::Value| {
        let parts = ["exact", "sharp", "loose", "open"];
        parts.map(|part| object["elements"][part].as_u64().unwrap()).iter().sum::<u64>()
    };
    let whole = object(&["--graphs", "30"]);
    let (first, second) =
        (object(&["--graphs", "20"]), object(&["--graphs", "10", "--first", "20"]));
    assert_eq!((&first["next"], &second["next"]), (&json!(20), &json!(30)));
    assert_eq!(elements(&whole), elements(&first) + elements(&second));
    assert_eq!(whole["end"], json!("complete"));
}

#[test]
fn timings_are_counted_in_the_simulator() {
    let fuzz = ["fuzz", "--graphs", "5", "--jobs", "2", "--seed", "4", "--json"];
    let object = postlude(&fuzz).object();
    let timings = object["timings"].as_object().unwrap();
    let count: u64 = timings.values().filter_map(serde_json::Value::as_u64).sum();
    assert_eq!(count, 5, "{object}");
}

#[test]
#[cfg(unix)]
fn an_interrupted_run_prints_what_it_had() {
    let fuzz = ["fuzz", "--backend", "cpu", "--graphs", "1000000", "--jobs", "1"];
    let child = command(&fuzz).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    sleep(Duration::from_secs(2));
    super::interrupted::interrupt(&child);
    let ended = Ended::of(&child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(130), "{}{}", ended.output, ended.errors);
    assert!(ended.output.contains("interrupted: `--seed 0 --first "), "{}", ended.output);
}
