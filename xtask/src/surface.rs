//! How much of the library its documentation shows: few enough items for one page.
//!
//! In: the documentation as rustdoc wrote it. Out: how many items it lists and how many methods they have, and an error when
//! the items are too many for the page that lists them. The methods of `build::Expr` are the functions of the language, one
//! each, and are not counted.

use std::fs;
use std::path::Path;

use crate::command::root;

/// Items: types, traits, functions and constants.
const MOST: usize = 150;
/// Its methods are the language's functions.
const FUNCTIONS: &str = "struct.Expr.html";

/// Counts what is shown of the library.
pub(crate) fn check() -> Result<(), String> {
    let folder = root().join("target/doc/postlude");
    let all = read(&folder.join("all.html"))?;
    let pages: Vec<&str> = all
        .split("<li><a href=\"")
        .skip(1)
        .filter_map(|item| item.split_once('"'))
        .map(|(page, _)| page)
        .filter(|page| !page.starts_with('#'))
        .collect();
    let mut methods = 0;
    for page in pages.iter().filter(|page| !page.ends_with(FUNCTIONS)) {
        methods += count_methods(&read(&folder.join(page))?);
    }
    let items = pages.len();
    println!("the library's documentation shows {items} items and {methods} methods");
    if items == 0 {
        return Err("the documentation lists no items: has its form changed?".to_owned());
    }
    if items <= MOST {
        return Ok(());
    }
    Err(format!("{items} items are more than {MOST}: hide what is internal"))
}

/// The methods of an item's own, without those of traits that it implements.
fn count_methods(page: &str) -> usize {
    let others = ["trait-implementations", "synthetic-implementations", "blanket-implementations"];
    let ends = others.map(|part| page.find(&format!("id=\"{part}\"")).unwrap_or(page.len()));
    let own = &page[..ends.into_iter().min().unwrap_or(page.len())];
    own.matches("<section id=\"method.").count()
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::count_methods;

    #[test]
    fn methods_of_traits_do_not_count() {
        let page = "<section id=\"method.a\"><section id=\"method.b\"><h2 id=\"trait-implementations\"><section id=\"method.clone\">";
        assert_eq!(count_methods(page), 2);
    }
}
