//! What every row needs: a GPU, a stream, what the host hides behind, and the other side's library.

use postlude::plan::sm90::Sm90;
use postlude::runtime::{Device, Stream};

use crate::cublaslt::CublasLt;
use crate::data::Data;
use crate::peers::Peers;
use crate::rounds::Track;
use crate::sleep::Sleep;

/// What every row needs.
pub(crate) struct Bench<'a> {
    pub(crate) device: &'a Device,
    pub(crate) chip: Sm90,
    pub(crate) stream: &'a Stream,
    pub(crate) sleep: &'a Sleep,
    pub(crate) library: Option<&'a CublasLt>,
    pub(crate) peers: Option<&'a dyn Peers>,
    pub(crate) copy_bytes_per_second: f64,
    /// At most this many rounds a row.
    pub(crate) rounds: usize,
}

impl<'a> Bench<'a> {
    /// Rounds on the sets of some data.
    pub(crate) fn track(&self, data: &Data) -> Track<'a> {
        Track { device: self.device, stream: self.stream, sleep: self.sleep, sets: data.sets }
    }
}
