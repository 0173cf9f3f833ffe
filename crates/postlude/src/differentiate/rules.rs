//! The derivative of each form of expression.

use crate::catalogue::{self, Group};
use crate::dtype::{DType, Elem};
use crate::shape::Dim;
use crate::syntax::{ExprId, ExprKind, Infix, Number, Prefix, Statement};

use super::dims::{Info, folded, product};
use super::error::GradError;
use super::{Sweep, called};

/// Whether a derivative passes an operator.
pub(super) fn is_arithmetic(infix: Infix) -> bool {
    matches!(infix, Infix::Add | Infix::Subtract | Infix::Multiply | Infix::Divide)
}

/// Whether a derivative passes a function: its result is a float that its arguments change.
pub(super) fn passes(function: &str) -> bool {
    if let Some(dtype) = DType::from_name(function) {
        return dtype.elem() == Elem::F32;
    }
    let stops = [
        "argmax", "argmin", "isnan", "isinf", "bits", "float", "philox", "uniform", "normal",
        "size", "index", "lshr",
    ];
    !stops.contains(&function)
}

impl Sweep<'_> {
    /// Passes the cotangent of an expression to what it is made of.
    pub(super) fn pass(&mut self, id: ExprId, cotangent: ExprId) -> Result<(), GradError> {
        match self.ast.exprs[id].kind.clone() {
            ExprKind::Number(_) | ExprKind::Dims(_) => {}
            ExprKind::Name(name) | ExprKind::Annotated(name, _) => {
                self.add_to_name(&name, cotangent);
            }
            // Values meet by their dims: only operands and stores read them in an order.
            ExprKind::Transpose(a) => self.add(a, cotangent),
            ExprKind::Prefix(prefix, a) => {
                if prefix == Prefix::Negate {
                    let value = self.negated(cotangent);
                    self.give(id, a, value);
                }
            }
            ExprKind::Infix(infix, a, b) => self.pass_infix(id, infix, (a, b), cotangent),
            ExprKind::Product(a, b) => self.pass_product(id, (a, b), cotangent)?,
            ExprKind::Call { function, grad, arguments } => {
                if grad {
                    return Err(self.no_derivative(id, &format!("grad({})", function.text), None));
                }
                self.pass_call(id, &function.text, &arguments, cotangent)?;
            }
        }
        Ok(())
    }

    /// Adds what an expression's cotangent gives one of its operands, summed over the dims that the operand lacks.
    fn give(&mut self, id: ExprId, operand: ExprId, value: ExprId) {
        if self.active[operand.0 as usize] {
            let (whole, own) = (self.info(id).dims.clone(), self.info(operand).dims.clone());
            let value = self.reduced_to(value, &whole, &own);
            self.add(operand, value);
        }
    }

    /// The sum of a value over the dims of a whole that an operand lacks, or has in runs.
    fn reduced_to(&mut self, mut value: ExprId, whole: &[Dim], own: &[Dim]) -> ExprId {
        let mut summed: Vec<(Dim, Option<u32>)> = Vec::new();
        for dim in whole {
            let wanted = own.iter().find(|own| own.same_base(dim)).cloned();
            let here = self.info(value).dims.iter().find(|own| own.same_base(dim)).cloned();
            match (here, wanted) {
                (Some(here), None) => summed.push((here, None)),
                (Some(here), Some(wanted)) if here.divisor() < wanted.divisor() => {
                    summed.push((here.clone(), Some(wanted.divisor() / here.divisor())));
                }
                (Some(_), Some(_)) => {}
                (None, None) => {
                    let size = self.size(dim);
                    value = self.infix(Infix::Multiply, value, size);
                }
                (None, Some(wanted)) => {
                    let times = wanted.divisor() / dim.divisor().max(1);
                    if times > 1 {
                        let times = self.number(f64::from(times));
                        value = self.infix(Infix::Multiply, value, times);
                    }
                }
            }
        }
        if summed.is_empty() { value } else { self.reduced("sum", value, &summed) }
    }

    fn pass_infix(&mut self, id: ExprId, infix: Infix, (a, b): (ExprId, ExprId), c: ExprId) {
        let both = self.active[a.0 as usize] && self.active[b.0 as usize];
        let c = if both { self.shared(c) } else { c };
        match infix {
            Infix::Add => {
                self.give(id, a, c);
                self.give(id, b, c);
            }
            Infix::Subtract => {
                self.give(id, a, c);
                if self.active[b.0 as usize] {
                    let value = self.negated(c);
                    self.give(id, b, value);
                }
            }
            Infix::Multiply => {
                for (own, other) in [(a, b), (b, a)] {
                    if self.active[own.0 as usize] {
                        let value = self.infix(Infix::Multiply, c, other);
                        self.give(id, own, value);
                    }
                }
            }
            Infix::Divide => {
                let value = self.infix(Infix::Divide, c, b);
                self.give(id, a, value);
                if self.active[b.0 as usize] {
                    let ratio = self.infix(Infix::Divide, a, b);
                    let value = self.infix(Infix::Multiply, value, ratio);
                    let value = self.negated(value);
                    self.give(id, b, value);
                }
            }
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
            | Infix::ShiftRight => {}
        }
    }

    /// A value that several others are made of, under a name of its own.
    fn shared(&mut self, value: ExprId) -> ExprId {
        self.named("d", value)
    }

    fn no_derivative(&self, id: ExprId, function: &str, argument: Option<usize>) -> GradError {
        let at = self.ast.exprs[id].span;
        GradError::Function { function: function.to_owned(), argument, at }
    }

    /// A product: the cotangent, rounded to the operands' dtype, times the other operand.
    fn pass_product(
        &mut self,
        id: ExprId,
        (a, b): (ExprId, ExprId),
        cotangent: ExprId,
    ) -> Result<(), GradError> {
        let dtypes = [a, b].map(|operand| self.operand_dtype(operand));
        let at = self.ast.exprs[id].span;
        for dtype in dtypes {
            if dtype.elem() != Elem::F32 {
                return Err(GradError::Product { dtype, at });
            }
        }
        // Operands of 8 bits are widened: a cotangent has more range than they.
        let [left, right] = dtypes;
        let rounded = if left.bits() == 8 { DType::BF16 } else { left };
        let widened = |sweep: &mut Self, operand: ExprId, dtype: DType| {
            let dtype = if dtype.bits() == 8 { DType::BF16 } else { dtype };
            // What is f32 need not say so; factors that left the operand are rounded with it here.
            if dtype == DType::F32 { operand } else { sweep.cast(dtype, operand) }
        };
        let Some(pair) = self.info(id).reads() else { return Ok(()) };
        let whole = self.with_dims_of(cotangent, id, &pair);
        let whole = self.cast(rounded, whole);
        let both = self.active[a.0 as usize] && self.active[b.0 as usize];
        let whole = if both { self.shared(whole) } else { whole };
        let as_is = self.info(whole).reads() == Some(pair);
        for (own, other, dtype, is_left) in [(a, b, right, true), (b, a, left, false)] {
            if !self.active[own.0 as usize] {
                continue;
            }
            let (inner, swapped) = self.untransposed(own);
            let other = widened(self, other, dtype);
            // Left: dA = C @ B.T, and as A.T reads, B @ C.T. Right: dB = A.T @ C, and as B.T reads, C.T @ A.
            let (first, second) = match (is_left, swapped) {
                (true, false) => (self.turned(whole, !as_is), self.turned(other, true)),
                (true, true) => (other, self.turned(whole, as_is)),
                (false, false) => (self.turned(other, true), self.turned(whole, !as_is)),
                (false, true) => (self.turned(whole, as_is), other),
            };
            self.products += 1;
            let info = product(self.products, self.info(first), self.info(second));
            let value = self.push(ExprKind::Product(first, second), info);
            let made = self.info(value).dims.clone();
            let wanted = self.info(inner).dims.clone();
            let value = self.reduced_to(value, &made, &wanted);
            self.add(inner, value);
        }
        Ok(())
    }

    /// A cotangent with the rows and columns of its product: where it lacks some, those of the product itself.
    fn with_dims_of(&mut self, cotangent: ExprId, product: ExprId, pair: &[Dim; 2]) -> ExprId {
        let info = self.info(cotangent);
        let has = |dim: &Dim| info.dims.contains(dim);
        if pair.iter().all(has)
            && info.reads().is_some_and(|own| own.iter().all(|dim| pair.contains(dim)))
        {
            return cotangent;
        }
        let of = self.name_of(product).unwrap_or(product);
        let same = self.infix(Infix::Equal, of, of);
        self.call("where", &[same, cotangent, cotangent])
    }

    /// The name that an expression's statement gives it.
    fn name_of(&mut self, id: ExprId) -> Option<ExprId> {
        let statement = self.ast.statements.iter().find(|statement| statement.value == id)?;
        let info = self.info(id).clone();
        Some(self.push(ExprKind::Name(statement.targets[0].text.clone()), info))
    }

    /// What stands before the `.T` of an operand, and whether they swap it.
    fn untransposed(&self, mut id: ExprId) -> (ExprId, bool) {
        let mut swapped = false;
        while let ExprKind::Transpose(inner) = self.exprs[id].kind {
            (id, swapped) = (inner, !swapped);
        }
        (id, swapped)
    }

    /// An operand as it is, or with its dims swapped.
    fn turned(&mut self, operand: ExprId, swap: bool) -> ExprId {
        match self.exprs[operand].kind {
            _ if !swap => operand,
            ExprKind::Transpose(inner) => inner,
            _ => {
                let info = self.info(operand).transposed();
                self.push(ExprKind::Transpose(operand), info)
            }
        }
    }

    pub(super) fn cast(&mut self, dtype: DType, value: ExprId) -> ExprId {
        if self.value_dtype(value) == Some(dtype) {
            return value;
        }
        let info = self.info(value).clone();
        self.push(called(dtype.name(), false, vec![value]), info)
    }

    /// The dtype that a value is known to have: that of its cast, or of its tensor.
    fn value_dtype(&self, id: ExprId) -> Option<DType> {
        match &self.exprs[id].kind {
            ExprKind::Name(name) | ExprKind::Annotated(name, _) => {
                let of_output = self.read.iter().find(|(_, cotangent)| cotangent == name);
                if let Some((output, _)) = of_output {
                    let declared = self.signature.outputs.iter();
                    let mut declared = declared.filter(|it| it.name.text == *output);
                    return declared.next().map(|it| it.dtype);
                }
                let statements = self.statements.iter();
                let derived = statements.rev().find(|(targets, _)| targets.contains(name));
                if let Some((_, value)) = derived {
                    return self.value_dtype(*value);
                }
                let assigns =
                    |it: &&Statement| it.targets.iter().any(|target| target.text == *name);
                match self.ast.statements.iter().find(assigns) {
                    Some(statement) => self.value_dtype(statement.value),
                    None => self.dtype_of(name),
                }
            }
            ExprKind::Call { function, grad: false, .. } => DType::from_name(&function.text),
            ExprKind::Transpose(a) => self.value_dtype(*a),
            _ => None,
        }
    }

    /// What an operand is multiplied as.
    fn operand_dtype(&self, operand: ExprId) -> DType {
        let mut open = vec![operand];
        while let Some(id) = open.pop() {
            if let Some(dtype) = self.value_dtype(id) {
                return dtype;
            }
            match &self.exprs[id].kind {
                ExprKind::Name(name) => {
                    let assigns =
                        |it: &&Statement| it.targets.iter().any(|target| target.text == *name);
                    let statement = self.ast.statements.iter().find(assigns);
                    open.extend(statement.map(|statement| statement.value));
                }
                ExprKind::Product(..) => {}
                kind => open.extend(kind.children().rev()),
            }
        }
        DType::F32
    }

    fn pass_call(
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
                let mut same = arguments.to_vec();
                same[0] = c;
                let info = self.info(c).clone();
                let value = self.push(called("dropout", false, same), info);
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
                ("where", _) => {
                    let zero = self.number(0.0);
                    let taken =
                        if place == 1 { [arguments[0], c, zero] } else { [arguments[0], zero, c] };
                    self.call("where", &taken)
                }
                ("fma", 0) => self.infix(Infix::Multiply, c, arguments[1]),
                ("fma", 1) => self.infix(Infix::Multiply, c, arguments[0]),
                ("fma", _) => c,
                ("maximum" | "minimum", 1) => {
                    let slope = self.derivative(function, &[arguments[1], arguments[0]]);
                    self.infix(Infix::Multiply, c, slope)
                }
                ("pow", 1) => {
                    let log = self.call("log", &[arguments[0]]);
                    let slope = self.infix(Infix::Multiply, id, log);
                    self.infix(Infix::Multiply, c, slope)
                }
                ("clamp", 1 | 2) => {
                    let order = if place == 1 { Infix::Less } else { Infix::Greater };
                    let outside = self.infix(order, arguments[0], argument);
                    let zero = self.number(0.0);
                    self.call("where", &[outside, c, zero])
                }
                (_, 0) => {
                    let slope = self.derivative(function, arguments);
                    self.infix(Infix::Multiply, c, slope)
                }
                (_, place) => return Err(self.no_derivative(id, function, Some(place + 1))),
            };
            self.give(id, argument, value);
        }
        Ok(())
    }

    fn pass_reduction(
        &mut self,
        id: ExprId,
        function: &str,
        arguments: &[ExprId],
        c: ExprId,
    ) -> Result<(), GradError> {
        let x = arguments[0];
        let over = folded(&self.exprs, &arguments[1..], self.info(x));
        let value = match function {
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
                let found = self.infix(Infix::Equal, own, id);
                let (one, zero) = (self.number(1.0), self.number(0.0));
                let share = self.call("where", &[found, one, zero]);
                let count = self.reduced("sum", share, &over);
                let mut each = self.infix(Infix::Divide, c, count);
                if function == "absmax" {
                    let sign = self.call("sign", &[x]);
                    each = self.infix(Infix::Multiply, each, sign);
                }
                self.call("where", &[found, each, zero])
            }
            "logsumexp" => {
                let apart = self.infix(Infix::Subtract, x, id);
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
                let ratio = self.infix(Infix::Divide, id, x);
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
            let own = self.info(of).dims.iter().find(|own| own.same_base(dim)).cloned();
            let size = match run {
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
        let over = folded(&self.exprs, &arguments[place..=place], self.info(x));
        if let Some(eps) = arguments.get(2).filter(|_| place == 1)
            && self.active[eps.0 as usize]
        {
            return Err(self.no_derivative(id, function, Some(3)));
        }
        let c = self.shared(c);
        let along = |sweep: &mut Self, function: &str, value: ExprId| {
            let has = sweep.info(value).dims.iter().any(|dim| dim.same_base(&over[0].0));
            if has { sweep.reduced(function, value, &over) } else { value }
        };
        let value = match function {
            "softmax" | "topk_softmax" => {
                let weighed = self.infix(Infix::Multiply, c, id);
                let mean = self.reduced("sum", weighed, &over);
                let apart = self.infix(Infix::Subtract, c, mean);
                self.infix(Infix::Multiply, id, apart)
            }
            "log_softmax" => {
                let dims = self.info(x).dims.clone();
                let own: Vec<Dim> =
                    dims.iter().filter(|dim| !dim.same_base(&over[0].0)).cloned().collect();
                let total = self.reduced_to(c, &dims, &own);
                let softmax =
                    self.push(called("softmax", false, arguments.to_vec()), self.info(x).clone());
                let part = self.infix(Infix::Multiply, softmax, total);
                self.infix(Infix::Subtract, c, part)
            }
            "rms_norm" => {
                let square = self.call("square", &[x]);
                let mean = self.reduced("mean", square, &over);
                let more = self.infix(Infix::Add, mean, arguments[2]);
                let scale = self.call("rsqrt", &[more]);
                let weighed = self.infix(Infix::Multiply, c, id);
                let mean = self.reduced("mean", weighed, &over);
                let part = self.infix(Infix::Multiply, id, mean);
                let apart = self.infix(Infix::Subtract, c, part);
                self.infix(Infix::Multiply, scale, apart)
            }
            "layer_norm" => {
                let variance = self.reduced("var", x, &over);
                let more = self.infix(Infix::Add, variance, arguments[2]);
                let scale = self.call("rsqrt", &[more]);
                let centre = along(self, "mean", c);
                let weighed = self.infix(Infix::Multiply, c, id);
                let mean = self.reduced("mean", weighed, &over);
                let part = self.infix(Infix::Multiply, id, mean);
                let apart = self.infix(Infix::Subtract, c, centre);
                let apart = self.infix(Infix::Subtract, apart, part);
                self.infix(Infix::Multiply, scale, apart)
            }
            _ => return Err(self.no_derivative(id, function, None)),
        };
        self.give(id, x, value);
        Ok(())
    }

    fn pass_structure(
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
                let info = self.info(value).with(self.info(arguments[0]));
                self.infos[value.0 as usize] = info;
                self.add(arguments[0], value);
                Ok(())
            }
            "concat" | "join" => self.pass_parts(id, function, arguments, c),
            _ => Err(self.no_derivative(id, function, None)),
        }
    }

    /// Parts that are put together: each gets its own part of the cotangent.
    fn pass_parts(
        &mut self,
        id: ExprId,
        function: &str,
        arguments: &[ExprId],
        c: ExprId,
    ) -> Result<(), GradError> {
        let is_run =
            |id: &ExprId| matches!(self.exprs[*id].kind, ExprKind::Number(Number::Integer(_)));
        let (runs, parts): (Vec<ExprId>, Vec<ExprId>) = arguments.iter().partition(|id| is_run(id));
        let whole = self.info(id).dims.clone();
        let widest = whole.last().cloned();
        let same = self.info(c).dims.iter().any(|dim| Some(dim) == widest.as_ref());
        if !same {
            for part in parts {
                self.add(part, c);
            }
            return Ok(());
        }
        let equal = parts.iter().all(|part| {
            let last = self.info(*part).dims.last().cloned();
            last.zip(widest.clone()).is_some_and(|(own, all)| own.same_base(&all))
        });
        if !equal {
            let (function, at) = (function.to_owned(), self.ast.exprs[id].span);
            return Err(GradError::Parts { function, at });
        }
        let (split, count) = match (function, parts.len()) {
            ("join", _) => ("pairs", None),
            (_, 2) => ("halves", None),
            (_, count) => ("split", Some(count)),
        };
        let mut own = vec![c];
        if let Some(count) = count {
            let count = ExprKind::Number(Number::Integer(count as i64));
            own.push(self.push(count, Info::default()));
        }
        own.extend(runs);
        let info = self.info(c).clone();
        let value = self.push(called(split, false, own), info);
        let names: Vec<String> = parts.iter().map(|_| self.free_name("d_part")).collect();
        self.statements.push((names.clone(), value));
        for (part, name) in parts.into_iter().zip(names) {
            let info = self.info(c).with_dims(self.info(part).dims.clone());
            let value = self.push(ExprKind::Name(name), info);
            self.add(part, value);
        }
        Ok(())
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
            return Err(self.no_derivative(id, "topk", None));
        }
        let listed = |id: &ExprId| matches!(self.exprs[*id].kind, ExprKind::Dims(_));
        if arguments.iter().any(listed) {
            return Err(GradError::Parts { function: function.text, at: self.ast.exprs[id].span });
        }
        let mut parts = Vec::new();
        for (name, given) in names.iter().zip(given) {
            let info = self.part_info(statement, name);
            let own = self.push(ExprKind::Name(name.clone()), info);
            let zero = self.number(0.0);
            let given = given.map(|given| self.named(&format!("d_{name}"), given));
            let value = given.unwrap_or(zero);
            let missing =
                self.info(own).dims.iter().any(|dim| !self.info(value).dims.contains(dim));
            parts.push(if missing {
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
        let info = self.info(arguments[0]).clone();
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
