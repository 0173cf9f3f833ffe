//! Where each mistake stands and what to write instead.

use crate::dtype::DType;

use super::error::{ReservedKind, SyntaxError};
use super::span::Span;

impl SyntaxError {
    /// The place to underline.
    pub fn span(&self) -> Span {
        match self {
            SyntaxError::Empty { at }
            | SyntaxError::SourceTooLong { at, .. }
            | SyntaxError::NotUtf8 { at, .. }
            | SyntaxError::NulByte { at }
            | SyntaxError::UnexpectedCharacter { at, .. }
            | SyntaxError::NameNotAscii { at, .. }
            | SyntaxError::Quoted { at }
            | SyntaxError::ForeignOperator { at, .. }
            | SyntaxError::ForeignSpace { at, .. }
            | SyntaxError::ForeignComment { at, .. }
            | SyntaxError::Conditional { at, .. }
            | SyntaxError::MalformedNumber { at, .. }
            | SyntaxError::IntegerTooLarge { at, .. }
            | SyntaxError::FloatTooLarge { at, .. }
            | SyntaxError::Unclosed { at, .. }
            | SyntaxError::Mismatched { at, .. }
            | SyntaxError::StrayCloser { at, .. }
            | SyntaxError::Power { at, .. }
            | SyntaxError::ChainedComparison { at, .. }
            | SyntaxError::WordOperator { at, .. }
            | SyntaxError::AssignmentInExpression { at }
            | SyntaxError::NamedArgument { at, .. }
            | SyntaxError::ComparisonForAssignment { at, .. }
            | SyntaxError::CompoundAssignment { at, .. }
            | SyntaxError::MissingAssign { at, .. }
            | SyntaxError::WordBeforeAssignment { at, .. }
            | SyntaxError::NotAssigned { at, .. }
            | SyntaxError::TargetNotName { at, .. }
            | SyntaxError::TypedAssignment { at, .. }
            | SyntaxError::MissingSeparator { at, .. }
            | SyntaxError::LeadingOperator { at, .. }
            | SyntaxError::UnknownDtype { at, .. }
            | SyntaxError::DtypeNotInThisVersion { at, .. }
            | SyntaxError::MissingType { at, .. }
            | SyntaxError::MissingArrow { at }
            | SyntaxError::TrailingText { at }
            | SyntaxError::SecondKernel { at }
            | SyntaxError::ReservedName { at, .. }
            | SyntaxError::InvalidDim { at, .. }
            | SyntaxError::DimDividedByZero { at, .. }
            | SyntaxError::DimTooLarge { at, .. }
            | SyntaxError::DimsOnValue { at }
            | SyntaxError::UnknownMember { at, .. }
            | SyntaxError::CallOfValue { at }
            | SyntaxError::MalformedGrad { at }
            | SyntaxError::TooManyNodes { at, .. }
            | SyntaxError::TooDeep { at, .. }
            | SyntaxError::Expected { at, .. }
            | SyntaxError::ExpectedAfter { at, .. } => *at,
        }
    }

    /// A second place that explains the first: the opening bracket of a wrong closing one, the end
    /// that an open one reached.
    pub fn related(&self) -> Option<Span> {
        if let SyntaxError::Unclosed { end: place, .. }
        | SyntaxError::Mismatched { opener_at: place, .. } = self
        {
            Some(*place)
        } else {
            None
        }
    }

    /// What to write instead, where that is known.
    pub fn fix(&self) -> Option<String> {
        use SyntaxError as E;
        let write = |text: &str| Some(format!("write `{text}`"));
        let say = |text: &str| Some(text.to_owned());
        match self {
            E::Empty { .. } => say("write a body such as `D = relu(A @ B)`, or a kernel"),
            E::NotUtf8 { .. } | E::NulByte { .. } => say("save the file as UTF-8 text"),
            E::NameNotAscii { ascii, .. } => write(ascii.as_ref()?),
            E::Quoted { .. } => say("leave them out: names are written plain"),
            E::ForeignOperator { wanted, .. } | E::WordOperator { wanted, .. } => write(wanted),
            E::ForeignSpace { .. } => say("write a plain space"),
            E::ForeignComment { .. } => say("comments begin with `#`"),
            E::Conditional { .. } => write("where(condition, a, b)"),
            E::MalformedNumber { meant, .. } => write(meant.as_ref()?),
            E::IntegerTooLarge { .. } => say("write it with a point or an exponent"),
            E::FloatTooLarge { .. } => write("inf"),
            E::Unclosed { opener, .. } => Some(format!("close it with `{}`", closer_of(*opener))),
            E::Mismatched { opener, .. } => write(closer_of(*opener)),
            E::StrayCloser { .. } => say("remove it"),
            E::Power { call, .. } => write(call),
            E::ChainedComparison { split, .. } => write(split),
            E::AssignmentInExpression { .. } => say("write `==` to compare"),
            E::NamedArgument { name, .. } => Some(format!("leave out `{name} =`")),
            E::ComparisonForAssignment { name, .. }
            | E::MissingAssign { name, .. }
            | E::WordBeforeAssignment { name, .. }
            | E::TypedAssignment { name, .. } => write(&format!("{name} = ...")),
            E::CompoundAssignment { .. } => say("assign the new value to a new name"),
            E::NotAssigned { text, .. } => write(&format!("D = {text}")),
            E::TargetNotName { name, .. } => write(&format!("{} = ...", name.as_ref()?)),
            E::MissingSeparator { name, .. } => {
                Some(format!("write `;` or a newline before `{name}`"))
            }
            E::LeadingOperator { operator: o, .. } => Some(format!(
                "end the line before with `{o}`, or put the whole value in parentheses"
            )),
            E::UnknownDtype { meant: Some("i32"), name, .. } if is_64_bits(name) => Some(
                "write `i32`: int64 arrays bind to `i32` inputs that are indices, ends or counts"
                    .to_owned(),
            ),
            E::UnknownDtype { meant: Some(meant), .. } => write(meant),
            E::UnknownDtype { meant: None, .. } | E::DtypeNotInThisVersion { .. } => {
                Some(format!("the dtypes are {}", DType::ALL.map(DType::name).join(" ")))
            }
            E::MissingType { name, .. } => {
                Some(format!("write a type, such as `{name}: bf16[M, N]`"))
            }
            E::MissingArrow { .. } => say("write `-> (D: bf16[M, N])` with the kernel's outputs"),
            E::SecondKernel { .. } => say("put the second one in a file of its own"),
            E::ReservedName { kind: ReservedKind::Dtype, .. } => say("use another name"),
            E::ReservedName { kind: ReservedKind::Function | ReservedKind::Word, name, .. } => {
                Some(format!("use another name, such as `{name}_`"))
            }
            E::InvalidDim { .. } => say("write a dim such as `N`, `128` or `N/2`"),
            E::UnknownMember { meant, .. } => write(meant.as_ref()?),
            E::MalformedGrad { .. } => write("grad(gelu)(x)"),
            E::TooManyNodes { .. } => say("split it into several kernels"),
            E::TooDeep { .. } => say("assign the inner part to a name"),
            E::SourceTooLong { .. }
            | E::UnexpectedCharacter { .. }
            | E::TrailingText { .. }
            | E::DimDividedByZero { .. }
            | E::DimTooLarge { .. }
            | E::DimsOnValue { .. }
            | E::CallOfValue { .. }
            | E::Expected { .. }
            | E::ExpectedAfter { .. } => None,
        }
    }
}

/// Whether a name of another language is that of integers of 64 bits.
fn is_64_bits(name: &str) -> bool {
    matches!(&*name.to_lowercase(), "i64" | "int64" | "long")
}

fn closer_of(opener: char) -> &'static str {
    match opener {
        '(' => ")",
        '[' => "]",
        _ => "}",
    }
}
