"""The kernels of Triton: launches and references."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from .case import Case, Launch, triton_metadata
from .nvcc_cooperation_cases import softmax as softmax_of
from .nvcc_entries import rng

CASES: list[Case] = []
f2, f4, i4, u4 = np.float16, np.float32, np.int32, np.uint32
bf16 = ml_dtypes.bfloat16


def kernel(*grid: int) -> Callable[[Callable[[Any], Launch]], Callable[[Any], Launch]]:
    """Enter a function that makes a launch; it has the file's name. Triton adds two scratch pointers."""

    def enter(make: Callable[[Any], Launch]) -> Callable[[Any], Launch]:
        facts = triton_metadata()[make.__name__]

        def with_scratch(device: Any) -> Launch:
            launch = make(device)
            launch.args.extend([np.uint64(0), np.uint64(0)])
            return launch

        with_scratch.__name__ = make.__name__
        block = (facts["threads"],)
        CASES.append(Case("triton", make.__name__, facts["entry"], grid, block, facts["shared_bytes"], with_scratch))
        return make

    return enter


def added(n: int) -> Launch:
    x, y = rng().normal(size=(2, n)).astype(f4)
    return Launch([x, y, np.zeros(n, f4), i4(n)], {2: x + y})


@kernel(3)
def vector_add(device: Any) -> Launch:
    return added(1300)


@kernel(2)
def vector_add_sm100(device: Any) -> Launch:
    return added(1301)


@kernel(2)
def gelu(device: Any) -> Launch:
    n = 900
    x = rng().normal(size=n).astype(f2)
    d = x.astype(np.float64)
    y = 0.5 * d * (1 + np.array([math.erf(v * math.sqrt(0.5)) for v in d]))
    return Launch([x, np.zeros(n, f4), i4(n)], {1: y.astype(f4)}, rtol=2e-6, atol=1e-6)


@kernel(1)
def sigmoid_bf16(device: Any) -> Launch:
    n = 1000
    x = rng().normal(size=n).astype(bf16)
    y = (1 / (1 + np.exp(-x.astype(np.float64)))).astype(bf16)
    return Launch([x, np.zeros(n, bf16), i4(n)], {1: y})


@kernel(3)
def softmax(device: Any) -> Launch:
    x = rng().normal(size=(3, 200)).astype(f4)
    return Launch([x, np.zeros_like(x), i4(200)], {1: softmax_of(x)}, rtol=2e-6)


@kernel(3)
def layernorm(device: Any) -> Launch:
    x = rng().normal(size=(3, 400)).astype(f4)
    w, b = rng().normal(size=(2, 400)).astype(f4)
    d = x.astype(np.float64)
    mean = d.mean(1)
    y = (d - mean[:, None]) / np.sqrt(d.var(1)[:, None] + 1e-5) * w + b
    return Launch(
        [x, w, b, np.zeros_like(x), np.zeros(3, f4), i4(400), f4(1e-5)],
        {3: y.astype(f4), 4: mean.astype(f4)}, rtol=1e-5, atol=2e-6,
    )


def product(dtype: Any, m: int, n: int, k: int) -> Launch:
    """Small integers: exact in any order, and in tf32."""
    a = rng().integers(-9, 9, (m, k)).astype(dtype)
    b = rng().integers(-9, 9, (k, n)).astype(dtype)
    return Launch([a, b, np.zeros((m, n), f4), i4(m), i4(n), i4(k)], {2: a.astype(f4) @ b.astype(f4)})


@kernel(2, 2)
def matmul_f16(device: Any) -> Launch:
    return product(f2, 50, 60, 70)


@kernel(2, 2)
def matmul_bf16(device: Any) -> Launch:
    return product(bf16, 100, 50, 40)


@kernel(2, 1)
def matmul_tf32(device: Any) -> Launch:
    return product(f4, 40, 32, 64)


@kernel(1, 1)
def matmul_wgmma(device: Any) -> Launch:
    return product(f2, 64, 64, 64)


@kernel(1)
def matmul_int8(device: Any) -> Launch:
    a = rng().integers(-128, 128, (32, 64)).astype(np.int8)
    b = rng().integers(-128, 128, (64, 32)).astype(np.int8)
    return Launch([a, b, np.zeros((32, 32), i4), i4(64)], {2: a.astype(i4) @ b.astype(i4)})


@kernel(2)
def attention(device: Any) -> Launch:
    """Causal; p is rounded to f16 before the second product, so within its precision."""
    q, k, v = rng().normal(size=(3, 128, 32)).astype(f2)
    scores = q.astype(np.float64) @ k.T.astype(np.float64) * 0.125
    scores[np.triu_indices(128, 1)] = -np.inf
    p = np.exp(scores - scores.max(1, keepdims=True))
    out = (p / p.sum(1, keepdims=True)) @ v.astype(np.float64)
    return Launch(
        [q, k, v, np.zeros((128, 32), f4), i4(128), f4(0.125)], {3: out.astype(f4)}, rtol=2e-3, atol=1e-3
    )


@kernel(4)
def row_argmax(device: Any) -> Launch:
    """Equal maxima: the first counts."""
    x = rng().integers(-40, 40, (4, 230)).astype(f4)
    return Launch(
        [x, np.zeros(4, f4), np.zeros(4, i4), i4(230)], {1: x.max(1), 2: x.argmax(1).astype(i4)}
    )


@kernel(1)
def cumulative_sum(device: Any) -> Launch:
    x = rng().integers(-99, 99, (8, 128)).astype(i4)
    return Launch([x, np.zeros_like(x)], {1: x.cumsum(1, dtype=i4)})


@kernel(2)
def linear_recurrence(device: Any) -> Launch:
    """Powers of two and small integers: exact in any order."""
    a = rng().choice([0.0, 1.0, -1.0, 0.5], (2, 256)).astype(f4)
    b = rng().integers(-9, 9, (2, 256)).astype(f4)
    y = np.zeros_like(a)
    h = np.zeros(2, f4)
    for i in range(256):
        h = a[:, i] * h + b[:, i]
        y[:, i] = h
    return Launch([a, b, np.zeros_like(y)], {2: y}, rtol=1e-6)


@kernel(2)
def sort_rows(device: Any) -> Launch:
    x = rng().integers(-1000, 1000, (2, 256)).astype(i4)
    return Launch([x, np.zeros_like(x)], {1: np.sort(x, 1)})


@kernel(3)
def histogram(device: Any) -> Launch:
    x = rng().integers(0, 64, 1300).astype(i4)
    return Launch([x, np.zeros(64, i4), i4(1300)], {1: np.bincount(x, minlength=64).astype(i4)})


@kernel(2, 3)
def transpose(device: Any) -> Launch:
    x = rng().normal(size=(50, 70)).astype(f4)
    return Launch([x, np.zeros((70, 50), f4), i4(50), i4(70)], {1: x.T.copy()})


@kernel(20)
def gather_rows(device: Any) -> Launch:
    table = rng().normal(size=(30, 64)).astype(f2)
    index = rng().integers(0, 30, 20)
    return Launch([table, index, np.zeros((20, 64), f2)], {2: table[index]})


def philox(seed: int, counter: Any) -> Any:
    """Philox 4x32 with ten rounds: two words per counter."""
    c = [np.asarray(counter, np.uint64), *(np.zeros(len(counter), np.uint64) for _ in range(3))]
    k = [seed, 0]
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [
            b >> np.uint64(32) ^ c[1] ^ np.uint64(k[0]), b & low,
            a >> np.uint64(32) ^ c[3] ^ np.uint64(k[1]), a & low,
        ]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c[0].astype(u4), c[1].astype(u4)


def uniform(words: Any) -> Any:
    x = words.view(i4)
    return np.where(x < 0, ~x, x).astype(f4) * f4(4.6566127342e-10)


@kernel(2)
def random_numbers(device: Any) -> Launch:
    n = 400
    first, second = philox(1234, np.arange(n))
    u1, u2 = uniform(first), uniform(second)
    normal = np.sqrt(-2 * np.log(np.maximum(u1, f4(1e-7)).astype(np.float64))) * np.cos(2 * np.pi * u2)
    return Launch(
        [np.zeros(n, f4), np.zeros(n, i4), np.zeros(n, f4), i4(1234), i4(n)],
        {0: u1, 1: first.view(i4), 2: normal.astype(f4)}, rtol=1e-5, atol=1e-6,
    )


@kernel(2)
def dropout(device: Any) -> Launch:
    n = 1000
    x = rng().normal(size=n).astype(f4)
    y = np.where(uniform(philox(99, np.arange(n))[0]) > f4(0.3), x / (f4(1) - f4(0.3)), f4(0))
    return Launch([x, np.zeros(n, f4), f4(0.3), i4(99), i4(n)], {1: y}, rtol=3e-7)


@kernel(2)
def scatter_atomics(device: Any) -> Launch:
    n = 500
    where = rng().integers(0, 20, n).astype(i4)
    x = rng().integers(-9, 9, n).astype(f4)
    sums, most, halves = np.zeros(20, f4), np.full(20, -5, f4), np.zeros(20, f2)
    args = [where, x, sums.copy(), most.copy(), halves.copy(), i4(n)]
    np.add.at(sums, where, x)
    np.maximum.at(most, where, x)
    np.add.at(halves, where, x.astype(f2))
    return Launch(args, {2: sums, 3: most, 4: halves})


@kernel(4)
def locked_sum(device: Any) -> Launch:
    x = rng().integers(-99, 99, (4, 128)).astype(i4)
    return Launch([x, np.zeros(1, i4), np.zeros(128, i4)], {1: np.zeros(1, i4), 2: x.sum(0, dtype=i4)})


@kernel(2)
def persistent_relu(device: Any) -> Launch:
    n = 1500
    x = rng().normal(size=n).astype(f4)
    return Launch([x, np.zeros(n, f4), i4(n), i4(2)], {1: np.maximum(x, 0)})


@kernel(1)
def gcd(device: Any) -> Launch:
    a, b = rng().integers(1, 3000, (2, 128)).astype(i4)
    x, y, steps = a.copy(), b.copy(), 0
    while y.max() > 0:
        x, y = np.where(y > 0, y, x), np.where(y > 0, x % np.where(y > 0, y, 1), 0)
        steps += 1
    return Launch([a, b, np.zeros(128, i4), np.zeros(1, i4)], {2: np.gcd(a, b), 3: np.array([steps], i4)})


@kernel(2)
def integer_arithmetic(device: Any) -> Launch:
    n = 450
    a = rng().integers(-(2**31), 2**31, n).astype(i4)
    b = rng().integers(1, 100000, n).astype(i4) * rng().choice([-1, 1], n).astype(i4)
    q = np.trunc(a / b.astype(np.float64)).astype(i4)
    bits = np.array([v.bit_count() for v in a.view(u4).tolist()], i4)
    zeros = np.array([32 - v.bit_length() for v in b.view(u4).tolist()], i4)
    out = q + (a - q * b) * 3 + (a ^ b) - (a >> 3) + np.minimum(a, b) + bits + zeros
    high = (a.view(u4).astype(np.uint64) * b.view(u4).astype(np.uint64) >> np.uint64(32)).astype(np.int64)
    return Launch([a, b, np.zeros(n, i4), np.zeros(n, np.int64), i4(n)], {2: out, 3: high * b})


@kernel(2)
def casts(device: Any) -> Launch:
    n = 500
    x = (rng().normal(size=n) * 40).astype(f4)
    e4m3 = ml_dtypes.float8_e4m3fn
    return Launch(
        [x, np.zeros(n, np.int8), np.zeros(n, np.uint8), np.zeros(n, f2), np.zeros(n, bf16), np.zeros(n, e4m3),
         np.zeros(n), np.zeros(n, bool), i4(n)],
        {1: x.astype(np.int16).astype(np.int8), 2: np.abs(x).astype(np.uint16).astype(np.uint8), 3: x.astype(f2),
         4: x.astype(bf16), 5: x.astype(e4m3), 6: np.sqrt(np.abs(x.astype(np.float64))) / 7, 7: x > 1},
    )


@kernel(3)
def quantize_rows(device: Any) -> Launch:
    x = rng().normal(size=(3, 300)).astype(f4)
    scale = np.abs(x).max(1) / f4(127)
    y = np.rint(x / scale[:, None]).astype(np.int8)
    return Launch([x, np.zeros((3, 300), np.int8), np.zeros(3, f4), i4(300)], {1: y, 2: scale}, rtol=3e-7)


@kernel(2)
def convolve(device: Any) -> Launch:
    n = 500
    x, w = rng().integers(-9, 9, n).astype(f4), rng().integers(-9, 9, 5).astype(f4)
    return Launch([x, w, np.zeros(n, f4), i4(n)], {2: np.correlate(np.pad(x, 2), w).astype(f4)})
