"""Atomic replacement of files."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

_WRITING = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def write_whole(path: str | Path, content: bytes) -> None:
    """Write a file atomically: write a temporary file in the same folder, then rename it.

    After an error the previous content remains. Symbolic links are followed. An existing path that is not a regular
    file, such as a pipe, is written directly.

    raises: OSError if the file can't be written.
    """
    place = os.path.realpath(path)
    mode = os.stat(place).st_mode if os.path.exists(place) else None
    if mode is not None and not stat.S_ISREG(mode):
        Path(path).write_bytes(content)
        return
    if mode is not None and not os.access(place, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    beside = os.path.join(os.path.dirname(place), f".tilejit-{os.getpid()}-{os.urandom(4).hex()}.tmp")
    write_and_rename(beside, place, content, 0o666, None if mode is None else stat.S_IMODE(mode))


def write_and_rename(
    temporary: str | Path, place: str | Path, content: bytes, created: int, mode: int | None = None
) -> None:
    """Write a new file and rename it; remove it after an error.

    created: its permissions before the umask is applied. mode: its permissions, if not None.
    """
    try:
        with os.fdopen(os.open(temporary, _WRITING, created), "wb") as file:
            file.write(content)
        if mode is not None:
            os.chmod(temporary, mode)
        os.replace(temporary, place)
    except BaseException:
        # BaseException, to remove the temporary file on an interrupt, too
        with suppress(OSError):
            os.unlink(temporary)
        raise
