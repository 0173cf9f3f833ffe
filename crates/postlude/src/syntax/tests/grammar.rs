//! Precedence and the newline rule.

use crate::dtype::DType;
use crate::shape::Dim;
use crate::syntax::{Ast, ExprKind, Number, Prefix, parse, parse_expression};

/// The expression with every operation in parentheses.
fn grouped(source: &str) -> String {
    let (exprs, root) =
        parse_expression(source).unwrap_or_else(|errors| panic!("{source}: {errors:?}"));
    let mut texts: Vec<String> = Vec::new();
    for (_, expr) in exprs.iter() {
        let text = |id: &crate::syntax::ExprId| texts[id.0 as usize].clone();
        let grouped = match &expr.kind {
            ExprKind::Number(Number::Integer(value)) => value.to_string(),
            ExprKind::Number(Number::Float(value)) => format!("{value:?}"),
            ExprKind::Name(name) => name.clone(),
            ExprKind::Annotated(name, dims) => format!("{name}[{}]", crate::shape::list(dims)),
            ExprKind::Dims(dims) => format!("[{}]", crate::shape::list(dims)),
            ExprKind::Transpose(of) => format!("({}.T)", text(of)),
            ExprKind::Product(a, b) => format!("({} @ {})", text(a), text(b)),
            ExprKind::Prefix(prefix, of) => format!("({}{})", prefix.symbol(), text(of)),
            ExprKind::Infix(infix, a, b) => format!("({} {} {})", text(a), infix.symbol(), text(b)),
            ExprKind::Call { function, grad, arguments } => {
                let arguments = arguments.iter().map(text).collect::<Vec<_>>().join(", ");
                if *grad {
                    format!("grad {function}({arguments})")
                } else {
                    format!("{function}({arguments})")
                }
            }
        };
        texts.push(grouped);
    }
    assert_eq!(root.0 as usize + 1, texts.len(), "the root comes last");
    texts.pop().unwrap()
}

#[test]
fn operators_bind_as_the_language_says() {
    for (source, meaning) in [
        ("a + b * c", "(a + (b * c))"),
        ("a - b - c", "((a - b) - c)"),
        ("a / b * c", "((a / b) * c)"),
        ("a - (b - c)", "(a - (b - c))"),
        ("alpha * A @ B", "(alpha * (A @ B))"),
        ("-A @ B", "(-(A @ B))"),
        ("A @ -B", "(A @ (-B))"),
        ("A @ -B * c", "((A @ (-B)) * c)"),
        ("A @ B.T + bias[N]", "((A @ (B.T)) + bias[N])"),
        ("A.T.T @ B @ C", "((((A.T).T) @ B) @ C)"),
        ("-a * b", "((-a) * b)"),
        ("a * -b", "(a * (-b))"),
        ("- - a", "(-(-a))"),
        ("-1", "(-1)"),
        ("!a & b", "((!a) & b)"),
        ("!a == b", "((!a) == b)"),
        ("a < b & c >= d | e != f", "(((a < b) & (c >= d)) | (e != f))"),
        ("a | b & c", "(a | (b & c))"),
        ("a + b < c * d", "((a + b) < (c * d))"),
        ("(a < b) == c", "((a < b) == c)"),
        ("dD * grad(gelu)(Z)", "(dD * grad gelu(Z))"),
        ("grad(leaky_relu)(Z, 0.1,)", "grad leaky_relu(Z, 0.1)"),
        ("sum(y, N/2)", "sum(y, (N / 2))"),
        ("f(x).T", "(f(x).T)"),
        ("(2).T", "(2.T)"),
        ("f()", "f()"),
        ("x[M, N/2, 8, ]", "x[M, N/2, 8]"),
        ("x[]", "x[]"),
        (".5 + 1e-5 + 2.", "((0.5 + 1e-5) + 2.0)"),
        ("grad + x", "(grad + x)"),
    ] {
        assert_eq!(grouped(source), meaning, "{source}");
    }
}

#[test]
fn printing_uses_the_fewest_parentheses_that_python_groups_alike() {
    for source in [
        "a + b * c",
        "(a + b) * c",
        "a - (b - c)",
        "a - b - c",
        "-(A @ B)",
        "r * (A @ B)",
        "r / (A @ B)",
        "A @ B * r + A @ B",
        "(r * A) @ B",
        "(x < 1) & (y >= 2) | keep",
        "x & (1 == 1)",
        "(x & 1) == 1",
        "a << 1 + b",
        "(-A) @ B",
        "A @ (-B)",
        "A @ (B @ C)",
        "a * -b",
        "--a",
        "-(a + b)",
        "!(a < b)",
        "(a < b) == (c < d)",
        "a & b | c & (d | e)",
        "(1.0).T",
        "(2).T + 2",
        "(a @ b).T",
        "f(a + b, -c)",
        "grad(gelu)(x)",
        "bias[N/2].T",
        "1e-7 + 1e30 / 1.5",
    ] {
        let (exprs, root) = parse_expression(source).unwrap();
        assert_eq!(exprs.display(root).to_string(), source);
    }
}

fn targets(ast: &Ast) -> Vec<String> {
    ast.statements
        .iter()
        .map(|statement| {
            statement.targets.iter().map(|name| name.text.clone()).collect::<Vec<_>>().join("+")
        })
        .collect()
}

#[test]
fn newlines_end_statements_except_where_the_line_is_open() {
    for (source, names) in [
        ("D = a", vec!["D"]),
        ("\n\n  D = a\r\n\tE = b\n", vec!["D", "E"]),
        ("D = a; E = b;", vec!["D", "E"]),
        ("D = a;;\n;E = b", vec!["D", "E"]),
        ("D = a +\n b\nE = c", vec!["D", "E"]),
        ("D =\n\n a\nE = c", vec!["D", "E"]),
        ("D = a @\n b &\n c", vec!["D"]),
        ("D = f(\na,\nb\n)\nE = c", vec!["D", "E"]),
        ("D = (a\n+ b)\nE = c", vec!["D", "E"]),
        ("D = x[\nM\n,N]\nE = c", vec!["D", "E"]),
        ("gate, up = halves(z)\nE = c", vec!["gate+up", "E"]),
        ("gate,\nup = halves(z)", vec!["gate+up"]),
        ("D = a # + \nE = b # ( \n# c", vec!["D", "E"]),
        ("D = -\n a", vec!["D"]),
        ("D = grad(\ngelu\n)(\nx)", vec!["D"]),
        ("\u{feff}D = a", vec!["D"]),
    ] {
        let ast = parse(source).unwrap_or_else(|errors| panic!("{source:?}: {errors:?}"));
        assert_eq!(targets(&ast), names, "{source:?}");
        assert!(ast.signature.is_none());
    }
}

#[test]
fn a_kernel_has_its_signature() {
    let source = "
        # Linear layer with GELU, keeping the pre-activation for the backward pass
        kernel linear_gelu(
            A: bf16[M, K],
            W: bf16[N, K], bias: f32[N], alpha: f32, s: f32[],
        ) -> (D: bf16[M, N], Z: bf16[M, N/2], peak: f32[])
        {
            Z = A @ W.T + bias
            D = gelu(Z)
            peak = max(abs(D))
        }

        # the end
    ";
    let ast = parse(source).unwrap();
    let signature = ast.signature.as_ref().unwrap();
    assert_eq!(signature.name.text, "linear_gelu");
    assert_eq!(signature.inputs.len(), 5);
    assert_eq!(signature.inputs[0].dtype, DType::BF16);
    assert_eq!(signature.inputs[3].dims, None);
    assert_eq!(signature.inputs[4].dims, Some(vec![]));
    let half = Dim::Name { name: "N".to_owned(), divisor: 2 };
    assert_eq!(signature.outputs[1].dims, Some(vec![Dim::name("M"), half]));
    assert_eq!(targets(&ast), ["Z", "D", "peak"]);
    assert_eq!(&source[signature.inputs[0].type_span.start as usize..][..10], "bf16[M, K]");
    assert_eq!(
        ast.to_string(),
        "kernel linear_gelu(A: bf16[M, K], W: bf16[N, K], bias: f32[N], alpha: f32, s: f32[]) \
         -> (D: bf16[M, N], Z: bf16[M, N/2], peak: f32[]) {\n    \
         Z = A @ W.T + bias\n    D = gelu(Z)\n    peak = max(abs(D))\n}"
    );
}

#[test]
fn a_kernel_fits_on_a_line() {
    for source in [
        "kernel k(A: f32[M, K], B: f32[K, N]) -> (D: f32[M, N]) { D = A @ B }",
        "kernel k(A: f32[M, K], B: f32[K, N]) -> D: f32[M, N] { D = A @ B; }",
        "kernel k(A: f32[M, K], B: f32[K, N])\n->\nD: f32[M, N]\n{ D = A @ B\n}\n",
        "kernel k(A: f32[M, K], B: f32[K, N]) -> D: f32[M, N] { D = A @ B };",
        "kernel k(A: f32[M, K/1], B: f32[K, N]) -> D: f32[M, N] { D = A @\n B }",
    ] {
        assert_eq!(
            parse(source).unwrap().to_string(),
            "kernel k(A: f32[M, K], B: f32[K, N]) -> (D: f32[M, N]) {\n    D = A @ B\n}"
        );
    }
}

#[test]
fn minus_before_a_literal_is_an_operator() {
    let (exprs, root) = parse_expression("-1.5").unwrap();
    assert!(matches!(exprs[root].kind, ExprKind::Prefix(Prefix::Negate, _)));
}

#[test]
fn spans_cover_what_was_written() {
    let source = "D = (a + b) * f(c)";
    let ast = parse(source).unwrap();
    let mut texts: Vec<&str> = ast
        .exprs
        .iter()
        .map(|(_, expr)| &source[expr.span.start as usize..expr.span.end as usize])
        .collect();
    texts.sort_unstable();
    assert_eq!(texts, ["(a + b) * f(c)", "a", "a + b", "b", "c", "f(c)"]);
}
