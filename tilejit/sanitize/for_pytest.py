"""Tests of Triton's and Numba's kernels on the simulator: the part of the pytest plugin that `--gpu-sim` loads."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from importlib import util
from pathlib import Path
from typing import Any

import pytest

from ..errors import LaunchError
from .report import combined, document, results_of
from .running import enter
from .sarif import as_sarif
from .schema import Document
from .session import Session, summary

#: set in the workers of pytest-xdist
_WORKER = "PYTEST_XDIST_WORKER"
#: the name of the plugin, and of what workers send
_KEY = "tilejit-gpu-sim"


def begin(config: pytest.Config, version: str) -> None:
    """Simulate until pytest ends, except in the process that only distributes tests to others.

    version: that of tilejit.
    """
    options = config.known_args_namespace
    sessions: list[Session] = []
    if _WORKER in os.environ or not (getattr(options, "numprocesses", None) or getattr(options, "tx", None)):
        has_triton, has_numba = (util.find_spec(package) is not None for package in ("triton", "numba_cuda"))
        stack = ExitStack()
        try:
            sessions = enter(
                # without either, the error names what to install for Triton
                stack, has_triton or not has_numba, has_numba, options.gpu_sim, options.gpu_sim_schedules,
                options.gpu_sim_checks, options.gpu_sim_autotune, options.gpu_sim_orders,
            )
        except LaunchError as error:
            raise pytest.UsageError(f"--gpu-sim={options.gpu_sim}: {error}") from None
        config.add_cleanup(stack.close)
    # the program may change the folder
    sarif = None if options.gpu_sim_sarif is None else Path(options.gpu_sim_sarif).absolute()
    config.pluginmanager.register(Simulation(options.gpu_sim, sarif, version, sessions), _KEY)


class Simulation:
    """Fails tests for the findings of their launches, and reports the launches of all processes that run tests.

    A finding that is an error fails the test even if the test catches the exception. sarif: file for the findings, or
    None. sessions: those of this process.
    """

    def __init__(self, arch: str, sarif: Path | None, version: str, sessions: Sequence[Session]) -> None:
        self.arch = arch
        self.sarif = sarif
        self.version = version
        self.sessions = sessions
        self.counts: list[tuple[str, int, float]] = []
        #: the kernels with findings
        self.found: Document = document([], version)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        before = [len(session.errors) for session in self.sessions]
        result = yield
        errors = [x for session, n in zip(self.sessions, before, strict=True) for x in session.errors[n:]]
        if errors:
            pytest.fail("\n\n".join(map(str, errors)), pytrace=False)
        return result

    pytest_runtest_setup = pytest_runtest_teardown = pytest_runtest_call

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        """Count the launches of a test, and forget those without findings."""
        result = yield
        launches = [launch for session in self.sessions for launch in session.forget()]
        self.counts.extend(launch.counts for launch in launches)
        if self.sarif is not None:
            results = results_of([launch for launch in launches if launch.findings])
            self.found["kernels"].extend(document(results, self.version)["kernels"])
        return result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """In a worker of pytest-xdist, send the launches and findings."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[_KEY] = (self.counts, self.found["kernels"])

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Add what a worker of pytest-xdist sends."""
        counts, kernels = getattr(node, "workeroutput", {}).get(_KEY, ([], []))
        self.counts.extend(counts)
        self.found["kernels"].extend(kernels)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.write_line(summary(self.arch, self.counts))
        if self.sarif is not None:
            self.found["verdict"] = combined([kernel["verdict"] for kernel in self.found["kernels"]] or ["clean"])
            self.sarif.parent.mkdir(parents=True, exist_ok=True)
            self.sarif.write_text(as_sarif(self.found), encoding="utf-8")
            terminalreporter.write_line(f"findings are in {self.sarif}")
