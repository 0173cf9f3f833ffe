//! Copies of rows as they lie: elements are moved as bits, so that each arrives as it was.
//!
//! A warp has one chunk of a row at a time. Neighbouring lanes have neighbouring elements, and each lane loads all of its own
//! before it stores the first, so that memory is asked for many at a time.

use postlude_ptx::kernel::{GlobalPointer, Reg};
use postlude_ptx::modifier::LoadCache;
use postlude_ptx::types::{B16, B32, Pred, Scalar, U32};

use crate::target::sm90::emit::chip::EpilogueChip;
use crate::target::sm90::emit::parameters::{Destination, Source};

use super::kernel::ElementKernel;

const LANES: u32 = 32;

/// A lane's elements of a chunk.
struct Chunk<'k> {
    from: GlobalPointer<'k>,
    to: GlobalPointer<'k>,
    /// The column of the first, and the columns of a row; elements behind these are not there.
    column: Reg<'k, U32>,
    columns: Reg<'k, U32>,
    /// Whether all of them are there, whatever the lane.
    is_whole: Reg<'k, Pred>,
}

impl<'k, C: EpilogueChip> ElementKernel<'_, 'k, C> {
    /// Copies the only input to the only output.
    pub(super) fn copy_rows(&self) {
        let (k, parameters) = (self.k, self.parameters);
        let ([(_, Source::Memory(from))], [Destination::Direct(to)]) =
            (&parameters.sources[..], &parameters.destinations[..])
        else {
            panic!("compiler bug: a copy of rows that threads do not address")
        };
        let schedule = self.plan.schedule;
        let (bytes, rows) = (schedule.needs.copied_bytes, parameters.rows);
        let (columns, width) = (parameters.columns, schedule.copied_at_once() * LANES);
        let chunks = (columns + (width - 1)) / width;
        // Chunks beside each other go to different SMs, so that few are spread over all.
        let warp = k.uniform(k.thread() >> 5);
        let first = warp * k.blocks() + k.block();
        let step = k.blocks() * (schedule.threads() / LANES);
        self.for_places([parameters.batches * rows, chunks], [first, step], |line, number| {
            let batch = line / rows;
            let at = (parameters.batch_dims.batch(batch), line - batch * rows, k.imm(0));
            let begin = number * width;
            let column = begin + self.lane;
            let distance = k.widen(column) * u64::from(bytes);
            let [from, to] =
                [from, to].map(|memory| memory.element_of_row(k, at).pointer() + distance);
            let is_whole = (columns - begin).ge(width);
            let chunk = Chunk { from, to, column, columns, is_whole };
            self.copy(&chunk, bytes);
        });
    }

    /// Copies a chunk of elements of as many bytes. An output may lie where the input does, so no load is read-only.
    fn copy(&self, chunk: &Chunk<'k>, bytes: u32) {
        let (k, cache) = (self.k, LoadCache::Default);
        match bytes {
            1 => self.copy_as(
                (chunk, bytes),
                |from, inside| match inside {
                    Some(inside) => k.load_global_narrow_if(inside, Scalar::U8, from, cache),
                    None => k.load_global_narrow(Scalar::U8, from, cache),
                },
                |to, bits| k.store_global_narrow(Scalar::U8, to, bits),
            ),
            2 => self.copy_as(
                (chunk, bytes),
                |from, inside| -> [Reg<'k, B16>; 1] {
                    match inside {
                        Some(inside) => k.load_global_if(inside, from, cache, 0_u16),
                        None => k.load_global(from, cache),
                    }
                },
                |to, bits| k.store_global(to, bits),
            ),
            4 => self.copy_as(
                (chunk, bytes),
                |from, inside| -> [Reg<'k, B32>; 1] {
                    match inside {
                        Some(inside) => k.load_global_if(inside, from, cache, 0_u32),
                        None => k.load_global(from, cache),
                    }
                },
                |to, bits| k.store_global(to, bits),
            ),
            _ => panic!("compiler bug: elements of {bytes} bytes are not copied"),
        }
    }

    fn copy_as<T: Copy>(
        &self,
        (chunk, bytes): (&Chunk<'k>, u32),
        load: impl Fn(GlobalPointer<'k>, Option<Reg<'k, Pred>>) -> T,
        store: impl Fn(GlobalPointer<'k>, T),
    ) {
        let k = self.k;
        let &Chunk { from, to, column, columns, is_whole } = chunk;
        let behind = |number: u32| i64::from(number * LANES * bytes);
        let numbers = 0..self.plan.schedule.copied_at_once();
        let inside = |number: u32| (column + number * LANES).lt(columns);
        k.if_else(
            is_whole,
            || {
                let loaded = numbers.clone().map(|number| load(from.offset(behind(number)), None));
                let loaded: Vec<T> = loaded.collect();
                for (number, bits) in numbers.clone().zip(loaded) {
                    store(to.offset(behind(number)), bits);
                }
            },
            || {
                let load = |number: u32| load(from.offset(behind(number)), Some(inside(number)));
                let loaded: Vec<T> = numbers.clone().map(load).collect();
                for (number, bits) in numbers.clone().zip(loaded) {
                    k.if_(inside(number), || store(to.offset(behind(number)), bits));
                }
            },
        );
    }
}
