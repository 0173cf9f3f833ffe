//! What can go wrong with a measurement.

use postlude::runtime::RuntimeError;

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum YardstickError {
    /// The run time refused or failed.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A kernel of the suite does not compile.
    #[error("row `{row}`: {error}")]
    Kernel {
        /// The row.
        row: String,
        /// What is wrong.
        error: postlude::Error,
    },
    /// A kernel that everything builds on cannot be run, or failed after it was prepared.
    #[error(transparent)]
    Call(postlude::Error),
    /// Too few rounds were good, so that the fastest algorithm is not known.
    #[error("the host was too slow to tune cuBLASLt at {m}, {n}, {k}: {kept} good rounds")]
    Untuned {
        /// Rows.
        m: usize,
        /// Columns.
        n: usize,
        /// The contraction.
        k: usize,
        /// Rounds that were kept.
        kept: usize,
    },
    /// No round was good.
    #[error("the host was too slow for every one of {dropped} rounds")]
    NoRound {
        /// Rounds that were thrown away.
        dropped: usize,
    },
    /// A schedule cannot be run.
    #[error("schedule `{knobs}`: {error}")]
    Schedule {
        /// Its knobs.
        knobs: String,
        /// What is wrong.
        error: Box<YardstickError>,
    },
    /// No library was found.
    #[error("cuBLASLt was not found: tried {}", tried.join(", "))]
    NoLibrary {
        /// Names and files.
        tried: Vec<String>,
    },
    /// A library without a function that we call.
    #[error("`{library}` has no function `{symbol}`")]
    NoSymbol {
        /// The library.
        library: String,
        /// The function.
        symbol: &'static str,
    },
    /// A call of the library failed.
    #[error("{call} failed: {status}")]
    Library {
        /// Which.
        call: &'static str,
        /// What it said.
        status: Status,
    },
    /// The library knows no way to do a product.
    #[error("cuBLASLt knows no algorithm for {m} x {n} x {k}")]
    NoAlgorithm {
        /// Rows.
        m: usize,
        /// Columns.
        n: usize,
        /// The contraction.
        k: usize,
    },
    /// A peer failed.
    #[error("peer {number}: {message}")]
    Peer {
        /// Its place among the peers of the row.
        number: usize,
        /// What it said.
        message: String,
    },
    /// Peers could not be prepared.
    #[error("peers cannot be prepared: {message}")]
    NoPeers {
        /// What is wrong.
        message: String,
    },
    /// A temporary folder cannot be made.
    #[error("no temporary folder: {0}")]
    Folder(std::io::Error),
}

impl YardstickError {
    /// What to do about it, where that is known.
    pub fn fix(&self) -> Option<String> {
        match self {
            YardstickError::Untuned { .. } | YardstickError::NoRound { .. } => {
                Some("run it again on a machine whose processor is less busy".to_owned())
            }
            YardstickError::Schedule { error, .. } => error.fix(),
            YardstickError::Runtime(error) => error.fix(),
            YardstickError::Kernel { error, .. } | YardstickError::Call(error) => {
                error.diagnostics().first()?.fix()
            }
            YardstickError::NoLibrary { .. } | YardstickError::NoSymbol { .. } => Some(
                "install it (`pip install nvidia-cublas`), or name its file in POSTLUDE_CUBLASLT"
                    .to_owned(),
            ),
            YardstickError::Library { .. }
            | YardstickError::NoAlgorithm { .. }
            | YardstickError::Peer { .. }
            | YardstickError::NoPeers { .. }
            | YardstickError::Folder(_) => None,
        }
    }
}

/// What a call of cuBLASLt returned (`cublasStatus_t`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status(pub i32);

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words = match self.0 {
            0 => "success",
            1 => "not initialised",
            3 => "allocation failed",
            7 => "invalid value",
            8 => "architecture mismatch",
            11 => "mapping error",
            13 => "execution failed",
            14 => "internal error",
            15 => "not supported",
            16 => "licence error",
            _ => "unknown status",
        };
        write!(f, "{words} ({})", self.0)
    }
}
