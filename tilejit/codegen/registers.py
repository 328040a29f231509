"""A thread's registers that may change: the words of its local buffers, and its variables.

The writer remembers the value that each word was last given, and writes no instruction for it; where ways meet it
writes a phi.
"""

from __future__ import annotations

from typing import NamedTuple

from ..dataclass import dataclass, field

#: what a word holds: an LLVM type, a value of it, the source location of what wrote it
Held = tuple[str, str, str]

#: what a word holds to which nothing was written
UNWRITTEN: Held = "", "", ""


@dataclass(slots=True, eq=False)
class Word:
    """One register.

    kind: its LLVM type where ways meet on which it was given values of several.
    zeroed: it starts as zero. Elements that share a word need that where they are written one by one: without it, in a
    loop that writes one of them, LLVM computes with a register that nothing wrote to carry the others along.
    """

    kind: str
    zeroed: bool = False

    @property
    def first(self) -> str:
        """What it starts as, of any type."""
        return "zeroinitializer" if self.zeroed else "undef"


@dataclass(slots=True, eq=False)
class Registers:
    """A local buffer's words in a thread: `number` of `bits` bits, with LLVM type `kind`."""

    number: int
    bits: int
    kind: str
    words: list[Word] = field(default_factory=list)

    def __post_init__(self) -> None:
        for _ in range(self.number):
            self.words.append(Word(self.kind))


class WordRun(NamedTuple):
    """The registers of a vector, one for each of the words of type `kind`, of `bits` bits, as which it travels."""

    words: list[Word]
    kind: str
    bits: int
