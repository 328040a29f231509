"""The attack on the cache counts only the processes that it killed, and its forgeries would be believed."""

from __future__ import annotations

import faulthandler
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tilejit.runtime.store import DiskStore

if not hasattr(os, "fork"):
    pytest.skip("processes are forked", allow_module_level=True)

from tests.runtime import attack  # noqa: E402

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")]


def crash(number: int) -> None:
    # pytest's handler would write where
    faulthandler.disable()
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(
    ("last", "reported"),
    [
        (lambda: crash(signal.SIGSEGV), "ended on its own: -11"),
        (lambda: crash(signal.SIGABRT), "ended on its own: -6"),
        (lambda: os._exit(0), "ended on its own: 0"),
        (lambda: 1 // 0, "ZeroDivisionError"),
        (signal.pause, None),
    ],
    ids=["a crash", "an abort", "an exit", "an exception", "killed"],
)
def test_a_process_that_ends_on_its_own_is_a_failure(
    last: Callable[[], object], reported: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attack, "work", lambda rng: last())
    failures = tmp_path / "failures"
    failures.mkdir()
    killed = attack.attack(tmp_path / "kept", 0.3, 2, False, failures)
    failed = [path.read_text() for path in failures.iterdir()]
    # one may be killed while it writes why it ended
    assert killed > 0 if reported is None else any(reported in text for text in failed)
    assert bool(failed) == (reported is not None)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody")
def test_forgeries_are_recognized_only_by_their_owner(tmp_path: Path) -> None:
    store, rng = DiskStore(tmp_path / "kept"), attack.random.Random(1)
    payloads = {f"program:{n}": b"payload %d" % n for n in range(2)}
    for key, payload in payloads.items():
        store.put(key, payload)
    attack.forge(rng, store.folder)
    ((name, problem, is_removed),) = store.verify()
    assert (problem, is_removed) == ("belongs to another user", False)
    # once it is root's, it is sound, and another kernel's
    os.chown(store.folder / name, 0, 0)
    assert not store.verify()
    assert [store.get(key) == payload for key, payload in payloads.items()].count(False) == 1
