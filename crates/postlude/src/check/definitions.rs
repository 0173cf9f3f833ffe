//! Functions that are defined before a kernel, put in the place of their calls.
//!
//! In: a tree with definitions. Out: the same tree without, and which expressions come from which call, so that a mistake
//! can be shown in the definition and where it is used. Invariants: a definition sees its parameters and the definitions
//! before it, so nothing recurs; an argument is one expression however often its parameter is read.

use std::collections::HashMap;

use crate::syntax::{
    Ast, Definition, Expr, ExprId, ExprKind, Exprs, Infix, MAX_NODES, Name, Span, Statement,
    nearest,
};

use super::dims::is_dim_argument;
use super::error::CheckError;
use super::whole;

/// A call of a definition in the kernel's text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UseOfDefinition {
    /// The function's name.
    pub name: String,
    /// The call.
    pub at: Span,
}

/// The calls that expressions come from.
pub(super) type Calls = HashMap<ExprId, UseOfDefinition>;

/// A tree without definitions.
pub(super) struct Expanded {
    pub(super) ast: Ast,
    pub(super) calls: Calls,
}

/// Puts definitions in the place of their calls.
pub(super) fn expand(ast: &Ast) -> Result<Expanded, Vec<CheckError>> {
    if ast.definitions.is_empty() {
        return Ok(Expanded { ast: ast.clone(), calls: Calls::new() });
    }
    let mut known: Vec<Definition> = Vec::new();
    for definition in &ast.definitions {
        let errors = mistakes(definition, &known, &ast.definitions);
        if !errors.is_empty() {
            return Err(super::first(errors));
        }
        let mut building = Building { known: &known, exprs: Exprs::default(), calls: Calls::new() };
        let places = building.copy(&definition.exprs, None)?;
        let value = places[&definition.value];
        let exprs = building.exprs;
        known.push(Definition { exprs, value, ..definition.clone() });
    }
    let mut building = Building { known: &known, exprs: Exprs::default(), calls: Calls::new() };
    let places = building.copy(&ast.exprs, None)?;
    let statement = |statement: &Statement| Statement {
        targets: statement.targets.clone(),
        value: places[&statement.value],
    };
    let statements = ast.statements.iter().map(statement).collect();
    let Building { exprs, calls, .. } = building;
    let signature = ast.signature.clone();
    Ok(Expanded { ast: Ast { definitions: Vec::new(), signature, statements, exprs }, calls })
}

/// What is wrong with a definition wherever it is used.
fn mistakes(definition: &Definition, known: &[Definition], all: &[Definition]) -> Vec<CheckError> {
    let mut errors = Vec::new();
    let twice = |name: &Name| CheckError::DeclaredTwice { name: name.text.clone(), at: name.span };
    if known.iter().any(|other| other.name.text == definition.name.text) {
        errors.push(twice(&definition.name));
    }
    for (place, parameter) in definition.parameters.iter().enumerate() {
        if definition.parameters[..place].iter().any(|other| other.text == parameter.text) {
            errors.push(twice(parameter));
        }
    }
    let dims = dim_arguments(&definition.exprs, known);
    for (id, Expr { kind, span }) in definition.exprs.iter() {
        match kind {
            ExprKind::Name(name) | ExprKind::Annotated(name, _) if !dims.contains(&id) => {
                let parameters = || definition.parameters.iter().map(|name| name.text.as_str());
                let is_word = matches!(name.as_str(), "row" | "col" | "inf" | "nan" | "pi");
                if !parameters().any(|parameter| parameter == name) && !is_word {
                    let nearest = nearest(name, parameters().collect::<Vec<_>>());
                    let (name, nearest) = (name.clone(), nearest.map(str::to_owned));
                    errors.push(CheckError::UnknownParameter { name, nearest, at: *span });
                }
            }
            ExprKind::Call { function, grad, .. } => {
                errors.extend(wrong_call(function, *grad, known, all));
            }
            ExprKind::Number(_)
            | ExprKind::Name(_)
            | ExprKind::Annotated(..)
            | ExprKind::Dims(_)
            | ExprKind::Transpose(_)
            | ExprKind::Product(..)
            | ExprKind::Prefix(..)
            | ExprKind::Infix(..) => {}
        }
    }
    errors
}

/// A call of something that is no function, or that is defined later.
fn wrong_call(
    function: &Name,
    grad: bool,
    known: &[Definition],
    all: &[Definition],
) -> Option<CheckError> {
    let defined = |some: &[Definition]| some.iter().any(|one| one.name.text == function.text);
    let (name, at) = (function.text.clone(), function.span);
    if grad && defined(all) {
        Some(CheckError::NoDerivative { function: name, at })
    } else if defined(known) || whole::is_function(function, grad) {
        None
    } else if defined(all) {
        Some(CheckError::DefinedLater { name, at })
    } else {
        Some(whole::report(function))
    }
}

/// Expressions that stand where dims are read. What a call of a definition makes of an argument is seen when it is used.
fn dim_arguments(exprs: &Exprs, known: &[Definition]) -> Vec<ExprId> {
    let mut found = Vec::new();
    for (_, expr) in exprs.iter() {
        let ExprKind::Call { function, arguments, .. } = &expr.kind else { continue };
        let defined = known.iter().any(|one| one.name.text == function.text);
        for (place, argument) in arguments.iter().enumerate() {
            if !defined && !is_dim_argument(&function.text, place) {
                continue;
            }
            let plain = |id: ExprId| matches!(exprs[id].kind, ExprKind::Name(_));
            if plain(*argument) {
                found.push(*argument);
            }
            if let ExprKind::Infix(Infix::Divide, name, _) = exprs[*argument].kind
                && plain(name)
            {
                found.push(name);
            }
        }
    }
    found
}

struct Building<'a> {
    known: &'a [Definition],
    exprs: Exprs,
    calls: Calls,
}

impl Building<'_> {
    /// Copies expressions, calls of definitions replaced; `inside` is the call that they are made for.
    fn copy(
        &mut self,
        from: &Exprs,
        inside: Option<(&UseOfDefinition, &HashMap<&str, ExprId>)>,
    ) -> Result<HashMap<ExprId, ExprId>, Vec<CheckError>> {
        let mut places: HashMap<ExprId, ExprId> = HashMap::new();
        for (id, expr) in from.iter() {
            let argument = match (&expr.kind, inside) {
                (ExprKind::Name(name), Some((_, values))) => values.get(name.as_str()),
                _ => None,
            };
            if let Some(argument) = argument {
                places.insert(id, *argument);
                continue;
            }
            let place = match &expr.kind {
                ExprKind::Call { function, grad, arguments } if self.is_defined(&function.text) => {
                    if *grad {
                        let (function, at) = (function.text.clone(), function.span);
                        return Err(vec![CheckError::NoDerivative { function, at }]);
                    }
                    let arguments = arguments.iter().map(|argument| places[argument]).collect();
                    self.call(function, arguments, expr.span)?
                }
                kind => self.push(kind.map_children(|child| places[&child]), expr.span)?,
            };
            if let Some((call, _)) = inside {
                self.calls.insert(place, call.clone());
            }
            places.insert(id, place);
        }
        Ok(places)
    }

    fn is_defined(&self, name: &str) -> bool {
        self.known.iter().any(|definition| definition.name.text == name)
    }

    /// The value of a definition with arguments in the place of its parameters.
    fn call(
        &mut self,
        function: &Name,
        arguments: Vec<ExprId>,
        at: Span,
    ) -> Result<ExprId, Vec<CheckError>> {
        let known = self.known;
        let found = known.iter().find(|definition| definition.name.text == function.text);
        let Some(definition) = found else { panic!("compiler bug: an unknown definition") };
        let (takes, given) = (definition.parameters.len(), arguments.len());
        if takes != given {
            let parameters: Vec<&str> =
                definition.parameters.iter().map(|name| name.text.as_str()).collect();
            let call = format!("{}({})", function.text, parameters.join(", "));
            let (name, takes) = (&function.text, takes.to_string());
            let error = CheckError::argument_count(name, &takes, given, (call, None), at);
            return Err(vec![error]);
        }
        let names = definition.parameters.iter().map(|name| name.text.as_str());
        let values: HashMap<&str, ExprId> = names.zip(arguments).collect();
        let call = UseOfDefinition { name: function.text.clone(), at };
        let places = self.copy(&definition.exprs, Some((&call, &values)))?;
        Ok(places[&definition.value])
    }

    fn push(&mut self, kind: ExprKind, at: Span) -> Result<ExprId, Vec<CheckError>> {
        if self.exprs.len() == MAX_NODES {
            return Err(vec![CheckError::ManyNodes { limit: MAX_NODES, at }]);
        }
        Ok(self.exprs.push(kind, at))
    }
}
