//! What the command line says about the names of a kernel.
//!
//! In: `--in`, `--set`, `--fill`, `--dtype` and the source. Out: the typed kernel and, for each bound name, where its value
//! comes from. Invariant: a name is bound once, to something its declaration allows.

use std::collections::BTreeMap;

use postlude::graph::{Graph, Input};
use postlude::syntax::nearest;
use postlude::tuning::Records;
use postlude::{Bindings, Bound, DType, Hooks, Kernel, Options, Sizes, problem};
use postlude_corpus::Fill;

use crate::arguments::{CompileArguments, MathChoice, Pair, SourceArguments};
use crate::diagnose;
use crate::failure::{Failure, Mistake};
use crate::files::Stored;
use crate::gpu_schedule;
use crate::shapes::{self, Misfit};
use crate::source::Source;

/// Batch, rows and columns.
const MOST_DIMS: usize = 3;

/// Where an input's values come from.
#[derive(Debug)]
pub(crate) enum Given {
    /// A file.
    File(Stored),
    /// A number.
    Number(f64),
    /// A kind of random data.
    Fill(Fill),
}

/// A typed kernel with what is bound to it.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The text, for diagnostics.
    pub(crate) source: Source,
    /// The typed kernel.
    pub(crate) kernel: Kernel,
    /// What is bound, by name.
    pub(crate) given: BTreeMap<String, Given>,
}

impl Loaded {
    /// Reads and types the kernel.
    pub(crate) fn read(arguments: &SourceArguments) -> Result<Loaded, Failure> {
        let mut given = BTreeMap::new();
        for Pair { name, value } in &arguments.inputs {
            bind(&mut given, name, Given::File(Stored::open(value, name)?))?;
        }
        for Pair { name, value } in &arguments.sets {
            bind(&mut given, name, Given::Number(*value))?;
        }
        for Pair { name, value } in &arguments.fills {
            bind(&mut given, name, Given::Fill(*value))?;
        }
        let source = Source::read(&arguments.source)?;
        diagnose::remember(&source);
        let bindings = infer_bindings(&given, arguments.dtype);
        let kernel = match Kernel::infer_bytes(&source.bytes, &bindings) {
            Ok(kernel) => kernel,
            Err(error) => return Err(Failure::Kernel(source, error)),
        };
        diagnose::warn(&source, &kernel.warnings());
        for (name, given) in &mut given {
            match kernel.defined().declared_inputs().iter().find(|input| input.name == *name) {
                Some(input) if input.same_as.is_some() => {
                    let of = &kernel.defined().passed_as(input).name;
                    return Err(Mistake::new(format!("`{name}` is `{of}` under other dims"))
                        .fix(format!("give `{of}` only"))
                        .into());
                }
                Some(input) => fit(kernel.defined(), input, given)?,
                None => return Err(unknown_input(&kernel, name).into()),
            }
        }
        Ok(Loaded { source, kernel, given })
    }

    /// An error of the library about this kernel.
    pub(crate) fn failure(&self, error: impl Into<postlude::Error>) -> Failure {
        Failure::Kernel(self.source.clone(), error.into())
    }

    /// What `--size` and the files say together.
    pub(crate) fn sizes(&self, given: &[Pair<usize>]) -> Result<Sizes, Failure> {
        let known = problem::dim_names(self.kernel.defined());
        let mut sizes = Sizes::new();
        for Pair { name, value } in given {
            if !known.contains(&name.as_str()) {
                let dims = known.join(", ");
                let fix = nearest(name, known.iter().copied())
                    .map_or(format!("its dims are {dims}"), |near| {
                        format!("did you mean `{near}`?")
                    });
                return Err(Mistake::new(format!("the kernel has no dim `{name}`"))
                    .fix(fix)
                    .into());
            }
            if sizes.insert(name.clone(), *value).is_some() {
                return Err(Mistake::new(format!("the size of `{name}` is given twice")).into());
            }
        }
        let files: Vec<(&Input, &Stored)> = self
            .kernel
            .defined()
            .inputs()
            .iter()
            .filter_map(|input| match self.given.get(&input.name) {
                Some(Given::File(stored)) => Some((input, stored)),
                Some(Given::Number(_) | Given::Fill(_)) | None => None,
            })
            .collect();
        shapes::collect(self.kernel.defined(), &files, &mut sizes).map_err(
            |misfit| match misfit {
                Misfit::Declared(error) => self.failure(error),
                Misfit::Rank(mistake) => mistake.into(),
            },
        )?;
        Ok(sizes)
    }

    /// How the kernel is compiled.
    pub(crate) fn options(&self, arguments: &CompileArguments) -> Result<Options, Failure> {
        for name in &arguments.only {
            require_output(&self.kernel, name)?;
        }
        let keep = (!arguments.only.is_empty()).then(|| arguments.only.clone());
        let schedule =
            arguments.schedule.as_deref().map(gpu_schedule::read_schedule).transpose()?;
        Ok(Options {
            hooks: Hooks { schedule, ..Hooks::default() },
            math: MathChoice::mode(arguments.math),
            threads: arguments.threads.map(usize::from),
            keep,
            one_launch: arguments.one_launch,
            records: if arguments.no_tuned { Records::Off } else { Records::Standard },
            workspace: arguments.workspace.map(|bytes| bytes.0),
            ..Options::default()
        })
    }
}

/// Refuses a name that is no output.
pub(crate) fn require_output(kernel: &Kernel, name: &str) -> Result<(), Mistake> {
    let names = || kernel.defined().results().into_iter().map(|output| output.name);
    if names().any(|known| known == name) {
        return Ok(());
    }
    let fix = nearest(name, names()).map_or_else(
        || format!("its outputs are {}", names().collect::<Vec<_>>().join(", ")),
        |near| format!("did you mean `{near}`?"),
    );
    Err(Mistake::new(format!("the kernel has no output `{name}`")).fix(fix))
}

fn bind(given: &mut BTreeMap<String, Given>, name: &str, value: Given) -> Result<(), Mistake> {
    match given.insert(name.to_owned(), value) {
        None => Ok(()),
        Some(_) => Err(Mistake::new(format!("`{name}` is bound twice"))
            .fix("give each name one `--in`, `--set` or `--fill`")),
    }
}

/// What the bound values say about the types of a one-liner.
fn infer_bindings(given: &BTreeMap<String, Given>, dtype: DType) -> Bindings {
    let mut names = BTreeMap::new();
    for (name, given) in given {
        let bound = match given {
            Given::File(stored) => Bound::Tensor(stored.dtype, inferred_rank(&stored.shape)),
            Given::Number(_) => Bound::Scalar(DType::F32),
            // Labels are indices: `pick(z, t[M])` has no other way to say that `t` is i32.
            Given::Fill(Fill::Labels) => Bound::Tensor(DType::I32, 1),
            Given::Fill(_) => continue,
        };
        names.insert(name.clone(), bound);
    }
    Bindings { names, dtype }
}

/// The dims of what a name without annotation is bound to: one element in a row is a scalar, and no tensor has more dims
/// than a batch of tiles.
fn inferred_rank(shape: &[usize]) -> usize {
    if shape == [1] {
        return 0;
    }
    let ones = shape.iter().take_while(|size| **size == 1).count();
    shape.len() - ones.min(shape.len().saturating_sub(MOST_DIMS))
}

/// Whether an input can take what is bound to it.
fn fit(graph: &Graph, input: &Input, given: &mut Given) -> Result<(), Mistake> {
    let name = &input.name;
    match (&input.dims, given) {
        (Some(_), Given::File(stored)) => {
            if input.dtype.is_packed() && stored.dtype == DType::U8 {
                stored.unpack(input.dtype);
            }
            if graph.takes_int64(name) {
                stored.keep_int64();
            }
            if input.dtype.is_stored_as(stored.dtype) {
                stored.dtype = input.dtype;
            }
            match stored.wide_name().filter(|_| input.dtype != DType::I32) {
                Some(wide) => {
                    let what =
                        format!("`{name}` is declared {}, but {wide} was given", input.dtype);
                    let fix =
                        "such integers are taken for i32 alone; convert them before they are saved";
                    Err(Mistake::file(stored.path(), what).fix(fix))
                }
                None => Ok(()),
            }
        }
        (Some(dims), Given::Number(_)) if !dims.is_empty() => {
            Err(Mistake::new(format!("`{name}` is a tensor; `--set` gives a single number"))
                .fix(format!("read it with `--in {name}=FILE`, or use `--fill {name}=ones`")))
        }
        (Some(_), Given::Number(_) | Given::Fill(_)) => Ok(()),
        (None, Given::Number(value)) if input.dtype == DType::I32 => {
            let whole = value.fract() == 0.0 && (i32::MIN as f64..=i32::MAX as f64).contains(value);
            if whole {
                return Ok(());
            }
            Err(Mistake::new(format!(
                "`{name}` is i32, and {value} is not a whole number it holds"
            )))
        }
        (None, Given::Number(_)) => Ok(()),
        (None, Given::File(_) | Given::Fill(_)) => {
            Err(Mistake::new(format!("`{name}` is a scalar passed by the host"))
                .fix(format!("give it a number: `--set {name}=1.0`")))
        }
    }
}

fn unknown_input(kernel: &Kernel, name: &str) -> Mistake {
    let names: Vec<&str> =
        kernel.defined().passed_inputs().map(|input| input.name.as_str()).collect();
    let fix = nearest(name, names.iter().copied()).map_or_else(
        || format!("its inputs are {}", names.join(", ")),
        |near| format!("did you mean `{near}`?"),
    );
    Mistake::new(format!("the kernel has no input `{name}`")).fix(fix)
}
