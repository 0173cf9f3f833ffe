//! Bytes of global memory that the kernel did not write.
//!
//! In: every write to a buffer, and which buffers are outputs that a launch must write whole. Out: for each buffer that was
//! written in part, how many bytes were not; a finding where it is such an output. Invariant: bytes between an output's
//! elements are never asked for.

use crate::error::SimError;
use crate::machine::Machine;
use crate::report::{Diagnosis, Finding};

/// An output that a launch must write whole: which bytes of a buffer are its elements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    /// Its name.
    pub name: String,
    /// Its buffer.
    pub buffer: usize,
    /// Bytes from the buffer's start to its first element.
    pub offset: usize,
    /// Bytes of an element.
    pub element: usize,
    /// Its sizes.
    pub shape: Vec<usize>,
    /// Bytes from one element to the next, along each dim.
    pub strides: Vec<isize>,
}

impl Output {
    /// All bytes of a buffer.
    pub fn whole(name: String, buffer: usize, bytes: usize) -> Output {
        Output { name, buffer, offset: 0, element: bytes, shape: Vec::new(), strides: Vec::new() }
    }

    /// Calls back for every element, with its first byte in the buffer.
    fn visit(&self, see: &mut dyn FnMut(usize)) {
        if self.shape.contains(&0) {
            return;
        }
        let mut index = vec![0; self.shape.len()];
        let mut at = self.offset as isize;
        loop {
            if let Ok(at) = usize::try_from(at) {
                see(at);
            }
            let mut dim = self.shape.len();
            loop {
                let Some(inner) = dim.checked_sub(1) else { return };
                dim = inner;
                index[dim] += 1;
                at += self.strides[dim];
                if index[dim] < self.shape[dim] {
                    break;
                }
                at -= self.strides[dim] * self.shape[dim] as isize;
                index[dim] = 0;
            }
        }
    }
}

/// A buffer that was not written whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unwritten {
    /// The buffer.
    pub buffer: usize,
    /// Bytes that the kernel did not write.
    pub bytes: u64,
    /// Bytes of the buffer; for an output, bytes of its elements.
    pub of: u64,
    /// The first of them, from the buffer's start.
    pub first: u64,
}

impl std::fmt::Display for Unwritten {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let Unwritten { bytes, of, first, .. } = self;
        write!(f, "{bytes} of {of} bytes were never written, the first is byte {first}")
    }
}

/// A bit for each byte of a buffer, from the first write on.
#[derive(Clone, Default, Debug)]
pub(crate) struct Written(Vec<u64>);

impl Written {
    /// Bytes of the buffer are written, of which it has `size`.
    #[inline]
    pub(crate) fn note(&mut self, offset: usize, bytes: usize, size: usize) {
        if self.0.is_empty() {
            self.0 = vec![0; size.div_ceil(64)];
        }
        let (mut at, end) = (offset, offset + bytes);
        while at < end {
            let stop = end.min((at / 64 + 1) * 64);
            let mask = (u64::MAX >> (64 - (stop - at))) << (at % 64);
            self.0[at / 64] |= mask;
            at = stop;
        }
    }

    fn has(&self, byte: usize) -> bool {
        self.0.get(byte / 64).is_some_and(|word| word >> (byte % 64) & 1 == 1)
    }

    /// How many of these bytes the kernel did not write, and the first of them.
    fn missing(&self, from: usize, bytes: usize) -> (u64, Option<u64>) {
        let (mut at, end, mut count, mut first) = (from, from + bytes, 0, None);
        while at < end {
            let full = at.is_multiple_of(64) && self.0.get(at / 64) == Some(&u64::MAX);
            if full {
                at += 64;
            } else {
                if !self.has(at) {
                    count += 1;
                    first = first.or(Some(at as u64));
                }
                at += 1;
            }
        }
        (count, first)
    }
}

impl Machine<'_> {
    /// Lists the bytes that the kernel did not write; for outputs they are a finding if the run ended.
    pub(crate) fn check_outputs(&mut self) -> Result<(), SimError> {
        let own = self.global.buffers.len() - 1;
        for buffer in 0..own {
            let (written, size) = (self.global.written(buffer), self.global.buffers[buffer].len());
            let mut outputs = self.options.outputs.iter().filter(|each| each.buffer == buffer);
            let Some(output) = outputs.next() else {
                // A buffer without any write is an input.
                let partly = written.filter(|written| !written.0.is_empty());
                let (bytes, first) = partly.map_or((0, None), |written| written.missing(0, size));
                if let Some(first) = first {
                    let of = size as u64;
                    self.report.unwritten.push(Unwritten { buffer, bytes, of, first });
                }
                continue;
            };
            let nothing = Written::default();
            let (mut bytes, mut first, mut of) = (0, None::<u64>, 0);
            output.visit(&mut |at| {
                let (missing, place) = written.unwrap_or(&nothing).missing(at, output.element);
                of += output.element as u64;
                bytes += missing;
                first = first.or(place);
            });
            let Some(first) = first else { continue };
            let unwritten = Unwritten { buffer, bytes, of, first };
            let message = format!("`{}`: {unwritten}", output.name);
            self.report.unwritten.push(unwritten);
            if self.report.finished {
                self.find(Finding {
                    diagnosis: Diagnosis::OutputUnwritten,
                    line: 0,
                    text: String::new(),
                    cta: 0,
                    warp: None,
                    region: None,
                    address: None,
                    message,
                })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_the_kernel_did_not_write_are_counted() {
        let mut written = Written::default();
        written.note(0, 64, 200);
        written.note(70, 130, 200);
        assert_eq!(written.missing(0, 200), (6, Some(64)));
        assert_eq!(written.missing(70, 130), (0, None));
        assert_eq!(Written::default().missing(3, 5), (5, Some(3)));
    }

    #[test]
    fn elements_of_a_strided_output_are_visited() {
        let output = Output {
            name: String::new(),
            buffer: 0,
            offset: 4,
            element: 2,
            shape: vec![2, 3],
            strides: vec![16, -2],
        };
        let mut places = Vec::new();
        output.visit(&mut |at| places.push(at));
        assert_eq!(places, [4, 2, 0, 20, 18, 16]);
        let mut none = 0;
        Output { shape: vec![0, 3], ..output }.visit(&mut |_| none += 1);
        assert_eq!(none, 0);
    }
}
