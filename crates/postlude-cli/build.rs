//! Tells the program which commit it was built from.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=POSTLUDE_COMMIT={}", commit().as_deref().unwrap_or("unknown"));
}

/// The commit of the repository that holds this crate; `None` outside of one or without git.
fn commit() -> Option<String> {
    // A copy of the sources inside some other repository is not that repository's commit.
    git(&["ls-files", "--error-unmatch", "Cargo.toml"])?;
    for file in ["HEAD", "logs/HEAD", "packed-refs"] {
        // A path that does not exist would make every build run this again.
        if let Some(path) = git(&["rev-parse", "--git-path", file])
            && Path::new(&path).exists()
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
