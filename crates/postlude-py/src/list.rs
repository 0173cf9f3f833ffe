//! Lists of arrays: a batch whose arrays lie anywhere, as one array with one more dim in front.
//!
//! In: arrays of one dtype, shape and strides. Out: a [`Placed`] array. Arrays that follow one another evenly are an ordinary
//! batch; of others, steps of the first stride say where each lies.

use std::ops::Deref;
use std::sync::Arc;

use postlude::runtime::DeviceTensor;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::array::{self, Array, Held, Location, MAX_RANK};
use crate::error::mistake;

/// An array of a call, which may be a list of arrays.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    array: Array,
    /// Of arrays that do not follow one another evenly, the steps of the first stride from the address to each.
    pub(crate) list: Option<Arc<[u64]>>,
}

impl Deref for Placed {
    type Target = Array;

    fn deref(&self) -> &Array {
        &self.array
    }
}

impl From<Array> for Placed {
    fn from(array: Array) -> Placed {
        Placed { array, list: None }
    }
}

impl Placed {
    /// Arrays of a list as one; an error names the argument.
    pub(crate) fn of(py: Python<'_>, name: &str, items: &[Array]) -> PyResult<Placed> {
        if let Some(first) = items.first() {
            if first.rank == MAX_RANK {
                let message = format!("the arrays of the list `{name}` have {MAX_RANK} dims");
                return Err(mistake(py, &message, Some("give arrays of fewer dims")));
            }
            if let Some(item) = items.iter().position(|item| item.location != first.location) {
                let message =
                    format!("array {item} of the list `{name}` is on another device than array 0");
                return Err(mistake(
                    py,
                    &message,
                    Some("bring all arrays of a call to one device"),
                ));
            }
        }
        let tensors: Vec<DeviceTensor> = items.iter().map(Array::described).collect();
        let whole = match items.first().map(|first| first.location) {
            Some(Location::Host) => DeviceTensor::spread(name, &tensors),
            Some(Location::Gpu(_)) | None => DeviceTensor::list(name, &tensors),
        };
        let whole =
            whole.map_err(|error| mistake(py, &error.to_string(), error.fix().as_deref()))?;
        let mut array = items[0];
        array.rank += 1;
        array.address = whole.address;
        array.shape[..array.rank].copy_from_slice(&whole.shape);
        array.strides[..array.rank].copy_from_slice(&whole.strides);
        array.read_only = items.iter().any(|item| item.read_only);
        Ok(Placed { array, list: whole.list })
    }

    /// As a declared type that is stored alike.
    pub(crate) fn read_as(self, dtype: postlude::DType) -> Placed {
        Placed { array: self.array.read_as(dtype), list: self.list }
    }

    /// As the checks of calls take it.
    pub(crate) fn described(&self) -> DeviceTensor {
        DeviceTensor { list: self.list.clone(), ..self.array.described() }
    }

    /// The arrays of a list, each by itself; another array alone.
    pub(crate) fn apart(&self) -> Vec<Array> {
        let Some(list) = &self.list else { return vec![self.array] };
        let mut item = self.array;
        item.rank -= 1;
        item.shape.rotate_left(1);
        item.strides.rotate_left(1);
        let step = self.strides()[0] as i64 * self.dtype.bits() as i64 / 8;
        let mut items = vec![item; list.len()];
        for (item, steps) in items.iter_mut().zip(list.iter()) {
            item.address = self.address.wrapping_add_signed(*steps as i64 * step);
        }
        items
    }
}

/// A list that was read, and what has to live as long as it is used.
pub(crate) struct HeldList<'py> {
    pub(crate) placed: Placed,
    /// The first array of it.
    pub(crate) first: Bound<'py, PyAny>,
    _keepers: Vec<Held<'py>>,
}

/// The items of a list or a tuple.
pub(crate) fn items<'py>(object: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
    if let Ok(list) = object.cast::<PyList>() {
        return Some(list.iter().collect());
    }
    object.cast::<PyTuple>().ok().map(|tuple| tuple.iter().collect())
}

/// Describes a list of arrays.
pub(crate) fn read<'py>(
    py: Python<'py>,
    name: &str,
    objects: &[Bound<'py, PyAny>],
) -> PyResult<HeldList<'py>> {
    let read = |(item, object): (usize, &Bound<'py, PyAny>)| {
        let name = format!("{name}[{item}]");
        let Some(protocol) = array::protocol(object) else {
            return Err(array::not_an_array(&name, object));
        };
        array::read_named(&name, object, protocol)
    };
    let held = objects.iter().enumerate().map(read).collect::<PyResult<Vec<_>>>()?;
    let Some(first) = objects.first() else {
        return Err(PyTypeError::new_err(format!(
            "the list `{name}` is empty; give an array for every batch"
        )));
    };
    let arrays: Vec<Array> = held.iter().map(|held| held.array).collect();
    let placed = Placed::of(py, name, &arrays)?;
    Ok(HeldList { placed, first: first.clone(), _keepers: held })
}
