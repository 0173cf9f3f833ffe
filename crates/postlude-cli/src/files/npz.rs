//! `.npz`: a zip archive of `.npy` files, as `numpy.savez` writes it.
//!
//! In: an archive whose members are stored as they are. Out: the name of each array and where its `.npy` file lies.
//! Invariant: a member lies within the archive. Source: PKWARE's APPNOTE ("central directory", "zip64 extended
//! information").

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use super::names::choose;
use super::{Header, npy, read_exactly};
use crate::failure::Mistake;

/// The end of an archive: this record, and a comment of at most 65535 bytes.
const END: &[u8] = b"PK\x05\x06";
const END_LENGTH: usize = 22;
const MOST_COMMENT: usize = 65535;
/// The same record of an archive beyond 32 bits, and where it lies.
const WIDE_END: &[u8] = b"PK\x06\x06";
const WIDE_END_LENGTH: usize = 56;
const WIDE_LOCATOR: &[u8] = b"PK\x06\x07";
const WIDE_LOCATOR_LENGTH: usize = 20;
/// A member in the directory, and before its bytes.
const MEMBER: &[u8] = b"PK\x01\x02";
const MEMBER_LENGTH: usize = 46;
const LOCAL: &[u8] = b"PK\x03\x04";
const LOCAL_LENGTH: usize = 30;
/// No directory of arrays is as long as this.
const MOST_DIRECTORY: u64 = 100_000_000;
/// The extra field with numbers beyond 32 bits.
const WIDE_FIELD: usize = 1;

/// An array of the archive.
struct Member {
    name: String,
    /// 0: stored as it is.
    method: usize,
    bytes: u64,
    /// Where the record before its bytes lies.
    local: u64,
}

/// The header of the array of that name; without one, of the array named as the input, or of the only one.
pub(super) fn read_header(
    file: &mut File,
    length: u64,
    path: &Path,
    (tensor, input): (Option<&str>, &str),
) -> Result<Header, Mistake> {
    let members = read_members(file, length, path)?;
    let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let name = choose(path, &names, tensor, input)?;
    let member = members.iter().find(|member| member.name == name);
    let member = member.ok_or_else(|| corrupt(path, "a member is missing"))?;
    if member.method != 0 {
        let mistake = Mistake::file(path, format!("`{name}` is compressed"));
        return Err(mistake.fix("write it with `numpy.savez`, or as a `.safetensors` file"));
    }
    let bytes = stored(file, length, path, member)?;
    file.seek(SeekFrom::Start(bytes.start)).map_err(|error| Mistake::io(path, &error))?;
    npy::read_header(file, bytes, path)
}

/// The names of all arrays.
pub(super) fn names(file: &mut File, length: u64, path: &Path) -> Result<Vec<String>, Mistake> {
    let members = read_members(file, length, path)?;
    Ok(members.into_iter().map(|member| member.name).collect())
}

fn corrupt(path: &Path, what: &str) -> Mistake {
    Mistake::file(path, format!("not an npz file: {what}"))
}

/// Bytes from a place of the file.
fn read_at(file: &mut File, place: u64, count: usize, path: &Path) -> Result<Vec<u8>, Mistake> {
    file.seek(SeekFrom::Start(place)).map_err(|error| Mistake::io(path, &error))?;
    read_exactly(file, count, path)?
        .ok_or_else(|| corrupt(path, "it ends before its directory does"))
}

/// A little-endian number; zero where the record ends before.
fn number(record: &[u8], place: usize, width: usize) -> u64 {
    let bytes = record.get(place..place + width).unwrap_or_default();
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Where the bytes of a member lie.
fn stored(
    file: &mut File,
    length: u64,
    path: &Path,
    member: &Member,
) -> Result<Range<u64>, Mistake> {
    let local = read_at(file, member.local, LOCAL_LENGTH, path)?;
    if !local.starts_with(LOCAL) {
        return Err(corrupt(path, "a member does not begin where the directory says"));
    }
    let names = number(&local, 26, 2) + number(&local, 28, 2);
    let start = member.local + LOCAL_LENGTH as u64 + names;
    match start.checked_add(member.bytes) {
        Some(end) if end <= length => Ok(start..end),
        Some(_) | None => Err(corrupt(path, "a member is longer than the file")),
    }
}

fn read_members(file: &mut File, length: u64, path: &Path) -> Result<Vec<Member>, Mistake> {
    let (start, size) = find_directory(file, length, path)?;
    let end = start.checked_add(size).filter(|end| *end <= length);
    if end.is_none() || size > MOST_DIRECTORY {
        return Err(corrupt(path, "its directory is longer than the file"));
    }
    let directory = read_at(file, start, size as usize, path)?;
    let mut rest = &directory[..];
    let mut members: Vec<Member> = Vec::new();
    while !rest.is_empty() {
        let (member, after) =
            read_member(rest).ok_or_else(|| corrupt(path, "its directory is not understood"))?;
        rest = after;
        if members.iter().any(|other| other.name == member.name) {
            let what = format!("two arrays are named `{}`", member.name);
            return Err(corrupt(path, &what));
        }
        members.push(member);
    }
    Ok(members)
}

/// Where the directory begins, and how long it is.
fn find_directory(file: &mut File, length: u64, path: &Path) -> Result<(u64, u64), Mistake> {
    let tail = length.min((END_LENGTH + MOST_COMMENT) as u64) as usize;
    let tail_start = length - tail as u64;
    let bytes = read_at(file, tail_start, tail, path)?;
    let at = bytes.windows(END_LENGTH).rposition(|window| window.starts_with(END));
    let at = at.ok_or_else(|| corrupt(path, "it has no directory"))?;
    let end = &bytes[at..at + END_LENGTH];
    let (size, start) = (number(end, 12, 4), number(end, 16, 4));
    if size != u64::from(u32::MAX) && start != u64::from(u32::MAX) {
        return Ok((start, size));
    }
    let locator = (tail_start + at as u64).checked_sub(WIDE_LOCATOR_LENGTH as u64);
    let locator = locator.ok_or_else(|| corrupt(path, "it has no directory"))?;
    let locator = read_at(file, locator, WIDE_LOCATOR_LENGTH, path)?;
    let wide = read_at(file, number(&locator, 8, 8), WIDE_END_LENGTH, path)?;
    if !locator.starts_with(WIDE_LOCATOR) || !wide.starts_with(WIDE_END) {
        return Err(corrupt(path, "it has no directory"));
    }
    Ok((number(&wide, 48, 8), number(&wide, 40, 8)))
}

/// A member, and what follows it in the directory.
fn read_member(record: &[u8]) -> Option<(Member, &[u8])> {
    record.starts_with(MEMBER).then_some(())?;
    let name_length = number(record, 28, 2) as usize;
    let extra_length = number(record, 30, 2) as usize;
    let comment_length = number(record, 32, 2) as usize;
    let name = record.get(MEMBER_LENGTH..MEMBER_LENGTH + name_length)?;
    let extra_start = MEMBER_LENGTH + name_length;
    let extra = record.get(extra_start..extra_start + extra_length)?;
    let after = record.get(extra_start + extra_length + comment_length..)?;
    let (stored, whole, local) =
        (number(record, 20, 4), number(record, 24, 4), number(record, 42, 4));
    let mut wide = wide_numbers(extra);
    let mut widen =
        |number: u64| if number == u64::from(u32::MAX) { wide.next() } else { Some(number) };
    // Wide numbers come in this order.
    let (_, bytes, local) = (widen(whole)?, widen(stored)?, widen(local)?);
    let name = String::from_utf8_lossy(name);
    let name = name.strip_suffix(".npy").unwrap_or(&name).to_owned();
    // An encrypted member is no more readable than a compressed one.
    let is_encrypted = number(record, 8, 2) & 1 == 1;
    let method = if is_encrypted { usize::MAX } else { number(record, 10, 2) as usize };
    Some((Member { name, method, bytes, local }, after))
}

/// The numbers of the extra field for what 32 bits do not hold.
fn wide_numbers(extra: &[u8]) -> impl Iterator<Item = u64> {
    let mut rest = extra;
    let mut found: &[u8] = &[];
    while rest.len() >= 4 {
        let (field, length) = (number(rest, 0, 2) as usize, number(rest, 2, 2) as usize);
        let Some(body) = rest.get(4..4 + length) else { break };
        if field == WIDE_FIELD {
            found = body;
        }
        rest = &rest[4 + length..];
    }
    found.chunks_exact(8).map(|eight| number(eight, 0, 8))
}
