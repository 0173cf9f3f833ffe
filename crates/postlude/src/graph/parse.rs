//! Reads the text that a graph prints.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;

use crate::catalogue;
use crate::dtype::DType;
use crate::shape::Dim;

use super::op::{Call, Concat, Constant, Merge, Op, Over, Part, Run, Split};
use super::ops::{Binary, Fold, IndexAxis, Top, Unary};
use super::verify::Broken;
use super::{
    Accumulation, BlockScale, Graph, Input, InputId, NodeId, Orientation, Output, Product,
    ProductId, Side, Space, Stack,
};

/// Why a text is not a graph.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GraphTextError {
    /// A line that is none of the forms.
    #[error("line {line}: `{text}` is not a line of a graph")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// The product does not fit its operands.
    #[error("line {line}: the operands of the product do not fit")]
    Product {
        /// Counted from 1.
        line: usize,
    },
    /// A node or output breaks a type rule.
    #[error("line {line}: {broken}")]
    Broken {
        /// Counted from 1.
        line: usize,
        /// The rule.
        broken: Broken,
    },
    /// There is no graph at all.
    #[error("no `graph name(...) {{` line")]
    Empty,
}

/// Reads a printed graph.
pub fn parse(text: &str) -> Result<Graph, GraphTextError> {
    let mut header = None;
    let mut graph: Option<Graph> = None;
    let mut earlier: Vec<Arc<Graph>> = Vec::new();
    let mut names: HashMap<String, NodeId> = HashMap::new();
    for (index, raw) in text.lines().enumerate() {
        let line = index + 1;
        let body = raw.split('#').next().unwrap_or("").trim();
        let bad = || GraphTextError::Line { line, text: body.to_owned() };
        if body.is_empty() || body == "}" {
            continue;
        }
        if let Some(rest) = body.strip_prefix("graph ") {
            earlier.extend(graph.take().map(Arc::new));
            names.clear();
            header = Some(read_header(rest, &earlier).ok_or_else(bad)?);
        } else if let Some(rest) = body.strip_prefix("space ") {
            let (name, inputs) = header.take().ok_or_else(bad)?;
            let space = read_space(rest, &inputs).ok_or_else(bad)?;
            graph = Some(Graph::new(name, inputs, space, Vec::new()));
        } else if let Some(rest) = body.strip_prefix("product ") {
            let wrong = GraphTextError::Product { line };
            match &mut graph {
                None => {
                    let (name, inputs) = header.take().ok_or_else(bad)?;
                    let (space, product) = read_product(rest, &inputs).ok_or(wrong)?;
                    graph = Some(Graph::new(name, inputs, space, vec![product]));
                }
                Some(graph) => {
                    let read = read_product(rest, graph.inputs());
                    let same = read.filter(|(space, _)| space.has_dims_of(graph.space()));
                    graph.push_product(same.ok_or(wrong)?.1);
                }
            }
        } else {
            let graph = graph.as_mut().ok_or_else(bad)?;
            if let Some(rest) = body.strip_prefix("split ") {
                read_split(rest, graph).ok_or_else(bad)?;
                continue;
            }
            if let Some(rest) = body.strip_prefix("output ") {
                let output = read_output(rest, graph, &names).ok_or_else(bad)?;
                graph.push_output(output);
            } else {
                let (name, op) = body.split_once(" = ").ok_or_else(bad)?;
                let op = read_op(op, graph, &names).ok_or_else(bad)?;
                let id = graph.add(op).map_err(|broken| GraphTextError::Broken { line, broken })?;
                names.insert(name.to_owned(), id);
            }
        }
    }
    let graph = graph.ok_or(GraphTextError::Empty)?;
    graph
        .verify(super::Stage::Checked)
        .map_err(|broken| GraphTextError::Broken { line: text.lines().count(), broken })?;
    Ok(graph)
}

/// The dims of a graph without a product: batches, rows, columns.
fn read_space(text: &str, inputs: &[Input]) -> Option<Space> {
    let (text, ends) = read_segments(text);
    let dims = read_dims(text);
    let [batch @ .., row, column] = dims.as_slice() else { return None };
    segmented(Space::new(batch.to_vec(), row.clone(), column.clone()), ends, inputs)
}

/// A text without the input that says where segments end, and that input's name.
fn read_segments(text: &str) -> (&str, Option<&str>) {
    match text.split_once(" segments ") {
        Some((text, ends)) => (text, Some(ends.trim())),
        None => (text, None),
    }
}

/// The space whose rows are cut into segments, where they are.
fn segmented(space: Space, ends: Option<&str>, inputs: &[Input]) -> Option<Space> {
    let Some(ends) = ends else { return Some(space) };
    space.segmented(inputs.iter().find(|input| input.name == ends)?)
}

/// What follows the graph of an input that its launch computes where it loads it.
const IN_MAINLOOP: &str = " in mainloop";

fn read_header(text: &str, earlier: &[Arc<Graph>]) -> Option<(String, Vec<Input>)> {
    let (name, rest) = text.split_once('(')?;
    let list = rest.strip_suffix('{')?.trim().strip_suffix(')')?;
    let mut inputs = Vec::new();
    for declaration in split_outside_brackets(list) {
        let (declaration, other) = match declaration.split_once(" = ") {
            Some((declaration, other)) => (declaration, Some(other.trim())),
            None => (declaration, None),
        };
        let (name, dtype, dims) = read_declaration(declaration)?;
        let computed = other.and_then(|other| other.strip_prefix("computed "));
        let in_mainloop = computed.is_some_and(|by| by.ends_with(IN_MAINLOOP));
        let computed = computed.map(|by| by.strip_suffix(IN_MAINLOOP).unwrap_or(by));
        let (computed, result) = match computed {
            Some(by) => {
                let (by, result) = match by.split_once(" result ") {
                    Some((by, place)) => (by, Some(place.parse().ok()?)),
                    None => (by, None),
                };
                (Some(earlier.iter().rfind(|graph| graph.name() == by)?.clone()), result)
            }
            None => (None, None),
        };
        let same_as = match other {
            Some(other) if computed.is_none() => {
                Some(inputs.iter().position(|input: &Input| input.name == other)?)
            }
            Some(_) | None => None,
        };
        let same_as = same_as.map(|place| InputId(place as u32));
        inputs.push(Input { name, dtype, dims, same_as, computed, result, in_mainloop });
    }
    Some((name.trim().to_owned(), inputs))
}

fn split_outside_brackets(list: &str) -> Vec<&str> {
    let mut depth = 0i32;
    list.split(|c: char| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|part| !part.is_empty())
    .collect()
}

fn read_declaration(text: &str) -> Option<(String, DType, Option<Vec<Dim>>)> {
    let (name, ty) = text.split_once(':')?;
    let (dtype, dims) = match ty.split_once('[') {
        Some((dtype, dims)) => (dtype, Some(read_dims(dims.trim().strip_suffix(']')?))),
        None => (ty, None),
    };
    Some((name.trim().to_owned(), DType::from_name(dtype.trim())?, dims))
}

fn read_dims(list: &str) -> Vec<Dim> {
    list.split(',').map(str::trim).filter(|dim| !dim.is_empty()).map(Dim::from).collect()
}

fn read_product(text: &str, inputs: &[Input]) -> Option<(Space, Product)> {
    if let Some((text, count)) = text.split_once(" masked ") {
        let (space, product) = read_product(text, inputs)?;
        let masked = Some(count.trim().to_owned());
        return Some((space, Product { masked, ..product }));
    }
    if let Some((text, ends)) = text.split_once(" contracts ") {
        let (space, product) = read_product(text, inputs)?;
        let space = segmented(space, Some(ends.trim()), inputs)?;
        let segments = space.segments;
        return Some((Space { segments: None, ..space }, Product { segments, ..product }));
    }
    let (text, ends) = read_segments(text);
    let mut pieces = text.split(" scale ");
    let text = pieces.next()?;
    let (text, native) = match text.trim().strip_suffix(" native") {
        Some(text) => (text, true),
        None => (text, false),
    };
    let (left, right) = text.split_once(" @ ")?;
    let operand = |text: &str| {
        let text = text.trim();
        let (name, orientation) = match text.strip_suffix(".T") {
            Some(name) => (name, Orientation::Transposed),
            None => (text, Orientation::Plain),
        };
        let place = inputs.iter().position(|input| input.name == name)?;
        Some((InputId(place as u32), orientation))
    };
    let (space, product) = Product::of(inputs, operand(left)?, operand(right)?)?;
    let accumulation = if native { Accumulation::Native } else { product.accumulation };
    let mut product = Product { accumulation, ..product };
    for scale in pieces {
        product = product.scaled(read_scale(scale, inputs)?);
    }
    Some((segmented(space, ends, inputs)?, product))
}

/// `left s:128`.
fn read_scale(text: &str, inputs: &[Input]) -> Option<BlockScale> {
    let (side, rest) = text.trim().split_once(' ')?;
    let (name, run) = rest.split_once(':')?;
    let side = [Side::Left, Side::Right].into_iter().find(|one| one.name() == side)?;
    let place = inputs.iter().position(|input| input.name == name)?;
    let run = run.parse().ok().filter(|run| *run > 0)?;
    Some(BlockScale { side, input: InputId(place as u32), run })
}

impl Product {
    /// The product of two inputs, and its dims; `None` when their dims do not make one.
    pub(crate) fn of(
        inputs: &[Input],
        left: (InputId, Orientation),
        right: (InputId, Orientation),
    ) -> Option<(Space, Product)> {
        let matrix = |(input, orientation): (InputId, Orientation)| {
            let dims = inputs.get(input.0 as usize)?.dims.as_ref()?;
            let [batch @ .., first, second] = dims.as_slice() else { return None };
            Some(match orientation {
                Orientation::Plain => (batch, first.clone(), second.clone()),
                Orientation::Transposed => (batch, second.clone(), first.clone()),
            })
        };
        let (left_batch, row, inner) = matrix(left)?;
        let (right_batch, right_inner, column) = matrix(right)?;
        let (batch, other) = if left_batch.len() >= right_batch.len() {
            (left_batch, right_batch)
        } else {
            (right_batch, left_batch)
        };
        // The other operand has some of them, in the same order.
        let mut rest = batch.iter();
        let batches_agree = other.iter().all(|dim| rest.any(|own| own == dim));
        let elem = inputs[left.0.0 as usize].dtype.accumulator()?;
        let agree = batches_agree
            && batch.len() <= Space::MOST_BATCH_DIMS
            && inner == right_inner
            && elem == inputs[right.0.0 as usize].dtype.accumulator()?;
        let batch = batch.to_vec();
        let space = Space::new(batch, row, column);
        let dtypes = [left, right].map(|(input, _)| inputs[input.0 as usize].dtype);
        let accumulation = Accumulation::of(dtypes);
        let scales = Vec::new();
        agree.then_some((
            space,
            Product {
                left,
                right,
                inner,
                elem,
                accumulation,
                scales,
                segments: None,
                masked: None,
            },
        ))
    }
}

fn read_output(text: &str, graph: &Graph, names: &HashMap<String, NodeId>) -> Option<Output> {
    let (declaration, values) = text.split_once(" = ")?;
    let (name, dtype, dims) = read_declaration(declaration)?;
    let (dims, values) = (dims?, read_operands(values, names)?);
    let (value, rest) = values.split_first()?;
    let stack = if rest.is_empty() && graph.space().axes(&dims).is_some() {
        None
    } else {
        Some(Stack { dim: Stack::dim_of(&dims, values.len())?, rest: rest.to_vec() })
    };
    Some(Output { name, dtype, dims, value: *value, stack })
}

fn read_op(text: &str, graph: &Graph, names: &HashMap<String, NodeId>) -> Option<Op> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let (operand_text, over) = match rest.split_once("over") {
        Some((operands, over)) => (operands, Some(read_over(over)?)),
        None => (rest, None),
    };
    if let Some(op) = read_part(word, operand_text, names) {
        return Some(op);
    }
    let (word, count, of) = match word.split_once(':') {
        Some((word, counts)) => {
            let (count, of) = counts.split_once('/').unwrap_or((counts, "0"));
            (word, count.parse().ok()?, of.parse().ok()?)
        }
        None => (word, 0, 0),
    };
    match word {
        "accumulator" => return Some(Op::Accumulator(ProductId(count))),
        "input" => {
            return Some(Op::Input(InputId(
                graph.inputs().iter().position(|input| input.name == rest.trim())? as u32,
            )));
        }
        "extent" => return Some(Op::Extent(graph.space().axes(&read_dims(rest))?)),
        "row" => return Some(Op::Index(IndexAxis::Row)),
        "col" => return Some(Op::Index(IndexAxis::Column)),
        "batch" if rest.is_empty() => return Some(Op::Index(IndexAxis::Batch)),
        "batch" => {
            let dim = Dim::from(rest.trim());
            let place = graph.space().batch.iter().position(|own| *own == dim)?;
            return Some(Op::Index(IndexAxis::BatchDim(place as u8)));
        }
        "size" => return Some(Op::Size(Dim::from(rest.trim()))),
        "call" => return read_call(operand_text, over, names),
        _ => {}
    }
    if rest.is_empty() {
        return read_constant(word).map(Op::Constant);
    }
    let operands = read_operands(operand_text, names)?;
    match (operands.as_slice(), over) {
        (&[a], None) if word == "take" => Some(Op::Take(InputId(count), a)),
        (&[a, b], None) if word == "entry" => Some(Op::Entry(InputId(count), a, b)),
        (&[a], Some(over)) => {
            Some(Op::Reduce(with_counts(Fold::from_name(word)?, count, of), over, a))
        }
        (&[a, b], Some(over)) => {
            let fold = Fold::from_name(word).filter(|fold| fold.takes_weights())?;
            Some(Op::ReduceWeighted(with_counts(fold, count, of), over, a, b))
        }
        (&[a], None) => read_unary(word, a),
        (&[a, b], None) => read_binary(word, a, b),
        (&[a, b, c], None) => match word {
            "fma" => Some(Op::Fma(a, b, c)),
            "where" => Some(Op::Select(a, b, c)),
            _ => None,
        },
        (&[a, b, c, d, e, f], None) if word == "philox" => Some(Op::Philox([a, b, c, d, e, f])),
        _ => None,
    }
}

/// `Q, KV, KV` of `N`: names the parts' dims where they are new.
fn read_split(text: &str, graph: &mut Graph) -> Option<()> {
    let (whole, parts) = text.split_once(" into ")?;
    let (whole, parts) = (Dim::from(whole.trim()), read_dims(parts));
    for dim in parts.iter().chain([&whole]) {
        graph.name_part(dim);
    }
    let columns = |dim: &Dim| graph.space().columns(dim);
    let split = Split {
        whole: columns(&whole)?,
        parts: parts.iter().map(columns).collect::<Option<Vec<_>>>()?,
    };
    graph.add_split(split);
    Some(())
}

/// Parts and what puts several of them together.
fn read_part(word: &str, operands: &str, names: &HashMap<String, NodeId>) -> Option<Op> {
    let mut numbers = word.split(':');
    let head = numbers.next()?;
    let numbers: Vec<u32> = numbers.map(|it| it.parse().ok()).collect::<Option<_>>()?;
    let narrow = |number: u32| u16::try_from(number).ok();
    let operands = || read_operands(operands, names);
    let part = |part: Part| Some(Op::Part(part, *operands()?.first()?));
    match (head, numbers.as_slice()) {
        ("part", &[index, count]) => {
            part(Part::Equal { index: narrow(index)?, count: narrow(count)?, run: None })
        }
        ("part", &[index, count, run]) => {
            part(Part::Equal { index: narrow(index)?, count: narrow(count)?, run: Some(run) })
        }
        ("repeat", &[index, count, run]) => {
            part(Part::Repeated { index: narrow(index)?, count: narrow(count)?, run })
        }
        ("concat_repeated", &[run]) => Some(Op::Concat(Concat::Repeated(run), operands()?)),
        ("part_split", &[split, index]) => {
            part(Part::Listed { split: narrow(split)?, index: narrow(index)? })
        }
        ("concat", &[run]) => Some(Op::Concat(Concat::Equal(Some(run)), operands()?)),
        ("concat", &[]) if operands()?.len() > 2 => {
            Some(Op::Concat(Concat::Equal(None), operands()?))
        }
        ("concat_split", &[split]) => Some(Op::Concat(Concat::Listed(narrow(split)?), operands()?)),
        _ => None,
    }
}

fn with_counts(fold: Fold, count: u32, of: u32) -> Fold {
    match fold {
        Fold::Top(top) => Fold::Top(Top { place: count, of, ..top }),
        _ => fold,
    }
}

fn read_unary(word: &str, a: NodeId) -> Option<Op> {
    let cast = || DType::from_name(word).map(|to| Op::Cast(to, a));
    let part =
        || Part::HALVES.into_iter().find(|part| part.name() == word).map(|part| Op::Part(part, a));
    Unary::from_name(word).map(|op| Op::Unary(op, a)).or_else(cast).or_else(part)
}

fn read_binary(word: &str, a: NodeId, b: NodeId) -> Option<Op> {
    match word {
        "pick" => Some(Op::Pick(a, b)),
        "concat" => Some(Op::Merge(Merge::Concat, a, b)),
        "join" => Some(Op::Merge(Merge::Join, a, b)),
        _ => Binary::from_name(word)
            .map(|op| Op::Binary(op, a, b))
            .or_else(|| DType::from_name(word).map(|to| Op::Round(to, a, b))),
    }
}

fn read_operands(text: &str, names: &HashMap<String, NodeId>) -> Option<Vec<NodeId>> {
    text.split(',').map(|name| names.get(name.trim()).copied()).collect()
}

fn read_call(text: &str, over: Option<Over>, names: &HashMap<String, NodeId>) -> Option<Op> {
    let (text, grad) = match text.trim().strip_prefix("grad ") {
        Some(text) => (text, true),
        None => (text.trim(), false),
    };
    let (head, operands) = text.split_once(' ')?;
    let (name, count) = match head.split_once(':') {
        Some((name, count)) => (name, count.parse().ok()?),
        None => (head, 0),
    };
    let function = catalogue::find(name)?.name;
    Some(Op::Call(Call { function, grad, over, count }, read_operands(operands, names)?))
}

fn read_over(text: &str) -> Option<Over> {
    let mut over = Over::NOTHING;
    for word in text.split_whitespace() {
        let (name, run) = match word.split_once(':') {
            Some((name, length)) => (name, Run::Group(u32::from_str(length).ok()?)),
            None => (word, Run::All),
        };
        match (name, run) {
            ("batch", Run::All) => over.batch = true,
            ("row", run) => over.row = Some(run),
            ("column", run) => over.column = Some(run),
            _ => return None,
        }
    }
    Some(over)
}

fn read_constant(word: &str) -> Option<Constant> {
    match word {
        "true" => Some(Constant::Bool(true)),
        "false" => Some(Constant::Bool(false)),
        "nan" => Some(Constant::F32(f32::NAN.to_bits())),
        _ => match word.parse::<i32>() {
            Ok(value) => Some(Constant::I32(value)),
            Err(_) => word.parse::<f32>().ok().map(|value| Constant::F32(value.to_bits())),
        },
    }
}
