//! Emitted kernels are assembled by a real assembler.

#![allow(clippy::print_stderr)] // A skipped test says so.

mod elementwise;
mod no_product;
mod other_chip;
mod overlap;
mod scaling;

use std::process::Command;

use postlude_ptx::entry::Entry;

/// Registers and complaints, when `PTXAS` names an assembler.
fn assemble(name: &str, entry: &Entry) -> Option<String> {
    let Some(ptxas) = std::env::var_os("PTXAS") else {
        eprintln!("SKIPPED: PTXAS names no assembler, so `{name}` was not assembled");
        return None;
    };
    let folder = std::env::temp_dir().join(format!("postlude-emit-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    let path = folder.join("kernel.ptx");
    std::fs::write(&path, entry.to_string()).expect("room for a kernel");
    let output = Command::new(ptxas)
        .args(["-arch", entry.target.name, "-v", "-o", "/dev/null"])
        .arg(&path)
        .output()
        .expect("ptxas runs");
    std::fs::remove_dir_all(&folder).expect("the folder is ours");
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{name}: {log}");
    Some(log)
}
