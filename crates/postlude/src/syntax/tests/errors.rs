//! Every mistake: what is said, what is underlined, what is proposed.

use crate::syntax::{SyntaxError, parse, parse_bytes, parse_expression};

const K: &str = "kernel k(A: f32[M, K], B: f32[K, N]) -> (D: f32[M, N]) { D = A @ B }";

/// `message | underlined | fix` for each mistake.
fn shown(source: &str) -> Vec<String> {
    show(source, &parse(source).expect_err(source))
}

fn show(source: &str, errors: &[SyntaxError]) -> Vec<String> {
    errors
        .iter()
        .map(|error| {
            let span = error.span();
            let underlined = &source[span.start as usize..span.end as usize];
            format!("{error} | {underlined} | {}", error.fix().unwrap_or_default())
        })
        .collect()
}

fn check(cases: &[(&str, &[&str])]) {
    let mut wrong = Vec::new();
    for (source, expected) in cases {
        let found = shown(source);
        if found != *expected {
            wrong.push(format!("{source:?}\n  expected {expected:#?}\n  found {found:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn brackets() {
    check(&[
        ("D = relu(A @ B", &["`(` is never closed | ( | close it with `)`"]),
        ("D = relu(A @ B\nE = A + 1", &["`(` is never closed | ( | close it with `)`"]),
        (
            "D = relu(\n A @ B,\n C\nE = x**2",
            &[
                "`(` is never closed | ( | close it with `)`",
                "there is no power operator `**` | x**2 | write `square(x)`",
            ],
        ),
        ("D = (a + (b * c)", &["`(` is never closed | ( | close it with `)`"]),
        ("D = bias[N + c", &["`[` is never closed | [ | close it with `]`"]),
        ("D = relu(A @ B]", &["`]` does not close `(` | ] | write `)`"]),
        ("D = bias[N) + c", &["`)` does not close `[` | ) | write `]`"]),
        ("D = relu(A @ B))", &["`)` closes nothing | ) | remove it"]),
        ("D = a]", &["`]` closes nothing | ] | remove it"]),
        ("D = f(a])", &["`]` closes nothing | ] | remove it"]),
        ("D = a }", &["`}` closes nothing | } | remove it"]),
        (")", &["`)` closes nothing | ) | remove it"]),
        (
            "kernel k(A: f32[M, K] -> (D: f32[M, N]) { D = A }",
            &["`(` is never closed | ( | close it with `)`"],
        ),
        (
            "kernel k(A: f32[M, K) -> (D: f32[M, N]) { D = A }",
            &["`[` is never closed | [ | close it with `]`"],
        ),
        (
            "kernel k(A: f32[M, K]) -> (D: f32[M, N]) { D = A",
            &["`{` is never closed | { | close it with `}`"],
        ),
        (
            "kernel k(A: f32[M, K]) -> (D: f32[M, N]) { D = f(A }",
            &["`(` is never closed | ( | close it with `)`"],
        ),
    ]);
}

#[test]
fn brackets_point_at_both_ends() {
    let unclosed = &parse("D = f(a\nE = b").unwrap_err()[0];
    assert_eq!((unclosed.span().start, unclosed.related().unwrap().start), (5, 7));
    let mismatched = &parse("D = f(a]").unwrap_err()[0];
    assert_eq!((mismatched.span().start, mismatched.related().unwrap().start), (7, 5));
}

#[test]
fn sources_that_are_not_text() {
    check(&[
        (
            "",
            &[
                "there is nothing to compile |  | write a body such as `D = relu(A @ B)`, or a kernel",
            ],
        ),
        (
            "# a\n;",
            &[
                "there is nothing to compile | # a\n; | write a body such as `D = relu(A @ B)`, or a kernel",
            ],
        ),
        ("D = a\0\0 ? ^", &["byte 5 is a NUL byte | \0 | save the file as UTF-8 text"]),
    ]);
    let error = &parse_bytes(b"D = \xff\xfe").unwrap_err()[0];
    assert_eq!(error.to_string(), "byte 4 is not valid UTF-8 (0xff)");
    assert_eq!((error.span().start, error.span().end), (4, 5));
    assert_eq!(parse_bytes(b"D = \xc3").unwrap_err()[0].span().start, 4);
    assert_eq!(parse_expression(" ").unwrap_err().len(), 1);
    let long = " ".repeat(crate::syntax::MAX_SOURCE + 1);
    assert_eq!(
        parse(&long).unwrap_err()[0].to_string(),
        "the source is longer than the limit of 16777216 bytes"
    );
}

#[test]
fn operators_of_other_languages() {
    check(&[
        ("D = x**2", &["there is no power operator `**` | x**2 | write `square(x)`"]),
        (
            "D = (a + b) ** 2.0 + 1",
            &["there is no power operator `**` | (a + b) ** 2.0 | write `square(a + b)`"],
        ),
        ("D = x ** -0.5", &["there is no power operator `**` | x ** -0.5 | write `pow(x, -0.5)`"]),
        ("D = a && b", &["`&&` is not an operator of the language | && | write `&`"]),
        ("D = a || b", &["`||` is not an operator of the language | || | write `|`"]),
        ("D = a and b", &["`and` is not an operator of the language | and | write `&`"]),
        ("D = a or b", &["`or` is not an operator of the language | or | write `|`"]),
        ("D = not a", &["`not` is not an operator of the language | not | write `!`"]),
        ("D = not (a < b)", &["`not` is not an operator of the language | not | write `!`"]),
        (
            "D = a and not b or c",
            &[
                "`and` is not an operator of the language | and | write `&`",
                "`not` is not an operator of the language | not | write `!`",
                "`or` is not an operator of the language | or | write `|`",
            ],
        ),
        (
            "D = a if c else b",
            &["`if` does not choose between values | if | write `where(c, a, b)`"],
        ),
        (
            "if a > b",
            &["`if` does not choose between values | if | write `where(condition, a, b)`"],
        ),
        (
            "D = c ? a : b",
            &["`?` does not choose between values | ? | write `where(condition, a, b)`"],
        ),
        (
            "D = a × b − c",
            &[
                "`×` is not an operator of the language | × | write `*`",
                "`−` is not an operator of the language | − | write `-`",
            ],
        ),
        ("D = a ≤ b", &["`≤` is not an operator of the language | ≤ | write `<=`"]),
        ("D := a", &["`:=` is not an operator of the language | := | write `=`"]),
        (
            "D = “relu”(a)",
            &[
                "quotation marks have no meaning here | “relu” | leave them out: names are written plain",
            ],
        ),
        (
            "D = relu(a)\"",
            &[
                "quotation marks have no meaning here | \" | leave them out: names are written plain",
            ],
        ),
        ("D = a // the sum", &["`//` does not begin a comment | // | comments begin with `#`"]),
        ("D = a\u{a0}+ b", &["this is not a plain space (U+00A0) | \u{a0} | write a plain space"]),
        (
            "D = α * x + naïve",
            &[
                "`α` is not a name: names are ASCII letters, digits and `_` | α | write `alpha`",
                "`naïve` is not a name: names are ASCII letters, digits and `_` | naïve | ",
            ],
        ),
        (
            "D = a % b",
            &[
                "there is no operator `%` | a % b | write `i32(fmod(f32(a), f32(b)))` of integers, `fmod(a, b)` of floats",
            ],
        ),
        (
            "D = a // 2 + b",
            &[
                "there is no operator `//` | a // 2 | write `a >> 1` of integers, `floor(a / 2)` of floats; comments begin with `#`",
            ],
        ),
        ("D = a $$$ b", &["`$` has no meaning here | $$$ | "]),
        ("D = a \u{1}", &["`\\u{1}` has no meaning here | \u{1} | "]),
    ]);
}

#[test]
fn comparisons_and_assignments() {
    check(&[
        ("D = 0 < x < 1", &["comparisons cannot be chained | 0 < x < 1 | write `0 < x & x < 1`"]),
        (
            "D = a == b != c == d",
            &["comparisons cannot be chained | a == b != c | write `a == b & b != c`"],
        ),
        (
            "D = where(a = b, 1, 2)",
            &["`=` assigns and cannot stand inside an expression | a = b | write `==` to compare"],
        ),
        (
            "D = (a = b)",
            &["`=` assigns and cannot stand inside an expression | = | write `==` to compare"],
        ),
        (
            "D = where(a + 1 = b, 1, 2)",
            &["`=` assigns and cannot stand inside an expression | = | write `==` to compare"],
        ),
        (
            "D = a = b",
            &["`=` assigns and cannot stand inside an expression | = | write `==` to compare"],
        ),
        (
            "D = f(\n a=1,\n b=2\n)\nE = c",
            &["arguments have no names | a=1,\n b=2 | write `f(1, 2)`"],
        ),
        ("D == a + b", &["`==` compares and does not assign | D == a + b | write `D = ...`"]),
        (
            "D += a",
            &[
                "`+=` would change `D`, and every name is assigned once | += | assign the new value to a new name: `D_2 = D + a`",
            ],
        ),
    ]);
}

#[test]
fn left_sides() {
    check(&[
        ("D A @ B", &["expected `=` after `D` | D | write `D = ...`"]),
        ("let D = a", &["`let` has no meaning before an assignment | let | write `D = ...`"]),
        (
            "gelu(A @ B)",
            &["this value is not assigned to a name | gelu(A @ B) | write `D = gelu(A @ B)`"],
        ),
        ("f(x) = a", &["`f(x)` cannot be assigned to: only names can | f(x) | "]),
        (
            "D[M, N] = a",
            &["`D[M, N]` cannot be assigned to: only names can | D[M, N] | write `D = ...`"],
        ),
        ("2 = a", &["`2` cannot be assigned to: only names can | 2 | "]),
        ("(D) = a", &["`(D)` cannot be assigned to: only names can | (D) | "]),
        ("a + b = c", &["`a + b` cannot be assigned to: only names can | a + b | "]),
        (
            "D: f32 = a",
            &[
                "types are declared in the kernel's signature, not where a name is assigned | D: | write `D = ...`",
            ],
        ),
        ("a, = halves(z)", &["expected a name, found `=` | = | "]),
        ("a, f(x) = halves(z)", &["expected `=`, found `(` | ( | "]),
        (
            "D = a E = b",
            &[
                "two statements stand on one line without `;` between them | E | write `;` or a newline before `E`",
            ],
        ),
        (
            "D = a\n  + b",
            &[
                "a statement cannot begin with `+`: the line before it has ended its own | + | end the line before with `+`, or put the whole value in parentheses",
            ],
        ),
        (
            "relu = a",
            &[
                "`relu` is a function and cannot be assigned | relu | use another name, such as `relu_`",
            ],
        ),
        (
            "row = a; bf16 = b",
            &[
                "`row` is a word of the language and cannot be assigned | row | use another name, such as `row_`",
                "`bf16` is a dtype and cannot be assigned | bf16 | use another name",
            ],
        ),
        (
            "kernel = a",
            &[
                "`kernel` is a word of the language and cannot be assigned | kernel | use another name, such as `kernel_`",
            ],
        ),
        (
            "a, max = halves(z)",
            &[
                "`max` is a function and cannot be assigned | max | use another name, such as `max_`",
            ],
        ),
        (
            "D = inf[N]",
            &[
                "`inf` is a word of the language and cannot be declared | inf | use another name, such as `inf_`",
            ],
        ),
    ]);
}

#[test]
fn values() {
    check(&[
        ("D =", &["expected a value after `=` | = | "]),
        ("D = a +", &["expected a value after `+` | + | "]),
        ("D = a + * b", &["expected a value, found `*` | * | "]),
        ("D = f(a +)", &["expected a value, found `)` | ) | "]),
        ("D = ()", &["expected a value, found `)` | ) | "]),
        ("D = f(a b)", &["expected `,` or `)`, found `b` | b | "]),
        ("D = f(,)", &["expected a value, found `,` | , | "]),
        ("D = f(a; b)", &["expected `,` or `)`, found `;` | ; | "]),
        ("D = a b", &["expected an operator or the end of the statement, found `b` | b | "]),
        ("D = a,", &["expected an operator or the end of the statement, found `,` | , | "]),
        ("D = a: b", &["expected an operator or the end of the statement, found `:` | : | "]),
        ("D = 2(a)", &["only a function's name can be called | ( | "]),
        ("D = f(a)(b)", &["only a function's name can be called | ( | "]),
        (
            "D = f(a)[N]",
            &[
                "only a name can be followed by dims in `[ ]` | [ | assign the value to a name; `a, b = halves(z)` and `q, k = split(z, [Q, KV])` take some of its columns",
            ],
        ),
        ("D = x.t", &["`.t` is not known: the only one is `.T` | .t | write `x.T`"]),
        (
            "D = x.sum()",
            &["`.sum()` is not known: values have no methods but `.T` | .sum() | write `sum(x)`"],
        ),
        (
            "D = torch.relu(x)",
            &[
                "`torch.relu(x)` is not known: functions belong to no module | torch.relu(x) | write `relu(x)`",
            ],
        ),
        (
            "D = x.shape",
            &["`.shape` is not known: the only one is `.T` | .shape | write `size(N)`"],
        ),
        ("D = x.", &["expected `T` after `.` | . | "]),
        (
            "D = grad(gelu)",
            &[
                "`grad` takes a function's name, and then its arguments | grad | write `grad(gelu)(x)`",
            ],
        ),
        (
            "D = grad(gelu(x))",
            &[
                "`grad` takes a function's name, and then its arguments | grad | write `grad(gelu)(x)`",
            ],
        ),
        (
            "D = grad(2)(x)",
            &[
                "`grad` takes a function's name, and then its arguments | grad | write `grad(gelu)(x)`",
            ],
        ),
        ("= a", &["expected a value, found `=` | = | "]),
        (", a", &["expected a statement such as `D = A @ B`, found `,` | , | "]),
    ]);
    let error = &parse_expression("x + 1\ny").unwrap_err()[0];
    assert_eq!(error.to_string(), "expected the end, found `y`");
}

#[test]
fn numbers() {
    check(&[
        ("D = 1.2.3", &["`1.2.3` is not a number | 1.2.3 | "]),
        ("D = 1e", &["`1e` is not a number | 1e | write `1 * e`"]),
        ("D = 0x1F", &["`0x1F` is not a number | 0x1F | write `31`"]),
        ("D = 1_000", &["`1_000` is not a number | 1_000 | write `1000`"]),
        ("D = 1.5f", &["`1.5f` is not a number | 1.5f | write `1.5`"]),
        ("D = 2x + 1", &["`2x` is not a number | 2x | write `2 * x`"]),
        (
            "D = 9223372036854775808",
            &[
                "the integer `9223372036854775808` is out of range | 9223372036854775808 | write it with a point or an exponent",
            ],
        ),
        ("D = -1e999", &["the number `1e999` is beyond the largest f32 | 1e999 | write `inf`"]),
        ("D = 3.5e38", &["the number `3.5e38` is beyond the largest f32 | 3.5e38 | write `inf`"]),
    ]);
}

#[test]
fn dims() {
    check(&[
        (
            "D = x[N + 1]",
            &[
                "`N + 1` is not a dim: a dim is a name, an integer, or a name divided by an integer | N + 1 | write a dim such as `N`, `128` or `N/2`",
            ],
        ),
        (
            "D = x[2*N, M-1]",
            &[
                "`2*N` is not a dim: a dim is a name, an integer, or a name divided by an integer | 2*N | write a dim such as `N`, `128` or `N/2`",
                "`M-1` is not a dim: a dim is a name, an integer, or a name divided by an integer | M-1 | write a dim such as `N`, `128` or `N/2`",
            ],
        ),
        (
            "D = x[:, 0]",
            &[
                "values are not indexed: `x[:, 0]` | [:, 0] | split the columns: `a, b = halves(x)`, or `q, k = split(x, [Q, KV])` where these dims are declared",
            ],
        ),
        (
            "D = x[N/K]",
            &[
                "`N/K` is not a dim: a dim is a name, an integer, or a name divided by an integer | N/K | write a dim such as `N`, `128` or `N/2`",
            ],
        ),
        (
            "D = x[N/2/2]",
            &[
                "`N/2/2` is not a dim: a dim is a name, an integer, or a name divided by an integer | N/2/2 | write a dim such as `N`, `128` or `N/2`",
            ],
        ),
        (
            "D = x[1.5]",
            &[
                "`1.5` is not a dim: a dim is a name, an integer, or a name divided by an integer | 1.5 | write a dim such as `N`, `128` or `N/2`",
            ],
        ),
        (
            "D = x[(N)]",
            &[
                "`(N)` is not a dim: a dim is a name, an integer, or a name divided by an integer | (N) | write a dim such as `N`, `128` or `N/2`",
            ],
        ),
        ("D = x[N/0]", &["the dim `N` is divided by zero | N/0 | "]),
        ("D = x[5000000000]", &["the dim `5000000000` is out of range | 5000000000 | "]),
        ("D = x[,]", &["expected a dim, found `,` | , | "]),
    ]);
}

#[test]
fn signatures() {
    let with_input = |input: &str| format!("kernel k({input}) -> (D: f32[M, N]) {{ D = A @ B }}");
    for (written, meant) in [
        ("float16", "f16"),
        ("fp16", "f16"),
        ("half", "f16"),
        ("float", "f32"),
        ("Float32", "f32"),
        ("int8", "i8"),
        ("e4m3", "f8e4m3"),
        ("bf61", "bf16"),
        ("BF16", "bf16"),
        ("f23", "f32"),
        ("f8e4m4", "f8e4m3"),
    ] {
        let expected = format!("unknown dtype `{written}` | {written} | write `{meant}`");
        assert_eq!(shown(&with_input(&format!("A: {written}[M, K]"))), [expected]);
    }
    for written in ["i64", "int64", "long"] {
        let cure =
            "declare it `i32`: int64 arrays bind to `i32` inputs that are indices, ends or counts";
        let expected = format!("unknown dtype `{written}` | {written} | {cure}");
        assert_eq!(shown(&with_input(&format!("t: {written}[M]"))), [expected]);
    }
    let all = "the dtypes are f32 tf32 f16 bf16 f8e4m3 f8e5m2 f8e8m0 i8 u8 i32 bool b1 i4 u4";
    for (input, expected) in [
        ("A: tensor[M]", format!("unknown dtype `tensor` | tensor | {all}")),
        ("A: f4e2m1[M]", format!("the dtype `f4e2m1` is not in this version | f4e2m1 | {all}")),
        ("A", "`A` has no type | A | write a type, such as `A: bf16[M, N]`".to_owned()),
        ("A:", "expected a type such as `bf16[M, N]`, found `)` | ) | ".to_owned()),
        ("A: f32[M", "`[` is never closed | [ | close it with `]`".to_owned()),
        ("A: f32[M] B: f32[N]", "expected `,` or `)`, found `B` | B | ".to_owned()),
        ("A = f32[M]", "expected `:`, found `=` | = | ".to_owned()),
        ("gelu: f32[M]", "`gelu` is a function and cannot be declared | gelu | use another name, such as `gelu_`".to_owned()),
        ("A: f32[M-1]", "`M-1` is not a dim: a dim is a name, an integer, or a name divided by an integer | M-1 | write a dim such as `N`, `128` or `N/2`".to_owned()),
        ("2", "expected a declaration such as `A: bf16[M, K]`, found `2` | 2 | ".to_owned()),
    ] {
        assert_eq!(shown(&with_input(input)), [expected], "{input}");
    }
    check(&[
        ("kernel (A: f32[M]) -> (D: f32[M]) { D = A }", &["expected a name, found `(` | ( | "]),
        ("kernel k -> (D: f32[M]) { D = A }", &["expected `(`, found `->` | -> | "]),
        ("kernel", &["expected a name after `kernel` | kernel | "]),
        (
            "kernel k(A: f32[M]) (D: f32[M]) { D = A }",
            &[
                "expected `->` between a kernel's inputs and its outputs | ) | write `-> (D: bf16[M, N])` with the kernel's outputs",
            ],
        ),
        (
            "kernel k(A: f32[M]) { D = A }",
            &[
                "expected `->` between a kernel's inputs and its outputs | ) | write `-> (D: bf16[M, N])` with the kernel's outputs",
            ],
        ),
        (
            "kernel k(A: f32[M]) -> { D = A }",
            &["expected a declaration such as `A: bf16[M, K]`, found `{` | { | "],
        ),
        ("kernel k(A: f32[M]) -> D: f32[M]\nD = A\n}", &["expected `{`, found `D` | D | "]),
        ("kernel k(A: f32[M]) -> D: f32[M]", &["expected `{` after `]` | ] | "]),
    ]);
}

#[test]
fn text_around_the_kernel() {
    check(&[
        (&format!("{K}\nE = D + 1"), &["there is text after the kernel | E = D + 1 | "]),
        (&format!("{K} }}"), &["`}` closes nothing | } | remove it"]),
        (
            &format!("{K}\n{K}"),
            &["a file holds one kernel | kernel k | put the second one in a file of its own"],
        ),
        (
            &format!("D = a\n{K}"),
            &["a file holds one kernel | kernel k | put the second one in a file of its own"],
        ),
    ]);
}

#[test]
fn several_mistakes_are_reported_once_each_and_at_most_five() {
    check(&[(
        "kernel k(A: fp16[M, K], B, C: f32[N/0]) -> (relu: f32[M, N]) {\n  D = x**2\n  E = )\n  F = a b\n}",
        &[
            "unknown dtype `fp16` | fp16 | write `f16`",
            "`B` has no type | B | write a type, such as `B: bf16[M, N]`",
            "the dim `N` is divided by zero | N/0 | ",
            "`relu` is a function and cannot be declared | relu | use another name, such as `relu_`",
            "there is no power operator `**` | x**2 | write `square(x)`",
        ],
    )]);
    assert_eq!(parse(&"D = x ? y\n".repeat(10_000)).unwrap_err().len(), 5);
}

#[test]
fn messages_stay_short_whatever_is_quoted() {
    let long = "a".repeat(100_000);
    for source in [
        format!("{long} ** {long}"),
        format!("D = {long} < {long} < {long}"),
        format!("{long}({long}) = 2; {long} == {long}; {long} {long}; {long}.{long}"),
        format!("D = 1{long}; E = x[{long}+{long}]"),
    ] {
        let total: usize = parse(&source)
            .unwrap_err()
            .iter()
            .map(|e| e.to_string().len() + e.fix().unwrap_or_default().len())
            .sum();
        assert!(total < 2500, "{total}");
    }
}
