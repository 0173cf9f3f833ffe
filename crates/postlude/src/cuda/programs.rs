//! The code that the launches of a kernel have so far: one function for each form, schedule, GPU and choice of inputs that
//! are of int64.
//!
//! Invariant: sizes, the grid's limit and the order of tiles are not part of a schedule's code, so calls that differ in them alone share a
//! function, and nothing is emitted or printed again for them.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::program::KernelForm;
use crate::runtime::cache::DiskCache;
use crate::runtime::{Device, Function, RuntimeError};
use crate::target::{self, Planned, Schedule};

/// A loaded kernel.
#[derive(Clone)]
pub(super) struct Program {
    pub(super) function: Function,
    /// Bytes of a thread that did not fit its registers.
    pub(super) spilled: u32,
}

/// A place for a program of a form; whoever holds it first emits and loads. The form stays where it is as long.
type Place = (Arc<KernelForm>, Arc<Mutex<Option<Program>>>);

/// What decides code: where the form is, the number of a GPU, a part of the schedule, and the places of inputs that are of
/// int64.
type Key = (usize, u32, Schedule, Vec<usize>);

/// Programs by what decides their code.
pub(super) struct Programs {
    /// The folder of compiled ones; the user's own when `None`.
    cache: Option<PathBuf>,
    places: Mutex<HashMap<Key, Place>>,
}

impl Programs {
    /// None yet; compiled ones are kept in this folder.
    pub(super) fn new(cache: Option<PathBuf>) -> Programs {
        Programs { cache, places: Mutex::default() }
    }

    /// The program of a planned call: from memory, or emitted and loaded now.
    pub(super) fn get(
        &self,
        form: &Arc<KernelForm>,
        device: &Device,
        planned: &Planned,
    ) -> Result<Program, RuntimeError> {
        let code = planned.schedule().code();
        let (_, place) = {
            let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
            let int64 = planned.placements().int64_inputs();
            let key = (Arc::as_ptr(form).addr(), device.ordinal(), code, int64);
            places.entry(key).or_insert_with(|| (form.clone(), Arc::default())).clone()
        };
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = &*place {
            return Ok(program.clone());
        }
        let text = planned.emit_overlapping(form.settings.math, form.overlaps()).to_string();
        let cache = self.cache.as_ref().map_or_else(DiskCache::standard, DiskCache::at);
        let function = device.load_through(&cache, &text, target::ENTRY)?;
        let spilled = function.local_bytes()?;
        Ok(place.insert(Program { function, spilled }).clone())
    }

    /// The schedule that takes the fewest cycles with what its code spills, and that code. Schedules come best first:
    /// one that takes as long without spills as the best so far with its own is not compiled.
    pub(super) fn choose(
        &self,
        form: &Arc<KernelForm>,
        device: &Device,
        all: &[Planned],
    ) -> Result<(Planned, Program), RuntimeError> {
        let mut best: Option<(f64, Planned, Program)> = None;
        for planned in all {
            let beaten = |cycles: f64| best.as_ref().is_some_and(|(best, ..)| *best <= cycles);
            if beaten(planned.cycles(0)) {
                continue;
            }
            let program = self.get(form, device, planned)?;
            let cycles = planned.cycles(program.spilled);
            if !beaten(cycles) {
                best = Some((cycles, planned.clone(), program));
            }
        }
        let Some((_, planned, program)) = best else {
            panic!("compiler bug: planning gave no schedule")
        };
        Ok((planned, program))
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl fmt::Debug for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} programs", self.count())
    }
}
