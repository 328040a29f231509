"""What `@tj.autotune` finds against the best of all configurations, each timed at length: a matmul, three sizes.

Run: `python -m tests.bench.bench_autotune` on a machine with a GPU; it takes one to two minutes. `--simulator` goes the
same way with a few configurations of a small product, whose costs are counted. `--launches` times launches of kernels
whose configuration is known beside those of a plain one; without a GPU a fake driver takes the calls.

The kernel is that of `examples/matmul.py` with its sizes as parameters. Each configuration is timed `ROUNDS` times, one
after the other in each round, with a cold L2 cache; `of best` is the median of the configuration that tuning chose over
the least median. More than `GOAL` is a failure. So is a tuning that doesn't go on where it was: one process is killed
while it tunes, and in another one what was timed must stay as it was, and nothing that was out be timed again.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tilejit as tj
from tests.bench.bench_launch import fake_driver, in_turn, own_arrays, warm
from tests.bench.gpu import machine
from tilejit.runtime import devices
from tilejit.tuning import TunedKernel
from tilejit.tuning.kernel import question_for
from tilejit.tuning.search import Search
from tilejit.wording import counted

ROUNDS = 100
GOAL = 1.03
STEP = 16
GROUP = 8
SIZES = (1024, 2048, 4096)

#: rounds after which a tuning is killed
KILLED_AFTER = 4

#: rows and columns of a CTA's tile, and of its warps
TILES = (
    (64, 64, (2, 2)),
    (128, 64, (4, 1)),
    (64, 128, (2, 2)),
    (128, 128, (2, 2)),
    (128, 128, (4, 2)),
    (256, 128, (4, 2)),
)


def configurations(tiles: Any = TILES, depths: Any = (32, 64), stages: Any = (3, 4)) -> list[tj.Config]:
    return [
        tj.Config({"BM": bm, "BN": bn, "BK": bk, "STAGES": count, "WARPS": warps}, threads=32 * warps[0] * warps[1])
        for bm, bn, warps in tiles
        for bk in depths
        for count in stages
    ]


@tj.kernel
def matmul(
    A: tj.Tensor, B: tj.Tensor, C: tj.Tensor,
    BM: tj.constexpr, BN: tj.constexpr, BK: tj.constexpr, STAGES: tj.constexpr, WARPS: tj.constexpr,
):
    columns = tj.cdiv(C.shape[1], BN)
    within = tj.cta_id(0) % (GROUP * columns)
    row, column = tj.cta_id(0) // (GROUP * columns) * GROUP + within % GROUP, within // GROUP
    if row * BM >= C.shape[0]:
        return
    a_stages = tj.alloc_shared((STAGES, BM, BK), A.dtype, swizzle="64B" if BK == 32 else "128B")
    b_stages = tj.alloc_shared((STAGES, BK, BN), B.dtype, swizzle="128B")
    a_fragment = tj.mma.layout_a((BM, STEP), A.dtype, warps=WARPS)
    b_fragment = tj.mma.layout_b((STEP, BN), B.dtype, warps=WARPS)
    c_fragment = tj.mma.layout_c((BM, BN), tj.float32, warps=WARPS)
    a = tj.alloc_local((BM, STEP), A.dtype, layout=a_fragment), tj.alloc_local((BM, STEP), A.dtype, layout=a_fragment)
    b = tj.alloc_local((STEP, BN), B.dtype, layout=b_fragment), tj.alloc_local((STEP, BN), B.dtype, layout=b_fragment)
    sums = tj.alloc_local((BM, BN), tj.float32, layout=c_fragment)
    staged = tj.alloc_shared((BM, BN), C.dtype, swizzle="128B")
    out = tj.alloc_local((BM, BN), C.dtype, layout=c_fragment)
    for step in range(STAGES - 1):
        tj.cta.copy_async(a_stages[step], A.tile((BM, BK), (row, step)))
        tj.cta.copy_async(b_stages[step], B.tile((BK, BN), (step, column)))
        tj.cp_async.commit()
    tj.cta.fill(sums, 0)
    tj.cp_async.wait(STAGES - 2)
    tj.cta_sync()
    tj.cta.copy(a[0], a_stages[0, :, 0:STEP])
    tj.cta.copy(b[0], b_stages[0, 0:STEP, :])
    for step in range(tj.cdiv(A.shape[1], BK)):
        now = tj.int32(step % STAGES)
        following = (now + 1) % STAGES
        free = (now + STAGES - 1) % STAGES
        coming = step + STAGES - 1
        for part in tj.static_range(BK // STEP):
            after = (part + 1) % 2
            if part == BK // STEP - 1:
                tj.cp_async.wait(STAGES - 2)
                tj.cta_sync()
                tj.cta.copy(a[after], a_stages[following, :, 0:STEP])
                tj.cta.copy(b[after], b_stages[following, 0:STEP, :])
            else:
                tj.cta.copy(a[after], a_stages[now, :, (part + 1) * STEP : (part + 2) * STEP])
                tj.cta.copy(b[after], b_stages[now, (part + 1) * STEP : (part + 2) * STEP, :])
            if part == 0:
                tj.cta.copy_async(a_stages[free], A.tile((BM, BK), (row, coming)))
                tj.cta.copy_async(b_stages[free], B.tile((BK, BN), (coming, column)))
                tj.cp_async.commit()
            tj.cta.gemm(sums, a[part % 2], b[part % 2])
    tj.cta.cast(out, sums)
    tj.cta.copy(staged, out)
    tj.cta_sync()
    tj.cta.copy(C.tile((BM, BN), (row, column)), staged)


def grid(meta: Any) -> int:
    m, n = meta["C"].shape
    return tj.cdiv(m, GROUP * meta["BM"]) * GROUP * tj.cdiv(n, meta["BN"])


class Found(NamedTuple):
    """What tuning chose for one size, and what is best. ms: of the two, or what the device counts instead."""

    size: int
    seconds: float
    timings: int
    runnable: int
    chosen: str
    chosen_ms: float
    best: str
    best_ms: float

    @property
    def ratio(self) -> float:
        return self.chosen_ms / self.best_ms

    @property
    def is_found(self) -> bool:
        return self.ratio <= GOAL


class Resumed(NamedTuple):
    """What became of a tuning that was killed. known: timings on the disk by then. total: in the end.

    kept: those that were on the disk are the first of those in the end, and what was out has no others.
    """

    was_killed: bool
    known: int
    total: int
    kept: bool

    @property
    def is_right(self) -> bool:
        return self.was_killed and self.kept and 0 < self.known < self.total


def exhaustive(kernel: tj.Kernel, grid: Any, configs: Sequence[tj.Config], arrays: Any, rounds: int) -> list[float]:
    """The median of each configuration."""
    with devices.default().bench(None, None, ()) as bench:
        works = [kernel[grid, config.threads].bind(*arrays, **config.values) for config in configs]
        times = [bench.round(works) for _ in range(1 if bench.is_exact else rounds + 1)]
    # the first round warms up
    return [statistics.median(column) for column in zip(*(times[1:] or times), strict=True)]


def find(
    tuned: Any, grid: Any, size: int, arrays: Any, rounds: int, check: Callable[..., None] = lambda *_: None
) -> Found:
    """Tunes for some arrays, and compares what was chosen with every configuration that can run.

    check: raises where what the tuned launch has left in the arrays is wrong.
    """
    began = time.perf_counter()
    tuned[grid](*arrays)
    tj.synchronize()
    seconds = time.perf_counter() - began
    check(*arrays)
    tuning = tuned.tuning[-1]
    able = [trial.config for trial in tuning.trials if trial.reason is None]
    medians = exhaustive(tuned.kernel, grid, able, arrays, rounds)
    best, chosen = min(range(len(able)), key=medians.__getitem__), able.index(tuning.best.config)
    timings = sum(len(trial.samples) for trial in tuning.trials)
    return Found(
        size, seconds, timings, len(able), short(able[chosen]), medians[chosen], short(able[best]), medians[best]
    )


def short(config: tj.Config) -> str:
    """A configuration in few words: the values alone."""
    return " ".join(str(value).replace(" ", "") for value in config.values.values())


def product(size: int) -> tuple[Any, ...]:
    """Two matrices, and room for their product."""
    random = np.random.default_rng(size)
    a, b = (random.standard_normal((size, size), dtype=np.float32).astype(np.float16) for _ in range(2))
    return tj.to_device(a), tj.to_device(b), tj.to_device(np.zeros((size, size), np.float16))


def check(a: Any, b: Any, c: Any) -> None:
    """Raises where some rows of the product are wrong."""
    rows = slice(0, 64)
    expected = a.numpy()[rows].astype(np.float32) @ b.numpy().astype(np.float32)
    error = np.abs(c.numpy()[rows] - expected).max() / np.abs(expected).max()
    assert error < 2e-3, f"the result is wrong: {error}"


HEADINGS = ("size", "tuned in", "timings", "can run", "chosen", "{unit}", "best", "{unit}", "of best", "")


def table(found: Sequence[Found], count: int, unit: str) -> list[str]:
    """A line for each size, which ends with the verdict. count: of configurations."""
    rows = [tuple(heading.format(unit=unit) for heading in HEADINGS)] + [
        (
            str(f.size), f"{f.seconds:.1f} s", str(f.timings), f"{f.runnable} of {count}", f.chosen,
            f"{f.chosen_ms:.4g}", f.best, f"{f.best_ms:.4g}", f"{f.ratio:.3f}",
            f"within {GOAL}" if f.is_found else f"MISSED: more than {GOAL}",
        )
        for f in found
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def resumption(resumed: Resumed) -> str:
    """What became of the killed tuning, with the verdict."""
    text = f"killed with {counted(resumed.known, 'timing')} on the disk, of {resumed.total} in the end: "
    if resumed.is_right:
        return text + "the next process went on"
    return text + f"MISSED{'' if resumed.was_killed else ', it ended on its own'}" + (
        "" if resumed.kept else ", what was timed was timed again"
    )


def tune_and_kill(tuned: Any, arrays: Any, rounds: int) -> None:
    """Tune, and kill this process before a round."""
    with devices.default().bench(None, None, ()) as bench:
        kind: Any = type(bench)
    measured, count = kind.round, 0

    def until_then(self: Any, works: Any) -> list[float]:
        nonlocal count
        if count == rounds:
            os.kill(os.getpid(), signal.SIGKILL)
        count += 1
        times: list[float] = measured(self, works)
        return times

    kind.round = until_then
    tuned[grid](*arrays)


def go_on(tuned: TunedKernel, grid: Any, arrays: Any) -> Resumed:
    """Tunes where a process was killed."""
    before = Search(tuned, question_for(tuned, arrays, None, None, tuned.choices.configs)).table
    known = [(tuple(trial.samples), trial.is_out) for trial in before.trials]
    tuned[grid](*arrays)
    after = tuned.tuning[-1].trials
    kept = all(
        tuple(trial.samples[: len(samples)]) == samples and not (is_out and len(trial.samples) > len(samples))
        for trial, (samples, is_out) in zip(after, known, strict=True)
    )
    return Resumed(
        not before.is_done, sum(len(samples) for samples, _ in known), sum(len(t.samples) for t in after), kept
    )


def kill_and_resume(arguments: Sequence[str]) -> Resumed:
    """Kills a process that tunes, and has another one go on. arguments: of both."""
    command = [sys.executable, "-m", "tests.bench.bench_autotune", *arguments]
    root = Path(__file__).parents[2]
    with tempfile.TemporaryDirectory() as folder:
        killed = subprocess.run([*command, "--kill", folder], cwd=root)
        resumed = subprocess.run([*command, "--resume", folder], cwd=root, stdout=subprocess.PIPE, check=True)
    found = Resumed(*json.loads(resumed.stdout))
    return found._replace(was_killed=found.was_killed and killed.returncode == -signal.SIGKILL)


def keep_in(folder: str | None) -> None:
    """What is found is kept on the disk there, and is nowhere else looked for."""
    os.environ["TILEJIT_CACHE"] = "0" if folder is None else "1"
    if folder is not None:
        os.environ["TILEJIT_CACHE_DIR"] = str(Path(folder, "cache"))


def launches() -> None:
    """Times launches of kernels whose configuration is known: the median of each, and its ratio to a plain one's."""
    has_gpu = devices.cuda_problem() is None
    if not has_gpu:
        fake_driver()
    print(machine() if has_gpu else "fake driver")
    a, b, c, n = own_arrays()

    def three(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, n: tj.int32, X: tj.constexpr = 1):
        if n > 1_000_000:
            C[0, 0] = A[0, 0] + B[0, 0] + X

    def tuned(*choices: int, **options: Any) -> Callable[..., Any]:
        configs = [tj.Config({"X": x}) for x in choices]
        made: Any = tj.autotune(configs, ["n"], **options)(tj.kernel(threads=32)(three))
        return lambda: made[4](a, b, c, n)

    plain, chosen = tj.kernel(threads=32)(three), tj.autotune([tj.Config({"X": x}) for x in (1, 2)], ["n"])(
        tj.kernel(threads=32)(three)
    )
    numbers: dict[str, Callable[[], object]] = {
        "plain": lambda: plain[4](a, b, c, n),
        "tuned": lambda: chosen[4](a, b, c, n),
        "one configuration": tuned(1),
        "pruned to one": tuned(1, 2, prune=lambda configs, named: configs[:1]),
    }
    functions: dict[str, Callable[[], object]] = {
        "plain, a new grid function": lambda: plain[lambda meta: (meta["n"] * 4,)](a, b, c, n),
        "tuned, a new grid function": lambda: chosen[lambda meta: (meta["n"] * 4,)](a, b, c, n),
    }
    off = {"plain": numbers["plain"], "TILEJIT_AUTOTUNE=off": tuned(1, 2)}
    for mode, contenders in ((None, numbers), (None, functions), ("off", off)):
        if mode is not None:
            os.environ["TILEJIT_AUTOTUNE"] = mode
        times = in_turn({name: warm(launch) for name, launch in contenders.items()}, 100, tj.synchronize)
        first = next(iter(times.values()))
        for name, nanoseconds in times.items():
            print(f"{nanoseconds / 1000:8.2f} us  {nanoseconds / first:5.2f} x plain  {name}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulator", action="store_true", help="a few configurations of a small product")
    parser.add_argument("--launches", action="store_true", help="what launches take whose configuration is known")
    parser.add_argument("--tables", action="store_true", help="print each table of what was tried, too")
    parser.add_argument("--kill", metavar="FOLDER", help="tune, keep what is found there, and be killed")
    parser.add_argument("--resume", metavar="FOLDER", help="go on with that")
    options = parser.parse_args(argv)
    if options.launches:
        launches()
        return 0
    if options.simulator:
        os.environ["TILEJIT_DEVICE"] = "sim:sm_90a"
        # each is counted once, so that the last one is left to do
        configs, sizes, rounds = configurations(TILES[:1], (32,), (3, 4)), (64,), 1
    else:
        configs, sizes = configurations(), SIZES
        # each is launched alone to warm up
        rounds = len(configs) + KILLED_AFTER
    keep_in(options.kill or options.resume)
    tuned: Any = tj.autotune(configs, key=["A", "B"])(matmul)
    if options.kill:
        tune_and_kill(tuned, product(sizes[0]), rounds)
        return 0
    if options.resume:
        print(json.dumps(go_on(tuned, grid, product(sizes[0]))))
        return 0
    began, found = time.perf_counter(), []
    print(f"{len(configs)} configurations on {machine()}")
    for size in sizes:
        arrays = product(size)
        found.append(find(tuned, grid, size, arrays, ROUNDS, check))
        if options.tables:
            print(f"\n{tuned.tuning[-1]}")
    resumed = kill_and_resume(["--simulator"] if options.simulator else [])
    unable = {f"{t.config}: {t.reason}" for tuning in tuned.tuning for t in tuning.trials if t.reason is not None}
    print("", *table(found, len(configs), tuned.tuning[-1].unit), *sorted(unable), "", resumption(resumed), sep="\n")
    print(f"{time.perf_counter() - began:.0f} s in all")
    return 0 if resumed.is_right and all(f.is_found for f in found) else 1


if __name__ == "__main__":
    sys.exit(main())
