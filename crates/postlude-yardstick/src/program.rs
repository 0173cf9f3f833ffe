//! Small programs of the yardstick's own: from a kernel and its launch to something that can be queued.

use postlude::runtime::{Device, PreparedLaunch, RuntimeError};
use postlude_ptx::entry::Entry;
use postlude_ptx::launch::{Buffer, Launch, Parameter};

/// A launch without clusters or workspace.
pub(crate) fn launch(
    blocks: u32,
    threads: u32,
    shared_bytes: u32,
    parameters: Vec<Parameter>,
) -> Launch {
    let (grid, cluster) = ([blocks, 1, 1], [1, 1, 1]);
    Launch { grid, cluster, threads, shared_bytes, parameters, workspace_bytes: 0 }
}

/// The parameter that is the start of a buffer.
pub(crate) fn pointer(buffer: u32) -> Parameter {
    Parameter::Pointer { buffer: Buffer(buffer), offset: 0 }
}

/// Loads a kernel and prepares its launch on buffers at these addresses, numbered from 0.
pub(crate) fn prepare(
    device: &Device,
    entry: &Entry,
    launch: Launch,
    addresses: &[u64],
) -> Result<PreparedLaunch, RuntimeError> {
    let function = device.load(&entry.to_string(), &entry.name)?;
    let addresses: Vec<(Buffer, u64)> = (0..).map(Buffer).zip(addresses.iter().copied()).collect();
    PreparedLaunch::new(&function, launch, &addresses)
}

#[cfg(test)]
pub(crate) mod simulated {
    //! Runs in the simulator.

    use postlude_ptx::entry::Entry;
    use postlude_ptx::launch::Launch;
    use postlude_sim::Options;

    /// What a kernel leaves in its buffers; the simulator may find nothing wrong with it.
    pub(crate) fn simulate(
        entry: &Entry,
        launch: &Launch,
        mut buffers: Vec<Vec<u8>>,
    ) -> Vec<Vec<u8>> {
        let name = &entry.name;
        let report =
            postlude_sim::run(&entry.to_string(), launch, &mut buffers, &Options::default());
        let report = report.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(report.findings.is_empty(), "{name}: {:?}", report.findings);
        buffers
    }
}

#[cfg(test)]
pub(crate) mod assembled {
    //! Assembles with a real assembler where `PTXAS` names one.

    use std::process::Command;

    use postlude_ptx::entry::Entry;

    /// What the assembler says of a kernel, which has to be free of spills and warnings.
    #[allow(clippy::print_stderr)] // A skipped test says so.
    pub(crate) fn assemble(entry: &Entry) {
        let name = &entry.name;
        assert_eq!(postlude_ptx::check::check(entry), [], "{name}");
        let Some(ptxas) = std::env::var_os("PTXAS") else {
            eprintln!("SKIPPED: PTXAS names no assembler, so `{name}` was not assembled");
            return;
        };
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let path = folder.path().join("kernel.ptx");
        std::fs::write(&path, entry.to_string()).expect("room for a kernel");
        let output = Command::new(ptxas)
            .args(["-arch", "sm_90a", "-v", "-o", "/dev/null"])
            .arg(&path)
            .output()
            .expect("ptxas runs");
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {log}");
        let clean = "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads";
        assert!(log.contains(clean), "{name}: {log}");
        assert!(!log.contains("C75") && !log.contains("warning"), "{name}: {log}");
    }
}
