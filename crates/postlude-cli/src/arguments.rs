//! The command line: every subcommand, flag and help text.

mod bench;
mod fuzz;
mod sim;
mod tune;

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use postlude::reference::Extent;
use postlude::sim::Timing;
use postlude::target::CopyRule;
use postlude::{Backend, DType, MathMode};
use postlude_corpus::Fill;

use crate::bytes::Bytes;

pub(crate) use bench::{BenchAgainst, BenchArguments, BenchBackend};
pub(crate) use fuzz::{FuzzArguments, FuzzBackend, FuzzSizes};
pub(crate) use sim::{SimArguments, WatchArguments};
pub(crate) use tune::TuneArguments;

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("POSTLUDE_COMMIT"), ")");

/// Compiles the math written after a matrix product into the product's own kernel
#[derive(Parser, Debug)]
#[command(name = "postlude", version = VERSION, max_term_width = 100, arg_required_else_help = true)]
#[command(
    after_help = "Exit codes: 0 fine, 1 a check failed, 2 your mistake or a refusal, 3 a bug of ours, 130 interrupted."
)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What the program can do.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run a kernel on given or random data
    Run(RunArguments),
    /// Type a kernel and print it with its signature and every name's type
    Check(CheckArguments),
    /// Print the kernel of a kernel's derivatives
    Grad(GradArguments),
    /// Show what becomes of a kernel, stage by stage
    Explain(ExplainArguments),
    /// Print a kernel's code for a GPU, or what an assembler says about it
    Emit(EmitArguments),
    /// Run PTX on the processor and say what is wrong with it
    Sim(SimArguments),
    /// List the kernel library, or the language's functions
    List(ListArguments),
    /// Print a kernel of the library
    Show(ShowArguments),
    /// Run the literate cases
    Corpus(CorpusArguments),
    /// Run random kernels and compare every element with the reference
    Fuzz(FuzzArguments),
    /// Time the schedules of a kernel on this machine's GPU, and keep the fastest for later runs
    Tune(TuneArguments),
    /// Time a small suite of kernels on this machine
    Bench(BenchArguments),
    /// Describe this machine and its backends
    Info(InfoArguments),
    /// Where compiled kernels are kept
    Cache(CacheArguments),
    /// Print a completion script for a shell
    Completions(CompletionsArguments),
    /// Print the words that may stand at the end of a command line, for completion scripts
    #[command(hide = true)]
    Complete(CompleteArguments),
    /// Panic on purpose, to see what a bug looks like
    #[command(hide = true)]
    Bug(BugArguments),
}

/// A kernel, and what a one-liner takes its types from.
#[derive(Args, Debug)]
pub(crate) struct SourceArguments {
    /// A kernel or one-liner as text, a path ending in `.post`, `-` for standard input, or the name of a library kernel
    #[arg(value_name = "SRC")]
    pub(crate) source: OsString,
    /// Read an input from a `.safetensors`, `.npy` or `.npz` file, or from a checkpoint's `.index.json`
    #[arg(long = "in", value_name = "NAME=FILE[:TENSOR]")]
    pub(crate) inputs: Vec<Pair<PathBuf>>,
    /// Give a scalar its value
    #[arg(long = "set", value_name = "NAME=VALUE", allow_hyphen_values = true)]
    pub(crate) sets: Vec<Pair<f64>>,
    /// Draw an input as normal, uniform, integers, labels, ones, zeros, special, large or ends [default: normal; of i32
    /// integers, or what an index and ends of segments may be]
    #[arg(long = "fill", value_name = "NAME=KIND")]
    pub(crate) fills: Vec<Pair<Fill>>,
    /// The dtype of a one-liner's tiles: f32, tf32, f16, bf16, f8e4m3, f8e5m2, i8 or u8
    #[arg(long, default_value = "bf16", value_parser = dtype_parser(), hide_possible_values = true)]
    pub(crate) dtype: DType,
}

impl SourceArguments {
    /// A source with nothing bound to it.
    pub(crate) fn plain(source: OsString) -> SourceArguments {
        SourceArguments {
            source,
            inputs: Vec::new(),
            sets: Vec::new(),
            fills: Vec::new(),
            dtype: DType::BF16,
        }
    }
}

/// Starting more takes longer than the work they share.
const MOST_THREADS: i64 = 1024;

/// How a kernel is compiled.
#[derive(Args, Debug)]
pub(crate) struct CompileArguments {
    /// The sizes of dims: `M=512,N=512`
    #[arg(long = "size", value_name = "DIM=SIZE", value_delimiter = ',')]
    pub(crate) sizes: Vec<Pair<usize>>,
    /// Compute only these outputs
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Refuse a kernel that is not one launch on a GPU, as `fused kernel` does
    #[arg(long)]
    pub(crate) one_launch: bool,
    /// Repeat launches for parts of a dim where they would store more between them than this:
    /// `1.5GB` [default: 1GiB]
    #[arg(long, value_name = "BYTES")]
    pub(crate) workspace: Option<Bytes>,
    /// How many threads to use [default: all cores]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=MOST_THREADS))]
    pub(crate) threads: Option<u16>,
    /// Override how accurate functions are [default: by where a value goes]
    #[arg(long)]
    pub(crate) math: Option<MathChoice>,
    /// Use the schedule of this file on the GPU or in the simulator instead of the planner's
    #[arg(long, value_name = "FILE")]
    pub(crate) schedule: Option<PathBuf>,
    /// Use the planner's schedules on the GPU, whatever `postlude tune` measured
    #[arg(long)]
    pub(crate) no_tuned: bool,
}

/// `postlude run`
#[derive(Args, Debug)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) source: SourceArguments,
    #[command(flatten)]
    pub(crate) compile: CompileArguments,
    /// Write an output to a `.safetensors` or `.npy` file
    #[arg(long = "out", value_name = "NAME=FILE")]
    pub(crate) outputs: Vec<Pair<PathBuf>>,
    /// Print the elements of these outputs, as NumPy does
    #[arg(long = "print", value_name = "NAME", value_delimiter = ',')]
    pub(crate) print: Vec<String>,
    /// The seed of random inputs
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// What runs the kernel
    #[arg(long, default_value = "auto")]
    pub(crate) backend: BackendChoice,
    /// The most CTAs launched on the GPU or in the simulator [default: as many as fit]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) grid_limit: Option<u32>,
    /// Let launches of one kernel overlap on the GPU: programmatic dependent launch
    #[arg(long)]
    pub(crate) pdl: bool,
    /// When launches before a product copy its operands
    #[arg(long, hide = true, value_name = "RULE")]
    pub(crate) copies: Option<CopyChoice>,
    #[command(flatten)]
    pub(crate) watch: WatchArguments,
    /// Compare with the reference and its bounds: every element, or `sample`d rows and columns of large outputs;
    /// `--check=all` for every element, however long it takes
    #[arg(long, value_name = "EXTENT", num_args = 0..=1, require_equals = true, default_missing_value = "sample")]
    pub(crate) check: Option<CheckChoice>,
    /// Report the median time of one call
    #[arg(long)]
    pub(crate) time: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `postlude check`
#[derive(Args, Debug)]
pub(crate) struct CheckArguments {
    #[command(flatten)]
    pub(crate) source: SourceArguments,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `postlude grad`
#[derive(Args, Debug)]
pub(crate) struct GradArguments {
    #[command(flatten)]
    pub(crate) source: SourceArguments,
    /// With respect to these inputs [default: all tensors of floats]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) wrt: Vec<String>,
    /// What the forward pass keeps for the backward pass
    #[arg(long, default_value = "products")]
    pub(crate) save: SaveChoice,
    /// The sizes of dims: `M=512,N=512`; what is saved is counted in bytes
    #[arg(long = "size", value_name = "DIM=SIZE", value_delimiter = ',')]
    pub(crate) sizes: Vec<Pair<usize>>,
    /// Print the forward kernel instead, which stores what is saved
    #[arg(long)]
    pub(crate) forward: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a forward pass keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum SaveChoice {
    /// Products that the backward pass needs
    Products,
    /// Nothing: the backward pass computes them again
    Nothing,
}

/// `postlude explain`
#[derive(Args, Debug)]
pub(crate) struct ExplainArguments {
    #[command(flatten)]
    pub(crate) source: SourceArguments,
    #[command(flatten)]
    pub(crate) compile: CompileArguments,
    /// Show one stage only; schedules need sizes
    #[arg(long)]
    pub(crate) stage: Option<StageChoice>,
    /// What the kernel is scheduled for
    #[arg(long, default_value = "cpu")]
    pub(crate) target: ScheduleTarget,
    /// Show one launch only of a kernel that takes several, counted from 1 [default: all]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) launch_number: Option<usize>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `postlude emit`
#[derive(Args, Debug)]
pub(crate) struct EmitArguments {
    #[command(flatten)]
    pub(crate) source: SourceArguments,
    #[command(flatten)]
    pub(crate) compile: CompileArguments,
    /// What the code is for
    #[arg(long, default_value = "sm90")]
    pub(crate) target: CodeTarget,
    /// Which launch of a kernel that takes several, counted from 1 [default: the last]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) launch_number: Option<usize>,
    /// Print what the code takes of an SM instead; needs `ptxas`
    #[arg(long, conflicts_with = "sass")]
    pub(crate) stats: bool,
    /// Print the machine's instructions instead; needs `ptxas` and `nvdisasm` or `cuobjdump`
    #[arg(long)]
    pub(crate) sass: bool,
    /// Print how it is launched instead, for `postlude sim`
    #[arg(long, conflicts_with_all = ["stats", "sass"])]
    pub(crate) launch: bool,
    /// The most CTAs that are launched [default: as many as fit an H200]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..), requires = "launch")]
    pub(crate) grid_limit: Option<u32>,
}

/// `postlude list`
#[derive(Args, Debug)]
pub(crate) struct ListArguments {
    /// Words to look for in names, descriptions and CUTLASS's names; `functions` lists the language's functions
    #[arg(value_name = "WORD")]
    pub(crate) words: Vec<String>,
    /// List the functions of the language instead
    #[arg(long)]
    pub(crate) functions: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `postlude show`
#[derive(Args, Debug)]
pub(crate) struct ShowArguments {
    /// The kernel's name
    pub(crate) name: String,
}

/// `postlude corpus`
#[derive(Args, Debug)]
pub(crate) struct CorpusArguments {
    /// What runs the cases; `auto` is the processor
    #[arg(long, default_value = "cpu")]
    pub(crate) backend: BackendChoice,
    /// The most CTAs launched on the GPU or in the simulator [default: as many as fit]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) grid_limit: Option<u32>,
    /// Let launches of one kernel overlap on the GPU: programmatic dependent launch
    #[arg(long)]
    pub(crate) pdl: bool,
    /// When the simulator completes copies and products: eager, lazy or random:SEED [default: eager]
    #[arg(long, value_name = "TIMING")]
    pub(crate) timing: Option<Timing>,
    /// When launches before a product copy its operands
    #[arg(long, hide = true, value_name = "RULE")]
    pub(crate) copies: Option<CopyChoice>,
    /// Lay batched tensors out as lists of tensors
    #[arg(long, hide = true)]
    pub(crate) lists: bool,
    /// How many cases run at a time [default: all cores; 1 on the processor, which uses all cores for each]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) jobs: Option<u16>,
    /// The folder of the cases [default: the nearest `corpus` above the current folder]
    #[arg(long, value_name = "PATH")]
    pub(crate) folder: Option<PathBuf>,
    /// Only cases whose name (`file::title`) contains this
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) filter: String,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `postlude info`
#[derive(Args, Debug)]
pub(crate) struct InfoArguments {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `postlude cache`
#[derive(Args, Debug)]
pub(crate) struct CacheArguments {
    #[command(subcommand)]
    pub(crate) action: CacheAction,
}

/// What to do with the cache.
#[derive(Subcommand, Clone, Copy, Debug)]
pub(crate) enum CacheAction {
    /// Print where it is (`POSTLUDE_CACHE_DIR` moves it)
    Path,
    /// Print how much it holds
    Size,
    /// Remove what Postlude put there
    Clear,
}

/// `postlude completions`
#[derive(Args, Debug)]
pub(crate) struct CompletionsArguments {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// `postlude complete`
#[derive(Args, Debug)]
pub(crate) struct CompleteArguments {
    /// The whole line as it was typed, the command's name included
    #[arg(long, allow_hyphen_values = true, conflicts_with = "words")]
    pub(crate) line: Option<String>,
    /// The words behind the command's name, the last one being typed
    #[arg(last = true)]
    pub(crate) words: Vec<String>,
}

/// `postlude bug`
#[derive(Args, Debug)]
pub(crate) struct BugArguments {
    /// A finding of the simulator in code that was emitted, instead of a panic
    #[arg(long)]
    pub(crate) finding: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// What runs a kernel.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BackendChoice {
    /// A GPU that takes the kernel, or else the processor
    Auto,
    /// The first GPU
    Cuda,
    /// The processor
    Cpu,
    /// The GPU's code in the simulator
    Sim,
    /// The definition
    Reference,
}

/// When operands are copied.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CopyChoice {
    /// Where the product gains more than a launch costs
    Paying,
    /// Wherever a product gains at all
    Always,
    /// Nowhere
    Never,
}

impl From<CopyChoice> for CopyRule {
    fn from(choice: CopyChoice) -> CopyRule {
        match choice {
            CopyChoice::Paying => CopyRule::Paying,
            CopyChoice::Always => CopyRule::Always,
            CopyChoice::Never => CopyRule::Never,
        }
    }
}

impl BackendChoice {
    /// The backend that is meant, where that does not depend on the machine.
    pub(crate) fn fixed(self) -> Option<Backend> {
        match self {
            BackendChoice::Auto => None,
            BackendChoice::Cuda => Some(Backend::Cuda),
            BackendChoice::Cpu => Some(Backend::Cpu),
            BackendChoice::Sim => Some(Backend::Sim),
            BackendChoice::Reference => Some(Backend::Reference),
        }
    }
}

/// What `explain` schedules for.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ScheduleTarget {
    /// The processor
    Cpu,
    /// NVIDIA Hopper
    Sm90,
}

/// What `emit` emits for.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CodeTarget {
    /// NVIDIA Hopper
    Sm90,
}

/// How much `--check` compares.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CheckChoice {
    /// Some rows and columns of large outputs, everything of small ones
    Sample,
    /// Every element
    All,
}

impl CheckChoice {
    /// The extent that is meant.
    pub(crate) const fn extent(self) -> Extent {
        match self {
            CheckChoice::Sample => Extent::Sample,
            CheckChoice::All => Extent::All,
        }
    }
}

/// How accurate functions are.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MathChoice {
    /// At most 2 ulp everywhere
    Accurate,
    /// Hardware approximations and relaxed algebra
    Fast,
}

impl MathChoice {
    /// The mode that is meant.
    pub(crate) fn mode(choice: Option<MathChoice>) -> MathMode {
        match choice {
            None => MathMode::Default,
            Some(MathChoice::Accurate) => MathMode::Accurate,
            Some(MathChoice::Fast) => MathMode::Fast,
        }
    }
}

/// What `explain` shows.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StageChoice {
    /// What was written, with its signature
    Ast,
    /// The typed graph
    Graph,
    /// Its meaning, then the graph after each pass
    Passes,
    /// What one launch on a GPU computes, and in which part of the kernel
    Tile,
    /// What the CPU computes in each sweep over the product
    Sweeps,
    /// What became of each tile of the GPU's table
    Candidates,
    /// How a problem of these sizes is run
    Schedule,
}

/// `NAME=value`
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Pair<T> {
    /// What stands before the first `=`.
    pub(crate) name: String,
    /// What stands behind it.
    pub(crate) value: T,
}

impl<T: PairValue> FromStr for Pair<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Pair<T>, String> {
        let (name, value) =
            text.split_once('=').ok_or("a name, `=` and a value are expected".to_owned())?;
        if name.trim().is_empty() || value.is_empty() {
            return Err("a name, `=` and a value are expected".to_owned());
        }
        Ok(Pair { name: name.trim().to_owned(), value: T::read(value)? })
    }
}

/// What may stand behind the `=` of a [`Pair`].
pub(crate) trait PairValue: Sized {
    /// The value that a text stands for, or what is wanted instead.
    fn read(text: &str) -> Result<Self, String>;
}

impl PairValue for PathBuf {
    fn read(text: &str) -> Result<PathBuf, String> {
        Ok(text.into())
    }
}

impl PairValue for Fill {
    fn read(text: &str) -> Result<Fill, String> {
        text.parse().map_err(|error: <Fill as FromStr>::Err| error.to_string())
    }
}

impl PairValue for usize {
    fn read(text: &str) -> Result<usize, String> {
        let whole = text.trim().parse();
        whole
            .map_err(|_| format!("`{text}` is not a size: a size is a whole number such as `1024`"))
    }
}

impl PairValue for f64 {
    /// A number that f32 holds, as literals are; `inf` and `nan` by their names only.
    fn read(text: &str) -> Result<f64, String> {
        let value: f64 = text
            .trim()
            .parse()
            .map_err(|_| format!("`{text}` is not a number such as `0.5` or `1e-5`"))?;
        let named = text.contains(['i', 'I', 'n', 'N']);
        if !named && (value as f32).is_infinite() {
            return Err(format!(
                "the number `{text}` is beyond the largest f32; write `inf` if that is meant"
            ));
        }
        Ok(value)
    }
}

/// The dtypes that an operand of `@` may have.
fn dtype_parser() -> impl TypedValueParser<Value = DType> {
    let names = ["f32", "tf32", "f16", "bf16", "f8e4m3", "f8e5m2", "i8", "u8"];
    PossibleValuesParser::new(names)
        .map(|name| DType::from_name(&name).expect("compiler bug: a dtype that does not exist"))
}
