//! What every row needs: a GPU, a stream, what the host hides behind, and the other side's library.

use postlude::Problem;
use postlude::graph::Graph;
use postlude::runtime::{Device, Stream};
use postlude::target::Chip;

use crate::cublaslt::CublasLt;
use crate::data::Data;
use crate::error::YardstickError;
use crate::peers::Peers;
use crate::regime::Regime;
use crate::rounds::{Competitor, Plan, Samples, Track};
use crate::sleep::Sleep;
use crate::suite::Row;

/// What every row needs.
pub(crate) struct Bench<'a> {
    pub(crate) device: &'a Device,
    pub(crate) chip: Chip,
    pub(crate) stream: &'a Stream,
    pub(crate) sleep: &'a Sleep,
    pub(crate) library: Option<&'a CublasLt>,
    pub(crate) peers: Option<&'a dyn Peers>,
    pub(crate) copy_bytes_per_second: f64,
    /// At most this many rounds a row.
    pub(crate) rounds: usize,
    pub(crate) regime: Regime,
}

impl<'a> Bench<'a> {
    /// The memory of a row, filled as the regime wants it.
    pub(crate) fn data(
        &self,
        row: &Row,
        graph: &Graph,
        problem: &Problem,
    ) -> Result<Data, YardstickError> {
        Data::new(self.device, self.stream, row, graph, problem, self.regime.contents())
    }

    /// Times competitors as the regime wants it, in rounds of all of them or in blocks of each.
    pub(crate) fn time(
        &self,
        data: &Data,
        competitors: &[Competitor<'_>],
        plan: &Plan,
        seed: u64,
    ) -> Result<Samples, YardstickError> {
        match self.regime {
            Regime::Interleaved | Regime::FullClock => {
                self.track(data).run(competitors, plan, seed)
            }
            Regime::Alone => self.track(data).run_alone(competitors, plan, seed),
        }
    }

    /// Rounds on the sets of some data.
    pub(crate) fn track(&self, data: &Data) -> Track<'a> {
        Track { device: self.device, stream: self.stream, sleep: self.sleep, sets: data.sets }
    }
}
