//! What the reference allows contains everything that a conforming engine may make of any operands it allows.

use postlude::dtype::Elem;
use postlude::functions::{self, Accuracy, Function, FunctionOfTwo};
use postlude::graph::{Binary, Fold, Gives, Top, Unary, Value};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// How an engine makes a function's result.
#[derive(Clone, Copy, Debug)]
enum Engine {
    /// This crate's implementation.
    Own,
    /// The exact result, rounded.
    Rounded,
    /// As far from the exact result as is stated, in parts of the bound from -1 to 1.
    Off(f64),
}

fn meaning(op: Unary, x: f64) -> f64 {
    match op {
        Unary::Negate => -x,
        Unary::Not => 1.0 - x,
        Unary::Invert => -1.0 - x,
        Unary::Abs => x.abs(),
        Unary::Sign if x == 0.0 => 0.0,
        Unary::Sign => x.signum(),
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
        Unary::Round => x.round_ties_even(),
        Unary::Sqrt => x.sqrt(),
        Unary::Rsqrt => 1.0 / x.sqrt(),
        Unary::Rcp => 1.0 / x,
        Unary::Exp => x.exp(),
        Unary::Exp2 => x.exp2(),
        Unary::Log => x.ln(),
        Unary::Log2 => x.log2(),
        Unary::Log1p => x.ln_1p(),
        Unary::Expm1 => x.exp_m1(),
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        Unary::Tanh => x.tanh(),
        Unary::Erf => libm::erf(x),
        Unary::Bits | Unary::Float => unreachable!("bits are not numbers"),
        Unary::IsNan => f64::from(u8::from(x.is_nan())),
        Unary::IsInf => f64::from(u8::from(x.is_infinite())),
    }
}

fn off(exact: f64, bound: f64, part: f64) -> f32 {
    let moved = (exact + part * bound) as f32;
    let within = (f64::from(moved) - exact).abs() <= bound;
    if within { moved } else { exact as f32 }
}

fn unary(op: Unary, accuracy: Accuracy, engine: Engine, x: f32) -> f32 {
    let exact = meaning(op, f64::from(x));
    let Some(function) = op.function() else { return exact as f32 };
    let correct =
        matches!(function, Function::Sqrt | Function::Rcp) && accuracy == Accuracy::Accurate;
    match engine {
        Engine::Own => {
            let mut result = [0.0];
            functions::apply(function, accuracy, &[x], &mut result);
            result[0]
        }
        Engine::Off(part) if !correct && x.is_finite() => {
            let moved = off(exact, functions::bound(function, accuracy, f64::from(x), exact), part);
            // What no engine does, however wide its error: leave the range of the function.
            let never_negative =
                matches!(op, Unary::Exp | Unary::Exp2 | Unary::Sqrt | Unary::Rsqrt);
            let wave = matches!(op, Unary::Sin | Unary::Cos);
            if never_negative && moved < 0.0 && exact >= 0.0 {
                0.0
            } else if wave {
                moved.clamp(-1.0, 1.0)
            } else {
                moved
            }
        }
        Engine::Rounded | Engine::Off(_) => exact as f32,
    }
}

/// Nan if either is; 0 is above -0.
fn larger(x: f32, y: f32) -> f32 {
    if x.is_nan() || y.is_nan() {
        f32::NAN
    } else if x.total_cmp(&y).is_lt() {
        y
    } else {
        x
    }
}

fn binary(op: Binary, accuracy: Accuracy, engine: Engine, x: f32, y: f32) -> f32 {
    match op {
        Binary::Add => x + y,
        Binary::Subtract => x - y,
        Binary::Multiply => x * y,
        Binary::Divide => x / y,
        Binary::Maximum => larger(x, y),
        Binary::Minimum => -larger(-x, -y),
        Binary::Pow => power(accuracy, engine, x, y),
        Binary::Fmod => x % y,
        Binary::Less => f32::from(u8::from(x < y)),
        Binary::LessEqual => f32::from(u8::from(x <= y)),
        Binary::Equal => f32::from(u8::from(x == y)),
        Binary::NotEqual => f32::from(u8::from(x != y)),
        Binary::And => x.min(y),
        Binary::Or => x.max(y),
        Binary::Xor | Binary::ShiftLeft | Binary::ShiftRight | Binary::ShiftRightLogical => {
            unreachable!("bits of floats")
        }
    }
}

fn power(accuracy: Accuracy, engine: Engine, x: f32, y: f32) -> f32 {
    let exact = f64::from(x).powf(f64::from(y));
    match engine {
        Engine::Own => {
            let mut result = [0.0];
            functions::apply_of_two(FunctionOfTwo::Pow, accuracy, &[x], &[y], &mut result);
            result[0]
        }
        Engine::Off(_) if x.is_nan() || y.is_nan() => exact as f32,
        Engine::Rounded => exact as f32,
        Engine::Off(part) => {
            let bound = functions::pow_bound(accuracy, f64::from(x), f64::from(y), exact);
            let moved = off(exact, bound, part);
            if x > 0.0 && moved < 0.0 { 0.0 } else { moved }
        }
    }
}

fn allows(value: Value, got: f32) -> bool {
    if got.is_nan() { value.nan } else { value.contains(f64::from(got)) }
}

/// An f32 in the enclosure, by its place in it.
fn inside(value: Value, place: f64) -> f32 {
    if value.nominal.is_infinite() {
        return value.nominal as f32;
    }
    let within = value.low * (1.0 - place) + value.high * place;
    if value.contains(f64::from(within as f32)) { within as f32 } else { value.nominal as f32 }
}

fn a_float() -> impl Strategy<Value = f32> {
    prop_oneof![
        4 => -8.0f32..8.0,
        2 => -100.0f32..100.0,
        2 => any::<u32>().prop_map(f32::from_bits).prop_filter("a number", |x| x.is_finite()),
        1 => prop::sample::select(vec![
            0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 88.72284, 88.72283, -103.97, 1e-45, 1.1754944e-38, 3.4028235e38, -3.4028235e38,
            65536.0, 65537.0, f32::INFINITY, f32::NEG_INFINITY,
        ]),
    ]
}

/// Enclosures of a few units in the last place, of a part of the value, and of none.
fn a_value() -> impl Strategy<Value = Value> {
    let width = prop_oneof![Just(0.0), 1e-8..1e-6, 1e-6..1e-2, 0.01..3.0];
    (a_float(), width.clone(), width).prop_map(|(nominal, below, above)| {
        let nominal = f64::from(nominal);
        if nominal.is_infinite() {
            return Value::exact(nominal);
        }
        let low = nominal - below * nominal.abs();
        let high = nominal + above * nominal.abs();
        Value::between(nominal, low, high, false)
    })
}

fn an_engine() -> impl Strategy<Value = Engine> {
    prop_oneof![
        Just(Engine::Own),
        Just(Engine::Rounded),
        (-1.0..=1.0).prop_map(Engine::Off),
        Just(Engine::Off(1.0)),
        Just(Engine::Off(-1.0))
    ]
}

fn an_accuracy() -> impl Strategy<Value = Accuracy> {
    prop::sample::select(Accuracy::ALL.to_vec())
}

fn functions_of_one(wanted: &[Elem]) -> impl Strategy<Value = Unary> + Clone {
    let gives = |op: &Unary| op.gives(Elem::F32).is_some_and(|elem| wanted.contains(&elem));
    prop::sample::select(Unary::ALL.into_iter().filter(gives).collect::<Vec<_>>())
}

fn functions_of_two(wanted: &[Elem]) -> impl Strategy<Value = Binary> + Clone {
    let gives = |op: &Binary| op.gives(Elem::F32).is_some_and(|elem| wanted.contains(&elem));
    prop::sample::select(Binary::ALL.into_iter().filter(gives).collect::<Vec<_>>())
}

/// An expression of `x`, `y` and numbers.
#[derive(Clone, Debug)]
enum Tree {
    Leaf(usize),
    Unary(Unary, Box<Tree>),
    Binary(Binary, Box<Tree>, Box<Tree>),
    Fold(Fold, Vec<Tree>),
}

fn a_tree() -> impl Strategy<Value = Tree> {
    let one = functions_of_one(&[Elem::F32]);
    let two = functions_of_two(&[Elem::F32]);
    (0usize..2).prop_map(Tree::Leaf).prop_recursive(4, 12, 3, move |inner| {
        prop_oneof![
            (one.clone(), inner.clone()).prop_map(|(op, a)| Tree::Unary(op, Box::new(a))),
            (two.clone(), inner.clone(), inner.clone()).prop_map(|(op, a, b)| Tree::Binary(
                op,
                Box::new(a),
                Box::new(b)
            )),
            (
                prop::sample::select(vec![
                    Fold::Sum,
                    Fold::Prod,
                    Fold::Max,
                    Fold::Min,
                    Fold::AbsMax,
                    Fold::LogSumExp,
                    Fold::LogSumExpAboveMax,
                    Fold::ArgMax,
                    Fold::ArgMin,
                    Fold::Top(Top { place: 1, of: 2, gives: Gives::Value }),
                    Fold::Top(Top { place: 0, of: 2, gives: Gives::Index }),
                ]),
                prop::collection::vec(inner, 1..4)
            )
                .prop_map(|(fold, terms)| Tree::Fold(fold, terms)),
        ]
    })
}

impl Tree {
    fn enclosure(&self, accuracy: Accuracy, leaves: &[Value; 2]) -> Value {
        match self {
            Tree::Leaf(index) => leaves[*index],
            Tree::Unary(op, a) => op.apply(Elem::F32, accuracy, a.enclosure(accuracy, leaves)),
            Tree::Binary(op, a, b) => op.apply(
                Elem::F32,
                accuracy,
                a.enclosure(accuracy, leaves),
                b.enclosure(accuracy, leaves),
            ),
            Tree::Fold(fold, terms) => {
                let terms: Vec<Value> =
                    terms.iter().map(|term| term.enclosure(accuracy, leaves)).collect();
                fold.apply(Elem::F32, accuracy, &terms)
            }
        }
    }

    fn result(&self, accuracy: Accuracy, engine: Engine, leaves: [f32; 2]) -> f32 {
        match self {
            Tree::Leaf(index) => leaves[*index],
            Tree::Unary(op, a) => unary(*op, accuracy, engine, a.result(accuracy, engine, leaves)),
            Tree::Binary(op, a, b) => binary(
                *op,
                accuracy,
                engine,
                a.result(accuracy, engine, leaves),
                b.result(accuracy, engine, leaves),
            ),
            Tree::Fold(of, terms) => {
                let terms: Vec<f32> =
                    terms.iter().map(|term| term.result(accuracy, engine, leaves)).collect();
                fold(*of, accuracy, engine, &terms)
            }
        }
    }
}

/// The indices of terms in falling order, nan first; of equal ones the lower index first.
fn ranked(terms: &[f32], of: impl Fn(f32) -> f32) -> Vec<usize> {
    let mut indices: Vec<usize> = (0..terms.len()).collect();
    // Zeros of either sign are equal.
    let key = |at: usize| (terms[at].is_nan(), of(terms[at]) + 0.0);
    indices.sort_by(|a, b| {
        let ([(a_nan, a), (b_nan, b)], places) = ([key(*a), key(*b)], a.cmp(b));
        b_nan.cmp(&a_nan).then(b.partial_cmp(&a).unwrap_or(places)).then(places)
    });
    indices
}

fn fold(fold: Fold, accuracy: Accuracy, engine: Engine, terms: &[f32]) -> f32 {
    let peak = terms.iter().copied().fold(f32::NEG_INFINITY, larger);
    match fold {
        Fold::Sum => terms.iter().fold(0.0, |total, x| total + x),
        Fold::Prod => terms.iter().product(),
        Fold::Max => peak,
        Fold::Min => -terms.iter().map(|x| -x).fold(f32::NEG_INFINITY, larger),
        Fold::AbsMax => terms.iter().map(|x| x.abs()).fold(0.0, larger),
        Fold::LogSumExp if peak.is_infinite() || peak.is_nan() => peak,
        Fold::LogSumExp => {
            let total: f32 =
                terms.iter().map(|x| unary(Unary::Exp, accuracy, engine, x - peak)).sum();
            peak + unary(Unary::Log, accuracy, engine, total)
        }
        Fold::LogSumExpAboveMax if !peak.is_finite() => f32::NAN,
        Fold::LogSumExpAboveMax => {
            let place = terms.iter().position(|x| *x == peak);
            let others = terms.iter().enumerate().filter(|(at, _)| Some(*at) != place);
            let rest: f32 =
                others.map(|(_, x)| unary(Unary::Exp, accuracy, engine, x - peak)).sum();
            unary(Unary::Log1p, accuracy, engine, rest)
        }
        Fold::Weighted(_) => panic!("no terms of these tests have weights"),
        Fold::ArgMax => ranked(terms, |x| x).first().map_or(0.0, |at| *at as f32),
        Fold::ArgMin => ranked(terms, |x| -x).first().map_or(0.0, |at| *at as f32),
        Fold::Top(Top { place, gives, .. }) => {
            let at = ranked(terms, |x| x).get(place as usize).copied();
            match gives {
                Gives::Value => at.map_or(f32::NAN, |at| terms[at]),
                Gives::Index => at.map_or(0.0, |at| at as f32),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100_000, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn functions_of_one_stay_inside(op in functions_of_one(&[Elem::F32, Elem::Bool]), accuracy in an_accuracy(), engine in an_engine(), x in a_value(), place in 0.0..=1.0) {
        let image = op.apply(Elem::F32, accuracy, x);
        let at = inside(x, place);
        let got = unary(op, accuracy, engine, at);
        prop_assert!(allows(image, got), "{}({at:e}) = {got:e}, not in {image:?}", op.name());
        prop_assert!(image.nominal.is_nan() || image.contains(image.nominal), "{image:?}");
    }

    #[test]
    fn functions_of_two_stay_inside(op in functions_of_two(&[Elem::F32, Elem::Bool]), accuracy in an_accuracy(), engine in an_engine(), x in a_value(), y in a_value(), places in (0.0..=1.0, 0.0..=1.0)) {
        let image = op.apply(Elem::F32, accuracy, x, y);
        let (at, by) = (inside(x, places.0), inside(y, places.1));
        let got = binary(op, accuracy, engine, at, by);
        prop_assert!(allows(image, got), "{}({at:e}, {by:e}) = {got:e}, not in {image:?}", op.name());
        prop_assert!(image.nominal.is_nan() || image.contains(image.nominal), "{image:?}");
    }

    #[test]
    fn expressions_stay_inside(tree in a_tree(), accuracy in an_accuracy(), engine in an_engine(), x in a_value(), y in a_value(), places in (0.0..=1.0, 0.0..=1.0)) {
        let image = tree.enclosure(accuracy, &[x, y]);
        let leaves = [inside(x, places.0), inside(y, places.1)];
        let got = tree.result(accuracy, engine, leaves);
        prop_assert!(allows(image, got), "{leaves:?} gives {got:e}, not in {image:?}");
    }
}
