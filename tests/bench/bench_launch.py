"""Host time of one launch, by library and form of the call, beside Triton's, CuPy's and the bare driver's.

Run it: `python -m tests.bench.bench_launch [rounds]`. Contenders take turns in small batches, and another one begins
each round, so that a clock that changes, or a warm cache, is everyone's; the median over rounds counts. Without a GPU
a fake driver takes the calls, so that only tilejit's own part is measured; torch, Triton, cuda.core and CuPy are used
where they are installed. `raw` is the driver's call with everything ready, which no launch in Python can beat, in its
fastest form. In the end each goal of `GOALS` is reached, missed, or not measured here.
"""

from __future__ import annotations

import ctypes
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

import tilejit as tj
from tests.bench.gpu import machine
from tilejit.runtime import devices
from tilejit.runtime.fast_launch import memory

#: launches that a stream takes without making the host wait
BATCH = 100
WARM_UP_ROUNDS = 5
SHAPE = (128, 64)

Launch = Callable[[], object]
RAW, TRITON = "raw", "Triton"
OWN, TORCH, GUARDED = "own arrays", "torch's arrays", "torch's arrays, with guards"


class Goal(NamedTuple):
    """What a contender may take at most: `times` as long as `peer`."""

    contender: str
    times: float
    peer: str


GOALS = (
    Goal(f"tilejit, {TORCH}", 0.62, TRITON),
    Goal(f"tilejit, {TORCH}", 2.3, RAW),
    Goal(f"tilejit, {GUARDED}", 0.52, TRITON),
    Goal(f"tilejit, {GUARDED}", 2.0, RAW),
    Goal(f"tilejit, {TORCH}, grid kept", 0.60, TRITON),
    Goal(f"tilejit, {TORCH}, prepared", 1.3, RAW),
    Goal(f"tilejit, {OWN}", 1.65, RAW),
)


def three_arrays() -> tj.Kernel:
    @tj.kernel(threads=32)
    def three(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, n: tj.int32):
        if n > 1_000_000:
            C[0, 0] = A[0, 0] + B[0, 0]

    return three


def twelve_parameters() -> tj.Kernel:
    """Three pointers, a number, and extents and strides that the kernel asks for."""

    @tj.kernel(threads=32)
    def twelve(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, n: tj.int32):
        if n > 1_000_000:
            C[n, A.shape[0]] = A[n, A.shape[1]] + B[n, B.shape[1]]

    return twelve


def in_turn(
    contenders: Mapping[str, Launch],
    rounds: int,
    settle: Launch = lambda: None,
    batch: int = BATCH,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> dict[str, float]:
    """The median over rounds of each contender's nanoseconds per call; in a round each has one batch.

    settle: called before each batch, outside the measured time.
    """
    names = list(contenders)
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(WARM_UP_ROUNDS + rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            launch = contenders[name]
            settle()
            began = clock()
            for _ in repeat(None, batch):
                launch()
            times[name].append((clock() - began) / batch)
    return {name: statistics.median(measured[WARM_UP_ROUNDS:]) for name, measured in times.items()}


def fake_driver() -> None:
    """Puts a driver that does nothing in the place of the real one, for as long as the process runs."""
    from tests.runtime.fake_driver import SUCCESS, FakeDriver, forget_devices, install

    fake = install(FakeDriver())
    fake.cuLaunchKernel = fake.cuLaunchKernelEx = lambda *args: (SUCCESS,)
    devices._has_driver = lambda: True
    forget_devices()


@contextmanager
def without_guards() -> Iterator[None]:
    """Launchers that are generated inside make their keys themselves."""
    has_guards, memory.has_guards = memory.has_guards, lambda: False
    try:
        yield
    finally:
        memory.has_guards = has_guards


def warm(launch: Launch) -> Launch:
    """The launch, once its like has been seen."""
    for _ in range(32):
        launch()
    return launch


def launches(owner: str, arguments: list[Any]) -> dict[str, Launch]:
    """The three ways to write a launch."""
    kernel = three_arrays()
    kept, bound = kernel[4], kernel[4].bind(*arguments)
    return {
        f"tilejit, {owner}": warm(lambda: kernel[4](*arguments)),
        f"tilejit, {owner}, grid kept": warm(lambda: kept(*arguments)),
        f"tilejit, {owner}, prepared": bound,
    }


def special_launches(owner: str, arrays: Callable[..., list[Any]]) -> dict[str, Launch]:
    """Launches that look up more than once, that differ each time, or that have many parameters."""
    in_place, many, twelve = three_arrays()[4], three_arrays()[4], twelve_parameters()[4]
    a, b, _ = arrays(SHAPE)
    shapes = itertools.cycle([(*arrays((128, 64 + 8 * n)), 1) for n in range(8)])
    square, arguments = three_arrays(), [*arrays(SHAPE), 1]
    strided = [t[:, ::2] for t in arrays(SHAPE)]
    return {
        f"tilejit, {owner}, in place (a is c), grid kept": warm(lambda: in_place(a, b, a, 1)),
        f"tilejit, {owner}, 8 shapes in turn, grid kept": warm(lambda: many(*next(shapes))),
        f"tilejit, {owner}, 12 parameters, grid kept": warm(lambda: twelve(*strided, 1)),
        f"tilejit, {owner}, grid (2, 2)": warm(lambda: square[2, 2](*arguments)),
        f"tilejit, {owner}, grid function, kept": warm(_by_function(arrays)),
        f"tilejit, {owner}, bound with other arrays": warm(_bound_again(arrays)),
    }


def _by_function(arrays: Callable[..., list[Any]]) -> Launch:
    kept, arguments = three_arrays()[lambda launch: launch["n"] * 4], [*arrays(SHAPE), 1]
    return lambda: kept(*arguments)


def _bound_again(arrays: Callable[..., list[Any]]) -> Launch:
    bound, arguments = three_arrays()[4].bind(*arrays(SHAPE), 1), [*arrays(SHAPE), 1]
    return lambda: bound(*arguments)


def own_arrays() -> list[Any]:
    return [*(tj.empty(SHAPE, tj.float32) for _ in range(3)), 1]


def triton_launch(arguments: list[Any]) -> Launch:
    """What `three_arrays` does, as a Triton kernel; Triton wants the grid as a tuple."""
    import triton
    import triton.language as tl

    @triton.jit
    def kernel(a, b, c, n):  # type: ignore[no-untyped-def]
        if n > 1_000_000:
            tl.store(c, tl.load(a) + tl.load(b))

    return lambda: kernel[(4,)](*arguments)


def cupy_launches() -> dict[str, Launch]:
    """A RawKernel, which takes addresses and asks for nothing, and ours with CuPy's arrays."""
    import cupy

    arrays = [cupy.zeros(SHAPE, cupy.float32) for _ in range(3)]
    text = "extern \"C\" __global__ void k(float *a, float *b, float *c, int n) { if (n > 1000000) *c = *a + *b; }"
    kernel, arguments = cupy.RawKernel(text, "k"), (*arrays, np.int32(1))
    return {
        "CuPy RawKernel, CuPy's arrays": lambda: kernel((4,), (32,), arguments),
        **launches("CuPy's arrays", [*arrays, 1]),
    }


def raw_launches(arguments: list[Any], stream: int) -> dict[str, Launch]:
    """The driver's call with everything ready, by ctypes and by the binding, and with parameters still to be packed."""
    from cuda.bindings import driver

    from tilejit.runtime import cuda_function

    resolved = three_arrays()[4].bind(*arguments)._resolved
    function: Any = resolved.function
    packed = cuda_function.Packed(function._packing)
    values = function._values(resolved.call.arguments)
    packed.fill(values)
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = 4, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = 32, 1, 1
    config.hStream = driver.CUstream(stream)
    library = ctypes.CDLL("libcuda.so.1")
    handle, ex, eleven = function._function, library.cuLaunchKernelEx, library.cuLaunchKernel
    ready = [ctypes.c_void_p(int(n)) for n in (config.getPtr(), handle, packed.address)]
    sizes = [ctypes.c_uint(n) for n in (4, 1, 1, 32, 1, 1, 0)]
    every = [ready[1], *sizes, ctypes.c_void_p(stream), ready[2]]
    object_, address = driver.CUstream(stream), packed.address
    typed = tuple(values), (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
    made: dict[str, Launch] = {
        # everything that is pointed to lives as long as the contenders
        "raw: ctypes cuLaunchKernelEx": lambda kept=(packed, config): ex(*ready, None),
        "raw: ctypes cuLaunchKernel, 11 arguments": lambda: eleven(*every, None),
        "raw: binding's cuLaunchKernelEx": lambda: driver.cuLaunchKernelEx(config, handle, address, 0),
        "raw: binding's cuLaunchKernel": lambda: driver.cuLaunchKernel(
            handle, 4, 1, 1, 32, 1, 1, 0, object_, address, 0
        ),
        "raw: binding's cuLaunchKernel, stream as a number": lambda: driver.cuLaunchKernel(
            handle, 4, 1, 1, 32, 1, 1, 0, stream, address, 0
        ),
        "binding's cuLaunchKernel, values with their ctypes types": lambda: driver.cuLaunchKernel(
            handle, 4, 1, 1, 32, 1, 1, 0, stream, typed, 0
        ),
    }
    for name, launch in made.items():
        check_status(name, launch())
    return made


def check_status(name: str, status: Any) -> None:
    """Raises a RuntimeError for what the driver refuses: that takes less time than a launch.

    status: a number from ctypes, a tuple from the binding.
    """
    error = int(status[0] if isinstance(status, tuple) else status)
    if error:
        raise RuntimeError(f"{name} ends with error {error}")


def core_launches(arguments: list[Any], stream: int) -> dict[str, Launch]:
    """cuda.core's launch of the same kernel; it takes addresses, and asks for nothing."""
    from cuda.core import LEGACY_DEFAULT_STREAM, Device, LaunchConfig, ObjectCode, Stream, launch

    kernel = three_arrays()
    kernel[4](*arguments)
    executable = kernel.signatures[-1].compiled.executable
    Device(0).set_current()
    loaded = ObjectCode.from_ptx(executable.ptx.encode()).get_kernel(executable.entry)
    # the null handle names the legacy stream, which cuda.core has an object for
    where = Stream.from_handle(stream) if stream else LEGACY_DEFAULT_STREAM
    config, (*tensors, n) = LaunchConfig(grid=4, block=32), arguments
    number, addresses = ctypes.c_int(n), [tensor.data_ptr() for tensor in tensors]
    a, b, c = tensors
    return {
        "cuda.core launch, ready ints": lambda: launch(where, config, loaded, *addresses, number),
        "cuda.core launch, with data_ptr()": lambda: launch(
            where, config, loaded, a.data_ptr(), b.data_ptr(), c.data_ptr(), number
        ),
    }


class Contenders:
    """The contenders. absent: rows that can't be measured here, and why."""

    def __init__(self) -> None:
        self.launches: dict[str, Launch] = {}
        self.absent: dict[str, str] = {}

    def add(self, name: str, needs: Sequence[str], make: Callable[[], dict[str, Launch]]) -> None:
        """Adds what `make` makes, if it has what it needs and launches. name: of all of them."""
        missing = [module for module in needs if find_spec(module) is None]
        if missing:
            self.absent[name] = f"no {' and no '.join(missing)}"
            return
        try:
            made = make()
            for launch in made.values():
                launch()
        except Exception as error:
            # other libraries raise what they like, and change
            self.absent[name] = f"{type(error).__name__}: {error}"
            return
        self.launches |= made


def on_gpu() -> tuple[Contenders, Launch]:
    """The contenders, and what waits for their launches."""
    contenders = Contenders()
    contenders.launches |= launches(OWN, own_arrays())
    if find_spec("torch") is None:
        contenders.absent["all with torch's arrays, raw and peers"] = "no torch"
        return contenders, tj.synchronize
    import torch

    def arrays(shape: Sequence[int]) -> list[Any]:
        return [torch.zeros(shape, device="cuda") for _ in range(3)]

    arguments = [*arrays(SHAPE), 1]
    stream = torch.cuda.current_stream().cuda_stream
    contenders.launches |= launches(GUARDED, arguments)
    with without_guards():
        contenders.launches |= launches(TORCH, arguments) | special_launches(TORCH, arrays)
    contenders.launches |= special_launches(GUARDED, arrays)
    contenders.add("raw", (), lambda: raw_launches(arguments, stream))
    contenders.add("cuda.core", ("cuda.core",), lambda: core_launches(arguments, stream))
    contenders.add(TRITON, ("triton",), lambda: {TRITON: triton_launch(arguments)})
    contenders.add("CuPy", ("cupy",), cupy_launches)
    return contenders, torch.cuda.synchronize


def on_fake_driver() -> tuple[Contenders, Launch]:
    """The contenders, with arrays that only look like torch's; nothing has to be waited for."""
    from tests.support.foreign_arrays import Tensor

    fake_driver()
    foreign, contenders = [*(Tensor(np.zeros(SHAPE, np.float32)) for _ in range(3)), 1], Contenders()
    contenders.launches |= launches(OWN, own_arrays()) | launches("torch-like arrays", foreign)
    return contenders, lambda: None


def of_peer(times: Mapping[str, float], peer: str) -> float | None:
    """A peer's time; of `raw` the fastest way's. None if it wasn't measured."""
    return min((t for name, t in times.items() if name == peer or name.startswith(f"{peer}: ")), default=None)


def judged(times: Mapping[str, float]) -> list[str]:
    """A line for each goal."""
    lines = []
    for contender, factor, peer in GOALS:
        ours, theirs = times.get(contender), of_peer(times, peer)
        if ours is None or theirs is None:
            verdict = "not measured here"
        else:
            verdict = f"{ours / theirs:.2f}: {'reached' if ours <= factor * theirs else 'MISSED'}"
        lines.append(f"{contender:44} at most {factor:.2f} x {peer:6}  {verdict}")
    return lines


def main(rounds: int) -> None:
    has_gpu = devices.cuda_problem() is None
    began = time.monotonic()
    print(machine() if has_gpu else "fake driver", f"{rounds} rounds of {BATCH} launches each", sep=", ")
    contenders, settle = on_gpu() if has_gpu else on_fake_driver()
    times = in_turn(contenders.launches, rounds, settle)
    peers = {peer: found for peer in (TRITON, RAW) if (found := of_peer(times, peer)) is not None}
    for name, nanoseconds in times.items():
        ratios = "".join(f"  {nanoseconds / found:5.2f} x {peer}" for peer, found in peers.items())
        print(f"{nanoseconds / 1000:8.2f} us{ratios}  {name}")
    for name, reason in contenders.absent.items():
        print(f"not measured here: {name}: {reason}")
    print("", *judged(times), f"{time.monotonic() - began:.0f} s in all", sep="\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
