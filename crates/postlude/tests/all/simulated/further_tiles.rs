//! Tiles that only products with little to compute behind them have.

use postlude::Options;
use postlude::target::{Chip, Schedule};
use postlude_corpus::is_thorough;

use super::problems::Layout;
use super::{bound, check, for_each};

#[test]
fn further_tiles_of_light_products_are_right() {
    let bound = bound("two_outputs", [1, 392, 520, 200], Layout::Packed);
    let compiled = bound.kernel.compile(&Options::default());
    let placements = bound.placements(&compiled);
    let planning = compiled.planning(&bound.problem, &placements, Chip::STANDARD);
    let every = planning.expect("it is one launch").every().expect("it is not refused");
    let further = |schedule: &&Schedule| {
        schedule.knob("split_k_slices").is_none()
            && !Chip::STANDARD.tiles().contains(&schedule.tile())
    };
    let further: Vec<&Schedule> = every.iter().filter(further).collect();
    assert!(further.len() > 80, "{}", further.len());
    let step = if is_thorough() { 1 } else { 6 };
    let some: Vec<&Schedule> = further.into_iter().step_by(step).collect();
    for_each(&some, |schedule| {
        assert_eq!(check(&bound, Some(schedule), Layout::Packed).tile(), schedule.tile());
    });
}
