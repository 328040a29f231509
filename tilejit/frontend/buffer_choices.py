"""Names that hold different buffers on different paths: they can be read until one of the buffers is written.

Local tiles are copied into a slot (see `slots`) on each path. The copy shows what Python would show until its source is
written; a later read is refused. Regions of shared or global memory become an either (see `places`), to which the same
rule applies.
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
    """A slot into which buffers are copied, or an either."""

    #: the name in the kernel
    name: str
    #: each buffer and the place of its allocation
    sources: tuple[tuple[str, Span | None], ...]
    is_either: bool = False

    def __str__(self) -> str:
        made = [f"{name} of line {span.line}" if span else name for name, span in self.sources]
        return f"{self.name} is {' on one path, '.join(made)} on {'another' if len(made) > 1 else 'one path only'}"


#: (slot, buffer): the slot holds a copy of the buffer, or may be the buffer
_Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Choices:
    stands: frozenset[_Pair] = frozenset()
    #: (slot, buffer, line): line wrote the buffer after it was put into the slot
    stale: frozenset[tuple[str, str, int]] = frozenset()


def check(
    kernel: Kernel,
    stand_ins: Mapping[str, BufferChoice],
    made_in: Mapping[str, tuple[Span, ...]],
    alternatives: Sequence[Buffer],
) -> None:
    """Refuse reads of slots whose buffer has been written since it was put into the slot.

    stand_ins: the slots, by buffer name.
    made_in: the allocations of the kernel, each with the loops around it: every iteration makes a new buffer.
    alternatives: the buffers of eithers, by number.
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
                f"{stand_in}, and line {line} writes {buffer} before {stand_in.name} is read here: a name that differs "
                "between paths can be read only until one of its buffers is written",
                span=place.span or stmt.span, hint=REMEDY,
            )


def _stale_reads(stmt: Stmt, state: _Choices) -> Iterator[tuple[Place, str, int]]:
    for place in walk.reads(stmt):
        for slot, buffer, line in sorted(state.stale):
            if slot == place.buffer.root.name:
                yield place, buffer, line


def _target(stmt: Stmt, stand_ins: Mapping[str, BufferChoice]) -> str | None:
    """Return the slot into which the statement copies a tile; no other statement writes slots."""
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
        # a copy holds the buffer of the last iteration, an either the current one
        stands = {
            (slot, buffer) for slot, buffer in ends.stands
            if not self.is_copy(slot) or loop.span not in self.made_in.get(buffer, ())
        }
        return _Choices(frozenset(stands), ends.stale)


def _given(state: _Choices, slot: str, source: str, *, is_new: bool) -> _Choices:
    """Return the state after a slot is assigned a buffer (`is_new`) or the content of another slot."""
    stands = {pair for pair in state.stands if pair[0] != slot}
    stale = {entry for entry in state.stale if entry[0] != slot}
    if is_new:
        stands.add((slot, source))
    stands |= {(slot, buffer) for s, buffer in state.stands if s == source}
    stale |= {(slot, buffer, line) for s, buffer, line in state.stale if s == source}
    return _Choices(frozenset(stands), frozenset(stale))
