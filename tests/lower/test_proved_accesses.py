"""What the proof says of accesses that aren't the transfers themselves: on any side, with an alignment of their own."""

from __future__ import annotations

import numpy as np
import pytest

from tilejit.dtypes import float32, int32
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import Buffer, Region, TileOp
from tilejit.layout import TileLayout
from tilejit.lower.plans import JointAccess, Moves
from tilejit.lower.proof.prove import prove_moves

ROWS, COLUMNS, PADDED = 4, 24, 40


def tile(name: str, space: str, align: int, pitch: int) -> Region:
    layout = TileLayout.from_iters([(ROWS, pitch, "m"), (COLUMNS, 1, "m")])
    zero = build.const(0, int32)
    return Region(Buffer(name, space, float32, (ROWS, COLUMNS), layout, align), (zero, zero), (ROWS, COLUMNS))


def copy(shared_align: int = 128) -> TileOp:
    """From rows with gaps to rows without."""
    return TileOp("copy", "cta", (tile("s", "shared", shared_align, COLUMNS), tile("g", "global", 16, PADDED)))


def box(*accesses: JointAccess, width: int = COLUMNS) -> Moves:
    """The copy as one thread starts it: a row of the tile a transfer, which no vector access could move."""
    row = np.arange(ROWS)
    places = np.stack([COLUMNS * row, PADDED * row], axis=1)
    return Moves(row, np.zeros(ROWS, np.int64), places, np.full(ROWS, width), (1, 1), accesses)


#: a box lands in one piece at a multiple of 128 bytes; its rows start at multiples of 16
SHARED = JointAccess(0, np.array([0]), width=ROWS * COLUMNS, align=32)
GLOBAL = JointAccess(1, PADDED * np.arange(ROWS), width=COLUMNS, align=4)


def test_a_box_is_as_aligned_as_it_says_on_each_side() -> None:
    prove_moves(box(SHARED, GLOBAL), copy())
    prove_moves(box(GLOBAL, SHARED), copy())


@pytest.mark.parametrize("accesses", [(), (SHARED,), (GLOBAL,)], ids=["neither", "shared", "global"])
def test_a_side_that_says_nothing_is_accessed_by_the_transfers(accesses: tuple[JointAccess, ...]) -> None:
    with pytest.raises(AssertionError, match=r"16 elements of \w are accessed at \d+|64 bytes of g are accessed"):
        prove_moves(box(*accesses), copy())


def test_an_access_at_another_place_than_its_alignment_says_is_wrong() -> None:
    wrong = JointAccess(1, GLOBAL.starts, width=COLUMNS, align=16)
    with pytest.raises(AssertionError, match="24 elements of g are accessed at 40"):
        prove_moves(box(SHARED, wrong), copy())


def test_the_base_must_be_as_aligned_as_the_access() -> None:
    with pytest.raises(AssertionError, match="128 bytes of s are accessed at once; its base is aligned to 64"):
        prove_moves(box(SHARED, GLOBAL), copy(shared_align=64))


def test_whole_transfers_must_be_accessed() -> None:
    short = JointAccess(1, GLOBAL.starts, width=COLUMNS - 1, align=4)
    with pytest.raises(AssertionError, match="element 23 is moved, but not accessed"):
        prove_moves(box(SHARED, short), copy())


def test_a_side_has_one_description() -> None:
    with pytest.raises(AssertionError):
        box(GLOBAL, GLOBAL)
    with pytest.raises(AssertionError):
        box(JointAccess(2, GLOBAL.starts, width=COLUMNS, align=4))
