//! From what a builder was told to an [`Ast`].
//!
//! In: nodes that may be shared. Out: statements whose expressions are trees, laid out as the
//! parser lays them out.
//! Invariant: the tree is at most a constant times as large as what was built: a shared value that
//! is more than a leaf has a name.

use std::collections::HashSet;

use crate::syntax::{
    Ast, ExprId, ExprKind, Exprs, MAX_NESTING, Name, Number, Prefix, Side, Signature, Span,
    Statement, level,
};

use super::{Node, Parts};

/// Values nested deeper than this get a name. One more level adds at most an operator and its parentheses.
const DEEPEST: usize = MAX_NESTING - 2;

/// As much as is shown of a value that has not been finished.
const PREVIEW: usize = 1000;

/// The tree of a kernel.
pub(super) fn finish(name: &str, parts: &Parts) -> Ast {
    let needed = needed(parts);
    let names = Naming::new(parts, &needed).name_all();
    let mut ast = Ast {
        signature: Some(Signature {
            fused: false,
            name: Name::new(name, Span::default()),
            inputs: parts.inputs.clone(),
            outputs: parts.outputs.iter().map(|(declaration, _)| declaration.clone()).collect(),
        }),
        ..Ast::default()
    };
    // Outputs by value, so that each is assigned where its value is.
    let mut outputs: Vec<(ExprId, &str)> = parts
        .outputs
        .iter()
        .map(|(declaration, value)| (*value, declaration.name.text.as_str()))
        .collect();
    outputs.sort_by_key(|(value, _)| *value);
    let mut outputs = outputs.into_iter().peekable();
    for (index, node) in parts.nodes.iter().enumerate() {
        let id = ExprId(index as u32);
        if !needed[index] {
            continue;
        }
        let mut own = names[index].as_deref();
        match node {
            Node::Plain(kind) if results(parts, index) > 0 => {
                let named = (1..=results(parts, index)).map(|part| names[index + part].as_deref());
                let targets: Option<Vec<&str>> = named.collect();
                let targets = targets.expect("compiler bug: an unnamed part");
                assign(&mut ast, &targets, parts, &names, id, kind);
            }
            Node::Plain(kind) => {
                if let Some(own) = own {
                    assign(&mut ast, &[own], parts, &names, id, kind);
                }
            }
            Node::Part(_) => {}
        }
        while let Some((_, output)) = outputs.next_if(|(value, _)| *value == id) {
            if own == Some(output) {
                // Its own name; a second output of the same name is assigned again, and refused later.
                own = None;
                continue;
            }
            let (exprs, statements) = (&mut ast.exprs, &mut ast.statements);
            let value = emit(parts, &names, id, exprs, usize::MAX);
            statements.push(Statement { targets: vec![Name::new(output, Span::default())], value });
        }
    }
    ast
}

/// A value as an expression of its own, cut off after a while.
pub(super) fn preview(parts: &Parts, root: ExprId) -> (Exprs, ExprId) {
    let mut names = vec![None; parts.nodes.len()];
    for (id, name) in parts.names.iter().rev() {
        names[id.0 as usize] = Some(name.clone());
    }
    for (index, node) in parts.nodes.iter().enumerate() {
        if let (Node::Part(pair), None) = (node, &names[index]) {
            let which = match index as u32 - pair.0 {
                1 => "first".to_owned(),
                2 => "second".to_owned(),
                later => format!("part{later}"),
            };
            names[index] = Some(format!("{which}_of_{pair}", pair = pair.0));
        }
    }
    // The root itself is shown in full; a part has nothing but its name.
    if matches!(parts.nodes[root.0 as usize], Node::Plain(_)) {
        names[root.0 as usize] = None;
    }
    let mut exprs = Exprs::default();
    let id = emit(parts, &names, root, &mut exprs, PREVIEW);
    (exprs, id)
}

fn children(node: &Node) -> Vec<ExprId> {
    match node {
        Node::Plain(kind) => kind.children().collect(),
        Node::Part(pair) => vec![*pair],
    }
}

/// Which nodes the outputs need.
fn needed(parts: &Parts) -> Vec<bool> {
    let mut needed = vec![false; parts.nodes.len()];
    for (_, value) in &parts.outputs {
        needed[value.0 as usize] = true;
    }
    for index in (0..parts.nodes.len()).rev() {
        if needed[index] {
            for child in children(&parts.nodes[index]) {
                needed[child.0 as usize] = true;
            }
        }
    }
    needed
}

/// How many of the nodes after a call are its results: none of a call that gives one value.
fn results(parts: &Parts, index: usize) -> usize {
    let after = parts.nodes.iter().skip(index + 1);
    let own = |node: &&Node| matches!(node, Node::Part(call) if call.0 as usize == index);
    after.take_while(own).count()
}

/// Decides which values get a statement of their own, and its name.
struct Naming<'a> {
    parts: &'a Parts,
    needed: &'a [bool],
    uses: Vec<usize>,
    taken: HashSet<&'a str>,
    names: Vec<Option<String>>,
    /// How deep the text of each value nests.
    depths: Vec<usize>,
    fresh: usize,
}

impl<'a> Naming<'a> {
    fn new(parts: &'a Parts, needed: &'a [bool]) -> Naming<'a> {
        let count = parts.nodes.len();
        let mut uses = vec![0; count];
        let mut taken: HashSet<&str> = parts.names.iter().map(|(_, name)| name.as_str()).collect();
        for (declaration, value) in &parts.outputs {
            uses[value.0 as usize] += 1;
            taken.insert(&declaration.name.text);
        }
        taken.extend(parts.inputs.iter().map(|declaration| declaration.name.text.as_str()));
        for (index, node) in parts.nodes.iter().enumerate() {
            if let Node::Plain(ExprKind::Name(name)) = node {
                taken.insert(name);
            }
            if needed[index] {
                for child in children(node) {
                    uses[child.0 as usize] += 1;
                }
            }
        }
        Naming {
            parts,
            needed,
            uses,
            taken,
            names: vec![None; count],
            depths: vec![0; count],
            fresh: 0,
        }
    }

    fn name_all(mut self) -> Vec<Option<String>> {
        let given = self.parts.names.iter().map(|(id, name)| (*id, name.as_str()));
        let outputs = self
            .parts
            .outputs
            .iter()
            .map(|(declaration, id)| (*id, declaration.name.text.as_str()));
        for (id, name) in given.chain(outputs) {
            let index = id.0 as usize;
            let is_name = matches!(self.parts.nodes[index], Node::Plain(ExprKind::Name(_)));
            if !is_name && self.names[index].is_none() {
                self.names[index] = Some(name.to_owned());
            }
        }
        for index in 0..self.parts.nodes.len() {
            match &self.parts.nodes[index] {
                Node::Part(pair) => {
                    if self.needed[pair.0 as usize] && self.names[index].is_none() {
                        self.names[index] = Some(self.fresh_name());
                    }
                }
                Node::Plain(kind) if self.needed[index] => self.name_plain(index, kind),
                Node::Plain(_) => {}
            }
        }
        self.names
    }

    fn name_plain(&mut self, index: usize, kind: &ExprKind) {
        if results(self.parts, index) > 0 {
            self.names[index] = None;
        } else if self.names[index].is_none() {
            let depth = self.depth(kind);
            let shared = self.uses[index] > 1 && !is_leaf(self.parts, kind);
            if shared || depth > DEEPEST {
                self.names[index] = Some(self.fresh_name());
            } else {
                self.depths[index] = depth;
            }
        }
    }

    /// How deep the text nests: parentheses, calls and operators before an operand, as the parser counts.
    fn depth(&self, kind: &ExprKind) -> usize {
        let whole = |child: &ExprId| self.depths[child.0 as usize];
        let of = |child: &ExprId, side: Side| {
            let index = child.0 as usize;
            let parenthesized = match &self.parts.nodes[index] {
                Node::Plain(inner) => {
                    self.names[index].is_none() && level(kind).encloses(side, level(inner))
                }
                Node::Part(_) => false,
            };
            whole(child) + usize::from(parenthesized)
        };
        match kind {
            ExprKind::Number(_)
            | ExprKind::Name(_)
            | ExprKind::Annotated(..)
            | ExprKind::Dims(_) => 0,
            ExprKind::Transpose(operand) => of(operand, Side::Left),
            ExprKind::Prefix(_, operand) => 1 + of(operand, Side::Left),
            ExprKind::Product(a, b) | ExprKind::Infix(_, a, b) => {
                of(a, Side::Left).max(of(b, Side::Right))
            }
            ExprKind::Call { arguments, .. } => 1 + arguments.iter().map(whole).max().unwrap_or(0),
        }
    }

    fn fresh_name(&mut self) -> String {
        loop {
            self.fresh += 1;
            let name = format!("t{}", self.fresh);
            if !self.taken.contains(name.as_str()) {
                return name;
            }
        }
    }
}

/// Whether the value is as short as a name: inputs, literals, their opposites, and inputs
/// transposed (which `@` takes only as they are).
fn is_leaf(parts: &Parts, kind: &ExprKind) -> bool {
    let is_plain = |id: &ExprId| {
        matches!(parts.nodes[id.0 as usize], Node::Plain(ExprKind::Name(_) | ExprKind::Number(_)))
    };
    match kind {
        ExprKind::Number(Number::Integer(_) | Number::Float(_))
        | ExprKind::Name(_)
        | ExprKind::Annotated(..)
        | ExprKind::Dims(_) => true,
        ExprKind::Transpose(operand) | ExprKind::Prefix(Prefix::Negate, operand) => {
            is_plain(operand)
        }
        ExprKind::Prefix(Prefix::Not | Prefix::Invert, _)
        | ExprKind::Product(..)
        | ExprKind::Infix(..)
        | ExprKind::Call { .. } => false,
    }
}

/// Adds `targets = kind`.
fn assign(
    ast: &mut Ast,
    targets: &[&str],
    parts: &Parts,
    names: &[Option<String>],
    id: ExprId,
    kind: &ExprKind,
) {
    let operands: Vec<ExprId> = kind
        .children()
        .map(|child| emit(parts, names, child, &mut ast.exprs, usize::MAX))
        .collect();
    let mut operands = operands.into_iter();
    let kind = kind.map_children(|_| operands.next().expect("compiler bug: a child is missing"));
    debug_assert!(
        matches!(parts.nodes[id.0 as usize], Node::Plain(_)),
        "compiler bug: a part is assigned"
    );
    let value = ast.exprs.push(kind, Span::default());
    let targets = targets.iter().map(|name| Name::new(*name, Span::default())).collect();
    ast.statements.push(Statement { targets, value });
}

enum Step {
    Enter(ExprId),
    Leave(ExprId),
}

/// Adds the value to the arena as a tree, with names for what has one; past the budget, `…`.
fn emit(
    parts: &Parts,
    names: &[Option<String>],
    root: ExprId,
    exprs: &mut Exprs,
    budget: usize,
) -> ExprId {
    let mut steps = vec![Step::Enter(root)];
    let mut done: Vec<ExprId> = Vec::new();
    let mut entered = 0;
    while let Some(step) = steps.pop() {
        match step {
            Step::Enter(id) => {
                entered += 1;
                let index = id.0 as usize;
                let short = match (&names[index], &parts.nodes[index]) {
                    (Some(name), _) => Some(name.as_str()),
                    (None, Node::Part(_)) => Some("…"),
                    (None, Node::Plain(_)) if entered >= budget => Some("…"),
                    (None, Node::Plain(_)) => None,
                };
                if let Some(name) = short {
                    done.push(exprs.push(ExprKind::Name(name.to_owned()), Span::default()));
                } else {
                    steps.push(Step::Leave(id));
                    steps.extend(children(&parts.nodes[index]).into_iter().rev().map(Step::Enter));
                }
            }
            Step::Leave(id) => {
                let Node::Plain(kind) = &parts.nodes[id.0 as usize] else {
                    unreachable!("compiler bug: a part has no operands")
                };
                let mut operands = done.split_off(done.len() - kind.children().count()).into_iter();
                let kind = kind
                    .map_children(|_| operands.next().expect("compiler bug: a child is missing"));
                done.push(exprs.push(kind, Span::default()));
            }
        }
    }
    done.pop().expect("compiler bug: nothing was emitted")
}
