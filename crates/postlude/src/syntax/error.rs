//! What can be wrong with the text of a kernel, in the user's words.
//!
//! Invariant: messages are lower-case without a full stop, quote at most an excerpt of the source,
//! and name the fix where there is one.

use std::fmt;

use super::span::Span;

/// A mistake in the text of a kernel.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SyntaxError {
    /// No statement at all.
    #[error("there is nothing to compile")]
    Empty {
        /// The whole source.
        at: Span,
    },
    /// More bytes than a source may have.
    #[error("the source is longer than the limit of {limit} bytes")]
    SourceTooLong {
        /// The limit.
        limit: usize,
        /// The first byte too many.
        at: Span,
    },
    /// The bytes are not text.
    #[error("byte {} is not valid UTF-8 (0x{byte:02x})", at.start)]
    NotUtf8 {
        /// The offending byte.
        byte: u8,
        /// Its place.
        at: Span,
    },
    /// A zero byte.
    #[error("byte {} is a NUL byte", at.start)]
    NulByte {
        /// Its place.
        at: Span,
    },
    /// A character that means nothing.
    #[error("`{}` has no meaning here", .character.escape_debug())]
    UnexpectedCharacter {
        /// The character.
        character: char,
        /// Its place.
        at: Span,
    },
    /// A letter outside ASCII.
    #[error("`{text}` is not a name: names are ASCII letters, digits and `_`")]
    NameNotAscii {
        /// The name as written.
        text: String,
        /// The name in ASCII, where that is obvious.
        ascii: Option<String>,
        /// Its place.
        at: Span,
    },
    /// Quoted text.
    #[error("quotation marks have no meaning here")]
    Quoted {
        /// The quoted text.
        at: Span,
    },
    /// An operator of another language, or of typography.
    #[error("`{}` is not an operator of the language", .found.escape_debug())]
    ForeignOperator {
        /// As written.
        found: String,
        /// As the language writes it.
        wanted: &'static str,
        /// Its place.
        at: Span,
    },
    /// A space that is not ASCII.
    #[error("this is not a plain space (U+{:04X})", u32::from(*.character))]
    ForeignSpace {
        /// The character.
        character: char,
        /// Its place.
        at: Span,
    },
    /// `//` or `/*` where a comment is meant.
    #[error("`{found}` does not begin a comment")]
    ForeignComment {
        /// As written.
        found: &'static str,
        /// Its place.
        at: Span,
    },
    /// `c ? a : b`, `a if c else b`.
    #[error("`{found}` does not choose between values")]
    Conditional {
        /// As written.
        found: String,
        /// The same as a call, where its parts are known.
        choice: Option<String>,
        /// Its place.
        at: Span,
    },
    /// `1.2.3`, `0x10`, `2x`.
    #[error("`{text}` is not a number")]
    MalformedNumber {
        /// As written.
        text: String,
        /// The number that was probably meant.
        meant: Option<String>,
        /// Its place.
        at: Span,
    },
    /// An integer that 64 bits do not hold.
    #[error("the integer `{text}` is out of range")]
    IntegerTooLarge {
        /// As written.
        text: String,
        /// Its place.
        at: Span,
    },
    /// A number that would be read as infinite.
    #[error("the number `{text}` is beyond the largest f32")]
    FloatTooLarge {
        /// As written.
        text: String,
        /// Its place.
        at: Span,
    },
    /// An opening bracket without its closing one.
    #[error("`{opener}` is never closed")]
    Unclosed {
        /// The bracket.
        opener: char,
        /// Its place.
        at: Span,
        /// Where it should have been closed at the latest.
        end: Span,
    },
    /// `(a]`.
    #[error("`{closer}` does not close `{opener}`")]
    Mismatched {
        /// The opening bracket.
        opener: char,
        /// Its place.
        opener_at: Span,
        /// The closing bracket.
        closer: char,
        /// Its place.
        at: Span,
    },
    /// A closing bracket without its opening one.
    #[error("`{closer}` closes nothing")]
    StrayCloser {
        /// The bracket.
        closer: char,
        /// Its place.
        at: Span,
    },
    /// `x**2` or `x^2`.
    #[error("there is no power operator `{operator}`")]
    Power {
        /// As written.
        operator: String,
        /// The same as a call.
        call: String,
        /// Base, operator and exponent.
        at: Span,
    },
    /// `a % b` or `a // b`.
    #[error("there is no operator `{operator}`")]
    NoOperator {
        /// As written.
        operator: String,
        /// What computes the same.
        fix: String,
        /// Both operands and the operator.
        at: Span,
    },
    /// `a < b < c`.
    #[error("comparisons cannot be chained")]
    ChainedComparison {
        /// The same as two comparisons.
        split: String,
        /// The chain.
        at: Span,
    },
    /// `&&`, `||`, `and`, `or`, `not`.
    #[error("`{found}` is not an operator of the language")]
    WordOperator {
        /// As written.
        found: String,
        /// As the language writes it.
        wanted: &'static str,
        /// Its place.
        at: Span,
    },
    /// `=` inside an expression.
    #[error("`=` assigns and cannot stand inside an expression")]
    AssignmentInExpression {
        /// Its place.
        at: Span,
    },
    /// `f(x=1)`.
    #[error("arguments have no names")]
    NamedArgument {
        /// The first name before `=`.
        name: String,
        /// The whole call without names.
        fix: String,
        /// The named arguments.
        at: Span,
    },
    /// `D == x` as a statement.
    #[error("`==` compares and does not assign")]
    ComparisonForAssignment {
        /// The name on the left.
        name: String,
        /// Its place.
        at: Span,
    },
    /// `D += x`.
    #[error("`{operator}` would change `{name}`, and every name is assigned once")]
    CompoundAssignment {
        /// As written.
        operator: String,
        /// The name on the left.
        name: String,
        /// The same under a new name.
        whole: String,
        /// Its place.
        at: Span,
    },
    /// `return x`, `for i in range(4):`, `import torch`.
    #[error("`{word}` begins no statement: a body assigns values to names")]
    ForeignStatement {
        /// The word.
        word: String,
        /// What stands for it here.
        fix: String,
        /// Its place.
        at: Span,
    },
    /// `True`, `None`.
    #[error("`{word}` is not a value of the language")]
    ForeignValue {
        /// The word.
        word: String,
        /// What stands for it here.
        fix: String,
        /// Its place.
        at: Span,
    },
    /// `D A @ B`.
    #[error("expected `=` after `{name}`")]
    MissingAssign {
        /// The name before.
        name: String,
        /// Its place.
        at: Span,
    },
    /// `let D = x`.
    #[error("`{word}` has no meaning before an assignment")]
    WordBeforeAssignment {
        /// The word.
        word: String,
        /// The assigned name.
        name: String,
        /// Its place.
        at: Span,
    },
    /// A value that no name takes.
    #[error("this value is not assigned to a name")]
    NotAssigned {
        /// The value as written.
        text: String,
        /// Its place.
        at: Span,
    },
    /// `f(x) = y`.
    #[error("`{text}` cannot be assigned to: only names can")]
    TargetNotName {
        /// The left side as written.
        text: String,
        /// The name it begins with, where it is a name with dims.
        name: Option<String>,
        /// Its place.
        at: Span,
    },
    /// `D: f32 = x` in a body.
    #[error("types are declared in the kernel's signature, not where a name is assigned")]
    TypedAssignment {
        /// The assigned name.
        name: String,
        /// From the name to the type.
        at: Span,
    },
    /// Two statements on one line.
    #[error("two statements stand on one line without `;` between them")]
    MissingSeparator {
        /// The name the second one assigns.
        name: String,
        /// Its place.
        at: Span,
    },
    /// A line that begins with a binary operator.
    #[error("a statement cannot begin with `{operator}`: the line before it has ended its own")]
    LeadingOperator {
        /// As written.
        operator: String,
        /// Its place.
        at: Span,
    },
    /// `bf17`.
    #[error("unknown dtype `{name}`")]
    UnknownDtype {
        /// As written.
        name: String,
        /// The dtype that was probably meant.
        meant: Option<&'static str>,
        /// How arrays of that dtype are passed, where none of ours is the same.
        passed: Option<&'static str>,
        /// Its place.
        at: Span,
    },
    /// `f4e2m1`.
    #[error("the dtype `{name}` is not in this version")]
    DtypeNotInThisVersion {
        /// As written.
        name: String,
        /// Its place.
        at: Span,
    },
    /// A declared name without type.
    #[error("`{name}` has no type")]
    MissingType {
        /// The declared name.
        name: String,
        /// Its place.
        at: Span,
    },
    /// `-> (bf16[M, N], f32[])`.
    #[error("inputs and outputs have names")]
    UnnamedDeclarations {
        /// The same with names.
        list: String,
        /// The list, or the one type.
        at: Span,
    },
    /// A signature without `->`.
    #[error("expected `->` between a kernel's inputs and its outputs")]
    MissingArrow {
        /// The end of the inputs.
        at: Span,
    },
    /// Something after the kernel's `}`.
    #[error("there is text after the kernel")]
    TrailingText {
        /// The text.
        at: Span,
    },
    /// A second kernel, or a kernel after a body.
    #[error("a file holds one kernel")]
    SecondKernel {
        /// The word `kernel` and the name.
        at: Span,
    },
    /// A function, dtype or known word assigned or declared.
    #[error("`{name}` is {kind} and cannot be {action}")]
    ReservedName {
        /// As written.
        name: String,
        /// What the name means already.
        kind: ReservedKind,
        /// What was tried.
        action: ReservedAction,
        /// Its place.
        at: Span,
    },
    /// A dim that is not a name, an integer or a name divided by an integer.
    #[error("`{text}` is not a dim: a dim is a name, an integer, or a name divided by an integer")]
    InvalidDim {
        /// As written.
        text: String,
        /// Its place.
        at: Span,
    },
    /// `N/0`.
    #[error("the dim `{name}` is divided by zero")]
    DimDividedByZero {
        /// The dim's name.
        name: String,
        /// Its place.
        at: Span,
    },
    /// A dim beyond 32 bits.
    #[error("the dim `{text}` is out of range")]
    DimTooLarge {
        /// As written.
        text: String,
        /// Its place.
        at: Span,
    },
    /// Dims after something that is not a name.
    #[error("only a name can be followed by dims in `[ ]`")]
    DimsOnValue {
        /// The bracket.
        at: Span,
    },
    /// `x[:, :64]`, `x[None, :]`.
    #[error("values are not indexed: `{text}`")]
    Indexed {
        /// The value and its brackets.
        text: String,
        /// What to write instead.
        fix: String,
        /// The brackets.
        at: Span,
    },
    /// `x.sum(1)`, `torch.relu(x)`, `x.shape`.
    #[error("`{}{name}` is not known: {what}", if matches!(.what, Member::Function) { "" } else { "." })]
    UnknownMember {
        /// As written, without the first point.
        name: String,
        /// What it is elsewhere.
        what: Member,
        /// What to do instead.
        fix: Option<String>,
        /// The point and what follows.
        at: Span,
    },
    /// `(f)(x)`, `f(x)(y)`.
    #[error("only a function's name can be called")]
    CallOfValue {
        /// The opening parenthesis.
        at: Span,
    },
    /// `grad` without a function's name and its arguments.
    #[error("`grad` takes a function's name, and then its arguments")]
    MalformedGrad {
        /// Its place.
        at: Span,
    },
    /// Too many expressions.
    #[error("the kernel has more than {} operations and operands", grouped(*.limit))]
    TooManyNodes {
        /// The limit.
        limit: usize,
        /// The first one too many.
        at: Span,
    },
    /// Too many expressions inside each other.
    #[error("expressions are nested more than {limit} levels deep")]
    TooDeep {
        /// The limit.
        limit: usize,
        /// The first level too many.
        at: Span,
    },
    /// Something else was expected.
    #[error("expected {wanted}, found `{found}`")]
    Expected {
        /// What.
        wanted: Wanted,
        /// What stands there.
        found: String,
        /// Its place.
        at: Span,
    },
    /// Something else was expected, and the line or the source ends.
    #[error("expected {wanted} after `{after}`")]
    ExpectedAfter {
        /// What.
        wanted: Wanted,
        /// The last word.
        after: String,
        /// Its place.
        at: Span,
    },
}

/// What a reserved name means already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReservedKind {
    /// A function of the language.
    Function,
    /// A dtype, of this version or not.
    Dtype,
    /// One of `row col inf nan pi kernel`.
    Word,
}

/// What a word behind a point is in other languages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Member {
    /// `x.shape`.
    Attribute,
    /// `x.sum(1)`.
    Method,
    /// `torch.relu(x)`.
    Function,
}

/// What was tried with a reserved name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReservedAction {
    /// It stands before `=`.
    Assigned,
    /// It is declared in a signature, or with dims.
    Declared,
}

/// What the parser expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// A number, a name, a call or something in parentheses.
    Value,
    /// An identifier.
    Name,
    /// A dim.
    Dim,
    /// A dtype with or without dims.
    Type,
    /// `name: dtype[dims]`.
    Declaration,
    /// `name = value`.
    Statement,
    /// An operator, or nothing more.
    OperatorOrEnd,
    /// Nothing more.
    End,
    /// `,` or the closing bracket.
    CommaOr(char),
    /// That symbol.
    Symbol(&'static str),
}

impl fmt::Display for ReservedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReservedKind::Function => "a function",
            ReservedKind::Dtype => "a dtype",
            ReservedKind::Word => "a word of the language",
        })
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Member::Attribute => "the only one is `.T`",
            Member::Method => "values have no methods but `.T`",
            Member::Function => "functions belong to no module",
        })
    }
}

impl fmt::Display for ReservedAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReservedAction::Assigned => "assigned",
            ReservedAction::Declared => "declared",
        })
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wanted::Value => f.write_str("a value"),
            Wanted::Name => f.write_str("a name"),
            Wanted::Dim => f.write_str("a dim"),
            Wanted::Type => f.write_str("a type such as `bf16[M, N]`"),
            Wanted::Declaration => f.write_str("a declaration such as `A: bf16[M, K]`"),
            Wanted::Statement => f.write_str("a statement such as `D = A @ B`"),
            Wanted::OperatorOrEnd => f.write_str("an operator or the end of the statement"),
            Wanted::End => f.write_str("the end"),
            Wanted::CommaOr(closer) => write!(f, "`,` or `{closer}`"),
            Wanted::Symbol(symbol) => write!(f, "`{symbol}`"),
        }
    }
}

/// A number with its thousands apart.
fn grouped(number: usize) -> String {
    match (number / 1000, number % 1000) {
        (0, ones) => ones.to_string(),
        (thousands, ones) => format!("{},{ones:03}", grouped(thousands)),
    }
}
