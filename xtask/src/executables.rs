//! What a build made, as cargo's messages say it.

use std::path::PathBuf;

use serde_json::Value;

use crate::command::{answer, cargo};

/// An executable.
pub(crate) struct Executable {
    /// The name of its target.
    pub(crate) name: String,
    /// The name of its package.
    pub(crate) package: String,
    /// The file.
    pub(crate) path: PathBuf,
    /// The folder of its package: where cargo runs tests.
    pub(crate) folder: PathBuf,
}

/// Builds, and finds the executables that `wanted` says, in the order of the build.
///
/// `arguments` have to ask for `--message-format=json` or `json-render-diagnostics`.
pub(crate) fn executables(
    arguments: &[&str],
    environment: &[(&str, &str)],
    wanted: impl Fn(&Value) -> bool,
) -> Result<Vec<Executable>, String> {
    println!("$ cargo {}", arguments.join(" "));
    let messages = answer(cargo(arguments).envs(environment.iter().copied()))?;
    let mut found = Vec::new();
    for line in messages.lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        let (Some(path), Some(name), Some(manifest)) = (
            message["executable"].as_str(),
            message["target"]["name"].as_str(),
            message["manifest_path"].as_str().map(PathBuf::from),
        ) else {
            continue;
        };
        if wanted(&message) {
            let folder = manifest.parent().map_or_else(PathBuf::new, PathBuf::from);
            let package = folder.file_name().map(|name| name.to_string_lossy().into_owned());
            found.push(Executable {
                name: name.to_owned(),
                package: package.unwrap_or_default(),
                path: PathBuf::from(path),
                folder,
            });
        }
    }
    if found.is_empty() { Err("nothing was built".to_owned()) } else { Ok(found) }
}
