"""Tiles without elements: what an operation on them leaves to do.

They exist while a kernel is read. Their buffers are never allocated, and the IR has no operation on them.
"""

from __future__ import annotations

from math import prod

from ..dataclass import replace
from ..errors import KernelTypeError
from ..ir.arithmetic import build
from ..ir.nodes import Alloc, BufferView, Region, TileOp
from ..ops.copies import FILL
from ..ops.fold import REDUCE
from ..ops.reduce import axes_of

__all__ = ["is_empty", "is_idle", "remaining"]


def is_empty(shape: tuple[object, ...]) -> bool:
    """Whether a shape has no elements; an extent that is known only at run time counts as one that has."""
    for extent in shape:
        if type(extent) is int and extent == 0:
            return True
    return False


def is_idle(statement: Alloc | BufferView | TileOp) -> bool:
    """Whether a statement is of no elements: an operation has nothing to move, compute or add."""
    if isinstance(statement, TileOp):
        for operand in statement.operands:
            if isinstance(operand, Region) and 0 in operand.extents:
                return True
        return False
    return is_empty(statement.buffer.shape)


def remaining(op: TileOp) -> TileOp:
    """The operation, or what is left of a reduction of no elements: its destination is filled, as NumPy does.

    raises: KernelTypeError, at the operation, where a reduction of no elements has no result.
    """
    reduction = op.record.reduction
    if reduction is None and op.record is not REDUCE:
        return op
    src = op.region("src")
    if prod(src.shape[axis] for axis in axes_of(dict(op.attrs), len(src.shape))):
        return op
    dst = op.region("dst")
    value = None if reduction is None else reduction.of_nothing(reduction.combines_in(src.dtype, dst.dtype))
    if value is None:
        raise KernelTypeError(
            f"{op.name} of no elements has no value: the axes that it reduces of shape {src.shape} are empty",
            span=op.span,
            hint="leave the reduction out where there is nothing to reduce, or begin with a tile that isn't empty",
        )
    return replace(op, name=FILL.name, operands=(dst, build.const(value, dst.dtype)), attrs=())
