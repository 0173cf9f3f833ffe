//! The CPU engine's unsafe code under AddressSanitizer: prepared calls with every level of vector instructions, and every
//! kernel of the corpus with the best of the machine.

use serde_json::Value;

use crate::command::{program, run};
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
    ];
    // Both tests are in the package that has the fewest dependencies: all of them are built here once more.
    let arguments = [
        ["test", "--no-run", "--profile", "sanitized", "--target", TARGET].as_slice(),
        &["--message-format=json-render-diagnostics", "-p", "postlude-corpus"],
        &["--test", "prepared", "--test", "corpus"],
    ];
    let is_test = |message: &Value| message["profile"]["test"] == Value::Bool(true);
    for binary in executables(&arguments.concat(), &environment, is_test)? {
        let is_corpus = binary.name == "corpus";
        // The kernels of the corpus differ in what they compute, not in how it is vectorised: the widest will do.
        for level in LEVELS.iter().filter(|level| !is_corpus || **level == "avx512") {
            // The sanitizer's own memory takes page faults.
            let mut tests =
                program(&binary.path, &["--format", "terse", "--skip", "takes_no_page_fault"]);
            tests.env("POSTLUDE_CPU", level).env("ASAN_OPTIONS", "detect_leaks=0");
            run(tests.env("POSTLUDE_BACKEND", "cpu").current_dir(&binary.folder))?;
        }
    }
    Ok(())
}
