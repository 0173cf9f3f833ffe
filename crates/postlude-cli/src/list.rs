//! `postlude list`: the kernel library, or the functions of the language.

use postlude::catalogue::{Entry, FUNCTIONS, Group};
use postlude_corpus::kernels;
use serde::Serialize;

use crate::arguments::ListArguments;
use crate::failure::{Failure, Outcome};
use crate::print;

#[derive(Serialize)]
struct Kernels {
    schema: u32,
    kernels: Vec<Kernel>,
}

#[derive(Serialize)]
struct Kernel {
    name: &'static str,
    description: &'static str,
}

#[derive(Serialize)]
struct Functions {
    schema: u32,
    functions: Vec<Function>,
}

#[derive(Serialize)]
struct Function {
    name: &'static str,
    group: &'static str,
    parameters: &'static [&'static str],
    formula: &'static str,
    derivative: &'static str,
    note: &'static str,
}

/// Runs the command.
pub(crate) fn list(arguments: &ListArguments) -> Result<Outcome, Failure> {
    match (arguments.functions, arguments.json) {
        (false, false) => {
            let row = |name: &str, description: &str| vec![name.to_owned(), description.to_owned()];
            let rows: Vec<Vec<String>> =
                kernels().iter().map(|kernel| row(kernel.name, kernel.description)).collect();
            print::text(&print::table(&rows))?;
        }
        (false, true) => {
            let kernels = kernels().iter();
            let kernels = kernels.map(|k| Kernel { name: k.name, description: k.description });
            print::json(&Kernels { schema: 1, kernels: kernels.collect() })?;
        }
        (true, false) => print::text(&functions_text())?,
        (true, true) => {
            let functions = FUNCTIONS.iter().map(Function::of).collect();
            print::json(&Functions { schema: 1, functions })?;
        }
    }
    Ok(Outcome::Fine)
}

fn functions_text() -> String {
    let mut parts = Vec::new();
    let groups = [
        Group::Elementwise,
        Group::Activation,
        Group::Bits,
        Group::Reduction,
        Group::Composite,
        Group::Structure,
    ];
    for group in groups {
        let entries = FUNCTIONS.iter().filter(|entry| entry.group == group);
        let rows: Vec<Vec<String>> = entries
            .map(|entry| {
                let call = format!("  {}({})", entry.name, entry.parameters.join(", "));
                vec![call, meaning(entry)]
            })
            .collect();
        parts.push(format!("{}\n{}", group_name(group), print::table(&rows)));
    }
    parts.join("\n")
}

fn meaning(entry: &Entry) -> String {
    match (entry.formula, entry.note) {
        ("", note) => note.to_owned(),
        (formula, "") => formula.to_owned(),
        (formula, note) => format!("{formula}; {note}"),
    }
}

const fn group_name(group: Group) -> &'static str {
    match group {
        Group::Elementwise => "elementwise",
        Group::Activation => "activation",
        Group::Bits => "bits",
        Group::Reduction => "reduction",
        Group::Composite => "composite",
        Group::Structure => "structure",
    }
}

impl Function {
    fn of(entry: &'static Entry) -> Function {
        Function {
            name: entry.name,
            group: group_name(entry.group),
            parameters: entry.parameters,
            formula: entry.formula,
            derivative: entry.derivative,
            note: entry.note,
        }
    }
}
