//! The derivative of each form of expression: operators and products.

use crate::dtype::{DType, Elem};
use crate::shape::Dim;
use crate::syntax::{Declaration, ExprId, ExprKind, Infix, Prefix, Signature, Statement};

use super::dims::product;
use super::error::GradError;
use super::{Form, Sweep, called};

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
                    if let Some(expansion) = self.expansions.get(&id).copied() {
                        self.give(id, expansion, cotangent);
                    }
                    return Ok(());
                }
                self.pass_call(id, &function.text, &arguments, cotangent)?;
            }
        }
        Ok(())
    }

    /// Adds what an expression's cotangent gives one of its operands, summed over the dims that the operand lacks.
    pub(super) fn give(&mut self, id: ExprId, operand: ExprId, value: ExprId) {
        if self.active[operand.0 as usize] {
            let (whole, own) = (self.dims_of(id).to_vec(), self.dims_of(operand).to_vec());
            // How many rows a segment has is data, so a value that is the same for all of them is summed like others.
            let summed = self.cut_of(id).is_some_and(|cut| !own.contains(&cut.row));
            let value = if summed && self.cut_of(value).is_none() {
                let like = self.name_of(id).unwrap_or(id);
                self.widened(value, like)
            } else {
                value
            };
            let value = self.reduced_to(value, &whole, &own);
            self.add(operand, value);
        }
    }

    /// The sum of a value over the dims of a whole that an operand lacks, or has in runs. Along a dim that the value lacks, or
    /// has in runs, it is the same for all elements.
    pub(super) fn reduced_to(&mut self, mut value: ExprId, whole: &[Dim], own: &[Dim]) -> ExprId {
        let mut summed: Vec<(Dim, Option<u32>)> = Vec::new();
        let mut times = 1;
        for dim in whole {
            let wanted = own.iter().find(|own| own.same_base(dim)).cloned();
            let here = self.dims_of(value).iter().find(|own| own.same_base(dim)).cloned();
            let each = dim.divisor().max(1);
            match (here, wanted) {
                (Some(here), None) => {
                    times *= here.divisor() / each;
                    summed.push((here, None));
                }
                (Some(here), Some(wanted)) if here.divisor() < wanted.divisor() => {
                    times *= here.divisor() / each;
                    let run = wanted.divisor() / here.divisor().max(1);
                    summed.push((here, Some(run)));
                }
                (Some(_) | None, Some(wanted)) => times *= wanted.divisor() / each,
                (None, None) => {
                    let size = self.size(dim);
                    value = self.infix(Infix::Multiply, value, size);
                }
            }
        }
        let cut = self.cuts.iter().find(|cut| summed.iter().any(|(dim, _)| *dim == cut.row));
        if let Some(cut) = cut.cloned() {
            value = self.segmented(&cut, value);
            if !own.contains(&cut.segment) {
                summed.insert(0, (cut.segment, None));
            }
        }
        if !summed.is_empty() {
            value = self.reduced("sum", value, &summed);
        }
        if times > 1 {
            let times = self.number(f64::from(times));
            value = self.infix(Infix::Multiply, value, times);
        }
        value
    }

    /// A value with all dims of another one.
    pub(super) fn widened(&mut self, value: ExprId, like: ExprId) -> ExprId {
        let (own, all) = (self.dims_of(value), self.dims_of(like));
        if all.iter().all(|dim| own.contains(dim)) {
            return value;
        }
        let dims = all.to_vec();
        self.spread(value, &dims, like)
    }

    /// A value with these dims, those of another one: `d[M, N]`. Columns of parts, and rows of segments, are what the other
    /// one's are.
    pub(super) fn spread(&mut self, value: ExprId, dims: &[Dim], like: ExprId) -> ExprId {
        let split = self.ast.statements.iter().any(|statement| statement.targets.len() > 1);
        let is_plain = |dim: &Dim| match dim {
            Dim::Name { divisor, .. } => !(split && *divisor > 1 || self.known.is_part(dim)),
            Dim::Size(_) => false,
        };
        if !self.cuts.is_empty() || !dims.iter().all(is_plain) {
            let same = self.infix(Infix::Equal, like, like);
            return self.call("where", &[same, value, value]);
        }
        let named = match self.exprs[value].kind {
            ExprKind::Name(_) => value,
            _ => self.renamed("d", value),
        };
        let ExprKind::Name(name) = self.exprs[named].kind.clone() else { return value };
        self.push(ExprKind::Annotated(name, dims.to_vec()), dims.to_vec())
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
    pub(super) fn shared(&mut self, value: ExprId) -> ExprId {
        self.named("d", value)
    }

    pub(super) fn no_derivative(
        &self,
        id: ExprId,
        function: &str,
        argument: Option<usize>,
    ) -> GradError {
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
        if self.pass_cut_product(id, (a, b), cotangent)? {
            return Ok(());
        }
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
        let [.., row, column] = self.dims_of(id) else { return Ok(()) };
        let pair = [row.clone(), column.clone()];
        let whole = self.with_dims_of(cotangent, id, &pair);
        let whole = self.cast(rounded, whole);
        let both = self.active[a.0 as usize] && self.active[b.0 as usize];
        let whole = if both { self.shared(whole) } else { whole };
        let as_is = self.pairs([whole]) == [Some(pair)];
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
            let pairs = self.pairs([first, second]);
            let dims = product([self.dims_of(first), self.dims_of(second)], pairs, &[]);
            let value = self.push(ExprKind::Product(first, second), dims.clone());
            let (made, wanted) = (dims, self.dims_of(inner).to_vec());
            let value = self.reduced_to(value, &made, &wanted);
            self.add(inner, value);
        }
        Ok(())
    }

    /// A cotangent with the rows and columns of its product: where it lacks some, those of the product itself.
    pub(super) fn with_dims_of(
        &mut self,
        cotangent: ExprId,
        product: ExprId,
        pair: &[Dim; 2],
    ) -> ExprId {
        let has = |dim: &Dim| self.dims_of(cotangent).contains(dim);
        let [own] = self.pairs([cotangent]);
        if pair.iter().all(has) && own.is_some_and(|own| own.iter().all(|dim| pair.contains(dim))) {
            return cotangent;
        }
        let of = self.name_of(product).unwrap_or(product);
        let dims = self.dims_of(product).to_vec();
        self.spread(cotangent, &dims, of)
    }

    /// An expression of the body under a name: that of its statement, or a new one for all that read the same.
    pub(super) fn value_of(&mut self, id: ExprId) -> ExprId {
        if let Some(name) = self.name_of(id) {
            return name;
        }
        let text = self.exprs.display(id).to_string();
        if let Some(name) = self.values.get(&text) {
            return *name;
        }
        let name = self.named("y", id);
        self.values.insert(text, name);
        name
    }

    /// The name that an expression's statement gives it.
    pub(super) fn name_of(&mut self, id: ExprId) -> Option<ExprId> {
        let statement = self.ast.statements.iter().find(|statement| statement.value == id)?;
        let dims = self.dims_of(id).to_vec();
        Some(self.push(ExprKind::Name(statement.targets[0].text.clone()), dims))
    }

    /// What stands before the `.T` of an operand, and whether they swap it.
    pub(super) fn untransposed(&self, mut id: ExprId) -> (ExprId, bool) {
        let mut swapped = false;
        while let ExprKind::Transpose(inner) = self.exprs[id].kind {
            (id, swapped) = (inner, !swapped);
        }
        (id, swapped)
    }

    /// An operand as it is, or with its dims swapped.
    pub(super) fn turned(&mut self, operand: ExprId, swap: bool) -> ExprId {
        match self.exprs[operand].kind {
            _ if !swap => operand,
            ExprKind::Transpose(inner) => inner,
            _ => {
                let dims = self.dims_of(operand).to_vec();
                self.push(ExprKind::Transpose(operand), dims)
            }
        }
    }

    pub(super) fn cast(&mut self, dtype: DType, value: ExprId) -> ExprId {
        if self.value_dtype(value) == Some(dtype) || dtype == DType::F32 && self.is_f32() {
            return value;
        }
        let dims = self.dims_of(value).to_vec();
        self.push(called(dtype.name(), false, vec![value]), dims)
    }

    /// Whether what is multiplied need not say that it is f32, for all that is read is.
    fn is_f32(&self) -> bool {
        if self.form == Form::Explicit {
            return false;
        }
        let Signature { inputs, outputs, .. } = self.signature;
        let read = |output: &&Declaration| self.read.iter().any(|it| it.0 == output.name.text);
        let mut read = inputs.iter().chain(outputs.iter().filter(read));
        let rounds = |kind: &ExprKind| match kind {
            ExprKind::Call { function, .. } => DType::from_name(&function.text)
                .is_some_and(|dtype| !matches!(dtype, DType::F32 | DType::I32)),
            _ => false,
        };
        read.all(|declared| matches!(declared.dtype, DType::F32 | DType::I32))
            && !self.ast.exprs.iter().any(|(_, expr)| rounds(&expr.kind))
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
    pub(super) fn operand_dtype(&self, operand: ExprId) -> DType {
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
}
