//! `.safetensors`: the length of a JSON header, the header, the elements of every tensor.

use std::fs::File;
use std::path::Path;

use postlude::DType;
use postlude::syntax::nearest;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

use super::{Header, Order, read_exactly};
use crate::failure::Mistake;

/// The format's own limit on the header.
const MOST_HEADER: u64 = 100_000_000;
/// Bytes that hold the header's length.
const LENGTH: usize = 8;
/// Headers are padded so that elements are aligned.
const ALIGNMENT: usize = 8;

/// The header of the tensor of that name, or of the only one.
pub(super) fn read_header(
    file: &mut File,
    file_length: u64,
    path: &Path,
    name: &str,
) -> Result<Header, Mistake> {
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
    let metadata: Metadata =
        serde_json::from_slice(&header).map_err(|error| corrupt(&error.to_string()))?;
    let data = LENGTH as u64 + length;
    if data.checked_add(metadata.data_len() as u64) != Some(file_length) {
        return Err(corrupt("its length is not what the header says"));
    }
    let info = find(&metadata, path, name)?;
    let dtype = from_format(info.dtype).ok_or_else(|| {
        Mistake::file(path, format!("elements of type {:?} are not supported", info.dtype))
            .fix("use F32, F16, BF16, F8_E4M3, F8_E5M2, I8, U8, I32 or BOOL")
    })?;
    let (start, end) = info.data_offsets;
    Ok(Header {
        dtype,
        shape: info.shape.clone(),
        order: Order::RowMajor,
        offset: data + start as u64,
        length: end - start,
    })
}

fn find<'a>(metadata: &'a Metadata, path: &Path, name: &str) -> Result<&'a TensorInfo, Mistake> {
    if let Some(info) = metadata.info(name) {
        return Ok(info);
    }
    let names = metadata.offset_keys();
    match names.as_slice() {
        [] => Err(Mistake::file(path, "it holds no tensor")),
        [only] => metadata
            .info(only)
            .ok_or_else(|| Mistake::file(path, format!("it holds no tensor `{name}`"))),
        _ => {
            let near = nearest(name, names.iter().map(String::as_str));
            let fix = near.map_or_else(
                || format!("it holds {}", names.join(", ")),
                |near| format!("it holds {} tensors, among them `{near}`", names.len()),
            );
            Err(Mistake::file(path, format!("it holds no tensor `{name}`")).fix(fix))
        }
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

fn from_format(dtype: Dtype) -> Option<DType> {
    // The format has more types than the language, and may get others.
    Some(match dtype {
        Dtype::F32 => DType::F32,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::F8_E4M3 => DType::F8E4M3,
        Dtype::F8_E5M2 => DType::F8E5M2,
        Dtype::I8 => DType::I8,
        Dtype::U8 => DType::U8,
        Dtype::I32 => DType::I32,
        Dtype::BOOL => DType::Bool,
        _ => return None,
    })
}

/// Packed bits are bytes, eight elements each.
fn to_format(dtype: DType, shape: &[usize]) -> (Dtype, Vec<usize>) {
    let mut shape = shape.to_vec();
    let dtype = match dtype {
        DType::F32 => Dtype::F32,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        DType::F8E4M3 => Dtype::F8_E4M3,
        DType::F8E5M2 => Dtype::F8_E5M2,
        DType::I8 => Dtype::I8,
        DType::U8 => Dtype::U8,
        DType::I32 => Dtype::I32,
        DType::Bool => Dtype::BOOL,
        DType::B1 => {
            shape.last_mut().into_iter().for_each(|last| *last /= 8);
            Dtype::U8
        }
    };
    (dtype, shape)
}
