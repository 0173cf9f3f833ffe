//! The Python package as a folder that Python imports from: what a wheel installs, without a wheel.

use std::path::Path;

use crate::command::root;
use crate::place::{copy_sources, create, place_program};

/// The crate of the native half.
pub(crate) const PACKAGE: &str = "postlude-py";
/// The native half as cargo names it.
pub(crate) const NATIVE: &str = "lib_native.so";
/// The package's tests.
pub(crate) const TESTS: &str = "crates/postlude-py/tests";
const SOURCES: &str = "crates/postlude-py/python/postlude";
/// The native half as Python looks for it.
const MODULE: &str = "_native.abi3.so";

/// Puts the package into `folder`, which then belongs on Python's path.
pub(crate) fn lay_out(native: &Path, folder: &Path) -> Result<(), String> {
    let package = folder.join("postlude");
    create(&package)?;
    copy_sources(&root().join(SOURCES), &package)?;
    place_program(native, &package.join(MODULE))
}
