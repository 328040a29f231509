"""examples/gemm_hopper.py on the simulator, with all checks: ragged shapes, majors, batches, whenever copies land."""

from __future__ import annotations

from math import erf
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import tilejit as tj
from examples import gemm_hopper as example
from tilejit.dtypes import DTYPES

Array = np.ndarray

KERNELS = {"one": example.gemm, "two": example.gemm_with_producer}


def stored(values: Array, dtype: str, *, turned: bool) -> Array:
    """The values with rows, or columns, that begin at multiples of 16 bytes; what lies between is NaN."""
    last = values.swapaxes(-1, -2) if turned else values
    *outer, columns = last.shape
    whole = np.full((*outer, -(-columns // 8) * 8), np.nan, DTYPES[dtype].numpy)
    whole[..., :columns] = last
    cut = whole[..., :columns]
    return cut.swapaxes(-1, -2) if turned else cut


def integers(seed: int, *shape: int) -> Array:
    """Small ones, whose sums every type here holds."""
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float32)


def check(
    m: int, n: int, k: int, kernel: tj.Kernel, dtype: str = "float16", *, batch: int = 0, turned: str = "",
    more: bool = False, activation: str | None = None, ctas: int | None = None, together: int = 1, **how: Any,
) -> None:
    """A product of integers is exact. turned: which factors are column-major. more: with a bias and a residual.

    together: CTAs that share B.
    """
    outer = (batch,) if batch else ()
    left, right = integers(1, *outer, m, k), integers(2, *outer, k, n)
    a, b = stored(left, dtype, turned="a" in turned), stored(right, dtype, turned="b" in turned)
    bias, residual = integers(3, n).astype(a.dtype), stored(integers(4, *outer, m, n), dtype, turned=False)
    c = stored(np.full((*outer, m, n), np.nan), dtype, turned=False)
    added = (bias, residual) if more else (None, None)
    grid, arguments = example.arranged(a, b, c, *added, activation, together)
    chosen = example.PAIRED[kernel.name] if together > 1 else kernel
    tj.simulate(chosen, ctas or grid, *arguments, target="sm_90a", **how)
    sums = left @ right + (bias.astype(np.float32) if more else 0)
    wanted = (np.maximum(sums, 0) if activation == "relu" else sums) + (residual.astype(np.float32) if more else 0)
    assert np.array_equal(c, wanted.astype(c.dtype))
    assert c.base is not None and np.isnan(c.base[..., n:].astype(np.float32)).all(), "memory past the rows is written"


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("delivery", ["late", "early", "random:3"])
def test_a_product_is_exact_whenever_copies_land(delivery: str, name: str) -> None:
    check(300, 520, 200, KERNELS[name], more=True, activation="relu", ctas=3, delivery=delivery)


@pytest.mark.parametrize(("turned", "name"), [("a", "one"), ("b", "two"), ("ab", "one")])
def test_factors_lie_either_way_round(turned: str, name: str) -> None:
    check(136, 264, 136, KERNELS[name], "bfloat16", turned=turned)


@pytest.mark.parametrize("name", KERNELS)
def test_tiles_may_be_whole(name: str) -> None:
    check(256, 512, 256, KERNELS[name])


@pytest.mark.parametrize(("m", "n", "k"), [(1, 8, 8), (5, 7, 65), (129, 257, 30), (64, 9, 330)])
def test_tiles_hang_over_every_edge(m: int, n: int, k: int) -> None:
    check(m, n, k, example.gemm)


def test_whole_groups_of_tiles_use_no_place_after_the_last() -> None:
    check(15 * example.BM + 1, 8, 8, example.gemm, ctas=5)


def test_a_tile_that_ends_within_a_chunk_is_written_under_the_next_ones_product() -> None:
    check(136, 257, 72, example.gemm_with_producer, ctas=1)


def test_the_grid_shares_tiles_evenly_and_reads_little_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tj, "num_sms", lambda: 132)

    def ctas_and_group(m: int, n: int, k: int, together: int = 1) -> tuple[int, int]:
        nothing = np.zeros(1, np.float16)  # no element is read
        a, b, c = (as_strided(nothing, shape, (2 * shape[1], 2)) for shape in ((m, k), (k, n), (m, n)))
        ctas, arguments = example.arranged(a, b, c, together=together)
        return ctas, arguments[5]

    assert ctas_and_group(8192, 8192, 8192) == (128, 16)
    assert ctas_and_group(1000, 1000, 1000) == (32, 8)
    assert ctas_and_group(8191, 8200, 8184) == ctas_and_group(8191, 8200, 8184, 2) == (132, 12)
    assert ctas_and_group(1000, 1000, 1000, 2) == (32, 8) and ctas_and_group(900, 8, 8, 2) == (8, 8)
    assert ctas_and_group(1, 8, 8) == (1, 8)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("delivery", ["late", "early", "random:3"])
def test_two_ctas_that_share_b_are_exact_whenever_copies_land(delivery: str, name: str) -> None:
    check(300, 520, 200, KERNELS[name], more=True, activation="relu", ctas=4, together=2, delivery=delivery)


@pytest.mark.parametrize(
    ("turned", "batch", "name"), [("a", 0, "one"), ("b", 2, "two"), ("ab", 3, "one"), ("", 2, "two")]
)
def test_two_ctas_share_b_whichever_way_it_lies_and_of_a_batch_each_its_own(turned: str, batch: int, name: str) -> None:
    check(136, 264, 136, KERNELS[name], "bfloat16", batch=batch, turned=turned, together=2)


@pytest.mark.parametrize("name", KERNELS)
def test_a_product_of_many_rows_that_begin_anywhere_is_made_by_pairs(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")
    monkeypatch.setattr(example, "MANY_ROWS", 100)
    made: list[str] = []
    pairs = example.PAIRED[KERNELS[name].name]

    class Recorded:
        def __getitem__(self, grid: Any) -> Any:
            made.append("pairs")
            return pairs[grid]

    monkeypatch.setitem(example.PAIRED, KERNELS[name].name, Recorded())

    def ways(m: int, n: int, k: int) -> list[str]:
        made.clear()
        left, right = integers(1, m, k), integers(2, k, n)
        a, b = (stored(x, "float16", turned=False) for x in (left, right))
        c = stored(np.full((m, n), np.nan), "float16", turned=False)
        example.multiplication(KERNELS[name], a, b, c)()
        assert np.array_equal(c, left @ right)
        return made

    assert ways(100, 72, 64) == ways(100, 64, 72) == ["pairs"]
    assert ways(100, 64, 64) == ways(99, 72, 72) == []


@pytest.mark.parametrize(
    ("m", "n", "k", "turned"),
    [(1, 1, 1, "ab"), (1, 300, 1, "a"), (3, 1, 70, "b"), (0, 5, 3, ""), (5, 0, 3, ""), (5, 7, 0, "b")],
)
@pytest.mark.parametrize("many", [1, 1000])
def test_factors_of_one_row_or_column_and_of_none(
    monkeypatch: pytest.MonkeyPatch, m: int, n: int, k: int, turned: str, many: int
) -> None:
    """The step along a dimension of one element is ignored: the other dimension counts as contiguous."""
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")
    monkeypatch.setattr(example, "MANY_ROWS", many)
    left, right = integers(1, m, k), integers(2, k, n)
    a, b = stored(left, "float16", turned="a" in turned), stored(right, "float16", turned="b" in turned)
    c = stored(np.full((m, n), np.nan), "float16", turned=False)
    example.multiplication(example.gemm, a, b, c)()
    assert np.array_equal(c, left @ right)


def test_a_batch_is_as_many_products() -> None:
    check(100, 264, 72, example.gemm, batch=3, ctas=2, more=True)
    check(100, 264, 72, example.gemm_with_producer, batch=3, ctas=2)


def test_gelu_is_that_of_the_sums() -> None:
    a, b = (stored(integers(seed, 72, 72) / 4, "float16", turned=False) for seed in (1, 2))
    c = stored(np.zeros((72, 72)), "float16", turned=False)
    grid, arguments = example.arranged(a, b, c, activation="gelu")
    tj.simulate(example.gemm, grid, *arguments, target="sm_90a")
    wide = a.astype(np.float64) @ b.astype(np.float64)
    wanted = 0.5 * wide * (1 + np.vectorize(erf)(wide / np.sqrt(2)))
    np.testing.assert_allclose(c.astype(np.float64), wanted, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", KERNELS)
def test_gelu_by_tanh_errs_as_it_says(name: str) -> None:
    rng = np.random.default_rng(5)
    a, b = (stored(rng.standard_normal(shape) / 3, "float16", turned=False) for shape in ((72, 64), (64, 264)))
    bias = rng.standard_normal(264).astype(np.float16)
    c = stored(np.full((72, 264), np.nan), "float16", turned=False)
    grid, arguments = example.arranged(a, b, c, bias, activation="gelu_tanh")
    tj.simulate(KERNELS[name], grid, *arguments, target="sm_90a")
    wide = a.astype(np.float64) @ b.astype(np.float64) + bias
    exact = 0.5 * wide * (1 + np.vectorize(erf)(wide / np.sqrt(2)))
    assert (np.abs(c - exact) <= 0.0005 + 0.0003 * np.abs(wide) + 2.0**-11 * np.abs(exact)).all()


def test_products_of_nothing_are_zeros() -> None:
    check(8, 9, 0, example.gemm_with_producer, batch=2, more=True, activation="relu")


def test_rows_that_tma_cannot_take_are_refused_by_their_argument() -> None:
    c = np.zeros((8, 8), np.float16)
    a, b = np.zeros((8, 9), np.float16), np.zeros((9, 8), np.float16)
    with pytest.raises(ValueError, match=r"a: rows begin every 18 bytes, and TMA takes multiples of 16: .*matmul\.py"):
        example.arranged(a, b, c)
    with pytest.raises(ValueError, match=r"b: columns begin every 18 bytes"):
        example.arranged(stored(a.astype(np.float32), "float16", turned=False), np.zeros((8, 9), np.float16).T, c)
    with pytest.raises(ValueError, match="c: rows must be contiguous"):
        example.arranged(c, c, c.T)
    with pytest.raises(ValueError, match="a has no contiguous dimension"):
        example.arranged(np.zeros((16, 16), np.float16)[::2, ::2], c, c)
