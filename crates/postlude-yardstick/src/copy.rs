//! Copies alone: how many bytes a second memory reads and writes.
//!
//! In: a GPU. Out: bytes read plus bytes written in a second, by the driver's own copy of buffers that no cache holds.

use postlude::runtime::{Device, Event, RuntimeError, Stream};

use crate::statistics;

/// Bytes of each buffer: many times any L2.
const BYTES: u64 = 1 << 30;
/// Copies that are timed.
const COPIES: usize = 20;

/// The median over some copies, in bytes a second.
pub fn bandwidth(device: &Device, stream: &Stream) -> Result<f64, RuntimeError> {
    let (from, to) = (device.allocate(BYTES)?, device.allocate(BYTES)?);
    from.fill(stream, 0, BYTES, 0x5a)?;
    let events: Vec<Event> =
        (0..=COPIES).map(|_| Event::new(device)).collect::<Result<_, RuntimeError>>()?;
    // The first one warms up.
    to.copy_from(stream, &from)?;
    for event in &events[..COPIES] {
        event.record(stream)?;
        to.copy_from(stream, &from)?;
    }
    events[COPIES].record(stream)?;
    stream.synchronize()?;
    let mut seconds = Vec::with_capacity(COPIES);
    for pair in events.windows(2) {
        seconds.push(pair[1].since(&pair[0])?.as_secs_f64());
    }
    Ok(2.0 * BYTES as f64 / statistics::median(&seconds))
}
