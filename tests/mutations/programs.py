"""Correct kernels whose every barrier, index and store matters."""

from __future__ import annotations

import numpy as np

import tilejit as tj
from tests.mutations.edits import Program


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Distinct float32 numbers, so that no two stores are of the same value by chance."""
    count = int(np.prod(shape))
    return np.random.default_rng(seed).permutation(count).astype(np.float32).reshape(shape) + 1


def run_pipeline(kernel: tj.Kernel, n: int) -> None:
    a, b = numbers(n, 128), np.zeros((n, 128), np.float32)
    kernel[tj.cdiv(n, 8)](a, b)
    np.testing.assert_array_equal(b, a * 2 + 1)


PIPELINE = Program(
    """
@tj.kernel(threads=128)
def k(A: tj.Tensor, B: tj.Tensor):
    i = tj.cta_id(0)
    s = tj.alloc_shared((8, 128), tj.float32)
    x = tj.alloc_local((8, 128), tj.float32, layout=S[(8, 16, 8) : (16 @ tx, 1 @ tx, 1)])
    tj.cta.copy(s, A.tile((8, 128), (i, 0)))  # load
    tj.cta_sync()  # loaded
    tj.cta.copy(x, s)  # read
    tj.cta.mul(x, x, 2)
    tj.cta.add(x, x, 1)
    tj.cta.copy(s, x)  # write
    tj.cta_sync()  # written
    tj.cta.copy(B.tile((8, 128), (i, 0)), s)  # store
""",
    run_pipeline,
    (8, 16, 21, 3),
)


def run_sum(kernel: tj.Kernel, n: int) -> None:
    a, b = numbers(n, 128) % 1000, np.zeros(n, np.float32)
    kernel[n](a, b)
    np.testing.assert_array_equal(b, a.sum(axis=1))


SUM = Program(
    """
@tj.kernel(threads=128)
def k(A: tj.Tensor, B: tj.Tensor):
    t = tj.thread_id()
    row = tj.cta_id(0)
    s = tj.alloc_shared((128,), tj.float32)
    s[t] = A[row, t]  # fill
    tj.cta_sync()  # filled
    step = 64
    while step > 0:
        if t < step:
            s[t] += s[t + step]  # fold
        tj.cta_sync()  # folded
        step //= 2
    if t == 0:
        B[row] = s[0]  # result
""",
    run_sum,
    (1, 2, 5),
)


def run_stencil(kernel: tj.Kernel, n: int) -> None:
    a, b = numbers(n), np.zeros(n, np.float32)
    kernel[tj.cdiv(n, 64)](a, b)
    padded = np.pad(a, 1)
    np.testing.assert_array_equal(b, padded[:-2] + padded[1:-1] + padded[2:])


STENCIL = Program(
    """
@tj.kernel(threads=64)
def k(A: tj.Tensor, B: tj.Tensor):
    t = tj.thread_id()
    i = tj.cta_id(0) * 64 + t
    s = tj.alloc_shared((66,), tj.float32)
    n = A.shape[0]
    s[t + 1] = A[i] if i < n else 0.0  # middle
    if t == 0:
        s[0] = A[i - 1] if i > 0 else 0.0  # left
    if t == 63:
        s[65] = A[i + 1] if i + 1 < n else 0.0  # right
    tj.cta_sync()  # staged
    total = s[t] + s[t + 1] + s[t + 2]  # sum
    if i < n:
        B[i] = total  # store
""",
    run_stencil,
    (7, 64, 128, 200),
)


def run_transpose(kernel: tj.Kernel, n: int) -> None:
    a, b = numbers(32 * n, 32), np.zeros((32, 32 * n), np.float32)
    kernel[n](a, b)
    np.testing.assert_array_equal(b, a.T)


TRANSPOSE = Program(
    """
@tj.kernel(threads=256)
def k(A: tj.Tensor, B: tj.Tensor):
    x = tj.thread_id() % 32
    y = tj.thread_id() // 32
    first = tj.cta_id(0) * 32
    s = tj.alloc_shared((32 * 33,), tj.float32)
    for j in range(y, 32, 8):
        s[j * 33 + x] = A[first + j, x]  # in
    tj.cta_sync()  # staged
    for j in range(y, 32, 8):
        B[j, first + x] = s[x * 33 + j]  # out
""",
    run_transpose,
    (1, 2, 3),
)


def run_relay(kernel: tj.Kernel, n: int) -> None:
    a, b = numbers(n, 32), np.zeros((n, 32), np.float32)
    kernel[1](a, b)
    np.testing.assert_array_equal(b, a[:, ::-1] + 1)


# warp 0 brings a row, warp 1 takes it away while warp 0 brings the next one into the other half
RELAY = Program(
    """
@tj.kernel(threads=64)
def k(A: tj.Tensor, B: tj.Tensor):
    lane = tj.lane_id()
    s = tj.alloc_shared((2, 32), tj.float32)
    for i in range(A.shape[0] + 1):
        if tj.warp_id() == 0 and i < A.shape[0]:
            s[i % 2, lane] = A[i, lane]  # produce
        if tj.warp_id() == 1 and i > 0:
            B[i - 1, 31 - lane] = s[(i - 1) % 2, lane] + 1.0  # consume
        tj.cta_sync()  # handed-over
""",
    run_relay,
    (1, 2, 5),
)


def run_rows(kernel: tj.Kernel, n: int) -> None:
    a, b = numbers(n, 32), tj.empty((n, 32), tj.float32)
    kernel[n](a, b)
    np.testing.assert_array_equal(b.numpy(), a * 3)


ROWS = Program(
    """
@tj.kernel(threads=32)
def k(A: tj.Tensor, B: tj.Tensor):
    row = tj.cta_id(0)
    t = tj.thread_id()
    x = tj.alloc_local((32, 1), tj.float32, layout=S[(32, 1) : (1 @ tx, 1)])
    tj.cta.copy(x, A[row, 0:32])  # load
    tj.cta.mul(x, x, 3)  # scale
    B[row, t] = x.registers[0]  # store
""",
    run_rows,
    (1, 2, 9),
)

PROGRAMS = {"pipeline": PIPELINE, "sum": SUM, "stencil": STENCIL, "transpose": TRANSPOSE, "relay": RELAY, "rows": ROWS}
