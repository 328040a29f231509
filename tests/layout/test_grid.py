"""Grids and their projections: owners of elements, padding, layouts of single tiles."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilejit.layout import TileLayout, tx
from tilejit.layout.grid import Grid, GridAxis, Projection, Spread, alone, projected, same_owners, starts, units, varied
from tilejit.scopes import SCOPES


@st.composite
def grids(draw: st.DrawFn) -> tuple[Grid, list[int]]:
    """A grid over two or three axes, each with a column of its own, and extents."""
    threads = draw(st.sampled_from([1, 8, 20, 32, 64, 96]))
    extents = draw(st.lists(st.integers(1, 9), min_size=2, max_size=3))
    axes = [GridAxis(n, k, tuple(v for v in (4, 2, 1) if v <= n)) for k, n in enumerate(extents)]
    made = list(starts("cta", threads, axes, [len(axes) - 1, 0]))
    grid = draw(st.sampled_from(made))
    return draw(st.sampled_from([grid, *varied(grid)])), extents


def owners(made: Projection, shape: tuple[int, ...], index: tuple[int, ...]) -> set[int]:
    """The threads that hold an element."""
    return {thread for thread, _ in made.layout.owners(*index, shape=made.slots or shape)}


@given(grids())
def test_an_element_of_a_projection_has_the_owners_of_those_above_it(drawn: tuple[Grid, list[int]]) -> None:
    grid, extents = drawn
    every = tuple(range(len(extents)))
    # with all slots, so that threads whose elements are padding count
    full = tuple(grid.spreads[a].blocks(n) * grid.spreads[a].period for a, n in zip(every, extents, strict=True))
    above = grid.project(every, full)
    kept = every[1:]
    part = tuple(extents[a] for a in kept)
    made = grid.project(kept, part)
    for index in product(*map(range, part)):
        expected: set[int] = set()
        for first in range(full[0]):
            expected |= owners(above, full, (first, *index))
        assert owners(made, part, index) == expected


@given(grids())
def test_a_projection_fits_its_slots_is_injective_and_has_all_threads(drawn: tuple[Grid, list[int]]) -> None:
    grid, extents = drawn
    threads = grid.lanes * grid.warps
    for axes in (tuple(range(len(extents))), (len(extents) - 1,), (0,), ()):
        shape = tuple(extents[a] for a in axes)
        made = grid.project(axes, shape)
        slots = made.slots or shape
        assert made.layout.size() == math.prod(slots)
        assert all(slot >= n for slot, n in zip(slots, shape, strict=True))
        if slots:
            made.layout.group(slots)
        made.layout.verify_well_formed()
        assert made.layout.is_injective()
        places = [made.layout.owners(*index, shape=slots) for index in product(*map(range, slots))] or [
            made.layout.owners(0)
        ]
        assert {thread for each in places for thread, _ in each} == set(range(threads))
        assert grid.registers(axes, shape) == 1 + max(register for each in places for _, register in each)


@given(grids())
def test_a_layout_without_a_dimension_is_the_grids_own(drawn: tuple[Grid, list[int]]) -> None:
    grid, extents = drawn
    every = tuple(range(len(extents)))
    made = grid.project(every, extents)
    slots = made.slots or tuple(extents)
    less = projected(made.layout, slots, every[1:])
    wanted = grid.project(every[1:], extents[1:])
    assert same_owners(less, slots[1:], wanted.layout, wanted.slots or tuple(extents[1:]))


def test_the_worked_grid() -> None:
    grid = Grid("cta", 32, 2, (Spread(4, 2, 1), Spread(8, 1, 8)), (0, 1), 1)
    assert repr(grid.project((0, 1), (32, 48)).layout) == "S[(4, 64, 8) : (8, 1 @ tx, 1)]"
    assert grid.project((0, 1), (32, 48)).slots == (32, 64)
    assert repr(grid.project((1,), (48,)).layout) == "S[(8, 8) : (1 @ tx, 1)] + R[8 : 8 @ tx]"
    assert repr(grid.project((0,), (32,)).layout) == "S[(4, 8) : (1, 8 @ tx)] + R[8 : 1 @ tx]"
    assert grid.project((0,), (32,)).slots == ()


def test_vectors_along_two_axes_make_blocks() -> None:
    grid = Grid("cta", 32, 4, (Spread(4, 4, 4), Spread(8, 1, 4)), (0, 1), 1)
    assert repr(grid.project((0, 1), (64, 64)).layout) == "S[(16, 4, 2, 8, 4) : (8 @ tx, 4, 16, 1 @ tx, 1)]"


def test_axes_that_share_a_column_have_the_same_threads() -> None:
    axes = [GridAxis(16, 0), GridAxis(64, 1, (4, 2, 1)), GridAxis(32, 1, (2, 1))]
    for grid in starts("cta", 64, axes, [1]):
        assert (grid.spreads[1].lanes, grid.spreads[1].warps) == (grid.spreads[2].lanes, grid.spreads[2].warps)
        rows = [grid.project((0, a), (16, axes[a].extent)) for a in (1, 2)]
        slots = [made.slots or (16, n) for made, n in zip(rows, (64, 32), strict=True)]
        one, other = (projected(made.layout, shape, (0,)) for made, shape in zip(rows, slots, strict=True))
        assert one == other


@pytest.mark.parametrize("threads", [1, 4, 24, 32, 96, 100, 128])
def test_every_start_has_each_thread_once(threads: int) -> None:
    lanes, warps = units(threads)
    axes = [GridAxis(7, 0), GridAxis(13, 1, (2, 1)), GridAxis(5, 2)]
    for grid in starts("cta", threads, axes, [1, 2]):
        assert math.prod(s.lanes for s in grid.spreads) == lanes
        assert math.prod(s.warps for s in grid.spreads) == warps
        assert all(math.prod(s.warps for s in other.spreads) == warps for other in varied(grid))


def test_layouts_that_differ_in_registers_have_the_same_owners() -> None:
    one = TileLayout.from_iters([(4, 2, "m"), (32, 1, "tx"), (2, 1, "m")])
    other = TileLayout.from_iters([(4, 1, "m"), (32, 1, "tx"), (2, 4, "m")])
    third = TileLayout.from_iters([(8, 1, "m"), (32, 1, "tx")])
    assert same_owners(one, (8, 32), other, (8, 32))
    assert not same_owners(one, (8, 32), third, (8, 32))
    assert not same_owners(one, (8, 32), TileLayout(one, one.shard[:0], ((tx, 32),)), (8, 32))


@pytest.mark.parametrize(
    ("shape", "threads", "bits", "text", "slots"),
    [
        ((1024,), 128, 32, "S[(2, 128, 4) : (4, 1 @ tx, 1)]", ()),
        ((7, 13), 128, 16, "S[128 : 1 @ tx]", (8, 16)),
        ((7, 13), 100, 32, "S[(2, 100) : (1, 1 @ tx)]", (8, 25)),
        ((32, 48), 64, 32, "S[(2, 16, 3, 4, 4) : (12, 4 @ tx, 4, 1 @ tx, 1)]", ()),
        ((), 64, 32, "S[1 : 1 @ tx] + R[64 : 1 @ tx]", ()),
        ((1, 1), 64, 32, "S[1 : 1 @ tx] + R[64 : 1 @ tx]", ()),
        ((5,), 128, 32, "S[128 : 1 @ tx]", (128,)),
        ((1000,), 256, 16, "S[(256, 4) : (1 @ tx, 1)]", (1024,)),
        ((64, 64), 128, 32, "S[(8, 128, 4) : (4, 1 @ tx, 1)]", ()),
    ],
)
def test_a_tile_alone(shape: tuple[int, ...], threads: int, bits: int, text: str, slots: tuple[int, ...]) -> None:
    made = alone(shape, "cta", threads, bits)
    assert (repr(made.layout), made.slots) == (text, slots)


def test_a_threads_own_tile_is_row_major() -> None:
    assert alone((3, 5), "thread", 1, 32) == Projection(TileLayout.row_major((3, 5)))
    assert SCOPES["thread"].axis is None
