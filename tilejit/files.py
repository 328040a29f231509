"""Files that are written whole, or not at all."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

__all__ = ["write_whole"]

_WRITING = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def write_whole(path: str | Path, content: bytes) -> None:
    """Write a file beside its place and rename it: whatever goes wrong, what was there before is still there.

    A link is followed, and what is no ordinary file, such as a pipe, is written as it is.
    raises: OSError where it can't be written.
    """
    place = os.path.realpath(path)
    mode = os.stat(place).st_mode if os.path.exists(place) else None
    if mode is not None and not stat.S_ISREG(mode):
        Path(path).write_bytes(content)
        return
    if mode is not None and not os.access(place, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    beside = os.path.join(os.path.dirname(place), f".tilejit-{os.getpid()}-{os.urandom(4).hex()}.tmp")
    try:
        with os.fdopen(os.open(beside, _WRITING, 0o666), "wb") as file:
            file.write(content)
        if mode is not None:
            os.chmod(beside, stat.S_IMODE(mode))
        os.replace(beside, place)
    except BaseException:
        # an interrupt, too, leaves no part of a file
        with suppress(OSError):
            os.unlink(beside)
        raise
