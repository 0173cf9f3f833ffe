//! Where a tensor lies in memory: any order of its dims, gaps, steps, backwards, anywhere.

use std::fmt;

use postlude::{DType, Tensor, TensorError};

use crate::layout::at_strides;
use crate::random::Random;

/// How a tensor lies, whatever its sizes are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// Dims from the outermost to the innermost; the declared order where it is empty.
    order: Vec<usize>,
    /// Elements that runs of the innermost dim are rounded up to.
    align: usize,
    /// Elements after each run of the innermost dim.
    gap: usize,
    /// Elements from one to the next, less one.
    skip: usize,
    /// Dims that run backwards.
    backwards: Vec<usize>,
    /// A dim whose elements are all one.
    still: Option<usize>,
    /// Elements before the first.
    offset: usize,
}

impl Place {
    /// A random place for a tensor of this many dims; only what is read may have a dim that stands still.
    pub(super) fn any(random: &mut Random, rank: usize, read: bool) -> Place {
        let mut place = Place::default();
        if rank == 0 || random.one_in(3) {
            place.offset = *random.pick(&[0, 0, 0, 0, 1, 3]);
            return place;
        }
        if rank > 1 && random.one_in(2) {
            place.order = (0..rank).collect();
            let other = random.below(rank - 1);
            // The outermost dim, usually the batch, stays where it is most of the time.
            let first = if rank == 3 && !random.one_in(4) { 1 } else { other };
            place.order.swap(first, rank - 1);
        }
        match random.below(8) {
            0..=2 => place.align = 8,
            3 | 4 => place.gap = *random.pick(&[1, 3, 8]),
            5 if random.one_in(3) => place.skip = random.range(1, 2),
            _ => {}
        }
        if random.one_in(4) {
            place.offset = *random.pick(&[1, 2, 3, 4, 8]);
        }
        if random.one_in(16) {
            place.backwards = vec![random.below(rank)];
        }
        if read && random.one_in(24) {
            place.still = Some(random.below(rank));
        }
        place
    }

    /// Whether elements follow one another from the first byte on.
    pub fn is_packed(&self) -> bool {
        *self == Place::default()
    }

    /// Strides, where the first element is, and how many elements there is room for.
    fn layout(&self, shape: &[usize]) -> (Vec<isize>, usize, usize) {
        let rank = shape.len();
        let declared: Vec<usize> = (0..rank).collect();
        let order = if self.order.len() == rank { &self.order } else { &declared };
        let mut strides = vec![0isize; rank];
        let mut step = self.skip + 1;
        for (place, dim) in order.iter().rev().enumerate() {
            strides[*dim] = step as isize;
            let mut size = shape[*dim].max(1);
            if place == 0 {
                size = size.next_multiple_of(self.align.max(1)) + self.gap;
            }
            step *= size;
        }
        let mut offset = self.offset;
        for dim in &self.backwards {
            offset += shape[*dim].saturating_sub(1) * strides[*dim].unsigned_abs();
            strides[*dim] = -strides[*dim];
        }
        if let Some(still) = self.still {
            strides[still] = 0;
        }
        (strides, offset, step + self.offset)
    }

    /// The same values there, with all ones in between: nan in every float. Where a dim stands still the last ones stay.
    pub(super) fn put(&self, tensor: &Tensor) -> Result<Tensor, TensorError> {
        let place = self.of(tensor.dtype(), tensor.shape().len());
        if place.is_packed() {
            return Ok(tensor.clone());
        }
        let (strides, offset, elements) = place.layout(tensor.shape());
        at_strides(tensor, strides, offset, elements)
    }

    /// What is left of it for elements of this type: bits have no gaps, and the last dim of halves of bytes none.
    fn of(&self, dtype: DType, rank: usize) -> Place {
        let Place { align, gap, offset, .. } = *self;
        match dtype.per_byte() {
            1 => self.clone(),
            2 => {
                let inner = |dim: &usize| *dim + 1 < rank;
                Place {
                    align,
                    gap: 2 * gap,
                    backwards: self.backwards.iter().copied().filter(inner).collect(),
                    still: self.still.filter(inner),
                    offset: 2 * offset,
                    ..Place::default()
                }
            }
            _ => Place::default(),
        }
    }

    /// Strides and start of a tensor of that type and shape there.
    pub(super) fn describe(&self, dtype: DType, shape: &[usize]) -> String {
        let (strides, offset, _) = self.of(dtype, shape.len()).layout(shape);
        format!("strides {strides:?} from {offset}")
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_the_same_wherever_they_lie() {
        let random = &mut Random::new(3);
        for shape in [vec![], vec![5], vec![3, 4], vec![2, 3, 4], vec![0, 4]] {
            let count = shape.iter().product::<usize>();
            let values: Vec<f64> = (0..count).map(|place| place as f64).collect();
            let tensor = Tensor::from_values(DType::F16, shape.clone(), &values).unwrap();
            for _ in 0..200 {
                let place = Place::any(random, shape.len(), false);
                let moved = place.put(&tensor).unwrap_or_else(|error| panic!("{place}: {error}"));
                assert_eq!(moved.values(), values, "{place}");
            }
        }
    }

    #[test]
    fn packed_elements_lie_in_whole_bytes() {
        let random = &mut Random::new(4);
        for dtype in [DType::B1, DType::I4, DType::U4] {
            for shape in [vec![8], vec![3, 8], vec![2, 3, 8]] {
                let count = shape.iter().product::<usize>();
                let values: Vec<f64> = (0..count).map(|place| (place % 3) as f64).collect();
                let tensor = Tensor::from_values(dtype, shape.clone(), &values).unwrap();
                for _ in 0..200 {
                    let place = Place::any(random, shape.len(), false);
                    let moved =
                        place.put(&tensor).unwrap_or_else(|error| panic!("{place}: {error}"));
                    assert_eq!(moved.values(), tensor.values(), "{place}");
                }
            }
        }
    }

    #[test]
    fn a_dim_that_stands_still_has_one_element() {
        let place = Place { still: Some(1), ..Place::default() };
        let tensor = Tensor::from_values(DType::F32, vec![2, 2], &[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!(place.put(&tensor).unwrap().values(), [2.0, 2.0, 4.0, 4.0]);
    }
}
