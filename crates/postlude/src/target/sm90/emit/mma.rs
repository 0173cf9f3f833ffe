//! The tensor-core products of a math warpgroup: from stages of the ring to accumulators.
//!
//! In: stages, operands K-major or MN-major as their layout says. Out: the sums of a work tile, f32 or i32.
//! Sums of 8-bit floats have 13 fractional bits in the tensor core. Where they are promoted, every stage's go to registers
//! of their own, 64 rows of some columns at a time, and are added to the tile's in f32, times their block scales; other math
//! warpgroups keep the tensor core busy meanwhile.

use postlude_ptx::kernel::{
    Accumulator, Descriptor, DescriptorLayout, Kernel, Major, MatrixType, Reg, Var, WgmmaForm,
};
use postlude_ptx::ring::{Consumer, Ring};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{F32, S32, U32};

use crate::target::sm90::plan::{
    Mainloop, OperandElement, OperandLoad, STAGE_ROW_BYTES, Sm90Schedule,
};

use super::plan::Plan;
use super::scaling::{StageFactors, TileScales};
use super::segment_tail::SegmentTail;
use super::segments::Contraction;
use super::warpgroup::WarpgroupIndex;

/// Bytes of 64 rows of a stage, or of a slab.
const BLOCK_BYTES: u32 = 64 * STAGE_ROW_BYTES;

/// A thread's accumulators, for each block of 64 rows.
type Blocks<'k, T> = Vec<Vec<Var<'k, T>>>;

/// How an operand lies in a stage: as a descriptor says it, and the bytes that one instruction's depth takes.
fn layout(load: OperandLoad) -> (Major, DescriptorLayout, u32) {
    match load {
        OperandLoad::TmaMnMajor => (Major::MN, DescriptorLayout::mn_major_128(BLOCK_BYTES), 2048),
        OperandLoad::TmaKMajor
        | OperandLoad::Staggered
        | OperandLoad::ElementsKMajor
        | OperandLoad::ElementsMnMajor
        | OperandLoad::VectorsKMajor
        | OperandLoad::Widened4
        | OperandLoad::Widened8 => (Major::K, DescriptorLayout::K_MAJOR_128, 32),
    }
}

pub(super) fn matrix_type(element: OperandElement) -> MatrixType {
    match element {
        OperandElement::F16 => MatrixType::F16,
        OperandElement::BF16 => MatrixType::BF16,
        OperandElement::E4M3 => MatrixType::E4M3,
        OperandElement::E5M2 => MatrixType::E5M2,
        OperandElement::I8 => MatrixType::S8,
        OperandElement::U8 => MatrixType::U8,
        OperandElement::TF32 | OperandElement::F32 => MatrixType::TF32,
    }
}

/// What products of a tile's stages take beside them.
#[derive(Clone, Copy)]
pub(super) struct Beside<'t, 'k> {
    /// The block scales of the tile.
    pub(super) scales: Option<&'t TileScales<'t, 'k>>,
    /// The segment that the contraction is.
    pub(super) segment: Option<Contraction<'k>>,
}

/// The matrix products of a warpgroup's rows.
pub(super) struct Mma<'a, 'k> {
    k: Kernel<'k, Sm90a>,
    schedule: &'a Sm90Schedule,
    mainloop: &'a Mainloop,
    form: WgmmaForm,
    /// The first stage of A's rows and of B, and the bytes that one instruction's depth takes of each.
    left: (Descriptor<'k>, u32),
    right: (Descriptor<'k>, u32),
    sums: Sums<'k>,
    warpgroup: WarpgroupIndex<'k>,
    /// Where K of a batch is a segment, and TMA brings in lines of the next one.
    tail: Option<SegmentTail<'k>>,
}

/// The registers that products are summed in.
enum Sums<'k> {
    Float(Blocks<'k, F32>),
    Integer(Blocks<'k, S32>),
    /// The sums of the tile so far, and those of a stage for 64 rows of some columns.
    Promoted(Blocks<'k, F32>, Vec<Var<'k, F32>>),
}

impl<'a, 'k> Mma<'a, 'k> {
    pub(super) fn new(
        k: Kernel<'k, Sm90a>,
        plan: &'a Plan<'a>,
        mainloop: &'a Mainloop,
        warpgroup: WarpgroupIndex<'k>,
    ) -> Self {
        let (schedule, tile) = (plan.schedule, plan.schedule.tile);
        let elements = OperandElement::of_product(plan.graph);
        let [a, b] = elements.map(matrix_type);
        let [(a_major, left_layout, left_step), (b_major, right_layout, right_step)] =
            mainloop.operands.map(layout);
        let columns = schedule.promoted_columns().unwrap_or(tile.columns);
        let form = WgmmaForm { a_major, b_major, ..WgmmaForm::new(columns, a, b) };
        let stages = k.region(&plan.stages);
        let own_rows = stages + warpgroup.in_tile * (tile.blocks() * BLOCK_BYTES);
        let first_column = stages + tile.rows * STAGE_ROW_BYTES;
        let left = (k.descriptor(own_rows, left_layout), left_step);
        let right = (k.descriptor(first_column, right_layout), right_step);
        let sums = match schedule.promoted_columns() {
            Some(columns) => Sums::Promoted(
                unset(k, tile.blocks(), tile.columns / 2),
                (0..columns / 2).map(|_| k.unset()).collect(),
            ),
            None if form.a.is_integer() => Sums::Integer(unset(k, tile.blocks(), tile.columns / 2)),
            None => Sums::Float(unset(k, tile.blocks(), tile.columns / 2)),
        };
        let tail = SegmentTail::new(k, plan, mainloop, warpgroup);
        Mma { k, schedule, mainloop, form, left, right, sums, warpgroup, tail }
    }

    /// Multiplies this many blocks of 64 rows of the next stage: a tile's first, or the one of this number.
    pub(super) fn multiply(
        &self,
        ring: &Ring<'k, Sm90a>,
        at: &Consumer<'k>,
        step: Option<Reg<'k, U32>>,
        (blocks, beside): (u32, Beside<'_, 'k>),
    ) {
        if blocks == 0 {
            // As products do: a warp that is a round of the ring behind would miss a phase.
            return ring.consume(at, |_| self.k.sync_named(self.warpgroup.barrier(), 128));
        }
        let own = blocks as usize;
        let first = step.is_none();
        let factors = beside.scales.map(|scales| scales.load(step));
        let issue = |stage| {
            if let (Some(tail), Some(segment)) = (&self.tail, beside.segment) {
                tail.clear(stage, step, segment);
            }
            match &self.sums {
                Sums::Float(blocks) => self.issue(&blocks[..own], stage, first),
                Sums::Integer(blocks) => self.issue(&blocks[..own], stage, first),
                Sums::Promoted(blocks, partial) => {
                    self.promote((&blocks[..own], partial), stage, (first, factors.as_ref()));
                }
            }
        };
        if self.holds_stage() { ring.consume_behind(at, issue) } else { ring.consume(at, issue) }
    }

    /// Waits for the last stage's products; the sums of blocks behind those that were multiplied are zero.
    pub(super) fn wait(&self, ring: &Ring<'k, Sm90a>, at: &Consumer<'k>, blocks: u32) {
        if !matches!(self.sums, Sums::Promoted(..)) && blocks > 0 {
            self.k.wgmma_wait(0);
            if self.holds_stage() {
                ring.release_held(at);
            }
        }
        let blocks = blocks as usize;
        match &self.sums {
            Sums::Float(sums) | Sums::Promoted(sums, _) => {
                sums[blocks..].iter().flatten().for_each(|sum| sum.set(0.0));
            }
            Sums::Integer(sums) => sums[blocks..].iter().flatten().for_each(|sum| sum.set(0)),
        }
    }

    /// Whether products of a stage are under way while the next are issued.
    fn holds_stage(&self) -> bool {
        self.schedule.wgmma_in_flight > 0 && !matches!(self.sums, Sums::Promoted(..))
    }

    /// Runs `body` with the whole sums of a tile; those of integers as floats with their bits.
    pub(super) fn with_sums(&self, body: impl FnOnce(&[Vec<Var<'k, F32>>])) {
        match &self.sums {
            Sums::Float(blocks) | Sums::Promoted(blocks, _) => body(blocks),
            Sums::Integer(blocks) => {
                let k = self.k;
                let float = |sum: &Var<'k, S32>| k.var(k.bits_to_f32(sum.get().cast()));
                let blocks = blocks.iter().map(|block| block.iter().map(float).collect());
                body(&blocks.collect::<Vec<_>>());
            }
        }
    }

    /// Issues those of a stage; those of a tile's first do not keep what the accumulators held.
    fn issue<T: Accumulator>(&self, blocks: &[Vec<Var<'k, T>>], stage: Reg<'k, U32>, first: bool) {
        let (k, [left, right]) = (self.k, self.stage(stage));
        let parts = self.parts();
        k.wgmma_fence();
        for step in 0..self.mainloop.depth() / self.form.k() {
            for (place, [low_a, low_b]) in parts.iter().enumerate() {
                for (block, accumulators) in blocks.iter().enumerate() {
                    let a = low_a + step * self.left.1 + block as u32 * BLOCK_BYTES;
                    let (a, b) = (left.advance(a), right.advance(low_b + step * self.right.1));
                    k.wgmma(&self.form, accumulators, a, b, !(first && step == 0 && place == 0));
                }
            }
        }
        k.wgmma_commit();
        k.wgmma_wait(self.schedule.wgmma_in_flight);
    }

    /// Multiplies a stage, and adds its sums to the tile's in f32, each times its factors where there are some.
    fn promote(
        &self,
        (blocks, partial): (&[Vec<Var<'k, F32>>], &[Var<'k, F32>]),
        stage: Reg<'k, U32>,
        (first, factors): (bool, Option<&StageFactors<'k>>),
    ) {
        let (k, [left, right]) = (self.k, self.stage(stage));
        for (block, sums) in blocks.iter().enumerate() {
            for (part, sums) in sums.chunks_exact(partial.len()).enumerate() {
                k.wgmma_fence();
                for step in 0..self.mainloop.depth() / self.form.k() {
                    let a = left.advance(step * self.left.1 + block as u32 * BLOCK_BYTES);
                    let columns = part as u32 * self.form.n;
                    let b = right.advance(step * self.right.1 + columns * STAGE_ROW_BYTES);
                    k.wgmma(&self.form, partial, a, b, step > 0);
                }
                k.wgmma_commit();
                k.wgmma_wait(0);
                // Not before the wait: products must not wait for factors.
                let factors = factors.map(|factors| factors.of(block, part));
                for (place, (sum, more)) in sums.iter().zip(partial).enumerate() {
                    let (sum_before, more) = (sum.get(), more.get());
                    sum.set(match (&factors, first) {
                        (None, true) => more,
                        (None, false) => sum_before + more,
                        // Zero times a negative factor is a sum of 0, and not -0.
                        (Some(factors), true) => more.fma(factors.at(place), 0.0),
                        (Some(factors), false) => more.fma(factors.at(place), sum_before),
                    });
                }
            }
        }
    }

    /// The bytes from A and from B to the parts of them that are multiplied: the high ones, or each low one with a high one
    /// first. Small numbers have low parts that are nothing beside a sum that is not zero (see `operand::elements`), and
    /// the sum of the high parts' products decides last whether it is.
    fn parts(&self) -> Vec<[u32; 2]> {
        let low = self.schedule.part_bytes();
        if self.mainloop.split { vec![[low, 0], [0, low], [0, 0]] } else { vec![[0, 0]] }
    }

    /// A's rows and B in a stage.
    fn stage(&self, stage: Reg<'k, U32>) -> [Descriptor<'k>; 2] {
        let bytes = self.schedule.stage_bytes();
        [self.left.0, self.right.0].map(|first| first.element(stage, bytes))
    }
}

fn unset<T: Accumulator>(k: Kernel<'_, Sm90a>, blocks: u32, each: u32) -> Blocks<'_, T> {
    (0..blocks).map(|_| (0..each).map(|_| k.unset()).collect()).collect()
}
