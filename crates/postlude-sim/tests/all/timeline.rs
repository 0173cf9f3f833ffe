//! A timeline of an emitted kernel.

use crate::bound::{Bound, epilogue, tile};
use postlude::DType;
use postlude_sim::trace::{Doing, Event, Row, Timeline, chrome, draw};
use postlude_sim::{Options, Several, Timing, run_observed};

fn events(timing: Timing) -> Vec<Event> {
    let bound =
        Bound::new(&epilogue("residual", DType::BF16), [1, 256, 128, 512], tile(128, 128, 1), 1);
    let mut timeline = Timeline::new(&bound.regions);
    let mut buffers = bound.buffers.clone();
    let options = Options { timing, ..Options::default() };
    let mut all = Several(vec![&mut timeline]);
    run_observed(&bound.text, &bound.launch, &mut buffers, &options, &mut all)
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(timeline.lost(), 0);
    timeline.events()
}

#[test]
fn every_row_has_its_events_and_those_of_a_warp_do_not_overlap() {
    for timing in [Timing::Eager, Timing::Lazy, Timing::Random { seed: 5 }] {
        let events = events(timing);
        let count = |row: Row| events.iter().filter(|event| event.row == row).count();
        // Two tiles of 8 stages of A and B; two warpgroups with 8 stages of 4 products a tile.
        let stages = |event: &&Event| {
            let phase = event.phase.as_ref().and_then(|phase| phase.region.as_deref());
            event.row == Row::Loads && phase == Some("barriers")
        };
        assert_eq!(events.iter().filter(stages).count(), 2 * 8 * 2);
        for warpgroup in [1, 2] {
            assert_eq!(count(Row::TensorCore { warpgroup }), 2 * 8 * 4);
        }
        // Each warp sends 16 rows of 64 columns out.
        assert_eq!(count(Row::Stores), 256 * 128 / (16 * 64));
        assert!(count(Row::Producer { warp: 0 }) > 0 && count(Row::Consumer { warp: 4 }) > 0);
        for pair in events.windows(2) {
            let copies = matches!(pair[0].row, Row::Loads | Row::Stores);
            if (pair[0].cta, pair[0].row) == (pair[1].cta, pair[1].row) && !copies {
                assert!(pair[0].to <= pair[1].from, "{timing}: {pair:?}");
            }
        }
        assert!(events.iter().any(|event| event.doing == Doing::Wait && event.phase.is_some()));
        assert!(draw(&events, 0).lines().all(|line| line.chars().count() <= 100));
        assert!(chrome(&events).len() > 1000);
    }
}
