//! Tensors in files.
//!
//! In: a path ending in `.safetensors` or `.npy`. Out: dtype and shape at once, the bytes when they are asked for.
//! Invariant: nothing a header says is believed before the file's length confirms it.

mod npy;
mod safetensors;
mod unfinished;
mod write;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use postlude::{DType, Tensor};

use crate::failure::Mistake;

pub(crate) use write::Targets;

/// A tensor that lies in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stored {
    /// Its element type.
    pub(crate) dtype: DType,
    /// Its sizes.
    pub(crate) shape: Vec<usize>,
    order: Order,
    path: PathBuf,
    offset: u64,
    length: usize,
}

/// Which dim's neighbours are neighbours in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    /// The last one's.
    RowMajor,
    /// The first one's ("Fortran order").
    ColumnMajor,
}

/// The formats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    Safetensors,
    Npy,
}

impl Format {
    fn of(path: &Path) -> Result<Format, Mistake> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("safetensors") => Ok(Format::Safetensors),
            Some("npy") => Ok(Format::Npy),
            Some(_) | None => Err(Mistake::file(path, "the format is not known")
                .fix("use a name ending in `.safetensors` or `.npy`")),
        }
    }
}

/// A header: where the elements are and what they are.
struct Header {
    dtype: DType,
    shape: Vec<usize>,
    order: Order,
    offset: u64,
    length: usize,
}

impl Stored {
    /// Reads the header of a file; `name` chooses among the tensors of a `.safetensors` file.
    pub(crate) fn open(path: &Path, name: &str) -> Result<Stored, Mistake> {
        let format = Format::of(path)?;
        let mut file = File::open(path).map_err(|error| Mistake::io(path, &error))?;
        let metadata = file.metadata().map_err(|error| Mistake::io(path, &error))?;
        if !metadata.is_file() {
            return Err(Mistake::file(path, "this is not a regular file"));
        }
        let header = match format {
            Format::Safetensors => safetensors::read_header(&mut file, metadata.len(), path, name)?,
            Format::Npy => npy::read_header(&mut file, metadata.len(), path)?,
        };
        let Header { dtype, shape, order, offset, length } = header;
        Ok(Stored { dtype, shape, order, path: path.to_owned(), offset, length })
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Packed bits are stored as bytes: eight elements each, along the last dim.
    pub(crate) fn unpack(&mut self) {
        if let Some(last) = self.shape.last_mut() {
            *last = last.saturating_mul(8);
            self.dtype = DType::B1;
        }
    }

    /// Reads the elements.
    pub(crate) fn load(&self) -> Result<Tensor, Mistake> {
        let io = |error: std::io::Error| Mistake::io(&self.path, &error);
        let mut file = File::open(&self.path).map_err(io)?;
        file.seek(SeekFrom::Start(self.offset)).map_err(io)?;
        let mut bytes = Vec::new();
        if bytes.try_reserve_exact(self.length).is_err() {
            return Err(Mistake::file(&self.path, "too large for this machine's memory"));
        }
        file.take(self.length as u64).read_to_end(&mut bytes).map_err(io)?;
        self.tensor(bytes).map_err(|error| Mistake::file(&self.path, error))
    }

    fn tensor(&self, bytes: Vec<u8>) -> Result<Tensor, postlude::TensorError> {
        let shape = self.shape.clone();
        match self.order {
            Order::RowMajor => Tensor::from_bytes(self.dtype, shape, bytes),
            Order::ColumnMajor if self.dtype == DType::B1 => {
                // What is reordered is the bytes, before they are bits.
                let mut packed = shape.clone();
                packed.last_mut().into_iter().for_each(|last| *last /= 8);
                let bytes = column_major(DType::U8, packed, bytes)?.to_contiguous();
                Tensor::from_bytes(self.dtype, shape, bytes.bytes().to_vec())
            }
            Order::ColumnMajor => column_major(self.dtype, shape, bytes),
        }
    }
}

fn column_major(
    dtype: DType,
    shape: Vec<usize>,
    bytes: Vec<u8>,
) -> Result<Tensor, postlude::TensorError> {
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = 1;
    for size in &shape {
        strides.push(stride);
        stride *= (*size).max(1) as isize;
    }
    Tensor::with_strides(dtype, shape, strides, 0, bytes)
}

/// Reads exactly that many bytes; `None` when the file ends before.
fn read_exactly(file: &mut File, count: usize, path: &Path) -> Result<Option<Vec<u8>>, Mistake> {
    let mut bytes = Vec::new();
    let read = file.take(count as u64).read_to_end(&mut bytes);
    read.map_err(|error| Mistake::io(path, &error))?;
    Ok((bytes.len() == count).then_some(bytes))
}
