//! From PTX to a cubin and the compiler's log, by the driver.

use crate::runtime::device::Device;
use crate::runtime::driver::{Compiler, Module};
use crate::runtime::error::RuntimeError;
use crate::runtime::version::{self, Reach, Target};

/// A compiled module, as it is kept on disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Cubin {
    /// What the driver loads.
    pub(crate) bytes: Vec<u8>,
    /// What its compiler said.
    pub(crate) log: CompileLog,
}

/// A module that was just compiled, and its cubin where the compiler gives it away.
pub(crate) struct Compiled {
    /// What was loaded.
    pub(crate) module: Module,
    /// What the compiler said.
    pub(crate) log: CompileLog,
    /// What may be kept on disk.
    pub(crate) cubin: Option<Cubin>,
}

/// Compiles for a GPU and loads, after checking that driver and GPU know the version and the target.
pub(crate) fn compile(device: &Device, text: &str) -> Result<Compiled, RuntimeError> {
    let target = check(device, text)?;
    let Some(compiler) = Compiler::get() else {
        let (module, log) = Module::compile(device.context(), text)?;
        return Ok(Compiled { module, log: CompileLog::new(log), cubin: None });
    };
    let compiled = compiler.compile(text, &code_for(target, device).to_string())?;
    let module = Module::load(device.context(), &compiled.cubin)?;
    let log = CompileLog::new(compiled.log);
    Ok(Compiled { module, log: log.clone(), cubin: Some(Cubin { bytes: compiled.cubin, log }) })
}

/// Code for later GPUs is compiled for the one there is; other code for what it names.
fn code_for(target: Target, device: &Device) -> Target {
    match target.reach {
        Reach::Later | Reach::Family => device.target(),
        Reach::Exact => target,
    }
}

/// Whether this driver and this GPU take the text.
fn check(device: &Device, text: &str) -> Result<Target, RuntimeError> {
    let (ptx, target) = version::declared(text)?;
    version::check_driver(ptx, target, device.cuda_version(), device.driver_release())?;
    if !target.runs_on(device.target().capability) {
        let (device, capability) = (device.name().to_owned(), device.target());
        return Err(RuntimeError::WrongTarget { target, device, capability });
    }
    Ok(target)
}

/// What the compiler said about a module.
///
/// ```
/// use postlude::runtime::CompileLog;
/// let log = CompileLog::new(
///     "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n\
///      ptxas info    : Function properties for k\n    \
///      16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n\
///      ptxas info    : Used 168 registers, used 1 barriers, 16 bytes cumulative stack size\n",
/// );
/// let usage = log.usage("k").unwrap();
/// assert_eq!((usage.registers, usage.stack_bytes), (168, 16));
/// assert!(!log.serialises_products());
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompileLog(String);

/// What a kernel takes of an SM.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Usage {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of stack of a thread.
    pub stack_bytes: u32,
    /// Bytes of registers written to memory for want of room.
    pub spill_stores: u32,
    /// And read back.
    pub spill_loads: u32,
}

impl CompileLog {
    /// From the compiler's words, without those that differ from time to time.
    pub fn new(text: impl AsRef<str>) -> CompileLog {
        let lines = text.as_ref().lines().filter(|line| !line.contains("Compile time"));
        CompileLog(lines.map(|line| [line, "\n"].concat()).collect())
    }

    /// The words.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// What it says about a kernel; `None` where it does not name it.
    pub fn usage(&self, entry: &str) -> Option<Usage> {
        let mut lines =
            self.0.lines().skip_while(|line| compiled_entry(line).is_none_or(|name| name != entry));
        lines.next()?;
        let mut usage = Usage::default();
        for line in lines.take_while(|line| compiled_entry(line).is_none()) {
            if line.contains("bytes stack frame") {
                usage.stack_bytes = number_before(line, " bytes stack frame").unwrap_or(0);
                usage.spill_stores = number_before(line, " bytes spill stores").unwrap_or(0);
                usage.spill_loads = number_before(line, " bytes spill loads").unwrap_or(0);
            }
            if let Some(registers) = number_before(line, " registers") {
                usage.registers = registers;
            }
        }
        Some(usage)
    }

    /// Whether products that should run in the background were made to wait (C7510 to C7519), or registers were not
    /// moved between warps (C7504 and its like).
    pub fn serialises_products(&self) -> bool {
        self.0.contains("(C75") || self.0.contains("wgmma.mma_async instructions are serialized")
    }
}

/// The kernel that a line begins to tell of.
fn compiled_entry(line: &str) -> Option<&str> {
    line.split_once("Compiling entry function '")?.1.split('\'').next()
}

fn number_before(line: &str, words: &str) -> Option<u32> {
    let before = line.split_once(words)?.0;
    before.rsplit(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "info    : 0 bytes gmem
info    : Compiling entry function 'first' for 'sm_90a'
info    : Function properties for first
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
info    : Used 24 registers, used 0 barriers
info    : Compiling entry function 'second' for 'sm_90a'
warning : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to x in function 'second'
info    : Function properties for second
    32 bytes stack frame, 28 bytes spill stores, 36 bytes spill loads
info    : Used 255 registers, used 1 barriers, 400 bytes cmem[0]
";

    #[test]
    fn each_kernel_has_its_own_usage() {
        let log = CompileLog::new(LOG);
        let first = Usage { registers: 24, ..Usage::default() };
        assert_eq!(log.usage("first"), Some(first));
        let second = Usage { registers: 255, stack_bytes: 32, spill_stores: 28, spill_loads: 36 };
        assert_eq!(log.usage("second"), Some(second));
        assert_eq!(log.usage("third"), None);
        assert_eq!(CompileLog::new("").usage("first"), None);
    }

    #[test]
    fn serialised_products_are_noticed() {
        assert!(CompileLog::new(LOG).serialises_products());
        assert!(!CompileLog::new("info : Used 24 registers").serialises_products());
    }
}
