//! Kernels built in Rust, as text.

use proptest::prelude::*;

use crate::dtype::DType::{BF16, Bool, F32};
use crate::syntax::{Ast, MAX_NESTING, parse};

use super::*;

/// The body as text; the whole parses to itself.
fn body(k: &KernelBuilder) -> String {
    let ast = k.finish();
    assert_round_trip(&ast);
    ast.statements
        .iter()
        .map(|statement| {
            let targets = statement.targets.iter().map(ToString::to_string).collect::<Vec<_>>();
            format!("{} = {}", targets.join(", "), ast.exprs.display(statement.value))
        })
        .collect::<Vec<_>>()
        .join("; ")
}

fn assert_round_trip(ast: &Ast) {
    assert_eq!(parse(&ast.to_string()).as_ref(), Ok(ast), "{ast}");
}

fn kernel() -> KernelBuilder {
    KernelBuilder::new("k")
}

#[test]
fn literals_stand_on_either_side() {
    let k = kernel();
    let x = k.scalar("x", F32);
    for (value, text) in [
        (x + 1, "x + 1"),
        (1 - x, "1 - x"),
        (0.5 * x, "0.5 * x"),
        (x / 0.1_f32, "x / 0.1"),
        (x * -2, "x * -2"),
        (x - -0.0, "x - -0.0"),
        (x + f64::INFINITY, "x + inf"),
        (x + 1e300, "x + inf"),
        (f32::NEG_INFINITY + x, "-inf + x"),
        (x * f64::NAN, "x * nan"),
        (x + i32::MIN, "x + -2147483648"),
        (-(x + 1) * 2, "-(x + 1) * 2"),
        (!x.lt(1) & x.eq(2) | x.ne(0.0), "!(x < 1) & (x == 2) | (x != 0.0)"),
    ] {
        assert_eq!(value.to_string(), text);
    }
    assert_eq!(format!("{:?}", x + 1), "Expr(x + 1)");
}

#[test]
fn shared_values_are_computed_once_under_a_fresh_name() {
    let k = kernel();
    let x = k.input("t1", F32, ["M", "N"]);
    let shared = x.exp() + 1;
    k.output("D", F32, ["M", "N"], shared * shared + x.t() + x.t());
    assert_eq!(body(&k), "t2 = exp(t1) + 1; D = t2 * t2 + t1.T + t1.T");
}

#[test]
fn leaves_are_written_again_rather_than_named() {
    let k = kernel();
    let (a, minus) = (k.input("A", F32, ["M", "K"]), k.number(-1));
    let t = a.t();
    k.output("D", F32, ["M", "N"], t * minus + t + minus);
    assert_eq!(body(&k), "D = A.T * -1 + A.T + -1");
}

#[test]
fn doubling_a_hundred_times_stays_small() {
    let k = kernel();
    let mut x = k.scalar("x", F32);
    for _ in 0..100 {
        x = x + x;
    }
    assert!(x.to_string().len() < 100_000);
    k.output("D", F32, [], x);
    assert!(body(&k).ends_with("D = t99 + t99"));
}

#[test]
fn given_names_are_kept_and_unneeded_ones_are_not() {
    let k = kernel();
    let x = k.input("x", F32, ["M", "N"]);
    let z = k.name("Z", x + 1);
    k.name("unused", x * 2);
    let eps = k.name("eps", k.number(1e-5));
    k.output("D", F32, ["M", "N"], z.rsqrt() + eps);
    k.output("E", BF16, ["M", "N"], z);
    k.output("Z", BF16, ["M", "N"], z);
    assert_eq!(body(&k), "Z = x + 1; E = Z; eps = 1e-5; D = rsqrt(Z) + eps");
}

#[test]
fn outputs_are_read_by_name() {
    let k = kernel();
    let x = k.input("x", F32, ["M", "N"]);
    let d = k.output("D", F32, ["M", "N"], x.relu());
    k.output("peak", F32, [], d.max_all());
    k.output("copy", F32, ["M", "N"], x);
    assert_eq!(body(&k), "copy = x; D = relu(x); peak = max(D)");
}

#[test]
fn the_parts_of_a_split_are_assigned_together() {
    let k = kernel();
    let z = k.input("z", F32, ["M", "N"]);
    let (gate, up) = z.halves();
    let up = k.name("up", up);
    let (even, _) = (gate + up).pairs();
    k.output("D", F32, ["M", "N/2"], gate.silu() * up);
    k.output("E", F32, ["M", "N/4"], even);
    k.output("F", F32, ["M", "N/4"], even);
    k.output("G", F32, ["M", "N/2"], up);
    assert_eq!(
        body(&k),
        "t1, up = halves(z); G = up; E, t2 = pairs(t1 + up); F = E; D = silu(t1) * up"
    );
    assert_eq!((gate * up).to_string(), "first_of_1 * up");
}

#[test]
fn deep_values_are_broken_up() {
    let k = kernel();
    let x = k.scalar("x", F32);
    let (mut right, mut calls, mut minus, mut left) = (x, x, x, x);
    for _ in 0..10 * MAX_NESTING / 4 {
        right = x - (1 - right);
        calls = calls.exp();
        minus = -(minus + 1);
        left = left + 1;
    }
    k.output("A", F32, [], right);
    k.output("B", F32, [], calls);
    k.output("C", F32, [], minus);
    k.output("D", F32, [], left);
    let text = body(&k);
    let last = text.rsplit("; ").next().unwrap();
    assert!(last.starts_with("D = x + 1 + 1"), "left chains need no name: {last}");
}

#[test]
fn long_chains_do_not_recurse() {
    let k = kernel();
    let mut sum = k.scalar("x", F32);
    for _ in 0..200_000 {
        sum = sum + 1;
    }
    k.output("D", F32, [], sum);
    assert_eq!(k.finish().to_string().matches('+').count(), 200_000);
    assert!(sum.to_string().len() < 10_000);
}

#[test]
fn wrong_use_ends_as_an_error_later() {
    let (k, other) = (kernel(), kernel());
    let (x, y) = (k.scalar("x", F32), other.scalar("y", F32));
    k.scalar("x", Bool);
    k.output("D", F32, [], x + y);
    k.output("D", F32, [], x);
    k.name("D", k.name("z", y));
    assert_eq!(body(&k), "D = x; D = x + from_another_kernel");
    k.output("D", F32, [], x + y);
    k.output("D", F32, [], x);
    assert_eq!(body(&k).matches("D = x").count(), 4);
}

/// Applies one of many operations to values made before.
fn grow<'k>(k: &'k KernelBuilder, made: &mut Vec<Expr<'k>>, (what, a, b): (u8, u16, u16)) {
    let (x, y) = (made[a as usize % made.len()], made[b as usize % made.len()]);
    let value = match what % 20 {
        0 => x + y,
        1 => x - y,
        2 => x * -1.5,
        3 => 2 / y,
        4 => -x,
        5 => !x,
        6 => x.lt(y),
        7 => x & y,
        8 => x | y,
        9 => x.t(),
        10 => x.matmul(y),
        11 => x.where_(y, f64::from(b)),
        12 => x.sum(["M", "N/2"]),
        13 => x.mean_groups("N", 128),
        14 => x.grad_with("snake", [y]),
        15 => x.halves().0,
        16 => x.pairs().1.join(y),
        17 => k.name(format!("n{b}"), x),
        18 => k.output(format!("D{b}"), F32, ["M"], x),
        _ => k.number(i32::from(a)),
    };
    made.push(value);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_built_parses_to_itself(steps in prop::collection::vec(any::<(u8, u16, u16)>(), 0..120)) {
        let k = kernel();
        let mut made = vec![k.input("A", BF16, ["M", "K"]), k.scalar("t2", F32), k.row()];
        for step in steps {
            grow(&k, &mut made, step);
        }
        k.output("last", F32, [], made[made.len() - 1]);
        assert_round_trip(&k.finish());
        prop_assert!(made.iter().all(|value| value.to_string().len() < 100_000));
    }
}
