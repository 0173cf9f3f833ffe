//! Which module of the library may name which.
//!
//! Arrows follow the flow from text to result; nothing reaches back. The order of [`LAYERS`] is the order of the flow, and
//! a module names modules above it in the list only.

mod imports;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::workspace::{after_brace, blanked, read, root, rust_files, words};

/// Every module at the top of the crate, and those it may name.
#[rustfmt::skip] // A table: one line a module.
const LAYERS: &[(&str, &[&str])] = &[
    ("dtype", &[]),
    ("shape", &[]),
    ("catalogue", &[]),
    ("process", &[]),
    ("functions", &["process"]),
    ("tensor", &["dtype"]),
    ("syntax", &["dtype", "shape", "catalogue"]),
    ("build", &["dtype", "shape", "catalogue", "syntax"]),
    ("graph", &["dtype", "shape", "catalogue", "functions"]),
    ("check", &["dtype", "shape", "catalogue", "syntax", "graph"]),
    ("define", &["dtype", "catalogue", "syntax", "graph", "process"]),
    ("differentiate", &["dtype", "shape", "catalogue", "syntax", "check", "graph"]),
    ("problem", &["dtype", "shape", "tensor", "graph"]),
    ("optimise", &["dtype", "shape", "functions", "graph", "define"]),
    ("reference", &["dtype", "shape", "tensor", "functions", "graph", "problem", "process"]),
    ("placement", &["dtype", "tensor", "graph", "problem"]),
    ("lower", &["dtype", "shape", "graph", "problem", "placement", "process"]),
    ("partition", &["dtype", "shape", "functions", "graph", "optimise", "problem", "placement", "lower"]),
    ("plan", &["problem", "lower"]),
    ("cpu", &["dtype", "shape", "tensor", "functions", "graph", "problem", "lower", "plan", "process"]),
    ("target", &["dtype", "shape", "functions", "graph", "problem", "placement", "lower", "plan", "process"]),
    ("image", &["dtype", "shape", "tensor", "graph", "problem", "placement"]),
    ("runtime", &["dtype", "shape", "tensor", "graph", "problem"]),
    ("tuning", &["graph", "placement", "problem", "target", "process"]),
    ("error", &["syntax", "check", "differentiate", "problem", "tensor", "plan", "target", "runtime"]),
    ("program", &["dtype", "graph", "optimise", "problem", "placement", "lower", "partition", "target", "error", "process"]),
    ("cuda", &["dtype", "tensor", "graph", "problem", "placement", "target", "image", "runtime", "tuning", "error", "program"]),
    ("sim", &["dtype", "tensor", "graph", "problem", "placement", "target", "image", "error", "program"]),
    ("kernel", &["dtype", "syntax", "check", "define", "differentiate", "graph", "optimise", "problem", "reference", "placement", "lower", "plan", "target", "cpu", "image", "runtime", "tensor", "tuning", "error", "program", "cuda", "sim", "process"]),
];

/// Edges of [`LAYERS`] that are not the flow's, and why they stand.
const ARGUED: &[(&str, &str, &str)] = &[
    ("syntax", "catalogue", "function names are reserved, and the catalogue is their one list"),
    ("graph", "catalogue", "a printed graph names functions, and reading one looks them up"),
    ("define", "syntax", "formulas of the catalogue are written in the language and parsed by it"),
    (
        "optimise",
        "define",
        "relaxed rules bring products next to sums, which are contracted as defined",
    ),
];

/// Modules that may use threads.
const THREADED: &[&str] = &["cpu", "reference"];

fn source_folder() -> PathBuf {
    root().join("crates/postlude/src")
}

/// A file as its path of modules: `graph/ops/fold.rs` is `[graph, ops, fold]`.
fn module_path(path: &Path) -> Vec<String> {
    let relative = path.strip_prefix(source_folder()).unwrap_or(path).with_extension("");
    relative.iter().map(|part| part.to_string_lossy().into_owned()).collect()
}

/// The files of the library without tests, by module path, blanked.
fn library() -> BTreeMap<Vec<String>, String> {
    let mut files: BTreeMap<Vec<String>, String> = BTreeMap::new();
    let mut tests: Vec<Vec<String>> = Vec::new();
    for file in rust_files(&source_folder()) {
        let path = module_path(&file);
        let (text, modules) = without_tests(&blanked(&read(&file)));
        tests.extend(modules.into_iter().map(|module| [path.clone(), vec![module]].concat()));
        files.insert(path, text);
    }
    files.retain(|path, _| !tests.iter().any(|test| path.starts_with(test)));
    files.remove(&vec!["lib".to_owned()]);
    files
}

/// The text without what is compiled for tests only, and the test modules that have files of their own.
fn without_tests(text: &str) -> (String, Vec<String>) {
    const MARK: &str = "#[cfg(test)]";
    let mut rest = text.to_owned();
    let mut modules = Vec::new();
    while let Some(at) = rest.find(MARK) {
        let after = at + MARK.len();
        let Some(open) = rest[after..].find(['{', ';']).map(|open| after + open) else { break };
        let end = if rest.as_bytes()[open] == b'{' {
            after_brace(&rest, open)
        } else {
            modules.extend(rest[after..open].split_whitespace().next_back().map(str::to_owned));
            open + 1
        };
        rest.replace_range(at..end, "");
    }
    (rest, modules)
}

/// What follows `crate::`: the first name, or the first names inside braces.
fn first_names(path: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        text.trim_start()
            .chars()
            .take_while(|character| character.is_alphanumeric() || *character == '_')
            .collect()
    };
    let path = path.trim_start();
    if !path.starts_with('{') {
        return vec![name(path)];
    }
    let inside = &path[1..after_brace(path, 0) - 1];
    let mut depth = 0;
    let parts = inside.split(|character: char| {
        depth += i32::from(character == '{') - i32::from(character == '}');
        character == ',' && depth == 0
    });
    parts.map(name).filter(|name| !name.is_empty()).collect()
}

/// Every edge between modules at the top, with a file that has it.
fn edges() -> BTreeMap<(String, String), String> {
    let mut edges = BTreeMap::new();
    for (path, text) in library() {
        for at in words(&text, "crate") {
            let rest = text[at + "crate".len()..].trim_start();
            let Some(rest) = rest.strip_prefix("::") else { continue };
            for name in first_names(rest).into_iter().filter(|name| *name != path[0]) {
                edges.insert((path[0].clone(), name), path.join("/"));
            }
        }
    }
    edges
}

fn position(module: &str) -> usize {
    LAYERS.iter().position(|(name, _)| *name == module).expect("a module of the table")
}

#[test]
fn modules_name_only_what_the_table_allows() {
    let allowed: BTreeMap<&str, &[&str]> = LAYERS.iter().copied().collect();
    let forbidden: Vec<String> = edges()
        .into_iter()
        .filter(|((from, to), _)| {
            !allowed.get(from.as_str()).is_some_and(|names| names.contains(&to.as_str()))
        })
        .map(|((from, to), file)| format!("{file}.rs: `{from}` names `crate::{to}`"))
        .collect();
    assert!(forbidden.is_empty(), "not in the table of layers:\n{}", forbidden.join("\n"));
}

#[test]
fn the_table_lists_every_module_and_has_no_cycle() {
    let modules: BTreeSet<String> = library().into_keys().map(|path| path[0].clone()).collect();
    let listed: BTreeSet<String> = LAYERS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(modules, listed);
    for (from, names) in LAYERS {
        for to in *names {
            assert!(position(to) < position(from), "`{from}` comes before `{to}` in the flow");
        }
    }
}

#[test]
fn argued_edges_are_in_the_table() {
    for (from, to, why) in ARGUED {
        let (_, names) = LAYERS[position(from)];
        assert!(names.contains(to), "`{from}` no longer names `{to}` ({why})");
    }
}

#[test]
fn modules_are_named_from_the_root_and_not_climbed_to() {
    for (path, text) in library() {
        let compact: String = text.split_whitespace().collect();
        let climb = "super::".repeat(path.len());
        assert!(!compact.contains(&climb), "{}.rs climbs to the crate's root", path.join("/"));
    }
}

/// Rooms whose module files may not import one another in a cycle: children name siblings, and never their face.
const ACYCLIC: &[&str] =
    &["cuda", "kernel", "lower", "partition", "plan", "program", "sim", "target"];

#[test]
fn rooms_behind_the_language_have_no_cycle_of_modules() {
    let rooms = |module: &Vec<String>| ACYCLIC.contains(&module[0].as_str());
    let files = library().into_iter().filter(|(module, _)| rooms(module)).collect();
    let cyclic: Vec<String> =
        imports::cyclic(imports::imports(&files)).iter().map(|path| path.join("/")).collect();
    assert!(cyclic.is_empty(), "these import one another:\n{}", cyclic.join("\n"));
}

#[test]
fn only_a_targets_own_folder_names_its_chip() {
    for file in rust_files(&source_folder()) {
        let path = module_path(&file);
        let text = blanked(&read(&file)).to_lowercase();
        let own = path[0] == "target";
        assert!(own || !text.contains("sm90"), "{} names a chip", path.join("/"));
    }
}

/// What of an emitter is bound to a chip: its page and its mainloop. All else takes the chip as a type.
const MAINLOOP: &[&str] = &[
    "load",
    "mma",
    "multiply",
    "operand",
    "scaling",
    "segment_tail",
    "slices",
    "split_k",
    "swapped",
    "widen",
];

#[test]
fn only_the_mainloop_is_bound_to_a_chip() {
    for (path, text) in library() {
        if path.len() < 4 || path[2] != "emit" || MAINLOOP.contains(&path[3].as_str()) {
            continue;
        }
        for chip in ["Sm90a", "Sm100a"] {
            assert!(words(&text, chip).next().is_none(), "{}.rs names {chip}", path.join("/"));
        }
    }
}

#[test]
fn only_the_fragment_map_knows_which_lane_holds_an_element() {
    for (path, text) in library() {
        let emits = path.len() > 3 && path[2] == "emit" && path[3] != "fragment";
        let compact: String = text.split_whitespace().collect();
        for place in ["lane&3", "rank&3", "lane>>2", "rank>>2", "(rank&31)>>2", "lane&1"] {
            // `rank & 31` is a lane's number, which every file may ask for.
            let whole = |after: &str| !after.starts_with(|next: char| next.is_ascii_digit());
            let found = compact.split(place).skip(1).any(whole);
            assert!(!emits || !found, "{}.rs has {place}", path.join("/"));
        }
    }
}

#[test]
fn threads_are_used_where_work_is_shared_out() {
    for (path, text) in library() {
        let uses = words(&text, "rayon").next().is_some();
        assert!(!uses || THREADED.contains(&path[0].as_str()), "{}.rs uses rayon", path.join("/"));
    }
}

#[test]
fn unsafe_code_is_in_the_cpu_engine_the_dispatch_of_functions_and_the_driver() {
    for (path, text) in library() {
        let uses = words(&text, "unsafe").next().is_some();
        let may = path[0] == "cpu"
            || path == ["functions", "dispatch"]
            || path.starts_with(&["runtime".to_owned(), "driver".to_owned()]);
        assert!(!uses || may, "{}.rs has unsafe code", path.join("/"));
    }
}

#[test]
fn paths_are_found_however_they_are_written() {
    assert_eq!(first_names("{a::{b, c},\n d, e::f}::g"), ["a", "d", "e"]);
    assert_eq!(first_names(" graph::Graph"), ["graph"]);
    let (text, modules) =
        without_tests("a #[cfg(test)]\nmod tests { use crate::x; } b #[cfg(test)] mod more;");
    assert_eq!((text.as_str(), modules), ("a  b ", vec!["more".to_owned()]));
}
