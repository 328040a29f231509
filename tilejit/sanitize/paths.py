"""Paths of source files: those that a compiler recorded, as paths on this machine."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path, PurePosixPath, PureWindowsPath

_LOCATION = re.compile(r"^(\s+(?:called )?from )(.+)(:\d+)$", re.MULTILINE)


class SourcePaths:
    """The source files of one checked file. file: its path, as the user wrote it; "" if there is none."""

    def __init__(self, file: str) -> None:
        self.file = file

    def shown(self, recorded: str) -> str:
        """Return a recorded path as the user would write it.

        If it doesn't exist here, its longest end that exists in the checked file's folder or in the working directory
        replaces it.
        """
        return _shown(recorded, self.file, os.getcwd())

    def in_text(self, text: str) -> str:
        """Return a message with the paths of its locations replaced."""
        return _LOCATION.sub(lambda match: match[1] + self.shown(match[2]) + match[3], text)


@lru_cache(maxsize=256)
def _shown(recorded: str, file: str, working: str) -> str:
    if file and _same(recorded, file):
        return file
    if not os.path.exists(recorded):
        found = _moved(recorded, (os.path.dirname(file) or ".", "."))
        return recorded if found is None else found
    is_near = os.path.isabs(recorded) and _shares(recorded, working)
    relative = os.path.relpath(recorded, working) if is_near else recorded
    return recorded if relative.startswith(os.pardir) else relative


def _same(first: str, second: str) -> bool:
    try:
        return os.path.samefile(first, second)
    except (OSError, ValueError):
        return False


def _shares(path: str, other: str) -> bool:
    """True unless the paths are on different drives."""
    return os.path.splitdrive(path)[0].lower() == os.path.splitdrive(other)[0].lower()


def _moved(recorded: str, folders: tuple[str, ...]) -> str | None:
    pure = PureWindowsPath(recorded) if "\\" in recorded else PurePosixPath(recorded)
    parts = [part for part in pure.parts if part not in (pure.anchor, "..", ".")]
    for first in range(len(parts)):
        for folder in folders:
            path = os.path.normpath(os.path.join(folder, *parts[first:]))
            if os.path.isfile(path):
                return path
    return None


@lru_cache(maxsize=64)
def _lines(path: str, _modified: int) -> tuple[str, ...]:
    try:
        return tuple(Path(path).read_text(encoding="utf-8", errors="replace").splitlines())
    except OSError:
        return ()


def line_text(path: str, number: int) -> str:
    """Return a line of a file without surrounding spaces, or "" if it can't be read."""
    try:
        modified = os.stat(path).st_mtime_ns
    except (OSError, ValueError):
        return ""
    lines = _lines(path, modified)
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""
