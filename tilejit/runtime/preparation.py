"""Work that is done beside something else, ahead of who needs it."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Sequence

__all__ = ["Preparation", "import_during"]


class Preparation:
    """Runs `work` in a thread of its own, once.

    It only makes ready: who needs the result waits, and then does the work itself, which is quick where it succeeded
    and raises there where it didn't. So errors come from where the result is needed, and nothing depends on a thread
    that couldn't be started (the interpreter is ending) or that a fork has left behind in the parent.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        # Python waits for it at its exit: the driver must not be torn down under a call
        self._thread = threading.Thread(target=self._run, name="tilejit-preparation", daemon=False)
        try:
            self._thread.start()
        except RuntimeError:
            self._work = _nothing

    def _run(self) -> None:
        try:
            self._work()
        except Exception:
            # the work may be anything; who needs it meets the same error
            return

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def wait(self) -> None:
        """Returns when the work is done, or can't be."""
        if self._thread.ident is not None:
            self._thread.join()


def _nothing() -> None:
    """What is left to do where no thread can be started."""


def import_during(preparation: Preparation, modules: Sequence[str]) -> None:
    """Imports modules, one after the other, for as long as something else is being prepared."""
    for module in modules:
        if not preparation.is_running:
            return
        importlib.import_module(module)
