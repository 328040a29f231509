"""Which tiles are covered as one run: those of which nothing tells the dimensions apart, in memory that is one."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tilejit as tj
from tests.support.programs import source_of
from tilejit.compiled import Compiled

#: of a kernel on X and Y, 4,096 rows of 3 float32, and G of padded rows, what it says of the tile x
LOAD = "x = tj.cta.load(X[0:1024, 0:3])"
STORE = "tj.cta.store(Y[0:1024, 0:3], x)"
FLAT = {
    "copy": (LOAD, STORE),
    "elementwise": (LOAD, "x = tj.where(x > 1, tj.exp(x) * 2, tj.cta.full((1024, 3), 1.5, tj.float32))", STORE),
    "a mask that is computed of it": (LOAD, "tj.cta.store(Y[0:1024, 0:3], x, mask=x > 0)"),
    "a sum of all": (LOAD, "x = x - tj.sum(x)", STORE),
    "round a loop": (LOAD, "for i in range(n):", "    x = x * 2 + tj.cta.load(X[4*i:4*i+1024, 0:3])", STORE),
    "rows after an index": ("x = tj.cta.load(Z[n, 0:1024, 0:3])", STORE),
}
APART = {
    "a row beside it": (LOAD, "x = x * tj.cta.load(X[n, 0:3])", STORE),
    "sums of rows": (LOAD, "x = x - tj.sum(x, axis=1)[:, None]", STORE),
    "its indices": (LOAD, "x = tj.where(tj.cta.indices((1024, 3), 1) > n, x, 0)", STORE),
    "a part of it": (LOAD, STORE, "tj.cta.store(Y[0:512, 0:3], x[0:512, :])"),
    "an element of it": (LOAD, STORE, "tj.cta.store(Y[0, 0:1], x[0:1, 0])"),
    "a transpose": (LOAD, "tj.cta.store(T[0:3, 0:1024], x.T)"),
    "a part of the rows": ("x = tj.cta.load(X[0:1024, 0:2])", "tj.cta.store(Y[0:1024, 0:2], x)"),
    "rows that begin anywhere": ("x = tj.cta.load(X[0:1024, n:n+3])", STORE),
    "padded rows": (LOAD, "x = x + tj.cta.load(G[0:1024, 0:3])", STORE),
    "strides of the launch": (LOAD, "x = x + tj.cta.load(R[0:1024, 0:3])", STORE),
    "a layout of its own": ("x = tj.cta.load(X[0:1024, 0:3], layout=L)", STORE),
    "shared memory": (LOAD, "tj.cta.store(tj.alloc_shared((1024, 3), tj.float32), x)"),
    "sums by atomics": (LOAD, "tj.atomic.add(Y[0:1024, 0:3], x)"),
}


def made(*lines: str) -> Compiled:
    rows = "tj.spec((4096, 3), tj.float32)"
    text = "\n".join([
        "def kernel(R, n: tj.int32,",
        f"           X: tj.Tensor = {rows}, Y: tj.Tensor = {rows},",
        "           T: tj.Tensor = tj.spec((3, 4096), tj.float32), Z: tj.Tensor = tj.spec((4, 1024, 3), tj.float32),",
        "           G: tj.Tensor = tj.spec((4096, 3), tj.float32, strides=(4, 1))):",
        *(f"    {line}" for line in lines),
    ])
    layout = tj.S[(8, 128, 3) : (3, 1 @ tj.tx, 1)]
    kernel = tj.kernel(threads=128)(source_of(text + "\n", L=layout))
    arrays = [tj.spec((4096, 3), tj.float32) for _ in "RXY"]
    others = [tj.spec((3, 4096), tj.float32), tj.spec((4, 1024, 3), tj.float32)]
    padded = tj.spec((4096, 3), tj.float32, strides=(4, 1))
    return kernel.compile(arrays[0], tj.int32, *arrays[1:], *others, padded, target="sm_90a")


def copied(box: str, array: Any) -> Compiled:
    """A copy of a region of a pinned array."""
    text = (
        "def kernel(X: tj.Tensor = A, Y: tj.Tensor = A):\n"
        f"    tj.cta.store(Y[{box}], tj.cta.load(X[{box}]))\n"
    )
    return tj.kernel(threads=128)(source_of(text, A=array)).compile(array, array, target="sm_90a")


def accesses(compiled: Compiled, verb: str) -> list[str]:
    """The accesses of global memory, by what they move."""
    return re.findall(rf"\b{verb}\.global\.(\S+)", compiled.ptx)


@pytest.mark.parametrize("lines", FLAT.values(), ids=list(FLAT))
def test_what_nothing_tells_apart_is_flat(lines: tuple[str, ...]) -> None:
    compiled = made(*lines)
    assert "(1024, 3) as (3072,)" in str(compiled.explain())
    assert all("v4.b32" in accesses(compiled, verb) for verb in ("ld", "st"))


@pytest.mark.parametrize("lines", APART.values(), ids=list(APART))
def test_what_something_tells_apart_is_not(lines: tuple[str, ...]) -> None:
    compiled = made(*lines)
    assert " as (" not in "".join(map(str, compiled.derivation.layouts))
    assert "v4.b32" not in accesses(compiled, "ld")


@pytest.mark.parametrize(
    ("shape", "dtype", "each"),
    [
        ((1024, 3), tj.float32, 6), ((1024, 3), tj.uint8, 2), ((256, 17), tj.float16, 5), ((100, 6), tj.float32, 2),
        ((64, 48), tj.float32, 6), ((4, 8, 5, 6), tj.float16, 1),
    ],
    ids=str,
)
def test_a_flat_tile_takes_as_few_vectors_as_it_fills(shape: tuple[int, ...], dtype: tj.DType, each: int) -> None:
    """each: vectors of 16 bytes of a thread, where rows by themselves took 64, 48, 96, 4, 8 and 8 accesses."""
    everything = ", ".join(f"0:{n}" for n in shape)
    compiled = copied(everything, tj.spec(shape, dtype))
    assert accesses(compiled, "ld") == each * ["v4.b32"]
    # in PTX, threads with one vector fewer may have their stores apart: they are counted before
    assert len(re.findall(r"^ *move Y\S*\[", compiled.lane_ir, re.MULTILINE)) == each
    stores = accesses(compiled, "st")
    assert set(stores) == {"v4.b32"} and each <= len(stores) < 2 * each


def test_rows_that_are_whole_accesses_of_warps_stay_rows() -> None:
    compiled = copied("0:8, 0:128", tj.spec((64, 128), tj.float32))
    assert [choice.axes for choice in compiled.derivation.layouts] == [(8, 128)]
