//! Scratch memory of launches: one piece for each stream, taken and given back in the stream's order.
//!
//! Scratch memory is zero whenever no kernel runs: it is zeroed once, and every kernel leaves it as it found it, which the
//! simulator checks. Launches on one stream never overlap, so one piece is enough. Under graph capture the piece is part of the graph.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::runtime::driver::{Allocation, Context, Stream};
use crate::runtime::error::RuntimeError;

#[derive(Default)]
struct Piece {
    memory: Option<Allocation>,
    /// How many of its first bytes are zero while no kernel runs.
    zeroed: u64,
}

impl Piece {
    /// The address of as many bytes.
    fn at_least(
        &mut self,
        context: &Arc<Context>,
        stream: &Stream,
        bytes: u64,
    ) -> Result<u64, RuntimeError> {
        if let Some(memory) = self.memory.as_ref().filter(|memory| memory.len() >= bytes) {
            return Ok(memory.address());
        }
        self.zeroed = 0;
        if let Some(memory) = self.memory.take() {
            memory.free(context, stream)?;
        }
        // Small pieces grow by doubling; large ones would waste as much again.
        let rounded = if bytes < LARGE { bytes.next_power_of_two() } else { bytes };
        let memory = Allocation::new(context, rounded, stream)?;
        Ok(self.memory.insert(memory).address())
    }
}

/// Bytes of a piece that is no larger than it has to be.
const LARGE: u64 = 16 << 20;

/// The scratch memory of a GPU's streams.
#[derive(Default)]
pub(crate) struct Workspaces {
    pieces: Mutex<HashMap<u64, Arc<Mutex<Piece>>>>,
}

impl Workspaces {
    /// Calls `launch` with the address of at least `bytes` that are zero, and that it leaves so.
    pub(crate) fn with(
        &self,
        context: &Arc<Context>,
        stream: &Stream,
        bytes: u64,
        launch: impl FnOnce(u64) -> Result<(), RuntimeError>,
    ) -> Result<(), RuntimeError> {
        if stream.is_capturing()? {
            let memory = Allocation::new(context, bytes, stream)?;
            memory.zero(context, bytes, stream)?;
            launch(memory.address())?;
            return memory.free(context, stream);
        }
        let piece = self.piece(stream.number()?);
        // Held until the launch is queued: zeroing and launch are neighbours in the stream's order.
        let mut piece = piece.lock().unwrap_or_else(PoisonError::into_inner);
        let address = piece.at_least(context, stream, bytes)?;
        if let (true, Some(memory)) = (piece.zeroed < bytes, &piece.memory) {
            memory.zero(context, bytes, stream)?;
        }
        let zeroed = piece.zeroed.max(bytes);
        // A launch that fails leaves the bytes in doubt.
        piece.zeroed = 0;
        launch(address)?;
        piece.zeroed = zeroed;
        Ok(())
    }

    /// Calls `launch` with the address of at least `bytes`, whatever they hold; launches that it queues on the stream may use
    /// them.
    pub(crate) fn with_any(
        &self,
        context: &Arc<Context>,
        stream: &Stream,
        bytes: u64,
        launch: impl FnOnce(u64) -> Result<(), RuntimeError>,
    ) -> Result<(), RuntimeError> {
        if stream.is_capturing()? {
            let memory = Allocation::new(context, bytes, stream)?;
            launch(memory.address())?;
            return memory.free(context, stream);
        }
        let piece = self.piece(stream.number()?);
        let mut piece = piece.lock().unwrap_or_else(PoisonError::into_inner);
        launch(piece.at_least(context, stream, bytes)?)
    }

    fn piece(&self, stream: u64) -> Arc<Mutex<Piece>> {
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        pieces.entry(stream).or_default().clone()
    }

    /// Gives back what a stream used, in its order.
    pub(crate) fn release(&self, stream: &Stream) -> Result<(), RuntimeError> {
        let number = stream.number()?;
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(piece) = pieces.remove(&number) else { return Ok(()) };
        drop(pieces);
        let memory = piece.lock().unwrap_or_else(PoisonError::into_inner).memory.take();
        memory.map_or(Ok(()), |memory| memory.free(stream.device().context(), stream))
    }

    /// Gives everything back after waiting for the GPU.
    pub(crate) fn release_all(&self, context: &Context) -> Result<(), RuntimeError> {
        let pieces: Vec<Arc<Mutex<Piece>>> = {
            let pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
            pieces.values().cloned().collect()
        };
        for piece in pieces {
            // Held over the wait, so that no launch begins to use the memory in between.
            let mut piece = piece.lock().unwrap_or_else(PoisonError::into_inner);
            piece.zeroed = 0;
            if let Some(memory) = piece.memory.take() {
                context.synchronize()?;
                memory.free_after_wait(context)?;
            }
        }
        Ok(())
    }
}
