"""Where the logits of a linear cross entropy lie between its passes: pieces of the classes, each with a place.

In: the sizes of a call and the bytes that it may use. Out: pieces that are all classes together, in order. Logits are kept in
the workspace as far as it goes. More are kept in the memory of the weight's gradient, which has no contents before the
backward pass writes it, and the rest is computed again, piece by piece, in a part of the workspace.

The backward pass goes through the pieces from the last one to the first: it makes gradients of a piece's logits where they lie,
and from them writes the rows of the weight's gradient that are the piece's own.

Invariant: logits of a piece in the gradient's memory, and of all pieces before it, lie before the piece's own rows. So no row is
written over logits that are still to be read.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

#: Rows of logits begin at multiples of this many elements, as TMA's copies of 16 bytes need.
ALIGNED = 8
#: Pieces of many classes are multiples of the widest tile.
WIDEST_TILE = 256
#: Bytes of a row's partial results in one tile: maximum and sum of its log-sum-exp, and the target's logit.
PARTIAL_RESULTS = 12
#: Columns of the narrowest tile that large products take.
NARROW_TILE = 128


class Place(Enum):
    """Where a piece's logits are."""

    WORKSPACE = "workspace"
    #: In the memory of the weight's gradient.
    GRADIENT = "gradient"
    #: Computed again by the backward pass.
    RECOMPUTED = "recomputed"


class Piece(NamedTuple):
    """Some of the classes."""

    first: int
    #: The class behind the last one.
    end: int
    place: Place
    #: The first element of its logits, or of its gradients where logits are computed again, in their memory.
    offset: int

    @property
    def width(self) -> int:
        """Elements from one row of logits to the next."""
        return _up(self.end - self.first, ALIGNED)


class Sizes(NamedTuple):
    """What pieces follow from."""

    rows: int
    features: int
    classes: int
    #: Bytes of an element.
    element: int


class TooSmall(ValueError):
    """The bytes do not hold gradients of a few classes."""

    def __init__(self, given: int, least: int) -> None:
        super().__init__(f"a workspace of {given:,} bytes is too small")
        self.least = least


def pieces(sizes: Sizes, workspace: int, *, to_input: bool, in_gradient: bool) -> tuple[Piece, ...]:
    """The pieces of a call whose passes use at most ``workspace`` bytes beside inputs, results and gradients.

    ``to_input`` says whether the input has a gradient, which is added up in float32 over the pieces; ``in_gradient``, whether
    the weight has one, whose memory may hold logits.
    """
    rows, features, classes, _ = sizes
    columns = columns_of(sizes, workspace, to_input=to_input)
    if columns >= _up(classes, ALIGNED):
        return (Piece(0, classes, Place.WORKSPACE, 0),)
    kept = _kept(sizes, columns, in_gradient)
    if kept[-1].end == classes:
        return kept
    # Some are computed again, into a quarter of the workspace.
    again = max(_grain_of(columns, columns // 4), ALIGNED)
    kept = _kept(sizes, columns - again, in_gradient) if columns > again else ()
    end = kept[-1].end if kept else 0
    # Of like widths, so that none is left with few columns.
    count = max(-(-(classes - end) // again), 1)
    width = min(_up(-(-(classes - end) // count), ALIGNED), again)
    offset = rows * (columns - again)
    starts = range(end, classes, max(width, 1))
    return (*kept, *(Piece(first, min(first + width, classes), Place.RECOMPUTED, offset) for first in starts))


def columns_of(sizes: Sizes, workspace: int, *, to_input: bool) -> int:
    """The classes whose logits the workspace holds; raises :class:`TooSmall` where they are too few."""
    rows, features, classes, element = sizes
    if rows == 0:
        return _up(classes, ALIGNED)
    sums = 4 * rows * features if to_input else 0
    # Logits, and what the tiles of their product leave for the log-sum-exp.
    per_tile = rows * (NARROW_TILE * element + PARTIAL_RESULTS)
    columns = max(workspace - sums, 0) * NARROW_TILE // per_tile
    columns = min(_grain_of(columns, columns), _up(classes, ALIGNED))
    if columns < min(2 * ALIGNED, classes):
        raise TooSmall(workspace, sums + per_tile)
    return columns


def _kept(sizes: Sizes, columns: int, in_gradient: bool) -> tuple[Piece, ...]:
    """The pieces that are kept in this many columns of the workspace, and in the gradient's memory."""
    rows, features, classes, _ = sizes
    found = [Piece(0, columns, Place.WORKSPACE, 0)]
    end = columns
    while in_gradient and end < classes:
        # Logits up to here end where the rows of this piece begin.
        room = columns + features * end // rows
        following = classes if _up(classes, ALIGNED) <= room else _grain_of(columns, room)
        # Products of few columns cost more than computing them again with others.
        if following - end < max(columns // 16, ALIGNED):
            break
        found.append(Piece(end, following, Place.GRADIENT, rows * (end - columns)))
        end = following
    return tuple(found)


def _grain_of(columns: int, number: int) -> int:
    """A number of columns rounded down: to whole tiles where there are many columns."""
    grain = WIDEST_TILE if columns >= 16 * WIDEST_TILE else ALIGNED
    return number // grain * grain


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
