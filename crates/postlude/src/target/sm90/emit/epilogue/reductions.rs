//! Which reductions a launch finishes, and the scopes of their results in the order in which they are finished.
//!
//! In: the tile program. Out: reductions by kind, source and scope, each with the number of its first word. Nothing is
//! emitted here.

use crate::graph::{Kind, NodeId};
use crate::lower::{Batches, Reduction, ReductionScope, Source, TileProgram};

/// Scopes that are finished together. Scalars may be computed from finished vectors, and results of all batches from
/// those of each batch.
const TURNS: [(Batches, &[Kind]); 4] = [
    (Batches::Each, &[Kind::AlongRows, Kind::AlongColumns]),
    (Batches::Each, &[Kind::Scalar]),
    (Batches::All, &[Kind::AlongRows, Kind::AlongColumns]),
    (Batches::All, &[Kind::Scalar]),
];

/// A reduction, and the number of its first word among all words of its kind.
pub(super) type Numbered = (u32, Reduction);

/// The reductions that a launch finishes.
#[derive(Clone, Copy)]
pub(super) struct Reductions<'a>(pub(super) &'a TileProgram);

impl<'a> Reductions<'a> {
    /// Those whose results have this kind.
    pub(super) fn of(self, kind: Kind) -> impl Iterator<Item = Numbered> + 'a {
        self.0.reductions_of(kind).scan(0, |next, reduction| {
            let first = *next;
            *next += reduction.workspace_words();
            Some((first, reduction))
        })
    }

    /// All: along rows, along columns, scalars.
    pub(super) fn all(self) -> impl Iterator<Item = Numbered> + 'a {
        [Kind::AlongRows, Kind::AlongColumns, Kind::Scalar]
            .into_iter()
            .flat_map(move |kind| self.of(kind))
    }

    /// Those of one scope.
    pub(super) fn in_scope(self, scope: ReductionScope) -> impl Iterator<Item = Numbered> + 'a {
        self.of(scope.kind).filter(move |(_, reduction)| reduction.scope == scope)
    }

    /// Those whose partial results come from finished values of this scope.
    pub(super) fn from(self, scope: ReductionScope) -> impl Iterator<Item = Numbered> + 'a {
        self.all().filter(move |(_, reduction)| reduction.source == Source::Finished(scope))
    }

    /// The values of every element that are folded.
    pub(super) fn terms(self) -> impl Iterator<Item = NodeId> + 'a {
        let reductions = self.all().map(|(_, reduction)| reduction);
        let of_elements = reductions.filter(|reduction| reduction.is_of_elements());
        of_elements.flat_map(Reduction::operands)
    }

    /// The scalars of which a tile has partial results, each with its place among all scalars.
    pub(super) fn of_tiles(self) -> impl Iterator<Item = (usize, Numbered)> + 'a {
        self.of(Kind::Scalar).enumerate().filter(|(_, (_, reduction))| match reduction.source {
            Source::Elements | Source::Rows => true,
            Source::Finished(_) => false,
        })
    }

    /// Whether there are second-stage reductions, whose arrivals depend on which warpgroup was the last.
    pub(super) fn has_second_stage(self) -> bool {
        self.all().any(|(_, reduction)| matches!(reduction.source, Source::Finished(_)))
    }

    /// The scopes that are finished, turn by turn.
    pub(super) fn turns(self) -> impl Iterator<Item = Vec<ReductionScope>> + 'a {
        let turn = move |(batches, kinds): (Batches, &[Kind])| {
            let scopes = kinds.iter().map(|kind| ReductionScope { kind: *kind, batches });
            scopes.filter(|scope| self.finishes(*scope)).collect::<Vec<_>>()
        };
        TURNS.into_iter().map(turn).filter(|scopes| !scopes.is_empty())
    }

    /// The scopes that are finished, in order.
    pub(super) fn finished(self) -> impl Iterator<Item = ReductionScope> + 'a {
        self.turns().flatten()
    }

    /// Whether anything of this scope is finished.
    fn finishes(self, scope: ReductionScope) -> bool {
        self.in_scope(scope).chain(self.from(scope)).next().is_some()
    }
}
