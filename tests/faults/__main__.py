"""Run the tests against each planted fault, one at a time, and print the test that catches it.

    python -m tests.faults --tier default --date 2026-11-30 -n 2

Each fault is planted in a copy of the project's tracked files, and pytest stops at the first failure there. The tests
of the faulty folder run first, then all of the tier. A test that doesn't end within --timeout seconds counts as failed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

from .planted import FAULTS, Fault

ROOT = Path(__file__).parents[2]

#: tier -> the arguments of pytest that run it
TIERS = {"default": (), "all": ("--all-cases", "-m", "integration or not integration")}

#: a line of pytest's summary that names a test
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)

#: a whole run takes at most this many times the time limit of one test
_RUN = 30


class Outcome(NamedTuple):
    """The first test that failed under a fault, "" if none did, and the seconds of the run."""

    test: str
    seconds: float


def copy_of_the_project(folder: Path) -> Path:
    """Copy the tracked files into `folder`, without Git all files that aren't hidden, and return it."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        shutil.copytree(ROOT, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".git", "__pycache__", ".venv"))
        return folder
    for name in filter(None, os.fsdecode(listed.stdout).split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def run(root: Path, arguments: Sequence[str], timeout: float) -> Outcome:
    """Run pytest in `root` up to the first failure."""
    # the faults' own test looks for the lines that a fault has changed
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider",
               "--ignore", "tests/faults", "--timeout", f"{timeout:g}", *arguments]
    began = time.monotonic()
    process = subprocess.Popen(
        command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        output, _ = process.communicate(timeout=_RUN * timeout)
    except subprocess.TimeoutExpired:
        # code that isn't Python's doesn't notice the time limit of a test
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return Outcome("(the run reached its time limit)", time.monotonic() - began)
    seconds = time.monotonic() - began
    if process.returncode == 0:
        return Outcome("", seconds)
    failed = _FAILED.search(output)
    if failed is None:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{output[-4000:]}")
    return Outcome(failed[1], seconds)


def under(fault: Fault, arguments: Sequence[str], timeout: float) -> Outcome:
    """Run the tests in a copy of the project with a fault, those of its folder first."""
    with tempfile.TemporaryDirectory(prefix="fault-") as folder:
        root = copy_of_the_project(Path(folder))
        fault.plant(root)
        mirror = Path("tests", Path(fault.file).parts[0])
        nearest = run(root, [*arguments, str(mirror)], timeout) if (root / mirror).is_dir() else Outcome("", 0.0)
        if nearest.test:
            return nearest
        whole = run(root, arguments, timeout)
        return Outcome(whole.test, nearest.seconds + whole.seconds)


def chosen(only: Sequence[str]) -> list[Fault]:
    """The faults whose names or files contain one of these texts; all faults if there are none."""
    return [f for f in FAULTS if not only or any(text in f.name or text in f.file for text in only)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__.split("\n")[0])
    parser.add_argument("--tier", choices=TIERS, default="default", help="the tests to run")
    parser.add_argument("--date", help="of the cases that the default tier runs (default: today, UTC)")
    parser.add_argument("-n", default="auto", help="the number of processes, as for pytest-xdist")
    parser.add_argument("--only", action="append", default=[], help="part of a fault's name or file; may be repeated")
    parser.add_argument("--timeout", type=float, default=120, help="seconds that one test may take")
    options = parser.parse_args()
    faults = chosen(options.only)
    if not faults:
        parser.error(f"no fault's name or file contains {' or '.join(options.only)}")
    # one date for all runs
    day = options.date or datetime.now(timezone.utc).date().isoformat()
    arguments = ["-n", options.n, "--cases", day, *TIERS[options.tier]]
    caught = 0
    for fault in faults:
        outcome = under(fault, arguments, options.timeout)
        caught += bool(outcome.test)
        print(f"{options.tier}  {outcome.seconds:6.1f} s  {outcome.test or 'NOT CAUGHT'}")
        print(f"    {fault.file}: {fault.name}", flush=True)
    print(f"caught {caught} of {len(faults)} ({options.tier}, {day})")
    return 0 if caught == len(faults) else 1


if __name__ == "__main__":
    raise SystemExit(main())
