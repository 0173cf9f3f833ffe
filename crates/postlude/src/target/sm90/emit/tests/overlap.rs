//! Code of launches that overlap: no thread touches global memory before it has waited for the launch before.

use crate::graph::MathMode;
use crate::problem::Sizes;
use crate::target::Chip;
use crate::{Kernel, Options};

use super::assemble;

/// A name, a kernel and its sizes.
const KERNELS: &[(&str, &str, [usize; 3])] = &[
    (
        "overlap_product",
        "kernel k(A: bf16[M, K], W: bf16[N, K], b: f32[N], s: f32[]) -> (D: bf16[M, N], most: f32[]) { D = relu(A @ W.T * s + b); most = absmax(D) }",
        [512, 512, 256],
    ),
    (
        "overlap_elements",
        "kernel k(A: bf16[M, K], W: bf16[N, K]) -> D: bf16[M, N] { D = A @ W.T }",
        [512, 511, 255],
    ),
    (
        "overlap_two_products",
        "kernel k(A: bf16[M, K], G: bf16[N, K], U: bf16[N, K]) -> D: bf16[M, N] { D = silu(A @ G.T) * (A @ U.T) }",
        [512, 512, 256],
    ),
    (
        "overlap_rows",
        "kernel k(A: bf16[M, N], g: f32[N]) -> D: bf16[M, N] { D = softmax(A, N) * g }",
        [512, 4096, 0],
    ),
    ("overlap_sums", "kernel k(A: f32[M, N]) -> s: f32[N] { s = sum(A, M) }", [512, 4096, 0]),
];

#[test]
fn global_memory_is_touched_behind_the_wait() {
    for (name, text, [m, n, k]) in KERNELS {
        let kernel = Kernel::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let compiled = kernel.compile(&Options::default());
        let sizes = [("M", *m), ("N", *n), ("K", *k)].into_iter().filter(|(_, size)| *size > 0);
        let sizes: Sizes = sizes.map(|(dim, size)| (dim.to_owned(), size)).collect();
        let problem = compiled.problem(&sizes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let planned = compiled.last_launch(&problem, Chip::STANDARD);
        let planned = planned.unwrap_or_else(|error| panic!("{name}: {error}"));
        let entry = planned.emit_overlapping(MathMode::Default, true);
        let text = entry.to_string();
        let (before, behind) =
            text.split_once("griddepcontrol.wait").unwrap_or_else(|| panic!("{name}: no wait"));
        assert!(!before.contains(".global"), "{name}");
        assert!(behind.contains(".global"), "{name}");
        assert_eq!(behind.matches("griddepcontrol.launch_dependents").count(), 1, "{name}");
        assert!(!behind.contains("griddepcontrol.wait"), "{name}");
        // Whatever branches before the wait meets again there: every thread executes it.
        let label = |line: &&str| line.trim_start().starts_with("ret");
        assert_eq!(before.lines().filter(label).count(), 0, "{name}");
        assemble(name, &entry);
        let alone = planned.emit(MathMode::Default).to_string();
        assert!(!alone.contains("griddepcontrol"), "{name}");
    }
}
