"""Detection of reads of local tiles' registers before anything has been written to them.

Such a read must be detected in tile IR: LLVM may remove computations on undefined values, so the PTX may lack the read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...dataclass import lean
from ...errors import KernelTypeError
from ...remember import once
from .. import walk
from ..arithmetic.iterations import step_may_be_zero, surely_iterates
from ..nodes import Breakpoint, Element, For, If, Jump, Kernel, Loop, Region, Simple, Stmt, TileOp
from .bitsets import members
from .flow import Analysis, LoopStates, solve
from .local_registers import LocalRegisters, RegisterAccesses


def check(kernel: Kernel) -> None:
    """Raise KernelTypeError for a read of registers that no path to it has written.

    In a loop, an earlier iteration may have written the registers. A path ends at its first read of unwritten
    registers, so a read that the first iteration always executes is an error, even if the same iteration writes
    the registers later.
    """
    analysis, states = _solved(kernel)
    for stmt, state in zip(walk.statements(kernel.body), states, strict=True):
        if state is None or type(stmt) not in walk.ACCESSING:
            continue
        untouched = state.unwritten & ~state.written
        if untouched and untouched & analysis.accessed(stmt)[0].possibly:
            for place in _accesses(stmt)[0]:
                _refuse_untouched(place, stmt, untouched, analysis.registers)


def _solved(kernel: Kernel) -> tuple[_Initialized, list[_RegisterState | None]]:
    """Return the analysis, and the state before each statement: None if it is unreachable or no buffer is local."""
    registers = LocalRegisters(kernel.body)
    analysis = _Initialized(registers, kernel.threads)
    if not registers.first:
        return analysis, [None] * len(walk.statements(kernel.body))
    return analysis, solve(analysis, kernel.body, _RegisterState(registers.all))


@lean(frozen=True, slots=True)
class Doubt:
    """A place that is read. numbers: its registers that may be unwritten, counted from the first one of its root."""

    place: Region | Element
    numbers: tuple[int, ...]


def doubts(kernel: Kernel) -> list[tuple[Doubt, ...]]:
    """Return, for each of `walk.statements(kernel.body)`, the `Doubt`s about the places that it always reads."""
    analysis, states = _solved(kernel)
    return [
        () if state is None or not state.unwritten else tuple(_doubts_of(stmt, state, analysis.registers))
        for stmt, state in zip(walk.statements(kernel.body), states, strict=True)
    ]


def _doubts_of(stmt: Stmt, state: _RegisterState, registers: LocalRegisters) -> Iterator[Doubt]:
    for place in _accesses(stmt)[0]:
        unsure = registers.of(place).possibly & state.unwritten
        if unsure and isinstance(place, (Region, Element)):
            yield Doubt(place, tuple(members(unsure >> registers.first[place.buffer.root.name])))


def _accesses(stmt: Stmt) -> tuple[Sequence[walk.Place], Sequence[walk.Place]]:
    """Return the places that a statement always reads, and the places that it writes. Conditional reads don't count."""
    if isinstance(stmt, Breakpoint):
        # a debugger may look at anything
        return (), ()
    return stmt.surely_read if isinstance(stmt, TileOp) else walk.reads(stmt), walk.writes(stmt)


def _refuse_untouched(place: walk.Place, stmt: Stmt, untouched: int, registers: LocalRegisters) -> None:
    touched = registers.of(place)
    if not (touched.surely & untouched or touched.possibly and not touched.possibly & ~untouched):
        return
    name = place.buffer.root.name
    whole = registers.whole(name)
    element = registers.element(name, touched.surely & untouched or touched.possibly) if whole & ~untouched else ""
    raise KernelTypeError(
        f"{name}{element} is read before anything has been written to it",
        span=place.span or stmt.span,
        hint=f"copy something into {'all of ' if element else ''}{name} or fill it first, for example with 0",
    )


@lean(frozen=True, slots=True)
class _RegisterState:
    """The registers that some path to a point leaves unwritten, and the registers that some path has written.

    A register can be in both sets. A register in neither is irrelevant: it is padding, or all paths have ended at a
    read of it.
    """

    unwritten: int = 0
    written: int = 0


class _Initialized(Analysis[_RegisterState]):
    kinds = walk.ACCESSING

    def __init__(self, registers: LocalRegisters, threads: int) -> None:
        self.registers, self.threads = registers, threads

    # statements in loops are visited repeatedly
    @once
    def accessed(self, stmt: Stmt) -> tuple[RegisterAccesses, RegisterAccesses]:
        reads, writes = _accesses(stmt)
        return self.registers.touched(reads), self.registers.touched(writes)

    def join(self, first: _RegisterState, second: _RegisterState) -> _RegisterState:
        return _RegisterState(first.unwritten | second.unwritten, first.written | second.written)

    def concerns(self, stmt: Simple | If | For) -> bool:
        return any(touched.possibly for touched in self.accessed(stmt))

    def step(self, stmt: Simple | Jump, state: _RegisterState) -> _RegisterState:
        if not state.unwritten or type(stmt) not in walk.ACCESSING:
            return state
        read, written = self.accessed(stmt)
        unwritten = state.unwritten & ~read.surely
        return _RegisterState(unwritten & ~written.surely, state.written | unwritten & written.possibly)

    def leave(self, loop: For | Loop, states: LoopStates[_RegisterState]) -> _RegisterState | None:
        if isinstance(loop, Loop) or step_may_be_zero(loop) or not surely_iterates(loop, self.threads):
            return super().leave(loop, states)
        if states.again is None or states.breaks is None:
            after = states.breaks if states.again is None else states.again
        else:
            after = self.join(states.again, states.breaks)
        if after is None or not after.unwritten:
            return after
        return _RegisterState(after.unwritten & ~self.registers.written_by(loop), after.written)
