//! The knobs of a tile: as many stages as shared memory holds, and what goes with them.

use crate::lower::least_common_multiple;
use crate::target::tile::Tile;

use super::chip::Sm90;
use super::code::{MOST_LINES, code_lines};
use super::hints::Hints;
use super::needs::Needs;
use super::raster::Raster;
use super::reuse;
use super::row_needs::{CTA_BYTES, RowNeeds};
use super::schedule::Sm90Schedule;
use super::slots::{MOST_STAGES, NARROWEST, Slots, choices};
use super::streamed;

/// The schedule of a tile with as many stages as shared memory holds, if it takes operands that lie so.
pub(crate) fn fit(tile: Tile, needs: &Needs, chip: Sm90) -> Option<Sm90Schedule> {
    if !tile.takes(needs) {
        return None;
    }
    if tile.is_by_elements() {
        let copying = (!needs.by_elements).then(|| needs.by_copies());
        return Some(Sm90Schedule::of_elements(copying.as_ref().unwrap_or(needs)));
    }
    let needs = &Needs { copied_bytes: 0, ..needs.clone() };
    if tile.holds_rows() {
        return fit_rows(tile, needs, chip);
    }
    let needs = &Needs { rows: None, ..needs.clone() };
    let usual = fit_with(tile, needs, chip, false);
    if needs.mainloop.is_none() {
        return usual.or_else(|| fit_with(tile, needs, chip, true));
    }
    let stages = usual.as_ref().map_or(0, |schedule| schedule.stages);
    if stages >= SCARCE_STAGES {
        return usual;
    }
    fit_with(tile, needs, chip, true).filter(|reusing| reusing.stages > stages).or(usual)
}

/// The schedule of a tile without 64-row blocks: knobs of stages, epilogue tiles and slots of D mean nothing there.
pub(super) fn without_blocks(tile: Tile, needs: &Needs, ctas: u32, c_stages: u32) -> Sm90Schedule {
    Sm90Schedule {
        tile,
        stages: 0,
        epilogue_tile: NARROWEST,
        fragment: fragment(needs, NARROWEST),
        c_stages,
        d_stages: 1,
        reuse_c: false,
        delay_store: false,
        epilogue_loop: false,
        rounds: 0,
        wgmma_in_flight: 0,
        hints: Hints::None,
        raster: Raster::usual(tile.cluster),
        ctas,
        split_k_slices: 1,
        data_parallel_waves: 0,
        grid_limit: None,
        needs: needs.clone(),
    }
}

/// The schedule of a tile whose rows threads hold; knobs of slots and epilogue tiles mean nothing there.
fn fit_rows(tile: Tile, needs: &Needs, chip: Sm90) -> Option<Sm90Schedule> {
    let needs = needs.held_by(tile)?;
    if tile.streams_rows() {
        return fit_streamed(tile, &needs, chip);
    }
    let most = needs.rows?.ctas(tile, needs.work);
    let fits = |one: &Sm90Schedule| {
        one.ctas * (one.shared_bytes() + CTA_BYTES) - CTA_BYTES <= chip.shared_bytes
    };
    if tile.folds_strips() {
        let mut most_first = (1..=most).rev().map(|ctas| without_blocks(tile, &needs, ctas, 1));
        return most_first.find(fits);
    }
    // A CTA for each tile: on an H200 that was faster than CTAs that copy tiles ahead, whatever the bytes under way.
    let held = (1..=most).map(|ctas| without_blocks(tile, &needs, ctas, 1));
    let mut held = held.take_while(fits);
    let mut last = held.next()?;
    for schedule in held {
        if last.ctas >= FEWEST_CTAS && last.ctas * last.held_tile_bytes() >= LOADED_BYTES {
            break;
        }
        last = schedule;
    }
    Some(last)
}

/// The schedule of a streamed tile, whose ring says how long rows may be.
fn fit_streamed(tile: Tile, needs: &Needs, chip: Sm90) -> Option<Sm90Schedule> {
    let rows = needs.rows?;
    let [ctas, chunks] = streamed::rings(tile, &rows, chip)?;
    let longest = rows.streamed_columns(tile, chunks);
    let rows = RowNeeds { columns: longest, ..rows };
    let whole_columns = if needs.whole_columns > 0 { longest } else { 0 };
    let needs = Needs { rows: Some(rows), whole_columns, ..needs.clone() };
    Some(without_blocks(tile, &needs, ctas, chunks))
}

/// Bytes that an SM's CTAs load at most: more than Little's law asks for, since some of them compute meanwhile.
const LOADED_BYTES: u32 = 64 * 1024;
/// CTAs of an SM, of which some load while others compute.
const FEWEST_CTAS: u32 = 3;

/// The same for a tile that does, with C's slots reused for D or not.
fn fit_with(tile: Tile, needs: &Needs, chip: Sm90, reuse_c: bool) -> Option<Sm90Schedule> {
    let choices = choices(tile, needs);
    let stages =
        if needs.mainloop.is_some() { needs.fewest_stages(tile)..=MOST_STAGES } else { 0..=0 };
    let all = stages.rev().flat_map(|stages| choices.iter().map(move |slots| (stages, *slots)));
    // Where math threads are the bottleneck, wide epilogue tiles are worth more than a deep ring.
    let wide =
        all.clone().filter(|(stages, slots)| *stages >= ENOUGH_STAGES && slots.epilogue_tile == 64);
    wide.filter(|_| needs.is_heavy() && tile.is_ping_pong())
        .chain(all)
        .filter(|(stages, slots)| *stages <= WITH_FEW_SLOTS || !slots.few)
        .map(|(stages, Slots { epilogue_tile, c_stages, d_stages, .. })| Sm90Schedule {
            tile,
            stages,
            epilogue_tile,
            fragment: fragment(needs, epilogue_tile),
            c_stages,
            d_stages,
            reuse_c,
            delay_store: false,
            epilogue_loop: epilogue_loop(tile, needs, epilogue_tile)
                || rounds(tile, needs, epilogue_tile) > 0,
            rounds: rounds(tile, needs, epilogue_tile),
            wgmma_in_flight: wgmma_in_flight(tile, stages, needs),
            hints: Hints::None,
            raster: Raster::usual(tile.cluster),
            ctas: 1,
            split_k_slices: 1,
            data_parallel_waves: 0,
            grid_limit: None,
            needs: needs.clone(),
        })
        .filter(|schedule| reuse::refuse(schedule).is_ok())
        .find(|schedule| schedule.shared_bytes() <= chip.shared_bytes)
}

/// Whether epilogue tiles are a loop: where there is much code for many accumulators.
fn epilogue_loop(tile: Tile, needs: &Needs, epilogue_tile: u32) -> bool {
    (needs.is_heavy() || needs.folds.any())
        && tile.is_ping_pong()
        && tile.warpgroups_per_tile() == 1
        && needs.width(tile) > least_common_multiple(needs.groups, epilogue_tile)
}

/// Rounds of the loops that a long kernel needs; 0 for a short one.
fn rounds(tile: Tile, needs: &Needs, epilogue_tile: u32) -> u32 {
    let width = needs.width(tile);
    let is_short = |columns: u32| {
        code_lines(tile, needs, columns) <= MOST_LINES && columns <= UNROLLED_COLUMNS
    };
    if is_short(width) {
        return 0;
    }
    let spans = width / least_common_multiple(needs.groups, epilogue_tile);
    let short = |rounds: &u32| is_short(width / rounds);
    let mut even = (2..=spans).filter(|rounds| spans.is_multiple_of(*rounds));
    even.clone().find(short).or(even.next_back()).unwrap_or(0)
}
/// Words of partial results along rows that leave registers for more columns.
const FEW_ROW_WORDS: u32 = 4;

/// Columns that are computed before their values are converted and reduced: few, so that few registers hold them.
/// Columns that are reduced together share shuffles, and the rescaling of sums of exponentials; but reductions of several
/// words fill registers.
pub(super) fn fragment(needs: &Needs, epilogue_tile: u32) -> u32 {
    let together = match needs.folds {
        folds if !folds.any() || needs.widest_fold > 1 => 8,
        folds if folds.rows > FEW_ROW_WORDS => 16,
        folds if folds.rows > 1 && !needs.is_heavy() => 16,
        _ => 32,
    };
    together.min(epilogue_tile)
}

/// A stage is held until the next is full: warps that move staggered rows with two stages, or widen as many at a time as there
/// are, would have none to fill.
fn wgmma_in_flight(tile: Tile, stages: u32, needs: &Needs) -> u32 {
    let Some(mainloop) = &needs.mainloop else { return 0 };
    let least = if mainloop.is_staggered() { 2 } else { tile.stages_at_once(mainloop) };
    u32::from(stages > least)
}

/// The least shared memory that a schedule of a tile may have.
pub(super) fn least_bytes(tile: Tile, needs: &Needs) -> u32 {
    let unlimited = Sm90 { shared_bytes: u32::MAX, ..Sm90::H200 };
    let Some(schedule) = fit(tile, needs, unlimited) else { return 0 };
    if tile.holds_rows() {
        return Sm90Schedule { c_stages: 1, ..schedule }.shared_bytes();
    }
    let with = |slots: &Slots| {
        let Slots { epilogue_tile, c_stages, d_stages, .. } = *slots;
        let stages = needs.fewest_stages(tile);
        let with = |reuse_c| Sm90Schedule {
            stages,
            epilogue_tile,
            c_stages,
            d_stages,
            reuse_c,
            ..schedule.clone()
        };
        let allowed = [false, true].map(with).into_iter().filter(|it| reuse::refuse(it).is_ok());
        allowed.map(|schedule| schedule.shared_bytes()).min().unwrap_or(u32::MAX)
    };
    choices(tile, needs).iter().map(with).min().unwrap_or(0)
}

/// As many stages of A and B or fewer are worth having with few slots for outputs.
const WITH_FEW_SLOTS: u32 = 3;
/// With fewer, shared memory of D slots is better spent on one more.
const SCARCE_STAGES: u32 = 3;
/// As many are enough where the epilogue takes longer than the products.
const ENOUGH_STAGES: u32 = 4;
/// The widest product has as many.
const UNROLLED_COLUMNS: u32 = 256;

#[cfg(test)]
mod tests {
    use super::super::candidates::CANDIDATES;
    use super::super::needs::SlotCounts;
    use super::super::place::EpilogueTransfer;
    use super::*;

    #[test]
    fn every_candidate_fits_a_chip() {
        for tile in CANDIDATES {
            let schedule = fit(*tile, &Needs::plain(), Sm90::H200)
                .expect("a candidate that fits nowhere is no candidate");
            assert!(
                schedule.shared_bytes() <= Sm90::H200.shared_bytes && schedule.stages >= 3,
                "{tile:?}"
            );
        }
    }

    #[test]
    fn the_large_tile_has_four_stages() {
        let large = CANDIDATES.iter().find(|tile| tile.rows == 128 && tile.columns == 256).copied();
        assert_eq!(
            large
                .and_then(|tile| fit(tile, &Needs::plain(), Sm90::H200))
                .map(|schedule| schedule.stages),
            Some(4)
        );
    }

    #[test]
    fn slots_of_c_are_reused_where_stages_are_scarce() {
        let (epilogue_loads, epilogue_stores) =
            (vec![EpilogueTransfer::Tma], vec![EpilogueTransfer::Tma]);
        let slots = SlotCounts { loads: 1, stores: 1, reusable: 1 };
        let needs = Needs { epilogue_loads, epilogue_stores, slots, ..Needs::plain() };
        let mut reusing = 0;
        for kibibytes in 100..228 {
            let chip = Sm90 { shared_bytes: kibibytes * 1024, ..Sm90::H200 };
            let usual = fit_with(CANDIDATES[0], &needs, chip, false);
            let Some(taken) = fit(CANDIDATES[0], &needs, chip) else { continue };
            let stages = usual.map_or(0, |usual| usual.stages);
            assert!(taken.stages >= stages && (!taken.reuse_c || stages < SCARCE_STAGES));
            assert!(taken.shared_bytes() <= chip.shared_bytes);
            reusing += u32::from(taken.reuse_c && taken.stages > stages);
        }
        assert!(reusing > 0);
    }

    #[test]
    fn knobs_that_a_schedule_does_not_name_are_the_planners() {
        let schedule = fit(CANDIDATES[0], &Needs::plain(), Sm90::H200).expect("it fits");
        let named = |line: &&str| {
            ["fragment", "reuse_c", "delay_store", "slots"].iter().all(|knob| !line.contains(knob))
        };
        let printed = schedule.to_string();
        let fewer: Vec<&str> = printed.lines().filter(named).collect();
        let slots = SlotCounts::default();
        let needs = Needs { slots, ..schedule.needs.clone() };
        assert_eq!(fewer.join("\n").parse(), Ok(Sm90Schedule { needs, ..schedule }));
    }

    #[test]
    fn a_printed_schedule_reads_back() {
        for tile in CANDIDATES {
            let epilogue_loads = if tile.cluster.split_k() == 1 {
                EpilogueTransfer::ALL.to_vec()
            } else {
                Vec::new()
            };
            let needs = Needs { epilogue_loads, ..Needs::plain() };
            let slots = SlotCounts { loads: 2, stores: 1, reusable: 1 };
            let needs = Needs { slots, ..needs };
            let schedule = fit(*tile, &needs, Sm90::H200).expect("it fits");
            let (fragment, reuse_c, delay_store) = (16, true, true);
            for schedule in
                [Sm90Schedule { fragment, reuse_c, delay_store, ..schedule.clone() }, schedule]
            {
                assert_eq!(schedule.to_string().parse(), Ok(schedule));
            }
        }
    }
}
