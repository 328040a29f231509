"""The register state that statements may change: variables and local buffers."""

from __future__ import annotations

from typing import NamedTuple

from ..ir import walk
from ..ir.nodes import Assign, Instruction, Move, Store
from ..ir.walk import Block, Place
from ..remember import remembered


class Changes(NamedTuple):
    """Names of the variables assigned and of the local buffers written, in order."""

    variables: dict[str, None]
    buffers: dict[str, None]


# cached, because enclosing loops ask for the same body again
@remembered
def changed(body: Block) -> Changes:
    """Return the variables and local buffers that the statements change, including nested statements."""
    variables: dict[str, None] = {}
    buffers: dict[str, None] = {}
    places: list[Place] = []
    for stmt in body:
        # inlined `walk.writes`, which would dominate the cost here
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
