"""Offsets as sums, added up so that unrolled turns share additions and loops repeat few."""

from __future__ import annotations

from collections.abc import Sequence

from .context import Context, Offset, Value


def total(ctx: Context, parts: Sequence[Value]) -> Value:
    """The sum of values of one type, first to last."""
    first, *others = parts
    for part in others:
        first = Value(ctx.writer.value(f"add i{part.dtype.bits} {first.text}, {part.text}"), part.dtype)
    return first


def by_depth(ctx: Context, offset: Offset) -> Offset:
    """The sum with its parts added up by the depth of the loop in which they change: one part each, outermost first."""
    return offset._replace(parts=tuple(total(ctx, group) for group in groups(ctx, offset.parts)))


def whole(ctx: Context, offset: Offset) -> Offset:
    """The sum as one part."""
    if not offset.parts:
        return offset
    dtype, bits = offset.parts[0].dtype, offset.parts[0].dtype.bits
    past = (offset.past + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
    return Offset((total(ctx, [*offset.parts, Value(str(past), dtype)]),), 0)


def stages(ctx: Context, offset: Offset) -> list[Value]:
    """The numbers to add to an address, in an order that leaves a loop's body few additions.

    What changes in inner loops comes last, so that what outer loops add is added in front of them. Of 64-bit parts
    that change together the last is added by itself: that costs the same one addition, and the sum of the others is
    the same for all turns of an unrolled loop.
    """
    sums: list[Value] = []
    for group in groups(ctx, offset.parts):
        shared = len(group) - 1 if group[0].dtype.bits == 64 else len(group)
        sums += [total(ctx, parts) for parts in (group[:shared], group[shared:]) if parts]
    return sums


def groups(ctx: Context, parts: Sequence[Value]) -> list[list[Value]]:
    """The parts that change in the same loops together, those of outer loops first."""
    by_depth: dict[int, list[Value]] = {}
    for part in parts:
        by_depth.setdefault(ctx.writer.depth(part.text), []).append(part)
    return [by_depth[depth] for depth in sorted(by_depth)]
