//! A kernel that waits, so that the host can queue work behind it.
//!
//! In: nanoseconds. Out: a launch that keeps its stream busy for about that long, on one thread of one SM.

use postlude::runtime::{Device, PreparedLaunch, RuntimeError, Stream};
use postlude_ptx::entry::Entry;
use postlude_ptx::kernel::{Attributes, build};
use postlude_ptx::launch::Parameter;
use postlude_ptx::target::Sm90a;

use crate::program;

/// What one look at the clock waits before the next, in nanoseconds.
const NAP: u32 = 200;

/// The kernel.
pub fn entry() -> Entry {
    build::<Sm90a>("yardstick_sleep", Attributes::new(1), |k| {
        let length = k.parameter_u64("nanoseconds").load();
        let start = k.nanoseconds();
        k.do_while(|| {
            k.sleep(NAP);
            (k.nanoseconds() - start).lt(length)
        });
    })
}

/// Sleeps of chosen lengths: a launch for each power of two microseconds.
pub struct Sleep {
    launches: Vec<(u64, PreparedLaunch)>,
}

/// The shortest and the longest sleep, in microseconds, as powers of two: 32 us and 134 ms.
const POWERS: std::ops::RangeInclusive<u32> = 5..=17;

impl Sleep {
    /// Prepares them.
    pub fn new(device: &Device) -> Result<Sleep, RuntimeError> {
        let entry = entry();
        let prepare = |power: u32| {
            let nanoseconds = 1000 << power;
            let launch = program::launch(1, 1, 0, vec![Parameter::U64(nanoseconds)]);
            Ok((nanoseconds, program::prepare(device, &entry, launch, &[])?))
        };
        Ok(Sleep { launches: POWERS.map(prepare).collect::<Result<_, RuntimeError>>()? })
    }

    /// Queues the shortest sleep of at least this many nanoseconds, or the longest; says how long it is.
    pub fn at_least(&self, nanoseconds: u64, stream: &Stream) -> Result<u64, RuntimeError> {
        let place = self.launches.partition_point(|(length, _)| *length < nanoseconds);
        let (length, launch) = &self.launches[place.min(self.launches.len() - 1)];
        launch.launch(stream)?;
        Ok(*length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::assembled::assemble;

    #[test]
    fn the_kernel_that_waits_assembles() {
        assemble(&entry());
    }
}
