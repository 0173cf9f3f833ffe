//! `postlude check`: types a kernel and prints it.

use postlude::shape;
use postlude::syntax::Declaration;
use serde::Serialize;

use crate::arguments::CheckArguments;
use crate::bindings::Loaded;
use crate::failure::{Failure, Outcome};
use crate::print;

#[derive(Serialize)]
struct Checked {
    schema: u32,
    kernel: String,
    inputs: Vec<Declared>,
    outputs: Vec<Declared>,
    names: Vec<Named>,
    text: String,
}

#[derive(Serialize)]
struct Declared {
    name: String,
    dtype: &'static str,
    /// `null` for a scalar that the host passes.
    dims: Option<Vec<String>>,
}

#[derive(Serialize)]
struct Named {
    name: String,
    #[serde(rename = "type")]
    type_text: String,
}

/// Runs the command.
pub(crate) fn check(arguments: &CheckArguments) -> Result<Outcome, Failure> {
    let loaded = Loaded::read(&arguments.source)?;
    let kernel = &loaded.kernel;
    let types = kernel.types();
    if arguments.json {
        let signature = kernel.ast().signature.as_ref();
        let inputs = signature.map_or(&[][..], |signature| &signature.inputs);
        let outputs = signature.map_or(&[][..], |signature| &signature.outputs);
        print::json(&Checked {
            schema: 1,
            kernel: kernel.name().to_owned(),
            inputs: inputs.iter().map(Declared::of).collect(),
            outputs: outputs.iter().map(Declared::of).collect(),
            names: types.into_iter().map(|(name, type_text)| Named { name, type_text }).collect(),
            text: kernel.ast().to_string(),
        })?;
    } else {
        print::text(&annotate(&kernel.ast().to_string(), &types))?;
    }
    Ok(Outcome::Fine)
}

/// The kernel's text with the type of what each line assigns behind it.
fn annotate(text: &str, types: &[(String, String)]) -> String {
    let ty = |name: &str| types.iter().find(|(known, _)| known == name).map(|(_, ty)| ty.as_str());
    let lines: Vec<(&str, Option<String>)> = text
        .lines()
        .map(|line| {
            let targets = line.strip_prefix("    ").and_then(|line| line.split_once(" = "));
            let types: Option<Vec<&str>> =
                targets.and_then(|(targets, _)| targets.split(", ").map(ty).collect());
            (line, types.map(|types| types.join(", ")))
        })
        .collect();
    let assigned = lines.iter().filter(|(_, ty)| ty.is_some());
    // One long line does not push the others' types out of sight.
    let width = assigned.map(|(line, _)| line.chars().count()).filter(|width| *width <= 80).max();
    let width = width.unwrap_or(0);
    let mut annotated = String::new();
    for (line, ty) in lines {
        match ty {
            Some(ty) => annotated.push_str(&format!("{line:<width$}  # {ty}\n")),
            None => annotated.push_str(&format!("{line}\n")),
        }
    }
    annotated
}

impl Declared {
    fn of(declaration: &Declaration) -> Declared {
        let dims = declaration.dims.as_ref();
        Declared {
            name: declaration.name.text.clone(),
            dtype: declaration.dtype.name(),
            dims: dims.map(|dims| dims.iter().map(shape::Dim::to_string).collect()),
        }
    }
}
