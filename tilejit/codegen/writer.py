"""Writes the body of one LLVM function as text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ..source import Span
from .debug import LineTable
from .registers import Held, Word

if TYPE_CHECKING:
    from .context import Value

#: instructions whose text says their value: written again where an equal one is known, they are the same
_PURE = frozenset({
    "add", "and", "ashr", "bitcast", "extractelement", "getelementptr", "icmp", "insertelement", "lshr", "mul", "or",
    "ptrtoint", "select", "sext", "shl", "sub", "trunc", "udiv", "urem", "xor", "zext",
})  # fmt: skip


#: what of them and of calls of pure functions is written before a loop on whose turns it doesn't depend. Comparisons
#: stay where they are: there are seven registers for predicates. So do divisions, which may trap where the loop doesn't
#: run.
_MOVED = frozenset({
    "add", "and", "ashr", "call", "getelementptr", "lshr", "mul", "or", "ptrtoint", "sext", "shl", "sub", "trunc",
    "xor", "zext",
})  # fmt: skip

_NAMES = re.compile(r"%v\d+")


@dataclass(slots=True, eq=False)
class _Loop:
    """A loop that is being written.

    at: the number of lines up to the jump to its head. before: lines that belong in front of that jump, because
    nothing in them depends on the loop's turn. known: the values that they make, by their text.
    """

    at: int
    before: list[str] = field(default_factory=list)
    known: dict[str, str] = field(default_factory=dict)


class Known(NamedTuple):
    """What is known at one point: the name of each value by the text that made it, and what words hold.

    results: of expressions that have the same value wherever they stand, by their identity.
    writes: of words up to there.
    """

    values: dict[str, str]
    results: dict[int, Value]
    words: dict[Word, Held]
    writes: int


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
        #: where a thread that ends goes, if the kernel has something to do there
        self.exit: str | None = None
        #: of expressions that have the same value wherever they stand, by their identity
        self.results: dict[int, Value] = {}
        self._names = 0
        self._location = ""
        self._known: dict[str, str] = {}
        self._loops: list[_Loop] = []
        self._depths: dict[str, int] = {}
        self._before: dict[int, list[str]] = {}
        self._words: dict[Word, Held] = {}
        self._unsaved: dict[Word, None] = {}
        self._stores: list[tuple[int, Word]] = []
        self._writes = 0

    def lines(self) -> list[str]:
        """The function's body, without the stores of words that nothing loads."""
        needless = {at for at, word in self._stores if not word.placed}
        found: list[str] = []
        for at, line in enumerate(self.body):
            found += self._before.get(at, ())
            if at not in needless:
                found.append(line)
        return found

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
        """Writes an instruction that has a result, unless it is known; returns the result's name.

        It stands before the loops on whose turns it doesn't depend. LLVM would find equal and unchanging values, too,
        but only after it has read them and tried to make each cheaper.
        pure: it gives the same wherever it stands, whatever it is.
        """
        opcode = text[: text.find(" ")]
        if not pure and opcode not in _PURE:
            return self.fresh(text)
        found = self._known.get(text)
        if found is not None:
            return found
        depth = self.depth(text) if self._loops and opcode in _MOVED else len(self._loops)
        if depth == len(self._loops):
            found = self._known[text] = self.fresh(text)
            return found
        loop = self._loops[depth]
        if text not in loop.known:
            loop.known[text] = self._named(depth)
            loop.before.append(f"  {loop.known[text]} = {text}{self._location}")
        return loop.known[text]

    def fresh(self, text: str) -> str:
        """Writes an instruction that has a result, whatever is known; returns the result's name."""
        name = self._named(len(self._loops))
        self.body.append(f"  {name} = {text}{self._location}")
        return name

    def _named(self, depth: int) -> str:
        """A name for a value that changes with the turns of the `depth` outermost loops."""
        self._names += 1
        name = f"%v{self._names}"
        if depth:
            self._depths[name] = depth
        return name

    def depth(self, text: str) -> int:
        """How many of the loops, outermost first, it takes to have all the values in a text."""
        return max([self._depths.get(name, 0) for name in _NAMES.findall(text)], default=0)

    def effect(self, text: str) -> None:
        """Writes an instruction without a result."""
        self.body.append(f"  {text}{self._location}")

    def intrinsic(self, result: str, name: str, *arguments: tuple[str, str]) -> str:
        """Calls an LLVM intrinsic or a function of the module; arguments are (type, value) pairs."""
        types = ", ".join(kind for kind, _ in arguments)
        self.declarations[f"declare {result} @{name}({types})"] = None
        return self.call(result, name, *arguments)

    def call(self, result: str, name: str, *arguments: tuple[str, str]) -> str:
        """Calls a function that the module defines."""
        text = f"call {result} @{name}({', '.join(f'{kind} {value}' for kind, value in arguments)})"
        return self.value(text, pure=name.startswith("llvm."))

    def bitcast(self, kind: str, value: str, to: str) -> str:
        """The bits of a value as another type; what came from that type is what it was."""
        if kind == to:
            return value
        result = self.value(f"bitcast {kind} {value} to {to}")
        self._known[f"bitcast {to} {result} to {kind}"] = value
        return result

    def read(self, word: Word, kind: str) -> str:
        """What the word holds, as a value of type `kind`."""
        held = self._words.get(word)
        if held is None:
            word.loaded = True
            value = self.fresh(f"load {word.kind}, ptr {word.address}")
            held = self._words[word] = Held(word.kind, value, "")
        return self.bitcast(held.kind, held.value, kind)

    def begin_as_zero(self, words: Iterable[Word]) -> None:
        """Knows words in the entry block that nothing has written yet."""
        self._words.update((word, Held(word.kind, "zeroinitializer", "")) for word in words)

    def write(self, word: Word, kind: str, value: str) -> None:
        """Gives the word a value of type `kind`."""
        self._writes += 1
        word.written = self._writes
        self._words[word] = Held(kind, value, self._location)
        self._unsaved[word] = None

    def save(self, words: Iterable[Word]) -> None:
        """Writes to the stack what the words have been given since the block began."""
        here = self._location
        for word in words:
            if word in self._unsaved:
                del self._unsaved[word]
                held = self._words[word]
                self._location = held.location
                value = self.bitcast(held.kind, held.value, word.kind)
                self._stores.append((len(self.body), word))
                self.effect(f"store {word.kind} {value}, ptr {word.address}")
        self._location = here

    def forget(self, words: Iterable[Word]) -> None:
        """Takes it that something else has changed the words on the stack."""
        self._writes += 1
        for word in words:
            word.written = self._writes
            self._words.pop(word, None)

    def alloca(self, kind: str, align: int) -> str:
        """Reserves stack space in the entry block, which becomes registers where LLVM can; returns its address."""
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
        """Ends the block and the thread; nobody reads its registers any more."""
        self._unsaved.clear()
        if self.exit is not None:
            self.jump(self.exit)
        elif self.open:
            self.effect("ret void")
            self.open = False

    def enter_loop(self, head: str) -> None:
        """Ends the block with a jump to the head of a loop."""
        self.jump(head)
        self._loops.append(_Loop(len(self.body) - 1))

    def leave_loop(self, known: Known) -> Known:
        """Ends the loop; returns what is known behind it, given what is known in its head."""
        loop = self._loops.pop()
        self._before[loop.at] = loop.before
        return known._replace(values={**known.values, **loop.known})

    def known(self) -> Known:
        """What is known where the writer stands."""
        return Known(dict(self._known), dict(self.results), dict(self._words), self._writes)

    def start(self, label: str, known: Known | None = None, loops: bool = False) -> None:
        """Opens a new block; the one before it must have ended.

        known: what a block knew through which all ways to this one go. Of its words those stay known that nothing
        written since has changed. loops: the block is jumped back to, so that what is written later may change them.
        """
        self.body.append(f"{label}:")
        self.block = label
        self.open = True
        values, results, words, writes = known or Known({}, {}, {}, 0)
        self._known = dict(values)
        self.results = dict(results)
        self._words = {} if loops else {word: held for word, held in words.items() if word.written <= writes}
