//! The ceiling: products alone, as fast as the SMs do them at the power the card allows.
//!
//! In: a number of steps. Out: a launch of one CTA for each SM that does that many steps of a 128 x 256 x 64 tile with the
//! main loop's instructions, its groups and its waits, on random data that lies in shared memory, and loads nothing.
//!
//! Invariant: what it multiplies is dense random normal data, since zeros draw less power and run faster; and its sums are
//! stored, so that no product can be left out.

use postlude::runtime::{Device, DeviceBuffer, PreparedLaunch, RuntimeError, Stream};
use postlude_ptx::entry::Entry;
use postlude_ptx::kernel::{
    Attributes, DescriptorLayout, Half, Kernel, MatrixType, Reg, Var, WgmmaForm, build,
};
use postlude_ptx::launch::Parameter;
use postlude_ptx::modifier::{LoadCache, ProxySpace};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{B32, F32, U32};

use crate::program::{self, pointer};
use crate::random::{self, Contents, Store};

const ROWS: u32 = 128;
const COLUMNS: u32 = 256;
const DEPTH: u32 = 64;
const STAGES: u32 = 4;
const STAGE_BYTES: u32 = (ROWS + COLUMNS) * DEPTH * 2;
const SHARED_BYTES: u32 = STAGES * STAGE_BYTES;
/// Two warpgroups of 64 rows each.
const THREADS: u32 = 256;
/// Bytes of 64 rows of a stage.
const BLOCK_BYTES: u32 = 64 * DEPTH * 2;
/// Bytes that one instruction's depth takes in a row.
const STEP_BYTES: u32 = 32;

/// The kernel for operands of this type.
pub fn entry(half: Half) -> Entry {
    let (name, operand) = match half {
        Half::F16 => ("yardstick_ceiling_f16", MatrixType::F16),
        Half::BF16 => ("yardstick_ceiling_bf16", MatrixType::BF16),
    };
    let attributes = Attributes::<Sm90a>::new(THREADS).blocks_per_multiprocessor(1);
    build(name, attributes, |k| {
        let data = k.parameter_pointer("data").load();
        let steps = k.parameter_u32("steps").load();
        let sums = k.parameter_pointer("sums").load();
        let thread = k.thread();
        k.for_(thread * 16, SHARED_BYTES, THREADS * 16, |byte| {
            let four = k.load_global::<B32, 4>(data.element(byte, 1), LoadCache::ReadOnly);
            k.store_shared(k.shared(0) + byte, four);
        });
        k.fence_proxy_async(ProxySpace::SharedCta);
        k.sync();
        let form = WgmmaForm::new(COLUMNS, operand, operand);
        let accumulators: Vec<Var<'_, F32>> = (0..COLUMNS / 2).map(|_| k.unset()).collect();
        multiply(k, &form, &accumulators, steps);
        let mut sum = k.imm::<F32>(0.0);
        for accumulator in &accumulators {
            sum = sum + accumulator.get();
        }
        k.store_global(sums.element(k.block().mad(THREADS, thread), 4), [sum]);
    })
}

/// The main loop without its loads: a group of products for each stage, one group under way while the next is issued.
fn multiply<'k>(
    k: Kernel<'k, Sm90a>,
    form: &WgmmaForm,
    accumulators: &[Var<'k, F32>],
    steps: Reg<'k, U32>,
) {
    let warpgroup = k.uniform(k.thread() >> 7);
    let layout = DescriptorLayout::K_MAJOR_128;
    let left = k.descriptor(k.shared(0) + warpgroup * BLOCK_BYTES, layout);
    let right = k.descriptor(k.shared(ROWS * DEPTH * 2), layout);
    let keep = k.var(false);
    let step = k.var(0);
    k.do_while(|| {
        let stage = step.get() & (STAGES - 1);
        let (left, right) = (left.element(stage, STAGE_BYTES), right.element(stage, STAGE_BYTES));
        k.wgmma_fence();
        for depth in 0..DEPTH / form.k() {
            let by = depth * STEP_BYTES;
            k.wgmma(form, accumulators, left.advance(by), right.advance(by), keep);
            if depth == 0 {
                keep.set(true);
            }
        }
        k.wgmma_commit();
        k.wgmma_wait(1);
        step.set(step.get() + 1);
        step.get().lt(steps)
    });
    k.wgmma_wait(0);
}

/// The ceiling of a GPU for operands of one type.
pub struct Ceiling {
    device: Device,
    half: Half,
    data: DeviceBuffer,
    sums: DeviceBuffer,
}

impl Ceiling {
    /// Draws the data.
    pub fn new(device: &Device, stream: &Stream, half: Half) -> Result<Ceiling, RuntimeError> {
        let data = device.allocate(u64::from(SHARED_BYTES))?;
        let sums = device.allocate(u64::from(device.processors() * THREADS * 4))?;
        random::fill(device, stream, &data, Store::Halves(half), Contents::Normal, 0x5eed)?;
        Ok(Ceiling { device: device.clone(), half, data, sums })
    }

    /// A launch of at least this many floating-point operations, and how many they are.
    pub fn launch(&self, operations: f64) -> Result<(PreparedLaunch, f64), RuntimeError> {
        let a_step = f64::from(self.device.processors()) * operations_of_a_step();
        let steps = (operations / a_step).ceil().max(1.0);
        let parameters = vec![pointer(0), Parameter::U32(steps as u32), pointer(1)];
        let launch = program::launch(self.device.processors(), THREADS, SHARED_BYTES, parameters);
        let addresses = [self.data.address(), self.sums.address()];
        let prepared = program::prepare(&self.device, &entry(self.half), launch, &addresses)?;
        Ok((prepared, steps * a_step))
    }
}

/// Floating-point operations of one step of one CTA.
fn operations_of_a_step() -> f64 {
    2.0 * f64::from(ROWS) * f64::from(COLUMNS) * f64::from(DEPTH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::assembled::assemble;

    #[test]
    fn the_ceiling_assembles_without_spills_and_without_serialised_products() {
        assemble(&entry(Half::BF16));
        assemble(&entry(Half::F16));
    }
}
