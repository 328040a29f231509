"""examples/gemm_hopper.py against cuBLAS (through torch) on one GPU of sm_90a, in one process, alternating.

    python -m tests.bench.bench_hopper [--rounds 12] [--sizes 2048 4096 8192]

Two regimes, because a GPU's power limit sets its clock: in a *burst*, after 40 ms of idleness, it doesn't act;
*sustained*, contenders follow each other without a pause. The order turns from round to round; a figure is the median
over rounds of the library's time divided by ours, taken in the same round. Results are compared first.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

LIBRARY = "cuBLAS"

#: of the GPU, in which the host gets ahead: no launch's overhead is timed
SLEEP_CYCLES = 1_000_000
IDLE_SECONDS = 0.04

Launch = Callable[[], object]


def contenders(torch: Any, examples: Mapping[str, ModuleType], size: int) -> dict[str, Launch]:
    """name -> what multiplies two square matrices of float16; each is right."""
    a, b = (torch.randint(-2, 3, (size, size), device="cuda").half() for _ in range(2))
    wanted = torch.matmul(a, b)
    made: dict[str, Launch] = {}
    library = torch.empty_like(wanted)
    made[LIBRARY] = lambda: torch.matmul(a, b, out=library)
    for prefix, example in examples.items():
        for kernel in (example.gemm, example.gemm_with_producer):
            c = torch.zeros_like(wanted)
            launch = _launch(example, kernel, a, b, c)
            launch()
            torch.cuda.synchronize()
            assert torch.equal(c, wanted), f"{prefix}{kernel} is wrong at {size}"
            made[f"{prefix}{kernel.name}"] = launch
    # what is multiplied decides how much power that takes: integers were for comparing
    for factor in (a, b):
        factor.normal_()
    return made


def _launch(example: ModuleType, kernel: Any, a: Any, b: Any, c: Any) -> Launch:
    grid, arguments = example.arranged(a, b, c)
    return lambda: kernel[grid](*arguments)


def seconds(torch: Any, launch: Launch, times: int) -> float:
    """Of one launch among so many that follow each other."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(SLEEP_CYCLES)
    begin.record()
    for _ in range(times):
        launch()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3 / times


def rounds(
    torch: Any, made: Mapping[str, Launch], count: int, *, is_burst: bool, work: float
) -> list[dict[str, float]]:
    """Each contender's time in each round. work: seconds that a contender runs in a round, about."""
    names, measured = list(made), []
    times = {name: max(1, round(work / max(seconds(torch, launch, 3), 1e-6))) for name, launch in made.items()}
    if not is_burst:
        for name in names * 4:
            seconds(torch, made[name], 4 * times[name])
    for number in range(count):
        turned = names[number % len(names) :] + names[: number % len(names)]
        taken = {}
        for name in turned:
            if is_burst:
                torch.cuda.synchronize()
                time.sleep(IDLE_SECONDS)
                seconds(torch, made[name], 1)
            taken[name] = seconds(torch, made[name], times[name])
        measured.append(taken)
    return measured


def report(size: int, regime: str, measured: list[dict[str, float]]) -> list[str]:
    """One line a contender: TFLOP/s, and the median of the ratios with the library's."""
    work, lines = 2 * size**3 / 1e12, []
    for name in measured[0]:
        speed = statistics.median(work / taken[name] for taken in measured)
        ratios = [taken[LIBRARY] / taken[name] for taken in measured]
        low, high = np.percentile(ratios, (10, 90))
        line = f"{size:6} {regime:9} {name:32} {speed:7.1f} TFLOP/s  {statistics.median(ratios):.3f} of {LIBRARY}'s"
        lines.append(f"{line} ({low:.3f} to {high:.3f})")
    return lines


def main() -> None:
    import torch

    from examples import gemm_hopper

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--sizes", type=int, nargs="*", default=[2048, 4096, 8192])
    chosen = parser.parse_args()
    for size in chosen.sizes:
        made = contenders(torch, {"": gemm_hopper}, size)
        for regime, work in (("burst", 0.002), ("sustained", 0.02)):
            measured = rounds(torch, made, chosen.rounds, is_burst=regime == "burst", work=work)
            print("\n".join(report(size, regime, measured)), flush=True)


if __name__ == "__main__":
    main()
