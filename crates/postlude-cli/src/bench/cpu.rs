//! A small suite on the processor.
//!
//! The side-by-side comparison with NumPy is `cargo xtask bench cpu`, which calls `postlude run --time`.

use std::ffi::OsString;

use postlude::{Options, Problem, Sizes};
use serde::Serialize;

use crate::arguments::{BenchArguments, Pair, SourceArguments};
use crate::bindings::Loaded;
use crate::failure::{Failure, Mistake, Outcome};
use crate::memory::Need;
use crate::progress::{Progress, Reader};
use crate::{inputs, measure, print};

/// The kernels of the library that are timed: what limits them differs.
const SUITE: &[&str] = &[
    "product_f32",
    "product_nt",
    "fp8_product",
    "w8a8",
    "linear_gelu",
    "linear_layer_norm",
    "linear_softmax",
    "swiglu",
    "bce_loss",
    "cross_entropy_loss",
    "gelu_backward_bias",
    "quantise_fp8_rows",
];
/// The sizes of the suite, by the names that its dims have.
const SIZES: &[(&str, usize)] = &[("M", 1024), ("N", 1024), ("K", 512), ("L", 2)];

#[derive(Serialize)]
struct Suite {
    schema: u32,
    backend: &'static str,
    threads: usize,
    kernels: Vec<Timed>,
}

#[derive(Serialize)]
struct Timed {
    kernel: String,
    sizes: Sizes,
    seconds: f64,
    gflops: f64,
}

/// Times the suite.
pub(super) fn bench(arguments: &BenchArguments) -> Result<Outcome, Failure> {
    let names: Vec<&str> =
        SUITE.iter().copied().filter(|name| name.contains(&arguments.filter)).collect();
    if names.is_empty() {
        let message = format!("no kernel of the suite has `{}` in its name", arguments.filter);
        return Err(Mistake::new(message).fix(format!("the suite is {}", SUITE.join(", "))).into());
    }
    let options = Options { threads: arguments.threads.map(usize::from), ..Options::default() };
    let progress = Progress::of(names.len(), Reader::of(arguments.json == Some(None)));
    let mut kernels = Vec::new();
    for name in names {
        progress.say(name);
        kernels.push(time(name, &arguments.sizes, &options)?);
        progress.step();
    }
    drop(progress);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let suite = Suite {
        schema: 1,
        backend: options.backend.name(),
        threads: options.threads.unwrap_or(cores),
        kernels,
    };
    super::give(arguments, &suite, || suite.text())?;
    Ok(Outcome::Fine)
}

fn time(name: &str, given: &[Pair<usize>], options: &Options) -> Result<Timed, Failure> {
    let mut source = SourceArguments::plain(OsString::from(name));
    // Scalars that the host passes are ones.
    for input in Loaded::read(&source)?.kernel.defined().inputs() {
        if input.dims.is_none() {
            source.sets.push(Pair { name: input.name.clone(), value: 1.0 });
        }
    }
    let loaded = Loaded::read(&source)?;
    let compiled = loaded.kernel.compile(options);
    let mut sizes = Sizes::new();
    for dim in postlude::problem::dim_names(compiled.defined()) {
        let usual = SIZES.iter().find(|(name, _)| *name == dim).map(|(_, size)| *size);
        let wanted = given.iter().find(|pair| pair.name == dim).map(|pair| pair.value);
        sizes.extend(wanted.or(usual).map(|size| (dim.to_owned(), size)));
    }
    let fail = |error: postlude::Error| Failure::Kernel(loaded.source.clone(), error);
    let problem =
        Problem::new(compiled.defined(), &sizes).map_err(|error| loaded.failure(error))?;
    Need::of(compiled.defined(), &problem, options.backend, None).require()?;
    let data = inputs::make(&loaded, &problem, 0)?;
    let mut outputs = compiled.outputs(&problem).map_err(fail)?;
    let call = || compiled.run_into(&problem, &data, &mut outputs);
    let seconds = measure::median_seconds(call).map_err(fail)?;
    let products = problem.batch() * problem.rows() * problem.product_columns() * problem.inner();
    let gflops = 2.0 * products as f64 / seconds / 1e9;
    Ok(Timed { kernel: name.to_owned(), sizes, seconds, gflops })
}

impl Suite {
    fn text(&self) -> String {
        let mut rows = vec![["kernel", "sizes", "time", "GFLOP/s"].map(str::to_owned).to_vec()];
        for timed in &self.kernels {
            let sizes: Vec<String> =
                timed.sizes.iter().map(|(dim, size)| format!("{dim}={size}")).collect();
            rows.push(vec![
                timed.kernel.clone(),
                sizes.join(","),
                measure::duration(timed.seconds),
                format!("{:.1}", timed.gflops),
            ]);
        }
        let threads = if self.threads == 1 { "thread" } else { "threads" };
        format!("{}{} on {} {threads}\n", print::table(&rows), self.backend, self.threads)
    }
}
