"""Operations on tiles without elements: such tiles are never allocated, and no IR operation uses them."""

from __future__ import annotations

from math import prod

from ..dataclass import replace
from ..errors import KernelTypeError
from ..ir.arithmetic import build
from ..ir.nodes import Alloc, BufferView, Region, TileOp
from ..ops.copies import FILL
from ..ops.fold import REDUCE
from ..ops.reduce import axes_of


def is_empty(shape: tuple[object, ...]) -> bool:
    """True if a static extent is 0; a run-time extent counts as nonzero."""
    for extent in shape:
        if type(extent) is int and extent == 0:
            return True
    return False


def is_idle(statement: Alloc | BufferView | TileOp) -> bool:
    """True if an operand of the operation, or the buffer that the statement defines, has no elements."""
    if isinstance(statement, TileOp):
        for operand in statement.operands:
            if isinstance(operand, Region) and 0 in operand.extents:
                return True
        return False
    return is_empty(statement.buffer.shape)


def remaining(op: TileOp) -> TileOp:
    """Return the operation, or a fill for a reduction of no elements; raise KernelTypeError if that is undefined."""
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
            f"{op.name} of no elements has no value: it reduces an empty axis of a tile of shape {src.shape}",
            span=op.span,
            hint="leave the reduction out where there is nothing to reduce, or reduce a tile that has elements",
        )
    return replace(op, name=FILL.name, operands=(dst, build.const(value, dst.dtype)), attrs=())
