//! An interrupted run leaves whole files or none, and nothing else.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use super::command;

#[test]
#[cfg(unix)]
fn an_interrupted_run_leaves_the_old_file_or_the_whole_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("D.npy");
    for milliseconds in [1, 5, 20, 60, 120, 250] {
        fs::write(&path, "old").unwrap();
        let arguments = ["run", "D = A @ B", "--size", "M=3000,N=3000,K=1", "--dtype", "f32"];
        let mut child = command(&[&arguments[..], &["--out", "D=D.npy"]].concat())
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        sleep(Duration::from_millis(milliseconds));
        interrupt(&child);
        child.wait().unwrap();
        let bytes = fs::read(&path).unwrap();
        assert!(bytes == b"old" || bytes.len() == 3000 * 3000 * 4 + 128, "{}", bytes.len());
        assert_eq!(files(folder.path()), ["D.npy"], "after {milliseconds} ms");
    }
}

#[test]
#[cfg(unix)]
fn a_run_interrupted_while_it_writes_removes_what_it_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["run", "D = A @ B", "--size", "M=6000,N=6000,K=1", "--dtype", "f32"];
    let mut child = command(&[&arguments[..], &["--out", "D=D.npy"]].concat())
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while files(folder.path()).is_empty() && child.try_wait().unwrap().is_none() {
        sleep(Duration::from_millis(1));
    }
    interrupt(&child);
    let code = child.wait().unwrap().code();
    match files(folder.path()).as_slice() {
        [] => assert_eq!(code, Some(130)),
        // It was done before the interruption came.
        names => assert_eq!(names, ["D.npy"]),
    }
}

/// Ctrl-C.
#[cfg(unix)]
pub(super) fn interrupt(child: &Child) {
    let id = child.id().to_string();
    Command::new("kill").args(["-INT", &id]).stderr(Stdio::null()).status().unwrap();
}

#[cfg(unix)]
fn files(folder: &Path) -> Vec<OsString> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}
