//! Refuses what does not fit into the machine's memory, before it is tried.

use std::fs;

use postlude::graph::{Graph, Value};
use postlude::reference::{self, Extent};
use postlude::{Backend, Problem};

use crate::failure::Mistake;

/// What a run holds at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Need {
    /// Inputs, outputs and what the backend makes of them, in bytes.
    pub(crate) bytes: u128,
}

impl Need {
    /// An estimate from below: what is refused would not have fitted.
    pub(crate) fn of(
        graph: &Graph,
        problem: &Problem,
        backend: Backend,
        checked: Option<Extent>,
    ) -> Need {
        let bits = |bits: usize, dims: &[postlude::shape::Dim]| {
            problem.shape(dims).iter().map(|size| *size as u128).product::<u128>() * bits as u128
        };
        let inputs =
            graph.inputs().iter().filter_map(|i| Some(bits(i.dtype.bits(), i.dims.as_ref()?)));
        let outputs = graph.outputs().iter().map(|output| bits(output.dtype.bits(), &output.dims));
        let mut bytes = inputs.chain(outputs).sum::<u128>() / 8;
        if backend == Backend::Reference || checked == Some(Extent::All) {
            bytes += reference_bytes(graph, problem);
        } else if let Some(extent) = checked {
            let elements = reference::held_elements(graph, problem, extent);
            bytes += u128::from(elements) * size_of::<Value>() as u128;
        }
        Need { bytes }
    }

    /// Refuses the run if the machine has less.
    pub(crate) fn require(self) -> Result<(), Mistake> {
        match available() {
            Some(have) if self.bytes > have => Err(Mistake::new(format!(
                "this run needs {} of memory and {} are available: {} are missing",
                amount(self.bytes),
                amount(have),
                amount(self.bytes - have)
            ))
            .fix("make the sizes smaller")),
            Some(_) | None => Ok(()),
        }
    }
}

/// The reference keeps an array for every value it computes.
fn reference_bytes(graph: &Graph, problem: &Problem) -> u128 {
    let live = graph.live();
    graph
        .nodes()
        .filter(|(id, _)| live[id.index()])
        .map(|(_, node)| {
            problem.extents(node.ty.axes).iter().map(|size| *size as u128).product::<u128>()
        })
        .sum::<u128>()
        * size_of::<Value>() as u128
}

/// Memory that can be had without swapping; `None` where the system does not say.
pub(crate) fn available() -> Option<u128> {
    let free = meminfo("MemAvailable:")?;
    // A container's limit, where there is one, is the machine.
    let limit = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit = limit.and_then(|limit| limit.trim().parse::<u128>().ok());
    let have = limit.map_or(free, |limit| limit.min(free));
    Some(left_of_limit().map_or(have, |left| left.min(have)))
}

/// What is left of the address space that the process may have (`ulimit -v`), where that is limited.
fn left_of_limit() -> Option<u128> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let limit: u128 = line.split_whitespace().next()?.parse().ok()?;
    let used = kibibytes("/proc/self/status", "VmSize:")?;
    Some(limit.saturating_sub(used))
}

/// All the memory there is.
pub(crate) fn total() -> Option<u128> {
    meminfo("MemTotal:")
}

fn meminfo(field: &str) -> Option<u128> {
    kibibytes("/proc/meminfo", field)
}

/// The amount behind a word of a file of the system, in bytes.
fn kibibytes(file: &str, field: &str) -> Option<u128> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: u128 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// An amount of memory for people.
pub(crate) fn amount(bytes: u128) -> String {
    const UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} bytes") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_short() {
        assert_eq!(amount(17), "17 bytes");
        assert_eq!(amount(23_400_000_000), "23.4 GB");
        assert_eq!(
            amount(u128::MAX / 1_000_000_000_000_000_000),
            "340282366920938463463.4 PB".replace("340282366920938463463.4", "340282.4")
        );
    }
}
