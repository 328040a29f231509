"""The kinds of entries in the on-disk cache."""

from __future__ import annotations

from enum import Enum


class EntryKind(Enum):
    """A kind of cache entry. Its value describes the contents."""

    PROGRAM = "a compiled kernel: its PTX, and everything else that a launch needs"
    DECISIONS = "the decisions of the compiler that explain shows"
    WRITTEN = "the arguments that a kernel writes, for launches with overlapping arrays"
    TUNING = "the time that a kernel takes in each configuration"
    SOURCE = "a digest of this package's own files, by their sizes and times"

    @property
    def label(self) -> str:
        """The prefix of keys and the suffix of entries' names."""
        return self.name.lower()

    def key(self, of: str) -> str:
        return f"{self.label}:{of}"
