//! The derivatives of what moves values between columns.

use crate::shape::Dim;
use crate::syntax::{ExprId, ExprKind, Infix, Number, Statement};

use super::dims::{divided, with_columns};
use super::error::GradError;
use super::segments::SEGMENTS;
use super::{Form, Sweep, called};

impl Sweep<'_> {
    pub(super) fn pass_structure(
        &mut self,
        id: ExprId,
        function: &str,
        arguments: &[ExprId],
        c: ExprId,
    ) -> Result<(), GradError> {
        match function {
            "pick" => {
                let own = self.known.columns(arguments[0]);
                let column = self.push(ExprKind::Name("col".to_owned()), own.into_iter().collect());
                let is_picked = self.infix(Infix::Equal, column, arguments[1]);
                let value = self.taken(is_picked, c, true);
                self.add(arguments[0], value);
                Ok(())
            }
            SEGMENTS => {
                self.add(arguments[0], c);
                Ok(())
            }
            // Elements are masked by their places, so it has as many.
            "masked" => {
                let c = self.widened(c, arguments[0]);
                let dims = self.dims_of(c).to_vec();
                let value = self.push(called("masked", false, vec![c, arguments[1]]), dims);
                self.add(arguments[0], value);
                Ok(())
            }
            "concat" | "join" => {
                self.pass_parts(function, arguments, (self.known.columns(id), c));
                Ok(())
            }
            "take" | "gather" | "combine" | "scatter" => self.pass_rows(id, function, arguments, c),
            _ => Err(self.no_derivative(id, function, None)),
        }
    }

    /// Parts that are put together along a dim: each gets its own part of the cotangent.
    fn pass_parts(
        &mut self,
        function: &str,
        arguments: &[ExprId],
        (whole, c): (Option<Dim>, ExprId),
    ) {
        let is_run =
            |id: &ExprId| matches!(self.exprs[*id].kind, ExprKind::Number(Number::Integer(_)));
        let (runs, parts): (Vec<ExprId>, Vec<ExprId>) = arguments.iter().partition(|id| is_run(id));
        if !self.dims_of(c).iter().any(|dim| Some(dim) == whole.as_ref()) {
            for part in parts {
                self.add(part, c);
            }
            return;
        }
        let own = parts.iter().filter_map(|part| self.known.columns(*part));
        let dims: Vec<Dim> = own.collect();
        let count = ExprKind::Number(Number::Integer(parts.len() as i64));
        let (split, into) = match (function, is_fraction(whole.as_ref(), &dims)) {
            ("join", _) => ("pairs", None),
            (_, false) => ("split", Some(ExprKind::Dims(dims.clone()))),
            (_, true) if parts.len() == 2 => ("halves", None),
            (_, true) => ("split", Some(count)),
        };
        let mut own = vec![c];
        if let Some(into) = into {
            own.push(self.push(into, Vec::new()));
        }
        own.extend(runs);
        let whole_dims = self.dims_of(c).to_vec();
        let value = self.push(called(split, false, own), whole_dims.clone());
        let names: Vec<String> = parts.iter().map(|_| self.free_name("d_part")).collect();
        self.statements.push((names.clone(), value));
        let Some(whole) = whole else { return };
        for ((part, name), columns) in parts.into_iter().zip(names).zip(dims) {
            let of_part = with_columns(&whole_dims, &whole, &columns);
            let value = self.push(ExprKind::Name(name), of_part.clone());
            let own = self.dims_of(part).to_vec();
            let value = self.reduced_to(value, &of_part, &own);
            self.add(part, value);
        }
    }

    /// A statement of several targets: a split, whose parts' cotangents are put together.
    pub(super) fn several(&mut self, statement: &Statement) -> Result<(), GradError> {
        let id = statement.value;
        let ExprKind::Call { function, arguments, .. } = self.ast.exprs[id].kind.clone() else {
            return Ok(());
        };
        let names = statement.targets.iter().map(|target| target.text.clone());
        let names: Vec<String> = names.collect();
        let given: Vec<Option<ExprId>> =
            names.iter().map(|name| self.of_targets.get(name).copied()).collect();
        let given: Vec<Option<ExprId>> =
            given.into_iter().map(|given| given.filter(|id| !self.is_zero(*id))).collect();
        if !self.active[id.0 as usize] || given.iter().all(Option::is_none) {
            return Ok(());
        }
        if function.text == "topk" {
            return self.pass_top(id, arguments[0], (&names[1], given[0]));
        }
        let parts = self.parts(statement, &names, given);
        let value = self.joined(statement, parts);
        self.add(arguments[0], value);
        Ok(())
    }

    /// The cotangents of the parts of a split, with as many columns as the parts or with none.
    fn parts(
        &mut self,
        statement: &Statement,
        names: &[String],
        given: Vec<Option<ExprId>>,
    ) -> Vec<ExprId> {
        let mut parts = Vec::new();
        for (at, (name, given)) in names.iter().zip(given).enumerate() {
            let Some(given) = given else {
                parts.push(self.number(0.0));
                continue;
            };
            let value = self.named(&format!("d_{name}"), given);
            let (dims, own) = self.known.part(self.ast, statement.value, at, names.len());
            let is_coarse = |dim: &Dim| Some(dim) != own.as_ref();
            let same = |dim: &&Dim| own.as_ref().is_some_and(|own| own.same_base(dim));
            let coarse = self.dims_of(value).iter().find(same).is_some_and(is_coarse);
            let like = self.push(ExprKind::Name(name.clone()), dims);
            parts.push(if coarse { self.widened(value, like) } else { value });
        }
        parts
    }

    /// Parts put together as a split took them apart.
    fn joined(&mut self, statement: &Statement, mut parts: Vec<ExprId>) -> ExprId {
        let id = statement.value;
        let ExprKind::Call { function, arguments, .. } = self.ast.exprs[id].kind.clone() else {
            return id;
        };
        let count = parts.len();
        let of_part = |sweep: &Self, at: usize| sweep.known.part(sweep.ast, id, at, count);
        let columns: Vec<Dim> = (0..count).filter_map(|at| of_part(self, at).1).collect();
        let has = |sweep: &Self, part: ExprId, own: &Dim| sweep.dims_of(part).contains(own);
        let known = parts.iter().zip(&columns).any(|(part, own)| has(self, *part, own));
        let listed = match arguments.get(1).map(|list| &self.exprs[*list].kind) {
            Some(ExprKind::Dims(dims)) => {
                !is_fraction(self.known.columns(arguments[0]).as_ref(), dims)
            }
            _ => false,
        };
        // What a list of dims is a list of is the product's columns; parts of parts say by themselves what they are.
        let whole = self.known.columns(arguments[0]);
        let nested = listed
            && (self.form == Form::Explicit
                || whole.is_some_and(|whole| self.known.is_part(&whole)));
        if nested || function.text == "pairs" && !known {
            for (at, part) in parts.iter_mut().enumerate() {
                let dims = of_part(self, at).0;
                let name = statement.targets[at].text.clone();
                let like = self.push(ExprKind::Name(name), dims);
                let same = self.infix(Infix::Equal, like, like);
                *part = self.call("where", &[same, *part, *part]);
            }
        }
        let runs = arguments[1..]
            .iter()
            .copied()
            .filter(|id| matches!(self.exprs[*id].kind, ExprKind::Number(Number::Integer(_))));
        // `split(x, 3)` has a count before its run.
        let skipped = usize::from(function.text == "split");
        let runs: Vec<ExprId> = runs.skip(skipped).collect();
        let dims = self.dims_of(arguments[0]).to_vec();
        if function.text == "pairs" {
            return self.push(called("join", false, parts), dims);
        }
        parts.extend(runs);
        if !nested && (listed || !known) {
            parts.push(self.push(ExprKind::Dims(columns), Vec::new()));
        }
        self.push(called("concat", false, parts), dims)
    }
}

/// Whether parts are equal fractions of a dim.
fn is_fraction(whole: Option<&Dim>, parts: &[Dim]) -> bool {
    let fraction = whole.map(|whole| divided(whole, parts.len() as u32));
    parts.iter().all(|part| Some(part) == fraction.as_ref())
}
