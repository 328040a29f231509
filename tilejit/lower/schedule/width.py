"""Which vector width is provable: the one place that decides it, for every variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...ir.nodes import Strided
from .placement import Folded, Scaled, Side, Stride, Thread, stride_multiple
from .schedule import Atom

__all__ = ["Width", "misaligned", "run_length", "vector_width"]

#: the widest access of one thread
WIDEST_BITS = 128


@dataclass(frozen=True, slots=True)
class Width:
    """A vector width in elements, and why the next wider one is not provable ("" for the widest)."""

    elements: int
    limit: str


def run_length(atoms: Sequence[Atom]) -> int:
    """Elements that follow each other in memory or registers on every side, along the last atom."""
    if not atoms or any(s != 1 for s in atoms[-1].strides):
        return 1
    return atoms[-1].extent


def vector_width(sides: Sequence[Side], atoms: Sequence[Atom], *, ragged: bool) -> Width:
    """The widest vector along the last of `atoms` that every access of every thread, round and call aligns to.

    Every term of every address must be a multiple of it: strides of all other digits, those among threads
    included, offsets, and the base; a swizzle must keep it in one chunk, and it must be contiguous on all sides.
    ragged: whether the last vector of a run may be a part of one; else the width divides the run.
    source: PTX ISA, "State Spaces, Types, and Variables: vectors" on natural alignment.
    """
    bits = max(s.buffer.dtype.bits for s in sides)
    run = run_length(atoms)
    width, limit = max(1, WIDEST_BITS // bits), ""
    while width > 1:
        reason = _obstacle(sides, atoms, run, width, ragged)
        if reason is None:
            return Width(width, limit)
        limit = limit or reason
        width //= 2
    return Width(1, limit)


def _obstacle(sides: Sequence[Side], atoms: Sequence[Atom], run: int, width: int, ragged: bool) -> str | None:
    if run == 1:
        return _no_run(sides, atoms)
    if width > run:
        return f"only {run} elements follow each other on both sides; {width} make a vector"
    if not ragged and run % width:
        return f"runs of {run} elements don't divide into vectors of {width}"
    for index, side in enumerate(sides):
        reason = misaligned(side, [a.strides[index] for a in atoms[:-1]], width)
        if reason is not None:
            return reason
    return None


def _no_run(sides: Sequence[Side], atoms: Sequence[Atom]) -> str:
    for index, side in enumerate(sides):
        stride = atoms[-1].strides[index] if atoms else 1
        layout = side.buffer.layout
        if isinstance(layout, Strided) and layout.unit_dim is None:
            return f"no dimension of {side.buffer.name} is known to have stride 1"
        if isinstance(stride, Folded):
            return "the two sides split a dimension so differently that neighbours don't stay together"
        if stride != 1:
            return f"neighbours along the fastest dimension are {_shown(stride)} elements apart in {side.buffer.name}"
    return "one element is all there is"


def misaligned(side: Side, strides: Sequence[Stride], width: int) -> str | None:
    """Why some address of `side` isn't a multiple of `width` elements, or None."""
    bytes_each = side.buffer.dtype.bytes
    if side.swizzle is not None and side.swizzle.chunk < width:
        return f"the swizzle of {side.buffer.name} keeps {side.swizzle.chunk} elements together; needs {width}"
    for offset in side.offsets:
        if offset.multiple % width:
            return (
                f"{offset.what} is a multiple of {offset.multiple * bytes_each} bytes; "
                f"needs a multiple of {width * bytes_each}"
            )
    for stride in strides:
        if isinstance(stride, Thread):
            continue
        if isinstance(stride, Folded):
            return f"a dimension of {side.buffer.name} moves along several strides at once"
        if stride_multiple(stride) % width:
            return (
                f"rows of {side.buffer.name} start every {_shown(stride, bytes_each)} bytes; "
                f"needs a multiple of {width * bytes_each}"
            )
    if side.buffer.space != "local" and side.buffer.align % (width * bytes_each):
        return f"the base of {side.buffer.name} is aligned to {side.buffer.align} bytes; needs {width * bytes_each}"
    return None


def _shown(stride: Stride, scale: int = 1) -> str:
    if isinstance(stride, int):
        return str(stride * scale)
    if isinstance(stride, Scaled):
        return f"{stride.var.name} (a multiple of {stride.multiple * scale})"
    return "an uneven number of"
