//! What a caller sees when something is wrong: diagnostics with a place and a fix.

#[cfg(feature = "sim")]
mod simulation;

use std::fmt;

use crate::check::{CheckError, Warning};
use crate::differentiate::GradError;
use crate::plan::Refusal;
use crate::problem::BindError;
#[cfg(feature = "cuda")]
use crate::runtime::RuntimeError;
use crate::syntax::{Place, Span, SyntaxError};
use crate::target::TargetRefusal;
use crate::tensor::TensorError;

#[cfg(feature = "sim")]
pub use simulation::SimulationError;

/// What went wrong: one or more [`Diagnostic`]s. Printed, each has its place in the source and what to do about it.
///
/// ```
/// let error = postlude::Kernel::parse("kernel k(A: f32[M, K], B: f32[K, N]) -> D: f32[M, N] {\n    D = relu(A @ C)\n}");
/// let error = error.unwrap_err();
/// let text = error.to_string();
/// assert!(text.starts_with("2:18: "), "{text}");
/// assert!(text.contains("\n  help: "), "{text}");
/// // What `fn main() -> Result<(), postlude::Error>` prints is the same text.
/// assert_eq!(format!("{error:?}"), text);
/// ```
pub struct Error {
    diagnostics: Vec<Diagnostic>,
    /// The text that the diagnostics' spans are of, where that is known.
    source: Option<Box<[u8]>>,
}

/// One mistake, in the user's words.
#[derive(Debug)]
pub struct Diagnostic(Kind);

#[derive(Debug, thiserror::Error)]
enum Kind {
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    #[error(transparent)]
    Check(#[from] CheckError),
    #[error(transparent)]
    Warning(#[from] Warning),
    #[error(transparent)]
    Grad(#[from] GradError),
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error(transparent)]
    Tensor(#[from] TensorError),
    #[error(transparent)]
    Plan(#[from] Refusal),
    #[error(transparent)]
    Target(#[from] TargetRefusal),
    #[error(transparent)]
    NoGpus(#[from] NoGpus),
    #[error(transparent)]
    NoSimulator(#[from] NoSimulator),
    #[cfg(feature = "sim")]
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

impl Error {
    /// The mistakes, at most five.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// The messages alone, on one line.
    pub fn summary(&self) -> String {
        let messages: Vec<String> = self.diagnostics.iter().map(Diagnostic::message).collect();
        messages.join("; ")
    }

    /// The same error, with the text that it is about.
    pub(crate) fn of_source(self, source: impl AsRef<[u8]>) -> Error {
        Error { source: Some(source.as_ref().into()), ..self }
    }

    /// Whether the problem is a good one that this backend does not run.
    pub fn is_refusal(&self) -> bool {
        self.diagnostics.iter().all(Diagnostic::is_refusal)
    }

    /// The first refusal where one launch was refused and several were too; what else went wrong is told as it is.
    pub(crate) fn or(self, refusal: Error) -> Error {
        if self.is_refusal() { refusal } else { self }
    }

    /// Whether it is a bug of ours: something that is wrong with code that we emitted.
    pub fn is_bug(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_bug)
    }

    /// Everything that the simulator found, where it found something.
    #[cfg(feature = "sim")]
    pub fn findings(&self) -> impl Iterator<Item = &postlude_sim::Finding> {
        self.diagnostics.iter().flat_map(|diagnostic| match &diagnostic.0 {
            Kind::Simulation(error) => error.findings(),
            _ => &[],
        })
    }
}

/// A build without the feature `cuda` was asked for a GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("this build of Postlude runs nothing on GPUs")]
pub struct NoGpus;

/// A build without the feature `sim` was asked for the simulator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("this build of Postlude has no simulator")]
pub struct NoSimulator;

impl Diagnostic {
    /// What is wrong.
    pub fn message(&self) -> String {
        self.0.to_string()
    }

    /// Whether the problem is a good one that this backend does not run.
    pub fn is_refusal(&self) -> bool {
        match &self.0 {
            Kind::Plan(_) | Kind::Target(_) => true,
            Kind::Syntax(_) | Kind::Check(_) | Kind::Warning(_) | Kind::Grad(_) => false,
            Kind::Bind(_) | Kind::Tensor(_) => false,
            Kind::NoGpus(_) | Kind::NoSimulator(_) => false,
            #[cfg(feature = "sim")]
            Kind::Simulation(_) => false,
            #[cfg(feature = "cuda")]
            Kind::Runtime(_) => false,
        }
    }

    /// Whether it is a bug of ours: something that is wrong with code that we emitted.
    pub fn is_bug(&self) -> bool {
        match &self.0 {
            #[cfg(feature = "sim")]
            Kind::Simulation(error) => error.is_bug(),
            #[cfg(feature = "cuda")]
            Kind::Runtime(error) => error.is_bug(),
            Kind::Syntax(_) | Kind::Check(_) | Kind::Warning(_) | Kind::Grad(_) => false,
            Kind::Bind(_) | Kind::Tensor(_) => false,
            Kind::Plan(_) | Kind::Target(_) | Kind::NoGpus(_) | Kind::NoSimulator(_) => false,
        }
    }

    /// Where, if it is about a place in the source.
    pub fn span(&self) -> Option<Span> {
        match &self.0 {
            Kind::Syntax(error) => Some(error.span()),
            Kind::Check(error) => error.span(),
            Kind::Warning(warning) => Some(warning.span()),
            Kind::Grad(error) => error.span(),
            Kind::Bind(error) => error.bytes().map(place),
            Kind::Target(refusal) => refusal.bytes().map(place),
            Kind::Tensor(_) | Kind::Plan(_) => None,
            Kind::NoGpus(_) | Kind::NoSimulator(_) => None,
            #[cfg(feature = "sim")]
            Kind::Simulation(_) => None,
            #[cfg(feature = "cuda")]
            Kind::Runtime(_) => None,
        }
    }

    /// A second place that explains the first, and how.
    pub fn related(&self) -> Option<(Span, String)> {
        match &self.0 {
            Kind::Check(error) => error.related(),
            _ => None,
        }
    }

    /// What to do about it, where that is known.
    pub fn fix(&self) -> Option<String> {
        match &self.0 {
            Kind::Syntax(error) => error.fix(),
            Kind::Check(error) => error.fix(),
            Kind::Warning(warning) => Some(warning.fix()),
            Kind::Grad(error) => error.fix(),
            Kind::Bind(error) => error.fix(),
            Kind::Plan(error) => error.fix(),
            Kind::Target(error) => error.fix(),
            Kind::NoGpus(_) => {
                Some("build it with the feature `cuda`, or use the CPU backend".to_owned())
            }
            Kind::NoSimulator(_) => {
                Some("build it with the feature `sim`, or use the CPU backend".to_owned())
            }
            Kind::Tensor(error) => error.fix(),
            #[cfg(feature = "sim")]
            Kind::Simulation(error) => error.fix(),
            #[cfg(feature = "cuda")]
            Kind::Runtime(error) => error.fix(),
        }
    }
}

impl From<Warning> for Diagnostic {
    fn from(warning: Warning) -> Diagnostic {
        Diagnostic(warning.into())
    }
}

/// Bytes of the source as a place in it.
fn place((start, end): (u32, u32)) -> Span {
    Span { start, end }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, diagnostic) in self.diagnostics.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            if let (Some(source), Some(span)) = (&self.source, diagnostic.span()) {
                write!(f, "{}: ", Place::of(source, span))?;
            }
            write!(f, "{}", diagnostic.message())?;
            if let (Some(source), Some((span, note))) = (&self.source, diagnostic.related()) {
                write!(f, "\n  note: {}: {note}", Place::of(source, span))?;
            }
            if let Some(fix) = diagnostic.fix() {
                write!(f, "\n  help: {fix}")?;
            }
        }
        Ok(())
    }
}

/// The message with its places: what a `main` that returns an error prints.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

impl<E: Into<OneOrMore>> From<E> for Error {
    fn from(error: E) -> Error {
        Error { diagnostics: error.into().0, source: None }
    }
}

/// What a stage returns as its error.
pub struct OneOrMore(Vec<Diagnostic>);

macro_rules! stages {
    ($($stage:ty),*) => {$(
        impl From<$stage> for OneOrMore {
            fn from(error: $stage) -> OneOrMore {
                OneOrMore(vec![Diagnostic(error.into())])
            }
        }
        impl From<Vec<$stage>> for OneOrMore {
            fn from(errors: Vec<$stage>) -> OneOrMore {
                OneOrMore(errors.into_iter().map(|error| Diagnostic(error.into())).collect())
            }
        }
    )*};
}

stages!(
    SyntaxError,
    CheckError,
    GradError,
    BindError,
    TensorError,
    Refusal,
    TargetRefusal,
    NoGpus,
    NoSimulator
);
#[cfg(feature = "sim")]
stages!(SimulationError);
#[cfg(feature = "cuda")]
stages!(RuntimeError);
