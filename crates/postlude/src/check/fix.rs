//! What to write instead of each mistake of [`CheckError`].

use crate::dtype::{DType, Elem};
use crate::syntax::{foreign, idioms};

use super::error::CheckError;

impl CheckError {
    /// What to write instead, where that is known.
    pub fn fix(&self) -> Option<String> {
        use CheckError as E;
        Some(match self {
            E::NoSignature => {
                "write `kernel name(inputs) -> (outputs) { ... }` around it".to_owned()
            }
            E::NoProduct { .. } => "multiply two inputs, as in `D = A @ B`".to_owned(),
            E::NoOutputs { .. } => "name what is stored, as in `-> D: bf16[M, N]`".to_owned(),
            E::PartMeetsWhole { .. } => PARTS_TOGETHER.to_owned(),
            E::OperandDType { dtype: DType::I32, .. } => {
                "use i8 or u8 operands, which accumulate in i32".to_owned()
            }
            E::OperandDType { .. } => "use f32, tf32, f16, bf16, f8e4m3, f8e5m2, i8, u8, i4 or u4".to_owned(),
            E::OperandsDiffer { .. } => {
                "declare both with one dtype (two fp8 dtypes may differ, and i8 and u8), or cast one, as in `A @ bf16(W).T`; \
                 `--dtype` gives a one-liner's"
                    .to_owned()
            }
            E::InnerDisagree { fix, .. } => return fix.clone(),
            E::SameDims { twice: Some(fix), .. } => fix.clone(),
            E::SameDims { .. } => {
                "give each its own name: what an operand is follows from its dims".to_owned()
            }
            E::Within { error, .. } => return error.fix(),
            E::UnknownName { name, .. } if foreign::value_instead(name).is_some() => {
                return foreign::value_instead(name).map(str::to_owned);
            }
            E::UnknownName { nearest: None, .. } => {
                "declare it in the signature, or assign it before".to_owned()
            }
            E::UnknownParameter { nearest: None, .. } => {
                "make it a parameter, and pass it where the function is called".to_owned()
            }
            E::UnknownName { nearest: Some(nearest), .. }
            | E::UnknownParameter { nearest: Some(nearest), .. } => format!("did you mean `{nearest}`?"),
            E::UnknownFunction { name, nearest, .. } => {
                function_instead(name, nearest.as_deref())
            }
            E::FunctionAsValue { name, .. } => format!("call it: `{name}(x)`"),
            E::DimAsValue { divides: Some(mean), .. } => format!("write `{mean}`"),
            E::DimAsValue { name, .. } => size_instead(name),
            E::AssignedTwice { .. } => "give the second value another name".to_owned(),
            E::UsedBeforeAssigned { .. } => {
                "assign it in a statement before; no value is made of itself".to_owned()
            }
            E::AssignsInput { .. } => "assign to another name".to_owned(),
            E::NeverAssigned { name, .. } => {
                format!("add `{name} = ...`, or remove it from the outputs")
            }
            E::Annotation { name, declared, .. } => {
                format!("write `{name}[{declared}]` or just `{name}`")
            }
            E::NotACondition { .. } | E::OutputNotACondition { .. } => {
                "compare it, as in `x != 0`".to_owned()
            }
            E::BoolArithmetic { .. } => "cast it: `f32(x > 0)`".to_owned(),
            E::BoolComparison { other, .. } => format!("cast it: `{other}(x)`"),
            E::LiteralRange { elem: Elem::F32, .. } => "write `inf` if that is meant".to_owned(),
            E::LiteralRange { .. } => "write it with a point to make it a float".to_owned(),
            E::NoSuchDim { has, .. } if !has.is_empty() => format!("reduce one of {has}"),
            E::ReducesOne { elementwise, reduced: None, .. } => format!("write `{elementwise}`"),
            E::ReducesOne { elementwise, reduced: Some(reduced), .. } => {
                format!("write `{elementwise}` to compare, `{reduced}` to reduce")
            }
            E::NumberedDim { call, .. } => format!("write `{call}`"),
            E::ArgumentCount { fix, .. } => fix.clone(),
            E::SummedDim { name, known, is_vector: true, .. }
            | E::NotBodyDims { name, known, is_vector: true, .. } => {
                let last = known.rsplit(", ").next().unwrap_or_default();
                format!("declare it along [{known}], as in `{name}: f32[{last}]`")
            }
            E::SummedDim { known, .. } | E::NotBodyDims { known, .. } => {
                format!("declare it along [{known}], or multiply it by a matrix")
            }
            E::GroupPlace { row, column, .. } => format!("as in `max(x, {row}, 8, {column}, 8)`"),
            _ => return self.fix_of_values(),
        })
    }

    /// The same of values that are split, picked, stored and inferred.
    fn fix_of_values(&self) -> Option<String> {
        use CheckError as E;
        Some(match self {
            E::SeveralValues { .. } => "assign each: `a, b, c = split(x, 3)`".to_owned(),
            E::SplitDim { .. } => "name the parts' sizes: `split(x, [Q, KV, KV])`".to_owned(),
            E::PickIndex { .. } => "pass an input like `t: i32[M]`".to_owned(),
            E::OutputDims { name, value, .. } => {
                format!("declare `{name}` with dims [{value}], or reduce the value")
            }
            E::OutputOfCondition { dtype, .. } => {
                format!("cast it: `{dtype}(...)`, or declare the output bool")
            }
            E::Uninferred { name, nearest, .. } => annotate(name, nearest.as_deref()),
            E::BoundRank { name, .. } => {
                format!("annotate its first use: `{name}[N]` or `{name}[M]`")
            }
            E::NoOutput => "start the result's name with a capital: `D = ...`".to_owned(),
            _ => return self.fix_of_bits(),
        })
    }

    /// The same of integers, bits, random numbers, tables and sizes.
    fn fix_of_bits(&self) -> Option<String> {
        use CheckError as E;
        Some(match self {
            E::IntegerDivision { .. } => {
                "cast first: `f32(a) / b`, or write the literal with a point".to_owned()
            }
            E::NotInteger { operator: "~", found: Elem::Bool, .. } => "write `!x`".to_owned(),
            E::NotInteger { operator: "^", found: Elem::Bool, .. } => "write `a != b`".to_owned(),
            E::NotInteger { operator: "float", .. } => {
                "`float` reads bits; write `f32(x)` to convert".to_owned()
            }
            E::NotInteger { .. } => "cast it: `i32(x)`".to_owned(),
            E::BitsMeetComparison { operator, .. } => {
                format!("write parentheses: `(x {operator} 1) == 1`")
            }
            E::Seed { what: "seed", .. } => {
                "declare `seed: i32`, or `seed: i32[2]` to read it from memory".to_owned()
            }
            E::Seed { .. } | E::TakeIndex { .. } => "cast it: `i32(x)`".to_owned(),
            E::RandomCast { .. } => "write the cast without a seed".to_owned(),
            E::TakeTable { .. } => "declare one, as in `table: f32[V]`".to_owned(),
            E::UnknownSize { nearest: Some(nearest), .. } => {
                format!("did you mean `size({nearest})`?")
            }
            E::FloatPower { call, .. } => format!("write `{call}`"),
            _ => return self.results_fix(),
        })
    }

    /// The same of operands, batch dims, and inputs that are others.
    fn fix_of_inputs(&self) -> Option<String> {
        use CheckError as E;
        Some(match self {
            E::ManyProducts { .. } => "write several kernels".to_owned(),
            E::OtherProduct { .. } => {
                "reduce it to these dims, or multiply it by a matrix: `bf16(h) @ W`".to_owned()
            }
            E::OperandWithoutDims { .. } => {
                "multiply an input, or math of one, as in `relu(A) @ B`".to_owned()
            }
            E::OperandUnrounded { .. } => {
                "cast it, as in `bf16(...)` or `i8(...)`; or declare its tensors f32".to_owned()
            }
            E::BatchDisagree { .. } => {
                "give one operand all batch dims, and the other all or some of them in the same order"
                    .to_owned()
            }
            E::OperandRank { rank, .. } if *rank > 5 => "make neighbouring batch dims one".to_owned(),
            E::GatherTable { .. } => {
                "name an input as in `X: bf16[S, N]`, or a value that another product computes".to_owned()
            }
            E::MaskedCounts { .. } => "declare one, as in `count: i32[E]`".to_owned(),
            E::GatherIndex { .. } => "declare one, as in `index: i32[T]`".to_owned(),
            E::CombineLists { row, .. } => {
                format!("declare them, as in `position: i32[{row}, 2]` and `weight: f32[{row}, 2]`")
            }
            E::Scatter { .. } => "declare `x: [T, N]` and `index: i32[T]`, or `x: [T]`".to_owned(),
            E::SegmentsPlace { .. } => {
                "write `segments(A, ends) @ W.T`, or cut all values of the body by one list of ends".to_owned()
            }
            E::SegmentsEnds { .. } => "declare one, as in `ends: i32[E]`".to_owned(),
            E::SegmentsDims { .. } => {
                "declare them `A: bf16[T, K]`, `ends: i32[E]` and `W: bf16[E, N, K]`".to_owned()
            }
            E::SegmentsFold { .. } => {
                "fold the rows of each segment, and the segments afterwards; `sum max min absmax prod logsumexp` fold both"
                    .to_owned()
            }
            E::SegmentsAlone { segments, .. } => {
                format!("fold the rows first: `sum(sum(x, T), {segments})`, or all of it: `sum(x)`")
            }
            E::SegmentsRuns { .. } => "fold all rows of a segment, or runs of columns".to_owned(),
            E::SegmentsUnwritten { ends, .. } => {
                format!("write `segments(x, {ends})` to the left of `@`")
            }
            E::SameBatchDims { .. } => "call each its own name, as in `[B, H, M, K]`".to_owned(),
            E::SomeBatchDims { dims, .. } => {
                format!("fold all of them, `{dims}`, or one of `sum mean max min absmax prod logsumexp`")
            }
            E::ReducesShared { .. } => {
                "reduce it along its rows and columns only, or before the kernel".to_owned()
            }
            E::HostScalar { dtype: DType::B1, .. } => {
                "write `bool[]` for a scalar in memory".to_owned()
            }
            E::HostScalar { dtype, .. } => {
                let whole = dtype.unpacked();
                format!("declare it `f32` or `i32`, or `{whole}[]` to read it from memory")
            }
            E::HostOutput { dtype, .. } | E::PackedWithoutDims { dtype, .. } => {
                format!("write `{}[]` for a scalar in memory", dtype.unpacked())
            }
            E::OutputNotStored { dtype, .. } => {
                format!("declare it {}, and pack it afterwards", dtype.unpacked())
            }
            E::PackedOperand { name, other, .. } => format!("cast it: `{other}({name})`"),
            E::SameAsUnknown { .. } => {
                "name an input that is declared before it, as in `A: bf16[M, K], B: bf16[N, K] = A`"
                    .to_owned()
            }
            E::SameAsSame { instead, .. } => format!("write `= {instead}`"),
            E::SameAsDiffers { .. } => {
                "declare both tensors, with one dtype and as many dims".to_owned()
            }
            E::SameAsOutput { .. } => {
                "remove the `= ...`; a call may pass the memory of a tile operand".to_owned()
            }
            _ => return None,
        })
    }

    /// The same of functions with two results.
    fn results_fix(&self) -> Option<String> {
        use CheckError as E;
        Some(match self {
            E::TwoValues { function, .. } if function == "topk" => {
                "assign both: `values, indices = topk(x, 8, N)`".to_owned()
            }
            E::TwoValues { function, .. } => format!("assign both: `a, b = {function}(x)`"),
            E::TopAlong { column, .. } => format!("write `topk(z, 8, {column})`"),
            E::StackOfTiles { declared: Some([name, list, whole]), .. } => format!(
                "declare `{name}: {whole}` if `{name}` has one value for each column; a list is reduced first, as in `sum(x, {list})`"
            ),
            E::StackOfTiles { declared: None, .. } => {
                "reduce it first, as in `sum(values, 8)`, or compare with `topk_softmax`".to_owned()
            }
            E::StackFunction { .. } => {
                "`sum mean max min absmax prod softmax` run along it".to_owned()
            }
            _ => return self.fix_of_inputs(),
        })
    }
}

const PARTS_TOGETHER: &str = "put the parts together first: `concat(a, b)` for halves, `join(a, b)` for pairs; or \
                              split the other value too";

/// What to write instead of a function that does not exist.
fn function_instead(name: &str, nearest: Option<&str>) -> String {
    let near = || nearest.map(|nearest| format!("did you mean `{nearest}`?"));
    let all = || "`postlude list functions` shows them all".to_owned();
    idioms::instead(name).or_else(near).unwrap_or_else(all)
}

/// What to write instead of a dim where a number is wanted.
fn size_instead(dim: &str) -> String {
    format!("write `size({dim})` for its size")
}

/// How a name of a one-liner gets its type.
fn annotate(name: &str, nearest: Option<&str>) -> String {
    let meant =
        nearest.map(|nearest| format!("; or did you mean `{nearest}`?")).unwrap_or_default();
    format!(
        "annotate its first use (`{name}[N]`, `{name}[M]`), or set it (`--set {name}=1.0`){meant}"
    )
}
