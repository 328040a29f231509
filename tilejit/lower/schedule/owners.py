"""Which threads own a local tile, and whether they are all of a scope's."""

from __future__ import annotations

from math import prod

from ...errors import LayoutError
from ...ir import build
from ...ir.nodes import TRUE, Expr
from .placement import Side, Step, Thread
from .schedule import Atom

__all__ = ["lowest_owner", "need_all_threads", "thread_digit"]


def need_all_threads(side: Side, scope: str, threads: int) -> None:
    """Raise LayoutError where the threads that own `side`, replicas included, aren't exactly those of the scope."""
    name = side.buffer.name
    if any(not isinstance(s.stride, Thread) for s in side.replicas):
        raise LayoutError(f"{name} holds each value in several registers of one thread")
    steps = side.threads
    if threads > 1 and not steps:
        raise LayoutError(
            f"{name} has no thread axes: it is each thread's own, and a {scope} has {threads} threads",
            hint="call the operation on tj.thread, or give the tile a layout with thread axes",
        )
    reached = 1
    for step in steps:
        assert isinstance(step.stride, Thread)
        if step.stride.stride != reached:
            raise LayoutError(
                f"the threads that own {name} leave a gap or overlap: {step.extent} of them are "
                f"{step.stride.stride} apart where {reached} was needed ({_chain(steps)})",
                hint=f"use a layout whose thread axes count 0 to {threads - 1} without a gap",
            )
        reached *= step.extent
    if reached != threads:
        raise LayoutError(
            f"{reached} threads own the region of {name}; the {scope} has {threads}",
            hint="take a region that all threads share, or call it on the scope that owns it",
        )


def _chain(steps: tuple[Step, ...]) -> str:
    return ", ".join(f"{s.extent}:{s.stride.stride}" for s in steps if isinstance(s.stride, Thread))


def thread_digit(thread: Expr, step: Step | Atom, stride: Thread) -> Expr:
    """Which of a step's values a thread has."""
    return build.mod(build.floordiv(thread, stride.stride), step.extent)


def lowest_owner(side: Side, thread: Expr) -> Expr:
    """Whether a thread is the lowest of those that hold the same values."""
    cond: Expr = TRUE
    for step in side.replicas:
        assert isinstance(step.stride, Thread)
        cond = build.logical_and(cond, build.equal(thread_digit(thread, step, step.stride), 0))
    return cond


def size(atoms: tuple[Atom, ...]) -> int:
    """How many values the digits count."""
    return prod(a.extent for a in atoms)
