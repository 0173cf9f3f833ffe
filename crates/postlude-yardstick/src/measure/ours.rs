//! A kernel of ours on every set of buffers.

use std::collections::BTreeMap;
use std::time::Instant;

use postlude::cuda::PreparedCall;
use postlude::runtime::{Device, DeviceTensor, Stream};
use postlude::target::{Chip, Planned};
use postlude::{Compiled, Error, Kernel, Options, Problem};

use crate::data::Data;
use crate::error::YardstickError;
use crate::suite::Row;

/// A kernel with a call for each set.
pub(crate) struct Ours {
    pub(crate) compiled: Compiled,
    /// Milliseconds in which it was compiled, loaded and prepared for its first set.
    pub(crate) load_milliseconds: f64,
    calls: Vec<PreparedCall>,
}

impl Ours {
    /// Compiles and loads it, and prepares its calls.
    pub(crate) fn prepare(
        device: &Device,
        kernel: &Kernel,
        options: &Options,
        row: &Row,
        data: &Data,
        results: impl Fn(usize) -> BTreeMap<String, DeviceTensor>,
    ) -> Result<Ours, YardstickError> {
        let start = Instant::now();
        let compiled = kernel.compile(options);
        let sizes = row.named_sizes();
        let prepare = |set| {
            let inputs = data.arguments(compiled.defined(), set);
            compiled.prepare_on(device, &inputs, &results(set), &sizes)
        };
        let mut calls = vec![prepare(0).map_err(YardstickError::Call)?];
        let load_milliseconds = 1e3 * start.elapsed().as_secs_f64();
        for set in 1..data.sets {
            calls.push(prepare(set).map_err(YardstickError::Call)?);
        }
        Ok(Ours { compiled, load_milliseconds, calls })
    }

    /// Queues it on a set; numbers beyond the last start again.
    pub(crate) fn launch(&self, set: usize, stream: &Stream) -> Result<(), YardstickError> {
        self.calls[set % self.calls.len()].launch(stream).map_err(YardstickError::Call)
    }

    /// One of its calls.
    pub(crate) fn call(&self) -> &PreparedCall {
        &self.calls[0]
    }
}

/// The sizes of a row.
pub(crate) fn problem(kernel: &Kernel, row: &Row) -> Result<Problem, YardstickError> {
    Problem::new(kernel.defined(), &row.named_sizes())
        .map_err(|error| YardstickError::Kernel { row: row.name.clone(), error: error.into() })
}

/// Why the planner does not take a row, if it does not. [`Data`] lies as is assumed here: without gaps, each tensor in
/// memory of its own.
pub(crate) fn refusal(kernel: &Kernel, problem: &Problem, row: &Row, chip: Chip) -> Option<String> {
    planned(&kernel.compile(&row.options()), problem, chip).err().map(|error| error.summary())
}

/// A row as the planner runs it.
fn planned(compiled: &Compiled, problem: &Problem, chip: Chip) -> Result<Planned, Error> {
    compiled.last_launch(problem, chip)
}
