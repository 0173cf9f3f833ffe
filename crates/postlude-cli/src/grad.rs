//! `postlude grad`: the kernel of a kernel's derivatives.

use postlude::Save;
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
    /// Each output's name, and that of its cotangent.
    cotangents: Vec<(String, String)>,
    /// Each input's name, and that of its derivative.
    gradients: Vec<(String, String)>,
}

/// Runs the command.
pub(crate) fn grad(arguments: &GradArguments) -> Result<Outcome, Failure> {
    let loaded = Loaded::read(&arguments.source)?;
    let save = match arguments.save {
        SaveChoice::Products => Save::Products,
        SaveChoice::Nothing => Save::Nothing,
    };
    let wrt: Vec<&str> = arguments.wrt.iter().map(String::as_str).collect();
    let derived = loaded.kernel.grad(&wrt, save);
    let derived = derived.map_err(|error| Failure::Kernel(loaded.source.clone(), error))?;
    if arguments.json {
        print::json(&Derived {
            schema: 1,
            forward: derived.forward,
            backward: derived.backward,
            saved: derived.saved,
            cotangents: derived.cotangents,
            gradients: derived.gradients,
        })?;
    } else if arguments.forward {
        print::text(&derived.forward)?;
    } else {
        print::text(&derived.backward)?;
    }
    Ok(Outcome::Fine)
}
