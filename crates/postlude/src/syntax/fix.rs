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
            | SyntaxError::NoOperator { at, .. }
            | SyntaxError::ForeignStatement { at, .. }
            | SyntaxError::ForeignValue { at, .. }
            | SyntaxError::UnnamedDeclarations { at, .. }
            | SyntaxError::Indexed { at, .. }
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

    /// Whether what is proposed stands for all that is underlined, whatever it holds.
    pub(super) fn is_whole(&self) -> bool {
        matches!(
            self,
            SyntaxError::NamedArgument { .. }
                | SyntaxError::UnknownMember { .. }
                | SyntaxError::Indexed { .. }
        )
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
            E::Conditional { choice, .. } => {
                write(choice.as_deref().unwrap_or("where(condition, a, b)"))
            }
            E::MalformedNumber { meant, .. } => write(meant.as_ref()?),
            E::IntegerTooLarge { .. } => say("write it with a point or an exponent"),
            E::FloatTooLarge { .. } => write("inf"),
            E::Unclosed { opener, .. } => Some(format!("close it with `{}`", closer_of(*opener))),
            E::Mismatched { opener, .. } => write(closer_of(*opener)),
            E::StrayCloser { .. } => say("remove it"),
            E::Power { call, .. } => write(call),
            E::ChainedComparison { split, .. } => write(split),
            E::AssignmentInExpression { .. } => say("write `==` to compare"),
            E::NamedArgument { fix, .. }
            | E::NoOperator { fix, .. }
            | E::ForeignStatement { fix, .. }
            | E::ForeignValue { fix, .. }
            | E::Indexed { fix, .. } => say(fix),
            E::UnnamedDeclarations { list, .. } => write(list),
            E::ComparisonForAssignment { name, .. }
            | E::MissingAssign { name, .. }
            | E::WordBeforeAssignment { name, .. }
            | E::TypedAssignment { name, .. } => write(&format!("{name} = ...")),
            E::CompoundAssignment { whole, .. } => {
                Some(format!("assign the new value to a new name: `{whole}`"))
            }
            E::NotAssigned { text, .. } => write(&format!("D = {text}")),
            E::TargetNotName { name, .. } => write(&format!("{} = ...", name.as_ref()?)),
            E::MissingSeparator { name, .. } => {
                Some(format!("write `;` or a newline before `{name}`"))
            }
            E::LeadingOperator { operator: o, .. } => Some(format!(
                "end the line before with `{o}`, or put the whole value in parentheses"
            )),
            E::UnknownDtype { passed: Some(passed), .. } => say(passed),
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
            E::InvalidDim { text, .. } if text.contains("//") => {
                write(&text.replace("//", "/").replace(' ', ""))
            }
            E::InvalidDim { .. } => say("write a dim such as `N`, `128` or `N/2`"),
            E::DimsOnValue { .. } => say(
                "assign the value to a name; `a, b = halves(z)` and `q, k = split(z, [Q, KV])` take some of its columns",
            ),
            E::UnknownMember { fix, .. } => fix.clone(),
            E::MalformedGrad { .. } => write("grad(gelu)(x)"),
            E::TooManyNodes { .. } => say("split it into several kernels"),
            E::TooDeep { .. } => say("assign the inner part to a name"),
            E::SourceTooLong { .. }
            | E::UnexpectedCharacter { .. }
            | E::TrailingText { .. }
            | E::DimDividedByZero { .. }
            | E::DimTooLarge { .. }
            | E::CallOfValue { .. }
            | E::Expected { .. }
            | E::ExpectedAfter { .. } => None,
        }
    }
}

fn closer_of(opener: char) -> &'static str {
    match opener {
        '(' => ")",
        '[' => "]",
        _ => "}",
    }
}
