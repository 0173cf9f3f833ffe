//! What the elements of an operand share that load warps widen, as a kernel gets it: numbers, and tensors with runs of K as
//! columns.

use postlude_ptx::kernel::{Kernel, NumberParameter};
use postlude_ptx::target::Tma;
use postlude_ptx::types::F32;

use crate::dtype::DType;
use crate::graph::{Input, InputId, greatest_divisor};
use crate::target::sm90::plan::{ColumnScale, Widened};

use super::batch::Batching;
use super::block_scale::{Along, ScaleParameter};
use super::memory::Memory;

/// An input that elements share.
#[derive(Clone)]
pub(super) struct SharedValue<'k> {
    pub(super) dtype: DType,
    pub(super) given: SharedGiven<'k>,
}

#[derive(Clone)]
pub(super) enum SharedGiven<'k> {
    Host(NumberParameter<'k, F32>),
    /// In memory: rows that share one, and elements of K, if it varies along them.
    Memory {
        memory: Memory<'k>,
        rows: u32,
        run: Option<u32>,
    },
}

/// The inputs that elements share, by their places in the operand's graph.
pub(super) struct SharedValues<'k>(pub(super) Vec<Option<SharedValue<'k>>>);

impl<'k> SharedValues<'k> {
    /// Declares their parameters; `batching` is that of an input of a name.
    pub(super) fn declare<C: Tma>(
        k: Kernel<'k, C>,
        widened: Widened<'_>,
        batching: impl Fn(&str) -> Batching,
    ) -> Self {
        let graph = widened.graph;
        let declare = |(place, input): (usize, &Input)| {
            if place == widened.source.0 as usize {
                return None;
            }
            let (name, dtype) = (format!("shared{place}"), input.dtype);
            let given = if input.dims.is_none() {
                SharedGiven::Host(k.parameter_f32(&name))
            } else {
                let axes = graph.input_axes(InputId(place as u32));
                let rows = axes.and_then(|axes| axes.row).unwrap_or(1);
                let run = axes.and_then(|axes| axes.column);
                let run = run.map(|run| run / graph.space().column.divisor());
                SharedGiven::Memory {
                    memory: Memory::declare(k, &name, (dtype, batching(&input.name)), None),
                    rows,
                    run,
                }
            };
            Some(SharedValue { dtype, given })
        };
        SharedValues(graph.inputs().iter().enumerate().map(declare).collect())
    }

    /// These, and behind them the block scales of the operand's rows.
    pub(super) fn with_scales(&self, scales: &[ScaleParameter<'k>]) -> Self {
        let factor = |scale: &ScaleParameter<'k>| {
            let rows = match scale.along {
                Along::Columns(ColumnScale::Each) => 1,
                Along::Columns(ColumnScale::Run(run)) | Along::Rows(run) => run.max(1),
            };
            let (memory, run) = (scale.memory.clone(), Some(scale.run));
            Some(SharedValue {
                dtype: DType::F32,
                given: SharedGiven::Memory { memory, rows, run },
            })
        };
        SharedValues(self.0.iter().cloned().chain(scales.iter().map(factor)).collect())
    }

    /// Elements of K that share each value that varies along them.
    pub(super) fn runs(&self) -> impl Iterator<Item = u32> {
        let run = |shared: &SharedValue<'k>| match shared.given {
            SharedGiven::Memory { run, .. } => run,
            SharedGiven::Host(_) => None,
        };
        self.0.iter().flatten().filter_map(run)
    }

    /// Elements of K that share all values; `None` where all elements do.
    pub(super) fn run(&self) -> Option<u32> {
        self.runs().reduce(greatest_divisor)
    }
}
