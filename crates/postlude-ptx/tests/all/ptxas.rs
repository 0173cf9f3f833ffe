//! Finds a real assembler and runs it; where there is none, tests say so and pass.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use postlude_ptx::entry::Entry;

/// What `PTXAS` names; `cargo xtask test` sets it.
fn assembler() -> Option<PathBuf> {
    std::env::var_os("PTXAS").map(PathBuf::from).filter(|path| path.is_file())
}

fn run(assembler: &PathBuf, target: &str, text: &str) -> Output {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let stem = format!("postlude-ptx-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(stem).with_extension("ptx");
    let object = path.with_extension("cubin");
    std::fs::write(&path, text).expect("the temporary folder is writable");
    let output = Command::new(assembler)
        .args(["-v", "-arch", target, "-o"])
        .args([&object, &path])
        .output()
        .expect("the assembler starts");
    for file in [path, object] {
        let _ = std::fs::remove_file(file);
    }
    output
}

/// Assembles a kernel and returns the assembler's remarks; `None`, said loudly, where there is no assembler.
#[expect(clippy::print_stderr, reason = "a skipped test must be seen")]
pub(crate) fn assemble(entry: &Entry) -> Option<String> {
    let text = entry.to_string();
    let Some(assembler) = assembler() else {
        eprintln!("SKIPPED: `{}` was not assembled, because PTXAS names no assembler", entry.name);
        return None;
    };
    let output = run(&assembler, entry.target.name, &text);
    let remarks = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    let numbered: Vec<String> =
        text.lines().enumerate().map(|(at, line)| format!("{:4} {line}", at + 1)).collect();
    assert!(output.status.success(), "{remarks}\n{}", numbered.join("\n"));
    Some(remarks)
}
