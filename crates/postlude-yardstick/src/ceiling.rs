//! The ceiling: products alone, as fast as the SMs do them at the power the card allows.
//!
//! In: a dtype of operands and a number of steps. Out: a launch of one CTA for each SM that does that many steps of a tile
//! of 128 x 256 and 128 bytes of K with the main loop's instructions, its groups and its waits, on random data that lies in
//! shared memory, and loads nothing. Sums are the tensor core's own.
//!
//! Invariant: what it multiplies is dense random data, since zeros draw less power and run faster; and its sums are stored,
//! so that no product can be left out.

use postlude::DType;
use postlude::runtime::{Device, DeviceBuffer, PreparedLaunch, RuntimeError, Stream};
use postlude_ptx::entry::Entry;
use postlude_ptx::kernel::{
    Accumulator, Attributes, DescriptorLayout, Kernel, MatrixType, Reg, Var, WgmmaForm, build,
};
use postlude_ptx::launch::{Launch, Parameter};
use postlude_ptx::modifier::{LoadCache, ProxySpace};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{B32, F32, Number, S32, U32};

use crate::program::{self, pointer};
use crate::random::{self, Contents, Store};

const ROWS: u32 = 128;
const COLUMNS: u32 = 256;
/// Bytes of K in a stage.
const DEPTH_BYTES: u32 = 128;
const STAGES: u32 = 4;
const STAGE_BYTES: u32 = (ROWS + COLUMNS) * DEPTH_BYTES;
const SHARED_BYTES: u32 = STAGES * STAGE_BYTES;
/// Two warpgroups of 64 rows each.
const THREADS: u32 = 256;
/// Bytes of 64 rows of a stage.
const BLOCK_BYTES: u32 = 64 * DEPTH_BYTES;
/// Bytes that one instruction's depth takes in a row.
const STEP_BYTES: u32 = 32;

/// What the tensor core multiplies for operands of a dtype.
fn operand(dtype: DType) -> MatrixType {
    match dtype {
        DType::F16 => MatrixType::F16,
        DType::BF16 => MatrixType::BF16,
        DType::TF32 => MatrixType::TF32,
        DType::F8E4M3 => MatrixType::E4M3,
        DType::F8E5M2 => MatrixType::E5M2,
        DType::I8 => MatrixType::S8,
        DType::U8 => MatrixType::U8,
        DType::F32
        | DType::F8E8M0
        | DType::I32
        | DType::I64
        | DType::Bool
        | DType::B1
        | DType::I4
        | DType::U4 => {
            panic!("compiler bug: the suite multiplies {dtype}")
        }
    }
}

/// The kernel for operands of this dtype.
pub fn entry(dtype: DType) -> Entry {
    let name = format!("yardstick_ceiling_{dtype}");
    let operand = operand(dtype);
    let attributes = Attributes::<Sm90a>::new(THREADS).blocks_per_multiprocessor(1);
    build(&name, attributes, |k| {
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
        let place = sums.element(k.block().mad(THREADS, thread), 4);
        if operand.is_integer() {
            k.store_global(place, [multiply::<S32>(k, &form, steps)]);
        } else {
            k.store_global(place, [multiply::<F32>(k, &form, steps)]);
        }
    })
}

/// The main loop without its loads: a group of products for each stage, one group under way while the next is issued. Gives
/// the total of a thread's sums.
fn multiply<'k, T: Accumulator + Number>(
    k: Kernel<'k, Sm90a>,
    form: &WgmmaForm,
    steps: Reg<'k, U32>,
) -> Reg<'k, T> {
    let accumulators: Vec<Var<'k, T>> = (0..COLUMNS / 2).map(|_| k.unset()).collect();
    let warpgroup = k.uniform(k.thread() >> 7);
    let layout = DescriptorLayout::K_MAJOR_128;
    let left = k.descriptor(k.shared(0) + warpgroup * BLOCK_BYTES, layout);
    let right = k.descriptor(k.shared(ROWS * DEPTH_BYTES), layout);
    let keep = k.var(false);
    let step = k.var(0);
    k.do_while(|| {
        let stage = step.get() & (STAGES - 1);
        let (left, right) = (left.element(stage, STAGE_BYTES), right.element(stage, STAGE_BYTES));
        k.wgmma_fence();
        for by in (0..DEPTH_BYTES).step_by(STEP_BYTES as usize) {
            k.wgmma(form, &accumulators, left.advance(by), right.advance(by), keep);
            if by == 0 {
                keep.set(true);
            }
        }
        k.wgmma_commit();
        k.wgmma_wait(1);
        step.set(step.get() + 1);
        step.get().lt(steps)
    });
    k.wgmma_wait(0);
    let first = accumulators[0].get();
    accumulators[1..].iter().fold(first, |total, accumulator| total + accumulator.get())
}

/// The ceiling of a GPU for operands of one dtype.
pub struct Ceiling {
    device: Device,
    dtype: DType,
    data: DeviceBuffer,
    sums: DeviceBuffer,
}

impl Ceiling {
    /// Draws the data.
    pub fn new(device: &Device, stream: &Stream, dtype: DType) -> Result<Ceiling, RuntimeError> {
        let data = device.allocate(u64::from(SHARED_BYTES))?;
        let sums = device.allocate(u64::from(device.processors() * THREADS * 4))?;
        if let Some(store) = Store::of(dtype) {
            random::fill(device, stream, &data, store, Contents::Random, 0x5eed)?;
        }
        Ok(Ceiling { device: device.clone(), dtype, data, sums })
    }

    /// A launch of at least this many operations, and how many they are.
    pub fn launch(&self, operations: f64) -> Result<(PreparedLaunch, f64), RuntimeError> {
        let a_step = f64::from(self.device.processors()) * operations_of_a_step(self.dtype);
        let steps = (operations / a_step).ceil().max(1.0);
        let launch = launch(self.device.processors(), steps as u32);
        let addresses = [self.data.address(), self.sums.address()];
        let prepared = program::prepare(&self.device, &entry(self.dtype), launch, &addresses)?;
        Ok((prepared, steps * a_step))
    }
}

/// The launch of this many CTAs.
fn launch(blocks: u32, steps: u32) -> Launch {
    let parameters = vec![pointer(0), Parameter::U32(steps), pointer(1)];
    program::launch(blocks, THREADS, SHARED_BYTES, parameters)
}

/// Operations of one step of one CTA.
fn operations_of_a_step(dtype: DType) -> f64 {
    let depth = DEPTH_BYTES / operand(dtype).bytes();
    2.0 * f64::from(ROWS) * f64::from(COLUMNS) * f64::from(depth)
}

#[cfg(test)]
mod tests {
    use postlude::dtype;

    use super::*;
    use crate::program::assembled::assemble;
    use crate::program::simulated::simulate;

    const DTYPES: [DType; 7] =
        [DType::BF16, DType::F16, DType::TF32, DType::F8E4M3, DType::F8E5M2, DType::I8, DType::U8];

    /// A thread has 128 sums, each over all of K, of all steps.
    #[test]
    fn products_of_ones_are_counted_to_the_last() {
        const STEPS: u32 = 5;
        for dtype in DTYPES {
            let elements = SHARED_BYTES / operand(dtype).bytes();
            let mut data = vec![0; SHARED_BYTES as usize];
            (0..elements as usize).for_each(|place| dtype::store(dtype, &mut data, place, 1.0));
            let sums = vec![0xff; (THREADS * 4) as usize];
            let buffers = simulate(&entry(dtype), &launch(1, STEPS), vec![data, sums]);
            let sum = if operand(dtype).is_integer() { DType::I32 } else { DType::F32 };
            let wanted = f64::from(128 * STEPS * DEPTH_BYTES / operand(dtype).bytes());
            for thread in 0..THREADS as usize {
                assert_eq!(dtype::load(sum, &buffers[1], thread), wanted, "{dtype}");
            }
        }
    }

    #[test]
    fn the_ceiling_assembles_without_spills_and_without_serialised_products() {
        for dtype in DTYPES {
            assemble(&entry(dtype));
        }
    }

    #[test]
    fn a_step_has_128_bytes_of_k() {
        let of_bf16 = operations_of_a_step(DType::BF16);
        assert_eq!(of_bf16, 2.0 * 128.0 * 256.0 * 64.0);
        assert_eq!(operations_of_a_step(DType::I8), 2.0 * of_bf16);
        assert_eq!(operations_of_a_step(DType::TF32), of_bf16 / 2.0);
    }
}
