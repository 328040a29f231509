"""Words stored in one shape, loaded in another, all pairs, by kernels: the second and third rungs of the evidence."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernels.tensor_memory.published_places import FORMS
from tests.kernels.tensor_memory.whole_tiles import check_pairs, sizes
from tilejit.dtypes import DType, float16, float32, uint8

TYPES = [float32, float16, uint8]
WIDTHS = [1 << k for k in range(9)]

#: columns up to which every type is moved in the default run: how words hold elements doesn't depend on how many there
#: are, and kernels that load them 25 times take a second to compile
FEW = 32


def tiles(widths: list[int]) -> list[Any]:
    """(columns, dtype)s; wide tiles of narrow types belong to the long run."""
    return [
        pytest.param(n, t, id=f"{n}-{t}", marks=[pytest.mark.long] if n > FEW and t != float32 else [])
        for n in widths for t in TYPES
    ]


@pytest.mark.parametrize(("columns", "dtype"), tiles(WIDTHS[:8]))
def test_pairs_of_shapes_move_128_rows_to_where_the_oracle_says(columns: int, dtype: DType) -> None:
    check_pairs("D", 0, columns, dtype)


@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize(("columns", "dtype"), tiles(WIDTHS[1:]))
def test_pairs_of_shapes_move_64_rows_to_where_the_oracle_says(columns: int, dtype: DType, half: int) -> None:
    check_pairs("F", half, columns, dtype)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("num", WIDTHS[:8])
def test_data_path_b_moves_both_halves_of_its_columns(num: int, dtype: DType) -> None:
    check_pairs("B", 0, 2 * num, dtype)


def test_the_pairs_cover_every_shape_and_number() -> None:
    covered = [(path, c) for path, widths in (("D", WIDTHS[:8]), ("F", WIDTHS[1:])) for c in widths]
    assert {form for path, columns in covered for form in sizes(path, columns).items()} == set(FORMS)
