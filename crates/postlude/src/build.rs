//! The Rust front end: kernels built with Rust's own operators.
//!
//! In: calls on a [`KernelBuilder`] and the [`Expr`] handles it hands out. Out: an [`Ast`], the same
//! one that its text parses to.
//! Invariant: a wrong kernel is never refused here; the checker reports it, as for text. Names that
//! are not names, names given twice and handles of another builder all end there.
//!
//! ```
//! use postlude::build::KernelBuilder;
//! use postlude::dtype::DType::{BF16, F32};
//!
//! let k = KernelBuilder::new("linear_gelu");
//! let a = k.input("A", BF16, ["M", "K"]);
//! let w = k.input("W", BF16, ["N", "K"]);
//! let bias = k.input("bias", F32, ["N"]);
//! let z = k.name("Z", a.matmul(w.t()) + bias);
//! k.output("D", BF16, ["M", "N"], z.gelu());
//! k.output("peak", F32, [], z.abs().max_all());
//! assert_eq!(
//!     k.finish().to_string(),
//!     "kernel linear_gelu(A: bf16[M, K], W: bf16[N, K], bias: f32[N]) -> (D: bf16[M, N], peak: f32[]) {
//!     Z = A @ W.T + bias
//!     D = gelu(Z)
//!     peak = max(abs(Z))
//! }"
//! );
//! ```

use std::cell::RefCell;
use std::fmt;

use crate::dtype::DType;
use crate::shape::Dim;
use crate::syntax::{Ast, Declaration, ExprId, ExprKind, Name, Span};

mod finish;
mod functions;
mod numbers;
mod operand;
mod operators;
mod reductions;
mod splits;

pub use operand::{IntoDims, Operand};

/// What a handle of another builder reads as: a name that nothing declares.
const FOREIGN: &str = "from_another_kernel";

/// A kernel in the making.
///
/// ```
/// use postlude::{build::KernelBuilder, dtype::DType::F32};
/// let k = KernelBuilder::new("product");
/// let (a, b) = (k.input("A", F32, ["M", "K"]), k.input("B", F32, ["K", "N"]));
/// k.output("D", F32, ["M", "N"], a.matmul(b));
/// assert_eq!(k.finish().statements.len(), 1);
/// ```
#[derive(Debug)]
pub struct KernelBuilder {
    name: String,
    parts: RefCell<Parts>,
}

/// What a builder has been told so far. Children come before their parents.
#[derive(Debug, Default)]
struct Parts {
    nodes: Vec<Node>,
    inputs: Vec<Declaration>,
    /// Every output and its value.
    outputs: Vec<(Declaration, ExprId)>,
    /// Every value that was given a name, in the order of naming.
    names: Vec<(ExprId, String)>,
}

#[derive(Debug)]
enum Node {
    /// An expression; its children are nodes of the builder.
    Plain(ExprKind),
    /// A result of a call that gives several: the call is that node, its results are the next ones.
    Part(ExprId),
}

/// A value of a kernel in the making: a handle, free to copy.
///
/// As text it is what it computes, with names for what was named; cut off when very long.
/// A handle used with another builder than its own reads as the name `from_another_kernel`, which
/// the checker refuses as unknown.
///
/// ```
/// use postlude::{build::KernelBuilder, dtype::DType::F32};
/// let k = KernelBuilder::new("k");
/// let x = k.scalar("x", F32);
/// assert_eq!(((x + 1) * x).to_string(), "(x + 1) * x");
/// ```
#[derive(Clone, Copy)]
pub struct Expr<'k> {
    kernel: &'k KernelBuilder,
    id: ExprId,
}

impl KernelBuilder {
    /// A kernel of that name, with nothing in it yet.
    ///
    /// ```
    /// let k = postlude::build::KernelBuilder::new("nothing");
    /// assert_eq!(k.finish().to_string(), "kernel nothing() -> () {\n}");
    /// ```
    pub fn new(name: impl Into<String>) -> KernelBuilder {
        KernelBuilder { name: name.into(), parts: RefCell::default() }
    }

    /// Declares an input in memory.
    ///
    /// ```
    /// # use postlude::{build::KernelBuilder, dtype::DType::{BF16, F32}};
    /// # let k = KernelBuilder::new("k");
    /// let a = k.input("A", BF16, ["M", "K"]);
    /// let scale = k.input("scale", F32, []);
    /// assert_eq!((a * scale).to_string(), "A * scale");
    /// ```
    pub fn input(&self, name: impl Into<String>, dtype: DType, dims: impl IntoDims) -> Expr<'_> {
        self.declare(name.into(), dtype, Some(dims.into_dims()))
    }

    /// Declares an input that is an earlier one under other dims: the caller passes that one only.
    ///
    /// ```
    /// # use postlude::{build::KernelBuilder, dtype::DType::{BF16, F32}};
    /// let k = KernelBuilder::new("gram");
    /// let a = k.input("A", BF16, ["M", "K"]);
    /// let b = k.input_as("B", BF16, ["N", "K"], "A");
    /// k.output("D", F32, ["M", "N"], a.matmul(b.t()));
    /// assert!(k.finish().to_string().starts_with("kernel gram(A: bf16[M, K], B: bf16[N, K] = A)"));
    /// ```
    pub fn input_as(
        &self,
        name: impl Into<String>,
        dtype: DType,
        dims: impl IntoDims,
        other: impl Into<String>,
    ) -> Expr<'_> {
        let name = name.into();
        let same_as = Some(Name::new(other, Span::default()));
        let declared = declaration(name.clone(), dtype, Some(dims.into_dims()));
        self.parts.borrow_mut().inputs.push(Declaration { same_as, ..declared });
        self.push(ExprKind::Name(name))
    }

    /// Declares a scalar that the host passes.
    ///
    /// ```
    /// # use postlude::{build::KernelBuilder, dtype::DType::F32};
    /// # let k = KernelBuilder::new("k");
    /// k.scalar("alpha", F32);
    /// assert!(k.finish().to_string().starts_with("kernel k(alpha: f32)"));
    /// ```
    pub fn scalar(&self, name: impl Into<String>, dtype: DType) -> Expr<'_> {
        self.declare(name.into(), dtype, None)
    }

    fn declare(&self, name: String, dtype: DType, dims: Option<Vec<Dim>>) -> Expr<'_> {
        self.parts.borrow_mut().inputs.push(declaration(name.clone(), dtype, dims));
        self.push(ExprKind::Name(name))
    }

    /// Gives a value a name, which the kernel's text then uses.
    ///
    /// ```
    /// # use postlude::{build::KernelBuilder, dtype::DType::F32};
    /// # let k = KernelBuilder::new("k");
    /// # let x = k.scalar("x", F32);
    /// let z = k.name("z", x + 1);
    /// assert_eq!((z * 2).to_string(), "z * 2");
    /// ```
    pub fn name<'k>(&'k self, name: impl Into<String>, value: Expr<'k>) -> Expr<'k> {
        let id = self.own(value);
        self.parts.borrow_mut().names.push((id, name.into()));
        self.handle(id)
    }

    /// Declares an output and what it is. The value returned is the one before the store's rounding.
    ///
    /// ```
    /// # use postlude::{build::KernelBuilder, dtype::DType::F32};
    /// # let k = KernelBuilder::new("k");
    /// # let z = k.input("Z", F32, ["M", "N"]);
    /// let d = k.output("D", F32, ["M", "N"], z.relu());
    /// k.output("peak", F32, [], d.max_all());
    /// assert_eq!(k.finish().statements.len(), 2);
    /// ```
    pub fn output<'k>(
        &'k self,
        name: impl Into<String>,
        dtype: DType,
        dims: impl IntoDims,
        value: Expr<'k>,
    ) -> Expr<'k> {
        let id = self.own(value);
        let declaration = declaration(name.into(), dtype, Some(dims.into_dims()));
        self.parts.borrow_mut().outputs.push((declaration, id));
        self.handle(id)
    }

    /// A literal as a value, for functions that take nothing else.
    ///
    /// ```
    /// # let k = postlude::build::KernelBuilder::new("k");
    /// assert_eq!(k.number(-1.5).abs().to_string(), "abs(-1.5)");
    /// assert_eq!(k.number(f32::NEG_INFINITY).to_string(), "-inf");
    /// ```
    pub fn number<'k>(&'k self, value: impl Into<Operand<'k>>) -> Expr<'k> {
        self.handle(self.operand(value.into()))
    }

    /// The index along the product's row dim.
    ///
    /// ```
    /// # let k = postlude::build::KernelBuilder::new("k");
    /// assert_eq!(k.col().le(k.row()).to_string(), "col <= row");
    /// ```
    pub fn row(&self) -> Expr<'_> {
        self.word("row")
    }

    /// The index along the product's column dim.
    ///
    /// ```
    /// # let k = postlude::build::KernelBuilder::new("k");
    /// assert_eq!((k.col() + 1).to_string(), "col + 1");
    /// ```
    pub fn col(&self) -> Expr<'_> {
        self.word("col")
    }

    /// The ratio of a circle's circumference to its diameter.
    ///
    /// ```
    /// # let k = postlude::build::KernelBuilder::new("k");
    /// assert_eq!((k.pi() / 2).to_string(), "pi / 2");
    /// ```
    pub fn pi(&self) -> Expr<'_> {
        self.word("pi")
    }

    /// The kernel so far, as the tree that its text parses to (as long as it keeps the language's
    /// limits and its names are names).
    ///
    /// Values used more than once get a name (`t1`, `t2`, ...) unless they have one; what no output
    /// needs is left out.
    ///
    /// ```
    /// use postlude::{build::KernelBuilder, dtype::DType::F32, syntax::parse};
    /// let k = KernelBuilder::new("k");
    /// let z = k.input("A", F32, ["M", "K"]).matmul(k.input("B", F32, ["K", "N"]));
    /// k.output("D", F32, ["M", "N"], z * z.sigmoid());
    /// let ast = k.finish();
    /// assert!(ast.to_string().contains("t1 = A @ B\n    D = t1 * sigmoid(t1)"));
    /// assert_eq!(parse(&ast.to_string()), Ok(ast));
    /// ```
    pub fn finish(&self) -> Ast {
        finish::finish(&self.name, &self.parts.borrow())
    }

    fn word(&self, word: &str) -> Expr<'_> {
        self.push(ExprKind::Name(word.to_owned()))
    }

    fn handle(&self, id: ExprId) -> Expr<'_> {
        Expr { kernel: self, id }
    }

    fn push(&self, kind: ExprKind) -> Expr<'_> {
        self.handle(self.push_node(Node::Plain(kind)))
    }

    fn push_node(&self, node: Node) -> ExprId {
        let nodes = &mut self.parts.borrow_mut().nodes;
        nodes.push(node);
        ExprId(u32::try_from(nodes.len() - 1).expect("a kernel has fewer than 2^32 values"))
    }

    /// The node of a handle, if it is one of ours.
    fn own(&self, value: Expr<'_>) -> ExprId {
        if std::ptr::eq(self, value.kernel) { value.id } else { self.word(FOREIGN).id }
    }
}

fn declaration(name: String, dtype: DType, dims: Option<Vec<Dim>>) -> Declaration {
    let name = Name::new(name, Span::default());
    Declaration { name, dtype, dims, same_as: None, type_span: Span::default() }
}

impl fmt::Display for Expr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (exprs, root) = finish::preview(&self.kernel.parts.borrow(), self.id);
        write!(f, "{}", exprs.display(root))
    }
}

impl fmt::Debug for Expr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expr({self})")
    }
}

#[cfg(test)]
mod tests;
