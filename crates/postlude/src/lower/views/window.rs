//! Windows of columns, and numbers that a launch passes because of them.

use crate::problem::Problem;
use crate::shape::Dim;

/// Columns of the product that a part is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    /// Dims whose sizes together are where it begins.
    pub(crate) start: Vec<Dim>,
    /// The dim whose size it has.
    pub(crate) width: Dim,
    /// What its start has to be a multiple of.
    pub(crate) multiple: u32,
    /// Where a tensor has the columns of one part of each run: the columns of a run, and of a part.
    pub(crate) fold: Option<[u32; 2]>,
}

/// A number that the sizes of a call tell.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Number {
    /// The sizes of dims together, i32.
    Sum(Vec<Dim>),
    /// The sizes of dims multiplied, f32.
    Product(Vec<Dim>),
}

impl Number {
    /// Its value at the sizes of a call.
    pub(crate) fn value(&self, problem: &Problem) -> f64 {
        match self {
            Number::Sum(dims) => problem.shape(dims).iter().map(|size| *size as f64).sum(),
            Number::Product(dims) => problem.shape(dims).iter().map(|size| *size as f64).product(),
        }
    }
}

impl Window {
    /// The column of the product that it begins with.
    pub(crate) fn start(&self, problem: &Problem) -> usize {
        problem.shape(&self.start).iter().sum()
    }

    /// How many columns it has.
    pub(crate) fn width(&self, problem: &Problem) -> usize {
        problem.shape(std::slice::from_ref(&self.width))[0]
    }
}
