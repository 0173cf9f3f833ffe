//! What a build made, as cargo's messages say it.

use std::path::PathBuf;

use serde_json::Value;

use crate::command::{answer, cargo};

/// Builds; cargo's messages. `arguments` have to ask for `--message-format=json` or `json-render-diagnostics`.
fn build(arguments: &[&str], environment: &[(&str, &str)]) -> Result<Vec<Value>, String> {
    println!("$ cargo {}", arguments.join(" "));
    let messages = answer(cargo(arguments).envs(environment.iter().copied()))?;
    Ok(messages.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// Builds, and finds the files of these names, in their order.
pub(crate) fn files<const N: usize>(
    arguments: &[&str],
    names: [&str; N],
) -> Result<[PathBuf; N], String> {
    let messages = build(arguments, &[])?;
    let built = messages.iter().filter_map(|message| message["filenames"].as_array());
    let built: Vec<PathBuf> =
        built.flatten().filter_map(|file| file.as_str().map(PathBuf::from)).collect();
    let mut found = [const { PathBuf::new() }; N];
    for (place, name) in found.iter_mut().zip(names) {
        let file = built.iter().find(|file| file.ends_with(name));
        place.clone_from(file.ok_or_else(|| format!("no {name} was built"))?);
    }
    Ok(found)
}

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
pub(crate) fn executables(
    arguments: &[&str],
    environment: &[(&str, &str)],
    wanted: impl Fn(&Value) -> bool,
) -> Result<Vec<Executable>, String> {
    let mut found = Vec::new();
    for message in build(arguments, environment)? {
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
