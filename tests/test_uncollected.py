"""The collector waits while anything is inside, and is as it was when the last has left."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from tilejit.uncollected import Uncollected


@pytest.fixture(params=[True, False], ids=["on", "off"])
def before(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether the collector was on."""
    was = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if was else gc.disable)()


def test_it_waits_inside_and_is_as_it_was_outside(before: bool) -> None:
    seen: list[bool] = []
    stretch = Uncollected(lambda: seen.append(gc.isenabled()))
    with stretch:
        with stretch:
            assert not gc.isenabled()
        assert not gc.isenabled() and not seen
    assert gc.isenabled() == before and seen == [False]


def test_it_is_as_it_was_behind_an_error(before: bool) -> None:
    def fail() -> None:
        raise ValueError

    with pytest.raises(ValueError), Uncollected(fail):
        pass
    assert gc.isenabled() == before


def test_it_goes_on_when_the_last_thread_leaves(before: bool) -> None:
    stretch, inside, leave = Uncollected(), threading.Event(), threading.Event()

    def stay() -> None:
        with stretch:
            inside.set()
            leave.wait(10)

    other = threading.Thread(target=stay)
    with stretch:
        other.start()
        inside.wait(10)
    assert not gc.isenabled()
    leave.set()
    other.join()
    assert gc.isenabled() == before


def test_it_waits_for_stretches_of_other_kinds(before: bool) -> None:
    seen: list[str] = []
    imports, compiles = Uncollected(lambda: seen.append("imported")), Uncollected(lambda: seen.append("compiled"))
    with imports:
        with compiles:
            pass
        assert not gc.isenabled() and seen == ["compiled"]
    assert gc.isenabled() == before and seen == ["compiled", "imported"]


def test_what_is_collected_may_enter_it_meanwhile(before: bool) -> None:
    entered: list[bool] = []
    stretch = Uncollected(gc.collect)

    class Compiles:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            with stretch:
                entered.append(gc.isenabled())

    def leave() -> None:
        with stretch:
            Compiles()

    # in another thread, because one that waits for itself would never end
    thread = threading.Thread(target=leave, daemon=True)
    thread.start()
    thread.join(10)
    assert entered == [False] and gc.isenabled() == before


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
