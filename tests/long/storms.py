"""Interrupts and forks at random moments: `python -m tests.long.storms interrupts 20000`, `... forks 200`.

Interrupts arrive while kernels are compiled, launched and kept on disk. After each the collector and the locks are as
before, and the interrupted work gives the right values when it is done again. A child that is forked while four threads
compile compiles and launches, too.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

os.environ.update(TILEJIT_DEVICE="sim", TILEJIT_CACHE="1", TILEJIT_CACHE_DIR=tempfile.mkdtemp())

import numpy as np

import tilejit as tj
from tilejit import forks
from tilejit.runtime.store import DiskStore

#: seconds that a child may take, on a machine that does other work as well
_PATIENCE = 120.0
_THREADS = 4
#: a number that kernels are compiled for, and their PTX
_REFERENCE = 77_777_777
_REFERENCES: dict[str, str] = {}
#: interrupts between two looks at the locks from another thread
_LOOK_EVERY = 50


@tj.kernel(threads=32)
def add(A: tj.Tensor, N: tj.constexpr) -> None:
    A[tj.thread_id()] += N


@tj.kernel(threads=32)
def rows(A: tj.Tensor, N: tj.constexpr) -> None:
    # has loops and branches, for the passes before the back end
    for i in range(A.shape[0]):
        if i % 2 == 0:
            A[tj.thread_id()] += N


def launch(number: int) -> None:
    """Compile for a number, or find what was compiled, and launch."""
    a = np.zeros(32, np.int32)
    add[1](a, number)
    assert (a == number).all(), a


def ptx_for(kernel: tj.Kernel, number: int) -> str:
    return kernel.compile(tj.spec(32, "int32"), number, target="sm_90a").ptx


def compile_one(number: int) -> None:
    """Compile for a number; PTX for two numbers differs in them only."""
    kernel, value = rows if number % 2 else add, 20_000_000 + number
    expected = _REFERENCES.get(kernel.name)
    if expected is None:
        expected = _REFERENCES[kernel.name] = ptx_for(kernel, _REFERENCE)
    assert ptx_for(kernel, value) == expected.replace(str(_REFERENCE), str(value))


def keep(store: DiskStore, number: int) -> None:
    """Write to the store, and read what was written before."""
    key = f"storm:{number % 8}"
    found = store.get(key)
    assert found is None or found == found[:1] * 4096, found
    store.put(key, bytes([number % 256]) * 4096)


class Storm:
    """Runs work under a timer that interrupts it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.interrupts = 0
        signal.signal(signal.SIGALRM, self._interrupt)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def over(self, work: Callable[[], None], seconds: float) -> None:
        """Interrupt work that takes some seconds at a random moment, once; then do it undisturbed."""
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, self.random.uniform(1e-6, seconds))
                work()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            self.interrupts += 1
        check_locks()
        work()


def check_locks() -> None:
    """Raise AssertionError where this thread holds a lock, or the collector is off."""
    assert gc.isenabled(), "the collector is off"
    for lock in all_locks():
        is_held = lock._is_owned() if hasattr(lock, "_is_owned") else lock.locked()
        assert not is_held, f"{lock} is held"


def check_locks_elsewhere() -> None:
    """Take each lock in another thread."""
    stuck: list[Any] = []

    def take() -> None:
        for lock in all_locks():
            if lock.acquire(timeout=_PATIENCE):
                lock.release()
            else:
                stuck.append(lock)

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    assert not stuck, stuck


def all_locks() -> list[Any]:
    return [*forks._awaited, *forks._renewed]


def duration(work: Callable[[int], None], numbers: range) -> float:
    began = time.perf_counter()
    for number in numbers:
        work(number)
    return (time.perf_counter() - began) / len(numbers)


def interrupts(count: int, seed: int) -> None:
    """Survive `count` interrupts."""
    store = DiskStore(Path(tempfile.mkdtemp()))
    works: list[Callable[[int], None]] = [compile_one, launch, lambda number: keep(store, number)]
    for work in works:
        work(-1)
    seconds = [duration(work, range(-20, -1)) for work in works]
    storm, number, looked = Storm(seed), 0, 0
    while storm.interrupts < count:
        which = number % len(works)
        storm.over(lambda number=number, work=works[which]: work(number), seconds[which] * 1.2)
        number += 1
        if storm.interrupts >= looked + _LOOK_EVERY:
            looked = storm.interrupts
            check_locks_elsewhere()
    check_locks_elsewhere()
    left = [entry for entry in store.entries() if entry.kind != "storm"]
    print(f"{storm.interrupts} interrupts in {number} units of work with seed {seed}; left over: {left}")
    assert not left


def forked(number: int) -> None:
    """Fork a child that compiles and launches; raise AssertionError where it fails or takes too long."""
    child = os.fork()
    if not child:
        status = 1
        try:
            assert gc.isenabled()
            launch(number)
            compile_one(number)
            status = 0
        finally:
            os._exit(status)
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert os.waitstatus_to_exitcode(status) == 0, f"child {number} failed"
            return
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError(f"child {number} hangs")


def fork_while_compiling(count: int, seed: int, is_warm: bool = True) -> None:
    """Fork `count` children while threads compile. is_warm: the compiler is imported before."""
    chance, stop = random.Random(seed), threading.Event()
    if is_warm:
        compile_one(0)

    def compile_on(thread: int) -> None:
        number = 1000 * (thread + 1)
        while not stop.is_set():
            number += 1
            launch(number)
            compile_one(number + 1_000_000)

    threads = [threading.Thread(target=compile_on, args=(n,), daemon=True) for n in range(_THREADS)]
    for thread in threads:
        thread.start()
    try:
        for number in range(count):
            time.sleep(chance.uniform(0, 0.05))
            forked(-number - 1)
    finally:
        stop.set()
    for thread in threads:
        thread.join(_PATIENCE)
        assert not thread.is_alive(), "a thread of the parent hangs"
    print(f"{count} forks with seed {seed}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("interrupts", "forks", "cold-forks"))
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    # Python 3.12 warns of forks of processes with threads
    warnings.simplefilter("ignore", DeprecationWarning)
    if options.what == "interrupts":
        interrupts(options.count, options.seed)
    else:
        fork_while_compiling(options.count, options.seed, options.what == "forks")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
