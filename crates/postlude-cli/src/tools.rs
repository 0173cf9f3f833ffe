//! NVIDIA's command-line tools, where they are: `ptxas`, `nvdisasm`, `cuobjdump`.
//!
//! In: PTX. Out: a cubin with the assembler's words, or the machine's instructions as text. None of them is needed to run
//! kernels, and a tool that is not there is an error that says where to get it.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::failure::{Failure, Mistake, plain};

/// A tool of NVIDIA's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tool {
    Ptxas,
    Nvdisasm,
    Cuobjdump,
}

impl Tool {
    const fn name(self) -> &'static str {
        match self {
            Tool::Ptxas => "ptxas",
            Tool::Nvdisasm => "nvdisasm",
            Tool::Cuobjdump => "cuobjdump",
        }
    }

    /// The variable that names it.
    const fn variable(self) -> &'static str {
        match self {
            Tool::Ptxas => "PTXAS",
            Tool::Nvdisasm => "NVDISASM",
            Tool::Cuobjdump => "CUOBJDUMP",
        }
    }

    /// Where to get it.
    fn fix(self) -> String {
        let package = match self {
            Tool::Ptxas => "`pip install nvidia-cuda-nvcc` has it too",
            Tool::Nvdisasm | Tool::Cuobjdump => "conda's `cuda-nvdisasm` has it too",
        };
        let (name, variable) = (self.name(), self.variable());
        format!(
            "install the CUDA toolkit ({package}); put `{name}` in PATH or its path in {variable}"
        )
    }

    /// Runs it; `None` where it is not there.
    fn run(self, arguments: &[OsString]) -> Result<Option<Output>, Failure> {
        let path = std::env::var_os(self.variable()).unwrap_or_else(|| self.name().into());
        match Command::new(&path).args(arguments).output() {
            Ok(output) => Ok(Some(output)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => {
                let path = PathBuf::from(path);
                let message = format!("{} does not start: {}", path.display(), plain(&error));
                Err(Mistake::new(message).fix(self.fix()).into())
            }
        }
    }

    /// A program that does not do what the tool does.
    pub(crate) fn broken(self, log: &str) -> Mistake {
        let path = std::env::var_os(self.variable()).unwrap_or_else(|| self.name().into());
        let path = PathBuf::from(path);
        let told = if log.is_empty() { String::new() } else { format!(" and says: {log}") };
        Mistake::new(format!(
            "{} does not work as `{}`: it writes no code{told}",
            path.display(),
            self.name()
        ))
        .fix(self.fix())
    }

    fn missing(self) -> Mistake {
        Mistake::new(format!("`{}` was not found", self.name())).fix(self.fix())
    }
}

/// Assembled code in a folder of its own, which goes when this goes.
pub(crate) struct Assembled {
    folder: tempfile::TempDir,
    /// The assembler's output.
    pub(crate) log: String,
}

impl Assembled {
    /// Assembles PTX for Hopper.
    pub(crate) fn new(text: &str) -> Result<Assembled, Failure> {
        let folder = tempfile::tempdir().map_err(|error| {
            Mistake::new(format!("no folder for temporary files: {}", plain(&error)))
        })?;
        let (source, cubin) =
            (folder.path().join("kernel.ptx"), folder.path().join("kernel.cubin"));
        std::fs::write(&source, text).map_err(|error| Mistake::io(&source, &error))?;
        let arguments: [OsString; 6] = [
            "-arch".into(),
            "sm_90a".into(),
            "-v".into(),
            "-o".into(),
            cubin.into(),
            source.into(),
        ];
        let output = Tool::Ptxas.run(&arguments)?.ok_or_else(|| Tool::Ptxas.missing())?;
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        // An assembler that read the code names the file in what it says against it; another program does not.
        let refused = !output.status.success() && log.contains("kernel.ptx");
        assert!(!refused, "compiler bug: ptxas refuses the code: {log}");
        if !output.status.success() || !folder.path().join("kernel.cubin").exists() {
            return Err(Tool::Ptxas.broken(log.trim()).into());
        }
        Ok(Assembled { folder, log })
    }

    /// The machine's instructions.
    pub(crate) fn sass(&self) -> Result<String, Failure> {
        let cubin: OsString = self.folder.path().join("kernel.cubin").into();
        let tools: [(Tool, &[&str]); 2] =
            [(Tool::Nvdisasm, &["-c"]), (Tool::Cuobjdump, &["-sass"])];
        for (tool, flags) in tools {
            let flags = flags.iter().map(OsString::from);
            let arguments: Vec<OsString> = flags.chain([cubin.clone()]).collect();
            let Some(output) = tool.run(&arguments)? else { continue };
            if !output.status.success() {
                let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                return Err(Mistake::new(format!("{} failed: {stderr}", tool.name())).into());
            }
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(Tool::Nvdisasm.missing().into())
    }
}
