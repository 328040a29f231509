"""Views at an offset from their base."""

from __future__ import annotations

from math import gcd

from ...dataclass import replace
from ..nodes import Buffer, Expr
from .facts import multiple_of


def displaced(base: Buffer, offset: Expr, name: str) -> Buffer:
    """Return the view that starts `offset` elements after the start of `base`."""
    align = gcd(base.align, multiple_of(offset) * base.dtype.bytes)
    return replace(base, name=name, base=base, offset=offset, align=align, span=None)


def root_offset_divisor(buffer: Buffer) -> int:
    """Return a divisor of a buffer's offset in bytes from its root; 0 if the offset is zero."""
    number, view = 0, buffer
    while view.base is not None:
        if view.offset is not None:
            number = gcd(number, multiple_of(view.offset) * view.dtype.bytes)
        view = view.base
    return number
