//! How host tensors lie in the memory that a kernel reads and writes, on a GPU or in the simulator.
//!
//! In: a host tensor. Out: its bytes there. Everything lies as it does on the host, same strides and same distance from an
//! aligned start, so that every path of a kernel is met. Only operands of the product that a tensor map could not read are
//! laid out anew, their rows padded to multiples of 16 bytes.
//! Invariant: memory between padded rows is all ones, which is nan in every float, so that reading it shows.

pub(crate) mod guard;

use std::borrow::Cow;

use crate::graph::{Graph, InputId};
use crate::plan::sm90::{Placement, Placements};
use crate::problem::{Argument, Arguments, Problem};
use crate::tensor::{Tensor, advance};

/// What tensor maps want of starts and strides, in bytes.
const MAP_ALIGNMENT: usize = 16;

/// What an address is at most said to be a multiple of, in bytes.
pub(crate) const MOST_ALIGNED: u64 = 256;

/// A host tensor as it lies there.
pub(crate) struct Image {
    pub(crate) strides: Vec<isize>,
    /// Bytes from the start of the memory to the first element.
    pub(crate) offset: usize,
    /// Whether rows are laid out anew.
    padded: bool,
}

/// The largest power of two that an address is a multiple of, as far as anyone asks.
pub(crate) fn alignment(address: u64) -> u64 {
    1 << address.trailing_zeros().min(MOST_ALIGNED.trailing_zeros())
}

/// Inputs that a tensor map reads: the operands of the product.
pub(crate) fn is_mapped(graph: &Graph, input: InputId) -> bool {
    [graph.product().left.0, graph.product().right.0].contains(&input)
}

/// Where the tensors of a call on host memory would lie.
pub(crate) fn placements(graph: &Graph, problem: &Problem, arguments: &Arguments) -> Placements {
    let inputs = graph.inputs().iter().zip((0..).map(InputId));
    let inputs = inputs.map(|(input, id)| match arguments.get(&input.name) {
        Some(Argument::Tensor(tensor)) => {
            let image = Image::of(tensor, is_mapped(graph, id));
            let alignment = alignment(image.offset as u64);
            Some(Placement { strides: image.strides, alignment })
        }
        Some(Argument::Scalar(_)) | None => None,
    });
    Placements {
        inputs: inputs.collect(),
        outputs: graph
            .outputs()
            .iter()
            .map(|output| Placement::packed(&problem.shape(&output.dims)))
            .collect(),
    }
}

impl Image {
    /// A tensor as it is, unless a map has to read it and cannot.
    pub(crate) fn of(tensor: &Tensor, mapped: bool) -> Image {
        if tensor.is_empty() || !mapped || is_readable(tensor) {
            let offset = tensor.offset() * tensor.dtype().bits() / 8;
            return Image { strides: tensor.strides().to_vec(), offset, padded: false };
        }
        let element = (tensor.dtype().bits() / 8).max(1);
        let mut rows = tensor.shape().to_vec();
        if let Some(last) = rows.last_mut() {
            *last = (*last * element).next_multiple_of(MAP_ALIGNMENT) / element;
        }
        Image { strides: crate::tensor::contiguous(&rows), offset: 0, padded: true }
    }

    /// The bytes to copy.
    pub(crate) fn bytes<'a>(&self, tensor: &'a Tensor) -> Cow<'a, [u8]> {
        if !self.padded {
            return Cow::Borrowed(tensor.bytes());
        }
        let element = tensor.dtype().bits() / 8;
        let [first, ..] = self.strides[..] else { return Cow::Borrowed(tensor.bytes()) };
        let mut bytes = vec![0xff; tensor.shape()[0] * first as usize * element];
        copy_elements(
            tensor.shape(),
            element,
            (tensor.bytes(), tensor.strides(), tensor.offset()),
            (&mut bytes, &self.strides, 0),
        );
        Cow::Owned(bytes)
    }
}

/// Whether a tensor map can read rows of the last dim.
fn is_readable(tensor: &Tensor) -> bool {
    let element = (tensor.dtype().bits() / 8) as isize;
    let aligned = |elements: isize| (elements * element) % MAP_ALIGNMENT as isize == 0;
    let Some((last, outer)) = tensor.strides().split_last() else { return false };
    let sizes = tensor.shape();
    (*last == 1 || sizes[sizes.len() - 1] == 1)
        && aligned(tensor.offset() as isize)
        && outer
            .iter()
            .zip(sizes)
            .all(|(stride, size)| *size == 1 || *stride > 0 && aligned(*stride))
}

/// Copies every element of a tensor to another place; `element` is its size in bytes, strides and starts are in elements.
pub(crate) fn copy_elements(
    shape: &[usize],
    element: usize,
    (source, source_strides, source_start): (&[u8], &[isize], usize),
    (target, target_strides, target_start): (&mut [u8], &[isize], usize),
) {
    let Some((columns, outer)) = shape.split_last() else {
        let (from, to) = (source_start * element, target_start * element);
        target[to..to + element].copy_from_slice(&source[from..from + element]);
        return;
    };
    let place = |start: usize, strides: &[isize], index: &[usize]| {
        let steps = index.iter().zip(strides).map(|(at, stride)| *at as isize * stride);
        start as isize + steps.sum::<isize>()
    };
    let across = (source_strides[outer.len()], target_strides[outer.len()]);
    let mut index = vec![0; outer.len()];
    for _ in 0..outer.iter().product::<usize>() {
        let from = place(source_start, source_strides, &index);
        let to = place(target_start, target_strides, &index);
        if across == (1, 1) {
            let (from, to) = (from as usize * element, to as usize * element);
            let bytes = columns * element;
            target[to..to + bytes].copy_from_slice(&source[from..from + bytes]);
        } else {
            for column in 0..*columns as isize {
                let from = (from + column * across.0) as usize * element;
                let to = (to + column * across.1) as usize * element;
                target[to..to + element].copy_from_slice(&source[from..from + element]);
            }
        }
        advance(&mut index, outer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;

    fn tensor(shape: &[usize], strides: &[isize], offset: usize, elements: usize) -> Tensor {
        let bytes = (0..elements * 2).map(|byte| byte as u8).collect();
        Tensor::with_strides(DType::BF16, shape.to_vec(), strides.to_vec(), offset, bytes).unwrap()
    }

    /// The elements as an image has them.
    fn values(tensor: &Tensor, image: &Image) -> Vec<f64> {
        let (shape, strides) = (tensor.shape().to_vec(), image.strides.clone());
        let bytes = image.bytes(tensor).into_owned();
        let moved = Tensor::with_strides(DType::BF16, shape, strides, image.offset / 2, bytes);
        moved.expect("every element lies inside").values()
    }

    fn check(tensor: &Tensor, strides: &[isize], offset: usize) {
        let image = Image::of(tensor, true);
        assert_eq!((&image.strides[..], image.offset), (strides, offset));
        assert_eq!(values(tensor, &image), tensor.values());
    }

    #[test]
    fn alignment_is_a_power_of_two_up_to_a_limit() {
        let cases = [(0, 256), (1, 1), (24, 8), (4096, 256), (4096 + 16, 16)];
        for (address, wanted) in cases {
            assert_eq!(alignment(address), wanted, "{address}");
        }
    }

    #[test]
    fn what_a_map_reads_stays_where_it_is() {
        check(&tensor(&[3, 8], &[8, 1], 0, 24), &[8, 1], 0);
        check(&tensor(&[3, 5], &[8, 1], 8, 40), &[8, 1], 16);
        check(&tensor(&[1, 5], &[5, 1], 0, 5), &[5, 1], 0);
        check(&tensor(&[2, 3, 8], &[24, 8, 1], 0, 48), &[24, 8, 1], 0);
    }

    #[test]
    fn what_a_map_cannot_read_is_padded() {
        check(&tensor(&[3, 5], &[5, 1], 0, 15), &[8, 1], 0);
        check(&tensor(&[3, 8], &[1, 3], 0, 24), &[8, 1], 0);
        check(&tensor(&[3, 8], &[-8, -1], 23, 24), &[8, 1], 0);
        check(&tensor(&[3, 8], &[8, 1], 3, 27), &[8, 1], 0);
        check(&tensor(&[3, 9], &[0, 1], 0, 9), &[16, 1], 0);
        check(&tensor(&[2, 3, 5], &[15, 5, 1], 0, 30), &[24, 8, 1], 0);
    }

    #[test]
    fn padding_is_all_ones() {
        let tensor = tensor(&[2, 5], &[5, 1], 0, 10);
        let image = Image::of(&tensor, true);
        let bytes = image.bytes(&tensor);
        assert_eq!(
            (bytes.len(), &bytes[10..16], &bytes[26..]),
            (32, &[0xff; 6][..], &[0xff; 6][..])
        );
    }

    #[test]
    fn what_no_map_reads_stays_as_it_is() {
        let odd = tensor(&[3, 5], &[1, 3], 1, 16);
        let image = Image::of(&odd, false);
        assert_eq!((&image.strides[..], image.offset), (&[1, 3][..], 2));
        assert_eq!(image.bytes(&odd), odd.bytes());
    }
}
