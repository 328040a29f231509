"""The grids that are chosen: the cost says which, so these hold the rules that follow from it."""

from __future__ import annotations

import pytest

from tilejit.layout.grid import Grid
from tilejit.lower.open.choose import AccessCost, Chosen, Demand, Extents, Reduced, choose


def chosen(threads: int, demand: Demand, *extents: int) -> Chosen:
    """The grid of a component whose axes have these extents."""
    return choose("cta", threads, extents, range(len(extents)), demand)


def digits(grid: Grid) -> list[tuple[int, int, int]]:
    return [(s.lanes, s.warps, s.vector) for s in grid.spreads]


def tile(*extents: int) -> Extents:
    return tuple(enumerate(extents))


def loaded(shape: Extents, size: int, *, unit: int = -1, stored: bool = False) -> AccessCost:
    """An access along the unit-stride axis, in vectors of 16 bytes at most."""
    axis = shape[unit][0]
    return AccessCost(shape, tuple(size if a == axis else None for a, _ in shape), axis, 16 // size, size, stored)


def test_a_row_is_loaded_by_16_bytes() -> None:
    row = tile(1024)
    demand = Demand({loaded(row, 4): 1, loaded(row, 4, stored=True): 1}, {row: 1})
    made = chosen(128, demand, 1024)
    assert (digits(made.grid), made.cost) == ([(32, 4, 4)], 416)


def test_few_elements_are_spread_over_threads() -> None:
    row = tile(5)
    made = chosen(128, Demand({AccessCost(row, (4,), 0, 1, 4, False): 1}), 5)
    assert digits(made.grid) == [(32, 4, 1)]


def test_a_row_that_is_narrower_than_all_threads_vectors_has_narrower_vectors() -> None:
    row = tile(1000)
    demand = Demand({loaded(row, 2): 1, loaded(row, 2, stored=True): 1}, {row: 18}, {Reduced(row, (0,)): 2})
    assert digits(chosen(256, demand, 1000).grid) == [(32, 8, 4)]


def test_a_bias_of_wider_elements_does_not_narrow_the_vectors() -> None:
    both, bias = tile(32, 48), ((1, 48),)
    demand = Demand({loaded(both, 2): 1, loaded(both, 2, stored=True): 1, loaded(bias, 4): 1}, {both: 4})
    made = chosen(64, demand, 32, 48)
    assert (digits(made.grid), made.cost, made.next_cost) == ([(4, 2, 1), (8, 1, 8)], 624, 664)


@pytest.mark.parametrize(
    ("shape", "size", "threads", "expected", "cost", "next_cost"),
    [
        # a row gets as few lanes as divide it without padding
        ((32, 48), 2, 64, [(16, 2, 1), (2, 1, 8)], 272, 282),
        ((32, 128), 4, 128, [(4, 4, 1), (8, 1, 4)], None, None),
    ],
)
def test_reduced_along_the_contiguous_axis(
    shape: tuple[int, int], size: int, threads: int, expected: object, cost: int | None, next_cost: int | None
) -> None:
    both = tile(*shape)
    made = chosen(threads, Demand({loaded(both, size): 1}, {}, {Reduced(both, (1,)): 1}), *shape)
    assert digits(made.grid) == expected
    assert cost is None or (made.cost, made.next_cost) == (cost, next_cost)


def test_sums_of_rows_are_stored() -> None:
    both, rows = tile(64, 48), tile(64)
    demand = Demand({loaded(both, 4): 1, loaded(rows, 4, stored=True): 1}, {}, {Reduced(both, (1,)): 1})
    made = chosen(128, demand, 64, 48)
    # two rows a thread, so that their sums are stored together
    assert (digits(made.grid), made.cost) == ([(8, 4, 2), (4, 1, 4)], 848)


def test_reduced_along_the_other_axis_warps_are_laid_along_columns() -> None:
    both, columns = tile(64, 128), ((1, 128),)
    demand = Demand({loaded(both, 4): 1, loaded(columns, 4, stored=True): 1}, {}, {Reduced(both, (0,)): 1})
    made = chosen(128, demand, 64, 128)
    assert (digits(made.grid), made.cost, made.next_cost) == ([(4, 1, 1), (8, 4, 4)], 1932, 2116)


def test_a_transposed_access_beside_a_straight_one_makes_blocks() -> None:
    both = tile(64, 64)
    demand = Demand({loaded(both, 4): 1, loaded(both, 4, unit=0): 1, loaded(both, 4, stored=True): 1}, {both: 1})
    made = chosen(128, demand, 64, 64)
    assert (digits(made.grid), made.cost) == ([(4, 4, 4), (8, 1, 4)], 2560)


@pytest.mark.parametrize(
    ("size", "expected", "cost"),
    [(4, [(4, 4, 4), (8, 1, 4)], 1792), (2, [(4, 2, 8), (4, 2, 8)], 1088)],
)
def test_a_transposed_copy(size: int, expected: object, cost: int) -> None:
    both = tile(64, 64)
    demand = Demand({loaded(both, size): 1, loaded(both, size, unit=0, stored=True): 1})
    made = chosen(128, demand, 64, 64)
    assert made.cost <= cost


def test_nothing_in_memory_takes_the_last_axis() -> None:
    both = tile(32, 32)
    assert chosen(64, Demand({}, {both: 1}), 32, 32).grid.fast == 1


def test_many_live_registers_are_avoided() -> None:
    both = tile(8, 8)
    made = chosen(32, Demand({}, {}, {}, {}, {(both, 32): 200}), 8, 8)
    assert made.grid.registers((0, 1), (8, 8)) == 2


