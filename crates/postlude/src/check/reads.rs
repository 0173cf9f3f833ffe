//! What an expression reads, through the statements that assign some of it.
//!
//! In: expressions of a body whose statements read earlier ones only. Out: names that no statement assigns, and statements.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::shape::Dim;
use crate::syntax::{Ast, ExprId, ExprKind, Statement};

use super::separate::is_separate;

/// A name that an operand reads, and whether it is read with its last two dims swapped.
pub(super) struct Leaf<'a> {
    pub(super) name: &'a str,
    pub(super) swapped: bool,
    pub(super) read: LeafRead,
}

/// How a name is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LeafRead {
    /// As a value.
    Value,
    /// Row by row, as an index of this expression says.
    Gathered(ExprId),
    /// As a list of rows and weights.
    List,
}

/// Whether a function reads rows of its first argument, which is a tensor in memory.
pub(super) fn gathers(function: &str) -> bool {
    matches!(function, "gather" | "combine")
}

/// Whether an expression reads rows of tensors in memory, outside of operands.
pub(super) fn has_gathered(ast: &Ast, root: ExprId) -> bool {
    reads(ast, [root], false).gathers
}

/// The statement that assigns a name.
pub(super) fn assignment<'a>(ast: &'a Ast, name: &str) -> Option<(usize, &'a Statement)> {
    let assigns = |statement: &Statement| statement.targets.iter().any(|it| it.text == name);
    ast.statements.iter().enumerate().find(|(_, statement)| assigns(statement))
}

/// The first statement that assigns each name.
fn assignments(ast: &Ast) -> HashMap<&str, usize> {
    let mut places = HashMap::new();
    for (place, statement) in ast.statements.iter().enumerate() {
        for target in &statement.targets {
            places.entry(target.text.as_str()).or_insert(place);
        }
    }
    places
}

/// What an expression reads, through the statements that assign some of it.
struct Reads<'a> {
    leaves: Vec<Leaf<'a>>,
    statements: BTreeSet<usize>,
    gathers: bool,
    /// Dims that names are written with, and whether they are read with the last two swapped.
    written: Vec<(&'a [Dim], bool)>,
}

/// The leaf that an argument of a function which gathers is, if it is no expression.
fn gathered_leaf<'a>(
    ast: &'a Ast,
    assigned: &HashMap<&str, usize>,
    arguments: &[ExprId],
    place: usize,
) -> Option<Leaf<'a>> {
    let (ExprKind::Name(name) | ExprKind::Annotated(name, _)) = &ast.exprs[arguments[place]].kind
    else {
        return None;
    };
    let read = match arguments {
        [_, index, ..] if place == 0 => LeafRead::Gathered(*index),
        [_, _, _, ..] => LeafRead::List,
        _ => return None,
    };
    (!assigned.contains_key(name.as_str())).then_some(Leaf { name, swapped: false, read })
}

fn reads(ast: &Ast, roots: impl IntoIterator<Item = ExprId>, through_products: bool) -> Reads<'_> {
    let assigned = assignments(ast);
    let (leaves, statements, written) = (Vec::new(), BTreeSet::new(), Vec::new());
    let mut found = Reads { leaves, statements, gathers: false, written };
    let mut seen: HashSet<(ExprId, bool)> = HashSet::new();
    let mut open: Vec<_> = roots.into_iter().map(|root| (root, false)).collect();
    while let Some((id, swapped)) = open.pop() {
        if !seen.insert((id, swapped)) {
            continue;
        }
        if let ExprKind::Annotated(_, dims) = &ast.exprs[id].kind {
            found.written.push((dims, swapped));
        }
        match &ast.exprs[id].kind {
            ExprKind::Name(name) | ExprKind::Annotated(name, _) => match assigned.get(&**name) {
                Some(place) => {
                    found.statements.insert(*place);
                    open.push((ast.statements[*place].value, swapped));
                }
                None => found.leaves.push(Leaf { name, swapped, read: LeafRead::Value }),
            },
            ExprKind::Product(a, b) if through_products => {
                open.extend([(*b, swapped), (*a, swapped)]);
            }
            kind if is_separate(kind) && !through_products => {}
            ExprKind::Number(_) | ExprKind::Dims(_) | ExprKind::Product(..) => {}
            ExprKind::Transpose(a) => open.push((*a, !swapped)),
            ExprKind::Prefix(_, a) => open.push((*a, swapped)),
            ExprKind::Infix(_, a, b) => open.extend([(*b, swapped), (*a, swapped)]),
            ExprKind::Call { function, arguments, .. } if gathers(&function.text) => {
                found.gathers = true;
                for (place, argument) in arguments.iter().enumerate() {
                    match gathered_leaf(ast, &assigned, arguments, place) {
                        Some(leaf) => found.leaves.push(leaf),
                        // A stored value, as operands of products are.
                        None if place == 0 && !through_products => {}
                        None => open.push((*argument, swapped)),
                    }
                }
            }
            ExprKind::Call { arguments, .. } => {
                open.extend(arguments.iter().rev().map(|argument| (*argument, swapped)));
            }
        }
    }
    found
}

/// The names that an expression reads and no statement assigns, in order.
pub(super) fn leaves(ast: &Ast, root: ExprId, through_products: bool) -> Vec<Leaf<'_>> {
    reads(ast, [root], through_products).leaves
}

/// The dims that names of an expression are written with, and whether they are read with the last two swapped.
pub(super) fn written_dims(ast: &Ast, root: ExprId) -> Vec<(&[Dim], bool)> {
    reads(ast, [root], false).written
}

/// The statements that an expression reads.
pub(super) fn read_statements(ast: &Ast, root: ExprId, through_products: bool) -> BTreeSet<usize> {
    reads(ast, [root], through_products).statements
}

/// The statements that assign some names, and the statements that these read.
pub(super) fn assigned_by<'a>(
    ast: &Ast,
    names: impl Iterator<Item = &'a str>,
    through_products: bool,
) -> BTreeSet<usize> {
    let places: BTreeSet<usize> = {
        let assigned = assignments(ast);
        names.filter_map(|name| assigned.get(name).copied()).collect()
    };
    let values = places.iter().map(|place| ast.statements[*place].value);
    let mut read = reads(ast, values, through_products).statements;
    read.extend(&places);
    read
}
