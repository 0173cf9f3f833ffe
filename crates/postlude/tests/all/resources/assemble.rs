//! Assembles a kernel and reads what it takes.

use std::fs;
use std::process::Command;

use super::kernels::Emitted;

/// What a kernel takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Taken {
    /// Registers of a thread.
    pub(crate) registers: u32,
    /// Shared memory of a CTA.
    pub(crate) shared_bytes: u32,
    /// Lines of PTX: what the driver has to compile.
    pub(crate) instructions: usize,
}

impl Taken {
    /// Whether nothing is more than it was.
    pub(crate) fn within(&self, before: &Taken) -> bool {
        self.registers <= before.registers
            && self.shared_bytes <= before.shared_bytes
            && self.instructions <= before.instructions
    }
}

/// What a kernel takes; panics where it spills, has a stack frame or its products are serialised.
pub(crate) fn assemble(kernel: &Emitted) -> Taken {
    let ptxas = std::env::var_os("PTXAS").expect("the caller looked");
    let name = kernel.name();
    let file = format!("postlude-resources-{}-{}.ptx", std::process::id(), name.replace(' ', "-"));
    let path = std::env::temp_dir().join(file);
    fs::write(&path, &kernel.text).expect("room for a kernel");
    let output = Command::new(ptxas)
        .args(["-arch", "sm_90a", "-v", "-o", "/dev/null"])
        .arg(&path)
        .output()
        .expect("ptxas runs");
    fs::remove_file(&path).expect("the file is ours");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {log}");
    let clean = "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads";
    assert!(log.contains(clean), "{name}: {log}");
    assert!(!log.contains("C75") && !log.contains("warning"), "{name}: {log}");
    let registers = log
        .split(" registers")
        .next()
        .and_then(|before| before.rsplit(' ').next()?.parse().ok())
        .unwrap_or_else(|| panic!("{name}: {log}"));
    let instructions = kernel.text.lines().filter(|line| line.ends_with(';')).count();
    Taken { registers, shared_bytes: kernel.shared_bytes, instructions }
}
