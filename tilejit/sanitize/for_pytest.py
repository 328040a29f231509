"""Tests of Triton's kernels on the simulator: the part of the pytest plugin that `--gpu-sim` loads."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import ExitStack
from typing import Any

import pytest

from ..errors import LaunchError
from . import triton
from .session import Counts, Session

#: set in the workers of pytest-xdist
_WORKER = "PYTEST_XDIST_WORKER"
#: the name of the plugin, and of what workers send
_KEY = "tilejit-gpu-sim"


def begin(config: pytest.Config) -> None:
    """Simulate until pytest ends, except in the process that only distributes tests to others."""
    options = config.known_args_namespace
    if _WORKER not in os.environ and (getattr(options, "numprocesses", None) or getattr(options, "tx", None)):
        config.pluginmanager.register(Summary(options.gpu_sim), _KEY)
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
    config.pluginmanager.register(Simulation(options.gpu_sim, session), _KEY)


class Summary:
    """The line that shows the launches of all processes that run tests."""

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self.counts = Counts()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Add the counts of a worker of pytest-xdist."""
        counts = getattr(node, "workeroutput", {}).get(_KEY)
        if counts is not None:
            self.counts.add(*counts)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.write_line(self.counts.line(self.arch))


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
        self.counts.add_launches(self.session.forget())
        return result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            counts = self.counts
            output[_KEY] = (sorted(counts.kernels), counts.launches, counts.findings, counts.seconds)

    def fail_for_errors(self) -> None:
        errors = self.session.errors
        if errors:
            pytest.fail("\n\n".join(map(str, errors)), pytrace=False)
