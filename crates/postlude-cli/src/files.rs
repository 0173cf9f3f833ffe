//! Tensors in files.
//!
//! In: a path ending in `.safetensors`, `.safetensors.index.json`, `.npz` or `.npy`, and the name of a tensor in it. Out:
//! dtype and shape at once, the bytes when they are asked for.
//! Invariant: nothing a header says is believed before the file's length confirms it.

mod index;
mod integers;
mod names;
mod npy;
mod npz;
mod place;
mod safetensors;
mod unfinished;
mod unique;
mod write;

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use postlude::tensor::MAX_RANK;
use postlude::{DType, Tensor};

use crate::failure::Mistake;
use integers::{Integer, TooLarge};

pub(crate) use place::Place;
pub(crate) use write::{Targets, require_writable, write_whole};

/// A tensor that lies in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stored {
    /// Its element type once it is read.
    pub(crate) dtype: DType,
    /// Its sizes.
    pub(crate) shape: Vec<usize>,
    order: Order,
    path: PathBuf,
    offset: u64,
    length: usize,
    /// Integers of another width than its element type.
    integers: Option<Integer>,
}

/// What a file holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Elements {
    /// Elements that the language has.
    Of(DType),
    /// Integers that become i32.
    Integers(Integer),
}

impl Elements {
    fn bits(self) -> usize {
        match self {
            Elements::Of(dtype) => dtype.bits(),
            Elements::Integers(integer) => integer.bytes() * 8,
        }
    }
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
    /// Names the files of a checkpoint.
    Index,
    Npz,
    Npy,
}

impl Format {
    fn of(path: &Path) -> Result<Format, Mistake> {
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let mut endings = name.rsplit('.');
        match (endings.next(), endings.next()) {
            (Some("safetensors"), Some(_)) => Ok(Format::Safetensors),
            (Some("json"), Some("index")) => Ok(Format::Index),
            (Some("npz"), Some(_)) => Ok(Format::Npz),
            (Some("npy"), Some(_)) => Ok(Format::Npy),
            _ => Err(Mistake::file(path, "the format is not known")
                .fix("use a name ending in `.safetensors` or `.npy`")),
        }
    }
}

/// A header: where the elements are and what they are.
struct Header {
    elements: Elements,
    shape: Vec<usize>,
    order: Order,
    offset: u64,
    length: usize,
}

/// Whether a file of that name may hold tensors.
pub(crate) fn is_tensor_file(path: &Path) -> bool {
    Format::of(path).is_ok()
}

/// The names of the tensors of a file; none of a file with one tensor and no name for it.
pub(crate) fn tensor_names(path: &Path) -> Result<Vec<String>, Mistake> {
    match Format::of(path)? {
        Format::Index => index::names(path),
        Format::Npy => Ok(Vec::new()),
        Format::Safetensors => open_regular(path)
            .and_then(|(mut file, length)| safetensors::names(&mut file, length, path)),
        Format::Npz => {
            open_regular(path).and_then(|(mut file, length)| npz::names(&mut file, length, path))
        }
    }
}

/// A file and its length. The kind is looked at first: opening a pipe would wait for its other end.
fn open_regular(path: &Path) -> Result<(File, u64), Mistake> {
    let io = |error: std::io::Error| Mistake::io(path, &error);
    let metadata = fs::metadata(path).map_err(io)?;
    if metadata.is_dir() {
        let mistake = Mistake::file(path, "this is a folder");
        return Err(mistake.fix("name a file in it"));
    }
    if !metadata.is_file() {
        return Err(Mistake::file(path, "this is not a regular file"));
    }
    Ok((File::open(path).map_err(io)?, metadata.len()))
}

impl Stored {
    /// Reads the header of what the user wrote as `FILE` or `FILE:TENSOR`. Without a name, the tensor is the one that is
    /// named as the input, or the only one.
    pub(crate) fn open(text: &Path, input: &str) -> Result<Stored, Mistake> {
        let Place { path, tensor } = Place::read(text)?;
        match Format::of(&path)? {
            Format::Index => {
                if path.is_dir() {
                    open_regular(&path)?;
                }
                let (file, name) = index::follow(&path, tensor.as_deref(), input)?;
                Stored::read(&file, Format::Safetensors, Some(&name), input)
            }
            format @ (Format::Safetensors | Format::Npz | Format::Npy) => {
                Stored::read(&path, format, tensor.as_deref(), input)
            }
        }
    }

    fn read(
        path: &Path,
        format: Format,
        tensor: Option<&str>,
        input: &str,
    ) -> Result<Stored, Mistake> {
        let (mut file, file_length) = open_regular(path)?;
        let wanted = (tensor, input);
        let header = match format {
            Format::Safetensors | Format::Index => {
                safetensors::read_header(&mut file, file_length, path, wanted)?
            }
            Format::Npz => npz::read_header(&mut file, file_length, path, wanted)?,
            Format::Npy => {
                if let Some(tensor) = tensor {
                    let what = format!("an npy file holds one array, which has no name `{tensor}`");
                    return Err(Mistake::file(path, what).fix("leave `:` and the name out"));
                }
                npy::read_header(&mut file, 0..file_length, path)?
            }
        };
        let Header { elements, shape, order, offset, length } = header;
        if shape.len() > MAX_RANK {
            let what =
                format!("the array has {} dims, and a tensor at most {MAX_RANK}", shape.len());
            return Err(Mistake::file(path, what).fix("reshape it to the dims that are declared"));
        }
        let (dtype, integers) = match elements {
            Elements::Of(dtype) => (dtype, None),
            Elements::Integers(integer) => (DType::I32, Some(integer)),
        };
        Ok(Stored { dtype, shape, order, path: path.to_owned(), offset, length, integers })
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Packed elements are stored as bytes, several elements each, along the last dim.
    pub(crate) fn unpack(&mut self, dtype: DType) {
        if let Some(last) = self.shape.last_mut() {
            *last = last.saturating_mul(dtype.per_byte());
            self.dtype = dtype;
        }
    }

    /// What the file calls its elements, where that is not their dtype.
    pub(crate) fn wide_name(&self) -> Option<&'static str> {
        self.integers.map(Integer::name)
    }

    /// Reads int64 elements as they are: the input takes them.
    pub(crate) fn keep_int64(&mut self) {
        if self.integers == Some(Integer::I64) {
            (self.dtype, self.integers) = (DType::I64, None);
        }
    }

    /// Reads the elements.
    pub(crate) fn load(&self) -> Result<Tensor, Mistake> {
        self.load_as(&self.shape)
    }

    /// Reads the elements, with a shape that differs in dims of size 1 alone.
    pub(crate) fn load_as(&self, shape: &[usize]) -> Result<Tensor, Mistake> {
        let io = |error: std::io::Error| Mistake::io(&self.path, &error);
        let mut file = File::open(&self.path).map_err(io)?;
        file.seek(SeekFrom::Start(self.offset)).map_err(io)?;
        let mut bytes = Vec::new();
        if bytes.try_reserve_exact(self.length).is_err() {
            return Err(Mistake::file(&self.path, "too large for this machine's memory"));
        }
        file.take(self.length as u64).read_to_end(&mut bytes).map_err(io)?;
        if let Some(integer) = self.integers {
            bytes = integer.narrow(&bytes).map_err(|error| self.too_large(integer, error))?;
        }
        self.tensor(shape, bytes).map_err(|error| Mistake::file(&self.path, error))
    }

    fn too_large(&self, integer: Integer, error: TooLarge) -> Mistake {
        let TooLarge { at, value } = error;
        let mut rest = at;
        let mut place = vec![0; self.shape.len()];
        let mut set = |dim: usize| {
            place[dim] = rest % self.shape[dim].max(1);
            rest /= self.shape[dim].max(1);
        };
        match self.order {
            Order::RowMajor => (0..self.shape.len()).rev().for_each(&mut set),
            Order::ColumnMajor => (0..self.shape.len()).for_each(&mut set),
        }
        let name = integer.name();
        let what = format!("element {place:?} of {name} is {value}, which i32 does not hold");
        Mistake::file(&self.path, what)
    }

    fn tensor(&self, shape: &[usize], bytes: Vec<u8>) -> Result<Tensor, postlude::TensorError> {
        match self.order {
            Order::RowMajor => Tensor::from_bytes(self.dtype, shape, bytes),
            Order::ColumnMajor if self.dtype.is_packed() => {
                // What is reordered is the bytes, before they are bits or halves.
                let mut packed = self.shape.clone();
                packed.last_mut().into_iter().for_each(|last| *last /= self.dtype.per_byte());
                let bytes = column_major(DType::U8, &packed, bytes)?.to_contiguous();
                Tensor::from_bytes(self.dtype, shape, bytes.bytes().to_vec())
            }
            Order::ColumnMajor => column_major(self.dtype, shape, bytes),
        }
    }
}

fn column_major(
    dtype: DType,
    shape: &[usize],
    bytes: Vec<u8>,
) -> Result<Tensor, postlude::TensorError> {
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = 1;
    for size in shape {
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
