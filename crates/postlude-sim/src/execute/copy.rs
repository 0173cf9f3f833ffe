//! Asynchronous copies as warps issue them and wait for them.

use postlude_ptx::address::{Address, TensorAddress};
use postlude_ptx::inst::Inst;
use postlude_ptx::launch::Swizzle;
use postlude_ptx::modifier::{Reduction, WaitFor};
use postlude_ptx::operand::Operand;

use crate::error::SimError;
use crate::lane_order::{Does, Piece, Where};
use crate::machine::Machine;
use crate::memory::Fault;
use crate::observe::{self, Kind};
use crate::operation::{Operation, Place, Work};
use crate::report::Diagnosis;
use crate::warp::{Wait, Warp, lanes};

use super::{Now, Outcome};

impl Machine<'_> {
    pub(super) fn execute_copy(
        &mut self,
        warp: &mut Warp,
        now: Now,
        inst: &Inst,
    ) -> Result<Outcome, SimError> {
        match inst {
            Inst::TensorLoad { to, from, barrier, .. }
            | Inst::TensorLoadHint { to, from, barrier, .. } => {
                self.tensor_load(warp, now, [to, barrier], from, None)
            }
            Inst::TensorMulticast { to, from, barrier, receivers, .. }
            | Inst::TensorMulticastHint { to, from, barrier, receivers, .. } => {
                self.tensor_load(warp, now, [to, barrier], from, Some(receivers.0))
            }
            Inst::BulkLoad { to, from, bytes, barrier } => {
                self.bulk_load(warp, now, [to, from, barrier], bytes.0)
            }
            Inst::StoreAsync { to, a, barrier, .. } => {
                self.store_async(warp, now, [to, barrier], a.0)
            }
            Inst::TensorStore { to, from, .. } | Inst::TensorStoreHint { to, from, .. } => {
                self.tensor_store(warp, now, to, from, None)
            }
            Inst::TensorReduce { reduction, to, from, .. } => {
                self.tensor_store(warp, now, to, from, Some(*reduction))
            }
            Inst::BulkStore { to, from, bytes } => self.bulk_store(warp, now, [to, from], bytes.0),
            Inst::BulkCommit {} => {
                lanes(now.mask).for_each(|lane| warp.bulk[lane].commit());
                Ok(Outcome::Next)
            }
            Inst::BulkWait { wait, pending } => {
                let pending = self.value(warp, pending.0)[0] as usize;
                Ok(self.wait_bulk(warp, now, pending, *wait))
            }
            Inst::CopyAsync { to, from, bytes, read, .. } => {
                self.copy_async(warp, now, [to, from], bytes.0, read.0)
            }
            Inst::CopyCommit {} => {
                lanes(now.mask).for_each(|lane| warp.copies[lane].commit());
                Ok(Outcome::Next)
            }
            Inst::CopyWait { pending } => {
                let pending = self.value(warp, pending.0)[0] as usize;
                Ok(self.wait_copies(warp, now, pending))
            }
            _ => Err(self.unsupported(now.line, "no unit")),
        }
    }

    /// Hands an operation over; its number.
    pub(super) fn issue(&mut self, warp: &Warp, now: Now, work: Work) -> u64 {
        let number = self.next_operation;
        self.next_operation += 1;
        let kind = match &work {
            Work::Load { from: Place::Word(_), .. } => observe::Operation::Word,
            Work::Load { .. } => observe::Operation::Load,
            Work::Store { .. } => observe::Operation::Store,
            Work::Product(_) => observe::Operation::Product,
            Work::Copy { .. } => observe::Operation::Copy,
        };
        self.observer.issued(self.at(warp, now.line, now.mask), kind, number);
        self.aim(warp, number, &work);
        let operation = Operation { line: now.line, cta: warp.cta, warp: warp.number, work };
        self.operations.insert(number, operation);
        number
    }

    /// The box that a lane names.
    fn place(
        &mut self,
        warp: &Warp,
        now: Now,
        lane: usize,
        tensor: &TensorAddress,
    ) -> Result<Option<Place>, SimError> {
        let address = warp.registers[self.program.place(tensor.map)][lane];
        let Some(map) = self.parameters.map(address) else {
            let message = format!("no tensor map at {address:#x}");
            self.blame(Self::blamed(warp), now.line, Diagnosis::TensorMap, message)?;
            return Ok(None);
        };
        if map.sizes.len() != tensor.coordinates.len() {
            let message = format!(
                "{} coordinates for a map of {} dims",
                tensor.coordinates.len(),
                map.sizes.len()
            );
            self.blame(Self::blamed(warp), now.line, Diagnosis::TensorMap, message)?;
            return Ok(None);
        }
        let map = Box::new(map.clone());
        let first = self.value(warp, tensor.coordinates[0])[lane] as i32;
        let bytes = i64::from(first) * i64::from(map.element.bytes());
        if (map.swizzle != Swizzle::None || first < 0) && bytes % 16 != 0 {
            let message = format!("the innermost coordinate {first} is between 16-byte chunks");
            self.blame(Self::blamed(warp), now.line, Diagnosis::Misaligned, message)?;
        }
        // A box that lies outside altogether lies outside wherever that is.
        let corner = tensor.coordinates.iter().enumerate().map(|(dim, each)| {
            let (size, length) = (map.sizes[dim] as i32, map.box_sizes[dim] as i32);
            (self.value(warp, *each)[lane] as i32).clamp(-length, size)
        });
        let corner = corner.collect();
        Ok(Some(Place::Box { map, corner }))
    }

    /// Finds an address of shared memory that is no multiple of 16 or, for boxes, of 128.
    fn check_shared(
        &mut self,
        warp: &Warp,
        now: Now,
        address: u32,
        place: &Place,
    ) -> Result<(), SimError> {
        let multiple = match place {
            Place::Box { .. } => 128,
            Place::Bytes { .. } => 16,
            Place::Word(_) => 4,
        };
        if address.is_multiple_of(multiple) {
            return Ok(());
        }
        self.blame_shared(Self::blamed(warp), now.line, Fault::Misaligned, address)
    }

    fn tensor_load(
        &mut self,
        warp: &Warp,
        now: Now,
        [to, barrier]: [&Address; 2],
        from: &TensorAddress,
        receivers: Option<Operand>,
    ) -> Result<Outcome, SimError> {
        let to = self.address(warp, to, now.line)?;
        let barrier = self.address(warp, barrier, now.line)?;
        let masks = receivers.map(|receivers| self.value(warp, receivers));
        for lane in lanes(now.mask) {
            let Some(place) = self.place(warp, now, lane, from)? else { continue };
            let mask = masks.map(|masks| masks[lane] as u16);
            self.load((warp, lane), now, [to[lane] as u32, barrier[lane] as u32], &place, mask)?;
        }
        Ok(Outcome::Yield)
    }

    fn bulk_load(
        &mut self,
        warp: &Warp,
        now: Now,
        [to, from, barrier]: [&Address; 3],
        bytes: Operand,
    ) -> Result<Outcome, SimError> {
        let to = self.address(warp, to, now.line)?;
        let from = self.address(warp, from, now.line)?;
        let barrier = self.address(warp, barrier, now.line)?;
        let bytes = self.value(warp, bytes);
        for lane in lanes(now.mask) {
            let place = self.bytes(warp, now, from[lane], bytes[lane] as u32)?;
            self.load((warp, lane), now, [to[lane] as u32, barrier[lane] as u32], &place, None)?;
        }
        Ok(Outcome::Yield)
    }

    fn store_async(
        &mut self,
        warp: &Warp,
        now: Now,
        [to, barrier]: [&Address; 2],
        word: Operand,
    ) -> Result<Outcome, SimError> {
        let to = self.address(warp, to, now.line)?;
        let barrier = self.address(warp, barrier, now.line)?;
        let words = self.value(warp, word);
        for lane in lanes(now.mask) {
            let place = Place::Word(words[lane] as u32);
            self.load((warp, lane), now, [to[lane] as u32, barrier[lane] as u32], &place, None)?;
        }
        Ok(Outcome::Yield)
    }

    /// Plain bytes, whose address and number must be multiples of 16.
    fn bytes(
        &mut self,
        warp: &Warp,
        now: Now,
        address: u64,
        bytes: u32,
    ) -> Result<Place, SimError> {
        if !address.is_multiple_of(16) || !bytes.is_multiple_of(16) {
            self.blame_global(Self::blamed(warp), now.line, Fault::Misaligned, address)?;
        }
        Ok(Place::Bytes { address, bytes: bytes.min(1 << 20) })
    }

    /// One operation for each CTA that receives the bytes: they arrive one by one.
    fn load(
        &mut self,
        (warp, lane): (&Warp, usize),
        now: Now,
        [to, barrier]: [u32; 2],
        place: &Place,
        receivers: Option<u16>,
    ) -> Result<(), SimError> {
        let targets = match receivers {
            None => self.window(warp.cta, to).into_iter().collect::<Vec<_>>(),
            Some(mask) => {
                let (_, to) = crate::memory::rank_of(to);
                let ctas = self.clusters[self.ctas[warp.cta].cluster].ctas.clone();
                let chosen = ctas.enumerate().filter(|(rank, _)| mask >> (rank & 15) & 1 == 1);
                chosen.map(|(_, cta)| (cta, to)).collect()
            }
        };
        if targets.is_empty() {
            self.blame_shared(Self::blamed(warp), now.line, Fault::Outside, to)?;
        }
        self.check_shared(warp, now, crate::memory::rank_of(to).1, place)?;
        let (_, barrier) = crate::memory::rank_of(barrier);
        for (receiver, to) in targets {
            let work = Work::Load { receiver, to, barrier, from: place.clone() };
            let number = self.issue(warp, now, work);
            let piece = (to, place.bytes());
            self.touch_copy((warp, lane), now, (receiver, number), Does::Write, piece)?;
        }
        Ok(())
    }

    /// Where a copy out of shared memory starts: in the own CTA's.
    fn source(
        &mut self,
        warp: &Warp,
        now: Now,
        address: u32,
        place: &Place,
    ) -> Result<Option<u32>, SimError> {
        match self.window(warp.cta, address) {
            Some((cta, own)) if cta == warp.cta => {
                self.check_shared(warp, now, own, place)?;
                Ok(Some(own))
            }
            Some(_) | None => {
                self.blame_shared(Self::blamed(warp), now.line, Fault::Outside, address)?;
                Ok(None)
            }
        }
    }

    fn tensor_store(
        &mut self,
        warp: &mut Warp,
        now: Now,
        to: &TensorAddress,
        from: &Address,
        reduction: Option<Reduction>,
    ) -> Result<Outcome, SimError> {
        let from = self.address(warp, from, now.line)?;
        for lane in lanes(now.mask) {
            let Some(place) = self.place(warp, now, lane, to)? else { continue };
            if let Place::Box { corner, .. } = &place
                && let Some(before) = corner.iter().find(|coordinate| **coordinate < 0)
            {
                let message =
                    format!("a copy out of shared memory begins at {before}, before its tensor");
                self.blame(Self::blamed(warp), now.line, Diagnosis::Limit, message)?;
            }
            let Some(from) = self.source(warp, now, from[lane] as u32, &place)? else { continue };
            let piece = (from, place.bytes());
            let work = Work::Store { from, to: place, reduction, data: None };
            let number = self.issue(warp, now, work);
            self.touch_copy((warp, lane), now, (warp.cta, number), Does::Read, piece)?;
            warp.bulk[lane].open.push(number);
        }
        Ok(Outcome::Yield)
    }

    fn bulk_store(
        &mut self,
        warp: &mut Warp,
        now: Now,
        [to, from]: [&Address; 2],
        bytes: Operand,
    ) -> Result<Outcome, SimError> {
        let to = self.address(warp, to, now.line)?;
        let from = self.address(warp, from, now.line)?;
        let bytes = self.value(warp, bytes);
        for lane in lanes(now.mask) {
            let place = self.bytes(warp, now, to[lane], bytes[lane] as u32)?;
            let Some(from) = self.source(warp, now, from[lane] as u32, &place)? else { continue };
            let piece = (from, place.bytes());
            let work = Work::Store { from, to: place, reduction: None, data: None };
            let number = self.issue(warp, now, work);
            self.touch_copy((warp, lane), now, (warp.cta, number), Does::Read, piece)?;
            warp.bulk[lane].open.push(number);
        }
        Ok(Outcome::Yield)
    }

    fn wait_bulk(&mut self, warp: &mut Warp, now: Now, pending: usize, until: WaitFor) -> Outcome {
        if !self.bulk_done(warp, now.mask, pending, until) {
            return Outcome::Retry(Wait::Bulk { lanes: now.mask, pending, until });
        }
        let all = lanes(now.mask).flat_map(|lane| warp.bulk[lane].before(pending));
        let joined: Vec<u64> = all.collect();
        self.observer.joined(self.at(warp, now.line, now.mask), &joined, until);
        // Who waited until sources were read may wait again, for the rest.
        if until == WaitFor::Read {
            return Outcome::Next;
        }
        let operations = &self.operations;
        let gone = |group: &Vec<u64>| !group.iter().any(|each| operations.contains_key(each));
        for lane in lanes(now.mask) {
            let groups = &mut warp.bulk[lane].closed;
            let done = groups.iter().take_while(|group| gone(group)).count();
            groups.drain(..done.min(groups.len().saturating_sub(pending)));
        }
        Outcome::Next
    }

    /// Whether at most this many groups of each lane are under way.
    pub(crate) fn bulk_done(&self, warp: &Warp, mask: u32, pending: usize, until: WaitFor) -> bool {
        let mut waited = lanes(mask).flat_map(|lane| warp.bulk[lane].before(pending));
        waited.all(|number| match self.operations.get(&number).map(|each| &each.work) {
            None => true,
            Some(Work::Store { data, .. }) => until == WaitFor::Read && data.is_some(),
            Some(Work::Load { .. } | Work::Product(_) | Work::Copy { .. }) => false,
        })
    }

    fn copy_async(
        &mut self,
        warp: &mut Warp,
        now: Now,
        [to, from]: [&Address; 2],
        bytes: Operand,
        read: Option<Operand>,
    ) -> Result<Outcome, SimError> {
        let to = self.address(warp, to, now.line)?;
        let from = self.address(warp, from, now.line)?;
        let bytes = self.value(warp, bytes);
        let read = self.value(warp, read.unwrap_or(Operand::Integer(16)));
        for lane in lanes(now.mask) {
            let (to, bytes) = (to[lane] as u32, bytes[lane] as u32);
            if ![4, 8, 16].contains(&bytes) {
                return Err(self.unsupported(now.line, "4, 8 or 16 bytes"));
            }
            if !to.is_multiple_of(bytes) {
                self.blame_shared(Self::blamed(warp), now.line, Fault::Misaligned, to)?;
            }
            if !from[lane].is_multiple_of(u64::from(bytes)) {
                self.blame_global(Self::blamed(warp), now.line, Fault::Misaligned, from[lane])?;
            }
            let read = (read[lane] as u32).min(bytes);
            let piece = Piece { lane: lane as u32, address: to.into(), bytes };
            let space = Where::Shared { cta: self.ctas[warp.cta].number };
            self.touch_lanes(warp, now, space, Kind::Write, &[piece])?;
            let number = self.issue(warp, now, Work::Copy { to, from: from[lane], bytes, read });
            warp.copies[lane].open.push(number);
        }
        Ok(Outcome::Yield)
    }

    fn wait_copies(&mut self, warp: &mut Warp, now: Now, pending: usize) -> Outcome {
        if let Some(open) = self.open_copy(warp, now.mask, pending) {
            return Outcome::Retry(Wait::Copies { lanes: now.mask, pending, open });
        }
        let all = lanes(now.mask).flat_map(|lane| warp.copies[lane].before(pending));
        let joined: Vec<u64> = all.collect();
        self.observer.joined(self.at(warp, now.line, now.mask), &joined, WaitFor::Complete);
        lanes(now.mask).for_each(|lane| warp.copies[lane].forget(pending));
        Outcome::Next
    }

    /// The newest copy under way of all but this many groups of each lane.
    fn open_copy(&self, warp: &Warp, mask: u32, pending: usize) -> Option<u64> {
        let waited = lanes(mask).flat_map(|lane| warp.copies[lane].before(pending));
        waited.filter(|number| self.operations.contains_key(number)).max()
    }
}
