//! Kernels whose operands are copied before their products, or computed in the mainloop, at sizes where that pays.

use std::sync::Arc;

use crate::graph::Graph;
use crate::kernel::Compiled;
use crate::optimise;
use crate::placement::Placements;
use crate::problem::Problem;
use crate::process;
use crate::target;

impl Compiled {
    /// The same kernel whose operands launches before it copy, where it gains by that at these sizes. A kernel that has to be
    /// one launch, or has a schedule, reads operands as they lie.
    #[doc(hidden)]
    pub fn copied(&self, problem: &Problem, placements: &Placements) -> Option<Compiled> {
        let hooks = &self.options.hooks;
        if hooks.schedule.is_some() || self.options.one_launch {
            return None;
        }
        let copies = target::operand_copies(&self.optimised, problem, placements, hooks.copies)?;
        let mut all = process::open(&self.copied);
        let known = all.as_ref().and_then(|all| all.iter().find(|(known, _)| *known == copies));
        if let Some((_, known)) = known {
            return Some(known.clone());
        }
        let graph = Arc::new(optimise::copy_operands(&self.optimised, &copies));
        let copied = Compiled::new(self.defined.clone(), graph, self.options.clone());
        if let Some(all) = &mut all {
            all.push((copies, copied.clone()));
        }
        Some(copied)
    }

    /// The same kernel whose last launch computes an operand as it loads it, where a call of these sizes takes it.
    #[cfg(any(feature = "cuda", feature = "sim"))]
    #[doc(hidden)]
    pub fn in_mainloop(&self, problem: &Problem) -> Option<&Compiled> {
        let made = || {
            let (side, graph) = optimise::operands_in_mainloop(&self.optimised, target::widens)?;
            let (defined, options) = (self.defined.clone(), self.options.clone());
            Some((side, Compiled::new(defined, Arc::new(graph), options)))
        };
        let (side, compiled) = process::once(&self.in_mainloop, made).as_ref()?;
        let schedule = self.options.hooks.schedule.as_ref();
        target::computes_in_mainloop(*side, problem, schedule).then_some(compiled)
    }

    /// Whether its last launch computes an operand as it loads it.
    #[doc(hidden)]
    pub fn computes_operand(&self) -> bool {
        self.optimised.has_operand_in_mainloop()
    }
}

/// The graph that the CPU engine runs in the place of one: it scales elements, and reads operands from memory.
pub(super) fn on_cpu(optimised: &Arc<Graph>) -> Arc<Graph> {
    let stored = || Arc::new((**optimised).clone().with_stored_operands());
    let stored = optimised.has_operand_in_mainloop().then(stored);
    let stored = stored.unwrap_or_else(|| optimised.clone());
    optimise::without_scales(&stored).map_or(stored, Arc::new)
}
