"""Products of open tiles of any extents, types and warps: whole kernels on small integers, exact in any order."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import tilejit as tj
from tilejit.dtypes import (
    DType,
    bfloat16,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int32,
    uint8,
)
from tilejit.runtime.device import Device
from tilejit.testing import check

Array = np.ndarray

#: 1, primes, whole tiles, and one off each
EXTENTS = (1, 1, 2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 20, 23, 24, 25, 31, 32, 33, 40, 47, 48, 49, 63, 64, 65)

TYPES = (
    (float16, float16), (bfloat16, bfloat16), (int8, int8), (uint8, int8), (uint8, uint8),
    (float8_e4m3fn, float8_e4m3fn), (float8_e5m2, float8_e4m3fn), (float64, float64),
)

#: scope -> numbers of threads
THREADS = {tj.warp: (32, 64), tj.wg: (128,), tj.cta: (32, 64, 96, 128, 128, 160, 256, 384)}


@tj.function
def factor(s: tj.constexpr, X: tj.Tensor, SHAPE: tj.constexpr, how: tj.constexpr):
    """A tile of SHAPE in one of the ways in which kernels come to one; in two of them padding holds infinity."""
    R, C = SHAPE
    if how == "transposed":
        return s.load(X[0:C, 0:R]).T
    if how == "infinite padding":
        return s.load(X[0:R, 0:C], fill=tj.inf)
    if how == "computed":
        return (4 / s.load(X[0:R, 0:C]).astype(tj.float32)).astype(X.dtype)
    if how == "part":
        return s.load(X[0:R, 0 : 2 * C])[:, C : 2 * C]
    if how == "shared":
        kept = tj.alloc_shared((R, C), X.dtype)
        s.copy(kept, X[0:R, 0:C])
        tj.cta_sync()
        return s.load(kept)
    if how == "given":
        return s.load(X[0:R, 0:C], layout=tj.S[(R, C):(1 @ tj.laneid, 1)])
    return s.load(X[0:R, 0:C])


@tj.kernel(threads=128)
def product(
    A: tj.Tensor, B: tj.Tensor, V: tj.Tensor, Out: tj.Tensor, s: tj.constexpr, SHAPE: tj.constexpr,
    left: tj.constexpr, right: tj.constexpr, end: tj.constexpr,
):
    M, N, K = SHAPE
    a = factor(s, A, (M, K), left)
    b = factor(s, B, (K, N), right)
    if end == "sum of three":
        acc = s.zeros((M, N), Out.dtype)
        for _ in range(3):
            acc += a @ b
        s.store(Out[0:M, 0:N], acc)
    elif end == "bias":
        s.store(Out[0:M, 0:N], (a @ b) * 2 + s.load(V[0, 0:N]).astype(Out.dtype))
    elif end == "greatest of rows":
        s.store(Out[0:M, 0], tj.max(a @ b - 1000, axis=1))
    elif end == "sums of columns":
        s.store(Out[0, 0:N], tj.sum(a @ b + 1, axis=0))
    elif end == "product again":
        s.store(Out[0:M, 0:9], (a @ b).astype(V.dtype) @ s.load(V[0:N, 0:9]))
    elif end == "transposed":
        s.store(Out[0:N, 0:M], (a @ b).T)
    else:
        s.store(Out[0:M, 0:N], a @ b)


ENDS: dict[str, Callable[[Array, Array], Array]] = {
    "": lambda c, v: c,
    "sum of three": lambda c, v: 3 * c,
    "bias": lambda c, v: 2 * c + v[:1, : c.shape[1]],
    "greatest of rows": lambda c, v: c.max(1, keepdims=True) - 1000,
    "sums of columns": lambda c, v: (c + 1).sum(0, keepdims=True),
    "product again": lambda c, v: c @ v[: c.shape[1], :9],
    "transposed": lambda c, v: c.T,
}


@dataclass(frozen=True)
class Case:
    """shape: (m, n, k). left, right: how the factors are made. end: what becomes of the product."""

    shape: tuple[int, int, int]
    types: tuple[DType, DType] = (float16, float16)
    scope: Any = tj.cta
    threads: int = 128
    left: str = ""
    right: str = ""
    end: str = ""

    def runs(self, device: Device) -> None:
        m, n, k = self.shape
        a, x = self._factor((m, k), self.types[0], self.left, 0)
        b, y = self._factor((k, n), self.types[1], self.right, 1)
        v = np.random.default_rng(2).integers(-1, 2, (max(n, 9), max(n, 9))).astype(self.types[0].numpy)
        sums = float64 if self.types[0] is float64 else float32 if self.types[0].is_float else int32
        exact = x @ y
        if self.end == "product again":
            # a factor of its type, in which sums of more than 256 may be others
            exact = exact.astype(self.types[0].numpy).astype(np.float64)
        wanted = ENDS[self.end](exact, v.astype(np.float64)).astype(sums.numpy)
        check(
            product, 1, a, b, v, np.full_like(wanted, 77), expected=wanted, device=device_name(device),
            threads=self.threads, s=self.scope, SHAPE=self.shape, left=self.left, right=self.right, end=self.end,
        )

    @property
    def registers(self) -> float:
        """Of a thread, for both factors and the product in fragments of 16 rows, 8 columns and 32 bytes of depth."""
        bits = self.types[0].bits
        m, n, k = (-(-extent // step) * step for extent, step in zip(self.shape, (16, 8, 256 // bits), strict=True))
        threads = 32 if self.scope is tj.warp else self.threads
        return (m * n * max(bits, 32) / 32 + (m * k + k * n) * bits / 32) / threads

    def _factor(self, shape: tuple[int, int], dtype: DType, how: str, seed: int) -> tuple[Array, Array]:
        """The array that the kernel gets, and what it makes of it."""
        random = np.random.default_rng(seed)
        rows, columns = shape
        if how == "computed":
            x = random.choice([1, 2, 4], shape)
            return x.astype(dtype.numpy), 4.0 / x
        in_memory = {"transposed": (columns, rows), "part": (rows, 2 * columns)}.get(how, shape)
        x = random.integers(0 if dtype.kind == "uint" else -1, 2, in_memory)
        seen = {"transposed": x.T, "part": x[:, columns:]}.get(how, x)
        return x.astype(dtype.numpy), seen.astype(np.float64)


def device_name(device: Device) -> str:
    return "cuda" if device.number >= 0 else "sim"


@st.composite
def cases(draw: st.DrawFn) -> Case:
    extent = st.sampled_from(EXTENTS)
    shape = draw(extent), draw(extent), draw(extent)
    types = draw(st.sampled_from(TYPES))
    scope = draw(st.sampled_from([tj.cta, tj.cta, tj.warp, tj.wg]))
    ways = ["", "", "transposed", "part"]
    ways += ["infinite padding", "computed"] if types[0] in (float16, bfloat16, float64) else []
    ways += ["shared"] if scope is tj.cta else []
    ends = [end for end in ENDS if end != "product again" or types[0] == types[1] in (float16, bfloat16, float64)]
    left, right = draw(st.sampled_from(ways)), draw(st.sampled_from(ways))
    left = "given" if scope is tj.warp and shape[0] == 32 and not left else left
    threads, end = draw(st.sampled_from(THREADS[scope])), draw(st.sampled_from(ends))
    case = Case(shape, types, scope, threads, left, right, end)
    # a warp alone that would hold more is refused, which is tested for itself
    assume(case.registers <= 200)
    return case


@given(cases())
@example(Case((1, 1, 1)))
@example(Case((13, 9, 5), left="infinite padding", right="infinite padding"))
@example(Case((17, 33, 20), left="computed", right="computed", end="product again"))
@example(Case((1, 2, 47), (bfloat16, bfloat16), threads=32, left="computed", right="computed", end="product again"))
@example(Case((48, 40, 24), threads=96, end="greatest of rows"))
@example(Case((32, 20, 7), scope=tj.warp, threads=64, left="given", end="sum of three"))
@example(Case((17, 9, 6), (float64, float64), end="product again"))
# registers of zeros, which ptxas turned into 32 where it knew of them
@example(Case((2, 1, 1), (tj.float8_e4m3fn, tj.float8_e4m3fn), threads=32, end="bias"))
def test_any_product_of_open_tiles_is_exact(device: Device, case: Case) -> None:
    if device.number >= 0 and case.types[0].bits == 8 and case.types[0].is_float and device.target.number < 89:
        pytest.skip("the device multiplies no 8-bit floats")
    case.runs(device)


@pytest.mark.parametrize("depth", [1, 16, 32])
def test_ptxas_knows_nothing_of_the_registers_of_8_bit_floats(depth: int) -> None:
    dtype = tj.float8_e4m3fn
    arrays = (np.zeros(shape, dtype.numpy) for shape in ((16, depth), (depth, 8), (9, 9)))
    constexprs = {"s": tj.cta, "SHAPE": (16, 8, depth), "left": "", "right": "", "end": ""}
    ptx = product.compile(*arrays, np.zeros((16, 8), np.float32), target="sm_90a", threads=32, **constexprs).ptx
    (a, b) = re.search(r"mma\.sync\S+e4m3\.e4m3\S+ \{.*?\}, \{(.*?)\}, \{(.*?)\}", ptx).groups()
    hidden = set(re.findall(r"xor\.b32 (%r\d+), ", ptx))
    assert {*a.split(", "), *b.split(", ")} <= hidden


@tj.kernel(threads=128)
def in_tf32(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, K: tj.constexpr, WARPS: tj.constexpr):
    acc = tj.alloc_local((32, 16), tj.float32, layout=tj.mma.layout_c((32, 16), warps=WARPS))
    tj.cta.fill(acc, 1)
    tj.cta.gemm(acc, tj.cta.load(A[0:32, 0:K]), tj.cta.load(B[0:K, 0:16]), precision="tf32")
    tj.cta.store(C[0:32, 0:16], acc)


@pytest.mark.parametrize("warps", [(2, 2), (1, 2)])
@pytest.mark.parametrize("k", [1, 3, 8, 13])
def test_float32_factors_of_any_depth_are_multiplied_as_tf32(device: Device, k: int, warps: tuple[int, int]) -> None:
    a, b = small((32, k), float32), small((k, 16), float32, 1)
    check(
        in_tf32, 1, a, b, np.zeros((32, 16), np.float32), expected=a @ b + 1, device=device_name(device),
        threads=32 * warps[0] * warps[1], K=k, WARPS=warps,
    )


@tj.kernel(threads=64)
def in_halves(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, SHAPE: tj.constexpr):
    M, N, K = SHAPE
    acc = tj.cta.full((M, N), 1, tj.float16)
    for _ in range(2):
        acc += tj.cta.load(A[0:M, 0:K]) @ tj.cta.load(B[0:K, 0:N])
    tj.cta.store(C[0:M, 0:N], acc)


@pytest.mark.parametrize("shape", [(5, 7, 3), (1, 7, 3), (33, 1, 3), (1, 1, 1)], ids=str)
def test_sums_of_16_bits_are_kept_in_pairs_of_any_extents(device: Device, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = small((m, k), float16), small((k, n), float16, 1)
    wanted = (2 * (a @ b) + 1).astype(np.float16)
    check(in_halves, 1, a, b, np.zeros_like(wanted), expected=wanted, device=device_name(device), SHAPE=shape)


@tj.kernel(threads=128)
def by_hand(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, WARPS: tj.constexpr):
    b = tj.cta.load(B[0:24, 0:24], layout=tj.mma.layout_b((24, 24), B.dtype, WARPS))
    tj.cta.store(C[0:40, 0:24], tj.cta.load(A[0:40, 0:24]) @ b)


@pytest.mark.parametrize("warps", [(4, 1), (1, 3), (2, 3)])
def test_warps_share_a_product_as_a_factor_that_is_laid_out_by_hand_does(
    device: Device, warps: tuple[int, int]
) -> None:
    a, b, c = small((40, 24), float16), small((24, 24), float16, 1), np.zeros((40, 24), np.float32)
    threads = 32 * warps[0] * warps[1]
    wanted = a.astype(np.float32) @ b
    check(by_hand, 1, a, b, c, expected=wanted, device=device_name(device), threads=threads, WARPS=warps)
    compiled = by_hand.compile(a, b, c, WARPS=warps, threads=threads, target="sm_90a")
    assert {row.variant for row in compiled.explain().rows if row.operation == "cta.copy"} == {"reg"}


@tj.kernel(threads=64)
def with_its_transpose(A: tj.Tensor, C: tj.Tensor, SHAPE: tj.constexpr):
    M, K = SHAPE
    a = tj.cta.load(A[0:M, 0:K])
    tj.cta.store(C[0:M, 0:M], a @ a.T)


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (33, 20), (20, 33)], ids=str)
def test_a_tile_times_its_transpose(device: Device, shape: tuple[int, int]) -> None:
    a = small(shape, float16)
    wanted = a.astype(np.float32) @ a.T
    check(with_its_transpose, 1, a, np.zeros_like(wanted), expected=wanted, device=device_name(device), SHAPE=shape)


@tj.kernel(threads=32)
def broadcast_onto(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor):
    acc = tj.cta.zeros((9, 7), tj.float32)
    acc += tj.cta.load(A[0:9, 0:5]) @ tj.cta.load(B[0:5, 0:1])
    tj.cta.store(C[0:9, 0:7], acc)


def test_a_product_that_broadcasts_is_added(device: Device) -> None:
    a, b, c = small((9, 5), float16), small((5, 1), float16, 1), np.zeros((9, 7), np.float32)
    wanted = np.broadcast_to(a.astype(np.float32) @ b, c.shape)
    check(broadcast_onto, 1, a, b, c, expected=np.ascontiguousarray(wanted), device=device_name(device))


def small(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(dtype.numpy)


@tj.kernel(threads=64)
def part_of_a_product(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, ROWS: tj.constexpr, COLUMNS: tj.constexpr):
    x = tj.cta.load(A[0:33, 0:20]) @ tj.cta.load(B[0:20, 0:9])
    part = x[ROWS[0] : ROWS[1], COLUMNS[0] : COLUMNS[1]]
    tj.cta.store(C[0 : ROWS[1] - ROWS[0], 0:1], tj.sum(part * 2, axis=1, keepdims=True) + tj.max(part, axis=1)[:, None])


@pytest.mark.parametrize("columns", [(0, 9), (0, 8), (8, 9), (3, 5)], ids=str)
@pytest.mark.parametrize("rows", [(0, 33), (0, 32), (0, 8), (16, 33), (16, 17)], ids=str)
def test_parts_of_a_product_are_reduced(device: Device, rows: tuple[int, int], columns: tuple[int, int]) -> None:
    a, b = small((33, 20), float16), small((20, 9), float16, 1)
    x = (a.astype(np.float32) @ b)[slice(*rows), slice(*columns)]
    wanted = 2 * x.sum(1, keepdims=True) + x.max(1, keepdims=True)
    check(
        part_of_a_product, 1, a, b, np.zeros_like(wanted), expected=wanted, device=device_name(device), ROWS=rows,
        COLUMNS=columns,
    )
