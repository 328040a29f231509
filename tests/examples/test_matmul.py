"""examples/matmul.py on the simulator, with all checks: ragged shapes, bias, activations, bank conflicts."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import tilejit as tj
from examples import matmul as example
from examples.matmul import grid, matmul
from tilejit.dtypes import DTYPES

#: M, N, K: less than a tile, whole tiles, over every edge; K below, at and above the stages' slices
SHAPES = [
    (1, 1, 1), (1, 8, 8), (8, 1, 33), (3, 5, 7), (16, 16, 16), (17, 9, 31), (64, 64, 64), (100, 100, 100),
    (31, 129, 32), (127, 127, 97), (128, 128, 128), (129, 128, 129), (255, 65, 40), (256, 128, 160), (257, 129, 161),
    (200, 328, 136), (300, 7, 250), (5, 300, 96), (130, 260, 65), (512, 40, 48),
]


def padded(values: NDArray[np.float32], dtype: str) -> NDArray[np.generic]:
    """The values in rows that start at multiples of 16 bytes, wherever they end; what lies between is NaN."""
    rows, columns = values.shape
    whole = np.full((rows, -(-columns // 8) * 8), np.nan, DTYPES[dtype].numpy)
    whole[:, :columns] = values
    return whole[:, :columns]


def operands(m: int, n: int, k: int, dtype: str) -> tuple[NDArray[np.generic], ...]:
    """A, B, a bias and C of small integers, whose products every type here holds exactly."""
    random = np.random.default_rng(m * n + k)
    a, b = (padded(random.integers(-2, 3, shape).astype(np.float32), dtype) for shape in ((m, k), (k, n)))
    bias = padded(random.integers(-4, 5, (1, n)).astype(np.float32), dtype)
    return a, b, np.broadcast_to(bias, (m, n)), padded(np.full((m, n), np.nan, np.float32), dtype)


def expected(a: NDArray[np.generic], b: NDArray[np.generic], bias: NDArray[np.generic]) -> NDArray[np.float32]:
    sums = a.astype(np.float32) @ b.astype(np.float32) + bias.astype(np.float32)
    return np.asarray(sums, np.float32)


@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
def test_a_product_of_any_shape_is_exact(m: int, n: int, k: int) -> None:
    a, b, bias, c = operands(m, n, k, "float16")
    with tj.use_device("sim:sm_90a"):
        matmul[grid(m, n)](a, b, bias, c, None)
    assert np.array_equal(c, expected(a, b, bias).astype(np.float16))


@pytest.mark.parametrize("activation", [None, "relu", "gelu"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_bias_and_activation_are_applied_to_the_float32_sums(dtype: str, activation: str | None) -> None:
    a, b, bias, c = operands(70, 136, 72, dtype)
    with tj.use_device("sim:sm_90a"):
        matmul[grid(70, 136)](a, b, bias, c, activation)
    sums = expected(a, b, bias)
    wanted = {None: sums, "relu": np.maximum(sums, 0), "gelu": gelu(sums)}[activation]
    made, exact = c.astype(np.float32), wanted.astype(c.dtype).astype(np.float32)
    # gelu errs by up to 4 ulp of float32: at most the other neighbour once rounded
    close = 0 if activation != "gelu" else 2.0 ** (-10 if dtype == "float16" else -7)
    assert np.all(np.abs(made - exact) <= close * np.abs(exact) + (2.0**-24 if close else 0))


def test_without_a_bias_the_product_is_all() -> None:
    a, b, _, c = operands(70, 136, 72, "float16")
    with tj.use_device("sim:sm_90a"):
        matmul[grid(70, 136)](a, b, None, c, None)
    assert np.array_equal(c, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))


@pytest.mark.parametrize(("m", "n"), [(8, 8), (300, 140), (5, 9)])
def test_a_product_of_no_columns_is_the_bias(m: int, n: int) -> None:
    _, _, bias, c = operands(m, n, 8, "float16")
    a, b = np.zeros((m, 0), np.float16), np.zeros((0, n), np.float16)
    with tj.use_device("sim:sm_90a"):
        matmul[grid(m, n)](a, b, bias, c, "relu")
    assert np.array_equal(c, np.maximum(bias, 0))


@pytest.mark.parametrize(("m", "n", "k"), [(0, 8, 8), (8, 0, 8)])
def test_a_product_without_elements_launches_nothing(m: int, n: int, k: int) -> None:
    operands = [np.zeros(shape, np.float16) for shape in ((m, k), (k, n), (m, n), (m, n))]
    with tj.use_device("sim:sm_90a"):
        matmul[grid(m, n)](*operands, None)


def test_rows_at_an_odd_number_of_elements_are_refused_with_the_row_in_the_way() -> None:
    a, b, c = (np.zeros(shape, np.float16) for shape in ((7, 5), (5, 8), (7, 8)))
    with tj.use_device("sim:sm_90a"), pytest.raises(tj.DispatchError, match=r"rows of A start every .*multiple of 2\)"):
        matmul[grid(7, 8)](a, b, c, c, None)


@pytest.mark.parametrize("step", [2, 4])
def test_rows_at_4_or_8_bytes_take_narrower_copies(step: int) -> None:
    m, n, k = 40, 12 * step + step, 9 * step
    random = np.random.default_rng(step)
    a, b, bias = (random.integers(-2, 3, shape).astype(np.float16) for shape in ((m, k), (k, n), (m, n)))
    c = np.full((m, n), np.nan, np.float16)
    with tj.use_device("sim:sm_90a"):
        matmul[grid(m, n)](a, b, bias, c, None)
    assert np.array_equal(c, expected(a, b, bias).astype(np.float16))


def gelu(x: NDArray[np.float32]) -> NDArray[np.float32]:
    from math import erf, sqrt

    wide = x.astype(np.float64)
    return np.asarray(wide * (1 + np.vectorize(erf)(wide / sqrt(2))) / 2, np.float32)


def test_no_access_to_shared_memory_has_a_bank_conflict() -> None:
    a, b, bias, c = operands(256, 128, 96, "float16")
    report = tj.simulate(matmul, grid(256, 128), a, b, bias, c, None, target="sm_90a", profile=True)
    traffic = [line.traffic for line in report.lines.values()]
    assert sum(t.wavefronts for t in traffic) > 0
    assert [t for t in traffic if t.wavefronts != t.ideal_wavefronts] == []
    names = set(report.instructions)
    assert {"ldmatrix", "stmatrix", "mma", "cp"} <= {name.split(".")[0] for name in names}


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with tj.use_device("sim:sm_90a"):
        example.main()
    assert "largest error" in capsys.readouterr().out
