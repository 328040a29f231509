"""Checks of the threads that own a local tile."""

from __future__ import annotations

from ...errors import LayoutError
from ...ir.nodes import Buffer
from .placement import Placement
from .strides import Thread
from .views import DigitSchedule


def need_all_threads(placement: Placement, scope: str, threads: int) -> None:
    """Raise LayoutError unless exactly the scope's threads own a tile, replicas included, in one register per value."""
    need_own_registers(placement)
    if placement.owners == threads:
        return
    if not any(axis.is_thread for axis in placement.buffer.tile_layout.axes()):
        need_thread_axes(placement, scope, threads)
    name, reached = placement.buffer.name, 1
    for step in placement.threads:
        if step.threads != reached:
            chain = ", ".join(f"{s.extent}:{s.threads}" for s in placement.threads)
            raise LayoutError(
                f"the threads that own {name} leave a gap or overlap: {step.extent} of them are "
                f"{step.threads} apart where {reached} was needed ({chain})",
                hint=f"use a layout whose thread axes cover threads 0 to {threads - 1} without gaps or overlaps",
            )
        reached *= step.extent
    raise LayoutError(
        f"{'1 thread owns' if reached == 1 else f'{reached} threads own'} the region of {name}; "
        f"the {scope} has {threads}",
        hint="take a region of which every thread owns a part, or call the operation on the scope that owns it",
    )


def need_own_registers(placement: Placement) -> None:
    """Raise LayoutError if a thread holds a value in several registers."""
    for step in placement.replicas:
        if not isinstance(step.stride, Thread):
            raise LayoutError(f"{placement.buffer.name} holds each value in several registers of one thread")


def need_thread_axes(placement: Placement, scope: str, threads: int) -> None:
    """Raise LayoutError if a tile without thread axes is used by a scope of several threads."""
    if threads > 1 and not placement.threads:
        raise LayoutError(
            f"{placement.buffer.name} has no thread axes: each thread has its own; a {scope} has {threads} threads",
            hint="call the operation on tj.thread, or give the tile a layout with thread axes",
        )


def need_same_threads(schedule: DigitSchedule, owner: str, name: str) -> None:
    """Raise LayoutError unless each thread that owns an element of `owner` also owns that element of `name`.

    Both tiles must be owned by the whole scope. So if `name` has a stride of 0 along a thread digit of `owner`, its
    replicas are spread over these threads.
    """
    for digit in schedule.digits:
        strides = dict(digit.strides)
        stride, of_owner = strides[name], strides[owner]
        is_spread = isinstance(of_owner, Thread)
        if stride == of_owner or (is_spread and stride == 0):
            continue
        if is_spread or isinstance(stride, Thread):
            one, other = schedule[owner].buffer, schedule[name].buffer
            raise LayoutError(
                f"{other.name} and {one.name} give dimension {digit.dim} to different threads", hint=_moved(one, other)
            )


def _moved(one: Buffer, other: Buffer) -> str:
    if one.slots or one.shape != other.shape:
        return f"copy {other.name} to shared memory and load it from there, so that it gets {one.name}'s layout"
    return (
        f"copy {other.name} to a tile with {one.name}'s layout first: t = tj.alloc_local({other.shape}, "
        f"tj.{other.dtype}, layout={one.tile_layout!r}), and then copy(t, {other.name})"
    )
