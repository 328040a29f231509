"""Views that start behind their bases."""

from __future__ import annotations

from math import gcd

from ...dataclass import replace
from ..nodes import Buffer, Expr
from .facts import multiple_of

__all__ = ["root_offset_divisor", "displaced"]


def displaced(base: Buffer, offset: Expr, name: str) -> Buffer:
    """The view of a buffer that starts `offset` elements behind it."""
    align = gcd(base.align, multiple_of(offset) * base.dtype.bytes)
    return replace(base, name=name, base=base, offset=offset, align=align, span=None)


def root_offset_divisor(buffer: Buffer) -> int:
    """A number that divides how many bytes a buffer starts behind the one that owns its storage; 0 where it doesn't."""
    number, view = 0, buffer
    while view.base is not None:
        if view.offset is not None:
            number = gcd(number, multiple_of(view.offset) * view.dtype.bytes)
        view = view.base
    return number
