//! Others who do what a row does, in the same process and the same rounds: PyTorch, from its own language.
//!
//! In: a row's memory, set by set, with our results in the first. Out: the peers there are, each checked against our
//! results by whoever prepared it, and launches of theirs on any set.
//!
//! Invariant: a peer that cannot take part says why; the row is measured without it.

use std::collections::BTreeMap;

use postlude::runtime::Stream;
use serde::{Deserialize, Serialize};

use crate::data::{Data, Placed};
use crate::error::YardstickError;
use crate::suite::Row;

/// A tensor in every set.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PeerTensor {
    /// Its name in the kernel.
    pub name: String,
    /// Its element type.
    pub dtype: String,
    /// Its sizes; elements lie one after the other, rows first.
    pub shape: Vec<usize>,
    /// Where it is in each set; empty where nothing was taken.
    pub addresses: Vec<u64>,
}

/// What peers are asked for.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Asked {
    /// The row.
    pub row: String,
    /// Our kernel.
    pub source: String,
    /// M, N and K.
    pub sizes: [usize; 3],
    /// The dtype of the operands.
    pub dtype: String,
    /// Sets of buffers.
    pub sets: usize,
    /// What the host passes.
    pub scalars: BTreeMap<String, f64>,
    /// Tensors that are read.
    pub inputs: Vec<PeerTensor>,
    /// Tensors that our kernel wrote, in the first set.
    pub outputs: Vec<PeerTensor>,
}

impl Asked {
    /// A row on its memory.
    pub(crate) fn on(row: &Row, data: &Data) -> Asked {
        let tensors = |placed: &[Placed]| {
            let tensor = |one: &Placed| PeerTensor {
                name: one.name.clone(),
                dtype: one.dtype.to_string(),
                shape: one.shape.clone(),
                addresses: (0..data.sets).map(|set| one.buffer(set).address()).collect(),
            };
            placed.iter().map(tensor).collect()
        };
        let (inputs, outputs) = (tensors(&data.inputs), tensors(&data.outputs));
        Asked::new(row, data.sets, data.scalars(), inputs, outputs)
    }

    /// A row without memory: what has to be compiled for it.
    pub fn of(row: &Row) -> Result<Asked, YardstickError> {
        let kernel = row.kernel()?;
        let graph = kernel.defined();
        let problem = crate::measure::problem(&kernel, row)?;
        let tensor = |name: &str, dtype: postlude::DType, dims: &[postlude::shape::Dim]| {
            let (name, shape) = (name.to_owned(), problem.shape(dims));
            PeerTensor { name, dtype: dtype.to_string(), shape, addresses: Vec::new() }
        };
        let (mut inputs, mut scalars) = (Vec::new(), BTreeMap::new());
        for input in graph.passed_inputs() {
            if let Some(dims) = &input.dims {
                inputs.push(tensor(&input.name, input.dtype, dims));
            } else {
                let value = crate::suite::scalar(&input.name).unwrap_or(1.0);
                scalars.insert(input.name.clone(), value.into());
            }
        }
        let outputs = graph.outputs().iter();
        let outputs =
            outputs.map(|output| tensor(&output.name, output.dtype, &output.dims)).collect();
        Ok(Asked::new(row, 0, scalars, inputs, outputs))
    }

    fn new(
        row: &Row,
        sets: usize,
        scalars: BTreeMap<String, f64>,
        inputs: Vec<PeerTensor>,
        outputs: Vec<PeerTensor>,
    ) -> Asked {
        Asked {
            row: row.name.clone(),
            source: row.source.clone(),
            sizes: row.sizes,
            dtype: row.dtype.to_string(),
            sets,
            scalars,
            inputs,
            outputs,
        }
    }
}

/// One who was asked.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Peer {
    /// What it is called in reports.
    pub name: String,
    /// Why it does not take part, where it does not.
    pub absent: Option<String>,
    /// How far its results are from ours, output by output: the norm of the difference over the norm of ours.
    #[serde(default)]
    pub errors: BTreeMap<String, f64>,
}

/// Who prepares peers and queues their work.
pub trait Peers {
    /// What they run in, with its version.
    fn runtime(&self) -> String;
    /// Prepares and checks those of a row; the numbers of launches are places in the answer.
    fn prepare(&self, asked: &Asked) -> Result<Vec<Peer>, YardstickError>;
    /// Queues one of them on a set.
    fn launch(&self, peer: usize, set: usize, stream: &Stream) -> Result<(), YardstickError>;
    /// Forgets the row's memory, which is about to go.
    fn release(&self);
}

/// The peers of one row, released when dropped.
pub(crate) struct Present<'a> {
    from: &'a dyn Peers,
    pub(crate) peers: Vec<Peer>,
}

impl<'a> Present<'a> {
    /// Asks for a row's peers. The results of ours lie in the first set, and the GPU is idle.
    pub(crate) fn prepare(from: &'a dyn Peers, row: &Row, data: &Data) -> Present<'a> {
        let peers = from.prepare(&Asked::on(row, data)).unwrap_or_else(|error| {
            let (name, absent) = ("peers".to_owned(), Some(error.to_string()));
            vec![Peer { name, absent, errors: BTreeMap::new() }]
        });
        Present { from, peers }
    }

    /// The numbers of those that take part.
    pub(crate) fn numbers(&self) -> Vec<usize> {
        let present = self.peers.iter().enumerate().filter(|(_, peer)| peer.absent.is_none());
        present.map(|(number, _)| number).collect()
    }

    pub(crate) fn launch(
        &self,
        peer: usize,
        set: usize,
        stream: &Stream,
    ) -> Result<(), YardstickError> {
        self.from.launch(peer, set, stream)
    }

    /// One that failed while it was timed takes no further part.
    pub(crate) fn dismiss(&mut self, number: usize, reason: String) {
        if let Some(peer) = self.peers.get_mut(number) {
            peer.absent = Some(reason);
        }
    }
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.from.release();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::suite::{SEED, Suite};

    fn asked(name: &str) -> Asked {
        let rows = Suite::Epilogues.rows(SEED);
        Asked::of(rows.iter().find(|row| row.name == name).unwrap()).unwrap()
    }

    #[test]
    fn a_row_without_memory_says_what_its_tensors_are() {
        let asked = asked("E9");
        let shapes: Vec<(&str, &str, &[usize])> = (asked.inputs.iter().chain(&asked.outputs))
            .map(|one| (one.name.as_str(), one.dtype.as_str(), one.shape.as_slice()))
            .collect();
        let wanted: [(&str, &str, &[usize]); 5] = [
            ("A", "bf16", &[8192, 4096]),
            ("W", "bf16", &[28672, 4096]),
            ("bias", "f32", &[28672]),
            ("D", "f8e4m3", &[8192, 28672]),
            ("amax", "f32", &[]),
        ];
        assert_eq!(shapes, wanted);
        assert_eq!(asked.scalars["scale"], 0.5);
    }

    #[test]
    fn every_row_of_the_suite_can_be_asked_for() {
        for row in Suite::Epilogues.rows(SEED) {
            assert_eq!(Asked::of(&row).unwrap().row, row.name);
        }
    }

    /// One peer that takes part, one that does not.
    #[derive(Default)]
    struct Fake {
        released: Cell<bool>,
    }

    impl Peers for Fake {
        fn runtime(&self) -> String {
            "a test".to_owned()
        }

        fn prepare(&self, _: &Asked) -> Result<Vec<Peer>, YardstickError> {
            let peer = |name: &str, absent: Option<&str>| Peer {
                name: name.to_owned(),
                absent: absent.map(str::to_owned),
                errors: BTreeMap::new(),
            };
            Ok(vec![peer("one", Some("no room")), peer("other", None)])
        }

        fn launch(&self, _: usize, _: usize, _: &Stream) -> Result<(), YardstickError> {
            Ok(())
        }

        fn release(&self) {
            self.released.set(true);
        }
    }

    #[test]
    fn peers_keep_their_numbers_and_are_released() {
        let fake = Fake::default();
        let peers = fake.prepare(&asked("E4-gelu")).unwrap();
        let mut present = Present { from: &fake, peers };
        assert_eq!(present.numbers(), [1]);
        present.dismiss(1, "it burnt".to_owned());
        assert_eq!((present.numbers(), fake.released.get()), (vec![], false));
        drop(present);
        assert!(fake.released.get());
    }
}
