//! Whether a given schedule can run a program.

use crate::lower::BoundProgram;

use super::chip::Sm90;
use super::needs::SlotCounts;
use super::rank::accepted_needs;
use super::refusal::Sm90Refusal;
use super::schedule::Sm90Schedule;
use super::{knobs, parameters, ranked};

/// Whether a given schedule can run this program, or why not.
pub(crate) fn accept(
    schedule: &Sm90Schedule,
    bound: &BoundProgram,
    chip: Sm90,
) -> Result<(), Sm90Refusal> {
    let bound = schedule.own(bound).ok_or(Sm90Refusal::Knob { knob: "swap_ab" })?;
    let (program, problem) = (bound.program(), bound.problem());
    let needs = accepted_needs(bound)?;
    if !schedule.needs.covers(&needs)
        || !schedule.needs.counts_agree(&needs, SlotCounts::of(program, &schedule.needs))
    {
        return Err(Sm90Refusal::OtherNeeds { wanted: needs.to_string() });
    }
    if ranked::is_long(program) && !schedule.ranks_rows() {
        return Err(Sm90Refusal::Knob { knob: "held" });
    }
    knobs::refuse(schedule)?;
    parameters::refuse(program, &schedule.needs)?;
    if !schedule.counts(problem) {
        return Err(Sm90Refusal::TooLarge);
    }
    if !schedule.has_whole_spans(problem) {
        return Err(Sm90Refusal::Knob { knob: "tile" });
    }
    if !schedule.slices_suit(problem, chip) {
        return Err(Sm90Refusal::Knob { knob: "split_k_slices" });
    }
    let [rows, columns] = schedule.clusters(problem);
    if rows.max(columns) * u64::from(schedule.raster.group) > u64::from(u32::MAX) {
        return Err(Sm90Refusal::Knob { knob: "raster" });
    }
    if schedule.shared_bytes() > chip.shared_bytes {
        let (need, have) = (schedule.shared_bytes(), chip.shared_bytes);
        return Err(Sm90Refusal::SharedMemory { need, have });
    }
    Ok(())
}
