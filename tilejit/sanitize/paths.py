"""Paths of source files: those that a compiler recorded, as paths on this machine."""

from __future__ import annotations

import os
import re
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
        if not os.path.exists(recorded):
            return _moved(recorded, (os.path.dirname(self.file) or ".", "."))
        if os.path.exists(self.file) and os.path.samefile(recorded, self.file):
            return self.file
        path = Path(os.path.normpath(recorded))
        return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else recorded

    def in_text(self, text: str) -> str:
        """Return a message with the paths of its locations replaced."""
        return _LOCATION.sub(lambda match: match[1] + self.shown(match[2]) + match[3], text)


def _moved(recorded: str, folders: tuple[str, ...]) -> str:
    pure = PureWindowsPath(recorded) if "\\" in recorded else PurePosixPath(recorded)
    parts = [part for part in pure.parts if part not in (pure.anchor, "..", ".")]
    ends = (os.path.join(folder, *parts[first:]) for first in range(len(parts)) for folder in folders)
    return next((os.path.normpath(end) for end in ends if os.path.isfile(end)), recorded)


def line_text(path: str, number: int) -> str:
    """Return a line of a file without surrounding spaces, or "" if it can't be read."""
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except (OSError, ValueError):
        return ""
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""
