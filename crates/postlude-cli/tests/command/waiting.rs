//! What a person sees who waits: progress on a terminal, notes told once, whose time it is.

use std::fs;
#[cfg(target_os = "linux")]
use std::process::{Command, Stdio};

use super::{Ended, NOTE, command, postlude};

/// What a command writes on a terminal.
#[cfg(target_os = "linux")]
fn on_a_terminal(line: &str) -> Option<String> {
    let line = format!("stty cols 120 rows 40; {} {line}", env!("CARGO_BIN_EXE_postlude"));
    let output = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("CUDA_VISIBLE_DEVICES", "")
        .env("TERM", "xterm")
        .env("POSTLUDE_CACHE_DIR", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"))
        .stdin(Stdio::null())
        .output()
        .ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
#[cfg(target_os = "linux")]
fn long_work_shows_a_share_and_an_estimate() {
    for line in [
        "run 'D = A @ B' --size M=400,N=400,K=400 --check=all",
        "run 'D = A @ B' --size M=400,N=400,K=400 --backend reference",
        "run 'D = A @ B' --size M=256,N=256,K=256 --backend sim",
        "fuzz --backend cpu --graphs 50",
    ] {
        // Without a terminal to try it on there is nothing to see.
        let Some(shown) = on_a_terminal(line) else { return };
        assert!(shown.contains("% ") || shown.contains("%, "), "{line}: {shown:?}");
        assert!(shown.contains(" left"), "{line}: {shown:?}");
    }
    let objects = "run 'D = A @ B' --size M=400,N=400,K=400 --check=all --json";
    let shown = on_a_terminal(objects).unwrap_or_default();
    assert!(shown.trim_start().starts_with('{') && !shown.contains(" left"), "{shown:?}");
}

#[test]
fn nothing_is_shown_without_a_terminal() {
    let ended = postlude(&["run", "D = A @ B", "--size", "M=200,N=200,K=200", "--check=all"]);
    assert_eq!(ended.errors, "");
}

#[test]
fn a_machine_without_a_gpu_is_told_so_once() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("new/cache");
    let run = |arguments: &[&str]| {
        let output = command(arguments).env("POSTLUDE_CACHE_DIR", &cache).output().unwrap();
        Ended::of(&output)
    };
    let arguments = ["run", "D = A @ B", "--size", "M=1,N=1,K=1"];
    let note = run(&arguments).note.expect("a note");
    assert!(note.starts_with(NOTE) && note.contains("`postlude info`"), "{note}");
    assert_eq!(run(&arguments).note, None);
    assert!(run(&["info"]).fine().contains("backend cuda       not available"));
    assert_eq!(run(&["cache", "size"]).fine(), "0 bytes in 0 kernels\n");
    run(&["cache", "clear"]).fine();
    assert_eq!(fs::read_dir(&cache).unwrap().count(), 0);
    assert!(run(&arguments).note.is_some());
    // Objects say it every time.
    let object = run(&["run", "D = A @ B", "--size", "M=1,N=1,K=1", "--json"]).object();
    assert!(object["reason"].is_string());
}

#[test]
fn a_folder_that_cannot_be_written_is_no_reason_to_stop() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let output = command(&["run", "D = A @ B", "--size", "M=1,N=1,K=1"])
        .env("POSTLUDE_CACHE_DIR", file.join("below"))
        .output()
        .unwrap();
    Ended::of(&output).fine();
}

#[test]
fn the_time_in_the_simulator_is_its_own() {
    let arguments = ["run", "D = A @ B", "--size", "M=64,N=64,K=64", "--backend", "sim", "--time"];
    let output = postlude(&arguments).fine();
    let line = output.lines().find(|line| line.starts_with("time  ")).unwrap_or_default();
    assert!(line.ends_with("in the simulator: its own time, not a GPU's"), "{output}");
}
