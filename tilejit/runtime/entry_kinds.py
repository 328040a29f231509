"""The kinds of what is kept on disk."""

from __future__ import annotations

from enum import Enum

__all__ = ["EntryKind"]


class EntryKind(Enum):
    """One kind of entries, with what they hold."""

    PROGRAM = "what a launch needs of a kernel: its PTX and how its parameters are packed"
    DECISIONS = "what explain tells of a kernel"
    WRITTEN = "which arguments a kernel writes, where arrays overlap"
    TUNING = "how long a kernel takes in each configuration"
    SOURCE = "a digest of this package's own files, by their sizes and times"

    @property
    def label(self) -> str:
        """What keys begin with, and entries' names end in."""
        return self.name.lower()

    def key(self, of: str) -> str:
        """The key of one of them."""
        return f"{self.label}:{of}"
