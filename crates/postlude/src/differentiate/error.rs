//! Why a kernel has no derivatives.

use crate::dtype::DType;
use crate::syntax::Span;

/// Why a kernel is not differentiated.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GradError {
    /// A body without a signature.
    #[error("a kernel without a signature has no derivatives")]
    NoSignature,
    /// An input that there is not.
    #[error("the kernel has no input `{name}`")]
    UnknownInput {
        /// What was asked for.
        name: String,
        /// What may be meant.
        nearest: Option<String>,
    },
    /// An input of integers or truth values.
    #[error("`{name}` is {dtype}: only floats have derivatives")]
    NotFloat {
        /// The input.
        name: String,
        /// Its element type.
        dtype: DType,
        /// Its type.
        at: Span,
    },
    /// One tensor under two dims.
    #[error("`{name}` is another input under other dims, and both have parts of one derivative")]
    SecondName {
        /// The second name.
        name: String,
        /// Where it is declared.
        at: Span,
    },
    /// No output of floats depends on an input that is asked for.
    #[error("no output of floats depends on these inputs")]
    NothingDepends,
    /// No output of floats depends on an input.
    #[error("no output of floats depends on `{name}`")]
    NoPath {
        /// The input.
        name: String,
    },
    /// An input that outputs depend on by steps alone.
    #[error("the derivative in `{name}` is 0 everywhere")]
    Zero {
        /// The input.
        name: String,
    },
    /// A function without a derivative in the argument that matters.
    #[error("`{function}` has no derivative{}", argument.map(|place| format!(" in argument {place}")).unwrap_or_default())]
    Function {
        /// Its name.
        function: String,
        /// The argument, counted from 1, where others have one.
        argument: Option<usize>,
        /// The call.
        at: Span,
    },
    /// Rows that are cut in one place and not, or otherwise, in another.
    #[error("rows along `{row}` are cut into segments elsewhere, and not so here")]
    MixedRows {
        /// Their dim.
        row: String,
        /// Where they are not.
        at: Span,
    },
    /// A product of operands that have no derivatives.
    #[error("this product's operands are {dtype}: only products of floats have derivatives")]
    Product {
        /// Their element type.
        dtype: DType,
        /// The product.
        at: Span,
    },
    /// Derivatives that the language does not say.
    #[error("the derivatives do not type: {message}")]
    NotTyped {
        /// What is wrong with them.
        message: String,
    },
}

impl GradError {
    /// Where, if it is about a place in the source.
    pub fn span(&self) -> Option<Span> {
        match self {
            GradError::NotFloat { at, .. }
            | GradError::SecondName { at, .. }
            | GradError::Function { at, .. }
            | GradError::MixedRows { at, .. }
            | GradError::Product { at, .. } => Some(*at),
            GradError::NoSignature
            | GradError::UnknownInput { .. }
            | GradError::NotTyped { .. }
            | GradError::NoPath { .. }
            | GradError::Zero { .. }
            | GradError::NothingDepends => None,
        }
    }

    /// What to do about it, where that is known.
    pub fn fix(&self) -> Option<String> {
        match self {
            GradError::NoSignature => {
                Some("write `kernel name(inputs) -> outputs { ... }`".to_owned())
            }
            GradError::UnknownInput { nearest, .. } => {
                nearest.as_ref().map(|near| format!("did you mean `{near}`?"))
            }
            GradError::NotFloat { .. } | GradError::NoPath { .. } | GradError::Zero { .. } => {
                Some("leave it out".to_owned())
            }
            GradError::SecondName { .. } => {
                Some("pass the tensor twice, as two inputs, and add their derivatives".to_owned())
            }
            GradError::NothingDepends => {
                Some("differentiate with respect to inputs that outputs are made of".to_owned())
            }
            GradError::Function { .. } => Some(
                "leave out the inputs that it depends on, or write it by other functions"
                    .to_owned(),
            ),
            GradError::MixedRows { .. } => Some(
                "cut them everywhere, by one list of ends, or give them another dim".to_owned(),
            ),
            GradError::Product { .. } => {
                Some("convert the operands: `bf16(A) @ bf16(B)`".to_owned())
            }
            GradError::NotTyped { .. } => {
                Some("differentiate with respect to fewer inputs (`--wrt`)".to_owned())
            }
        }
    }
}
