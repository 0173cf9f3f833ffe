//! One launch of a call, with its code and what it was encoded with.

use std::sync::Arc;

use postlude_ptx::launch::{Buffer, Launch};

use super::tables::Tables;
use crate::cuda::check::Bound;
use crate::cuda::kernel::GpuKernel;
use crate::error::Error;
use crate::problem::Problem;
use crate::program::{KernelForm, KernelLaunch};
use crate::runtime::{Function, Order, PreparedLaunch, RuntimeError, Stream};
use crate::target::Planned;

/// A launch on tensors of a GPU.
pub(crate) struct GpuLaunch {
    pub(crate) form: Arc<KernelForm>,
    pub(crate) problem: Problem,
    pub(crate) planned: Planned,
    pub(crate) function: Function,
    /// What the host passes, by input.
    pub(super) scalars: Vec<Option<f64>>,
    /// Where each buffer is: inputs, then outputs.
    pub(super) addresses: Vec<u64>,
    /// Where the tensors of lists lie.
    pub(super) tables: Tables,
    /// `None` where no output has an element.
    encoded: Option<PreparedLaunch>,
}

impl GpuLaunch {
    /// A launch of a kernel with one of its schedules.
    pub(super) fn new(
        launch: &KernelLaunch,
        function: Function,
        bound: &[Bound],
        known: Option<&GpuLaunch>,
    ) -> Result<GpuLaunch, Error> {
        let lists = bound.iter().zip(0..);
        let lists = lists.filter_map(|(bound, place)| Some((Buffer(place), bound.list.clone()?)));
        let lists: Vec<_> = lists.collect();
        let same = known.filter(|known| known.tables.are_of(&lists));
        let tables = match same {
            Some(known) => known.tables.clone(),
            None => Tables::new(&lists, function.device())?,
        };
        let inputs = launch.graph().inputs().len();
        let mut all = GpuLaunch {
            form: launch.form.clone(),
            problem: launch.problem.clone(),
            planned: launch.planned().clone(),
            function,
            scalars: bound[..inputs].iter().map(|bound| bound.scalar).collect(),
            addresses: bound.iter().map(|bound| bound.address).collect(),
            tables,
            encoded: None,
        };
        if launch.has_elements() {
            all.encoded = Some(all.encode()?);
        }
        Ok(all)
    }

    /// The same launch with another schedule.
    pub(crate) fn with(&self, kernel: &GpuKernel, planned: &Planned) -> Result<GpuLaunch, Error> {
        let program = kernel.programs.get(&self.form, self.function.device(), planned)?;
        let mut other = GpuLaunch {
            form: self.form.clone(),
            problem: self.problem.clone(),
            planned: planned.clone(),
            function: program.function,
            scalars: self.scalars.clone(),
            addresses: self.addresses.clone(),
            tables: self.tables.clone(),
            encoded: None,
        };
        other.encoded = Some(other.encode()?);
        Ok(other)
    }

    fn encode(&self) -> Result<PreparedLaunch, Error> {
        let mut facts = self.planned.launch(&self.scalars);
        facts.grid[0] = facts.grid[0].min(self.resident(&facts)?);
        let buffers = (0..).map(Buffer).zip(self.addresses.iter().copied());
        let addresses: Vec<(Buffer, u64)> = buffers.chain(self.tables.addresses()).collect();
        Ok(PreparedLaunch::new(&self.function, facts, &addresses)?)
    }

    /// CTAs that run at a time: those of a persistent kernel that do not would only begin when others end. How many
    /// large clusters a GPU holds depends on which of its SMs are in use.
    fn resident(&self, facts: &Launch) -> Result<u32, Error> {
        if facts.cluster[0] <= 2 {
            Ok(u32::MAX)
        } else {
            Ok(self.function.resident_blocks(facts)?)
        }
    }

    /// Whether there is nothing to launch.
    pub(crate) fn is_empty(&self) -> bool {
        self.encoded.is_none()
    }

    /// As it was encoded, where it reads no list.
    pub(super) fn plain(&self) -> Option<&PreparedLaunch> {
        self.encoded.as_ref().filter(|_| self.tables.is_empty())
    }

    /// Queues it with these buffers and these numbers.
    pub(crate) fn launch(
        &self,
        stream: &Stream,
        order: Order,
        addresses: &[u64],
        scalars: &[Option<f64>],
    ) -> Result<(), RuntimeError> {
        let Some(encoded) = &self.encoded else { return Ok(()) };
        self.tables.keep_for(stream)?;
        if self.scalars == scalars && self.addresses == addresses {
            return encoded.launch_in(stream, order);
        }
        let address = |buffer: Buffer| {
            let table = || self.tables.addresses().find(|(table, _)| *table == buffer);
            let found = addresses.get(buffer.0 as usize).copied();
            found.or_else(|| Some(table()?.1)).ok_or(RuntimeError::NoAddress { buffer })
        };
        if self.scalars == scalars {
            return encoded.launch_at(stream, order, address);
        }
        let mut facts = self.planned.launch(scalars);
        facts.grid[0] = encoded.facts().grid[0];
        let buffers = (0..).map(Buffer).zip(addresses.iter().copied());
        let addresses: Vec<_> = buffers.chain(self.tables.addresses()).collect();
        PreparedLaunch::new(&self.function, facts, &addresses)?.launch_in(stream, order)
    }
}
