//! How much of the library its documentation shows: few enough items for one page.
//!
//! In: the documentation as rustdoc wrote it. Out: how many items and methods it shows, and an error when they are too many.
//! The methods of `build::Expr` are the functions of the language, one each, and are not counted.

use std::fs;
use std::path::Path;

use crate::command::root;

/// Items and methods together.
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
    if items + methods <= MOST {
        return Ok(());
    }
    Err(format!("{items} items and {methods} methods are more than {MOST}: hide what is internal"))
}

/// The methods of an item's own, without those of traits that it implements.
fn count_methods(page: &str) -> usize {
    let own = page.split("id=\"trait-implementations\"").next().unwrap_or(page);
    let own = own.split("id=\"deref-methods").next().unwrap_or(own);
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
