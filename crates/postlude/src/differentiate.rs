//! The derivatives of a kernel, as another kernel.
//!
//! In: a tree that types, the inputs to differentiate with respect to, and what the forward pass keeps. Out: the text of the
//! backward kernel, which reads cotangents of the outputs (`d_D`) and writes those of the inputs (`d_W`), and the text of a
//! forward kernel that stores what the backward one reads.
//! Invariants: a cotangent may lack dims of what it belongs to: along these it is the same everywhere. Casts to floats are passed through. A cotangent is rounded where it is multiplied, to what the product's
//! operands are.

mod dims;
mod error;
mod expressions;
mod formulas;
mod functions;
mod hoist;
mod parts;
mod rows;
mod rules;
mod segments;
mod text;

use std::collections::HashMap;

use crate::check::Reading;
use crate::dtype::{DType, Elem};
use crate::shape::Dim;
use crate::syntax::{
    Ast, Declaration, ExprId, ExprKind, Exprs, Infix, Name, Prefix, Signature, Span, Statement,
    nearest,
};

use dims::{Known, meet, pair_of, without_segments};
pub use error::GradError;
use hoist::Hoisted;
use segments::Cut;

/// What the forward pass keeps for the backward pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Save {
    /// Products that the backward pass needs, rounded as the text rounds them: a product costs more than reading it again.
    #[default]
    Products,
    /// Nothing: the backward pass computes again what it needs.
    Nothing,
}

/// A kernel's derivatives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Derived {
    /// The kernel, which stores what is saved behind its own outputs.
    pub forward: String,
    /// The kernel of the derivatives.
    pub backward: String,
    /// What the forward pass stores for the backward pass.
    pub saved: Vec<String>,
    /// The cotangents that the backward kernel reads: each output's name, and the input's.
    pub cotangents: Vec<(String, String)>,
    /// The derivatives that it writes: each input's name, and the output's.
    pub gradients: Vec<(String, String)>,
}

/// How much the derivatives say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// Parts of named sizes are put together with a list of their dims, which needs a tensor with the columns of the whole
    /// beside it; operands of f32 are not cast.
    Short,
    /// Parts are put together with those of the forward pass, so that its split says the dims; operands are cast.
    Explicit,
}

/// Derives a kernel that has a signature and no definitions; with respect to all inputs of floats where none are named.
pub(crate) fn differentiate(
    ast: &Ast,
    wrt: &[String],
    save: Save,
    form: Form,
) -> Result<Derived, GradError> {
    let Hoisted { ast, expansions } = hoist::hoist(ast);
    let Some(signature) = &ast.signature else { return Err(GradError::NoSignature) };
    // What is put together where its split is has the split's product in the same body.
    let listed = ast.exprs.iter().any(|(_, expr)| matches!(expr.kind, ExprKind::Dims(_)));
    let save = if listed && form == Form::Explicit { Save::Nothing } else { save };
    let (named, wrt) = (!wrt.is_empty(), asked(signature, wrt)?);
    let mut sweep = Sweep::new((&ast, expansions), signature, &wrt, (save, form));
    sweep.refuse_mixed_rows()?;
    sweep.run()?;
    let gradients = sweep.gradients(&wrt, named)?;
    Ok(text::write(&sweep, &gradients, save))
}

/// The inputs that are asked for.
fn asked(signature: &Signature, wrt: &[String]) -> Result<Vec<String>, GradError> {
    let inputs = &signature.inputs;
    if let Some(input) = inputs.iter().find(|input| input.same_as.is_some()) {
        return Err(GradError::SecondName { name: input.name.text.clone(), at: input.name.span });
    }
    let is_float = |input: &Declaration| input.dtype.elem() == Elem::F32;
    if wrt.is_empty() {
        let floats = inputs.iter().filter(|input| is_float(input) && input.dims.is_some());
        return Ok(floats.map(|input| input.name.text.clone()).collect());
    }
    for name in wrt {
        let known = inputs.iter().find(|input| input.name.text == *name);
        let Some(input) = known else {
            let names: Vec<&str> = inputs.iter().map(|input| input.name.text.as_str()).collect();
            let nearest = nearest(name, names).map(str::to_owned);
            return Err(GradError::UnknownInput { name: name.clone(), nearest });
        };
        if !is_float(input) {
            let (name, dtype) = (name.clone(), input.dtype);
            return Err(GradError::NotFloat { name, dtype, at: input.type_span });
        }
    }
    let mut once: Vec<String> = Vec::new();
    for name in wrt {
        if !once.contains(name) {
            once.push(name.clone());
        }
    }
    Ok(once)
}

/// The reverse sweep over a body.
struct Sweep<'a> {
    ast: &'a Ast,
    signature: &'a Signature,
    save: Save,
    form: Form,
    /// The body's expressions, and behind them those of the derivatives.
    exprs: Exprs,
    /// What each of them varies along.
    dims: Vec<Vec<Dim>>,
    known: Known,
    /// For each `grad(f)(x)` of the body what it is: an expression without it.
    expansions: HashMap<ExprId, ExprId>,
    /// Whether each of the body's expressions depends on what is asked for.
    active: Vec<bool>,
    /// The cotangent of each of the body's expressions, as far as there is one.
    cotangents: Vec<Option<ExprId>>,
    /// Those of names that a statement of several targets assigns.
    of_targets: HashMap<String, ExprId>,
    /// Those of inputs.
    of_inputs: HashMap<String, ExprId>,
    /// The statements of the derivatives, in order.
    statements: Vec<(Vec<String>, ExprId)>,
    /// Names that are taken.
    names: Vec<String>,
    /// Outputs whose cotangents are read, with the names of those.
    read: Vec<(String, String)>,
    /// Rows that are cut into segments.
    cuts: Vec<Cut>,
    /// Names of expressions of the body that the derivatives gave them, by what they read.
    values: HashMap<String, ExprId>,
}

impl<'a> Sweep<'a> {
    fn new(
        (ast, expansions): (&'a Ast, HashMap<ExprId, ExprId>),
        signature: &'a Signature,
        wrt: &[String],
        (save, form): (Save, Form),
    ) -> Sweep<'a> {
        let known = Known::of(ast, signature);
        let active = active(ast, Some(&expansions), wrt);
        let declared = signature.inputs.iter().chain(&signature.outputs);
        let targets = ast.statements.iter().flat_map(|statement| &statement.targets);
        let names = declared.map(|declared| &declared.name).chain(targets);
        Sweep {
            ast,
            signature,
            save,
            form,
            exprs: ast.exprs.clone(),
            dims: known.dims.clone(),
            expansions,
            active,
            cotangents: vec![None; ast.exprs.len()],
            of_targets: HashMap::new(),
            of_inputs: HashMap::new(),
            statements: Vec::new(),
            names: names.map(|name| name.text.clone()).collect(),
            read: Vec::new(),
            cuts: known.cuts.clone(),
            known,
            values: HashMap::new(),
        }
    }

    /// Passes cotangents from the outputs to the inputs.
    fn run(&mut self) -> Result<(), GradError> {
        for output in &self.signature.outputs {
            self.seed(output);
        }
        if self.read.is_empty() {
            return Err(GradError::NothingDepends);
        }
        for place in (0..self.ast.exprs.len()).rev() {
            let id = ExprId(place as u32);
            let statement = self.ast.statements.iter().find(|statement| statement.value == id);
            match statement {
                Some(statement) if statement.targets.len() > 1 => self.several(statement)?,
                Some(_) | None => {
                    let given = self.cotangents[place].filter(|_| self.active[place]);
                    let Some(mut cotangent) = given.filter(|given| !self.is_zero(*given)) else {
                        continue;
                    };
                    if let Some(statement) = statement {
                        let name = format!("d_{}", statement.targets[0].text);
                        cotangent = self.named(&name, cotangent);
                    }
                    self.pass(id, cotangent)?;
                }
            }
        }
        Ok(())
    }

    /// Gives an output's value its cotangent, an input of the derivatives.
    fn seed(&mut self, output: &Declaration) {
        let name = &output.name.text;
        let assigns = |it: &&Statement| it.targets.iter().any(|target| target.text == *name);
        let Some(statement) = self.ast.statements.iter().find(assigns) else { return };
        let is_float = output.dtype.elem() == Elem::F32;
        if !is_float || !self.active[statement.value.0 as usize] {
            return;
        }
        let cotangent = self.free_name(&format!("d_{name}"));
        let dims = output.dims.clone().unwrap_or_default();
        let value = self.push(ExprKind::Name(cotangent.clone()), dims);
        self.read.push((name.clone(), cotangent));
        self.add_to_name(name, value);
    }

    /// The derivatives that are asked for.
    fn gradients(
        &mut self,
        wrt: &[String],
        named: bool,
    ) -> Result<Vec<(String, String)>, GradError> {
        let mut gradients = Vec::new();
        for name in wrt {
            let known = self.of_inputs.get(name).copied().filter(|value| !self.is_zero(*value));
            let value = match known {
                Some(value) => value,
                None if !named => continue,
                None if self.depends(name) => {
                    return Err(GradError::Zero { name: name.clone() });
                }
                None => return Err(GradError::NoPath { name: name.clone() }),
            };
            let value = self.of_declared_dims(name, value);
            let value = self.of_segments(value);
            let target = self.free_name(&format!("d_{name}"));
            self.statements.push((vec![target.clone()], value));
            gradients.push((name.clone(), target));
        }
        if gradients.is_empty() { Err(GradError::NothingDepends) } else { Ok(gradients) }
    }

    /// Whether an output of floats depends on an input, if by a derivative of 0 everywhere.
    fn depends(&self, name: &str) -> bool {
        let active = active(self.ast, None, &[name.to_owned()]);
        let read = self.read.iter().filter_map(|(output, _)| self.assigned(output));
        read.into_iter().any(|value| active[value.0 as usize])
    }

    /// A derivative with the declared dims of its input, where it has runs of one; a store repeats it along others.
    fn of_declared_dims(&mut self, name: &str, value: ExprId) -> ExprId {
        let declared = self.signature.inputs.iter().find(|input| input.name.text == name);
        let dims = declared.and_then(|input| input.dims.clone()).unwrap_or_default();
        let own = self.dims_of(value);
        let is_run = |dim: &Dim| own.iter().any(|own| own.same_base(dim) && own != dim);
        if !dims.iter().any(is_run) {
            return value;
        }
        let input = self.push(ExprKind::Name(name.to_owned()), dims);
        self.widened(value, input)
    }

    /// Adds a contribution to the cotangent of an expression.
    fn add(&mut self, id: ExprId, value: ExprId) {
        let place = id.0 as usize;
        if self.active[place] {
            let sum = self.sum(self.cotangents[place], value);
            self.cotangents[place] = Some(sum);
        }
    }

    /// Adds a contribution to what a name stands for.
    fn add_to_name(&mut self, name: &str, value: ExprId) {
        let assigns = |it: &&Statement| it.targets.iter().any(|target| target.text == name);
        match self.ast.statements.iter().find(assigns) {
            Some(statement) if statement.targets.len() == 1 => {
                let place = statement.value.0 as usize;
                let sum = self.sum(self.cotangents[place], value);
                self.cotangents[place] = Some(sum);
            }
            Some(_) => {
                let sum = self.sum(self.of_targets.get(name).copied(), value);
                self.of_targets.insert(name.to_owned(), sum);
            }
            None => {
                let sum = self.sum(self.of_inputs.get(name).copied(), value);
                self.of_inputs.insert(name.to_owned(), sum);
            }
        }
    }

    fn sum(&mut self, known: Option<ExprId>, value: ExprId) -> ExprId {
        match known {
            Some(known) => self.infix(Infix::Add, known, value),
            None => value,
        }
    }

    /// A value under a name, unless it is one already.
    fn named(&mut self, name: &str, value: ExprId) -> ExprId {
        let is_short =
            |id: ExprId| matches!(self.exprs[id].kind, ExprKind::Name(_) | ExprKind::Number(_));
        let opposite = self.opposite(value);
        if is_short(value) || opposite.is_some_and(is_short) {
            return value;
        }
        self.renamed(name, value)
    }

    /// A value under a new name.
    fn renamed(&mut self, name: &str, value: ExprId) -> ExprId {
        let name = self.free_name(name);
        let dims = self.dims_of(value).to_vec();
        self.statements.push((vec![name.clone()], value));
        self.push(ExprKind::Name(name), dims)
    }

    fn free_name(&mut self, name: &str) -> String {
        let free = crate::graph::free_name(name, |name| self.names.iter().any(|it| it == name));
        self.names.push(free.clone());
        free
    }

    fn dims_of(&self, id: ExprId) -> &[Dim] {
        &self.dims[id.0 as usize]
    }

    fn push(&mut self, kind: ExprKind, dims: Vec<Dim>) -> ExprId {
        let id = self.exprs.push(kind, Span::default());
        self.dims.push(without_segments(dims, &self.cuts));
        id
    }

    /// The rows and columns that values read as operands of the derivatives' products.
    fn pairs<const N: usize>(&self, values: [ExprId; N]) -> [Option<[Dim; 2]>; N] {
        let mut declarations = self.signature.inputs.clone();
        let mut declare = |name: &str, dims: Vec<Dim>| {
            let name = Name::new(name, Span::default());
            let (dtype, dims, type_span) = (DType::F32, Some(dims), Span::default());
            declarations.push(Declaration { name, dtype, dims, same_as: None, type_span });
        };
        for (output, cotangent) in &self.read {
            let mut declared = self.signature.outputs.iter();
            let output = declared.find(|declared| declared.name.text == *output);
            declare(cotangent, output.and_then(|output| output.dims.clone()).unwrap_or_default());
        }
        let mut statements = Vec::new();
        for (place, statement) in self.ast.statements.iter().enumerate() {
            if self.save == Save::Products && self.is_saved(place) {
                declare(&statement.targets[0].text, self.dims_of(statement.value).to_vec());
            } else {
                statements.push(statement.clone());
            }
        }
        for (targets, value) in &self.statements {
            let targets = targets.iter().map(|name| Name::new(name.as_str(), Span::default()));
            statements.push(Statement { targets: targets.collect(), value: *value });
        }
        let (definitions, signature) = (Vec::new(), self.ast.signature.clone());
        let ast = Ast { definitions, signature, statements, exprs: self.exprs.clone() };
        let reading = Reading::new(&ast, &declarations);
        let dims = |id: ExprId| self.dims_of(id).to_vec();
        values.map(|value| pair_of(reading.as_ref(), value, &dims, &self.known.parts))
    }

    /// The dtype that a declared name has.
    fn dtype_of(&self, name: &str) -> Option<DType> {
        let declared = self.signature.inputs.iter().find(|input| input.name.text == name)?;
        Some(declared.dtype)
    }
}

fn called(function: &str, grad: bool, arguments: Vec<ExprId>) -> ExprKind {
    ExprKind::Call { function: Name::new(function, Span::default()), grad, arguments }
}

/// Which expressions depend on inputs that are asked for, through functions that have a derivative; `grad(f)(x)` through
/// what it is, where that is given.
fn active(ast: &Ast, expansions: Option<&HashMap<ExprId, ExprId>>, wrt: &[String]) -> Vec<bool> {
    let mut active: Vec<bool> = Vec::with_capacity(ast.exprs.len());
    for (id, expr) in ast.exprs.iter() {
        let of_children = || expr.kind.children().any(|child| active[child.0 as usize]);
        let own = match &expr.kind {
            ExprKind::Name(name) | ExprKind::Annotated(name, _) => {
                let assigns = |it: &&Statement| {
                    it.value < id && it.targets.iter().any(|target| target.text == *name)
                };
                match ast.statements.iter().find(assigns) {
                    Some(statement) => active[statement.value.0 as usize],
                    None => wrt.contains(name),
                }
            }
            ExprKind::Infix(infix, ..) => rules::is_arithmetic(*infix) && of_children(),
            ExprKind::Prefix(prefix, _) => *prefix == Prefix::Negate && of_children(),
            ExprKind::Call { grad: true, .. } => match expansions.map(|known| known.get(&id)) {
                Some(expansion) => expansion.is_some_and(|known| active[known.0 as usize]),
                None => of_children(),
            },
            ExprKind::Call { function, .. } => rules::passes(&function.text) && of_children(),
            ExprKind::Number(_) | ExprKind::Dims(_) => false,
            ExprKind::Transpose(_) | ExprKind::Product(..) => of_children(),
        };
        active.push(own);
    }
    active
}
