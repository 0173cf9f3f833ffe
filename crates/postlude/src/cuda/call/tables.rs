//! The tables of a call's lists, in a GPU's memory.
//!
//! In: for each list, how many steps each of its tensors lies from its address. Out: where a launch finds these numbers.
//! Invariant: tables are written once, before the first launch that reads them, and live as long as their call, or, where a
//! graph has recorded a launch, as long as the process: a graph says nothing when it is destroyed.

use std::sync::Arc;

use postlude_ptx::launch::Buffer;

use crate::runtime::{Device, DeviceBuffer, RuntimeError, Stream, relaxed_capture};

/// Where a call's tables are.
#[derive(Clone, Default)]
pub(super) struct Tables {
    memory: Option<Arc<DeviceBuffer>>,
    lists: Vec<(Buffer, Arc<[u64]>)>,
}

impl Tables {
    /// Writes tables of these lists.
    pub(super) fn new(
        lists: &[(Buffer, Arc<[u64]>)],
        device: &Device,
    ) -> Result<Tables, RuntimeError> {
        if lists.is_empty() {
            return Ok(Tables::default());
        }
        let numbers = lists.iter().flat_map(|(_, list)| list.iter());
        let bytes: Vec<u8> = numbers.flat_map(|steps| (*steps as u32).to_le_bytes()).collect();
        let memory = relaxed_capture(device.context(), || {
            let memory = device.allocate(bytes.len() as u64)?;
            memory.write(&Stream::new(device)?, 0, &bytes)?;
            Ok(memory)
        })?;
        Ok(Tables { memory: Some(Arc::new(memory)), lists: lists.to_vec() })
    }

    /// Whether they are those of these lists.
    pub(super) fn are_of(&self, lists: &[(Buffer, Arc<[u64]>)]) -> bool {
        self.lists == lists
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// Where each table is.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (Buffer, u64)> {
        let mut next = self.memory.as_ref().map_or(0, |memory| memory.address());
        self.lists.iter().map(move |(buffer, list)| {
            let address = next;
            next += (list.len() * size_of::<u32>()) as u64;
            (buffer.table(), address)
        })
    }

    /// Keeps the tables where a graph records a launch that reads them.
    pub(super) fn keep_for(&self, stream: &Stream) -> Result<(), RuntimeError> {
        if let Some(memory) = &self.memory
            && stream.is_capturing()?
        {
            std::mem::forget(memory.clone());
        }
        Ok(())
    }
}
