//! From an [`Ast`] back to text.
//!
//! In: a tree. Out: text that parses to the same tree, with the fewest parentheses with which Python groups it likewise.
//! Invariant: works off a stack of its own, so that the depth of the tree does not matter.

use std::fmt;

use super::ast::{Ast, ExprId, ExprKind, Exprs, Infix, Number, Signature};

/// How tightly an expression holds together, loosest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Level {
    Or,
    Xor,
    And,
    Comparison,
    Shift,
    Sum,
    Term,
    Prefix,
    Product,
    /// A literal: whole, but `.T` cannot follow it directly.
    Number,
    Operand,
}

/// How tightly an expression of this form holds together.
pub(crate) fn level(kind: &ExprKind) -> Level {
    match kind {
        ExprKind::Infix(infix, ..) => match infix {
            Infix::Or => Level::Or,
            Infix::Xor => Level::Xor,
            Infix::And => Level::And,
            Infix::Less
            | Infix::LessEqual
            | Infix::Greater
            | Infix::GreaterEqual
            | Infix::Equal
            | Infix::NotEqual => Level::Comparison,
            Infix::ShiftLeft | Infix::ShiftRight => Level::Shift,
            Infix::Add | Infix::Subtract => Level::Sum,
            Infix::Multiply | Infix::Divide => Level::Term,
        },
        ExprKind::Prefix(..) => Level::Prefix,
        ExprKind::Product(..) => Level::Product,
        ExprKind::Number(_) => Level::Number,
        ExprKind::Name(_)
        | ExprKind::Annotated(..)
        | ExprKind::Dims(_)
        | ExprKind::Transpose(_)
        | ExprKind::Call { .. } => Level::Operand,
    }
}

/// On which side of its operator an operand stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Left,
    Right,
}

impl Level {
    /// Whether an operand of an expression of this form stands in parentheses.
    pub(crate) fn encloses(self, side: Side, operand: Level) -> bool {
        let (left, right) = self.operands();
        let loosest = match side {
            Side::Left => left,
            Side::Right => right,
        };
        operand < loosest || self.misleads(side, operand)
    }

    /// Whether Python would group an operand otherwise that has no parentheses: there `@` binds as `*` does, and looser than
    /// `-x`, and comparisons are looser than `&`, `^` and `|`.
    fn misleads(self, side: Side, operand: Level) -> bool {
        match self {
            Level::Or | Level::Xor | Level::And => operand == Level::Comparison,
            Level::Term => (side, operand) == (Side::Right, Level::Product),
            Level::Prefix => operand == Level::Product,
            Level::Comparison | Level::Shift | Level::Sum => false,
            Level::Product | Level::Number | Level::Operand => false,
        }
    }

    /// The loosest an operand of this form may be in the language without parentheses, on the left and on the right.
    fn operands(self) -> (Level, Level) {
        match self {
            Level::Or => (Level::Or, Level::Xor),
            Level::Xor => (Level::Xor, Level::And),
            Level::And => (Level::And, Level::Comparison),
            Level::Comparison => (Level::Shift, Level::Shift),
            Level::Shift => (Level::Shift, Level::Sum),
            Level::Sum => (Level::Sum, Level::Term),
            Level::Term => (Level::Term, Level::Prefix),
            Level::Prefix => (Level::Prefix, Level::Prefix),
            Level::Product => (Level::Product, Level::Number),
            Level::Number | Level::Operand => (Level::Operand, Level::Operand),
        }
    }
}

enum Step<'a> {
    Text(&'a str),
    /// What stands by itself: the whole, an argument.
    Whole(ExprId),
    Operand(ExprId, Level, Side),
}

/// One expression of an arena, ready to print.
struct Shown<'a> {
    exprs: &'a Exprs,
    root: ExprId,
}

impl Exprs {
    /// The expression as text.
    pub fn display(&self, root: ExprId) -> impl fmt::Display + '_ {
        Shown { exprs: self, root }
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut steps = vec![Step::Whole(self.root)];
        while let Some(step) = steps.pop() {
            match step {
                Step::Text(text) => f.write_str(text)?,
                Step::Whole(id) => write_head(&self.exprs[id].kind, &mut steps, f)?,
                Step::Operand(id, of, side) => {
                    let kind = &self.exprs[id].kind;
                    if of.encloses(side, level(kind)) {
                        f.write_str("(")?;
                        steps.push(Step::Text(")"));
                    }
                    write_head(kind, &mut steps, f)?;
                }
            }
        }
        Ok(())
    }
}

/// Writes what an expression begins with and leaves the rest on the stack, last first.
fn write_head<'a>(
    kind: &'a ExprKind,
    steps: &mut Vec<Step<'a>>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let own = level(kind);
    let left = |operand: ExprId| Step::Operand(operand, own, Side::Left);
    let right = |operand: ExprId| Step::Operand(operand, own, Side::Right);
    match kind {
        ExprKind::Number(Number::Integer(value)) => write!(f, "{value}"),
        // The debug form is the shortest that reads back, and always has a point or an exponent.
        ExprKind::Number(Number::Float(value)) => write!(f, "{value:?}"),
        ExprKind::Name(name) => f.write_str(name),
        ExprKind::Annotated(name, dims) => write!(f, "{name}[{}]", crate::shape::list(dims)),
        ExprKind::Dims(dims) => write!(f, "[{}]", crate::shape::list(dims)),
        ExprKind::Transpose(of) => {
            steps.extend([Step::Text(".T"), left(*of)]);
            Ok(())
        }
        ExprKind::Product(a, b) => {
            steps.extend([right(*b), Step::Text(" @ "), left(*a)]);
            Ok(())
        }
        ExprKind::Prefix(prefix, of) => {
            steps.push(left(*of));
            f.write_str(prefix.symbol())
        }
        ExprKind::Infix(infix, a, b) => {
            steps.extend([
                right(*b),
                Step::Text(" "),
                Step::Text(infix.symbol()),
                Step::Text(" "),
                left(*a),
            ]);
            Ok(())
        }
        ExprKind::Call { function, grad, arguments } => {
            steps.push(Step::Text(")"));
            for (index, argument) in arguments.iter().enumerate().rev() {
                steps.push(Step::Whole(*argument));
                if index > 0 {
                    steps.push(Step::Text(", "));
                }
            }
            if *grad { write!(f, "grad({function})(") } else { write!(f, "{function}(") }
        }
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |declarations: &[super::ast::Declaration]| {
            declarations.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        let fused = if self.fused { "fused " } else { "" };
        let (inputs, outputs) = (list(&self.inputs), list(&self.outputs));
        write!(f, "{fused}kernel {}({inputs}) -> ({outputs})", self.name)
    }
}

impl fmt::Display for Ast {
    /// The text form, which parses to the same tree (a body needs at least one statement for that).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for definition in &self.definitions {
            let parameters: Vec<&str> =
                definition.parameters.iter().map(|name| name.text.as_str()).collect();
            let value = definition.exprs.display(definition.value);
            writeln!(f, "def {}({}) = {value}", definition.name, parameters.join(", "))?;
        }
        let indent = if let Some(signature) = &self.signature {
            writeln!(f, "{signature} {{")?;
            "    "
        } else {
            ""
        };
        for (index, statement) in self.statements.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            f.write_str(indent)?;
            for (place, target) in statement.targets.iter().enumerate() {
                write!(f, "{}{target}", if place == 0 { "" } else { ", " })?;
            }
            write!(f, " = {}", self.exprs.display(statement.value))?;
        }
        if self.signature.is_some() {
            f.write_str(if self.statements.is_empty() { "}" } else { "\n}" })?;
        }
        Ok(())
    }
}
