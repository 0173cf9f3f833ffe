//! `cargo xtask gpu`: everything that a machine with a GPU needs to test and time this commit, in one folder.
//!
//! Such a machine needs a driver and nothing else: no Rust, no CUDA toolkit.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::command::root;
use crate::executables::{executables, files};
use crate::place::{copy, copy_sources, create, io_error, place_program};
use crate::python_package::{self, NATIVE, PACKAGE};

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
    // One build of them all: cargo would build what they share once for each.
    let packages = ["postlude-cli", "postlude", "postlude-peers", PACKAGE];
    let packages: Vec<&str> = packages.iter().flat_map(|package| ["-p", *package]).collect();
    let targets = ["--lib", "--bin", "postlude", "--example", "call_cost"];
    let build = [&["build", "--release", "--message-format=json"], &packages[..], &targets];
    let [command, call_cost, peers, native] =
        files(&build.concat(), ["postlude", "call_cost", PEERS_LIBRARY, NATIVE])?;
    place_program(&command, &folder.join("postlude"))?;
    place_program(&call_cost, &folder.join("call_cost"))?;
    place_program(&peers, &folder.join(PEERS_LIBRARY))?;
    python_package::lay_out(&native, &folder.join("python"))?;
    copy_sources(&root().join(python_package::TESTS), &folder.join("python_tests"))?;
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
