//! The text of a graph: one node a line, its type behind `#`.

use std::fmt;

use super::op::{Concat, Constant, Op, Over, Part, Run};
use super::ops::{Fold, IndexAxis};
use super::{
    Accumulation, BlockScale, Columns, Graph, Input, InputId, NodeId, Orientation, Output,
    ProductId, Space, Type,
};
use crate::shape;

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printed: Vec<&Graph> = Vec::new();
        for graph in self.inputs().iter().filter_map(|input| input.computed.as_deref()) {
            // Two inputs may be computed by one graph's equal.
            if !printed.contains(&graph) {
                write!(f, "{graph}")?;
                printed.push(graph);
            }
        }
        writeln!(f, "graph {} {{", self.signature_text())?;
        self.write_frame(f)?;
        for (id, node) in self.nodes() {
            writeln!(f, "    {:<38} # {}", self.node_text(id), self.type_text(node.ty))?;
        }
        for output in self.outputs() {
            writeln!(f, "    output {}", output_text(output))?;
        }
        writeln!(f, "}}")
    }
}

impl Graph {
    /// Its name and inputs.
    pub(crate) fn signature_text(&self) -> String {
        let inputs: Vec<String> =
            self.inputs().iter().map(|input| self.declaration_text(input)).collect();
        format!("{}({})", self.name(), inputs.join(", "))
    }

    /// Writes what stands before the nodes: products, or the space where there is none, and splits.
    pub(crate) fn write_frame(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operand = |(input, orientation): (InputId, Orientation)| {
            let name = &self.inputs()[input.0 as usize].name;
            match orientation {
                Orientation::Plain => name.clone(),
                Orientation::Transposed => format!("{name}.T"),
            }
        };
        for product in self.products() {
            let [left, right] = [product.left, product.right].map(operand);
            let dtypes = [product.left, product.right];
            let dtypes = dtypes.map(|(input, _)| self.inputs()[input.0 as usize].dtype);
            let asked = product.accumulation != Accumulation::of(dtypes);
            write!(f, "    product {left} @ {right}{}", if asked { " native" } else { "" })?;
            for BlockScale { side, input, run } in &product.scales {
                let name = &self.inputs()[input.0 as usize].name;
                write!(f, " scale {} {name}:{run}", side.name())?;
            }
            if let Some(ends) = &product.segments {
                write!(f, " contracts {ends}")?;
            }
            if let Some(count) = &product.masked {
                write!(f, " masked {count}")?;
            }
            writeln!(f, "{}", segments_text(self.space()))?;
        }
        if self.products().is_empty() {
            let Space { batch, row, column, .. } = self.space();
            let dims: Vec<_> = batch.iter().chain([row, column]).cloned().collect();
            writeln!(f, "    space {}{}", shape::list(&dims), segments_text(self.space()))?;
        }
        for split in &self.space().splits {
            let dim = |columns: &Columns| self.space().column_dim(*columns);
            let parts: Vec<_> = split.parts.iter().map(dim).collect();
            writeln!(f, "    split {} into {}", dim(&split.whole), shape::list(&parts))?;
        }
        Ok(())
    }

    /// A node and its operation.
    pub(crate) fn node_text(&self, id: NodeId) -> String {
        format!("{id} = {}", self.op_text(&self[id].op))
    }

    /// An input as the signature declares it.
    pub(crate) fn declaration_text(&self, input: &Input) -> String {
        match (input.same_as, &input.computed) {
            (Some(other), _) => format!("{input} = {}", self.inputs()[other.0 as usize].name),
            (None, Some(graph)) => match (input.result, input.in_mainloop) {
                (Some(place), _) => format!("{input} = computed {} result {place}", graph.name()),
                (None, true) => format!("{input} = computed {} in mainloop", graph.name()),
                (None, false) => format!("{input} = computed {}", graph.name()),
            },
            (None, None) => input.to_string(),
        }
    }

    /// A type in the user's words.
    pub fn type_text(&self, ty: Type) -> String {
        format!("{}[{}]", ty.elem, shape::list(&self.space().dims(ty.axes)))
    }

    fn op_text(&self, op: &Op) -> String {
        let operands =
            || op.operands().map(|operand| operand.to_string()).collect::<Vec<_>>().join(", ");
        match op {
            Op::Accumulator(ProductId::FIRST) => "accumulator".to_owned(),
            Op::Accumulator(ProductId(number)) => format!("accumulator:{number}"),
            Op::Input(input) => format!("input {}", self.inputs()[input.0 as usize].name),
            Op::Constant(constant) => constant.to_string(),
            Op::Index(IndexAxis::BatchDim(place)) => {
                format!("batch {}", self.space().batch[*place as usize])
            }
            Op::Index(axis) => axis.name().to_owned(),
            Op::Extent(axes) => format!("extent {}", shape::list(&self.space().dims(*axes))),
            Op::Size(dim) => format!("size {dim}"),
            Op::Round(to, ..) => format!("{to} {}", operands()),
            Op::Philox(_) => format!("philox {}", operands()),
            Op::Take(input, _) => format!("take:{} {}", input.0, operands()),
            Op::Entry(input, ..) => format!("entry:{} {}", input.0, operands()),
            Op::Unary(op, _) => format!("{} {}", op.name(), operands()),
            Op::Binary(op, ..) => format!("{} {}", op.name(), operands()),
            Op::Fma(..) => format!("fma {}", operands()),
            Op::Select(..) => format!("where {}", operands()),
            Op::Cast(to, _) => format!("{to} {}", operands()),
            Op::Reduce(fold @ Fold::Top(top), over, _)
            | Op::ReduceWeighted(fold @ Fold::Top(top), over, ..) => {
                format!("{}:{}/{} {} {over}", fold.name(), top.place, top.of, operands())
            }
            Op::Reduce(fold, over, _) | Op::ReduceWeighted(fold, over, ..) => {
                format!("{} {} {over}", fold.name(), operands())
            }
            Op::Pick(..) => format!("pick {}", operands()),
            Op::Part(part, _) => format!("{} {}", part_text(*part), operands()),
            Op::Concat(Concat::Equal(None), _) => format!("concat {}", operands()),
            Op::Concat(Concat::Equal(Some(run)), _) => format!("concat:{run} {}", operands()),
            Op::Concat(Concat::Repeated(run), _) => format!("concat_repeated:{run} {}", operands()),
            Op::Concat(Concat::Listed(split), _) => format!("concat_split:{split} {}", operands()),
            Op::Merge(merge, ..) => format!("{} {}", merge.name(), operands()),
            Op::Call(call, _) => {
                let grad = if call.grad { "grad " } else { "" };
                let count = if call.count > 0 { format!(":{}", call.count) } else { String::new() };
                let over = call.over.map(|over| format!(" {over}")).unwrap_or_default();
                format!("call {grad}{}{count} {}{over}", call.function, operands())
            }
        }
    }
}

/// The input that says where segments of rows end, behind a product or a space.
fn segments_text(space: &Space) -> String {
    space.segments.as_ref().map_or_else(String::new, |ends| format!(" segments {ends}"))
}

/// A part as the text of a graph names it.
fn part_text(part: Part) -> String {
    match part {
        Part::First | Part::Second | Part::Even | Part::Odd => part.name().to_owned(),
        Part::Equal { index, count, run: None } => format!("part:{index}:{count}"),
        Part::Equal { index, count, run: Some(run) } => format!("part:{index}:{count}:{run}"),
        Part::Repeated { index, count, run } => format!("repeat:{index}:{count}:{run}"),
        Part::Listed { split, index } => format!("part_split:{split}:{index}"),
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.dims {
            Some(dims) => write!(f, "{}: {}[{}]", self.name, self.dtype, shape::list(dims)),
            None => write!(f, "{}: {}", self.name, self.dtype),
        }
    }
}

impl fmt::Display for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Constant::F32(bits) => {
                let value = f32::from_bits(*bits);
                // Debug prints the shortest text that reads back to the same bits.
                if value.is_nan() { f.write_str("nan") } else { write!(f, "{value:?}") }
            }
            Constant::I32(value) => write!(f, "{value}"),
            Constant::Bool(value) => write!(f, "{value}"),
        }
    }
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("over")?;
        if self.batch {
            f.write_str(" batch")?;
        }
        for (name, run) in [("row", self.row), ("column", self.column)] {
            match run {
                Some(Run::All) => write!(f, " {name}")?,
                Some(Run::Group(length)) => write!(f, " {name}:{length}")?,
                None => {}
            }
        }
        Ok(())
    }
}

/// An output and its values.
pub(crate) fn output_text(output: &Output) -> String {
    let values: Vec<String> = output.values().map(|value| value.to_string()).collect();
    let (dims, values) = (shape::list(&output.dims), values.join(", "));
    format!("{}: {}[{dims}] = {values}", output.name, output.dtype)
}
