//! What the inputs and outputs of a graph of slices are of the call's.

use postlude_ptx::launch::{Buffer, Parameter};

use crate::graph::{Graph, IndexAxis, Op};
use crate::lower::refusal::{LowerRefusal, first};
use crate::lower::rules::Rule;
use crate::lower::runs::least_common_multiple;
use crate::placement::{Placement, Placements};
use crate::problem::Problem;
use crate::shape::Dim;

use super::slice::Slice;
use super::window::{Number, Window};

/// Whole numbers up to here are floats.
const MOST_NUMBERED: usize = 1 << 24;

/// What the inputs and outputs of a graph are of the one that it was made from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Views {
    /// Inputs of the graph that it was made from; views follow them.
    pub(super) inputs: usize,
    pub(super) of_inputs: Vec<View>,
    pub(super) of_outputs: Vec<View>,
    /// Windows of the product's columns.
    pub(super) windows: Vec<Window>,
    /// What a fixed size of columns was divided by.
    pub(super) divided: usize,
    /// Whether it is the same graph.
    pub(super) whole: bool,
}

/// What an output is of the kernel's: which one, and where values are stacked the dim and the place.
pub(crate) type Element = (usize, Option<(usize, usize)>);

/// Some columns of a tensor.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct View {
    /// Its place among the inputs, or the outputs.
    pub(super) of: usize,
    /// Which of its dims are columns, and which of them; all where there is none.
    pub(super) columns: Option<(usize, Slice)>,
    /// Which of its dims values are stacked along, and the place of this one.
    pub(super) stacked: Option<(usize, usize)>,
    /// The window of the product's columns that the tensor's are, by its number.
    pub(super) window: Option<usize>,
    /// What it is where it is no tensor.
    pub(super) number: Option<Number>,
}

impl Views {
    /// Those of a graph that splits nothing.
    pub(crate) fn whole(graph: &Graph) -> Views {
        let output_views = (0..graph.outputs().len()).map(View::all);
        Views {
            inputs: graph.inputs().len(),
            of_inputs: Vec::new(),
            of_outputs: output_views.collect(),
            windows: Vec::new(),
            divided: 1,
            whole: true,
        }
    }

    /// The same views of the outputs that others were unstacked from.
    pub(crate) fn stacked(mut self, elements: &[Element]) -> Views {
        for view in &mut self.of_outputs {
            (view.of, view.stacked) = elements[view.of];
        }
        self
    }

    /// Those of a graph whose parts are windows.
    pub(crate) fn of_windows(
        inputs: usize,
        of_inputs: Vec<View>,
        of_outputs: Vec<View>,
        windows: Vec<Window>,
    ) -> Views {
        Views { inputs, of_inputs, of_outputs, windows, divided: 1, whole: false }
    }

    /// What these views of a graph of windows are of the graph that that one was made from.
    pub(crate) fn of(self, first: &Views) -> Result<Views, LowerRefusal> {
        if self.whole {
            return Ok(first.clone());
        }
        let mut of_inputs = first.of_inputs.clone();
        of_inputs.extend(self.of_inputs.into_iter().map(|view| {
            match view.of.checked_sub(first.inputs) {
                Some(place) => View { columns: view.columns, ..first.of_inputs[place].clone() },
                None => view,
            }
        }));
        let of_output =
            |view: View| View { columns: view.columns, ..first.of_outputs[view.of].clone() };
        let of_outputs: Vec<View> = self.of_outputs.into_iter().map(of_output).collect();
        // The columns of a half lie on one side of a window's start for some sizes and on both for others.
        let halved = |view: &View| {
            view.window.is_some() && view.columns.is_some_and(|(_, slice)| slice.halvings > 0)
        };
        if of_inputs.iter().chain(&of_outputs).any(halved) {
            return Err(Rule::NamedParts.anywhere());
        }
        let (inputs, windows) = (first.inputs, first.windows.clone());
        Ok(Views { inputs, of_inputs, of_outputs, windows, divided: self.divided, whole: false })
    }

    /// The tensor of the call that an input is, or is a view of.
    pub(crate) fn source(&self, input: usize) -> usize {
        let view = input.checked_sub(self.inputs).map(|view| &self.of_inputs[view]);
        view.filter(|view| view.number.is_none()).map_or(input, |view| view.of)
    }

    /// The window of an input's columns, by its number.
    pub(crate) fn input_window(&self, input: usize) -> Option<usize> {
        self.of_inputs.get(input.checked_sub(self.inputs)?)?.window
    }

    /// The window of an output's columns, by its number.
    pub(crate) fn output_window(&self, output: usize) -> Option<usize> {
        self.of_outputs[output].window
    }

    /// The columns of a run and of its part, where tensors of a window have those of one part of each run.
    pub(crate) fn fold(&self, window: usize) -> Option<[u32; 2]> {
        self.windows[window].fold
    }

    /// How many windows there are.
    pub(crate) fn windows(&self) -> usize {
        self.windows.len()
    }

    /// Where windows begin and how many columns they have, in the columns of the slices; the problem is theirs.
    pub(crate) fn bounds(
        &self,
        graph: &Graph,
        (problem, call): (&Problem, &Problem),
    ) -> Result<Vec<[u32; 2]>, LowerRefusal> {
        let shared = (call.product_columns() / problem.product_columns().max(1)).max(1);
        let bounds = |window: &Window| {
            let (start, width) = (window.start(call), window.width(call));
            let multiple = least_common_multiple(window.multiple, shared as u32) as usize;
            if !start.is_multiple_of(multiple) || !width.is_multiple_of(shared) {
                let run = |op: &Op| matches!(op, Op::Reduce(..));
                return Err(Rule::UnevenWindow.at_first(graph, run));
            }
            Ok([start / shared, width / shared].map(|size| size as u32))
        };
        self.windows.iter().map(bounds).collect()
    }

    /// The numbers that the host passes, those of windows among them.
    pub(crate) fn scalars(&self, scalars: &[Option<f64>], call: &Problem) -> Vec<Option<f64>> {
        let own = |view: &View| view.number.as_ref().map(|number| number.value(call));
        scalars.iter().copied().chain(self.of_inputs.iter().map(own)).collect()
    }

    /// Refuses sizes that slices do not divide, and numbers of columns that the size of a slice, which is a float, would not
    /// give exactly. The graph and the problem are those of the slices.
    pub(crate) fn refuse(&self, graph: &Graph, problem: &Problem) -> Result<(), LowerRefusal> {
        let numbered = |op: &Op| *op == Op::Index(IndexAxis::Column);
        if self.whole {
            return Ok(());
        }
        let columns = problem.columns;
        let uneven = |divisor: &u32| !columns.is_multiple_of(*divisor as usize);
        if graph.column_multiples().iter().any(uneven) {
            return Err(Rule::UnevenParts.anywhere());
        }
        if problem.product_columns() > MOST_NUMBERED
            && let Some(node) = first(graph, numbered)
        {
            return Err(Rule::ManyNumbered.at(graph, node));
        }
        Ok(())
    }

    /// The sizes of the slices' columns. A launch before may have stored operands with another contraction.
    pub(crate) fn problem(&self, graph: &Graph, problem: &Problem) -> Problem {
        let product = graph.products().first();
        let inner = product.map(|product| problem.shape(std::slice::from_ref(&product.inner))[0]);
        Problem {
            inner: inner.unwrap_or(problem.inner),
            columns: problem.columns / self.divided,
            column_divisor: graph.space().column.divisor(),
            ..problem.clone()
        }
    }

    /// Where the tensors of the slices lie; the graph and the problem are theirs.
    pub(crate) fn placements(
        &self,
        graph: &Graph,
        problem: &Problem,
        placements: &Placements,
    ) -> Placements {
        let own = &graph.inputs()[self.inputs..];
        let views = self.of_inputs.iter().zip(own).map(|(view, input)| {
            let (dims, placement) = (input.dims.as_ref()?, placements.inputs[view.of].as_ref()?);
            Some(view.placement(placement, &problem.shape(dims), input.dtype.bits()))
        });
        let outputs = self.of_outputs.iter().zip(graph.outputs()).map(|(view, output)| {
            let shape = problem.shape(&output.dims);
            view.placement(&placements.outputs[view.of], &shape, output.dtype.bits())
        });
        Placements {
            inputs: placements.inputs.iter().cloned().chain(views).collect(),
            outputs: outputs.collect(),
        }
    }

    /// Lets parameters that name the slices' tensors name the memory that they are views of. The graph and the problem
    /// are those of the slices, the placements those of the call.
    pub(crate) fn settle(
        &self,
        graph: &Graph,
        parameters: &mut [Parameter],
        problem: &Problem,
        placements: &Placements,
    ) {
        let own_inputs = self.inputs + self.of_inputs.len();
        let settled = |buffer: Buffer| -> (Buffer, i64) {
            let number = buffer.0 as usize;
            if buffer == Buffer::WORKSPACE || number < self.inputs {
                return (buffer, 0);
            }
            let offset = |view: &View, placement: &Placement, dims: &[Dim], bits: usize| {
                view.offset(placement, &problem.shape(dims)).wrapping_mul(bits as i64) / 8
            };
            if let Some(view) = self.of_inputs.get(number - self.inputs) {
                // Without a contraction it has no elements, and its map begins where the whole one does.
                if problem.inner == 0 && is_factor(graph, number) {
                    return (Buffer(view.of as u32), 0);
                }
                let placement = placements.inputs[view.of].as_ref();
                let input = &graph.inputs()[number];
                let dims = input.dims.as_deref().unwrap_or_default();
                let bits = input.dtype.bits();
                let offset = placement.map_or(0, |placement| offset(view, placement, dims, bits));
                return (Buffer(view.of as u32), offset);
            }
            let place = number - own_inputs;
            let (view, output) = (&self.of_outputs[place], &graph.outputs()[place]);
            let placement = &placements.outputs[view.of];
            let offset = offset(view, placement, &output.dims, output.dtype.bits());
            (Buffer((self.inputs + view.of) as u32), offset)
        };
        for parameter in parameters {
            match parameter {
                Parameter::Map(map) => {
                    let (buffer, offset) = settled(map.buffer);
                    map.buffer = buffer;
                    map.offset = map.offset.wrapping_add(offset);
                }
                Parameter::Pointer { buffer, offset } => {
                    if let Some(tensor) = buffer.of_table() {
                        *buffer = settled(tensor).0.table();
                        continue;
                    }
                    let (of, more) = settled(*buffer);
                    *buffer = of;
                    *offset = offset.wrapping_add_signed(more);
                }
                Parameter::U32(_) | Parameter::U64(_) | Parameter::F32(_) => {}
            }
        }
    }
}

impl View {
    /// All of a tensor.
    pub(crate) const fn all(of: usize) -> View {
        View { of, columns: None, stacked: None, window: None, number: None }
    }

    /// A tensor whose columns are a window of the product's.
    pub(crate) fn windowed(of: usize, window: Option<usize>) -> View {
        View { window, ..View::all(of) }
    }

    /// A number.
    pub(crate) fn of_number(number: Number) -> View {
        View { number: Some(number), ..View::all(0) }
    }

    /// Elements from the tensor's first one to the view's, which has this shape.
    fn offset(&self, placement: &Placement, shape: &[usize]) -> i64 {
        if let Some((dim, place)) = self.stacked {
            return (placement.strides[dim] as i64).wrapping_mul(place as i64);
        }
        let Some((dim, slice)) = self.columns else { return 0 };
        (placement.strides[dim] as i64).wrapping_mul(slice.first(shape[dim]) as i64)
    }

    fn placement(&self, placement: &Placement, shape: &[usize], bits: usize) -> Placement {
        if self.columns.is_none() && self.stacked.is_none() {
            return placement.clone();
        }
        let bytes = self.offset(placement, shape).wrapping_mul(bits as i64) / 8;
        let start = (placement.start as i64).wrapping_add(bytes);
        let mut strides = placement.strides.clone();
        if let Some((dim, slice)) = self.columns {
            strides[dim] = strides[dim].wrapping_mul(slice.stride() as isize);
        }
        if let Some((dim, _)) = self.stacked {
            strides.remove(dim);
        }
        let start = start.rem_euclid(Placement::PERIOD as i64) as u64;
        Placement { strides, start, ..*placement }
    }
}

/// Whether an input is an operand of the product.
fn is_factor(graph: &Graph, input: usize) -> bool {
    let mut factors = graph.products().iter().flat_map(|product| [product.left.0, product.right.0]);
    factors.any(|factor| factor.0 as usize == input)
}
