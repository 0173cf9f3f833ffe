//! The derivatives of a kernel, as another kernel.
//!
//! In: a tree that types, the inputs to differentiate with respect to, and what the forward pass keeps. Out: the text of the
//! backward kernel, which reads cotangents of the outputs (`d_D`) and writes those of the inputs (`d_W`), and the text of a
//! forward kernel that stores what the backward one reads.
//! Invariants: a cotangent reads as what it belongs to, dims in the same order; it may lack dims along which it is the same
//! everywhere. Casts to floats are passed through. A cotangent is rounded where it is multiplied, to what the product's
//! operands are.

mod dims;
mod error;
mod functions;
mod hoist;
mod parts;
mod rows;
mod rules;
mod segments;
mod text;

use std::collections::HashMap;

use crate::dtype::{DType, Elem};
use crate::shape::Dim;
use crate::syntax::{
    Ast, Declaration, ExprId, ExprKind, Exprs, Infix, Name, Number, Signature, Span, Statement,
    nearest,
};

use dims::{Info, Known, without_segments};
pub use error::GradError;
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

/// Derives a kernel that has a signature and no definitions; with respect to all inputs of floats where none are named.
pub(crate) fn differentiate(ast: &Ast, wrt: &[String], save: Save) -> Result<Derived, GradError> {
    let ast = hoist::hoist(ast);
    let Some(signature) = &ast.signature else { return Err(GradError::NoSignature) };
    // Parts of named sizes are those of a product of their own body: one that is read from memory has none.
    let listed = ast.exprs.iter().any(|(_, expr)| matches!(expr.kind, ExprKind::Dims(_)));
    let save = if listed { Save::Nothing } else { save };
    let (named, wrt) = (!wrt.is_empty(), asked(signature, wrt)?);
    let mut sweep = Sweep::new(&ast, signature, &wrt, save);
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
    /// The body's expressions, and behind them those of the derivatives.
    exprs: Exprs,
    infos: Vec<Info>,
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
    /// How many products there are so far.
    products: usize,
    /// Rows that are cut into segments.
    cuts: Vec<Cut>,
}

impl<'a> Sweep<'a> {
    fn new(ast: &'a Ast, signature: &'a Signature, wrt: &[String], save: Save) -> Sweep<'a> {
        let known = Known::of(ast, signature, save);
        let active = active(ast, wrt);
        let declared = signature.inputs.iter().chain(&signature.outputs);
        let targets = ast.statements.iter().flat_map(|statement| &statement.targets);
        let names = declared.map(|declared| &declared.name).chain(targets);
        Sweep {
            ast,
            signature,
            save,
            exprs: ast.exprs.clone(),
            infos: known.infos,
            active,
            cotangents: vec![None; ast.exprs.len()],
            of_targets: HashMap::new(),
            of_inputs: HashMap::new(),
            statements: Vec::new(),
            names: names.map(|name| name.text.clone()).collect(),
            read: Vec::new(),
            products: known.products,
            cuts: known.cuts,
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
                    let Some(mut cotangent) = self.cotangents[place].filter(|_| self.active[place])
                    else {
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
        let info = Info::of_declared(&dims, &self.cuts);
        let value = self.push(ExprKind::Name(cotangent.clone()), info);
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
            let Some(&value) = self.of_inputs.get(name) else {
                if named {
                    return Err(GradError::NoPath { name: name.clone() });
                }
                continue;
            };
            let value = self.of_declared_dims(name, value);
            let value = self.of_segments(value);
            let target = self.free_name(&format!("d_{name}"));
            self.statements.push((vec![target.clone()], value));
            gradients.push((name.clone(), target));
        }
        if gradients.is_empty() { Err(GradError::NothingDepends) } else { Ok(gradients) }
    }

    /// A derivative with the declared dims of its input, where it has runs of one; a store repeats it along others.
    fn of_declared_dims(&mut self, name: &str, value: ExprId) -> ExprId {
        let declared = self.signature.inputs.iter().find(|input| input.name.text == name);
        let dims = declared.and_then(|input| input.dims.clone()).unwrap_or_default();
        let own = &self.info(value).dims;
        let is_run = |dim: &Dim| own.iter().any(|own| own.same_base(dim) && own != dim);
        if !dims.iter().any(is_run) {
            return value;
        }
        let input = self.push(ExprKind::Name(name.to_owned()), Info::of_tensor(&dims));
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
        if let ExprKind::Name(_) | ExprKind::Number(_) = self.exprs[value].kind {
            return value;
        }
        let name = self.free_name(name);
        let info = self.infos[value.0 as usize].clone();
        self.statements.push((vec![name.clone()], value));
        self.push(ExprKind::Name(name), info)
    }

    fn free_name(&mut self, name: &str) -> String {
        let free = crate::graph::free_name(name, |name| self.names.iter().any(|it| it == name));
        self.names.push(free.clone());
        free
    }

    fn info(&self, id: ExprId) -> &Info {
        &self.infos[id.0 as usize]
    }

    fn push(&mut self, kind: ExprKind, info: Info) -> ExprId {
        let id = self.exprs.push(kind, Span::default());
        self.infos.push(without_segments(info, &self.cuts));
        id
    }

    fn number(&mut self, value: f64) -> ExprId {
        self.push(ExprKind::Number(Number::Float(value)), Info::default())
    }

    fn infix(&mut self, infix: Infix, a: ExprId, b: ExprId) -> ExprId {
        let info = self.info(a).with(self.info(b));
        self.push(ExprKind::Infix(infix, a, b), info)
    }

    fn negated(&mut self, a: ExprId) -> ExprId {
        let info = self.info(a).clone();
        self.push(ExprKind::Prefix(crate::syntax::Prefix::Negate, a), info)
    }

    /// A function of values, all of which meet element by element.
    fn call(&mut self, function: &str, arguments: &[ExprId]) -> ExprId {
        let all = arguments.iter().map(|argument| self.info(*argument));
        let info = all.fold(Info::default(), |all, one| all.with(one));
        self.push(called(function, false, arguments.to_vec()), info)
    }

    /// A function's derivative in its first argument.
    fn derivative(&mut self, function: &str, arguments: &[ExprId]) -> ExprId {
        let all = arguments.iter().map(|argument| self.info(*argument));
        let info = all.fold(Info::default(), |all, one| all.with(one));
        self.push(called(function, true, arguments.to_vec()), info)
    }

    /// A reduction over whole dims or runs of them.
    fn reduced(&mut self, function: &str, value: ExprId, over: &[(Dim, Option<u32>)]) -> ExprId {
        // An integer behind a dim is the length of a run of it, so a dim of a fixed size stands alone.
        let is_fixed =
            |(dim, run): &&(Dim, Option<u32>)| matches!(dim, Dim::Size(_)) && run.is_none();
        if over.len() > 1
            && let Some(fixed) = over.iter().find(is_fixed).cloned()
        {
            let rest: Vec<_> = over.iter().filter(|it| **it != fixed).cloned().collect();
            let value = self.reduced(function, value, &[fixed]);
            return self.reduced(function, value, &rest);
        }
        let info = self.info(value).reduced(over);
        let mut arguments = vec![value];
        for (dim, run) in over {
            arguments.push(self.dim(dim));
            if let Some(run) = run {
                let length = Number::Integer(i64::from(*run));
                arguments.push(self.push(ExprKind::Number(length), Info::default()));
            }
        }
        self.push(called(function, false, arguments), info)
    }

    /// A dim as an argument.
    fn dim(&mut self, dim: &Dim) -> ExprId {
        let integer = |value: u32| ExprKind::Number(Number::Integer(i64::from(value)));
        match dim {
            Dim::Size(size) => self.push(integer(*size), Info::default()),
            Dim::Name { name, divisor } => {
                let base = self.push(ExprKind::Name(name.clone()), Info::default());
                if *divisor == 1 {
                    return base;
                }
                let by = self.push(integer(*divisor), Info::default());
                self.push(ExprKind::Infix(Infix::Divide, base, by), Info::default())
            }
        }
    }

    /// The size of a dim, as a number.
    fn size(&mut self, dim: &Dim) -> ExprId {
        match dim {
            Dim::Size(size) => self.number(f64::from(*size)),
            Dim::Name { .. } => {
                let dim = self.dim(dim);
                self.push(called("size", false, vec![dim]), Info::default())
            }
        }
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

/// Which expressions depend on inputs that are asked for, through functions that have a derivative.
fn active(ast: &Ast, wrt: &[String]) -> Vec<bool> {
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
            ExprKind::Prefix(prefix, _) => {
                *prefix == crate::syntax::Prefix::Negate && of_children()
            }
            ExprKind::Call { function, .. } => rules::passes(&function.text) && of_children(),
            ExprKind::Number(_) | ExprKind::Dims(_) => false,
            ExprKind::Transpose(_) | ExprKind::Product(..) => of_children(),
        };
        active.push(own);
    }
    active
}
