//! A table: what causes each error, one line a variant.

use std::collections::BTreeMap;

use postlude::check::{self, CheckError};
use postlude::problem::BindError;
use postlude::syntax::{self, MAX_NESTING, MAX_NODES, MAX_SOURCE, SyntaxError};
use postlude::{Argument, Arguments, Bindings, Bound, DType, Kernel, Problem, Sizes, Tensor};

/// Lists an enum's variants and names the one at hand: a new variant does not compile until it is listed here, and does
/// not pass until it has an example.
macro_rules! variants {
    ($error:ident, $all:ident, $variant:ident: $($name:ident)*) => {
        pub(crate) const $all: &[&str] = &[$(stringify!($name)),*];

        fn $variant(error: &$error) -> &'static str {
            match error { $($error::$name { .. } => stringify!($name)),* }
        }
    };
}

variants! { SyntaxError, SYNTAX_ERRORS, syntax_variant:
    Empty SourceTooLong NotUtf8 NulByte UnexpectedCharacter NameNotAscii Quoted ForeignOperator ForeignSpace
    ForeignComment Conditional MalformedNumber IntegerTooLarge FloatTooLarge Unclosed Mismatched StrayCloser Power NoOperator
    ChainedComparison WordOperator AssignmentInExpression NamedArgument ComparisonForAssignment CompoundAssignment
    ForeignStatement ForeignValue MissingAssign WordBeforeAssignment NotAssigned TargetNotName TypedAssignment MissingSeparator LeadingOperator
    UnknownDtype DtypeNotInThisVersion MissingType UnnamedDeclarations MissingArrow TrailingText SecondKernel ReservedName InvalidDim
    DimDividedByZero DimTooLarge DimsOnValue Indexed UnknownMember CallOfValue MalformedGrad TooManyNodes TooDeep Expected
    ExpectedAfter
}

variants! { CheckError, CHECK_ERRORS, check_variant:
    NoSignature DeclaredTwice HostScalar HostOutput NoOutputs PackedWithoutDims OutputNotStored NoProduct ManyProducts OtherProduct OperandWithoutDims OperandUnrounded SameAsUnknown SameAsSame SameAsDiffers SameAsOutput OperandRank OperandDType
    OperandsDiffer PackedOperand InnerDisagree BatchDisagree SameDims GatherTable GatherIndex CombineLists Scatter MaskedCounts SegmentsPlace SegmentsEnds SegmentsDims SegmentsFold SegmentsAlone SegmentsRuns SegmentsUnwritten SameBatchDims SomeBatchDims ReducesShared NotBodyDims SameDimTwice SummedDim UnknownName
    UsedBeforeAssigned FunctionAsValue DimAsValue UnknownFunction AssignedTwice AssignsInput NeverAssigned DimsDisagree
    PartMeetsWhole Annotation Transpose NotACondition BoolArithmetic BoolComparison IntegerDivision NotInteger BitsMeetComparison FloatPower Seed RandomCast RandomColumns TakeTable TakeIndex
    UnknownSize IndexDim Within UnknownParameter DefinedLater ManyNodes LiteralRange ArgumentCount
    NoDerivative DimExpected NumberedDim NoSuchDim DimTwice ReducesOne NothingToReduce GroupPlace GroupWidth Count TwoValues
    TopAlong StackOfTiles StackFunction StackAsValue
    TargetCount SeveralValues SplitArguments SplitCount SplitDim RunParts DimList ConcatDims NoColumns MergeDims PickIndex OutputDims OutputOfCondition OutputNotACondition Uninferred BoundRank
    NoOutput
}

variants! { BindError, BIND_ERRORS, bind_variant:
    Missing Unknown SameAs WantsScalar WantsTensor DType Int64 Rank Size Unsized Multiple SplitSize UnknownDim TooLarge IndexRange NoIndex TooFew
    InputCount OutputCount SelfOverlap Moved SegmentEnd OtherProblem
}

/// One line of the error table.
pub(crate) struct Row {
    pub(crate) variant: &'static str,
    /// What was written, or done.
    pub(crate) cause: String,
    pub(crate) message: String,
    pub(crate) fix: Option<String>,
}

/// What the example kernels of [`BODIES`] declare.
pub(crate) const SIGNATURE: &str = "kernel k(A: f32[M, K], B: f32[K, N], C: f32[M, N], bias: f32[N], scale: f32[M], n: i32[M, N], keep: bool[M, N], alpha: f32) -> D: f32[M, N]";

/// Text that does not read.
#[rustfmt::skip]
const TEXTS: &[(&str, &str)] = &[
    ("UnexpectedCharacter", "D = A @ B $ 2"),
    ("NameNotAscii", "D = α * A @ B"),
    ("Quoted", "D = \"relu\"(A @ B)"),
    ("ForeignOperator", "D = 2 × A @ B"),
    ("ForeignSpace", "D =\u{a0}A @ B"),
    ("ForeignComment", "D = A @ B // a product"),
    ("Conditional", "D = C > 0 ? A @ B : 0"),
    ("MalformedNumber", "D = 2x + A @ B"),
    ("IntegerTooLarge", "D = A @ B + 99999999999999999999"),
    ("FloatTooLarge", "D = A @ B + 1e99"),
    ("Unclosed", "D = relu(A @ B"),
    ("Mismatched", "D = relu(A @ B]"),
    ("StrayCloser", "D = A @ B)"),
    ("Power", "D = C**2 + A @ B"),
    ("NoOperator", "D = A @ B + f32(row % 2)"),
    ("ChainedComparison", "D = where(0 < C < 1, A @ B, 0)"),
    ("WordOperator", "D = where(C > 0 and C < 1, A @ B, 0)"),
    ("AssignmentInExpression", "D = (C = 0) + A @ B"),
    ("NamedArgument", "D = leaky_relu(A @ B, slope=0.1)"),
    ("ComparisonForAssignment", "D == A @ B"),
    ("CompoundAssignment", "D += A @ B"),
    ("ForeignStatement", "return A @ B"),
    ("ForeignValue", "D = where(True, A @ B, 0)"),
    ("MissingAssign", "D A @ B"),
    ("WordBeforeAssignment", "let D = A @ B"),
    ("NotAssigned", "relu(A @ B)"),
    ("TargetNotName", "D[M, N] = A @ B"),
    ("TypedAssignment", "D: f32 = A @ B"),
    ("MissingSeparator", "Z = A @ B D = relu(Z)"),
    ("LeadingOperator", "D = A @ B\n+ C"),
    ("UnknownDtype", "kernel k(A: float[M, K], B: f32[K, N]) -> D: f32[M, N] { D = A @ B }"),
    ("DtypeNotInThisVersion", "kernel k(A: f4e2m1[M, K], B: f4e2m1[K, N]) -> D: f32[M, N] { D = A @ B }"),
    ("MissingType", "kernel k(A, B: f32[K, N]) -> D: f32[M, N] { D = A @ B }"),
    ("UnnamedDeclarations", "kernel k(A: f32[M, K], B: f32[K, N]) -> (bf16[M, N], f32[]) { D = A @ B; E = sum(D) }"),
    ("MissingArrow", "kernel k(A: f32[M, K], B: f32[K, N]) { D = A @ B }"),
    ("TrailingText", "kernel k(A: f32[M, K], B: f32[K, N]) -> D: f32[M, N] { D = A @ B } E = D"),
    ("SecondKernel", "kernel k(A: f32[M, K], B: f32[K, N]) -> D: f32[M, N] { D = A @ B }\nkernel l() -> E: f32[] { E = 0 }"),
    ("ReservedName", "relu = A @ B"),
    ("InvalidDim", "D = A @ B + bias[N + 1]"),
    ("DimDividedByZero", "D = A @ B + bias[N/0]"),
    ("DimTooLarge", "D = A @ B + bias[5000000000]"),
    ("DimsOnValue", "D = (A @ B)[N]"),
    ("Indexed", "D = A @ B + bias[None, :]"),
    ("UnknownMember", "D = A @ B + C.sum(1)"),
    ("CallOfValue", "D = relu(A @ B)(C)"),
    ("MalformedGrad", "D = grad(gelu) * A @ B"),
    ("Expected", "D = * A @ B"),
    ("ExpectedAfter", "D = A @"),
];

/// Bodies that do not type, inside [`SIGNATURE`].
#[rustfmt::skip]
const BODIES: &[(&str, &str)] = &[
    ("OperandWithoutDims", "D = (2.0 * alpha) @ B"),
    ("OperandRank", "D = bias @ B"),
    ("OperandDType", "D = n @ B"),
    ("InnerDisagree", "D = A @ B.T"),
    ("SummedDim", "D = A @ B + A"),
    ("UnknownName", "D = A @ B + bais"),
    ("UsedBeforeAssigned", "D = relu(z); z = A @ B"),
    ("FunctionAsValue", "D = A @ B * gelu"),
    ("DimAsValue", "D = A @ B / N"),
    ("NotInteger", "D = A @ B << 2"),
    ("BitsMeetComparison", "D = where(n & 1 == 1, A @ B, 0)"),
    ("FloatPower", "D = A @ B + C^2"),
    ("Seed", "D = dropout(A @ B, 0.1, alpha, 0)"),
    ("RandomCast", "D = i8(A @ B, 7, 0)"),
    ("RandomColumns", "D = A @ B + dropout(sum(C, N, 3), 0.1, 7, 0)"),
    ("TakeTable", "D = A @ B + take(C, n)"),
    ("TakeIndex", "D = A @ B + take(bias, C)"),
    ("UnknownSize", "D = A @ B / size(P)"),
    ("IndexDim", "D = A @ B + index(K)"),
    ("UnknownFunction", "D = geluu(A @ B)"),
    ("AssignedTwice", "D = A @ B; D = C"),
    ("AssignsInput", "C = A @ B; D = C"),
    ("NeverAssigned", "z = A @ B"),
    ("DimsDisagree", "D = sum(A @ B, N, 2) + sum(C, N, 3)"),
    ("PartMeetsWhole", "x, y = halves(C); D = A @ B + x"),
    ("Annotation", "D = A @ B + bias[M]"),
    ("Transpose", "D = A @ B + bias.T"),
    ("NotACondition", "D = where(C, A @ B, 0)"),
    ("BoolArithmetic", "D = keep * A @ B"),
    ("BoolComparison", "D = where(keep == 1, A @ B, 0)"),
    ("IntegerDivision", "D = A @ B + n / 2"),
    ("LiteralRange", "D = A @ B + (n + 3000000000)"),
    ("ArgumentCount", "D = relu(A @ B, 0)"),
    ("NoDerivative", "D = grad(softmax)(A @ B)"),
    ("DimExpected", "D = A @ B / sum(C, M + N)"),
    ("NumberedDim", "D = softmax(A @ B, -1)"),
    ("NoSuchDim", "D = A @ B + sum(bias, M)"),
    ("DimTwice", "D = A @ B + sum(C, M, M)"),
    ("ReducesOne", "D = max(A @ B, 0)"),
    ("NothingToReduce", "D = A @ B + sum(alpha)"),
    ("GroupPlace", "D = A @ B + mean(C, 128)"),
    ("GroupWidth", "D = A @ B + mean(C, N, 0)"),
    ("Count", "D = topk_softmax(A @ B, alpha, N)"),
    ("TopAlong", "v, i = topk(A @ B, 4, M); D = max(v, 4)"),
    ("StackOfTiles", "v, i = topk(A @ B, 4, N); D = C - v"),
    ("StackFunction", "v, i = topk(A @ B, 4, N); D = logsumexp(v, 4)"),
    ("StackAsValue", "v, i = topk(A @ B, 4, N); w, j = topk(v, 2, N); D = max(w, 2)"),
    ("TwoValues", "D = halves(A @ B)"),
    ("TargetCount", "D, E = relu(A @ B)"),
    ("SeveralValues", "D = split(A @ B, 3)"),
    ("SplitArguments", "x, y = split(C, alpha); D = A @ B"),
    ("SplitCount", "x, y = split(C, 1); D = A @ B"),
    ("SplitDim", "x, y = split(C, [Q, M]); D = A @ B"),
    ("RunParts", "x, y = halves(C, 7); D = A @ B"),
    ("DimList", "D = A @ B + relu([M, N])"),
    ("ConcatDims", "D = concat(A @ B, C, C)"),
    ("NoColumns", "a, b = pairs(scale); D = A @ B + a"),
    ("MergeDims", "D = concat(A @ B, C)"),
    ("PickIndex", "D = A @ B - pick(C, scale)"),
    ("OutputOfCondition", "D = A @ B > 0"),
];

/// Whole kernels that do not type.
#[rustfmt::skip]
const KERNELS: &[(&str, &str)] = &[
    ("DeclaredTwice", "kernel k(A: f32[M, K], A: f32[K, N]) -> D: f32[M, N] { D = A @ A }"),
    ("Within", "def both(x, y) = x & y; kernel k(A: f32[M, K], B: f32[K, N]) -> D: f32[M, N] { D = both(A @ B, 1) }"),
    ("UnknownParameter", "def scaled(x) = x * alpha; kernel k(A: f32[M, K], B: f32[K, N], alpha: f32) -> D: f32[M, N] { D = scaled(A @ B) }"),
    ("DefinedLater", "def f(x) = f(x); kernel k(A: f32[M, K], B: f32[K, N]) -> D: f32[M, N] { D = f(A @ B) }"),
    ("NoProduct", "kernel k(x: f32) -> d: f32[] { d = relu(x) }"),
    ("OtherProduct", "kernel k(A: f32[M, K], B: f32[K, F], C: f32[K, N]) -> D: f32[M, N] { D = A @ B + A @ C }"),
    ("HostScalar", "kernel k(A: f32[M, K], B: f32[K, N], s: bf16) -> D: f32[M, N] { D = s * A @ B }"),
    ("PackedWithoutDims", "kernel k(A: f32[M, K], B: f32[K, N]) -> any: b1[] { any = max(A @ B) > 0 }"),
    ("HostOutput", "kernel k(A: f32[M, K], B: f32[K, N]) -> loss: f32 { loss = sum(A @ B) }"),
    ("NoOutputs", "kernel k(A: f32[M, K], B: f32[K, N]) -> () { z = A @ B }"),
    ("OperandUnrounded", "kernel k(A: bf16[M, K], W: bf16[N, K]) -> D: bf16[M, N] { D = A @ gelu(W).T }"),
    ("OutputNotStored", "kernel k(A: i8[M, K], W: i8[N, K]) -> D: i4[M, N] { D = i4(A @ W.T) }"),
    ("PackedOperand", "kernel k(A: bf16[M, K], W: i4[N, K]) -> D: bf16[M, N] { D = A @ W.T }"),
    ("OperandsDiffer", "kernel k(A: f16[M, K], B: bf16[K, N]) -> D: f32[M, N] { D = A @ B }"),
    ("BatchDisagree", "kernel k(A: f32[L, M, K], B: f32[P, K, N]) -> D: f32[L, M, N] { D = A @ B }"),
    ("SameDims", "kernel k(A: f32[M, K], B: f32[K, M]) -> D: f32[M, M] { D = A @ B }"),
    ("SameAsUnknown", "kernel k(A: f32[M, K], B: f32[N, K] = C) -> D: f32[M, N] { D = A @ B.T }"),
    ("SameAsSame", "kernel k(A: f32[M, K], B: f32[N, K] = A, C: f32[M, N] = B) -> D: f32[M, N] { D = A @ B.T + C }"),
    ("SameAsDiffers", "kernel k(A: f32[M, K], B: f16[N, K] = A) -> D: f32[M, N] { D = A @ B.T }"),
    ("SameAsOutput", "kernel k(A: f32[M, K], B: f32[N, K]) -> D: f32[M, N] = A { D = A @ B.T }"),
    ("GatherTable", "kernel k(X: f32[S, K], C: f32[T, N], index: i32[T]) -> D: f32[T, N] { D = C + gather(X, index) }"),
    ("GatherIndex", "kernel k(X: f32[S, N], index: f32[T]) -> D: f32[T, N] { D = gather(X, index) }"),
    ("Scatter", "kernel k(x: f32[T, N], index: i32[N]) -> D: f32[S, N] { D = scatter(x, index, S) }"),
    ("CombineLists", "kernel k(D: f32[R, N], position: i32[T, P], weight: f32[T, P]) -> Y: f32[T, N] { Y = combine(D, position, weight) }"),
    ("MaskedCounts", "kernel k(A: f32[E, C, K], W: f32[E, N, K], count: i32[C]) -> D: f32[E, C, N] { D = masked(A, count) @ W.T }"),
    ("SegmentsPlace", "kernel k(A: f32[T, K], B: f32[K, N], ends: i32[E]) -> D: f32[T, N] { D = relu(A @ B) + segments(1.0, ends) }"),
    ("SegmentsEnds", "kernel k(A: f32[T, K], W: f32[E, N, K], ends: f32[E]) -> D: f32[T, N] { D = segments(A, ends) @ W.T }"),
    ("SegmentsDims", "kernel k(A: f32[T, K], W: f32[F, N, K], ends: i32[E]) -> D: f32[T, N] { D = segments(A, ends) @ W.T }"),
    ("SegmentsFold", "kernel k(A: f32[T, K], W: f32[E, N, K], ends: i32[E]) -> m: f32[] { m = mean(segments(A, ends) @ W.T) }"),
    ("SegmentsAlone", "kernel k(A: f32[T, K], W: f32[E, N, K], ends: i32[E]) -> m: f32[T, N] { m = max(segments(A, ends) @ W.T, E) }"),
    ("SegmentsRuns", "kernel k(A: f32[T, K], W: f32[E, N, K], ends: i32[E]) -> m: f32[T, N] { m = max(segments(A, ends) @ W.T, T, 8) }"),
    ("SegmentsUnwritten", "kernel k(A: f32[T, K], W: f32[E, N, K], V: f32[P, N], ends: i32[E]) -> D: f32[T, P] { D = (segments(A, ends) @ W.T) @ V.T }"),
    ("SameBatchDims", "kernel k(A: f32[B, B, M, K], W: f32[K, N]) -> D: f32[B, B, M, N] { D = A @ W }"),
    ("SomeBatchDims", "kernel k(A: f32[B, H, M, K], W: f32[K, N]) -> D: f32[H, M, N] { D = var(A @ W, B) }"),
    ("ReducesShared", "kernel k(A: f32[B, H, M, K], W: f32[K, N], b: f32[H]) -> D: f32[B, H, M, N] { D = A @ W / sum(b) }"),
    ("NotBodyDims", "kernel k(A: f32[M, K], B: f32[K, N], p: f32[P]) -> D: f32[M, N] { D = A @ B + p }"),
    ("SameDimTwice", "kernel k(A: f32[M, K], B: f32[K, N], S: f32[M, M]) -> D: f32[M, N] { D = A @ B + S }"),
    ("OutputNotACondition", "kernel k(A: f32[M, K], B: f32[K, N]) -> mask: bool[M, N] { mask = A @ B }"),
    ("OutputDims", "kernel k(A: f32[M, K], B: f32[K, N]) -> D: f32[M] { D = A @ B }"),
];

/// One-liners that have no signature.
#[rustfmt::skip]
const ONE_LINERS: &[(&str, &str)] = &[
    ("Uninferred", "D = A @ B + bias"),
    ("NoOutput", "n = sum(A[m, k] @ B[k, n], n)"),
];

/// Everything that is wrong with a text: its mistakes as variant, message and fix.
fn mistakes(source: &[u8]) -> Vec<(&'static str, String, Option<String>)> {
    let errors = syntax::parse_bytes(source).err().unwrap_or_default();
    errors.iter().map(|error| (syntax_variant(error), error.to_string(), error.fix())).collect()
}

fn row(
    variant: &'static str,
    cause: String,
    found: Vec<(&'static str, String, Option<String>)>,
) -> Row {
    let names: Vec<&str> = found.iter().map(|(name, ..)| *name).collect();
    let found = found.into_iter().find(|(name, ..)| *name == variant);
    let Some((_, message, fix)) = found else {
        panic!("{cause:?} does not cause {variant}, but {names:?}")
    };
    Row { variant, cause, message, fix }
}

fn code(source: &str) -> String {
    format!("`{}`", source.replace('\n', " ⏎ ").replace('\u{a0}', "\u{2423}"))
}

/// The errors of reading a text.
pub(crate) fn syntax_rows() -> Vec<Row> {
    let deep = format!("D = {}A{}", "(".repeat(MAX_NESTING + 1), ")".repeat(MAX_NESTING + 1));
    let many = format!("D = 1{}", "+1".repeat(MAX_NODES));
    let mut rows = vec![
        row("Empty", "an empty file".to_owned(), mistakes(b"# nothing\n")),
        row("SourceTooLong", "a file of 16 MiB".to_owned(), mistakes(&vec![b' '; MAX_SOURCE + 1])),
        row("NotUtf8", "a file that is not text".to_owned(), mistakes(b"D = A @ \xff")),
        row("NulByte", "a file with a zero byte".to_owned(), mistakes(b"D = A @ B\0")),
        row("TooDeep", "257 parentheses inside each other".to_owned(), mistakes(deep.as_bytes())),
        row("TooManyNodes", "`D = 1+1+1+...`, 10,000 times".to_owned(), mistakes(many.as_bytes())),
    ];
    rows.extend(TEXTS.iter().map(|(name, text)| row(name, code(text), mistakes(text.as_bytes()))));
    in_order(rows, SYNTAX_ERRORS)
}

/// The errors of typing a kernel.
pub(crate) fn check_rows() -> Vec<Row> {
    let found = |errors: Vec<CheckError>| -> Vec<(&'static str, String, Option<String>)> {
        errors.iter().map(|error| (check_variant(error), error.to_string(), error.fix())).collect()
    };
    let parse =
        |text: &str| syntax::parse(text).unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
    let check = |text: &str| found(check::check(&parse(text)).err().unwrap_or_default());
    let infer =
        |text: &str, b: &Bindings| found(check::infer(&parse(text), b).err().unwrap_or_default());
    let mut rows = vec![row(
        "NoSignature",
        "`D = A @ B` where a whole kernel is needed".to_owned(),
        check("D = A @ B"),
    )];
    for (name, body) in BODIES {
        rows.push(row(name, code(body), check(&format!("{SIGNATURE} {{ {body} }}"))));
    }
    let twice = |level: u32| format!("; def f{}(x) = f{level}(f{level}(x))", level + 1);
    let many = ["def f0(x) = x + 1".to_owned()].into_iter().chain((0..15).map(twice));
    let many: String = many.collect();
    let cause = "definitions that each use the one before twice".to_owned();
    rows.push(row("ManyNodes", cause, check(&format!("{many}; {SIGNATURE} {{ D = f15(A @ B) }}"))));
    let products: Vec<String> = (1..=65).map(|term| format!("(A + {term}.0) @ B")).collect();
    let body = format!("{SIGNATURE} {{ D = {} }}", products.join(" + "));
    rows.push(row(
        "ManyProducts",
        "`D = (A + 1.0) @ B + (A + 2.0) @ B + ...`, 65 products".into(),
        check(&body),
    ));
    rows.extend(KERNELS.iter().map(|(name, text)| row(name, code(text), check(text))));
    let none = Bindings::default();
    rows.extend(ONE_LINERS.iter().map(|(name, text)| row(name, code(text), infer(text, &none))));
    let names = BTreeMap::from([("bias".to_owned(), Bound::Tensor(DType::F32, 1))]);
    let bound = Bindings { names, ..Bindings::default() };
    let cause = "`D = A @ B + bias` with a tensor of one dim bound to `bias`".to_owned();
    rows.push(row("BoundRank", cause, infer("D = A @ B + bias", &bound)));
    in_order(rows, CHECK_ERRORS)
}

const CALLED: &str = "kernel k(A: f32[M, K], B: f32[K, N], alpha: f32) -> D: f32[M, N/2] { a, b = halves(A @ B); D = alpha * a * b }";

/// A call of [`CALLED`]: shapes of A and B, changed as the example wants.
fn call(change: fn(&mut Arguments, &mut Sizes)) -> Vec<(&'static str, String, Option<String>)> {
    let kernel = Kernel::parse(CALLED).expect("a kernel");
    let mut arguments = Arguments::from([
        ("A".to_owned(), zeros(DType::F32, &[2, 3])),
        ("B".to_owned(), zeros(DType::F32, &[3, 4])),
        ("alpha".to_owned(), Argument::Scalar(1.0)),
    ]);
    let mut sizes = Sizes::new();
    change(&mut arguments, &mut sizes);
    let error = Problem::bind(kernel.defined(), &arguments, &sizes).err();
    error.iter().map(|error| (bind_variant(error), error.to_string(), error.fix())).collect()
}

fn zeros(dtype: DType, shape: &[usize]) -> Argument<'static> {
    Argument::Tensor(Tensor::zeros(dtype, shape).expect("a small tensor"))
}

/// Sizes alone, as `explain` and random inputs use them.
fn size(sizes: &[(&str, usize)]) -> Vec<(&'static str, String, Option<String>)> {
    let kernel = Kernel::parse(CALLED).expect("a kernel");
    let sizes = sizes.iter().map(|(dim, size)| ((*dim).to_owned(), *size)).collect();
    let error = Problem::new(kernel.defined(), &sizes).err();
    error.iter().map(|error| (bind_variant(error), error.to_string(), error.fix())).collect()
}

/// The sizes of a kernel that gives an index.
fn indexed(rows: usize, columns: usize) -> Vec<(&'static str, String, Option<String>)> {
    let kernel =
        Kernel::parse("kernel k(A: f32[M, K], B: f32[K, N]) -> i: i32[] { i = argmax(A @ B) }");
    let sizes = [("M", rows), ("N", columns), ("K", 1)];
    let sizes = sizes.iter().map(|(dim, size)| ((*dim).to_owned(), *size)).collect();
    let error = Problem::new(kernel.expect("a kernel").defined(), &sizes).err();
    error.iter().map(|error| (bind_variant(error), error.to_string(), error.fix())).collect()
}

/// An error of the Rust interface alone.
fn found(error: &BindError) -> Vec<(&'static str, String, Option<String>)> {
    vec![(bind_variant(error), error.to_string(), error.fix())]
}

/// What a call to an example kernel may get wrong: what was done, and what came of it.
#[rustfmt::skip]
pub(crate) fn bind_rows() -> Vec<Row> {
    let rows = vec![
        row("Missing", "no `A`".into(), call(|a, _| _ = a.remove("A"))),
        row("Unknown", "a `bias` that the kernel does not have".into(), call(|a, _| _ = a.insert("bias".into(), Argument::Scalar(0.0)))),
        row("SameAs", "`B` of `kernel gram(A: f32[M, K], B: f32[N, K] = A)`".into(), found(&BindError::SameAs { name: "B".into(), of: "A".into() })),
        row("WantsScalar", "a tensor as `alpha`".into(), call(|a, _| _ = a.insert("alpha".into(), zeros(DType::F32, &[])))),
        row("WantsTensor", "a number as `B`".into(), call(|a, _| _ = a.insert("B".into(), Argument::Scalar(0.0)))),
        row("DType", "bf16 data as `A`".into(), call(|a, _| _ = a.insert("A".into(), zeros(DType::BF16, &[2, 3])))),
        row("Int64", "int64 data as `t` in `D = A @ B * t`".into(), found(&BindError::Int64 { name: "t".into() })),
        row("Rank", "a vector as `A`".into(), call(|a, _| _ = a.insert("A".into(), zeros(DType::F32, &[3])))),
        row("Size", "`A` of 2 x 3 and `B` of 5 x 4".into(), call(|a, _| _ = a.insert("B".into(), zeros(DType::F32, &[5, 4])))),
        row("Unsized", "`--size M=2,N=4` and no data".into(), size(&[("M", 2), ("N", 4)])),
        row("Multiple", "`--size M=2,N=5,K=3`".into(), size(&[("M", 2), ("N", 5), ("K", 3)])),
        row("SplitSize", "`a, b = split(A @ B, [P, R])` with `--size N=4,P=1,R=2`".into(), found(&BindError::SplitSize { dim: "N".into(), whole: 4, parts: "P + R".into(), total: 3 })),
        row("UnknownDim", "`--size M=2,N=4,K=3,P=5`".into(), size(&[("M", 2), ("N", 4), ("K", 3), ("P", 5)])),
        row("TooLarge", "sizes that no memory holds".into(), size(&[("M", 1 << 40), ("N", 1 << 40), ("K", 3)])),
        row("IndexRange", "`argmax(z)` of 65536 x 32768".into(), indexed(65536, 32768)),
        row("NoIndex", "`argmax(z)` where `N` is 0".into(), indexed(4, 0)),
        row("TooFew", "`topk(z, 4, N)` where `N` is 3".into(), found(&BindError::TooFew { wanted: 4, count: 3, bytes: None })),
        row("InputCount", "`Prepared::run` with two arguments".into(), found(&BindError::InputCount { wanted: 3, given: 2 })),
        row("OutputCount", "`Compiled::call` without an output".into(), found(&BindError::OutputCount { wanted: 1, given: 0 })),
        row("SelfOverlap", "an output of one row repeated".into(), found(&BindError::SelfOverlap { name: "D".into(), strides: vec![0, 1] })),
        row("Moved", "an output with other strides than when the call was prepared".into(), found(&BindError::Moved { name: "D".into() })),
        row("SegmentEnd", "`segments(A, ends)` of 3 rows that end in [2, 1, 3]".into(), found(&BindError::SegmentEnd { name: "ends".into(), place: 1, end: 1, before: 2, rows: 3 })),
        row("OtherProblem", "a problem that another kernel bound".into(), found(&BindError::OtherProblem)),
    ];
    in_order(rows, BIND_ERRORS)
}

/// The kernel that the calls of [`bind_rows`] are calls of.
pub(crate) fn called() -> &'static str {
    CALLED
}

/// The rows in the order of the enum, each variant exactly once.
fn in_order(rows: Vec<Row>, all: &[&'static str]) -> Vec<Row> {
    let mut by_name: BTreeMap<&str, Row> = BTreeMap::new();
    for row in rows {
        let name = row.variant;
        assert!(by_name.insert(name, row).is_none(), "{name} has two examples");
    }
    let ordered = all.iter().map(|name| {
        by_name
            .remove(name)
            .unwrap_or_else(|| panic!("{name} has no example in tests/all/docs/errors.rs"))
    });
    let ordered = ordered.collect();
    assert!(by_name.is_empty());
    ordered
}
