//! Scratch memory of launches: one piece for each stream, taken and given back in the stream's order.
//!
//! A kernel finds its scratch memory zeroed the first time, and leaves it zeroed for itself. Another launch may
//! lay the same bytes out differently, so they are zeroed again whenever the launch that used them last was another one.
//! Launches on one stream never overlap, so one piece is enough. Under graph capture the piece is part of the graph.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::runtime::driver::{Allocation, Context, Stream};
use crate::runtime::error::RuntimeError;

/// Who used scratch memory last: the number of a prepared launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct User(pub(crate) u64);

#[derive(Default)]
struct Piece {
    memory: Option<Allocation>,
    last: Option<User>,
}

/// The scratch memory of a GPU's streams.
#[derive(Default)]
pub(crate) struct Workspaces {
    pieces: Mutex<HashMap<u64, Arc<Mutex<Piece>>>>,
}

impl Workspaces {
    /// Calls `launch` with the address of at least `bytes` that this user finds as it left them, or zeroed.
    pub(crate) fn with(
        &self,
        context: &Arc<Context>,
        stream: &Stream,
        user: User,
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
        if piece.memory.as_ref().is_none_or(|memory| memory.len() < bytes) {
            piece.last = None;
            if let Some(memory) = piece.memory.take() {
                memory.free(context, stream)?;
            }
            piece.memory = Some(Allocation::new(context, bytes.next_power_of_two(), stream)?);
        }
        let Some(memory) = &piece.memory else { panic!("compiler bug: no scratch memory") };
        let address = memory.address();
        if piece.last != Some(user) {
            memory.zero(context, bytes, stream)?;
        }
        // A launch that fails leaves the bytes in doubt.
        piece.last = None;
        launch(address)?;
        piece.last = Some(user);
        Ok(())
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
            piece.last = None;
            if let Some(memory) = piece.memory.take() {
                context.synchronize()?;
                memory.free_after_wait(context)?;
            }
        }
        Ok(())
    }
}
