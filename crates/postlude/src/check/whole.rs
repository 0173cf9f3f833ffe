//! What is wrong with a body as a whole: told first and alone, because everything else would follow from it.
//!
//! In: the tree. Out: functions that the language does not have, inputs that are assigned, names that are read before they
//! are assigned; without these, statements read earlier ones only. Names that nothing reads are found here too, as
//! warnings.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalogue;
use crate::dtype::DType;
use crate::syntax::{Ast, Declaration, ExprId, ExprKind, Name, Signature, nearest};

use super::dims::is_dim_argument;
use super::error::{CheckError, Warning};

/// Refuses a body for what has to be mended before any other check makes sense.
pub(super) fn check(ast: &Ast) -> Result<(), Vec<CheckError>> {
    let calls = ast.exprs.iter().filter_map(|(_, expr)| match &expr.kind {
        ExprKind::Call { function, grad, .. } => Some((function, *grad)),
        _ => None,
    });
    let unknown: Vec<CheckError> = calls
        .filter(|(name, grad)| !is_function(name, *grad))
        .map(|(name, _)| report(name))
        .collect();
    if !unknown.is_empty() {
        return Err(super::first(unknown));
    }
    let misplaced = misplaced(ast);
    if misplaced.is_empty() { Ok(()) } else { Err(super::first(misplaced)) }
}

/// Inputs that statements assign, and names that are read before they are assigned, each once.
fn misplaced(ast: &Ast) -> Vec<CheckError> {
    let mut errors = Vec::new();
    let names = |declared: fn(&Signature) -> &[Declaration]| -> BTreeSet<&str> {
        let declared = ast.signature.iter().flat_map(declared);
        declared.map(|one| one.name.text.as_str()).collect()
    };
    let inputs = names(|signature| &signature.inputs);
    let outputs = names(|signature| &signature.outputs);
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    for (place, statement) in ast.statements.iter().enumerate() {
        for Name { text, span } in &statement.targets {
            let is_input = inputs.contains(text.as_str());
            // An input that is an output too is declared twice.
            if is_input && !outputs.contains(text.as_str()) {
                errors.push(CheckError::AssignsInput { name: text.clone(), at: *span });
            } else if !is_input {
                first.entry(text).or_insert(place);
            }
        }
    }
    let (mut seen, mut blamed) = (BTreeSet::new(), BTreeSet::new());
    for (place, statement) in ast.statements.iter().enumerate() {
        let mut open = vec![statement.value];
        while let Some(id) = open.pop().filter(|_| errors.len() < super::MOST_ERRORS) {
            if !seen.insert(id) {
                continue;
            }
            if let ExprKind::Name(name) | ExprKind::Annotated(name, _) = &ast.exprs[id].kind {
                let is_later = first.get(name.as_str()).is_some_and(|first| *first >= place);
                if is_later && blamed.insert(name) {
                    let (name, at) = (name.clone(), ast.exprs[id].span);
                    errors.push(CheckError::UsedBeforeAssigned { name, at });
                }
            }
            open.extend(values(&ast.exprs[id].kind).rev());
        }
    }
    errors
}

/// The expressions under one that stand for values, not for dims.
fn values(kind: &ExprKind) -> impl DoubleEndedIterator<Item = ExprId> {
    let is_value = |place: usize| match kind {
        ExprKind::Call { function, .. } => !is_dim_argument(&function.text, place),
        _ => true,
    };
    let children = kind.children().enumerate().filter(|(place, _)| is_value(*place));
    children.map(|(_, id)| id).collect::<Vec<_>>().into_iter()
}

pub(super) fn is_function(function: &Name, grad: bool) -> bool {
    let name = function.text.as_str();
    catalogue::find(name).is_some() || !grad && DType::from_name(name).is_some()
}

pub(super) fn report(function: &Name) -> CheckError {
    let (name, at) = (function.text.clone(), function.span);
    if DType::RESERVED.contains(&name.as_str()) {
        return CheckError::UnknownFunction { name, nearest: Some("bf16".to_owned()), at };
    }
    let known =
        catalogue::FUNCTIONS.iter().map(|entry| entry.name).chain(DType::ALL.map(DType::name));
    let nearest = nearest(&name, known.collect::<Vec<_>>()).map(str::to_owned);
    CheckError::UnknownFunction { name, nearest, at }
}

/// Inputs and assigned names that nothing reads.
pub(super) fn warnings(ast: &Ast) -> Vec<Warning> {
    let Some(signature) = &ast.signature else { return Vec::new() };
    let mut read: BTreeSet<&str> = BTreeSet::new();
    for (_, expr) in ast.exprs.iter() {
        if let ExprKind::Name(name) | ExprKind::Annotated(name, _) = &expr.kind {
            read.insert(name);
        }
    }
    // Where an input is another one under other dims, both are one tensor.
    let same = signature.inputs.iter().filter_map(|input| input.same_as.as_ref());
    read.extend(same.map(|name| name.text.as_str()));
    let unread = |name: &&Name| !read.contains(name.text.as_str());
    let is_output =
        |name: &Name| signature.outputs.iter().any(|output| output.name.text == name.text);
    let inputs = signature.inputs.iter().map(|input| &input.name).filter(unread);
    let inputs = inputs.map(|name| Warning::UnusedInput { name: name.text.clone(), at: name.span });
    let targets = ast.statements.iter().flat_map(|statement| &statement.targets);
    let targets = targets.filter(unread).filter(|name| !is_output(name));
    let targets = targets.map(|name| Warning::Unread { name: name.text.clone(), at: name.span });
    inputs.chain(targets).collect()
}
