"""Many processes at once on one cache, killed at random: `python -m tests.runtime.attack FOLDER SECONDS PROCESSES`.

Each process launches kernels of which it knows the results, as new ones, until it is killed. Afterwards every entry
must be sound. Then the same again, while files of the cache are cut, altered and exchanged, and where root attacks also
forged: another user's, with a digest that is right and a kernel that isn't. Prints what happened; the status is 1 where
a result was wrong, a process ended on its own, or an entry is unsound though it wasn't damaged.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import tilejit as tj
from tilejit.errors import CacheWarning
from tilejit.runtime import store as stores
from tilejit.runtime.store import DiskStore, current

#: a user who isn't root
STRANGER = 65534


@tj.function
def shifted(x: Any, by: Any) -> Any:
    return x + by


SCALE = 3


@tj.kernel(threads=32)
def scale(A: tj.Tensor, B: tj.Tensor, by: tj.constexpr):
    lane = tj.lane_id()
    B[lane] = shifted(A[lane] * SCALE, by)


@tj.kernel(threads=32)
def reverse(A: tj.Tensor, B: tj.Tensor, by: tj.constexpr):
    lane = tj.lane_id()
    B[31 - lane] = shifted(A[lane], by)


RESULTS: dict[tj.Kernel, Callable[[np.ndarray, int], np.ndarray]] = {
    scale: lambda a, by: a * 3 + by,
    reverse: lambda a, by: a[::-1] + by,
}


def work(rng: random.Random) -> None:
    """Launches one kernel as a process does that has just started, and checks its result."""
    kernel = rng.choice(list(RESULTS))
    # half of them compile a kernel that no process has compiled
    by = rng.choice([rng.randrange(6), rng.randrange(10**6)])
    a = np.arange(32, dtype=rng.choice([np.float64, np.int32]))
    b = np.zeros_like(a)
    fresh = tj.Kernel(kernel.__wrapped__, kernel.options)  # type: ignore[attr-defined]
    fresh[1](a, b, by)
    np.testing.assert_array_equal(b, RESULTS[kernel](a, by))


class SlowFile:
    """A file that is written in pieces with pauses between them, so that many are killed meanwhile."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def __enter__(self) -> SlowFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def write(self, content: bytes) -> None:
        for start in range(0, len(content), 512):
            self.file.write(content[start : start + 512])
            self.file.flush()
            time.sleep(0.002)


def process(seed: int, is_damaging: bool, failures: Path) -> None:
    """Work until killed, or until the killer has exited."""
    # the killer has priority
    os.nice(10)
    # no warning is expected unless files are damaged
    warnings.simplefilter("ignore" if is_damaging else "error", CacheWarning)
    parent, opened = os.getppid(), os.fdopen
    os.fdopen = lambda fd, mode: SlowFile(opened(fd, mode)) if mode == "wb" else opened(fd, mode)  # type: ignore
    rng = random.Random(seed)
    try:
        while os.getppid() == parent:
            work(rng)
    except BaseException:
        (failures / str(os.getpid())).write_text(traceback.format_exc())
    os._exit(1)


def damage(rng: random.Random, folder: Path) -> None:
    """Cuts, alters or exchanges entries."""
    # others remove files, and one may be empty by now
    with suppress(OSError, IndexError, ValueError):
        one, other = (rng.choice(list(folder.iterdir())) for _ in range(2))
        content = bytearray(one.read_bytes())
        place = rng.randrange(len(content))
        kind = rng.randrange(3)
        if kind == 0:
            os.truncate(one, place)
        elif kind == 1:
            content[place] ^= 1 << rng.randrange(8)
            one.write_bytes(bytes(content))
        else:
            other.write_bytes(bytes(content))


def forge(rng: random.Random, folder: Path) -> None:
    """Puts one kernel in another's place as a stranger does, with a digest that is right."""
    with suppress(OSError, IndexError, ValueError):
        one, other = rng.sample(list(folder.glob("*.program")), 2)
        (_, payload), (key, _) = (parts(path) for path in (one, other))
        made = DiskStore(folder.parent / "forged")
        made.put(key, payload)
        forged = made.folder / other.name
        os.chown(forged, STRANGER, STRANGER)
        os.replace(forged, other)


def parts(path: Path) -> tuple[str, bytes]:
    """An entry's key and payload; a ValueError where it has none."""
    content = path.read_bytes()
    key = stores._key(content)
    if key is None:
        raise ValueError(path)
    payload = stores._payload(content, key)
    assert payload is not None
    return key, payload


def attack(folder: Path, seconds: float, processes: int, is_damaging: bool, failures: Path) -> int:
    """Start and kill processes; return how many were killed. failures: gets a file for each that ended on its own."""
    rng = random.Random(1)
    children: list[int] = []
    killed = 0
    ends = None
    try:
        while ends is None or time.monotonic() < ends:
            while len(children) < processes:
                seed = rng.randrange(2**32)
                child = os.fork()
                if child == 0:
                    process(seed, is_damaging, failures)
                children.append(child)
            ends = ends or time.monotonic() + seconds
            for _ in range(8):
                time.sleep(rng.uniform(0, 0.004))
                if is_damaging:
                    damage(rng, folder)
                    if os.geteuid() == 0:
                        forge(rng, folder)
            killed += end(children.pop(rng.randrange(len(children))), failures)
    finally:
        killed += sum(end(child, failures) for child in children)
    return killed


def end(child: int, failures: Path) -> bool:
    """Kills a child; whether it was alive. failures: gets a file where it wasn't."""
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    was_alive = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    if not was_alive and not (failures / str(child)).exists():
        # neither a crash nor an exit of LLVM's leaves a traceback
        (failures / str(child)).write_text(f"a process ended on its own: {os.waitstatus_to_exitcode(status)}\n")
    return was_alive


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("seconds", type=float)
    parser.add_argument("processes", type=int)
    options = parser.parse_args()
    failures = options.folder.parent / "failures"
    failures.mkdir()
    os.environ["TILEJIT_CACHE"] = "1"
    os.environ["TILEJIT_CACHE_DIR"] = str(options.folder)
    # so little that entries have to go
    os.environ["TILEJIT_CACHE_MAXSIZE"] = "100000"
    os.environ["TILEJIT_DEVICE"] = "sim"
    # what is imported once needn't be by each process
    os.environ["TILEJIT_CACHE"] = "0"
    work(random.Random(0))
    os.environ["TILEJIT_CACHE"] = "1"
    store = current()
    assert store is not None
    is_good = True
    for is_damaging in (False, True):
        killed = attack(options.folder, options.seconds / 2, options.processes, is_damaging, failures)
        entries, unsound, failed = list(store.entries()), store.verify(), list(failures.iterdir())
        foreign = [each for each in unsound if not each.is_removed]
        print(
            f"{killed} processes killed, {len(failed)} failed; {len(entries)} entries, {len(unsound)} unsound, "
            f"{len(foreign)} of them another user's"
        )
        is_good &= bool(entries) and not failed and (is_damaging or not unsound) and store.verify() == foreign
        for path in failed[:3]:
            print(path.read_text())
        after(options.folder, is_damaging)
    return 0 if is_good else 1


def after(folder: Path, is_damaging: bool) -> None:
    """Launches some more, here, where a wrong result ends the program; of damage there is as much as can be."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if is_damaging else "error", CacheWarning)
        for seed in range(16):
            rng = random.Random(seed)
            for _ in range(64 if is_damaging and os.geteuid() == 0 else 0):
                forge(rng, folder)
            work(rng)


if __name__ == "__main__":
    sys.exit(main())
