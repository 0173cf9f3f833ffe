//! Derivatives of random kernels against the meaning of their texts.
//!
//! Each text is evaluated with exact derivatives along a random direction in f64 ([`Interpreter`]), and so is the text of
//! the derivatives, which must say the same number; the compiled derivatives err by a few times what plain f32 arithmetic
//! on their text errs. `POSTLUDE_DERIVATIVES=1000..3000` checks the kernels of other seeds.

use std::collections::BTreeMap;

use postlude::syntax::{self, Ast, Declaration};
use postlude::{Argument, Arguments, DType, Kernel, Options, Save, Tensor};
use postlude_corpus::Random;

use super::arrays::Array;
use super::draw::{Drawn, draw, second_derivatives};
use super::interpreter::{Interpreter, Precision};
use super::jet::Jet;

/// The seeds of a run that asks for no others.
const SEEDS: std::ops::Range<u64> = 0..150;

/// What became of a seed.
enum Outcome {
    Right,
    /// The text does not type, or its derivatives are not finite.
    NotMeant,
    /// There are no derivatives, or they do not run.
    Refused(String),
    Wrong(String),
}

fn seeds() -> std::ops::Range<u64> {
    let asked = std::env::var("POSTLUDE_DERIVATIVES").ok();
    let asked = asked.and_then(|asked| {
        let (from, to) = asked.split_once("..")?;
        Some(from.parse().ok()?..to.parse().ok()?)
    });
    asked.unwrap_or(SEEDS)
}

/// The numbers of a kernel's inputs and cotangents, by name.
type Given = BTreeMap<String, Vec<f64>>;

fn declared(ast: &Ast) -> (&[Declaration], &[Declaration]) {
    let signature = ast.signature.as_ref().expect("a signature");
    (&signature.inputs, &signature.outputs)
}

fn count(declaration: &Declaration, sizes: &BTreeMap<String, usize>) -> usize {
    let dims = declaration.dims.iter().flatten();
    dims.map(|dim| match dim {
        postlude::shape::Dim::Name { name, divisor } => sizes[name] / *divisor as usize,
        postlude::shape::Dim::Size(size) => *size as usize,
    })
    .product()
}

fn drawn_numbers(declarations: &[Declaration], drawn: &Drawn, random: &mut Random) -> Given {
    let given = declarations.iter().map(|input| {
        let mut number = || match input.dtype {
            DType::F32 => f64::from((random.below(4096) as f32 - 2047.5) / 1536.0),
            _ => random.below(5) as f64,
        };
        let values = (0..count(input, &drawn.sizes)).map(|_| number()).collect();
        (input.name.text.clone(), values)
    });
    given.collect()
}

/// All values of a text, whose input of this name moves along a direction.
fn evaluated(
    ast: &Ast,
    drawn: &Drawn,
    given: &Given,
    (moved, direction): (&str, &[f64]),
    precision: Precision,
) -> BTreeMap<String, Array> {
    let mut interpreter = Interpreter::new(ast, &drawn.sizes, precision);
    for input in declared(ast).0 {
        let name = &input.name.text;
        let along = |place: usize| if name == moved { direction[place] } else { 0.0 };
        let jets = given[name].iter().enumerate();
        let data = jets.map(|(place, value)| Jet::along(*value, along(place))).collect();
        let axes = interpreter.axes(input.dims.as_deref().unwrap_or_default());
        interpreter.values.insert(name.clone(), Array { axes, data });
    }
    interpreter.run();
    let outputs = declared(ast).1.iter().map(|output| {
        let axes = interpreter.axes(output.dims.as_deref().unwrap_or_default());
        (output.name.text.clone(), interpreter.values[&output.name.text].ordered(&axes))
    });
    outputs.collect()
}

fn values(array: &Array) -> Vec<f64> {
    array.data.iter().map(|jet| jet.value).collect()
}

fn judge(drawn: &Drawn, seed: u64, save: Save) -> Outcome {
    let Ok(kernel) = Kernel::parse(&drawn.text) else { return Outcome::NotMeant };
    let refused =
        |why: String| Outcome::Refused(format!("seed {seed}, {save:?}: {why}\n{}", drawn.text));
    let wrong =
        |why: String| Outcome::Wrong(format!("seed {seed}, {save:?}: {why}\n{}", drawn.text));
    let derived = match kernel.grad(&[], save) {
        Ok(derived) => derived,
        Err(error) if is_no_kernel(&error.summary()) => return Outcome::NotMeant,
        Err(error) => return refused(error.summary()),
    };
    let [text, forward, backward] = [&drawn.text, &derived.forward, &derived.backward]
        .map(|text| syntax::parse(text).expect("it was parsed before"));
    let mut random = Random::new(!seed);
    let given = drawn_numbers(declared(&text).0, drawn, &mut random);
    let cotangents = drawn_numbers(declared(&text).1, drawn, &mut random);
    let saved = evaluated(&forward, drawn, &given, ("", &[]), Precision::Exact);
    let mut asked = given.clone();
    asked.extend(saved.iter().map(|(name, array)| (name.clone(), values(array))));
    for (output, cotangent) in &derived.cotangents {
        asked.insert(cotangent.clone(), cotangents[output].clone());
    }
    let exact = evaluated(&backward, drawn, &asked, ("", &[]), Precision::Exact);
    for (input, gradient) in &derived.gradients {
        let direction: Vec<f64> =
            given[input].iter().map(|_| random.below(2048) as f64 / 1024.0 - 1.0).collect();
        let moved = evaluated(&text, drawn, &given, (input, &direction), Precision::Exact);
        let changes = moved.iter().flat_map(|(name, output)| {
            output.data.iter().zip(&cotangents[name]).map(|(jet, c)| jet.first * c)
        });
        let changes: Vec<f64> = changes.collect();
        let gradient = values(&exact[gradient]);
        let terms: Vec<f64> = gradient.iter().zip(&direction).map(|(g, v)| g * v).collect();
        let (got, want): (f64, f64) = (terms.iter().sum(), changes.iter().sum());
        let size = |terms: &[f64]| terms.iter().map(|term| term.abs()).sum::<f64>();
        let bound = 1e-8 * (size(&terms) + size(&changes)) + 1e-10;
        if !want.is_finite() || size(&changes) > 1e6 {
            return Outcome::NotMeant;
        }
        // Nan is not near.
        let is_near = (got - want).abs() <= bound;
        if !is_near {
            return wrong(format!(
                "the derivative in `{input}` is {want}, and its text says {got}\n{}",
                derived.backward
            ));
        }
    }
    let plain = evaluated(&backward, drawn, &asked, ("", &[]), Precision::Single);
    match compiled(&derived.backward, drawn, &asked) {
        Ok(outputs) => {
            for (name, tensor) in outputs {
                let got = tensor.values();
                let (want, rounded) = (values(&exact[&name]), values(&plain[&name]));
                let most = |terms: &mut dyn Iterator<Item = f64>| terms.fold(0.0, f64::max);
                let apart =
                    |a: &[f64], b: &[f64]| most(&mut a.iter().zip(b).map(|(a, b)| (a - b).abs()));
                let largest = most(&mut want.iter().map(|value| value.abs()));
                let bound = 16.0 * apart(&rounded, &want) + 1e-5 * largest + 1e-6;
                let is_near = apart(&got, &want) <= bound;
                if !is_near || got.iter().any(|value| value.is_nan()) {
                    let backward = &derived.backward;
                    return wrong(format!("`{name}` is {want:?}, and got {got:?}\n{backward}"));
                }
            }
            Outcome::Right
        }
        Err(error) => refused(format!("{error}\n{}", derived.backward)),
    }
}

/// Whether a refusal is of what the language does not say: splits of vectors alone, which have no columns, and what a part
/// gives the runs of a whole that it met.
fn is_no_kernel(summary: &str) -> bool {
    let known = [
        "no output of floats",
        "works along `1`",
        "these are [",
        "[N, 1]",
        "a part of a split has",
    ];
    known.iter().any(|known| summary.contains(known))
}

/// What the compiled kernel gives.
fn compiled(
    text: &str,
    drawn: &Drawn,
    given: &Given,
) -> Result<BTreeMap<String, Tensor>, postlude::Error> {
    let kernel = Kernel::parse(text)?;
    let compiled = kernel.compile(&Options::default());
    let mut tensors: BTreeMap<String, Tensor> = BTreeMap::new();
    for input in kernel.defined().passed_inputs() {
        let dims = input.dims.clone().unwrap_or_default();
        let shape: Vec<usize> = dims
            .iter()
            .map(|dim| match dim {
                postlude::shape::Dim::Name { name, divisor } => {
                    drawn.sizes[name] / *divisor as usize
                }
                postlude::shape::Dim::Size(size) => *size as usize,
            })
            .collect();
        let tensor = Tensor::from_values(input.dtype, shape, &given[&input.name]);
        tensors.insert(input.name.clone(), tensor.expect("it fits"));
    }
    let arguments: Arguments<'_> =
        tensors.iter().map(|(name, tensor)| (name.clone(), Argument::from(tensor))).collect();
    let known = postlude::problem::dim_names(compiled.defined());
    let sizes = drawn.sizes.iter().filter(|(dim, _)| known.contains(&dim.as_str()));
    let sizes = sizes.map(|(dim, size)| (dim.clone(), *size)).collect();
    Ok(compiled.run(&arguments, &sizes)?.into_iter().collect())
}

#[test]
fn second_derivatives_are_those_of_the_texts() {
    let mut wrong = Vec::new();
    for (text, seed) in second_derivatives().zip(0..) {
        let sizes = [("M", 2), ("N", 4), ("K", 3)];
        let sizes = sizes.into_iter().map(|(name, size)| (name.to_owned(), size)).collect();
        match judge(&Drawn { text: text.clone(), sizes }, seed, Save::Nothing) {
            Outcome::Right => {}
            Outcome::NotMeant => wrong.push(format!("not differentiated: {text}")),
            Outcome::Refused(why) | Outcome::Wrong(why) => wrong.push(why),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn derivatives_of_random_kernels_are_those_of_their_texts() {
    let (mut wrong, mut refused, mut right, mut not_meant) = (Vec::new(), Vec::new(), 0, 0);
    for seed in seeds() {
        for save in [Save::Products, Save::Nothing] {
            match judge(&draw(seed), seed, save) {
                Outcome::Right => right += 1,
                Outcome::NotMeant => not_meant += 1,
                Outcome::Refused(why) => refused.push(why),
                Outcome::Wrong(why) => wrong.push(why),
            }
        }
    }
    let count = wrong.len();
    // Parts of vectors that no tile is beside; what types must be right.
    if refused.len() * 100 > right {
        wrong.append(&mut refused);
    }
    // One of each kind.
    let mut kinds: BTreeMap<String, String> = BTreeMap::new();
    for why in wrong {
        let kind = why.lines().next().unwrap_or_default();
        let kind = kind.split_once(": ").map_or(kind, |(_, kind)| kind);
        let kind: String = kind.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        kinds.entry(kind.chars().take(60).collect()).or_insert(why);
    }
    let first: Vec<String> = kinds.into_values().take(12).collect();
    let few = first.join("\n");
    assert!(first.is_empty(), "{count} wrong beside {right} right, {not_meant} have none:\n{few}");
    assert!(right > 2 * not_meant, "{right} kernels have derivatives, and {not_meant} none");
}
