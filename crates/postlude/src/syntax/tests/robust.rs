//! Limits, and bytes that nobody would write.

use crate::syntax::{MAX_NESTING, parse, parse_bytes, parse_expression};

fn only_message(source: &str) -> String {
    let errors = parse(source).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors[0].to_string()
}

#[test]
fn a_chain_of_fifty_thousand_is_refused_quickly() {
    let too_many = "the kernel has more than 10,000 operations and operands";
    assert_eq!(only_message(&format!("D = 1{}", "+1".repeat(50_000))), too_many);
    assert_eq!(only_message(&format!("D = f(x{})", ", x".repeat(50_000))), too_many);
    assert_eq!(only_message(&"D = a\n".repeat(50_000)), too_many);
    assert_eq!(only_message(&format!("D = A{}", ".T".repeat(50_000))), too_many);
    let kernel = format!("kernel k(A: f32[M]) -> D: f32[M] {{ D = 1{} }}", "+1".repeat(50_000));
    assert_eq!(only_message(&kernel), too_many);
}

#[test]
fn the_limit_of_nodes_is_exact() {
    let chain = |nodes: usize| format!("D = 1{}", "+1".repeat((nodes - 1) / 2));
    let ast = parse(&chain(9_999)).unwrap();
    assert_eq!(ast.exprs.len(), 9_999);
    assert_eq!(parse(&ast.to_string()).as_ref(), Ok(&ast));
    assert!(parse(&chain(10_001)).is_err());
    drop(ast);
}

#[test]
fn nesting_stops_at_the_limit() {
    let too_deep = "expressions are nested more than 256 levels deep";
    for (open, close) in
        [("(", ")"), ("f(", ")"), ("-", ""), ("!", ""), ("a|b&c<d+e*f@(", ")"), ("grad(f)(", ")")]
    {
        let nested =
            |levels: usize| format!("D = {}x{}", open.repeat(levels), close.repeat(levels));
        assert!(parse(&nested(MAX_NESTING)).is_ok(), "{open}");
        assert_eq!(only_message(&nested(MAX_NESTING + 1)), too_deep);
        assert_eq!(only_message(&nested(100_000)), too_deep);
    }
    assert!(parse(&"(".repeat(100_000)).is_err());
    assert!(parse(&format!("D = {}", "x[".repeat(100_000))).is_err());
    assert!(parse(&"{".repeat(100_000)).is_err());
    assert!(parse(&format!("D = {}", "(]".repeat(100_000))).is_err());
}

#[test]
fn the_deepest_kernel_fits_a_small_stack() {
    let source = format!("D = {}x{}", "a|b&c<d+e*-f@g(".repeat(128), ")".repeat(128));
    let parsed =
        std::thread::Builder::new().stack_size(1 << 20).spawn(move || parse(&source).is_ok());
    assert!(parsed.unwrap().join().unwrap());
}

#[test]
fn brackets_in_great_number_take_linear_time() {
    for source in [
        "(a)\n".repeat(200_000),
        "D = f(\n".repeat(100_000),
        "D = (a]\n".repeat(100_000),
        "[{(".repeat(100_000),
        format!("D = x ? +{}", "\n".repeat(300_000)),
        "D = f(\na,\n".repeat(100_000),
        format!("({}", "\na,".repeat(200_000)),
    ] {
        // Quadratic time would be hours.
        assert!(parse(&source).is_err(), "{:?}", &source[..9]);
    }
}

/// A small generator with a fixed seed (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545F4914F6CDD1D) >> 33) as usize % bound
    }
}

fn iterations() -> usize {
    std::env::var("POSTLUDE_FUZZ").ok().and_then(|count| count.parse().ok()).unwrap_or(100_000)
}

/// Whatever the bytes, the answer is a tree that prints and parses to itself, or a few places
/// inside the source.
fn check(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok((exprs, root)) = parse_expression(text)
    {
        let printed = exprs.display(root).to_string();
        assert_eq!(parse_expression(&printed), Ok((exprs, root)));
    }
    match parse_bytes(bytes) {
        Ok(ast) => {
            assert_eq!(parse(&ast.to_string()).as_ref(), Ok(&ast), "{}", bytes.escape_ascii());
        }
        Err(errors) => {
            assert!((1..=5).contains(&errors.len()));
            for error in errors {
                let span = error.span();
                assert!(
                    span.start <= span.end && span.end as usize <= bytes.len(),
                    "{error:?} {}",
                    bytes.escape_ascii()
                );
                let quoted = std::str::from_utf8(bytes)
                    .map(|text| text.get(span.start as usize..span.end as usize));
                assert!(quoted != Ok(None), "{error:?}");
                assert!(error.to_string().len() + error.fix().map_or(0, |fix| fix.len()) < 1000);
            }
        }
    }
}

#[test]
fn random_bytes_never_panic() {
    let mut random = Random(0x9E3779B97F4A7C15);
    let mut bytes = Vec::new();
    for _ in 0..iterations() / 2 {
        bytes.clear();
        let ascii = random.below(2) == 0;
        for _ in 0..random.below(40) {
            bytes.push(if ascii { 32 + random.below(95) as u8 } else { random.below(256) as u8 });
        }
        check(&bytes);
    }
}

const SEEDS: [&str; 4] = [
    "kernel k(A: bf16[M, K], W: bf16[N, K], b: f32[N/2], s: f32) -> (D: bf16[M, N], p: f32[]) {\n  Z = A @ W.T + b\n  D = gelu(Z) # x\n  p = max(abs(D))\n}\n",
    "kernel g(A: i8[M, K], B: i8[K, N]) -> D: f32[M, N/2] { gate, up = halves(A @ B); D = silu(gate) * up }",
    "D = relu(alpha * (A @ B) + beta * C + bias[N])",
    "D = where(col <= row & !(z > 1e-5) | z != -inf, dD * grad(leaky_relu)(z, .5), mean(z, N, 128))\nE = sum(y, N/2)",
];

const FRAGMENTS: [&str; 40] = [
    "(", ")", "[", "]", "{", "}", ",", ";", "\n", "=", "==", "->", ":", ".", ".T", "@", "+", "-",
    "*", "**", "^", "/", "//", "<", "<=", "!", "&", "&&", "|", "#", "kernel ", "grad(", "if ",
    "not ", " and ", "1e999", "0x1", "é", "“", "x[",
];

#[test]
fn mutated_kernels_never_panic() {
    let mut random = Random(0xD1B54A32D192ED03);
    for _ in 0..iterations() / 2 {
        let mut bytes = SEEDS[random.below(SEEDS.len())].as_bytes().to_vec();
        for _ in 0..=random.below(4) {
            let place = random.below(bytes.len() + 1);
            let end = (place + random.below(6)).min(bytes.len());
            match random.below(4) {
                0 => _ = bytes.drain(place..end),
                1 => {
                    let copy = bytes[place..end].to_vec();
                    let at = random.below(bytes.len() + 1);
                    bytes.splice(at..at, copy);
                }
                2 => {
                    _ = bytes
                        .splice(place..place, FRAGMENTS[random.below(FRAGMENTS.len())].bytes());
                }
                _ => _ = bytes.splice(place..end, FRAGMENTS[random.below(FRAGMENTS.len())].bytes()),
            }
        }
        check(&bytes);
    }
}
