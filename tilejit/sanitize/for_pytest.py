"""Tests of Triton's kernels on the simulator: the part of the pytest plugin that `--gpu-sim` loads."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import ExitStack
from typing import Any

import pytest

from ..errors import LaunchError
from . import triton
from .session import Session

#: set in the workers of pytest-xdist
_WORKER = "PYTEST_XDIST_WORKER"


def begin(config: pytest.Config) -> None:
    """Simulate until pytest ends, except in the process that only distributes tests to others."""
    options = config.known_args_namespace
    if _WORKER not in os.environ and (getattr(options, "numprocesses", None) or getattr(options, "tx", None)):
        config.pluginmanager.register(Summary(options.gpu_sim), "tilejit-gpu-sim")
        return
    stack = ExitStack()
    try:
        session = stack.enter_context(
            triton(
                options.gpu_sim, checks="strict" if options.gpu_sim_checks == "strict" else True,
                schedules=options.gpu_sim_schedules, autotune=options.gpu_sim_autotune,
            )
        )
    except LaunchError as error:
        raise pytest.UsageError(f"--gpu-sim={options.gpu_sim}: {error}") from None
    config.add_cleanup(stack.close)
    config.pluginmanager.register(Simulation(options.gpu_sim, session), "tilejit-gpu-sim")


class Summary:
    """Counts of launches, those of all processes that run tests, and the line that shows them."""

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self.kernels: set[str] = set()
        self.launches = 0
        self.findings = 0
        self.seconds = 0.0

    def add(self, kernels: Any, launches: int, findings: int, seconds: float) -> None:
        self.kernels.update(kernels)
        self.launches += launches
        self.findings += findings
        self.seconds += seconds

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Add the counts of a worker of pytest-xdist."""
        counts = getattr(node, "workeroutput", {}).get("tilejit-gpu-sim")
        if counts is not None:
            self.add(*counts)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.write_line(
            f"simulated {self.arch}: {_count(len(self.kernels), 'kernel')}, {_count(self.launches, 'launch', 'es')}, "
            f"{_count(self.findings, 'finding')}, {self.seconds:.1f} s"
        )


class Simulation(Summary):
    """Simulation in this process: a finding that is an error fails the test, even if the test catches the exception."""

    def __init__(self, arch: str, session: Session) -> None:
        super().__init__(arch)
        self.session = session

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
        """Count the launches of a test, and forget them."""
        result = yield
        launches = self.session.forget()
        self.add(
            {x.kernel for x in launches}, len(launches), sum(len(x.findings) for x in launches),
            sum(x.seconds for x in launches),
        )
        return result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["tilejit-gpu-sim"] = (sorted(self.kernels), self.launches, self.findings, self.seconds)

    def fail_for_errors(self) -> None:
        errors = self.session.errors
        if errors:
            pytest.fail("\n\n".join(map(str, errors)), pytrace=False)


def _count(number: int, noun: str, plural: str = "s") -> str:
    return f"{number} {noun}{plural if number != 1 else ''}"
