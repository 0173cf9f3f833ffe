//! Choices that the error of a product leaves open: what the reference allows contains what any engine within that error
//! makes of them, and little else.

use postlude::reference::Evaluated;
use postlude::{Argument, Arguments, Compiled, DType, Kernel, Options, Sizes, Tensor};

const ROWS: usize = 6;
const COLUMNS: usize = 16;
const INNER: usize = 48;

/// Bodies over the product `z`, an f32 vector `v` and a batch of outputs; every operation in them is exact or rounds once.
const BODIES: &[(&str, &str)] = &[
    ("i: i32[M]", "i = min(where(z == max(z, N), col, 2147483647), N)"),
    ("i: i32[M]", "i = max(where(z >= max(z, N), col, -1), N)"),
    ("i: i32[M]", "i = min(where(z <= min(z, N), col, 1000), N)"),
    ("i: i32[M]", "i = min(where(abs(z) == absmax(z, N), col, 1000), N)"),
    ("i: i32[M]", "i = min(where(z < max(z, N), 1000, col), N)"),
    ("i: i32[N]", "i = min(where(z == max(z, M), row, 2147483647), M)"),
    ("i: i32[]", "i = min(min(where(z == max(max(z, N), M), row * 16 + col, 2147483647), N), M)"),
    ("i: i32[]", "i = min(where(z == max(z), row * 16 + col, 2147483647))"),
    ("i: i32[]", "i = min(min(where(z - max(z) >= 0.0, row * 16 + col, 2147483647), M), N)"),
    ("i: i32[M]", "i = min(where(0.0 == max(z, N) - z, col, 2147483647), N)"),
    ("i: i32[M]", "i = sum(i32(z == max(z, N)), N)"),
    ("i: i32[M, N/4]", "i = min(where(z == max(z, N, 4), col, 99), N, 4)"),
    ("i: i32[M]", "i = sum(i32(z > 0.0), N)"),
    ("i: i32[N]", "i = sum(i32(z > 0.0), M)"),
    ("i: i32[]", "i = sum(sum(i32(z > v) * 7, N), M)"),
    ("i: i32[M, N/4]", "i = sum(where(z > 0.0, 3, where(z < -0.5, 11, 200)), N, 4)"),
    ("i: i32[M, N]", "i = where(z > 0.0, 7, 0) * 3 - where(z > v, col, row)"),
    ("i: i32[M, N]", "i = i32(z * 4.0) * i32(z) + abs(-i32(z))"),
    ("i: i32[M, N]", "i = i32(round(z * 3.0)) * 715827883"),
    ("i: i8[M, N]", "i = i8(z * 20.0)"),
    ("i: u8[M, N]", "i = u8(floor(z) + 128.0)"),
    ("i: i32[M]", "i = prod(where(z > 0.0, 3, -1), N)"),
    ("i: i32[M]", "i = sum(where(z > 0.0, 2000000000, 1), N)"),
    ("d: f32[M]", "d = mean(where(z > 0.0, 1.0, 0.0), N)"),
    ("d: f32[M]", "d = max(where(z > v, 5.0, -5.0) * z, N)"),
    ("d: f32[M, N]", "d = where(z > 0.0, 100.0, where(z > v, -100.0, 0.0)) + f32(z >= max(z, N))"),
    ("d: f32[M, N]", "d = z - max(z, N)"),
    ("d: f32[M]", "d = sum(where(z == max(z, N), v, 0.0), N)"),
    ("b: bool[M, N]", "b = (z == max(z, N)) | (z < v)"),
    ("b: bool[M, N]", "b = !(z != max(z, N))"),
    ("d: f32[M]", "d = pick(v + z, min(where(z == max(z, N), col, 15), N))"),
    ("d: bf16[M, N/2]", "a, c = halves(where(z > 0.0, 1.0, -1.0)); d = a + 2.0 * c"),
];

/// SplitMix64 as numbers from 0 to 1.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn tensor(shape: [usize; 2], values: &[f64]) -> Argument<'static> {
    Argument::Tensor(Tensor::from_values(DType::F32, shape, values).expect("a tensor"))
}

fn compile(output: &str, body: &str) -> Compiled {
    let source = format!(
        "kernel k(A: f32[M, K], B: f32[K, N], v: f32[N]) -> ({output}) {{ z = A @ B; {body} }}"
    );
    let kernel = Kernel::parse(&source).unwrap_or_else(|error| panic!("{source}: {error}"));
    kernel.compile(&Options { threads: Some(1), ..Options::default() })
}

fn evaluate(compiled: &Compiled, arguments: &Arguments) -> Vec<Evaluated> {
    let problem = compiled.bind(arguments, &Sizes::new()).expect("sizes that fit");
    compiled.evaluate(&problem, arguments).expect("it is bound")
}

/// Columns that are nearly the same, and products that nearly cancel: comparisons are often uncertain.
fn draw(draws: &mut Draws, scale: f64) -> Arguments<'static> {
    let a: Vec<f64> = (0..ROWS * INNER).map(|_| draws.next() * 2.0 - 1.0).collect();
    let mut b: Vec<f64> = (0..INNER * COLUMNS).map(|_| draws.next() * 2.0 - 1.0).collect();
    for k in 0..INNER {
        for column in (0..COLUMNS).filter(|column| column % 3 != 0) {
            let wobble = scale * (draws.next() - 0.5);
            b[k * COLUMNS + column] = b[k * COLUMNS + column / 6 * 6] + wobble;
        }
    }
    // The last terms make up for the others, so that some products are almost zero.
    let last = INNER - 1;
    let mut a = a;
    for row in (0..ROWS).filter(|row| row % 2 == 0) {
        let rest: f64 = (0..last).map(|k| a[row * INNER + k] * b[k * COLUMNS]).sum();
        a[row * INNER + last] = -rest / b[last * COLUMNS];
    }
    let v: Vec<f64> = (0..COLUMNS).map(|_| (draws.next() - 0.5) * 1e-5).collect();
    let v = Tensor::from_values(DType::F32, vec![COLUMNS], &v).expect("a tensor");
    Arguments::from([
        ("A".to_owned(), tensor([ROWS, INNER], &a)),
        ("B".to_owned(), tensor([INNER, COLUMNS], &b)),
        ("v".to_owned(), Argument::Tensor(v)),
    ])
}

/// The same call with products anywhere in their enclosures: given as A, and B the identity.
fn perturb(
    arguments: &Arguments<'static>,
    products: &Evaluated,
    draws: &mut Draws,
) -> Arguments<'static> {
    let within = |value: &postlude::graph::Value, draws: &mut Draws| {
        let place = draws.next();
        // Often the ends themselves.
        let place = if place < 0.25 {
            0.0
        } else if place > 0.75 {
            1.0
        } else {
            place
        };
        let point = (value.low + (value.high - value.low) * place) as f32;
        // The ends were rounded when the products were stored, perhaps outwards.
        let point = if f64::from(point) >= value.high {
            point.next_down()
        } else if f64::from(point) <= value.low {
            point.next_up()
        } else {
            point
        };
        if value.contains(f64::from(point)) { f64::from(point) } else { value.nominal }
    };
    let products: Vec<f64> = products.values.iter().map(|value| within(value, draws)).collect();
    let identity: Vec<f64> = (0..COLUMNS * COLUMNS)
        .map(|at| f64::from(u8::from(at / COLUMNS == at % COLUMNS)))
        .collect();
    let mut perturbed = arguments.clone();
    perturbed.insert("A".to_owned(), tensor([ROWS, COLUMNS], &products));
    perturbed.insert("B".to_owned(), tensor([COLUMNS, COLUMNS], &identity));
    perturbed
}

#[test]
fn whatever_the_products_are_within_their_error_the_result_is_allowed() {
    let mut draws = Draws(3);
    let products = compile("z2: f32[M, N]", "z2 = z");
    for (output, body) in BODIES {
        let compiled = compile(output, body);
        for round in 0..40 {
            let arguments = draw(&mut draws, [0.0, 1e-7, 1e-5][round % 3]);
            let wanted = evaluate(&compiled, &arguments);
            let products = evaluate(&products, &arguments).remove(0);
            for _ in 0..10 {
                let perturbed = perturb(&arguments, &products, &mut draws);
                for (want, got) in wanted.iter().zip(evaluate(&compiled, &perturbed)) {
                    for (at, value) in got.values.iter().enumerate() {
                        assert!(
                            want.distance(at, value.nominal) <= 1.0,
                            "{body}: element {at} may be {}, but {:?} {:?} is allowed",
                            value.nominal,
                            want.values[at],
                            want.alternatives(at)
                        );
                    }
                }
            }
        }
    }
}

/// Kernels of many columns with uncertain choices in nearly every row.
fn uncertain(output: &str, body: &str) -> Evaluated {
    let (rows, columns, inner) = (32, 1024, 64);
    let mut draws = Draws(9);
    let mut normal = |count: usize| -> Vec<f64> {
        (0..count).map(|_| (0..4).map(|_| draws.next() - 0.5).sum::<f64>()).collect()
    };
    let arguments = Arguments::from([
        ("A".to_owned(), tensor([rows, inner], &normal(rows * inner))),
        ("B".to_owned(), tensor([inner, columns], &normal(inner * columns))),
        (
            "v".to_owned(),
            Argument::Tensor(
                Tensor::from_values(DType::F32, vec![columns], &vec![0.0; columns]).unwrap(),
            ),
        ),
    ]);
    evaluate(&compile(output, body), &arguments).remove(0)
}

#[test]
fn an_argmax_is_one_of_the_few_columns_that_may_be_largest() {
    let want = uncertain("i: i32[M]", "i = min(where(z == max(z, N), col, 2147483647), N)");
    for at in 0..32 {
        let wrong = [1023.0, 2147483647.0, -1.0, want.values[at].nominal + 1.0];
        let passes = wrong.iter().filter(|got| want.distance(at, **got) <= 1.0).count();
        assert_eq!(passes, 0, "{:?} {:?}", want.values[at], want.alternatives(at));
    }
}

#[test]
fn a_count_is_off_by_no_more_than_is_uncertain() {
    for (output, body) in [
        ("i: i32[M]", "i = sum(i32(z > 0.0), N)"),
        ("i: i32[N]", "i = sum(i32(z > 0.0), M)"),
        ("i: i32[]", "i = sum(sum(i32(z > 0.0), N), M)"),
    ] {
        let want = uncertain(output, body);
        for (at, value) in want.values.iter().enumerate() {
            assert!(value.high - value.low <= 3.0, "{body}: {value:?}");
            assert!(want.distance(at, -77.0) > 1.0);
        }
    }
}

#[test]
fn a_softmax_stays_below_one_however_uncertain_its_argument() {
    let want = uncertain("d: f32[M, N]", "d = softmax(z * 1000000.0, N)");
    for value in &want.values {
        assert!(value.low >= 0.0 && value.high <= 1.0 + 1e-5, "{value:?}");
    }
}

#[test]
fn a_choice_of_two_numbers_allows_these_two() {
    let body = "d = where(z > 0.0, 1.0, -1.0)";
    let mut draws = Draws(5);
    let arguments = draw(&mut draws, 0.0);
    let want = evaluate(&compile("d: bf16[M, N]", body), &arguments).remove(0);
    let uncertain: Vec<usize> =
        (0..want.values.len()).filter(|at| !want.values[*at].is_exact()).collect();
    assert!(!uncertain.is_empty());
    for at in uncertain {
        assert!(want.distance(at, 1.0) <= 1.0 && want.distance(at, -1.0) <= 1.0);
        assert!(want.distance(at, 0.0) > 1.0 && want.distance(at, 0.5) > 1.0);
    }
}
