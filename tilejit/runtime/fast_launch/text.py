"""The source of a generated launcher, assembled from the parts of its arguments, and its compilation.

A function is generated at the second launch of a variant, so the first launch of a process doesn't import this module.
"""

from __future__ import annotations

import linecache
import os
import struct
import weakref
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import chain, combinations, count
from typing import Any, NamedTuple

from ...errors import entry_point
from ...executable.files import check_names
from ...frontend import Parameter
from ...frontend.containers import is_inside, parameter_of
from .. import devices
from ..captured import MISSING, CapturedPlaces
from ..grid import stream_handle
from ..signature import overlaps
from . import memory
from .generated import ABSENT, Choosing, GeneratedLauncher, GivenType, GivenTypes
from .parts import CHOSEN, ArrayPart, Part, ValuePart

#: with more arrays than this, one call finds the overlaps, because the number of pairs grows quadratically
_MOST_IN_PAIRS = 4

#: in bytes; disjoint arrays with this alignment need no second lookup
ALIGN = 32

#: names of an entry's items after the bounds of pairs
ENTRY = ("device", "launch", "handle", "dynamic_bytes", "streams", "pack", "pop", "push", "new", "check")

#: items before `ENTRY` if the launcher chooses: the chosen number of threads, and the chosen values of parameters
CHOICE = ("threads", "picked")


class LauncherText(NamedTuple):
    """A description of a generated launcher, which `render` translates to source."""

    #: the function's index among its kernel's generated functions
    number: int
    parameters: Sequence[Parameter]
    #: the parameters and the items of containers, whose names are expressions; one per part
    leaves: Sequence[Parameter]
    parts: Sequence[Part]
    positional: int
    named: frozenset[str]
    #: names of captured values that are looked up in namespaces
    captured: Sequence[str]
    #: the number of closure cells that are read
    cells: int
    #: True to try torch's guards first, and compute the key only if they fail or another item of the key differs
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
        """Pairs of indices of arrays whose overlap is tested inline; empty if one call finds all overlaps."""
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
        return [p.name for p, part in zip(self.leaves, self.parts, strict=True) if part is CHOSEN]

    @property
    def given(self) -> list[Parameter]:
        return [p for p in self.parameters if p.name not in self.picked]

    def _missed(self, key: str = "None") -> str:
        return f"return @self.missed({self.number}, {self.values}, {key})"

    def _head(self) -> Iterator[str]:
        # the signature accepts duplicate and missing arguments, because the slow path reports them
        by_position = [p.name for p in self.given[: self.positional]]
        by_name = [p.name for p in self.parameters if p.name in self.named]
        given, names = ([f"{name}=@absent" for name in part] for part in (by_position, by_name))
        yield f"def launch({', '.join(['@self', *given, '/', '*@more', *names, '**@named'])}):"
        left_out = {i: p for i, p in enumerate(self.parameters) if p.name not in (*by_position, *by_name)}
        types = list(self._types({p.name for p in left_out.values()}))
        args = f"({''.join(f'{name}, ' for name in by_position)}*@more,)"
        named = f"{{{''.join(f'{name!r}: {name}, ' for name in by_name)}**@named}}"
        yield from _where([*types, "@more", "@named"], f"return @self.other({args}, {named})")
        yield from (f"    {p.name} = @default{i}" for i, p in left_out.items())
        state = [f"@v{n}" for n in range(len(self.captured) + self.cells)]
        state += ["@table", "@last"] if self.is_guarded else ["@table"]
        yield f"    {', '.join(state)}, = @self.states[{self.number}]"

    def _types(self, left_out: Container[str]) -> Iterator[str]:
        """Yield a test of each argument's type, before those of its items, except for parameters that are left out."""
        for i, (p, part) in enumerate(zip(self.leaves, self.parts, strict=True)):
            if parameter_of(p.name) in left_out:
                continue
            yield f"@type({p.name}) is not @type{i}"
            if isinstance(part, ValuePart) and part.length is not None:
                yield f"@len({p.name}) != {part.length}"

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
        others += chain.from_iterable(p.key for p in self.parts if isinstance(p, ValuePart))
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
            names = ", ".join(self.leaves[i].name for i, _ in self.arrays)
            yield f"        @others = ({', '.join(others)})"
            yield f"        if not @check({names}) or @others != @before:"
            # the slow path is called outside the `try`, because its errors must not start it again
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
        """Yield code that unpacks the entry, and replaces it if arrays overlap, aren't aligned or have no memory."""
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
        numbers = [part.packed for part in self.parts if isinstance(part, ValuePart) and part.packed]
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
            f"    return @self.failed({self.values}, (@x, @y, @z))",
        ])  # fmt: skip


def _indented(levels: int, lines: Iterable[str]) -> Iterator[str]:
    return ("    " * levels + line for line in lines)


def _where(tests: Sequence[str], statement: str, levels: int = 1) -> Iterator[str]:
    if len(tests) == 1:
        yield from _indented(levels, [f"if {tests[0]}:", f"    {statement}"])
    elif tests:
        rest = (f"    or {test}" for test in tests[1:])
        yield from _indented(levels, ["if (", f"    {tests[0]}", *rest, "):", f"    {statement}"])


#: for each array, the offsets in bytes from its address to its lowest byte and to its end
Bounds = tuple[tuple[int, int], ...]


def overlapping_pairs(pointers: Sequence[int], bounds: Bounds) -> tuple[tuple[int, int], ...]:
    """Return the pairs of indices of arrays that overlap."""
    # empty arrays overlap nothing
    return overlaps(
        [(p + low, p + high, i) for i, (p, (low, high)) in enumerate(zip(pointers, bounds, strict=True)) if high]
    )


_FOLDER = os.path.join(os.path.dirname(__file__), "")
_files = count(1)

#: values of names in the generated source, except those that differ between launchers
_NAMES: dict[str, Any] = {
    "absent": ABSENT,
    "missing": MISSING,
    "len": len,
    "type": type,
    "Exception": Exception,
    "IndexError": IndexError,
    "ValueError": ValueError,
    "chosen": devices.chosen,
    "is_simulator": devices.is_simulator,
    "overlapping_pairs": overlapping_pairs,
    "stream_handle": entry_point(stream_handle),
    # errors of packing a number that is outside the range of its type
    "out_of_range": (struct.error, OverflowError),
}


def generate(
    number: int, kernel: str, parameters: Sequence[Parameter], leaves: Sequence[Parameter], parts: Sequence[Part],
    given: GivenTypes, places: CapturedPlaces, choosing: Choosing | None = None,
) -> GeneratedLauncher:
    """Return a generated launcher. number: its index. kernel: the kernel's name. given: types of the arguments."""
    is_guarded = memory.has_guards() and all(p.is_guarded for p in parts if isinstance(p, ArrayPart))
    captured, by_name = [name for _, name in places.names], frozenset(name for name, _ in given[1])
    text = LauncherText(
        number, parameters, leaves, parts, len(given[0]), by_name, captured, len(places.cells), is_guarded,
        chooses=choosing is not None,
    )
    return GeneratedLauncher(text, places, _compiled(text, kernel, _names(text, given, places, choosing)))


def _compiled(text: LauncherText, kernel: str, names: dict[str, Any]) -> Callable[..., None]:
    source, file = text.render(), f"{_FOLDER}<{kernel} {next(_files)}>"
    namespace = {text.prefix + name: value for name, value in names.items()}
    exec(compile(source, file, "exec"), namespace)
    launch: Callable[..., None] = namespace["launch"]
    # tracebacks show the source while the function exists
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    weakref.finalize(launch, linecache.cache.pop, file, None).atexit = False
    return launch


def _flat(given: GivenType) -> Iterator[type]:
    if isinstance(given, type):
        yield given
    else:
        yield from chain.from_iterable(map(_flat, given))


def _names(text: LauncherText, given: GivenTypes, places: CapturedPlaces, choosing: Choosing | None) -> dict[str, Any]:
    given_types = {**dict(zip((p.name for p in text.given), given[0], strict=False)), **dict(given[1])}
    types: dict[str, type] = {}
    for name, kind in given_types.items():
        types |= zip([p.name for p in text.leaves if is_inside(p.name, name)], _flat(kind), strict=False)
    names = dict(_NAMES)
    if choosing is not None:
        names["extra_key"] = choosing.extra_key
    names |= {f"type{i}": types.get(p.name) for i, p in enumerate(text.leaves)}
    names |= {f"default{i}": p.default for i, p in enumerate(text.parameters)}
    names |= {f"get{n}": namespace.get for n, (namespace, _) in enumerate(places.names)}
    names |= {f"cell{n}": cell for n, cell in enumerate(places.cells)}
    names |= text.arrays[0][1].stream.names
    for part in text.parts:
        names |= part.names if isinstance(part, ValuePart) else {}
    return names
