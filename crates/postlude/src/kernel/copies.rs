//! Kernels whose operands are copied before their products, at sizes where that pays.

use std::sync::{Arc, PoisonError};

use crate::error::Error;
use crate::kernel::Compiled;
use crate::optimise;
use crate::placement::Placements;
use crate::problem::Problem;
use crate::target::{self, Chip, Planned};

impl Compiled {
    /// The last launch of a call whose tensors lie without gaps, with copies of its operands where they pay.
    #[doc(hidden)]
    pub fn planned_packed(&self, problem: &Problem, chip: Chip) -> Result<Planned, Error> {
        let placements = Placements::packed(&self.optimised, problem);
        #[cfg(any(feature = "cuda", feature = "sim"))]
        if let Some(in_mainloop) = self.in_mainloop(problem)
            && let Ok(planning) = in_mainloop.planning(problem, &placements, chip)
            && let Ok(planned) = planning.best()
        {
            return Ok(planned);
        }
        if let Some(copied) = self.copied(problem, &placements) {
            let placements = Placements::packed(&copied.optimised, problem);
            if let Ok(planning) = copied.planning(problem, &placements, chip)
                && let Ok(planned) = planning.best()
            {
                return Ok(planned);
            }
        }
        Ok(self.planning(problem, &placements, chip)?.best()?)
    }

    /// The same kernel whose operands launches before it copy, where it gains by that at these sizes. A kernel that has to be
    /// one launch, or has a schedule, reads operands as they lie.
    #[doc(hidden)]
    pub fn copied(&self, problem: &Problem, placements: &Placements) -> Option<Compiled> {
        let hooks = &self.options.hooks;
        if hooks.schedule.is_some() || self.options.one_launch {
            return None;
        }
        let copies = target::operand_copies(&self.optimised, problem, placements, hooks.copies)?;
        let mut all = self.copied.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = all.iter().find(|(known, _)| *known == copies) {
            return Some(known.clone());
        }
        let graph = Arc::new(optimise::copy_operands(&self.optimised, &copies));
        let copied = Compiled::new(self.defined.clone(), graph, self.options.clone());
        all.push((copies, copied.clone()));
        Some(copied)
    }
}
