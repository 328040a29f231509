"""CPU time of compilation with this tree against that with another checkout: processes of the two in turn.

Run: `python tests/bench/bench_against.py PATH/OF/THE/OTHER [rounds]`. No GPU is needed. Both sides compile this tree's
kernels with this tree's `bench_compile.py`; only the package differs.

Two ratios, here / there. Of medians: a machine changes its speed while it runs, which a ratio within a round doesn't
feel. Of the least times: where other processes share the caches, only the best run of many comes through undisturbed.
On two cores with eight processes either is good to about 3 %, and wall clock to 30 %.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROUNDS = 7
HERE = Path(__file__).parents[2]


class CPUTime(NamedTuple):
    """Milliseconds from call to PTX in one process: the median and the least of its runs."""

    median: float
    least: float


def cpu_times(tree: Path) -> dict[str, CPUTime]:
    """By kernel what `bench_compile.py` prints in a process that imports that tree's package."""
    script = HERE / "tests" / "bench" / "bench_compile.py"
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tree, env=environment, capture_output=True, text=True, check=True
    )
    rows = (line.split() for line in done.stdout.splitlines()[1:])
    return {row[0]: CPUTime(float(row[2]), float(row[3])) for row in rows}


def main() -> None:
    other = Path(sys.argv[1]).resolve()
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    here: dict[str, list[CPUTime]] = {}
    there: dict[str, list[CPUTime]] = {}
    for turn in range(rounds):
        sides = [(HERE, here), (other, there)]
        for tree, times in sides if turn % 2 == 0 else reversed(sides):
            for name, measured in cpu_times(tree).items():
                times.setdefault(name, []).append(measured)
    print(f"{'CPU ms':20}{'medians':>16}{'ratio':>8}{'least':>16}{'ratio':>8}   ratios of the {rounds} rounds' medians")
    for name in here:
        ratios = [a.median / b.median for a, b in zip(here[name], there[name], strict=True)]
        medians = [statistics.median(t.median for t in side[name]) for side in (here, there)]
        least = [min(t.least for t in side[name]) for side in (here, there)]
        by_median = f"{medians[0]:8.2f}{medians[1]:8.2f}{statistics.median(ratios):8.3f}"
        by_least = f"{least[0]:8.2f}{least[1]:8.2f}{least[0] / least[1]:8.3f}"
        print(f"{name:20}{by_median}{by_least}   {' '.join(f'{r:.2f}' for r in ratios)}")


if __name__ == "__main__":
    main()
