//! `cargo xtask gpu`: everything that a machine with a GPU needs to test and time this commit, in one folder.
//!
//! Such a machine needs a driver and nothing else: no Rust, no CUDA toolkit.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::command::{answer, cargo, program, root, run};
use crate::executables::executables;

/// Where it is put.
const FOLDER: &str = "target/gpu";
/// What runs it, kept in the repository.
const SCRIPT: &str = "bench/gpu/check_and_time.sh";
/// PyTorch beside ours, kept in the repository too.
const PEERS: &str = "bench/gpu/peers.py";
/// What one call costs on the CPU, in NumPy.
const CALLS: &str = "bench/numpy_calls.py";
/// The library that it calls.
const PEERS_LIBRARY: &str = "libpostlude_peers.so";
/// The Python package on a GPU, kept in the repository too: scripts in one folder that import each other.
const PYTHON_FOLDER: &str = "bench/gpu";
const PYTHON: &[&str] = &[
    "python.py",
    "judge.py",
    "float64.py",
    "rounding.py",
    "text_parser.py",
    "training.py",
    "recorded_calls.py",
];
/// The package's Python half, and its tests.
const PACKAGE: &str = "crates/postlude-py/python/postlude";
const PACKAGE_TESTS: &str = "crates/postlude-py/tests";
/// Its native half as cargo names it, and as Python looks for it.
const NATIVE: &str = "lib_native.so";
const NATIVE_MODULE: &str = "_native.abi3.so";
/// Folders that the command reads.
const FOLDERS: &[&str] = &["corpus", "kernels"];
/// More would be slow to carry.
const MOST_BYTES: u64 = 60 << 20;

/// Builds and packs.
pub(crate) fn pack() -> Result<(), String> {
    let folder = root().join(FOLDER);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| io_error(&folder, &error))?;
    }
    create(&folder.join("tests"))?;
    let packages = ["build", "--release", "-p", "postlude-cli", "-p", "postlude"];
    let targets = ["--bin", "postlude", "--example", "call_cost", "--message-format=json"];
    for command in executables(&[&packages[..], &targets].concat(), &[], |_| true)? {
        place_program(&command.path, &folder.join(command.name))?;
    }
    let tests = [
        "test",
        "--release",
        "--workspace",
        "--no-run",
        "--test",
        "gpu_*",
        "--message-format=json",
    ];
    let is_ours = |message: &Value| {
        message["target"]["name"].as_str().is_some_and(|name| name.starts_with("gpu_"))
    };
    for test in executables(&tests, &[], is_ours)? {
        place_program(&test.path, &folder.join("tests").join(test.name))?;
    }
    place_program(&library("postlude-peers", PEERS_LIBRARY)?, &folder.join(PEERS_LIBRARY))?;
    let package = folder.join("python/postlude");
    copy_sources(&root().join(PACKAGE), &package)?;
    place_program(&library("postlude-py", NATIVE)?, &package.join(NATIVE_MODULE))?;
    copy_sources(&root().join(PACKAGE_TESTS), &folder.join("python_tests"))?;
    for name in PYTHON {
        copy(&root().join(PYTHON_FOLDER).join(name), &folder.join(name))?;
    }
    for name in FOLDERS {
        copy_folder(&root().join(name), &folder.join(name))?;
    }
    copy(&root().join(SCRIPT), &folder.join("check_and_time.sh"))?;
    copy(&root().join(PEERS), &folder.join("peers.py"))?;
    copy(&root().join(CALLS), &folder.join("numpy_calls.py"))?;
    let bytes = size(&folder)?;
    println!("\n{FOLDER}: {:.1} MB", bytes as f64 / 1e6);
    if bytes > MOST_BYTES {
        return Err(format!("{FOLDER} is larger than {} MB", MOST_BYTES >> 20));
    }
    println!("carry it to a machine with a Hopper GPU and run there:");
    println!("  ./check_and_time.sh results                            # tests, corpus, benchmark");
    println!(
        "  CHECKS=0 SUITES=\"plain random\" ./check_and_time.sh results  # a part of the benchmark"
    );
    println!(
        "  SANITIZE=1 ./check_and_time.sh results                 # with compute-sanitizer too"
    );
    println!(
        "  CHECKS=0 SUITES= PEERS=\"warm time\" ./check_and_time.sh results  # beside PyTorch, where it is installed"
    );
    println!(
        "  python3 python.py results                              # the Python package, where PyTorch is installed"
    );
    Ok(())
}

/// A package's library for other languages, built.
fn library(package: &str, file: &str) -> Result<PathBuf, String> {
    let arguments = ["build", "--release", "-p", package, "--message-format=json"];
    println!("$ cargo {}", arguments.join(" "));
    // Python brings its own symbols: an extension module names no library of theirs.
    let messages = answer(cargo(&arguments).env("PYO3_BUILD_EXTENSION_MODULE", "1"))?;
    let files = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    files
        .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default())
        .filter_map(|file| file.as_str().map(PathBuf::from))
        .find(|built| built.ends_with(file))
        .ok_or_else(|| format!("no {file} was built"))
}

/// Copies a folder's Python files, and none that a build or a run left there.
fn copy_sources(from: &Path, to: &Path) -> Result<(), String> {
    create(to)?;
    for entry in fs::read_dir(from).map_err(|error| io_error(from, &error))? {
        let path = entry.map_err(|error| io_error(from, &error))?.path();
        let is_source = path.extension().is_some_and(|extension| extension == "py");
        if let (true, Some(name)) = (is_source, path.file_name()) {
            copy(&path, &to.join(name))?;
        }
    }
    Ok(())
}

/// Copies a program without what only debuggers read, where there is something to take it out with.
fn place_program(from: &Path, to: &Path) -> Result<(), String> {
    copy(from, to)?;
    if let Err(message) = run(program("strip", &[]).arg(to)) {
        println!("not stripped: {message}");
    }
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), String> {
    create(to)?;
    for entry in fs::read_dir(from).map_err(|error| io_error(from, &error))? {
        let entry = entry.map_err(|error| io_error(from, &error))?;
        let place = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &place)?;
        } else {
            copy(&entry.path(), &place)?;
        }
    }
    Ok(())
}

fn size(folder: &Path) -> Result<u64, String> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).map_err(|error| io_error(folder, &error))? {
        let path = entry.map_err(|error| io_error(folder, &error))?.path();
        bytes += if path.is_dir() {
            size(&path)?
        } else {
            fs::metadata(&path).map_err(|error| io_error(&path, &error))?.len()
        };
    }
    Ok(bytes)
}

fn create(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| io_error(folder, &error))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to).map(|_| ()).map_err(|error| io_error(from, &error))
}

fn io_error(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
