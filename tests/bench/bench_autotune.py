"""What `@tj.autotune` finds against the best of all configurations, each timed at length: a matmul, three sizes.

Run: `python tests/bench/bench_autotune.py` on a machine with a GPU; it takes a minute. `--simulator` goes the same way
with a few configurations of a small product, whose costs are counted.

The kernel is that of `examples/matmul.py` with its sizes as parameters. Each configuration is timed `ROUNDS` times, one
after the other in each round, with a cold L2 cache; `of best` is the median of the configuration that tuning chose over
the least median. More than 1.03 is a failure.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from typing import Any

# what an earlier run has found would prove nothing
os.environ["TILEJIT_CACHE"] = "0"

import numpy as np  # noqa: E402

import tilejit as tj  # noqa: E402
from tilejit.runtime import devices  # noqa: E402

ROUNDS = 40
GOAL = 1.03
STEP = 16
GROUP = 8
SIZES = (1024, 2048, 4096)

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


def exhaustive(tuned: Any, arrays: tuple[Any, ...], rounds: int) -> dict[str, float]:
    """The median of each configuration that can run, by its text."""
    configs = [trial.config for trial in tuned.tuning[-1].trials if trial.reason is None]
    with devices.default().bench(None, None, ()) as bench:
        works = {str(c): matmul[grid, c.threads].bind(*arrays, **c.values) for c in configs}
        times = [bench.round(list(works.values())) for _ in range(1 if bench.is_exact else rounds + 1)]
    # the first round warms up
    kept = times[1:] or times
    return {name: statistics.median(column) for name, column in zip(works, zip(*kept, strict=True), strict=True)}


def measure(size: int, configs: list[tj.Config], rounds: int, tuned: Any) -> float:
    """Tunes for one size and prints what became of it; returns how much slower the choice is than the best."""
    random = np.random.default_rng(size)
    a, b = (random.standard_normal((size, size), dtype=np.float32).astype(np.float16) for _ in range(2))
    arrays = tj.to_device(a), tj.to_device(b), tj.to_device(np.zeros((size, size), np.float16))
    began = time.perf_counter()
    tuned[grid](*arrays)
    tj.synchronize()
    took = time.perf_counter() - began
    rows = slice(0, 64)
    expected = a[rows].astype(np.float32) @ b.astype(np.float32)
    error = np.abs(arrays[2].numpy()[rows] - expected).max() / np.abs(expected).max()
    assert error < 2e-3, f"the result is wrong: {error}"
    tuning = tuned.tuning[-1]
    medians = exhaustive(tuned, arrays, rounds)
    best = min(medians, key=medians.__getitem__)
    chosen = str(tuning.best.config)
    ratio = medians[chosen] / medians[best]
    timed = sum(len(trial.samples) for trial in tuning.trials)
    print(f"\n{tuning}\n")
    print(
        f"{size}: tuned in {took:.1f} s with {timed} timings, {len(medians)} of {len(configs)} can run; "
        f"chosen {medians[chosen]:.4g} {tuning.unit} ({chosen}), best {medians[best]:.4g} ({best}), of best {ratio:.3f}"
    )
    return ratio


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulator", action="store_true", help="a few configurations of a small product")
    options = parser.parse_args()
    if options.simulator:
        os.environ["TILEJIT_DEVICE"] = "sim:sm_90a"
        configs, sizes = configurations(TILES[:1], (32,), (3, 4)), (64,)
    else:
        configs, sizes = configurations(), SIZES
    began = time.perf_counter()
    tuned = tj.autotune(configs, key=["A", "B"])(matmul)
    print(f"{len(configs)} configurations on {tj.device()}")
    ratios = [measure(size, configs, ROUNDS, tuned) for size in sizes]
    print(f"\nof best: {', '.join(f'{ratio:.3f}' for ratio in ratios)}; {time.perf_counter() - began:.0f} s in all")
    return 0 if max(ratios) <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
