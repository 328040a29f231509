"""Analysis of the variables and local buffers that statements may change."""

from __future__ import annotations

from typing import NamedTuple

from ..ir import walk
from ..ir.nodes import Assign, Instruction, Move, Store
from ..ir.walk import Block, Place
from ..remember import remembered


class Changes(NamedTuple):
    """The names of the assigned variables, and of the roots of the written local buffers, as ordered sets."""

    variables: dict[str, None]
    buffers: dict[str, None]


# cached: the result for a loop is part of the result for each loop that encloses it
@remembered
def changed(body: Block) -> Changes:
    """Return the variables that `body` assigns and the local buffers that it writes, also in nested statements."""
    variables: dict[str, None] = {}
    buffers: dict[str, None] = {}
    places: list[Place] = []
    for stmt in body:
        # `walk.writes`, inlined: the calls would dominate the cost here
        if isinstance(stmt, Store):
            places.append(stmt.place)
        elif isinstance(stmt, Move):
            places.append(stmt.dst)
        elif isinstance(stmt, Instruction):
            places += stmt.outputs
        elif isinstance(stmt, Assign):
            variables[stmt.var.name] = None
        elif isinstance(stmt, walk.COMPOUND):
            for inner in map(changed, walk.blocks(stmt)):
                variables.update(inner.variables)
                buffers.update(inner.buffers)
    for place in places:
        buffer = place.buffer
        if buffer.space == "local":
            buffers[buffer.name if buffer.base is None else buffer.root.name] = None
    return Changes(variables, buffers)
