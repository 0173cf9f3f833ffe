//! The CPU engine's unsafe code under AddressSanitizer: every kernel of the corpus and the engine's own tests, with the best
//! vector instructions of the machine and with none.

use serde_json::Value;

use crate::command::{program, root, run};
use crate::executables::executables;

/// The folder of these builds, apart because their flags differ from all other builds.
const FOLDER: &str = "target/sanitized";
/// The sanitizer's runtime exists for this one.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Values of `POSTLUDE_CPU`.
const LEVELS: [&str; 3] = ["avx512", "avx2", "portable"];

/// Builds with the sanitizer and runs each level. Elsewhere than on Linux and x86-64 it says that it was skipped.
pub(crate) fn run_sanitized() -> Result<(), String> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        eprintln!("SKIPPED: the sanitizer runs on Linux and x86-64 alone");
        return Ok(());
    }
    let environment = [
        // `-Z` flags on the pinned stable toolchain.
        ("RUSTC_BOOTSTRAP", "1"),
        ("RUSTFLAGS", "-Zsanitizer=address"),
        ("CARGO_TARGET_DIR", FOLDER),
        ("CARGO_PROFILE_TEST_DEBUG", "line-tables-only"),
    ];
    let arguments = |package: &'static str, tests: &[&'static str]| {
        let mut all = vec!["test", "--no-run", "--no-default-features", "--target", TARGET];
        all.extend(["--message-format=json-render-diagnostics", "-p", package]);
        all.extend(tests);
        all
    };
    let is_test = |message: &Value| message["profile"]["test"] == Value::Bool(true);
    let engine = executables(&arguments("postlude", &["--lib"]), &environment, is_test)?;
    let corpus =
        executables(&arguments("postlude-corpus", &["--test", "corpus"]), &environment, is_test)?;
    for level in LEVELS {
        for binary in &engine {
            let tests = program(&binary.path, &["cpu::", "--quiet"]);
            run(sanitized(tests, level).current_dir(&binary.folder))?;
        }
        // The kernels of the corpus differ in what they compute, not in how it is vectorised: the widest and none will do.
        for binary in corpus.iter().filter(|_| level != "avx2") {
            let mut cases = sanitized(program(&binary.path, &["--format", "terse"]), level);
            run(cases.env("POSTLUDE_BACKEND", "cpu").current_dir(root()))?;
        }
    }
    Ok(())
}

fn sanitized(mut command: std::process::Command, level: &str) -> std::process::Command {
    command.env("POSTLUDE_CPU", level).env("ASAN_OPTIONS", "detect_leaks=0");
    command
}
