//! Calls that give several values, and what puts parts together again.

use crate::syntax::{ExprId, ExprKind};

use super::{Expr, IntoDims, KernelBuilder, Node, Operand};

impl<'k> Expr<'k> {
    /// The results of a call that gives this many.
    fn several<const COUNT: usize>(
        self,
        function: &str,
        rest: impl IntoIterator<Item = ExprId>,
    ) -> [Expr<'k>; COUNT] {
        let call = self.call(function, rest).id;
        std::array::from_fn(|_| self.kernel.handle(self.kernel.push_node(Node::Part(call))))
    }

    fn size(self, size: u32) -> ExprId {
        self.kernel.operand(Operand::Integer(i64::from(size)))
    }

    /// The two halves along the column dim, as concatenated.
    ///
    /// ```
    /// # use postlude::{build::KernelBuilder, dtype::DType::F32};
    /// # let k = KernelBuilder::new("k");
    /// # let z = k.input("z", F32, ["M", "N"]);
    /// let (gate, up) = z.halves();
    /// k.output("D", F32, ["M", "N/2"], gate.silu() * up);
    /// assert!(k.finish().to_string().contains("t1, t2 = halves(z)"));
    /// ```
    pub fn halves(self) -> (Expr<'k>, Expr<'k>) {
        self.several::<2>("halves", []).into()
    }

    /// The two halves of each run of columns.
    ///
    /// ```
    /// # use postlude::{build::KernelBuilder, dtype::DType::F32};
    /// # let k = KernelBuilder::new("k");
    /// # let z = k.input("z", F32, ["M", "N"]);
    /// let (a, b) = z.halves_of(128);
    /// k.output("D", F32, ["M", "N"], a.concat_in(b, 128));
    /// assert!(k.finish().to_string().contains("t1, t2 = halves(z, 128)\n    D = concat(t1, t2, 128)"));
    /// ```
    pub fn halves_of(self, run: u32) -> (Expr<'k>, Expr<'k>) {
        self.several::<2>("halves", [self.size(run)]).into()
    }

    /// The even and the odd elements along the column dim.
    ///
    /// ```
    /// # use postlude::{build::KernelBuilder, dtype::DType::F32};
    /// # let k = KernelBuilder::new("k");
    /// # let z = k.input("z", F32, ["M", "N"]);
    /// let (even, odd) = z.pairs();
    /// k.output("D", F32, ["M", "N/2"], k.name("even", even) - k.name("odd", odd));
    /// assert!(k.finish().to_string().contains("even, odd = pairs(z)"));
    /// ```
    pub fn pairs(self) -> (Expr<'k>, Expr<'k>) {
        self.several::<2>("pairs", []).into()
    }

    /// The even and the odd elements of each run of columns.
    ///
    /// ```
    /// # use postlude::{build::KernelBuilder, dtype::DType::F32};
    /// # let k = KernelBuilder::new("k");
    /// # let z = k.input("z", F32, ["M", "N"]);
    /// let (even, odd) = z.pairs_of(64);
    /// k.output("D", F32, ["M", "N"], even.join_in(odd, 64));
    /// assert!(k.finish().to_string().contains("t1, t2 = pairs(z, 64)\n    D = join(t1, t2, 64)"));
    /// ```
    pub fn pairs_of(self, run: u32) -> (Expr<'k>, Expr<'k>) {
        self.several::<2>("pairs", [self.size(run)]).into()
    }

    /// Equal parts along the column dim, one behind the other.
    ///
    /// ```
    /// # use postlude::{build::KernelBuilder, dtype::DType::F32};
    /// # let k = KernelBuilder::new("k");
    /// # let z = k.input("z", F32, ["M", "N"]);
    /// let [query, key, value] = z.split();
    /// k.output("D", F32, ["M", "N/3"], query * key + value);
    /// assert!(k.finish().to_string().contains("t1, t2, t3 = split(z, 3)"));
    /// ```
    pub fn split<const PARTS: usize>(self) -> [Expr<'k>; PARTS] {
        self.several("split", [self.size(PARTS as u32)])
    }

    /// Equal parts of each run of columns.
    ///
    /// ```
    /// # use postlude::{build::KernelBuilder, dtype::DType::F32};
    /// # let k = KernelBuilder::new("k");
    /// # let z = k.input("z", F32, ["M", "N"]);
    /// let [a, _, c] = z.split_of(96);
    /// k.output("D", F32, ["M", "N/3"], a - c);
    /// assert!(k.finish().to_string().contains("t1, t2, t3 = split(z, 3, 96)"));
    /// ```
    pub fn split_of<const PARTS: usize>(self, run: u32) -> [Expr<'k>; PARTS] {
        self.several("split", [self.size(PARTS as u32), self.size(run)])
    }

    /// Parts of these dims along the column dim, which are all of it together.
    ///
    /// ```
    /// # use postlude::{build::KernelBuilder, dtype::DType::F32};
    /// # let k = KernelBuilder::new("k");
    /// # let z = k.input("z", F32, ["M", "N"]);
    /// let [query, key, value] = z.split_into(["Q", "KV", "KV"]);
    /// k.output("query", F32, ["M", "Q"], query);
    /// k.output("key", F32, ["M", "KV"], key);
    /// k.output("value", F32, ["M", "KV"], value);
    /// assert!(k.finish().to_string().contains("query, key, value = split(z, [Q, KV, KV])"));
    /// ```
    pub fn split_into<const PARTS: usize>(self, dims: [&str; PARTS]) -> [Expr<'k>; PARTS] {
        let dims = self.kernel.push(ExprKind::Dims(dims.into_dims())).id;
        self.several("split", [dims])
    }

    /// The `k` largest along a dim in order, and their indices.
    ///
    /// ```
    /// # use postlude::{build::KernelBuilder, dtype::DType::{F32, I32}};
    /// # let k = KernelBuilder::new("k");
    /// # let z = k.input("z", F32, ["M", "N"]);
    /// let (values, indices) = z.topk(8, "N");
    /// k.output("weights", F32, ["M", "8"], values.softmax("8"));
    /// k.output("experts", I32, ["M", "8"], indices);
    /// assert!(k.finish().to_string().contains("t1, experts = topk(z, 8, N)"));
    /// ```
    pub fn topk(self, k: u32, dim: impl IntoDims) -> (Expr<'k>, Expr<'k>) {
        let mut arguments = vec![self.size(k)];
        arguments.extend(self.dims(dim));
        self.several::<2>("topk", arguments).into()
    }

    /// What `halves_of` takes apart.
    ///
    /// ```
    /// # use postlude::{build::KernelBuilder, dtype::DType::F32};
    /// # let k = KernelBuilder::new("k");
    /// # let x = k.input("x", F32, ["M", "N/2"]);
    /// assert_eq!(x.concat_in(x, 128).to_string(), "concat(x, x, 128)");
    /// ```
    pub fn concat_in(self, right: impl Into<Operand<'k>>, run: u32) -> Expr<'k> {
        self.call("concat", [self.kernel.operand(right.into()), self.size(run)])
    }

    /// What `pairs_of` takes apart.
    ///
    /// ```
    /// # use postlude::{build::KernelBuilder, dtype::DType::F32};
    /// # let k = KernelBuilder::new("k");
    /// # let x = k.input("x", F32, ["M", "N/2"]);
    /// assert_eq!(x.join_in(x, 128).to_string(), "join(x, x, 128)");
    /// ```
    pub fn join_in(self, odd: impl Into<Operand<'k>>, run: u32) -> Expr<'k> {
        self.call("join", [self.kernel.operand(odd.into()), self.size(run)])
    }
}

impl KernelBuilder {
    /// What `split` takes apart.
    ///
    /// ```
    /// # use postlude::{build::KernelBuilder, dtype::DType::F32};
    /// # let k = KernelBuilder::new("k");
    /// # let z = k.input("z", F32, ["M", "N"]);
    /// let parts: [_; 3] = z.split();
    /// k.output("D", F32, ["M", "N"], k.concat(parts.map(|part| part.relu())));
    /// assert!(k.finish().to_string().contains("D = concat(relu(t1), relu(t2), relu(t3))"));
    /// ```
    pub fn concat<'k>(&'k self, parts: impl IntoIterator<Item = Expr<'k>>) -> Expr<'k> {
        let parts: Vec<ExprId> = parts.into_iter().map(|part| self.own(part)).collect();
        self.function("concat", parts)
    }
}
