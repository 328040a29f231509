"""`tj.unpack` and `tj.pack` of 4-bit numbers: all codes, types, orders and scopes; counts of instructions; errors."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

import tilejit as tj
from tests.support.programs import source_of
from tests.support.ptxas import ptxas_accepts

KINDS = (tj.int4x2, tj.uint4x2, tj.float4_e2m1fn_x2)
TYPES = {
    **dict.fromkeys(KINDS[:2], (np.int8, np.float16, ml_dtypes.bfloat16)),
    tj.float4_e2m1fn_x2: (np.float16, ml_dtypes.bfloat16, np.float32),
}
CASES = [(kind, order, dtype) for kind in KINDS for order in ("natural", "interleaved") for dtype in TYPES[kind]]


def unpacked(x: np.ndarray, kind: tj.DType, order: str = "natural") -> np.ndarray:
    """Return the numbers of packed bytes as float64, by their definition."""
    nibbles = np.stack([x & 15, x >> 4], -1).reshape(*x.shape[:-1], 2 * x.shape[-1]).astype(int)
    if order == "interleaved":
        of_eight = nibbles.reshape(*x.shape[:-1], -1, 8)
        nibbles = np.stack([of_eight[..., k // 2 + 4 * (k % 2)] for k in range(8)], -1).reshape(nibbles.shape)
    if kind is tj.int4x2:
        return np.where(nibbles < 8, nibbles, nibbles - 16).astype(np.float64)
    if kind is tj.uint4x2:
        return nibbles.astype(np.float64)
    return nibbles.astype(np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float64)


def same(got: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_array_equal(got.astype(np.float64), wanted)
    if got.dtype.kind not in "iu":
        np.testing.assert_array_equal(np.signbit(got.astype(np.float64)), np.signbit(wanted))


@pytest.fixture(params=["sim", pytest.param("cuda", marks=pytest.mark.gpu)])
def where(request: pytest.FixtureRequest) -> Any:
    with tj.use_device(request.param):
        yield


@tj.kernel(threads=64)
def every(X: tj.Tensor, Y: tj.Tensor, kind: tj.constexpr, order: tj.constexpr):
    tj.cta.store(Y[0:4, 0:128], tj.unpack(tj.cta.load(X.view(kind)[0:4, 0:64]), Y.dtype, order=order))


@pytest.mark.parametrize(("kind", "order", "dtype"), CASES, ids=str)
def test_every_byte_is_unpacked_exactly(kind: tj.DType, order: str, dtype: Any, where: None) -> None:
    x, y = np.arange(256, dtype=np.uint8).reshape(4, 64), np.zeros((4, 128), dtype)
    every[1](x, y, kind, order)
    same(y, unpacked(x, kind, order))


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize(("kind", "order", "dtype"), CASES, ids=str)
def test_targets_unpack_the_same_values(kind: tj.DType, order: str, dtype: Any, target: str) -> None:
    x, y = np.arange(256, dtype=np.uint8).reshape(4, 64), np.zeros((4, 128), dtype)
    tj.simulate(every, 1, x, y, kind, order, target=target)
    same(y, unpacked(x, kind, order))
    ptxas_accepts(every.compile(x, y, kind, order, target=target).ptx, target)


#: instructions per number, apart from loads, stores and addresses; bfloat16 has no room for shifted numbers
MOST = [
    (np.float16, "interleaved", 1.2), (np.float16, "natural", 1.8), (ml_dtypes.bfloat16, "interleaved", 1.5),
    (ml_dtypes.bfloat16, "natural", 1.8), (np.int8, "natural", 1.8), (np.int8, "interleaved", 1.8),
]


@pytest.mark.parametrize("kind", KINDS[:2], ids=str)
@pytest.mark.parametrize(("dtype", "order", "most"), MOST, ids=str)
def test_numbers_are_unpacked_by_few_instructions(dtype: Any, order: str, most: float, kind: tj.DType) -> None:
    @tj.kernel(threads=128)
    def large(X: tj.Tensor, Y: tj.Tensor):
        tj.cta.store(Y[0:64, 0:256], tj.unpack(tj.cta.load(X.view(kind)[0:64, 0:128]), Y.dtype, order=order))

    ptx = large.compile(tj.spec((64, 128), tj.uint8), tj.spec((64, 256), dtype), target="sm_90a").ptx
    found = re.findall(r"^\s+(?:lop3|prmt|fma\.rn|shr|shl|and|or|xor|sub|add)\.(?:u32|s32|b32|b?f16x2)\s", ptx, re.M)
    # a thread has 128 numbers
    assert 0.5 * 128 < len(found) <= most * 128 + 12


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    scope, threads = draw(st.sampled_from((("thread", 1), ("warp", 32), ("warpgroup", 128), ("cta", 48), ("cta", 128))))
    order = draw(st.sampled_from(("natural", "interleaved")))
    kind = draw(st.sampled_from(KINDS))
    columns = draw(st.sampled_from((1, 2, 3, 5, 8, 17))) * (1 if order == "natural" else 4)
    leading = draw(st.lists(st.sampled_from((1, 2, 3, 7)), max_size=2))
    return {
        "scope": scope, "threads": threads, "order": order, "kind": kind, "shape": (*leading, columns),
        "dtype": draw(st.sampled_from(TYPES[kind])), "first": draw(st.integers(0, 2)),
        "target": draw(st.sampled_from(("sm_75", "sm_90a"))), "seed": draw(st.integers(0, 2**32 - 1)),
    }


@given(case=cases())
def test_tiles_are_unpacked_and_packed_again(case: dict[str, Any]) -> None:
    scope, kind, order, shape, first = (case[name] for name in ("scope", "kind", "order", "shape", "first"))
    if scope == "thread":
        # all registers are one thread's
        shape = (min(shape[-1], 8),)
    *rows, columns = shape
    box = "".join(f"0:{n}, " for n in rows)
    k = tj.kernel(threads=case["threads"])(source_of(f"""def k(X, Y, Z):
    x = tj.{scope}.load(X.view(tj.{kind})[{box}{first}:{first + columns}])
    y = tj.unpack(x, Y.dtype, order="{order}")
    tj.{scope}.store(Y[{box}0:{2 * columns}], y)
    tj.{scope}.store(Z.view(tj.{kind})[{box}0:{columns}], tj.pack(y, tj.{kind}, "{order}"))
"""))
    x = np.random.default_rng(case["seed"]).integers(0, 256, (*rows, columns + 2)).astype(np.uint8)
    y, z = np.zeros((*rows, 2 * columns), case["dtype"]), np.zeros(shape, np.uint8)
    try:
        tj.simulate(k, 1, x, y, z, target=case["target"])
    except tj.ResourceError:
        # a shape whose layout holds too many elements in each thread
        reject()
    taken = x[..., first : first + columns]
    same(y, unpacked(taken, kind, order))
    np.testing.assert_array_equal(z, taken)
    np.testing.assert_array_equal(tj.pack(y, kind, order), taken)
    if order == "interleaved":
        np.testing.assert_array_equal(tj.interleave4(tj.pack(y, kind)), taken)


@tj.kernel(threads=32)
def rounded(X: tj.Tensor, Z: tj.Tensor):
    tj.cta.store(Z.view(tj.float4_e2m1fn_x2)[0:64], tj.pack(tj.cta.load(X[0:128]), tj.float4_e2m1fn_x2))


def test_floats_are_rounded_to_nearest_even_and_saturate(where: None) -> None:
    x = np.linspace(-8, 8, 129, dtype=np.float32)[:128]
    x[:4] = [np.inf, -np.inf, 0.0, -0.0]
    z = np.zeros(64, np.uint8)
    rounded[1](x, z)
    wanted = np.clip(x, -6, 6).astype(ml_dtypes.float4_e2m1fn).astype(np.float64)
    same(unpacked(z, tj.float4_e2m1fn_x2), wanted)
    np.testing.assert_array_equal(z, tj.pack(x, tj.float4_e2m1fn_x2))
    assert tj.pack([np.nan, 1.0], tj.float4_e2m1fn_x2).tolist() == [0x20]


def test_a_tile_of_no_rows_is_empty() -> None:
    @tj.kernel(threads=32)
    def empty(X: tj.Tensor, Y: tj.Tensor):
        tj.cta.store(Y[0:0, 0:8], tj.unpack(tj.cta.load(X.view(tj.int4x2)[0:0, 0:4]), tj.float16))

    tj.simulate(empty, 1, np.zeros((1, 4), np.uint8), np.zeros((1, 8), np.float16))


def test_a_given_layout_and_a_part_of_a_tile() -> None:
    @tj.kernel(threads=32)
    def k(X: tj.Tensor, Y: tj.Tensor):
        x = tj.warp.load(X.view(tj.int4x2)[0:32, 0:8], layout=tj.S[(32, 8) : (1 @ tj.laneid, 1)])
        tj.warp.store(Y[0:32, 0:8], tj.unpack(x[:, 4:8], tj.float16, order="interleaved"))

    x, y = np.random.default_rng(1).integers(0, 256, (32, 8)).astype(np.uint8), np.zeros((32, 8), np.float16)
    tj.simulate(k, 1, x, y)
    same(y, unpacked(x[:, 4:8], tj.int4x2, "interleaved"))


BAD = [
    ("tj.unpack(tj.cta.load(X[0:8]), tj.float16)", "unpack takes a tile of packed numbers"),
    ("tj.unpack(x, tj.float32)", "int4x2 doesn't unpack to float32"),
    ("tj.unpack(x.view(tj.float4_e2m1fn_x2), tj.int8)", "float4_e2m1fn_x2 doesn't unpack to int8"),
    ("tj.unpack(x, tj.float16, order='swapped')", "'swapped' is not an order of packed numbers"),
    ("tj.unpack(tj.cta.load(X.view(tj.int4x2)[0:6]), tj.float16, order='interleaved')", "rows of 6 bytes"),
    ("x + 1", "add of int4x2: it is two numbers per byte"),
    ("x + x", "int4x2"),
    ("x < x", "int4x2"),
    ("tj.sum(x)", "sum of int4x2: it is two numbers per byte"),
    ("x.astype(tj.float16)", "int4x2 can't be converted to float16"),
    ("tj.cta.load(X[0:8]).astype(tj.int4x2)", "uint8 can't be converted to int4x2"),
    ("tj.cta.load(X.view(tj.int4x2)[0:8], fill=3)", "can't be converted to int4x2"),
    ("tj.atomic.add(X.view(tj.int4x2)[0], 1)", "atomic add does not support int4x2"),
    ("tj.pack(tj.cta.load(X[0:7]), tj.int4x2)", "has no whole groups of 2"),
    ("tj.pack(tj.cta.load(X[0:12]), tj.int4x2, 'interleaved')", "has no whole groups of 8"),
    ("tj.pack(tj.cta.load(X[0:8]), tj.int8)", "pack gives packed numbers, not int8"),
]


@pytest.mark.parametrize(("statement", "message"), BAD, ids=[s[:40] for s, _ in BAD])
def test_what_makes_no_sense_is_refused(statement: str, message: str) -> None:
    text = f"def k(X):\n    x = tj.cta.load(X.view(tj.int4x2)[0:8])\n    y = {statement}\n"
    k = tj.kernel(threads=32)(source_of(text))
    with pytest.raises(tj.KernelTypeError) as caught:
        k.compile(tj.spec((16,), tj.uint8), target="sm_90a")
    assert message in str(caught.value) and "help: " in str(caught.value)


def test_the_host_refuses_what_makes_no_sense() -> None:
    for call, message in (
        (lambda: tj.pack([1, 2, 3], tj.int4x2), "multiple of 2"),
        (lambda: tj.pack([1, 2], tj.int4x2, "x"), "order= is"),
        (lambda: tj.interleave4(np.zeros(6, np.uint8)), "multiple of 4"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="got int8"):
        tj.pack([1, 2], tj.int8)
