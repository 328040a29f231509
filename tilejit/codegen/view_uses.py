"""How the views in shared memory are used that start behind their bases: an address is a pointer or a number."""

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

__all__ = ["ViewUses", "uses_of_views"]


class ViewUses(NamedTuple):
    """The views, by name, of which instructions take the address as a number, and those that are accessed."""

    taken: frozenset[str] = frozenset()
    accessed: frozenset[str] = frozenset()


def uses_of_views(kernel: Kernel) -> ViewUses:
    """What is done with each view of a kernel at lane level; what is done with a view is done with its bases."""
    body = kernel.body
    views = [stmt.buffer for stmt in walk.each(body, BufferView) if stmt.buffer.offset is not None]
    if "shared" not in [view.space for view in views]:
        return ViewUses()
    # an update that a target has no instruction for begins with an access
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
