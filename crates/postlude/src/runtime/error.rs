//! Why a kernel does not run on a GPU, in the user's words and with what to do about it.

use std::fmt;

use postlude_ptx::launch::Buffer;

use crate::dtype::DType;
use crate::problem::BindError;
use crate::runtime::version::{CudaVersion, PtxVersion, Target};

/// Why the run time refuses or fails.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say what each is.
#[non_exhaustive]
pub enum RuntimeError {
    // The driver.
    #[error("the NVIDIA driver's library was not found (tried {}): {reason}", tried.join(", "))]
    NoDriver { tried: Vec<String>, reason: String },
    #[error("the NVIDIA driver{} has no function `{symbol}`", known_version(*.version))]
    NoSymbol { symbol: &'static str, version: Option<CudaVersion> },
    #[error("the driver's `{call}` failed: {name}{}", explained(text))]
    Driver { call: &'static str, code: i32, name: String, text: String },
    #[error("the GPU has not enough free memory for {bytes} bytes")]
    OutOfMemory { bytes: u64 },
    #[error("there is no GPU {ordinal}; this machine has {count}")]
    NoDevice { ordinal: u32, count: u32 },
    #[error(
        "this process was forked from one that had used the GPU, and CUDA does not work in such a child"
    )]
    Forked,

    #[error("{device} is {capability}; kernels run on Hopper, which is sm_90")]
    NotHopper { device: String, capability: Target },

    // Compilation.
    #[error("driver {driver} is too old for PTX {ptx} on {target}")]
    DriverTooOld { driver: String, ptx: PtxVersion, target: Target, needs: String },
    #[error("code for {target} does not run on {device}, which is {capability}")]
    WrongTarget { target: Target, device: String, capability: Target },
    #[error("the PTX text has no `{directive}` line")]
    NotPtx { directive: &'static str },
    #[error("the driver refused the PTX ({name})\n{log}")]
    Compile { name: String, log: String },
    #[error("the module has no kernel `{entry}`")]
    NoEntry { entry: String },

    // Tensor maps.
    #[error("a tensor map has 1 to 5 dims, not {dims}")]
    MapRank { dims: usize },
    #[error("a tensor map of {dims} dims has {strides} strides and a box of {boxes} sizes")]
    MapLengths { dims: usize, strides: usize, boxes: usize },
    #[error(
        "the tensor at {address:#x} is not aligned to {alignment} bytes, as a tensor map needs"
    )]
    MapAddress { address: u64, alignment: u64 },
    #[error("size {size} of dim {dim} is outside 1 to 2^32, as a tensor map needs")]
    MapSize { dim: usize, size: u64 },
    #[error(
        "stride {stride} of dim {dim} is not a multiple of 16 bytes below 2^40, as a tensor map needs"
    )]
    MapStride { dim: usize, stride: u64 },
    #[error("a box of {size} along dim {dim} is outside 1 to 256")]
    MapBox { dim: usize, size: u32 },
    #[error("the box's innermost row of {bytes} bytes is not a multiple of 16")]
    MapRow { bytes: u64 },
    #[error("the box's innermost row of {bytes} bytes is wider than its swizzle of {swizzle}")]
    MapSwizzle { bytes: u64, swizzle: u64 },

    // Launches.
    #[error("no address was given for buffer {}", buffer.0)]
    NoAddress { buffer: Buffer },
    #[error("a grid of {grid:?} CTAs is outside what a GPU launches")]
    Grid { grid: [u32; 3] },
    #[error("a grid of {grid:?} CTAs is not whole clusters of {cluster:?}")]
    Cluster { grid: [u32; 3], cluster: [u32; 3] },
    #[error(
        "the kernel was compiled for clusters of {compiled:?}, but is launched with {launched:?}"
    )]
    ClusterMismatch { compiled: [u32; 3], launched: [u32; 3] },
    #[error("{threads} threads a CTA are outside 1 to {most}")]
    Threads { threads: u32, most: u32 },
    #[error("{bytes} bytes of shared memory a CTA are more than the {most} that this GPU has")]
    SharedMemory { bytes: u32, most: u32 },
    #[error("{bytes} bytes in {count} kernel parameters are more than a launch takes")]
    Parameters { count: usize, bytes: usize },
    #[error("the kernel declares parameters of {declared:?} bytes, but is launched with {given:?}")]
    ParameterMismatch { declared: Vec<u32>, given: Vec<u32> },
    #[error("the stream belongs to GPU {stream}, the kernel to GPU {kernel}")]
    StreamDevice { stream: u32, kernel: u32 },
    #[error("the copy of {bytes} bytes at {offset} does not fit a buffer of {size}")]
    CopyRange { offset: u64, bytes: u64, size: u64 },

    // Arguments.
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error("output `{name}` is missing")]
    MissingOutput { name: String },
    #[error("the kernel has no output `{name}`")]
    UnknownOutput { name: String },
    #[error("`{name}` has {sizes} sizes and {strides} strides")]
    Rank { name: String, sizes: usize, strides: usize },
    #[error("`{name}` is on GPU {given}, but the kernel runs on GPU {device}")]
    OtherDevice { name: String, given: u32, device: u32 },
    #[error("`{name}` is not memory of a GPU")]
    NotDeviceMemory { name: String },
    #[error("`{name}` starts at {address:#x}, which is not aligned to its {dtype}")]
    Alignment { name: String, address: u64, dtype: DType },
    #[error(
        "inputs are int64 now, or were when the call was prepared, and its code loads the others"
    )]
    Width,
    #[error("`{name}` reaches outside the address space")]
    Reach { name: String },
    #[error("`{name}` packs its last dim into bytes and has to be contiguous")]
    Packed { name: String },
    #[error(
        "`{name}` is {dtype}, two elements in a byte: its last dim has to be contiguous and its other strides even"
    )]
    HalfBytes { name: String, dtype: DType },
    #[error("output `{name}` has strides {strides:?}, by which several elements share a place")]
    SelfOverlap { name: String, strides: Vec<isize> },
    #[error("output `{output}` is also `{input}`, an operand of the product")]
    OverlapsProduct { output: String, input: String },
    #[error("output `{output}` overlaps `{input}` without being the same tile")]
    Overlap { output: String, input: String },
    #[error(
        "output `{output}` lies where `{input}` does, of which this kernel reads other elements than it writes"
    )]
    OverlapsOthers { output: String, input: String },
    #[error("outputs `{first}` and `{second}` overlap")]
    OutputsOverlap { first: String, second: String },

    // Lists.
    #[error("the list `{name}` has no tensors")]
    EmptyList { name: String },
    #[error("tensor {item} of the list `{name}` {given}, tensor 0 {wanted}")]
    ListItem { name: String, item: usize, given: ListFact, wanted: ListFact },
    #[error(
        "the tensors of the list `{name}` lie more than 2^31 steps of {step} bytes apart, which divide their distances"
    )]
    ListSpread { name: String, step: u64 },
    #[error("`{name}` is a list of tensors, but its first dim is no batch dim of the kernel")]
    ListDim { name: String },
    #[error("tensors of the list `{name}` overlap, and it is an output")]
    ListOverlap { name: String },
    #[error("a call on lists of tensors is not tuned")]
    ListTuned,

    // The cache.
    #[error("this user has no home folder to keep a cache in")]
    NoCacheFolder,
}

/// What a tensor of a list is, and another one is not.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ListFact {
    /// Its dtype.
    DType(DType),
    /// Its shape.
    Shape(Vec<usize>),
    /// Its strides, in elements.
    Strides(Vec<isize>),
    /// The number of its GPU.
    Device(u32),
    /// A list of its own.
    List,
}

impl fmt::Display for ListFact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListFact::DType(dtype) => write!(f, "is {dtype}"),
            ListFact::Shape(shape) => write!(f, "has shape {shape:?}"),
            ListFact::Strides(strides) => write!(f, "has strides {strides:?}"),
            ListFact::Device(device) => write!(f, "is on GPU {device}"),
            ListFact::List => write!(f, "is a list"),
        }
    }
}

/// The oldest driver branch that has every function and the version of PTX that kernels are written in.
const RECOMMENDED: &str = "545";

/// How a process is started that has CUDA for itself.
const SPAWN: &str = "start it by `spawn` instead of `fork`: `multiprocessing.get_context(\"spawn\")`, `DataLoader(..., multiprocessing_context=\"spawn\")`, or in Rust `std::process::Command`";
/// The same where the driver itself refuses.
const NOT_READY: &str = "the driver is shut down, or this process was forked from one that had used CUDA: start it by `spawn`, as `multiprocessing.get_context(\"spawn\")` does";

/// What a kernel does wrong while it runs: an illegal address, instruction, address space or program counter, a misaligned
/// address, a failed assertion, a failed launch (CUDA Driver API, "CUresult").
const FAULTS: [i32; 7] = [700, 710, 715, 716, 717, 718, 719];

impl RuntimeError {
    /// Whether a GPU or its driver found something wrong with code that we emitted.
    pub fn is_bug(&self) -> bool {
        matches!(self, RuntimeError::Driver { code, .. } if FAULTS.contains(code))
            || matches!(self, RuntimeError::Compile { .. } | RuntimeError::NoEntry { .. })
    }

    /// What to do about it, where that is known.
    pub fn fix(&self) -> Option<String> {
        use RuntimeError as E;
        let fix = match self {
            E::NoDriver { .. } => {
                "install the NVIDIA driver (in a container: run it with `--gpus all`), or use the CPU backend".to_owned()
            }
            E::NoSymbol { .. } => format!("install NVIDIA driver {RECOMMENDED} or newer"),
            E::DriverTooOld { needs, .. } => format!("install {needs}, or use the CPU backend"),
            E::Driver { code, .. } => return advice(*code).map(str::to_owned),
            E::OutOfMemory { .. } => "free other tensors, or split the problem".to_owned(),
            E::NoDevice { count: 0, .. } => "use the CPU backend".to_owned(),
            E::NoDevice { .. } => "choose a smaller number, or look at CUDA_VISIBLE_DEVICES".to_owned(),
            E::Forked => SPAWN.to_owned(),
            E::NotHopper { .. } => "use the CPU backend".to_owned(),
            E::WrongTarget { capability, .. } => format!("compile for {capability}"),
            E::MapAddress { alignment, .. } => format!("align the tensor's start to {alignment} bytes"),
            E::MapStride { .. } => "pad the rows to a multiple of 16 bytes".to_owned(),
            E::OtherDevice { device, .. } => format!("copy it to GPU {device}"),
            E::NotDeviceMemory { .. } => "copy it to the GPU first".to_owned(),
            E::StreamDevice { kernel, .. } => format!("use a stream of GPU {kernel}"),
            E::SelfOverlap { .. } => "give the output memory of its own, one place an element".to_owned(),
            E::OverlapsProduct { .. } => "give the output memory of its own: the product reads its operands more than once".to_owned(),
            E::Overlap { .. } => {
                "give the output memory of its own, or exactly the tile it replaces (same start, shape, strides and dtype)".to_owned()
            }
            E::OverlapsOthers { .. } => "give the output memory of its own".to_owned(),
            E::OutputsOverlap { .. } => "give each output memory of its own".to_owned(),
            E::EmptyList { .. } => "give a tensor for every batch".to_owned(),
            E::ListItem { .. } => "give tensors of one dtype, shape, strides and GPU, or stack them into one tensor".to_owned(),
            E::ListSpread { .. } | E::ListDim { .. } => "stack the tensors into one".to_owned(),
            E::ListOverlap { .. } => "give each tensor of the list memory of its own".to_owned(),
            E::ListTuned => "tune the call on tensors that are stacked: lists take the planner's schedule".to_owned(),
            E::NoCacheFolder => "set POSTLUDE_CACHE_DIR to a folder".to_owned(),
            E::Bind(error) => return error.fix(),
            E::NotPtx { .. } | E::Compile { .. } | E::NoEntry { .. } | E::MapRank { .. } => return None,
            E::MapLengths { .. } | E::MapSize { .. } | E::MapBox { .. } | E::MapRow { .. } => return None,
            E::MapSwizzle { .. } | E::NoAddress { .. } | E::Grid { .. } | E::Cluster { .. } => return None,
            E::ClusterMismatch { .. } | E::Threads { .. } | E::SharedMemory { .. } => return None,
            E::Parameters { .. } | E::CopyRange { .. } | E::MissingOutput { .. } => return None,
            E::UnknownOutput { .. } | E::Rank { .. } | E::Alignment { .. } => return None,
            E::Width => "prepare a call for each".to_owned(),
            E::HalfBytes { .. } => "copy it to contiguous memory first".to_owned(),
            E::Reach { .. } | E::Packed { .. } | E::ParameterMismatch { .. } => return None,
        };
        Some(fix)
    }
}

/// What to do about some results of the driver (CUDA Driver API, "CUresult").
fn advice(code: i32) -> Option<&'static str> {
    match code {
        3 => Some(NOT_READY),
        34 => Some(
            "this is a stub of the library: remove the toolkit's `stubs` folder from LD_LIBRARY_PATH",
        ),
        46 => Some("another process holds the GPU: wait, or look at `nvidia-smi`"),
        100 => Some(
            "no GPU is visible: look at `nvidia-smi` and CUDA_VISIBLE_DEVICES, or use the CPU backend",
        ),
        700 | 714..=719 => Some(
            "a kernel failed on the GPU and its context is lost: restart the process; `compute-sanitizer` finds the place",
        ),
        803 => Some(
            "the driver's library and its kernel module are of different versions: reboot, or reinstall the driver",
        ),
        999 => Some(
            "the driver failed for an unknown reason: look at `nvidia-smi` and the system's log",
        ),
        _ => None,
    }
}

fn known_version(version: Option<CudaVersion>) -> String {
    version.map_or_else(String::new, |version| format!(" (CUDA {version})"))
}

fn explained(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(" ({text})") }
}
