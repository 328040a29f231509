"""Conditions that several variants share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir.nodes import SCOPES, Region, TileOp
from ..isa import Capability, Family
from ..ops.tile import TILE_OPERATIONS
from ..target import WARP
from .engine import Condition, Context

__all__ = [
    "COPY", "KINDS", "SCOPE", "WHOLE_WARPS", "copy_sides", "lead_of", "memory_pair", "named_tiles", "needs", "outside",
    "tiles",
]  # fmt: skip

#: one instruction, or a family of which one form is enough
_Needed = Capability | Family[Any]


def _scope(op: TileOp, context: Context) -> str | None:
    if op.scope not in SCOPES:
        return f"needs a scope among {', '.join(SCOPES)}; got {op.scope}"
    need = context.count(op.scope)
    if need > context.threads:
        return f"a {op.scope} has {need} threads; the CTA has {context.threads}"
    return None


def _kinds(op: TileOp, context: Context) -> str | None:
    table = TILE_OPERATIONS[op.name]
    least, most = table.arity
    if not least <= len(op.operands) <= most:
        return f"takes {least} to {most} operands; got {len(op.operands)}"
    for operand, rule in zip(op.operands, table.operands, strict=False):
        if isinstance(operand, Region) and not rule.region:
            return f"needs a scalar as {rule.name}; got {operand.buffer.name}, in {operand.buffer.space} memory"
        if not isinstance(operand, Region) and not rule.value:
            return f"needs {rule.name} in memory or registers; got a scalar"
    return None


def _dtypes(op: TileOp, context: Context) -> str | None:
    dst, src = op.operands[:2]
    if dst.dtype != src.dtype:
        return f"needs one dtype on both sides; got {dst.dtype} and {src.dtype} (cast converts)"
    return None


def _shapes(op: TileOp, context: Context) -> str | None:
    dst, src = copy_sides(op)
    if _without_units(dst) != _without_units(src):
        return f"needs equal shapes; got {dst.shape} and {src.shape}"
    return None


def _without_units(region: Region) -> tuple[int, ...]:
    return tuple(e for e in region.shape if e != 1)


def tiles(op: TileOp) -> tuple[Region, ...]:
    """The operands that aren't scalars, the destination first."""
    return tuple(o for o in op.operands if isinstance(o, Region))


def outside(op: TileOp, *spaces: str) -> str:
    """The tiles that live in none of `spaces`, as a list for a reason."""
    strangers = (r.buffer for r in tiles(op) if r.buffer.space not in spaces)
    return ", ".join(f"{buffer.name} is {buffer.space}" for buffer in strangers)


def copy_sides(op: TileOp) -> tuple[Region, Region]:
    """Destination and source of a copy."""
    dst, src = op.operands[:2]
    assert isinstance(dst, Region) and isinstance(src, Region)
    return dst, src


def named_tiles(op: TileOp) -> dict[str, Region]:
    """The operands that aren't scalars, by the names that the table of tile operations gives them."""
    named = zip(TILE_OPERATIONS[op.name].operands, op.operands, strict=False)
    return {rule.name: o for rule, o in named if isinstance(o, Region)}


def lead_of(src: Region) -> str:
    """Whose order a copy follows: the global side's, for coalescing."""
    return "src" if src.buffer.space == "global" else "dst"


def memory_pair(text: str, *pairs: tuple[str, str]) -> Condition:
    """Needs (destination, source) in one of `pairs` of spaces. text: these, for the reason."""

    def test(op: TileOp, context: Context) -> str | None:
        spaces = tuple(r.buffer.space for r in tiles(op)[:2])
        if len(spaces) < 2 or spaces in pairs:
            return None
        dst, src = spaces
        return f"moves {text}; got {src} -> {dst}"

    return Condition("memory pair", test)


def needs(instruction: _Needed | Callable[[TileOp], _Needed], what: str = "") -> Condition:
    """Needs a target that has an instruction, which may depend on the operation.

    what: how the reason calls it, where that isn't the instruction's name.
    """

    def test(op: TileOp, context: Context) -> str | None:
        needed = instruction if isinstance(instruction, (Capability, Family)) else instruction(op)
        missing = needed.missing(context.target)
        return None if missing is None else f"{what or needed.name} {missing}"

    return Condition("instruction", test)


def _whole_warps(op: TileOp, context: Context) -> str | None:
    if op.scope == "thread":
        return "needs whole warps; called on one thread"
    threads = context.count(op.scope)
    return f"needs whole warps; the {op.scope} has {threads} threads" if threads % WARP else None


SCOPE = Condition("scope", _scope)

WHOLE_WARPS = Condition("whole warps", _whole_warps)

#: the operands are what the table of tile operations says: regions or scalars, as many
KINDS = Condition("operands", _kinds)

#: what every copy needs of two regions
COPY = (SCOPE, Condition("dtype", _dtypes), Condition("shape", _shapes))
