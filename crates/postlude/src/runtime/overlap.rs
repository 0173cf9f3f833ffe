//! Whether two tensors share memory.
//!
//! In: two tensors. Out: `false` only if no byte of one is a byte of the other. The answer is exact for tensors whose
//! strides nest (slices of one buffer, side by side or interleaved); where finding out would take long it is `true`.

use crate::runtime::tensor::DeviceTensor;

/// How many combinations are tried before two tensors count as overlapping.
const BUDGET: u32 = 10_000;

/// A sum of steps of one length: from `low` to `high` of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Steps {
    length: i128,
    low: i128,
    high: i128,
}

/// Whether a byte of one tensor is a byte of the other.
pub(crate) fn overlap(a: &DeviceTensor, b: &DeviceTensor) -> bool {
    if a.device != b.device || a.is_empty() || b.is_empty() {
        return false;
    }
    let bytes =
        |tensor: &DeviceTensor| -> Vec<Bytes> { tensor.apart().iter().map(Bytes::of).collect() };
    let others = bytes(b);
    bytes(a).iter().any(|a| others.iter().any(|b| a.overlap(b)))
}

/// The same of tensors that are no lists.
fn reach_one_another(a: &Bytes, b: &Bytes) -> bool {
    let mut steps: Vec<Steps> = Vec::new();
    for (sign, bytes) in [(1, &a), (-1, &b)] {
        for (size, stride) in &bytes.dims {
            add(&mut steps, sign * stride, *size - 1);
        }
    }
    steps.sort_by_key(|steps| std::cmp::Reverse(steps.length));
    // Elements that start at `x` and `y` share a byte if -a.element < x - y < b.element.
    let distance = b.start - a.start;
    let mut budget = BUDGET;
    reaches(&steps, distance - a.element + 1, distance + b.element - 1, &mut budget)
}

/// A tensor in bytes: runs of `element` bytes, at every combination of steps.
struct Bytes {
    start: i128,
    element: i128,
    dims: Vec<(i128, i128)>,
}

impl Bytes {
    fn of(tensor: &DeviceTensor) -> Bytes {
        let start = i128::from(tensor.address);
        let bits = tensor.dtype.bits();
        let mut dims = tensor.shape.iter().zip(&tensor.strides);
        // Packed elements fill bytes along the last dim, which counts as one run of them.
        let run = if tensor.dtype.is_packed() { dims.next_back() } else { None };
        let element = tensor.dtype.bytes_for(run.map_or(1, |(last, _)| *last)) as i128;
        let step = |stride: isize| stride as i128 * bits as i128 / 8;
        let dims = dims.map(|(size, stride)| (*size as i128, step(*stride))).collect();
        Bytes { start, element, dims }
    }

    /// The first byte, and the one behind the last.
    fn range(&self) -> (i128, i128) {
        let reach = |(size, stride): &(i128, i128)| (size - 1) * stride;
        let low: i128 = self.dims.iter().map(|dim| reach(dim).min(0)).sum();
        let high: i128 = self.dims.iter().map(|dim| reach(dim).max(0)).sum();
        (self.start + low, self.start + high + self.element)
    }

    fn overlap(&self, other: &Bytes) -> bool {
        let (own, others) = (self.range(), other.range());
        own.0 < others.1 && others.0 < own.1 && reach_one_another(self, other)
    }
}

/// Adds up to `most` steps of a length to the sum; steps of one length count together.
fn add(steps: &mut Vec<Steps>, length: i128, most: i128) {
    if length == 0 || most == 0 {
        return;
    }
    let (low, high) = if length > 0 { (0, most) } else { (-most, 0) };
    match steps.iter_mut().find(|steps| steps.length == length.abs()) {
        Some(steps) => {
            steps.low += low;
            steps.high += high;
        }
        None => steps.push(Steps { length: length.abs(), low, high }),
    }
}

/// Whether some sum of steps lies from `from` to `to`; `true` when the budget is spent.
fn reaches(steps: &[Steps], from: i128, to: i128, budget: &mut u32) -> bool {
    let Some((first, rest)) = steps.split_first() else { return from <= 0 && 0 <= to };
    let least: i128 = rest.iter().map(|steps| steps.length * steps.low).sum();
    let most: i128 = rest.iter().map(|steps| steps.length * steps.high).sum();
    // With `count` of these steps the others have to make up the difference.
    let low = div_up(from - most, first.length).max(first.low);
    let high = (to - least).div_euclid(first.length).min(first.high);
    let mut count = low;
    while count <= high {
        if *budget == 0 {
            return true;
        }
        *budget -= 1;
        let done = count * first.length;
        if reaches(rest, from - done, to - done, budget) {
            return true;
        }
        count += 1;
    }
    false
}

fn div_up(a: i128, b: i128) -> i128 {
    -(-a).div_euclid(b)
}

/// Whether every element has a place of its own, seen from strides that nest. Tensors of a list are looked at one by one.
pub(crate) fn has_own_places(tensor: &DeviceTensor) -> bool {
    let shape = if tensor.list.is_some() { 1.. } else { 0.. };
    crate::tensor::has_own_places(&tensor.shape[shape.clone()], &tensor.strides[shape])
}

/// Whether two tensors of a list share a byte.
pub(crate) fn items_overlap(list: &DeviceTensor) -> bool {
    if list.is_empty() {
        return false;
    }
    let mut items: Vec<Bytes> = list.apart().iter().map(Bytes::of).collect();
    // All are of one extent, so that the next ones behind are the first to be met.
    items.sort_by_key(|item| item.start);
    let met = |(place, item): (usize, &Bytes)| {
        let end = item.range().1;
        let behind = items[place + 1..].iter().take_while(|other| other.range().0 < end);
        behind.into_iter().any(|other| item.overlap(other))
    };
    items.iter().enumerate().any(met)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dtype::DType;

    fn tensor(address: u64, shape: &[usize], strides: &[isize]) -> DeviceTensor {
        let (shape, strides) = (shape.to_vec(), strides.to_vec());
        DeviceTensor { dtype: DType::F16, shape, strides, address, device: 0, list: None }
    }

    #[test]
    fn neighbours_do_not_overlap_and_a_shared_byte_does() {
        let a = tensor(1000, &[4, 4], &[4, 1]);
        assert!(overlap(&a, &a));
        assert!(!overlap(&a, &tensor(1032, &[4, 4], &[4, 1])));
        assert!(!overlap(&a, &tensor(968, &[4, 4], &[4, 1])));
        assert!(overlap(&a, &tensor(1031, &[4, 4], &[4, 1])));
        assert!(overlap(&a, &tensor(969, &[4, 4], &[4, 1])));
        assert!(!overlap(&a, &tensor(1000, &[0, 4], &[4, 1])));
        assert!(!overlap(&a, &DeviceTensor { device: 1, ..a.clone() }));
    }

    #[test]
    fn columns_of_one_buffer_lie_side_by_side() {
        let left = tensor(4096, &[1000, 64], &[128, 1]);
        let right = tensor(4096 + 128, &[1000, 64], &[128, 1]);
        assert!(!overlap(&left, &right));
        assert!(overlap(&left, &tensor(4096 + 126, &[1000, 64], &[128, 1])));
        let (even, odd) = (tensor(0x1000, &[8, 8], &[16, 2]), tensor(0x1002, &[8, 8], &[16, 2]));
        assert!(!overlap(&even, &odd));
    }

    #[test]
    fn packed_rows_are_runs_of_bytes() {
        let tensor = |dtype, address, shape: &[usize], strides: &[isize]| {
            let (shape, strides) = (shape.to_vec(), strides.to_vec());
            DeviceTensor { dtype, shape, strides, address, device: 0, list: None }
        };
        let left = tensor(DType::I4, 1000, &[4, 8], &[16, 1]);
        assert!(!overlap(&left, &tensor(DType::U4, 1004, &[4, 8], &[16, 1])));
        assert!(overlap(&left, &tensor(DType::U4, 1003, &[4, 8], &[16, 1])));
        let bits = tensor(DType::B1, 1000, &[4, 16], &[16, 1]);
        assert!(!overlap(&bits, &tensor(DType::B1, 1008, &[8], &[1])));
        assert!(overlap(&bits, &tensor(DType::B1, 1007, &[8], &[1])));
    }

    #[test]
    fn large_tensors_are_quick() {
        let a = tensor(1 << 30, &[1 << 20, 1 << 10], &[1 << 10, 1]);
        assert!(overlap(&a, &tensor((1 << 30) + 77, &[1 << 20], &[1000])));
        assert!(!overlap(&a, &tensor(1 << 40, &[1 << 20, 1 << 10], &[1001, 1])));
    }

    #[test]
    fn elements_with_places_of_their_own() {
        assert!(has_own_places(&tensor(0, &[4, 8], &[8, 1])));
        assert!(has_own_places(&tensor(0, &[4, 8], &[-1, 4])));
        assert!(has_own_places(&tensor(0, &[1, 8], &[0, 1])));
        assert!(!has_own_places(&tensor(0, &[4, 8], &[0, 1])));
        assert!(!has_own_places(&tensor(0, &[4, 8], &[7, 1])));
    }

    fn places(tensor: &DeviceTensor) -> Vec<i128> {
        let mut index = vec![0; tensor.shape.len()];
        let mut places = Vec::new();
        for _ in 0..tensor.shape.iter().product() {
            let steps =
                index.iter().zip(&tensor.strides).map(|(at, stride)| *at as i128 * *stride as i128);
            let start = i128::from(tensor.address) + 2 * steps.sum::<i128>();
            places.extend([start, start + 1]);
            crate::tensor::advance(&mut index, &tensor.shape);
        }
        places
    }

    proptest! {
        #[test]
        fn the_answer_is_that_of_counting(
            a in (0u64..40, 1usize..4, 1usize..4, -6isize..7, -6isize..7),
            b in (0u64..40, 1usize..4, 1usize..4, -6isize..7, -6isize..7),
        ) {
            let make = |(address, m, n, down, right)| tensor(address + 1000, &[m, n], &[down, right]);
            let (a, b) = (make(a), make(b));
            let (mine, others) = (places(&a), places(&b));
            prop_assert_eq!(overlap(&a, &b), mine.iter().any(|place| others.contains(place)));
            let mut sorted = mine.clone();
            sorted.sort_unstable();
            sorted.dedup();
            // Strides that do not nest may have places of their own all the same.
            prop_assert!(!has_own_places(&a) || sorted.len() == mine.len());
        }
    }
}
