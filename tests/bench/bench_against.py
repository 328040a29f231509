"""CPU time of compilation with this tree against that with another checkout, one here and one there in turn.

Run: `python tests/bench/bench_against.py PATH/OF/THE/OTHER [pairs]`. No GPU is needed. Both sides compile this tree's
kernels with this tree's `bench_compile.py`; only the package differs.

A shared machine changes its speed by half from second to second. So two waiting processes each compile one kernel
on request, and neighbours in time, 10 ms apart, are compared: the ratio is the median over all pairs, the first
of a pair being now one side, now the other. `spread` is the distance of the quartiles of those ratios. Several pairs of
processes take turns, because where a process's memory came to lie makes a difference of a few percent for all its life.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parents[2]
PAIRS = 400
PROCESSES = 8  # of each side, one pair after the other
WARM_UP = 5


def serve() -> None:
    """Compiles the kernel that each line of the input names and answers with the CPU milliseconds that it took."""
    from bench_compile import demonstrations

    kernels = demonstrations()
    print(*kernels, flush=True)
    for line in sys.stdin:
        compile_one = kernels[line.strip()]
        began = time.process_time()
        compile_one()
        print(1e3 * (time.process_time() - began), flush=True)


class Side:
    """A process that compiles with the package of one tree."""

    def __init__(self, tree: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve"],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.kernels = self._answer().split()

    def __enter__(self) -> Side:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a process that compiles has ended")
        return line

    def milliseconds(self, kernel: str) -> float:
        assert self._process.stdin is not None
        print(kernel, file=self._process.stdin, flush=True)
        return float(self._answer())


def measure(other: Path, pairs: int) -> dict[str, list[tuple[float, float]]]:
    """By kernel the times (here, there) of each pair."""
    times: dict[str, list[tuple[float, float]]] = {}
    with Side(HERE) as here, Side(other) as there:
        for kernel in here.kernels:
            for turn in range(-WARM_UP, pairs):
                sides = (here, there) if turn % 2 else (there, here)
                first, second = (side.milliseconds(kernel) for side in sides)
                if turn >= 0:
                    times.setdefault(kernel, []).append((first, second) if turn % 2 else (second, first))
    return times


def main() -> None:
    other = Path(sys.argv[1]).resolve()
    pairs = int(sys.argv[2]) if len(sys.argv) > 2 else PAIRS
    rounds = [measure(other, -(-pairs // PROCESSES)) for _ in range(PROCESSES)]
    print(f"{'CPU ms':20}{'here':>9}{'there':>9}{'ratio':>8}{'spread':>8}   ratios of {PROCESSES} pairs of processes")
    for kernel in rounds[0]:
        by_round = [[here / there for here, there in times[kernel]] for times in rounds]
        ratios = [ratio for each in by_round for ratio in each]
        low, ratio, high = statistics.quantiles(ratios, n=4)
        here, there = (statistics.median(pair[side] for times in rounds for pair in times[kernel]) for side in (0, 1))
        listed = " ".join(f"{statistics.median(each):.2f}" for each in by_round)
        print(f"{kernel:20}{here:9.2f}{there:9.2f}{ratio:8.3f}{high - low:8.3f}   {listed}")


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["--serve"] else main()
