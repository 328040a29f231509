"""How compile time grows with the number of operations, by stage.

Two kinds: functions of elements in registers, and copies between global memory and registers. Columns: wall clock of
each stage in ms, the least of some runs, and the exponent of a fit to those from 100 operations on, below which fixed
costs count: 1 is in proportion.

Run: `python -m tests.bench.bench_growth [runs]`. No GPU is needed.
"""

from __future__ import annotations

import math
import os
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence

import tilejit as tj

SIZES = (10, 30, 100, 300, 1000)
FITTED = 100

#: stage -> ms
Stages = Mapping[str, float]


def elementwise(X: tj.Tensor, Y: tj.Tensor, OPERATIONS: tj.constexpr):
    x = tj.cta.load(X[0:4, 0:128])
    y = x
    for _ in tj.static_range(OPERATIONS // 2):
        y = y * x + x
    tj.cta.store(Y[0:4, 0:128], y)


def copies(X: tj.Tensor, Y: tj.Tensor, OPERATIONS: tj.constexpr):
    for k in tj.static_range(OPERATIONS // 2):
        tj.cta.store(Y[4 * k : 4 * k + 4, 0:128], tj.cta.load(X[4 * k : 4 * k + 4, 0:128]))


KINDS: dict[str, Callable[..., None]] = {"elementwise": elementwise, "copies": copies}


def compiled(kind: str, operations: int) -> tj.Compiled:
    array = tj.spec((4096, 128), tj.float32)
    return tj.kernel(threads=128)(KINDS[kind]).compile(array, array, operations, target="sm_90a")


def least(kind: str, operations: int, runs: int) -> dict[str, float]:
    """Each stage's least time of some runs: other work on the machine only ever adds."""
    timings = [compiled(kind, operations).timings for _ in range(runs)]
    # the stages of code generation are there, too, beside its total
    stages = [stage for stage in timings[0] if stage != "codegen"]
    return {stage: min(each[stage] for each in timings) for stage in stages}


def exponent(sizes: Sequence[int], times: Sequence[float]) -> float:
    """The slope of a straight line through the logarithms."""
    slope, _ = statistics.linear_regression([math.log(n) for n in sizes], [math.log(ms) for ms in times])
    return slope


def table(by_size: Mapping[int, Stages]) -> list[str]:
    """A line for each stage that takes a hundredth of the largest kernel's time or more, and one for all."""
    largest = by_size[max(by_size)]
    total = "all"
    rows = {n: {**stages, total: sum(stages.values())} for n, stages in by_size.items()}
    lines = ["operations".ljust(22) + "".join(f"{n:>9}" for n in rows) + "  exponent"]
    for stage in [*(s for s, ms in largest.items() if 100 * ms >= sum(largest.values())), total]:
        times = {n: row[stage] for n, row in rows.items()}
        # a stage may have nothing to do in small kernels
        fitted = [n for n, ms in times.items() if n >= FITTED and 100 * ms >= rows[n][total]]
        slope = f"{exponent(fitted, [times[n] for n in fitted]):10.2f}" if len(fitted) > 1 else ""
        lines.append(stage.ljust(22) + "".join(f"{ms:9.2f}" for ms in times.values()) + slope)
    return lines


def main(runs: int) -> None:
    # what is measured is compiled
    os.environ["TILEJIT_CACHE"] = "0"
    for kind in KINDS:
        compiled(kind, SIZES[0])
        print(kind, *table({n: least(kind, n, runs) for n in SIZES}), "", sep="\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
