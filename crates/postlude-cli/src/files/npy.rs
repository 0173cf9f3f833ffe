//! `.npy`: a magic number, a version, the length of a header, the header as a Python dictionary, the elements.
//!
//! Source: NumPy's "NPY format" (`numpy.lib.format`).

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use postlude::DType;

use super::integers::Integer;
use super::{Elements, Header, Order, read_exactly};
use crate::failure::Mistake;

const MAGIC: &[u8] = b"\x93NUMPY";
/// NumPy's own headers have some hundred bytes.
const MOST_HEADER: usize = 1 << 20;
/// Headers are padded so that elements are aligned.
const ALIGNMENT: usize = 64;

/// The header of the array in these bytes of the file, which is read up to them.
pub(super) fn read_header(
    file: &mut File,
    bytes: Range<u64>,
    path: &Path,
) -> Result<Header, Mistake> {
    let corrupt = |what: &str| Mistake::file(path, format!("not an npy file: {what}"));
    let start = read_exactly(file, MAGIC.len() + 2, path)?
        .ok_or_else(|| corrupt("it is shorter than a header"))?;
    let (magic, version) = start.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(corrupt("it does not begin with NumPy's mark"));
    }
    let width = match version[0] {
        1 => 2,
        2 | 3 => 4,
        other => return Err(corrupt(&format!("version {other} of the format is not known"))),
    };
    let length =
        read_exactly(file, width, path)?.ok_or_else(|| corrupt("it ends inside the header"))?;
    let length = length.iter().rev().fold(0, |length, byte| length << 8 | usize::from(*byte));
    if length > MOST_HEADER {
        return Err(corrupt("the header is too long"));
    }
    let text =
        read_exactly(file, length, path)?.ok_or_else(|| corrupt("it ends inside the header"))?;
    let text = String::from_utf8(text).map_err(|_| corrupt("the header is not text"))?;
    let Dictionary { descr, fortran_order, shape } =
        Dictionary::read(&text).ok_or_else(|| corrupt("the header is not understood"))?;
    let found = from_descr(&descr).ok_or_else(|| unsupported(path, &descr))?;
    let elements = shape.iter().try_fold(1usize, |product, size| product.checked_mul(*size));
    let size = elements
        .and_then(|elements| elements.checked_mul(found.bits() / 8))
        .ok_or_else(|| corrupt("its shape is too large"))?;
    let header = (MAGIC.len() + 2 + width + length) as u64;
    let given = bytes.end - bytes.start;
    if header.checked_add(size as u64) != Some(given) {
        let wanted = u128::from(header) + size as u128;
        return Err(corrupt(&format!(
            "its length is not what the header says: {given} bytes instead of {wanted}"
        )));
    }
    let order = if fortran_order { Order::ColumnMajor } else { Order::RowMajor };
    Ok(Header { elements: found, shape, order, offset: bytes.start + header, length: size })
}

fn unsupported(path: &Path, descr: &str) -> Mistake {
    let mistake = Mistake::file(path, format!("elements of type `{descr}` are not supported"));
    let is_foreign =
        descr.strip_prefix('>').is_some_and(|rest| from_descr(&format!("<{rest}")).is_some());
    if descr == "<f8" {
        mistake.fix("save it as float32: `array.astype(numpy.float32)`")
    } else if is_foreign {
        mistake
            .fix("save it in little-endian order: `array.astype(array.dtype.newbyteorder(\"<\"))`")
    } else {
        mistake.fix(
            "use float32, float16, int8, uint8, int32, int64 or bool; `.safetensors` has bf16 and fp8 too",
        )
    }
}

fn from_descr(descr: &str) -> Option<Elements> {
    Some(match descr {
        "<f4" => Elements::Of(DType::F32),
        "<f2" => Elements::Of(DType::F16),
        "|i1" | "<i1" => Elements::Of(DType::I8),
        "|u1" | "<u1" => Elements::Of(DType::U8),
        "<i4" => Elements::Of(DType::I32),
        "|b1" | "<b1" | "?" => Elements::Of(DType::Bool),
        "<i2" => Elements::Integers(Integer::I16),
        "<u2" => Elements::Integers(Integer::U16),
        "<u4" => Elements::Integers(Integer::U32),
        "<i8" => Elements::Integers(Integer::I64),
        "<u8" => Elements::Integers(Integer::U64),
        _ => return None,
    })
}

/// What an element type is called; `None` where NumPy has none for it. Packed elements and exponents of scales are bytes.
pub(super) fn descr(dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::F32 | DType::TF32 => Some("<f4"),
        DType::F16 => Some("<f2"),
        DType::I8 => Some("|i1"),
        DType::U8 | DType::B1 | DType::I4 | DType::U4 | DType::F8E8M0 => Some("|u1"),
        DType::I32 => Some("<i4"),
        DType::I64 => Some("<i8"),
        DType::Bool => Some("|b1"),
        DType::BF16 | DType::F8E4M3 | DType::F8E5M2 => None,
    }
}

/// The header of a file with this tensor.
pub(super) fn header(dtype: DType, shape: &[usize]) -> Vec<u8> {
    let descr = descr(dtype).expect("compiler bug: a dtype that was refused before");
    let mut sizes: Vec<usize> = shape.to_vec();
    sizes.last_mut().into_iter().for_each(|last| *last /= dtype.per_byte());
    let comma = if sizes.len() == 1 { "," } else { "" };
    let sizes = sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(", ") + comma;
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sizes}), }}");
    let start = MAGIC.len() + 4;
    let padded = (start + text.len() + 1).next_multiple_of(ALIGNMENT);
    text.extend(std::iter::repeat_n(' ', padded - start - text.len() - 1));
    text.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.bytes());
    bytes
}

/// What the header's dictionary says.
#[derive(PartialEq, Eq, Debug)]
struct Dictionary {
    descr: String,
    fortran_order: bool,
    shape: Vec<usize>,
}

impl Dictionary {
    fn read(text: &str) -> Option<Dictionary> {
        let mut scanner = Scanner(text);
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        scanner.take('{').then_some(())?;
        while !scanner.take('}') {
            let key = scanner.string()?;
            scanner.take(':').then_some(())?;
            match key {
                "descr" => descr = Some(scanner.string()?.to_owned()),
                "fortran_order" => fortran_order = Some(scanner.truth()?),
                "shape" => shape = Some(scanner.sizes()?),
                _ => return None,
            }
            if !scanner.take(',') {
                scanner.take('}').then_some(())?;
                break;
            }
        }
        scanner.0.trim().is_empty().then_some(())?;
        Some(Dictionary { descr: descr?, fortran_order: fortran_order?, shape: shape? })
    }
}

/// The rest of a Python literal.
struct Scanner<'a>(&'a str);

impl<'a> Scanner<'a> {
    fn take(&mut self, wanted: char) -> bool {
        match self.0.trim_start().strip_prefix(wanted) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    fn string(&mut self) -> Option<&'a str> {
        let quote = if self.take('\'') { '\'' } else { self.take('"').then_some('"')? };
        let (string, rest) = self.0.split_once(quote)?;
        self.0 = rest;
        Some(string)
    }

    fn truth(&mut self) -> Option<bool> {
        let text = self.0.trim_start();
        let (rest, truth) = match text.strip_prefix("True") {
            Some(rest) => (rest, true),
            None => (text.strip_prefix("False")?, false),
        };
        self.0 = rest;
        Some(truth)
    }

    fn sizes(&mut self) -> Option<Vec<usize>> {
        let mut sizes = Vec::new();
        self.take('(').then_some(())?;
        while !self.take(')') {
            let text = self.0.trim_start();
            let end = text.find(|character: char| !character.is_ascii_digit())?;
            sizes.push(text[..end].parse().ok()?);
            // Python 2 wrote long integers as `3L`.
            self.0 = text[end..].strip_prefix('L').unwrap_or(&text[end..]);
            if !self.take(',') {
                self.take(')').then_some(())?;
                break;
            }
        }
        Some(sizes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_read_back() {
        for shape in [vec![], vec![3], vec![2, 0], vec![1, 2, 3]] {
            let bytes = header(DType::F16, &shape);
            assert_eq!(bytes.len() % ALIGNMENT, 0);
            let text = std::str::from_utf8(&bytes[10..]).unwrap();
            let read = Dictionary::read(text).unwrap();
            let descr = "<f2".to_owned();
            assert_eq!(read, Dictionary { descr, fortran_order: false, shape });
        }
    }

    #[test]
    fn what_is_not_a_dictionary_is_refused() {
        for text in [
            "",
            "{",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}",
            "{'descr': '<f4', 'shape': (3,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} and more",
        ] {
            assert_eq!(Dictionary::read(text), None, "{text}");
        }
    }
}
