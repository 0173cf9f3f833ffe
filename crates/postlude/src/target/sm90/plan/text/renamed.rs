//! Words of the last release, which schedules are still read by.
//!
//! In: a line of a schedule. Out: the same in the words of this release. To be removed with the next release.

use crate::plan::knobs;

use super::super::operand::MOVED_DEPTH;
use super::super::schedule::Sm90Schedule;

/// Knobs that have another name, with it.
const KNOBS: [(&str, &str); 12] = [
    ("teams", "kernel"),
    ("consumers", "math_warpgroups"),
    ("walk", "raster"),
    ("pending", "wgmma_in_flight"),
    ("subtile", "epilogue_tile"),
    ("load_stages", "c_stages"),
    ("store_stages", "d_stages"),
    ("reuse", "reuse_c"),
    ("delay", "delay_store"),
    ("looped", "epilogue_loop"),
    ("loads", "epilogue_loads"),
    ("stores", "epilogue_stores"),
];

/// Words of a value that have another name, with their knob.
const VALUES: [(&str, &str, &str); 10] = [
    ("operands", "inner", "tma_k_major"),
    ("operands", "outer", "tma_mn_major"),
    ("operands", "inner_elements", "elements_k_major"),
    ("operands", "outer_elements", "elements_mn_major"),
    ("loads", "map", "tma"),
    ("loads", "map_transposed", "tma_transposed"),
    ("stores", "map", "tma"),
    ("stores", "map_transposed", "tma_transposed"),
    ("teams", "1", "cooperative"),
    ("teams", "2", "ping-pong"),
];

/// A line in the words of this release: one knob, or two where the last release had both in one.
pub(super) fn modern(knob: &str, value: &str) -> Vec<(String, String)> {
    let today = |word: &str| {
        let found = VALUES.iter().find(|(of, old, _)| *of == knob && *old == word);
        found.map_or(word.to_owned(), |(_, _, new)| (*new).to_owned())
    };
    let words: Vec<&str> = value.split_whitespace().collect();
    let one = |knob: &str, value: String| vec![(knob.to_owned(), value)];
    let split = value.rsplit_once('x').map(|(before, last)| (before.trim(), last.trim()));
    match (knob, &words[..]) {
        ("tile", _) if split.is_some_and(|(rows, _)| !rows.contains('x')) => {
            one(knob, format!("{value} x {MOVED_DEPTH}"))
        }
        ("cluster", _) if split.is_some_and(|(shape, _)| shape.contains('x')) => {
            let (shape, splits) = split.unwrap_or_default();
            vec![(knob.to_owned(), shape.to_owned()), ("split_k".to_owned(), splits.to_owned())]
        }
        ("walk", ["rows", group]) => one("raster", format!("along_n group {group}")),
        ("walk", ["columns", group]) => one("raster", format!("along_m group {group}")),
        _ => {
            let name = KNOBS.iter().find(|(old, _)| *old == knob).map_or(knob, |(_, new)| *new);
            one(name, words.iter().map(|word| today(word)).collect::<Vec<_>>().join(" "))
        }
    }
}

/// The lines of a schedule that are in words of the last release, each with the same in the words of this one. Both are
/// read; the next release reads only the latter.
pub(crate) fn renamed_words(text: &str) -> Vec<(String, String)> {
    let line = |knob: &str, value: &str| format!("{knob} {value}").trim().to_owned();
    let spaced = |value: &str| value.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines = knobs(text, Sm90Schedule::OPENING).unwrap_or_default().into_iter();
    let renamed = lines.map(|(_, knob, value)| {
        let modern = modern(knob, value);
        let lines: Vec<String> = modern.iter().map(|(knob, value)| line(knob, value)).collect();
        (line(knob, &spaced(value)), lines.join(", "))
    });
    renamed.filter(|(old, new)| old != new).collect()
}

#[cfg(test)]
mod tests {
    use super::renamed_words;
    use crate::target::sm90::plan::{EpilogueTransfer, OperandLoad, RasterOrder, Sm90Schedule};
    use crate::target::tile::{Cluster, KernelSchedule};

    const OLD: &str = "schedule sm90 {
    tile 64 x 64
    consumers 1
    teams 1
    cluster 1 x 1 x 4
    stages 2
    subtile 32
    fragment 8
    load_stages 1
    store_stages 2
    reuse 0
    delay 1
    looped 1
    pending 1
    hints none
    walk columns 5
    operands inner outer
    loads map_transposed contiguous
    stores map
    column_values 1
}
";

    #[test]
    fn a_schedule_of_the_last_release_is_read() {
        let schedule: Sm90Schedule = OLD.parse().expect("it is read");
        assert_eq!(schedule.tile.kernel, KernelSchedule::Cooperative);
        assert_eq!(schedule.tile.math_warpgroups, 1);
        assert_eq!(schedule.tile.cluster, Cluster::SPLIT_K_4);
        assert_eq!((schedule.raster.order, schedule.raster.group), (RasterOrder::AlongM, 5));
        assert_eq!((schedule.epilogue_tile, schedule.wgmma_in_flight), (32, 1));
        assert_eq!((schedule.c_stages, schedule.d_stages), (1, 2));
        assert_eq!((schedule.reuse_c, schedule.delay_store), (false, true));
        assert!(schedule.epilogue_loop);
        let operands = schedule.needs.mainloop.as_ref().map(|mainloop| mainloop.operands);
        assert_eq!(operands, Some([OperandLoad::TmaKMajor, OperandLoad::TmaMnMajor]));
        let loads = [EpilogueTransfer::TmaTransposed, EpilogueTransfer::Contiguous];
        assert_eq!(schedule.needs.epilogue_loads, loads);
        assert_eq!(schedule.needs.epilogue_stores, [EpilogueTransfer::Tma]);
        let printed = schedule.to_string();
        assert_eq!(printed.parse(), Ok(schedule));
        assert!(renamed_words(&printed).is_empty());
    }

    #[test]
    fn lines_in_words_of_the_last_release_are_named() {
        let renamed = renamed_words(OLD);
        let of = |old: &str| renamed.iter().find(|(line, _)| line == old).map(|(_, new)| &**new);
        assert_eq!(of("teams 1"), Some("kernel cooperative"));
        assert_eq!(of("tile 64 x 64"), Some("tile 64 x 64 x 64"));
        assert_eq!(of("cluster 1 x 1 x 4"), Some("cluster 1 x 1, split_k 4"));
        assert_eq!(of("walk columns 5"), Some("raster along_m group 5"));
        assert_eq!(of("stages 2"), None);
    }

    #[test]
    fn a_knob_stands_once_whichever_word_is_used() {
        let twice = OLD.replace("pending 1", "pending 1\n    wgmma_in_flight 1");
        let error = twice.parse::<Sm90Schedule>().unwrap_err();
        assert_eq!(error.to_string(), "the knob `wgmma_in_flight` stands twice");
    }
}
