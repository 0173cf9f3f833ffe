//! Random nests of elementary functions: where a text evaluated in plain f32 is right, its meaning is right too.
//!
//! A nest is judged at points where its exact value hardly changes when the inputs change by two units in the last place.
//! Where plain f32 errs by at most 1e-5 there, every engine has to be within 1e-4. `POSTLUDE_FUZZ=100000` draws that many nests, `POSTLUDE_FUZZ_SEED`
//! others, and `POSTLUDE_BACKEND` says on which engine.

mod draw;

use std::cell::Cell;
use std::env;

use postlude::{Argument, Arguments, Backend, DType, Kernel, Options, Sizes, Tensor};

use super::plain::{Plain, Products, rounded};
use super::textbook::Textbook;
use draw::{Nest, Random, draw_nest, draw_point};

/// Nests in a kernel, each an output, and the points at which all of them are judged.
const OUTPUTS: usize = 40;
const POINTS: usize = 48;
/// What plain f32 may err by where a meaning is judged, and what the meaning may err by.
const PLAIN: f64 = 1e-5;
const ALLOWED: f64 = 1e-4;
/// How much an exact value may change with its inputs where it is judged.
const STABLE: f64 = 2e-5;

/// A point at which a meaning is worse than its text.
struct Worse {
    nest: Nest,
    point: (f32, f32),
    got: f64,
    plain: f32,
    exact: f64,
}

impl std::fmt::Display for Worse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (x, y) = self.point;
        let Worse { nest, got, plain, exact, .. } = self;
        write!(f, "{nest}  at x = {x:e}, y = {y:e}: {got:e}, plain {plain:e}, exactly {exact:e}")
    }
}

/// The values of the nests at the points, by nest.
fn run(nests: &[Nest], points: &[(f32, f32)], backend: Backend) -> Vec<Vec<f64>> {
    let outputs: Vec<String> = (0..nests.len()).map(|index| format!("o{index}: f32[M]")).collect();
    let body: Vec<String> =
        nests.iter().enumerate().map(|(index, nest)| format!("o{index} = {nest}")).collect();
    let source = format!(
        "kernel nests(x: f32[M], y: f32[M]) -> ({}) {{\n{}\n}}",
        outputs.join(", "),
        body.join("\n")
    );
    let kernel = Kernel::parse(&source).unwrap_or_else(|error| panic!("{source}: {error}"));
    let tensor = |values: Vec<f64>| {
        Argument::Tensor(
            Tensor::from_values(DType::F32, vec![values.len()], &values).expect("a tensor"),
        )
    };
    let arguments = Arguments::from([
        ("x".to_owned(), tensor(points.iter().map(|point| f64::from(point.0)).collect())),
        ("y".to_owned(), tensor(points.iter().map(|point| f64::from(point.1)).collect())),
    ]);
    let compiled = kernel.compile(&Options { backend, threads: Some(1), ..Options::default() });
    let sizes = Sizes::new();
    let run = compiled.run(&arguments, &sizes);
    let outputs = run.unwrap_or_else(|error| panic!("{source}: {error}"));
    outputs.iter().map(|(_, tensor)| tensor.values()).collect()
}

/// The result of a function that is not correctly rounded, moved.
fn nudged(name: &str, result: f32, by: impl Fn(f32) -> f32) -> f32 {
    let is_exact = result == 0.0
        || !result.is_finite()
        || matches!(
            name,
            "abs" | "sign" | "sqrt" | "rcp" | "floor" | "ceil" | "round" | "trunc" | "relu"
        );
    if is_exact { result } else { by(result) }
}

/// The exact value, if it is one that few bits determine.
fn exactly(textbook: &Textbook, (x, y): (f64, f64)) -> Option<f64> {
    let at = |bits| textbook.finite(bits, &[("x", &[x]), ("y", &[y])]);
    let (low, high) = (at(320)?, at(512)?);
    let near = low == high || (low - high).abs() <= 1e-9 * high.abs();
    near.then_some(high).filter(|value| value.is_finite())
}

fn close(got: f64, want: f64, part: f64) -> bool {
    (got - want).abs() <= part * want.abs()
}

/// Whether plain f32 has the right side of a jump because it has the right argument, and not because of an overflow.
fn jumps_rightly(jump: &Nest, point: (f32, f32)) -> bool {
    let errs_by = |nest: &Nest, part: f64| {
        let text = nest.to_string();
        let value = Plain::parse(&text).at(point, Products::Rounded, rounded);
        let exact = exactly(&Textbook::parse(&text), (f64::from(point.0), f64::from(point.1)));
        exact.is_some_and(|exact| close(f64::from(value), exact, part))
    };
    errs_by(jump, 0.0) && jump.parts().iter().all(|argument| errs_by(argument, PLAIN))
}

/// Whether the value is right where it has to be; the exact value where it is not.
fn wrong(nest: &Nest, plain: &Plain, point: (f32, f32), value: f32, got: f64) -> Option<f64> {
    if !value.is_finite() || close(got, f64::from(value), ALLOWED - PLAIN - STABLE) {
        return None;
    }
    // A text that is right by the luck of its roundings promises nothing: functions may err by two units.
    let moved_up = |name: &str, x: f32| nudged(name, rounded(name, x), f32::next_up);
    let moved_down = |name: &str, x: f32| nudged(name, rounded(name, x), f32::next_down);
    let moved_apart = |salt: u32| {
        move |name: &str, x: f32| {
            let drawn = name.bytes().fold(salt ^ x.to_bits(), |drawn, byte| {
                (drawn ^ u32::from(byte)).wrapping_mul(0x9e37_79b1).rotate_left(13)
            });
            if drawn & 1 == 0 { moved_up(name, x) } else { moved_down(name, x) }
        }
    };
    let mut others = vec![
        plain.at(point, Products::Contracted, rounded),
        plain.at(point, Products::Rounded, moved_up),
        plain.at(point, Products::Rounded, moved_down),
    ];
    others.extend((0..8).map(|salt| plain.at(point, Products::Rounded, moved_apart(salt))));
    if !others.iter().all(|other| close(f64::from(*other), f64::from(value), PLAIN)) {
        return None;
    }
    // Angles beyond these have no stated accuracy.
    let far = Cell::new(false);
    plain.at(point, Products::Rounded, |name, x| {
        far.set(far.get() || (matches!(name, "sin" | "cos" | "tan") && x.abs() > 60000.0));
        rounded(name, x)
    });
    if far.get() {
        return None;
    }
    if !nest.parts_that_jump().iter().all(|part| jumps_rightly(part, point)) {
        return None;
    }
    let textbook = Textbook::parse(&nest.to_string());
    let exact = exactly(&textbook, (f64::from(point.0), f64::from(point.1)))?;
    // Results below the normal numbers may vanish.
    let vanishes = f64::from(f32::MIN_POSITIVE);
    let right = |got: f64, part: f64| {
        close(got, exact, part) || (exact.abs() < vanishes && got.abs() < 2.0 * vanishes)
    };
    if !right(f64::from(value), PLAIN) || right(got, ALLOWED) {
        return None;
    }
    let moved = |value: f32, steps: i32| {
        let mut value = value;
        for _ in 0..steps.abs() {
            value = if steps > 0 { value.next_up() } else { value.next_down() };
        }
        f64::from(value)
    };
    for (by_x, by_y) in [(2, 0), (-2, 0), (0, 2), (0, -2)] {
        let near = exactly(&textbook, (moved(point.0, by_x), moved(point.1, by_y)))?;
        if !close(near, exact, STABLE) {
            return None;
        }
    }
    Some(exact)
}

/// The points of these nests that are wrong, one for each nest.
fn worse(nests: &[Nest], points: &[(f32, f32)], backend: Backend) -> Vec<Worse> {
    let results = run(nests, points, backend);
    let mut found = Vec::new();
    for (nest, got) in nests.iter().zip(results) {
        let text = nest.to_string();
        let plain = Plain::parse(&text);
        let at_point = points.iter().zip(got).find_map(|(&point, got)| {
            let value = plain.at(point, Products::Rounded, rounded);
            let exact = wrong(nest, &plain, point, value, got)?;
            Some(Worse { nest: nest.clone(), point, got, plain: value, exact })
        });
        found.extend(at_point);
    }
    found
}

/// The same failure with less around it.
fn smaller(mut worst: Worse, backend: Backend) -> Worse {
    'again: loop {
        for nest in worst.nest.smaller() {
            if let Some(found) = worse(&[nest], &[worst.point], backend).pop() {
                worst = found;
                continue 'again;
            }
        }
        return worst;
    }
}

fn judge(seed: u64, count: usize, backend: Backend) -> Vec<String> {
    let mut random = Random::new(seed);
    let mut found = Vec::new();
    for _ in 0..count.div_ceil(OUTPUTS) {
        let nests: Vec<Nest> = (0..OUTPUTS).map(|_| draw_nest(&mut random)).collect();
        let points: Vec<(f32, f32)> =
            (0..POINTS).map(|place| draw_point(&mut random, place)).collect();
        for one in worse(&nests, &points, backend) {
            let full = one.to_string();
            let small = smaller(one, backend);
            found.push(format!("{small}\n    of {full}"));
        }
    }
    found
}

/// Texts whose rewriting once made them wrong: x, y and the right value.
#[rustfmt::skip] // A table: one line a text.
const ONCE_WRONG: &[(&str, f32, f32, f64)] = &[
    ("log(square(expm1(x)))", -0.2, 1.0, -3.415_543_6),
    ("log(x * expm1(x))", -0.2, 1.0, -3.317_176_3),
    ("log(x / expm1(x))", -0.2, 1.0, 0.098_333_89),
    ("log(exp2(x) + expm1(x))", -0.2, 1.0, -0.372_105_8),
    ("log(expm1(x) + sigmoid(x))", -0.2, 1.0, -1.313_427_8),
    ("log2(softplus(0.00001) + expm1(x))", -0.2, 1.0, -0.966_114_19),
    ("log2(expm1(-1.0) * x)", -0.2, 1.0, -2.983_665_3),
    ("log1p(where(y > 1.0, 1e-20, expm1(x)))", -0.2, 1.0, -0.2),
    ("log1p(1e20 + expm1(x))", -0.2, 1.0, 46.051_701_859_880_91),
    ("tanh(log2(square(expm1(x)) + 0.5))", -0.2, 1.0, -0.720_255_4),
    ("softplus(x) / exp(x)", -100.0, 1.0, 1.0),
    ("asinh(minimum(x, expm1(x)))", 100.0, 1.0, 5.298_342_365_610_589),
    ("square(exp2(x) / 1e20)", 22.5, 1.0, 3.518_437_208_883_2e-27),
    ("expm1(x) / sinh(3.0)", 1e-10, 1.0, 9.982_156_4e-12),
    ("sinh(x) / cosh(2.0)", 1e-10, 1.0, 2.658_022_288_340_797e-11),
    ("y / (expm1(y) / sinh(x))", 1e-10, 4.6, 4.670_875e-12),
    ("log2(cosh(x)) - x", 1e-10, 1.0, -1e-10),
    ("1e-20 * cosh(3.0 * x)", 29.675_276, 1.0, 2.3e18),
    ("cosh(x)", 89.4, 1.0, 3.349_5e38),
    ("sinh(x)", -89.4, 1.0, -3.349_5e38),
    ("fmod(x, y)", 2.5, 1e-20, 7.6e-22),
    ("fmod(x, y)", -3e38, 65504.0, -50144.0),
    ("fmod(x, y)", 0.5, 1e-40, 5.422_464_5e-41),
    ("fmod(x, y)", 2.5, 1e-40, 7.112_430_5e-41),
    ("sqrt(square(x * 1e20))", 3.0, 1.0, 3e20),
    ("(x - x) / exp(y)", 1e20, -94.8, 0.0),
    ("(x / exp(x)) / x", 1e-40, 1.0, 1.0),
    ("elu(x) / maximum(y, 0.25 - expm1(x))", 100.0, 2.798_041_3, 35.739_286),
    ("asinh(exp2(-x) * 1e-20)", -76.74744, 1.0, 7.838_714_7),
    ("sqrt(sinh(x)) / (exp(x) - x)", 88.5, 1.0, 4.285_033e-20),
    ("sqrt(y * exp(x)) / (exp(x) - x)", 88.5, 3.0, 1.049_6e-19),
    ("asinh(exp2(x) * 1e-20)", -0.2, 1.0, 8.705_506e-21),
    ("asinh(1e-20 * expm1(x))", -0.2, 1.0, -1.812_692_5e-21),
    ("asinh(expm1(x) * (-1e20))", 1e-20, 1.0, -0.881_373_56),
    ("asinh(1e20 * expm1(sqrt(x)))", 1e-40, 1.0, 0.881_371_68),
    ("silu(sinh(x)) / elu(1e-20)", -88.5, 1.0, 0.0),
    ("expm1(x) / (expm1(1e-20) / logsigmoid(x))", 88.5, 1.0, -1e20),
    ("sigmoid(exp(y) / where(y < 0.001, atan(88.0), exp(x)))", -100.0, 2.507_743_8, 1.0),
    ("cosh(x) / exp2(1.0 - atan(relu(y)))", -88.5, 6.997_444, 1.832_853_7e38),
    ("(expm1(x) / 1.0) / expm1(x)", 1e-40, 1.0, 1.0),
    ("x / (where(y > 2.0, exp(0.25), x) / expm1(1.0))", 1e-40, 1.0, 1.718_282),
    ("elu(0.0) / exp(x)", -100.0, 1.0, 0.0),
    ("elu(0.0) / where(x > 1e-10, x, exp(x))", -100.0, 1.0, 0.0),
    ("exp(x) * where(x > 1e-5, x, exp2(-1e20))", 1e-10, 1.0, 0.0),
];

#[test]
fn what_was_once_rewritten_wrongly_is_right_on_every_engine() {
    let exact = |text: &str, x: f32, y: f32, told: f64| {
        let found = exactly(&Textbook::parse(text), (f64::from(x), f64::from(y)));
        let found = found.unwrap_or(told);
        assert!((found - told).abs() <= 0.02 * told.abs(), "{text}: {found:e}, told {told:e}");
        found
    };
    for &(text, x, y, told) in ONCE_WRONG {
        let exact = exact(text, x, y, told);
        for backend in [Backend::Reference, Backend::Cpu, Backend::Sim] {
            let nest = Nest::Call("", vec![Nest::Leaf(text)]);
            let got = run(&[nest], &[(x, y)], backend)[0][0];
            assert!((got - exact).abs() <= 1e-5 * exact.abs(), "{text} on {backend:?}: {got:e}");
        }
    }
}

fn asked(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

#[test]
fn no_meaning_is_worse_than_its_text() {
    let count = asked("POSTLUDE_FUZZ").unwrap_or(4_000) as usize;
    let seed = asked("POSTLUDE_FUZZ_SEED").unwrap_or(1);
    let backend = match env::var("POSTLUDE_BACKEND").as_deref() {
        Ok("cpu") => Backend::Cpu,
        Ok("sim") => Backend::Sim,
        Ok("cuda") => Backend::Cuda,
        _ => Backend::Reference,
    };
    let found = judge(seed, count, backend);
    assert!(found.is_empty(), "{} of {count}:\n{}", found.len(), found.join("\n"));
}
