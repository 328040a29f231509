"""Offsets as sums, added up so that unrolled turns share additions and loops repeat few."""

from __future__ import annotations

from collections.abc import Sequence

from .emission import Emission, LLVMValue, OffsetSum


def total(emission: Emission, parts: Sequence[LLVMValue]) -> LLVMValue:
    """The sum of values of one type, first to last."""
    first, *others = parts
    for part in others:
        first = LLVMValue(emission.writer.value(f"add i{part.dtype.bits} {first.text}, {part.text}"), part.dtype)
    return first


def by_depth(emission: Emission, offset: OffsetSum) -> OffsetSum:
    """The sum with its parts added up by the depth of the loop in which they change: one part each, outermost first."""
    parts = tuple([total(emission, group) for group in groups(emission, offset.parts)])
    return OffsetSum(parts, offset.past, offset.wraps)


def whole(emission: Emission, offset: OffsetSum) -> OffsetSum:
    """The sum as one part."""
    if not offset.parts:
        return offset
    dtype, bits = offset.parts[0].dtype, offset.parts[0].dtype.bits
    past = (offset.past + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
    return OffsetSum((total(emission, [*offset.parts, LLVMValue(str(past), dtype)]),), 0)


def stages(emission: Emission, offset: OffsetSum) -> list[LLVMValue]:
    """The numbers to add to an address, in an order that leaves a loop's body few additions.

    What changes in inner loops comes last, so that what outer loops add is added in front of them. Of 64-bit parts
    that change together the last is added by itself: that costs the same one addition, and the sum of the others is
    the same for all turns of an unrolled loop.
    """
    sums: list[LLVMValue] = []
    for group in groups(emission, offset.parts):
        shared = len(group) - 1 if group[0].dtype.bits == 64 else len(group)
        sums += [total(emission, parts) for parts in (group[:shared], group[shared:]) if parts]
    return sums


def groups(emission: Emission, parts: Sequence[LLVMValue]) -> list[list[LLVMValue]]:
    """The parts that change in the same loops together, those of outer loops first."""
    by_depth: dict[int, list[LLVMValue]] = {}
    for part in parts:
        by_depth.setdefault(emission.writer.depth_of(part.text), []).append(part)
    return [by_depth[depth] for depth in sorted(by_depth)]
