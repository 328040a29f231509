"""The kernels of Numba: launches and references."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .case import Case, Launch
from .nvcc_entries import rng

CASES: list[Case] = []
f4, i4, u4, i8 = np.float32, np.int32, np.uint32, np.int64


def kernel(
    grid: tuple[int, ...], block: tuple[int, ...], shared_bytes: int = 0
) -> Callable[[Callable[[Any], Launch]], Callable[[Any], Launch]]:
    """Enter a function that makes a launch; it has the file's name."""

    def enter(make: Callable[[Any], Launch]) -> Callable[[Any], Launch]:
        CASES.append(Case("numba", make.__name__, "", grid, block, shared_bytes, make))
        return make

    return enter


def launch(args: list[Any], expected: Mapping[int, Any], **tolerance: float) -> Launch:
    """A launch whose arrays are passed as Numba does: two owners, size, item size, data, shape, strides."""
    values: list[Any] = []
    places: dict[int, int] = {}
    for i, x in enumerate(args):
        if not isinstance(x, np.ndarray):
            values.append(x)
            continue
        places[i] = len(values) + 4
        values += [np.uint64(0), np.uint64(0), i8(x.size), i8(x.itemsize), x, *map(i8, x.shape), *map(i8, x.strides)]
    return Launch(values, {places[i]: x for i, x in expected.items()}, **tolerance)


@kernel((3,), (128,))
def vector_add(device: Any) -> Launch:
    x, y = rng().normal(size=(2, 300)).astype(f4)
    return launch([x, y, np.zeros(300, f4)], {2: x + y})


@kernel((2,), (64,))
def saxpy(device: Any) -> Launch:
    x, y = rng().integers(-99, 99, (2, 500)).astype(f4)
    return launch([f4(1.5), x, y.copy()], {2: f4(1.5) * x + y})


@kernel((3,), (128,))
def sum_shared(device: Any) -> Launch:
    x = rng().integers(-99, 99, 350).astype(i4)
    return launch([x, np.zeros(1, i4)], {1: x.sum(dtype=i4)[None]})


@kernel((3,), (128,))
def sum_shuffle(device: Any) -> Launch:
    x = rng().integers(-99, 99, 350).astype(f4)
    return launch([x, np.zeros(1, f4)], {1: x.sum(dtype=f4)[None]})


@kernel((3,), (128,))
def extremes(device: Any) -> Launch:
    x = rng().normal(size=350)
    return launch([x, np.zeros(2)], {1: np.array([x.max(), x.min()])})


@kernel((3, 2), (16, 16))
def matmul_shared(device: Any) -> Launch:
    a, b = rng().integers(-9, 9, (30, 40)).astype(f4), rng().integers(-9, 9, (40, 37)).astype(f4)
    return launch([a, b, np.zeros((30, 37), f4)], {2: a @ b})


@kernel((3, 2), (16, 16))
def transpose(device: Any) -> Launch:
    x = rng().normal(size=(30, 40))
    return launch([x, np.zeros((40, 30))], {1: x.T.copy()})


@kernel((3,), (128,))
def histogram(device: Any) -> Launch:
    x = rng().integers(0, 256, 1000).astype(np.uint8)
    return launch([x, np.zeros(64, i4)], {1: np.bincount(x & 63, minlength=64).astype(i4)})


@kernel((2, 2), (16, 16))
def stencil(device: Any) -> Launch:
    x = rng().integers(-99, 99, (30, 25)).astype(f4)
    y = np.zeros_like(x)
    y[1:-1, 1:-1] = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
    return launch([x, np.zeros_like(x)], {1: y})


@kernel((2,), (128,), shared_bytes=1024)
def scan_dynamic(device: Any) -> Launch:
    x = rng().integers(-99, 99, (2, 128))
    return launch([x.reshape(-1), np.zeros(256, i8)], {1: x.cumsum(1).reshape(-1)})


@kernel((2,), (128,))
def local_polynomial(device: Any) -> Launch:
    n = 200
    x = rng().integers(-6, 7, n).astype(f4)
    at = np.arange(n) % 6
    return launch([x, np.zeros(n, f4)], {1: (x**at + x ** (5 - at)).astype(f4)})


@kernel((2,), (128,))
def constant_weights(device: Any) -> Launch:
    x = rng().normal(size=200).astype(f4)
    weights = np.array([1.5, -2.0, 0.25, 8.0], f4)
    return launch([x, np.zeros(200, f4)], {1: x * weights[np.arange(200) % 4]})


@kernel((2,), (128,))
def collatz(device: Any) -> Launch:
    n = 200
    steps = np.zeros(n, i4)
    for i in range(n):
        x = i + 1
        while x != 1:
            x = x // 2 if x % 2 == 0 else 3 * x + 1
            steps[i] += 1
    return launch([np.arange(1, n + 1), np.zeros(n, i4)], {1: steps})


@kernel((3,), (128,))
def floor_division(device: Any) -> Launch:
    a = rng().integers(-(2**31), 2**31, 300).astype(i4)
    b = rng().integers(1, 5000, 300).astype(i4) * rng().choice([-1, 1], 300).astype(i4)
    return launch([a, b, np.zeros(300, i4), np.zeros(300, i4)], {2: a // b, 3: a % b})


@kernel((2,), (128,))
def double_functions(device: Any) -> Launch:
    x = rng().normal(size=200) * 3
    y = np.stack([np.exp(x), np.sin(x * 100), np.log(np.abs(x) + 1), np.sqrt(np.abs(x)), x**3 / (x * x + 1),
                  np.arctan2(x, 0.5)], 1)
    return launch([x, np.zeros((200, 6))], {1: y}, rtol=1e-14, atol=1e-15)


@kernel((2,), (128,))
def bit_intrinsics(device: Any) -> Launch:
    x = rng().integers(0, 2**32, 200, np.uint64).astype(u4)
    x[:3] = 0, 1, 2**31
    out = [[v.bit_count(), 32 - v.bit_length(), int(f"{v:032b}"[::-1], 2), (v & -v).bit_length(),
            (v << 5 ^ v >> 27) & 0xFFFFFFFF] for v in x.tolist()]
    return launch([x, np.zeros((200, 5), u4)], {1: np.array(out, u4)})


@kernel((2,), (128,))
def casts(device: Any) -> Launch:
    x = (rng().normal(size=200) * 30).astype(f4)
    return launch(
        [x, np.zeros(200, np.int8), np.zeros(200, i8), np.zeros(200, np.float16), np.zeros(200, bool)],
        {1: x.astype(np.int8), 2: (x.astype(np.float64) * 1e9).astype(i8), 3: x.astype(np.float16), 4: x > 0},
    )


@kernel((2,), (256,))
def bitonic_sort(device: Any) -> Launch:
    x = rng().normal(size=(2, 256)).astype(f4)
    return launch([x.reshape(-1).copy()], {0: np.sort(x, 1).reshape(-1)})


@kernel((2, 2), (16, 16))
def mandelbrot(device: Any) -> Launch:
    rows, columns = 30, 31
    x = -2.0 + 3.0 * np.arange(columns)[None, :] / columns + np.zeros((rows, 1))
    y = -1.5 + 3.0 * np.arange(rows)[:, None] / rows + np.zeros((1, columns))
    zx, zy = np.zeros_like(x), np.zeros_like(x)
    image = np.full((rows, columns), 255, np.uint8)
    for step in range(30):
        image[(zx * zx + zy * zy > 4) & (image == 255)] = step
        zx, zy = np.where(image == 255, zx * zx - zy * zy + x, zx), np.where(image == 255, 2 * zx * zy + y, zy)
    return launch([np.zeros_like(image), i4(30)], {0: image})


@kernel((2,), (128,))
def complex_product(device: Any) -> Launch:
    a, b = (rng().integers(-9, 9, (2, 200)) + 1j * rng().integers(-9, 9, (2, 200))).astype(np.complex64)
    return launch([a, b, np.zeros(200, np.complex64)], {2: a * b + b.conj()})


@kernel((6,), (32,))
def compare_and_swap_lock(device: Any) -> Launch:
    return launch([np.zeros(1, i4), np.zeros(1, i8)], {0: np.zeros(1, i4), 1: np.array([21], i8)})


@kernel((2,), (96,))
def warp_votes(device: Any) -> Launch:
    x = rng().integers(0, 12, (6, 32)).astype(i4)
    lane = np.arange(32)
    weights = 1 << lane
    out = np.zeros((6, 32, 5), i8)
    for w, v in enumerate(x):
        out[w, :, 0] = ((v & 1) * weights).sum()
        out[w, :, 1] = (v == 3).any()
        out[w, :, 2] = (((v[:, None] ^ v[None, :]) & 3 == 0) * weights).sum(1)
        out[w, :, 3] = v[lane ^ 5]
        out[w, :, 4] = (x[w // 3 * 3 : w // 3 * 3 + 3] > 8).sum()
    return launch([x.reshape(-1), np.zeros((192, 5), i4)], {1: out.reshape(192, 5).astype(i4)})


@kernel((2,), (64,))
def xorshift(device: Any) -> Launch:
    s = rng().integers(1, 2**63, 100, np.uint64)
    seeds, out = s.copy(), np.zeros((100, 4), f4)
    for k in range(4):
        for by in (13, -7, 17):
            s = s ^ (s << np.uint64(by) if by > 0 else s >> np.uint64(-by))
        out[:, k] = (s >> np.uint64(40)).astype(f4) * f4(2**-24)
    return launch([seeds, np.zeros((100, 4), f4)], {0: s, 1: out})


@kernel((2, 2), (16, 16))
def strided_and_tuple(device: Any) -> Launch:
    base = rng().normal(size=(60, 80)).astype(f4)
    x = base[::2, 5::3]
    return launch([x, i4(2), i4(1), np.zeros((20, 22), f4)], {3: x[2:22, 1:23]})
