"""nvcc's users' programs of physics, statistics, images and machine learning: launches and references."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .case import Launch
from .nvcc_entries import kernel, rng

f4, f8, i4, u4, u8 = np.float32, np.float64, np.int32, np.uint32, np.uint64


@kernel("science", (4, 4), (16, 8))
def mandelbrot(device: Any) -> Launch:
    """The steps between the points are exact."""
    cx, cy = np.meshgrid(-2 + np.arange(64) * (2.5 / 64), -1.25 + np.arange(32) * (2.5 / 32))
    x, y = np.zeros((2, 32, 64))
    out = np.zeros((32, 64), np.uint16)
    inside = np.ones((32, 64), bool)
    for _ in range(40):
        inside &= x * x + y * y <= 4
        out += inside
        x, y = np.where(inside, x * x - y * y + cx, x), np.where(inside, 2 * x * y + cy, y)
    return Launch([np.zeros_like(out), i4(64), i4(32), i4(40)], {0: out})


@kernel("science", (2,), (32,))
def n_body_step(device: Any) -> Launch:
    """Sums of 50 terms that err by some ulp each."""
    n = 50
    bodies = rng().normal(size=(n, 4))
    bodies[:, 3] = rng().random(n)
    speeds = rng().normal(size=(n, 3))
    d = bodies[None, :, :3] - bodies[:, None, :3]
    a = (d * (bodies[:, 3] * ((d * d).sum(2) + 0.01) ** -1.5)[:, :, None]).sum(1)
    v = speeds + a * 0.01
    moved = np.concatenate([bodies[:, :3] + v * 0.01, bodies[:, 3:]], 1)
    args = [bodies, np.zeros((n, 4)), speeds.copy(), i4(n), f8(0.01)]
    return Launch(args, {1: moved, 2: v}, rtol=1e-13, atol=1e-13)


def life(cells: Any) -> Any:
    around = sum(np.roll(cells, (r, c), (0, 1)) for r in (-1, 0, 1) for c in (-1, 0, 1) if r or c)
    return ((around == 3) | (around == 2) & (cells == 1)).astype(np.uint8)


@kernel("science", (3, 3), (16, 8))
def game_of_life(device: Any) -> Launch:
    cells = rng().integers(0, 2, (21, 39)).astype(np.uint8)
    return Launch([cells, np.zeros_like(cells), i4(21), i4(39)], {1: life(cells)})


@kernel("science", (1,), (32,))
def life_of_bits(device: Any) -> Launch:
    cells = rng().integers(0, 2, (32, 32)).astype(np.uint8)
    after = cells
    for _ in range(5):
        after = life(after)
    rows, out = (np.packbits(x, axis=1, bitorder="little").view(u4)[:, 0] for x in (cells, after))
    return Launch([rows, np.zeros(32, u4), i4(5)], {1: out})


@kernel("science", (3,), (32,))
def rule_110(device: Any) -> Launch:
    rows = rng().integers(0, 2**32, (3, 11), u8).astype(u4)
    rows[:, 1:] = 0
    out = rows.copy()
    for row in out:
        bits = [int(row[0]) >> i & 1 for i in range(32)]
        for s in range(1, 11):
            bits = [110 >> (4 * bits[(i + 1) % 32] + 2 * bits[i] + bits[i - 1]) & 1 for i in range(32)]
            row[s] = sum(b << i for i, b in enumerate(bits))
    return Launch([rows, i4(10)], {0: out})


@kernel("science", (3,), (128,))
def k_means_step(device: Any) -> Launch:
    points = rng().integers(-1000, 1000, (300, 2)).astype(np.int16)
    centres = rng().integers(-1000, 1000, (6, 2)).astype(i4)
    which = ((points[:, None].astype(i4) - centres) ** 2).sum(2).argmin(1)
    sums = np.zeros((6, 3), i4)
    np.add.at(sums, which, np.column_stack([points, np.ones(300)]).astype(i4))
    args = [points, centres, np.zeros(300, i4), np.zeros((6, 3), i4), i4(300), i4(6)]
    return Launch(args, {2: which.astype(i4), 3: sums})


def xorshift(s: Any) -> Any:
    s = s ^ s << u4(13)
    s = s ^ s >> u4(17)
    return s ^ s << u4(5)


@kernel("science", (2,), (64,))
def monte_carlo_pi(device: Any) -> Launch:
    seeds = rng().integers(1, 2**32, (2, 64), u8).astype(u4)
    s, inside = seeds, np.zeros(2, u4)
    for _ in range(25):
        x = xorshift(s)
        s = y = xorshift(x)
        a, b = (x >> u4(1)).astype(u8), (y >> u4(1)).astype(u8)
        inside += (a * a + b * b < u8(2**62)).sum(1).astype(u4)
    assert abs(4 * inside.sum() / (25 * 128) - math.pi) < 0.1
    return Launch([seeds, np.zeros(2, u4), i4(25)], {1: inside})


@kernel("science", (2,), (32,))
def random_walks(device: Any) -> Launch:
    states = rng().integers(0, 2**64, (50, 2), u8)
    after, ends, farthest = states.copy(), np.zeros((50, 2), i4), 0
    mask = 2**64 - 1
    for i, (p, q) in enumerate(states.tolist()):
        x = y = 0
        for _ in range(40):
            a, b = p, q
            a ^= a << 23 & mask
            p, q = b, a ^ b ^ a >> 17 ^ b >> 26
            step = ((q + b) & mask) >> 62
            x += (step == 0) - (step == 1)
            y += (step == 2) - (step == 3)
            farthest = max(farthest, abs(x) + abs(y))
        after[i], ends[i] = (p, q), (x, y)
    args = [states.copy(), np.zeros((50, 2), i4), np.zeros(1, i4), i4(40), i4(50)]
    return Launch(args, {0: after, 1: ends, 2: np.array([farthest], i4)})


@kernel("science", (2, 4), (16, 8))
def ising_half_step(device: Any) -> Launch:
    spins = rng().choice([-1, 1], (32, 32)).astype(np.int8)
    thresholds = np.array([0, 0.4 * 2**32, 0.2 * 2**32]).astype(u4)
    y, x = np.mgrid[:32, :32]
    around = sum(np.roll(spins, shift, axis) for shift in (-1, 1) for axis in (0, 1))
    gain = spins * around
    draws = xorshift(u4(99) ^ (y * 32 + x + 1).astype(u4) * u4(2654435761))
    turns = ((x + y) % 2 == 1) & ((gain <= 0) | (draws < thresholds[np.maximum(gain, 0) // 2]))
    after = np.where(turns, -spins, spins).astype(np.int8)
    return Launch([spins.copy(), thresholds, i4(32), i4(1), u4(99)], {0: after})


@kernel("science", (2,), (128,))
def fourier_transform(device: Any) -> Launch:
    """Each of the 8 stages errs by at most 4 units of 2**-24, relative to the norm of the data."""
    x = rng().integers(-9, 9, (2, 256, 2)).astype(f4)
    y = np.fft.fft(x.astype(f8).view(np.complex128)[..., 0]).view(f8).reshape(2, 256, 2)
    norm = float(np.sqrt((x.astype(f8) ** 2).sum((1, 2)).max()))
    return Launch([x, np.zeros_like(x)], {1: y.astype(f4)}, atol=8 * 4 * 2.0**-24 * norm)


@kernel("science", (2,), (64,))
def haar_wavelet(device: Any) -> Launch:
    x = rng().integers(-999, 999, (2, 128)).astype(i4)
    y = np.zeros_like(x)
    s = x
    while s.shape[1] > 1:
        pairs = s.reshape(2, -1, 2)
        n = pairs.shape[1]
        y[:, n : 2 * n] = pairs[:, :, 0] - pairs[:, :, 1]
        s = pairs.sum(2, dtype=i4)
    y[:, 0] = s[:, 0]
    return Launch([x, np.zeros_like(x)], {1: y})


def picture(*shape: int) -> Any:
    return rng().integers(0, 256, shape).astype(np.uint8)


@kernel("science", (3, 3), (16, 8))
def sobel_edges(device: Any) -> Launch:
    image = picture(21, 35) // 8 * (np.arange(35) // 9).astype(np.uint8)
    v = image.astype(i4)
    down = v[:-2] + 2 * v[1:-1] + v[2:]
    across = v[:, :-2] + 2 * v[:, 1:-1] + v[:, 2:]
    edges = np.zeros_like(image)
    edges[1:-1, 1:-1] = np.minimum(np.abs(down[:, 2:] - down[:, :-2]) + np.abs(across[2:] - across[:-2]), 255)
    return Launch([image, np.zeros_like(image), i4(21), i4(35)], {1: edges})


@kernel("science", (1,), (256,))
def equalized_grey(device: Any) -> Launch:
    pixels = picture(600, 3)
    grey = pixels.astype(i4) @ np.array([77, 150, 29], i4) >> 8
    below = np.array([(grey <= g).sum() for g in grey])
    return Launch([pixels, np.zeros(600, np.uint8), i4(600)], {1: (below * 255 // 600).astype(np.uint8)})


@kernel("science", (1,), (64,))
def integral_image(device: Any) -> Launch:
    image = picture(30, 45)
    sums = image.cumsum(0, dtype=u4).cumsum(1, dtype=u4)
    return Launch([image, np.zeros((30, 45), u4), i4(30), i4(45)], {1: sums})


@kernel("science", (3, 4), (16, 8))
def resize_bilinear(device: Any) -> Launch:
    image = picture(19, 23).astype(i4)
    y, x = np.mgrid[:30, :41]
    fx, fy = x * 22 * 256 // 40, y * 18 * 256 // 29
    x0, y0, ax, ay = fx >> 8, fy >> 8, fx & 255, fy & 255
    x1, y1 = np.minimum(x0 + 1, 22), np.minimum(y0 + 1, 18)
    corners = [(y0, x0, 256 - ay, 256 - ax), (y0, x1, 256 - ay, ax), (y1, x0, ay, 256 - ax), (y1, x1, ay, ax)]
    out = sum(image[r, c] * p * q for r, c, p, q in corners) + 32768 >> 16
    args = [image.astype(np.uint8), np.zeros((30, 41), np.uint8), i4(19), i4(23), i4(30), i4(41)]
    return Launch(args, {1: out.astype(np.uint8)})


@kernel("science", (2,), (32,))
def recursive_filter(device: Any) -> Launch:
    """Two more bits per step: exact."""
    x = rng().integers(-9, 9, (20, 50)).astype(f8)
    y = x.copy()
    for i in range(1, 20):
        y[i] += y[i - 1] / 2 - (y[i - 2] / 4 if i > 1 else 0)
    return Launch([x, np.zeros_like(x), i4(20), i4(50)], {1: y})


@kernel("science", (2,), (64,))
def rays_and_spheres(device: Any) -> Launch:
    """No ray touches a sphere so narrowly that rounding decides."""
    d = rng().normal(size=(100, 3))
    spheres = np.concatenate([rng().normal(size=(8, 3)) * 4, rng().uniform(0.5, 2, (8, 1))], 1)
    centre, radius = spheres[:, :3], spheres[:, 3]
    length, b, c = (d * d).sum(1)[:, None], d @ centre.T, (centre**2).sum(1) - radius**2
    under = b * b - length * c
    assert (np.abs(under) > 1e-4 * (b * b + np.abs(length * c))).all()
    t = np.where(under >= 0, (b - np.sqrt(np.maximum(under, 0))) / length, 1e30)
    t = np.where(t > 0, t, 1e30)
    hit = np.where(t.min(1) < 1e30, t.argmin(1), -1)
    assert 20 < (hit < 0).sum() < 80
    args = [d, spheres, i4(8), np.zeros(100, i4), np.zeros(100), i4(100)]
    return Launch(args, {3: hit.astype(i4), 4: t.min(1)}, rtol=1e-12)


@kernel("science", (2,), (64,))
def option_prices(device: Any) -> Launch:
    """Differences of numbers of about 100, which err by some ulp."""
    price, strike = rng().uniform(50, 150, (2, 100))
    years = rng().uniform(0.1, 3, 100)
    spread = 0.3 * np.sqrt(years)
    d1 = (np.log(price / strike) + 0.065 * years) / spread
    cdf1, cdf2 = (np.array([math.erfc(-v / math.sqrt(2)) / 2 for v in d]) for d in (d1, d1 - spread))
    discounted = strike * np.exp(-0.02 * years)
    call = price * cdf1 - discounted * cdf2
    args = [price, strike, years, np.zeros(100), np.zeros(100), i4(100)]
    return Launch(args, {3: call, 4: call - price + discounted}, atol=2e-13)


@kernel("science", (3,), (64,))
def softmax_online(device: Any) -> Launch:
    x = (rng().normal(size=(6, 150)) * 3).astype(f4)
    d = np.exp(x.astype(f8) - x.max(1, keepdims=True))
    return Launch([x, np.zeros_like(x), i4(150)], {1: (d / d.sum(1, keepdims=True)).astype(f4)}, rtol=2e-6)


@kernel("science", (6,), (32,))
def quantized_matrix_vector(device: Any) -> Launch:
    """Small integers and scales that are powers of two: exact."""
    w = rng().integers(0, 16, (6, 320))
    scales = (2.0 ** rng().integers(-2, 3, (6, 10))).astype(f4)
    x = rng().integers(-9, 9, 320).astype(f4)
    packed = (w.reshape(6, 40, 8) << 4 * np.arange(8)).sum(2).astype(u4)
    y = ((w - 8) * np.repeat(scales, 32, 1)) @ x
    return Launch([packed, scales, x, np.zeros(6, f4), i4(320)], {3: y.astype(f4)})


@kernel("science", (7,), (32,))
def embedding_sums(device: Any) -> Launch:
    table = rng().integers(-99, 99, (30, 12, 4)).astype(f4)
    sizes = np.array([3, 0, 1, 5, 2, 4, 8])
    offsets = np.append(0, sizes.cumsum()).astype(i4)
    indices = rng().integers(0, 30, 23).astype(i4)
    out = np.stack([table[indices[a:b]].sum(0) for a, b in zip(offsets, offsets[1:], strict=False)])
    return Launch([offsets, indices, table, np.zeros_like(out), i4(12)], {3: out})


@kernel("science", (2,), (64,))
def adam_step(device: Any) -> Launch:
    """Sums of numbers of about 1, rounded some times to 24 bits."""
    weight, gradient, first = rng().normal(size=(3, 200)).astype(f4)
    second = rng().random(200).astype(f4)
    m = f8(f4(0.9)) * first + f8(f4(0.1)) * gradient
    v = f8(f4(0.999)) * second + f8(f4(0.001)) * gradient.astype(f8) ** 2
    after = weight - f8(f4(0.01)) * (m * 1.25) / (np.sqrt(v * 1.5) + 1e-8)
    args = [weight.copy(), gradient, first.copy(), second.copy(), i4(200), f4(0.01), f4(1.25), f4(1.5)]
    return Launch(args, {0: after.astype(f4), 2: m.astype(f4), 3: v.astype(f4)}, rtol=2.0**-22, atol=2.0**-22)
