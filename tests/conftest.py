"""Fixtures and hooks of all tests: hypothesis profiles, tiers, golden files, PTX through ptxas."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import tilejit
from tests.support import tiers
from tests.support.goldens import Golden
from tests.support.ptxas import EmittedPtx, without_notes
from tilejit import pipeline
from tilejit.remember import forget
from tilejit.runtime.workers import processors

#: hypothesis's profiles by the examples of a property: "few" to see that tests run, "sample" for the default tier
PROFILES = {"few": 6, "sample": 10, "default": 30, "long": 2000}
for name, examples in PROFILES.items():
    settings.register_profile(
        name, max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
settings.load_profile("default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="rewrite golden files with what the tests made")
    tiers.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Choose the tier. Only this tree is tested: `pytest` alone would import the installed package for its plugin."""
    tiers.configure(config)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("sample" if tiers.is_default(config) else "default"))
    if not Path(tilejit.__file__).is_relative_to(config.rootpath):
        raise pytest.UsageError(f"these tests would test {Path(tilejit.__file__).parent}: write python -m pytest")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """For `-n auto`: each process collects all tests, so more of them than cores only cost."""
    return processors()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected stays to the end: the garbage collector needn't look through it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the tier, of those that `-k` and `-m` leave."""
    tiers.select(config, items)


def pytest_report_header(config: pytest.Config) -> str:
    return tiers.header(config)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send what a worker left out to the process that started it."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash[tiers.LEFT_OUT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a worker left out: each has collected the same tests."""
    node.config.stash[tiers.LEFT_OUT].update(getattr(node, "workeroutput", {}).get("left_out", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    said = tiers.summary(config.stash[tiers.LEFT_OUT])
    if said:
        terminalreporter.write_line(said)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the command that repeats it to the report of a failure."""
    report = yield
    if report.failed:
        report.sections.append(("repeat this test", tiers.command(item)))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """On a GPU a test fails where the driver's compiler says that a kernel is slower than it might be."""
    if item.get_closest_marker("gpu") is None:
        return (yield)
    with without_notes():
        return (yield)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares text with a file under tests/golden, or rewrites the file under --bless.

    Nothing is remembered of kernels before, as where a compilation begins: a table of expressions that got full in the
    midst of one would make two objects of equal ones, which `hoist` keeps apart.
    """
    forget()
    return Golden(bless=request.config.getoption("--bless"))


@pytest.fixture(scope="session", autouse=True)
def verify_each() -> Iterator[None]:
    """In tests, the result of each pass is verified, not only at checkpoints."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "VERIFY_EACH", True)
        yield


@pytest.fixture(scope="session", autouse=True)
def emitted_ptx(request: pytest.FixtureRequest) -> Iterator[EmittedPtx]:
    """The PTX that tests compile, for ptxas: what it refuses fails the session, by the name of the test.

    Each form of line, and with `-m "long or not long"` each program.
    """
    collected = EmittedPtx()
    with collected.recording():
        yield collected
    collected.check(each="long" in request.config.option.markexpr)
