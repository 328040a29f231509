"""Kernels for Triton, and for which types and constants each is compiled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def vector_add(x, y, z, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < n
    tl.store(z + i, tl.load(x + i, inside) + tl.load(y + i, inside), inside)


@triton.jit
def gelu(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, i < n).to(tl.float32)
    tl.store(y + i, 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476)), i < n)


@triton.jit
def sigmoid_bf16(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, i < n, other=0.0)
    tl.store(y + i, tl.sigmoid(v.to(tl.float32)).to(tl.bfloat16), i < n)


@triton.jit
def softmax(x, y, columns, B: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, B)
    v = tl.load(x + row * columns + j, j < columns, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * columns + j, e / tl.sum(e, 0), j < columns)


@triton.jit
def layernorm(x, w, b, y, mean_out, columns, eps, B: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, B)
    inside = j < columns
    v = tl.load(x + row * columns + j, inside, other=0.0)
    mean = tl.sum(v, 0) / columns
    centred = tl.where(inside, v - mean, 0.0)
    r = tl.rsqrt(tl.sum(centred * centred, 0) / columns + eps)
    tl.store(mean_out + row, mean)
    tl.store(y + row * columns + j, centred * r * tl.load(w + j, inside) + tl.load(b + j, inside), inside)


@triton.jit
def matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        kk = start + rk
        left = tl.load(a + rm[:, None] * k + kk[None, :], (rm[:, None] < m) & (kk[None, :] < k), other=0.0)
        right = tl.load(b + kk[:, None] * n + rn[None, :], (kk[:, None] < k) & (rn[None, :] < n), other=0.0)
        total = tl.dot(left, right, total)
    tl.store(c + rm[:, None] * n + rn[None, :], total, (rm[:, None] < m) & (rn[None, :] < n))


@triton.jit
def matmul_int8(a, b, c, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm, rn, rk = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.int32)
    for start in range(0, k, BK):
        left = tl.load(a + rm[:, None] * k + (start + rk)[None, :])
        right = tl.load(b + (start + rk)[:, None] * BN + rn[None, :])
        total += tl.dot(left, right)
    tl.store(c + rm[:, None] * BN + rn[None, :], total)


@triton.jit
def attention(q, k, v, out, length, scale, BQ: tl.constexpr, BK: tl.constexpr, D: tl.constexpr):
    rows = tl.program_id(0) * BQ + tl.arange(0, BQ)
    d = tl.arange(0, D)
    queries = tl.load(q + rows[:, None] * D + d[None, :])
    top = tl.full((BQ,), -float("inf"), tl.float32)
    total = tl.zeros((BQ,), tl.float32)
    result = tl.zeros((BQ, D), tl.float32)
    for start in range(0, length, BK):
        columns = start + tl.arange(0, BK)
        keys = tl.load(k + columns[None, :] * D + d[:, None])
        scores = tl.dot(queries, keys) * scale
        scores = tl.where(columns[None, :] <= rows[:, None], scores, -float("inf"))
        new = tl.maximum(top, tl.max(scores, 1))
        p = tl.exp(scores - new[:, None])
        shrink = tl.exp(top - new)
        total = total * shrink + tl.sum(p, 1)
        values = tl.load(v + columns[:, None] * D + d[None, :])
        result = result * shrink[:, None] + tl.dot(p.to(tl.float16), values)
        top = new
    tl.store(out + rows[:, None] * D + d[None, :], result / total[:, None])


@triton.jit
def row_argmax(x, best, where, columns, B: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, B)
    v = tl.load(x + row * columns + j, j < columns, other=-float("inf"))
    value, index = tl.max(v, 0, return_indices=True)
    tl.store(best + row, value)
    tl.store(where + row, index)


@triton.jit
def cumulative_sum(x, y, R: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    tl.store(y + at, tl.cumsum(tl.load(x + at), 1))


@triton.jit
def recurrence(a1, b1, a2, b2):
    return a1 * a2, a2 * b1 + b2


@triton.jit
def linear_recurrence(a, b, y, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    _, h = tl.associative_scan((tl.load(a + i), tl.load(b + i)), 0, recurrence)
    tl.store(y + i, h)


@triton.jit
def sort_rows(x, y, C: tl.constexpr):
    at = tl.program_id(0) * C + tl.arange(0, C)
    tl.store(y + at, tl.sort(tl.load(x + at)))


@triton.jit
def histogram(x, out, n, B: tl.constexpr, BINS: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    counts = tl.histogram(tl.load(x + i, i < n, other=0), BINS, mask=i < n)
    tl.atomic_add(out + tl.arange(0, BINS), counts)


@triton.jit
def transpose(x, y, m, n, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.program_id(1) * B + tl.arange(0, B)
    tile = tl.load(x + r[:, None] * n + c[None, :], (r[:, None] < m) & (c[None, :] < n))
    tl.store(y + c[:, None] * m + r[None, :], tile.T, (c[:, None] < n) & (r[None, :] < m))


@triton.jit
def gather_rows(table, index, y, D: tl.constexpr):
    i = tl.program_id(0)
    d = tl.arange(0, D)
    tl.store(y + i * D + d, tl.load(table + tl.load(index + i) * D + d))


@triton.jit
def random_numbers(uniform, integers, normal, seed, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(uniform + i, tl.rand(seed, i), i < n)
    tl.store(integers + i, tl.randint(seed, i), i < n)
    tl.store(normal + i, tl.randn(seed, i), i < n)


@triton.jit
def dropout(x, y, p, seed, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, i < n)
    tl.store(y + i, tl.where(tl.rand(seed, i) > p, v / (1 - p), 0.0), i < n)


@triton.jit
def scatter_atomics(where, x, sums, most, halves, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    w = tl.load(where + i, i < n, other=0)
    v = tl.load(x + i, i < n, other=0.0)
    tl.atomic_add(sums + w, v, i < n)
    tl.atomic_max(most + w, v, i < n)
    tl.atomic_add(halves + w, v.to(tl.float16), i < n)


@triton.jit
def locked_sum(x, lock, totals, B: tl.constexpr):
    i = tl.arange(0, B)
    values = tl.load(x + tl.program_id(0) * B + i)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(totals + i, tl.load(totals + i) + values)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def persistent_relu(x, y, n, programs, B: tl.constexpr):
    for block in range(tl.program_id(0), tl.cdiv(n, B), programs):
        i = block * B + tl.arange(0, B)
        tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0.0), i < n)


@triton.jit
def gcd(a, b, out, steps, B: tl.constexpr):
    i = tl.arange(0, B)
    x, y = tl.load(a + i), tl.load(b + i)
    count = 0
    while tl.max(y, 0) > 0:
        x, y = tl.where(y > 0, y, x), tl.where(y > 0, x % tl.where(y > 0, y, 1), 0)
        count += 1
    tl.store(out + i, x)
    tl.store(steps, count)


@triton.jit
def integer_arithmetic(a, b, out, wide, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x, y = tl.load(a + i, i < n, other=1), tl.load(b + i, i < n, other=1)
    r = x // y + (x % y) * 3 + (x ^ y) - (x >> 3) + tl.where(x < y, x, y) + libdevice.popc(x) + libdevice.clz(y)
    tl.store(out + i, r, i < n)
    tl.store(wide + i, tl.umulhi(x.to(tl.uint32), y.to(tl.uint32)).to(tl.int64) * y, i < n)


@triton.jit
def casts(x, i8, u8, f16, bf16, fp8, f64, flags, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, i < n)
    tl.store(i8 + i, v.to(tl.int8), i < n)
    tl.store(u8 + i, tl.abs(v).to(tl.uint8), i < n)
    tl.store(f16 + i, v.to(tl.float16), i < n)
    tl.store(bf16 + i, v.to(tl.bfloat16), i < n)
    tl.store(fp8 + i, v.to(tl.float8e4nv), i < n)
    tl.store(f64 + i, tl.sqrt(tl.abs(v.to(tl.float64))) / 7.0, i < n)
    tl.store(flags + i, (v > 1.0) | (v != v), i < n)


@triton.jit
def quantize_rows(x, y, scales, columns, B: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, B)
    v = tl.load(x + row * columns + j, j < columns, other=0.0)
    scale = tl.max(tl.abs(v), 0) / 127.0
    tl.store(scales + row, scale)
    tl.store(y + row * columns + j, libdevice.rint(v / scale).to(tl.int8), j < columns)


@triton.jit
def convolve(x, w, y, n, K: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for k in tl.static_range(K):
        at = i + k - K // 2
        total += tl.load(x + at, (at >= 0) & (at < n), other=0.0) * tl.load(w + k)
    tl.store(y + i, total, i < n)


@dataclass(frozen=True)
class Build:
    """One compilation: the types of the arguments in order, constants, warps, architecture."""

    kernel: Any
    types: str
    constants: dict[str, int] = field(default_factory=dict)
    warps: int = 4
    arch: int = 90
    name: str = ""


BUILDS = [
    Build(vector_add, "*fp32 *fp32 *fp32 i32", {"B": 512}),
    Build(vector_add, "*fp32 *fp32 *fp32 i32", {"B": 1024}, arch=100, name="vector_add_sm100"),
    Build(gelu, "*fp16 *fp32 i32", {"B": 512}),
    Build(sigmoid_bf16, "*bf16 *bf16 i32", {"B": 1024}),
    Build(softmax, "*fp32 *fp32 i32", {"B": 256}),
    Build(layernorm, "*fp32 *fp32 *fp32 *fp32 *fp32 i32 fp32", {"B": 512}),
    Build(matmul, "*fp16 *fp16 *fp32 i32 i32 i32", {"BM": 32, "BN": 32, "BK": 32}, arch=80, name="matmul_f16"),
    Build(matmul, "*bf16 *bf16 *fp32 i32 i32 i32", {"BM": 64, "BN": 32, "BK": 16}, arch=80, name="matmul_bf16"),
    Build(matmul, "*fp32 *fp32 *fp32 i32 i32 i32", {"BM": 32, "BN": 32, "BK": 32}, arch=80, name="matmul_tf32"),
    Build(matmul, "*fp16 *fp16 *fp32 i32 i32 i32", {"BM": 64, "BN": 64, "BK": 32}, arch=90, name="matmul_wgmma"),
    Build(matmul_int8, "*i8 *i8 *i32 i32", {"BM": 32, "BN": 32, "BK": 32}, arch=80),
    Build(attention, "*fp16 *fp16 *fp16 *fp32 i32 fp32", {"BQ": 64, "BK": 32, "D": 32}, arch=80),
    Build(row_argmax, "*fp32 *fp32 *i32 i32", {"B": 256}),
    Build(cumulative_sum, "*i32 *i32", {"R": 8, "C": 128}),
    Build(linear_recurrence, "*fp32 *fp32 *fp32", {"B": 256}),
    Build(sort_rows, "*i32 *i32", {"C": 256}),
    Build(histogram, "*i32 *i32 i32", {"B": 512, "BINS": 64}),
    Build(transpose, "*fp32 *fp32 i32 i32", {"B": 32}),
    Build(gather_rows, "*fp16 *i64 *fp16", {"D": 64}, warps=1),
    Build(random_numbers, "*fp32 *i32 *fp32 i32 i32", {"B": 256}),
    Build(dropout, "*fp32 *fp32 fp32 i32 i32", {"B": 512}),
    Build(scatter_atomics, "*i32 *fp32 *fp32 *fp32 *fp16 i32", {"B": 256}),
    Build(locked_sum, "*i32 *i32 *i32", {"B": 128}),
    Build(persistent_relu, "*fp32 *fp32 i32 i32", {"B": 256}),
    Build(gcd, "*i32 *i32 *i32 *i32", {"B": 128}),
    Build(integer_arithmetic, "*i32 *i32 *i32 *i64 i32", {"B": 256}),
    Build(casts, "*fp32 *i8 *u8 *fp16 *bf16 *fp8e4nv *fp64 *i1 i32", {"B": 256}),
    Build(quantize_rows, "*fp32 *i8 *fp32 i32", {"B": 512}),
    Build(convolve, "*fp32 *fp32 *fp32 i32", {"K": 5, "B": 256}),
]
