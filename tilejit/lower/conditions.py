"""Conditions that several variants share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir.nodes import Region, TileOp
from ..isa import Capability, Family
from ..ops.record import TILE
from ..scopes import SCOPES, THREAD, WARP
from .engine import Condition, DispatchContext

__all__ = ["COPY", "KINDS", "SCOPE", "WHOLE_WARPS", "copy_sides", "lead_of", "memory_pair", "needs", "outside"]

#: one instruction, or a family of which one form is enough
_Needed = Capability | Family[Any]


def _scope(op: TileOp, context: DispatchContext) -> str | None:
    if op.scope not in SCOPES:
        return f"needs a scope among {', '.join(SCOPES)}; got {op.scope}"
    need = context.count(op.scope)
    if need > context.threads:
        return f"a {op.scope} has {need} threads; the CTA has {context.threads}"
    return None


def _kinds(op: TileOp, context: DispatchContext) -> str | None:
    record = op.record
    fault = record.count_fault(op.operands)
    if fault is not None:
        return fault
    for operand, rule in zip(op.operands, record.operands, strict=False):
        if operand is None or rule.kind(is_region=isinstance(operand, Region)) is not None:
            continue
        if isinstance(operand, Region):
            return f"needs a scalar as {rule.name}; got {operand.buffer.name}, in {operand.buffer.space} memory"
        kind = rule.kinds[0]
        wanted = f"{rule.name} in memory or registers" if kind is TILE else f"a {kind.name} as {rule.name}"
        return f"needs {wanted}; got a scalar"
    return None


def _dtypes(op: TileOp, context: DispatchContext) -> str | None:
    dst, src = copy_sides(op)
    if op.record.type_fault({"dst": dst.dtype, "src": src.dtype}, {}) is not None:
        return f"needs one dtype on both sides; got {dst.dtype} and {src.dtype} (cast converts)"
    return None


def _shapes(op: TileOp, context: DispatchContext) -> str | None:
    dst, src = copy_sides(op)
    if op.record.shape_fault(op.shapes) is None:
        return None
    return f"needs equal shapes; got {dst.shape} and {src.shape}"


def outside(op: TileOp, *spaces: str) -> str:
    """The tiles that live in none of `spaces`, as a list for a reason."""
    strangers = (r.buffer for r in op.tiles.values() if r.buffer.space not in spaces)
    return ", ".join(f"{buffer.name} is {buffer.space}" for buffer in strangers)


def copy_sides(op: TileOp) -> tuple[Region, Region]:
    """Destination and source of a copy."""
    return op.region("dst"), op.region("src")


def _whole_warps(op: TileOp, context: DispatchContext) -> str | None:
    """Why the scope isn't made of whole warps, or None."""
    if op.scope == THREAD.name:
        return "needs whole warps; called on one thread"
    threads = context.count(op.scope)
    return f"needs whole warps; the {op.scope} has {threads} threads" if WARP.left_over(threads) else None


def lead_of(src: Region) -> str:
    """Whose order a copy follows: the global side's, for coalescing."""
    return "src" if src.buffer.space == "global" else "dst"


def memory_pair(text: str, *pairs: tuple[str, str]) -> Condition:
    """Needs (destination, source) in one of `pairs` of spaces. text: these, for the reason."""

    def test(op: TileOp, context: DispatchContext) -> str | None:
        tiles = op.tiles
        # a scalar is for the condition on kinds to refuse
        if "dst" not in tiles or "src" not in tiles:
            return None
        dst, src = tiles["dst"].buffer.space, tiles["src"].buffer.space
        return None if (dst, src) in pairs else f"moves {text}; got {src} -> {dst}"

    return Condition("memory pair", test)


def needs(instruction: _Needed | Callable[[TileOp], _Needed], what: str = "") -> Condition:
    """Needs a target that has an instruction, which may depend on the operation.

    what: how the reason calls it, where that isn't the instruction's name.
    """

    def test(op: TileOp, context: DispatchContext) -> str | None:
        needed = instruction if isinstance(instruction, (Capability, Family)) else instruction(op)
        missing = needed.missing(context.target)
        return None if missing is None else f"{what or needed.name} {missing}"

    return Condition("instruction", test)


SCOPE = Condition("scope", _scope)
WHOLE_WARPS = Condition("whole warps", _whole_warps)

#: the operands are what the table of tile operations says: regions or scalars, as many
KINDS = Condition("operands", _kinds)

#: what every copy needs of two regions
COPY = (SCOPE, Condition("dtype", _dtypes), Condition("shape", _shapes))
