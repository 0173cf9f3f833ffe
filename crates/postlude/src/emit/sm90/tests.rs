//! Emitted kernels are assembled by a real assembler.

#![allow(clippy::print_stderr)] // A skipped test says so.

mod elementwise;

use std::process::Command;

use crate::check::Bindings;
use crate::graph::MathMode;
use crate::kernel::{Kernel, Options};
use crate::plan::sm90::{CANDIDATES, Sm90, fit};

use super::emit;

/// Registers and complaints, when `PTXAS` names an assembler.
fn assemble(name: &str, text: &str) -> Option<String> {
    let Some(ptxas) = std::env::var_os("PTXAS") else {
        eprintln!("SKIPPED: PTXAS names no assembler, so `{name}` was not assembled");
        return None;
    };
    let folder = std::env::temp_dir().join(format!("postlude-emit-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    let path = folder.join("kernel.ptx");
    std::fs::write(&path, text).expect("room for a kernel");
    let output = Command::new(ptxas)
        .args(["-arch", "sm_90a", "-v", "-o", "/dev/null"])
        .arg(&path)
        .output()
        .expect("ptxas runs");
    std::fs::remove_dir_all(&folder).expect("the folder is ours");
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{name}: {log}");
    Some(log)
}

fn optimised(source: &str) -> crate::graph::Graph {
    let kernel = Kernel::infer(source, &Bindings::default()).expect("a kernel that types");
    kernel.compile(&Options::default()).optimised().clone()
}

#[test]
fn every_candidate_assembles_without_spills() {
    let graph = optimised("D = A @ W.T");
    for tile in CANDIDATES {
        let schedule = fit(*tile, Sm90::H200).expect("candidates fit");
        let name = format!("{}x{}x{}", tile.rows, tile.columns, tile.cluster);
        let text = emit(&graph, &schedule, MathMode::Default).to_string();
        if let Some(log) = assemble(&name, &text) {
            assert!(
                log.contains("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"),
                "{name}: {log}"
            );
            assert!(!log.contains("C75") && !log.contains("warning"), "{name}: {log}");
        }
    }
}

#[test]
fn epilogues_assemble_without_spills() {
    let sources = [
        ("bias_relu", "D = relu(A @ W.T + bias[N])"),
        ("gelu_tanh", "D = gelu_tanh(A @ W.T + bias[N] * scale[M])"),
        ("two_outputs", "Z = A @ W.T + bias[N]\nD = silu(Z)"),
    ];
    for (name, source) in sources {
        let graph = optimised(source);
        let schedule = fit(CANDIDATES[0], Sm90::H200).expect("candidates fit");
        if let Some(log) = assemble(name, &emit(&graph, &schedule, MathMode::Default).to_string()) {
            assert!(
                log.contains("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"),
                "{name}: {log}"
            );
            assert!(!log.contains("C75"), "{name}: {log}");
        }
    }
}

/// Tile operands are loaded element by element, whose addresses do not all fit the registers yet; it may only get better.
#[test]
fn a_residual_spills_no_more_than_it_did() {
    let graph = optimised("D = relu(A @ W.T + C + bias[N])");
    let schedule = fit(CANDIDATES[0], Sm90::H200).expect("candidates fit");
    let text = emit(&graph, &schedule, MathMode::Default).to_string();
    if let Some(log) = assemble("residual", &text) {
        let spilled = log
            .split(" bytes spill stores")
            .next()
            .and_then(|before| before.rsplit(' ').next()?.parse::<u32>().ok());
        assert!(spilled.is_some_and(|bytes| bytes <= 20), "{log}");
        assert!(!log.contains("C75"), "{log}");
    }
}
