"""A writer of the LLVM IR of one function's body."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..dataclass import dataclass, field
from ..source import Span
from .debug import LineTable
from .registers import NEXT_LINE, UNWRITTEN, ZEROS, Held, Word

if TYPE_CHECKING:
    from .emission import LLVMValue

#: opcodes of instructions without side effects whose text determines their value, so that equal ones can be merged
_PURE = frozenset({
    "add", "and", "ashr", "bitcast", "extractelement", "getelementptr", "icmp", "insertelement", "lshr", "mul", "or",
    "ptrtoint", "select", "sext", "shl", "sub", "trunc", "udiv", "urem", "xor", "zext",
})

#: the size in lines of the largest block that LLVM duplicates into predecessors where its branch's condition is known
_MOST_TWICE = 10


def called(result: str, name: str, arguments: Iterable[tuple[str, str]]) -> tuple[str, str]:
    """Return the text of a call, and the callee's declaration. arguments: (type, value) pairs."""
    values: list[str] = []
    types: list[str] = []
    for kind, value in arguments:
        values.append(f"{kind} {value}")
        types.append(kind)
    return f"call {result} @{name}({', '.join(values)})", f"declare {result} @{name}({', '.join(types)})"


def _cut(table: dict[Any, Any], size: int) -> None:
    """Remove all but the oldest entries of a table. Copying it for each block would take quadratic time."""
    while len(table) > size:
        table.popitem()


class Available(NamedTuple):
    """The sizes of the writer's tables and of its log of writes at a point; they determine what is available there."""

    values: int
    results: int
    writes: int


class Path(NamedTuple):
    """An edge into a block: the label of the predecessor, and the index of the line that ends it.

    held: contents of the words written since the target was created, {} if no word is read in or after the target.
    computes: the predecessor ends in an unconditional jump, writes a word, and otherwise has only pure instructions.
    """

    block: str
    line: int
    held: dict[Word, Held]
    computes: bool


#: a pending phi: the word, the type, the incoming paths (more may be added), the word's contents on paths that don't
#: write it, and whether it could become a select
_Phi = tuple[Word, str, list[Path], Held, bool]


@dataclass(slots=True, eq=False)
class Join:
    """A basic block that branches may target.

    available: the values available where the `Join` was created. is_last: no word is read in it or after it.
    """

    label: str
    available: Available
    is_last: bool = False
    paths: list[Path] = field(default_factory=list)


class Writer:
    """Writes a function's basic blocks one by one: `jump`, `branch` or `leave` ends one, and `start` opens the next."""

    def __init__(self, lines: LineTable) -> None:
        self.line_table = lines
        self.body: list[str] = []
        self.entry: list[str] = []
        self.declarations: dict[str, None] = {}
        self.block = "entry"
        self.open = True
        #: True if LLVM could fold a branch on a constant or on another branch's condition, or replace by selects a
        #: block that only computes words which are read later. Final after `lines`.
        self.foldable = False
        #: True if all instructions of the current block so far are pure
        self._computes = True
        #: the block to which a thread branches at its end, or None for a plain return
        self.exit: Join | None = None
        #: id of a pure expression -> its value
        self.results: dict[int, LLVMValue] = {}
        self._names = 0
        self._location = ""
        #: instruction text -> name of its result
        self._values: dict[str, str] = {}
        #: the contents of words; the log of writes, each a word and its previous contents
        self._held: dict[Word, Held] = {}
        self._writes: list[tuple[Word, Held | None]] = []
        #: the index of the first line after the block's label, and the number of writes up to the end of its phis
        self._begin = self._writes_before = 0
        #: pending phis by name (% and the index of the reserved line); the names of the phis that are read
        self._phis: dict[str, _Phi] = {}
        self._read: dict[str, None] = {}
        self._conditions: set[str] = set()
        #: for the last line that clears named registers: the index of the line after it, its location, and its PTX
        self._zeros = -1, "", ""

    def lines(self) -> list[str]:
        self._write_phis()
        # empty lines were reserved for phis that are never read
        return list(filter(None, self.body))

    def _write_phis(self) -> None:
        """Emit the phis that are read, directly or through other phis, in their reserved lines."""
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
        name = "%" + self.label("c")
        self.body[path.line] = f"  {name} = bitcast {kind} {value} to {to}\n{self.body[path.line]}"
        return name

    def at(self, span: Span | None) -> str:
        """Set the location of the next instructions, unless `span` is None, and return the previous one."""
        before = self._location
        if span is not None:
            self._location = self.line_table.attachment(span)
        return before

    def restore(self, location: str) -> None:
        self._location = location

    def value(self, text: str, pure: bool = False) -> str:
        """Emit an instruction, unless an equal one is available, and return its result.

        pure: the instruction has no side effects and its text determines its value, as for the opcodes in `_PURE`.
        """
        name = self._values.get(text)
        if name is not None:
            return name
        # `fresh`, inlined, which halves the number of calls
        name = f"%{len(self.body)}"
        self.body.append(f"  {name} = {text}{self._location}")
        if pure or text[: text.find(" ")] in _PURE:
            self._values[text] = name
        else:
            self._computes = False
        return name

    def fresh(self, text: str) -> str:
        """Emit an instruction, even if an equal one is available, and return its result.

        Results are numbered instead of named: with names, LLVM takes a quarter longer to parse the IR.
        """
        self._computes = False
        name = f"%{len(self.body)}"
        self.body.append(f"  {name} = {text}{self._location}")
        return name

    def effect(self, text: str) -> None:
        self._computes = False
        self.body.append(f"  {text}{self._location}")

    def intrinsic(self, result: str, name: str, *arguments: tuple[str, str]) -> str:
        """Emit a call of an LLVM intrinsic or external function, declare it, and return the result.

        An available result of an equal call of an intrinsic is reused. arguments: (type, value) pairs.
        """
        text, declaration = called(result, name, arguments)
        self.declarations[declaration] = None
        return self.value(text, pure=name.startswith("llvm."))

    def call(self, result: str, name: str, *arguments: tuple[str, str]) -> str:
        """Emit a call of a pure function of the module, unless an equal one is available, and return its result."""
        text, _ = called(result, name, arguments)
        value = self._values.get(text)
        if value is None:
            value = self._values[text] = self.fresh(text)
        return value

    def set_result(self, text: str, value: str) -> None:
        """Record the result of the instruction `text`, so that `self.value` returns it instead of emitting `text`."""
        self._values.setdefault(text, value)

    def bitcast(self, kind: str, value: str, to: str) -> str:
        """Emit a bitcast, unless the types are equal, and return its result. A later bitcast back returns `value`."""
        if kind == to:
            return value
        result = self.value(f"bitcast {kind} {value} to {to}")
        self._values.setdefault(f"bitcast {to} {result} to {kind}", value)
        return result

    def extended(self, opcode: str, kind: str, value: str, to: str) -> str:
        """Emit the extension of an integer and return its result. A later truncation back to `kind` returns `value`."""
        result = self.value(f"{opcode} {kind} {value} to {to}")
        self._values.setdefault(f"trunc {to} {result} to {kind}", value)
        return result

    def inserted(self, parts: str, vector: str, count: int, element: tuple[str, str], at: int) -> str:
        """Insert a (type, value) pair at index `at` of `count`. Later extractions from the result use known values."""
        kind, value = element
        result = self.value(f"insertelement {parts} {vector}, {kind} {value}, i32 {at}")
        for place in range(count):
            part = value if place == at else self._values.get(f"extractelement {parts} {vector}, i32 {place}")
            if part is not None:
                self._values.setdefault(f"extractelement {parts} {result}, i32 {place}", part)
        return result

    def read(self, word: Word, kind: str) -> str:
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
        if word.name:
            self._move(word, value if kind == word.kind else self.bitcast(kind, value, word.kind))
            return
        held = self._held
        self._writes.append((word, held.get(word)))
        held[word] = kind, value, self._location

    def write_all(self, words: Sequence[Word], kind: str, values: Sequence[str]) -> None:
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
        """Emit a write of a named register; consecutive writes of zero at one source location become one call."""
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
        self._names += 1
        name = f"%a{self._names}"
        self.entry.append(f"  {name} = alloca {kind}, align {align}")
        return name

    def label(self, hint: str) -> str:
        self._names += 1
        return f"{hint}{self._names}"

    def join(self, hint: str, is_last: bool = False) -> Join:
        """Return a new block, to be started later, that the current point dominates."""
        return Join(self.label(hint), Available(len(self._values), len(self.results), len(self._writes)), is_last)

    def jump(self, target: Join) -> None:
        if self.open:
            self._add_path(target, self._computes and len(self._writes) > self._writes_before)
            self.effect(f"br label %{target.label}")
            self.open = False

    def branch(self, condition: str, then: Join, orelse: Join) -> None:
        is_short = len(self.body) - self._begin <= _MOST_TWICE
        if not condition.startswith("%") or is_short and condition in self._conditions:
            self.foldable = True
        self._conditions.add(condition)
        self._add_path(then)
        self._add_path(orelse)
        self.effect(f"br i1 {condition}, label %{then.label}, label %{orelse.label}")
        self.open = False

    def leave(self) -> None:
        """End the block with a return or a branch to `exit`, which receives no contents because it reads no word."""
        if not self.open:
            return
        if self.exit is None:
            self.effect("ret void")
        else:
            self.exit.paths.append(Path(self.block, len(self.body), {}, computes=False))
            self.effect(f"br label %{self.exit.label}")
        self.open = False

    def _add_path(self, target: Join, computes: bool = False) -> None:
        now, held = self._held, dict[Word, Held]()
        if not target.is_last:
            for word, _ in self._writes[target.available.writes :]:
                held[word] = now[word]
        target.paths.append(Path(self.block, len(self.body), held, computes))

    def start(self, join: Join, changing: Sequence[Word] = ()) -> None:
        """Open a block, unless it has no incoming edges; the previous block must have ended.

        All incoming edges except back edges must be known. changing: for a loop's first block, the words that the loop
        may write; apart from its back edges, such a block has one incoming edge.
        """
        if not join.paths:
            return
        self._open(join)
        first, *others = join.paths
        if others:
            self._hold(self._merged(join.paths))
        else:
            for word, held in first.held.items():
                self._writes.append((word, self._held.get(word)))
                self._held[word] = held
        if changing:
            before = self._held
            self._hold([(word, word.kind, join.paths, before.get(word, UNWRITTEN), False) for word in changing])
        self._writes_before = len(self._writes)

    def continue_at(self, join: Join) -> None:
        """Jump to a block and open it here, or stay in the current block if no branch targets `join`."""
        if join.paths:
            self.jump(join)
            self.start(join)

    def _open(self, join: Join) -> None:
        self.body.append(f"{join.label}:")
        self._begin = len(self.body)
        self.block = join.label
        self.open = self._computes = True
        available = join.available
        _cut(self._values, available.values)
        _cut(self.results, available.results)
        undone = self._writes[available.writes :]
        del self._writes[available.writes :]
        for word, held in reversed(undone):
            if held is None:
                del self._held[word]
            else:
                self._held[word] = held

    def _merged(self, paths: list[Path]) -> list[_Phi]:
        """Return phis for words that differ between paths; set the other written words to their common contents."""
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
        held, first = self._held, len(self.body)
        self.body += [""] * len(phis)
        for number, phi in enumerate(phis, first):
            word, name = phi[0], f"%{number}"
            self._phis[name] = phi
            self._writes.append((word, held.get(word)))
            held[word] = phi[1], name, ""
