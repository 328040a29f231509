"""Where one element of a buffer lives, from its logical indices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...dtypes import DType, int32, int64
from ...errors import LayoutError
from ...ir import build
from ...ir.nodes import Buffer, Expr, Strided
from ...layout import TileLayout
from ...layout.iters import merged, refined, weights
from .addresses import swizzled

__all__ = ["element_offset"]


def element_offset(buffer: Buffer, indices: Sequence[Expr]) -> Expr:
    """The element's offset in memory, swizzled, or for a thread's own tile its register.

    raises: LayoutError where other threads may own the element.
    """
    dtype = int64 if buffer.space == "global" else int32
    if isinstance(buffer.layout, Strided):
        terms = zip(indices, buffer.layout.strides, strict=True)
        return build.total([build.mul(build.cast(i, dtype), s) for i, s in terms], dtype)
    return swizzled(_tiled(buffer, buffer.layout, indices, dtype), buffer.layout.swizzle)


def _tiled(buffer: Buffer, layout: TileLayout, indices: Sequence[Expr], dtype: DType) -> Expr:
    shape = tuple(n for n in buffer.shape if isinstance(n, int))
    layout = layout.adapted(shape) if prod(shape) != layout.size() else layout
    if any(a.is_thread for a in layout.axes()):
        raise LayoutError(
            f"{buffer.name} is spread over threads; its elements can't be named one by one",
            hint="use .registers for the calling thread's own part",
        )
    terms: list[Expr] = [build.const(sum(v for _, v in layout.offset), dtype)]
    for index, group in zip(indices, refined(layout.shard, shape), strict=True):
        run = merged(group)
        for k, (it, worth) in enumerate(zip(run, weights([i.extent for i in run]), strict=True)):
            digit = build.floordiv(build.cast(index, dtype), worth)
            terms.append(build.mul(build.mod(digit, it.extent) if k else digit, it.stride))
    return build.total(terms, dtype)
