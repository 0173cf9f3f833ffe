//! What a call runs of a kernel: the first of its forms that is not refused.
//!
//! In: a kernel, the sizes of a call, and where its tensors lie. Out: what the caller makes of the form that is taken.
//! Invariant: forms are tried in the order in which a call on a GPU tries them.

use crate::error::Error;
use crate::graph::Graph;
use crate::kernel::Compiled;
use crate::placement::Placements;
use crate::problem::Problem;

/// How what runs of a kernel differs from it.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LaunchForm {
    /// Load warps compute an operand as they load it.
    InMainloop,
    /// Some launches are repeated for parts of a dim.
    Chunked,
    /// The first launches store operands as the product reads them fastest.
    Copied,
    /// It is cut: one launch is refused, or costs more.
    Cut,
    /// It is as its structure has it.
    Whole,
}

/// What is made of a form, with its own sizes, or why it is refused.
pub(super) type Take<'t, T> = dyn FnMut(&Compiled, &Problem, LaunchForm) -> Result<T, Error> + 't;

impl Compiled {
    /// Offers `take` the kernel with an operand computed in the mainloop, in chunks, with copies of its operands, cut where
    /// that costs less, as it is, and cut, until one is not refused; the first refusal where all are.
    pub(super) fn first_taken<T>(
        &self,
        problem: &Problem,
        placements: &dyn Fn(&Graph) -> Placements,
        take: &mut Take<'_, T>,
    ) -> Result<T, Error> {
        let mut offer = |compiled: &Compiled, problem: &Problem, form: LaunchForm| {
            unless_refused(take(compiled, problem, form))
        };
        if let Some(in_mainloop) = self.in_mainloop(problem)
            && let Some(taken) = offer(in_mainloop, problem, LaunchForm::InMainloop)
        {
            return taken;
        }
        if let Some((chunked, own)) = self.chunked(problem)?
            && let Some(taken) = offer(&chunked, &own, LaunchForm::Chunked)
        {
            return taken;
        }
        if let Some(copied) = self.copied(problem, &placements(&self.optimised))
            && let Some(taken) = offer(&copied, problem, LaunchForm::Copied)
        {
            return taken;
        }
        let of_cut = |cut: &Compiled, take: &mut Take<'_, T>| {
            let mut take = |cut: &Compiled, own: &Problem, _| take(cut, own, LaunchForm::Cut);
            cut.first_taken(problem, placements, &mut take)
        };
        if let Some(cut) = self.cheaper_cut(problem)
            && let Some(taken) = unless_refused(of_cut(cut, take))
        {
            return taken;
        }
        let uncut = take(self, &self.own_sizes(problem)?, LaunchForm::Whole);
        self.or_cut(uncut, |cut| of_cut(cut, take))
    }
}

/// What was made of a form; nothing where it is refused.
fn unless_refused<T>(taken: Result<T, Error>) -> Option<Result<T, Error>> {
    match taken {
        Err(refusal) if refusal.is_refusal() => None,
        taken => Some(taken),
    }
}
