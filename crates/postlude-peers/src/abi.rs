//! The C ABI: the one file of this crate with unsafe code.
//!
//! Text is UTF-8. What comes in ends in a zero byte and is read during the call; what goes out is written to a buffer that
//! the caller owns, without a zero byte, and the answer is its length. A buffer that is too small is left alone.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::run::{self, Foreign};

/// The version of this interface.
pub const VERSION: u32 = 1;
/// Everything is right.
pub const FINE: c_int = 0;
/// A row is wrong or failed.
pub const CHECK_FAILED: c_int = 1;
/// Nothing could be measured; why was told.
pub const MISTAKE: c_int = 2;

/// Bytes that an answer about a row's peers may take.
const ANSWER_BYTES: usize = 1 << 16;
/// Bytes that a message about a failed launch may take.
const MESSAGE_BYTES: usize = 1 << 12;

/// Functions of whoever brings peers.
///
/// They return normally, whatever happens in them, and keep no pointer after they have.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Callbacks {
    /// `(asked, answer, capacity)`: prepares the peers of a row, writes `{"peers": [...]}` or `{"error": "..."}`, and
    /// returns its length.
    pub prepare: extern "C" fn(*const c_char, *mut u8, usize) -> usize,
    /// `(peer, set, stream, message, capacity)`: queues a peer on a set; returns the length of a message if it cannot.
    pub launch: extern "C" fn(u32, u32, usize, *mut u8, usize) -> usize,
    /// Forgets the row.
    pub release: extern "C" fn(),
    /// Takes a line for whoever waits.
    pub tell: extern "C" fn(*const c_char),
}

impl Foreign for Callbacks {
    fn prepare(&self, asked: &str) -> String {
        let (asked, mut answer) = (text_for_c(asked), vec![0; ANSWER_BYTES]);
        let length = (self.prepare)(asked.as_ptr(), answer.as_mut_ptr(), answer.len());
        answer.truncate(length);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn launch(&self, peer: u32, set: u32, stream: usize) -> Result<(), String> {
        let mut message = [0; MESSAGE_BYTES];
        match (self.launch)(peer, set, stream, message.as_mut_ptr(), message.len()) {
            0 => Ok(()),
            length => {
                let message = &message[..length.min(MESSAGE_BYTES)];
                Err(String::from_utf8_lossy(message).into_owned())
            }
        }
    }

    fn release(&self) {
        (self.release)();
    }

    fn tell(&self, line: &str) {
        (self.tell)(text_for_c(line).as_ptr());
    }
}

fn text_for_c(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}

/// The version of this interface.
#[unsafe(no_mangle)]
pub extern "C" fn postlude_peers_version() -> u32 {
    VERSION
}

/// The rows of a request as JSON, without memory: what has to be compiled for each. Returns the length of the text, which
/// was written if it is at most `capacity`; a request that does not read gives 0.
///
/// # Safety
/// `request` is text that ends in a zero byte; `answer` is room for `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn postlude_peers_rows(
    request: *const c_char,
    answer: *mut u8,
    capacity: usize,
) -> usize {
    // SAFETY: the caller's promise.
    let request = unsafe { CStr::from_ptr(request) }.to_string_lossy();
    let rows = catch_unwind(|| run::rows(&request)).ok().and_then(Result::ok).unwrap_or_default();
    if !rows.is_empty() && rows.len() <= capacity {
        // SAFETY: there is room for this many bytes, by the caller's promise, and no other pointer to them exists.
        unsafe { std::ptr::copy_nonoverlapping(rows.as_ptr(), answer, rows.len()) };
    }
    rows.len()
}

/// Measures what a request asks for, beside the peers that the functions bring. Returns [`FINE`], [`CHECK_FAILED`] or
/// [`MISTAKE`].
///
/// # Safety
/// `request` is text that ends in a zero byte; `callbacks` holds functions that may be called until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn postlude_peers_measure(
    request: *const c_char,
    callbacks: *const Callbacks,
) -> c_int {
    // SAFETY: the caller's promise.
    let (request, callbacks) =
        unsafe { (CStr::from_ptr(request).to_string_lossy(), callbacks.read()) };
    match catch_unwind(AssertUnwindSafe(|| run::measure(&request, &callbacks))) {
        Ok(Ok(true)) => FINE,
        Ok(Ok(false)) => CHECK_FAILED,
        Ok(Err(message)) => {
            callbacks.tell(&format!("error: {message}"));
            MISTAKE
        }
        Err(_) => {
            callbacks.tell("error: compiler bug: a panic, told above");
            MISTAKE
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

    fn text<'a>(pointer: *const c_char) -> std::borrow::Cow<'a, str> {
        // SAFETY: tests pass what `text_for_c` made, which lives until the callback returns.
        unsafe { CStr::from_ptr(pointer) }.to_string_lossy()
    }

    fn write(answer: &str, to: *mut u8, capacity: usize) -> usize {
        assert!(answer.len() <= capacity);
        // SAFETY: there is room for `capacity` bytes.
        unsafe { std::ptr::copy_nonoverlapping(answer.as_ptr(), to, answer.len()) };
        answer.len()
    }

    extern "C" fn prepare(asked: *const c_char, answer: *mut u8, capacity: usize) -> usize {
        write(&format!("heard {}", text(asked)), answer, capacity)
    }

    extern "C" fn launch(
        peer: u32,
        set: u32,
        stream: usize,
        message: *mut u8,
        capacity: usize,
    ) -> usize {
        if peer == 0 { 0 } else { write(&format!("{peer} {set} {stream}"), message, capacity) }
    }

    extern "C" fn release() {}

    extern "C" fn tell(line: *const c_char) {
        TOLD.lock().unwrap().push(text(line).into_owned());
    }

    static FAKE: Callbacks = Callbacks { prepare, launch, release, tell };

    #[test]
    fn text_goes_out_and_comes_back() {
        assert_eq!(FAKE.prepare("a row\0"), "heard a row\u{fffd}");
        assert_eq!(FAKE.launch(0, 1, 2), Ok(()));
        assert_eq!(FAKE.launch(3, 1, 2), Err("3 1 2".to_owned()));
    }

    #[test]
    fn rows_are_written_where_there_is_room() {
        let request = CString::new(r#"{"suites": ["epilogues"], "filter": "E10"}"#).unwrap();
        let mut answer = vec![0; 1 << 16];
        // SAFETY: text of ours, and room as large as is said.
        let rows = |answer: &mut [u8]| unsafe {
            postlude_peers_rows(request.as_ptr(), answer.as_mut_ptr(), answer.len())
        };
        let length = rows(&mut answer);
        let text = String::from_utf8(answer[..length].to_vec()).unwrap();
        assert!(text.starts_with('[') && text.contains("128256"), "{text}");
        assert_eq!(rows(&mut [0; 4]), length);
    }

    #[test]
    fn a_mistake_is_told() {
        for request in ["{", r#"{"suites": ["sweet"]}"#, r#"{"filter": "no such row"}"#] {
            let request = CString::new(request).unwrap();
            // SAFETY: text and functions of ours.
            let code = unsafe { postlude_peers_measure(request.as_ptr(), &raw const FAKE) };
            assert_eq!(code, MISTAKE);
        }
        let told = TOLD.lock().unwrap().join("\n");
        assert!(told.contains("sweet") && told.contains("no such row"), "{told}");
    }
}
