//! Tuning: the schedules of a call are timed on the GPU that its arrays are on.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use postlude::runtime::Device;
use postlude::tuning::{Measured, TuneOptions, Tuned};
use postlude::{Error, Sizes};
use pyo3::prelude::*;

use crate::array::Location;
use crate::call::Arrays;
use crate::error::mistake;
use crate::kernel::{Given, Kernel, Typed};

/// A schedule, its microseconds in turn and alone, its rounds, whether it is the planner's, and whether it is taken.
type Timed = (String, f64, Option<f64>, usize, bool, bool);
/// Each launch with its name, its sizes and its schedules; the file of the records, or why there is none; whether it ended
/// early.
pub(crate) type Answer = (Vec<(String, String, Vec<Timed>)>, Option<String>, Option<String>, bool);

/// Times the schedules of a call, whose outputs are where results would go: they are not written.
pub(crate) fn tune<'py>(
    py: Python<'py>,
    kernel: &Kernel,
    typed: &Typed,
    given: &[Given<'py>],
    outputs: &[Bound<'py, PyAny>],
    budget: f64,
) -> PyResult<Answer> {
    let (arrays, place) = Arrays::with_outputs(py, kernel, typed, given, outputs)?;
    let Location::Gpu(number) = place else {
        let help = "give arrays that are on a GPU";
        return Err(mistake(py, "the arrays are on the CPU, where nothing is tuned", Some(help)));
    };
    let budget = Duration::try_from_secs_f64(budget).ok().filter(|time| !time.is_zero());
    let Some(budget) = budget else {
        return Err(mistake(py, "the budget is no time", Some("give seconds: `budget=4.0`")));
    };
    let raised = Mutex::new(None);
    let raised_now = || raised.lock().unwrap_or_else(PoisonError::into_inner);
    let stop = || {
        // Ctrl-C: what was measured is kept before it is raised.
        let mut raised = raised_now();
        let signals = Python::attach(|py| -> PyResult<()> { py.check_signals() });
        if let Err(error) = signals {
            raised.get_or_insert(error);
        }
        raised.is_some()
    };
    let note = Some(typed.kernel.ast().to_string());
    let options = TuneOptions { budget, stop: &stop, note, ..TuneOptions::default() };
    let tuned = py.detach(|| -> Result<Tuned, Error> {
        let device = Device::open(number)?;
        // Arrays may still be written on the framework's streams.
        device.synchronize()?;
        let (inputs, outputs) = arrays.device_arguments(typed);
        typed.compiled.tune_on(&device, &inputs, &outputs, &Sizes::new(), &options)
    });
    // Calls that were prepared have the schedules from before.
    typed.entries.lock().unwrap_or_else(PoisonError::into_inner).clear();
    if let Some(error) = raised_now().take() {
        return Err(error);
    }
    let tuned = tuned.map_err(|error| kernel.call_error(py, &error))?;
    let launches = tuned.launches.iter().map(|launch| {
        let measured = launch.measured.iter().map(timed).collect();
        (launch.name.clone(), launch.sizes.clone(), measured)
    });
    let file = tuned.file.as_ref().map(|file| file.display().to_string());
    Ok((launches.collect(), file, tuned.not_kept.clone(), tuned.stopped))
}

fn timed(measured: &Measured) -> Timed {
    let Measured { schedule, interleaved, alone, rounds, planned, chosen } = measured;
    let alone = alone.map(|alone| 1e6 * alone);
    (schedule.to_string(), 1e6 * interleaved, alone, *rounds, *planned, *chosen)
}
