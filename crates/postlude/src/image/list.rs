//! Host tensors laid out as lists: a batch's tensors apart from one another, in another order and unevenly, so that kernels
//! that look them up are met without memory of several owners.

use crate::graph::{Graph, InputId};
use crate::image;
use crate::placement::Placement;
use crate::shape::Dim;
use crate::tensor::TensorView;

/// A batched tensor as a list.
#[derive(Clone, Debug)]
pub(crate) struct List {
    /// Where it lies.
    pub(crate) placement: Placement,
    /// Bytes of all of it.
    pub(crate) bytes: usize,
    /// Bytes from its memory's start to the first element of its lowest tensor.
    pub(crate) start: usize,
    /// Steps of the first stride from there to each tensor.
    pub(crate) steps: Vec<u32>,
    /// Bytes of a step.
    step: usize,
    /// Bytes of a tensor before its first element, and from there on.
    extent: [usize; 2],
    /// The same element of the host's tensors, by batch.
    on_host: Vec<usize>,
}

impl List {
    /// The bytes that steps are, which is what addresses are compared to.
    const STEP: usize = Placement::PERIOD as usize;

    /// An input as a list, where kernels of this graph take one.
    pub(crate) fn of_input(graph: &Graph, input: InputId, tensor: TensorView<'_>) -> Option<List> {
        let ends = [graph.ends(), graph.contraction_ends(), graph.row_counts()];
        if graph.is_table(input) || ends.contains(&Some(input)) {
            return None;
        }
        List::of(graph, graph.inputs()[input.0 as usize].dims.as_deref()?, tensor)
    }

    /// A tensor of these dims as a list, where kernels of this graph take one: of two tensors or more, by a batch dim.
    pub(crate) fn of(graph: &Graph, dims: &[Dim], tensor: TensorView<'_>) -> Option<List> {
        let is_batched = dims.first().is_some_and(|first| graph.space().batch.contains(first));
        if !is_batched || tensor.is_empty() {
            return None;
        }
        let count = tensor.shape()[0];
        let bits = tensor.dtype().bits();
        // Single bits lie without gaps.
        if count < 2 || bits == 1 {
            return None;
        }
        let reach = |is_counted: fn(isize) -> bool| -> usize {
            let dims = tensor.shape().iter().zip(tensor.strides()).skip(1);
            let counted = dims.filter(|(_, stride)| is_counted(**stride));
            counted.map(|(size, stride)| (size - 1) * stride.unsigned_abs()).sum()
        };
        let before = reach(|stride| stride < 0) * bits / 8;
        let behind = tensor.dtype().bytes_for(reach(|stride| stride > 0) + 1);
        // Every third tensor has a gap behind it, and they come from the last to the first.
        let own = (before + behind).div_ceil(List::STEP);
        let steps = |batch: usize| (count - 1 - batch) * own + (count - 1 - batch) / 3;
        let beyond = image::start(tensor) % List::STEP;
        let start = before.next_multiple_of(List::STEP) + beyond;
        let first_stride = tensor.strides()[0];
        let host = |batch: usize| {
            let elements = tensor.offset() as isize + batch as isize * first_stride;
            elements as usize * bits / 8
        };
        let mut strides = tensor.strides().to_vec();
        strides[0] = (List::STEP * 8 / bits) as isize;
        Some(List {
            placement: Placement::at(strides, start as u64)
                .listed(steps(0) + 1)
                .of_dtype(tensor.dtype()),
            bytes: start + steps(0) * List::STEP + behind,
            start,
            steps: (0..count).map(|batch| steps(batch) as u32).collect(),
            step: List::STEP,
            extent: [before, behind],
            on_host: (0..count).map(host).collect(),
        })
    }

    /// The ranges of bytes that each tensor has on the host and in the list.
    fn ranges(&self) -> impl Iterator<Item = [std::ops::Range<usize>; 2]> {
        let [before, behind] = self.extent;
        let range = move |first: usize| first - before..first + behind;
        let firsts = self.on_host.iter().zip(&self.steps);
        firsts.map(move |(host, steps)| {
            [range(*host), range(self.start + *steps as usize * self.step)]
        })
    }

    /// The list's memory with a host tensor's bytes; what lies between is `filled`.
    pub(crate) fn lay_out(&self, host: &[u8], filled: u8) -> Vec<u8> {
        let mut bytes = vec![filled; self.bytes];
        for [from, to] in self.ranges() {
            bytes[to].copy_from_slice(&host[from]);
        }
        bytes
    }

    /// Copies the tensors back to where the host has them. Between them the memory is still `filled`.
    pub(crate) fn take_back(&self, name: &str, list: &[u8], filled: u8, host: &mut [u8]) {
        let mut between = list.to_vec();
        for [to, from] in self.ranges() {
            between[from.clone()].fill(filled);
            host[to].copy_from_slice(&list[from]);
        }
        if let Some(at) = between.iter().position(|byte| *byte != filled) {
            panic!("compiler bug: the kernel wrote between the tensors of `{name}`, at byte {at}")
        }
    }

    /// The table as a kernel reads it.
    #[cfg(feature = "sim")]
    pub(crate) fn table(&self) -> Vec<u8> {
        self.steps.iter().flat_map(|steps| steps.to_le_bytes()).collect()
    }

    /// Bytes from the memory's start to the first element of each tensor.
    #[cfg(feature = "sim")]
    pub(crate) fn firsts(&self) -> impl Iterator<Item = usize> {
        self.steps.iter().map(|steps| self.start + *steps as usize * self.step)
    }
}
