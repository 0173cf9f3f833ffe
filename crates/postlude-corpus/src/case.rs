//! A case: a kernel, what it is given, and what must hold.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use postlude::{DType, MathMode, Sizes};

use crate::fill::{Fill, seed_for};

/// A case of the corpus.
#[derive(Clone, PartialEq, Debug)]
pub struct Case {
    /// Its heading.
    pub title: String,
    /// The file it is in, without the folder.
    pub file: String,
    /// The line of its heading.
    pub line: usize,
    /// The kernel or one-liner.
    pub source: String,
    /// The kernel of the library that `source` is, if it is one.
    pub library: Option<String>,
    /// The size of every named dim.
    pub sizes: Sizes,
    /// How inputs are drawn; normal where nothing is said.
    pub fills: BTreeMap<String, Fill>,
    /// Inputs whose values are given.
    pub data: BTreeMap<String, Vec<f64>>,
    /// Scalars that the host passes.
    pub set: BTreeMap<String, f64>,
    /// How inputs lie in memory; packed where nothing is said.
    pub layouts: BTreeMap<String, Layout>,
    /// The dtype of a one-liner's tiles.
    pub dtype: DType,
    /// The seed of the draw, where one is given.
    pub seed: Option<u64>,
    /// What is asked of functions.
    pub math: MathMode,
    /// Bytes of values between launches, beyond which launches are repeated for chunks.
    pub workspace: Option<u64>,
    /// What must hold; at least one.
    pub expectations: Vec<Expectation>,
}

/// What must hold of a case.
#[derive(Clone, PartialEq, Debug)]
pub enum Expectation {
    /// Every element is within the reference's bound.
    WithinBound,
    /// Every bit equals the reference's, whose bound is zero.
    Exact,
    /// An output is what is written.
    Values {
        /// The output.
        output: String,
        /// Its elements, row-major.
        values: Vec<f64>,
    },
    /// Compiling or binding the sizes fails.
    Error {
        /// What the message contains.
        message: String,
        /// What is underlined.
        place: Option<String>,
        /// What the suggested fix contains.
        fix: Option<String>,
    },
}

/// How an input lies in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Layout {
    /// A gap after each row; after each element of a vector.
    Padded,
    /// The last two dims in the other order.
    Transposed,
    /// Every stride negative.
    Reversed,
    /// The first element is some way into the memory.
    Offset,
}

/// A name that is no layout.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no kind of strides; there are padded, transposed, reversed, offset")]
pub struct UnknownLayout(String);

impl Case {
    /// Where the case is written.
    pub fn place(&self) -> String {
        format!("corpus/{}:{}", self.file, self.line)
    }

    /// A name that no other case has: its theme and its title.
    pub fn name(&self) -> String {
        format!("{}::{}", self.file.trim_end_matches(".md"), self.title)
    }

    /// The seed of an input's stream.
    pub fn seed_of(&self, input: &str) -> u64 {
        seed_for(self.seed.unwrap_or_else(|| seed_for(0, &self.title)), input)
    }

    /// Whether compiling or binding has to fail.
    pub fn expects_error(&self) -> bool {
        self.expectations.iter().any(|expected| matches!(expected, Expectation::Error { .. }))
    }
}

impl Layout {
    /// Every layout, in the order of the documentation.
    pub const ALL: [Layout; 4] =
        [Layout::Padded, Layout::Transposed, Layout::Reversed, Layout::Offset];

    /// The name in cases.
    pub const fn name(self) -> &'static str {
        match self {
            Layout::Padded => "padded",
            Layout::Transposed => "transposed",
            Layout::Reversed => "reversed",
            Layout::Offset => "offset",
        }
    }
}

impl FromStr for Layout {
    type Err = UnknownLayout;

    fn from_str(name: &str) -> Result<Layout, UnknownLayout> {
        let found = Layout::ALL.into_iter().find(|layout| layout.name() == name);
        found.ok_or_else(|| UnknownLayout(name.to_owned()))
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expectation::WithinBound => f.write_str("within bound"),
            Expectation::Exact => f.write_str("exact"),
            Expectation::Values { output, values } => write!(f, "values {output} = {values:?}"),
            Expectation::Error { message, place, fix } => {
                write!(f, "error {message:?}")?;
                if let Some(place) = place {
                    write!(f, " at {place:?}")?;
                }
                fix.as_ref().map_or(Ok(()), |fix| write!(f, " fix {fix:?}"))
            }
        }
    }
}
