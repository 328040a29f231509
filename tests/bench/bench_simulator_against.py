"""CPU time of simulated launches with this tree against that with another checkout: two processes, launch by launch.

Run: `python tests/bench/bench_simulator_against.py PATH/OF/THE/OTHER [rounds] [part of a name]`. Both sides run the
kernels of this folder; only the package differs. The two take turns within each case, so that what slows the machine
down slows both. Of each side the median of all rounds, and the ratio here / there.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from simulated import HEADER, REGISTERS, copy_line, look_back, pointer

import tilejit as tj
from tilejit.simulator import run

ROUNDS = 40
HERE = Path(__file__).parents[2]
#: seconds of launches between two turns
TURN = 0.02

Launch = Callable[[], object]


@tj.kernel(threads=128)
def look_up(P: tj.Tensor, B: tj.Tensor):
    table = tj.alloc_local((96,), tj.int32)
    for i in range(96):
        table[i] = i * tj.thread_id()
    total = tj.int32(0)
    place = P[tj.thread_id()]
    for i in range(200):
        total += table[(place + i * 7) % 96]
    B[tj.thread_id()] = total


@tj.kernel(threads=128)
def fill_and_look_up(P: tj.Tensor, B: tj.Tensor):
    table = tj.alloc_local((96,), tj.int32)
    place = P[tj.thread_id()]
    for i in range(96):
        table[(place + i) % 96] = i * tj.thread_id()
    total = tj.int32(0)
    for i in range(200):
        total += table[(place + i * 7) % 96]
    B[tj.thread_id()] = total


def histogram(op: str) -> str:
    """Each thread updates 64 bins, which its own words choose, in shared memory. op: the whole instruction."""
    return (
        f"{HEADER}.visible .entry k(.param .u64 p0, .param .u64 p1)\n{{\n{REGISTERS}.shared .align 16 .b8 bins[1024];\n"
        "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; ld.param.u64 %x1, [p0]; ld.param.u64 %x2, [p1];\n"
        "mul.wide.u32 %x3, %r2, 65536; add.s64 %x1, %x1, %x3; mul.wide.u32 %x4, %r1, 4; add.s64 %x1, %x1, %x4;\n"
        "mov.u32 %r3, bins; shl.b32 %r4, %r1, 2; add.u32 %r5, %r3, %r4; mov.u32 %r6, 0; mov.u32 %r9, 1;\n"
        "mov.u32 %r10, 1000000; st.shared.u32 [%r5], %r6; bar.sync 0;\n"
        "LOOP: ld.global.u32 %r7, [%x1]; shl.b32 %r7, %r7, 2; add.u32 %r8, %r3, %r7;\n"
        f"{op}\n"
        "add.s64 %x1, %x1, 1024; add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 64; @%p1 bra LOOP; bar.sync 0;\n"
        "ld.shared.u32 %r7, [%r5]; add.s64 %x2, %x2, %x4; red.relaxed.gpu.global.add.u32 [%x2], %r7; ret;\n}\n"
    )


def one_place(op: str) -> str:
    """All threads update one word of global memory 64 times."""
    return (
        f"{HEADER}.visible .entry k(.param .u64 p0, .param .u64 p1)\n{{\n{REGISTERS}"
        "ld.param.u64 %x1, [p0]; mov.u32 %r1, 0; mov.u32 %r10, 1000000000; mov.u32 %r12, 0;\n"
        f"LOOP: {op} add.u32 %r12, %r12, %r11;\n"
        "add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 64; @%p1 bra LOOP;\n"
        "mov.u32 %r2, %tid.x; mul.wide.u32 %x3, %r2, 4; ld.param.u64 %x2, [p1]; add.s64 %x2, %x2, %x3;\n"
        "st.relaxed.gpu.global.u32 [%x2], %r12; ret;\n}\n"
    )


def text_launch(text: str, grid: int, threads: int, arrays: list[np.ndarray], checks: bool) -> Launch:
    return lambda: run(text, "k", (grid,), (threads,), [pointer(a) for a in arrays], checks=checks)


def cases() -> dict[str, Launch]:
    """Launches by name."""
    line, target = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    words = np.random.default_rng(0).integers(0, 256, 1 << 20, dtype=np.uint32)
    equal = np.full_like(words, 7)
    counts = np.zeros(256, np.uint32)
    places = np.random.default_rng(0).integers(0, 96, 128, dtype=np.int32)
    totals = np.zeros(128, np.int32)
    launches: dict[str, Launch] = {}

    def looks(checks: bool) -> object:
        sums, flags = np.zeros(100, np.uint32), np.zeros(100, np.uint32)
        return run(look_back(), "k", (100,), (32,), [pointer(sums), pointer(flags)], checks=checks)

    for checks in (True, False):
        how = "checked" if checks else "unchecked"
        launches[f"tiny, {how}"] = lambda c=checks: tj.simulate(copy_line, 1, line, target, checks=c)
        for name, kernel in (("looked up", look_up), ("filled anywhere", fill_and_look_up)):
            launches[f"local, {name}, {how}"] = lambda c=checks, k=kernel: tj.simulate(k, 1, places, totals, checks=c)
        updates = {
            "red.add": "red.shared.add.u32 [%r8], %r9;", "atom.add": "atom.shared.add.u32 %r11, [%r8], %r9;",
            "atom.add, value used": "atom.shared.add.u32 %r11, [%r8], %r9; add.u32 %r12, %r12, %r11;",
            "atom.inc": "atom.shared.inc.u32 %r11, [%r8], %r10; add.u32 %r12, %r12, %r11;",
        }
        for name, op in updates.items():
            for kind, data in (("random", words), ("equal", equal)):
                launches[f"{name}, {kind}, {how}"] = text_launch(histogram(op), 64, 256, [data, counts], checks)
        for name in ("add", "inc", "max"):
            op = f"atom.global.{name}.u32 %r11, [%x1], %r10;"
            launches[f"one place, {name}, {how}"] = text_launch(one_place(op), 4, 256, [counts, counts.copy()], checks)
        launches[f"look-back, {how}"] = lambda c=checks: looks(c)
    return launches


def serve() -> None:
    """Run the case named by each line of the input for TURN seconds; print the CPU milliseconds of a launch."""
    launches = cases()
    for name in map(str.strip, sys.stdin):
        count, start = 0, time.process_time()
        while time.process_time() - start < TURN:
            launches[name]()
            count += 1
        print((time.process_time() - start) / count * 1e3, flush=True)


class Side:
    """A process that imports the package from a tree."""

    def __init__(self, tree: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), "--serve"], cwd=tree, text=True,
            env={**os.environ, "PYTHONPATH": str(tree)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )

    def time(self, name: str) -> float:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(name, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def main() -> None:
    other = Path(sys.argv[1]).resolve()
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    part = sys.argv[3] if len(sys.argv) > 3 else ""
    sides = [Side(HERE), Side(other)]
    print(f"{'CPU ms, medians':36}{'here':>10}{'there':>10}{'ratio':>8}{'M/s here':>10}")
    for name, launch in cases().items():
        if part not in name:
            continue
        for side in sides:
            side.time(name)
        times: tuple[list[float], list[float]] = ([], [])
        for turn in range(rounds):
            for i in (0, 1) if turn % 2 == 0 else (1, 0):
                times[i].append(sides[i].time(name))
        here, there = (statistics.median(x) for x in times)
        rate = launch().thread_instructions / here / 1e3  # type: ignore[attr-defined]
        print(f"{name:36}{here:10.3f}{there:10.3f}{here / there:8.3f}{rate:10.1f}", flush=True)
    for side in sides:
        side.close()


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["--serve"] else main()
