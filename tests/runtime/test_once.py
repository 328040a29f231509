"""Values that are made once: by one of several threads, whatever becomes of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tilejit.runtime import once
from tilejit.runtime.once import Once


class Threads:
    """Threads that call functions; what each returned or raised, in the order in which they were started."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.results: list[Any] = []

    def start(self, function: Callable[[], Any]) -> None:
        number = len(self.results)
        self.results.append(None)

        def run() -> None:
            try:
                self.results[number] = function()
            except BaseException as error:
                self.results[number] = error

        self.threads.append(threading.Thread(target=run))
        self.threads[-1].start()

    def join(self) -> list[Any]:
        for thread in self.threads:
            thread.join(10)
            assert not thread.is_alive(), "a thread waits for ever"
        return self.results


class Slow:
    """A slow computation of a value, which waits for `go`. began: set once it runs. calls: how often it was called."""

    def __init__(self, value: object) -> None:
        self.value = value
        self.began, self.go = threading.Event(), threading.Event()
        self.calls = 0

    def __call__(self) -> object:
        self.calls += 1
        self.began.set()
        assert self.go.wait(10)
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value


def test_threads_that_ask_at_the_same_time_get_one_value() -> None:
    values, slow, threads = Once[str, object](), Slow("made"), Threads()
    for _ in range(8):
        threads.start(lambda: values.get("key", slow))
    assert slow.began.wait(10)
    slow.go.set()
    assert threads.join() == ["made"] * 8
    assert slow.calls == 1
    assert values.peek("key") == "made" and values.keys == ("key",) and values.values == ("made",)


def test_values_of_other_keys_are_made_meanwhile() -> None:
    values, slow, threads = Once[str, object](), Slow("late"), Threads()
    threads.start(lambda: values.get("a", slow))
    assert slow.began.wait(10)
    assert values.get("b", lambda: "early") == "early"
    assert values.peek("a") is None
    slow.go.set()
    assert threads.join() == ["late"]


def test_what_goes_wrong_is_raised_in_all_that_wait_and_tried_again_later() -> None:
    values, slow, threads = Once[str, object](), Slow(ValueError("no")), Threads()
    for _ in range(4):
        threads.start(lambda: values.get("key", slow))
    assert slow.began.wait(10)
    time.sleep(0.05)
    slow.go.set()
    assert [str(e) for e in threads.join()] == ["no"] * 4
    assert slow.calls < 4
    assert values.get("key", lambda: "yes") == "yes"


@pytest.mark.parametrize("interruption", [KeyboardInterrupt(), SystemExit()])
def test_an_interrupted_thread_leaves_the_value_to_one_that_waits(interruption: BaseException) -> None:
    values, slow, threads = Once[str, object](), Slow(interruption), Threads()
    threads.start(lambda: values.get("key", slow))
    assert slow.began.wait(10)
    makers: list[str] = []
    for name in "abc":
        threads.start(lambda name=name: values.get("key", lambda: makers.append(name) or "made"))
    time.sleep(0.05)
    slow.go.set()
    assert threads.join() == [interruption, "made", "made", "made"]
    assert len(makers) == 1


def test_a_thread_that_was_interrupted_as_it_left_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    values, threads = Once[str, object](), Threads()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Once, "_forget", interrupted)
        patched.setattr(Once, "_make", interrupted)
        values.get("key", lambda: "never")
    assert "key" in values._running
    threads.start(lambda: values.get("key", lambda: "made"))
    assert threads.join() == ["made"]
    assert not values._running and values.get("key", lambda: "again") == "made"


def test_what_only_one_thread_may_not_do_the_others_do() -> None:
    values, slow, threads = Once[str, object](), Slow(LookupError("not me")), Threads()
    threads.start(lambda: values.get("key", lambda: "never", allow=slow))
    assert slow.began.wait(10)
    threads.start(lambda: values.get("key", lambda: "made"))
    time.sleep(0.05)
    slow.go.set()
    refused, made = threads.join()
    assert isinstance(refused, LookupError) and made == "made"


def test_a_value_that_asks_for_itself_is_made_twice_and_not_waited_for() -> None:
    values = Once[str, str]()
    assert values.get("key", lambda: values.get("key", lambda: "inner") + " outer") == "inner outer"
    assert values.peek("key") == "inner outer"
    assert values.put("key", "other") == "inner outer"


def test_what_another_process_was_making_when_it_forked_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    values, slow, threads = Once[str, object](), Slow("of the parent"), Threads()
    threads.start(lambda: values.get("key", slow))
    assert slow.began.wait(10)
    monkeypatch.setattr(once.os, "getpid", lambda: -1)
    threads.start(lambda: values.get("key", lambda: "of the child"))
    threads.threads[1].join(10)
    assert threads.results[1] == "of the child" and values.peek("key") == "of the child"
    slow.go.set()
    assert threads.join() == ["of the child"] * 2
