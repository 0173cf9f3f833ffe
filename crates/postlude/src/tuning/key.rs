//! What a measurement is of: a launch, and the GPU that ran it.

use std::hash::{Hash, Hasher};

use crate::graph::{Graph, MathMode};
use crate::placement::{Placement, Placements};
use crate::problem::Problem;
use crate::target::Chip;

/// A launch, as far as its time depends on it. Launches that differ in names alone have one key.
#[derive(Clone, Debug)]
pub struct LaunchKey {
    /// A hash of the graph without names and of the mode of its functions.
    pub graph: String,
    /// The names of the dims in the order in which the graph has them; they are for people and not compared.
    pub dims: Vec<String>,
    /// Their sizes.
    pub sizes: Vec<usize>,
    /// Where the tensors lie: `packed`, or strides and first bytes in the order of the signature.
    pub placements: String,
}

impl PartialEq for LaunchKey {
    fn eq(&self, other: &LaunchKey) -> bool {
        self.compared() == other.compared()
    }
}

impl Eq for LaunchKey {}

impl Hash for LaunchKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.compared().hash(state);
    }
}

/// Tensors without gaps.
const PACKED: &str = "packed";
/// Hexadecimal digits of a graph's hash.
const DIGITS: usize = 32;

impl LaunchKey {
    /// The launch of a graph at some sizes.
    pub fn new(
        graph: &Graph,
        math: MathMode,
        problem: &Problem,
        placements: &Placements,
    ) -> LaunchKey {
        LaunchKey::at(graph, math, problem, placements_text(graph, problem, placements))
    }

    /// The launch of its product alone, where tensors lie without gaps.
    pub(crate) fn plain(
        graph: &Graph,
        math: MathMode,
        problem: &Problem,
        placements: &Placements,
    ) -> Option<LaunchKey> {
        let packed = Some(placements_text(graph, problem, placements)).filter(|it| it == PACKED)?;
        Some(LaunchKey::at(&graph.plain()?, math, problem, packed))
    }

    fn at(graph: &Graph, math: MathMode, problem: &Problem, placements: String) -> LaunchKey {
        let canonical = graph.canonical();
        let mut hasher = blake3::Hasher::new();
        hasher.update(canonical.text.as_bytes());
        hasher.update(format!("math {math:?}").as_bytes());
        let hash = hasher.finalize().to_hex();
        let sizes = canonical.dims.iter().map(|dim| problem.sizes.get(dim).copied().unwrap_or(0));
        LaunchKey {
            graph: hash[..DIGITS].to_owned(),
            sizes: sizes.collect(),
            placements,
            dims: canonical.dims,
        }
    }

    fn compared(&self) -> (&str, &[usize], &str) {
        (&self.graph, &self.sizes, &self.placements)
    }

    /// The sizes by name, as the command line takes them.
    pub fn sizes_text(&self) -> String {
        let pairs = self.dims.iter().zip(&self.sizes);
        pairs.map(|(dim, size)| format!("{dim}={size}")).collect::<Vec<_>>().join(",")
    }
}

fn placements_text(graph: &Graph, problem: &Problem, placements: &Placements) -> String {
    // A launch takes as long whether indices are int64 or not.
    if placements.clone().with_int64(&[]) == Placements::packed(graph, problem) {
        return PACKED.to_owned();
    }
    let one = |placement: &Placement| {
        let strides: Vec<String> = placement.strides.iter().map(ToString::to_string).collect();
        let list = if placement.list.is_some() { "list:" } else { "" };
        format!("{list}{}@{}", strides.join(","), placement.start)
    };
    let inputs = placements.inputs.iter().map(|it| it.as_ref().map_or("-".to_owned(), one));
    let outputs = placements.outputs.iter().map(one);
    inputs.chain(outputs).collect::<Vec<_>>().join(" ")
}

/// A kind of GPU.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Machine {
    /// What it is called.
    pub name: String,
    /// Its compute capability.
    pub capability: (u32, u32),
    /// Its SMs.
    pub processors: u32,
}

impl Machine {
    /// Whether code that is planned for a chip is planned for this GPU.
    pub fn is(&self, chip: Chip) -> bool {
        Chip::new(self.capability, self.processors, chip.shared_bytes()) == Some(chip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::define::defined;

    fn key(source: &str, sizes: [(&str, usize); 3], math: MathMode) -> LaunchKey {
        let graph = defined(source);
        let sizes = sizes.map(|(dim, size)| (dim.to_owned(), size)).into();
        let problem = Problem::new(&graph, &sizes).expect("sizes of every dim");
        LaunchKey::new(&graph, math, &problem, &Placements::packed(&graph, &problem))
    }

    #[test]
    fn names_are_not_part_of_a_key_and_sizes_and_math_are() {
        let sizes = [("M", 64), ("N", 128), ("K", 256)];
        let one = key("D = A @ W.T", sizes, MathMode::Default);
        let renamed = "kernel f(x: bf16[T, D], w: bf16[F, D]) -> y: bf16[T, F] { y = x @ w.T }";
        let sizes_renamed = [("T", 64), ("F", 128), ("D", 256)];
        assert_eq!(one, key(renamed, sizes_renamed, MathMode::Default));
        assert_ne!(one, key("D = A @ W.T", sizes, MathMode::Fast));
        assert_ne!(one, key("D = A @ W.T", [("M", 65), sizes[1], sizes[2]], MathMode::Default));
        assert_eq!(
            (one.sizes_text().as_str(), one.placements.as_str()),
            ("M=64,K=256,N=128", "packed")
        );
    }

    #[test]
    fn tensors_that_lie_differently_have_another_key() {
        let graph = defined("D = A @ W.T");
        let sizes = [("M", 64), ("N", 128), ("K", 256)];
        let sizes = sizes.map(|(dim, size)| (dim.to_owned(), size)).into();
        let problem = Problem::new(&graph, &sizes).expect("sizes of every dim");
        let mut placements = Placements::packed(&graph, &problem);
        placements.inputs[0] = Some(Placement::at(vec![512, 1], 16));
        let key = LaunchKey::new(&graph, MathMode::Default, &problem, &placements);
        assert_eq!(key.placements, "512,1@16 256,1@0 128,1@0");
    }
}
