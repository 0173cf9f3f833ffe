//! Types a kernel.
//!
//! In: an [`Ast`] with a signature (`infer` gives a one-liner its own). Out: a typed [`Graph`] that may hold calls, or at
//! most five diagnostics in the user's words. Invariant: sizes are not known here; whatever this accepts, every engine's
//! type rules accept.

mod batches;
mod bits;
mod call;
mod definitions;
mod dims;
mod error;
mod fix;
mod gather;
mod infer;
mod lower;
mod masked;
mod operand;
mod parts;
mod product;
mod program;
mod random;
mod reads;
mod reduce;
mod scatter;
mod segments;
mod separate;
mod sources;
mod split;
mod stack;
mod stored;
mod tables;
mod tensor_space;
mod whole;

use std::collections::HashMap;

use crate::dtype::{DType, Elem};
use crate::graph::{Graph, Input, InputId, NodeId, Output, Stage};
use crate::shape::{self, Dim};
use crate::syntax::{Ast, Declaration, ExprId, Exprs, Signature, Span};

pub use definitions::UseOfDefinition;
use definitions::{Calls, Expanded};
pub use error::CheckError;
pub(crate) use error::Warning;
pub use infer::{Bindings, Bound, free_names, infer};
use operand::Factor;
use product::Found;
pub(crate) use program::Matrix;
use program::{Computed, Products, Unit};
pub(crate) use stored::{ReadAs, Reading};

/// An argument of a reduction, as a dim.
pub(crate) fn read_dim(exprs: &Exprs, id: ExprId) -> Option<Dim> {
    dims::read(exprs, id)
}

/// Dims that lists of parts name.
pub(crate) fn named_parts(exprs: &Exprs) -> Vec<Dim> {
    tensor_space::named_parts(exprs)
}

/// The same tree without definitions.
pub(crate) fn without_definitions(ast: &Ast) -> Result<Ast, Vec<CheckError>> {
    Ok(definitions::expand(ast)?.ast)
}

/// Diagnostics beyond this many help nobody.
const MOST_ERRORS: usize = 5;

/// Types a kernel that has a signature.
pub fn check(ast: &Ast) -> Result<Graph, Vec<CheckError>> {
    let mut expanded = definitions::expand(ast)?;
    if expanded.ast.signature.is_some() {
        whole::check(&expanded.ast)?;
    }
    check_expanded(&mut expanded, Computed::default).map(|(graph, _)| graph)
}

/// What the expressions of a kernel without definitions vary along, in the graphs that compute them.
pub(crate) fn matrices(ast: &Ast) -> Result<HashMap<ExprId, Matrix>, Vec<CheckError>> {
    let mut expanded = definitions::expand(ast)?;
    let (_, computed) = check_expanded(&mut expanded, Computed::with_matrices)?;
    Ok(computed.into_matrices())
}

/// Types a kernel without definitions, and gives folds of some batch dims graphs of their own.
fn check_expanded(
    expanded: &mut Expanded,
    computed: fn() -> Computed,
) -> Result<(Graph, Computed), Vec<CheckError>> {
    loop {
        let computed = computed();
        let checked = check_once(expanded, &computed);
        let errors = match checked {
            Ok(graph) => return Ok((graph, computed)),
            Err(errors) => errors,
        };
        match batches::with_own_graphs(&expanded.ast, &errors) {
            Some(ast) => expanded.ast = ast,
            None => return Err(errors),
        }
    }
}

fn check_once(
    Expanded { ast, calls }: &Expanded,
    computed: &Computed,
) -> Result<Graph, Vec<CheckError>> {
    let signature = ast.signature.as_ref().ok_or_else(|| vec![CheckError::NoSignature])?;
    let mut errors = Vec::new();
    check_declarations(signature, &mut errors);
    if errors.iter().any(|error| matches!(error, CheckError::DeclaredTwice { .. })) {
        // What a name means that is declared twice is not known.
        return Err(first(errors));
    }
    let products = Products::of(ast).map_err(|error| vec![error])?;
    let Signature { inputs: declarations, outputs, .. } = signature;
    let calls = Some(calls);
    let (root, products) = (None, &products);
    let unit = Unit { ast, declarations, outputs, root, calls, products, computed };
    let (main, found) = own_graph(unit, &mut errors);
    let Some(found) = found else { return Err(first(errors)) };
    let sources = sources::sources(unit, main, found.graph.space(), outputs);
    for source in &sources {
        unit.store(source, outputs, &mut errors);
    }
    let mut body = Body::of_product(found, unit, errors);
    let mut elsewhere = sources::elsewhere(unit, &sources, outputs);
    // What leaves an operand of this graph is this graph's.
    let factors = body.factor_expressions().into_iter();
    let own: Vec<usize> =
        factors.flat_map(|factor| reads::read_statements(ast, factor, false)).collect();
    elsewhere.retain(|place| !own.contains(place));
    body.lower_statements(ast, &elsewhere);
    let is_own = |output: &&Declaration| {
        sources
            .iter()
            .flat_map(|source| &source.outputs)
            .all(|other| other.name.text != output.name.text)
    };
    for output in outputs.iter().filter(is_own) {
        body.store(output);
    }
    let Body { graph, errors, .. } = body;
    if !errors.is_empty() {
        return Err(first(errors));
    }
    let inputs = [inputs_of(declarations), computed.take_inputs()].concat();
    let graph = graph.on_inputs(&inputs).with_merged_sources().without_unread();
    if let Err(broken) = graph.verify(Stage::Checked) {
        panic!("compiler bug: {broken}");
    }
    Ok(graph)
}

/// The product of the kernel's own graph, and what its body is lowered into.
fn own_graph(unit: Unit<'_>, errors: &mut Vec<CheckError>) -> (Option<usize>, Option<Found>) {
    let names: Vec<&str> = unit.outputs.iter().map(|output| output.name.text.as_str()).collect();
    let main = unit.products.main(unit.ast, &names);
    (main, product::find(unit, main, errors))
}

/// What is suspicious about a kernel that types.
pub(crate) fn warnings(ast: &Ast) -> Vec<Warning> {
    definitions::expand(ast).map_or_else(|_| Vec::new(), |expanded| whole::warnings(&expanded.ast))
}

/// Every assigned name of a kernel that types, with its type as the user writes it.
pub(crate) fn name_types(ast: &Ast) -> Vec<(String, String)> {
    let Ok(mut expanded) = definitions::expand(ast) else { return Vec::new() };
    if check_expanded(&mut expanded, Computed::default).is_err() {
        return Vec::new();
    }
    let Expanded { ast, .. } = &expanded;
    let Some(signature) = &ast.signature else { return Vec::new() };
    let mut errors = Vec::new();
    let (Ok(products), computed) = (Products::of(ast), Computed::default()) else {
        return Vec::new();
    };
    let Signature { inputs: declarations, outputs, .. } = signature;
    let calls = None;
    let (root, products, values) = (None, &products, &computed);
    let unit = Unit { ast, declarations, outputs, root, calls, products, computed: values };
    let (main, found) = own_graph(unit, &mut errors);
    let Some(found) = found else { return Vec::new() };
    let sources = sources::sources(unit, main, found.graph.space(), outputs);
    let mut body = Body::of_product(found, unit, errors);
    body.lower_statements(ast, &sources::elsewhere(unit, &sources, outputs));
    let mut types = Vec::new();
    for (place, statement) in ast.statements.iter().enumerate() {
        let known = statement.targets.iter().all(|name| body.names.contains_key(&*name.text));
        let mut other = None;
        if !known {
            let main = Products::last(products.tops(statement.value));
            other = unit.body_of(main, &[place], &mut Vec::new());
        }
        let body = other.as_mut().unwrap_or(&mut body);
        types.extend(statement.targets.iter().filter_map(|target| body.name_type(&target.text)));
    }
    types
}

fn first(mut errors: Vec<CheckError>) -> Vec<CheckError> {
    errors.truncate(MOST_ERRORS);
    errors
}

fn check_declarations(signature: &Signature, errors: &mut Vec<CheckError>) {
    let mut seen: Vec<&str> = Vec::new();
    for declaration in signature.inputs.iter().chain(&signature.outputs) {
        let name = declaration.name.text.as_str();
        if seen.contains(&name) {
            errors.push(CheckError::DeclaredTwice {
                name: name.to_owned(),
                at: declaration.name.span,
            });
        }
        seen.push(name);
    }
    for input in &signature.inputs {
        if input.dims.is_none() && !matches!(input.dtype, DType::F32 | DType::I32) {
            errors.push(CheckError::HostScalar { dtype: input.dtype, at: input.type_span });
        }
    }
    for output in &signature.outputs {
        if !output.dtype.is_stored() {
            let (name, dtype) = (output.name.text.clone(), output.dtype);
            errors.push(CheckError::OutputNotStored { name, dtype, at: output.type_span });
        } else if output.dims.is_none() {
            errors.push(CheckError::HostOutput { dtype: output.dtype, at: output.type_span });
        }
    }
    check_same(signature, errors);
    if signature.outputs.is_empty() {
        errors.push(CheckError::NoOutputs { at: signature.name.span });
    }
    let stored = signature.outputs.iter().filter(|output| output.dtype.is_stored());
    for declaration in signature.inputs.iter().chain(stored) {
        let (dtype, at) = (declaration.dtype, declaration.type_span);
        if dtype.is_packed() && declaration.dims.as_ref().is_some_and(Vec::is_empty) {
            errors.push(CheckError::PackedWithoutDims { dtype, at });
        }
    }
}

/// Inputs that are others under other dims.
fn check_same(signature: &Signature, errors: &mut Vec<CheckError>) {
    for (place, input) in signature.inputs.iter().enumerate() {
        let Some(other) = &input.same_as else { continue };
        let (name, of, at) = (input.name.text.clone(), other.text.clone(), other.span);
        let before = &signature.inputs[..place];
        let Some(found) = before.iter().find(|input| input.name.text == of) else {
            errors.push(CheckError::SameAsUnknown { name, of, at });
            continue;
        };
        let rank = |input: &Declaration| input.dims.as_ref().map(Vec::len);
        if let Some(instead) = &found.same_as {
            let instead = instead.text.clone();
            errors.push(CheckError::SameAsSame { name, of, instead, at });
        } else if (input.dtype, rank(input)) != (found.dtype, rank(found)) || rank(input).is_none()
        {
            let text = |input: &Declaration| match &input.dims {
                Some(dims) => format!("{}[{}]", input.dtype, shape::list(dims)),
                None => input.dtype.to_string(),
            };
            let (own, other) = (text(input), text(found));
            errors.push(CheckError::SameAsDiffers { name, of, own, other, at });
        }
    }
    for output in &signature.outputs {
        if let Some(other) = &output.same_as {
            let name = output.name.text.clone();
            errors.push(CheckError::SameAsOutput { name, at: other.span });
        }
    }
}

/// What an expression turned out to be.
#[derive(Clone, Copy, Debug)]
enum Lowered {
    /// A value of the body.
    Node(NodeId),
    /// An integer literal, which takes the dtype of what it meets.
    Integer(i64),
    /// Several values along a dim of their own, by place in [`Body::stacks`].
    Stack(usize),
    /// The size of a dim, by place in [`Body::sizes`]: as an integer literal, known when the kernel is called.
    Size(usize),
    /// Something that was already reported.
    Poison,
}

/// The body while it is being typed.
struct Body<'a> {
    graph: Graph,
    exprs: &'a Exprs,
    inputs: &'a [Declaration],
    names: HashMap<&'a str, (Lowered, Span)>,
    lowered: HashMap<ExprId, Lowered>,
    /// What the columns of a node were divided by where a split made them, widest first; nothing for whole columns.
    parts: HashMap<NodeId, Vec<u32>>,
    stacks: Vec<Vec<NodeId>>,
    /// Dims whose sizes are used.
    sizes: Vec<Dim>,
    /// Which expressions come from definitions, where there are some.
    calls: Option<&'a Calls>,
    /// The call that the expression at hand comes from.
    call: Option<UseOfDefinition>,
    errors: Vec<CheckError>,
    /// The batch dims that nodes truly vary along, in bits; as far as asked for.
    batch_dims: Vec<u8>,
    /// Inputs already reported as having dims that are not the body's.
    blamed_inputs: Vec<usize>,
    /// Factors of the accumulator that left the operands.
    factors: Vec<Factor>,
    /// The input that counts the rows of the product that are not 0.
    row_counts: Option<InputId>,
    /// Statements whose values vary along K, and the names that they assign.
    varying: Vec<usize>,
    varying_names: Vec<&'a str>,
    /// The kernel, where its body is cut into graphs.
    unit: Option<Unit<'a>>,
    /// The number of this graph's product.
    main: Option<usize>,
    /// The value of this graph's own call, where that is no product.
    own: Option<NodeId>,
}

impl<'a> Body<'a> {
    fn new(
        graph: Graph,
        exprs: &'a Exprs,
        inputs: &'a [Declaration],
        errors: Vec<CheckError>,
    ) -> Body<'a> {
        Body {
            graph,
            exprs,
            inputs,
            names: HashMap::new(),
            lowered: HashMap::new(),
            parts: HashMap::new(),
            stacks: Vec::new(),
            sizes: Vec::new(),
            calls: None,
            call: None,
            errors,
            batch_dims: Vec::new(),
            blamed_inputs: Vec::new(),
            factors: Vec::new(),
            row_counts: None,
            varying: Vec::new(),
            varying_names: Vec::new(),
            unit: None,
            main: None,
            own: None,
        }
    }

    /// The body behind a product.
    fn of_product(found: Found, unit: Unit<'a>, errors: Vec<CheckError>) -> Body<'a> {
        let Found { graph, factors, varying, main, value: own } = found;
        let targets = varying.iter().flat_map(|place| &unit.ast.statements[*place].targets);
        let varying_names = targets.map(|name| name.text.as_str()).collect();
        let row_counts = graph.row_counts();
        let body = Body::new(graph, &unit.ast.exprs, unit.declarations, errors);
        let calls = unit.calls;
        let unit = Some(unit);
        Body { calls, factors, row_counts, varying, varying_names, unit, main, own, ..body }
    }

    fn report(&mut self, error: CheckError) -> Lowered {
        let error = match &self.call {
            Some(call) => error.within(call.clone()),
            None => error,
        };
        // A mistake in a definition is one, however often it is used.
        if !matches!(error, CheckError::Within { .. }) || !self.is_known(&error) {
            self.errors.push(error);
        }
        Lowered::Poison
    }

    fn is_known(&self, error: &CheckError) -> bool {
        let same = |known: &CheckError| {
            known.span() == error.span() && known.to_string() == error.to_string()
        };
        self.errors.iter().any(same)
    }

    /// The dims of a value as the user writes them.
    fn dims_text(&self, node: NodeId) -> String {
        shape::list(&self.graph.space().dims(self.graph.ty(node).axes))
    }

    /// The type of an assigned name, as the user writes it.
    fn name_type(&mut self, name: &str) -> Option<(String, String)> {
        let &(lowered, span) = self.names.get(name)?;
        let (values, is_stacked) = self.stored_values(lowered, span)?;
        let elem = self.graph.ty(values[0]).elem;
        let dims = shape::list(&self.stored_dims(&values, is_stacked));
        Some((name.to_owned(), format!("{elem}[{dims}]")))
    }

    fn store(&mut self, output: &Declaration) {
        let name = output.name.text.as_str();
        if !self.names.contains_key(name) {
            self.lower_foreign_name(name);
        }
        let Some(&(lowered, assigned)) = self.names.get(name) else {
            // A statement that failed to parse was reported already; so was a kernel that assigns nothing right.
            self.errors
                .push(CheckError::NeverAssigned { name: name.to_owned(), at: output.name.span });
            return;
        };
        let Some((values, is_stacked)) = self.stored_values(lowered, assigned) else { return };
        let value = values[0];
        let Some(dims) = &output.dims else { return };
        let declared = Output {
            name: name.to_owned(),
            dtype: output.dtype,
            dims: dims.clone(),
            value,
            stack: Body::stack_of(dims, &values, is_stacked),
        };
        let axes = self.graph.output_axes(&declared);
        let Some(axes) = axes.filter(|_| declared.stack.is_some() == is_stacked) else {
            let known = if is_stacked || !self.graph.space().has_whole_batch(dims) {
                shape::list(&self.stored_dims(&values, is_stacked))
            } else {
                shape::list(&self.graph.space().dims(self.graph.space().accumulator_axes()))
            };
            self.errors.push(CheckError::OutputDims {
                name: name.to_owned(),
                declared: shape::list(dims),
                value: known,
                at: output.type_span,
            });
            return;
        };
        let ty = self.graph.ty(value);
        // A store repeats a value along dims it does not have, but never its rows or columns: that is a forgotten `N/2`.
        let fewer = |own: Option<u32>, declared: Option<u32>| own.is_some() && own != declared;
        let is_narrower = fewer(ty.axes.column, axes.column) || fewer(ty.axes.row, axes.row);
        if is_narrower || !ty.axes.fits(axes) {
            let value = shape::list(&self.stored_dims(&values, is_stacked));
            self.errors.push(CheckError::OutputDims {
                name: name.to_owned(),
                declared: shape::list(dims),
                value,
                at: output.type_span,
            });
        } else if ty.elem == Elem::Bool && output.dtype.elem() != Elem::Bool {
            self.errors.push(CheckError::OutputOfCondition {
                name: name.to_owned(),
                dtype: output.dtype,
                at: output.type_span,
            });
        } else if ty.elem != Elem::Bool && output.dtype.elem() == Elem::Bool {
            self.errors.push(CheckError::OutputNotACondition {
                name: name.to_owned(),
                dtype: output.dtype,
                value: ty.elem,
                at: output.type_span,
            });
        } else {
            self.graph.push_output(declared);
        }
    }
}

fn inputs_of(declarations: &[Declaration]) -> Vec<Input> {
    declarations
        .iter()
        .map(|d| Input {
            name: d.name.text.clone(),
            dtype: d.dtype,
            dims: d.dims.clone(),
            same_as: d.same_as.as_ref().and_then(|other| {
                let place = declarations.iter().position(|d| d.name.text == other.text)?;
                Some(InputId(place as u32))
            }),
            computed: None,
            result: None,
            in_mainloop: false,
        })
        .collect()
}
