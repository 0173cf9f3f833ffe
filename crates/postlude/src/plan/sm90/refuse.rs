//! What Hopper kernels do not run yet: named rules, so that `explain` can say why.

use crate::dtype::DType;
use crate::graph::{Dependence, Graph, Kind, NodeId, Op, Output};

use super::place::packed_major;
use super::{CANDIDATES, Needs, OperandElement, Unsupported, folds, groups, row_pass};

/// Why a kernel is not run on Hopper.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Sm90Refusal {
    /// Operands of a dtype that sm90 kernels do not multiply.
    #[error("sm90 multiplies f16 and bf16; `{name}` is {dtype}")]
    OperandDType {
        /// The operand.
        name: String,
        /// Its element type.
        dtype: DType,
        /// The statement in the source.
        bytes: Option<(u32, u32)>,
    },
    /// An operation that needs more than its own element.
    #[error("{message}")]
    Operation {
        /// What the limit is.
        message: &'static str,
        /// What to write instead.
        instead: &'static str,
        /// The statement in the source.
        bytes: Option<(u32, u32)>,
    },
    /// An output whose bytes hold bits of several batches, which different tiles compute.
    #[error("sm90 packs bits along rows or columns; output `{name}` has batches last")]
    PackedBatches {
        /// The output.
        name: String,
        /// The statement in the source.
        bytes: Option<(u32, u32)>,
    },
    /// An output that no tile can write by itself.
    #[error(
        "sm90 stores tiles, and vectors and scalars with the dims that they have; output `{name}` is neither"
    )]
    NotATile {
        /// The output.
        name: String,
        /// The statement in the source.
        bytes: Option<(u32, u32)>,
    },
    /// Sizes beyond 32-bit coordinates.
    #[error("sm90 counts rows, columns and tiles in 31 bits; this problem has more")]
    TooLarge,
    /// A given schedule was made for another epilogue.
    #[error("the schedule does not fit this problem, which has {wanted}")]
    OtherNeeds {
        /// What they would have to be.
        wanted: String,
    },
    /// A given schedule that no kernel can be emitted for.
    #[error(
        "the schedule's knob `{knob}` has a value that sm90 kernels do not have, or that does not go with its tile"
    )]
    Knob {
        /// Its name.
        knob: &'static str,
    },
    /// A fragment that does not divide the epilogue tile.
    #[error(
        "the schedule's fragment is no multiple of 8 columns that divides its epilogue tile of {epilogue_tile}"
    )]
    Fragment {
        /// Columns of the epilogue tile.
        epilogue_tile: u32,
    },
    /// Delayed stores with one slot, which cannot be filled before it is stored.
    #[error("the schedule delays stores until the next slot is filled, but has one D stage")]
    DelayedSlot,
    /// Slots of C that no output can take over.
    #[error(
        "the schedule reuses C's slots for D, but TMA loads no tile operand in the order and the element size of an output"
    )]
    NothingToReuse,
    /// Slots of several epilogue tiles that are read before the first of them is finished.
    #[error(
        "the schedule reuses C's slots for D, but operands of {span} columns are read before their first epilogue tile is finished"
    )]
    ReuseOfSpans {
        /// Columns that are read ahead.
        span: u32,
    },
    /// Slots that the next epilogue tile would wait for.
    #[error(
        "the schedule reuses C's slots for D and needs {need} C stages for it, twice those of an epilogue tile"
    )]
    ReuseOfFewSlots {
        /// The fewest C stages.
        need: u32,
    },
    /// A given schedule that does not fit the chip.
    #[error("the schedule needs {need} bytes of shared memory; the chip has {have}")]
    SharedMemory {
        /// Bytes needed.
        need: u32,
        /// Bytes there are.
        have: u32,
    },
    /// A tile that planning leaves to schedules that name it.
    #[error("taken only when a schedule names it, so that many sizes share few modules")]
    OnRequest,
    /// A tile or cluster that the loads of A or B do not divide.
    #[error("A or B cannot be loaded for it: as they lie, this tile or cluster does not divide")]
    OperandTile,
    /// Rows that need a row pass, and are longer than the tiles of a cluster.
    #[error(
        "this row's elements meet a reduction of their own row, which sm90 finishes in rows of at most {most} columns, the tiles of a cluster; these rows have {columns} columns"
    )]
    LongRows {
        /// Columns of the product.
        columns: u32,
        /// Columns of the widest tiles side by side.
        most: u32,
        /// The statement in the source.
        bytes: Option<(u32, u32)>,
    },
    /// Groups of columns that do not go with how lanes hold a tile.
    #[error("sm90 reduces groups of 2, 4 or a multiple of 8 columns, not of {run}")]
    UnevenGroups {
        /// Columns of a group.
        run: u32,
        /// The statement in the source.
        bytes: Option<(u32, u32)>,
    },
    /// Groups of columns that no tile holds whole.
    #[error(
        "sm90 reduces groups of columns that divide a tile, which has up to 256 columns; these need a multiple of {run}"
    )]
    LongGroups {
        /// What a tile's columns would be a multiple of.
        run: u32,
        /// The statement in the source.
        bytes: Option<(u32, u32)>,
    },
    /// Products of parts of B that no tile has the columns for.
    #[error(
        "sm90 multiplies each part of B's columns by itself; no tile holds {products} of them as B lies"
    )]
    ManyProducts {
        /// How many parts.
        products: u32,
    },
    /// More tensors and scalars than a launch takes.
    #[error(
        "sm90 passes tensors and scalars as parameters of a launch, at most 4096 bytes and 512 of them; this kernel needs {bytes} bytes and {count}"
    )]
    Parameters {
        /// How many.
        count: usize,
        /// Bytes of all.
        bytes: usize,
    },
    /// Code that no assembler would take in reasonable time.
    #[error(
        "sm90 kernels have at most {most} lines of PTX for a thread's elements; this body needs about {lines}"
    )]
    LongCode {
        /// About how many.
        lines: u64,
        /// The most.
        most: u64,
    },
    /// No tile fits.
    #[error("no tile fits this chip's shared memory")]
    NoCandidate,
}

impl Sm90Refusal {
    /// The bytes of the statement that is refused, where it is one.
    pub(crate) fn bytes(&self) -> Option<(u32, u32)> {
        let (Sm90Refusal::Operation { bytes, .. }
        | Sm90Refusal::OperandDType { bytes, .. }
        | Sm90Refusal::PackedBatches { bytes, .. }
        | Sm90Refusal::NotATile { bytes, .. }
        | Sm90Refusal::LongRows { bytes, .. }
        | Sm90Refusal::UnevenGroups { bytes, .. }
        | Sm90Refusal::LongGroups { bytes, .. }) = self
        else {
            return None;
        };
        *bytes
    }

    /// What to do about it.
    pub fn fix(&self) -> Option<String> {
        let fix = match self {
            Sm90Refusal::OperandDType { dtype: DType::F32, .. } => {
                "convert the operands to bf16 or f16; the CPU multiplies f32"
            }
            Sm90Refusal::OperandDType { .. } => {
                "convert the operands to bf16 or f16; the CPU multiplies every dtype"
            }
            Sm90Refusal::Operation { instead, .. } => instead,
            Sm90Refusal::PackedBatches { .. } => {
                "declare the output with rows or columns last, or as `bool`"
            }
            Sm90Refusal::NotATile { .. } => {
                "declare the output with the dims of its value; a second kernel repeats it"
            }
            Sm90Refusal::TooLarge => "split the batch, the rows or the columns over several calls",
            Sm90Refusal::Knob { .. }
            | Sm90Refusal::OtherNeeds { .. }
            | Sm90Refusal::Fragment { .. }
            | Sm90Refusal::DelayedSlot
            | Sm90Refusal::NothingToReuse
            | Sm90Refusal::ReuseOfSpans { .. }
            | Sm90Refusal::ReuseOfFewSlots { .. } => {
                "print one that works: `postlude explain ... --target sm90 --stage schedule`"
            }
            Sm90Refusal::SharedMemory { .. } => "take fewer stages, or a smaller tile",
            Sm90Refusal::OnRequest | Sm90Refusal::OperandTile => {
                "name another tile in a schedule: `--schedule FILE`"
            }
            Sm90Refusal::LongRows { .. } => {
                "store the reduction as an output (`logsumexp(z, N)`, `mean(square(z), N)`) and apply it in a second kernel, or run it on the CPU"
            }
            Sm90Refusal::UnevenGroups { run: 1, .. } => {
                "leave the reduction out: of one column it is the value itself"
            }
            Sm90Refusal::UnevenGroups { .. } => "pad the groups to a multiple of 8 columns",
            Sm90Refusal::LongGroups { .. } => {
                "reduce groups of at most 256 columns (`max(z, N, 128)`), store them, and reduce those further afterwards"
            }
            Sm90Refusal::ManyProducts { .. } => "compute some of the parts in a second kernel",
            Sm90Refusal::Parameters { .. } | Sm90Refusal::LongCode { .. } => {
                "split the kernel in two, or run it on the CPU"
            }
            Sm90Refusal::NoCandidate => "split the kernel in two, or run it on the CPU",
        };
        Some(fix.to_owned())
    }
}

/// Refuses what the emitter cannot emit.
pub(super) fn refuse(graph: &Graph) -> Result<(), Sm90Refusal> {
    refuse_operands(graph)?;
    groups::refuse(graph)?;
    folds::refuse(graph)?;
    let (is_after, passes) = (folds::after_reductions(graph), row_pass::passes(graph));
    let live = graph.live();
    for (id, _) in graph.nodes().filter(|(id, _)| live[id.index()]) {
        if is_whole(graph, id) {
            return Err(Unsupported::Whole.at(graph, id));
        }
    }
    for output in graph.outputs() {
        let name = || output.name.clone();
        let bytes = bytes_of(graph, output.value);
        let Some(axes) = graph.product().axes(&output.dims) else {
            return Err(Sm90Refusal::NotATile { name: name(), bytes });
        };
        let whole = graph.product().accumulator_axes();
        let tile = axes.row && axes.column == whole.column;
        let own = graph.product().column.divisor();
        let grouped = axes.kind() == Kind::Tile
            && axes.column.is_some_and(|divisor| divisor > own && divisor % own == 0);
        let (of, after_reductions) = (graph[output.value].ty.axes, is_after[output.value.index()]);
        let own = if after_reductions { of == axes } else { of.kind() == axes.kind() };
        let finished = (after_reductions || passes[output.value.index()] > 0)
            && own
            && axes.kind() != Kind::Tile
            || grouped && !after_reductions;
        let finished = finished || is_plain(graph, &is_after, &passes, output).is_some();
        if finished && !tile && output.dtype == DType::B1 {
            return Err(Unsupported::PackedVector.at(graph, output.value));
        }
        if tile && after_reductions {
            return Err(Unsupported::FinishedInTile.at(graph, output.value));
        }
        if !tile && !finished {
            return Err(Sm90Refusal::NotATile { name: name(), bytes });
        }
        if output.dtype == DType::B1 && packed_major(graph.product(), &output.dims).is_none() {
            return Err(Sm90Refusal::PackedBatches { name: name(), bytes });
        }
    }
    Ok(())
}

/// Refuses products that no tile holds.
pub(super) fn refuse_products(needs: &Needs) -> Result<(), Sm90Refusal> {
    let products = needs.products;
    if products > 1 && !CANDIDATES.iter().any(|tile| tile.takes(needs)) {
        return Err(Sm90Refusal::ManyProducts { products });
    }
    Ok(())
}

/// Whether all batches have an output in common, which the first one's tiles write.
pub(crate) fn is_shared(graph: &Graph, output: &Output) -> bool {
    let product = graph.product();
    let own = product.axes(&output.dims).is_some_and(|axes| axes.batch);
    product.batch.is_some() && !own
}

/// Where an output lives that is neither a tile nor made of reductions; `None` for all others.
pub(crate) fn is_plain(
    graph: &Graph,
    after_reductions: &[bool],
    passes: &[usize],
    output: &Output,
) -> Option<Kind> {
    let axes = graph.product().axes(&output.dims)?;
    let node = output.value.index();
    let own_columns = axes.column.is_none_or(|by| by % graph.product().column.divisor() == 0);
    let plain =
        axes.kind() != Kind::Tile && own_columns && !after_reductions[node] && passes[node] == 0;
    plain.then_some(axes.kind())
}

fn refuse_operands(graph: &Graph) -> Result<(), Sm90Refusal> {
    let product = graph.product();
    for (input, _) in [product.left, product.right] {
        let declared = &graph.inputs()[input.0 as usize];
        if OperandElement::of(declared.dtype).is_none() {
            return Err(Sm90Refusal::OperandDType {
                name: declared.name.clone(),
                dtype: declared.dtype,
                bytes: first(graph, |op| *op == Op::Accumulator)
                    .and_then(|node| bytes_of(graph, node)),
            });
        }
    }
    Ok(())
}

/// The bytes of the statement that a node is from.
pub(super) fn bytes_of(graph: &Graph, node: NodeId) -> Option<(u32, u32)> {
    graph.statement(node).map(|statement| statement.bytes)
}

/// The first node with such an operation.
pub(super) fn first(graph: &Graph, is_such: impl Fn(&Op) -> bool) -> Option<NodeId> {
    graph.nodes().find(|(_, node)| is_such(&node.op)).map(|(id, _)| id)
}

/// Whether planning should have made something else of a node.
fn is_whole(graph: &Graph, id: NodeId) -> bool {
    match graph[id].op.dependence() {
        Dependence::Source | Dependence::Elementwise(_) => false,
        // The caller asked before which of them finish inside a tile.
        Dependence::Reduce(..) | Dependence::Pick(..) => false,
        Dependence::Part(..) | Dependence::Merge(..) | Dependence::Call => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::define::defined;

    fn refusal(source: &str) -> Option<String> {
        refuse(&defined(source)).err().map(|refusal| refusal.to_string())
    }

    #[test]
    fn what_the_epilogue_does_is_accepted() {
        for body in [
            "A @ W.T",
            "relu(A @ W.T + C + bias[N] * scale[M])",
            "silu(A @ W.T)",
            "where(isnan(A @ W.T), 0.0, 1.0)",
            "A @ W.T / scale[M]",
            "where(col < 3, A @ W.T, 0.0)",
            "f32(f8e4m3(A @ W.T))",
            "pow(A @ W.T, 3.0)",
            "tanh(A @ W.T)",
        ] {
            assert_eq!(refusal(&format!("D = {body}")), None, "{body}");
        }
        for body in [
            "s = sum(max(A @ W.T, N), M)",
            "Z = A @ W.T\ns = mean(logsumexp(Z, N)) + mean(logsumexp(Z, M)) - max(Z)",
            "Z = A @ W.T\nD = Z - max(Z, N)\nt = pick(Z, i32(max(Z, N)))\ns = mean(max(Z, N))",
        ] {
            assert_eq!(refusal(body), None, "{body}");
        }
    }

    #[test]
    fn vectors_of_fewer_columns_are_accepted() {
        for (output, value) in [
            ("d: f32[N/8]", "x * 2.0"),
            ("d: f32[N]", "x + bias"),
            ("d: f32[]", "max(x * 2.0, N/8)"),
            ("d: f32[N/8]", "x - sum(max(Z, N, 8), M)"),
            ("d: f32[]", "max(sum(max(Z, N, 8), M))"),
        ] {
            let source = format!(
                "kernel k(A: f16[M, K], W: f16[N, K], x: f32[N/8], bias: f32[N]) -> (D: f32[M, N], {output}) \
                 {{ Z = A @ W.T\nD = Z\nd = {value} }}"
            );
            assert_eq!(refusal(&source), None, "{value}");
        }
    }

    #[test]
    fn what_it_does_not_is_named() {
        // Of a run's columns only the first knows its result.
        let source = "kernel k(A: f16[M, K], W: f16[N, K], x: f32[N]) -> d: f32[N] { d = x * sum(max(A @ W.T, N, 8), M) }";
        let refusal = super::tests::refusal(source).unwrap_or_default();
        assert!(refusal.contains("this one has other columns"), "{refusal}");
        // No warpgroup visits the tiles again once their columns are finished.
        let source = "kernel k(A: f16[M, K], W: f16[N, K]) -> D: f32[M, N] { D = sum(A @ W.T, M) }";
        let refusal = super::tests::refusal(source).unwrap_or_default();
        assert!(refusal.contains("repeated in every element of a tile"), "{refusal}");
        for (body, wanted) in [
            ("s = sum(A @ W.T, N)\nt = s - max(s, M)", "varies along other dims than the result"),
            ("D = topk_softmax(A @ W.T, 17, N)", "at most 16 largest"),
            // The warpgroup that finishes the pick would not have the index.
            ("Z = A @ W.T\nt = pick(Z, i32(max(Z, N)))", "`pick`"),
        ] {
            let refusal = super::tests::refusal(body).unwrap_or_default();
            assert!(refusal.contains(wanted), "{refusal}");
        }
    }

    fn declared_refusal(dtype: DType, dims: &str) -> Option<String> {
        let source = format!(
            "kernel k(A: f16[B, M, K], W: f16[N, K], keep: b1[{dims}]) -> D: {dtype}[{dims}] \
             {{ D = keep & (A @ W.T > 0.0) }}"
        );
        let graph = defined(&source);
        refuse(&graph).err().map(|refusal| refusal.to_string())
    }

    fn batched_refusal(output: &str, value: &str) -> Option<String> {
        let (name, _) = output.split_once(':').expect("a name and its type");
        let source = format!(
            "kernel k(A: f16[B, M, K], W: f16[N, K], x: f16[M, N], s: f32[B]) -> (E: f32[B, M, N], {output}) \
             {{ Z = A @ W.T\nE = Z + x - max(x, N)\n{name} = {value} }}"
        );
        refusal(&source)
    }

    #[test]
    fn what_batches_share_is_written_once() {
        for (output, value) in [
            ("D: f32[M, N]", "x - max(x, N)"),
            ("d: f32[M]", "max(x, N)"),
            ("d: f32[B, M]", "max(x, N)"),
            ("g: f32[M, N/2]", "max(x, N, 2)"),
            ("v: f32[N]", "sum(Z, B, M) + sum(x, M)"),
            ("v: f32[M]", "sum(max(Z, N), B)"),
            ("v: f32[]", "mean(Z) + max(sum(Z, M, N)) + prod(s) - sum(min(Z, B, M), N)"),
        ] {
            assert_eq!(batched_refusal(output, value), None, "{value}");
        }
    }

    #[test]
    fn what_no_batch_finishes_is_refused() {
        for (output, value, wanted) in [
            ("D: f32[M, N]", "sum(Z, B)", "a reduction over the batch alone"),
            ("D: f32[B]", "sum(Z)", "output `D` is neither"),
            ("D: f32[B]", "sum(Z, M, N) / sum(Z)", "varies along other dims than the result"),
        ] {
            let refusal = batched_refusal(output, value).unwrap_or_default();
            assert!(refusal.contains(wanted), "{refusal}");
        }
    }

    #[test]
    fn bits_are_packed_along_rows_or_columns() {
        for dims in ["B, M, N", "B, N, M", "M, N, B"] {
            assert_eq!(declared_refusal(DType::Bool, dims), None, "{dims}");
        }
        for dims in ["B, M, N", "N, B, M"] {
            assert_eq!(declared_refusal(DType::B1, dims), None, "{dims}");
        }
        let refusal = declared_refusal(DType::B1, "M, N, B");
        let wanted = "sm90 packs bits along rows or columns; output `D` has batches last";
        assert_eq!(refusal.as_deref(), Some(wanted));
    }
}
