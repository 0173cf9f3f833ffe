//! Printing and parsing undo each other, on random trees.

use proptest::prelude::*;

use crate::dtype::DType;
use crate::shape::Dim;
use crate::syntax::print::Level;
use crate::syntax::{
    Ast, Declaration, ExprId, ExprKind, Exprs, Infix, Name, Number, Prefix, Signature, Span,
    Statement, is_reserved, level, parse, parse_expression,
};

/// An expression as a tree, before it goes into an arena.
#[derive(Clone, Debug)]
enum Tree {
    Integer(i64),
    Float(f64),
    Name(String),
    Annotated(String, Vec<Dim>),
    Transpose(Box<Tree>),
    Product(Box<Tree>, Box<Tree>),
    Prefix(Prefix, Box<Tree>),
    Infix(Infix, Box<Tree>, Box<Tree>),
    /// Only as an argument.
    Dims(Vec<Dim>),
    Call(String, bool, Vec<Tree>),
}

const INFIXES: [Infix; 15] = [
    Infix::Add,
    Infix::Subtract,
    Infix::Multiply,
    Infix::Divide,
    Infix::Less,
    Infix::LessEqual,
    Infix::Greater,
    Infix::GreaterEqual,
    Infix::Equal,
    Infix::NotEqual,
    Infix::And,
    Infix::Or,
    Infix::Xor,
    Infix::ShiftLeft,
    Infix::ShiftRight,
];

const PREFIXES: [Prefix; 3] = [Prefix::Negate, Prefix::Not, Prefix::Invert];

fn plain_name() -> impl Strategy<Value = String> {
    "[a-zA-Z_][a-zA-Z0-9_]{0,6}"
        .prop_filter("reserved", |name| !is_reserved(name) && !is_word_operator(name))
}

fn is_word_operator(name: &str) -> bool {
    matches!(name, "and" | "or" | "not" | "if")
}

fn dim() -> impl Strategy<Value = Dim> {
    prop_oneof![
        plain_name().prop_map(Dim::name),
        any::<u32>().prop_map(Dim::Size),
        (plain_name(), 1..u32::MAX).prop_map(|(name, divisor)| Dim::Name { name, divisor }),
    ]
}

fn argument(inner: impl Strategy<Value = Tree>) -> impl Strategy<Value = Tree> {
    let dims = prop::collection::vec(dim(), 1..4).prop_map(Tree::Dims);
    prop_oneof![9 => inner, 1 => dims]
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        (0..i64::MAX).prop_map(Tree::Integer),
        (0i64..300).prop_map(Tree::Integer),
        any::<f32>()
            .prop_filter("finite", |x| x.is_finite())
            .prop_map(|x| Tree::Float(f64::from(x.abs()))),
        (0.0..1e38).prop_map(Tree::Float),
        plain_name().prop_map(Tree::Name),
        prop_oneof![Just("row"), Just("inf"), Just("pi")]
            .prop_map(|name| Tree::Name(name.to_owned())),
        (plain_name(), prop::collection::vec(dim(), 0..3))
            .prop_map(|(name, dims)| Tree::Annotated(name, dims)),
    ];
    leaf.prop_recursive(8, 96, 4, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        prop_oneof![
            boxed.clone().prop_map(Tree::Transpose),
            (boxed.clone(), boxed.clone()).prop_map(|(a, b)| Tree::Product(a, b)),
            (0..PREFIXES.len(), boxed.clone())
                .prop_map(|(index, of)| Tree::Prefix(PREFIXES[index], of)),
            (0..INFIXES.len(), boxed.clone(), boxed).prop_map(|(index, a, b)| Tree::Infix(
                INFIXES[index],
                a,
                b
            )),
            (plain_name(), any::<bool>(), prop::collection::vec(argument(inner), 0..4))
                .prop_map(|(function, grad, arguments)| Tree::Call(function, grad, arguments)),
        ]
    })
}

fn push(tree: &Tree, exprs: &mut Exprs) -> ExprId {
    let kind = match tree {
        Tree::Integer(value) => ExprKind::Number(Number::Integer(*value)),
        Tree::Float(value) => ExprKind::Number(Number::Float(*value)),
        Tree::Name(name) => ExprKind::Name(name.clone()),
        Tree::Annotated(name, dims) => ExprKind::Annotated(name.clone(), dims.clone()),
        Tree::Dims(dims) => ExprKind::Dims(dims.clone()),
        Tree::Transpose(of) => ExprKind::Transpose(push(of, exprs)),
        Tree::Product(a, b) => ExprKind::Product(push(a, exprs), push(b, exprs)),
        Tree::Prefix(prefix, of) => ExprKind::Prefix(*prefix, push(of, exprs)),
        Tree::Infix(infix, a, b) => ExprKind::Infix(*infix, push(a, exprs), push(b, exprs)),
        Tree::Call(function, grad, arguments) => ExprKind::Call {
            function: Name::new(function.clone(), Span::default()),
            grad: *grad,
            arguments: arguments.iter().map(|argument| push(argument, exprs)).collect(),
        },
    };
    exprs.push(kind, Span::default())
}

fn declaration() -> impl Strategy<Value = Declaration> {
    let dims = prop::option::of(prop::collection::vec(dim(), 0..4));
    (plain_name(), 0..DType::ALL.len(), dims).prop_map(|(name, dtype, dims)| Declaration {
        name: Name::new(name, Span::default()),
        dtype: DType::ALL[dtype],
        dims,
        same_as: None,
        type_span: Span::default(),
    })
}

fn ast() -> impl Strategy<Value = Ast> {
    let signature = (
        plain_name(),
        prop::collection::vec(declaration(), 0..4),
        prop::collection::vec(declaration(), 0..3),
    )
        .prop_map(|(name, inputs, outputs)| Signature {
            fused: inputs.len() == 3,
            name: Name::new(name, Span::default()),
            inputs,
            outputs,
        });
    let statement = (prop::collection::vec(plain_name(), 1..3), tree());
    (prop::option::of(signature), prop::collection::vec(statement, 1..5)).prop_map(
        |(signature, body)| {
            let mut ast = Ast { signature, ..Ast::default() };
            for (targets, value) in body {
                let targets =
                    targets.into_iter().map(|name| Name::new(name, Span::default())).collect();
                let value = push(&value, &mut ast.exprs);
                ast.statements.push(Statement { targets, value });
            }
            ast
        },
    )
}

/// Whether Python would group an expression otherwise that lost its parentheses between these texts.
fn misleads(before: &str, inner: &str, after: &str) -> bool {
    let (exprs, root) = parse_expression(inner).unwrap();
    match &exprs[root].kind {
        ExprKind::Product(..) => {
            ["* ", "/ ", "-", "!", "~"].iter().any(|symbol| before.ends_with(symbol))
        }
        kind if level(kind) == Level::Comparison => {
            let logical = ['&', '|', '^'];
            before.trim_end().ends_with(logical) || after.trim_start().starts_with(logical)
        }
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn printing_then_parsing_gives_the_same_tree(ast in ast()) {
        let text = ast.to_string();
        prop_assert_eq!(parse(&text), Ok(ast), "{}", text);
    }

    #[test]
    fn every_pair_of_parentheses_is_needed_here_or_in_python(tree in tree()) {
        let mut exprs = Exprs::default();
        let root = push(&tree, &mut exprs);
        let text = exprs.display(root).to_string();
        for (open, _) in text.match_indices('(') {
            let is_call = text[..open].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == ')');
            // `a @ -b` reads, but not before another `@`; it is always printed with parentheses.
            if is_call || text[..open].ends_with("@ ") {
                continue;
            }
            let mut depth = 0;
            let close = text[open..].bytes().position(|byte| {
                depth += i32::from(byte == b'(') - i32::from(byte == b')');
                depth == 0
            }).unwrap() + open;
            if misleads(&text[..open], &text[open + 1..close], &text[close + 1..]) {
                continue;
            }
            let without = format!("{}{}{}", &text[..open], &text[open + 1..close], &text[close + 1..]);
            prop_assert!(parse_expression(&without).ok().is_none_or(|(other, _)| other != exprs), "{}", text);
        }
    }
}
