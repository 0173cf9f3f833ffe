//! The launches of a kernel's calls, for everything that names them without running them.

use crate::error::Error;
use crate::image;
use crate::placement::Placements;
use crate::problem::{Arguments, Problem};
use crate::program::{self, CallTensors, Chosen, KernelLaunch, Partition, Planner};
use crate::target::{Chip, Planned};

use super::compiled::Compiled;

impl Compiled {
    /// What runs a call whose tensors lie without gaps.
    #[doc(hidden)]
    pub fn chosen(&self, problem: &Problem, chip: Chip) -> Result<Chosen, Error> {
        self.chosen_at(problem, Placements::packed(self.optimised(), problem), chip)
    }

    /// The same with arguments where they are, and outputs without gaps.
    #[doc(hidden)]
    pub fn chosen_with(
        &self,
        problem: &Problem,
        arguments: &Arguments<'_>,
        chip: Chip,
    ) -> Result<Chosen, Error> {
        self.chosen_at(problem, image::placements(self.optimised(), problem, arguments), chip)
    }

    fn chosen_at(&self, problem: &Problem, of: Placements, chip: Chip) -> Result<Chosen, Error> {
        let tensors = CallTensors::with_packed_results(self.optimised(), problem, of.inputs);
        program::choose(&self.form, problem, &tensors, &Planner::on(chip))
    }

    /// The launches of a call whose tensors lie without gaps.
    #[doc(hidden)]
    pub fn launches(&self, problem: &Problem, chip: Chip) -> Result<Vec<KernelLaunch>, Error> {
        self.launches_with_int64(problem, &[], chip)
    }

    /// The same, where the inputs in these places are of int64.
    #[doc(hidden)]
    pub fn launches_with_int64(
        &self,
        problem: &Problem,
        int64: &[usize],
        chip: Chip,
    ) -> Result<Vec<KernelLaunch>, Error> {
        let packed = Placements::packed(self.optimised(), problem).with_int64(int64);
        Ok(self.chosen_at(problem, packed, chip)?.launches().cloned().collect())
    }

    /// How the last launch of a call runs whose tensors lie without gaps.
    #[doc(hidden)]
    pub fn last_launch(&self, problem: &Problem, chip: Chip) -> Result<Planned, Error> {
        Ok(self.chosen(problem, chip)?.last().planned().clone())
    }

    /// The same kernel as a call of these sizes runs whose tensors lie without gaps: every launch, those before the last one
    /// too, keeps the schedule that it has here. Chunks of a dim keep their size.
    #[doc(hidden)]
    pub fn pinned(&self, problem: &Problem) -> Result<Compiled, Error> {
        let packed = Placements::packed(self.optimised(), problem);
        let tensors = CallTensors::with_packed_results(self.optimised(), problem, packed.inputs);
        let planner = Planner::on(Chip::STANDARD);
        let form = program::pinned(&self.form, problem, &tensors, &planner)?;
        let (defined, on_cpu) = (self.defined.clone(), self.on_cpu.clone());
        Ok(Compiled::new(defined, on_cpu, form, self.options.clone()))
    }

    /// All partitions of a kernel that calls of these sizes choose from, its own launch first; none where there is no choice.
    #[doc(hidden)]
    pub fn partitions(&self, problem: &Problem) -> Vec<Partition> {
        self.form.partitions(problem, Chip::STANDARD)
    }
}

#[cfg(test)]
#[cfg(feature = "sim")]
mod tests {
    use crate::placement::Placements;
    use crate::problem::{Arguments, Sizes};
    use crate::program::{self, CallTensors, LaunchForm, Partition, Planner, Workspace};
    use crate::sim::SimOptions;
    use crate::target::Chip;
    use crate::{Compiled, DType, Kernel, Options, Tensor};

    const THREE: &str = "kernel k(X: bf16[M, K], Q: bf16[N, K], P: bf16[N, K], V: bf16[N, K])
        -> (D: bf16[M, N], E: bf16[M, N], F: bf16[M, N]) { D = X @ Q.T; E = X @ P.T; F = X @ V.T }";
    const ROWS: &str = "kernel k(A: bf16[M, K], W: bf16[N, K]) -> D: bf16[M, N] {
        h = bf16(A @ W.T); D = softmax(h, N) }";

    fn compiled(text: &str) -> Compiled {
        Kernel::parse(text).expect("it types").compile(&Options::default())
    }

    fn sizes(m: usize, n: usize, k: usize) -> Sizes {
        [("M", m), ("N", n), ("K", k)].map(|(dim, size)| (dim.to_owned(), size)).into()
    }

    /// How many launches a call takes.
    fn launches(text: &str, [m, n, k]: [usize; 3]) -> usize {
        let compiled = compiled(text);
        let problem = compiled.problem(&sizes(m, n, k)).expect("all sizes are there");
        let all = compiled.partitions(&problem);
        let taken: Vec<&Partition> = all.iter().filter(|partition| partition.taken).collect();
        let [Partition { price: Some(price), .. }] = taken[..] else { panic!("{all:?}") };
        let least = all.iter().filter_map(|it| it.price).map(|price| price.cycles);
        assert!(least.into_iter().all(|cycles| cycles >= price.cycles), "{all:?}");
        price.launches
    }

    #[test]
    fn sizes_decide_how_many_products_share_a_launch() {
        assert_eq!(launches(THREE, [16, 4096, 4096]), 2);
        assert_eq!(launches(THREE, [4096, 4096, 4096]), 1);
    }

    #[test]
    fn sizes_decide_whether_rows_are_reduced_by_the_products_launch() {
        assert_eq!(launches(ROWS, [4096, 1024, 4096]), 2);
        assert_eq!(launches(ROWS, [4096, 128, 512]), 1);
    }

    #[test]
    fn one_launch_that_was_asked_for_has_no_alternative() {
        let options = Options { one_launch: true, ..Options::default() };
        let compiled = Kernel::parse(ROWS).expect("it types").compile(&options);
        let problem = compiled.problem(&sizes(4096, 1024, 4096)).expect("all sizes are there");
        assert!(compiled.partitions(&problem).is_empty());
    }

    #[test]
    fn every_partition_computes_the_same() {
        let meeting =
            "kernel k(X: bf16[M, K], Q: bf16[N, K], P: bf16[N, K], V: bf16[N, K], U: bf16[N, K])
            -> (D: f32[M, N], E: bf16[M, N]) {
                q = X @ Q.T
                D = relu(q) * (X @ V.T) + X @ P.T
                E = q - (X @ U.T)
            }";
        for (text, count) in [(THREE, 2), (ROWS, 1), (meeting, 4)] {
            let compiled = compiled(text);
            let problem = compiled.problem(&sizes(24, 40, 32)).expect("all sizes are there");
            let inputs =
                compiled.defined().declared_inputs().iter().enumerate().map(|(place, input)| {
                    let shape = problem.shape(input.dims.as_deref().unwrap_or_default());
                    let count: usize = shape.iter().product();
                    let value = |at: usize| ((at * 7 + place * 3) % 5) as f64 - 2.0;
                    let values: Vec<f64> = (0..count).map(value).collect();
                    let tensor =
                        Tensor::from_values(DType::BF16, shape, &values).expect("it has room");
                    (input.name.clone(), tensor.into())
                });
            let arguments: Arguments<'_> = inputs.collect();
            assert_eq!(compiled.form.alternatives().len(), count, "{text}");
            for (cut, other) in compiled.form.alternatives() {
                let (defined, on_cpu) = (compiled.defined.clone(), compiled.on_cpu.clone());
                let other = Compiled::new(defined, on_cpu, other.clone(), compiled.options.clone());
                let mut outputs = compiled.outputs(&problem).expect("it has room");
                let report =
                    other.simulate(&problem, &arguments, &mut outputs, &SimOptions::default());
                assert!(report.expect("it runs").findings.is_empty(), "{cut}");
                let found = compiled.check(&problem, &arguments, &outputs).expect("it is checked");
                assert!(found.iter().all(|output| output.wrong == 0), "{text} {cut}: {found:?}");
            }
        }
    }

    fn workspace(text: &str) -> Workspace {
        let compiled = Kernel::parse(text).expect("it types").compile(&Options::default());
        let dims = ["M", "N", "K", "F"].into_iter().filter(|dim| text.contains(*dim));
        let sizes: Sizes = dims.map(|dim| (dim.to_owned(), 256)).collect();
        let problem = compiled.problem(&sizes).expect("all sizes are there");
        compiled.chosen(&problem, Chip::STANDARD).expect("it is planned").workspace()
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
        let [launch, _] = &found.launches[..] else { panic!("{found:?}") };
        assert_eq!((launch.products, launch.values.len()), (2, 1));
        assert_eq!((found.bytes, found.bytes_without_reuse), (MATRIX, MATRIX));
    }

    #[test]
    fn a_call_that_does_not_fit_what_is_free_is_run_in_chunks() {
        let compiled = compiled(
            "kernel k(X: bf16[M, K], A: bf16[F, K], B: bf16[N, F]) -> D: bf16[M, N] {
                 D = bf16(X @ A.T) @ B.T
             }",
        );
        let sizes = [("M", 256), ("N", 256), ("K", 256), ("F", 4096)];
        let sizes = sizes.map(|(dim, size)| (dim.to_owned(), size));
        let problem = compiled.problem(&sizes.into()).expect("all sizes are there");
        let packed = Placements::packed(compiled.optimised(), &problem).inputs;
        let tensors = CallTensors::with_packed_results(compiled.optimised(), &problem, packed);
        let chosen = |room: u64| {
            let planner = Planner { room, ..Planner::on(Chip::STANDARD) };
            program::choose(&compiled.form, &problem, &tensors, &planner).expect("it is planned")
        };
        let whole = chosen(16 * MATRIX);
        assert_eq!((whole.how, whole.block.bytes), (LaunchForm::Whole, 16 * MATRIX));
        for room in [16 * MATRIX - 1, 8 * MATRIX, 3 * MATRIX] {
            let chosen = chosen(room);
            assert_eq!(chosen.how, LaunchForm::Chunked);
            assert!(chosen.block.bytes <= room, "{} of {room}", chosen.block.bytes);
        }
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
        assert_eq!(found.launches.len(), 4);
        assert_eq!((found.bytes, found.bytes_without_reuse), (2 * MATRIX, 3 * MATRIX));
    }

    #[test]
    fn a_reduction_of_one_product_keeps_the_launches_apart() {
        let found = workspace(
            "kernel k(X: bf16[M, K], G: bf16[N, K], U: bf16[N, K]) -> D: bf16[M, N] {
                 D = max(X @ G.T, N) * (X @ U.T)
             }",
        );
        assert_eq!(found.launches.len(), 2);
        assert_eq!(found.launches[0].products, 1);
    }
}
