"""Vector widths, and what keeps an operand from one: the one place that decides it, for every variant.

A vector of 8 float16 (16 bytes) needs all of these to be multiples of 8 elements, whatever the thread, round and call:

    address = base + start 0 * 4096 + row * 4096 + vector * 8
              |      `-- offset ----' `-- stride '  `-- the vectors themselves
              `-- the buffer's alignment, 16 bytes
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .placement import Placement
from .strides import Folded, Stride, Thread, multiple_of, shown

__all__ = ["Width", "misaligned"]


@dataclass(frozen=True, slots=True)
class Width:
    """A vector width in elements, and why the next wider one is not provable ("" for the widest)."""

    elements: int
    limit: str


def misaligned(placement: Placement, strides: Sequence[Stride], width: int) -> str | None:
    """Why some address of `placement` isn't a multiple of `width` elements, or None."""
    buffer, swizzle = placement.buffer, placement.swizzle
    bytes_each = buffer.dtype.bytes
    if swizzle is not None and swizzle.chunk < width:
        return f"the swizzle of {buffer.name} keeps {swizzle.chunk} elements together; needs {width}"
    for offset in placement.offsets:
        if offset.multiple % width:
            return (
                f"{offset.what} is a multiple of {offset.multiple * bytes_each} bytes; "
                f"needs a multiple of {width * bytes_each}"
            )
    for stride in strides:
        if isinstance(stride, Thread):
            continue
        if isinstance(stride, Folded):
            return f"a dimension of {buffer.name} moves along several strides at once"
        if multiple_of(stride) % width:
            return (
                f"rows of {buffer.name} start every {shown(stride, bytes_each)} bytes; "
                f"needs a multiple of {width * bytes_each}"
            )
    if buffer.space != "local" and buffer.align % (width * bytes_each):
        return f"the base of {buffer.name} is aligned to {buffer.align} bytes; needs {width * bytes_each}"
    return None
