"""Tiles and scalars as another type of the same width, whatever their shapes, parts and layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import source_of
from tilejit import S, laneid

Array = np.ndarray


def launched(body: str, *arrays: Array, threads: int = 64, **names: Any) -> None:
    """Runs a kernel of X and O with the statements of `body`."""
    text = f"def k(X, O{''.join(f', {name}: tj.constexpr' for name in names)}):\n    {body}\n"
    tj.kernel(threads=threads)(source_of(text, S=S, laneid=laneid))[1](*arrays, **names)


SQUARES = {
    "x.view(tj.uint32) >> 23": lambda x: x.view(np.uint32) >> 23,
    "x.T.view(tj.uint32) >> 23": lambda x: x.T.copy().view(np.uint32) >> 23,
    "x.view(tj.uint32) + x.view(tj.uint32).T": lambda x: x.view(np.uint32) + x.view(np.uint32).T,
    "(x.view(tj.uint32)[:, 1:3] ^ x[:, 0:1].view(tj.uint32))[:, 0:1] + tj.cta.zeros((N, N), tj.uint32)":
        lambda x: (x.view(np.uint32)[:, 1:2] ^ x.view(np.uint32)[:, 0:1]) + np.zeros_like(x, np.uint32),
    "(x * 2).view(tj.int32).view(tj.uint32)": lambda x: (x * 2).view(np.uint32),
    "tj.sum(x.view(tj.uint32) & 3, axis=1)[:, None] + x.view(tj.uint32)":
        lambda x: (x.view(np.uint32) & 3).sum(1, dtype=np.uint32)[:, None] + x.view(np.uint32),
    "(tj.cta.indices((N,), 0) + 1).view(tj.uint32)[:, None] + tj.cta.indices((N,), 0).view(tj.uint32)":
        lambda x: np.add.outer(np.arange(1, len(x) + 1), np.arange(len(x))).astype(np.uint32),
}


@pytest.mark.parametrize("extent", [3, 32, 33, 50])
@pytest.mark.parametrize("written", SQUARES)
def test_a_tile_of_any_shape_is_seen_as_another_type(written: str, extent: int) -> None:
    x = np.random.default_rng(1).standard_normal((extent, extent)).astype(np.float32)
    o = np.zeros_like(x, np.uint32)
    launched(f"x = tj.cta.load(X[0:N, 0:N])\n    tj.cta.store(O[0:N, 0:N], {written})", x, o, N=extent)
    np.testing.assert_array_equal(o, SQUARES[written](x))


@pytest.mark.parametrize("extent", [8, 33])
def test_names_that_change_keep_the_bits_that_were_seen(extent: int) -> None:
    x = np.random.default_rng(2).random(extent, dtype=np.float32)
    o = np.zeros_like(x, np.uint32)
    launched(
        "x, seen = tj.cta.load(X[0:N]), tj.cta.zeros((N,), tj.uint32)\n    for k in range(4):\n"
        "        u = x.view(tj.uint32)\n        x = x * 1.5\n        seen ^= u\n"
        "        x = (x.view(tj.uint32) + 1).view(tj.float32)\n    tj.cta.store(O[0:N], seen)",
        x, o, N=extent,
    )
    wanted = np.zeros_like(o)
    for _ in range(4):
        wanted ^= x.view(np.uint32)
        x = ((x * np.float32(1.5)).view(np.uint32) + np.uint32(1)).view(np.float32)
    np.testing.assert_array_equal(o, wanted)


def test_a_view_has_the_layout_of_its_tile() -> None:
    x, o = np.arange(100, dtype=np.float32), np.zeros(100, np.int32)
    launched(
        "x = tj.cta.load(X[0:100])\n    y = x.view(tj.int32)\n    tj.static_assert(x.layout == y.layout)\n"
        "    tj.cta.store(O[0:100], y)",
        x, o,
    )
    np.testing.assert_array_equal(o, x.view(np.int32))


#: a part of a tile with a given layout, (8, 64) -> the same of NumPy's
PARTS = {
    "x[2:5, 3:40]": lambda x: x[2:5, 3:40],
    "x[:, 7]": lambda x: x[:, 7],
    "x[1, 20:21]": lambda x: x[1, 20:21],
    "x.T[9:50, 1:8]": lambda x: x.T[9:50, 1:8],
}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_a_given_layout_is_seen_as_another_type(part: str) -> None:
    x = np.random.default_rng(5).standard_normal((8, 64)).astype(np.float32)
    seen = np.ascontiguousarray(PARTS[part](x)).view(np.int32)
    o = np.zeros((2, *seen.shape), np.int32)
    box = ", ".join(f"0:{n}" for n in seen.shape)
    launched(
        "x = tj.warp.load(X[0:8, 0:64], layout=S[(8, 2, 32) : (2, 1, 1 @ laneid)])\n"
        f"    tj.warp.store(O[0, {box}], ({part}).view(tj.int32))\n"
        f"    tj.warp.store(O[1, {box}], ({part}).view(tj.int32) - tj.max(({part}).view(tj.int32)))",
        x, o, threads=32,
    )
    np.testing.assert_array_equal(o, [seen, seen - seen.max()])


def test_a_product_takes_the_bits_of_its_operands() -> None:
    x = np.random.default_rng(3).standard_normal((64, 64)).astype(np.float16)
    o = np.zeros((64, 64), np.float32)
    launched(
        "x = tj.cta.load(X[0:64, 0:64]).view(tj.float16)\n    tj.cta.store(O[0:64, 0:64], x @ x)",
        x.view(np.uint16), o, threads=128,
    )
    np.testing.assert_allclose(o, x.astype(np.float32) @ x.astype(np.float32), atol=1e-3)


def test_the_greatest_float_is_found_by_compare_and_swap_of_its_bits() -> None:
    x = np.random.default_rng(4).random(50, dtype=np.float32)
    greatest = np.zeros(1, np.int32)
    launched(
        "t = tj.thread_id()\n    if t < len(X):\n        held = O[0]\n"
        "        while held.view(tj.float32) < X[t]:\n"
        "            held = tj.atomic.cas(O[0], held, X[t].view(tj.int32))",
        x, greatest,
    )
    assert greatest.view(np.float32)[0] == x.max()


@pytest.mark.parametrize(
    "dtypes", [("float16", "uint16"), ("bfloat16", "int16"), ("int8", "uint8"), ("float64", "int64")]
)
def test_a_scalar_is_seen_as_another_type(dtypes: tuple[str, str]) -> None:
    before, after = (getattr(tj, name).numpy for name in dtypes)
    x = np.arange(-20, 20).astype(before)
    o = np.zeros(40, after)
    launched(f"t = tj.thread_id()\n    if t < 40:\n        O[t] = X[t].view(tj.{dtypes[1]})", x, o)
    np.testing.assert_array_equal(o, x.view(after))


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (2, 3, 4), (7,)])
@pytest.mark.parametrize("threads", [32, 128])
def test_a_tile_keeps_its_padding_if_the_program_reads_its_registers(shape: tuple[int, ...], threads: int) -> None:
    """The registers fix the layout of `x`, from which the layouts of `y` and of its transpose follow."""

    pinned, transposed = tj.spec(shape, tj.float32), tj.spec(shape[::-1], tj.float32)

    @tj.kernel(threads=threads)
    def k(C: tj.Tensor, A: tj.Tensor = pinned, B: tj.Tensor = transposed):
        x = tj.cta.load(A)
        y = (x + 1).T
        tj.cta.store(B, y)
        if tj.thread_id() == 0:
            C[0] = x.registers[0]

    a = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    b, c = np.zeros(shape[::-1], np.float32), np.zeros(1, np.float32)
    k[1](c, a, b)
    np.testing.assert_array_equal(b, (a + 1).T)
    np.testing.assert_array_equal(c, [0])
