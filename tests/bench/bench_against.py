"""Compile times of this tree against those of another checkout: processes of the two in turn, medians and ratios.

Run: `python tests/bench/bench_against.py PATH/OF/THE/OTHER [rounds]`. No GPU is needed. A machine changes its speed
while it runs; a ratio within a round doesn't feel that.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

ROUNDS = 7
HERE = Path(__file__).parents[2]


def totals(tree: Path) -> dict[str, float]:
    """Milliseconds from call to PTX by kernel, as one process of that tree's `bench_compile.py` prints them."""
    script = tree / "tests" / "bench" / "bench_compile.py"
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tree, env=environment, capture_output=True, text=True, check=True
    )
    rows = (line.split() for line in done.stdout.splitlines()[1:])
    return {row[0]: float(row[1]) for row in rows}


def main() -> None:
    other = Path(sys.argv[1]).resolve()
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    here: dict[str, list[float]] = {}
    there: dict[str, list[float]] = {}
    for turn in range(rounds):
        sides = [(HERE, here), (other, there)]
        for tree, times in sides if turn % 2 == 0 else reversed(sides):
            for name, ms in totals(tree).items():
                times.setdefault(name, []).append(ms)
    print(f"{'kernel':20}{'here, ms':>10}{'there, ms':>11}{'ratio':>8}   ratios of the {rounds} rounds")
    for name in here:
        ratios = [a / b for a, b in zip(here[name], there[name], strict=True)]
        medians = statistics.median(here[name]), statistics.median(there[name])
        listed = " ".join(f"{r:.2f}" for r in ratios)
        print(f"{name:20}{medians[0]:10.2f}{medians[1]:11.2f}{statistics.median(ratios):8.3f}   {listed}")


if __name__ == "__main__":
    main()
