//! Inputs that graphs compute before the product.

use std::sync::Arc;

use crate::dtype::{DType, Elem};
use crate::shape::Dim;

use super::{Axes, BlockScale, Graph, Input, InputId, NodeId, Op, Product};

/// A graph that computes inputs of another one.
pub(crate) struct Earlier<'a> {
    pub(crate) graph: &'a Arc<Graph>,
    /// For each of its outputs, the input that it is.
    pub(crate) inputs: Vec<Option<InputId>>,
}

/// A graph that stores results of a kernel.
pub(crate) struct Source<'a> {
    pub(crate) graph: &'a Graph,
    /// The outputs that are results, with their places among them.
    pub(crate) results: Vec<(usize, usize)>,
}

impl Input {
    /// The input of these dims that a graph computes and that an earlier launch stores: the graph's output of its name.
    pub(crate) fn computed_by(
        graph: Arc<Graph>,
        name: String,
        dtype: DType,
        dims: Vec<Dim>,
    ) -> Input {
        Input {
            name,
            dtype,
            dims: Some(dims),
            same_as: None,
            computed: Some(graph),
            result: None,
            in_mainloop: false,
        }
    }

    /// Which output of the graph that computes it an input is: the one of its name.
    pub(crate) fn computed_output(&self) -> usize {
        let outputs = self.computed.iter().flat_map(|graph| &graph.outputs);
        let found = outputs.into_iter().position(|output| output.name == self.name);
        found.unwrap_or_else(|| panic!("compiler bug: `{}` is not computed", self.name))
    }
}

/// A name that begins so and that is not taken.
pub(crate) fn free_name(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(|name| !is_taken(name)).unwrap_or_default()
}

impl Graph {
    /// The dtype that keeps a value as it is where it is stored between graphs, and whether a cast says so.
    pub(crate) fn stored_dtype(&self, node: NodeId) -> (DType, bool) {
        match (&self[node].op, self.ty(node).elem) {
            (Op::Cast(to, _) | Op::Round(to, ..), _) if !to.is_packed() => (*to, true),
            (_, Elem::F32) => (DType::F32, false),
            (_, Elem::I32) => (DType::I32, false),
            (_, Elem::Bool) => (DType::Bool, false),
        }
    }

    /// The same graph, whose computed inputs are computed by other graphs.
    pub(crate) fn with_computed(mut self, change: impl Fn(&Graph) -> Graph) -> Graph {
        let mut changed: Vec<(Arc<Graph>, Arc<Graph>)> = Vec::new();
        for input in &mut self.inputs {
            let Some(old) = &input.computed else { continue };
            let known = changed.iter().find(|(known, _)| Arc::ptr_eq(known, old));
            let new = known.map_or_else(|| Arc::new(change(old)), |(_, new)| new.clone());
            changed.push((old.clone(), new.clone()));
            input.computed = Some(new);
        }
        self
    }

    /// The graphs that compute inputs in launches before this one's, each once.
    pub(crate) fn earlier(&self) -> Vec<Earlier<'_>> {
        let mut all: Vec<Earlier<'_>> = Vec::new();
        for (place, input) in self.inputs.iter().enumerate() {
            let Some(graph) = input.computed.as_ref().filter(|_| !input.in_mainloop) else {
                continue;
            };
            let at = all.iter().position(|known| Arc::ptr_eq(known.graph, graph));
            let at = at.unwrap_or_else(|| {
                all.push(Earlier { graph, inputs: vec![None; graph.outputs.len()] });
                all.len() - 1
            });
            all[at].inputs[input.computed_output()] = Some(InputId(place as u32));
        }
        all
    }

    /// The graphs that store results: this one, and earlier ones.
    pub(crate) fn sources(&self) -> Vec<Source<'_>> {
        let own = self.own_results().into_iter().enumerate().collect();
        let mut all = vec![Source { graph: self, results: own }];
        for Earlier { graph, inputs } in self.earlier() {
            let place = |input: InputId| self.inputs[input.0 as usize].result_place();
            let results = inputs.iter().enumerate();
            let results = results.filter_map(|(output, input)| Some((output, place((*input)?)?)));
            let results: Vec<(usize, usize)> = results.collect();
            if !results.is_empty() {
                all.push(Source { graph, results });
            }
        }
        all
    }

    /// The same graph, all of whose inputs are passed to it but for operands that it computes where it loads them.
    pub(crate) fn with_plain_inputs(&self) -> Graph {
        let mut plain = self.clone();
        let passed = plain.inputs.iter_mut().filter(|input| !input.in_mainloop);
        passed.for_each(|input| input.computed = None);
        plain
    }

    /// The same graph whose launch computes this input as it loads it.
    pub(crate) fn in_mainloop(mut self, input: InputId) -> Graph {
        let input = &mut self.inputs[input.0 as usize];
        input.in_mainloop = true;
        // Factors that left it are not read.
        input.computed = input.computed.take().map(|graph| Arc::new(graph.with_read_inputs()));
        self
    }

    /// The same graph, all of whose computed inputs are stored by earlier launches.
    pub(crate) fn with_stored_operands(mut self) -> Graph {
        self.inputs.iter_mut().for_each(|input| input.in_mainloop = false);
        self
    }

    /// Whether its launch computes an operand as it loads it.
    pub(crate) fn has_operand_in_mainloop(&self) -> bool {
        self.inputs.iter().any(|input| input.in_mainloop)
    }

    /// Inputs that are declared; computed ones follow them.
    pub fn declared_inputs(&self) -> &[Input] {
        let computed = self.inputs.iter().position(|input| input.computed.is_some());
        &self.inputs[..computed.unwrap_or(self.inputs.len())]
    }

    /// The places of the inputs of a graph that computes one of this graph's: each is an earlier input of the same name.
    pub(crate) fn places_of(&self, computing: &Graph) -> Vec<usize> {
        computing.inputs.iter().map(|input| self.place_of(&input.name)).collect()
    }

    /// The place of an input.
    pub(crate) fn place_of(&self, name: &str) -> usize {
        let found = self.inputs.iter().position(|input| input.name == name);
        found.unwrap_or_else(|| panic!("compiler bug: no input `{name}`"))
    }

    /// The same body on these inputs: each one that it reads is among them by its name.
    pub(crate) fn on_inputs(&self, inputs: &[Input]) -> Graph {
        let moved = |id: InputId| {
            let name = &self.inputs[id.0 as usize].name;
            let place = inputs.iter().position(|input| input.name == *name);
            let place = place.unwrap_or_else(|| panic!("compiler bug: no input `{name}`"));
            InputId(place as u32)
        };
        self.renumbered(moved, inputs.to_vec())
    }

    /// The same body on inputs that have other numbers.
    fn renumbered(&self, moved: impl Fn(InputId) -> InputId, inputs: Vec<Input>) -> Graph {
        let products = self.products.iter().map(|product| Product {
            left: (moved(product.left.0), product.left.1),
            right: (moved(product.right.0), product.right.1),
            scales: product
                .scales
                .iter()
                .map(|scale| BlockScale { input: moved(scale.input), ..scale.clone() })
                .collect(),
            ..product.clone()
        });
        let products = products.collect();
        let mut new = Graph::new(self.name.clone(), inputs, self.space.clone(), products);
        new.take_statements(self);
        for (id, node) in self.nodes() {
            new.continue_statement(self, id);
            // Nodes are distinct, so each has the number that it had.
            new.make(node.op.clone().map_input(&moved));
        }
        self.outputs.iter().for_each(|output| new.push_output(output.clone()));
        new
    }

    /// Whether a product's sums of runs of K are scaled.
    pub(crate) fn has_scales(&self) -> bool {
        self.products.iter().any(|product| !product.scales.is_empty())
    }

    /// The same body on another product.
    pub(crate) fn with_products(mut self, products: Vec<Product>) -> Graph {
        self.products = products;
        self
    }

    /// The same kernel without inputs that are computed and that nothing reads.
    pub(crate) fn without_unread(&self) -> Graph {
        let wanted = |input: &Input| input.computed.is_none() || input.result.is_some();
        let mut read: Vec<bool> = self.inputs.iter().map(wanted).collect();
        self.read_inputs().for_each(|id| read[id.0 as usize] = true);
        // What a graph reads comes before what it computes.
        for place in (0..self.inputs.len()).rev() {
            let Some(graph) = self.inputs[place].computed.as_ref().filter(|_| read[place]) else {
                continue;
            };
            self.places_of(graph).into_iter().for_each(|place| read[place] = true);
        }
        if read.iter().all(|read| *read) {
            return self.clone();
        }
        let kept = self.inputs.iter().zip(&read).filter(|(_, read)| **read);
        self.on_inputs(&kept.map(|(input, _)| input.clone()).collect::<Vec<_>>())
    }

    /// The same graph on the inputs that it reads alone, each in its own right.
    pub(crate) fn with_read_inputs(&self) -> Graph {
        let mut read = vec![false; self.inputs.len()];
        self.read_inputs().for_each(|id| read[id.0 as usize] = true);
        let kept = self.inputs.iter().zip(&read).filter(|(_, read)| **read);
        let kept = kept.map(|(input, _)| Input { same_as: None, ..input.clone() });
        self.on_inputs(&kept.collect::<Vec<_>>())
    }

    /// Inputs that products and nodes read.
    pub(crate) fn read_inputs(&self) -> impl Iterator<Item = InputId> + '_ {
        let products = self.products.iter().flat_map(|product| {
            let scales = product.scales.iter().map(|scale| scale.input);
            [product.left.0, product.right.0].into_iter().chain(scales)
        });
        let sources = self.inputs.iter().filter(|input| input.in_mainloop);
        let sources = sources
            .flat_map(|input| input.computed.iter())
            .flat_map(|graph| self.places_of(graph).into_iter().map(|place| InputId(place as u32)));
        let nodes = self.nodes().filter_map(|(_, node)| match node.op {
            Op::Input(input) | Op::Take(input, _) | Op::Entry(input, ..) => Some(input),
            _ => None,
        });
        let lists = self.ends().into_iter().chain(self.contraction_ends()).chain(self.row_counts());
        products.chain(sources).chain(nodes).chain(lists)
    }

    /// The input that says where segments of the contraction end.
    pub(crate) fn contraction_ends(&self) -> Option<InputId> {
        let ends = self.products.first()?.segments.as_ref()?;
        Some(InputId(self.place_of(ends) as u32))
    }

    /// The input that says how many rows of each batch are used.
    pub(crate) fn row_counts(&self) -> Option<InputId> {
        let counts = self.products.first()?.masked.as_ref()?;
        Some(InputId(self.place_of(counts) as u32))
    }

    /// Whether rows or contractions of this graph, or of one that it reads, are cut into segments.
    pub(crate) fn has_segments(&self) -> bool {
        let earlier = self.earlier();
        let all = earlier.iter().map(|earlier| &**earlier.graph).chain([self]);
        all.into_iter().any(|graph| graph.ends().or(graph.contraction_ends()).is_some())
    }

    /// The rows that are cut into segments which end where an input of this name says, if one does.
    pub fn segment_rows(&self, ends: &str) -> Option<Dim> {
        let earlier = self.earlier();
        let all = earlier.iter().map(|earlier| &**earlier.graph).chain([self]);
        let own = |graph: &Graph| {
            let contracted = graph.products.iter().find(|it| it.segments.as_deref() == Some(ends));
            let rows = graph.space.segments.as_deref() == Some(ends);
            let inner = contracted.map(|product| product.inner.clone());
            if rows { Some(graph.space.row.clone()) } else { inner }
        };
        all.into_iter().find_map(own)
    }

    /// The dims whose elements an input of this name numbers, in this graph and in the graphs that it reads: rows or elements of
    /// tables, and columns that are picked.
    pub fn index_dims(&self, index: &str) -> Vec<Dim> {
        let earlier = self.earlier();
        let all = earlier.iter().map(|earlier| &**earlier.graph).chain([self]);
        all.flat_map(|graph| graph.own_index_dims(index)).collect()
    }

    fn own_index_dims(&self, index: &str) -> Vec<Dim> {
        let is_named = |input: InputId| {
            let input = &self.inputs[input.0 as usize];
            input.name == index && input.dtype.elem() == Elem::I32
        };
        let mut made_of = vec![false; self.len()];
        let mut found = Vec::new();
        for (id, node) in self.nodes() {
            let (dims, at) = match &node.op {
                Op::Input(input) => {
                    made_of[id.index()] = is_named(*input);
                    continue;
                }
                Op::Entry(table, at, _) | Op::Take(table, at) => {
                    (self.inputs[table.0 as usize].dims.clone().unwrap_or_default(), *at)
                }
                Op::Pick(of, at) => {
                    let columns = Axes { batch: false, row: None, ..self.ty(*of).axes };
                    (self.space.dims(columns), *at)
                }
                op => {
                    made_of[id.index()] = op.operands().any(|operand| made_of[operand.index()]);
                    continue;
                }
            };
            if made_of[at.index()] {
                found.extend(dims.first().cloned());
            }
            // A list of numbers, row by row.
            made_of[id.index()] = matches!(node.op, Op::Entry(list, ..) if is_named(list));
        }
        found
    }

    /// The input that says where segments of rows end.
    pub(crate) fn ends(&self) -> Option<InputId> {
        let ends = self.space.segments.as_ref()?;
        Some(InputId(self.place_of(ends) as u32))
    }
}
