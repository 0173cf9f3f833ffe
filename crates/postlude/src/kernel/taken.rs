//! What a call in the simulator runs of a kernel: the first of its forms that is not refused.
//!
//! In: a kernel, the sizes of a call, and where its tensors lie. Out: what the caller makes of the form that is taken.
//! Invariant: forms are tried in the order in which a call on a GPU tries them.

use crate::error::Error;
use crate::graph::Graph;
use crate::kernel::Compiled;
use crate::placement::Placements;
use crate::problem::Problem;

/// What is made of a form, with its own sizes, or why it is refused.
pub(super) type Take<'t, T> = dyn FnMut(&Compiled, &Problem) -> Result<T, Error> + 't;

impl Compiled {
    /// Offers `take` the kernel with an operand computed in the mainloop, in chunks, with copies of its operands, cut where
    /// that costs less, as it is, and cut, until one is not refused; the first refusal where all are.
    pub(super) fn first_taken<T>(
        &self,
        problem: &Problem,
        placements: &dyn Fn(&Graph) -> Placements,
        take: &mut Take<'_, T>,
    ) -> Result<T, Error> {
        let mut offer = |compiled: &Compiled, problem: &Problem| match take(compiled, problem) {
            Err(refusal) if refusal.is_refusal() => None,
            taken => Some(taken),
        };
        if let Some(in_mainloop) = self.in_mainloop(problem)
            && let Some(taken) = offer(in_mainloop, problem)
        {
            return taken;
        }
        if let Some((chunked, own)) = self.chunked(problem)?
            && let Some(taken) = offer(&chunked, &own)
        {
            return taken;
        }
        if let Some(copied) = self.copied(problem, &placements(&self.optimised))
            && let Some(taken) = offer(&copied, problem)
        {
            return taken;
        }
        if let Some(cut) = self.cheaper_cut(problem) {
            match cut.first_taken(problem, placements, take) {
                Err(refusal) if refusal.is_refusal() => {}
                taken => return taken,
            }
        }
        let uncut = take(self, &self.own_sizes(problem)?);
        self.or_cut(uncut, |cut| cut.first_taken(problem, placements, take))
    }
}
