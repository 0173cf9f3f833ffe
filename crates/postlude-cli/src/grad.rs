//! `postlude grad`: the kernel of a kernel's derivatives, and what the forward pass saves for it.

use postlude::shape::Dim;
use postlude::syntax::{self, Declaration};
use postlude::{Save, Sizes};
use serde::Serialize;

use crate::arguments::{GradArguments, SaveChoice};
use crate::bindings::Loaded;
use crate::failure::{Failure, Outcome};
use crate::print;

#[derive(Serialize)]
struct Derived {
    schema: u32,
    forward: String,
    backward: String,
    saved: Vec<String>,
    /// The same with its bytes.
    memory: Vec<Saved>,
    /// Each output's name, and that of its cotangent.
    cotangents: Vec<(String, String)>,
    /// Each input's name, and that of its derivative.
    gradients: Vec<(String, String)>,
}

/// What the forward pass keeps in memory for the backward pass.
#[derive(Serialize)]
struct Saved {
    name: String,
    dtype: String,
    dims: Vec<String>,
    /// Whether it is an output of the kernel anyway.
    is_output: bool,
    /// As a product of dims: `4*M*N`.
    bytes: String,
    /// In numbers, where the sizes are given.
    size: Option<usize>,
}

impl Saved {
    fn of(declared: &Declaration, outputs: &[Declaration], sizes: &Sizes) -> Saved {
        let dims = declared.dims.as_deref().unwrap_or_default();
        let bits = declared.dtype.bits();
        let mut factors: Vec<String> = dims.iter().map(Dim::to_string).collect();
        for factor in factors.iter_mut().filter(|factor| factor.contains('/')) {
            *factor = format!("({factor})");
        }
        if bits > 8 || factors.is_empty() {
            factors.insert(0, bits.div_ceil(8).to_string());
        }
        let mut bytes = factors.join("*");
        if bits < 8 {
            bytes = format!("{bytes}/{}", 8 / bits);
        }
        let count = dims.iter().try_fold(1_usize, |count, dim| {
            let size = match dim {
                Dim::Name { name, divisor } => sizes.get(name)? / *divisor as usize,
                Dim::Size(size) => *size as usize,
            };
            count.checked_mul(size)
        });
        Saved {
            name: declared.name.text.clone(),
            dtype: declared.dtype.to_string(),
            dims: dims.iter().map(Dim::to_string).collect(),
            is_output: outputs.iter().any(|output| output.name.text == declared.name.text),
            bytes,
            size: count.map(|count| declared.dtype.bytes_for(count)),
        }
    }

    fn line(&self) -> String {
        let Saved { name, dtype, dims, bytes, .. } = self;
        let bytes = self.size.map_or_else(|| bytes.clone(), |size| size.to_string());
        let more = if self.is_output { ", which it stores anyway" } else { "" };
        format!(
            "# the forward kernel saves {name}: {dtype}[{}], {bytes} bytes{more}\n",
            dims.join(", ")
        )
    }
}

/// What a forward kernel declares of what is saved.
fn saved(forward: &str, names: &[String], outputs: &[Declaration], sizes: &Sizes) -> Vec<Saved> {
    let forward = syntax::parse(forward).ok().and_then(|ast| ast.signature);
    let declared = forward.map(|signature| signature.outputs).unwrap_or_default();
    let declared = declared.iter().filter(|declared| names.contains(&declared.name.text));
    declared.map(|declared| Saved::of(declared, outputs, sizes)).collect()
}

/// Runs the command.
pub(crate) fn grad(arguments: &GradArguments) -> Result<Outcome, Failure> {
    let loaded = Loaded::read(&arguments.source)?;
    let sizes = loaded.sizes(&arguments.sizes)?;
    let save = match arguments.save {
        SaveChoice::Products => Save::Products,
        SaveChoice::Nothing => Save::Nothing,
    };
    let wrt: Vec<&str> = arguments.wrt.iter().map(String::as_str).collect();
    let derived = loaded.kernel.grad(&wrt, save);
    let derived = derived.map_err(|error| Failure::Kernel(loaded.source.clone(), error))?;
    let signature = loaded.kernel.ast().signature.as_ref();
    let outputs = signature.map_or(&[][..], |signature| &signature.outputs);
    let memory = saved(&derived.forward, &derived.saved, outputs, &sizes);
    let mut lines: String = memory.iter().map(Saved::line).collect();
    if memory.is_empty() {
        lines.push_str("# the forward kernel saves nothing\n");
    }
    if arguments.json {
        print::json(&Derived {
            schema: 1,
            forward: derived.forward,
            backward: derived.backward,
            saved: derived.saved,
            memory,
            cotangents: derived.cotangents,
            gradients: derived.gradients,
        })?;
    } else if arguments.forward {
        print::text(&format!("{lines}{}", derived.forward))?;
    } else {
        print::text(&format!("{lines}{}", derived.backward))?;
    }
    Ok(Outcome::Fine)
}
