//! Whether a chip runs a kernel, as one launch or cut into several.

use crate::error::Error;
use crate::kernel::Compiled;
use crate::problem::Problem;
use crate::target::Chip;

impl Compiled {
    /// How many launches a call takes whose tensors lie without gaps, each of them planned; the first refusal where no cut
    /// is planned.
    #[doc(hidden)]
    pub fn planned_launches(&self, problem: &Problem, chip: Chip) -> Result<usize, Error> {
        let uncut = self.planned_uncut(problem, chip);
        self.or_cut(uncut, |cut| cut.planned_launches(problem, chip))
    }

    fn planned_uncut(&self, problem: &Problem, chip: Chip) -> Result<usize, Error> {
        self.planned_packed(problem, chip)?;
        let mut launches = 1;
        for (earlier, compiled) in self.optimised.earlier().iter().zip(self.earlier.iter()) {
            launches += compiled.planned_launches(&problem.of_computing(earlier.graph)?, chip)?;
        }
        Ok(launches)
    }
}
