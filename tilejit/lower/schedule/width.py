"""Vector widths of memory accesses, and the reasons why wider vectors can't be proven valid."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...dataclass import dataclass
from ...dtypes import int64
from ...ir.nodes import Strided, Var
from ...isa.access import WIDEST_BITS
from .addresses import Folded, Stride, Thread, multiple_of, shown
from .placement import Placement, gathered_offsets
from .views import DigitSchedule, View

#: an index without known facts
_ANY = Var("any", int64)


@dataclass(frozen=True, slots=True)
class Width:
    """A vector width in elements, and the reason why it isn't the widest possible ("" if it is)."""

    elements: int
    limit: str


def widest_vector(schedule: DigitSchedule, names: Collection[str], *, ragged: bool) -> Width:
    """Return the widest vector along a schedule's last digit for which all accesses to operands `names` are aligned.

    A vector has at most `WIDEST_BITS`, is contiguous in these operands, and lies in one chunk of each swizzle. Every
    term of its addresses must be provably a multiple of its width: the strides of all other digits, the offsets and the
    base.
    ragged: True if the last vector of a run may be partial; otherwise the width divides the run.
    source: PTX ISA, "State Spaces, Types, and Variables: vectors", on the alignment of vector accesses.
    """
    bits = max([schedule.operands[name][0].region.dtype.bits for name in names])
    width, limit = max(1, WIDEST_BITS // bits), ""
    while width > 1:
        reason = _obstacle(schedule, names, width, ragged)
        if reason is None:
            return Width(width, limit)
        limit = limit or reason
        width //= 2
    return Width(1, limit)


def _obstacle(schedule: DigitSchedule, names: Collection[str], width: int, ragged: bool) -> str | None:
    run = schedule.run_length(names)
    if run == 1:
        return _no_run([schedule[name] for name in names])
    if width > run:
        return f"only {run} elements are contiguous in all operands; {width} make a vector"
    if not ragged and run % width:
        return f"runs of {run} elements don't divide into vectors of {width}"
    for name in names:
        strides = [digit.strides[name] for digit in schedule.digits[:-1]]
        reason = misaligned(schedule.operands[name][0], strides, width)
        if reason is not None:
            return reason
    return None


def _no_run(views: Sequence[View]) -> str:
    for view in views:
        stride = view.strides[-1] if view.strides else 1
        name, layout = view.buffer.name, view.buffer.layout
        if isinstance(layout, Strided) and layout.unit_dim is None:
            return f"no dimension of {name} is known to have stride 1"
        if isinstance(stride, Folded):
            return f"a dimension of {name} has no constant stride, so its elements may not be contiguous"
        if stride != 1:
            return f"adjacent elements of the fastest dimension are {shown(stride)} elements apart in {name}"
    return "there is only one element"


def misaligned(placement: Placement, strides: Sequence[Stride], width: int) -> str | None:
    """Return why vectors of `width` elements, `strides` apart, may be misaligned or split by a swizzle, or None."""
    region, swizzle = placement.region, placement.swizzle
    buffer, offsets = region.buffer, placement.offsets
    bytes_each = buffer.dtype.bytes
    if swizzle is not None and swizzle.chunk < width:
        return f"the swizzle of {buffer.name} keeps {swizzle.chunk} elements together; needs {width}"
    if region.gathered is not None:
        offsets += gathered_offsets(region, _ANY)
    for offset in offsets:
        if offset.multiple % width:
            return (
                f"{offset.what} is a multiple of {offset.multiple * bytes_each} bytes; "
                f"needs a multiple of {width * bytes_each}"
            )
    for stride in strides:
        if isinstance(stride, Thread):
            continue
        if isinstance(stride, Folded):
            return f"a dimension of {buffer.name} has no constant stride"
        if multiple_of(stride) % width:
            return (
                f"rows of {buffer.name} start every {shown(stride, bytes_each)} bytes; "
                f"needs a multiple of {width * bytes_each}"
            )
    if buffer.space != "local" and buffer.align % (width * bytes_each):
        return f"the base of {buffer.name} is aligned to {buffer.align} bytes; needs {width * bytes_each}"
    return None
