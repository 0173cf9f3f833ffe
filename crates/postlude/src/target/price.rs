//! What the launches of a kernel move and cost at the sizes of a call.

use crate::dtype::DType;
use crate::graph::{Graph, Input, Op};
use crate::problem::Problem;
use crate::shape::Dim;

/// What a partition of a kernel costs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Price {
    /// How many launches there are.
    pub launches: usize,
    /// Bytes that they move.
    pub bytes: u64,
    /// Cycles of all launches and between them, as the model counts them.
    pub cycles: f64,
}

/// Bytes that one launch moves, each tensor once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moved {
    /// Bytes of inputs.
    pub read: u64,
    /// Bytes of outputs.
    pub written: u64,
}

fn bytes(problem: &Problem, dtype: DType, dims: &[Dim]) -> u64 {
    dtype.bytes_for(problem.shape(dims).iter().product()) as u64
}

impl Moved {
    /// What the last launch of a graph moves.
    pub(crate) fn of(graph: &Graph, problem: &Problem) -> Moved {
        let mut is_read = vec![false; graph.inputs().len()];
        graph.read_inputs().for_each(|id| is_read[id.0 as usize] = true);
        Moved::of_inputs(graph, problem, is_read)
    }

    /// The same beside its products.
    fn of_epilogue(graph: &Graph, problem: &Problem) -> Moved {
        let mut is_read = vec![false; graph.inputs().len()];
        let nodes = graph.nodes().filter_map(|(_, node)| match node.op {
            Op::Input(input) => Some(input),
            _ => node.op.table(),
        });
        nodes.for_each(|id| is_read[id.0 as usize] = true);
        Moved::of_inputs(graph, problem, is_read)
    }

    /// Bytes that an epilogue moves beyond a 16-bit result of each product, which the model of products is fitted to.
    pub(crate) fn beyond_results(graph: &Graph, problem: &Problem) -> u64 {
        let space = graph.space();
        let dims = space.dims(space.accumulator_axes());
        let results = graph.products().len() as u64 * bytes(problem, DType::BF16, &dims);
        if results == 0 {
            return 0;
        }
        Moved::of_epilogue(graph, problem).bytes().saturating_sub(results)
    }

    fn of_inputs(graph: &Graph, problem: &Problem, is_read: Vec<bool>) -> Moved {
        let inputs = graph.inputs().iter().zip(is_read);
        // An operand that the launch computes lies in no memory; what it is made of is read.
        let inputs = inputs.filter(|(input, is_read)| *is_read && !input.in_mainloop);
        let input =
            |input: &Input| bytes(problem, input.dtype, input.dims.as_deref().unwrap_or_default());
        let read = inputs.map(|(it, _)| input(it)).sum();
        let written = graph.outputs().iter().map(|it| bytes(problem, it.dtype, &it.dims)).sum();
        Moved { read, written }
    }

    /// Both ways.
    pub const fn bytes(self) -> u64 {
        self.read + self.written
    }
}

/// The cheapest of a kernel's partitions, by its place, where it costs less than its own launch or that one is refused.
pub(crate) fn cheapest(own: Option<Price>, others: &[Option<Price>]) -> Option<usize> {
    let cycles = |price: &Option<Price>| price.map_or(f64::INFINITY, |price| price.cycles);
    let others = others.iter().enumerate().filter(|(_, other)| cycles(other) < cycles(&own));
    let best = others.min_by(|(_, one), (_, other)| cycles(one).total_cmp(&cycles(other)));
    best.map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheapest_is_taken_where_it_costs_less_or_the_own_launch_is_refused() {
        let price = |cycles: f64| Some(Price { launches: 1, bytes: 0, cycles });
        assert_eq!(cheapest(price(5.0), &[price(6.0), None]), None);
        assert_eq!(cheapest(price(5.0), &[price(4.0), price(3.0), price(3.0)]), Some(1));
        assert_eq!(cheapest(price(5.0), &[price(5.0)]), None);
        assert_eq!(cheapest(None, &[None, price(9.0)]), Some(1));
        assert_eq!(cheapest(None, &[None]), None);
    }
}
