//! What was written, with places.
//!
//! Expressions live in one arena, children before parents, so that every later stage is a loop and
//! nothing recurses.
//! Two trees are equal when they say the same, wherever it was written: spans do not take part in
//! comparisons.

use std::fmt;
use std::ops::Index;

use crate::dtype::DType;
use crate::shape::Dim;

use super::span::Span;

/// A kernel, or the body of one (a one-liner) when there is no signature.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Ast {
    /// Functions that are defined before the kernel, in the order written.
    pub definitions: Vec<Definition>,
    /// Name, inputs and outputs; `None` for a one-liner.
    pub signature: Option<Signature>,
    /// The body, in the order written.
    pub statements: Vec<Statement>,
    /// Every expression of the body.
    pub exprs: Exprs,
}

/// `kernel name(inputs) -> (outputs)`.
#[derive(Clone, PartialEq, Debug)]
pub struct Signature {
    /// Whether `fused` stands before it: on a GPU it is one launch, or refused.
    pub fused: bool,
    /// The kernel's name.
    pub name: Name,
    /// Declared inputs, in order.
    pub inputs: Vec<Declaration>,
    /// Declared outputs, in order.
    pub outputs: Vec<Declaration>,
}

/// `def name(parameters) = value`, with expressions of its own.
#[derive(Clone, PartialEq, Debug)]
pub struct Definition {
    /// The function's name.
    pub name: Name,
    /// What stands for the arguments of a call.
    pub parameters: Vec<Name>,
    /// The expressions of the value.
    pub exprs: Exprs,
    /// What a call is.
    pub value: ExprId,
}

/// `name: dtype[dims]`, with `= other` where it is another input under other dims, or `name: dtype` for a scalar that the
/// host passes.
#[derive(Clone, PartialEq, Debug)]
pub struct Declaration {
    /// The declared name.
    pub name: Name,
    /// Its element type.
    pub dtype: DType,
    /// Its dims; `None` for a scalar passed by the host.
    pub dims: Option<Vec<Dim>>,
    /// The input that it is, under other dims.
    pub same_as: Option<Name>,
    /// The type as written.
    pub type_span: Span,
}

/// An identifier and where it stands.
#[derive(Clone, PartialEq, Debug)]
pub struct Name {
    /// The identifier.
    pub text: String,
    /// Where it was written.
    pub span: Span,
}

/// `target = value` or `first, second = value`.
#[derive(Clone, PartialEq, Debug)]
pub struct Statement {
    /// The names on the left; two for `halves` and `pairs`.
    pub targets: Vec<Name>,
    /// The right side.
    pub value: ExprId,
}

/// An expression of an [`Ast`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ExprId(pub(crate) u32);

/// The arena of expressions. Children come before their parents.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Exprs {
    nodes: Vec<Expr>,
}

/// One expression and its place.
#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where it was written.
    pub span: Span,
}

/// The forms of an expression.
#[derive(Clone, PartialEq, Debug)]
pub enum ExprKind {
    /// A literal.
    Number(Number),
    /// A name: an input, an assigned name, a dim in an argument list, or one of `row col inf nan pi`.
    Name(String),
    /// `bias[N]`: a name with its dims.
    Annotated(String, Vec<Dim>),
    /// `[Q, KV, KV]`: dims as an argument.
    Dims(Vec<Dim>),
    /// `x.T`.
    Transpose(ExprId),
    /// `a @ b`.
    Product(ExprId, ExprId),
    /// `-x`, `!x` or `~x`.
    Prefix(Prefix, ExprId),
    /// `a + b` and the like.
    Infix(Infix, ExprId, ExprId),
    /// `f(x, ...)` or `grad(f)(x, ...)`.
    Call {
        /// What is called.
        function: Name,
        /// Whether it is `grad(function)` that is called.
        grad: bool,
        /// The arguments, dims among them.
        arguments: Vec<ExprId>,
    },
}

/// A literal number. Integers stay integers until they meet a float.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    /// Written without point or exponent.
    Integer(i64),
    /// Written with a point or an exponent.
    Float(f64),
}

/// Operators before their operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Prefix {
    /// `-x`
    Negate,
    /// `!x`
    Not,
    /// `~x`
    Invert,
}

/// Operators between their operands, all left-associative.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Infix {
    /// `a + b`
    Add,
    /// `a - b`
    Subtract,
    /// `a * b`
    Multiply,
    /// `a / b`
    Divide,
    /// `a < b`
    Less,
    /// `a <= b`
    LessEqual,
    /// `a > b`
    Greater,
    /// `a >= b`
    GreaterEqual,
    /// `a == b`
    Equal,
    /// `a != b`
    NotEqual,
    /// `a & b`
    And,
    /// `a | b`
    Or,
    /// `a ^ b`
    Xor,
    /// `a << b`
    ShiftLeft,
    /// `a >> b`
    ShiftRight,
}

impl Prefix {
    /// The operator as written.
    pub const fn symbol(self) -> &'static str {
        match self {
            Prefix::Negate => "-",
            Prefix::Not => "!",
            Prefix::Invert => "~",
        }
    }
}

impl Infix {
    /// The operator as written.
    pub const fn symbol(self) -> &'static str {
        match self {
            Infix::Add => "+",
            Infix::Subtract => "-",
            Infix::Multiply => "*",
            Infix::Divide => "/",
            Infix::Less => "<",
            Infix::LessEqual => "<=",
            Infix::Greater => ">",
            Infix::GreaterEqual => ">=",
            Infix::Equal => "==",
            Infix::NotEqual => "!=",
            Infix::And => "&",
            Infix::Or => "|",
            Infix::Xor => "^",
            Infix::ShiftLeft => "<<",
            Infix::ShiftRight => ">>",
        }
    }
}

impl ExprKind {
    /// The operands and arguments, in the order written.
    pub fn children(&self) -> impl DoubleEndedIterator<Item = ExprId> {
        let (operands, arguments): ([Option<ExprId>; 2], &[ExprId]) = match self {
            ExprKind::Number(_)
            | ExprKind::Name(_)
            | ExprKind::Annotated(..)
            | ExprKind::Dims(_) => ([None; 2], &[]),
            ExprKind::Transpose(of) | ExprKind::Prefix(_, of) => ([Some(*of), None], &[]),
            ExprKind::Product(a, b) | ExprKind::Infix(_, a, b) => ([Some(*a), Some(*b)], &[]),
            ExprKind::Call { arguments, .. } => ([None; 2], arguments),
        };
        operands.into_iter().flatten().chain(arguments.iter().copied())
    }

    /// The same form with each operand and argument replaced, in the order written.
    #[must_use]
    pub fn map_children(&self, mut replace: impl FnMut(ExprId) -> ExprId) -> ExprKind {
        match self {
            ExprKind::Number(_)
            | ExprKind::Name(_)
            | ExprKind::Annotated(..)
            | ExprKind::Dims(_) => self.clone(),
            ExprKind::Transpose(of) => ExprKind::Transpose(replace(*of)),
            ExprKind::Prefix(prefix, of) => ExprKind::Prefix(*prefix, replace(*of)),
            ExprKind::Product(a, b) => ExprKind::Product(replace(*a), replace(*b)),
            ExprKind::Infix(infix, a, b) => ExprKind::Infix(*infix, replace(*a), replace(*b)),
            ExprKind::Call { function, grad, arguments } => ExprKind::Call {
                function: function.clone(),
                grad: *grad,
                arguments: arguments.iter().map(|argument| replace(*argument)).collect(),
            },
        }
    }
}

impl Exprs {
    /// Adds an expression whose children are already in the arena.
    pub fn push(&mut self, kind: ExprKind, span: Span) -> ExprId {
        let id = ExprId(
            u32::try_from(self.nodes.len())
                .expect("compiler bug: more expressions than the limit allows"),
        );
        self.nodes.push(Expr { kind, span });
        id
    }

    /// How many expressions there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Every expression, children before parents.
    pub fn iter(&self) -> impl Iterator<Item = (ExprId, &Expr)> {
        self.nodes.iter().enumerate().map(|(index, expr)| (ExprId(index as u32), expr))
    }
}

impl Index<ExprId> for Exprs {
    type Output = Expr;

    fn index(&self, id: ExprId) -> &Expr {
        &self.nodes[id.0 as usize]
    }
}

impl Name {
    /// An identifier at a place.
    pub fn new(text: impl Into<String>, span: Span) -> Name {
        Name { text: text.into(), span }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Declaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.dtype)?;
        if let Some(dims) = &self.dims {
            write!(f, "[{}]", crate::shape::list(dims))?;
        }
        match &self.same_as {
            Some(other) => write!(f, " = {other}"),
            None => Ok(()),
        }
    }
}
