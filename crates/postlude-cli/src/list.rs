//! `postlude list`: the kernel library or the functions of the language, all of them or the matches of a search.

use postlude::catalogue::{Entry, FUNCTIONS, Group};
use postlude::syntax::nearest;
use postlude_corpus::{Fit, LibraryKernel, grouped, groups, kernels};
use serde::Serialize;

use crate::arguments::ListArguments;
use crate::failure::{Failure, Mistake, Outcome};
use crate::print;

/// The word that asks for functions.
const FUNCTIONS_WORD: &str = "functions";

#[derive(Serialize)]
struct Kernels {
    schema: u32,
    kernels: Vec<Kernel>,
}

#[derive(Serialize)]
struct Kernel {
    name: &'static str,
    group: &'static str,
    description: &'static str,
    cutlass: &'static [&'static str],
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
    let words: Vec<&str> =
        arguments.words.iter().flat_map(|word| word.split_whitespace()).collect();
    match words.as_slice() {
        [FUNCTIONS_WORD, words @ ..] => list_functions(words, arguments.json)?,
        words if arguments.functions => list_functions(words, arguments.json)?,
        words => list_kernels(words, arguments.json)?,
    }
    Ok(Outcome::Fine)
}

fn list_kernels(words: &[&str], json: bool) -> Result<(), Failure> {
    let fits = |kernel: &LibraryKernel| {
        let all: Option<Vec<Fit>> = words.iter().map(|word| kernel.fits(word)).collect();
        all.map(|all| all.into_iter().min().unwrap_or(Fit::Word))
    };
    // Kernels that hold the searched words whole hide kernels that hold them inside longer words.
    let best = kernels().iter().filter_map(fits).max();
    let Some(best) = best else { return Err(no_kernel(words).into()) };
    let is_shown = |kernel: &&LibraryKernel| fits(kernel) == Some(best);
    let shown = |title| grouped(title).into_iter().filter(is_shown).collect::<Vec<_>>();
    if json {
        let kernels = groups().flat_map(shown).map(Kernel::of).collect();
        return print::json(&Kernels { schema: 1, kernels });
    }
    let width = groups().flat_map(shown).map(|kernel| kernel.name.len()).max().unwrap_or(0);
    let mut parts = Vec::new();
    for title in groups() {
        let mut lines = String::new();
        for kernel in shown(title) {
            let LibraryKernel { name, description, .. } = kernel;
            lines.push_str(&format!("  {name:<width$}  {description}{}\n", also(kernel)));
        }
        if !lines.is_empty() {
            parts.push(format!("{title}\n{lines}"));
        }
    }
    print::text(&parts.join("\n"))
}

/// Names of CUTLASS, where the description has none.
fn also(kernel: &LibraryKernel) -> String {
    match kernel.cutlass {
        _ if kernel.description.contains("CUTLASS") => String::new(),
        [] => String::new(),
        names => format!(" (CUTLASS {})", names.join(", ")),
    }
}

fn no_kernel(words: &[&str]) -> Mistake {
    let text = words.join(" ");
    let own = kernels().iter().map(|kernel| kernel.name);
    let described = kernels()
        .iter()
        .flat_map(|kernel| kernel.description.split(|letter: char| !letter.is_alphanumeric()));
    let others = kernels().iter().flat_map(|kernel| kernel.cutlass).copied();
    let near = nearest(&text, own.chain(others).chain(described));
    let near = near.map(|near| format!("did you mean `{near}`? "));
    Mistake::new(format!("nothing in the library fits `{text}`"))
        .fix(format!("{}`postlude list` shows it all", near.unwrap_or_default()))
}

fn list_functions(words: &[&str], json: bool) -> Result<(), Failure> {
    let fits = |entry: &&Entry| {
        let texts = [entry.name, entry.formula, entry.note, group_name(entry.group)];
        let holds = |word: &&str| texts.iter().any(|text| text.contains(&word.to_lowercase()));
        words.iter().all(holds)
    };
    let shown: Vec<&'static Entry> = FUNCTIONS.iter().filter(fits).collect();
    if shown.is_empty() {
        let text = words.join(" ");
        let near = nearest(&text, FUNCTIONS.iter().map(|entry| entry.name));
        let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
        return Err(Mistake::new(format!("no function fits `{text}`"))
            .fix(format!("{near}`postlude list functions` shows them all"))
            .into());
    }
    if json {
        let functions = shown.into_iter().map(Function::of).collect();
        return print::json(&Functions { schema: 1, functions });
    }
    print::text(&functions_text(&shown))
}

fn functions_text(shown: &[&Entry]) -> String {
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
        let entries = shown.iter().filter(|entry| entry.group == group);
        let rows: Vec<Vec<String>> = entries
            .map(|entry| {
                let call = entry.call();
                vec![format!("  {call}"), meaning(entry)]
            })
            .collect();
        if !rows.is_empty() {
            parts.push(format!("{}\n{}", group_name(group), print::table(&rows)));
        }
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

impl Kernel {
    fn of(kernel: &LibraryKernel) -> Kernel {
        let LibraryKernel { name, description, group, cutlass, .. } = *kernel;
        Kernel { name, group, description, cutlass }
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
