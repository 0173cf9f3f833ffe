//! Lists: batches whose tensors lie anywhere in a GPU's memory, as one tensor.
//!
//! In: tensors of one dtype, shape and strides. Out: a tensor with one more dim in front, which numbers them.
//! Invariant: its first stride divides the distance of each of them from the lowest, so that a tensor map with that stride
//! reaches all of them, and a number of steps says where each lies. Tensors that follow one another evenly need no numbers.

use super::DeviceTensor;
use crate::runtime::error::{ListFact, RuntimeError};

/// Steps are coordinates of tensor maps, which are signed 32-bit numbers.
const MOST_STEPS: u64 = i32::MAX as u64 - 1024;

impl DeviceTensor {
    /// Tensors that lie anywhere in a GPU's memory as one tensor: its first dim numbers them. They agree in dtype, shape,
    /// strides and GPU; `name` is for messages.
    ///
    /// ```
    /// use postlude::DType;
    /// use postlude::runtime::DeviceTensor;
    /// let at = |address| DeviceTensor::contiguous(DType::BF16, vec![64, 32], address, 0);
    /// let experts = DeviceTensor::list("W", &[at(0x9000), at(0x1000), at(0x4000)])?;
    /// assert_eq!((experts.shape, experts.address), (vec![3, 64, 32], 0x1000));
    /// assert_eq!(experts.list.as_deref(), Some(&[8, 0, 3][..]));
    /// # Ok::<(), postlude::runtime::RuntimeError>(())
    /// ```
    pub fn list(name: &str, items: &[DeviceTensor]) -> Result<DeviceTensor, RuntimeError> {
        let list = DeviceTensor::spread(name, items)?;
        if list.list.iter().flat_map(|steps| steps.iter()).any(|steps| *steps > MOST_STEPS) {
            let step = list.bytes_to(1) as u64;
            return Err(RuntimeError::ListSpread { name: name.to_owned(), step });
        }
        Ok(list)
    }

    /// The same of tensors that lie any distance apart, as those of a host do.
    #[doc(hidden)]
    pub fn spread(name: &str, items: &[DeviceTensor]) -> Result<DeviceTensor, RuntimeError> {
        let Some(first) = items.first() else {
            return Err(RuntimeError::EmptyList { name: name.to_owned() });
        };
        for (item, tensor) in items.iter().enumerate() {
            check_item(name, (item, tensor), first)?;
        }
        let whole = |address: u64, step: u64, list| DeviceTensor {
            shape: [items.len()].into_iter().chain(first.shape.iter().copied()).collect(),
            strides: [(step * 8 / first.dtype.bits() as u64) as isize]
                .into_iter()
                .chain(first.strides.iter().copied())
                .collect(),
            address,
            list,
            ..first.clone()
        };
        let addresses = || items.iter().map(|item| item.address);
        let lowest = addresses().min().unwrap_or(0);
        if first.is_empty() {
            return Ok(whole(lowest, 0, None));
        }
        let step = items.get(1).map(|second| second.address.wrapping_sub(first.address));
        let step = step.unwrap_or(0);
        let is_even = addresses().zip(addresses().skip(1)).all(|(a, b)| b.wrapping_sub(a) == step);
        // A step down is a large number, and such a list is looked up from its lowest tensor on.
        if is_even && i64::try_from(step).is_ok() {
            return Ok(whole(first.address, step, None));
        }
        let step = addresses().map(|address| address - lowest).fold(0, greatest_divisor);
        let steps = addresses().map(|address| (address - lowest) / step);
        Ok(whole(lowest, step, Some(steps.collect())))
    }

    /// One more than the most steps that a tensor of the list lies from its address.
    pub(crate) fn list_steps(&self) -> Option<usize> {
        let most = self.list.as_ref()?.iter().max()?;
        Some(*most as usize + 1)
    }

    /// The tensors of a list, each by itself; another tensor alone.
    pub(crate) fn apart(&self) -> Vec<DeviceTensor> {
        let Some(list) = &self.list else { return vec![self.clone()] };
        let item = |steps: &u64| DeviceTensor {
            shape: self.shape[1..].to_vec(),
            strides: self.strides[1..].to_vec(),
            address: self.address.wrapping_add_signed(self.bytes_to(*steps as usize)),
            list: None,
            ..self.clone()
        };
        list.iter().map(item).collect()
    }

    /// Bytes to a place along the first dim.
    fn bytes_to(&self, place: usize) -> i64 {
        place as i64 * self.strides[0] as i64 * self.dtype.bits() as i64 / 8
    }
}

/// Whether a tensor is what the first one of its list is, and begins with a whole element.
fn check_item(
    name: &str,
    (item, tensor): (usize, &DeviceTensor),
    first: &DeviceTensor,
) -> Result<(), RuntimeError> {
    let name = || name.to_owned();
    let (sizes, strides) = (tensor.shape.len(), tensor.strides.len());
    if sizes != strides {
        return Err(RuntimeError::Rank { name: name(), sizes, strides });
    }
    // An axis of one element is never stepped along.
    let steps = |tensor: &DeviceTensor| -> Vec<isize> {
        let dims = tensor.shape.iter().zip(&tensor.strides);
        dims.map(|(size, stride)| if *size > 1 { *stride } else { 0 }).collect()
    };
    let (given, wanted) = if tensor.dtype != first.dtype {
        (ListFact::DType(tensor.dtype), ListFact::DType(first.dtype))
    } else if tensor.shape != first.shape {
        (ListFact::Shape(tensor.shape.clone()), ListFact::Shape(first.shape.clone()))
    } else if !tensor.is_empty() && steps(tensor) != steps(first) {
        (ListFact::Strides(tensor.strides.clone()), ListFact::Strides(first.strides.clone()))
    } else if tensor.device != first.device {
        (ListFact::Device(tensor.device), ListFact::Device(first.device))
    } else if tensor.list.is_some() {
        (ListFact::List, ListFact::Shape(first.shape.clone()))
    } else {
        let (address, dtype) = (tensor.address, tensor.dtype);
        let aligned = address.is_multiple_of(dtype.bits().div_ceil(8) as u64);
        let misaligned = RuntimeError::Alignment { name: name(), address, dtype };
        return if aligned || tensor.is_empty() { Ok(()) } else { Err(misaligned) };
    };
    Err(RuntimeError::ListItem { name: name(), item, given, wanted })
}

fn greatest_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;

    fn at(address: u64) -> DeviceTensor {
        DeviceTensor::contiguous(DType::BF16, vec![4, 8], address, 0)
    }

    fn list(addresses: &[u64]) -> Result<DeviceTensor, RuntimeError> {
        let items: Vec<DeviceTensor> = addresses.iter().copied().map(at).collect();
        DeviceTensor::list("W", &items)
    }

    #[test]
    fn tensors_that_follow_one_another_evenly_are_a_strided_batch() {
        let even = list(&[0x1000, 0x1040, 0x1080]).expect("a list");
        assert_eq!((even.address, even.strides, even.list), (0x1000, vec![32, 8, 1], None));
        let one = list(&[0x1000]).expect("a list");
        assert_eq!((one.shape, one.list), (vec![1, 4, 8], None));
        let same = list(&[0x1000, 0x1000]).expect("a list");
        assert_eq!((same.strides, same.list), (vec![0, 8, 1], None));
    }

    #[test]
    fn other_tensors_are_looked_up_from_the_lowest_on() {
        let down = list(&[0x1080, 0x1040, 0x1000]).expect("a list");
        assert_eq!((down.address, &down.strides), (0x1000, &vec![32, 8, 1]));
        assert_eq!(down.list.as_deref(), Some(&[2, 1, 0][..]));
        let uneven = list(&[0x4000, 0x1000, 0x1100]).expect("a list");
        assert_eq!((uneven.address, uneven.strides[0]), (0x1000, 0x80));
        assert_eq!(uneven.list.as_deref(), Some(&[0x30, 0, 1][..]));
        let places: Vec<u64> = uneven.apart().iter().map(|item| item.address).collect();
        assert_eq!(places, [0x4000, 0x1000, 0x1100]);
    }

    #[test]
    fn tensors_that_differ_are_refused_by_name_and_number() {
        let mut items = vec![at(0x1000), at(0x2000), at(0x8000)];
        items[2].strides = vec![16, 1];
        let error = DeviceTensor::list("W", &items).expect_err("other strides");
        let message = "tensor 2 of the list `W` has strides [16, 1], tensor 0 has strides [8, 1]";
        assert_eq!(error.to_string(), message);
        items[1].dtype = DType::F16;
        let error = DeviceTensor::list("W", &items).expect_err("another dtype");
        assert!(error.to_string().starts_with("tensor 1 of the list `W` is f16"), "{error}");
        assert!(list(&[]).is_err() && list(&[0x1000, 0x2001]).is_err());
        assert!(list(&[2, 4, 1 << 40]).is_err());
    }
}
