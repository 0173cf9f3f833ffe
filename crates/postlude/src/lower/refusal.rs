//! Why a kernel is not one launch, with the statement and the cure.

use crate::graph::{Columns, Graph, NodeId, Op};

/// Why a kernel is not one launch.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LowerRefusal {
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
    #[error("bits are packed along rows or columns; output `{name}` has batches last")]
    PackedBatches {
        /// The output.
        name: String,
        /// The statement in the source.
        bytes: Option<(u32, u32)>,
    },
    /// An output that no tile can write by itself.
    #[error(
        "a launch stores tiles, and vectors and scalars with the dims that they have; output `{name}` is neither"
    )]
    NotATile {
        /// The output.
        name: String,
        /// The statement in the source.
        bytes: Option<(u32, u32)>,
    },
    /// A kernel of several launches that is to be one.
    #[error("this kernel is {launches} launches, and one is promised")]
    SeveralLaunches {
        /// How many there are.
        launches: usize,
    },
    /// Groups of columns that do not go with how lanes hold a tile.
    #[error("tiles reduce groups of 2, 4 or a multiple of 8 columns, not of {run}")]
    UnevenGroups {
        /// Columns of a group.
        run: u32,
        /// The statement in the source.
        bytes: Option<(u32, u32)>,
    },
}

impl LowerRefusal {
    /// The bytes of the statement that is refused, where it is one.
    pub(crate) fn bytes(&self) -> Option<(u32, u32)> {
        match self {
            LowerRefusal::Operation { bytes, .. }
            | LowerRefusal::PackedBatches { bytes, .. }
            | LowerRefusal::NotATile { bytes, .. }
            | LowerRefusal::UnevenGroups { bytes, .. } => *bytes,
            LowerRefusal::SeveralLaunches { .. } => None,
        }
    }

    /// What to do about it.
    pub fn fix(&self) -> &'static str {
        match self {
            LowerRefusal::Operation { instead, .. } => instead,
            LowerRefusal::PackedBatches { .. } => {
                "declare the output with rows or columns last, or as `bool`"
            }
            LowerRefusal::NotATile { .. } => {
                "declare the output with the dims of its value; a second kernel repeats it"
            }
            LowerRefusal::SeveralLaunches { .. } => {
                "leave out `fused` or `--one-launch`: `explain --target sm90` shows the launches"
            }
            LowerRefusal::UnevenGroups { run: 1, .. } => {
                "leave the reduction out: of one column it is the value itself"
            }
            LowerRefusal::UnevenGroups { .. } => "pad the groups to a multiple of 8 columns",
        }
    }
}

/// The statement that knows runs of this many columns.
pub(crate) fn needing(graph: &Graph, run: u32) -> Option<(u32, u32)> {
    let multiple = run.saturating_mul(graph.space().column.divisor());
    graph.statement_needing(Columns::of_product(multiple)).map(|statement| statement.bytes)
}

/// The bytes of the statement that a node is from.
pub(super) fn bytes_of(graph: &Graph, node: NodeId) -> Option<(u32, u32)> {
    graph.statement(node).map(|statement| statement.bytes)
}

/// The first node with such an operation.
pub(crate) fn first(graph: &Graph, is_such: impl Fn(&Op) -> bool) -> Option<NodeId> {
    graph.nodes().find(|(_, node)| is_such(&node.op)).map(|(id, _)| id)
}
