"""A thread's registers that may change: the words of its local buffers, and its variables.

The writer remembers the value that each word was last given, and writes no instruction for it; where ways meet it
writes a phi.

Accumulators are no values: their words are registers of PTX, which the instructions that add to them name, and others
move from and to them. LLVM has no phis for them, nor operands of these instructions: with these, 128 for a product of
64 x 256, it took half as much time again.
"""

from __future__ import annotations

from typing import NamedTuple

from ..dataclass import dataclass, field

#: what a word holds: an LLVM type, a value of it, the source location of what wrote it
Held = tuple[str, str, str]

#: what a word holds to which nothing was written
UNWRITTEN: Held = "", "", ""


#: what parts instructions in inline assembly, so that each has a line of PTX
NEXT_LINE = r"\0A\09"


class _Named(NamedTuple):
    """What a word of some LLVM type is where PTX names it: its type, and its letter in inline assembly."""

    ptx: str
    constraint: str


_NAMED = {"float": _Named("f32", "f"), "i32": _Named("b32", "r")}

#: how LLVM writes zero, of these types
ZEROS = frozenset({"0x0000000000000000", "0"})


@dataclass(slots=True, eq=False)
class Word:
    """One register.

    kind: its LLVM type: of a value where ways meet on which it was given values of several.
    zeroed: it starts as zero. Elements that share a word need that where they are written one by one: without it, in a
    loop that writes one of them, LLVM computes with a register that nothing wrote to carry the others along.
    name: PTX's, of a register that instructions name; "" of values.
    """

    kind: str
    zeroed: bool = False
    name: str = ""

    @property
    def first(self) -> str:
        """What it starts as, of any type."""
        return "zeroinitializer" if self.zeroed else "undef"

    @property
    def moved_from(self) -> str:
        """The call that gives what is in a register with a name."""
        constraint = _NAMED[self.kind].constraint
        return f'call {self.kind} asm sideeffect "mov.b32 $0, {self.name};", "={constraint}"() nounwind'

    def moved_to(self, value: str) -> str:
        """The call that puts a value into a register with a name."""
        constraint = _NAMED[self.kind].constraint
        return f'call void asm sideeffect "mov.b32 {self.name}, $0;", "{constraint}"({self.kind} {value}) nounwind'

    @property
    def cleared(self) -> str:
        """The instruction that puts a zero into a register with a name."""
        return f"mov.b32 {self.name}, 0;"


@dataclass(slots=True, eq=False)
class Registers:
    """A local buffer's words in a thread: `number` of `bits` bits, with LLVM type `kind`.

    zeroed: all of them start as zero. prefix: what the names of PTX's registers begin with; "" where the words are
    values.
    """

    number: int
    bits: int
    kind: str
    zeroed: bool = False
    prefix: str = field(default="", init=False)
    words: list[Word] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        for _ in range(self.number):
            self.words.append(Word(self.kind, self.zeroed))

    def give_names(self, prefix: str) -> None:
        """Makes the words registers of PTX, before anything was written to them."""
        self.prefix = prefix
        for number, word in enumerate(self.words):
            word.name = f"{prefix}{number}"

    @property
    def declaration(self) -> str:
        """What declares PTX's registers, where no more is written."""
        zeros = [word.cleared for word in self.words if word.zeroed]
        text = NEXT_LINE.join([f".reg .{_NAMED[self.kind].ptx} {self.prefix}<{self.number}>;", *zeros])
        return f'  call void asm sideeffect "{text}", ""() nounwind'


class WordRun(NamedTuple):
    """The registers of a vector, one for each of the words of type `kind`, of `bits` bits, as which it travels."""

    words: list[Word]
    kind: str
    bits: int
