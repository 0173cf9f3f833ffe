//! The PTX compiler that comes with the driver: from PTX to a cubin with the compiler's log.
//!
//! The driver's package holds it as a library of its own, with the interface of the "PTX Compiler API". The driver's two
//! other ways fall short: `cuLink*` compiles for linking, where `setmaxnreg` is ignored (C7504) and registers spill, and
//! `cuModuleLoadDataEx` keeps the cubin to itself.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use libloading::Library;

use super::table::Handle;
use crate::runtime::error::RuntimeError;

/// What the library is called.
const NAMES: &[&str] = if cfg!(windows) {
    &["nvptxJitCompiler64.dll"]
} else {
    &["libnvidia-ptxjitcompiler.so.1", "libnvidia-ptxjitcompiler.so"]
};

type Create = unsafe extern "C" fn(*mut Handle, usize, *const c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Handle) -> c_int;
type Compile = unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
type Copy = unsafe extern "C" fn(Handle, *mut c_void) -> c_int;

/// Functions of the opened library.
pub(crate) struct Compiler {
    create: Create,
    destroy: Destroy,
    compile: Compile,
    program: Answer,
    said: Answer,
    complaints: Answer,
    /// What the functions belong to; never closed while they can be called.
    _library: Library,
}

/// Bytes that a compilation answers with: how many, and a copy of them.
struct Answer {
    size: Size,
    copy: Copy,
}

/// One text being compiled; destroyed whatever happens.
struct Compilation<'a> {
    compiler: &'a Compiler,
    handle: Handle,
}

impl Drop for Compilation<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `create` and destroyed once.
        unsafe { (self.compiler.destroy)(&raw mut self.handle) };
    }
}

/// A cubin and what the compiler said.
pub(crate) struct Compiled {
    pub(crate) cubin: Vec<u8>,
    pub(crate) log: String,
}

impl Compiler {
    /// The process's compiler, opened once; `None` where the driver comes without it.
    pub(crate) fn get() -> Option<&'static Compiler> {
        static COMPILER: OnceLock<Option<Compiler>> = OnceLock::new();
        COMPILER.get_or_init(|| Compiler::open(NAMES)).as_ref()
    }

    fn open(names: &[&str]) -> Option<Compiler> {
        names.iter().find_map(|name| {
            // SAFETY: the driver opens the same library in its own processes; what it runs on opening is its own affair.
            let library = unsafe { Library::new(*name) }.ok()?;
            Compiler::resolve(library)
        })
    }

    fn resolve(library: Library) -> Option<Compiler> {
        macro_rules! find {
            ($symbol:literal) => {
                // SAFETY: the signature is the one that `nvPTXCompiler.h` declares for this name.
                *unsafe { library.get(concat!($symbol, "\0").as_bytes()) }.ok()?
            };
        }
        Some(Compiler {
            create: find!("nvPTXCompilerCreate"),
            destroy: find!("nvPTXCompilerDestroy"),
            compile: find!("nvPTXCompilerCompile"),
            program: Answer {
                size: find!("nvPTXCompilerGetCompiledProgramSize"),
                copy: find!("nvPTXCompilerGetCompiledProgram"),
            },
            said: Answer {
                size: find!("nvPTXCompilerGetInfoLogSize"),
                copy: find!("nvPTXCompilerGetInfoLog"),
            },
            complaints: Answer {
                size: find!("nvPTXCompilerGetErrorLogSize"),
                copy: find!("nvPTXCompilerGetErrorLog"),
            },
            _library: library,
        })
    }

    /// Compiles for a target such as `sm_90a`.
    pub(crate) fn compile(&self, text: &str, target: &str) -> Result<Compiled, RuntimeError> {
        let refused = |name: String, log: String| RuntimeError::Compile { name, log };
        let Ok(source) = CString::new(text) else {
            let log = "the text has a zero byte".to_owned();
            return Err(refused("not PTX".to_owned(), log));
        };
        let mut handle = 0;
        // SAFETY: the text ends with a zero, outlives the compilation and is read only; writes one handle.
        let code = unsafe { (self.create)(&raw mut handle, text.len(), source.as_ptr()) };
        if code != 0 {
            return Err(refused(format!("nvPTXCompilerCreate gave {code}"), String::new()));
        }
        let compilation = Compilation { compiler: self, handle };
        let options = [format!("--gpu-name={target}"), "--verbose".to_owned()]
            .map(|option| CString::new(option).expect("compiler bug: an option with a zero byte"));
        let options = [options[0].as_ptr(), options[1].as_ptr()];
        // SAFETY: the handle is alive; two options that end with zeros and are read during the call.
        let code =
            unsafe { (self.compile)(compilation.handle, options.len() as c_int, options.as_ptr()) };
        let words = |answer: &Answer| before_zero(&compilation.answer(answer).unwrap_or_default());
        if code != 0 {
            let log = [words(&self.complaints), words(&self.said)].concat();
            return Err(refused(
                format!("nvPTXCompilerCompile gave {code}"),
                log.trim_end().to_owned(),
            ));
        }
        let cubin = compilation.answer(&self.program).filter(|cubin| !cubin.is_empty());
        let cubin = cubin
            .ok_or_else(|| refused("the compiler gave no program".to_owned(), String::new()))?;
        Ok(Compiled { cubin, log: words(&self.said) })
    }
}

impl Compilation<'_> {
    fn answer(&self, answer: &Answer) -> Option<Vec<u8>> {
        let mut size = 0usize;
        // SAFETY: the handle is alive; writes one size.
        let code = unsafe { (answer.size)(self.handle, &raw mut size) };
        if code != 0 {
            return None;
        }
        // A log's size leaves out the zero that is written behind it.
        let mut bytes = vec![0u8; size + 1];
        // SAFETY: the handle is alive; writes at most `size` bytes and a zero.
        let code = unsafe { (answer.copy)(self.handle, bytes.as_mut_ptr().cast()) };
        bytes.truncate(size);
        (code == 0).then_some(bytes)
    }
}

/// The text before the first zero.
pub(super) fn before_zero(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Where the driver's own loader writes its words: `CU_JIT_INFO_LOG_BUFFER` and its size, `CU_JIT_ERROR_LOG_BUFFER` and
/// its size, `CU_JIT_LOG_VERBOSE`.
pub(super) const LOADER_OPTIONS: [c_int; 5] = [3, 4, 5, 6, 12];
pub(super) const LOADER_LOG_BYTES: usize = 256 * 1024;

/// The values of [`LOADER_OPTIONS`].
pub(super) fn loader_values(said: &mut [u8], complaints: &mut [u8]) -> [*mut c_void; 5] {
    [
        said.as_mut_ptr().cast(),
        ptr::without_provenance_mut(said.len()),
        complaints.as_mut_ptr().cast(),
        ptr::without_provenance_mut(complaints.len()),
        ptr::without_provenance_mut(1),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_no_compiler_is_none() {
        assert!(Compiler::open(&["libno-such-compiler.so.1"]).is_none());
        assert!(!cfg!(target_os = "linux") || Compiler::open(&["libc.so.6"]).is_none());
    }
}
