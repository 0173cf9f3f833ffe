//! The code that a kernel has so far: one function for each schedule and GPU.
//!
//! Invariant: sizes, the grid's limit and the order of tiles are not part of a schedule's code, so calls that differ in them alone share a
//! function, and nothing is emitted or printed again for them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::cuda::GpuKernel;
use crate::emit;
use crate::plan::sm90::Sm90Schedule;
use crate::runtime::{Device, Function, RuntimeError};

/// A loaded kernel.
#[derive(Clone)]
pub(super) struct Program {
    pub(super) function: Function,
    /// Bytes of a thread that did not fit its registers.
    pub(super) spilled: u32,
}

/// A place for a program; whoever holds it first emits and loads.
type Place = Arc<Mutex<Option<Program>>>;

/// Programs by the number of their GPU and the part of the schedule that decides their code.
#[derive(Default)]
pub(super) struct Programs {
    places: Mutex<HashMap<(u32, Sm90Schedule), Place>>,
}

impl Programs {
    /// The program of a schedule: from memory, or emitted and loaded now.
    fn get(
        &self,
        kernel: &GpuKernel,
        device: &Device,
        schedule: &Sm90Schedule,
    ) -> Result<Program, RuntimeError> {
        let code = schedule.code();
        let place = {
            let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
            places.entry((device.ordinal(), code.clone())).or_default().clone()
        };
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = &*place {
            return Ok(program.clone());
        }
        let text = emit::sm90::emit(&kernel.optimised, &code, kernel.settings.math).to_string();
        let function = device.load_through(&kernel.cache(), &text, emit::sm90::ENTRY)?;
        let spilled = function.local_bytes()?;
        Ok(place.insert(Program { function, spilled }).clone())
    }

    /// The first schedule whose code keeps everything in registers, with that code. Where none does, the one that spills
    /// least.
    pub(super) fn choose(
        &self,
        kernel: &GpuKernel,
        device: &Device,
        schedules: Vec<Sm90Schedule>,
    ) -> Result<Option<(Sm90Schedule, Program)>, RuntimeError> {
        let mut best: Option<(Sm90Schedule, Program)> = None;
        for schedule in schedules {
            let program = self.get(kernel, device, &schedule)?;
            let better = best.as_ref().is_none_or(|(_, best)| program.spilled < best.spilled);
            if better {
                let fits = program.spilled == 0;
                best = Some((schedule, program));
                if fits {
                    break;
                }
            }
        }
        Ok(best)
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
