"""A thread's mutable registers: the words of its local buffers, its mutable variables, and its loop counters.

Without a name a register is an LLVM value: the writer tracks its contents without emitting an instruction, and emits
phis where paths join. The words of most accumulators are named PTX registers: instructions refer to them by name, and
other code copies from and to them. As LLVM values they would be up to 128 operands and results of each wgmma and wait,
and phis of each loop: LLVM took 21 ms instead of 14 for `gemm_with_producer`. ptxas generates the same SASS for both.
"""

from __future__ import annotations

from ..dataclass import dataclass, field

#: the contents of a word: an LLVM type, a value of that type, and the debug attachment of the write, "" for a phi
Held = tuple[str, str, str]

#: the contents of a word that was never written
UNWRITTEN: Held = "", "", ""

#: the separator of instructions in inline assembly: an escaped newline and tab
NEXT_LINE = r"\0A\09"


#: LLVM type of a named register -> its PTX type, its constraint letter in inline assembly, and the opcode of a move
_NAMED = {"float": ("f32", "f", "mov.b32"), "i32": ("b32", "r", "mov.b32"), "double": ("f64", "d", "mov.b64")}

#: LLVM literals of zero in the types of named registers
ZEROS = frozenset({"0x0000000000000000", "0"})


@dataclass(slots=True, eq=False)
class Word:
    """A mutable register.

    kind: its declared LLVM type; also that of phis at the start of loops, and of phis whose incoming values differ in
    type.
    zeroed: the register starts as zero. Needed for padding, and if the elements in the word are written one by one:
    in a loop that writes one of them, LLVM would otherwise preserve the others by computing with an undefined register.
    name: the name of the PTX register, "" if the register is an LLVM value.
    """

    kind: str
    zeroed: bool = False
    name: str = ""

    @property
    def first(self) -> str:
        return "zeroinitializer" if self.zeroed else "undef"

    @property
    def moved_from(self) -> str:
        _, constraint, move = _NAMED[self.kind]
        return f'call {self.kind} asm sideeffect "{move} $0, {self.name};", "={constraint}"() nounwind'

    def moved_to(self, value: str) -> str:
        _, constraint, move = _NAMED[self.kind]
        return f'call void asm sideeffect "{move} {self.name}, $0;", "{constraint}"({self.kind} {value}) nounwind'

    @property
    def cleared(self) -> str:
        return f"{_NAMED[self.kind][2]} {self.name}, 0;"


@dataclass(slots=True, eq=False)
class Registers:
    """The registers of a local buffer in a thread: `number` words of `bits` bits and LLVM type `kind`.

    zeroed: all words start as zero. prefix: the prefix of the PTX registers' names, "" if the words are LLVM values.
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
        """Make the words named PTX registers; none of them may have been read or written yet."""
        self.prefix = prefix
        for number, word in enumerate(self.words):
            word.name = f"{prefix}{number}"

    @property
    def declaration(self) -> str:
        zeros = [word.cleared for word in self.words if word.zeroed]
        text = NEXT_LINE.join([f".reg .{_NAMED[self.kind][0]} {self.prefix}<{self.number}>;", *zeros])
        return f'  call void asm sideeffect "{text}", ""() nounwind'
