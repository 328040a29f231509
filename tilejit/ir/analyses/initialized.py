"""Registers of local tiles that are read before anything has been written to them.

Nothing notices that in PTX: LLVM drops whatever is computed from a register that was never set, so that neither
the simulator nor a GPU sees the read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...dataclass import dataclass
from ...errors import KernelTypeError
from .. import walk
from ..arithmetic import facts
from ..nodes import Element, For, If, Jump, Kernel, Loop, Region, Simple, Stmt, TileOp
from ..walk import Place
from .flow import Analysis, LoopStates, solve
from .local_registers import LocalRegisters, numbers_of

__all__ = ["Doubt", "check", "doubts"]


def check(kernel: Kernel) -> None:
    """Refuses a read of registers that no path which comes there has written.

    In a loop an earlier turn may have written what a later one reads. A path ends at its first read of what it hasn't
    written: so a read that the first turn always comes to is refused, even if the turn writes the register after it.
    raises: KernelTypeError with the place of the read.
    """
    registers = LocalRegisters(kernel.body)
    if not registers.first:
        return
    analysis = _Initialized(registers)
    states = solve(analysis, kernel.body, _RegisterState(registers.all))
    for stmt, state in zip(walk.statements(kernel.body), states, strict=True):
        untouched = 0 if state is None else state.unwritten & ~state.written
        if untouched:
            for place in analysis.read_of(stmt).places:
                _refuse_untouched(place, stmt, untouched, registers)


@dataclass(frozen=True, slots=True)
class Doubt:
    """A place that a statement reads, of which registers may be unwritten. numbers: those, counted in the root."""

    place: Region | Element
    numbers: tuple[int, ...]


def doubts(kernel: Kernel) -> list[tuple[Doubt, ...]]:
    """For each of `walk.statements(kernel.body)` the places that it reads and that may be unwritten."""
    registers = LocalRegisters(kernel.body)
    if not registers.first:
        return [()] * len(walk.statements(kernel.body))
    analysis = _Initialized(registers)
    states = solve(analysis, kernel.body, _RegisterState(registers.all))
    return [
        () if state is None or not state.unwritten else tuple(_doubts_of(stmt, state, registers))
        for stmt, state in zip(walk.statements(kernel.body), states, strict=True)
    ]


def _doubts_of(stmt: Stmt, state: _RegisterState, registers: LocalRegisters) -> Iterator[Doubt]:
    for place in _reads(stmt):
        unsure = registers.of(place).possibly & state.unwritten
        if unsure and isinstance(place, (Region, Element)):
            yield Doubt(place, tuple(numbers_of(unsure >> registers.first[place.buffer.root.name])))


def _reads(stmt: Stmt) -> Iterable[Place]:
    """The places that a statement itself reads in any case: what a condition says is the kernel's author's to know."""
    return stmt.surely_read if isinstance(stmt, TileOp) else walk.reads(stmt)


def _refuse_untouched(place: Place, stmt: Stmt, untouched: int, registers: LocalRegisters) -> None:
    """Refuses a place of which some register is sure to be unwritten."""
    touched = registers.of(place)
    if not (touched.surely & untouched or touched.possibly and not touched.possibly & ~untouched):
        return
    name = place.buffer.root.name
    whole = registers.whole(name)
    element = "" if whole & untouched == whole else registers.element(name, touched.surely & untouched)
    raise KernelTypeError(
        f"{name}{element} is read before anything has been written to it",
        span=place.span or stmt.span,
        hint=f"copy something into {'all of ' if element else ''}{name} or fill it first, for example with 0",
    )


@dataclass(frozen=True, slots=True)
class _RegisterState:
    """The registers that paths to one point have left unwritten, and those that paths have written.

    One may be in both. One that is in neither is of no interest: all paths have ended at a read of it.
    """

    unwritten: int = 0
    written: int = 0


@dataclass(frozen=True, slots=True)
class _Read:
    """The places of local buffers that a statement itself reads, and the registers that it is sure to read."""

    places: tuple[Place, ...]
    surely: int


class _Initialized(Analysis[_RegisterState]):
    def __init__(self, registers: LocalRegisters) -> None:
        self.registers = registers
        # by the statement's identity: each is visited several times
        self._read: dict[int, _Read] = {}

    def read_of(self, stmt: Stmt) -> _Read:
        """What a statement reads of local buffers."""
        read = self._read.get(id(stmt))
        if read is None:
            places = tuple([place for place in _reads(stmt) if place.buffer.root.name in self.registers.first])
            surely = 0
            for place in places:
                surely |= self.registers.of(place).surely
            read = self._read[id(stmt)] = _Read(places, surely)
        return read

    def join(self, first: _RegisterState, second: _RegisterState) -> _RegisterState:
        return _RegisterState(first.unwritten | second.unwritten, first.written | second.written)

    def concerns(self, stmt: Simple | If | For) -> bool:
        if self.read_of(stmt).places:
            return True
        for place in walk.writes(stmt):
            if place.buffer.root.name in self.registers.first:
                return True
        return False

    def step(self, stmt: Simple | Jump, state: _RegisterState) -> _RegisterState:
        if not state.unwritten:
            return state
        state = self.read(stmt, state)
        surely = possibly = 0
        for place in walk.writes(stmt):
            touched = self.registers.of(place)
            surely, possibly = surely | touched.surely, possibly | touched.possibly
        return _RegisterState(state.unwritten & ~surely, state.written | state.unwritten & possibly)

    def branch(self, stmt: If, state: _RegisterState) -> tuple[_RegisterState, _RegisterState]:
        state = self.read(stmt, state)
        return state, state

    def enter(self, loop: For | Loop, before: _RegisterState) -> _RegisterState:
        return self.read(loop, before)

    def read(self, stmt: Stmt, state: _RegisterState) -> _RegisterState:
        if not state.unwritten:
            return state
        read = self.read_of(stmt).surely
        return _RegisterState(state.unwritten & ~read, state.written) if read else state

    def leave(self, loop: For | Loop, turns: LoopStates[_RegisterState]) -> _RegisterState | None:
        if isinstance(loop, Loop) or not _has_a_turn(loop):
            return super().leave(loop, turns)
        if turns.again is None or turns.breaks is None:
            after = turns.breaks if turns.again is None else turns.again
        else:
            after = self.join(turns.again, turns.breaks)
        if after is None or not after.unwritten:
            return after
        return _RegisterState(after.unwritten & ~self.registers.written_by(loop), after.written)


def _has_a_turn(loop: For) -> bool:
    """Whether a counted loop's bounds say that there is at least one turn."""
    (least_start, greatest_start), (least_stop, greatest_stop) = facts.bounds(loop.start), facts.bounds(loop.stop)
    least_step, greatest_step = facts.bounds(loop.step)
    if least_step is not None and least_step > 0:
        return greatest_start is not None and least_stop is not None and greatest_start < least_stop
    if greatest_step is not None and greatest_step < 0:
        return least_start is not None and greatest_stop is not None and greatest_stop < least_start
    return False
