"""Costs: the closed forms against an enumeration of addresses."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilejit.layout.grid import Grid, GridAxis, Spread, starts, varied
from tilejit.lower.moves.wavefronts import LaneDigit, wavefronts
from tilejit.lower.open.choose import AccessCost, Demand, Prices, Reduced, lines, shuffles

#: bytes between rows of which the distance isn't known: far apart
FAR = 1 << 20


@st.composite
def accesses(draw: st.DrawFn) -> tuple[AccessCost, Grid]:
    """A tile of two dimensions, rows far apart or next to each other, loaded or stored along either."""
    size = draw(st.sampled_from([2, 4, 8]))
    rows, columns = draw(st.integers(1, 16)), 8 * draw(st.integers(1, 6))
    unit = draw(st.sampled_from([0, 1]))
    tile = ((0, rows), (1, columns)) if unit else ((0, columns), (1, rows))
    is_shared = draw(st.booleans())
    pitch = size * (columns + 8 * draw(st.integers(0, 1))) if is_shared else None
    strides = (pitch, size) if unit else (size, pitch)
    width = draw(st.sampled_from([w for w in (1, 2, 4, 8) if w * size <= 32]))
    access = AccessCost(tile, strides, unit, width, size, draw(st.booleans()), "shared" if is_shared else "global")
    axes = [GridAxis(n, k, (4, 2, 1)[-1 if k != unit and n % 4 else 0 :]) for k, (_, n) in enumerate(tile)]
    grid = draw(st.sampled_from(list(starts("cta", draw(st.sampled_from([32, 64])), axes, [1, 0]))))
    return access, draw(st.sampled_from([grid, *varied(grid)]))


def waves(pieces: dict[int, int], width: int) -> int:
    """Of an access of a warp, by its lanes' addresses: accesses of 8 bytes go by half warps, of 16 by quarters."""
    total, at_once = 0, 32 * 4 // max(width, 4)
    for first in range(0, 32, at_once):
        words = {
            word
            for thread, at in pieces.items()
            if first <= thread < first + at_once
            for word in range(at // 4, (at + width - 1) // 4 + 1)
        }
        total += max((sum(word % 32 == bank for word in words) for bank in range(32)), default=0)
    return total


def enumerated(access: AccessCost, grid: Grid) -> int:
    """The cost of an access, from every address of every lane."""
    total = 0
    spreads = [grid.spreads[axis] for axis, _ in access.tile]
    vector = next((s.vector for s, (a, _) in zip(spreads, access.tile, strict=True) if a == access.unit), 1)
    width = min(vector, access.width, 16 // access.bytes)
    steps_of = grid.strides()
    steps = [FAR if s is None else s for s in access.strides]
    pieces = [
        range(0, s.vector, width) if axis == access.unit else range(s.vector)
        for s, (axis, _) in zip(spreads, access.tile, strict=True)
    ]
    rounds = [range(s.blocks(n) * s.warps) for s, (_, n) in zip(spreads, access.tile, strict=True)]
    for position in product(*rounds):
        for piece in product(*pieces):
            touched: set[int] = set()
            pieces_of: dict[int, int] = {}
            for lane in product(*(range(s.lanes) for s in spreads)):
                first = [(p * s.lanes + k) * s.vector for p, s, k in zip(position, spreads, lane, strict=True)]
                index = [start + v for start, v in zip(first, piece, strict=True)]
                if all(i < n for i, (_, n) in zip(first, access.tile, strict=True)):
                    at = sum(i * step for i, step in zip(index, steps, strict=True))
                    touched |= set(range(at, at + width * access.bytes))
                    thread = sum(k * steps_of[grid.columns[a]][0] for k, (a, _) in zip(lane, access.tile, strict=True))
                    pieces_of[thread] = at
            if touched and access.space == "shared":
                total += 4 + 4 * waves(pieces_of, width * access.bytes)
            elif touched:
                total += 4 + len({a // 32 for a in touched}) + len({a // 128 for a in touched})
    repeats = 1 if access.is_store else grid.warps
    for spread in spreads:
        repeats = repeats if access.is_store else repeats // spread.warps
    return total * repeats


@given(accesses())
def test_the_closed_form_of_an_access_is_its_enumeration(drawn: tuple[AccessCost, Grid]) -> None:
    access, grid = drawn
    assert Prices(Demand({access: 1})).cost(grid) == enumerated(access, grid)


@pytest.mark.parametrize(
    ("run", "lanes", "sectors", "touched"),
    [
        (16, ((32, 16),), 16, 4),
        (16, ((4, None), (8, 16)), 16, 4),
        (4, ((32, None),), 32, 32),
        (2, ((13, 2),), 1, 1),
        (8, ((8, 64),), 8, 4),
        (16, ((8, 16), (4, 256)), 16, 4),
    ],
)
def test_sectors_and_lines(run: int, lanes: tuple[tuple[int, int | None], ...], sectors: int, touched: int) -> None:
    assert (lines(run, lanes, 32), lines(run, lanes, 128)) == (sectors, touched)


@pytest.mark.parametrize(
    ("run", "lanes", "count"),
    [
        (4, ((32, 4),), 1),
        (4, ((32, 128),), 32),
        (16, ((32, 16),), 4),
        (2, ((32, 2),), 1),
        (4, ((4, 0), (8, 4)), 1),
        # quarter warps of 8 rows, and of one row
        (16, ((8, 128), (4, 16)), 32),
        (16, ((4, 16), (8, 128)), 8),
    ],
)
def test_wavefronts(run: int, lanes: tuple[tuple[int, int], ...], count: int) -> None:
    assert wavefronts(run, tuple(LaneDigit(n, n, stride) for n, stride in lanes)) == count


@pytest.mark.parametrize(
    ("results", "lanes", "count"), [(1, 32, 5), (2, 4, 3), (4, 4, 6), (3, 8, 9), (8, 8, 14), (5, 1, 0)]
)
def test_shuffles(results: int, lanes: int, count: int) -> None:
    assert shuffles(results, lanes) == count


def test_a_reduction_across_warps_costs_a_barrier() -> None:
    tile = ((0, 4), (1, 128))
    demand = Demand(reductions={Reduced(tile, (1,)): 1})
    within = Grid("cta", 32, 4, (Spread(1, 4, 1), Spread(32, 1, 4)), (0, 1), 1)
    across = Grid("cta", 32, 4, (Spread(1, 1, 1), Spread(32, 4, 1)), (0, 1), 1)
    assert Prices(demand).cost(within) == 4 * (3 + 5 * 5)
    assert Prices(demand).cost(across) == 4 * (0 + 5 * shuffles(4, 32) + 4 * (8 + 8 + 4) + 80)


def test_registers_past_the_limit_cost() -> None:
    grid = Grid("cta", 32, 1, (Spread(32, 1, 1),), (0,), 0)
    tile = ((0, 32 * 224),)
    assert Prices(Demand(live={(tile, 32): 1})).cost(grid) == 64
    assert Prices(Demand(live={(tile, 16): 1})).cost(grid) == 0
    # of 1024 threads each has 64
    few = ((0, 32 * 40),)
    assert Prices(Demand(live={(few, 32): 1}, limit=64)).cost(grid) == 8 * 64
    assert Prices(Demand(live={(few, 32): 1})).cost(grid) == 0
