//! A kernel as it was written: typed and defined.

use std::fmt;
use std::sync::OnceLock;

use crate::check::{self, Bindings};
use crate::define;
use crate::differentiate::{self, Derived, Form, GradError, Save};
use crate::error::{Diagnostic, Error};
use crate::graph::Graph;
use crate::problem::{Argument, Sizes};
use crate::process;
use crate::syntax::{self, Ast};

use super::call::Outputs;
use super::compiled::Compiled;
use super::options::Options;

/// A kernel: typed and defined.
///
/// ```
/// let kernel = postlude::Kernel::parse(
///     "kernel linear(A: f32[M, K], W: f32[N, K], bias: f32[N]) -> D: f32[M, N] { D = relu(A @ W.T + bias) }",
/// )?;
/// assert_eq!(kernel.name(), "linear");
/// assert_eq!(format!("{kernel:?}"), "kernel linear(A: f32[M, K], W: f32[N, K], bias: f32[N]) -> (D: f32[M, N])");
/// # Ok::<(), postlude::Error>(())
/// ```
#[derive(Clone)]
pub struct Kernel {
    ast: Ast,
    checked: Graph,
    defined: Graph,
    /// Compiled for the CPU when [`Kernel::run`] is called first.
    compiled: OnceLock<Compiled>,
}

/// The signature.
impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.ast.to_string();
        let is_signature =
            |line: &&str| line.starts_with("kernel ") || line.starts_with("fused kernel ");
        let signature = text.lines().find(is_signature).unwrap_or_default();
        f.write_str(signature.trim_end_matches(['{', ' ']))
    }
}

impl PartialEq for Kernel {
    fn eq(&self, other: &Kernel) -> bool {
        (&self.ast, &self.checked, &self.defined) == (&other.ast, &other.checked, &other.defined)
    }
}

impl Kernel {
    /// Parses and types a kernel that has a signature.
    pub fn parse(source: &str) -> Result<Kernel, Error> {
        let parsed = syntax::parse(source).map_err(Error::from);
        parsed.and_then(Kernel::from_ast).map_err(|error| error.of_source(source))
    }

    /// Parses a kernel or a one-liner, whose signature follows from the bindings.
    ///
    /// ```
    /// let kernel = postlude::Kernel::infer("D = relu(A @ B + bias[N])", &Default::default())?;
    /// assert_eq!(kernel.ast().to_string().lines().next(), Some("kernel one_liner(A: bf16[M, K], B: bf16[K, N], bias: f32[N]) -> (D: bf16[M, N]) {"));
    /// # Ok::<(), postlude::Error>(())
    /// ```
    pub fn infer(source: &str, bindings: &Bindings) -> Result<Kernel, Error> {
        Kernel::infer_bytes(source.as_bytes(), bindings)
    }

    /// [`Kernel::infer`] from bytes that may not be text at all.
    #[doc(hidden)]
    pub fn infer_bytes(source: &[u8], bindings: &Bindings) -> Result<Kernel, Error> {
        let parsed = syntax::parse_bytes(source).map_err(Error::from);
        let inferred = parsed.and_then(|ast| check::infer(&ast, bindings).map_err(Error::from));
        inferred.and_then(Kernel::from_ast).map_err(|error| error.of_source(source))
    }

    /// Types a tree that any front end built.
    pub fn from_ast(ast: Ast) -> Result<Kernel, Error> {
        let checked = check::check(&ast)?;
        let defined = define::define(&checked);
        Ok(Kernel { ast, checked, defined, compiled: OnceLock::new() })
    }

    /// Runs the kernel on the CPU: arguments by name, sizes from their shapes. It is compiled in the first call; calls of
    /// the same sizes are planned once.
    ///
    /// ```
    /// use postlude::{DType, Kernel, Tensor};
    /// let kernel = Kernel::parse("kernel f(A: f32[M, K], B: f32[K, N]) -> D: f32[M, N] { D = relu(A @ B) }")?;
    /// let a = Tensor::from_values(DType::F32, [1, 2], &[1.0, 2.0])?;
    /// let b = Tensor::from_values(DType::F32, [2, 2], &[3.0, -3.0, 4.0, -4.0])?;
    /// let outputs = kernel.run([("A", &a), ("B", &b)])?;
    /// assert_eq!(outputs["D"].values(), [11.0, 0.0]);
    /// # Ok::<(), postlude::Error>(())
    /// ```
    pub fn run<'a, N: Into<String>, A: Into<Argument<'a>>>(
        &self,
        arguments: impl IntoIterator<Item = (N, A)>,
    ) -> Result<Outputs, Error> {
        let pairs = arguments.into_iter();
        let arguments = pairs.map(|(name, argument)| (name.into(), argument.into())).collect();
        let compiled = process::once(&self.compiled, || self.compile(&Options::default()));
        compiled.run(&arguments, &Sizes::new())
    }

    /// The kernel's name.
    pub fn name(&self) -> &str {
        self.defined.name()
    }

    /// What was written, with its signature.
    #[doc(hidden)]
    pub fn ast(&self) -> &Ast {
        &self.ast
    }

    /// Every assigned name with its type, in the order of the body.
    ///
    /// ```
    /// let kernel = postlude::Kernel::infer("z = A @ B; D = z > 0.0", &Default::default())?;
    /// let types: Vec<String> = kernel.types().into_iter().map(|(name, ty)| format!("{name}: {ty}")).collect();
    /// assert_eq!(types, ["z: f32[M, N]", "D: bool[M, N]"]);
    /// # Ok::<(), postlude::Error>(())
    /// ```
    pub fn types(&self) -> Vec<(String, String)> {
        check::name_types(&self.ast)
    }

    /// The kernel of the derivatives with respect to these inputs, or to all inputs of floats where none are named: it reads
    /// cotangents of the outputs and what the forward pass saves.
    ///
    /// ```
    /// use postlude::{Kernel, Save};
    /// let kernel = Kernel::parse("kernel f(A: f32[M, K], W: f32[N, K]) -> D: f32[M, N] { D = relu(A @ W.T) }")?;
    /// let derived = kernel.grad(&["W"], Save::Nothing)?;
    /// let backward = Kernel::parse(&derived.backward)?;
    /// assert_eq!(backward.name(), "f_backward");
    /// assert_eq!(derived.gradients, [("W".to_owned(), "d_W".to_owned())]);
    /// # Ok::<(), postlude::Error>(())
    /// ```
    pub fn grad(&self, wrt: &[&str], save: Save) -> Result<Derived, Error> {
        let ast = check::without_definitions(&self.ast)?;
        let wrt: Vec<String> = wrt.iter().map(|name| (*name).to_owned()).collect();
        let short = differentiate::differentiate(&ast, &wrt, save, Form::Short)?;
        match typed(short) {
            Ok(derived) => Ok(derived),
            Err(error) => {
                let explicit = differentiate::differentiate(&ast, &wrt, save, Form::Explicit)?;
                typed(explicit).map_err(|_| error)
            }
        }
    }

    /// What is suspicious about a kernel that types: inputs and names that nothing reads.
    ///
    /// ```
    /// let source = "kernel k(A: f32[M, K], B: f32[K, N], bias: f32[N]) -> D: f32[M, N] { D = A @ B }";
    /// let warnings = postlude::Kernel::parse(source)?.warnings();
    /// assert_eq!(warnings[0].message(), "input `bias` is never read");
    /// # Ok::<(), postlude::Error>(())
    /// ```
    pub fn warnings(&self) -> Vec<Diagnostic> {
        check::warnings(&self.ast).into_iter().map(Diagnostic::from).collect()
    }

    /// The typed graph before it was defined.
    #[doc(hidden)]
    pub fn checked(&self) -> &Graph {
        &self.checked
    }

    /// The kernel's meaning.
    #[doc(hidden)]
    pub fn defined(&self) -> &Graph {
        &self.defined
    }

    /// Optimises the kernel for a backend.
    pub fn compile(&self, options: &Options) -> Compiled {
        let keep: Option<Vec<&str>> =
            options.keep.as_ref().map(|keep| keep.iter().map(String::as_str).collect());
        let defined = self.defined.keeping(keep.as_deref());
        let fused = self.ast.signature.as_ref().is_some_and(|signature| signature.fused);
        let one_launch = options.one_launch || fused;
        Compiled::of_graph(&defined, &Options { one_launch, ..options.clone() })
    }
}

/// Derivatives whose texts type.
fn typed(derived: Derived) -> Result<Derived, Error> {
    for text in [&derived.forward, &derived.backward] {
        if let Err(error) = Kernel::parse(text) {
            return Err(GradError::NotTyped { message: error.summary() }.into());
        }
    }
    Ok(derived)
}
