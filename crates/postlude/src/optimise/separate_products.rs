//! Products that share a launch, in launches of fewer of them.
//!
//! In: a kernel of several products, and how many of them each launch has. Out: the same kernel, whose own launch has the last
//! products. Outputs of one launch's products alone are stored by it; of what is made of several launches' products, the
//! last one reads the others' as they are.

use std::ops::Range;
use std::sync::Arc;

use super::prune::drop_unused;
use super::share_operand::copy_nodes;
use crate::graph::{Graph, Input, InputId, Op, Output, ProductId, free_name};

/// The same kernel in launches of as many products as `groups` says, in their order; `None` where it has as many launches.
pub(crate) fn separate_products(kernel: &Graph, groups: &[usize]) -> Option<Graph> {
    let [others @ .., last] = groups else { return None };
    if others.is_empty() {
        return None;
    }
    let mut separating = Separating::new(kernel, others);
    let mut first = 0;
    for size in others {
        separating.launch(first..first + size);
        first += size;
    }
    Some(separating.last(first..first + last))
}

struct Separating<'a> {
    kernel: &'a Graph,
    /// The kernel's inputs, and what launches store.
    inputs: Vec<Input>,
    /// By output, a bit for each product that it is made of.
    made_of: Vec<u64>,
    /// By output, whether a launch before the last one has all that it is made of.
    is_early: Vec<bool>,
    /// By product, the input that has its stored value.
    stored: Vec<Option<InputId>>,
}

const fn bits(products: &Range<usize>) -> u64 {
    (1 << products.end) - (1 << products.start)
}

impl<'a> Separating<'a> {
    fn new(kernel: &'a Graph, others: &[usize]) -> Separating<'a> {
        let nodes = products_of(kernel);
        let made_of = |output: &Output| output.values().fold(0, |all, it| all | nodes[it.index()]);
        let made_of: Vec<u64> = kernel.outputs().iter().map(made_of).collect();
        let starts = others.iter().scan(0, |next, size| {
            *next += size;
            Some(*next - size..*next)
        });
        let early: Vec<u64> = starts.map(|products| bits(&products)).collect();
        let fits = |own: &u64| *own != 0 && early.iter().any(|launch| own & !launch == 0);
        let is_early = made_of.iter().map(fits).collect();
        let (inputs, stored) = (kernel.inputs().to_vec(), vec![None; kernel.products().len()]);
        Separating { kernel, inputs, made_of, is_early, stored }
    }

    /// The launch of some products, before the last one.
    fn launch(&mut self, products: Range<usize>) {
        let kernel = self.kernel;
        let name = self.free_name(&[]);
        let plain = |input: &Input| Input { computed: None, result: None, ..input.clone() };
        let given = self.inputs.iter().map(plain).collect();
        let own = kernel.products()[products.clone()].to_vec();
        let mut graph = Graph::new(name, given, kernel.space().clone(), own);
        graph.take_statements(kernel);
        let places = copy_nodes(kernel, &mut graph, |new, id, op| match op {
            Op::Accumulator(ProductId(number)) => {
                // Nodes of other launches' products are not read.
                let own = products.contains(&(number as usize));
                let number = if own { number - products.start as u32 } else { 0 };
                new.make(Op::Accumulator(ProductId(number)))
            }
            op => {
                new.continue_statement(kernel, id);
                new.make(op)
            }
        });
        let mut found: Vec<(Output, Option<u32>)> = Vec::new();
        for (at, result) in kernel.own_results().into_iter().enumerate() {
            if self.is_early[at] && self.made_of[at] & bits(&products) != 0 {
                let output = kernel.outputs()[at].map(|value| places[value.index()]);
                found.push((output, Some(result as u32)));
            }
        }
        let met: Vec<usize> = products.clone().filter(|number| self.is_met(*number)).collect();
        for number in met {
            let number_here = (number - products.start) as u32;
            let value = graph.make(Op::Accumulator(ProductId(number_here)));
            let (dtype, _) = graph.stored_dtype(value);
            let dims = graph.space().dims(graph.ty(value).axes);
            let name = self.free_name(&found);
            self.stored[number] = Some(InputId((self.inputs.len() + found.len()) as u32));
            found.push((Output { name, dtype, dims, value, stack: None }, None));
        }
        for (output, _) in &found {
            graph.push_output(output.clone());
        }
        let graph = Arc::new(drop_unused(&graph).with_read_inputs());
        for (Output { name, dtype, dims, .. }, result) in found {
            let input = Input::computed_by(graph.clone(), name, dtype, dims);
            self.inputs.push(Input { result, ..input });
        }
    }

    /// Whether the last launch reads a product.
    fn is_met(&self, number: usize) -> bool {
        let mut late = self.made_of.iter().zip(&self.is_early).filter(|(_, early)| !**early);
        late.any(|(made_of, _)| made_of >> number & 1 == 1)
    }

    fn free_name(&self, found: &[(Output, Option<u32>)]) -> String {
        let is_taken = |name: &str| {
            let outputs = found.iter().any(|(output, _)| output.name == name);
            outputs || self.inputs.iter().any(|input| input.name == name)
        };
        free_name("product", is_taken)
    }

    /// The kernel's own launch, with the last products.
    fn last(self, products: Range<usize>) -> Graph {
        let Separating { kernel, inputs, is_early, stored, .. } = self;
        // Nodes that only stored outputs need would find nothing to read.
        let mut rest = kernel.without_outputs();
        let late = kernel.outputs().iter().zip(is_early).filter(|(_, early)| !early);
        late.for_each(|(output, _)| rest.push_output(output.clone()));
        let rest = drop_unused(&rest);
        let own = kernel.products()[products.clone()].to_vec();
        let mut new = Graph::new(kernel.name(), inputs, kernel.space().clone(), own);
        new.take_statements(&rest);
        let places = copy_nodes(&rest, &mut new, |new, id, op| {
            new.continue_statement(&rest, id);
            match op {
                Op::Accumulator(ProductId(number)) => {
                    let own = || Op::Accumulator(ProductId(number - products.start as u32));
                    new.make(stored[number as usize].map_or_else(own, Op::Input))
                }
                op => new.make(op),
            }
        });
        for output in rest.outputs() {
            new.push_output(output.map(|value| places[value.index()]));
        }
        new.without_unread()
    }
}

/// For each node, a bit for each product that it is made of.
fn products_of(graph: &Graph) -> Vec<u64> {
    let mut all: Vec<u64> = Vec::with_capacity(graph.len());
    for (_, node) in graph.nodes() {
        let own = match node.op {
            Op::Accumulator(ProductId(number)) => 1 << number,
            _ => 0,
        };
        all.push(node.op.operands().fold(own, |bits, operand| bits | all[operand.index()]));
    }
    all
}
