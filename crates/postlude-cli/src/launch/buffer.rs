//! A buffer of `launch.toml`: what it holds before the launch, and where it goes afterwards.

use std::path::{Path, PathBuf};

use postlude::{DType, Tensor};
use postlude_corpus::{Fill, fill, seed_for};
use postlude_sim::Output;
use serde::{Deserialize, Serialize};

use crate::failure::Mistake;
use crate::files::Stored;

/// What a buffer holds that nobody wrote: nan in every float.
const POISON: u8 = 0xff;
/// The classes of labels without a range of their own: any of a byte.
const COUNT: usize = 256;
/// The word for it.
pub(super) const POISONED: &str = "poison";

/// A buffer in the file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BufferFile {
    /// Its size, where it has no elements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<usize>,
    /// Its elements; bytes without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dtype: Option<String>,
    /// Their sizes, the last one's neighbours being neighbours in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shape: Option<Vec<usize>>,
    /// Elements from one row to the next, where rows have gaps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) row: Option<usize>,
    /// A `.npy` or `.safetensors` file that it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<PathBuf>,
    /// A kind of random data, or `poison`; zeros without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fill: Option<String>,
    /// How many rows or columns `labels` choose from, and how many rows `ends` cut; 256 without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) count: Option<usize>,
    /// The seed of random data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seed: Option<u64>,
    /// The elements themselves; a single one is every element.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) values: Option<Vec<f64>>,
    /// Whether the launch must write all of its elements.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) output: bool,
    /// Where it is written after the launch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) write: Option<PathBuf>,
}

/// A buffer with its bytes.
pub(crate) struct Held {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) write: Option<PathBuf>,
    is_output: bool,
    dtype: DType,
    shape: Vec<usize>,
    strides: Vec<isize>,
}

impl Held {
    /// Its elements, row after row, when it holds these bytes.
    pub(crate) fn tensor(&self, bytes: Vec<u8>) -> Result<Tensor, Mistake> {
        let (shape, strides) = (self.shape.clone(), self.strides.clone());
        let tensor = Tensor::with_strides(self.dtype, shape, strides, 0, bytes);
        let tensor = tensor.map_err(|error| Mistake::new(format!("`{}`: {error}", self.name)))?;
        Ok(tensor.to_contiguous())
    }

    /// Which bytes of it, as that buffer of the launch, must be written, if any.
    pub(crate) fn output(&self, buffer: usize) -> Option<Output> {
        let element = self.dtype.bits() / 8;
        // Elements of less than a byte have no gaps.
        if self.is_output && element == 0 {
            return Some(Output::whole(self.name.clone(), buffer, self.bytes.len()));
        }
        self.is_output.then(|| Output {
            name: self.name.clone(),
            buffer,
            offset: 0,
            element,
            shape: self.shape.clone(),
            strides: self.strides.iter().map(|stride| stride * element as isize).collect(),
        })
    }

    /// What it is.
    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }
}

impl BufferFile {
    /// Its bytes; files lie in `folder` or where they say.
    pub(super) fn load(&self, name: &str, folder: &Path) -> Result<Held, Mistake> {
        let sources = [self.file.is_some(), self.fill.is_some(), self.values.is_some()];
        if sources.into_iter().filter(|given| *given).count() > 1 {
            return Err(Mistake::new(format!(
                "`{name}` holds a `file`, a `fill` or `values`: one of them"
            )));
        }
        let tensor = match &self.file {
            Some(file) => self.stored(name, &folder.join(file))?,
            None => self.made(name)?,
        };
        let write = self.write.as_ref().map(|path| folder.join(path));
        self.lay_out(name, &tensor, write)
    }

    /// Bytes that it will have, where no file says so.
    pub(super) fn size(&self) -> u128 {
        let bits = self.dtype.as_deref().and_then(DType::from_name).map_or(8, DType::bits);
        let elements = match &self.shape {
            Some(shape) => {
                let mut sizes: Vec<u128> = shape.iter().map(|size| *size as u128).collect();
                if let (Some(row), Some(last)) = (self.row, sizes.last_mut()) {
                    *last = (*last).max(row as u128);
                }
                sizes.iter().fold(1_u128, |product, size| product.saturating_mul(*size))
            }
            None => return self.bytes.unwrap_or(0) as u128,
        };
        elements.saturating_mul(bits as u128) / 8
    }

    fn stored(&self, name: &str, path: &Path) -> Result<Tensor, Mistake> {
        let tensor = Stored::open(path, name)?.load()?.to_contiguous();
        let dtype = self.dtype.as_ref().is_none_or(|dtype| dtype == tensor.dtype().name());
        let shape = self.shape.as_ref().is_none_or(|shape| shape == tensor.shape());
        if dtype && shape {
            return Ok(tensor);
        }
        let (dtype, shape) = (tensor.dtype(), tensor.shape());
        Err(Mistake::file(path, format!("`{name}` is {dtype} of {shape:?} there")))
    }

    /// Elements that no file has.
    fn made(&self, name: &str) -> Result<Tensor, Mistake> {
        let (dtype, shape) = self.elements(name)?;
        let wrong = |error: postlude::TensorError| Mistake::new(format!("`{name}`: {error}"));
        if let Some(values) = &self.values {
            let count = shape.iter().product::<usize>();
            let all: Vec<f64> = match values[..] {
                [value] => vec![value; count],
                _ if values.len() == count => values.clone(),
                _ => {
                    let given = values.len();
                    let what = format!("`{name}` has {count} elements, and {given} `values`");
                    return Err(Mistake::new(what));
                }
            };
            return Tensor::from_values(dtype, shape, &all).map_err(wrong);
        }
        match self.fill.as_deref() {
            None => Tensor::zeros(dtype, shape).map_err(wrong),
            Some(POISONED) => {
                let mut tensor = Tensor::zeros(dtype, shape).map_err(wrong)?;
                tensor.bytes_mut().fill(POISON);
                Ok(tensor)
            }
            Some(kind) => {
                let kind: Fill = kind.parse().map_err(|error| {
                    Mistake::new(format!("`{name}`: {error}")).fix("or `poison`: all ones")
                })?;
                let seed = seed_for(self.seed.unwrap_or(0), name);
                fill(kind, dtype, &shape, self.count.unwrap_or(COUNT), seed).map_err(wrong)
            }
        }
    }

    /// What it holds.
    fn elements(&self, name: &str) -> Result<(DType, Vec<usize>), Mistake> {
        let dtype = self.dtype.as_deref().unwrap_or(DType::U8.name());
        let dtype = DType::from_name(dtype)
            .ok_or_else(|| Mistake::new(format!("`{name}`: there is no dtype `{dtype}`")))?;
        match (&self.shape, self.bytes) {
            (Some(shape), None) => Ok((dtype, shape.clone())),
            (None, Some(bytes)) => Ok((dtype, vec![bytes * 8 / dtype.bits()])),
            (Some(_), Some(_)) | (None, None) => Err(Mistake::new(format!(
                "`{name}` needs a `file`, or its size: `bytes`, or a `dtype` and a `shape`"
            ))),
        }
    }

    /// Rows with gaps where they have some; what lies between them is poisoned.
    fn lay_out(
        &self,
        name: &str,
        tensor: &Tensor,
        write: Option<PathBuf>,
    ) -> Result<Held, Mistake> {
        let (dtype, shape) = (tensor.dtype(), tensor.shape().to_vec());
        let mut rows = shape.clone();
        if let (Some(row), Some(last)) = (self.row, rows.last_mut()) {
            if row < *last || dtype.bits() < 8 {
                let what = format!("`{name}`: a `row` of {row} elements does not hold {last}");
                return Err(Mistake::new(what));
            }
            *last = row;
        }
        let strides = postlude::tensor::contiguous(&rows);
        let mut bytes = tensor.bytes().to_vec();
        if rows != shape {
            let columns = shape.last().copied().unwrap_or(1);
            let pitch = dtype.bytes_for(rows.last().copied().unwrap_or(1));
            let source = std::mem::take(&mut bytes);
            for row in source.chunks(dtype.bytes_for(columns).max(1)) {
                let end = bytes.len() + pitch;
                bytes.extend_from_slice(row);
                bytes.resize(end, POISON);
            }
        }
        let (name, is_output) = (name.to_owned(), self.output);
        Ok(Held { name, bytes, write, is_output, dtype, shape, strides })
    }
}
