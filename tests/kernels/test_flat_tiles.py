"""Tiles of arrays whose shapes are pinned, which may be covered as one run: as NumPy, at any edge."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import tilejit as tj
from tests.support.programs import source_of
from tilejit.dtypes import DType
from tilejit.runtime.device import Device

EXTENTS = st.sampled_from((1, 2, 3, 5, 6, 7, 8, 13, 17, 31, 48, 100))
#: what is computed of the tile x, in the kernel and by NumPy
COMPUTED = ("x", "x * 2 + x", "where(x > 3, x, x - 1)", "x - x.sum()")


@st.composite
def regions(draw: st.DrawFn) -> dict[str, Any]:
    shape = draw(st.lists(EXTENTS, min_size=2, max_size=3).map(tuple).filter(lambda s: math.prod(s) <= 1500))
    leads = draw(st.lists(st.sampled_from((1, 2, 3)), max_size=1))
    return {
        "leads": leads,
        "at": [draw(st.integers(-1, n)) for n in leads],
        "shape": shape,
        "start": draw(st.integers(-3, 3)),
        "further": draw(st.integers(-2, 4)),
        "dtype": draw(st.sampled_from((tj.float32, tj.float16, tj.int32, tj.uint8, tj.float64))),
        "scope": draw(st.sampled_from(("cta", "cta", "warp", "warpgroup"))),
        "threads": draw(st.sampled_from((128, 256))),
        "computed": draw(st.sampled_from(COMPUTED)),
        "shift": draw(st.sampled_from((0, 0, 1, 4))),
    }


def pinned_array(shape: tuple[int, ...], dtype: DType, shift: int, seed: int) -> np.ndarray[Any, Any]:
    """An array that begins `shift` elements after a multiple of 64 bytes."""
    count = math.prod(shape)
    room = np.zeros((count + shift) * dtype.bytes + 64, np.uint8)
    first = -room.ctypes.data % 64 + shift * dtype.bytes
    made = room[first : first + count * dtype.bytes].view(dtype.numpy).reshape(shape)
    made[...] = np.random.default_rng(seed).integers(0, 9, shape)
    return made


@given(regions())
def test_a_region_of_a_pinned_array_is_moved_and_computed_as_by_numpy(device: Device, case: dict[str, Any]) -> None:
    shape, start, dtype = case["shape"], case["start"], case["dtype"]
    rows = max(shape[0] + case["further"], 1)
    whole = (*case["leads"], rows, *shape[1:])
    box = ", ".join([*(["k"] * len(case["at"])), f"n : n + {shape[0]}", *(f"0:{n}" for n in shape[1:])])
    language = case["computed"].replace("where", "tj.where").replace("x.sum()", "tj.sum(x).astype(x.dtype)")
    text = (
        "def kernel(k: tj.int32, n: tj.int32, X: tj.Tensor = A, Y: tj.Tensor = A):\n"
        f"    x = tj.{case['scope']}.load(X[{box}], fill=1)\n"
        f"    tj.{case['scope']}.store(Y[{box}], ({language}).astype(Y.dtype))\n"
    )
    x, y = (pinned_array(whole, dtype, case["shift"], seed) for seed in (1, 2))
    expected = y.copy()
    kernel = tj.kernel(threads=case["threads"])(source_of(text, A=tj.spec(whole, dtype)))
    with tj.use_device("cuda" if device.number >= 0 else "sim"):
        kernel[1](sum(case["at"]), start, x, y)
    if all(0 <= i < n for i, n in zip(case["at"], case["leads"], strict=True)):
        of_lead, into = x[tuple(case["at"])], expected[tuple(case["at"])]
        inside = [i for i in range(shape[0]) if 0 <= start + i < rows]
        tile = np.ones(shape, x.dtype)
        tile[inside] = of_lead[[start + i for i in inside]]
        with np.errstate(all="ignore"):
            total = tile.astype(np.float64 if dtype.is_float else np.int64).sum().astype(x.dtype)
            made = eval(case["computed"].replace("x.sum()", "total"), {"x": tile, "total": total, "where": np.where})
        into[[start + i for i in inside]] = np.asarray(made)[inside].astype(x.dtype)
    np.testing.assert_array_equal(y, expected)
