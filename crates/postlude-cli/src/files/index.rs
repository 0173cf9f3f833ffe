//! `model.safetensors.index.json`: which file of a checkpoint holds which tensor.

use std::fs;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use super::Format;
use super::names::choose;
use super::unique::Unique;
use crate::failure::Mistake;

/// The longest file that is read.
const MOST_BYTES: u64 = 100_000_000;

#[derive(Deserialize)]
struct Index {
    weight_map: Unique<String>,
}

/// The names of all tensors.
pub(super) fn names(path: &Path) -> Result<Vec<String>, Mistake> {
    Ok(read(path)?.weight_map.0.into_keys().collect())
}

/// The file that holds a tensor, and the tensor's name in it.
pub(super) fn follow(
    path: &Path,
    tensor: Option<&str>,
    input: &str,
) -> Result<(PathBuf, String), Mistake> {
    let map = read(path)?.weight_map.0;
    let names: Vec<&str> = map.keys().map(String::as_str).collect();
    let name = choose(path, &names, tensor, input)?;
    let file = Path::new(&map[name]);
    let is_beside = file.components().all(|part| matches!(part, Component::Normal(_)));
    if !is_beside || Format::of(file).ok() != Some(Format::Safetensors) {
        let what = format!("it places `{name}` in `{}`", file.display());
        let mistake = Mistake::file(path, what);
        return Err(mistake.fix("an index names `.safetensors` files in its own folder"));
    }
    let name = name.to_owned();
    Ok((path.parent().unwrap_or(Path::new("")).join(file), name))
}

fn read(path: &Path) -> Result<Index, Mistake> {
    let io = |error: std::io::Error| Mistake::io(path, &error);
    if fs::metadata(path).map_err(io)?.len() > MOST_BYTES {
        return Err(Mistake::file(path, "too long for the index of a checkpoint"));
    }
    let text = fs::read(path).map_err(io)?;
    serde_json::from_slice(&text)
        .map_err(|error| Mistake::file(path, format!("not the index of a checkpoint: {error}")))
}
