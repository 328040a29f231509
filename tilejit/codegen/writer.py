"""Writes the body of one LLVM function as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


K = TypeVar("K")
V = TypeVar("V")


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

    def cut(self, reads: int) -> None:
        """Forgets what was loaded behind the first `reads`."""
        for word in self.read[reads:]:
            self.held.pop(word, None)
        del self.read[reads:]


#: a write of a word: the word, what is known of words there, and what this one held before, where that is known
_Write = tuple[Word, _Words, Held | None]


class Available(NamedTuple):
    """The values that code at one point can use without computing them again: how much of each table there was.

    values: names of results, by the text of the instruction. results: of expressions that have the same value wherever
    they stand, by their identity. words: what each word holds. writes: how many writes of words came before. time: the
    writer's.
    """

    values: tuple[Table[str, str], int]
    results: tuple[Table[int, LLVMValue], int]
    words: tuple[_Words, int]
    writes: int
    time: int


#: a way through blocks: the last one, and what the words hold there that were written on the way, where that is known
Path = tuple[str, dict[Word, Held | None]]


#: a phi that has its line, which is written once something reads it: what a word holds at the ends of the blocks before
_Phi = tuple[int, list[tuple[str, Held]]]


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
        #: some block is jumped back to; some branch has a constant as its condition, or that of another branch, or does
        #: nothing but compute words
        self.loops = False
        self.foldable = False
        #: nothing in the block has an effect, or reads memory
        self._computes = True
        #: the block to which a thread that ends jumps; None where it just returns
        self.exit: str | None = None
        #: the values of expressions that have the same value wherever they stand, by their identity
        self.results: Table[int, LLVMValue] = Table()
        self._names = 0
        self._location = ""
        self._values: Table[str, str] = Table()
        self._words = _Words()
        self._unsaved: dict[Word, None] = {}
        self._stores: list[tuple[int, Word]] = []
        #: the writes of words, in order
        self._writes: list[_Write] = []
        #: the phis that nothing has read, by their names
        self._unread: dict[str, _Phi] = {}
        self._conditions: set[str] = set()

    def lines(self) -> list[str]:
        """The function's body, without the stores of words that nothing loads, and phis that nothing reads."""
        lines: list[str] = []
        begin = 0
        unloaded = [at for at, word in self._stores if not word.placed]
        for at in sorted(unloaded + [line for line, _ in self._unread.values()]):
            lines += self.body[begin:at]
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

        LLVM would share such values as well, but only after it has parsed each copy and tried to simplify it.
        pure: whatever its opcode, it has no effect and gives the same value wherever it stands.
        """
        name = self._values.get(text)
        if name is not None:
            return name
        # as `fresh`, which would be as many calls again
        name = f"%{len(self.body)}"
        self.body.append(f"  {name} = {text}{self._location}")
        if pure or text[: text.find(" ")] in _PURE:
            self._values[text] = name
        else:
            self._computes = False
        return name

    def fresh(self, text: str) -> str:
        """Writes an instruction that has a result, even where its value is available; returns the result's name.

        A number: LLVM keeps no text for it, and parses attention's module in four fifths of the time that names take.
        """
        self._computes = False
        name = f"%{len(self.body)}"
        self.body.append(f"  {name} = {text}{self._location}")
        return name

    def effect(self, text: str) -> None:
        """Writes an instruction without a result."""
        self._computes = False
        self.body.append(f"  {text}{self._location}")

    def intrinsic(self, result: str, name: str, *arguments: tuple[str, str]) -> str:
        """Calls an LLVM intrinsic or a function of the module; arguments are (type, value) pairs."""
        text, declaration = called(result, name, arguments)
        self.declarations[declaration] = None
        return self.value(text, pure=name.startswith("llvm."))

    def call(self, result: str, name: str, *arguments: tuple[str, str]) -> str:
        """Calls a function that the module defines, unless its value is available.

        Functions of the module have no effect, and give the same for the same arguments.
        """
        text, _ = called(result, name, arguments)
        value = self._values.get(text)
        if value is None:
            value = self._values[text] = self.fresh(text)
        return value

    def stands_for(self, text: str, value: str) -> None:
        """Makes `value` the result of an instruction that isn't written, as it gives back what others were given."""
        self._values.setdefault(text, value)

    def bitcast(self, kind: str, value: str, to: str) -> str:
        """The bits of a value as another type; a bitcast that undoes another gives the first value back."""
        if kind == to:
            return value
        result = self.value(f"bitcast {kind} {value} to {to}")
        self._values.setdefault(f"bitcast {to} {result} to {kind}", value)
        return result

    def extended(self, opcode: str, kind: str, value: str, to: str) -> str:
        """An integer in a wider type; a truncation that undoes that gives the first value back."""
        result = self.value(f"{opcode} {kind} {value} to {to}")
        self._values.setdefault(f"trunc {to} {result} to {kind}", value)
        return result

    def inserted(self, parts: str, vector: str, count: int, element: tuple[str, str], at: int) -> str:
        """A vector of `count` elements with another (type, value) at one place; elements taken out are those put in."""
        kind, value = element
        result = self.value(f"insertelement {parts} {vector}, {kind} {value}, i32 {at}")
        for place in range(count):
            part = value if place == at else self._values.get(f"extractelement {parts} {vector}, i32 {place}")
            if part is not None:
                self._values.setdefault(f"extractelement {parts} {result}, i32 {place}", part)
        return result

    def read(self, word: Word, kind: str) -> str:
        """What the word holds, as a value of type `kind`."""
        held = self._words.held.get(word)
        if held is None:
            # not `fresh`: what reads words only may still do nothing but compute
            name = f"%{len(self.body)}"
            self.body.append(f"  {name} = load {word.kind}, ptr {word.address}{self._location}")
            word.placed = True
            held = word.kind, name, "", len(self.body) + len(self._writes)
            self._words.held[word] = held
            self._words.read.append(word)
        there, value, _, _ = held
        if value in self._unread:
            self._write_phis(value)
        return value if there == kind else self.bitcast(there, value, kind)

    def _write_phis(self, name: str) -> None:
        """Writes a phi that is read, and those that it reads."""
        names = [name]
        while names:
            name = names.pop()
            phi = self._unread.pop(name, None)
            if phi is None:
                continue
            line, ends = phi
            parts: list[str] = []
            locations: dict[str, None] = {}
            for block, (_, value, location, _) in ends:
                parts.append(f"[ {value}, %{block} ]")
                locations[location] = None
                names.append(value)
            location = "" if len(locations) > 1 else location
            self.body[line] = f"  {name} = phi {ends[0][1][0]} {', '.join(parts)}{location}"

    def begin_as_zero(self, words: Iterable[Word], kind: str) -> None:
        """Takes words of type `kind` as zero that nothing has written yet; only in the entry block."""
        for word in words:
            self._words.held[word] = kind, "zeroinitializer", "", 0
            self._words.read.append(word)

    def write(self, word: Word, kind: str, value: str) -> None:
        """Gives the word a value of type `kind`."""
        held = self._words.held
        self._writes.append((word, self._words, held.get(word)))
        held[word] = kind, value, self._location, len(self.body) + len(self._writes)
        self._unsaved[word] = None

    def save(self, words: Iterable[Word]) -> None:
        """Stores to the stack the values that the words were given since the block began."""
        here = self._location
        for word in words:
            if word in self._unsaved:
                del self._unsaved[word]
                kind, value, self._location, _ = self._words.held[word]
                if kind != word.kind:
                    value = self.bitcast(kind, value, word.kind)
                self._stores.append((len(self.body), word))
                self.body.append(f"  store {word.kind} {value}, ptr {word.address}{self._location}")
        self._location = here

    def forget(self, words: Iterable[Word]) -> None:
        """Forgets what words hold, because an access by address may have changed them on the stack."""
        for word in words:
            self._writes.append((word, self._words, self._words.held.pop(word, None)))

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
            if self._unsaved:
                self.foldable = self.foldable or self._computes
                self.save(list(self._unsaved))
            self.effect(f"br label %{target}")
            self.open = False

    def branch(self, condition: str, then: str, orelse: str) -> None:
        """Ends the block with a conditional jump."""
        self.foldable = self.foldable or condition in self._conditions or not condition.startswith("%")
        self._conditions.add(condition)
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

    def available(self) -> Available:
        """What is available where the writer stands."""
        return Available(
            (self._values, len(self._values)), (self.results, len(self.results)),
            (self._words, len(self._words.read)), len(self._writes), len(self.body) + len(self._writes),
        )

    def path(self, available: Available) -> Path | None:
        """The way from where something was available to where the writer stands; None where the block has ended."""
        if not self.open:
            return None
        held: dict[Word, Held | None] = {}
        for word, _, _ in self._writes[available.writes :]:
            held[word] = self._words.held.get(word)
        return self.block, held

    def start(
        self, label: str, available: Available | None = None, loops: bool = False, paths: Sequence[Path | None] = ()
    ) -> None:
        """Opens a new block; the one before it must have ended.

        available: what was available at the end of a block that dominates this one. A word that has been written since
        isn't, unless it is known on each path.
        loops: later code jumps back to this block, having changed any word: none is available.
        paths: all the ways from there into this block, where they are known.
        """
        self.body.append(f"{label}:")
        self.block = label
        self.open = self._computes = True
        if available is None:
            self._values, self.results, self._words = Table(), Table(), _Words()
            return
        self._values, size = available.values
        self._values.cut(size)
        self.results, size = available.results
        self.results.cut(size)
        self._words, reads = available.words
        self._words.cut(reads)
        if len(self._writes) > available.writes:
            self._join(available, [path for path in paths if path is not None])
        if loops:
            self.loops = True
            self._words = _Words()

    def _join(self, available: Available, paths: list[Path]) -> None:
        """Makes words that were written since hold what they do on each path, or a phi; forgets them where unknown."""
        words = self._words
        before: dict[Word, Held | None] = {}
        writes = self._writes[available.writes :]
        for word, there, held in writes:
            # nothing that was written elsewhere changed what is known here
            if there is words:
                before.setdefault(word, held)
        for word, _, _ in writes:
            before.setdefault(word, words.held.get(word))
        for word, first in before.items():
            words.held.pop(word, None)
            known = first if first and first[3] <= available.time else None
            ends: list[tuple[str, Held]] = []
            for block, changed in paths:
                end = changed.get(word, known)
                if end is None or (ends and end[0] != ends[0][1][0]):
                    break
                ends.append((block, end))
            else:
                if ends:
                    words.held[word] = self._met(ends)

    def _met(self, ends: list[tuple[str, Held]]) -> Held:
        """What a word holds where blocks meet, by what it holds at their ends: the same, or a phi."""
        first = ends[0][1]
        for _, held in ends:
            if held[1] != first[1]:
                break
        else:
            return first
        name = f"%{len(self.body)}"
        self._unread[name] = len(self.body), ends
        self.body.append("")
        return first[0], name, "", len(self.body) + len(self._writes)
