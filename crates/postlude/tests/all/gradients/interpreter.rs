//! The meaning of a kernel's text: values by the names of their dims, in f64, with derivatives.
//!
//! In: the syntax tree of a kernel, and its inputs. Out: every assigned value. Nothing of the compiler is asked, neither
//! types nor graphs: values meet by the names of their dims, and a split is of the dim that is no row's.

use std::collections::{BTreeMap, HashMap};

use postlude::shape::Dim;
use postlude::syntax::{Ast, ExprId, ExprKind, Infix, Number, Prefix};

use super::arrays::{Array, Axis, composite, element, meet, part_of, product, reduced, source};
use super::functions;
use super::jet::Jet;

/// How numbers are rounded.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Precision {
    Exact,
    /// Every result is rounded to f32.
    Single,
}

/// A body while it is evaluated.
pub(super) struct Interpreter<'a> {
    ast: &'a Ast,
    sizes: &'a BTreeMap<String, usize>,
    precision: Precision,
    pub(super) values: BTreeMap<String, Array>,
    known: HashMap<ExprId, Array>,
}

impl<'a> Interpreter<'a> {
    pub(super) fn new(
        ast: &'a Ast,
        sizes: &'a BTreeMap<String, usize>,
        precision: Precision,
    ) -> Interpreter<'a> {
        let (values, known) = (BTreeMap::new(), HashMap::new());
        Interpreter { ast, sizes, precision, values, known }
    }

    /// The dims that a declaration says.
    pub(super) fn axes(&self, dims: &[Dim]) -> Vec<Axis> {
        dims.iter().map(|dim| self.axis(dim)).collect()
    }

    fn axis(&self, dim: &Dim) -> Axis {
        let divisor = dim.divisor() as usize;
        match dim {
            Dim::Name { name, .. } => {
                Axis { name: name.clone(), divisor, size: self.sizes[name] / divisor }
            }
            Dim::Size(size) => Axis { name: size.to_string(), divisor, size: *size as usize },
        }
    }

    /// Evaluates all statements; inputs are among the values already.
    pub(super) fn run(&mut self) {
        for statement in &self.ast.statements {
            let values = match &self.ast.exprs[statement.value].kind {
                ExprKind::Call { function, arguments, .. } if statement.targets.len() > 1 => {
                    self.split(&function.text, arguments, statement.targets.len())
                }
                _ => vec![self.value(statement.value)],
            };
            for (target, value) in statement.targets.iter().zip(values) {
                self.values.insert(target.text.clone(), value);
            }
        }
    }

    fn value(&mut self, id: ExprId) -> Array {
        if let Some(known) = self.known.get(&id) {
            return known.clone();
        }
        let value = self.computed(id);
        let value = match self.precision {
            Precision::Exact => value,
            Precision::Single => value.rounded(),
        };
        self.known.insert(id, value.clone());
        value
    }

    fn computed(&mut self, id: ExprId) -> Array {
        let ast = self.ast;
        match &ast.exprs[id].kind {
            ExprKind::Number(Number::Integer(value)) => Array::number(*value as f64),
            ExprKind::Number(Number::Float(value)) => Array::number(*value),
            ExprKind::Name(name) => self.name(name),
            ExprKind::Annotated(name, dims) => self.name(name).ordered(&self.axes(dims)),
            ExprKind::Dims(_) => panic!("dims are no value"),
            ExprKind::Transpose(a) => self.value(*a),
            ExprKind::Product(a, b) => {
                let (a, b) = (self.value(*a), self.value(*b));
                product(&a, &b)
            }
            ExprKind::Prefix(prefix, a) => {
                let prefix = *prefix;
                self.each(&[*a], |x| match prefix {
                    Prefix::Negate => -x[0],
                    Prefix::Not => Jet::from(!x[0].is_true()),
                    Prefix::Invert => panic!("bits are no floats"),
                })
            }
            ExprKind::Infix(infix, a, b) => {
                let infix = *infix;
                self.each(&[*a, *b], |x| of_infix(infix, x[0], x[1]))
            }
            ExprKind::Call { function, grad, arguments } => {
                self.call(&function.text, *grad, arguments)
            }
        }
    }

    fn name(&self, name: &str) -> Array {
        if let Some(value) = self.values.get(name) {
            return value.clone();
        }
        let counted = |dim: &str| {
            let axes = vec![self.axis(&Dim::name(dim))];
            Array::filled(axes, |place| Jet::from(place[0] as f64))
        };
        match name {
            "row" => counted("M"),
            "col" => counted("N"),
            "inf" => Array::number(f64::INFINITY),
            "nan" => Array::number(f64::NAN),
            "pi" => Array::number(std::f64::consts::PI),
            _ => panic!("`{name}` has no value"),
        }
    }

    /// A function of the elements of values that meet.
    fn each(&mut self, arguments: &[ExprId], function: impl Fn(&[Jet]) -> Jet) -> Array {
        let values: Vec<Array> = arguments.iter().map(|id| self.value(*id)).collect();
        let axes = meet(&values.iter().collect::<Vec<_>>());
        Array::filled(axes.clone(), |place| {
            let elements: Vec<Jet> = values.iter().map(|value| value.at(&axes, place)).collect();
            function(&elements)
        })
    }

    fn call(&mut self, function: &str, is_grad: bool, arguments: &[ExprId]) -> Array {
        match function {
            "sum" | "mean" | "var" | "max" | "min" | "absmax" | "prod" | "logsumexp" => {
                let x = self.value(arguments[0]);
                let over = self.over(&arguments[1..], &x);
                reduced(function, &x, &over)
            }
            "softmax" | "log_softmax" | "rms_norm" | "layer_norm" => {
                let x = self.value(arguments[0]);
                let over = self.over(&arguments[1..2], &x);
                let eps = arguments.get(2).map_or(Jet::from(0.0), |eps| self.value(*eps).data[0]);
                composite(function, &x, &over, eps)
            }
            "size" => {
                let dim = self.dim(arguments[0]);
                Array::number(self.axis(&dim).size as f64)
            }
            "concat" | "join" => self.concat(function, arguments),
            "pick" => {
                let (x, index) = (self.value(arguments[0]), self.value(arguments[1]));
                let columns = x.columns().expect("columns");
                let kept = x.axes.iter().filter(|axis| **axis != columns).cloned();
                element(&x, &columns, &index, &kept.collect::<Vec<_>>())
            }
            "take" => {
                let (x, index) = (self.value(arguments[0]), self.value(arguments[1]));
                element(&x, &x.axes[0], &index, &index.axes)
            }
            "gather" => {
                let (x, index) = (self.value(arguments[0]), self.value(arguments[1]));
                let columns = x.columns().expect("columns");
                let rows = x.axes.iter().find(|axis| **axis != columns).expect("rows").clone();
                let axes = index.axes.iter().cloned().chain([columns]);
                element(&x, &rows, &index, &axes.collect::<Vec<_>>())
            }
            "scatter" => self.scatter(arguments),
            _ => self.each(arguments, |x| functions::apply(function, is_grad, x)),
        }
    }

    /// `scatter(x, index, dim)`: what has the same number is summed.
    fn scatter(&mut self, arguments: &[ExprId]) -> Array {
        let (x, index) = (self.value(arguments[0]), self.value(arguments[1]));
        let rows = self.axis(&self.dim(arguments[2]));
        let rest = x.axes.iter().filter(|axis| index.axis(&axis.name).is_none()).cloned();
        let axes: Vec<Axis> = [rows].into_iter().chain(rest).collect();
        let all = meet(&[&x, &index]);
        let mut sums = Array::filled(axes.clone(), |_| Jet::from(0.0));
        // Every element of x once, added where its number says.
        let places = Array::filled(all.clone(), |_| Jet::from(0.0));
        let mut place = vec![0; all.len()];
        for _ in 0..places.data.len() {
            let number = index.at(&all, &place).value;
            if number >= 0.0 && (number as usize) < axes[0].size {
                let mut at = number as usize;
                for axis in &axes[1..] {
                    let of = all.iter().position(|own| own == axis).expect("its own dim");
                    at = at * axis.size + place[of];
                }
                sums.data[at] = sums.data[at] + x.at(&all, &place);
            }
            for (own, axis) in place.iter_mut().zip(&all).rev() {
                *own += 1;
                if *own < axis.size {
                    break;
                }
                *own = 0;
            }
        }
        sums
    }

    /// What a reduction folds: dims, and the lengths of runs of them.
    fn over(&self, arguments: &[ExprId], x: &Array) -> Vec<(String, Option<usize>)> {
        let mut over: Vec<(String, Option<usize>)> = Vec::new();
        for argument in arguments {
            match (&self.ast.exprs[*argument].kind, over.last_mut()) {
                (ExprKind::Number(Number::Integer(length)), Some((_, run @ None))) => {
                    *run = Some(*length as usize);
                }
                _ => over.push((self.axis(&self.dim(*argument)).name, None)),
            }
        }
        if over.is_empty() {
            over = x.axes.iter().map(|axis| (axis.name.clone(), None)).collect();
        }
        over
    }

    fn dim(&self, id: ExprId) -> Dim {
        let exprs = &self.ast.exprs;
        match &exprs[id].kind {
            ExprKind::Name(name) => Dim::name(name.clone()),
            ExprKind::Number(Number::Integer(size)) => Dim::Size(*size as u32),
            ExprKind::Infix(Infix::Divide, name, by) => {
                match (&exprs[*name].kind, &exprs[*by].kind) {
                    (ExprKind::Name(name), ExprKind::Number(Number::Integer(by))) => {
                        Dim::Name { name: name.clone(), divisor: *by as u32 }
                    }
                    _ => panic!("no dim"),
                }
            }
            _ => panic!("no dim"),
        }
    }

    fn integer(&self, id: ExprId) -> Option<usize> {
        match self.ast.exprs[id].kind {
            ExprKind::Number(Number::Integer(value)) => Some(value as usize),
            _ => None,
        }
    }

    /// The parts of a split.
    fn split(&mut self, function: &str, arguments: &[ExprId], count: usize) -> Vec<Array> {
        let x = self.value(arguments[0]);
        let whole = x.columns().expect("columns");
        if let Some(list) = arguments.get(1)
            && let ExprKind::Dims(dims) = &self.ast.exprs[*list].kind
        {
            let mut start = 0;
            let part = dims.iter().map(|dim| {
                let own = self.axis(dim);
                let first = start;
                start += own.size;
                part_of(&x, &whole, own, |index| first + index)
            });
            return part.collect();
        }
        let run = arguments.last().and_then(|last| self.integer(*last));
        let run = if function == "split" && arguments.len() < 3 { None } else { run };
        let run = if function == "pairs" { 2 } else { run.unwrap_or(whole.size) };
        let length = run / count;
        let own = Axis {
            name: whole.name.clone(),
            divisor: whole.divisor * count,
            size: whole.size / count,
        };
        let part = |place: usize| {
            let source = |index: usize| index / length * run + place * length + index % length;
            part_of(&x, &whole, own.clone(), source)
        };
        (0..count).map(part).collect()
    }

    /// Parts put together again; one without columns is the same in each of them.
    fn concat(&mut self, function: &str, arguments: &[ExprId]) -> Array {
        let (arguments, list) = match arguments {
            [parts @ .., last] => match &self.ast.exprs[*last].kind {
                ExprKind::Dims(dims) => (parts, Some(self.axes(dims))),
                _ => (arguments, None),
            },
            [] => panic!("no parts"),
        };
        let run = arguments.last().and_then(|last| self.integer(*last));
        let given = &arguments[..arguments.len() - usize::from(run.is_some())];
        let parts: Vec<Array> = given.iter().map(|id| self.value(*id)).collect();
        let first = parts.iter().find_map(Array::columns);
        let columns: Vec<Axis> = parts
            .iter()
            .enumerate()
            .map(|(place, part)| match &list {
                Some(list) => list[place].clone(),
                None => part.columns().or_else(|| first.clone()).expect("columns"),
            })
            .collect();
        let width = columns.iter().map(|axis| axis.size).sum();
        let equal = columns.iter().all(|axis| *axis == columns[0]);
        let run = match function {
            "join" => 2,
            _ => run.unwrap_or(width),
        };
        let whole = if equal && columns[0].divisor.is_multiple_of(parts.len()) {
            Axis { divisor: columns[0].divisor / parts.len(), size: width, ..columns[0].clone() }
        } else {
            Axis { name: "N".to_owned(), divisor: self.sizes["N"] / width, size: width }
        };
        let without: Vec<Array> = parts
            .iter()
            .zip(&columns)
            .map(|(part, own)| {
                let axes = part.axes.iter().filter(|axis| *axis != own).cloned().collect();
                Array { axes, data: Vec::new() }
            })
            .collect();
        let mut axes = meet(&without.iter().collect::<Vec<_>>());
        axes.push(whole);
        let last = axes.len() - 1;
        Array::filled(axes.clone(), |place| {
            let (part, index) = source(&columns, equal.then_some(run / parts.len()), place[last]);
            let mut own = axes.clone();
            own[last] = columns[part].clone();
            let mut at = place.to_vec();
            at[last] = index;
            parts[part].at(&own, &at)
        })
    }
}

fn of_infix(infix: Infix, a: Jet, b: Jet) -> Jet {
    let (x, y) = (a.value, b.value);
    match infix {
        Infix::Add => a + b,
        Infix::Subtract => a - b,
        Infix::Multiply => a * b,
        Infix::Divide => a / b,
        Infix::Less => Jet::from(x < y),
        Infix::LessEqual => Jet::from(x <= y),
        Infix::Greater => Jet::from(x > y),
        Infix::GreaterEqual => Jet::from(x >= y),
        Infix::Equal => Jet::from(x == y),
        Infix::NotEqual => Jet::from(x != y),
        Infix::And => Jet::from(a.is_true() && b.is_true()),
        Infix::Or => Jet::from(a.is_true() || b.is_true()),
        Infix::Xor | Infix::ShiftLeft | Infix::ShiftRight => panic!("bits are no floats"),
    }
}
