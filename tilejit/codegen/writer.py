"""Writes the body of one LLVM function as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ..dataclass import dataclass, field
from ..source import Span
from .debug import LineTable
from .registers import NEXT_LINE, UNWRITTEN, ZEROS, Held, Word

if TYPE_CHECKING:
    from .emission import LLVMValue

#: instructions without effect whose text fixes their value: an equal one isn't written again where it is available
_PURE = frozenset({
    "add", "and", "ashr", "bitcast", "extractelement", "getelementptr", "icmp", "insertelement", "lshr", "mul", "or",
    "ptrtoint", "select", "sext", "shl", "sub", "trunc", "udiv", "urem", "xor", "zext",
})

#: LLVM writes a block up to so long once for each way into it, where its end is a branch that each way decides
_MOST_TWICE = 10

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


class Available(NamedTuple):
    """What code at one point can use without computing it again: how much there was of what the writer knows.

    values, results: entries of the tables. writes: of words.
    """

    values: int
    results: int
    writes: int


class Path(NamedTuple):
    """A way into a block, from where something was available: the last block on it, and its last line.

    held: what the words hold there that were written on the way. computes: that block does nothing but compute some.
    """

    block: str
    line: int
    held: dict[Word, Held]
    computes: bool


#: what a word holds from the beginning of a block on where several ways meet: the word, the type, the ways, which later
#: code may add to, what it holds at the end of those on which it wasn't written, and whether it could be a selection
_Phi = tuple[Word, str, list[Path], Held, bool]


@dataclass(slots=True, eq=False)
class Join:
    """A block to which jumps lead, from where `available` was what was available.

    is_last: no word is read from there on.
    """

    label: str
    available: Available
    is_last: bool = False
    paths: list[Path] = field(default_factory=list)


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
        #: some branch has a constant as its condition, or that of another branch, or does nothing but compute words
        #: that are read; known once `lines` has been called
        self.foldable = False
        #: nothing in the block has an effect, or reads memory
        self._computes = True
        #: the block to which a thread that ends jumps; None where it just returns
        self.exit: Join | None = None
        #: the values of expressions that have the same value wherever they stand, by their identity
        self.results: Table[int, LLVMValue] = Table()
        self._names = 0
        self._location = ""
        #: the names of results, by the text of the instruction
        self._values: Table[str, str] = Table()
        #: what words hold; the writes of words, in order, each with what the word held before
        self._held: dict[Word, Held] = {}
        self._writes: list[tuple[Word, Held | None]] = []
        #: the block's first line, and how many writes came before it
        self._begin = self._writes_before = 0
        #: by their names, which number the lines that are kept for them; those that something reads
        self._phis: dict[str, _Phi] = {}
        self._read: dict[str, None] = {}
        self._conditions: set[str] = set()
        #: the last line that clears registers with names: the number of the next, its location, and PTX's instructions
        self._zeros = -1, "", ""

    def lines(self) -> list[str]:
        """The function's body, when all of it is written."""
        self._write_phis()
        # the lines that are empty were kept for phis that nothing reads
        return list(filter(None, self.body))

    def _write_phis(self) -> None:
        """Writes the phis that are read, and those that they read, in the lines that were kept for them."""
        waiting, phis = list(self._read), self._phis
        while waiting:
            name = waiting.pop()
            if name not in phis:
                continue
            word, to, paths, before, selects = phis.pop(name)
            self.foldable = self.foldable or selects
            parts: list[str] = []
            locations: dict[str, None] = {}
            for path in paths:
                kind, value, location = path.held.get(word, before)
                if value in phis:
                    waiting.append(value)
                if not kind:
                    value = word.first
                elif kind != to:
                    value = self._cast_at_end(path, kind, value, to)
                parts.append(f"[ {value}, %{path.block} ]")
                locations[location] = None
            location = "" if len(locations) > 1 else location
            self.body[int(name[1:])] = f"  {name} = phi {to} {', '.join(parts)}{location}"

    def _cast_at_end(self, path: Path, kind: str, value: str, to: str) -> str:
        """The bits of a value as another type, written at the end of a path."""
        name = "%" + self.label("c")
        self.body[path.line] = f"  {name} = bitcast {kind} {value} to {to}\n{self.body[path.line]}"
        return name

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
        if word.name:
            moved = self.fresh(word.moved_from)
            return moved if kind == word.kind else self.bitcast(word.kind, moved, kind)
        there, value, _ = self._held.get(word, UNWRITTEN)
        if not there:
            return word.first
        if value in self._phis:
            self._read[value] = None
        return value if there == kind else self.bitcast(there, value, kind)

    def write(self, word: Word, kind: str, value: str) -> None:
        """Gives the word a value of type `kind`."""
        if word.name:
            self._move(word, value if kind == word.kind else self.bitcast(kind, value, word.kind))
            return
        held = self._held
        self._writes.append((word, held.get(word)))
        held[word] = kind, value, self._location

    def write_all(self, words: Sequence[Word], kind: str, values: Sequence[str]) -> None:
        """As `write`, of several words of one buffer: one call of Python's."""
        if words[0].name:
            cast = kind != words[0].kind
            for word, value in zip(words, values, strict=True):
                self._move(word, self.bitcast(kind, value, word.kind) if cast else value)
            return
        held, location = self._held, self._location
        for word, value in zip(words, values, strict=True):
            self._writes.append((word, held.get(word)))
            held[word] = kind, value, location

    def _move(self, word: Word, value: str) -> None:
        """Puts a value into a register with a name. Zeros that follow each other are one call, as tiles begin with."""
        if value not in ZEROS:
            self.effect(word.moved_to(value))
            return
        end, location, cleared = self._zeros
        follows = end == len(self.body) and location == self._location
        cleared = f"{cleared}{NEXT_LINE}{word.cleared}" if follows else word.cleared
        if follows:
            self.body.pop()
        self.effect(f'call void asm sideeffect "{cleared}", ""() nounwind')
        self._zeros = len(self.body), self._location, cleared

    def alloca(self, kind: str, align: int) -> str:
        """Reserves stack space in the entry block; returns its address."""
        self._names += 1
        name = f"%a{self._names}"
        self.entry.append(f"  {name} = alloca {kind}, align {align}")
        return name

    def label(self, hint: str) -> str:
        """A fresh block name."""
        self._names += 1
        return f"{hint}{self._names}"

    def join(self, hint: str, is_last: bool = False) -> Join:
        """A block that comes later; what is available here is available there, whichever way leads there."""
        return Join(self.label(hint), Available(len(self._values), len(self.results), len(self._writes)), is_last)

    def jump(self, target: Join) -> None:
        """Ends the block with a jump, unless it has ended already."""
        if self.open:
            self._add_path(target, self._computes and len(self._writes) > self._writes_before)
            self.effect(f"br label %{target.label}")
            self.open = False

    def branch(self, condition: str, then: Join, orelse: Join) -> None:
        """Ends the block with a conditional jump."""
        is_short = len(self.body) - self._begin <= _MOST_TWICE
        if not condition.startswith("%") or is_short and condition in self._conditions:
            self.foldable = True
        self._conditions.add(condition)
        self._add_path(then)
        self._add_path(orelse)
        self.effect(f"br i1 {condition}, label %{then.label}, label %{orelse.label}")
        self.open = False

    def leave(self) -> None:
        """Ends the block and the thread, which reads no word any more: `exit` isn't told what they hold."""
        if not self.open:
            return
        if self.exit is None:
            self.effect("ret void")
        else:
            self.exit.paths.append(Path(self.block, len(self.body), {}, computes=False))
            self.effect(f"br label %{self.exit.label}")
        self.open = False

    def _add_path(self, target: Join, computes: bool = False) -> None:
        """Adds the way from where the writer stands, on the next line."""
        now, held = self._held, dict[Word, Held]()
        if not target.is_last:
            for word, _ in self._writes[target.available.writes :]:
                held[word] = now[word]
        target.paths.append(Path(self.block, len(self.body), held, computes))

    def start(self, join: Join, changing: Sequence[Word] = ()) -> None:
        """Opens a block to which all ways are known, unless there is none; the one before it must have ended.

        changing: the words that later code may have written which jumps back to this block; but for such jumps one way
        leads here.
        """
        if not join.paths:
            return
        self._open(join)
        first, *others = join.paths
        if others:
            self._hold(self._met(join.paths))
        else:
            for word, held in first.held.items():
                self._writes.append((word, self._held.get(word)))
                self._held[word] = held
        if changing:
            before = self._held
            self._hold([(word, word.kind, join.paths, before.get(word, UNWRITTEN), False) for word in changing])
        self._writes_before = len(self._writes)

    def meet(self, join: Join) -> None:
        """Goes on where ways meet: in the present block, where no other leads there."""
        if join.paths:
            self.jump(join)
            self.start(join)

    def _open(self, join: Join) -> None:
        self.body.append(f"{join.label}:")
        self._begin = len(self.body)
        self.block = join.label
        self.open = self._computes = True
        available = join.available
        self._values.cut(available.values)
        self.results.cut(available.results)
        undone = self._writes[available.writes :]
        del self._writes[available.writes :]
        for word, held in reversed(undone):
            if held is None:
                del self._held[word]
            else:
                self._held[word] = held

    def _met(self, paths: list[Path]) -> list[_Phi]:
        """The phis of words that don't hold the same on all paths; makes the others hold what they do there."""
        written: dict[Word, Held] = {}
        selects = False
        for path in paths:
            written.update(path.held)
            selects = selects or path.computes
        first, *others = paths
        phis: list[_Phi] = []
        for word in written:
            earlier = self._held.get(word)
            before = earlier or UNWRITTEN
            held = first.held.get(word, before)
            kind, value, _ = held
            differs = False
            for path in others:
                other_kind, other, _ = path.held.get(word, before)
                differs = differs or other != value
                if other_kind and other_kind != kind:
                    kind = word.kind if kind else other_kind
            if differs:
                phis.append((word, kind, paths, before, selects))
            else:
                self._writes.append((word, earlier))
                self._held[word] = held
        return phis

    def _hold(self, phis: list[_Phi]) -> None:
        """Makes words hold phis, and keeps their lines."""
        held, first = self._held, len(self.body)
        self.body += [""] * len(phis)
        for number, phi in enumerate(phis, first):
            word, name = phi[0], f"%{number}"
            self._phis[name] = phi
            self._writes.append((word, held.get(word)))
            held[word] = phi[1], name, ""
