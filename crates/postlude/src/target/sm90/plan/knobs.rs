//! Which knobs of a given schedule no kernel has.

use crate::target::tile::{Cluster, Tile};

use super::raster::Raster;
use super::refusal::Sm90Refusal;
use super::reuse;
use super::row_needs::{MOST_CTAS, MOST_THREADS};
use super::schedule::Sm90Schedule;
use super::slices::MOST_SLICES;
use super::slots::MOST_STAGES;
use super::streamed;

/// CTAs of a cluster that multicast to one another, or split K, at most.
const MOST_MULTICAST: u32 = 4;

/// Refuses a schedule that no kernel can be emitted for.
pub(super) fn refuse(schedule: &Sm90Schedule) -> Result<(), Sm90Refusal> {
    refuse_values(schedule)?;
    if !schedule.fragment.is_multiple_of(8)
        || schedule.fragment == 0
        || !schedule.epilogue_tile.is_multiple_of(schedule.fragment)
    {
        return Err(Sm90Refusal::Fragment { epilogue_tile: schedule.epilogue_tile });
    }
    reuse::refuse(schedule)?;
    if schedule.delay_store && schedule.d_bytes() > 0 && schedule.d_stages < 2 {
        return Err(Sm90Refusal::DelayedSlot);
    }
    Ok(())
}

/// Refuses a tile or a value that no kernel can be emitted for.
fn refuse_values(schedule: &Sm90Schedule) -> Result<(), Sm90Refusal> {
    let tile = schedule.tile;
    let known =
        schedule.needs.tiles().any(|known| Tile { cluster: tile.cluster, ..*known } == tile);
    let rounds = schedule.rounds.checked_mul(schedule.span());
    let rounds_fit = schedule.rounds == 0
        || schedule.epilogue_loop
            && rounds.is_some_and(|columns| schedule.width().is_multiple_of(columns));
    let multiplies = schedule.needs.mainloop.is_some();
    let fewest = schedule.needs.fewest_stages(tile);
    let mainloop_stages = if multiplies { fewest..=MOST_STAGES } else { 0..=0 };
    let mainloop = schedule.needs.mainloop.as_ref();
    let at_once =
        mainloop.filter(|it| it.is_widened()).map_or(0, |mainloop| tile.stages_at_once(mainloop));
    let most =
        if tile.has_blocks() { 1 } else { MOST_CTAS.min(MOST_THREADS / schedule.threads().max(1)) };
    let stages = |count: u32| (1..=MOST_STAGES).contains(&count);
    let knobs = [
        (
            "cluster",
            Cluster::ALL.contains(&tile.cluster)
                && (tile.cluster.blocks() <= MOST_MULTICAST || tile.streams_rows()),
        ),
        ("tile", known && tile.takes(&schedule.needs)),
        ("epilogue_loads", schedule.needs.clone().settled() == schedule.needs),
        (
            "epilogue_tile",
            [16, 32, 64].contains(&schedule.epilogue_tile)
                && schedule.width().is_multiple_of(schedule.epilogue_tile),
        ),
        ("stages", mainloop_stages.contains(&schedule.stages)),
        ("c_stages", stages(schedule.c_stages) || tile.streams_rows()),
        ("d_stages", stages(schedule.d_stages)),
        (
            "wgmma_in_flight",
            schedule.wgmma_in_flight <= u32::from(multiplies)
                && schedule.stages >= at_once + schedule.wgmma_in_flight,
        ),
        ("short_rows", mainloop.is_none_or(|it| [0, 8, 16, 32].contains(&it.short_rows))),
        ("rounds", rounds_fit),
        ("held", tile.holds_rows() == schedule.needs.rows.is_some()),
        ("folds", !tile.holds_rows() || tile.folds_strips() == schedule.needs.folds.of_strips()),
        ("c_stages", streamed::is_whole(schedule)),
        ("kernel", tile.is_by_elements() == schedule.needs.by_elements),
        ("copied_bytes", schedule.needs.copied_bytes == 0 || schedule.needs.by_elements),
        (
            "split_k_slices",
            schedule.split_k_slices == 1
                || (1..=MOST_SLICES).contains(&schedule.split_k_slices)
                    && tile.takes_slices(&schedule.needs),
        ),
        (
            "data_parallel_waves",
            schedule.data_parallel_waves == 0
                || schedule.split_k_slices > 1 && mainloop.is_some_and(|it| !it.is_widened()),
        ),
        ("ctas", (1..=most).contains(&schedule.ctas)),
        ("grid_limit", schedule.grid_limit != Some(0)),
        ("raster", (1..=Raster::MOST).contains(&schedule.raster.group)),
    ];
    match knobs.into_iter().find(|(_, fits)| !fits) {
        Some((knob, _)) => Err(Sm90Refusal::Knob { knob }),
        None => Ok(()),
    }
}
