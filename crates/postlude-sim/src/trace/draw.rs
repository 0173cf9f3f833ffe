//! Events as a drawing for a terminal: one CTA, a line a row, a hundred columns at most.

use super::{Doing, Event, Row};

/// Columns of the drawing without the names.
const COLUMNS: usize = 76;
/// Columns of names.
const NAMES: usize = 22;

/// A drawing of one CTA. Rows of warps and tensor cores show what takes most of a column; rows of copies, how many are
/// under way at most.
pub fn draw(events: &[Event], cta: u32) -> String {
    let own: Vec<&Event> = events.iter().filter(|event| event.cta == cta).collect();
    let begin = own.iter().map(|event| event.from).min().unwrap_or(0);
    let end = own.iter().map(|event| event.to).max().unwrap_or(0).max(begin + 1);
    let step = (end - begin).div_ceil(COLUMNS as u64).max(1);
    let mut rows: Vec<Row> =
        own.iter().map(|event| event.row).filter(|row| is_drawn(*row)).collect();
    rows.sort_unstable();
    rows.dedup();
    let draw_row = |row: Row| {
        let events: Vec<&&Event> = own.iter().filter(|event| event.row == row).collect();
        let columns = (end - begin).div_ceil(step);
        let cell = |column: u64| {
            let from = begin + column * step;
            match row {
                Row::Loads | Row::Stores => count(&events, from, from + step),
                Row::Producer { .. }
                | Row::TensorCore { .. }
                | Row::Consumer { .. }
                | Row::Warp { .. } => most(&events, from, from + step),
            }
        };
        let line: String = (0..columns).map(cell).collect();
        format!("{:<NAMES$}{}\n", title(row), line.trim_end())
    };
    let drawn: String = rows.into_iter().map(draw_row).collect();
    let legend = "L load  M multiply  S store  w work  . wait  1-9 copies";
    format!("CTA {cta}, {step} instructions a column\n{drawn}{:NAMES$}{legend}\n", "")
}

/// One warp of a warpgroup speaks for all.
fn is_drawn(row: Row) -> bool {
    match row {
        Row::Consumer { warp } => warp % 4 == 0,
        Row::Warp { .. } => false,
        Row::Producer { .. } | Row::Loads | Row::TensorCore { .. } | Row::Stores => true,
    }
}

fn title(row: Row) -> String {
    match row {
        Row::Producer { warp } => format!("producer, warp {warp}"),
        Row::Loads => "loads".to_owned(),
        Row::TensorCore { warpgroup } => format!("tensor core, group {warpgroup}"),
        Row::Consumer { warp } => format!("consumer, group {}", warp / 4),
        Row::Warp { warp } => format!("warp {warp}"),
        Row::Stores => "stores".to_owned(),
    }
}

fn overlap(event: &Event, from: u64, to: u64) -> u64 {
    event.to.min(to).saturating_sub(event.from.max(from))
}

/// What takes most of a column.
fn most(events: &[&&Event], from: u64, to: u64) -> char {
    let mut taken = [0_u64; 5];
    for event in events {
        taken[event.doing as usize] += overlap(event, from, to);
    }
    let all = [Doing::Work, Doing::Load, Doing::Store, Doing::Multiply, Doing::Wait];
    let best = all.into_iter().max_by_key(|doing| taken[*doing as usize]);
    match best.filter(|doing| taken[*doing as usize] > 0) {
        None => ' ',
        Some(Doing::Work) => 'w',
        Some(Doing::Load) => 'L',
        Some(Doing::Store) => 'S',
        Some(Doing::Multiply) => 'M',
        Some(Doing::Wait) => '.',
    }
}

/// How many are under way.
fn count(events: &[&&Event], from: u64, to: u64) -> char {
    match events.iter().filter(|event| overlap(event, from, to) > 0).count() {
        0 => ' ',
        count => char::from_digit(count.min(9) as u32, 10).unwrap_or('9'),
    }
}
