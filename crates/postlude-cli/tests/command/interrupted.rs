//! An interrupted run leaves whole files or none.

use std::fs;
use std::process::Stdio;
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
        // Ctrl-C.
        let id = child.id().to_string();
        std::process::Command::new("kill")
            .args(["-INT", &id])
            .stderr(Stdio::null())
            .status()
            .unwrap();
        child.wait().unwrap();
        let bytes = fs::read(&path).unwrap();
        assert!(bytes == b"old" || bytes.len() == 3000 * 3000 * 4 + 128, "{}", bytes.len());
    }
}
