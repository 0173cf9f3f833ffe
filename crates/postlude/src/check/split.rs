//! Splits of columns and what puts their parts together.
//!
//! In: `halves`, `pairs`, `split`, `concat` and `join` with their arguments. Out: a node for each part, or for the whole.
//! Invariant: equal parts of a power of two are halves of halves, so that every form of them is the same graph.

use crate::dtype::Elem;
use crate::graph::{Binary, Columns, Concat, IndexAxis, Merge, NodeId, Op, Part, Split};
use crate::shape::Dim;
use crate::syntax::{ExprId, ExprKind, Number, Span};

use super::error::CheckError;
use super::{Body, Lowered, product};

/// Parts of one split.
const MOST_PARTS: i64 = 16;
/// Wider runs than any tile will ever hold are a mistake.
const WIDEST_RUN: i64 = 1 << 20;

impl Body<'_> {
    /// The parts of a value, one for each of the `targets` names.
    pub(super) fn split(
        &mut self,
        function: &str,
        arguments: &[ExprId],
        targets: usize,
        at: Span,
    ) -> Vec<Lowered> {
        let poison = vec![Lowered::Poison; targets];
        let Some(value) = arguments.first() else {
            self.wrong_split(function, at);
            return poison;
        };
        let Some(node) = self.settle(self.lowered[value], at) else { return poison };
        let Some(whole) = self.graph.ty(node).axes.columns() else {
            let has = self.dims_text(node);
            let column = self.graph.space().column.to_string();
            self.report(CheckError::NoColumns { function: function.to_owned(), column, has, at });
            return poison;
        };
        let Some(parts) = self.parts_of(function, whole, &arguments[1..], at) else {
            return poison;
        };
        if parts.len() != targets {
            self.report(CheckError::TargetCount { given: targets, gives: parts.len(), at });
            return poison;
        }
        let chain = |body: &mut Self, chain: Vec<Part>| {
            let of = |lowered, part| match lowered {
                Lowered::Node(node) => body.node(Op::Part(part, node), at),
                Lowered::Integer(_) | Lowered::Size(_) | Lowered::Stack(_) | Lowered::Poison => {
                    lowered
                }
            };
            chain.into_iter().fold(Lowered::Node(node), of)
        };
        parts.into_iter().map(|part| chain(self, part)).collect()
    }

    fn wrong_split(&mut self, function: &str, at: Span) {
        let takes = match function {
            "split" => {
                "how many parts, or a list of their dims, and after a number of parts the columns of a run"
            }
            _ => "the columns of a run, if it splits runs",
        };
        self.report(CheckError::SplitArguments { function: function.to_owned(), takes, at });
    }

    /// For each part the parts of parts that it is.
    fn parts_of(
        &mut self,
        function: &str,
        whole: Columns,
        arguments: &[ExprId],
        at: Span,
    ) -> Option<Vec<Vec<Part>>> {
        let place = |argument: &ExprId| self.exprs[*argument].span;
        let kind = |argument: &ExprId| &self.exprs[*argument].kind;
        match (function, arguments) {
            ("halves", []) => Some(equal_parts(2, None)),
            ("pairs", []) => Some(vec![vec![Part::Even], vec![Part::Odd]]),
            ("halves" | "pairs", [run]) => {
                let run = self.run(*run, 2)?;
                Some(equal_parts(2, Some(if function == "pairs" { 2 } else { run })))
            }
            ("split", [count, rest @ ..]) if rest.len() < 2 => match (kind(count), rest) {
                (ExprKind::Dims(dims), []) => {
                    let dims = dims.clone();
                    self.listed_parts(whole, &dims, place(count))
                }
                (ExprKind::Number(Number::Integer(number)), _) => {
                    let (number, at) = (*number, place(count));
                    if !(2..=MOST_PARTS).contains(&number) {
                        self.report(CheckError::SplitCount { given: number, at });
                        return None;
                    }
                    let run = match rest {
                        [run] => Some(self.run(*run, number as u16)?),
                        _ => None,
                    };
                    Some(equal_parts(number as u16, run))
                }
                _ => {
                    self.wrong_split(function, at);
                    None
                }
            },
            _ => {
                self.wrong_split(function, at);
                None
            }
        }
    }

    /// The columns of a run that has this many equal parts.
    fn run(&mut self, argument: ExprId, count: u16) -> Option<u32> {
        let at = self.exprs[argument].span;
        let run = match self.exprs[argument].kind {
            ExprKind::Number(Number::Integer(run)) if (1..=WIDEST_RUN).contains(&run) => run as u32,
            _ => {
                self.report(CheckError::GroupWidth { at });
                return None;
            }
        };
        if run % u32::from(count) != 0 {
            self.report(CheckError::RunParts { run, count, at });
            return None;
        }
        Some(run)
    }

    /// Parts of these dims.
    fn listed_parts(&mut self, whole: Columns, dims: &[Dim], at: Span) -> Option<Vec<Vec<Part>>> {
        if !(2..=MOST_PARTS as usize).contains(&dims.len()) {
            self.report(CheckError::SplitCount { given: dims.len() as i64, at });
            return None;
        }
        let mut parts = Vec::new();
        for dim in dims {
            let columns = self.graph.space().columns(dim);
            let columns = columns.filter(|_| !product::is_other_dim(&self.graph, dim));
            let Some(columns) = columns.filter(|columns| *columns != whole) else {
                self.report(CheckError::SplitDim { dim: dim.to_string(), at });
                return None;
            };
            parts.push(columns);
        }
        // Equal fractions of the whole are what `split(x, 3)` gives.
        let count = dims.len() as u16;
        if parts.iter().all(|part| Some(*part) == whole.divided(count.into())) {
            return Some(equal_parts(count, None));
        }
        let split = self.graph.add_split(Split { whole, parts });
        Some((0..count).map(|index| vec![Part::Listed { split, index }]).collect())
    }

    /// `join(even, odd)`, with or without the columns of a run.
    pub(super) fn lower_join(&mut self, arguments: &[ExprId], at: Span) -> Lowered {
        let (parts, run) = self.parts_and_run(arguments);
        if parts.len() != 2 {
            return self.wrong_count("join", "two parts as", parts, at);
        }
        if let Some(run) = run
            && self.run(run, 2).is_none()
        {
            return Lowered::Poison;
        }
        let Some((a, b)) = self.alike(Binary::Maximum, parts[0], parts[1], at) else {
            return Lowered::Poison;
        };
        let parts = self.with_columns_of_others(vec![a, b]);
        let (a, b) = (parts[0], parts[1]);
        let (left, right) = (self.graph.ty(a).axes, self.graph.ty(b).axes);
        let same = left.columns() == right.columns();
        if !same || left.column.is_none_or(|divisor| divisor % 2 != 0) {
            let (left, right) = (self.dims_text(a), self.dims_text(b));
            let function = "join".to_owned();
            return self.report(CheckError::MergeDims { function, left, right, at });
        }
        self.node(Op::Merge(Merge::Join, a, b), at)
    }

    /// The parts, and the columns of a run where they are written behind them.
    fn parts_and_run<'e>(&self, arguments: &'e [ExprId]) -> (&'e [ExprId], Option<ExprId>) {
        match arguments {
            [parts @ .., last]
                if matches!(self.exprs[*last].kind, ExprKind::Number(Number::Integer(_))) =>
            {
                (parts, Some(*last))
            }
            parts => (parts, None),
        }
    }

    /// `concat(q, k, v)`, with or without the columns of a run, or a list of the dims of its parts.
    pub(super) fn lower_concat(&mut self, arguments: &[ExprId], at: Span) -> Lowered {
        let (arguments, list) = match arguments {
            [parts @ .., last] => match &self.exprs[*last].kind {
                ExprKind::Dims(dims) => (parts, Some((dims.clone(), self.exprs[*last].span))),
                _ => (arguments, None),
            },
            [] => (arguments, None),
        };
        let (parts, run) = self.parts_and_run(arguments);
        if parts.len() < 2 || parts.len() > MOST_PARTS as usize {
            return self.wrong_count("concat", "2 to 16 parts as", parts, at);
        }
        let run = match run.map(|run| self.run(run, parts.len() as u16)) {
            Some(None) => return Lowered::Poison,
            Some(run) => run,
            None => None,
        };
        let Some(nodes) = self.alike_parts(parts, at) else { return Lowered::Poison };
        let nodes = match &list {
            Some((dims, place)) => match self.with_listed_columns(nodes, dims, *place) {
                Some(nodes) => nodes,
                None => return Lowered::Poison,
            },
            None => self.with_columns_of_others(nodes),
        };
        let columns: Option<Vec<Columns>> =
            nodes.iter().map(|node| self.graph.ty(*node).axes.columns()).collect();
        let listed = columns.as_ref().filter(|_| run.is_none());
        if let Some(split) = listed.and_then(|columns| self.graph.space().split_of(None, columns)) {
            return self.node(Op::Concat(Concat::Listed(split), nodes), at);
        }
        let count = nodes.len() as u32;
        let equal = columns.is_some_and(|columns| {
            columns.iter().all(|other| *other == columns[0]) && columns[0].divisor % count == 0
        });
        if !equal {
            return self.wrong_parts(&nodes, at);
        }
        self.concat_equal(nodes, run, at)
    }

    /// Parts of which some have no columns: these are the same in as many as the first that has some.
    fn with_columns_of_others(&mut self, mut nodes: Vec<NodeId>) -> Vec<NodeId> {
        let has = |body: &Self, node: NodeId| body.graph.ty(node).axes.column.is_some();
        let Some(like) = nodes.iter().copied().find(|node| has(self, *node)) else { return nodes };
        for node in &mut nodes {
            if !has(self, *node) {
                *node = self.graph.spread(*node, like);
            }
        }
        nodes
    }

    /// For each dim of a list the parts of parts of all columns that have it.
    fn listed_columns(&mut self, dims: &[Dim], at: Span) -> Option<Vec<Vec<Part>>> {
        let all = Columns::of_product(self.graph.space().column.divisor());
        let columns = dims.first().and_then(|dim| self.graph.space().columns(dim));
        let divisor = columns.filter(|own| own.part == all.part).map_or(0, |own| own.divisor);
        let count = u16::try_from(divisor / all.divisor.max(1)).unwrap_or(0);
        // Equal parts, of all columns or of a part of them.
        let is_equal = dims.iter().all(|dim| *dim == dims[0]);
        if is_equal && count > 1 && divisor.is_multiple_of(all.divisor) {
            let first = equal_parts(count, None).swap_remove(0);
            return Some(vec![first; dims.len()]);
        }
        self.listed_parts(all, dims, at)
    }

    /// Parts with the columns that a list says.
    fn with_listed_columns(
        &mut self,
        mut nodes: Vec<NodeId>,
        dims: &[Dim],
        at: Span,
    ) -> Option<Vec<NodeId>> {
        if dims.len() != nodes.len() {
            self.report(CheckError::TargetCount { given: nodes.len(), gives: dims.len(), at });
            return None;
        }
        let chains = self.listed_columns(dims, at)?;
        let column = self.graph.make(Op::Index(IndexAxis::Column));
        for (node, chain) in nodes.iter_mut().zip(chains) {
            if self.graph.ty(*node).axes.column.is_none() {
                let place = |body: &mut Self, of: NodeId, part| body.graph.make(Op::Part(part, of));
                let like = chain.into_iter().fold(column, |of, part| place(self, of, part));
                *node = self.graph.spread(*node, like);
            }
        }
        Some(nodes)
    }

    fn wrong_parts(&mut self, nodes: &[NodeId], at: Span) -> Lowered {
        if let &[a, b] = nodes {
            let (left, right) = (self.dims_text(a), self.dims_text(b));
            let function = "concat".to_owned();
            return self.report(CheckError::MergeDims { function, left, right, at });
        }
        let dims: Vec<String> =
            nodes.iter().map(|node| format!("[{}]", self.dims_text(*node))).collect();
        self.report(CheckError::ConcatDims { dims: dims.join(", "), at })
    }

    /// Parts brought to one element type.
    fn alike_parts(&mut self, parts: &[ExprId], at: Span) -> Option<Vec<NodeId>> {
        if let &[a, b] = parts {
            return self.alike(Binary::Maximum, a, b, at).map(|(a, b)| vec![a, b]);
        }
        let mut nodes = Vec::new();
        for part in parts {
            nodes.push(self.settle(self.lowered[part], self.exprs[*part].span)?);
        }
        let elems: Vec<Elem> = nodes.iter().map(|node| self.graph.ty(*node).elem).collect();
        let to = if elems.contains(&Elem::F32) { Elem::F32 } else { elems[0] };
        for (node, part) in nodes.iter_mut().zip(parts) {
            if self.graph.ty(*node).elem != to {
                *node = self.convert(Lowered::Node(*node), to, self.exprs[*part].span)?;
            }
        }
        Some(nodes)
    }

    /// Equal parts: two and two of them, as they were split, for a power of two of all columns.
    fn concat_equal(&mut self, nodes: Vec<NodeId>, run: Option<u32>, at: Span) -> Lowered {
        let mut nodes = nodes;
        while run.is_none() && nodes.len() > 1 && nodes.len().is_multiple_of(2) {
            let mut joined = Vec::new();
            for pair in nodes.chunks(2) {
                match self.node(Op::Merge(Merge::Concat, pair[0], pair[1]), at) {
                    Lowered::Node(node) => joined.push(node),
                    other => return other,
                }
            }
            nodes = joined;
        }
        match (nodes.as_slice(), run) {
            (&[one], _) => Lowered::Node(one),
            (&[a, b], Some(2)) => self.node(Op::Merge(Merge::Join, a, b), at),
            _ => self.node(Op::Concat(Concat::Equal(run), nodes), at),
        }
    }
}

/// For each of several equal parts the parts of parts that it is: halves of halves of an odd number of parts.
fn equal_parts(count: u16, run: Option<u32>) -> Vec<Vec<Part>> {
    if run == Some(2) {
        return vec![vec![Part::Even], vec![Part::Odd]];
    }
    if run.is_some() {
        return (0..count).map(|index| vec![Part::Equal { index, count, run }]).collect();
    }
    let odd = count >> count.trailing_zeros();
    let mut parts: Vec<Vec<Part>> = match odd {
        1 => vec![Vec::new()],
        odd => (0..odd).map(|index| vec![Part::Equal { index, count: odd, run }]).collect(),
    };
    while parts.len() < count.into() {
        let halved = |part: Vec<Part>| {
            [Part::First, Part::Second].map(|half| [part.clone(), vec![half]].concat())
        };
        parts = parts.into_iter().flat_map(halved).collect();
    }
    parts
}
