"""Checks that the numbers of commits and releases per step of a ring match its allocation.

The numbers are known if branches depend only on thread ids and uniform values. A step has too many arrivals if more
instances of a scope reach one statement, all with the same step number, than complete a phase. It has too few if
fewer instances in total reach the arriving statements, each once per step.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import KernelTypeError
from ...forks import cached_property
from ...scopes import SCOPES, THREAD_IDS
from ...wording import counted
from .. import nodes as ir
from .. import walk
from .thread_states import Visit
from .thread_values import instances

#: method that arrives at a ring's barriers -> parameter of `tj.alloc_ring` for the number of calls per step
_PARAMETERS = {"commit": "producers", "release": "consumers"}


def check_steps(kernel: ir.Kernel, rings: Sequence[ir.Alloc], visits: Sequence[Visit | None]) -> None:
    """Raise KernelTypeError if a step surely has too many or too few arrivals. Rings of one stage aren't checked.

    rings: the allocations of ring barriers. visits: of the kernel's statements in order; None for unreachable ones.
    """
    named = {ring.buffer.name: ring for ring in rings}
    steps = _Steps(kernel, visits)
    sites: dict[str, list[Visit]] = {}
    for number, arrive in walk.numbered(kernel.body, ir.Arrive):
        visit = visits[number] if arrive.place.buffer.name in named else None
        if visit is not None:
            sites.setdefault(arrive.place.buffer.name, []).append(visit)
    for name, arrivals in sites.items():
        _check(kernel, named[name], arrivals, steps)


def _check(kernel: ir.Kernel, ring: ir.Alloc, arrivals: Sequence[Visit], steps: _Steps) -> None:
    if ring.buffer.shape == (1,):
        # with a single stage, the index doesn't identify the step
        return
    counts = [(_instances(kernel, visit), visit) for visit in arrivals]
    for count, visit in counts:
        if count > ring.arrivals and visit.is_certain and steps.are_common(visit):
            raise _error(ring, [visit.stmt], count, "the step completes while others still use its stage")
    total = sum(count for count, _ in counts)
    if total < ring.arrivals and all(steps.is_once(visit.stmt) for visit in arrivals):
        raise _error(ring, [visit.stmt for visit in arrivals], total, "threads that wait for the step never proceed")


def _instances(kernel: ir.Kernel, visit: Visit) -> int:
    assert isinstance(visit.stmt, ir.Arrive)
    size = SCOPES[visit.stmt.scope].threads(kernel.threads)
    return len(instances(visit.threads, size, kernel.threads))


def _error(ring: ir.Alloc, arrivals: Sequence[ir.Stmt], count: int, reason: str) -> KernelTypeError:
    scopes = {stmt.scope for stmt in arrivals if isinstance(stmt, ir.Arrive)}
    actor, parameter = scopes.pop() if len(scopes) == 1 else "caller", _PARAMETERS[ring.call]
    does = ring.call if count != 1 else f"{ring.call}s"
    remedy = f"write {parameter}={count} in tj.alloc_ring, or " if count else ""
    return KernelTypeError(
        f"{counted(count, actor)} {does} each step of {ring.buffer.name.rpartition('.')[0]}, which was allocated with "
        f"{parameter}={ring.arrivals}: {reason}",
        span=arrivals[0].span,
        hint=f"{remedy}let exactly {counted(ring.arrivals, actor)} {ring.call} each step",
    )


class _Steps:
    """The values that step numbers depend on, computed on demand, because in most kernels all counts match."""

    def __init__(self, kernel: ir.Kernel, visits: Sequence[Visit | None]) -> None:
        self.kernel, self.visits = kernel, visits

    @cached_property
    def definitions(self) -> dict[str, list[Visit]]:
        definitions: dict[str, list[Visit]] = {}
        for visit in filter(None, self.visits):
            defined = visit.stmt.var if isinstance(visit.stmt, (ir.Assign, *walk.VARIABLES)) else None
            if defined is not None:
                definitions.setdefault(defined.name, []).append(visit)
        return definitions

    @cached_property
    def loops(self) -> dict[int, ir.For | ir.Loop]:
        """The innermost loop around each arrival, by the arrival's id."""
        loops: dict[int, ir.For | ir.Loop] = {}
        for stmt in walk.statements(self.kernel.body):
            if isinstance(stmt, (ir.For, ir.Loop)):
                # inner loops follow outer ones, and overwrite their entries
                loops.update((id(inner), stmt) for inner in walk.within(stmt) if isinstance(inner, ir.Arrive))
        return loops

    def are_common(self, visit: Visit) -> bool:
        """True if all threads that reach an arrival provably have the same step numbers there."""
        names: set[str] = set()
        return all(self._is_common(expr, visit.threads, names) for expr in walk.expressions(visit.stmt))

    def _is_common(self, expr: ir.Expr, threads: int, names: set[str]) -> bool:
        for part in walk.subexpressions(expr):
            if isinstance(part, ir.Load) or (isinstance(part, ir.Special) and part.name in THREAD_IDS):
                return False
            if isinstance(part, ir.Var) and part.name not in names:
                names.add(part.name)
                if not all(self._gives_all(visit, threads, names) for visit in self.definitions.get(part.name, ())):
                    return False
        return True

    def _gives_all(self, visit: Visit, threads: int, names: set[str]) -> bool:
        """True if all these threads define a variable with one value at a statement, or none of them reach it."""
        reached, stmt = visit.threads & threads, visit.stmt
        if not reached:
            return True
        if reached != threads or not visit.is_certain or not isinstance(stmt, (ir.Let, ir.Declare, ir.Assign, ir.For)):
            return False
        return all(self._is_common(expr, threads, names) for expr in walk.expressions(stmt))

    def is_once(self, stmt: ir.Stmt) -> bool:
        """True if no loop is around an arrival, or its operands depend on a variable that the innermost one changes.

        An instance is then assumed to reach it at most once per step.
        """
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
                    definitions = [visit.stmt for visit in self.definitions.get(part.name, ())]
                    waiting.extend(stmt.value for stmt in definitions if isinstance(stmt, ir.Let))
        return bool(names & changed)
