//! The derivatives as text.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

use crate::dtype::{DType, Elem};
use crate::shape::{self, Dim};
use crate::syntax::{Declaration, ExprId, ExprKind, Statement};

use super::dims::is_product;
use super::{Derived, Save, Sweep};

/// The texts of both passes.
pub(super) fn write(sweep: &Sweep<'_>, gradients: &[(String, String)], save: Save) -> Derived {
    let reached = Reached::of(sweep, gradients, save);
    let saved = reached.saved.iter().map(|place| sweep.saved(*place));
    let saved: Vec<(String, DType, Vec<Dim>)> = saved.collect();
    let name = &sweep.signature.name.text;
    let mut inputs: Vec<String> = Vec::new();
    let declared = sweep.signature.inputs.iter();
    let read = declared.filter(|input| reached.inputs.contains(input.name.text.as_str()));
    inputs.extend(read.map(Declaration::to_string));
    inputs.extend(saved.iter().map(declaration));
    for (output, cotangent) in &sweep.read {
        let declared = sweep.signature.outputs.iter().find(|it| it.name.text == *output);
        let of =
            declared.map(|it| (cotangent.clone(), it.dtype, it.dims.clone().unwrap_or_default()));
        inputs.extend(of.as_ref().map(declaration));
    }
    let outputs = gradients.iter().filter_map(|(input, target)| {
        let declared = sweep.signature.inputs.iter().find(|it| it.name.text == *input)?;
        let dims = declared.dims.clone().unwrap_or_default();
        Some(declaration(&(target.clone(), declared.dtype, dims)))
    });
    let outputs: Vec<String> = outputs.collect();
    let mut backward =
        format!("kernel {name}_backward({}) -> ({}) {{\n", inputs.join(", "), outputs.join(", "));
    for place in &reached.statements {
        let statement = &sweep.ast.statements[*place];
        let targets = statement.targets.iter().map(|target| target.text.as_str());
        line(&mut backward, sweep, &targets.collect::<Vec<_>>(), statement.value);
    }
    for (place, (targets, value)) in sweep.statements.iter().enumerate() {
        if reached.derived.contains(&place) {
            let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
            line(&mut backward, sweep, &targets, *value);
        }
    }
    backward.push_str("}\n");
    Derived {
        forward: forward(sweep, &saved),
        backward,
        saved: saved.into_iter().map(|(name, ..)| name).collect(),
        cotangents: sweep.read.clone(),
        gradients: gradients.to_vec(),
    }
}

/// The kernel with what is saved behind its outputs.
fn forward(sweep: &Sweep<'_>, saved: &[(String, DType, Vec<Dim>)]) -> String {
    let signature = sweep.signature;
    let inputs: Vec<String> = signature.inputs.iter().map(Declaration::to_string).collect();
    let is_output = |name: &str| signature.outputs.iter().any(|output| output.name.text == name);
    let outputs = signature.outputs.iter().map(Declaration::to_string);
    let kept = saved.iter().filter(|(name, ..)| !is_output(name)).map(declaration);
    let outputs: Vec<String> = outputs.chain(kept).collect();
    let name = &signature.name.text;
    let mut text = format!("kernel {name}({}) -> ({}) {{\n", inputs.join(", "), outputs.join(", "));
    for statement in &sweep.ast.statements {
        let targets = statement.targets.iter().map(|target| target.text.as_str());
        line(&mut text, sweep, &targets.collect::<Vec<_>>(), statement.value);
    }
    text.push_str("}\n");
    text
}

fn declaration((name, dtype, dims): &(String, DType, Vec<Dim>)) -> String {
    format!("{name}: {dtype}[{}]", shape::list(dims))
}

fn line(text: &mut String, sweep: &Sweep<'_>, targets: &[&str], value: ExprId) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "    {} = {}", targets.join(", "), sweep.exprs.display(value));
}

/// What the derivatives read of the forward pass.
struct Reached {
    inputs: BTreeSet<String>,
    /// Statements that are computed again.
    statements: BTreeSet<usize>,
    /// Statements whose values are saved.
    saved: BTreeSet<usize>,
    /// Statements of the derivatives that they are made of.
    derived: BTreeSet<usize>,
}

impl Reached {
    fn of(sweep: &Sweep<'_>, gradients: &[(String, String)], save: Save) -> Reached {
        let mut reached = Reached {
            inputs: BTreeSet::new(),
            statements: BTreeSet::new(),
            saved: BTreeSet::new(),
            derived: BTreeSet::new(),
        };
        let derived: HashMap<&str, usize> = sweep
            .statements
            .iter()
            .enumerate()
            .flat_map(|(place, (targets, _))| targets.iter().map(move |it| (it.as_str(), place)))
            .collect();
        let asked = gradients.iter().filter_map(|(_, target)| derived.get(target.as_str()));
        reached.derived.extend(asked);
        let mut open: Vec<ExprId> =
            reached.derived.iter().map(|place| sweep.statements[*place].1).collect();
        let mut seen: BTreeSet<ExprId> = BTreeSet::new();
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            let kind = &sweep.exprs[id].kind;
            open.extend(kind.children());
            let (ExprKind::Name(name) | ExprKind::Annotated(name, _)) = kind else { continue };
            if let Some(place) = derived.get(name.as_str()) {
                reached.derived.insert(*place);
                open.push(sweep.statements[*place].1);
                continue;
            }
            let assigns = |it: &Statement| it.targets.iter().any(|target| target.text == *name);
            match sweep.ast.statements.iter().position(assigns) {
                Some(place) if save == Save::Products && sweep.is_saved(place) => {
                    reached.saved.insert(place);
                }
                Some(place) => {
                    reached.statements.insert(place);
                    open.push(sweep.ast.statements[place].value);
                }
                None => {
                    reached.inputs.insert(name.clone());
                }
            }
        }
        reached
    }
}

impl Sweep<'_> {
    /// Whether a statement's value is saved: a product, perhaps rounded, that no output stores as another dtype.
    pub(super) fn is_saved(&self, place: usize) -> bool {
        let statement = &self.ast.statements[place];
        let name = &statement.targets[0].text;
        let output = self.signature.outputs.iter().find(|output| output.name.text == *name);
        is_product(self.ast, statement.value)
            && output.is_none_or(|output| output.dtype == self.saved_dtype(statement.value))
    }

    /// The dtype that keeps a product as it is.
    fn saved_dtype(&self, value: ExprId) -> DType {
        match &self.ast.exprs[value].kind {
            ExprKind::Call { function, .. } => {
                DType::from_name(&function.text).unwrap_or(DType::F32)
            }
            ExprKind::Product(left, _) => match self.operand_dtype(*left).elem() {
                Elem::I32 => DType::I32,
                Elem::F32 | Elem::Bool => DType::F32,
            },
            _ => DType::F32,
        }
    }

    /// A saved value as it is declared.
    fn saved(&self, place: usize) -> (String, DType, Vec<Dim>) {
        let statement = &self.ast.statements[place];
        let name = statement.targets[0].text.clone();
        let declared = self.signature.outputs.iter().find(|output| output.name.text == name);
        if let Some(output) = declared {
            return (name, output.dtype, output.dims.clone().unwrap_or_default());
        }
        (name, self.saved_dtype(statement.value), self.dims_of(statement.value).to_vec())
    }
}
