//! The words that may stand at the end of a command line.
//!
//! In: the words behind `postlude`, the last one being typed. Out: whole words to replace it; none where clap's script knows
//! better. Invariant: nothing is written, run or waited for; what cannot be read has no words.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use clap::CommandFactory;
use postlude::{Bindings, Kernel, problem};
use postlude_corpus::{Fill, kernels};

use crate::arguments::CommandLine;
use crate::files::{Place, is_tensor_file, tensor_names};
use crate::source::Source;

/// Longer lists of tensors are shown up to the next dot.
const MANY: usize = 40;

/// The words that may replace the last one.
pub(super) fn at_end(typed: &[String]) -> Vec<String> {
    let [command, before @ .., current] = typed else { return Vec::new() };
    let Some(line) = Line::read(command, before) else { return Vec::new() };
    // `--in W=a.npy` or `--in=W=a.npy`.
    let (flag, start, value) = match (before.last(), current.split_once('=')) {
        (_, Some((flag, value))) if flag.starts_with("--") => (flag, format!("{flag}="), value),
        (Some(flag), _) if line.takes_value(flag) => {
            (flag.as_str(), String::new(), current.as_str())
        }
        _ if current.starts_with('-') => return Vec::new(),
        _ => return line.sources(current),
    };
    line.values(flag, value).into_iter().map(|word| start.clone() + &word).collect()
}

/// What stands before the word.
struct Line<'a> {
    command: clap::Command,
    source: Option<&'a str>,
}

impl<'a> Line<'a> {
    /// Finds the kernel among the words before; nothing if there is no such command.
    fn read(command: &str, before: &'a [String]) -> Option<Line<'a>> {
        let command = CommandLine::command().find_subcommand(command)?.clone();
        let mut line = Line { command, source: None };
        let mut is_value = false;
        for word in before {
            if !is_value && !word.starts_with("--") {
                line.source = line.source.or(Some(word));
            }
            is_value = !is_value && line.takes_value(word);
        }
        Some(line)
    }

    fn takes_value(&self, word: &str) -> bool {
        let flag = word.strip_prefix("--").unwrap_or_default();
        let known = self.command.get_arguments().find(|known| known.get_long() == Some(flag));
        known.is_some_and(|known| {
            known.get_action().takes_values() && !known.is_require_equals_set()
        })
    }

    /// Kernels of the library, where a kernel is to be named.
    fn sources(&self, start: &str) -> Vec<String> {
        let first = self.command.get_positionals().next().map(|first| first.get_id().as_str());
        let is_kernel = first == Some("source") || self.command.get_name() == "show";
        if !is_kernel || self.source.is_some() {
            return Vec::new();
        }
        let names = kernels().iter().map(|kernel| kernel.name);
        names.filter(|name| name.starts_with(start)).map(str::to_owned).collect()
    }

    /// Values of a flag.
    fn values(&self, flag: &str, typed: &str) -> Vec<String> {
        let pair = typed.split_once('=');
        match (flag, pair) {
            ("--in", Some((name, file))) => prefixed(name, "=", in_files(file)),
            ("--out", Some((name, file))) => prefixed(name, "=", files(file)),
            ("--fill", Some((name, kind))) => {
                let kinds = Fill::ALL.into_iter().map(|kind| kind.to_string());
                prefixed(name, "=", kinds.filter(|word| word.starts_with(kind)).collect())
            }
            ("--in" | "--fill", None) => pairs(self.names(Names::Tensors), typed),
            ("--set", None) => pairs(self.names(Names::Scalars), typed),
            ("--out", None) => pairs(self.names(Names::Outputs), typed),
            ("--size", _) => listed(typed, |last| pairs(self.names(Names::Dims), last)),
            ("--only" | "--print", _) => {
                listed(typed, |last| starting(self.names(Names::Outputs), last))
            }
            _ => Vec::new(),
        }
    }

    /// The names of the kernel on the line; standard input is not read.
    fn names(&self, names: Names) -> Vec<String> {
        let Some(source) = self.source.filter(|source| *source != "-") else { return Vec::new() };
        let Ok(source) = Source::read(OsStr::new(source)) else { return Vec::new() };
        let Ok(kernel) = Kernel::infer_bytes(&source.bytes, &Bindings::default()) else {
            return Vec::new();
        };
        let graph = kernel.defined();
        let inputs = |is_tensor: bool| {
            let inputs = graph.passed_inputs().filter(|input| input.dims.is_some() == is_tensor);
            inputs.map(|input| input.name.clone()).collect()
        };
        match names {
            Names::Tensors => inputs(true),
            Names::Scalars => inputs(false),
            Names::Outputs => graph.results().iter().map(|output| output.name.to_owned()).collect(),
            Names::Dims => problem::dim_names(graph).into_iter().map(str::to_owned).collect(),
        }
    }
}

/// Names of a kernel.
#[derive(Clone, Copy)]
enum Names {
    Tensors,
    Scalars,
    Outputs,
    Dims,
}

fn starting(names: Vec<String>, start: &str) -> Vec<String> {
    names.into_iter().filter(|name| name.starts_with(start)).collect()
}

/// Names that a `=` follows.
fn pairs(names: Vec<String>, start: &str) -> Vec<String> {
    starting(names, start).into_iter().map(|name| name + "=").collect()
}

fn prefixed(start: &str, sign: &str, words: Vec<String>) -> Vec<String> {
    words.into_iter().map(|word| format!("{start}{sign}{word}")).collect()
}

/// Words for what follows the last comma.
fn listed(typed: &str, words: impl Fn(&str) -> Vec<String>) -> Vec<String> {
    match typed.rsplit_once(',') {
        Some((before, last)) => prefixed(before, ",", words(last)),
        None => words(typed),
    }
}

/// Files, or tensors of the file that stands before a colon.
fn in_files(typed: &str) -> Vec<String> {
    // A colon alone does not name a tensor yet.
    let place = match typed.strip_suffix(':') {
        Some(path) => Ok(Place { path: path.into(), tensor: Some(String::new()) }),
        None => Place::read(Path::new(typed)),
    };
    match place {
        Ok(Place { path, tensor: Some(start) }) => {
            let names = starting(tensor_names(&path).unwrap_or_default(), &start);
            prefixed(&path.display().to_string(), ":", up_to_dots(names, start.len()))
        }
        Ok(Place { tensor: None, .. }) | Err(_) => match files(typed).as_slice() {
            [only] if tensor_names(Path::new(only)).is_ok_and(|names| names.len() > 1) => {
                vec![format!("{only}:")]
            }
            several => several.to_vec(),
        },
    }
}

/// All names if they are few, else their parts up to the next dot.
fn up_to_dots(names: Vec<String>, typed: usize) -> Vec<String> {
    if names.len() <= MANY {
        return names;
    }
    let part = |name: String| match name[typed..].find('.') {
        Some(dot) => name[..=typed + dot].to_owned(),
        None => name,
    };
    let mut parts: Vec<String> = names.into_iter().map(part).collect();
    parts.dedup();
    parts
}

/// Folders and files of tensors.
fn files(typed: &str) -> Vec<String> {
    let (folder, start) = match typed.rfind('/') {
        Some(slash) => typed.split_at(slash + 1),
        None => ("", typed),
    };
    let read = fs::read_dir(if folder.is_empty() { "." } else { folder });
    let mut words: Vec<String> = Vec::new();
    for entry in read.into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        if !name.starts_with(start) || (name.starts_with('.') && !start.starts_with('.')) {
            continue;
        }
        if entry.path().is_dir() {
            words.push(format!("{folder}{name}/"));
        } else if is_tensor_file(Path::new(&name)) {
            words.push(format!("{folder}{name}"));
        }
    }
    words.sort();
    words
}
