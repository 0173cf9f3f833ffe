//! Events in JSON and in a drawing.

use super::{Doing, Event, Phase, Row, chrome, draw};

fn event(row: Row, doing: Doing, from: u64, to: u64) -> Event {
    let phase = Phase { region: Some("barriers".to_owned()), place: 2, phase: Some(1) };
    Event { cta: 0, row, doing, from, to, line: 7, phase: Some(phase) }
}

fn events() -> Vec<Event> {
    vec![
        event(Row::Producer { warp: 0 }, Doing::Load, 0, 10),
        event(Row::Loads, Doing::Load, 0, 60),
        event(Row::Loads, Doing::Load, 5, 70),
        event(Row::TensorCore { warpgroup: 1 }, Doing::Multiply, 60, 90),
        event(Row::Consumer { warp: 4 }, Doing::Wait, 0, 60),
        event(Row::Consumer { warp: 4 }, Doing::Store, 60, 100),
        event(Row::Stores, Doing::Store, 95, 100),
    ]
}

#[test]
fn copies_under_way_together_lie_in_rows_of_their_own() {
    let text = chrome(&events());
    for wanted in [
        "\"name\":\"TMA loads 0\"",
        "\"name\":\"TMA loads 1\"",
        "{\"ph\":\"X\",\"pid\":0,\"tid\":2001,\"name\":\"load\",\"ts\":5,\"dur\":65,\"args\":{\"line\":7,\"barrier\":\"barriers\",\"stage\":2,\"phase\":1}}",
    ] {
        assert!(text.contains(wanted), "{wanted}\n{text}");
    }
    assert_eq!(text.matches('{').count(), text.matches('}').count());
    assert!(!text.contains(",\n]") && chrome(&[]).contains("[\n\n]"));
}

#[test]
fn a_drawing_has_a_hundred_columns_at_most() {
    let text = draw(&events(), 0);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let row =
        |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or("").to_owned();
    assert!(row("loads").contains('2') && row("tensor core").contains('M'), "{text}");
    assert!(row("consumer").contains('.') && row("consumer").contains('S'), "{text}");
}
