//! Which module file imports which, by `use` and by paths in the code.

use std::collections::{BTreeMap, BTreeSet};

/// A module by its path: `[graph, ops, fold]`.
type Module = Vec<String>;

/// For every module of these texts, the modules that it imports.
pub(crate) fn imports(files: &BTreeMap<Module, String>) -> BTreeMap<Module, BTreeSet<Module>> {
    let of = |(module, text): (&Module, &String)| {
        let paths = paths(text).into_iter();
        let found = paths.filter_map(|path| resolved(files, module, &path));
        (module.clone(), found.filter(|other| other != module).collect())
    };
    files.iter().map(of).collect()
}

/// Modules that import one another in a cycle, or are imported by such and import such.
pub(crate) fn cyclic(mut imports: BTreeMap<Module, BTreeSet<Module>>) -> Vec<Module> {
    loop {
        let leaves: Vec<Module> = imports
            .iter()
            .filter(|(_, others)| others.iter().all(|other| !imports.contains_key(other)))
            .map(|(module, _)| module.clone())
            .collect();
        if leaves.is_empty() {
            return imports.into_keys().collect();
        }
        imports.retain(|module, _| !leaves.contains(module));
    }
}

/// Every path that a text imports or writes out.
fn paths(text: &str) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    let mut rest = String::new();
    let mut from = 0;
    for start in super::words(text, "use").filter(|start| is_import(text, *start)) {
        let end = text[start..].find(';').map_or(text.len(), |end| start + end);
        all.extend(expanded(&text[start + "use".len()..end]));
        rest.push_str(&text[from..start]);
        from = end;
    }
    rest.push_str(&text[from..]);
    let is_path = |character: char| character.is_alphanumeric() || "_:".contains(character);
    for path in rest.split(|character: char| !is_path(character)) {
        if path.contains("::") {
            all.push(path.split("::").map(str::to_owned).collect());
        }
    }
    all
}

/// Whether a word `use` begins an item, and is no part of a bound.
fn is_import(text: &str, start: usize) -> bool {
    let before = text[..start].trim_end();
    before.is_empty() || before.ends_with([';', '}', '{', ']', ')']) || before.ends_with("pub")
}

/// The paths of a tree of imports.
fn expanded(tree: &str) -> Vec<Vec<String>> {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        return vec![path.split("::").map(|name| name.trim().to_owned()).collect()];
    };
    let before = tree[..open].trim().trim_end_matches("::");
    let before: Vec<String> = before.split("::").map(|name| name.trim().to_owned()).collect();
    let inside = &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())];
    let mut depth = 0;
    let parts = inside.split(|character: char| {
        depth += i32::from(character == '{') - i32::from(character == '}');
        character == ',' && depth == 0
    });
    let parts = parts.filter(|part| !part.trim().is_empty());
    parts.flat_map(expanded).map(|path| [before.clone(), path].concat()).collect()
}

/// The module file that a path leads to, as far as it leads through modules.
fn resolved(files: &BTreeMap<Module, String>, from: &[String], path: &[String]) -> Option<Module> {
    let mut at: Module = from.to_vec();
    let mut names = path.iter().peekable();
    match path.first()?.as_str() {
        "crate" => at.clear(),
        "self" => {}
        "super" => drop(at.pop()),
        name => {
            at.push(name.to_owned());
            if !files.contains_key(&at) {
                return None;
            }
        }
    }
    names.next();
    while let Some(name) = names.peek() {
        if *name == "super" {
            at.pop();
        } else {
            at.push((*name).clone());
            if !files.contains_key(&at) {
                at.pop();
                break;
            }
        }
        names.next();
    }
    files.contains_key(&at).then_some(at)
}

#[test]
fn imports_lead_to_files_however_they_are_written() {
    let files = [
        ("a", "use b::{self, c::X}; fn f() { crate::d::e() }"),
        ("a/b", "pub use super::b::c;"),
        ("a/b/c", "use super::super::Y;"),
        ("d", ""),
    ];
    let module = |path: &str| path.split('/').map(str::to_owned).collect::<Module>();
    let files = files.map(|(path, text)| (module(path), text.to_owned())).into();
    let imports = imports(&files);
    let of = |path| imports[&module(path)].iter().map(|path| path.join("/")).collect::<Vec<_>>();
    assert_eq!(of("a"), ["a/b", "a/b/c", "d"]);
    assert_eq!((of("a/b"), of("a/b/c")), (vec!["a/b/c".to_owned()], vec!["a".to_owned()]));
    assert_eq!(cyclic(imports), ["a", "a/b", "a/b/c"].map(module));
}
