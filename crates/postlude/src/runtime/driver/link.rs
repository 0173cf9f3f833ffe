//! From PTX to a cubin with the compiler's log.
//!
//! `cuModuleLoadData` would compile as well, but gives neither the cubin nor the log.

use std::ffi::{CString, c_int, c_void};
use std::ptr;

use super::context::{Context, Entered};
use super::table::Handle;
use crate::runtime::error::RuntimeError;

/// `CU_JIT_INFO_LOG_BUFFER` and its size, `CU_JIT_ERROR_LOG_BUFFER` and its size, `CU_JIT_LOG_VERBOSE`.
const OPTIONS: [c_int; 5] = [3, 4, 5, 6, 12];
/// `CU_JIT_INPUT_PTX`
const INPUT_PTX: c_int = 1;
const LOG_BYTES: usize = 256 * 1024;

/// A cubin and what the compiler said.
pub(crate) struct Linked {
    pub(crate) cubin: Vec<u8>,
    pub(crate) log: String,
}

/// A linker that is destroyed whatever happens.
struct Linker<'a> {
    entered: &'a Entered<'a>,
    state: Handle,
}

impl Drop for Linker<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `cuLinkCreate` and destroyed once.
        unsafe { (self.entered.table().link_destroy)(self.state) };
    }
}

/// Compiles PTX for the GPU of a context.
pub(crate) fn link(context: &Context, text: &str) -> Result<Linked, RuntimeError> {
    let entered = context.enter()?;
    let Ok(source) = CString::new(text) else {
        let log = "the text has a zero byte".to_owned();
        return Err(RuntimeError::Compile { name: "not PTX".to_owned(), log });
    };
    // The linker writes to these until it is destroyed: they are declared before it, and dropped after it.
    let (mut said, mut complaints) = (vec![0u8; LOG_BYTES], vec![0u8; LOG_BYTES]);
    let mut options = OPTIONS;
    let mut values: [*mut c_void; 5] = [
        said.as_mut_ptr().cast(),
        ptr::without_provenance_mut(LOG_BYTES),
        complaints.as_mut_ptr().cast(),
        ptr::without_provenance_mut(LOG_BYTES),
        ptr::without_provenance_mut(1),
    ];
    let mut state = 0;
    // SAFETY: five options with their values, which live longer than the linker; writes one handle.
    let code = unsafe {
        (entered.table().link_create)(
            options.len() as u32,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
            &raw mut state,
        )
    };
    entered.check("cuLinkCreate", code)?;
    let linker = Linker { entered: &entered, state };
    let cubin = add_and_complete(&linker, &source);
    drop(linker);
    match cubin {
        Ok(cubin) => Ok(Linked { cubin, log: words(&said) }),
        Err(RuntimeError::Driver { name, .. }) => {
            let log = [words(&complaints), words(&said)].concat();
            Err(RuntimeError::Compile { name, log: log.trim_end().to_owned() })
        }
        Err(other) => Err(other),
    }
}

fn add_and_complete(linker: &Linker<'_>, source: &CString) -> Result<Vec<u8>, RuntimeError> {
    let table = linker.entered.table();
    let bytes = source.as_bytes_with_nul();
    // SAFETY: the text ends with a zero, is read only and not kept; no options.
    let code = unsafe {
        (table.link_add)(
            linker.state,
            INPUT_PTX,
            bytes.as_ptr().cast_mut().cast(),
            bytes.len(),
            c"kernel".as_ptr(),
            0,
            ptr::null_mut(),
            ptr::null_mut(),
        )
    };
    linker.entered.check("cuLinkAddData", code)?;
    let (mut cubin, mut size) = (ptr::null_mut(), 0usize);
    // SAFETY: writes a pointer and a size; the memory is the linker's and lives until it is destroyed.
    let code = unsafe { (table.link_complete)(linker.state, &raw mut cubin, &raw mut size) };
    linker.entered.check("cuLinkComplete", code)?;
    // SAFETY: the linker gave `size` bytes there, and is alive.
    Ok(unsafe { std::slice::from_raw_parts(cubin.cast::<u8>().cast_const(), size) }.to_vec())
}

/// The text before the first zero.
fn words(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
