"""The command `python -m tilejit run`: an unmodified program, whose kernels run on the simulator."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from .. import sanitize
from ..errors import LaunchError
from .report import as_json, document, results_of
from .sarif import as_sarif
from .session import Session, SimulatedLaunch, summary


def add_parser(commands: Any) -> None:
    """Add the command's options to those of `python -m tilejit`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "run", help="run a Python program on the simulator, and stop at the first error in a kernel"
    )
    parser.add_argument("--triton", action="store_true", help="simulate the kernels of Triton")
    parser.add_argument("--numba", action="store_true", help="simulate the kernels of Numba-CUDA")
    parser.add_argument("--arch", default="sm_90", help="architecture to compile kernels for, such as sm_80")
    parser.add_argument("--schedules", type=int, default=1, help="number of thread orders in which each kernel runs")
    parser.add_argument(
        "--checks", choices=("default", "strict"), default="default",
        help="strict: shuffles, votes, matches and warp reductions don't order memory accesses",
    )
    parser.add_argument(
        "--autotune", choices=("all", "first"), default="all", help="configurations of autotuned kernels to run"
    )
    parser.add_argument(
        "--report", metavar="FILE",
        help="write all launches and findings to FILE: as SARIF if it ends in .sarif, else as JSON (`check` has both)",
    )
    parser.add_argument("script", metavar="SCRIPT", help="the program")
    parser.add_argument("arguments", metavar="ARGS", nargs=argparse.REMAINDER, help="arguments of the program")


def run(
    version: str, script: str, arguments: Sequence[str], triton: bool, numba: bool, arch: str, schedules: int,
    checks: str, autotune: Any, report: str | None,
) -> Iterator[str]:
    """Run a program as `python SCRIPT ARGS` does; print a summary of its launches to standard error.

    report: a file for its launches and findings. version: that of tilejit.
    raises: LaunchError if the program is missing or no kind of kernel was selected; whatever the program raises.
    """
    if not triton and not numba:
        raise LaunchError(
            "nothing to simulate was selected", hint="write python -m tilejit run --triton SCRIPT, or --numba"
        )
    if not os.path.isfile(script):
        raise LaunchError(f"no such file: {script}", hint="write the path of a Python program")
    before = sys.path[:], sys.argv
    with ExitStack() as stack:
        sessions = enter(stack, triton, numba, arch, schedules, checks, autotune)
        sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
        sys.argv = [script, *arguments]
        try:
            runpy.run_path(script, run_name="__main__")
        finally:
            sys.path[:], sys.argv = before
            launches = [launch for session in sessions for launch in session.launches]
            print(summary(arch, [x.counts for x in launches]), file=sys.stderr)
            if report is not None:
                _write(report, launches, version)
    return iter(())


def _write(file: str, launches: Sequence[SimulatedLaunch], version: str) -> None:
    data = document(results_of(launches), version)
    text = as_sarif(data) if file.endswith(".sarif") else as_json(data)
    try:
        Path(file).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise LaunchError(f"the report can't be written: {error}", hint="pass a path in a writable folder") from error


def enter(
    stack: ExitStack, triton: bool, numba: bool, arch: str, schedules: int, checks: str, autotune: Any,
    orders: int | str | None = None,
) -> list[Session]:
    """Enter the contexts of Triton and of Numba, and return their sessions. raises: LaunchError as the contexts do."""
    wanted: Any = "strict" if checks == "strict" else True
    sessions: list[Session] = []
    if triton:
        context = sanitize.triton(arch, checks=wanted, schedules=schedules, autotune=autotune, orders=orders)
        sessions.append(stack.enter_context(context))
    if numba:
        sessions.append(stack.enter_context(sanitize.numba(arch, checks=wanted, schedules=schedules, orders=orders)))
    return sessions
