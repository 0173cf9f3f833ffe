//! What becomes of graphs that split columns.

use std::sync::Arc;

use postlude_ptx::launch::{Buffer, Parameter};

use crate::graph::{self, Stage};
use crate::graph::{Graph, Op};
use crate::lower::{BoundProgram, lower};
use crate::placement::Placements;
use crate::problem::Problem;

fn defined(signature: &str, body: &str) -> Graph {
    crate::define::defined(&format!("kernel k({signature} {{ {body} }}"))
}

fn refusal(graph: &Graph) -> String {
    lower(graph).err().map(|refusal| refusal.to_string()).unwrap_or_default()
}

const GATED: &str =
    "A: bf16[M, K], W: bf16[N, K], bias: f32[N]) -> (D: bf16[M, N/2], Z: bf16[M, N])";

#[test]
fn a_split_product_becomes_two_and_the_text_reads_back() {
    for (split, parts) in [("halves", ["first_half", "second_half"]), ("pairs", ["even", "odd"])] {
        let body = format!("Z = A @ W.T + bias\n gate, up = {split}(Z)\n D = silu(gate) * up");
        let old = defined(GATED, &body);
        let program = lower(&old).expect("it is not refused");
        let new = program.graph();
        assert_eq!(new.verify(Stage::Defined), Ok(()));
        let splits = |op: &Op| matches!(op, Op::Part(..) | Op::Merge(..));
        assert!(!new.nodes().any(|(_, node)| splits(&node.op)));
        assert_eq!(new.products().len(), 2);
        let names: Vec<&str> = new.inputs()[3..].iter().map(|input| &*input.name).collect();
        let wanted = ["W", "bias"].map(|name| parts.map(|part| format!("{name}.{part}")));
        assert_eq!(names, wanted.concat());
        assert_eq!(new.outputs().len(), 3);
        let text = new.to_string();
        assert_eq!(graph::parse(&text).map(|read| read.to_string()), Ok(text));
    }
}

#[test]
fn what_has_half_the_width_already_stays_as_it_is() {
    let signature = "A: bf16[M, K], W: bf16[N/2, K], Z: bf16[M, N]) -> D: bf16[M, N]";
    let old = defined(signature, "a, b = halves(Z)\n y = A @ W.T\n D = concat(y * b, y * a)");
    let program = lower(&old).expect("it is not refused");
    assert_eq!(program.graph().products(), old.products());
    assert_eq!((program.graph().inputs().len(), program.graph().outputs().len()), (5, 2));
}

#[test]
fn a_graph_that_splits_nothing_stays_as_it_is() {
    let old = defined("A: bf16[M, K], W: bf16[N, K]) -> D: bf16[M, N]", "D = relu(A @ W.T)");
    assert_eq!(lower(&old).expect("it is not refused").graph(), &old);
}

#[test]
fn every_part_that_is_used_is_a_product_and_no_other() {
    let signature = "A: bf16[M, K], W: bf16[N, K]) -> D: bf16[M, N/2]";
    for (body, products) in [
        ("z = A @ W.T\n a, b = halves(z)\n c, d = pairs(z)\n D = a * b + c * d", 4),
        ("a, b = halves(A @ W.T)\n c, d = pairs(concat(b, a) + 1.0)\n D = c * d", 4),
        ("a, b = halves(A @ W.T)\n c, d = halves(a)\n D = b", 1),
        ("a, b = halves(A @ W.T)\n c, d = pairs(a)\n D = concat(c, d) * b", 4),
        ("a, b = halves(A @ W.T)\n c, d = pairs(a)\n D = join(c, c)", 1),
    ] {
        let old = defined(signature, body);
        let program = lower(&old).expect("it is not refused");
        assert_eq!(program.graph().verify(Stage::Defined), Ok(()));
        assert_eq!(program.graph().products().len(), products, "{body}");
    }
}

#[test]
fn vectors_are_split_beside_a_whole_product() {
    let signature = "A: bf16[M, K], W: bf16[N, K], h: f32[N/2]) -> (o: f32[N/4], p: f16[N/2])";
    let old = defined(signature, "z = A @ W.T\n a, o = pairs(h)\n p = h");
    let program = lower(&old).expect("it is not refused");
    assert_eq!(program.graph().products(), old.products());
}

#[test]
fn columns_that_lie_in_no_one_place_are_refused() {
    let signature = "A: bf16[M, K], W: bf16[N, K]) -> D: bf16[M]";
    let exponentials = "z = A @ W.T\n a, b = halves(z)\n D = logsumexp(z, N) + max(a * b, N/2)";
    assert!(refusal(&defined(signature, exponentials)).contains("a reduction of all columns"));
    let bits = "A: bf16[M, K], W: bf16[N, K], keep: b1[M, N]) -> D: bf16[M, N/2]";
    let masked = "a, b = halves(where(keep, A @ W.T, 0.0))\n D = a * b";
    assert!(refusal(&defined(bits, masked)).contains("packed elements"));
}

#[test]
fn views_lie_in_the_tensors_that_they_are_of() {
    let old = defined(GATED, "Z = A @ W.T + bias\n gate, up = halves(Z)\n D = silu(gate) * up");
    let sizes = [("M", 16), ("N", 48), ("K", 64)];
    let sizes = sizes.map(|(dim, size)| (dim.to_owned(), size)).into();
    let problem = Problem::new(&old, &sizes).expect("sizes of every dim");
    let program = lower(&old).expect("it is not refused");
    let packed = Placements::packed(&old, &problem);
    let bound =
        BoundProgram::new(&Arc::new(program), &problem, &packed).expect("it is not refused");
    let (own, placements) = (bound.problem(), bound.placements());
    assert_eq!((own.product_columns(), own.columns), (24, 48));
    let second = placements.inputs[4].as_ref().expect("it lies somewhere");
    // 24 rows of 64 elements of two bytes are 12 periods.
    assert_eq!((second.strides.clone(), second.start), (vec![64, 1], 0));
    let second = &placements.outputs[2];
    assert_eq!((second.strides.clone(), second.start), (vec![48, 1], 48));
    let mut parameters = [Parameter::Pointer { buffer: Buffer(7 + 2), offset: 0 }];
    bound.settle(&mut parameters);
    assert_eq!(parameters, [Parameter::Pointer { buffer: Buffer(3 + 1), offset: 48 }]);
}

#[test]
fn columns_that_floats_do_not_count_are_refused() {
    let signature = "A: bf16[M, K], W: bf16[N, K]) -> D: bf16[M, N/2]";
    let old = defined(signature, "a, b = halves(where(col < 3, 0.0, A @ W.T))\n D = a * b");
    let program = lower(&old).expect("it is not refused");
    let program = Arc::new(program);
    let refused = |columns: usize| {
        let sizes = [("M", 1), ("N", columns), ("K", 1)];
        let sizes = sizes.map(|(dim, size)| (dim.to_owned(), size)).into();
        let problem = Problem::new(&old, &sizes).expect("sizes of every dim");
        let placements = Placements::packed(&old, &problem);
        BoundProgram::new(&program, &problem, &placements).is_err()
    };
    assert!(!refused(1 << 25) && refused((1 << 25) + 2));
}
