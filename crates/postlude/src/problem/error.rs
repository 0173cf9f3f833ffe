//! Why a call does not fit a kernel, in the user's words.

use crate::dtype::DType;

/// Why a call does not fit a kernel.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say what each is.
pub enum BindError {
    #[error("input `{name}` is missing")]
    Missing { name: String },
    #[error("the kernel has no input `{name}`")]
    Unknown { name: String },
    #[error("`{name}` is `{of}` under other dims, and is not passed itself")]
    SameAs { name: String, of: String },
    #[error("`{name}` is a scalar passed by the host; a tensor was given")]
    WantsScalar { name: String },
    #[error("`{name}` is a tensor; a number was given")]
    WantsTensor { name: String },
    #[error("`{name}` is declared {declared}, but {given} was given")]
    DType { name: String, declared: DType, given: DType },
    #[error(
        "`{name}` is i32 and computed with, but int64 was given: int64 binds where integers are indices, ends or counts, or are only compared"
    )]
    Int64 { name: String },
    #[error("`{name}` is declared with {declared} dims, but has {given}")]
    Rank { name: String, declared: usize, given: usize },
    #[error("`{name}` has size {given} along `{dim}`, which is {known}")]
    Size { name: String, dim: String, given: usize, known: String },
    #[error("{} not known", sizes_of(.dims))]
    Unsized { dims: Vec<String> },
    #[error("`{dim}` is {size}, which is not {}", multiple(*.by))]
    Multiple { dim: String, size: usize, by: u32, bytes: Option<(u32, u32)> },
    #[error("`{dim}` is {whole}, but its parts `{parts}` are {total} together")]
    SplitSize { dim: String, whole: usize, parts: String, total: usize },
    #[error("the kernel has no dim `{dim}`")]
    UnknownDim { dim: String },
    #[error("the sizes of this problem are too large")]
    TooLarge,
    #[error(
        "`{function}` of {count} elements: an index is an i32, so at most {} are folded together",
        i32::MAX
    )]
    IndexRange { function: &'static str, count: usize, bytes: Option<(u32, u32)> },
    #[error("`topk` asks for {wanted} of {count} elements")]
    TooFew { wanted: u32, count: usize, bytes: Option<(u32, u32)> },
    #[error("`{function}` of no elements: there is none to give the index of")]
    NoIndex { function: &'static str, bytes: Option<(u32, u32)> },
    #[error("the kernel takes {wanted} inputs, and {given} were given")]
    InputCount { wanted: usize, given: usize },
    #[error("the kernel writes {wanted} outputs, and {given} were given")]
    OutputCount { wanted: usize, given: usize },
    #[error("elements of output `{name}` share memory (strides {strides:?})")]
    SelfOverlap { name: String, strides: Vec<isize> },
    #[error("output `{name}` does not lie as it did when the call was prepared")]
    Moved { name: String },
    #[error(
        "element {place} of `{name}` is {end}: a segment ends behind the one before, which is {before}, and within {rows} rows"
    )]
    SegmentEnd { name: String, place: usize, end: i64, before: i64, rows: i64 },
    #[error("the problem was bound for another kernel")]
    OtherProblem,
}

impl BindError {
    /// The bytes of the statement that it is about, where it is about one.
    pub(crate) fn bytes(&self) -> Option<(u32, u32)> {
        match self {
            BindError::Multiple { bytes, .. }
            | BindError::IndexRange { bytes, .. }
            | BindError::NoIndex { bytes, .. }
            | BindError::TooFew { bytes, .. } => *bytes,
            BindError::Missing { .. }
            | BindError::SameAs { .. }
            | BindError::SplitSize { .. }
            | BindError::Unknown { .. }
            | BindError::WantsScalar { .. }
            | BindError::WantsTensor { .. }
            | BindError::DType { .. }
            | BindError::Int64 { .. }
            | BindError::Rank { .. }
            | BindError::Size { .. }
            | BindError::Unsized { .. }
            | BindError::UnknownDim { .. }
            | BindError::TooLarge
            | BindError::InputCount { .. }
            | BindError::OutputCount { .. }
            | BindError::SelfOverlap { .. }
            | BindError::Moved { .. }
            | BindError::SegmentEnd { .. }
            | BindError::OtherProblem => None,
        }
    }

    /// What to do about it, where that is known.
    pub fn fix(&self) -> Option<String> {
        match self {
            BindError::Unsized { dims } => {
                let given: Vec<String> = dims.iter().map(|dim| format!("{dim}=...")).collect();
                let (it, input) = if dims.len() == 1 {
                    ("it", "an input that has it")
                } else {
                    ("them", "inputs that have them")
                };
                Some(format!("give {it}: `--size {}`, or bind {input}", given.join(",")))
            }
            BindError::Multiple { dim, by, .. } => Some(format!("make `{dim}` {}", multiple(*by))),
            BindError::Int64 { .. } => Some(
                "convert the data to int32 (`.to(torch.int32)`, `.astype(numpy.int32)`)".to_owned(),
            ),
            BindError::DType { declared, given: DType::I64, .. } => {
                Some(format!("convert the data to {declared}"))
            }
            BindError::DType { declared, .. } => {
                Some(format!("convert the data to {declared}, or declare what it is"))
            }
            BindError::IndexRange { .. } => Some(
                "fold fewer dims at a time: `argmax(z, N)` gives an index of each row".to_owned(),
            ),
            BindError::TooFew { count, .. } => {
                Some(format!("ask for at most {count}, or give the columns a larger size"))
            }
            BindError::NoIndex { .. } => Some("give every dim that is folded a size".to_owned()),
            BindError::SameAs { of, .. } => Some(format!("pass `{of}` only")),
            BindError::OtherProblem => {
                Some("bind the arguments with the kernel that runs them".to_owned())
            }
            BindError::SelfOverlap { .. } => {
                Some("give the output memory of its own for every element".to_owned())
            }
            BindError::SegmentEnd { name, .. } => {
                Some(format!("let `{name}` rise: the cumulated numbers of the segments' rows"))
            }
            BindError::Missing { .. }
            | BindError::Unknown { .. }
            | BindError::WantsScalar { .. }
            | BindError::WantsTensor { .. }
            | BindError::Rank { .. }
            | BindError::Size { .. }
            | BindError::UnknownDim { .. }
            | BindError::SplitSize { .. }
            | BindError::TooLarge
            | BindError::InputCount { .. }
            | BindError::Moved { .. }
            | BindError::OutputCount { .. } => None,
        }
    }
}

/// What a size has to be.
fn multiple(by: u32) -> String {
    if by == 2 { "even".to_owned() } else { format!("a multiple of {by}") }
}

/// The sizes of dims, as the subject of a sentence.
fn sizes_of(dims: &[String]) -> String {
    let quoted: Vec<String> = dims.iter().map(|dim| format!("`{dim}`")).collect();
    match quoted.as_slice() {
        [] => "sizes are".to_owned(),
        [one] => format!("size of {one} is"),
        [first @ .., last] => format!("sizes of {} and {last} are", first.join(", ")),
    }
}
