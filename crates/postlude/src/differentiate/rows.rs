//! The derivatives of what reads elements and rows by their numbers: what is read is summed by the same numbers.

use crate::dtype::DType;
use crate::shape::Dim;
use crate::syntax::{ExprId, ExprKind, Infix, Number};

use super::dims::{gathered, scattered, top_count, with_columns};
use super::error::GradError;
use super::{Sweep, called};

impl Sweep<'_> {
    /// `take`, `gather` and `combine`: sums by numbers; `scatter`: rows by their numbers.
    pub(super) fn pass_rows(
        &mut self,
        id: ExprId,
        function: &str,
        arguments: &[ExprId],
        c: ExprId,
    ) -> Result<(), GradError> {
        let (of, index) = (arguments[0], arguments[1]);
        let dims = self.dims_of(of).to_vec();
        let Some(sums) = self.known.rows(of) else {
            return Err(self.no_derivative(id, function, None));
        };
        let live = arguments.iter().filter(|argument| self.active[argument.0 as usize]).count();
        let c = if live > 1 { self.shared(c) } else { c };
        match function {
            "take" => {
                let c = self.widened(c, index);
                let value = self.scatter(c, index, &sums, None);
                self.add(of, value);
            }
            "gather" | "combine" => {
                let weight = arguments.get(2).copied();
                if self.active[of.0 as usize] {
                    let whole = self.widened(c, id);
                    // Operands of 8 bits are widened: a cotangent has more range than they.
                    let dtype = self.operand_dtype(of);
                    let dtype = if dtype.bits() == 8 { DType::BF16 } else { dtype };
                    let whole = if dtype == DType::F32 { whole } else { self.cast(dtype, whole) };
                    let value = self.scatter(whole, index, &sums, weight);
                    self.add(of, value);
                }
                if let Some(weight) = weight.filter(|weight| self.active[weight.0 as usize]) {
                    let rows = self.gather(of, index, &sums);
                    let each = self.infix(Infix::Multiply, c, rows);
                    let columns = dims.iter().filter(|dim| !dim.same_base(&sums));
                    let columns = columns.map(|dim| (dim.clone(), None));
                    let value = self.reduced("sum", each, &columns.collect::<Vec<_>>());
                    self.add(weight, value);
                }
            }
            _ => {
                // Sums of elements are vectors, which no table of `take` is.
                let (2, 3) = (self.dims_of(id).len(), arguments.len()) else {
                    return Err(self.no_derivative(id, function, None));
                };
                let sums = self.dims_of(id)[0].clone();
                let c = self.widened(c, id);
                let c = self.shared(c);
                self.pass_scatter(c, [of, index], &sums);
            }
        }
        Ok(())
    }

    /// `values, indices = topk(x, k, N)`: values go back to where they were found.
    pub(super) fn pass_top(
        &mut self,
        id: ExprId,
        x: ExprId,
        (indices, given): (&str, Option<ExprId>),
    ) -> Result<(), GradError> {
        let Some(c) = given else { return Ok(()) };
        let dims = self.dims_of(x).to_vec();
        let (Some(own), Some(count)) = (self.known.columns(x), top_count(&self.exprs, id)) else {
            return Err(self.no_derivative(id, "topk", None));
        };
        let list = with_columns(&dims, &own, &Dim::Size(count));
        let indices = self.push(ExprKind::Name(indices.to_owned()), list);
        let column = self.push(ExprKind::Name("col".to_owned()), vec![own]);
        let is_found = self.infix(Infix::Equal, indices, column);
        let each = self.taken(is_found, c, true);
        let value = self.reduced("sum", each, &[(Dim::Size(count), None)]);
        self.add(x, value);
        Ok(())
    }

    /// The sums of a value by numbers.
    fn scatter(&mut self, x: ExprId, index: ExprId, sums: &Dim, weight: Option<ExprId>) -> ExprId {
        let columns =
            self.dims_of(x).iter().find(|dim| !self.dims_of(index).contains(dim)).cloned();
        let dims = scattered(self.dims_of(x), columns, self.dims_of(index), Some(sums.clone()));
        let dim = self.dim(sums);
        let arguments = [x, index, dim].into_iter().chain(weight).collect();
        self.push(called("scatter", false, arguments), dims)
    }

    /// The rows of a value by their numbers.
    fn gather(&mut self, of: ExprId, index: ExprId, rows: &Dim) -> ExprId {
        let columns = self.dims_of(of).iter().find(|dim| !dim.same_base(rows)).cloned();
        let dims = gathered("gather", columns, self.dims_of(index));
        self.push(called("gather", false, vec![of, index]), dims)
    }

    /// What `scatter` gives its rows: those of the sums that they are in.
    fn pass_scatter(&mut self, c: ExprId, [x, index]: [ExprId; 2], sums: &Dim) {
        let rows = self.gather(c, index, sums);
        let zero = self.push(ExprKind::Number(Number::Integer(0)), Vec::new());
        let size = self.size(sums);
        let from = self.infix(Infix::LessEqual, zero, index);
        let below = self.infix(Infix::Less, index, size);
        let is_inside = self.infix(Infix::And, from, below);
        let value = self.taken(is_inside, rows, true);
        self.add(x, value);
    }
}
