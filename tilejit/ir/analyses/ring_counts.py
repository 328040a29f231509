"""Whether as many commit and release the steps of a ring as it was allocated for.

Who does so is known where branches go by thread ids and by what all threads agree on. Too many arrive where one
statement is come to by more instances of its scope than complete a phase, all of which count the same steps; too few
where all statements together are come to by fewer, each of them once a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...dataclass import lean
from ...errors import KernelTypeError
from ...forks import cached_property
from ...scopes import SCOPES, THREAD_IDS
from ...wording import counted
from .. import nodes as ir
from .. import walk
from .thread_values import instances

__all__ = ["Come", "check_steps"]

#: what arrives once a step -> the parameter of rings that says how many
_PARAMETERS = {"commit": "producers", "release": "consumers"}


@lean(frozen=True, slots=True)
class Come:
    """A statement, and the threads that come to it, thread i as bit i. is_exact: all of them do, or none."""

    stmt: ir.Stmt
    comers: int
    is_exact: bool


#: who comes to the statement of a number in `walk.statements`; None where nobody does
Comings = Callable[[int], Come | None]


def check_steps(kernel: ir.Kernel, rings: Sequence[ir.Alloc], comings: Comings) -> None:
    """Raise KernelTypeError where the arrivals of a step can't add up. rings: the barriers of the kernel's rings."""
    named = {ring.buffer.name: ring for ring in rings}
    steps = _Steps(kernel, comings)
    sites: dict[str, list[Come]] = {}
    for number, arrive in walk.numbered(kernel.body, ir.Arrive):
        come = comings(number) if arrive.place.buffer.name in named else None
        if come is not None:
            sites.setdefault(arrive.place.buffer.name, []).append(come)
    for name, arrivals in sites.items():
        _check(kernel, named[name], arrivals, steps)


def _check(kernel: ir.Kernel, ring: ir.Alloc, arrivals: Sequence[Come], steps: _Steps) -> None:
    if ring.buffer.shape == (1,):
        # of one stage, a place doesn't say which step it is
        return
    counts = [(_instances(kernel, come), come) for come in arrivals]
    for count, come in counts:
        if count > ring.arrivals and come.is_exact and steps.are_common(come):
            raise _error(ring, come.stmt, count, "the stage is taken for free while others still use it")
    total = sum(count for count, _ in counts)
    if total < ring.arrivals and all(steps.is_once(come.stmt) for come in arrivals):
        raise _error(ring, arrivals[0].stmt, total, "nobody who waits for it goes on")


def _instances(kernel: ir.Kernel, come: Come) -> int:
    """How many instances of its scope come to an arrival."""
    assert isinstance(come.stmt, ir.Arrive)
    size = SCOPES[come.stmt.scope].threads(kernel.threads)
    return len(instances(come.comers, size, kernel.threads))


def _error(ring: ir.Alloc, stmt: ir.Stmt, count: int, reason: str) -> KernelTypeError:
    assert isinstance(stmt, ir.Arrive)
    who, parameter = counted(count, stmt.scope), _PARAMETERS[ring.call]
    does = ring.call if count != 1 else f"{ring.call}s"
    return KernelTypeError(
        f"{who} {does} each step of {ring.buffer.name.rpartition('.')[0]}, which was allocated for {ring.arrivals}: "
        f"{reason}",
        span=stmt.span,
        hint=f"write {parameter}={count} in tj.alloc_ring, or let {ring.arrivals} {ring.call}",
    )


class _Steps:
    """What the numbers of steps follow from.

    Of most kernels nobody asks: as many arrive as a phase takes.
    """

    def __init__(self, kernel: ir.Kernel, comings: Comings) -> None:
        self.kernel, self.comings = kernel, comings

    @cached_property
    def definitions(self) -> dict[str, list[Come]]:
        """Variable -> where it gets its values."""
        definitions: dict[str, list[Come]] = {}
        for number, stmt in enumerate(walk.statements(self.kernel.body)):
            defined = stmt.var if isinstance(stmt, (ir.Assign, *walk.VARIABLES)) else None
            come = None if defined is None else self.comings(number)
            if defined is not None and come is not None:
                definitions.setdefault(defined.name, []).append(come)
        return definitions

    @cached_property
    def loops(self) -> dict[int, ir.For | ir.Loop]:
        """Arrival, by identity -> the innermost loop around it."""
        loops: dict[int, ir.For | ir.Loop] = {}
        for stmt in walk.statements(self.kernel.body):
            if isinstance(stmt, (ir.For, ir.Loop)):
                # inner loops come later
                loops.update((id(inner), stmt) for inner in walk.within(stmt) if isinstance(inner, ir.Arrive))
        return loops

    def are_common(self, come: Come) -> bool:
        """Whether all threads that come to an arrival count the same steps there."""
        names: set[str] = set()
        return all(self._is_common(expr, come.comers, names) for expr in walk.expressions(come.stmt))

    def _is_common(self, expr: ir.Expr, comers: int, names: set[str]) -> bool:
        """names: of variables that were looked at."""
        for part in walk.subexpressions(expr):
            if isinstance(part, ir.Load) or (isinstance(part, ir.Special) and part.name in THREAD_IDS):
                return False
            if isinstance(part, ir.Var) and part.name not in names:
                names.add(part.name)
                if not all(self._gives_all(come, comers, names) for come in self.definitions.get(part.name, ())):
                    return False
        return True

    def _gives_all(self, come: Come, comers: int, names: set[str]) -> bool:
        """Whether a statement gives a variable the same value for all threads, or for none of them."""
        reached = come.comers & comers
        if not reached:
            return True
        if reached != comers or not come.is_exact or not isinstance(come.stmt, (ir.Let, ir.Declare, ir.Assign, ir.For)):
            return False
        return all(self._is_common(expr, comers, names) for expr in walk.expressions(come.stmt))

    def is_once(self, stmt: ir.Stmt) -> bool:
        """Whether an instance comes to an arrival once a step: each turn of the loop around it has another step."""
        loop = self.loops.get(id(stmt))
        if loop is None:
            return True
        changed = walk.assigned(loop.body) | ({loop.var.name} if isinstance(loop, ir.For) else frozenset())
        names: set[str] = set()
        waiting = list(walk.expressions(stmt))
        while waiting:
            for part in walk.subexpressions(waiting.pop()):
                if isinstance(part, ir.Var) and part.name not in names:
                    names.add(part.name)
                    lets = (come.stmt for come in self.definitions.get(part.name, ()) if isinstance(come.stmt, ir.Let))
                    waiting.extend(let.value for let in lets)
        return bool(names & changed)
