//! `launch.toml`: how a program is launched, and on what data.
//!
//! In: the text of a file. Out: the facts of a launch as the simulator and a driver take them, and bytes for every buffer.
//! Buffers have names there and numbers here, in the order of their names.
//! Invariant: whatever is wrong is told with the file, the line and the key.

mod buffer;
mod emitted;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use postlude_ptx::launch::{Buffer, Element, Launch, Parameter, Swizzle, TensorMap};
use postlude_ptx::shared::Region;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::failure::Mistake;
use crate::memory;
use crate::source::read_text;

use buffer::BufferFile;
pub(crate) use buffer::Held;
pub(crate) use emitted::emitted;

/// The file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LaunchFile {
    grid: [u32; 3],
    #[serde(default = "no_cluster")]
    cluster: [u32; 3],
    threads: u32,
    #[serde(default)]
    shared_bytes: u32,
    #[serde(default)]
    workspace_bytes: u64,
    #[serde(default, skip_serializing)]
    parameters: Vec<Spanned<ParameterFile>>,
    #[serde(default)]
    buffers: BTreeMap<String, Spanned<BufferFile>>,
    /// Names for parts of dynamic shared memory.
    #[serde(default, skip_serializing)]
    regions: Vec<RegionFile>,
}

/// One parameter, in the order in which the program declares them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ParameterFile {
    U32(u32),
    /// Numbers from 2^63 on are written as what they are below 2^64.
    U64(i64),
    F32(f32),
    Pointer(PointerFile),
    Map(MapFile),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PointerFile {
    buffer: String,
    #[serde(default)]
    offset: u64,
}

/// A tensor map, the innermost dim first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MapFile {
    buffer: String,
    #[serde(default)]
    offset: i64,
    element: ElementFile,
    dims: Vec<u64>,
    /// Bytes between neighbours along each dim but the innermost.
    strides: Vec<u64>,
    #[serde(rename = "box")]
    box_sizes: Vec<u32>,
    #[serde(default)]
    swizzle: SwizzleFile,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ElementFile {
    U8,
    U16,
    F16,
    BF16,
    F32,
    I32,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
enum SwizzleFile {
    #[default]
    #[serde(rename = "none")]
    None,
    #[serde(rename = "32B")]
    B32,
    #[serde(rename = "64B")]
    B64,
    #[serde(rename = "128B")]
    B128,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RegionFile {
    name: String,
    offset: u32,
    bytes: u32,
}

const fn no_cluster() -> [u32; 3] {
    [1, 1, 1]
}

/// A launch with its data.
pub(crate) struct Bound {
    pub(crate) launch: Launch,
    pub(crate) regions: Vec<Region>,
    /// By number.
    pub(crate) buffers: Vec<Held>,
}

/// A file's text, for places in it.
struct Text<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Text<'_> {
    /// Something is wrong at a place; the key of its line is named.
    fn mistake(&self, span: Option<Range<usize>>, what: &str) -> Mistake {
        let Some(span) = span else { return Mistake::file(self.path, what) };
        let before = &self.text[..span.start.min(self.text.len())];
        let number = before.matches('\n').count();
        let line = self.text.lines().nth(number).unwrap_or_default();
        let key = line.split_once('=').map_or(line, |(key, _)| key);
        let key = key.trim().trim_start_matches(['{', '[', ' ']).trim_end_matches(']');
        let key = if key.is_empty() { String::new() } else { format!(" `{key}`:") };
        Mistake::new(format!("{}:{}:{key} {what}", self.path.display(), number + 1))
    }
}

/// Times that a buffer is held: as it was, and as the program changes it.
const HELD: u128 = 2;

/// Whether buffers fit into the simulator's addresses and into this machine, before any is made.
fn check_sizes(file: &LaunchFile) -> Result<(), (Option<Range<usize>>, String)> {
    let most = u128::from(postlude_sim::MOST_BUFFER_BYTES);
    let mut all = u128::from(file.workspace_bytes);
    if all > most {
        let (has, most) = (memory::amount(all), memory::amount(most));
        let told = format!("the workspace has {has}, and the simulator has room for {most}");
        return Err((None, told));
    }
    for (name, buffer) in &file.buffers {
        let bytes = buffer.get_ref().size();
        if bytes > most {
            let (has, most) = (memory::amount(bytes), memory::amount(most));
            let told = format!("`{name}` has {has}, and the simulator has room for {most}");
            return Err((Some(buffer.span()), told));
        }
        all = all.saturating_add(bytes.saturating_mul(HELD));
    }
    match memory::available() {
        Some(have) if all > have => {
            let (need, have) = (memory::amount(all), memory::amount(have));
            Err((None, format!("the buffers need {need} of memory and {have} are available")))
        }
        Some(_) | None => Ok(()),
    }
}

/// Reads a file and everything that it names.
pub(crate) fn read(path: &Path) -> Result<Bound, Mistake> {
    let text = read_text(path)?;
    let place = Text { path, text: &text };
    let file: LaunchFile = toml::from_str(&text).map_err(|error| {
        let message = error.message().trim().replace('\n', ": ");
        place.mistake(error.span(), &message).fix("`postlude emit --launch` prints a good one")
    })?;
    let names: Vec<&String> = file.buffers.keys().collect();
    let number = |name: &String, span: Range<usize>| match names.binary_search(&name) {
        Ok(number) => Ok(Buffer(number as u32)),
        Err(_) if name == "workspace" => Ok(Buffer::WORKSPACE),
        Err(_) => Err(place
            .mistake(Some(span), &format!("there is no buffer `{name}`"))
            .fix(format!("give it its size: `[buffers.{name}]` and `bytes = 4096`"))),
    };
    let mut parameters = Vec::new();
    for parameter in &file.parameters {
        let span = parameter.span();
        parameters.push(match parameter.get_ref() {
            ParameterFile::U32(value) => Parameter::U32(*value),
            ParameterFile::U64(value) => Parameter::U64(*value as u64),
            ParameterFile::F32(value) => Parameter::F32(*value),
            ParameterFile::Pointer(PointerFile { buffer, offset }) => {
                Parameter::Pointer { buffer: number(buffer, span)?, offset: *offset }
            }
            ParameterFile::Map(map) => Parameter::Map(TensorMap {
                buffer: number(&map.buffer, span)?,
                offset: map.offset,
                element: map.element.element(),
                sizes: map.dims.clone(),
                strides: map.strides.clone(),
                box_sizes: map.box_sizes.clone(),
                swizzle: map.swizzle.swizzle(),
            }),
        });
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    check_sizes(&file).map_err(|(span, message)| {
        place.mistake(span, &message).fix("give the kernel smaller buffers")
    })?;
    let mut buffers = Vec::new();
    for (name, buffer) in &file.buffers {
        let held = buffer.get_ref().load(name, folder);
        let wrong = |mistake: Mistake| {
            let told = place.mistake(Some(buffer.span()), &mistake.message);
            Mistake { fix: mistake.fix, ..told }
        };
        buffers.push(held.map_err(wrong)?);
    }
    let region = |RegionFile { name, offset, bytes }| Region { name, offset, bytes };
    let launch = Launch {
        grid: file.grid,
        cluster: file.cluster,
        threads: file.threads,
        shared_bytes: file.shared_bytes,
        parameters,
        workspace_bytes: file.workspace_bytes,
    };
    Ok(Bound { launch, regions: file.regions.into_iter().map(region).collect(), buffers })
}

impl ElementFile {
    const fn element(self) -> Element {
        match self {
            ElementFile::U8 => Element::U8,
            ElementFile::U16 => Element::U16,
            ElementFile::F16 => Element::F16,
            ElementFile::BF16 => Element::BF16,
            ElementFile::F32 => Element::F32,
            ElementFile::I32 => Element::I32,
        }
    }

    const fn of(element: Element) -> ElementFile {
        match element {
            Element::U8 => ElementFile::U8,
            Element::U16 => ElementFile::U16,
            Element::F16 => ElementFile::F16,
            Element::BF16 => ElementFile::BF16,
            Element::F32 => ElementFile::F32,
            Element::I32 => ElementFile::I32,
        }
    }
}

impl SwizzleFile {
    const fn swizzle(self) -> Swizzle {
        match self {
            SwizzleFile::None => Swizzle::None,
            SwizzleFile::B32 => Swizzle::B32,
            SwizzleFile::B64 => Swizzle::B64,
            SwizzleFile::B128 => Swizzle::B128,
        }
    }

    const fn of(swizzle: Swizzle) -> SwizzleFile {
        match swizzle {
            Swizzle::None => SwizzleFile::None,
            Swizzle::B32 => SwizzleFile::B32,
            Swizzle::B64 => SwizzleFile::B64,
            Swizzle::B128 => SwizzleFile::B128,
        }
    }
}
