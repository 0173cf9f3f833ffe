//! The kernels that come with Postlude, carried inside the binary.
//!
//! Out: every file of the folder `kernels`, by name, and what it is for.

mod groups;

use std::sync::LazyLock;

use groups::{CUTLASS, GROUPS, UNGROUPED};

/// A kernel of the library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LibraryKernel {
    /// Its name, which is its file's.
    pub name: &'static str,
    /// What it is for: the comment it starts with.
    pub description: &'static str,
    /// The kernels that it is listed with.
    pub group: &'static str,
    /// What CUTLASS calls it, beside the name in the description.
    pub cutlass: &'static [&'static str],
    /// Its text.
    pub source: &'static str,
}

impl LibraryKernel {
    /// How well the kernel matches a searched word; `None` for no match.
    pub fn fits(&self, word: &str) -> Option<Fit> {
        let texts = [self.name, self.description, self.group];
        let mut texts = texts.iter().chain(self.cutlass).map(|text| text.to_lowercase());
        let word = word.to_lowercase();
        let is_whole = |text: &str| {
            text.split(|letter: char| !letter.is_alphanumeric()).any(|part| part == word)
                || text == word
        };
        let found: Vec<String> = texts.by_ref().filter(|text| text.contains(&word)).collect();
        if found.is_empty() {
            return None;
        }
        Some(if found.iter().any(|text| is_whole(text)) { Fit::Word } else { Fit::Part })
    }
}

/// How a kernel matches a search.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fit {
    /// It is part of a word.
    Part,
    /// It is a whole word.
    Word,
}

/// The titles that kernels are listed under, in their order.
pub fn groups() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().map(|(title, _)| *title).chain([UNGROUPED])
}

/// The kernels of a group, in the order in which they are listed.
pub fn grouped(title: &str) -> Vec<&'static LibraryKernel> {
    let names =
        GROUPS.iter().find(|(known, _)| *known == title).map_or(&[][..], |(_, names)| names);
    let place = |kernel: &&LibraryKernel| names.iter().position(|name| *name == kernel.name);
    let mut own: Vec<_> = kernels().iter().filter(|kernel| kernel.group == title).collect();
    own.sort_by_key(place);
    own
}

/// Names and texts, sorted by name.
static SOURCES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

static KERNELS: LazyLock<Vec<LibraryKernel>> = LazyLock::new(|| {
    let described = SOURCES.iter().map(|&(name, source)| {
        let comment = source.lines().next().and_then(|line| line.strip_prefix('#'));
        let group = GROUPS.iter().find(|(_, names)| names.contains(&name));
        let cutlass = CUTLASS.iter().find(|(known, _)| *known == name);
        LibraryKernel {
            name,
            description: comment.unwrap_or_default().trim(),
            group: group.map_or(UNGROUPED, |(title, _)| title),
            cutlass: cutlass.map_or(&[], |(_, names)| names),
            source,
        }
    });
    described.collect()
});

/// Every kernel, sorted by name.
///
/// ```
/// let swiglu = postlude_corpus::kernels().iter().find(|kernel| kernel.name == "swiglu").unwrap();
/// assert_eq!(swiglu.description, "Gate and up projections in one product, through SwiGLU");
/// ```
pub fn kernels() -> &'static [LibraryKernel] {
    &KERNELS
}

/// The kernel of that name.
pub fn find_kernel(name: &str) -> Option<&'static LibraryKernel> {
    kernels().iter().find(|kernel| kernel.name == name)
}

#[cfg(test)]
mod tests {
    use super::groups::{CUTLASS, GROUPS, UNGROUPED};
    use super::{find_kernel, kernels};

    #[test]
    fn every_kernel_is_in_one_group_and_every_listed_kernel_exists() {
        let ungrouped: Vec<&str> = kernels()
            .iter()
            .filter(|kernel| kernel.group == UNGROUPED)
            .map(|kernel| kernel.name)
            .collect();
        assert!(ungrouped.is_empty(), "give these a group in library/groups.rs: {ungrouped:?}");
        let listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        assert_eq!(listed.len(), kernels().len());
        for name in listed.into_iter().chain(CUTLASS.iter().map(|(name, _)| *name)) {
            assert!(find_kernel(name).is_some(), "{name}");
        }
    }

    #[test]
    fn a_description_is_one_line() {
        for kernel in kernels() {
            let second = kernel.source.lines().nth(1).unwrap_or_default();
            assert!(!second.starts_with('#'), "{}: `list` shows the first line", kernel.name);
        }
    }

    #[test]
    fn every_kernel_is_described_and_named_as_its_file() {
        assert!(kernels().len() > 100);
        for kernel in kernels() {
            assert!(!kernel.description.is_empty(), "{}", kernel.name);
            match postlude::Kernel::parse(kernel.source) {
                Ok(parsed) => assert_eq!(parsed.name(), kernel.name),
                Err(error) => panic!("{}: {error}", kernel.name),
            }
        }
    }
}
