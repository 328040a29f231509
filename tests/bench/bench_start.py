"""How long a program takes to its first result: tilejit's, Triton's and CuPy's, in fresh processes, in turn.

Run: `python tests/bench/bench_start.py [--rounds 3] [--against PATH] [--only PART]`. On a machine with a GPU, torch and
Triton it prints the rows of `ROWS` with their goals; without a GPU, the row of the simulator: the quickstart, against
another checkout's where one is named.

*Cold*: every cache is an empty folder (tilejit's, Triton's, CuPy's, the driver's). *Cached*: the folder that the
contender's own cold run of this round has left. Python's own bytecode is warm for everybody, as after an installation.
Medians over the rounds; milliseconds. Stages and the driver's compilation are those of the second variant.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

TREE = Path(__file__).parents[2]
PROGRAMS = Path(__file__).with_name("start_programs.py")
CACHES = ("TILEJIT_CACHE_DIR", "TRITON_CACHE_DIR", "CUPY_CACHE_DIR", "CUDA_CACHE_PATH")


class Contender(NamedTuple):
    """A program of `start_programs`. cached: it runs once more, with the caches that its cold run has left."""

    program: str
    cached: bool = False
    needs: tuple[str, ...] = ()


GPU = (
    Contender("floor"),
    Contender("tilejit_host", cached=True),
    Contender("tilejit_torch", cached=True, needs=("torch",)),
    Contender("triton_torch", cached=True, needs=("torch", "triton")),
    Contender("cupy_raw", cached=True, needs=("cupy",)),
    Contender("tilejit_matmul", needs=("torch",)),
    Contender("triton_matmul", needs=("torch", "triton")),
)

#: what the simulator's start with a warm cache takes at most of that before there were caches
MOST_OF_THERE = 0.7

#: run -> mark -> median seconds
Medians = Mapping[str, Mapping[str, float]]


class Row(NamedTuple):
    """A number of tilejit's with what it may be at most, as sums of others. at_most: each with its meaning."""

    name: str
    ours: Callable[[Medians], float]
    at_most: tuple[tuple[str, Callable[[Medians], float]], ...]


ROWS = (
    Row(
        "first kernel, nothing cached, from the call",
        lambda m: m["tilejit_torch"]["torch.float32"],
        (("0.3 x Triton's", lambda m: 0.3 * m["triton_torch"]["torch.float32"]),),
    ),
    Row(
        "process start to first result, cached",
        lambda m: m["tilejit_host cached"]["result"],
        (
            ("imports + context + 150", lambda m: m["floor"]["context"] + 0.15),
            ("Triton's, cached", lambda m: m["triton_torch cached"]["result"]),
        ),
    ),
    Row(
        "second variant, from the call",
        lambda m: m["tilejit_torch"]["torch.float16"],
        (
            ("the driver's compile + 10", lambda m: m["tilejit_torch"]["driver"] + 0.01),
            ("0.8 x Triton's", lambda m: 0.8 * m["triton_torch"]["torch.float16"]),
        ),
    ),
    Row(
        "cold matmul, from the call",
        lambda m: m["tilejit_matmul"]["call"],
        (("0.6 x Triton's", lambda m: 0.6 * m["triton_matmul"]["call"]),),
    ),
)


def run(program: str, tree: Path, caches: Path, **environment: str) -> dict[str, float]:
    """One fresh process; its marks, in seconds."""
    folders = {name: str(caches / name) for name in CACHES}
    variables = {**os.environ, **folders, "PYTHONPATH": str(tree), **environment}
    # else Python compiles every module anew, which no installation does
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    variables.setdefault("PYTHONPYCACHEPREFIX", str(Path(tempfile.gettempdir(), "bench_start_bytecode")))
    variables["BENCH_START_BEGAN"] = repr(time.monotonic())
    command = [sys.executable, str(PROGRAMS), program]
    ended = subprocess.run(command, cwd=tree, env=variables, capture_output=True, text=True)
    if ended.returncode:
        raise SystemExit(f"{program} failed:\n{ended.stderr}")
    marks: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    return marks


def medians(times: Mapping[str, list[dict[str, float]]]) -> Medians:
    return {
        name: {mark: statistics.median(marks[mark] for marks in rounds) for mark in rounds[0]}
        for name, rounds in times.items()
    }


def measure(contenders: tuple[Contender, ...], rounds: int) -> Medians:
    """Every contender once a round, another one first each time; a round more, which only warms up."""
    times: dict[str, list[dict[str, float]]] = {}
    for turn in range(rounds + 1):
        first = turn % len(contenders)
        for contender in contenders[first:] + contenders[:first]:
            with tempfile.TemporaryDirectory() as caches:
                for suffix in ("", " cached") if contender.cached else ("",):
                    marks = run(contender.program, TREE, Path(caches))
                    if turn:
                        times.setdefault(contender.program + suffix, []).append(marks)
    return medians(times)


def simulator(rounds: int, other: Path | None) -> Mapping[str, list[dict[str, float]]]:
    """This tree's quickstart with the package here and there, in turn; the first round only warms up."""
    trees = {"here": TREE, **({} if other is None else {"there": other})}
    times: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
    with tempfile.TemporaryDirectory() as caches:
        for turn in range(rounds + 1):
            for name in sorted(trees, reverse=bool(turn % 2)):
                marks = run("quickstart", trees[name], Path(caches, name), TILEJIT_DEVICE="sim")
                if turn:
                    times[name].append(marks)
    return times


def table(measured: Medians) -> list[str]:
    """All marks, then the rows with their goals."""
    lines = []
    for name, marks in measured.items():
        listed = "  ".join(f"{mark} {1e3 * seconds:.1f}" for mark, seconds in marks.items() if seconds >= 1e-4)
        lines.append(f"{name:24} {listed}")
    lines.append("")
    for row in ROWS:
        try:
            ours, goals = row.ours(measured), [(text, most(measured)) for text, most in row.at_most]
        except KeyError:
            lines.append(f"{row.name:46} not measured here")
            continue
        for text, most in goals:
            verdict = "reached" if ours <= most else "MISSED"
            lines.append(f"{row.name:46} {1e3 * ours:7.0f} of {1e3 * most:7.0f}  ({text}): {verdict}")
    return lines


def comparison(times: Mapping[str, list[dict[str, float]]]) -> list[str]:
    """The simulator's row: each checkout's marks, and what it takes here of there: the median of all rounds' ratios."""
    lines = []
    for name, marks in medians(times).items():
        listed = "  ".join(f"{mark} {1e3 * seconds:.0f}" for mark, seconds in marks.items())
        lines.append(f"quickstart on the simulator, {name:5} {listed}")
    if "there" in times:
        for mark in ("result", "explained"):
            pairs = zip(times["here"], times["there"], strict=True)
            ratio = statistics.median(here[mark] / there[mark] for here, there in pairs)
            verdict = "reached" if ratio <= MOST_OF_THERE else "MISSED"
            lines.append(f"to {mark}: {ratio:.2f} of {MOST_OF_THERE:.2f}: {verdict}")
    return lines


def has_gpu() -> bool:
    code = "from tilejit.runtime import devices; raise SystemExit(devices.cuda_problem() is not None)"
    return not subprocess.run([sys.executable, "-c", code], cwd=TREE, capture_output=True).returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", type=Path, help="another checkout, for the simulator's row")
    parser.add_argument("--only", default="", help="a part of the names of the programs to run")
    options = parser.parse_args()
    if has_gpu():
        chosen = [c for c in GPU if options.only in c.program and all(map(find_spec, c.needs))]
        print(*table(measure(tuple(chosen), options.rounds)), sep="\n")
        return
    print(*comparison(simulator(options.rounds, options.against and options.against.resolve())), sep="\n")


if __name__ == "__main__":
    main()
