"""Kernels for Numba, and for which types each is compiled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import complex64, cuda, float32, float64, int8, int32, int64, types, uint8, uint32, uint64


def vector_add(x, y, z):
    i = cuda.grid(1)
    if i < z.size:
        z[i] = x[i] + y[i]


def saxpy(a, x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = a * x[i] + y[i]


def sum_shared(x, out):
    buffer = cuda.shared.array(128, int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    buffer[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    s = 64
    while s > 0:
        if t < s:
            buffer[t] += buffer[t + s]
        cuda.syncthreads()
        s //= 2
    if t == 0:
        cuda.atomic.add(out, 0, buffer[0])


def sum_shuffle(x, out):
    i = cuda.grid(1)
    v = x[i] if i < x.size else float32(0)
    for d in (16, 8, 4, 2, 1):
        v += cuda.shfl_down_sync(0xFFFFFFFF, v, d)
    if cuda.laneid == 0:
        cuda.atomic.add(out, 0, v)


def extremes(x, out):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.max(out, 0, x[i])
        cuda.atomic.min(out, 1, x[i])


def matmul_shared(a, b, c):
    left = cuda.shared.array((16, 16), float32)
    right = cuda.shared.array((16, 16), float32)
    column, row = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for start in range(0, a.shape[1], 16):
        inside = row < a.shape[0] and start + tx < a.shape[1]
        left[ty, tx] = a[row, start + tx] if inside else 0
        inside = column < b.shape[1] and start + ty < b.shape[0]
        right[ty, tx] = b[start + ty, column] if inside else 0
        cuda.syncthreads()
        for j in range(16):
            total += left[ty, j] * right[j, tx]
        cuda.syncthreads()
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total


def transpose(x, y):
    tile = cuda.shared.array((16, 17), float64)
    column, row = cuda.grid(2)
    if row < x.shape[0] and column < x.shape[1]:
        tile[cuda.threadIdx.y, cuda.threadIdx.x] = x[row, column]
    cuda.syncthreads()
    column = cuda.blockIdx.y * 16 + cuda.threadIdx.x
    row = cuda.blockIdx.x * 16 + cuda.threadIdx.y
    if row < y.shape[0] and column < y.shape[1]:
        y[row, column] = tile[cuda.threadIdx.x, cuda.threadIdx.y]


def histogram(x, bins):
    counts = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    if t < 64:
        counts[t] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(counts, x[i] & 63, 1)
    cuda.syncthreads()
    if t < 64:
        cuda.atomic.add(bins, t, counts[t])


def stencil(x, y):
    r, c = cuda.grid(2)
    if 0 < r < x.shape[0] - 1 and 0 < c < x.shape[1] - 1:
        y[r, c] = 0.25 * (x[r - 1, c] + x[r + 1, c] + x[r, c - 1] + x[r, c + 1])


def scan_dynamic(x, y):
    buffer = cuda.shared.array(0, int64)
    t = cuda.threadIdx.x
    n = cuda.blockDim.x
    buffer[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    d = 1
    while d < n:
        v = buffer[t - d] if t >= d else int64(0)
        cuda.syncthreads()
        buffer[t] += v
        cuda.syncthreads()
        d *= 2
    y[cuda.grid(1)] = buffer[t]


def local_polynomial(x, y):
    powers = cuda.local.array(6, float32)
    i = cuda.grid(1)
    if i >= x.size:
        return
    powers[0] = 1
    for k in range(1, 6):
        powers[k] = powers[k - 1] * x[i]
    at = i % 6
    y[i] = powers[at] + powers[5 - at]


WEIGHTS = np.array([1.5, -2.0, 0.25, 8.0], np.float32)


def constant_weights(x, y):
    weights = cuda.const.array_like(WEIGHTS)
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] * weights[i % 4]


def collatz(start, steps):
    i = cuda.grid(1)
    if i >= start.size:
        return
    x = start[i]
    count = 0
    while x != 1:
        if count == 200:
            count = -1
            break
        x = x // 2 if x % 2 == 0 else 3 * x + 1
        count += 1
    steps[i] = count


def floor_division(a, b, quotient, remainder):
    i = cuda.grid(1)
    if i < a.size:
        quotient[i] = a[i] // b[i]
        remainder[i] = a[i] % b[i]


def double_functions(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i, 0] = math.exp(x[i])
        y[i, 1] = math.sin(x[i] * 100.0)
        y[i, 2] = math.log(abs(x[i]) + 1.0)
        y[i, 3] = math.sqrt(abs(x[i]))
        y[i, 4] = x[i] ** 3 / (x[i] * x[i] + 1.0)
        y[i, 5] = math.atan2(x[i], 0.5)


def bit_intrinsics(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i, 0] = cuda.popc(x[i])
        out[i, 1] = cuda.clz(x[i])
        out[i, 2] = cuda.brev(x[i])
        out[i, 3] = cuda.ffs(x[i])
        out[i, 4] = (x[i] << uint32(5)) ^ (x[i] >> uint32(27))


def casts(x, small, whole, half, flags):
    i = cuda.grid(1)
    if i < x.size:
        small[i] = int8(x[i])
        whole[i] = int64(x[i] * 1e9)
        half[i] = np.float16(x[i])
        flags[i] = x[i] > 0


def bitonic_sort(x):
    s = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    k = 2
    while k <= 256:
        j = k // 2
        while j > 0:
            cuda.syncthreads()
            other = t ^ j
            if other > t and (s[t] > s[other]) == ((t & k) == 0):
                s[t], s[other] = s[other], s[t]
            j //= 2
        k *= 2
    cuda.syncthreads()
    x[cuda.grid(1)] = s[t]


def mandelbrot(image, limit):
    c, r = cuda.grid(2)
    if r >= image.shape[0] or c >= image.shape[1]:
        return
    x = -2.0 + 3.0 * c / image.shape[1]
    y = -1.5 + 3.0 * r / image.shape[0]
    zx = zy = 0.0
    for step in range(limit):
        if zx * zx + zy * zy > 4.0:
            image[r, c] = step
            return
        zx, zy = zx * zx - zy * zy + x, 2.0 * zx * zy + y
    image[r, c] = 255


def complex_product(a, b, c):
    i = cuda.grid(1)
    if i < a.size:
        c[i] = a[i] * b[i] + b[i].conjugate()


def compare_and_swap_lock(lock, counter):
    if cuda.threadIdx.x == 0:
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        cuda.threadfence()
        counter[0] += cuda.blockIdx.x + 1
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)


def warp_votes(x, out):
    i = cuda.grid(1)
    v = x[i]
    out[i, 0] = cuda.ballot_sync(0xFFFFFFFF, v & 1)
    out[i, 1] = cuda.any_sync(0xFFFFFFFF, v == 3)
    out[i, 2] = cuda.match_any_sync(0xFFFFFFFF, v & 3)
    out[i, 3] = cuda.shfl_xor_sync(0xFFFFFFFF, v, 5)
    out[i, 4] = cuda.syncthreads_count(int32(v > 8))


def xorshift(seeds, out):
    i = cuda.grid(1)
    if i < seeds.size:
        s = seeds[i]
        for k in range(out.shape[1]):
            s ^= s << uint64(13)
            s ^= s >> uint64(7)
            s ^= s << uint64(17)
            out[i, k] = float32(s >> uint64(40)) * float32(2.0**-24)
        seeds[i] = s


PAIR = types.UniTuple(int32, 2)


def strided_and_tuple(x, offset, y):
    r, c = cuda.grid(2)
    if r < y.shape[0] and c < y.shape[1]:
        y[r, c] = x[r + offset[0], c + offset[1]]


@dataclass(frozen=True)
class Build:
    """One compilation: the types of the arguments."""

    kernel: Any
    types: tuple[Any, ...]

    @property
    def name(self) -> str:
        return str(self.kernel.__name__)


BUILDS = [
    Build(vector_add, (float32[::1], float32[::1], float32[::1])),
    Build(saxpy, (float32, float32[::1], float32[::1])),
    Build(sum_shared, (int32[::1], int32[::1])),
    Build(sum_shuffle, (float32[::1], float32[::1])),
    Build(extremes, (float64[::1], float64[::1])),
    Build(matmul_shared, (float32[:, ::1], float32[:, ::1], float32[:, ::1])),
    Build(transpose, (float64[:, ::1], float64[:, ::1])),
    Build(histogram, (uint8[::1], int32[::1])),
    Build(stencil, (float32[:, ::1], float32[:, ::1])),
    Build(scan_dynamic, (int64[::1], int64[::1])),
    Build(local_polynomial, (float32[::1], float32[::1])),
    Build(constant_weights, (float32[::1], float32[::1])),
    Build(collatz, (int64[::1], int32[::1])),
    Build(floor_division, (int32[::1], int32[::1], int32[::1], int32[::1])),
    Build(double_functions, (float64[::1], float64[:, ::1])),
    Build(bit_intrinsics, (uint32[::1], uint32[:, ::1])),
    Build(casts, (float32[::1], int8[::1], int64[::1], types.float16[::1], types.boolean[::1])),
    Build(bitonic_sort, (float32[::1],)),
    Build(mandelbrot, (uint8[:, ::1], int32)),
    Build(complex_product, (complex64[::1], complex64[::1], complex64[::1])),
    Build(compare_and_swap_lock, (int32[::1], int64[::1])),
    Build(warp_votes, (int32[::1], int32[:, ::1])),
    Build(xorshift, (uint64[::1], float32[:, ::1])),
    Build(strided_and_tuple, (float32[:, :], PAIR, float32[:, ::1])),
]
