//! The epilogue: the graph applied to a warpgroup's accumulators, and the tile on its way out.
//!
//! Thread t of a warpgroup holds, for each 8-column group j, columns 8j + 2(t mod 4) + {0, 1} of rows
//! 16(t / 32) + (t mod 32) / 4 and that row + 8 (PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16").

use postlude_ptx::kernel::{Half, Kernel, Reg, SharedAddress, Var};
use postlude_ptx::modifier::{ProxySpace, Transposition, WaitFor};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{B32, F32, Pred, U32};

use crate::dtype::DType;
use crate::graph::Kind;

use super::Plan;
use super::parameters::{Destination, Memory, Parameters};
use super::raster::Corner;
use super::values::{Evaluator, Known, Place};

/// Columns of a store slot: 128 bytes of a 16-bit type.
const SLOT_COLUMNS: u32 = 64;

pub(super) struct Epilogue<'a, 'k> {
    k: Kernel<'k, Sm90a>,
    plan: &'a Plan<'a>,
    parameters: &'a Parameters<'k>,
    warpgroup: Reg<'k, U32>,
    scalars: Known<'k>,
    /// This thread's first row of a 64-row block, and its first column of an 8-column group.
    row: Reg<'k, U32>,
    column: Reg<'k, U32>,
    /// Issues the warpgroup's copies.
    leader: Reg<'k, Pred>,
    slots: SharedAddress<'k>,
    /// Which slot comes next, in bytes.
    slot: Var<'k, U32>,
    /// Where this lane's row of a matrix store starts in a slot, and what its chunks are exchanged by.
    lane_row: Reg<'k, U32>,
    lane_chunk: Reg<'k, U32>,
    swizzle: Reg<'k, U32>,
}

impl<'a, 'k> Epilogue<'a, 'k> {
    pub(super) fn new(
        k: Kernel<'k, Sm90a>,
        plan: &'a Plan<'a>,
        parameters: &'a Parameters<'k>,
        warpgroup: Reg<'k, U32>,
        rank: Reg<'k, U32>,
    ) -> Self {
        let evaluator = Evaluator { k, plan, parameters };
        let mut scalars: Known<'k> = vec![None; plan.graph.len()];
        let zero = k.imm(0);
        evaluator.extend(&mut scalars, Kind::Scalar, &Place { at: [zero; 3], inside: None }, None);
        let (warp, lane) = (rank >> 5, rank & 31);
        let row = warp.mad(16, lane >> 2);
        let column = (lane & 3) * 2;
        // Lane 8i + j names row j of matrix i: matrices 0 and 1 are rows 0..8 and 8..16, 2 and 3 the next 8 columns.
        let (within, matrix) = (lane & 7, lane >> 3);
        let store_row = warp.mad(16, (matrix & 1).mad(8, within));
        let slots = k.region(&plan.stores) + warpgroup * (plan.schedule.store_stages * (64 * 128));
        Epilogue {
            k,
            plan,
            parameters,
            warpgroup,
            scalars,
            row,
            column,
            leader: rank.eq(0),
            slots,
            slot: k.var(0),
            lane_row: store_row * 128,
            lane_chunk: matrix >> 1,
            swizzle: store_row & 7,
        }
    }

    /// Finishes one tile.
    pub(super) fn run(&self, corner: &Corner<'k>, blocks: &[Vec<Var<'k, F32>>]) {
        let tile = self.plan.schedule.tile;
        let first = self.warpgroup.mad(tile.blocks() * 64, corner.row);
        for (block, accumulators) in blocks.iter().enumerate() {
            let block_row = first + block as u32 * 64;
            let rows = [block_row + self.row, block_row + self.row + 8];
            let known = rows.map(|row| self.along_row(row, corner));
            for slot in 0..tile.columns / SLOT_COLUMNS {
                let from = (slot * SLOT_COLUMNS / 2) as usize;
                let part = &accumulators[from..from + SLOT_COLUMNS as usize / 2];
                self.run_slot(corner, block_row, slot * SLOT_COLUMNS, rows, &known, part);
            }
        }
    }

    fn along_row(&self, row: Reg<'k, U32>, corner: &Corner<'k>) -> Known<'k> {
        let mut known = self.scalars.clone();
        let place = Place {
            at: [corner.batch, row, self.k.imm(0)],
            inside: Some(row.lt(self.parameters.rows)),
        };
        self.evaluator().extend(&mut known, Kind::AlongRows, &place, None);
        known
    }

    fn evaluator(&self) -> Evaluator<'a, 'k> {
        Evaluator { k: self.k, plan: self.plan, parameters: self.parameters }
    }

    /// 64 rows by 64 columns: every output's values, then each output's way out.
    fn run_slot(
        &self,
        corner: &Corner<'k>,
        block_row: Reg<'k, U32>,
        offset: u32,
        rows: [Reg<'k, U32>; 2],
        known: &[Known<'k>; 2],
        part: &[Var<'k, F32>],
    ) {
        let outputs = self.plan.graph.outputs();
        let mut packed: Vec<Vec<Reg<'k, B32>>> = vec![Vec::new(); outputs.len()];
        for (group, four) in part.chunks_exact(4).enumerate() {
            let column = corner.column + self.column + (offset + 8 * group as u32);
            let values = self.group(corner, column, rows, known, four);
            for (place, (output, values)) in outputs.iter().zip(values).enumerate() {
                match (&self.parameters.destinations[place], output.dtype) {
                    (Destination::Direct(memory), _) => {
                        self.store_direct(memory, corner, rows, column, values);
                    }
                    (Destination::Map(_), dtype) => {
                        let half = if dtype == DType::F16 { Half::F16 } else { Half::BF16 };
                        packed[place].push(self.k.pack_halves(half, values[0], values[1]));
                        packed[place].push(self.k.pack_halves(half, values[2], values[3]));
                    }
                }
            }
        }
        for (place, packed) in packed.iter().enumerate() {
            if let Destination::Map(map) = &self.parameters.destinations[place] {
                let at = [(corner.column + offset).into(), block_row.into(), corner.batch.into()];
                self.send(packed, || {
                    self.k.tensor_store(map.address(), &at, self.slots + self.slot.get(), None);
                });
            }
        }
    }

    /// The four elements of an 8-column group: two rows of two columns; for each output their values.
    fn group(
        &self,
        corner: &Corner<'k>,
        column: Reg<'k, U32>,
        rows: [Reg<'k, U32>; 2],
        known: &[Known<'k>; 2],
        four: &[Var<'k, F32>],
    ) -> Vec<[Reg<'k, F32>; 4]> {
        let evaluator = self.evaluator();
        let columns = [column, column + 1];
        let inside_columns = columns.map(|column| column.lt(self.parameters.columns));
        let along: Vec<Known<'k>> = (0..2)
            .map(|place| {
                let mut along = self.scalars.clone();
                let at = [corner.batch, self.k.imm(0), columns[place]];
                evaluator.extend(
                    &mut along,
                    Kind::AlongColumns,
                    &Place { at, inside: Some(inside_columns[place]) },
                    None,
                );
                along
            })
            .collect();
        let mut results: Vec<Vec<Reg<'k, F32>>> = vec![Vec::new(); self.plan.graph.outputs().len()];
        for (element, accumulator) in four.iter().enumerate() {
            let (row, column) = (element / 2, element % 2);
            let mut all = known[row].clone();
            for (slot, value) in all.iter_mut().zip(&along[column]) {
                *slot = slot.or(*value);
            }
            let inside = rows[row].lt(self.parameters.rows) & inside_columns[column];
            let place =
                Place { at: [corner.batch, rows[row], columns[column]], inside: Some(inside) };
            evaluator.extend(&mut all, Kind::Tile, &place, Some(accumulator.get()));
            for (result, output) in results.iter_mut().zip(self.plan.graph.outputs()) {
                let Some(value) = all[output.value.index()] else {
                    panic!("compiler bug: an output without a value")
                };
                result.push(value.float());
            }
        }
        results.into_iter().map(|four| [four[0], four[1], four[2], four[3]]).collect()
    }

    fn store_direct(
        &self,
        memory: &Memory<'k>,
        corner: &Corner<'k>,
        rows: [Reg<'k, U32>; 2],
        column: Reg<'k, U32>,
        values: [Reg<'k, F32>; 4],
    ) {
        for (element, value) in values.into_iter().enumerate() {
            let (row, column) = (rows[element / 2], column + (element % 2) as u32);
            let inside = row.lt(self.parameters.rows) & column.lt(self.parameters.columns);
            let to = memory.element(self.k, [corner.batch, row, column]);
            let half = match memory.dtype {
                DType::F16 => Half::F16,
                DType::BF16 => Half::BF16,
                _ => {
                    self.k.when(inside, || self.k.store_global(to, [value]));
                    continue;
                }
            };
            let value = self.k.half_of_f32(half, value);
            self.k.when(inside, || self.k.store_global(to, [value]));
        }
    }

    /// Sends a packed slot out: free it, fill it, copy it.
    fn send(&self, packed: &[Reg<'k, B32>], copy: impl FnOnce()) {
        let (k, stages) = (self.k, self.plan.schedule.store_stages);
        let barrier = self.warpgroup + 1;
        k.when(self.leader, || k.bulk_wait(stages - 1, WaitFor::Read));
        k.sync_named(barrier, 128);
        let start = self.slots + self.slot.get() + self.lane_row;
        for (pair, four) in packed.chunks_exact(4).enumerate() {
            // Each pair of groups is two chunks of 16 bytes, exchanged by the row's place in the swizzle.
            let chunk = (self.lane_chunk + 2 * pair as u32) ^ self.swizzle;
            k.store_matrices(
                start + chunk * 16,
                [four[0], four[1], four[2], four[3]],
                Transposition::None,
            );
        }
        k.fence_proxy_async(ProxySpace::SharedCta);
        k.sync_named(barrier, 128);
        k.if_(self.leader, || {
            copy();
            k.bulk_commit();
        });
        let next = self.slot.get() + (64 * 128);
        let wrapped = next.eq(stages * (64 * 128));
        self.slot.set(k.imm(0).select(next, wrapped));
    }

    /// Waits until everything has left.
    pub(super) fn drain(&self) {
        self.k.when(self.leader, || self.k.bulk_wait(0, WaitFor::Complete));
    }
}
