"""Names that hold different buffers on different paths: they can be read until one of the buffers is written.

Local tiles are copied into a slot (see `slots`) on each path. A copy is equivalent to Python's reference until the
original is written, so a later read of the copy is an error. The same rule applies to regions of shared or global
memory, which become a buffer phi (see `places`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..dataclass import dataclass
from ..errors import KernelTypeError
from ..ir import walk
from ..ir.analyses.flow import Analysis, solve
from ..ir.nodes import Assign, Buffer, Const, Declare, For, Jump, Kernel, Let, Loop, Simple, Stmt, TileOp, Var
from ..ops.copies import CAST
from ..source import Span

ONE_BUFFER = "use one buffer with a stage dimension, as in s[k % 2], or tj.static_range"
REMEDY = f"{ONE_BUFFER}, or another name"


@dataclass(frozen=True, slots=True)
class BufferChoice:
    """A slot into which buffers are copied, or a phi."""

    name: str
    #: the name of each buffer, and the location of its allocation
    sources: tuple[tuple[str, Span | None], ...]
    is_phi: bool = False

    def __str__(self) -> str:
        listed = [f"{name} (line {span.line})" if span else name for name, span in self.sources]
        return f"{self.name} is {' on one path, '.join(listed)} on {'another' if len(listed) > 1 else 'one path only'}"


#: (slot, buffer): the slot holds a copy of the buffer, or is a phi that may refer to the buffer
_Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Choices:
    holds: frozenset[_Pair] = frozenset()
    #: (slot, buffer, line): the line wrote the buffer after the slot was assigned
    stale: frozenset[tuple[str, str, int]] = frozenset()


def check(
    kernel: Kernel, buffer_choices: Mapping[str, BufferChoice], allocated_in: Mapping[str, tuple[Span, ...]],
    alternatives: Sequence[Buffer],
) -> None:
    """Raise KernelTypeError for a read of a slot or phi that was assigned before one of its buffers was last written.

    Copies into other slots aren't errors, but a read of the other slot is one.

    buffer_choices: the slots and phis, by buffer name. alternatives: the buffers that phis refer to by index.
    allocated_in: the locations of the loops around each allocation, by buffer name.
    """
    if not buffer_choices:
        return
    states = solve(_Copies(buffer_choices, allocated_in, alternatives), kernel.body, _Choices())
    for stmt, state in zip(walk.statements(kernel.body), states, strict=True):
        if state is None or not state.stale or _target(stmt, buffer_choices) is not None:
            continue
        for place in walk.reads(stmt):
            stale = sorted(entry for entry in state.stale if entry[0] == place.buffer.root.name)
            if not stale:
                continue
            slot, buffer, line = stale[0]
            choice = buffer_choices[slot]
            raise KernelTypeError(
                f"{choice}, and line {line} writes {buffer} before {choice.name} is read here: a name that differs "
                "between paths can be read only until one of its buffers is written",
                span=place.span or stmt.span, hint=REMEDY,
            )


def _target(stmt: Stmt, buffer_choices: Mapping[str, BufferChoice]) -> str | None:
    """Return the name of the slot into which the statement copies a tile; None for any other statement."""
    if not isinstance(stmt, TileOp) or stmt.name != CAST.name:
        return None
    name = stmt.region("dst").buffer.root.name
    return name if name in buffer_choices else None


@dataclass(frozen=True, slots=True)
class _Copies(Analysis[_Choices]):
    buffer_choices: Mapping[str, BufferChoice]
    allocated_in: Mapping[str, tuple[Span, ...]]
    alternatives: Sequence[Buffer]

    def join(self, first: _Choices, second: _Choices) -> _Choices:
        return _Choices(first.holds | second.holds, first.stale | second.stale)

    def step(self, stmt: Simple | Jump, state: _Choices) -> _Choices:
        slot = _target(stmt, self.buffer_choices)
        if slot is not None:
            assert isinstance(stmt, TileOp)
            source = stmt.region("src").buffer.root.name
            return _given(state, slot, source, is_new=source in self.allocated_in)
        match stmt:
            case Declare(var, Const() as number) | Assign(var, Const() as number) if self.is_phi(var):
                return _given(state, var.name, self.alternatives[int(number.value)].root.name, is_new=True)
            case Declare(var, Var() as other) | Assign(var, Var() as other) | Let(var, Var() as other):
                return _given(state, var.name, other.name, is_new=False)
        written = {place.buffer.root.name for place in walk.writes(stmt)}
        line = stmt.span.line if stmt.span is not None else 0
        stale = {(s, buffer, line) for s, buffer in state.holds if buffer in written}
        return _Choices(state.holds, state.stale | stale) if stale else state

    def is_phi(self, var: Var) -> bool:
        return var.name in self.buffer_choices and self.buffer_choices[var.name].is_phi

    def is_copy(self, slot: str) -> bool:
        return slot in self.buffer_choices and not self.buffer_choices[slot].is_phi

    def repeat(self, loop: For | Loop, head: _Choices, ends: _Choices) -> _Choices:
        # each iteration allocates a new buffer, whose writes leave copies of the old one valid; phis aren't copies
        holds = {
            (slot, buffer) for slot, buffer in ends.holds
            if not self.is_copy(slot) or loop.span not in self.allocated_in.get(buffer, ())
        }
        return _Choices(frozenset(holds), ends.stale)


def _given(state: _Choices, slot: str, source: str, *, is_new: bool) -> _Choices:
    """Return the state after an assignment to a slot or variable. is_new: True if `source` is itself a buffer."""
    holds = {pair for pair in state.holds if pair[0] != slot}
    stale = {entry for entry in state.stale if entry[0] != slot}
    if is_new:
        holds.add((slot, source))
    holds |= {(slot, buffer) for s, buffer in state.holds if s == source}
    stale |= {(slot, buffer, line) for s, buffer, line in state.stale if s == source}
    return _Choices(frozenset(holds), frozenset(stale))
