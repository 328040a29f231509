"""`X.reshape(...)` of parameters with run-time strides, compared with NumPy, and the checks at launch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilejit as tj
from tests.support.programs import source_of
from tilejit.runtime.reshapes import strides_without_copy

EXTENTS = st.sampled_from([1, 1, 2, 3, 4, 6])


def kernel(text: str) -> tj.Kernel:
    return tj.kernel(threads=32)(source_of(text))


def copier(shape: str, rank: int) -> tj.Kernel:
    """A kernel that copies X in another shape to Y, element by element, and its extents to S."""
    indices = ["i"]
    for d in reversed(range(1, rank)):
        indices[:1] = [f"{indices[0]} // Z.shape[{d}]", f"{indices[0]} % Z.shape[{d}]"]
    sizes = "".join(f"    S[{d}] = Z.shape[{d}]\n" for d in range(rank))
    return kernel(
        f"def k(X, Y, S, n, m):\n    Z = X.reshape({shape})\n    i = tj.cta_id(0)\n    Y[i] = Z[{', '.join(indices)}]\n"
        f"    if tj.cta_id(0) == 0:\n    {sizes.replace(chr(10) + '    ', chr(10) + '        ')}"
    )


#: shapes that are written in a kernel, and their ranks; the others are used with X of rank 3
SHAPES = {
    "-1": 1, "(-1, X.shape[2])": 2, "X.shape[0], -1": 2, "X.shape[0] * X.shape[1], X.shape[2]": 2, "n, -1": 2,
    "n, -1, X.shape[2]": 3, "X.shape[0], n, -1, X.shape[2]": 4, "-1, 2": 2, "(X.shape[0], X.shape[1], -1, m)": 4,
    "1, -1, 1": 3, "X.shape[0], X.shape[1], 1, X.shape[2]": 4, "n * m, -1": 2, "X.size // m, m": 2,
    "X.shape[1], X.shape[0], X.shape[2]": 3, "2, -1, 3": 3, "6, 4": 2,
}
COPIERS: dict[str, tj.Kernel] = {}


def strided(shape: tuple[int, ...], gaps: tuple[int, ...], order: tuple[int, ...]) -> np.ndarray:
    """An array whose dimensions are cut from larger ones, and laid out in some order."""
    whole = [shape[d] + gaps[d] for d in order]
    x = np.arange(math.prod(whole), dtype=np.float32).reshape(whole)
    return x.transpose(np.argsort(order))[tuple(slice(0, n) for n in shape)]


@pytest.mark.parametrize("written", SHAPES)
@given(
    shape=st.tuples(EXTENTS, EXTENTS, EXTENTS), gaps=st.tuples(*[st.sampled_from([0, 0, 0, 2])] * 3),
    order=st.sampled_from([(0, 1, 2), (0, 1, 2), (1, 0, 2), (2, 1, 0)]), n=st.sampled_from([1, 2, 3, 4]),
    m=st.sampled_from([1, 2, 6]),
)
def test_the_view_is_that_of_numpy_or_refused(
    written: str, shape: tuple[int, ...], gaps: tuple[int, ...], order: tuple[int, ...], n: int, m: int
) -> None:
    rank = SHAPES[written]
    k = COPIERS.setdefault(written, copier(written, rank))
    x = strided(shape, gaps, order)
    y, sizes = np.zeros(x.size, np.float32), np.zeros(rank, np.int32)
    wanted = eval(written, {"X": x, "n": n, "m": m})
    try:
        expected = x.reshape(wanted)
    except ValueError:
        expected = None
    try:
        k[x.size](x, y, sizes, n, m)
    except tj.LaunchError as error:
        assert f"X of shape {shape} and strides" in error.message and "can't be reshaped to" in error.message
        assert error.span is not None and "X.reshape" in error.span.text
        assert expected is None or not x.flags.c_contiguous
    else:
        assert expected is not None and tuple(sizes) == expected.shape
        np.testing.assert_array_equal(y, expected.ravel())


@given(
    data=st.data(), shape=st.lists(EXTENTS, min_size=1, max_size=4).map(tuple),
    wanted=st.lists(EXTENTS, max_size=4).map(tuple),
)
def test_strides_are_those_of_a_view_of_numpy(data: Any, shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    if math.prod(shape) != math.prod(wanted):
        wanted = (*wanted, 1, *shape[::-1])[-len(shape) - 1 :]
    gaps = tuple(data.draw(st.sampled_from([0, 0, 1])) for _ in shape)
    x = strided(shape, gaps, tuple(data.draw(st.permutations(range(len(shape))))))
    found = strides_without_copy(x.shape, [s // x.itemsize for s in x.strides], wanted)
    y = x.reshape(wanted)
    assert (found is not None) == np.shares_memory(x, y)
    if found is not None:
        assert all(n == 1 or s == t // x.itemsize for n, s, t in zip(wanted, found, y.strides, strict=True))


def test_only_the_merged_dimensions_have_to_be_adjacent() -> None:
    k = kernel(
        "def k(X, Y):\n    Z = X.reshape(-1, X.shape[2])\n"
        "    tj.warp.store(Y[tj.cta_id(0), 0:32], tj.warp.load(Z[tj.cta_id(0), 0:32]))\n"
    )
    whole = np.arange(4 * 5 * 40, dtype=np.float32).reshape(4, 5, 40)
    y = np.zeros((20, 32), np.float32)
    for x in (whole[:, :, :32], whole[:1, :, :32], whole[:, :1, 8:], np.ascontiguousarray(whole[:, :, :32])):
        y[:] = 0
        k[x.shape[0] * x.shape[1]](x, y)
        np.testing.assert_array_equal(y[: x.shape[0] * x.shape[1]], x.reshape(-1, 32))
    with pytest.raises(tj.LaunchError, match=r"X of shape \(4, 3, 32\) and strides \(200, 40, 1\).* to \(12, 32\)"):
        k[12](whole[:, :3, :32], y)


def test_known_alignment_survives() -> None:
    for shape, spec in (("-1, X.shape[2]", (4, 2, 64)), ("-1, 64", (512,))):
        k = kernel(
            "def k(X):\n    s = tj.alloc_shared((8, 64), X.dtype)\n"
            f"    tj.cta.copy(s, X.reshape({shape})[0:8, 0:64])\n    tj.cta_sync()\n    X.reshape(-1)[0] = s[0, 1]\n"
        )
        assert "ld.global.v4" in k.compile(tj.spec(spec, tj.float32), target="sm_90a").ptx


def test_a_check_is_made_wherever_the_view_is() -> None:
    texts = (
        "    Z = X.reshape(n, -1)\n",
        "    if n > 100:\n        X.reshape(n, -1)[0, 0] = 1\n",
        "    for i in range(n):\n        k = X.shape[0] * n\n        Y[0] = X.reshape(k // X.shape[0], -1)[0, 0]\n",
        "    f(X, n)\n",
    )
    x, y = np.zeros((6, 2), np.float32), np.zeros(1, np.float32)
    for text in texts:
        k = kernel(f"@tj.function\ndef f(A, m):\n    return A.T.reshape(-1, m, 2)\n\ndef k(X, Y, n):\n{text}")
        with pytest.raises(tj.LaunchError, match="can't be reshaped to") as caught:
            k[1](x, y, 5)
        assert caught.value.span is not None
        with pytest.raises(tj.LaunchError, match="can't be reshaped to"):
            tj.simulate(k, 1, x, y, 5)
        with pytest.raises(tj.LaunchError, match="can't be reshaped to"):
            k[1].bind(x, y, 5)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("Y[0], -1", "an extent of a tensor's shape must be computed from the kernel's arguments"),
        ("tj.cta_id(0), -1", "an extent of a tensor's shape must be computed from the kernel's arguments"),
        ("1.5, 2", "an extent of a shape"),
        ("s, 2", "an extent of a shape must be an integer; this is a scalar of float32"),
        ("-1, -1", "can't reshape to"),
        ("-2, 3", "can't reshape to"),
    ],
)
def test_other_extents_are_refused(shape: str, message: str) -> None:
    k = kernel(f"def k(X, Y: tj.Tensor, s: tj.float32):\n    Y[0] = X.reshape({shape})[0, 0]\n")
    with pytest.raises(tj.KernelTypeError, match=message.replace("(", r"\(")) as caught:
        k[1](np.zeros((6, 2), np.float32), np.zeros(1, np.int32), 1.0)
    assert caught.value.span is not None and caught.value.hint


def test_a_part_is_refused() -> None:
    k = kernel("def k(X):\n    X[0:2, 0:2].reshape(-1)[0] = 1\n")
    with pytest.raises(tj.KernelTypeError, match="can't be reinterpreted"):
        k[1](np.zeros((6, 2), np.float32))


@pytest.mark.parametrize("rows", [-2, -4, -(2**31)])
def test_negative_extents_are_refused_as_such(rows: int) -> None:
    k = tj.kernel(threads=32)(source_of("def k(A, n: tj.int32):\n    B = A.reshape(n, -1)\n    B[0, 0] = 1\n"))
    with tj.use_device("sim"), pytest.raises(tj.LaunchError, match="extents aren't negative") as error:
        k[1](np.zeros((4, 32), np.float32), rows)
    assert "one -1" in error.value.hint
