"""The collector is off while a function of this kind runs, and is as it was when the last has returned."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

import tilejit.gc_pause
from tilejit.gc_pause import gc_paused, gc_paused_until

FILE = tilejit.gc_pause.__file__


@pytest.fixture(params=[True, False], ids=["on", "off"])
def before(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether the collector was on."""
    was = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if was else gc.disable)()


def test_it_is_off_inside_and_as_it_was_outside(before: bool) -> None:
    seen: list[bool] = []

    @gc_paused_until(lambda: seen.append(gc.isenabled()))
    def nested(depth: int) -> int:
        assert not gc.isenabled() and seen == [False]
        return nested(depth - 1) + 1 if depth else 0

    assert nested(2) == 2
    assert gc.isenabled() == before and seen == [False, False]


def test_it_is_as_it_was_after_an_error(before: bool) -> None:
    def fail() -> None:
        raise ValueError

    with pytest.raises(ValueError):
        gc_paused_until(fail)(lambda: None)()
    assert gc.isenabled() == before
    with pytest.raises(ValueError):
        gc_paused(fail)()
    assert gc.isenabled() == before


def test_it_is_turned_on_when_the_last_thread_returns(before: bool) -> None:
    inside, leave, seen = threading.Event(), threading.Event(), list[str]()
    of_kind = gc_paused_until(lambda: seen.append("cleared"))

    @of_kind
    def stay() -> None:
        inside.set()
        leave.wait(10)

    other = threading.Thread(target=stay)

    @of_kind
    def start() -> None:
        other.start()
        inside.wait(10)

    start()
    assert not gc.isenabled() and seen == ["cleared"]
    leave.set()
    other.join()
    assert gc.isenabled() == before and seen == ["cleared", "cleared"]


def test_it_stays_off_for_functions_of_other_kinds(before: bool) -> None:
    seen: list[str] = []
    compiles = gc_paused_until(lambda: seen.append("compiled"))(lambda: None)

    @gc_paused_until(lambda: seen.append("imported"))
    def imports() -> None:
        compiles()
        assert not gc.isenabled() and seen == ["imported", "compiled", "compiled"]

    imports()
    assert gc.isenabled() == before and seen == ["imported", "compiled", "compiled", "imported"]


def test_a_finalizer_may_call_one(before: bool) -> None:
    entered: list[bool] = []

    @gc_paused_until(gc.collect)
    def compiles() -> None:
        entered.append(gc.isenabled())

    class Compiles:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            compiles()

    # in another thread, because one that waits for itself would never end
    thread = threading.Thread(target=gc_paused_until(gc.collect)(lambda: Compiles() and None), daemon=True)
    thread.start()
    thread.join(10)
    assert entered == [False] and gc.isenabled() == before


class Interrupts:
    """Raises KeyboardInterrupt at the nth place where the interpreter looks for signals, while a function runs.

    These are the first instruction of a Python function, and the return from one.
    """

    def __init__(self, number: int) -> None:
        self.left = number

    def trace(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        is_here = frame.f_code.co_filename in (FILE, __file__)
        is_wrapper = frame.f_code.co_name in ("call", "run")
        # the wrapper's own return is the caller's, and an exception that is raised there was raised before
        if is_here and event in ("call", "return") and not is_wrapper:
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self.trace

    def run(self, function: Callable[[], object]) -> bool:
        """True if an interrupt arrived."""
        sys.settrace(self.trace)
        try:
            function()
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(None)
        return False


def test_an_interrupt_anywhere_leaves_it_as_it_was(before: bool) -> None:
    def work() -> None:
        return None

    @gc_paused_until(work)
    def compiles() -> None:
        work()
        gc_paused(work)()

    arrived = []
    for number in range(1, 100):
        arrived.append(Interrupts(number).run(compiles))
        assert gc.isenabled() == before and not tilejit.gc_pause._inside, f"interrupt {number}"
        if not arrived[-1]:
            break
    assert arrived.count(True) > 8 and not arrived[-1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_has_it_on_though_another_thread_had_turned_it_off(before: bool) -> None:
    inside, leave = threading.Event(), threading.Event()

    @gc_paused
    def stay() -> None:
        inside.set()
        leave.wait(10)

    other = threading.Thread(target=stay)
    other.start()
    assert inside.wait(10)
    child = os.fork()
    if not child:
        os._exit(int(gc.isenabled()))
    _, status = os.waitpid(child, 0)
    leave.set()
    other.join()
    assert os.waitstatus_to_exitcode(status) == before


def test_importing_the_package_rarely_makes_it_run() -> None:
    # 40 times without
    program = """
import gc, os
os.environ.update(TILEJIT_DEVICE="sim", TILEJIT_CACHE="0")
collected = []
gc.callbacks.append(lambda phase, info: collected.append(phase) if phase == "start" else None)
import numpy as np, tilejit as tj
collected.clear()
tj.kernel, tj.device()
assert len(collected) < 5, len(collected)
assert gc.isenabled()
"""
    subprocess.run([sys.executable, "-c", program], check=True)
