"""The table of tile operations: what each takes, which attributes it knows, what it means."""

from __future__ import annotations

from dataclasses import dataclass

from .elementwise import ELEMENTWISE

__all__ = ["TILE_OPERATIONS", "Operand", "TileOperation"]


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand of a tile operation.

    region, value: whether it may be a region of a buffer; a scalar expression. optional: it may be left out.
    """

    name: str
    region: bool = True
    value: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True)
class TileOperation:
    """One tile operation.

    operands: in order, the destination first. attrs: names of the attributes it may carry, in order.
    meaning: one line. updates: whether it also reads its destination.
    """

    name: str
    operands: tuple[Operand, ...]
    attrs: tuple[str, ...]
    meaning: str
    updates: bool = False

    @property
    def arity(self) -> tuple[int, int]:
        """The least and the greatest number of operands."""
        return sum(not o.optional for o in self.operands), len(self.operands)


_DST = Operand("dst")
_SRC = Operand("src")
_FILL = Operand("fill", region=False, value=True, optional=True)
_INPUTS = {1: ("src",), 2: ("a", "b"), 3: ("a", "b", "c")}


def _elementwise(name: str) -> TileOperation:
    op = ELEMENTWISE[name]
    inputs = tuple(Operand(n, value=True) for n in _INPUTS[op.arity])
    return TileOperation(name, (_DST, *inputs), ("variant",), f"dst = {name}(...): {op.meaning}")


_MOVES = (
    TileOperation(
        "copy", (_DST, _SRC, _FILL), ("variant", "require_bits"),
        "dst = src, one dtype; what lies outside a global tensor reads as fill and is not written",
    ),
    TileOperation(
        "copy_async", (_DST, _SRC, _FILL), ("variant", "require_bits"),
        "as copy, but done only when the kernel has waited for it",
    ),
    TileOperation("fill", (_DST, Operand("value", region=False, value=True)), ("variant",), "dst = one value"),
    TileOperation("cast", (_DST, _SRC), ("variant", "saturate"), "dst = src converted to dst's dtype"),
)  # fmt: skip

_GEMM = TileOperation(
    "gemm", (Operand("acc"), Operand("a"), Operand("b")), ("precision", "variant"),
    "acc += a @ b on tensor cores; float32 factors are rounded to tf32", updates=True,
)  # fmt: skip

#: name -> operation
TILE_OPERATIONS: dict[str, TileOperation] = {
    **{op.name: op for op in _MOVES},
    **{name: _elementwise(name) for name in ELEMENTWISE},
    _GEMM.name: _GEMM,
}
