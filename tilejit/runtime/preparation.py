"""Background work that is started before its result is needed."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress


class Preparation:
    """Runs `work` once in a thread.

    It is an optimization only: a caller that needs the result waits, and then repeats the work, which is quick if the
    thread succeeded and fails again if it failed. So errors are reported where the result is needed, and a thread that
    couldn't be started (as at interpreter exit), or that exists only in the parent of a fork, does no harm.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        # not a daemon: Python waits for it at exit, because the driver must not be unloaded during a call
        self._thread = threading.Thread(target=self._run, name="tilejit-preparation", daemon=False)
        with suppress(RuntimeError):
            self._thread.start()

    def _run(self) -> None:
        # the caller that needs the result repeats the work, and so gets the error
        with suppress(Exception):
            self._work()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def wait(self) -> None:
        """Wait until the work has ended; return at once if its thread couldn't be started."""
        if self._thread.ident is not None:
            self._thread.join()


def import_during(preparation: Preparation, modules: Sequence[str]) -> None:
    """Import the modules in order, until the preparation has ended."""
    for module in modules:
        if not preparation.is_running:
            return
        importlib.import_module(module)
