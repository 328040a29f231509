"""Local tiles that are read before anything has been written to them.

Nothing notices that at run time: LLVM drops whatever is computed from a register that was never set, so that neither
the simulator nor a GPU sees the read.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import KernelTypeError
from .. import walk
from ..arithmetic import facts
from ..nodes import Alloc, For, If, Jump, Kernel, Loop, Simple, Stmt
from .flow import Analysis, LoopStates, solve

__all__ = ["check"]


def check(kernel: Kernel) -> None:
    """Refuses a read of a local buffer where no path that comes there has written it.

    In a loop an earlier turn may have written what a later one reads. A path ends at its first read of what it hasn't
    written: so a read that the first turn always comes to is refused, even if the turn writes the buffer after it.
    raises: KernelTypeError with the place of the read.
    """
    local = frozenset(s.buffer.name for s in kernel.body if isinstance(s, Alloc) and s.buffer.space == "local")
    if not local:
        return
    analysis = _Initialized()
    states = solve(analysis, kernel.body, _BufferState(unwritten=local))
    for stmt, state in zip(walk.statements(kernel.body), states, strict=True):
        if state is not None and not (state.unwritten - state.written).isdisjoint(analysis.names_read(stmt)):
            _refuse(stmt, state)


def _refuse(stmt: Stmt, state: _BufferState) -> None:
    for place in walk.reads(stmt):
        name = place.buffer.root.name
        if name in state.unwritten and name not in state.written:
            raise KernelTypeError(
                f"{name} is read before anything has been written to it",
                span=place.span or stmt.span,
                hint=f"copy something into {name} or fill it first, for example with 0",
            )


@dataclass(frozen=True, slots=True)
class _BufferState:
    """The buffers that paths to one point have left unwritten, and those that paths have written; one may be in both.

    One that is in neither is of no interest: all paths have ended at a read of it.
    """

    unwritten: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()


class _Initialized(Analysis[_BufferState]):
    def __init__(self) -> None:
        # by the statement's identity: each is visited several times
        self._names_read: dict[int, frozenset[str]] = {}

    def names_read(self, stmt: Stmt) -> frozenset[str]:
        """The buffers that a statement itself reads."""
        names = self._names_read.get(id(stmt))
        if names is None:
            names = self._names_read[id(stmt)] = frozenset(place.buffer.root.name for place in walk.reads(stmt))
        return names

    def join(self, first: _BufferState, second: _BufferState) -> _BufferState:
        return _BufferState(first.unwritten | second.unwritten, first.written | second.written)

    def step(self, stmt: Simple | Jump, state: _BufferState) -> _BufferState:
        if not state.unwritten:
            return state
        state = self.read(stmt, state)
        written = {place.buffer.root.name for place in walk.writes(stmt)}
        return _BufferState(state.unwritten - written, state.written | state.unwritten & written)

    def branch(self, stmt: If, state: _BufferState) -> tuple[_BufferState, _BufferState]:
        state = self.read(stmt, state)
        return state, state

    def enter(self, loop: For | Loop, before: _BufferState) -> _BufferState:
        return self.read(loop, before)

    def read(self, stmt: Stmt, state: _BufferState) -> _BufferState:
        if not state.unwritten:
            return state
        read = self.names_read(stmt)
        return _BufferState(state.unwritten - read, state.written) if read else state

    def leave(self, loop: For | Loop, turns: LoopStates[_BufferState]) -> _BufferState | None:
        if isinstance(loop, Loop) or not _has_a_turn(loop):
            return super().leave(loop, turns)
        if turns.again is None or turns.breaks is None:
            return turns.breaks if turns.again is None else turns.again
        return self.join(turns.again, turns.breaks)


def _has_a_turn(loop: For) -> bool:
    """Whether a counted loop's bounds say that there is at least one turn."""
    (least_start, greatest_start), (least_stop, greatest_stop) = facts.bounds(loop.start), facts.bounds(loop.stop)
    least_step, greatest_step = facts.bounds(loop.step)
    if least_step is not None and least_step > 0:
        return greatest_start is not None and least_stop is not None and greatest_start < least_stop
    if greatest_step is not None and greatest_step < 0:
        return least_start is not None and greatest_stop is not None and greatest_stop < least_start
    return False
