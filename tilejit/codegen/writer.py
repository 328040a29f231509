"""Writes the body of one LLVM function as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ..dataclass import dataclass, field
from ..source import Span
from .debug import LineTable
from .registers import Held, Word

if TYPE_CHECKING:
    from .emission import LLVMValue

#: instructions without effect whose text fixes their value: an equal one isn't written again where it is available
_PURE = frozenset({
    "add", "and", "ashr", "bitcast", "extractelement", "getelementptr", "icmp", "insertelement", "lshr", "mul", "or",
    "ptrtoint", "select", "sext", "shl", "sub", "trunc", "udiv", "urem", "xor", "zext",
})


#: instructions that are written in front of a loop when no operand changes in it; calls are those of pure functions.
#: Comparisons stay in the loop: a thread has only seven predicate registers. So do divisions: in front of a loop that
#: has no turn one could trap that wouldn't have been reached.
_HOISTED = frozenset({
    "add", "and", "ashr", "call", "getelementptr", "lshr", "mul", "or", "ptrtoint", "sext", "shl", "sub", "trunc",
    "xor", "zext",
})

_NAMES = re.compile(r"%v\d+")


K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True, eq=False)
class _OpenLoop:
    """A loop that is being written.

    at: the number of lines up to the jump to its head. preheader: lines that go in front of that jump, because none
    of them depends on the loop's turn. values: the names of their results, by the instruction's text.
    """

    at: int
    preheader: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)


def called(result: str, name: str, arguments: Iterable[tuple[str, str]]) -> tuple[str, str]:
    """The text of a call, and the declaration of what it calls; arguments are (type, value) pairs."""
    values: list[str] = []
    types: list[str] = []
    for kind, value in arguments:
        values.append(f"{kind} {value}")
        types.append(kind)
    return f"call {result} @{name}({', '.join(values)})", f"declare {result} @{name}({', '.join(types)})"


class Table(dict[K, V]):
    """What is known in a block and in those that it dominates: entries are added, and taken out again in that order.

    So nothing is copied for a block, which thousands of branches would take the square of their number for.
    """

    __slots__ = ()

    def cut(self, size: int) -> None:
        """Takes out the entries that came behind the first `size`."""
        while len(self) > size:
            self.popitem()


@dataclass(slots=True)
class _Words:
    """What words hold. read: those whose entry came from a load, in order."""

    held: dict[Word, Held] = field(default_factory=dict)
    read: list[Word] = field(default_factory=list)

    def load(self, word: Word, held: Held) -> None:
        self.held[word] = held
        self.read.append(word)

    def cut(self, reads: int, written: Iterable[Word]) -> None:
        """Forgets what was loaded behind the first `reads`, and the words that were written."""
        for word in (*self.read[reads:], *written):
            self.held.pop(word, None)
        del self.read[reads:]


class Available(NamedTuple):
    """The values that code at one point can use without computing them again: how much of each table there was.

    values: names of results, by the text of the instruction. results: of expressions that have the same value wherever
    they stand, by their identity. words: what each word holds. writes: how many writes of words came before.
    hoisted: names of results besides, of instructions in front of a loop.
    """

    values: tuple[Table[str, str], int]
    results: tuple[Table[int, LLVMValue], int]
    words: tuple[_Words, int]
    writes: int
    hoisted: Mapping[str, str] = {}


class Writer:
    """Lines of LLVM instructions, with fresh names, basic blocks and the current source location.

    After a terminator the block is closed: callers start a new one with `start` before they write on.
    """

    def __init__(self, lines: LineTable) -> None:
        self.line_table = lines
        self.body: list[str] = []
        self.entry: list[str] = []
        self.declarations: dict[str, None] = {}
        self.block = "entry"
        self.open = True
        #: the block to which a thread that ends jumps; None where it just returns
        self.exit: str | None = None
        #: the values of expressions that have the same value wherever they stand, by their identity
        self.results: Table[int, LLVMValue] = Table()
        self._names = 0
        self._location = ""
        self._values: Table[str, str] = Table()
        self._loops: list[_OpenLoop] = []
        self._depths: dict[str, int] = {}
        self._preheaders: dict[int, list[str]] = {}
        self._words = _Words()
        self._unsaved: dict[Word, None] = {}
        self._stores: list[tuple[int, Word]] = []
        #: the words that were written, in order
        self._writes: list[Word] = []

    def lines(self) -> list[str]:
        """The function's body, without the stores of words that nothing loads."""
        instead: dict[int, list[str]] = {at: [] for at, word in self._stores if not word.placed}
        for at, preheader in self._preheaders.items():
            instead[at] = [*preheader, self.body[at]]
        lines: list[str] = []
        begin = 0
        for at in sorted(instead):
            lines += self.body[begin:at]
            lines += instead[at]
            begin = at + 1
        return lines + self.body[begin:]

    def at(self, span: Span | None) -> str:
        """Makes `span` the location of what is written next, unless it is None; returns the one before."""
        before = self._location
        if span is not None:
            self._location = self.line_table.attachment(span)
        return before

    def restore(self, location: str) -> None:
        """Goes back to a location that `at` returned."""
        self._location = location

    def value(self, text: str, pure: bool = False) -> str:
        """Writes an instruction that has a result, unless its value is available; returns the result's name.

        It goes in front of the loops in which none of its operands changes. LLVM would share and hoist such values as
        well, but only after it has parsed each copy and tried to simplify it.
        pure: whatever its opcode, it has no effect and gives the same value wherever it stands.
        """
        name = self._values.get(text)
        if name is not None:
            return name
        opcode = text[: text.find(" ")]
        if not pure and opcode not in _PURE:
            return self.fresh(text)
        depth = self._depth(text) if self._loops and opcode in _HOISTED else len(self._loops)
        if depth == len(self._loops):
            name = self.fresh(text)
            self._values.setdefault(text, name)
            return name
        loop = self._loops[depth]
        if text not in loop.values:
            loop.values[text] = self._hoisted(text, loop, depth)
        return loop.values[text]

    def fresh(self, text: str) -> str:
        """Writes an instruction that has a result, even where its value is available; returns the result's name."""
        self._names += 1
        name = f"%v{self._names}"
        if self._loops:
            self._depths[name] = len(self._loops)
        self.body.append(f"  {name} = {text}{self._location}")
        return name

    def _hoisted(self, text: str, loop: _OpenLoop, depth: int) -> str:
        """Writes an instruction in front of a loop, where it changes with the turns of `depth` others."""
        self._names += 1
        name = f"%v{self._names}"
        if depth:
            self._depths[name] = depth
        loop.preheader.append(f"  {name} = {text}{self._location}")
        return name

    def depth_of(self, value: str) -> int:
        """The depth of the innermost loop in which a value changes; 0 where it changes in none."""
        return self._depths.get(value, 0)

    def _depth(self, text: str) -> int:
        """The depth of the innermost loop in which a value that an instruction names changes."""
        depths, deepest = self._depths, 0
        for name in _NAMES.findall(text):
            depth = depths.get(name, 0)
            if depth > deepest:
                deepest = depth
        return deepest

    def effect(self, text: str) -> None:
        """Writes an instruction without a result."""
        self.body.append(f"  {text}{self._location}")

    def intrinsic(self, result: str, name: str, *arguments: tuple[str, str]) -> str:
        """Calls an LLVM intrinsic or a function of the module; arguments are (type, value) pairs."""
        text, declaration = called(result, name, arguments)
        self.declarations[declaration] = None
        return self.value(text, pure=name.startswith("llvm."))

    def call(self, result: str, name: str, *arguments: tuple[str, str]) -> str:
        """Calls a function that the module defines."""
        text, _ = called(result, name, arguments)
        return self.value(text, pure=name.startswith("llvm."))

    def bitcast(self, kind: str, value: str, to: str) -> str:
        """The bits of a value as another type; a bitcast that undoes another gives the first value back."""
        if kind == to:
            return value
        result = self.value(f"bitcast {kind} {value} to {to}")
        self._values.setdefault(f"bitcast {to} {result} to {kind}", value)
        return result

    def read(self, word: Word, kind: str) -> str:
        """What the word holds, as a value of type `kind`."""
        held = self._words.held.get(word)
        if held is None:
            word.placed = True
            held = Held(word.kind, self.fresh(f"load {word.kind}, ptr {word.address}"), "")
            self._words.load(word, held)
        return held.value if held.kind == kind else self.bitcast(held.kind, held.value, kind)

    def begin_as_zero(self, words: Iterable[Word]) -> None:
        """Takes words as zero that nothing has written yet; only in the entry block."""
        for word in words:
            self._words.load(word, Held(word.kind, "zeroinitializer", ""))

    def write(self, word: Word, kind: str, value: str) -> None:
        """Gives the word a value of type `kind`."""
        self._writes.append(word)
        self._words.held[word] = Held(kind, value, self._location)
        self._unsaved[word] = None

    def save(self, words: Iterable[Word]) -> None:
        """Stores to the stack the values that the words were given since the block began."""
        here = self._location
        for word in words:
            if word in self._unsaved:
                del self._unsaved[word]
                held = self._words.held[word]
                self._location = held.location
                value = held.value if held.kind == word.kind else self.bitcast(held.kind, held.value, word.kind)
                self._stores.append((len(self.body), word))
                self.body.append(f"  store {word.kind} {value}, ptr {word.address}{held.location}")
        self._location = here

    def forget(self, words: Iterable[Word]) -> None:
        """Forgets what words hold, because an access by address may have changed them on the stack."""
        for word in words:
            self._writes.append(word)
            self._words.held.pop(word, None)

    def alloca(self, kind: str, align: int) -> str:
        """Reserves stack space in the entry block, which LLVM makes registers of where it can; returns its address."""
        self._names += 1
        name = f"%a{self._names}"
        self.entry.append(f"  {name} = alloca {kind}, align {align}")
        return name

    def label(self, hint: str) -> str:
        """A fresh block name."""
        self._names += 1
        return f"{hint}{self._names}"

    def jump(self, target: str) -> None:
        """Ends the block with a jump, unless it has ended already."""
        if self.open:
            self.save(list(self._unsaved))
            self.effect(f"br label %{target}")
            self.open = False

    def branch(self, condition: str, then: str, orelse: str) -> None:
        """Ends the block with a conditional jump."""
        self.save(list(self._unsaved))
        self.effect(f"br i1 {condition}, label %{then}, label %{orelse}")
        self.open = False

    def leave(self) -> None:
        """Ends the block and the thread; its words aren't saved, because nothing reads them any more."""
        self._unsaved.clear()
        if self.exit is not None:
            self.jump(self.exit)
        elif self.open:
            self.effect("ret void")
            self.open = False

    def enter_loop(self, head: str) -> None:
        """Ends the block with a jump to the head of a loop."""
        self.jump(head)
        self._loops.append(_OpenLoop(len(self.body) - 1))

    def leave_loop(self, at_head: Available) -> Available:
        """Ends the loop; returns what is available behind it: what is at its head, and what its preheader computes."""
        loop = self._loops.pop()
        self._preheaders[loop.at] = loop.preheader
        return at_head._replace(hoisted=loop.values)

    def available(self) -> Available:
        """What is available where the writer stands."""
        return Available(
            (self._values, len(self._values)), (self.results, len(self.results)),
            (self._words, len(self._words.read)), len(self._writes),
        )

    def start(self, label: str, available: Available | None = None, loops: bool = False) -> None:
        """Opens a new block; the one before it must have ended.

        available: what was available at the end of a block that dominates this one. A word that has been written since
        isn't. loops: later code jumps back to this block, having changed any word: none is available.
        """
        self.body.append(f"{label}:")
        self.block = label
        self.open = True
        if available is None:
            self._values, self.results, self._words = Table(), Table(), _Words()
            return
        self._values, size = available.values
        self._values.cut(size)
        self.results, size = available.results
        self.results.cut(size)
        for text, name in available.hoisted.items():
            self._values.setdefault(text, name)
        self._words, reads = available.words
        self._words.cut(reads, self._writes[available.writes :])
        if loops:
            self._words = _Words()
