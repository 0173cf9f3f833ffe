//! How the launches of a call get their schedules.

use super::form::KernelForm;
use crate::error::Error;
use crate::placement::Placements;
use crate::problem::Problem;
use crate::target::{Chip, Planned, Planning};

/// How a launch gets its schedules.
pub(crate) struct Planner<'a> {
    pub(crate) chip: Chip,
    /// The most CTAs launched.
    pub(crate) grid_limit: Option<u32>,
    /// Bytes that there are for values between launches; launches are repeated for chunks where that is less than they have.
    pub(crate) room: u64,
    /// The schedule that was measured for a launch, where one was.
    pub(crate) measured: &'a dyn Fn(&KernelForm, &Planning<'_>) -> Option<Planned>,
}

impl Planner<'_> {
    /// The planner's own schedules on a chip.
    pub(crate) const fn on(chip: Chip) -> Planner<'static> {
        Planner { chip, grid_limit: None, room: u64::MAX, measured: &|_, _| None }
    }

    /// The schedules to try for a form's last launch, best first and at least one; only the given one where one is given, or
    /// the one that was measured.
    pub(crate) fn plan(
        &self,
        form: &KernelForm,
        problem: &Problem,
        placements: &Placements,
    ) -> Result<Vec<Planned>, Error> {
        let planning = form.planning(problem, placements, self.chip)?;
        let given = form.settings.schedule.as_ref();
        let all = match given.is_none().then(|| (self.measured)(form, &planning)).flatten() {
            Some(planned) => vec![planned],
            None => planning.all_or(given)?,
        };
        Ok(all.into_iter().map(|planned| planned.limited(self.grid_limit)).collect())
    }
}
