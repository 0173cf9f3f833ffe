//! Names for products, so that the derivatives can read them, and formulas for `grad(f)(x)`, which has derivatives too.

use std::collections::{HashMap, HashSet};

use crate::dtype::DType;
use crate::graph::free_name;
use crate::syntax::{Ast, ExprId, ExprKind, Exprs, Name, Span, Statement};

use super::formulas;

/// A body that is prepared for its derivatives.
pub(super) struct Hoisted {
    pub(super) ast: Ast,
    /// For each `grad(f)(x)` what it is, an expression before it.
    pub(super) expansions: HashMap<ExprId, ExprId>,
}

/// The same body, in which every product is the value of a statement, or is rounded to it.
pub(super) fn hoist(ast: &Ast) -> Hoisted {
    let mut exprs = Exprs::default();
    let mut expansions = HashMap::new();
    let mut statements: Vec<Statement> = Vec::new();
    let mut places: Vec<Option<ExprId>> = vec![None; ast.exprs.len()];
    let signature = ast.signature.iter();
    let declared = signature.flat_map(|it| it.inputs.iter().chain(&it.outputs)).map(|it| &it.name);
    let targets = ast.statements.iter().flat_map(|statement| &statement.targets);
    let mut names: Vec<String> = declared.chain(targets).map(|name| name.text.clone()).collect();
    // By what they multiply.
    let mut named: HashMap<String, String> = HashMap::new();
    // A product that is rounded at once is named as it is rounded.
    let casts = ast.exprs.iter().filter(|(id, _)| rounds_product(ast, *id));
    let rounded: HashSet<ExprId> = casts.flat_map(|(_, cast)| cast.kind.children()).collect();
    for statement in &ast.statements {
        for id in below(ast, statement.value) {
            if places[id.0 as usize].is_some() {
                continue;
            }
            let expr = &ast.exprs[id];
            let known = |child: ExprId| {
                places[child.0 as usize]
                    .unwrap_or_else(|| panic!("compiler bug: a child comes after its parent"))
            };
            let kind = expr.kind.map_children(known);
            let expansion = expanded(&mut exprs, &kind, expr.span);
            let mut new = exprs.push(kind, expr.span);
            expansions.extend(expansion.map(|expansion| (new, expansion)));
            let is_product = matches!(expr.kind, ExprKind::Product(..)) && !rounded.contains(&id);
            if is_product || rounds_product(ast, id) {
                let text = exprs.display(new).to_string();
                if statement.value == id {
                    // Further products of the same operands are this one.
                    if let [target] = statement.targets.as_slice() {
                        named.entry(text).or_insert_with(|| target.text.clone());
                    }
                    places[id.0 as usize] = Some(new);
                    continue;
                }
                if let Some(name) = named.get(&text) {
                    places[id.0 as usize] =
                        Some(exprs.push(ExprKind::Name(name.clone()), expr.span));
                    continue;
                }
                let name = free_name("product", |name| names.iter().any(|it| it == name));
                names.push(name.clone());
                named.insert(text, name.clone());
                let targets = vec![Name::new(name.clone(), Span::default())];
                statements.push(Statement { targets, value: new });
                new = exprs.push(ExprKind::Name(name), expr.span);
            }
            places[id.0 as usize] = Some(new);
        }
        let value = places[statement.value.0 as usize];
        let value = value.unwrap_or_else(|| panic!("compiler bug: a statement has no value"));
        statements.push(Statement { targets: statement.targets.clone(), value });
    }
    let (definitions, signature) = (Vec::new(), ast.signature.clone());
    Hoisted { ast: Ast { definitions, signature, statements, exprs }, expansions }
}

/// What `grad(f)(x)` is, by the formula of the derivative.
fn expanded(exprs: &mut Exprs, kind: &ExprKind, at: Span) -> Option<ExprId> {
    let ExprKind::Call { function, grad: true, arguments } = kind else { return None };
    let formula = formulas::derivative(&function.text, arguments.len())?;
    let call = (function.text.as_str(), arguments.as_slice());
    Some(formulas::write(formula, call, &mut |kind| exprs.push(kind, at)))
}

/// The expressions that a value is made of, children first.
fn below(ast: &Ast, root: ExprId) -> Vec<ExprId> {
    let mut all = Vec::new();
    let mut open = vec![root];
    while let Some(id) = open.pop() {
        all.push(id);
        open.extend(ast.exprs[id].kind.children());
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Whether an expression rounds a product, and nothing else.
fn rounds_product(ast: &Ast, id: ExprId) -> bool {
    match &ast.exprs[id].kind {
        ExprKind::Call { function, grad: false, arguments } => {
            let product = |id: &ExprId| matches!(ast.exprs[*id].kind, ExprKind::Product(..));
            DType::from_name(&function.text).is_some()
                && arguments.len() == 1
                && arguments.iter().all(product)
        }
        _ => false,
    }
}
