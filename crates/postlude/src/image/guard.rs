//! Whether a kernel wrote its outputs and nothing else.
//!
//! In: memory that was poisoned, or surrounded by canaries, before a kernel ran. Out: the outputs, in host tensors of any
//! strides. Invariant: a kernel that wrote anything but its output is a compiler bug and ends in a panic.

use crate::image::copy_elements;
use crate::tensor::{TensorView, TensorViewMut};

/// Bytes before and after a guarded output; the output stays aligned.
#[cfg(feature = "cuda")]
pub(crate) const CANARY_BYTES: u64 = 64;
/// What canaries hold.
pub(crate) const CANARY: u8 = 0xa5;
/// What an output holds before it is written: nan in every float.
pub(crate) const POISON: u8 = 0xff;

/// Whether a tensor's bytes are its elements and nothing else.
pub(crate) fn is_packed(tensor: TensorView<'_>) -> bool {
    tensor.is_contiguous() && tensor.bytes().len() == tensor.dtype().bytes_for(tensor.len())
}

/// Copies what was written to the host; what lies between and around the elements stays as it is there. `all` has
/// `margin` bytes of canary on each side; `poisoned` memory shows what was written between elements.
pub(crate) fn take(
    name: &str,
    all: &[u8],
    margin: usize,
    poisoned: bool,
    tensor: &mut TensorViewMut<'_>,
) {
    let wrote_outside = |at: i64| -> ! {
        panic!("compiler bug: the kernel wrote outside output `{name}`, at byte {at} of it")
    };
    let (before, rest) = all.split_at(margin);
    let (bytes, after) = rest.split_at(rest.len() - margin);
    if let Some(at) = disturbed(before, CANARY) {
        wrote_outside(at as i64 - margin as i64);
    }
    if let Some(at) = disturbed(after, CANARY) {
        wrote_outside((bytes.len() + at) as i64);
    }
    if is_packed(tensor.view()) {
        tensor.bytes_mut().copy_from_slice(bytes);
        return;
    }
    if poisoned && let Some(at) = disturbed(&without_elements(tensor.view(), bytes), POISON) {
        wrote_outside(at as i64);
    }
    let (shape, strides) = (tensor.shape().to_vec(), tensor.strides().to_vec());
    let (element, start) = (tensor.dtype().bits() / 8, tensor.offset());
    let target = (tensor.bytes_mut(), &strides[..], start);
    copy_elements(&shape, element, (bytes, &strides, start), target);
}

/// Where the first byte is that is not as it was left.
fn disturbed(bytes: &[u8], left: u8) -> Option<usize> {
    bytes.iter().position(|byte| *byte != left)
}

/// The bytes of a tensor with its elements poisoned, so that only gaps can differ from poison.
fn without_elements(tensor: TensorView<'_>, bytes: &[u8]) -> Vec<u8> {
    let mut gaps = bytes.to_vec();
    let element = tensor.dtype().bits() / 8;
    let poison = vec![POISON; element];
    let nowhere = vec![0; tensor.shape().len()];
    let target = (&mut gaps[..], tensor.strides(), tensor.offset());
    copy_elements(tensor.shape(), element, (&poison, &nowhere, 0), target);
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::tensor::Tensor;

    #[test]
    fn gaps_are_told_from_elements() {
        let strided = |bytes: Vec<u8>| {
            Tensor::with_strides(DType::BF16, vec![2, 2], vec![3, 1], 1, bytes).unwrap()
        };
        let mut bytes = vec![POISON; 12];
        for element in [1, 2, 4, 5] {
            bytes[element * 2..element * 2 + 2].fill(7);
        }
        let tensor = strided(bytes.clone());
        assert_eq!(disturbed(&without_elements(tensor.view(), &bytes), POISON), None);
        bytes[6] = 0;
        assert_eq!(disturbed(&without_elements(tensor.view(), &bytes), POISON), Some(6));
    }
}
