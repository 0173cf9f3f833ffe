//! The partitions of a kernel into launches, with what they cost at the sizes of a call.

use crate::kernel::Compiled;
use crate::partition::{self, Alternative, Cut};
use crate::problem::Problem;
use crate::process;
use crate::target::{self, Chip, Price};

/// A partition of a kernel whose structure allows several.
#[doc(hidden)]
#[derive(Clone, PartialEq, Debug)]
pub struct Partition {
    /// Where it is cut; `None` where it is not.
    pub cut: Option<String>,
    /// What it costs; `None` where a launch is refused.
    pub price: Option<Price>,
    /// Whether calls of these sizes take it.
    pub taken: bool,
}

impl Compiled {
    /// Other partitions of the same kernel; none where one launch, or a schedule of the caller's, was asked for.
    fn alternatives(&self) -> &[(Cut, Compiled)] {
        if self.options.hooks.schedule.is_some() || self.options.one_launch {
            return &[];
        }
        let made = |Alternative { cut, graph, lowered }| {
            let (defined, options) = (self.defined.clone(), self.options.clone());
            (cut, Compiled::lowered(defined, graph, lowered, options))
        };
        let all = || partition::alternatives(&self.optimised, &self.lowered);
        let all = || all().into_iter().map(made).collect();
        process::once(&*self.alternatives, all).as_slice()
    }

    fn price(&self, problem: &Problem) -> Option<Price> {
        target::price(&self.optimised, &self.lowered, problem, Chip::STANDARD)
    }

    /// What the alternatives cost.
    fn other_prices(&self, problem: &Problem) -> Vec<Option<Price>> {
        self.alternatives().iter().map(|(_, other)| other.price(problem)).collect()
    }

    /// The same kernel in the launches that cost least at these sizes, where those are not its own one.
    #[doc(hidden)]
    pub fn cheaper_cut(&self, problem: &Problem) -> Option<&Compiled> {
        let all = self.alternatives();
        let own = (!all.is_empty()).then(|| self.price(problem))?;
        target::cheapest(own, &self.other_prices(problem)).map(|place| &all[place].1)
    }

    /// All partitions of a kernel that calls of these sizes choose from, its own launch first; none where there is no choice.
    #[doc(hidden)]
    pub fn partitions(&self, problem: &Problem) -> Vec<Partition> {
        let all = self.alternatives();
        if all.is_empty() {
            return Vec::new();
        }
        let (own, prices) = (self.price(problem), self.other_prices(problem));
        let cheapest = target::cheapest(own, &prices);
        let others = all.iter().zip(prices).enumerate();
        let others = others.map(|(place, ((cut, _), price))| Partition {
            cut: Some(cut.to_string()),
            price,
            taken: cheapest == Some(place),
        });
        let own = Partition { cut: None, price: own, taken: cheapest.is_none() };
        std::iter::once(own).chain(others).collect()
    }
}

#[cfg(test)]
#[cfg(feature = "sim")]
mod tests {
    use super::Partition;
    use crate::problem::{Arguments, Sizes};
    use crate::sim::SimOptions;
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
            assert_eq!(compiled.alternatives().len(), count, "{text}");
            for (cut, other) in compiled.alternatives() {
                let mut outputs = compiled.outputs(&problem).expect("it has room");
                let report =
                    other.simulate(&problem, &arguments, &mut outputs, &SimOptions::default());
                assert!(report.expect("it runs").findings.is_empty(), "{cut}");
                let found = compiled.check(&problem, &arguments, &outputs).expect("it is checked");
                assert!(found.iter().all(|output| output.wrong == 0), "{text} {cut}: {found:?}");
            }
        }
    }
}
