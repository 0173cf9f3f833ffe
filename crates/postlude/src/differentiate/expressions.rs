//! Expressions of the derivatives: as a person would write them, without factors of 1, terms of 0 and double negations.

use crate::shape::Dim;
use crate::syntax::{ExprId, ExprKind, Infix, Number, Prefix};

use super::{Sweep, called, dims, formulas, meet};

impl Sweep<'_> {
    pub(super) fn number(&mut self, value: f64) -> ExprId {
        self.push(ExprKind::Number(Number::Float(value)), Vec::new())
    }

    /// The value of a literal.
    fn literal(&self, id: ExprId) -> Option<f64> {
        match self.exprs[id].kind {
            ExprKind::Number(Number::Float(value)) => Some(value),
            ExprKind::Number(Number::Integer(value)) => Some(value as f64),
            _ => None,
        }
    }

    pub(super) fn is_zero(&self, id: ExprId) -> bool {
        self.literal(id) == Some(0.0)
    }

    /// What a negation negates.
    pub(super) fn opposite(&self, id: ExprId) -> Option<ExprId> {
        match self.exprs[id].kind {
            ExprKind::Prefix(Prefix::Negate, of) => Some(of),
            _ => None,
        }
    }

    pub(super) fn infix(&mut self, infix: Infix, a: ExprId, b: ExprId) -> ExprId {
        let simple = match infix {
            Infix::Multiply => self.multiplied(a, b),
            Infix::Divide => self.divided(a, b),
            Infix::Add => self.added(a, b),
            Infix::Subtract => self.subtracted(a, b),
            Infix::Less
            | Infix::LessEqual
            | Infix::Greater
            | Infix::GreaterEqual
            | Infix::Equal
            | Infix::NotEqual
            | Infix::And
            | Infix::Or
            | Infix::Xor
            | Infix::ShiftLeft
            | Infix::ShiftRight => None,
        };
        simple.unwrap_or_else(|| {
            let dims = meet(self.dims_of(a), self.dims_of(b));
            self.push(ExprKind::Infix(infix, a, b), dims)
        })
    }

    fn multiplied(&mut self, a: ExprId, b: ExprId) -> Option<ExprId> {
        if self.is_zero(a) || self.is_zero(b) {
            return Some(self.number(0.0));
        }
        match (self.literal(a), self.literal(b)) {
            (Some(1.0), _) => return Some(b),
            (_, Some(1.0)) => return Some(a),
            _ => {}
        }
        if let Some(folded) = self.folded(a, b) {
            return Some(folded);
        }
        let (x, y) = (self.opposite(a), self.opposite(b));
        if x.is_some() || y.is_some() {
            let product = self.infix(Infix::Multiply, x.unwrap_or(a), y.unwrap_or(b));
            return Some(if x.is_some() && y.is_some() { product } else { self.negated(product) });
        }
        match &self.exprs[b].kind {
            ExprKind::Call { function, grad: false, arguments } if function.text == "rcp" => {
                let divisor = arguments[0];
                Some(self.infix(Infix::Divide, a, divisor))
            }
            // A formula's `c * (0.5 * x)` reads better without the parentheses.
            &ExprKind::Infix(own @ (Infix::Multiply | Infix::Divide), first, second)
                if self.literal(first).is_some() && b.0 as usize >= self.ast.exprs.len() =>
            {
                let left = self.infix(Infix::Multiply, a, first);
                Some(self.infix(own, left, second))
            }
            _ => None,
        }
    }

    /// `x * 0.5 * 2.0` with its literals multiplied, where none of them is so large or small that it matters when.
    fn folded(&mut self, a: ExprId, b: ExprId) -> Option<ExprId> {
        let ExprKind::Infix(Infix::Multiply, of, first) = self.exprs[a].kind else { return None };
        let is_own = a.0 as usize >= self.ast.exprs.len();
        let (first, second) = (self.literal(first)?, self.literal(b)?);
        let is_near = |value: f64| (1e-3..1e3).contains(&value.abs());
        if !(is_own && is_near(first) && is_near(second)) {
            return None;
        }
        let product = self.number(first * second);
        Some(self.infix(Infix::Multiply, of, product))
    }

    fn divided(&mut self, a: ExprId, b: ExprId) -> Option<ExprId> {
        if self.is_zero(a) || self.literal(b) == Some(1.0) {
            return Some(a);
        }
        let of = self.opposite(a)?;
        let ratio = self.infix(Infix::Divide, of, b);
        Some(self.negated(ratio))
    }

    fn added(&mut self, a: ExprId, b: ExprId) -> Option<ExprId> {
        if self.is_zero(a) {
            return Some(b);
        }
        if self.is_zero(b) {
            return Some(a);
        }
        if let Some(of) = self.opposite(b) {
            return Some(self.infix(Infix::Subtract, a, of));
        }
        let of = self.opposite(a)?;
        Some(self.infix(Infix::Subtract, b, of))
    }

    fn subtracted(&mut self, a: ExprId, b: ExprId) -> Option<ExprId> {
        if self.is_zero(b) {
            return Some(a);
        }
        if self.is_zero(a) {
            return Some(self.negated(b));
        }
        let of = self.opposite(b)?;
        Some(self.infix(Infix::Add, a, of))
    }

    pub(super) fn negated(&mut self, a: ExprId) -> ExprId {
        if let Some(of) = self.opposite(a) {
            return of;
        }
        if self.is_zero(a) {
            return a;
        }
        let dims = self.dims_of(a).to_vec();
        self.push(ExprKind::Prefix(Prefix::Negate, a), dims)
    }

    /// `where(condition, value, 0.0)`, or the other way round.
    pub(super) fn taken(&mut self, condition: ExprId, value: ExprId, is_taken: bool) -> ExprId {
        if self.is_zero(value) {
            return value;
        }
        let zero = self.number(0.0);
        let values = if is_taken { [value, zero] } else { [zero, value] };
        self.call("where", &[condition, values[0], values[1]])
    }

    /// A function of values, all of which meet element by element.
    pub(super) fn call(&mut self, function: &str, arguments: &[ExprId]) -> ExprId {
        let dims = self.meeting(arguments);
        self.push(called(function, false, arguments.to_vec()), dims)
    }

    /// A function's derivative in its first argument.
    pub(super) fn derivative(&mut self, function: &str, arguments: &[ExprId]) -> ExprId {
        if let Some(formula) = formulas::written(function) {
            let mut write = |kind: ExprKind| match kind {
                ExprKind::Infix(infix, a, b) => self.infix(infix, a, b),
                ExprKind::Prefix(Prefix::Negate, a) => self.negated(a),
                kind => {
                    let children: Vec<ExprId> = kind.children().collect();
                    let dims = self.meeting(&children);
                    self.push(kind, dims)
                }
            };
            return formulas::write(formula, (function, arguments), &mut write);
        }
        let dims = self.meeting(arguments);
        self.push(called(function, true, arguments.to_vec()), dims)
    }

    /// The dims of values that meet.
    fn meeting(&self, values: &[ExprId]) -> Vec<Dim> {
        values.iter().fold(Vec::new(), |all, value| meet(&all, self.dims_of(*value)))
    }

    /// A reduction over whole dims or runs of them.
    pub(super) fn reduced(
        &mut self,
        function: &str,
        value: ExprId,
        over: &[(Dim, Option<u32>)],
    ) -> ExprId {
        if let (Some(of), "sum" | "mean") = (self.opposite(value), function) {
            let total = self.reduced(function, of, over);
            return self.negated(total);
        }
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
        let dims = dims::reduced(self.dims_of(value), over);
        let mut arguments = vec![value];
        for (dim, run) in over {
            arguments.push(self.dim(dim));
            if let Some(run) = run {
                let length = Number::Integer(i64::from(*run));
                arguments.push(self.push(ExprKind::Number(length), Vec::new()));
            }
        }
        self.push(called(function, false, arguments), dims)
    }

    /// A dim as an argument.
    pub(super) fn dim(&mut self, dim: &Dim) -> ExprId {
        let integer = |value: u32| ExprKind::Number(Number::Integer(i64::from(value)));
        match dim {
            Dim::Size(size) => self.push(integer(*size), Vec::new()),
            Dim::Name { name, divisor } => {
                let base = self.push(ExprKind::Name(name.clone()), Vec::new());
                if *divisor == 1 {
                    return base;
                }
                let by = self.push(integer(*divisor), Vec::new());
                self.push(ExprKind::Infix(Infix::Divide, base, by), Vec::new())
            }
        }
    }

    /// The size of a dim, as a number.
    pub(super) fn size(&mut self, dim: &Dim) -> ExprId {
        match dim {
            Dim::Size(size) => self.number(f64::from(*size)),
            Dim::Name { .. } => {
                let dim = self.dim(dim);
                self.push(called("size", false, vec![dim]), Vec::new())
            }
        }
    }
}
