//! The derivatives of what moves values between columns.

use crate::shape::Dim;
use crate::syntax::{ExprId, ExprKind, Infix, Number, Statement};

use super::dims::{Info, divided};
use super::error::GradError;
use super::segments::SEGMENTS;
use super::{Sweep, called};

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
                let column = self.push(ExprKind::Name("col".to_owned()), Info::default());
                let is_picked = self.infix(Infix::Equal, column, arguments[1]);
                let zero = self.number(0.0);
                let value = self.call("where", &[is_picked, c, zero]);
                // It has the columns of what it is picked from, and reads none of it.
                let dims = self.info(arguments[0]).dims.clone();
                self.infos[value.0 as usize] = self.info(value).with_dims(dims);
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
                let info = self.info(c).clone();
                let value = self.push(called("masked", false, vec![c, arguments[1]]), info);
                self.add(arguments[0], value);
                Ok(())
            }
            "concat" | "join" => {
                self.pass_parts(function, arguments, (self.info(id).dims.last().cloned(), c));
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
        if !self.info(c).dims.iter().any(|dim| Some(dim) == whole.as_ref()) {
            for part in parts {
                self.add(part, c);
            }
            return;
        }
        let own = parts.iter().filter_map(|part| self.info(*part).dims.last().cloned());
        let dims: Vec<Dim> = own.collect();
        let count = ExprKind::Number(Number::Integer(parts.len() as i64));
        let (split, into) = match (function, is_fraction(whole.as_ref(), &dims)) {
            ("join", _) => ("pairs", None),
            (_, false) => ("split", Some(ExprKind::Dims(dims))),
            (_, true) if parts.len() == 2 => ("halves", None),
            (_, true) => ("split", Some(count)),
        };
        let mut own = vec![c];
        if let Some(into) = into {
            own.push(self.push(into, Info::default()));
        }
        own.extend(runs);
        let info = self.info(c).clone();
        let value = self.push(called(split, false, own), info);
        let names: Vec<String> = parts.iter().map(|_| self.free_name("d_part")).collect();
        self.statements.push((names.clone(), value));
        for (part, name) in parts.into_iter().zip(names) {
            let own = self.info(part).dims.clone();
            let info =
                own.last().map_or_else(Info::default, |last| self.info(c).with_columns(last));
            let value = self.push(ExprKind::Name(name), info.with_dims(own));
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
        if !self.active[id.0 as usize] || given.iter().all(Option::is_none) {
            return Ok(());
        }
        if function.text == "topk" {
            return self.pass_top(id, arguments[0], (&names[1], given[0]));
        }
        let listed = |id: &ExprId| matches!(self.exprs[*id].kind, ExprKind::Dims(_));
        let listed = arguments.iter().any(listed);
        let mut parts = Vec::new();
        for (name, given) in names.iter().zip(given) {
            let info = self.part_info(statement, name);
            let own = self.push(ExprKind::Name(name.clone()), info);
            let zero = self.number(0.0);
            let given = given.map(|given| self.named(&format!("d_{name}"), given));
            let value = given.unwrap_or(zero);
            let missing =
                self.info(own).dims.iter().any(|dim| !self.info(value).dims.contains(dim));
            // Parts of named sizes are put together only where the split is.
            parts.push(if missing || listed {
                let same = self.infix(Infix::Equal, own, own);
                self.call("where", &[same, value, value])
            } else {
                value
            });
        }
        let runs = arguments[1..]
            .iter()
            .copied()
            .filter(|id| matches!(self.exprs[*id].kind, ExprKind::Number(Number::Integer(_))));
        // `split(x, 3)` has a count before its run.
        let skipped = usize::from(function.text == "split");
        parts.extend(runs.skip(skipped).collect::<Vec<_>>());
        let joined = if function.text == "pairs" { "join" } else { "concat" };
        // It reads what its parts read.
        let read = parts.iter().map(|part| self.info(*part));
        let read = read.fold(Info::default(), |all, part| all.with(part));
        let whole = self.info(arguments[0]).dims.clone();
        let info = whole.last().map_or_else(Info::default, |last| read.with_columns(last));
        let info = info.with_dims(whole);
        let parts = if joined == "join" { parts[..2].to_vec() } else { parts };
        let value = self.push(called(joined, false, parts), info);
        self.add(arguments[0], value);
        Ok(())
    }

    /// What is known of a name that a split assigns.
    fn part_info(&self, statement: &Statement, name: &str) -> Info {
        let read = self.ast.exprs.iter().find_map(|(id, expr)| match &expr.kind {
            ExprKind::Name(own) | ExprKind::Annotated(own, _)
                if own == name && id > statement.value =>
            {
                Some(self.info(id).clone())
            }
            _ => None,
        });
        read.unwrap_or_else(|| self.info(statement.value).clone())
    }
}

/// Whether parts are equal fractions of a dim.
fn is_fraction(whole: Option<&Dim>, parts: &[Dim]) -> bool {
    let fraction = whole.map(|whole| divided(whole, parts.len() as u32));
    parts.iter().all(|part| Some(part) == fraction.as_ref())
}
