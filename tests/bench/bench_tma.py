"""TMA on a GPU: the driver's encoder against the simulator's, copies against NumPy, a 1 GiB copy against the GPU's own.

Run on a machine with a GPU of sm_90: `python -m tests.bench.bench_tma`. Copies of each element type and swizzle run in
a process of their own, because a fault ends a context. `... bench_tma bandwidth [NAME ...]` only times the ways to copy
of `copy_ways.py`. GB/s count bytes read and written; medians of single copies, the ways in turn, with a cold L2.
"""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
import time

import numpy as np
from cuda.bindings import driver

import tilejit as tj
from tests.bench.copy_ways import WAYS
from tests.bench.gpu import machine
from tests.kernels.test_tma import DTYPES, expected, moved
from tilejit.errors import LaunchError
from tilejit.ir.params import TensorMapSpec
from tilejit.layout.swizzle import SWIZZLE_BITS
from tilejit.runtime import cuda, cuda_driver, cuda_function, devices
from tilejit.runtime.arrays import DeviceArray
from tilejit.runtime.tensor_maps import MappedArray
from tilejit.simulator.machine.tensor_map import MapShape

SPECS, CASES, ROWS, COLUMNS, ROUNDS = 10_000, 24, 2**15, 2**13, 30

EXTENTS = (1, 3, 64, 1000, 2**31, 2**32, 2**32 + 1)
STRIDES = (0, 8, 16, 4096, 16 * 12345, 2**40 - 16, 2**40)
BOXES = (1, 8, 64, 256, 257)
ROW_BYTES = (8, 16, 32, 64, 128, 256)
ADDRESSES = (1 << 32, (1 << 32) + 16, (1 << 32) + 8)


def encoders() -> None:
    """Random maps: both encoders take the same ones."""
    random, differ, refused = np.random.default_rng(0), 0, 0

    def drawn(choices: tuple[int, ...], count: int) -> tuple[int, ...]:
        # the last ones are refused: few of them
        weights = np.array([8] * (len(choices) - 1) + [1]) / (8 * len(choices) - 7)
        return tuple(int(n) for n in random.choice(choices, count, p=weights))

    for _ in range(SPECS):
        dtype, mode = DTYPES[random.integers(len(DTYPES))], list(SWIZZLE_BITS)[random.integers(len(SWIZZLE_BITS))]
        rank = int(random.integers(2, 6))
        dims, strides, (address,) = drawn(EXTENTS, rank), drawn(STRIDES, rank - 1), drawn(ADDRESSES, 1)
        box = (max(drawn(ROW_BYTES, 1)[0] // dtype.bytes, 1), *drawn(BOXES, rank - 1))
        spec, is_taken = TensorMapSpec("A", dtype, tuple(range(rank)), box, mode), True
        try:
            cuda_function.encode_map(spec, address, MappedArray(dims, strides))
        except LaunchError:
            is_taken = False
        reason = MapShape(dims, strides, box, dtype.bytes, mode).refusal(address)
        refused += not is_taken
        if is_taken != (reason is None):
            differ += 1
            if differ <= 8:
                print("differ:", dims, strides, box, dtype, mode, hex(address), "driver", is_taken, "simulator", reason)
    print(f"encoders: {SPECS} maps, {refused} refused by the driver, {differ} differ")


def copies(dtype: tj.DType, mode: str) -> None:
    """Regions over every edge, stores at any element."""
    width = 2 * (16 << SWIZZLE_BITS[mode]) // dtype.bytes
    shape, random, wrong = (3, 40, width + 32 // dtype.bytes), np.random.default_rng(1), 0
    bits = random.integers(1, 100, shape).astype(dtype.numpy)
    a = tj.to_device(bits)
    for number in range(CASES):
        along = (-width * dtype.bytes // 16, shape[2] * dtype.bytes // 16 + 1)
        ends = ((-1, 4), (-17, 42), along, (0, along[1]))
        i, j, k, to = (int(random.integers(*each)) for each in ends) if number else (0, 0, 0, 0)
        b = tj.to_device(np.full_like(bits, 7))
        try:
            moved[1](a, b, i, j, k, to, mode, width)
            got = b.numpy()
        except LaunchError as error:
            print(f"copies: {dtype} {mode} at {(i, j, k, to)}, case {number}: {error.message}")
            return
        wrong += not np.array_equal(got, expected(bits, i, j, k, to, width))
    print(f"copies: {dtype} {mode}: {CASES} regions, {wrong} wrong")


@tj.kernel(threads=32, target="sm_90a")
def mapped(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, n: tj.int32):
    s = tj.alloc_shared((8, 64), A.dtype)
    full = tj.alloc_barrier()
    if n > 0:
        tj.warp.copy_async(s, A[0:8, 0:64], barrier=full)
        tj.warp.copy_async(s, B[0:8, 0:64], barrier=full)
        tj.warp.copy_async(s, C[0:8, 0:64], barrier=full)
        tj.warp.arrive(full)


@tj.kernel(threads=32, target="sm_90a")
def plain(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, n: tj.int32):
    if n > 0:
        C[0, 0] = A[0, 0] + B[0, 0]


def launches() -> None:
    """Microseconds of a launch of a kernel with three maps, which were made before, and of one without."""
    arrays = [tj.to_device(np.zeros((64, 64), np.float32)) for _ in range(3)]
    ways = {
        "three maps": lambda: mapped[1](*arrays, 0),
        "none": lambda: plain[1](*arrays, 0),
        "three maps, bound": mapped[1].bind(*arrays, 0),
        "none, bound": plain[1].bind(*arrays, 0),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(60):
        for name, way in ways.items():
            began = time.perf_counter()
            for _ in range(100):
                way()
            times[name].append((time.perf_counter() - began) * 1e4)
            tj.synchronize()
    print("launches, us:", {name: round(statistics.median(each[10:]), 2) for name, each in times.items()})


def bandwidth(names: list[str]) -> None:
    """A 1 GiB copy, in the ways that are named, or all; each of an array with rows of 32 KB, and of one with 1 KB."""
    bits = np.random.default_rng(2).random((ROWS, COLUMNS), np.float32)
    a, b = tj.to_device(bits), tj.to_device(np.zeros_like(bits))
    narrow = [DeviceArray(x.memory, tj.float32, (bits.size // 256, 256)) for x in (a, b)]
    call, size = cuda_driver.call, bits.nbytes
    multiprocessors = tj.num_sms()
    ways = {"device to device": lambda: call(driver.cuMemcpyDtoDAsync, b.memory.pointer, a.memory.pointer, size, 0)}
    for name in names or WAYS:
        way = WAYS[name]
        for rows, arrays in (("32 KB", (a, b)), ("1 KB", narrow)):
            run = way.kernel[way.ctas(arrays[0].shape, multiprocessors)].bind(*arrays, *way.constants)
            ways[f"{name}, rows of {rows}"] = run
            call(driver.cuMemsetD8Async, b.memory.pointer, 0, size, 0)
            run()
            print(f"{name}, rows of {rows}: {'right' if np.array_equal(b.numpy(), bits) else 'WRONG'}", flush=True)
    with devices.default().bench(None, None, ()) as bench:
        # the first rounds warm up
        rounds = [bench.round(list(ways.values())) for _ in range(ROUNDS)][4:]
    times = dict(zip(ways, zip(*rounds, strict=True), strict=True))
    print(machine())
    own = statistics.median(times["device to device"])
    for name, each in times.items():
        median = statistics.median(each)
        print(f"{name}: {2 * size / median / 1e6:.0f} GB/s, {own / median:.3f} of the GPU's own")


def main() -> None:
    problem = cuda.problem()
    if problem is not None:
        raise SystemExit(problem)
    with cuda_driver.current(cuda.CudaDevice(0).context):
        if sys.argv[1:2] == ["bandwidth"]:
            bandwidth(sys.argv[2:])
            return
        if len(sys.argv) > 1:
            copies(next(t for t in DTYPES if t.name == sys.argv[1]), sys.argv[2])
            return
        encoders()
        launches()
        bandwidth(["example"])
    for dtype, mode in itertools.product(DTYPES, SWIZZLE_BITS):
        subprocess.run([sys.executable, "-m", "tests.bench.bench_tma", dtype.name, mode], check=False)


if __name__ == "__main__":
    main()
