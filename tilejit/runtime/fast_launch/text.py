"""The source of a generated launcher, assembled from the parts of its arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, combinations
from typing import NamedTuple

from ...executable.signatures import check_names
from ...frontend import Parameter
from .parts import ArrayPart, ChosenPart, ConstexprPart, Part, ScalarPart

#: with more arrays than this, one call finds the overlaps, because the number of pairs grows quadratically
_MOST_IN_PAIRS = 4

#: in bytes; disjoint arrays with this alignment need no second lookup
ALIGN = 32

#: items of an entry after the bounds of pairs
ENTRY = ("device", "launch", "handle", "dynamic_bytes", "streams", "pack", "pop", "push", "new", "check")

#: items before `ENTRY` if the launcher chooses: the threads, and the values of parameters
CHOICE = ("threads", "picked")


class LauncherText(NamedTuple):
    """A description of a generated launcher, which `render` translates to source."""

    #: the function's index among its kernel's generated functions
    number: int
    parameters: Sequence[Parameter]
    parts: Sequence[Part]
    positional: int
    named: frozenset[str]
    #: names that are looked up in namespaces
    captured: Sequence[str]
    #: the number of closure cells that are read
    cells: int
    #: True to try torch's guards first, and compute the key only if they fail
    is_guarded: bool
    #: True if the launcher chooses threads and values of parameters
    chooses: bool = False

    def render(self) -> str:
        """Return the function's source; raise LaunchError for parameter names that can't be used in it."""
        check_names([p.name for p in self.parameters])
        lines = chain(self._head(), self._captured(), self._lookup(), self._exact_lookup(), self._launch())
        return "\n".join(lines).replace("@", self.prefix) + "\n"

    @property
    def prefix(self) -> str:
        """The prefix of the function's own names, with which no parameter's name begins."""
        prefix = "_"
        while any(p.name.startswith(prefix) for p in self.parameters):
            prefix += "_"
        return prefix

    @property
    def arrays(self) -> list[tuple[int, ArrayPart]]:
        return [(i, part) for i, part in enumerate(self.parts) if isinstance(part, ArrayPart)]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The indices of arrays whose distances are compared inline; empty if one call finds all overlaps."""
        if len(self.arrays) > _MOST_IN_PAIRS:
            return []
        return list(combinations([i for i, _ in self.arrays], 2))

    @property
    def values(self) -> str:
        return f"({', '.join(p.name for p in self.parameters)},)"

    @property
    def entry(self) -> tuple[str, ...]:
        return (*CHOICE, *ENTRY) if self.chooses else ENTRY

    @property
    def picked(self) -> list[str]:
        return [p.name for p, part in zip(self.parameters, self.parts, strict=True) if isinstance(part, ChosenPart)]

    @property
    def given(self) -> list[Parameter]:
        return [p for p, part in zip(self.parameters, self.parts, strict=True) if not isinstance(part, ChosenPart)]

    def _missed(self, key: str = "None") -> str:
        return f"return @self.missed({self.number}, {self.values}, {key})"

    def _head(self) -> Iterator[str]:
        # the signature accepts duplicate and missing arguments, because the slow path reports them
        by_position = [p.name for p in self.given[: self.positional]]
        by_name = [p.name for p in self.parameters if p.name in self.named]
        given, names = ([f"{name}=@absent" for name in part] for part in (by_position, by_name))
        yield f"def launch({', '.join(['@self', *given, '/', '*@more', *names, '**@named'])}):"
        left_out = {i: p for i, p in enumerate(self.parameters) if p.name not in (*by_position, *by_name)}
        types = [f"@type({p.name}) is not @type{i}" for i, p in enumerate(self.parameters) if i not in left_out]
        args = f"({''.join(f'{name}, ' for name in by_position)}*@more,)"
        named = f"{{{''.join(f'{name!r}: {name}, ' for name in by_name)}**@named}}"
        yield from _where([*types, "@more", "@named"], f"return @self.other({args}, {named})")
        yield from (f"    {p.name} = @default{i}" for i, p in left_out.items())
        count = len(self.captured) + self.cells
        state = [*(f"@v{n}" for n in range(count)), "@table", *(["@last"] if self.is_guarded else [])]
        yield f"    {', '.join(state)}, = @self.states[{self.number}]"

    def _captured(self) -> Iterator[str]:
        tests = [f"@get{n}({name!r}, @missing) is not @v{n}" for n, name in enumerate(self.captured)]
        tests += [f"@cell{n}.cell_contents is not @v{len(self.captured) + n}" for n in range(self.cells)]
        if self.cells:
            # reading an empty cell raises ValueError
            yield "    try:"
            yield f"        @is_changed = {' or '.join(tests)}"
            yield "    except @ValueError:"
            yield "        @is_changed = True"
            tests = ["@is_changed"]
        yield "    @place = @chosen()"
        yield from _where([*tests, "@place is not None and @is_simulator(@place)"], self._missed())

    def _lookup(self) -> Iterator[str]:
        others = ["@self.threads", *(["@extra_key()"] if self.chooses else [])]
        others += chain.from_iterable(p.key for p in self.parts if isinstance(p, (ScalarPart, ConstexprPart)))
        key = f"({', '.join([*chain.from_iterable(part.key for _, part in self.arrays), *others])},)"
        lookup = [f"@key = {key}", "@entry = @table.get(@key)"]
        is_foreign = [part.unless for _, part in self.arrays if part.unless]
        if self.is_guarded:
            yield "    @check, @before, @key, @entry = @last[0]"
        else:
            yield from _where(is_foreign, self._missed())
        yield "    try:"
        for i, part in self.arrays:
            yield from _indented(2, [*part.statements, f"@p{i} = {part.pointer}"])
        if self.is_guarded:
            names = ", ".join(self.parameters[i].name for i, _ in self.arrays)
            yield f"        @others = ({', '.join(others)})"
            yield f"        if not @check({names}) or @others != @before:"
            # the slow path is called outside the `try`, because its errors must not start it twice
            yield from _where(is_foreign, "@key = @entry = None", 3)
            yield "            else:"
            yield from _indented(4, [*lookup, "if @entry is not None:"])
            yield "                    @last[0] = (@entry[-1], @others, @key, @entry)"
        else:
            yield from _indented(2, lookup)
        # the slow path raises the error again, or succeeds
        yield "    except @Exception:"
        yield "        @key = @entry = None"
        yield from _where(["@entry is None"], self._missed("@key"))

    def _exact_lookup(self) -> Iterator[str]:
        """Yield a second lookup, needed if arrays overlap, are aligned to less than 32 bytes, or have no memory."""
        pointers = [f"@p{i}" for i, _ in self.arrays]
        every = f"({', '.join(pointers)},)"
        bounds = [name for a, b in self.pairs for name in (f"@least{a}_{b}", f"@most{a}_{b}")]
        entry = f"    {', '.join(['@is_special', '@bounds', *bounds, *(f'@{name}' for name in self.entry)])} = @entry"
        overlaps = [f"@least{a}_{b} < @p{b} - @p{a} < @most{a}_{b}" for a, b in self.pairs]
        # -1 for null: only empty arrays may have no memory
        residues = [f"{p} & {ALIGN - 1} if {p} else -1" for p in pointers]
        if len(pointers) > _MOST_IN_PAIRS:
            overlaps = [f"@overlapping_pairs({every}, @bounds)"]
        yield entry
        yield from _where(
            [f"({' | '.join(pointers)}) & {ALIGN - 1}", f"not ({' and '.join(pointers)})", "@is_special", *overlaps],
            f"@entry = @table.get((@key, {', '.join([*residues, *overlaps])}))",
        )
        yield from _where(["@entry is None"], self._missed("@key"), 2)
        yield "    " + entry
        if self.picked:
            yield f"    {', '.join(self.picked)}, = @picked"

    def _launch(self) -> Iterator[str]:
        stream, threads = self.arrays[0][1].stream, "@threads" if self.chooses else "@self.threads"
        numbers = [part.packed for part in self.parts if isinstance(part, ScalarPart)]
        packed = ", ".join([*(f"@p{i}" for i, _ in self.arrays), *numbers])
        if stream.unless:
            yield from _where([stream.unless], self._missed())
        yield from _indented(1, [
            "try:",
            "    @slot = @pop()",
            "except @IndexError:",
            "    @slot = @new()",
            "@buffer, @address, @addresses = @slot",
            "try:",
            f"    @pack(@buffer, 0, {packed})",
            "except @out_of_range:",
            "    @address = None",
            "if @address is None:",
            "    @push(@slot)",
            f"    {self._missed()}",
            "@grid = @self.fixed",
            "if @grid is None:",
            f"    @grid = @self.grid_of({self.values})",
            "    if 0 in @grid:",
            "        @push(@slot)",
            f"        {self._missed()}",
            "@x, @y, @z = @grid",
            f"@stream = {stream.handle} if @self.stream is None else @stream_handle(@self.stream)",
            "@error, = @launch(",
            f"    @handle, @x, @y, @z, {threads}, 1, 1, @dynamic_bytes, @streams[@stream], @address, 0",
            ")",
            "@push(@slot)",
            "if @error:",
            f"    return @self.failed({self.number}, {self.values}, (@x, @y, @z))",
        ])  # fmt: skip


def mapped_packer(count: int, of: Sequence[int]) -> str:
    """Return the source of a function that packs `count` values, followed by tensor maps.

    Map i is looked up in the variable `map<i>` by its array's address. The values are named parameters, because passing
    them on by `*` takes three times as long.
    of: for each map, the index of the value that is the address.
    """
    values = [f"v{k}" for k in range(count)]
    maps = [f"map{i}[v{k}]" for i, k in enumerate(of)]
    return f"lambda memory, at, {', '.join(values)}: pack_into(memory, at, {', '.join([*values, *maps])})"


def _indented(levels: int, lines: Iterable[str]) -> Iterator[str]:
    return ("    " * levels + line for line in lines)


def _where(tests: Sequence[str], statement: str, levels: int = 1) -> Iterator[str]:
    if len(tests) == 1:
        yield from _indented(levels, [f"if {tests[0]}:", f"    {statement}"])
    elif tests:
        rest = (f"    or {test}" for test in tests[1:])
        yield from _indented(levels, ["if (", f"    {tests[0]}", *rest, "):", f"    {statement}"])
