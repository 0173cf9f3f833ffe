//! The kernels that come with Postlude, carried inside the binary.
//!
//! Out: every file of the folder `kernels`, by name.

use std::sync::LazyLock;

/// A kernel of the library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LibraryKernel {
    /// Its name, which is its file's.
    pub name: &'static str,
    /// What it is for: the comment it starts with.
    pub description: &'static str,
    /// Its text.
    pub source: &'static str,
}

/// Names and texts, sorted by name.
static SOURCES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

static KERNELS: LazyLock<Vec<LibraryKernel>> = LazyLock::new(|| {
    let described = SOURCES.iter().map(|&(name, source)| {
        let comment = source.lines().next().and_then(|line| line.strip_prefix('#'));
        LibraryKernel { name, description: comment.unwrap_or_default().trim(), source }
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
    use super::kernels;

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
