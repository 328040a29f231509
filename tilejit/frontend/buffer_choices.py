"""Names that hold a buffer on one path and another on the other: they can be read, until somebody writes a buffer.

Where two local tiles meet in one name, it is a slot of its own (see `slots`), into which each path copies its tile.
That shows what Python would show until somebody writes the buffer that was copied; a read after that is refused. Where
regions of shared or global memory meet, it is an either (see `places`), of which the language says the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..dataclass import dataclass
from ..errors import KernelTypeError
from ..ir import walk
from ..ir.analyses.flow import Analysis, solve
from ..ir.nodes import Assign, Buffer, Const, Declare, For, Jump, Kernel, Let, Loop, Simple, Stmt, TileOp, Var
from ..ir.walk import Place
from ..ops.copies import CAST
from ..source import Span

__all__ = ["ONE_BUFFER", "REMEDY", "BufferChoice", "check"]

ONE_BUFFER = "use one buffer with a stage dimension, as in s[k % 2], or tj.static_range"
REMEDY = f"{ONE_BUFFER}, or another name"


@dataclass(frozen=True, slots=True)
class BufferChoice:
    """A slot into which a buffer is copied, or an either.

    name: of the variable. sources: the buffers, with where each is made.
    """

    name: str
    sources: tuple[tuple[str, Span | None], ...]
    is_either: bool = False

    def __str__(self) -> str:
        made = [f"{name} of line {span.line}" if span else name for name, span in self.sources]
        return f"{self.name} is {' on one path, '.join(made)} on {'another' if len(made) > 1 else 'one path only'}"


#: (slot, buffer): the slot stands for the buffer
_Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Choices:
    """stands: which slots stand for which buffers. stale: (slot, buffer, line) of those that were written since."""

    stands: frozenset[_Pair] = frozenset()
    stale: frozenset[tuple[str, str, int]] = frozenset()


def check(
    kernel: Kernel,
    stand_ins: Mapping[str, BufferChoice],
    made_in: Mapping[str, tuple[Span, ...]],
    alternatives: Sequence[Buffer],
) -> None:
    """Refuse reads of slots that stand for a buffer which has been written since the slot was given it.

    stand_ins: the slots, by their buffers' names. made_in: the buffers that the kernel's text makes, each with the
    loops around it: each turn of these makes a new one. alternatives: the buffers of eithers, by number.
    raises: KernelTypeError.
    """
    if not stand_ins:
        return
    states = solve(_Copies(stand_ins, made_in, alternatives), kernel.body, _Choices())
    for stmt, state in zip(walk.statements(kernel.body), states, strict=True):
        if state is None or not state.stale or _target(stmt, stand_ins) is not None:
            continue
        for place, buffer, line in _stale_reads(stmt, state):
            stand_in = stand_ins[place.buffer.root.name]
            raise KernelTypeError(
                f"{stand_in}, and line {line} writes {buffer} before {stand_in.name} is read here: "
                "a name that differs between paths can be read only until then",
                span=place.span or stmt.span, hint=REMEDY,
            )


def _stale_reads(stmt: Stmt, state: _Choices) -> Iterator[tuple[Place, str, int]]:
    for place in walk.reads(stmt):
        for slot, buffer, line in sorted(state.stale):
            if slot == place.buffer.root.name:
                yield place, buffer, line


def _target(stmt: Stmt, stand_ins: Mapping[str, BufferChoice]) -> str | None:
    """The slot into which a statement copies a tile: nothing else writes slots."""
    if not isinstance(stmt, TileOp) or stmt.name != CAST.name:
        return None
    name = stmt.region("dst").buffer.root.name
    return name if name in stand_ins else None


@dataclass(frozen=True, slots=True)
class _Copies(Analysis[_Choices]):
    stand_ins: Mapping[str, BufferChoice]
    made_in: Mapping[str, tuple[Span, ...]]
    alternatives: Sequence[Buffer]

    def join(self, first: _Choices, second: _Choices) -> _Choices:
        return _Choices(first.stands | second.stands, first.stale | second.stale)

    def step(self, stmt: Simple | Jump, state: _Choices) -> _Choices:
        slot = _target(stmt, self.stand_ins)
        if slot is not None:
            assert isinstance(stmt, TileOp)
            source = stmt.region("src").buffer.root.name
            return _given(state, slot, source, is_new=source in self.made_in)
        match stmt:
            case Declare(var, Const() as number) | Assign(var, Const() as number) if self.is_either(var):
                return _given(state, var.name, self.alternatives[int(number.value)].root.name, is_new=True)
            case Declare(var, Var() as other) | Assign(var, Var() as other) | Let(var, Var() as other):
                return _given(state, var.name, other.name, is_new=False)
        written = {place.buffer.root.name for place in walk.writes(stmt)}
        line = stmt.span.line if stmt.span is not None else 0
        stale = {(s, buffer, line) for s, buffer in state.stands if buffer in written}
        return _Choices(state.stands, state.stale | stale) if stale else state

    def is_either(self, var: Var) -> bool:
        return var.name in self.stand_ins and self.stand_ins[var.name].is_either

    def is_copy(self, slot: str) -> bool:
        return slot in self.stand_ins and not self.stand_ins[slot].is_either

    def repeat(self, loop: For | Loop, head: _Choices, ends: _Choices) -> _Choices:
        # a copy is of the last turn's buffer; an either stands for whatever the buffer is
        stands = {
            (slot, buffer) for slot, buffer in ends.stands
            if not self.is_copy(slot) or loop.span not in self.made_in.get(buffer, ())
        }
        return _Choices(frozenset(stands), ends.stale)


def _given(state: _Choices, slot: str, source: str, *, is_new: bool) -> _Choices:
    """A slot is given another buffer: what it stood for before is over; it stands for what its source does.

    is_new: the source is a buffer itself.
    """
    stands = {pair for pair in state.stands if pair[0] != slot}
    stale = {entry for entry in state.stale if entry[0] != slot}
    if is_new:
        stands.add((slot, source))
    stands |= {(slot, buffer) for s, buffer in state.stands if s == source}
    stale |= {(slot, buffer, line) for s, buffer, line in state.stale if s == source}
    return _Choices(frozenset(stands), frozenset(stale))
