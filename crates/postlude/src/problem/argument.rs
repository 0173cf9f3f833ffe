//! What a caller gives for an input.

use crate::dtype::DType;
use crate::tensor::{Tensor, TensorView};

/// An argument of a call: a tensor, owned or borrowed, or a number.
///
/// ```
/// use postlude::{Argument, DType, Tensor, TensorView};
/// let values = [1.0f32, 2.0];
/// let borrowed: Argument = TensorView::new(&values, [2])?.into();
/// let owned: Argument = Tensor::zeros(DType::BF16, [2, 2])?.into();
/// let number: Argument = 0.5.into();
/// # let _ = (borrowed, owned, number);
/// # Ok::<(), postlude::TensorError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Argument<'a> {
    /// A tensor that the argument owns.
    Tensor(Tensor),
    /// A tensor in the caller's memory.
    View(TensorView<'a>),
    /// A scalar that the host passes.
    Scalar(f64),
}

impl<'a> Argument<'a> {
    /// The tensor, if it is one.
    pub fn tensor(&self) -> Option<TensorView<'_>> {
        match self {
            Argument::Tensor(tensor) => Some(tensor.view()),
            Argument::View(view) => Some(*view),
            Argument::Scalar(_) => None,
        }
    }

    /// The number, if it is one.
    pub fn scalar(&self) -> Option<f64> {
        match self {
            Argument::Scalar(value) => Some(*value),
            Argument::Tensor(_) | Argument::View(_) => None,
        }
    }

    /// The same argument, borrowed, its elements read as a declared type that is stored alike.
    pub(crate) fn declared(&'a self, dtype: DType) -> Argument<'a> {
        match self.borrowed() {
            Argument::View(view) if dtype.is_stored_as(view.dtype()) => {
                Argument::View(view.read_as(dtype))
            }
            other => other,
        }
    }

    /// The same argument, borrowed.
    #[doc(hidden)]
    pub fn borrowed(&'a self) -> Argument<'a> {
        match self {
            Argument::Tensor(tensor) => Argument::View(tensor.view()),
            Argument::View(view) => Argument::View(*view),
            Argument::Scalar(value) => Argument::Scalar(*value),
        }
    }
}

impl From<Tensor> for Argument<'_> {
    fn from(tensor: Tensor) -> Self {
        Argument::Tensor(tensor)
    }
}

impl<'a> From<&'a Tensor> for Argument<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        Argument::View(tensor.view())
    }
}

impl<'a> From<TensorView<'a>> for Argument<'a> {
    fn from(view: TensorView<'a>) -> Self {
        Argument::View(view)
    }
}

impl From<f64> for Argument<'_> {
    fn from(value: f64) -> Self {
        Argument::Scalar(value)
    }
}

impl From<f32> for Argument<'_> {
    fn from(value: f32) -> Self {
        Argument::Scalar(value.into())
    }
}
