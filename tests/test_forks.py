"""What a forked child gets of locks that threads of its parent held, and properties without a lock."""

from __future__ import annotations

import ast
import os
import threading
from collections.abc import Callable

import pytest

from tests.test_imports import FILES, PACKAGE
from tilejit import forks

#: which have a way of their own: `Once` asks whether another process was making a value, and the last is `importing`
_OTHERS = {"runtime/once.py": 1, "forks.py": 1}

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def in_child(question: Callable[[], bool]) -> bool:
    """Ask in a forked child, while another thread does what it does."""
    child = os.fork()
    if not child:
        os._exit(int(question()))
    return bool(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


@pytest.mark.integration
def test_every_lock_of_the_package_is_renewed() -> None:
    left: dict[str, int] = {}
    for path in FILES:
        calls = [n for n in ast.walk(ast.parse((PACKAGE / path).read_text("utf-8"))) if isinstance(n, ast.Call)]
        made = [ast.unparse(call) for call in calls]
        locks = sum(text in ("threading.Lock()", "threading.RLock()") for text in made)
        renewed = sum(text.startswith("renewed_at_fork(threading.") for text in made)
        if locks != renewed:
            left[path.as_posix()] = locks - renewed
    assert left == _OTHERS


class Holder:
    """A thread that holds a lock until it is released, or for some seconds."""

    def __init__(self, lock: threading.Lock, seconds: float = 30) -> None:
        held, self.leave = threading.Event(), threading.Event()

        def hold() -> None:
            with lock:
                held.set()
                self.leave.wait(seconds)

        self.thread = threading.Thread(target=hold)
        self.thread.start()
        assert held.wait(10)

    def end(self) -> None:
        self.leave.set()
        self.thread.join()


@pytest.mark.parametrize("make", [threading.Lock, threading.RLock])
def test_a_renewed_lock_is_free_in_a_child_and_still_held_in_the_parent(make: Callable[[], threading.Lock]) -> None:
    lock = forks.renewed_at_fork(make())
    holder = Holder(lock)
    assert in_child(lambda: lock.acquire(timeout=1))
    assert not lock.acquire(blocking=False)
    holder.end()
    assert lock.acquire(timeout=1)


@pytest.fixture
def awaited(monkeypatch: pytest.MonkeyPatch) -> threading.Lock:
    lock = threading.RLock()
    monkeypatch.setattr(forks, "_awaited", [*forks._awaited, lock])
    return lock  # type: ignore[return-value]


def test_a_fork_waits_for_an_awaited_lock(awaited: threading.Lock) -> None:
    holder = Holder(awaited, 0.2)
    assert in_child(lambda: awaited.acquire(timeout=1) and not holder.leave.is_set())
    assert not awaited._is_owned() and not forks._taken  # type: ignore[attr-defined]
    holder.end()


def test_a_fork_does_not_wait_for_ever(awaited: threading.Lock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "_PATIENCE", 0.05)
    holder = Holder(awaited)
    assert in_child(lambda: awaited.acquire(timeout=1))
    holder.end()
    assert awaited.acquire(timeout=1)
    awaited.release()


def test_a_thread_that_holds_an_awaited_lock_may_fork(awaited: threading.Lock) -> None:
    with awaited:
        assert in_child(lambda: awaited._is_owned())  # type: ignore[attr-defined]
    assert not awaited._is_owned()  # type: ignore[attr-defined]


def test_a_property_is_computed_once_without_a_lock() -> None:
    computed: list[threading.Thread] = []
    both = threading.Barrier(2, timeout=10)

    class Owner:
        @forks.cached_property
        def value(self) -> int:
            """Its text."""
            # two objects at the same time
            both.wait()
            computed.append(threading.current_thread())
            return 7

    owners = Owner(), Owner()
    other = threading.Thread(target=lambda: owners[0].value)
    other.start()
    assert owners[1].value == 7 and owners[1].value == 7
    other.join()
    assert len(computed) == 2 and Owner.value.__doc__ == "Its text."
