"""Analysis of views into shared memory: whether their addresses are used as pointers, as integers, or both."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..ir import walk
from ..ir.nodes import (
    Atomic,
    Buffer,
    BufferView,
    Descriptor,
    Instruction,
    Kernel,
    Let,
    Load,
    Move,
    Store,
    Vector,
    WaitPhase,
)


class ViewUses(NamedTuple):
    """Names of the shared buffers whose addresses instructions take as integers, and of those accessed by pointers."""

    taken: frozenset[str] = frozenset()
    accessed: frozenset[str] = frozenset()


def uses_of_views(kernel: Kernel) -> ViewUses:
    """Return the uses of shared buffers, counting a view's also for its bases; none if no shared view has an offset."""
    body = kernel.body
    views = [stmt.buffer for stmt in walk.each(body, BufferView) if stmt.buffer.offset is not None]
    if "shared" not in [view.space for view in views]:
        return ViewUses()
    # an update counts as both: if the target lacks the instruction, a load and a loop replace it
    updated = [stmt.place.buffer for stmt in walk.each(body, Atomic)]
    taken = [*updated, *[stmt.place.buffer for stmt in walk.each(body, WaitPhase)]]
    for stmt in walk.each(body, Instruction):
        for each in stmt.inputs:
            place = each.place if isinstance(each, Descriptor) else each
            if isinstance(place, Vector):
                taken.append(place.buffer)
    accessed = [*updated, *[stmt.place.buffer for stmt in walk.each(body, Store)]]
    accessed += [stmt.memory.buffer for stmt in walk.each(body, Move)]
    accessed += [let.value.place.buffer for let in walk.each(body, Let) if isinstance(let.value, Load)]
    return ViewUses(_with_bases(taken), _with_bases(accessed))


def _with_bases(buffers: Iterable[Buffer]) -> frozenset[str]:
    names: set[str] = set()
    for buffer in buffers:
        view: Buffer | None = buffer
        while view is not None and view.space == "shared" and view.name not in names:
            names.add(view.name)
            view = view.base
    return frozenset(names)
