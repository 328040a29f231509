"""Sums that lead to elements, written so that unrolled turns share and loops repeat as little as there is."""

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
    """The sum with one part for each depth of loops that its parts change in, outermost first."""
    return offset._replace(parts=tuple(total(ctx, group) for group in groups(ctx, offset.parts)))


def whole(ctx: Context, offset: Offset) -> Offset:
    """The sum as one part."""
    if not offset.parts:
        return offset
    dtype, bits = offset.parts[0].dtype, offset.parts[0].dtype.bits
    past = (offset.past + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
    return Offset((total(ctx, [*offset.parts, Value(str(past), dtype)]),), 0)


def stages(ctx: Context, offset: Offset) -> list[Value]:
    """What to add to an address, one after the other, so that little is added again in each turn of a loop.

    What changes in inner loops comes last. So does the last of 64-bit parts that change together: to add it to the
    address is as much as to add it to the others, and these are the same for all turns of an unrolled loop.
    """
    found: list[Value] = []
    for group in groups(ctx, offset.parts):
        shared = len(group) - 1 if group[0].dtype.bits == 64 else len(group)
        found += [total(ctx, parts) for parts in (group[:shared], group[shared:]) if parts]
    return found


def groups(ctx: Context, parts: Sequence[Value]) -> list[list[Value]]:
    """The parts that change in the same loops together, those of outer loops first."""
    found: dict[int, list[Value]] = {}
    for part in parts:
        found.setdefault(ctx.writer.depth(part.text), []).append(part)
    return [found[depth] for depth in sorted(found)]
