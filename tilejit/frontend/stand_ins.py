"""Names that hold a buffer on one path and another tile on the other: what they show is a copy, good until a write.

Where two local tiles meet in one name, it is a slot of its own (see `slots`), into which each path copies its tile.
That shows what Python would show until somebody writes the buffer that was copied; a read after that is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..errors import KernelTypeError
from ..ir import walk
from ..ir.analyses.flow import Analysis, solve
from ..ir.nodes import For, Jump, Kernel, Loop, Simple, Stmt, TileOp
from ..ir.walk import Place
from ..ops.copies import CAST
from ..source import Span

__all__ = ["REMEDY", "StandIn", "check"]

REMEDY = "use one buffer with a stage dimension, as in s[k % 2], or tj.static_range, or another name"


@dataclass(frozen=True, slots=True)
class StandIn:
    """A slot into which a buffer is copied. name: of the variable. sources: the tiles, with where each is made."""

    name: str
    sources: tuple[tuple[str, Span | None], ...]

    def __str__(self) -> str:
        made = [f"{name} of line {span.line}" if span else name for name, span in self.sources]
        return f"{self.name} is {' on one path, '.join(made)} on {'another' if len(made) > 1 else 'one path only'}"


#: (slot, buffer): the slot stands for the buffer
_Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Standing:
    """stands: which slots stand for which buffers. stale: (slot, buffer, line) of those that were written since."""

    stands: frozenset[_Pair] = frozenset()
    stale: frozenset[tuple[str, str, int]] = frozenset()


def check(kernel: Kernel, stand_ins: Mapping[str, StandIn], made_in: Mapping[str, tuple[Span, ...]]) -> None:
    """Refuse reads of slots that stand for a buffer which has been written since it was copied.

    stand_ins: the slots, by their buffers' names. made_in: the buffers that the kernel's text makes, each with the
    loops around it: each turn of these makes a new one.
    raises: KernelTypeError.
    """
    if not stand_ins:
        return
    states = solve(_Copies(stand_ins, made_in), kernel.body, _Standing())
    for stmt, state in zip(walk.statements(kernel.body), states, strict=True):
        if state is None or not state.stale or _target(stmt, stand_ins) is not None:
            continue
        for place, buffer, line in _stale_reads(stmt, state):
            stand_in = stand_ins[place.buffer.root.name]
            raise KernelTypeError(
                f"{stand_in}, and line {line} writes {buffer} before {stand_in.name} is read here: "
                "a name that differs between paths shows a copy",
                span=place.span or stmt.span, hint=REMEDY,
            )


def _stale_reads(stmt: Stmt, state: _Standing) -> Iterator[tuple[Place, str, int]]:
    for place in walk.reads(stmt):
        for slot, buffer, line in sorted(state.stale):
            if slot == place.buffer.root.name:
                yield place, buffer, line


def _target(stmt: Stmt, stand_ins: Mapping[str, StandIn]) -> str | None:
    """The slot into which a statement copies a tile: nothing else writes slots."""
    if not isinstance(stmt, TileOp) or stmt.name != CAST.name:
        return None
    name = stmt.region("dst").buffer.root.name
    return name if name in stand_ins else None


@dataclass(frozen=True, slots=True)
class _Copies(Analysis[_Standing]):
    stand_ins: Mapping[str, StandIn]
    made_in: Mapping[str, tuple[Span, ...]]

    def join(self, first: _Standing, second: _Standing) -> _Standing:
        return _Standing(first.stands | second.stands, first.stale | second.stale)

    def step(self, stmt: Simple | Jump, state: _Standing) -> _Standing:
        slot = _target(stmt, self.stand_ins)
        if slot is not None:
            assert isinstance(stmt, TileOp)
            return self.copied(slot, stmt.region("src").buffer.root.name, state)
        written = {place.buffer.root.name for place in walk.writes(stmt)}
        line = stmt.span.line if stmt.span is not None else 0
        stale = {(s, buffer, line) for s, buffer in state.stands if buffer in written}
        return _Standing(state.stands, state.stale | stale) if stale else state

    def copied(self, slot: str, source: str, state: _Standing) -> _Standing:
        """A slot is copied to as a whole: what it stood for before is over; it stands for what its source does."""
        stands = {pair for pair in state.stands if pair[0] != slot}
        stale = {entry for entry in state.stale if entry[0] != slot}
        if source in self.made_in:
            stands.add((slot, source))
        stands |= {(slot, buffer) for s, buffer in state.stands if s == source}
        stale |= {(slot, buffer, line) for s, buffer, line in state.stale if s == source}
        return _Standing(frozenset(stands), frozenset(stale))

    def repeat(self, loop: For | Loop, head: _Standing, ends: _Standing) -> _Standing:
        stands = {pair for pair in ends.stands if loop.span not in self.made_in[pair[1]]}
        return _Standing(frozenset(stands), ends.stale)
