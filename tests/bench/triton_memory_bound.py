"""Triton kernels for `bench_memory_bound.py`, in the style of its tutorials; warps and blocks are autotuned.

Each function takes inputs and an output, launches, and returns the output.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

WARPS = [triton.Config({}, num_warps=warps) for warps in (2, 4, 8, 16, 32)]
BLOCKS = [
    triton.Config({"BLOCK": block}, num_warps=warps)
    for block, warps in ((512, 4), (1024, 4), (1024, 8), (2048, 8), (4096, 8))
]
TILES = [
    triton.Config({"BM": bm, "BN": bn}, num_warps=warps)
    for bm, bn, warps in ((32, 32, 4), (64, 32, 4), (64, 64, 4), (64, 64, 8), (128, 64, 8), (64, 128, 8))
]


@triton.autotune(WARPS, key=["N"])
@triton.jit
def _softmax(x, y, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * N
    column = tl.arange(0, BLOCK)
    value = tl.load(x + row + column, mask=column < N, other=-float("inf")).to(tl.float32)
    e = tl.exp(value - tl.max(value, 0))
    tl.store(y + row + column, (e / tl.sum(e, 0)).to(y.dtype.element_ty), mask=column < N)


@triton.autotune(WARPS, key=["N"])
@triton.jit
def _layernorm(x, gain, bias, y, means, scales, N, epsilon, BLOCK: tl.constexpr):
    number = tl.program_id(0)
    row = number.to(tl.int64) * N
    column = tl.arange(0, BLOCK)
    inside = column < N
    value = tl.load(x + row + column, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(value, 0) / N
    d = tl.where(inside, value - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(d * d, 0) / N + epsilon)
    result = d * scale * tl.load(gain + column, mask=inside) + tl.load(bias + column, mask=inside)
    tl.store(y + row + column, result.to(y.dtype.element_ty), mask=inside)
    tl.store(means + number, mean)
    tl.store(scales + number, scale)


@triton.autotune(WARPS, key=["N"])
@triton.jit
def _rmsnorm(x, gain, y, scales, N, epsilon, BLOCK: tl.constexpr):
    number = tl.program_id(0)
    row = number.to(tl.int64) * N
    column = tl.arange(0, BLOCK)
    inside = column < N
    value = tl.load(x + row + column, mask=inside, other=0.0).to(tl.float32)
    scale = 1 / tl.sqrt(tl.sum(value * value, 0) / N + epsilon)
    result = value * scale * tl.load(gain + column, mask=inside)
    tl.store(y + row + column, result.to(y.dtype.element_ty), mask=inside)
    tl.store(scales + number, scale)


@triton.autotune(BLOCKS, key=["N"])
@triton.jit
def _bias_gelu(h, bias, x, y, N, BLOCK: tl.constexpr):
    row = tl.program_id(1).to(tl.int64) * N
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = column < N
    t = tl.load(h + row + column, mask=inside).to(tl.float32) + tl.load(bias + column, mask=inside)
    gelu = 0.5 * t * (1 + tl.erf(t * 0.7071067811865476))
    result = tl.load(x + row + column, mask=inside).to(tl.float32) + gelu
    tl.store(y + row + column, result.to(y.dtype.element_ty), mask=inside)


@triton.autotune(TILES, key=["M", "N"])
@triton.jit
def _transpose(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    row = (tl.program_id(1) * BM + tl.arange(0, BM)).to(tl.int64)
    column = (tl.program_id(0) * BN + tl.arange(0, BN)).to(tl.int64)
    inside = (row[:, None] < M) & (column[None, :] < N)
    tile = tl.load(x + row[:, None] * N + column[None, :], mask=inside)
    other = (column[:, None] < N) & (row[None, :] < M)
    tl.store(y + column[:, None] * M + row[None, :], tl.trans(tile), mask=other)


@triton.autotune(WARPS, key=["N"])
@triton.jit
def _sum_rows(x, y, N, BLOCK: tl.constexpr):
    number = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    tl.store(y + number, tl.sum(tl.load(x + number.to(tl.int64) * N + column, mask=column < N, other=0.0), 0))


@triton.jit
def _sum_columns(x, parts, M, N, BM: tl.constexpr, BN: tl.constexpr):
    column = tl.program_id(0) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(tl.program_id(1), tl.cdiv(M, BM), tl.num_programs(1)):
        row = (k * BM + tl.arange(0, BM)).to(tl.int64)
        inside = (row[:, None] < M) & (column[None, :] < N)
        total += tl.load(x + row[:, None] * N + column[None, :], mask=inside, other=0.0)
    tl.store(parts + tl.program_id(1) * N + column, tl.sum(total, 0), mask=column < N)


@triton.jit
def _sum_all(x, parts, count, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for k in range(tl.program_id(0), tl.cdiv(count, BLOCK), tl.num_programs(0)):
        place = k.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        total += tl.load(x + place, mask=place < count, other=0.0)
    tl.store(parts + tl.program_id(0), tl.sum(total, 0))


@triton.autotune(BLOCKS, key=["count"])
@triton.jit
def _axpy(x, y, z, a, count, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    tl.store(z + place, a * tl.load(x + place, mask=inside) + tl.load(y + place, mask=inside), mask=inside)


@triton.autotune(BLOCKS, key=["count"])
@triton.jit
def _sqrt(x, y, count, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    tl.store(y + place, tl.sqrt(tl.load(x + place, mask=inside)), mask=inside)


def softmax(x: Any, y: Any) -> Any:
    rows, columns = x.shape
    _softmax[(rows,)](x, y, columns, BLOCK=triton.next_power_of_2(columns))
    return y


def layernorm(x: Any, gain: Any, bias: Any, y: Any, means: Any, scales: Any) -> Any:
    rows, columns = x.shape
    _layernorm[(rows,)](x, gain, bias, y, means, scales, columns, 1e-5, BLOCK=triton.next_power_of_2(columns))
    return y


def rmsnorm(x: Any, gain: Any, y: Any, scales: Any) -> Any:
    rows, columns = x.shape
    _rmsnorm[(rows,)](x, gain, y, scales, columns, 1e-5, BLOCK=triton.next_power_of_2(columns))
    return y


def bias_gelu(h: Any, bias: Any, x: Any, y: Any) -> Any:
    rows, columns = h.shape
    _bias_gelu[lambda meta: (triton.cdiv(columns, meta["BLOCK"]), rows)](h, bias, x, y, columns)
    return y


def transpose(x: Any, y: Any) -> Any:
    m, n = x.shape
    _transpose[lambda meta: (triton.cdiv(n, meta["BN"]), triton.cdiv(m, meta["BM"]))](x, y, m, n)
    return y


def sum_rows(x: Any, y: Any) -> Any:
    rows, columns = x.shape
    _sum_rows[(rows,)](x, y, columns, BLOCK=triton.next_power_of_2(columns))
    return y


def sum_columns(x: Any, parts: Any, y: Any) -> Any:
    m, n = x.shape
    strips = parts.shape[0]
    _sum_columns[(triton.cdiv(n, 128), strips)](x, parts, m, n, BM=32, BN=128, num_warps=8)
    _sum_columns[(triton.cdiv(n, 128), 1)](parts, y, strips, n, BM=32, BN=128, num_warps=8)
    return y


def sum_all(x: Any, parts: Any, y: Any) -> Any:
    _sum_all[(parts.numel(),)](x, parts, x.numel(), BLOCK=8192, num_warps=16)
    _sum_all[(1,)](parts, y, parts.numel(), BLOCK=1024, num_warps=8)
    return y


def axpy(x: Any, y: Any, z: Any, a: float) -> Any:
    _axpy[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, z, a, x.numel())
    return z


def sqrt(x: Any, y: Any) -> Any:
    _sqrt[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
    return y
