"""Barriers: initialization of mbarriers at kernel entry, barrier instructions, and waits and tests of phases."""

from __future__ import annotations

from ..ir import walk
from ..ir.arithmetic import facts
from ..ir.clusters import ctas_along
from ..ir.nodes import Alloc, Sync, Vector, WaitPhase
from ..ir.placements import BARRIER, within
from ..isa import mbarrier
from ..isa.barriers import BAR_SYNC, BARRIERS
from ..scopes import CTA, SCOPES
from .emission import Emission, LLVMValue
from .expressions import evaluate, special
from .machine import shared_address
from .registers import Word
from .report import some_thread_failed
from .tensor_memory import cta_barrier


def set_up(emission: Emission) -> None:
    """If the kernel has mbarriers, emit their initialization and a fence by one thread, and then a CTA barrier."""
    allocs = [s for s in walk.statements(emission.kernel.body) if isinstance(s, Alloc) and s.arrivals]
    if not allocs:
        return
    w, span = emission.writer, emission.kernel.span
    first, ready = w.join("barriers"), w.join("ready")
    w.branch(w.value(f"icmp eq i32 {special(emission, 'thread_id').text}, 0"), first, ready)
    w.start(first)
    for stmt in allocs:
        base = w.value(f"ptrtoint ptr addrspace(3) {emission.base(stmt.buffer)} to i32")
        for at in range(stmt.buffer.tile_layout.footprint()):
            past = {0: at * stmt.buffer.dtype.bytes}
            arrivals = stmt.arrivals * ctas_along(emission.kernel.cluster, stmt.reach)
            emission.machine(mbarrier.INIT, base, str(arrivals), past=past, span=stmt.span)
    emission.machine(mbarrier.FENCE, span=span)
    w.jump(ready)
    w.start(ready)
    emission.machine(BAR_SYNC, span=span)


def sync(emission: Emission, stmt: Sync) -> None:
    """Emit a barrier among the threads of the statement's scope."""
    scope = SCOPES[stmt.scope]
    if scope is CTA:
        cta_barrier(emission, stmt.span)
        return
    barrier, words = BARRIERS[scope], []
    if barrier.arguments and scope.number_id is not None:
        number = special(emission, scope.number_id.name).text
        (placement,) = [p for p in within(emission.kernel.memory, BARRIER) if p.name == scope.name]
        words.append(emission.writer.value(f"add i32 {number}, {placement.first}"))
    emission.machine(barrier, *words, span=stmt.span)


def wait(emission: Emission, stmt: WaitPhase) -> None:
    """Emit a loop that waits for the end of a phase or, if the statement has a variable, one test that sets it.

    A negative phase counts as complete. If assertions are compiled in, a thread whose assertion fails never arrives, so
    the waiting threads must end as well. After reading the failure flag they test the phase once more: if it has
    completed in the meantime, all of them should continue, not just some.
    """
    assert isinstance(stmt.place, Vector), "lowering leaves no Element"
    w = emission.writer
    place, past = shared_address(emission, stmt.place)
    phase = evaluate(emission, stmt.phase).text
    answer, ask, after = Word("i1"), w.join("wait"), w.join("waited")
    w.write(answer, "i1", "true")
    low, _ = facts.bounds(stmt.phase)
    if low is not None and low >= 0:
        w.jump(ask)
    else:
        w.branch(w.value(f"icmp slt i32 {phase}, 0"), after, ask)
    w.start(ask)
    row = mbarrier.TRY_WAIT if stmt.var is None else mbarrier.TEST_WAIT

    def complete() -> str:
        (answer,) = emission.machine(row, place, phase, past={0: past}, span=stmt.span)
        return answer

    if stmt.var is None:
        if emission.record is None:
            w.branch(complete(), after, ask)
        else:
            again, in_vain, ended = w.join("again"), w.join("in_vain"), w.join("ended")
            w.branch(complete(), after, again)
            w.start(again)
            failed = some_thread_failed(emission)
            w.branch(complete(), after, in_vain)
            w.start(in_vain)
            w.branch(failed, ended, again)
            w.start(ended)
            w.leave()
        w.start(after)
        return
    w.write(answer, "i1", complete())
    w.jump(after)
    w.start(after)
    emission.scalars[stmt.var.name] = LLVMValue(w.read(answer, "i1"), stmt.var.dtype)
