//! In which window every value is needed.
//!
//! In: a graph. Out: the windows, and for every node those that users need it in: an input along a dim that two parts have
//! is needed in both. A value that is needed in another window than its own columns lie in is refused.

use crate::graph::{Axes, Columns, Concat, Dependence, Graph, Merge, NodeId, Op, Over, Part, Run};
use crate::lower::refusal::LowerRefusal;
use crate::lower::rules::Rule;
use crate::lower::runs::least_common_multiple;
use crate::lower::views::Window;

/// A window by its number, or all columns.
pub(super) type Context = Option<usize>;

/// A window and what it is of which other.
struct Known {
    parent: Context,
    part: Part,
    columns: Columns,
    window: Window,
}

/// The windows of a graph and where its values are needed.
pub(super) struct Contexts<'a> {
    graph: &'a Graph,
    known: Vec<Known>,
    /// The window that a value's own columns lie in, where a part or the product says so.
    own: Vec<Option<Context>>,
    /// The windows that each value is needed in.
    pub(super) needed: Vec<Vec<Context>>,
    /// The window of each output.
    pub(super) outputs: Vec<Context>,
}

impl<'a> Contexts<'a> {
    pub(super) fn of(graph: &'a Graph) -> Result<Contexts<'a>, LowerRefusal> {
        let mut contexts = Contexts {
            graph,
            known: Vec::new(),
            own: vec![None; graph.len()],
            needed: vec![Vec::new(); graph.len()],
            outputs: Vec::new(),
        };
        let live = graph.live();
        for (id, _) in graph.nodes().filter(|(id, _)| live[id.index()]) {
            contexts.own[id.index()] = contexts.find_own(id)?;
        }
        for output in graph.outputs() {
            let declared = graph.space().axes(&output.dims).and_then(Axes::columns);
            let context = match declared {
                Some(columns) if graph.ty(output.value).axes.column.is_none() => {
                    contexts.usual(columns)
                }
                Some(_) => contexts.settled(output.value),
                None => None,
            };
            contexts.outputs.push(context);
            contexts.need(output.value, context);
        }
        for (id, _) in graph.nodes().rev() {
            for context in contexts.needed[id.index()].clone() {
                contexts.need_operands(id, context)?;
            }
        }
        Ok(contexts)
    }

    pub(super) fn window(&self, number: usize) -> &Window {
        &self.known[number].window
    }

    pub(super) fn windows(self) -> Vec<Window> {
        self.known.into_iter().map(|known| known.window).collect()
    }

    /// Whether values are repeated in every part of a run.
    pub(super) fn is_folded(&self, context: Context) -> bool {
        context.is_some_and(|number| self.window(number).fold.is_some())
    }

    /// The window that a window is a part of.
    pub(super) fn parent(&self, context: Context) -> Context {
        context.and_then(|number| self.known[number].parent)
    }

    /// How many columns of the product one of these stands for.
    pub(super) fn run(&self, columns: Columns, context: Context) -> u32 {
        columns.divisor / self.columns(context).divisor
    }

    /// Whether a window holds values of these columns: its own, or runs of them.
    pub(super) fn holds(&self, columns: Columns, context: Context) -> bool {
        columns.divisor.is_multiple_of(self.columns(context).divisor)
    }

    /// The columns of a window, each by itself.
    fn columns(&self, context: Context) -> Columns {
        match context {
            Some(number) => self.known[number].columns,
            None => Columns::of_product(self.graph.space().column.divisor()),
        }
    }

    /// Notes that values of runs of a window's columns are computed.
    pub(super) fn note_run(&mut self, context: Context, run: u32) {
        if let Some(number) = context {
            let window = &mut self.known[number].window;
            window.multiple = least_common_multiple(window.multiple, run);
        }
    }

    /// The window of a part of another one.
    pub(super) fn part(&mut self, part: Part, parent: Context) -> Option<Context> {
        // All parts of a run are repeated in the same columns.
        let (part, fold) = match part {
            Part::Equal { count, run: Some(run), .. } => {
                let width = run / u32::from(count);
                (Part::Equal { index: 0, count, run: Some(run) }, Some([run, width]))
            }
            part => (part, None),
        };
        let same = |known: &Known| known.part == part && known.parent == parent;
        if let Some(number) = self.known.iter().position(same) {
            return Some(Some(number));
        }
        let (space, whole) = (self.graph.space(), self.columns(parent));
        let is_folded = self.is_folded(parent);
        let (before, columns): (Vec<Columns>, Columns) = match part {
            Part::Even | Part::Odd | Part::Repeated { .. } => return None,
            _ if is_folded => return None,
            Part::Equal { count, run: Some(run), .. } => {
                if run % (8 * u32::from(count)) != 0 {
                    return None;
                }
                (Vec::new(), whole.divided(count.into())?)
            }
            Part::First => (Vec::new(), whole.divided(2)?),
            Part::Second => (vec![whole.divided(2)?], whole.divided(2)?),
            Part::Equal { index, count, run: None } => {
                let own = whole.divided(count.into())?;
                (vec![own; index.into()], own)
            }
            Part::Listed { split, index } => {
                let split = &space.splits[split as usize];
                if split.whole != whole {
                    return None;
                }
                (split.parts[..index as usize].to_vec(), split.parts[index as usize])
            }
        };
        let mut start = parent.map_or(Vec::new(), |parent| self.window(parent).start.clone());
        start.extend(before.into_iter().map(|columns| space.column_dim(columns)));
        let width = match (fold, parent) {
            (None, _) => space.column_dim(columns),
            (Some(_), Some(parent)) => self.window(parent).width.clone(),
            (Some(_), None) => space.column.clone(),
        };
        let multiple = fold.map_or(1, |[run, _]| run);
        let window = Window { start, width, multiple, fold };
        self.known.push(Known { parent, part, columns, window });
        Some(Some(self.known.len() - 1))
    }

    /// The windows of the parts that a value is put together from; `None` where there are none.
    pub(super) fn parts(&mut self, op: &Op, context: Context) -> Option<Vec<(NodeId, Context)>> {
        let parts: Vec<Part> = match op {
            Op::Merge(Merge::Concat, ..) => vec![Part::First, Part::Second],
            Op::Concat(Concat::Equal(None), parts) => {
                let count = parts.len() as u16;
                (0..count).map(|index| Part::Equal { index, count, run: None }).collect()
            }
            Op::Concat(Concat::Equal(run @ Some(_)), parts) => {
                let part = Part::Equal { index: 0, count: parts.len() as u16, run: *run };
                vec![part; parts.len()]
            }
            Op::Concat(Concat::Listed(split), parts) => {
                let index = 0..parts.len() as u16;
                index.map(|index| Part::Listed { split: *split, index }).collect()
            }
            _ => return None,
        };
        let operands: Vec<NodeId> = op.operands().collect();
        let windows = parts.into_iter().map(|part| self.part(part, context));
        operands.into_iter().zip(windows).map(|(id, window)| Some((id, window?))).collect()
    }

    /// The window that a value's columns lie in, as far as it or its operands say so.
    fn find_own(&mut self, id: NodeId) -> Result<Option<Context>, LowerRefusal> {
        let graph = self.graph;
        if graph.ty(id).axes.column.is_none() {
            return Ok(None);
        }
        let own = |it: &Self, id: NodeId| it.own[id.index()];
        let of_operands = |it: &Self| graph[id].op.operands().find_map(|operand| own(it, operand));
        Ok(match &graph[id].op {
            Op::Accumulator(_) | Op::Index(_) => Some(None),
            Op::Input(_) | Op::Constant(_) | Op::Size(_) | Op::Extent(_) | Op::Call(..) => None,
            Op::Part(Part::Even | Part::Odd, a) => own(self, *a),
            Op::Part(part, a) => {
                let parent = self.settled(*a);
                Some(self.part(*part, parent).ok_or_else(|| Rule::RunParts.at(graph, id))?)
            }
            Op::Merge(Merge::Join, ..) => of_operands(self),
            Op::Merge(Merge::Concat, ..) | Op::Concat(..) => {
                let part = of_operands(self).flatten();
                part.map(|number| self.known[number].parent)
            }
            Op::Pick(..) => None,
            Op::Unary(..)
            | Op::Binary(..)
            | Op::Fma(..)
            | Op::Select(..)
            | Op::Cast(..)
            | Op::Round(..)
            | Op::Philox(_)
            | Op::Take(..)
            | Op::Entry(..)
            | Op::Reduce(..)
            | Op::ReduceWeighted(..) => of_operands(self),
        })
    }

    /// The window that a value is computed in where its user does not say.
    pub(super) fn settled(&mut self, id: NodeId) -> Context {
        match (self.own[id.index()], self.graph.ty(id).axes.columns()) {
            (Some(context), _) => context,
            (None, Some(columns)) => self.usual(columns),
            (None, None) => None,
        }
    }

    /// The first window with these columns; all columns where they are the product's.
    fn usual(&mut self, columns: Columns) -> Context {
        if columns.part == 0 {
            return None;
        }
        if let Some(number) = self.known.iter().position(|it| it.columns.part == columns.part) {
            return Some(number);
        }
        let graph = self.graph;
        let mut splits = graph.space().splits.iter().enumerate();
        let (split, index, whole) = splits.find_map(|(place, split)| {
            let index = split.parts.iter().position(|part| part.part == columns.part)?;
            Some((place as u16, index as u16, split.whole))
        })?;
        let parent = self.usual(whole);
        self.part(Part::Listed { split, index }, parent).flatten()
    }

    fn need(&mut self, id: NodeId, context: Context) {
        let context = context.filter(|_| self.graph.ty(id).axes.column.is_some());
        let needed = &mut self.needed[id.index()];
        if !needed.contains(&context) {
            needed.push(context);
        }
    }

    fn need_operands(&mut self, id: NodeId, context: Context) -> Result<(), LowerRefusal> {
        let graph = self.graph;
        let meets = || Err(Rule::NamedParts.at(graph, id));
        let op = &graph[id].op;
        match op.dependence() {
            Dependence::Source => match op {
                Op::Accumulator(_) | Op::Index(_) if context.is_some() => return meets(),
                _ => {}
            },
            Dependence::Part(Part::Even | Part::Odd, a) => self.need(a, context),
            Dependence::Part(_, a) => {
                if self.own[id.index()] != Some(context) {
                    return meets();
                }
                self.need(a, self.parent(context));
            }
            Dependence::Merge(Merge::Join, a, b) => {
                self.need(a, context);
                self.need(b, context);
            }
            Dependence::Merge(Merge::Concat, ..) | Dependence::Concat(_) => {
                let Some(parts) = self.parts(op, context) else {
                    return Err(Rule::RunParts.at(graph, id));
                };
                for (part, window) in parts {
                    self.need(part, window);
                }
            }
            Dependence::Reduce(_, Over { column: Some(Run::All), .. }, a) => {
                let of = self.settled(a);
                self.need(a, of);
            }
            // Nothing masks the weights outside of a window.
            Dependence::ReduceWeighted(_, Over { column: Some(_), .. }, terms, weights) => {
                if self.settled(terms).is_some() || self.settled(weights).is_some() {
                    return meets();
                }
                self.need(terms, None);
                self.need(weights, None);
            }
            Dependence::Pick(of, index) => {
                let window = self.settled(of);
                self.need(of, window);
                self.need(index, None);
            }
            Dependence::Elementwise(_)
            | Dependence::Reduce(..)
            | Dependence::ReduceWeighted(..)
            | Dependence::Call => {
                op.operands().for_each(|operand| self.need(operand, context));
            }
        }
        Ok(())
    }
}
