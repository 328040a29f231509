"""Tests of Triton's and Numba's kernels on the simulator: the part of the pytest plugin that `--gpu-sim` loads."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from importlib import util
from pathlib import Path
from typing import Any

import pytest

from .. import sanitize
from ..errors import LaunchError
from .report import combined, document, results_of
from .sarif import as_sarif
from .schema import Document
from .session import Counts, Session

#: set in the workers of pytest-xdist
_WORKER = "PYTEST_XDIST_WORKER"
#: the name of the plugin, and of what workers send
_KEY = "tilejit-gpu-sim"


def begin(config: pytest.Config, version: str) -> None:
    """Simulate until pytest ends, except in the process that only distributes tests to others.

    version: that of tilejit.
    """
    options = config.known_args_namespace
    # the program may change the folder
    sarif = None if options.gpu_sim_sarif is None else Path(options.gpu_sim_sarif).absolute()
    if _WORKER not in os.environ and (getattr(options, "numprocesses", None) or getattr(options, "tx", None)):
        config.pluginmanager.register(Summary(options.gpu_sim, sarif, version), _KEY)
        return
    stack = ExitStack()
    try:
        sessions = _enter(stack, options)
    except LaunchError as error:
        raise pytest.UsageError(f"--gpu-sim={options.gpu_sim}: {error}") from None
    config.add_cleanup(stack.close)
    config.pluginmanager.register(Simulation(options.gpu_sim, sarif, version, sessions), _KEY)


def _enter(stack: ExitStack, options: Any) -> list[Session]:
    """Enter the contexts of the packages that are installed. raises: LaunchError if none is, or one isn't supported."""
    checks: Any = "strict" if options.gpu_sim_checks == "strict" else True
    has_triton, has_numba = (util.find_spec(package) is not None for package in ("triton", "numba_cuda"))
    sessions: list[Session] = []
    if has_triton or not has_numba:
        triton = sanitize.triton(
            options.gpu_sim, checks=checks, schedules=options.gpu_sim_schedules, autotune=options.gpu_sim_autotune,
            orders=options.gpu_sim_orders,
        )
        sessions.append(stack.enter_context(triton))
    if has_numba:
        numba = sanitize.numba(
            options.gpu_sim, checks=checks, schedules=options.gpu_sim_schedules, orders=options.gpu_sim_orders
        )
        sessions.append(stack.enter_context(numba))
    return sessions


class Summary:
    """The launches and findings of all processes that run tests: a line, and a file if one is asked for."""

    def __init__(self, arch: str, sarif: Path | None, version: str) -> None:
        self.arch = arch
        self.sarif = sarif
        self.version = version
        self.counts = Counts()
        #: the kernels with findings
        self.found: Document = document([], version)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Add what a worker of pytest-xdist sends."""
        sent = getattr(node, "workeroutput", {}).get(_KEY)
        if sent is not None:
            counts, kernels = sent
            self.counts.add(*counts)
            self.found["kernels"].extend(kernels)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.write_line(self.counts.line(self.arch))
        if self.sarif is not None:
            self.found["verdict"] = combined([kernel["verdict"] for kernel in self.found["kernels"]] or ["clean"])
            self.sarif.write_text(as_sarif(self.found), encoding="utf-8")
            terminalreporter.write_line(f"findings are in {self.sarif}")


class Simulation(Summary):
    """Simulation in this process: a finding that is an error fails the test, even if the test catches the exception."""

    def __init__(self, arch: str, sarif: Path | None, version: str, sessions: Sequence[Session]) -> None:
        super().__init__(arch, sarif, version)
        self.sessions = sessions

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Generator[None, object, object]:
        result = yield
        self.fail_for_errors()
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        result = yield
        self.fail_for_errors()
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        """Count the launches of a test, and forget those without findings."""
        result = yield
        launches = [launch for session in self.sessions for launch in session.forget()]
        self.counts.add_launches(launches)
        if self.sarif is not None:
            results = results_of([launch for launch in launches if launch.findings])
            self.found["kernels"].extend(document(results, self.version)["kernels"])
        return result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            counts = self.counts
            sums = (sorted(counts.kernels), counts.launches, counts.findings, counts.seconds)
            output[_KEY] = (sums, self.found["kernels"])

    def fail_for_errors(self) -> None:
        errors = [error for session in self.sessions for error in session.errors]
        if errors:
            pytest.fail("\n\n".join(map(str, errors)), pytrace=False)
