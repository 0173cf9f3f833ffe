//! Events as Chrome's trace format: a process for each CTA, a thread for each row.

use std::fmt::Write;

use super::{Event, Phase, Row};

/// Rows under way at once, where events of one row overlap.
const MOST_LANES: usize = 64;

/// One JSON object. Copies that are under way together lie in rows of their own.
pub fn chrome(events: &[Event]) -> String {
    let mut text = String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    let mut named: Vec<(u32, u64)> = Vec::new();
    let mut lanes: Vec<u64> = Vec::new();
    let mut before: Option<(u32, Row)> = None;
    for event in events {
        if before != Some((event.cta, event.row)) {
            lanes.clear();
            before = Some((event.cta, event.row));
        }
        let free = lanes.iter().position(|end| *end <= event.from);
        let lane = free.unwrap_or(lanes.len()).min(MOST_LANES - 1);
        if lane == lanes.len() {
            lanes.push(0);
        }
        lanes[lane] = event.to;
        let thread = number(event.row, lane);
        if !named.iter().any(|(cta, _)| *cta == event.cta) {
            metadata(&mut text, event.cta, None, &format!("CTA {}", event.cta));
        }
        if !named.contains(&(event.cta, thread)) {
            named.push((event.cta, thread));
            metadata(&mut text, event.cta, Some(thread), &title(event.row, lane));
        }
        write_event(&mut text, event, thread);
    }
    if text.ends_with(",\n") {
        text.truncate(text.len() - 2);
    }
    text.push_str("\n]}\n");
    text
}

/// Rows in the order in which they are shown.
fn number(row: Row, lane: usize) -> u64 {
    let (group, place) = match row {
        Row::Producer { warp } => (1, warp as usize),
        Row::Loads => (2, lane),
        Row::TensorCore { warpgroup } => (3, warpgroup as usize),
        Row::Consumer { warp } => (4, warp as usize),
        Row::Warp { warp } => (5, warp as usize),
        Row::Stores => (6, lane),
    };
    group * 1000 + place as u64
}

fn title(row: Row, lane: usize) -> String {
    match row {
        Row::Producer { warp } => format!("producer, warp {warp}"),
        Row::Loads => format!("TMA loads {lane}"),
        Row::TensorCore { warpgroup } => format!("tensor core, warpgroup {warpgroup}"),
        Row::Consumer { warp } => format!("consumer, warp {warp}"),
        Row::Warp { warp } => format!("warp {warp}"),
        Row::Stores => format!("TMA stores {lane}"),
    }
}

fn metadata(text: &mut String, cta: u32, thread: Option<u64>, name: &str) {
    let (kind, thread) = match thread {
        None => ("process_name", 0),
        Some(thread) => ("thread_name", thread),
    };
    push(
        text,
        format_args!(
            "{{\"ph\":\"M\",\"pid\":{cta},\"tid\":{thread},\"name\":\"{kind}\",\"args\":{{\"name\":\"{name}\"}}}},\n"
        ),
    );
    if let Some(thread) = Some(thread).filter(|thread| *thread > 0) {
        push(
            text,
            format_args!(
                "{{\"ph\":\"M\",\"pid\":{cta},\"tid\":{thread},\"name\":\"thread_sort_index\",\"args\":{{\"sort_index\":{thread}}}}},\n"
            ),
        );
    }
}

fn write_event(text: &mut String, event: &Event, thread: u64) {
    let Event { cta, doing, from, to, line, phase, .. } = event;
    let (name, took) = (doing.name(), to - from);
    let phase = phase.as_ref().map_or_else(String::new, arguments);
    push(
        text,
        format_args!(
            "{{\"ph\":\"X\",\"pid\":{cta},\"tid\":{thread},\"name\":\"{name}\",\"ts\":{from},\"dur\":{took},\"args\":{{\"line\":{line}{phase}}}}},\n"
        ),
    );
}

fn arguments(phase: &Phase) -> String {
    let Phase { region, place, phase } = phase;
    let region = region.as_deref().unwrap_or("address");
    let region: String =
        region.chars().filter(|letter| !['"', '\\'].contains(letter) && *letter >= ' ').collect();
    // A ring's full barriers come before its empty ones, so the place of a full barrier is its stage.
    let phase = phase.map_or_else(|| "null".to_owned(), |phase| phase.to_string());
    format!(",\"barrier\":\"{region}\",\"stage\":{place},\"phase\":{phase}")
}

fn push(text: &mut String, what: std::fmt::Arguments<'_>) {
    text.write_fmt(what).expect("a string takes everything");
}
