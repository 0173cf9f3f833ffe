//! The completion of copies: bytes from global to shared memory and back.

use postlude_ptx::launch::{Element, TensorMap};
use postlude_ptx::modifier::Reduction;
use postlude_ptx::types::Scalar;

use crate::atomic::combine;
use crate::error::SimError;
use crate::machine::Machine;
use crate::memory::{Fault, Global, POISON};
use crate::numerics::tensor_map::{CHUNK, Run, Written, loaded, pieces as cut, stored};
use crate::observe::{Access, Agent, At, Kind, Space};
use crate::report::Diagnosis;
use crate::scalar::little;
use crate::swizzles::{Reads, Written as Laid};

use super::Place;

/// Bytes that a copy moves together: in global memory, none beyond the tensor, and in shared memory.
type Piece = (Option<u64>, u32, u32);

/// Who completes, for whom, from which line.
#[derive(Clone, Copy)]
pub(super) struct Copying {
    pub(super) number: u64,
    pub(super) cta: usize,
    pub(super) warp: u32,
    pub(super) line: u32,
}

impl Copying {
    pub(super) fn at(self) -> At {
        At { agent: Agent::Operation(self.number), line: self.line, lanes: 0 }
    }

    pub(super) fn blamed(self) -> (usize, Option<u32>) {
        (self.cta, Some(self.warp))
    }
}

/// Pieces of a copy into shared memory, whose first byte goes to `shared`.
fn load_pieces(place: &Place, shared: u32) -> Vec<Piece> {
    match place {
        Place::Box { map, corner } => {
            let base = Global::address(map.buffer.0 as usize);
            let piece = |run: Run| {
                let pieces = cut(shared, map.swizzle, run.shared, run.bytes);
                pieces.map(move |(from, at, bytes)| {
                    let global = run.global.map(|offset| base + offset + u64::from(from));
                    (global, at, bytes)
                })
            };
            loaded(map, corner).into_iter().flat_map(piece).collect()
        }
        Place::Bytes { address, bytes } => plain_pieces(*address, *bytes, shared),
        Place::Word(_) => vec![(None, shared, 4)],
    }
}

/// Pieces of a copy out of shared memory, whose first byte is at `shared`; and an address beyond a tensor's row, where
/// it writes one.
fn store_pieces(place: &Place, shared: u32) -> (Vec<Piece>, Option<u64>) {
    match place {
        Place::Box { map, corner } => {
            let base = Global::address(map.buffer.0 as usize);
            let runs = stored(map, corner);
            let beyond = runs.iter().find(|run| run.beyond > 0);
            let beyond = beyond.map(|run| base + run.global + u64::from(run.bytes - run.beyond));
            let piece = |run: Written| {
                let pieces = cut(shared, map.swizzle, run.shared, run.bytes);
                pieces.map(move |(from, at, bytes)| {
                    (Some(base + run.global + u64::from(from)), at, bytes)
                })
            };
            (runs.into_iter().flat_map(piece).collect(), beyond)
        }
        Place::Bytes { address, bytes } => (plain_pieces(*address, *bytes, shared), None),
        Place::Word(_) => (Vec::new(), None),
    }
}

fn plain_pieces(address: u64, bytes: u32, shared: u32) -> Vec<Piece> {
    let piece =
        |at: u32| (Some(address.wrapping_add(at.into())), shared + at, (bytes - at).min(CHUNK));
    (0..bytes).step_by(CHUNK as usize).map(piece).collect()
}

impl Machine<'_> {
    /// Tells who watches about one side of a copy.
    fn watch_copy(&mut self, copying: Copying, cta: Option<usize>, kind: Kind, pieces: &[Piece]) {
        let space = match cta {
            Some(cta) => Space::Shared { cta: self.ctas[cta].number },
            None => Space::Global,
        };
        let side = |(global, shared, bytes): &Piece| match cta {
            Some(_) => Some((u64::from(*shared), *bytes)),
            None => global.map(|global| (global, *bytes)),
        };
        let sides: Vec<(u64, u32)> = pieces.iter().filter_map(side).collect();
        self.observer.accessed(copying.at(), Access { space, kind, pieces: &sides });
    }

    /// Brings bytes into shared memory of the receiver; beyond the tensor there are zeros.
    pub(super) fn deliver(
        &mut self,
        copying: Copying,
        receiver: usize,
        to: u32,
        from: &Place,
    ) -> Result<(), SimError> {
        let pieces = load_pieces(from, to);
        self.watch_copy(copying, None, Kind::Read, &pieces);
        self.watch_copy(copying, Some(receiver), Kind::Write, &pieces);
        let swizzle = from.swizzle().map(|swizzle| Laid { swizzle, line: copying.line });
        for (global, shared, count) in pieces {
            let mut held = [0; 16];
            let held = &mut held[..count as usize];
            if let Place::Word(word) = from {
                held.copy_from_slice(&word.to_le_bytes());
            }
            if let Some(global) = global {
                match self.global.bytes(global, held.len()) {
                    Ok(found) => held.copy_from_slice(found),
                    Err(fault) => {
                        held.fill(POISON);
                        self.blame_global(copying.blamed(), copying.line, fault, global)?;
                    }
                }
            }
            if let Err(fault) = self.ctas[receiver].shared.write_swizzled(shared, held, swizzle) {
                self.blame_shared(copying.blamed(), copying.line, fault, shared)?;
            }
        }
        self.report.meters.bytes_loaded += u64::from(from.bytes());
        Ok(())
    }

    /// Takes bytes out of shared memory, in the order of the pieces.
    pub(super) fn take(
        &mut self,
        copying: Copying,
        from: u32,
        to: &Place,
    ) -> Result<Vec<u8>, SimError> {
        let (pieces, _) = store_pieces(to, from);
        self.watch_copy(copying, Some(copying.cta), Kind::Read, &pieces);
        let mut data = Vec::with_capacity(to.bytes() as usize);
        let reads = to.swizzle().map(|swizzle| Reads { swizzle, base_offset: 0 });
        let mut other = None;
        for (_, shared, count) in pieces {
            let disagrees = |reads| self.ctas[copying.cta].shared.disagrees(shared, reads);
            other = other.or_else(|| Some((shared, reads.and_then(disagrees)?)));
            match self.ctas[copying.cta].shared.bytes(shared, count as usize) {
                Ok((held, written)) => {
                    data.extend_from_slice(held);
                    if !written {
                        let fault = Fault::Uninitialised;
                        self.blame_shared(copying.blamed(), copying.line, fault, shared)?;
                    }
                }
                Err(fault) => {
                    data.extend(std::iter::repeat_n(POISON, count as usize));
                    self.blame_shared(copying.blamed(), copying.line, fault, shared)?;
                }
            }
        }
        if let (Some((address, written)), Some(reads)) = (other, reads) {
            self.blame_swizzle(copying.blamed(), copying.line, address, (written, reads))?;
        }
        Ok(data)
    }

    /// Puts taken bytes into global memory.
    pub(super) fn put(
        &mut self,
        copying: Copying,
        to: &Place,
        reduction: Option<Reduction>,
        data: &[u8],
    ) -> Result<(), SimError> {
        let (pieces, beyond) = store_pieces(to, 0);
        if let Some(address) = beyond {
            let message = self.global.describe(address);
            self.blame(copying.blamed(), copying.line, Diagnosis::BeyondRow, message)?;
        }
        let kind = if reduction.is_some() { Kind::Atomic } else { Kind::Write };
        self.watch_copy(copying, None, kind, &pieces);
        let mut at = 0;
        for (global, _, count) in pieces {
            let held = &data[at..at + count as usize];
            at += count as usize;
            let Some(global) = global else { continue };
            match self.global.bytes_mut(global, held.len()) {
                Ok(found) => match (reduction, to) {
                    (Some(reduction), Place::Box { map, .. }) => {
                        reduce(map, reduction, found, held);
                    }
                    (Some(_), Place::Bytes { .. } | Place::Word(_)) | (None, _) => {
                        found.copy_from_slice(held);
                    }
                },
                Err(fault) => self.blame_global(copying.blamed(), copying.line, fault, global)?,
            }
        }
        self.report.meters.bytes_stored += u64::from(to.bytes());
        Ok(())
    }

    /// A copy of sm_80.
    pub(super) fn copy(
        &mut self,
        copying: Copying,
        (to, from): (u32, u64),
        bytes: u32,
        read: u32,
    ) -> Result<(), SimError> {
        let mut held = [0; 16];
        if read > 0 {
            match self.global.bytes(from, read as usize) {
                Ok(found) => held[..read as usize].copy_from_slice(found),
                Err(fault) => self.blame_global(copying.blamed(), copying.line, fault, from)?,
            }
            self.watch_copy(copying, None, Kind::Read, &[(Some(from), to, read)]);
        }
        self.watch_copy(copying, Some(copying.cta), Kind::Write, &[(None, to, bytes)]);
        match self.ctas[copying.cta].shared.write(to, &held[..bytes as usize]) {
            Ok(()) => Ok(()),
            Err(fault) => self.blame_shared(copying.blamed(), copying.line, fault, to),
        }
    }
}

/// Combines elements with what is there.
fn reduce(map: &TensorMap, reduction: Reduction, found: &mut [u8], held: &[u8]) {
    let ty = match map.element {
        Element::U8 => Scalar::U8,
        Element::U16 => Scalar::U16,
        Element::F16 => Scalar::F16,
        Element::BF16 => Scalar::BF16,
        Element::F32 => Scalar::F32,
        Element::I32 => Scalar::S32,
    };
    let size = map.element.bytes() as usize;
    for (old, new) in found.chunks_mut(size).zip(held.chunks(size)) {
        let value = combine(reduction, ty, little(old), little(new)).unwrap_or(little(new));
        old.copy_from_slice(&value.to_le_bytes()[..size]);
    }
}
