"""`a @ b` of batches of matrices on the simulator, with all checks: exact sums of small integers, as NumPy's."""

from __future__ import annotations

from math import prod

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilejit as tj
from tests.support.profiles import times
from tests.support.programs import source_of
from tilejit.errors import KernelTypeError
from tilejit.runtime.device import Device

Array = np.ndarray

EXTENTS = st.sampled_from((1, 2, 5, 8, 13, 16, 17, 32))
BATCHES = st.sampled_from((
    ((3,), (3,)), ((2, 3), (3,)), ((4,), ()), ((), (2,)), ((2, 1), (1, 3)), ((1,), (5,)), ((0,), (0,)),
))


def box(shape: tuple[int, ...]) -> str:
    return ", ".join(f"0:{n}" for n in shape)


def multiplied(
    batches: tuple[tuple[int, ...], tuple[int, ...]], sizes: tuple[int, int, int], dtype: type, place: tuple[str, int],
    right: str, end: str, device: str,
) -> tuple[Array, Array]:
    """What a kernel computes, and what NumPy does. right: whether B is transposed. end: the product's use."""
    (m, n, k), (scope, threads) = sizes, place
    shapes = (*batches[0], m, k), (*batches[1], k, n)
    stored = (*batches[1], n, k) if right else shapes[1]
    order = (*range(len(batches[1])), len(batches[1]) + 1, len(batches[1]))
    rng = np.random.default_rng(m + n + k)
    a, b = (rng.integers(-3, 4, shape).astype(dtype) for shape in (shapes[0], stored))
    sums = {np.int8: np.int32, np.float64: np.float64}.get(dtype, np.float32)
    made = np.zeros((*np.broadcast_shapes(*batches), m, n), sums)
    turned = f".permute{order}" if right else ""
    value, wide = "a @ b", made.dtype.type
    expected = a.astype(wide) @ (b.transpose(order) if right else b).astype(wide)
    lines = [f"a = tj.{scope}.load(A[{box(a.shape)}])", f"b = tj.{scope}.load(B[{box(b.shape)}]){turned}"]
    if end == "sum of two":
        lines += [f"c = tj.{scope}.full({made.shape}, 2, C.dtype)", "for _ in range(2):", "    c += a @ b"]
        value, expected = "c", 2 * expected + 2
    elif end == "scaled":
        value, expected = "a @ b * 2 + 1", 2 * expected + 1
    lines.append(f"tj.{scope}.store(C[{box(made.shape)}], {value})")
    text = "def k(A, B, C):\n" + "".join(f"    {line}\n" for line in lines)
    with tj.use_device(device):
        tj.kernel(threads=threads)(source_of(text))[1](a, b, made)
    return made, expected


@settings(max_examples=times(0.3))
@given(
    batches=BATCHES, sizes=st.tuples(EXTENTS, EXTENTS, EXTENTS),
    dtype=st.sampled_from((np.float16, ml_dtypes.bfloat16, np.int8, np.float64)),
    place=st.sampled_from((("cta", 32), ("cta", 64), ("cta", 128), ("warp", 64), ("warpgroup", 128))),
    right=st.sampled_from(("", "transposed")), end=st.sampled_from(("", "sum of two", "scaled")),
)
def test_batches_are_multiplied_matrix_by_matrix(batches, sizes, dtype, place, right, end) -> None:
    m, n, k = sizes
    threads = 32 if place[0] == "warp" else place[1]
    most = 32 * threads // (2 if dtype is np.float64 else 1)
    while prod(np.broadcast_shapes(*batches)) * max(m * n, m * k, k * n) > most:
        m, n, k = -(-m // 2), -(-n // 2), -(-k // 2)
    found, expected = multiplied(batches, (m, n, k), dtype, place, right, end, "sim")
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
@pytest.mark.parametrize("end", ["", "sum of two"])
def test_batches_on_a_device(end: str, dtype: type, device: Device) -> None:
    sizes = (16, 16, 24) if dtype is np.float64 else (32, 16, 48)
    found, expected = multiplied(((4,), (4,)), sizes, dtype, ("cta", 64), "", end, device.name)
    np.testing.assert_array_equal(found, expected)


def test_the_matrices_of_a_batch_are_in_registers_as_the_instruction_takes_them() -> None:
    """Nothing is converted: no copy but the loads and the store, and no shared memory."""
    text = """def k(A, B, C):
    c = tj.cta.load(A[0:4, 0:32, 0:32]) @ tj.cta.load(B[0:4, 0:32, 0:16])
    tj.cta.store(C[0:4, 0:32, 0:16], c * 2)
"""
    made = tj.kernel(threads=64)(source_of(text)).compile(
        tj.spec((4, 32, 32), tj.float16), tj.spec((4, 32, 16), tj.float16), tj.spec((4, 32, 16), tj.float32),
        target="sm_90a",
    )
    assert str(made.tile_ir).count("cta.gemm") == 4 and str(made.tile_ir).count("cta.copy") == 3
    assert made.shared_bytes == 0 and "bar.sync" not in made.ptx


@pytest.mark.parametrize(("a", "b", "words"), [
    ((2, 16, 8), (3, 8, 16), "the batches' shapes (2,) and (3,) don't broadcast"),
    ((2, 16, 8), (2, 16, 8), "8 isn't 16"),
    ((16,), (2, 16, 8), "@ multiplies matrices"),
])
def test_batches_that_do_not_fit_are_refused(a: tuple[int, ...], b: tuple[int, ...], words: str) -> None:
    text = f"def k():\n    x = tj.cta.zeros({a}, tj.float16) @ tj.cta.zeros({b}, tj.float16)\n"
    with pytest.raises(KernelTypeError) as caught:
        tj.kernel(threads=32)(source_of(text)).compile(target="sm_90a")
    assert words in caught.value.message and caught.value.hint and caught.value.span is not None
