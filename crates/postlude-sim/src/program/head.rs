//! What stands around a kernel's instructions: its name, parameters, registers, threads and cluster.
//!
//! In: directives, one by one. Out: [`Head`]. Directives that do not change what a kernel computes are passed over.

use postlude_ptx::types::Class;

/// Registers of a class: many times what any kernel names, and little enough to hold for every warp.
const MOST_REGISTERS: u32 = 1 << 18;

/// A parameter as declared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Declared {
    pub(crate) name: String,
    /// Bytes from the start of the parameters.
    pub(crate) offset: u32,
    pub(crate) bytes: u32,
}

/// Shared memory that the text declares: bytes, or without a size the dynamic part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Static {
    pub(crate) name: String,
    pub(crate) alignment: u32,
    pub(crate) bytes: Option<u32>,
}

/// All that is declared.
#[derive(Clone, Default, Debug)]
pub(crate) struct Head {
    pub(crate) entry: Option<String>,
    pub(crate) parameters: Vec<Declared>,
    /// Registers of each class.
    pub(crate) registers: [u32; 5],
    pub(crate) threads: Option<u32>,
    pub(crate) cluster: Option<[u32; 3]>,
    pub(crate) shared: Vec<Static>,
}

impl Head {
    /// Takes one directive; nothing when it is not understood.
    pub(crate) fn directive(&mut self, text: &str) -> Option<()> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match *words.first()? {
            ".reg" => self.register(text),
            ".maxntid" | ".reqntid" => {
                let [x, y, z] = triple(text)?;
                self.threads = Some(x.checked_mul(y)?.checked_mul(z)?);
                Some(())
            }
            ".reqnctapercluster" => {
                self.cluster = Some(triple(text)?);
                Some(())
            }
            ".version" | ".target" | ".address_size" | ".file" | ".loc" | ".minnctapersm"
            | ".maxnctapersm" | ".maxnreg" | ".explicitcluster" | ".maxclusterrank"
            | ".noreturn" | ".pragma" | ".section" => Some(()),
            _ if words.contains(&".shared") => self.shared(text),
            _ if words.contains(&".entry") => self.entry(text),
            _ => None,
        }
    }

    /// `.reg .b32 %r<4>;`
    fn register(&mut self, text: &str) -> Option<()> {
        let name = text.trim_end_matches(';').split_whitespace().last()?;
        let (prefix, count) = name.strip_suffix('>')?.split_once('<')?;
        let class = Class::ALL.into_iter().find(|class| class.prefix() == prefix)?;
        self.registers[class.index()] =
            count.parse().ok().filter(|count| *count <= MOST_REGISTERS)?;
        Some(())
    }

    /// `.extern .shared .align 1024 .b8 name[];`
    fn shared(&mut self, text: &str) -> Option<()> {
        let (element, alignment, name, count) = declaration(text.trim_end_matches(';'))?;
        let bytes = match count {
            Some("") => None,
            Some(count) => Some(count.parse::<u32>().ok()?.checked_mul(element)?),
            None => Some(element),
        };
        self.shared.push(Static { name, alignment, bytes });
        Some(())
    }

    /// `.visible .entry name(.param .u64 a, .param .align 64 .b8 map[128])`
    fn entry(&mut self, text: &str) -> Option<()> {
        if self.entry.is_some() {
            return None;
        }
        let (before, after) = text.split_once('(').unwrap_or((text, ")"));
        self.entry = Some(before.split_whitespace().last()?.to_owned());
        let mut offset = 0_u32;
        let inside = after.trim_end().strip_suffix(')')?;
        for parameter in inside.split(',').filter(|each| !each.trim().is_empty()) {
            let (element, alignment, name, count) = declaration(parameter)?;
            let count = count.map_or(Some(1), |count| count.parse::<u32>().ok())?;
            let bytes = element.checked_mul(count)?;
            offset = offset.checked_next_multiple_of(alignment)?;
            self.parameters.push(Declared { name, offset, bytes });
            offset = offset.checked_add(bytes)?;
        }
        Some(())
    }
}

/// Bytes of an element, alignment, name, and what stands between brackets.
fn declaration(text: &str) -> Option<(u32, u32, String, Option<&str>)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (name, count) = match words.last()?.split_once('[') {
        Some((name, count)) => (name, Some(count.strip_suffix(']')?)),
        None => (*words.last()?, None),
    };
    let element = words.iter().find_map(|word| match *word {
        ".b8" | ".u8" | ".s8" => Some(1),
        ".b16" | ".u16" | ".s16" | ".f16" => Some(2),
        ".b32" | ".u32" | ".s32" | ".f32" => Some(4),
        ".b64" | ".u64" | ".s64" | ".f64" => Some(8),
        _ => None,
    })?;
    let stated = words.iter().position(|word| *word == ".align");
    let alignment = match stated {
        Some(at) => words.get(at + 1)?.parse::<u32>().ok().filter(|each| each.is_power_of_two())?,
        None => element,
    };
    Some((element, alignment, name.to_owned(), count))
}

/// `.maxntid 384, 1, 1`; dims that are not stated are 1.
fn triple(text: &str) -> Option<[u32; 3]> {
    let (_, numbers) = text.split_once(' ')?;
    let mut values = [1; 3];
    for (place, number) in numbers.split(',').enumerate() {
        *values.get_mut(place)? = number.trim().parse().ok()?;
    }
    Some(values)
}
