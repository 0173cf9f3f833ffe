//! The same values elsewhere in memory.
//!
//! In: a tensor. Out: a tensor that is equal element by element, with other strides.
//! Invariant: memory that belongs to no element is all ones, which is nan in every float, so that reading it shows.

use postlude::tensor::{advance, contiguous};
use postlude::{DType, Tensor, TensorError, dtype};

use crate::case::Layout;

/// Elements between rows, and before the first element: odd, so that nothing stays aligned.
const GAP: usize = 3;

/// Whether a tensor of this many dims can lie so: bits have no gaps, and the last dim of halves of bytes none.
pub(crate) fn can_lie(dtype: DType, rank: usize, layout: Layout) -> bool {
    match (dtype.per_byte(), layout) {
        (1, _) => true,
        (2, Layout::Padded) => rank > 1,
        (2, Layout::Transposed) => rank < 2,
        (2, Layout::Offset) => true,
        (_, Layout::Padded | Layout::Transposed | Layout::Reversed | Layout::Offset) => false,
    }
}

/// Moves a tensor's elements to where the layout has them.
pub fn lay_out(tensor: &Tensor, layout: Layout) -> Result<Tensor, TensorError> {
    let shape = tensor.shape().to_vec();
    // Three bytes where elements are halves of one.
    let gap = if tensor.dtype().bits() == 4 { 2 * GAP } else { GAP };
    let (strides, offset) = strides(&shape, layout, gap);
    if tensor.dtype() == DType::B1 {
        // Packed bits have one layout; what is asked for is refused where tensors are made.
        return Tensor::with_strides(DType::B1, shape, strides, offset, tensor.bytes().to_vec());
    }
    let reach = shape.iter().zip(&strides).map(|(size, stride)| {
        let last = size.saturating_sub(1) as isize;
        (last * stride).max(0) as usize
    });
    let elements = offset + reach.sum::<usize>() + 1 + gap;
    at_strides(tensor, strides, offset, elements)
}

/// The same values at these strides in memory for this many elements, all ones in between.
pub(crate) fn at_strides(
    tensor: &Tensor,
    strides: Vec<isize>,
    offset: usize,
    elements: usize,
) -> Result<Tensor, TensorError> {
    let shape = tensor.shape().to_vec();
    let bytes = vec![0xff; tensor.dtype().bytes_for(elements)];
    let mut moved = Tensor::with_strides(tensor.dtype(), shape.clone(), strides, offset, bytes)?;
    let mut index = vec![0; shape.len()];
    for value in tensor.values() {
        let place = moved.place(&index);
        dtype::store(tensor.dtype(), moved.bytes_mut(), place, value);
        advance(&mut index, &shape);
    }
    Ok(moved)
}

fn strides(shape: &[usize], layout: Layout, gap: usize) -> (Vec<isize>, usize) {
    match layout {
        Layout::Padded => {
            let mut padded = shape.to_vec();
            match padded.as_mut_slice() {
                [] => (Vec::new(), 0),
                [_] => (vec![1 + gap as isize], 0),
                [.., last] => {
                    *last += gap;
                    (contiguous(&padded), 0)
                }
            }
        }
        Layout::Transposed => {
            let mut swapped = shape.to_vec();
            let rank = shape.len();
            if rank >= 2 {
                swapped.swap(rank - 2, rank - 1);
            }
            let mut strides = contiguous(&swapped);
            if rank >= 2 {
                strides.swap(rank - 2, rank - 1);
            }
            (strides, 0)
        }
        Layout::Reversed => {
            let forward = contiguous(shape);
            let last = shape.iter().zip(&forward).map(|(size, stride)| {
                size.saturating_sub(1) * usize::try_from(*stride).unwrap_or(0)
            });
            (forward.iter().map(|stride| -stride).collect(), last.sum())
        }
        Layout::Offset => (contiguous(shape), gap),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_keeps_the_values() {
        for shape in [vec![], vec![5], vec![3, 4], vec![2, 3, 4], vec![0, 4], vec![4, 0]] {
            let count = shape.iter().product::<usize>();
            let values: Vec<f64> = (0..count).map(|place| place as f64).collect();
            for dtype in [DType::F16, DType::I8, DType::F32, DType::Bool] {
                let tensor = Tensor::from_values(dtype, shape.clone(), &values).unwrap();
                for layout in Layout::ALL {
                    let moved = lay_out(&tensor, layout).unwrap();
                    assert_eq!(moved.values(), tensor.values(), "{layout} {shape:?}");
                    assert_eq!(moved.to_contiguous(), tensor);
                }
            }
        }
    }

    #[test]
    fn halves_of_bytes_keep_their_last_dim_together() {
        let values: Vec<f64> = (0..24).map(|place| f64::from(place % 16)).collect();
        for shape in [vec![24], vec![3, 8], vec![2, 3, 4]] {
            let tensor = Tensor::from_values(DType::U4, shape.clone(), &values).unwrap();
            for layout in Layout::ALL {
                let moved = lay_out(&tensor, layout);
                assert_eq!(can_lie(DType::U4, shape.len(), layout), moved.is_ok(), "{layout}");
                if let Ok(moved) = moved {
                    assert_eq!(moved.to_contiguous(), tensor, "{layout} {shape:?}");
                }
            }
        }
    }

    #[test]
    fn strides_are_what_the_layout_says() {
        let tensor = Tensor::zeros(DType::F32, vec![2, 3, 4]).unwrap();
        let strides = |layout| lay_out(&tensor, layout).unwrap().strides().to_vec();
        assert_eq!(strides(Layout::Padded), [21, 7, 1]);
        assert_eq!(strides(Layout::Transposed), [12, 1, 3]);
        assert_eq!(strides(Layout::Reversed), [-12, -4, -1]);
        assert_eq!(lay_out(&tensor, Layout::Offset).unwrap().offset(), GAP);
    }
}
