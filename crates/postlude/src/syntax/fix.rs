//! Where each mistake stands and what to write instead.

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

    /// A second place that explains the first: the opening bracket of a wrong closing one, the end that an open one reached.
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
        match self {
            SyntaxError::Empty { .. } => {
                Some("write a body such as `D = relu(A @ B)`, or a kernel".to_owned())
            }
            SyntaxError::NotUtf8 { .. } | SyntaxError::NulByte { .. } => {
                Some("save the file as UTF-8 text".to_owned())
            }
            SyntaxError::NameNotAscii { ascii, .. } => {
                ascii.as_ref().map(|name| format!("write `{name}`"))
            }
            SyntaxError::Quoted { .. } => {
                Some("leave them out: names are written plain".to_owned())
            }
            SyntaxError::ForeignOperator { wanted, .. }
            | SyntaxError::WordOperator { wanted, .. } => Some(format!("write `{wanted}`")),
            SyntaxError::ForeignSpace { .. } => Some("write a plain space".to_owned()),
            SyntaxError::ForeignComment { .. } => Some("comments begin with `#`".to_owned()),
            SyntaxError::Conditional { .. } => Some("write `where(condition, a, b)`".to_owned()),
            SyntaxError::MalformedNumber { meant, .. } => {
                meant.as_ref().map(|meant| format!("write `{meant}`"))
            }
            SyntaxError::IntegerTooLarge { .. } => {
                Some("write it with a point or an exponent".to_owned())
            }
            SyntaxError::FloatTooLarge { .. } => Some("write `inf`".to_owned()),
            SyntaxError::Unclosed { opener, .. } => {
                Some(format!("close it with `{}`", closer_of(*opener)))
            }
            SyntaxError::Mismatched { opener, .. } => {
                Some(format!("write `{}`", closer_of(*opener)))
            }
            SyntaxError::StrayCloser { .. } => Some("remove it".to_owned()),
            SyntaxError::Power { call, .. } => Some(format!("write `{call}`")),
            SyntaxError::ChainedComparison { split, .. } => Some(format!("write `{split}`")),
            SyntaxError::AssignmentInExpression { .. } => Some("write `==` to compare".to_owned()),
            SyntaxError::NamedArgument { name, .. } => Some(format!("leave out `{name} =`")),
            SyntaxError::ComparisonForAssignment { name, .. }
            | SyntaxError::MissingAssign { name, .. }
            | SyntaxError::WordBeforeAssignment { name, .. }
            | SyntaxError::TypedAssignment { name, .. } => Some(format!("write `{name} = ...`")),
            SyntaxError::CompoundAssignment { .. } => {
                Some("assign the new value to a new name".to_owned())
            }
            SyntaxError::NotAssigned { text, .. } => Some(format!("write `D = {text}`")),
            SyntaxError::TargetNotName { name, .. } => {
                name.as_ref().map(|name| format!("write `{name} = ...`"))
            }
            SyntaxError::MissingSeparator { name, .. } => {
                Some(format!("write `;` or a newline before `{name}`"))
            }
            SyntaxError::LeadingOperator { operator, .. } => Some(format!(
                "end the line before with `{operator}`, or put the whole value in parentheses"
            )),
            SyntaxError::UnknownDtype { meant, .. } => Some(match meant {
                Some(meant) => format!("write `{meant}`"),
                None => format!("the dtypes are {}", dtype_names()),
            }),
            SyntaxError::DtypeNotInThisVersion { .. } => {
                Some(format!("the dtypes are {}", dtype_names()))
            }
            SyntaxError::MissingType { name, .. } => {
                Some(format!("write a type, such as `{name}: bf16[M, N]`"))
            }
            SyntaxError::MissingArrow { .. } => {
                Some("write `-> (D: bf16[M, N])` with the kernel's outputs".to_owned())
            }
            SyntaxError::SecondKernel { .. } => {
                Some("put the second one in a file of its own".to_owned())
            }
            SyntaxError::ReservedName { name, kind, .. } => match kind {
                ReservedKind::Function | ReservedKind::Word => {
                    Some(format!("use another name, such as `{name}_`"))
                }
                ReservedKind::Dtype => Some("use another name".to_owned()),
            },
            SyntaxError::InvalidDim { .. } => {
                Some("write a dim such as `N`, `128` or `N/2`".to_owned())
            }
            SyntaxError::UnknownMember { meant, .. } => {
                meant.as_ref().map(|meant| format!("write `{meant}`"))
            }
            SyntaxError::MalformedGrad { .. } => Some("write `grad(gelu)(x)`".to_owned()),
            SyntaxError::TooManyNodes { .. } => Some("split it into several kernels".to_owned()),
            SyntaxError::TooDeep { .. } => Some("assign the inner part to a name".to_owned()),
            SyntaxError::SourceTooLong { .. }
            | SyntaxError::UnexpectedCharacter { .. }
            | SyntaxError::TrailingText { .. }
            | SyntaxError::DimDividedByZero { .. }
            | SyntaxError::DimTooLarge { .. }
            | SyntaxError::DimsOnValue { .. }
            | SyntaxError::CallOfValue { .. }
            | SyntaxError::Expected { .. }
            | SyntaxError::ExpectedAfter { .. } => None,
        }
    }
}

fn closer_of(opener: char) -> char {
    match opener {
        '(' => ')',
        '[' => ']',
        _ => '}',
    }
}

fn dtype_names() -> String {
    crate::dtype::DType::ALL.map(crate::dtype::DType::name).join(" ")
}
