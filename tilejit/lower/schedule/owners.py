"""Which threads own a local tile, and whether they are all of a scope's."""

from __future__ import annotations

from ...errors import LayoutError
from .placement import Placement
from .strides import Thread

__all__ = ["need_all_threads", "need_own_registers", "need_thread_axes"]


def need_all_threads(placement: Placement, scope: str, threads: int) -> None:
    """Raise LayoutError where the threads that own a tile, replicas included, aren't exactly those of the scope."""
    name = placement.buffer.name
    need_own_registers(placement)
    need_thread_axes(placement, scope, threads)
    reached = 1
    for step in placement.threads:
        if step.threads != reached:
            chain = ", ".join(f"{s.extent}:{s.threads}" for s in placement.threads)
            raise LayoutError(
                f"the threads that own {name} leave a gap or overlap: {step.extent} of them are "
                f"{step.threads} apart where {reached} was needed ({chain})",
                hint=f"use a layout whose thread axes count 0 to {threads - 1} without a gap",
            )
        reached *= step.extent
    if reached != threads:
        raise LayoutError(
            f"{reached} threads own the region of {name}; the {scope} has {threads}",
            hint="take a region that all threads share, or call it on the scope that owns it",
        )


def need_own_registers(placement: Placement) -> None:
    """Raise LayoutError where a thread holds a value in several registers."""
    if any(not isinstance(s.stride, Thread) for s in placement.replicas):
        raise LayoutError(f"{placement.buffer.name} holds each value in several registers of one thread")


def need_thread_axes(placement: Placement, scope: str, threads: int) -> None:
    """Raise LayoutError where a tile is each thread's own, and there are several threads."""
    if threads > 1 and not placement.threads:
        raise LayoutError(
            f"{placement.buffer.name} has no thread axes: it is each thread's own, and a {scope} has {threads} threads",
            hint="call the operation on tj.thread, or give the tile a layout with thread axes",
        )
