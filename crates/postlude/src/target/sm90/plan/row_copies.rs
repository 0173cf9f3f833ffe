//! Launches that copy the rows of an input as they lie: which programs are such a copy, and what it costs.
//!
//! In: a tile program and how its tiles are loaded and stored. Out: the bytes of the elements that are copied. Threads move
//! them one by one, all bits as they are, and wait for many loads at a time: they need no shared memory, and rows may begin
//! anywhere. Where TMA moves rows it needs fewer instructions, and so do threads that hold rows.

use crate::dtype::DType;
use crate::graph::{Graph, Kind, NodeId, Op};
use crate::lower::TileProgram;
use crate::problem::Problem;

use super::chip::Sm90;
use super::elements::are_numbered;
use super::needs::{Needs, SlotCounts};
use super::place::EpilogueTransfer;
use super::schedule::Sm90Schedule;

/// Bytes that the lanes of a warp load before they store the first of them, and the most elements of a lane.
const CHUNK_BYTES: u32 = 1024;
const MOST_ELEMENTS: u32 = 16;
const LANES: u32 = 32;
/// Part of what memory moves that rows anywhere reach. A guess that is not fitted.
const REACHED: f64 = 0.75;
/// Cycles from a launch's first load to its last store.
const LATENCY: f64 = 800.0;

/// Bytes of the elements whose rows a program copies as they lie, where the columns of both tensors are contiguous; 0 of any
/// other program.
pub(super) fn copied_bytes(program: &TileProgram, problem: &Problem, needs: &Needs) -> u32 {
    let contiguous = |transfers: &[EpilogueTransfer]| {
        let moves = |one: &EpilogueTransfer| {
            matches!(
                one,
                EpilogueTransfer::Tma | EpilogueTransfer::Coalesced | EpilogueTransfer::Contiguous
            )
        };
        transfers.len() == 1 && transfers.iter().all(moves)
    };
    let copies = is_one_copy(program)
        && !needs.shared_strides
        && contiguous(&needs.epilogue_loads)
        && contiguous(&needs.epilogue_stores)
        && are_numbered(program, problem);
    // A launch whose outputs others store has none of its own.
    let bytes = program.graph().outputs().first().and_then(|output| plain_bytes(output.dtype));
    bytes.filter(|_| copies).unwrap_or(0)
}

/// Whether a program's only output has the elements of its only input, in the same rows and columns of the same batches.
fn is_one_copy(program: &TileProgram) -> bool {
    let graph = program.graph();
    let ([output], &[input], &[read]) =
        (graph.outputs(), &program.tile_operands[..], &program.body_inputs[..])
    else {
        return false;
    };
    let (space, source) = (graph.space(), copied_node(graph, output.value));
    let axes = graph.ty(source).axes;
    let cut = graph.ends().or(graph.contraction_ends()).or(graph.row_counts()).is_some();
    graph[source].op == Op::Input(input)
        && read == input
        && graph.inputs()[input.0 as usize].dtype == output.dtype
        && graph.products().is_empty()
        && !space.is_segmented()
        && !cut
        && program.windows() == 0
        && space.axes(&output.dims) == Some(axes)
        && axes.kind() == Kind::Tile
        && axes.batch != space.batch.is_empty()
        && program.input_run(input) == 1
        && program.input_row_run(input) == 1
        && program.output_run(output) == 1
        && program.output_row_run(output) == 1
}

/// The node that a store takes its elements from: a cast to what they are already is none.
fn copied_node(graph: &Graph, value: NodeId) -> NodeId {
    match graph[value].op {
        Op::Cast(to, of) if is_of_dtype(graph, of, to) => of,
        _ => value,
    }
}

fn is_of_dtype(graph: &Graph, node: NodeId, dtype: DType) -> bool {
    matches!(graph[node].op, Op::Input(input) if graph.inputs()[input.0 as usize].dtype == dtype)
}

/// The bytes of an element of which a load and a store change no bit that means anything; `None` where they round or where
/// an element is a part of a byte.
const fn plain_bytes(dtype: DType) -> Option<u32> {
    match dtype {
        DType::F32 | DType::I32 => Some(4),
        DType::F16 | DType::BF16 => Some(2),
        DType::F8E4M3 | DType::F8E5M2 | DType::F8E8M0 | DType::I8 | DType::U8 => Some(1),
        DType::TF32 | DType::I64 | DType::Bool | DType::B1 | DType::I4 | DType::U4 => None,
    }
}

impl Needs {
    /// Whether threads copy rows faster than tiles do: TMA does not move them.
    pub(super) fn copies_rows(&self) -> bool {
        let mut transfers = self.epilogue_loads.iter().chain(&self.epilogue_stores);
        self.copied_bytes > 0 && transfers.any(|transfer| *transfer != EpilogueTransfer::Tma)
    }

    /// What a kernel needs whose threads copy rows: all moves are direct.
    pub(super) fn by_copies(&self) -> Needs {
        let (slots, rows, by_elements) = (SlotCounts::default(), None, true);
        let mut needs = Needs { slots, rows, by_elements, ..self.clone() };
        needs.epilogue_loads.iter_mut().for_each(EpilogueTransfer::make_direct);
        needs.epilogue_stores.iter_mut().for_each(EpilogueTransfer::make_direct);
        needs
    }
}

impl Sm90Schedule {
    /// Elements that each lane of a warp loads before it stores the first, where threads copy rows.
    pub(crate) fn copied_at_once(&self) -> u32 {
        (CHUNK_BYTES / LANES / self.needs.copied_bytes.max(1)).min(MOST_ELEMENTS)
    }
}

/// Cycles of a copy for the whole problem.
pub(super) fn cycles(schedule: &Sm90Schedule, problem: &Problem) -> f64 {
    let sizes = [problem.batch, problem.rows, problem.product_columns()];
    let elements: f64 = sizes.into_iter().map(|size| size as f64).product();
    let bytes = 2.0 * elements * f64::from(schedule.needs.copied_bytes);
    LATENCY + bytes / (Sm90::MEMORY_BYTES * REACHED)
}
