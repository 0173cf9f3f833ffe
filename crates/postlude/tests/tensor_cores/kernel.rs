//! A kernel of one matrix instruction: every CTA multiplies operands of its own and stores the accumulators.

use postlude_ptx::entry::Entry;
use postlude_ptx::kernel::{
    Accumulator, Attributes, DescriptorLayout, Kernel, MatrixType, Reg, Var, WgmmaForm, build,
};
use postlude_ptx::launch::{Buffer, Launch, Parameter, Swizzle};
use postlude_ptx::modifier::{LoadCache, ProxySpace};
use postlude_ptx::shared::Planner;
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{B32, F32, S32};

/// Rows of an instruction.
pub(crate) const ROWS: u32 = 64;
/// Its columns here.
pub(crate) const COLUMNS: u32 = 256;
/// Bytes of a row of either operand: the depth of every instruction.
pub(crate) const ROW_BYTES: u32 = 32;
/// Rows of 8 by 16 bytes, the second half of a row 128 bytes behind the first.
const LAYOUT: DescriptorLayout =
    DescriptorLayout { leading: 128, stride: 256, swizzle: Swizzle::None };

/// The instruction on these types and its launch on this many CTAs. Buffers: A, B, the accumulators before, and after.
pub(crate) fn program(a: MatrixType, b: MatrixType, blocks: u32) -> (Entry, Launch) {
    let entry = build("one_instruction", Attributes::<Sm90a>::new(128), |k| {
        if matches!(a, MatrixType::S8 | MatrixType::U8) {
            body::<S32>(k, a, b, Reg::cast, Reg::cast);
        } else {
            body::<F32>(k, a, b, |bits| k.bits_to_f32(bits), |sum| k.f32_to_bits(sum));
        }
    });
    let parameters = (0..4).map(|each| Parameter::Pointer { buffer: Buffer(each), offset: 0 });
    let launch = Launch {
        grid: [blocks, 1, 1],
        cluster: [1, 1, 1],
        threads: 128,
        shared_bytes: (ROWS + COLUMNS) * ROW_BYTES,
        parameters: parameters.collect(),
        workspace_bytes: 0,
    };
    (entry, launch)
}

fn body<'k, T: Accumulator>(
    k: Kernel<'k, Sm90a>,
    a: MatrixType,
    b: MatrixType,
    of_bits: impl Fn(Reg<'k, B32>) -> Reg<'k, T>,
    bits_of: impl Fn(Reg<'k, T>) -> Reg<'k, B32>,
) {
    let pointers = ["a", "b", "before", "after"].map(|name| k.parameter_pointer(name));
    let mut planner = Planner::new();
    let left = planner.reserve("a", ROWS * ROW_BYTES, 128);
    let right = planner.reserve("b", COLUMNS * ROW_BYTES, 128);
    let (thread, block) = (k.thread(), k.block());
    for (pointer, region, rows) in [(pointers[0], &left, ROWS), (pointers[1], &right, COLUMNS)] {
        let from = pointer.load().element(block, rows * ROW_BYTES);
        for turn in 0..rows * 2 / 128 {
            let chunk = thread + turn * 128;
            let values = k.load_global::<B32, 4>(from.element(chunk, 16), LoadCache::ReadOnly);
            let (row, half) = (chunk >> 1, chunk & 1);
            let to = (row >> 3) * 256 + half * 128 + (row & 7) * 16;
            k.store_shared(k.region(region) + to, values);
        }
    }
    let place = |number: u32| {
        let (warp, lane) = (thread >> 5, thread & 31);
        let row = warp.mad(16, lane >> 2) + if number & 2 == 0 { 0 } else { 8 };
        let column = (lane & 3) * 2 + (8 * (number / 4) + number % 2);
        (block * ROWS + row).mad(COLUMNS, column)
    };
    let accumulators: Vec<Var<'k, T>> = (0..COLUMNS / 2)
        .map(|number| {
            let from = pointers[2].load().element(place(number), 4);
            let [bits] = k.load_global::<B32, 1>(from, LoadCache::ReadOnly);
            k.var(of_bits(bits))
        })
        .collect();
    k.fence_proxy_async(ProxySpace::SharedCta);
    k.sync();
    k.wgmma_fence();
    let (left, right) = (k.region(&left), k.region(&right));
    let (left, right) = (k.descriptor(left, LAYOUT), k.descriptor(right, LAYOUT));
    k.wgmma(&WgmmaForm::new(COLUMNS, a, b), &accumulators, left, right, true);
    k.wgmma_commit();
    k.wgmma_wait(0);
    for (number, accumulator) in (0..).zip(&accumulators) {
        let to = pointers[3].load().element(place(number), 4);
        k.store_global(to, [bits_of(accumulator.get())]);
    }
}
