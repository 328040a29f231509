"""A thread's registers that may change: the words of its local buffers, and its variables.

The writer remembers the value that each word was last given, and writes no instruction for it; behind a branch it
writes a phi. Around loops a word goes through a place on the stack, which LLVM turns into registers and phis.
"""

from __future__ import annotations

from ..dataclass import dataclass, field

#: what a word holds: an LLVM type, a value of it, the source location of what wrote it, and since when that is known,
#: in the writer's time
Held = tuple[str, str, str, int]


@dataclass(slots=True, eq=False)
class Word:
    """One register.

    address: its place on the stack. kind: its LLVM type there. placed: it needs its place on the stack, as some block
    loads it from there.
    zeroed: it starts as zero. Elements that share a word need that where they are written one by one: without it, in a
    loop that writes one of them, LLVM computes with a register that nothing wrote to carry the others along.
    """

    address: str
    kind: str
    placed: bool = False
    zeroed: bool = False

    def entry(self) -> list[str]:
        """The entry block's lines for a word that isn't in an array on the stack."""
        if not self.placed:
            return []
        place = f"  {self.address} = alloca {self.kind}"
        return [place, f"  store {self.kind} zeroinitializer, ptr {self.address}"] if self.zeroed else [place]


@dataclass(slots=True, eq=False)
class Registers:
    """A local buffer's words in a thread: `number` of `bits` bits, with LLVM type `kind`.

    shared: several elements share one word. indexed: some access is to a place that is known only at run time, or that
    isn't a whole word; then the words are one array on the stack.
    """

    address: str
    number: int
    bits: int
    kind: str
    shared: bool
    indexed: bool = False
    words: list[Word] = field(default_factory=list)

    def __post_init__(self) -> None:
        for index in range(self.number):
            self.words.append(Word(f"{self.address}.{index}", self.kind))

    def index(self) -> None:
        """Makes the words one array on the stack."""
        if not self.indexed:
            self.indexed = True
            for word in self.words:
                word.placed = True

    def entry(self) -> list[str]:
        """The entry block's lines: an array, or a place for each word that goes through the stack."""
        if not self.indexed:
            lines: list[str] = []
            for word in self.words:
                if word.placed:
                    lines += word.entry()
            return lines
        size = self.bits // 8
        lines = [f"  {self.address} = alloca [{self.number} x i{self.bits}], align 16"]
        if self.shared:
            zeros = f"ptr {self.address}, i8 0, i64 {self.number * size}, i1 false"
            lines.append(f"  call void @llvm.memset.inline.p0.i64({zeros})")
        for index, word in enumerate(self.words):
            lines.append(f"  {word.address} = getelementptr i8, ptr {self.address}, i64 {index * size}")
        return lines
