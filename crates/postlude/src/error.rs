//! What a caller sees when something is wrong: diagnostics with a place and a fix.

use std::fmt;

use crate::check::CheckError;
use crate::plan::Refusal;
use crate::problem::BindError;
#[cfg(feature = "cuda")]
use crate::runtime::RuntimeError;
use crate::syntax::{Span, SyntaxError};
use crate::tensor::TensorError;

/// What went wrong: one or more [`Diagnostic`]s.
///
/// ```
/// let error = postlude::Kernel::infer("D = relu(A @ B) + bais[N] * geluu(A @ B)", &Default::default()).unwrap_err();
/// assert!(error.diagnostics().len() > 0);
/// ```
#[derive(Debug)]
pub struct Error {
    diagnostics: Vec<Diagnostic>,
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
    Bind(#[from] BindError),
    #[error(transparent)]
    Tensor(#[from] TensorError),
    #[error(transparent)]
    Plan(#[from] Refusal),
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

impl Error {
    /// The mistakes, at most five.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }
}

impl Diagnostic {
    /// What is wrong.
    pub fn message(&self) -> String {
        self.0.to_string()
    }

    /// Where, if it is about a place in the source.
    pub fn span(&self) -> Option<Span> {
        match &self.0 {
            Kind::Syntax(error) => Some(error.span()),
            Kind::Check(error) => error.span(),
            Kind::Bind(_) | Kind::Tensor(_) | Kind::Plan(_) => None,
            #[cfg(feature = "cuda")]
            Kind::Runtime(_) => None,
        }
    }

    /// What to do about it, where that is known.
    pub fn fix(&self) -> Option<String> {
        match &self.0 {
            Kind::Syntax(error) => error.fix(),
            Kind::Check(error) => error.fix(),
            Kind::Bind(error) => error.fix(),
            Kind::Plan(error) => error.fix(),
            Kind::Tensor(_) => None,
            #[cfg(feature = "cuda")]
            Kind::Runtime(error) => error.fix(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, diagnostic) in self.diagnostics.iter().enumerate() {
            let separator = if place == 0 { "" } else { "; " };
            write!(f, "{separator}{}", diagnostic.message())?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

impl<E: Into<OneOrMore>> From<E> for Error {
    fn from(error: E) -> Error {
        Error { diagnostics: error.into().0 }
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

stages!(SyntaxError, CheckError, BindError, TensorError, Refusal);
#[cfg(feature = "cuda")]
stages!(RuntimeError);
