//! `.safetensors`: the length of a JSON header, the header, the elements of every tensor.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use postlude::DType;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde::Deserialize;

use super::integers::Integer;
use super::names::choose;
use super::unique::Unique;
use super::{Elements, Header, Order, read_exactly};
use crate::failure::Mistake;

/// The format's own limit on the header.
const MOST_HEADER: u64 = 100_000_000;
/// Bytes that hold the header's length.
const LENGTH: usize = 8;
/// Headers are padded so that elements are aligned.
const ALIGNMENT: usize = 8;

/// What the header says of a tensor.
#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    /// From the header's end.
    data_offsets: (u64, u64),
}

/// Every tensor of a file, and where its elements begin.
struct Directory {
    tensors: BTreeMap<String, Entry>,
    data: u64,
}

/// The header of the tensor of that name; without one, of the tensor named as the input, or of the only one.
pub(super) fn read_header(
    file: &mut File,
    file_length: u64,
    path: &Path,
    (tensor, input): (Option<&str>, &str),
) -> Result<Header, Mistake> {
    let Directory { tensors, data } = Directory::read(file, file_length, path)?;
    let names: Vec<&str> = tensors.keys().map(String::as_str).collect();
    let name = choose(path, &names, tensor, input)?;
    let Entry { dtype, shape, data_offsets: (start, end) } = &tensors[name];
    let elements = from_format(dtype).ok_or_else(|| unsupported(path, name, dtype))?;
    let bits = elements.bits() as u64;
    let count = shape.iter().try_fold(1u64, |product, size| product.checked_mul(*size as u64));
    let bytes = count.and_then(|count| count.checked_mul(bits)).map(|bits| bits / 8);
    if bytes != Some(end - start) {
        let what = format!(
            "not a safetensors file: `{name}` has shape {shape:?} of {dtype}, and {} bytes",
            end - start
        );
        return Err(Mistake::file(path, what));
    }
    let length = usize::try_from(end - start)
        .map_err(|_| Mistake::file(path, "too large for this machine's memory"))?;
    let order = Order::RowMajor;
    Ok(Header { elements, shape: shape.clone(), order, offset: data + start, length })
}

/// The names of all tensors.
pub(super) fn names(file: &mut File, length: u64, path: &Path) -> Result<Vec<String>, Mistake> {
    Ok(Directory::read(file, length, path)?.tensors.into_keys().collect())
}

impl Directory {
    /// Reads the header and compares it with the file's length.
    fn read(file: &mut File, file_length: u64, path: &Path) -> Result<Directory, Mistake> {
        let corrupt = |what: &str| Mistake::file(path, format!("not a safetensors file: {what}"));
        let length = read_exactly(file, LENGTH, path)?
            .and_then(|bytes| bytes.try_into().ok())
            .map(u64::from_le_bytes)
            .ok_or_else(|| corrupt("it is shorter than a header"))?;
        if length > MOST_HEADER || length > file_length {
            return Err(corrupt("the header is longer than the file"));
        }
        let header = read_exactly(file, length as usize, path)?
            .ok_or_else(|| corrupt("it ends inside the header"))?;
        let tensors: Unique<Entry> =
            serde_json::from_slice(&header).map_err(|error| corrupt(&error.to_string()))?;
        let directory = Directory { tensors: tensors.0, data: LENGTH as u64 + length };
        directory.check(file_length).map_err(|what| corrupt(&what))?;
        Ok(directory)
    }

    /// Tensors lie one after the other, from the header to the end of the file.
    fn check(&self, file_length: u64) -> Result<(), String> {
        let mut all: Vec<(&str, (u64, u64))> =
            self.tensors.iter().map(|(name, one)| (name.as_str(), one.data_offsets)).collect();
        all.sort_unstable_by_key(|(_, offsets)| *offsets);
        let mut expected = 0;
        for (name, (start, end)) in all {
            if start != expected || end < start {
                return Err(format!(
                    "`{name}` lies at bytes {start} to {end}, and should begin at {expected}"
                ));
            }
            expected = end;
        }
        match self.data.checked_add(expected) {
            Some(wanted) if wanted == file_length => Ok(()),
            Some(wanted) => Err(format!(
                "its length is not what the header says: {file_length} bytes instead of {wanted}"
            )),
            None => Err("its length is not what the header says".to_owned()),
        }
    }
}

fn unsupported(path: &Path, name: &str, dtype: &str) -> Mistake {
    let mistake =
        Mistake::file(path, format!("elements of type {dtype}, as of `{name}`, are not supported"));
    if dtype == "F64" {
        mistake.fix("save it as F32: `tensor.float()`")
    } else {
        mistake.fix("use F32, F16, BF16, F8_E4M3, F8_E5M2, I8, U8, I32, I64 or BOOL")
    }
}

/// The header of a file with these tensors, one after the other.
pub(super) fn header(tensors: &[(&str, DType, &[usize])]) -> Vec<u8> {
    let mut infos = Vec::new();
    let mut start = 0;
    for (name, dtype, shape) in tensors {
        let (dtype, shape) = to_format(*dtype, shape);
        let end = start + shape.iter().product::<usize>() * dtype.bitsize() / 8;
        let info = TensorInfo { dtype, shape, data_offsets: (start, end) };
        infos.push(((*name).to_owned(), info));
        start = end;
    }
    let metadata = Metadata::new(None, infos).expect("compiler bug: tensors that do not adjoin");
    let mut text = serde_json::to_vec(&metadata).expect("compiler bug: a header without text");
    text.resize(text.len().next_multiple_of(ALIGNMENT), b' ');
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text);
    bytes
}

fn from_format(dtype: &str) -> Option<Elements> {
    Some(match dtype {
        "F32" => Elements::Of(DType::F32),
        "F16" => Elements::Of(DType::F16),
        "BF16" => Elements::Of(DType::BF16),
        "F8_E4M3" => Elements::Of(DType::F8E4M3),
        "F8_E5M2" => Elements::Of(DType::F8E5M2),
        "F8_E8M0" => Elements::Of(DType::F8E8M0),
        "I8" => Elements::Of(DType::I8),
        "U8" => Elements::Of(DType::U8),
        "I32" => Elements::Of(DType::I32),
        "BOOL" => Elements::Of(DType::Bool),
        "I16" => Elements::Integers(Integer::I16),
        "U16" => Elements::Integers(Integer::U16),
        "U32" => Elements::Integers(Integer::U32),
        "I64" => Elements::Integers(Integer::I64),
        "U64" => Elements::Integers(Integer::U64),
        _ => return None,
    })
}

/// Packed elements are bytes, several elements each.
fn to_format(dtype: DType, shape: &[usize]) -> (Dtype, Vec<usize>) {
    let mut shape = shape.to_vec();
    shape.last_mut().into_iter().for_each(|last| *last /= dtype.per_byte());
    let dtype = match dtype {
        DType::F32 | DType::TF32 => Dtype::F32,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        DType::F8E4M3 => Dtype::F8_E4M3,
        DType::F8E5M2 => Dtype::F8_E5M2,
        DType::F8E8M0 => Dtype::F8_E8M0,
        DType::I8 => Dtype::I8,
        DType::U8 | DType::B1 | DType::I4 | DType::U4 => Dtype::U8,
        DType::I32 => Dtype::I32,
        DType::I64 => Dtype::I64,
        DType::Bool => Dtype::BOOL,
    };
    (dtype, shape)
}
