"""The line that says how far long work has come: who sees it, whose it is, and that it is gone afterwards."""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

import tilejit as tj
from tilejit import progress
from tilejit.progress import Progress, report_step
from tilejit.simulator.run_grid import CHUNK_THREADS

CLEAR = "\r\x1b[2K"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is shown from the beginning, and drawn by no package."""
    monkeypatch.setattr(progress, "_DELAY", 0)
    monkeypatch.setattr(progress, "_PAUSE", 0.001)
    # an import that fails, as without the package
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("TILEJIT_PROGRESS", raising=False)


def until(condition: Callable[[], bool]) -> None:
    """Waits for another thread."""
    limit = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < limit, "it didn't happen"
        time.sleep(0.001)


def lines(terminal: Terminal) -> list[str]:
    """All states of the line, the last of them empty: it is erased."""
    before, *states = terminal.getvalue().split(CLEAR)
    assert before == "" and states[-1] == ""
    return states[:-1]


@pytest.mark.usefixtures("at_once")
def test_it_is_one_line_of_a_terminal_and_gone_afterwards() -> None:
    terminal, file = Terminal(), io.StringIO()
    with Progress("compiling", 3, terminal) as line:
        line.advance("a")
        until(lambda: "1/3, 0 s: a" in terminal.getvalue())
        line.advance("a name that is too long for the line", steps=2)
        until(lambda: "3/3" in terminal.getvalue())
    with Progress("compiling", 3, file):
        time.sleep(0.01)
    shown = lines(terminal)
    assert "compiling 1/3, 0 s: a" in shown
    assert shown[-1].startswith("compiling 3/3, 0 s: a name") and len(shown[-1]) == 39
    assert file.getvalue() == ""


def test_what_is_quick_shows_nothing_and_leaves_no_thread() -> None:
    terminal, before = Terminal(), threading.active_count()
    with Progress("compiling", 2, terminal) as line:
        assert threading.active_count() == before + 1
        line.advance()
    assert terminal.getvalue() == "" and threading.active_count() == before
    with Progress("compiling", 2, io.StringIO()):
        assert threading.active_count() == before


@pytest.mark.usefixtures("at_once")
def test_a_terminal_that_goes_away_ends_nothing() -> None:
    terminal = Terminal()
    with Progress("compiling", 2, terminal) as line:
        terminal.close()
        line.advance()
        time.sleep(0.01)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(("name", "value"), [("TILEJIT_PROGRESS", "0"), ("TERM", "dumb")])
def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    terminal = Terminal()
    with Progress("compiling", 2, terminal):
        time.sleep(0.01)
    assert terminal.getvalue() == ""


@pytest.mark.usefixtures("at_once")
def test_of_work_within_work_the_outermost_has_the_line() -> None:
    terminal = Terminal()
    report_step("of nothing")
    with Progress("tuning", 2, terminal) as outer:
        with Progress("compiling", 5, terminal) as inner:
            report_step("lower")
            assert (inner.done, inner.name, outer.done) == (1, "lower", 0)
            time.sleep(0.01)
        outer.advance("ROWS=4")
        until(lambda: "tuning 1/2, 0 s: ROWS=4" in terminal.getvalue())
    assert all(line.startswith("tuning ") for line in lines(terminal))


@pytest.mark.usefixtures("at_once")
def test_two_threads_share_a_terminal_one_after_the_other() -> None:
    terminal, goes_on = Terminal(), threading.Event()

    def second() -> None:
        with Progress("second", stream=terminal):
            goes_on.wait(30)

    with Progress("first", stream=terminal):
        until(lambda: "first" in terminal.getvalue())
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.02)
        assert "second" not in terminal.getvalue()
    until(lambda: "second, 0 s" in terminal.getvalue())
    goes_on.set()
    thread.join(30)
    assert lines(terminal)[-1].startswith("second")


@tj.kernel(threads=32)
def counts(A: tj.Tensor, n: tj.int32):
    i = tj.int32(0)
    while i < n:
        A[tj.cta_id() * 32 + tj.thread_id()] += 1
        i += 1


@pytest.mark.usefixtures("at_once")
def test_compilations_and_simulations_say_what_they_do(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TILEJIT_CACHE", "0")
    # four chunks
    part = CHUNK_THREADS // 32
    a = np.zeros(4 * part * 32, np.float32)
    tj.simulate(counts, 4 * part, a, 30, target="sm_90a")
    shown = lines(terminal)
    assert any(line.startswith("compiling counts 0/") for line in shown), shown
    assert any(line.endswith(": codegen") for line in shown), shown
    assert any(line.startswith(f"simulating counts {part}/{4 * part}") for line in shown), shown
    assert (a == 30).all()


def test_tqdm_draws_steps_that_can_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tqdm")
    monkeypatch.setattr(progress, "_DELAY", 0)
    monkeypatch.setattr(progress, "_PAUSE", 0.001)
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    with Progress("compiling", 3, terminal) as line:
        line.advance("lower")
        until(lambda: "1/3" in terminal.getvalue())
        assert "compiling" in terminal.getvalue() and "lower" in terminal.getvalue()
    written = terminal.getvalue()
    # tqdm erases the line by blanks
    assert "|" in written and written.endswith("\r"), written[-80:]
    with Progress("simulating", stream=terminal):
        until(lambda: "simulating, 0 s" in terminal.getvalue()[len(written):])
    assert terminal.getvalue()[len(written):].startswith(CLEAR)
