//! What the launches of a kernel store for later ones, and the memory that a call takes for it.

use crate::error::Error;
use crate::graph::Earlier;
use crate::intermediates::{Block, Lifetime, last_reads};
use crate::kernel::Compiled;
use crate::placement::Placement;
use crate::problem::Problem;
use crate::target::{Chip, Moved};

/// The memory between a kernel's launches.
#[doc(hidden)]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Workspace {
    /// The launches in their order, all but the last.
    pub launches: Vec<LaunchStores>,
    /// What the last launch moves.
    pub last: Moved,
    /// Bytes of the block that a call takes.
    pub bytes: u64,
    /// Bytes of the same values where none are shared.
    pub bytes_without_reuse: u64,
}

/// What one launch stores for later ones.
#[doc(hidden)]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaunchStores {
    /// The name of its graph.
    pub name: String,
    /// How many products it has.
    pub products: usize,
    /// The values and their bytes; outputs of the kernel are not among them.
    pub values: Vec<(String, u64)>,
    /// What it moves.
    pub moved: Moved,
}

impl Compiled {
    /// What the launches of this kernel store at the sizes of a call whose tensors lie without gaps.
    #[doc(hidden)]
    pub fn workspace(&self, problem: &Problem, chip: Chip) -> Result<Workspace, Error> {
        let graph = &self.optimised;
        let last_reads = last_reads(graph);
        let last = Moved::of(graph, &self.own_sizes(problem)?);
        let mut all = Workspace { launches: Vec::new(), last, bytes: 0, bytes_without_reuse: 0 };
        let mut lifetimes = Vec::new();
        for (launch, (earlier, compiled)) in
            graph.earlier().iter().zip(self.earlier.iter()).enumerate()
        {
            let problem = problem.of_computing(earlier.graph)?;
            let taken = compiled.taken(&problem, chip)?;
            let inside = taken.compiled.workspace(&taken.problem, chip)?;
            all.launches.extend(inside.launches);
            all.bytes_without_reuse += inside.bytes_without_reuse;
            lifetimes.push(Lifetime { bytes: inside.bytes, first: launch, last: launch });
            let mut values = Vec::new();
            for (name, place, bytes) in self.stored(earlier, &problem) {
                let last = place.and_then(|place| last_reads[place]).unwrap_or(launch);
                let stored = Lifetime { bytes, first: launch, last };
                all.bytes_without_reuse += Block::bytes_without_reuse(&[stored]);
                lifetimes.push(stored);
                values.push((name, bytes));
            }
            let (name, products) =
                (earlier.graph.name().to_owned(), earlier.graph.products().len());
            let moved = inside.last;
            all.launches.push(LaunchStores { name, products, values, moved });
        }
        Ok(Workspace { bytes: Block::of(&lifetimes).bytes, ..all })
    }

    /// The values of an earlier graph that are no outputs of the kernel: name, place among the inputs, bytes.
    fn stored(
        &self,
        earlier: &Earlier<'_>,
        problem: &Problem,
    ) -> Vec<(String, Option<usize>, u64)> {
        let inputs = self.optimised.inputs();
        let outputs = earlier.graph.outputs().iter().zip(&earlier.inputs);
        let outputs = outputs.map(|(output, input)| (output, input.map(|input| input.0 as usize)));
        let own = outputs
            .filter(|(_, place)| place.is_none_or(|place| inputs[place].result_place().is_none()));
        let bytes = own.map(|(output, place)| {
            let shape = problem.shape(&output.dims);
            let lies = Placement::between_launches(output.dtype, &shape);
            (output.name.clone(), place, lies.bytes(output.dtype, &shape) as u64)
        });
        bytes.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Workspace;
    use crate::problem::Sizes;
    use crate::target::Chip;
    use crate::{Kernel, Options};

    fn workspace(text: &str) -> Workspace {
        let compiled = Kernel::parse(text).expect("it types").compile(&Options::default());
        let dims = ["M", "N", "K", "F"].into_iter().filter(|dim| text.contains(*dim));
        let sizes: Sizes = dims.map(|dim| (dim.to_owned(), 256)).collect();
        let problem = compiled.problem(&sizes).expect("all sizes are there");
        compiled.workspace(&problem, Chip::STANDARD).expect("it is bound")
    }

    /// Bytes of a matrix of bf16.
    const MATRIX: u64 = 256 * 256 * 2;

    #[test]
    fn gate_and_up_of_two_weights_are_one_launch() {
        let found = workspace(
            "kernel k(X: bf16[M, K], G: bf16[F, K], U: bf16[F, K], V: bf16[N, F]) -> D: bf16[M, N] {
                 D = bf16(silu(X @ G.T) * (X @ U.T)) @ V.T
             }",
        );
        let [launch] = &found.launches[..] else { panic!("{found:?}") };
        assert_eq!((launch.products, launch.values.len()), (2, 1));
        assert_eq!((found.bytes, found.bytes_without_reuse), (MATRIX, MATRIX));
    }

    #[test]
    fn a_chain_keeps_two_values_at_a_time() {
        let found = workspace(
            "kernel k(X: bf16[M, K], A: bf16[K, F], B: bf16[F, N], C: bf16[N, K], E: bf16[K, F]) -> D: bf16[M, F] {
                 a = bf16(X @ A)
                 b = bf16(a @ B)
                 c = bf16(b @ C)
                 D = c @ E
             }",
        );
        assert_eq!(found.launches.len(), 3);
        assert_eq!((found.bytes, found.bytes_without_reuse), (2 * MATRIX, 3 * MATRIX));
    }

    #[test]
    fn a_reduction_of_one_product_keeps_the_launches_apart() {
        let found = workspace(
            "kernel k(X: bf16[M, K], G: bf16[N, K], U: bf16[N, K]) -> D: bf16[M, N] {
                 D = max(X @ G.T, N) * (X @ U.T)
             }",
        );
        assert_eq!(found.launches.len(), 1);
        assert_eq!(found.launches[0].products, 1);
    }
}
