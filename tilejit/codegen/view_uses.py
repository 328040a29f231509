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
    statements = walk.statements(kernel.body)
    views = [stmt.buffer for stmt in statements if isinstance(stmt, BufferView) and stmt.buffer.offset is not None]
    if "shared" not in [view.space for view in views]:
        return ViewUses()
    taken: dict[str, Buffer] = {}
    accessed: dict[str, Buffer] = {}
    for stmt in statements:
        if isinstance(stmt, Instruction):
            for each in stmt.inputs:
                place = each.place if isinstance(each, Descriptor) else each
                if isinstance(place, Vector):
                    taken[place.buffer.name] = place.buffer
        elif isinstance(stmt, (Store, WaitPhase, Atomic)):
            # an update that a target has no instruction for begins with an access
            uses = accessed if isinstance(stmt, Store) else taken
            uses[stmt.place.buffer.name] = stmt.place.buffer
            if isinstance(stmt, Atomic):
                accessed[stmt.place.buffer.name] = stmt.place.buffer
        elif isinstance(stmt, Move):
            accessed[stmt.memory.buffer.name] = stmt.memory.buffer
        elif isinstance(stmt, Let) and isinstance(stmt.value, Load):
            accessed[stmt.value.place.buffer.name] = stmt.value.place.buffer
    return ViewUses(_with_bases(taken.values()), _with_bases(accessed.values()))


def _with_bases(buffers: Iterable[Buffer]) -> frozenset[str]:
    names: set[str] = set()
    for buffer in buffers:
        view: Buffer | None = buffer
        while view is not None and view.space == "shared" and view.name not in names:
            names.add(view.name)
            view = view.base
    return frozenset(names)
