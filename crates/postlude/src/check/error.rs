//! What can be wrong with a kernel's types, in the user's words.

use crate::dtype::{DType, Elem};
use crate::syntax::Span;

use super::definitions::UseOfDefinition;

/// A mistake in a kernel.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say what each is; `at` is the place.
pub enum CheckError {
    #[error("this is a body without a signature")]
    NoSignature,
    #[error("`{name}` is declared twice")]
    DeclaredTwice { name: String, at: Span },
    #[error("a scalar passed by the host is f32 or i32, not {dtype}")]
    HostScalar { dtype: DType, at: Span },
    #[error("an output lies in memory and needs dims")]
    HostOutput { dtype: DType, at: Span },
    #[error("the kernel has no output")]
    NoOutputs { at: Span },
    #[error("{dtype} is packed along its last dim, and this has none")]
    PackedWithoutDims { dtype: DType, at: Span },
    #[error("`{name}` is declared {dtype}: kernels read halves of bytes, and store whole bytes")]
    OutputNotStored { name: String, dtype: DType, at: Span },
    #[error(
        "no `@`, and no tensor with dims: a kernel multiplies matrices, or computes one from others"
    )]
    NoProduct { at: Span },
    #[error("more than 64 products")]
    ManyProducts { at: Span },
    #[error(
        "a value of another product has dims [{dims}], and values here have dims among [{known}]"
    )]
    OtherProduct { dims: String, known: String, at: Span },
    #[error("an operand of `@` reads a tensor with two dims, and this reads none")]
    OperandWithoutDims { at: Span },
    #[error(
        "this operand of `@` is computed in f32, and its text does not say what it is rounded to"
    )]
    OperandUnrounded { at: Span },
    #[error("`{name}` is `{of}`, and no input before it is called so")]
    SameAsUnknown { name: String, of: String, at: Span },
    #[error("`{name}` is `{of}`, which is another input itself")]
    SameAsSame { name: String, of: String, instead: String, at: Span },
    #[error("`{name}` is `{of}`, but one is declared {own} and the other {other}")]
    SameAsDiffers { name: String, of: String, own: String, other: String, at: Span },
    #[error("output `{name}` cannot be another tensor")]
    SameAsOutput { name: String, at: Span },
    #[error(
        "`{name}` has {rank} dims; an operand of `@` has two, and up to three batch dims before them"
    )]
    OperandRank { name: String, rank: usize, at: Span },
    #[error("{dtype} cannot be an operand of `@`")]
    OperandDType { dtype: DType, at: Span },
    #[error("operands of `@` differ: `{left_name}` is {left} and `{right_name}` is {right}")]
    OperandsDiffer { left_name: String, left: DType, right_name: String, right: DType, at: Span },
    #[error("`{name}` is {dtype}, which meets i8, u8, i4 and u4 in `@`, not {other}")]
    PackedOperand { name: String, dtype: DType, other: DType, at: Span },
    #[error("dims disagree: `@` sums over `{left}` on its left and `{right}` on its right")]
    InnerDisagree { left: String, right: String, fix: Option<String>, at: Span },
    #[error("dims disagree: the batch is `{left}` on the left of `@` and `{right}` on its right")]
    BatchDisagree { left: String, right: String, at: Span },
    #[error(
        "the rows `{row}`, columns `{column}` and contraction `{inner}` of `@` need three different names"
    )]
    SameDims { row: String, column: String, inner: String, twice: Option<String>, at: Span },
    #[error(
        "`segments(x, ends)` is an operand of `@`, or a value among rows that the same ends cut"
    )]
    SegmentsPlace { at: Span },
    #[error("`{function}` reads rows of a tensor with two dims, the second of which is `{column}`")]
    GatherTable { function: &'static str, column: String, at: Span },
    #[error(
        "rows are gathered by an i32 that has one value a row; this is {elem} and has dims [{has}]"
    )]
    GatherIndex { elem: Elem, has: String, at: Span },
    #[error(
        "`combine` reads two inputs with dims [{row}, k], k an integer from 1 to 64: positions of i32, and weights of floats"
    )]
    CombineLists { row: String, at: Span },
    #[error(
        "`scatter` sums elements [{x}] or rows of them by numbers of i32 with the same dims, or one a row; these have dims [{index}], and the sums [{sums}] a name of their own"
    )]
    Scatter { x: String, index: String, sums: String, at: Span },
    #[error("the counts of rows are an input `i32[E]`, one for each batch of `{x}: [E, C, K]`")]
    MaskedCounts { x: String, at: Span },
    #[error("the ends of segments are an input `i32[E]`")]
    SegmentsEnds { at: Span },
    #[error("segments are rows of a matrix, and `{segments}` numbers the matrices that they meet")]
    SegmentsDims { segments: String, at: Span },
    #[error("`{function}` does not fold rows of several segments")]
    SegmentsFold { function: String, at: Span },
    #[error("a row is in one segment, so there is nothing to fold along `{segments}` alone")]
    SegmentsAlone { segments: String, at: Span },
    #[error("runs of rows do not end where segments do")]
    SegmentsRuns { at: Span },
    #[error("rows behind the last of `{ends}` are not written, and this reads all rows")]
    SegmentsUnwritten { ends: String, at: Span },
    #[error("the batch dims [{dims}] of `@` need names of their own")]
    SameBatchDims { dims: String, at: Span },
    #[error("`{name}` varies along `{dim}`, but values of this body have dims among [{known}]")]
    NotBodyDims { name: String, dim: String, known: String, is_vector: bool, at: Span },
    #[error("`{name}` varies along `{dim}` twice")]
    SameDimTwice { name: String, dim: String, at: Span },
    #[error("`{name}` varies along `{dim}`, which `@` sums over")]
    SummedDim { name: String, dim: String, known: String, is_vector: bool, at: Span },
    #[error("unknown name `{name}`")]
    UnknownName { name: String, nearest: Option<String>, at: Span },
    #[error("`{name}` is used before it is assigned")]
    UsedBeforeAssigned { name: String, at: Span },
    #[error("`{name}` is a function and needs arguments")]
    FunctionAsValue { name: String, at: Span },
    #[error("`{name}` is a dim and not a value")]
    DimAsValue { name: String, divides: Option<String>, at: Span },
    #[error("unknown function `{name}`")]
    UnknownFunction { name: String, nearest: Option<String>, at: Span },
    #[error("`{name}` is assigned twice")]
    AssignedTwice { name: String, at: Span },
    #[error("`{name}` is an input and cannot be assigned")]
    AssignsInput { name: String, at: Span },
    #[error("output `{name}` is never assigned")]
    NeverAssigned { name: String, at: Span },
    #[error("dims disagree: [{left}] does not meet [{right}]")]
    DimsDisagree { left: String, right: String, at: Span },
    #[error("a part of a split has dims [{part}] and does not meet the whole, [{whole}]")]
    PartMeetsWhole { part: String, whole: String, at: Span },
    #[error("`{name}` is declared with dims [{declared}], not [{written}]")]
    Annotation { name: String, declared: String, written: String, at: Span },
    #[error("`.T` swaps the last two dims, and this has fewer")]
    Transpose { at: Span },
    #[error("a value of type {found} is not a condition")]
    NotACondition { found: Elem, at: Span },
    #[error("bool takes no part in arithmetic")]
    BoolArithmetic { at: Span },
    #[error("bool meets {other} in a comparison")]
    BoolComparison { other: Elem, at: Span },
    #[error("`{operator}` works on the bits of i32, and this is {found}")]
    NotInteger { operator: &'static str, found: Elem, at: Span },
    #[error("`{operator}` binds less tightly than the comparison beside it")]
    BitsMeetComparison { operator: &'static str, at: Span },
    #[error("there is no power operator: `^` works on the bits of i32")]
    FloatPower { call: String, at: Span },
    #[error("the {what} of `{function}` is i32, and this is {found}")]
    Seed { what: &'static str, function: String, found: Elem, at: Span },
    #[error("casts to f16, bf16, f8e4m3 and f8e5m2 round by random bits, casts to {dtype} do not")]
    RandomCast { dtype: DType, at: Span },
    #[error("`{function}` numbers all columns or halves of them, and `{dim}` is another part")]
    RandomColumns { function: String, dim: String, at: Span },
    #[error("`take` reads an input of numbers with one dim")]
    TakeTable { at: Span },
    #[error("the index of `take` is i32, and this is {elem}")]
    TakeIndex { elem: Elem, at: Span },
    #[error("no input has a dim `{dim}`")]
    UnknownSize { dim: String, nearest: Option<String>, at: Span },
    #[error("`index` is a place along one of [{known}], not along `{dim}`")]
    IndexDim { dim: String, known: String, at: Span },
    #[error("{error}")]
    Within { error: Box<CheckError>, call: UseOfDefinition },
    #[error("unknown name `{name}`: a definition sees its parameters")]
    UnknownParameter { name: String, nearest: Option<String>, at: Span },
    #[error("`{name}` is defined later: a definition sees those before it")]
    DefinedLater { name: String, at: Span },
    #[error("definitions make more than {limit} operations of this kernel")]
    ManyNodes { limit: usize, at: Span },
    #[error("i32 / i32 is not defined here")]
    IntegerDivision { at: Span },
    #[error("{text} does not fit {elem}")]
    LiteralRange { text: String, elem: Elem, at: Span },
    #[error("`{function}` takes {takes} {}, and {given} {} given", if takes == "1" { "argument" } else { "arguments" }, if *given == 1 { "is" } else { "are" })]
    ArgumentCount { function: String, takes: String, given: usize, fix: String, at: Span },
    #[error("`grad` does not know a derivative of `{function}`")]
    NoDerivative { function: String, at: Span },
    #[error("a dim is expected here, like `M` or `N/2`")]
    DimExpected { at: Span },
    #[error("dims have names, and `{number}` is none")]
    NumberedDim { number: String, call: String, at: Span },
    #[error("a value with dims [{has}] has no dim `{dim}`")]
    NoSuchDim { dim: String, has: String, at: Span },
    #[error(
        "`argmax`, `argmin`, `var`, norms and runs fold all batch dims or none: [{dims}], not {folded} alone"
    )]
    SomeBatchDims { folded: String, dims: String, at: Span },
    #[error(
        "this varies along some of the batch dims [{dims}] only, and is not reduced along them"
    )]
    ReducesShared { dims: String, at: Span },
    #[error("dim `{dim}` is reduced twice")]
    DimTwice { dim: String, at: Span },
    #[error("`{function}` reduces one value along dims and does not compare two")]
    ReducesOne { function: String, elementwise: String, reduced: Option<String>, at: Span },
    #[error("a scalar has nothing to reduce")]
    NothingToReduce { at: Span },
    #[error("the length of runs stands after the dim of rows or columns, `{row}` or `{column}`")]
    GroupPlace { row: String, column: String, at: Span },
    #[error("a run is 1 to 1048576 rows or columns long")]
    GroupWidth { at: Span },
    #[error("`{function}` keeps 1 to {most} values, written as an integer")]
    Count { function: String, most: i64, at: Span },
    #[error("`topk` runs along the columns of its value, all of them")]
    TopAlong { column: String, at: Span },
    #[error(
        "a value with dims [{dims}] is a tile for each element of a list, and is not stored so"
    )]
    StackOfTiles { dims: String, declared: Option<[String; 3]>, at: Span },
    #[error("`{function}` does not run along the last dim of [{stack}]")]
    StackFunction { function: String, stack: String, at: Span },
    #[error("results of `topk` have a dim of their own, which this does not take")]
    StackAsValue { at: Span },
    #[error("`{function}` gives two values")]
    TwoValues { function: String, at: Span },
    #[error("{given} names are assigned, and the right side gives {}", counted(*.gives))]
    TargetCount { given: usize, gives: usize, at: Span },
    #[error("`split` gives several values")]
    SeveralValues { at: Span },
    #[error("`{function}` takes a value and {takes}")]
    SplitArguments { function: String, takes: &'static str, at: Span },
    #[error("a split has 2 to 16 parts, not {given}")]
    SplitCount { given: i64, at: Span },
    #[error("`{dim}` is no dim that columns can be split into")]
    SplitDim { dim: String, at: Span },
    #[error("a run of {run} columns does not split into {count} equal parts")]
    RunParts { run: u32, count: u16, at: Span },
    #[error("a list of dims stands in `split(x, [Q, KV, KV])` only")]
    DimList { at: Span },
    #[error(
        "`concat` puts together equal parts, or the parts of one split in their order; these are {dims}"
    )]
    ConcatDims { dims: String, at: Span },
    #[error(
        "`{function}` works along `{column}`, and a value with dims [{has}] has no dim `{column}`"
    )]
    NoColumns { function: String, column: String, has: String, at: Span },
    #[error(
        "`{function}` joins two halves of the same width with dims like `N/2`; these are [{left}] and [{right}]"
    )]
    MergeDims { function: String, left: String, right: String, at: Span },
    #[error("the index of `pick` is i32 without columns; this is {elem}[{has}]")]
    PickIndex { elem: Elem, has: String, at: Span },
    #[error("dims disagree: `{name}` is declared [{declared}], but its value has dims [{value}]")]
    OutputDims { name: String, declared: String, value: String, at: Span },
    #[error("`{name}` is declared {dtype}, but its value is bool")]
    OutputOfCondition { name: String, dtype: DType, at: Span },
    #[error("`{name}` is declared {dtype}, but its value of type {value} is not a condition")]
    OutputNotACondition { name: String, dtype: DType, value: Elem, at: Span },
    #[error("unknown name `{name}`: it is neither set, bound nor annotated")]
    Uninferred { name: String, nearest: Option<String>, at: Span },
    #[error("`{name}` was bound to {rank} dims, which do not say what it varies along")]
    BoundRank { name: String, rank: usize, at: Span },
    #[error("nothing is an output: every name is read, and none starts with a capital")]
    NoOutput,
}

impl CheckError {
    /// A call with a wrong number of arguments; how it is called, and which call was probably meant.
    pub(super) fn argument_count(
        function: &str,
        takes: &str,
        given: usize,
        (call, meant): (String, Option<String>),
        at: Span,
    ) -> CheckError {
        let (function, takes) = (function.to_owned(), takes.to_owned());
        let fix = match meant {
            Some(meant) => format!("it is `{call}`, as in `{meant}`"),
            None => format!("it is `{call}`"),
        };
        CheckError::ArgumentCount { function, takes, given, fix, at }
    }

    /// Where the mistake is.
    #[rustfmt::skip] // One list.
    pub fn span(&self) -> Option<Span> {
        use CheckError as E;
        match self {
            E::NoSignature | E::NoOutput => None,
            E::Within { error, .. } => error.span(),
            E::SameAsUnknown { at, .. } | E::SameAsSame { at, .. } | E::SameAsDiffers { at, .. } | E::SameAsOutput { at, .. } | E::SameBatchDims { at, .. } | E::SomeBatchDims { at, .. } | E::ReducesShared { at, .. }
            | E::DeclaredTwice { at, .. } | E::HostScalar { at, .. } | E::HostOutput { at, .. } | E::PackedWithoutDims { at, .. } | E::OutputNotStored { at, .. } | E::NoProduct { at } | E::ManyProducts { at } | E::OtherProduct { at, .. } | E::NoOutputs { at } | E::PartMeetsWhole { at, .. }
            | E::OperandWithoutDims { at } | E::OperandUnrounded { at } | E::OperandRank { at, .. } | E::OperandDType { at, .. } | E::OperandsDiffer { at, .. } | E::PackedOperand { at, .. }
            | E::InnerDisagree { at, .. } | E::BatchDisagree { at, .. } | E::SameDims { at, .. } | E::NotBodyDims { at, .. } | E::SameDimTwice { at, .. } | E::SummedDim { at, .. }
            | E::UnknownName { at, .. } | E::UsedBeforeAssigned { at, .. } | E::FunctionAsValue { at, .. } | E::DimAsValue { at, .. }
            | E::UnknownFunction { at, .. } | E::AssignedTwice { at, .. } | E::AssignsInput { at, .. } | E::NeverAssigned { at, .. }
            | E::DimsDisagree { at, .. } | E::Annotation { at, .. } | E::Transpose { at } | E::NotACondition { at, .. }
            | E::BoolArithmetic { at } | E::BoolComparison { at, .. } | E::IntegerDivision { at } | E::NotInteger { at, .. } | E::FloatPower { at, .. } | E::BitsMeetComparison { at, .. } | E::Seed { at, .. } | E::RandomCast { at, .. } | E::RandomColumns { at, .. }
            | E::TakeTable { at } | E::TakeIndex { at, .. } | E::UnknownSize { at, .. } | E::UnknownParameter { at, .. } | E::DefinedLater { at, .. } | E::ManyNodes { at, .. } | E::IndexDim { at, .. } | E::LiteralRange { at, .. }
            | E::ArgumentCount { at, .. } | E::NoDerivative { at, .. } | E::DimExpected { at } | E::NumberedDim { at, .. } | E::NoSuchDim { at, .. }
            | E::DimTwice { at, .. } | E::ReducesOne { at, .. } | E::NothingToReduce { at } | E::GroupPlace { at, .. } | E::GroupWidth { at } | E::Count { at, .. }
            | E::TopAlong { at, .. } | E::StackOfTiles { at, .. } | E::StackFunction { at, .. } | E::StackAsValue { at }
            | E::SeveralValues { at } | E::SplitArguments { at, .. } | E::SplitCount { at, .. } | E::SplitDim { at, .. } | E::RunParts { at, .. } | E::DimList { at } | E::ConcatDims { at, .. }
            | E::TwoValues { at, .. } | E::TargetCount { at, .. } | E::NoColumns { at, .. }
            | E::MergeDims { at, .. } | E::PickIndex { at, .. } | E::OutputDims { at, .. } | E::OutputOfCondition { at, .. } | E::OutputNotACondition { at, .. }
            | E::GatherTable { at, .. } | E::GatherIndex { at, .. } | E::CombineLists { at, .. } | E::Scatter { at, .. } | E::MaskedCounts { at, .. }
            | E::SegmentsPlace { at } | E::SegmentsEnds { at } | E::SegmentsDims { at, .. } | E::SegmentsFold { at, .. } | E::SegmentsAlone { at, .. } | E::SegmentsRuns { at } | E::SegmentsUnwritten { at, .. }
            | E::Uninferred { at, .. } | E::BoundRank { at, .. } => Some(*at),
        }
    }

    /// A second place that explains the first, and how: where a definition is used.
    pub fn related(&self) -> Option<(Span, String)> {
        match self {
            CheckError::Within { call, .. } => {
                Some((call.at, format!("`{}` is used here", call.name)))
            }
            _ => None,
        }
    }

    /// The same mistake, in a definition that is used there.
    pub(super) fn within(self, call: UseOfDefinition) -> CheckError {
        CheckError::Within { error: Box::new(self), call }
    }
}

/// How many values, in words where they are few.
fn counted(values: usize) -> String {
    match values {
        1 => "one".to_owned(),
        2 => "two".to_owned(),
        _ => values.to_string(),
    }
}

/// What is suspicious in a kernel that types.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub(crate) enum Warning {
    #[error("input `{name}` is never read")]
    UnusedInput { name: String, at: Span },
    #[error("`{name}` is assigned, and nothing reads it")]
    Unread { name: String, at: Span },
}

impl Warning {
    /// Where it is.
    pub(crate) fn span(&self) -> Span {
        match self {
            Warning::UnusedInput { at, .. } | Warning::Unread { at, .. } => *at,
        }
    }

    /// What to do about it.
    pub(crate) fn fix(&self) -> String {
        match self {
            Warning::UnusedInput { name, .. } => {
                format!("use `{name}`, or remove it from the inputs")
            }
            Warning::Unread { name, .. } => {
                format!("declare `{name}` as an output, or remove the statement")
            }
        }
    }
}
