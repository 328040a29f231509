"""Host time of one launch with three arrays, by who owns them and how it is written, and of Triton's launch.

Run it: `python -m tests.bench.bench_launch [rounds]`. Contenders take turns in small batches, and another one begins
each round, so that a clock that changes, or a warm cache, is everyone's; the median over rounds counts. Without a GPU
a fake driver takes the calls, so that only tilejit's own part is measured; torch and Triton take part where they are.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from itertools import repeat
from typing import Any

import numpy as np

import tilejit as tj
from tilejit.runtime import devices

#: launches that a stream takes without making the host wait
BATCH = 100
WARM_UP_ROUNDS = 5

Launch = Callable[[], object]


@tj.kernel(threads=32)
def three_arrays(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, n: tj.int32):
    if n > 1_000_000:
        C[0, 0] = A[0, 0] + B[0, 0]


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
    from tests.runtime.fake_driver import SUCCESS, FakeDriver
    from tilejit.runtime import cuda, cuda_driver, cuda_memory

    fake = FakeDriver()
    fake.cuLaunchKernel = lambda *args: (SUCCESS,)
    for module in (cuda, cuda_driver, cuda_memory):
        module.driver = fake
    devices._has_driver = lambda: True
    for cached in (devices.cuda_problem, devices.named, devices._cuda, devices._best):
        cached.cache_clear()


def launches(owner: str, arguments: list[Any]) -> dict[str, Launch]:
    """The three ways to write a launch."""
    kept, bound = three_arrays[4], three_arrays[4].bind(*arguments)
    return {
        f"tilejit, {owner}": lambda: three_arrays[4](*arguments),
        f"tilejit, {owner}, grid kept": lambda: kept(*arguments),
        f"tilejit, {owner}, prepared": bound,
    }


def own_arrays() -> list[Any]:
    return [*(tj.empty((128, 64), tj.float32) for _ in range(3)), 1]


def triton_launch(arguments: list[Any]) -> Launch:
    """What `three_arrays` does, as a Triton kernel; Triton wants the grid as a tuple."""
    import triton
    import triton.language as tl

    @triton.jit
    def kernel(a, b, c, n):  # type: ignore[no-untyped-def]
        if n > 1_000_000:
            tl.store(c, tl.load(a) + tl.load(b))

    return lambda: kernel[(4,)](*arguments)


def on_gpu() -> tuple[dict[str, Launch], Launch]:
    """The contenders, and what waits for their launches."""
    contenders = launches("own arrays", own_arrays())
    if find_spec("torch") is None:
        return contenders, tj.synchronize
    import torch

    arguments = [*(torch.zeros(128, 64, device="cuda") for _ in range(3)), 1]
    contenders |= launches("torch's arrays", arguments)
    if find_spec("triton") is not None:
        contenders["Triton, torch's arrays"] = triton_launch(arguments)
    return contenders, torch.cuda.synchronize


def on_fake_driver() -> tuple[dict[str, Launch], Launch]:
    """The contenders, with arrays that only look like torch's; nothing has to be waited for."""
    from tests.support.foreign_arrays import Tensor

    fake_driver()
    foreign = [*(Tensor(np.zeros((128, 64), np.float32)) for _ in range(3)), 1]
    return launches("own arrays", own_arrays()) | launches("torch-like arrays", foreign), lambda: None


def main(rounds: int) -> None:
    has_gpu = devices.cuda_problem() is None
    print("GPU" if has_gpu else "fake driver", f"{rounds} rounds of {BATCH} launches each", sep=", ")
    contenders, settle = on_gpu() if has_gpu else on_fake_driver()
    for name, nanoseconds in in_turn(contenders, rounds, settle).items():
        print(f"{nanoseconds / 1000:8.2f} us  {name}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
