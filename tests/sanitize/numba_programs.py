"""Programs of Numba-CUDA as users write them: each compares its results with NumPy, and ignores the simulator."""

from __future__ import annotations

# mypy: ignore-errors
import math

import numpy as np
from numba import cuda, float32, int32
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

RANDOM = np.random.default_rng(7)


@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


def vectors():
    x, y = RANDOM.standard_normal((2, 1000)).astype(np.float32)
    on_device = cuda.to_device(x), cuda.to_device(y)
    out = cuda.device_array_like(x)
    add[8, 128](*on_device, out)
    cuda.synchronize()
    assert np.array_equal(out.copy_to_host(), x + y)


def arrays_of_the_host():
    x, y = RANDOM.standard_normal((2, 1000))
    out = np.zeros(1000)
    add[8, 128](x, y, out)
    assert np.array_equal(out, x + y)
    add[8, 128](cuda.In(x), cuda.In(y), cuda.Out(out[::-1][::-1]))
    assert np.array_equal(out, x + y)


@cuda.jit
def block_sums(x, out):
    tile = cuda.shared.array(128, float32)
    thread = cuda.threadIdx.x
    tile[thread] = x[cuda.grid(1)]
    cuda.syncthreads()
    half = 64
    while half > 0:
        if thread < half:
            tile[thread] += tile[thread + half]
        cuda.syncthreads()
        half //= 2
    if thread == 0:
        cuda.atomic.add(out, 0, tile[0])


def reduction():
    x = np.arange(1024, dtype=np.float32)
    out = cuda.to_device(np.zeros(1, np.float32))
    block_sums[8, 128](cuda.to_device(x), out)
    # the sums of fewer than 2^24 are exact
    assert out.copy_to_host()[0] == x.sum()


@cuda.jit
def dynamic_reverse(x):
    tile = cuda.shared.array(0, int32)
    thread = cuda.threadIdx.x
    tile[thread] = x[thread]
    cuda.syncthreads()
    x[thread] = tile[cuda.blockDim.x - 1 - thread]


def dynamic_shared_memory():
    x = np.arange(96, dtype=np.int32)
    dynamic_reverse[1, 96, 0, 96 * 4](x)
    assert np.array_equal(x, np.arange(96)[::-1])


@cuda.jit
def product(a, b, c):
    row, column = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total = 0.0
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total


def matrices():
    a = RANDOM.integers(-9, 9, (20, 30)).astype(np.float64)
    b = np.asfortranarray(RANDOM.integers(-9, 9, (30, 10)).astype(np.float64))
    c = cuda.device_array((20, 10))
    product[(2, 1), (16, 16)](cuda.to_device(a), cuda.to_device(b), c)
    assert np.array_equal(c.copy_to_host(), a @ b)
    # a column of the result, and every second row
    assert np.array_equal(c[:, 3].copy_to_host(), (a @ b)[:, 3])
    twice = cuda.to_device(np.zeros((40, 10)))
    product[(2, 1), (16, 16)](cuda.to_device(a), cuda.to_device(b), twice[::2])
    assert np.array_equal(twice.copy_to_host()[::2], a @ b)


@cuda.jit
def scalars(out, flag, small, wide, single, double, half, pair, value):
    out[0] = 1 if flag else 0
    out[1] = small
    out[2] = wide
    out[3] = single
    out[4] = double
    out[5] = float32(half)
    out[6] = pair[0] + pair[1][1]
    out[7] = value.real + 10 * value.imag


def kinds_of_scalars():
    out = np.zeros(8)
    values = (np.int8(-3), 2**40, np.float32(1.5), -2.25, np.float16(0.5), (3, (4, 5.5)), 1 + 2j)
    scalars[1, 1](out, True, *values)
    assert out.tolist() == [1, -3, 2**40, 1.5, -2.25, 0.5, 8.5, 21]


RECORD = np.dtype([("x", np.float32), ("n", np.int32)], align=True)


@cuda.jit
def move(points, offset):
    i = cuda.grid(1)
    if i < points.size:
        points[i].x += offset.x
        points[i].n = i * offset.n


def records():
    points, offset = np.zeros(10, RECORD), np.zeros(1, RECORD)[0]
    offset["x"], offset["n"] = 1.5, 3
    move[1, 32](points, offset)
    assert points["x"].tolist() == [1.5] * 10 and points["n"].tolist() == list(range(0, 30, 3))


@cuda.jit(device=True)
def clamped(value, most):
    return most if value > most else value


@cuda.jit("void(float32[::1], float32)")
def clamp(x, most):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = clamped(math.sqrt(x[i]), most)


def signatures_and_device_functions():
    x = np.arange(100, dtype=np.float32)
    clamp.forall(100)(x, np.float32(5))
    assert np.allclose(x, np.minimum(np.sqrt(np.arange(100, dtype=np.float32)), 5), rtol=2**-22, atol=0)


def streams_and_events():
    stream, begin, end = cuda.stream(), cuda.event(), cuda.event()
    x = cuda.pinned_array(256, np.float32)
    x[:] = 1
    begin.record(stream)
    on_device = cuda.to_device(x, stream=stream)
    add[2, 128, stream](on_device, on_device, on_device)
    on_device.copy_to_host(x, stream=stream)
    end.record(stream)
    end.synchronize()
    stream.synchronize()
    assert x.tolist() == [2] * 256 and begin.elapsed_time(end) > 0 and end.query()
    with stream.auto_synchronize():
        on_device[:] = 5
    assert on_device.copy_to_host().tolist() == [5] * 256


def mapped_memory():
    x = cuda.mapped_array(256, np.float32)
    x[:] = 3
    add[2, 128](x, x, x)
    assert x.tolist() == [6] * 256
    y = np.ones(256, np.float32)
    with cuda.pinned(y), cuda.mapped(y) as on_device:
        add[2, 128](on_device, on_device, on_device)
    assert y.tolist() == [2] * 256


@cuda.jit
def draw(states, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = xoroshiro128p_uniform_float32(states, i)


def random_numbers():
    states = create_xoroshiro128p_states(256, seed=1)
    out = cuda.device_array(256, np.float32)
    draw[2, 128](states, out)
    values = out.copy_to_host()
    assert len(set(values.tolist())) > 200 and values.min() >= 0 and values.max() < 1


@cuda.jit
def histogram(values, bins):
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(bins, values[i], 1)


def atomics():
    values = RANDOM.integers(0, 10, 3000).astype(np.uint8)
    bins = cuda.to_device(np.zeros(10, np.int32))
    histogram[4, 64](cuda.to_device(values), bins)
    assert np.array_equal(bins.copy_to_host(), np.bincount(values, minlength=10))


@cuda.reduce
def largest(a, b):
    return a if a > b else b


def library():
    x = RANDOM.integers(-1000, 1000, 3000)
    assert largest(x, init=-(10**6)) == x.max()


def properties_of_the_device():
    device = cuda.get_current_device()
    assert device.WARP_SIZE == 32 and device.MAX_THREADS_PER_BLOCK == 1024 and device.compute_capability == (9, 0)
    assert cuda.is_available() and len(cuda.gpus) == 1 and cuda.current_context().get_memory_info().free > 0
    with cuda.gpus[0]:
        cuda.to_device(np.zeros(3))


PROGRAMS = (
    vectors, arrays_of_the_host, reduction, dynamic_shared_memory, matrices, kinds_of_scalars, records,
    signatures_and_device_functions, streams_and_events, mapped_memory, random_numbers, atomics, library,
    properties_of_the_device,
)


@cuda.jit
def racy_reverse(x):
    tile = cuda.shared.array(128, float32)
    thread = cuda.threadIdx.x
    tile[thread] = x[thread]
    x[thread] = tile[127 - thread]  # the race


@cuda.jit
def too_far(x, out):
    i = cuda.grid(1)
    out[i] = x[i]  # out of bounds


@cuda.jit
def accumulate(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] += x[i]  # unwritten


@cuda.jit
def count(out):
    out[0] += 1  # not atomic


@cuda.jit(debug=True, opt=False)
def divide(x, out):
    i = cuda.grid(1)
    if i < x.size:
        if x[i] == 0:
            raise ValueError("a zero")
        out[i] = 7 // x[i]
