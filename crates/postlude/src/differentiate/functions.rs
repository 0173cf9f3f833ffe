//! The derivatives of functions, reductions, softmax and norms.

use crate::catalogue::{self, Group};
use crate::dtype::DType;
use crate::shape::Dim;
use crate::syntax::{ExprId, Infix};

use super::dims::folded;
use super::error::GradError;
use super::{Sweep, called};

impl Sweep<'_> {
    pub(super) fn pass_call(
        &mut self,
        id: ExprId,
        function: &str,
        arguments: &[ExprId],
        c: ExprId,
    ) -> Result<(), GradError> {
        if DType::from_name(function).is_some() {
            self.give(id, arguments[0], c);
            return Ok(());
        }
        let Some(entry) = catalogue::find(function) else {
            return Err(self.no_derivative(id, function, None));
        };
        match entry.group {
            Group::Elementwise | Group::Activation => {
                self.pass_elementwise(id, function, arguments, c)
            }
            Group::Bits if function == "dropout" => {
                if self.active[arguments[1].0 as usize] {
                    return Err(self.no_derivative(id, function, Some(2)));
                }
                // Elements are dropped by their places, so it has as many.
                let c = self.widened(c, arguments[0]);
                let mut same = arguments.to_vec();
                same[0] = c;
                let dims = self.dims_of(c).to_vec();
                let value = self.push(called("dropout", false, same), dims);
                self.give(id, arguments[0], value);
                Ok(())
            }
            Group::Bits => Err(self.no_derivative(id, function, None)),
            Group::Reduction => self.pass_reduction(id, function, arguments, c),
            Group::Composite => self.pass_composite(id, function, arguments, c),
            Group::Structure => self.pass_structure(id, function, arguments, c),
        }
    }

    fn pass_elementwise(
        &mut self,
        id: ExprId,
        function: &str,
        arguments: &[ExprId],
        c: ExprId,
    ) -> Result<(), GradError> {
        let live = arguments.iter().filter(|argument| self.active[argument.0 as usize]).count();
        let c = if live > 1 { self.shared(c) } else { c };
        for (place, argument) in arguments.iter().copied().enumerate() {
            if !self.active[argument.0 as usize] {
                continue;
            }
            let value = match (function, place) {
                ("where", 0) => continue,
                ("where", _) => self.taken(arguments[0], c, place == 1),
                ("fma", 0) => self.infix(Infix::Multiply, c, arguments[1]),
                ("fma", 1) => self.infix(Infix::Multiply, c, arguments[0]),
                ("fma", _) => c,
                ("maximum" | "minimum", 1) => {
                    let slope = self.derivative(function, &[arguments[1], arguments[0]]);
                    self.infix(Infix::Multiply, c, slope)
                }
                ("pow", 1) => {
                    let log = self.call("log", &[arguments[0]]);
                    let own = self.name_of(id).unwrap_or(id);
                    let slope = self.infix(Infix::Multiply, own, log);
                    self.infix(Infix::Multiply, c, slope)
                }
                ("clamp", 1 | 2) => {
                    let [x, lower, upper] = [arguments[0], arguments[1], arguments[2]];
                    let outside = if place == 1 {
                        let below = self.infix(Infix::Less, x, lower);
                        let ordered = self.infix(Infix::LessEqual, lower, upper);
                        self.infix(Infix::And, below, ordered)
                    } else {
                        let above = self.infix(Infix::Greater, x, upper);
                        let crossed = self.infix(Infix::Greater, lower, upper);
                        self.infix(Infix::Or, above, crossed)
                    };
                    self.taken(outside, c, true)
                }
                (_, 0) => {
                    let slope = self.derivative(function, arguments);
                    self.infix(Infix::Multiply, c, slope)
                }
                ("threshold", 1) => continue,
                (_, place) => {
                    let slope = self.parameter_slope(id, function, arguments);
                    let slope =
                        slope.ok_or_else(|| self.no_derivative(id, function, Some(place + 1)))?;
                    self.infix(Infix::Multiply, c, slope)
                }
            };
            self.give(id, argument, value);
        }
        Ok(())
    }

    /// The derivative of a function in its parameter, where it has one.
    fn parameter_slope(
        &mut self,
        id: ExprId,
        function: &str,
        arguments: &[ExprId],
    ) -> Option<ExprId> {
        let (x, parameter) = (arguments[0], *arguments.last()?);
        let zero = self.number(0.0);
        Some(match function {
            "leaky_relu" => self.call("minimum", &[x, zero]),
            "elu" => {
                let below = self.call("minimum", &[x, zero]);
                self.call("expm1", &[below])
            }
            "threshold" => {
                let is_above = self.infix(Infix::Greater, x, arguments[1]);
                let one = self.number(1.0);
                self.call("where", &[is_above, zero, one])
            }
            "softplus" => {
                let scaled = self.infix(Infix::Multiply, parameter, x);
                let slope = self.call("sigmoid", &[scaled]);
                let moved = self.infix(Infix::Multiply, x, slope);
                let own = self.name_of(id).unwrap_or(id);
                let apart = self.infix(Infix::Subtract, moved, own);
                self.infix(Infix::Divide, apart, parameter)
            }
            "snake" => {
                let two = self.number(2.0);
                let twice = self.infix(Infix::Multiply, two, parameter);
                let angle = self.infix(Infix::Multiply, twice, x);
                let sine = self.call("sin", &[angle]);
                let moved = self.infix(Infix::Multiply, x, sine);
                let own = self.name_of(id).unwrap_or(id);
                let own = self.infix(Infix::Subtract, own, x);
                let apart = self.infix(Infix::Subtract, moved, own);
                self.infix(Infix::Divide, apart, parameter)
            }
            "fmod" => {
                let ratio = self.infix(Infix::Divide, x, parameter);
                let whole = self.call("trunc", &[ratio]);
                self.negated(whole)
            }
            _ => return None,
        })
    }

    fn pass_reduction(
        &mut self,
        id: ExprId,
        function: &str,
        arguments: &[ExprId],
        c: ExprId,
    ) -> Result<(), GradError> {
        let x = arguments[0];
        let mut over = folded(&self.exprs, &arguments[1..], self.dims_of(x));
        let cut = self.cut_of(x).cloned();
        let cut = cut.filter(|cut| over.iter().any(|(dim, _)| *dim == cut.row));
        if let (Some(cut), [_]) = (&cut, arguments) {
            over.insert(0, (cut.segment.clone(), None));
        }
        let value = match function {
            // How many rows a segment has is data, so it is the sum of each of them.
            "sum" if cut.is_some() => self.widened(c, x),
            "sum" => c,
            "mean" => self.divided_by_count(c, &over, x),
            "var" => {
                let mean = self.reduced("mean", x, &over);
                let apart = self.infix(Infix::Subtract, x, mean);
                let twice = self.number(2.0);
                let slope = self.infix(Infix::Multiply, twice, apart);
                let value = self.infix(Infix::Multiply, c, slope);
                self.divided_by_count(value, &over, x)
            }
            "max" | "min" | "absmax" => {
                let own = if function == "absmax" { self.call("abs", &[x]) } else { x };
                let extreme = self.value_of(id);
                let found = self.infix(Infix::Equal, own, extreme);
                let (one, zero) = (self.number(1.0), self.number(0.0));
                let share = self.call("where", &[found, one, zero]);
                let count = self.reduced("sum", share, &over);
                let mut each = self.infix(Infix::Divide, c, count);
                if function == "absmax" {
                    let sign = self.call("sign", &[x]);
                    each = self.infix(Infix::Multiply, each, sign);
                }
                self.taken(found, each, true)
            }
            "logsumexp" => {
                let own = self.name_of(id).unwrap_or(id);
                let apart = self.infix(Infix::Subtract, x, own);
                let weight = self.call("exp", &[apart]);
                self.infix(Infix::Multiply, c, weight)
            }
            "prod" => {
                let (one, zero) = (self.number(1.0), self.number(0.0));
                let is_zero = self.infix(Infix::Equal, x, zero);
                let counted = self.call("where", &[is_zero, one, zero]);
                let zeros = self.reduced("sum", counted, &over);
                let other = self.call("where", &[is_zero, one, x]);
                let others = self.reduced("prod", other, &over);
                let alone = self.infix(Infix::Equal, zeros, one);
                let at_zero = self.call("where", &[alone, others, zero]);
                let own = self.name_of(id).unwrap_or(id);
                let ratio = self.infix(Infix::Divide, own, x);
                let slope = self.call("where", &[is_zero, at_zero, ratio]);
                self.infix(Infix::Multiply, c, slope)
            }
            _ => return Err(self.no_derivative(id, function, None)),
        };
        self.add(x, value);
        Ok(())
    }

    /// A value divided by how many elements a reduction folds into one.
    fn divided_by_count(
        &mut self,
        value: ExprId,
        over: &[(Dim, Option<u32>)],
        of: ExprId,
    ) -> ExprId {
        let mut value = value;
        for (dim, run) in over {
            let own = self.dims_of(of).iter().find(|own| own.same_base(dim)).cloned();
            let size = match run {
                None if self.cuts.iter().any(|cut| cut.row == *dim) => {
                    let one = self.number(1.0);
                    let each = self.widened(one, of);
                    self.reduced("sum", each, &[(dim.clone(), None)])
                }
                Some(run) => self.number(f64::from(*run)),
                None => self.size(&own.unwrap_or_else(|| dim.clone())),
            };
            value = self.infix(Infix::Divide, value, size);
        }
        value
    }

    /// Softmax and norms along a dim.
    fn pass_composite(
        &mut self,
        id: ExprId,
        function: &str,
        arguments: &[ExprId],
        c: ExprId,
    ) -> Result<(), GradError> {
        let x = arguments[0];
        let place = if function == "topk_softmax" { 2 } else { 1 };
        let over = folded(&self.exprs, &arguments[place..=place], self.dims_of(x));
        if let Some(eps) = arguments.get(2).filter(|_| place == 1)
            && self.active[eps.0 as usize]
        {
            return Err(self.no_derivative(id, function, Some(3)));
        }
        let c = self.shared(c);
        let along = |sweep: &mut Self, function: &str, value: ExprId| {
            let dims = sweep.dims_of(value);
            match dims.iter().find(|dim| dim.same_base(&over[0].0)).cloned() {
                Some(own) => sweep.reduced(function, value, &[(own, over[0].1)]),
                None => value,
            }
        };
        let value = match function {
            "softmax" | "topk_softmax" => {
                let own = self.value_of(id);
                let weighed = self.infix(Infix::Multiply, c, own);
                let mean = self.reduced("sum", weighed, &over);
                let apart = self.infix(Infix::Subtract, c, mean);
                self.infix(Infix::Multiply, own, apart)
            }
            "log_softmax" => {
                let dims = self.dims_of(x).to_vec();
                let own: Vec<Dim> =
                    dims.iter().filter(|dim| !dim.same_base(&over[0].0)).cloned().collect();
                let total = self.reduced_to(c, &dims, &own);
                let softmax = self.push(called("softmax", false, arguments.to_vec()), dims);
                let part = self.infix(Infix::Multiply, softmax, total);
                self.infix(Infix::Subtract, c, part)
            }
            "rms_norm" => {
                let square = self.call("square", &[x]);
                let mean = self.reduced("mean", square, &over);
                let more = self.infix(Infix::Add, mean, arguments[2]);
                let scale = self.call("rsqrt", &[more]);
                let own = self.value_of(id);
                let weighed = self.infix(Infix::Multiply, c, own);
                let mean = self.reduced("mean", weighed, &over);
                let part = self.infix(Infix::Multiply, own, mean);
                let apart = self.infix(Infix::Subtract, c, part);
                self.infix(Infix::Multiply, scale, apart)
            }
            "layer_norm" => {
                let variance = self.reduced("var", x, &over);
                let more = self.infix(Infix::Add, variance, arguments[2]);
                let scale = self.call("rsqrt", &[more]);
                let centre = along(self, "mean", c);
                let own = self.value_of(id);
                let weighed = self.infix(Infix::Multiply, c, own);
                let mean = self.reduced("mean", weighed, &over);
                let part = self.infix(Infix::Multiply, own, mean);
                let apart = self.infix(Infix::Subtract, c, centre);
                let apart = self.infix(Infix::Subtract, apart, part);
                self.infix(Infix::Multiply, scale, apart)
            }
            _ => return Err(self.no_derivative(id, function, None)),
        };
        self.give(id, x, value);
        Ok(())
    }
}
