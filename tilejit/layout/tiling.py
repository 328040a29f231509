"""Composition of layouts: tiling, direct sums, the inverses of both, and packing of elements.

The public functions are methods of `TileLayout`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import LayoutError
from ..wording import shown
from .arguments import extents, integer, other_layout
from .axes import Axis, axis_between, m, threads_in
from .iters import Iter, merged, refined

if TYPE_CHECKING:
    from .tile_layout import TileLayout

Shape = Sequence[int]


def tile(self: TileLayout, outer: TileLayout, outer_shape: Shape, inner_shape: Shape) -> TileLayout:
    """Return the layout of copies of this layout arranged by `outer`, whose strides count whole copies."""
    outer = other_layout(self, outer)
    outer_shape, inner_shape = extents(outer_shape), extents(inner_shape)
    return _combined(outer, self, outer_shape, inner_shape, _spans(self.adapted(inner_shape)))


def direct_sum(self: TileLayout, left: TileLayout, left_shape: Shape, right_shape: Shape) -> TileLayout:
    """Return the sum of `left` and this layout, with `left` slower in each dimension: `tile` without scaling."""
    left = other_layout(self, left)
    left_shape, right_shape = extents(left_shape), extents(right_shape)
    return _combined(left, self, left_shape, right_shape, {})


def _combined(
    slow: TileLayout, fast: TileLayout, slow_shape: Shape, fast_shape: Shape, scale: dict[Axis, int]
) -> TileLayout:
    if len(slow_shape) != len(fast_shape):
        raise LayoutError(
            f"shapes {tuple(slow_shape)} and {tuple(fast_shape)} differ in rank",
            hint="give shapes of the same rank",
        )
    if slow.swizzle is not None:
        raise LayoutError(
            f"{slow!r} is swizzled; only the inner or right layout may be", hint="combine first, and swizzle the result"
        )
    fast = fast.group(fast_shape)[0]
    shard: list[Iter] = []
    slow_groups = refined(slow.group(slow_shape)[0].shard, slow_shape)
    for big, small in zip(slow_groups, refined(fast.shard, fast_shape), strict=True):
        shard += [*_scaled(big, scale), *small]
    replica = (*fast.replica, *_scaled(slow.replica, scale))
    return fast.replace(shard=shard, replica=replica, offset=(*fast.offset, *slow.offset)).canonical(fuse=False)


def _spans(layout: TileLayout) -> dict[Axis, int]:
    span = {it.axis: 1 for it in (*layout.shard, *layout.replica)}
    for it in (*layout.shard, *layout.replica):
        span[it.axis] += (it.extent - 1) * abs(it.stride)
    return span


def _scaled(iters: Sequence[Iter], scale: dict[Axis, int]) -> list[Iter]:
    return [Iter(it.extent, it.stride * scale.get(it.axis, 1), it.axis) for it in iters]


def _divided(iters: Sequence[Iter], scale: dict[Axis, int]) -> list[Iter] | None:
    result = []
    for it in iters:
        by = scale.get(it.axis, 1)
        if it.extent > 1 and it.stride % by != 0:
            return None
        result.append(Iter(it.extent, it.stride // by, it.axis))
    return result


def is_tile_inner(
    self: TileLayout, tiled: TileLayout, tiled_shape: Shape, inner_shape: Shape
) -> TileLayout | None:
    """Return the layout `outer` for which `self.tile(outer, ...)` is `tiled`, or None if none is found."""
    tiled = other_layout(self, tiled)
    tiled_shape, inner_shape = extents(tiled_shape), extents(inner_shape)
    if self.swizzle != tiled.swizzle or not _divides(inner_shape, tiled_shape):
        return None
    small = self.adapted(inner_shape).swizzled(None)
    whole = _split(tiled.adapted(tiled_shape).swizzled(None), small, tiled_is_outside=True)
    shape = _interleaved([t // i for t, i in zip(tiled_shape, inner_shape, strict=True)], inner_shape)
    parts = _groups(whole, shape)
    own = _groups(small.canonical(), inner_shape)
    if whole is None or parts is None or own is None or list(map(merged, parts[1::2])) != list(map(merged, own)):
        return None
    scale = _spans(small.canonical())
    replica = _without(whole.replica, small.canonical().replica)
    shard = _divided([it for group in parts[::2] for it in group], scale)
    copies = None if replica is None else _divided(replica, scale)
    if shard is None or copies is None:
        return None
    return whole.replace(shard=shard, replica=copies, offset=_less(whole, small.canonical()))


def is_tile_outer(
    self: TileLayout, tiled: TileLayout, tiled_shape: Shape, outer_shape: Shape
) -> TileLayout | None:
    """Return the layout `inner` for which `inner.tile(self, ...)` is `tiled`, or None if none is found."""
    tiled = other_layout(self, tiled)
    tiled_shape, outer_shape = extents(tiled_shape), extents(outer_shape)
    if self.swizzle is not None or not _divides(outer_shape, tiled_shape):
        return None
    if _groups(self, outer_shape) is None:
        return None
    fitted = tiled.adapted(tiled_shape)
    whole = _split(fitted, self, tiled_is_outside=False)
    inner_shape = [t // o for t, o in zip(tiled_shape, outer_shape, strict=True)]
    parts = _groups(whole, _interleaved(outer_shape, inner_shape))
    if whole is None or parts is None:
        return None
    inner = whole.replace(shard=[it for group in parts[1::2] for it in group])
    big = self.canonical() if whole is not fitted else self
    replica = _without(inner.replica, _scaled(big.replica, _spans(inner.replace(replica=()))))
    if replica is None:
        return None
    inner = inner.replace(replica=replica, offset=_less(whole, big))
    again = tile(inner, big, outer_shape, inner_shape)
    return inner if again.canonical() == fitted.canonical() else None


def is_direct_sum_left(
    self: TileLayout, total: TileLayout, interleaved_shape: Shape, left_shape: Shape
) -> TileLayout | None:
    """Return the layout `right` for which `right.direct_sum(self, ...)` is `total`, or None if none is found."""
    total = other_layout(self, total)
    interleaved_shape, left_shape = extents(interleaved_shape), extents(left_shape)
    parts, own = _groups(total, interleaved_shape), _groups(self, left_shape)
    if self.swizzle is not None or parts is None or own is None:
        return None
    if list(map(merged, parts[::2])) != list(map(merged, own)):
        return None
    replica = _without(total.replica, self.replica)
    if replica is None:
        return None
    return total.replace(shard=[it for g in parts[1::2] for it in g], replica=replica, offset=_less(total, self))


def _divides(small: Shape, big: Shape) -> bool:
    return len(small) == len(big) and all(b % s == 0 for s, b in zip(small, big, strict=True))


def _interleaved(slow: Shape, fast: Shape) -> list[int]:
    return [n for pair in zip(slow, fast, strict=True) for n in pair]


def _groups(layout: TileLayout | None, shape: Shape) -> tuple[tuple[Iter, ...], ...] | None:
    if layout is None:
        return None
    try:
        return refined(layout.group(shape)[0].shard, shape)
    except LayoutError:
        return None


def _without(iters: Sequence[Iter], less: Sequence[Iter]) -> list[Iter] | None:
    rest = [it for it in iters if it.extent > 1]
    for it in less:
        if it.extent == 1:
            continue
        if it not in rest:
            return None
        rest.remove(it)
    return rest


def _less(whole: TileLayout, part: TileLayout) -> tuple[tuple[Axis, int], ...]:
    return (*whole.offset, *((axis, -value) for axis, value in part.offset))


def _split(tiled: TileLayout, part: TileLayout, *, tiled_is_outside: bool) -> TileLayout | None:
    """Split the thread axis of `tiled` at the level that `part` spans if `tiled_is_outside`, else at `part`'s unit.

    returns: the layout, split if necessary; None if the axes don't nest, or an iterator can't be split there.
    """
    own, other = tiled.scope, part.scope
    if own is None or other is None:
        return tiled
    fused = tiled.canonical()
    if own == other:
        return fused
    shared, cut = (own[0] == other[0], other[1]) if tiled_is_outside else (own[1] == other[1], other[0])
    if not shared or cut not in ("warp", "warpgroup") or own[1] not in ("warpgroup", "cta") or cut in own:
        return None
    low, high, whole = axis_between(own[0], cut), axis_between(cut, own[1]), axis_between(*own)
    count = threads_in(cut) // threads_in(own[0])
    shard = _halves(fused.shard, whole, low, high, count)
    replica = _halves(fused.replica, whole, low, high, count)
    if shard is None or replica is None:
        return None
    offset: list[tuple[Axis, int]] = []
    for axis, value in fused.offset:
        offset += [(high, value // count), (low, value % count)] if axis == whole else [(axis, value)]
    split = fused.replace(shard=shard, replica=replica, offset=offset)
    # if the low parts could add up to `count` or more, they would carry into the high part
    return split if split.span(low) <= count else None


def _halves(iters: Sequence[Iter], whole: Axis, low: Axis, high: Axis, count: int) -> list[Iter] | None:
    result: list[Iter] = []
    for it in iters:
        if it.axis != whole:
            result.append(it)
        elif it.stride % count == 0:
            result.append(Iter(it.extent, it.stride // count, high))
        elif it.stride > 0 and it.extent * it.stride <= count:
            result.append(Iter(it.extent, it.stride, low))
        elif it.stride > 0 and count % it.stride == 0 and it.extent * it.stride % count == 0:
            inside = count // it.stride
            result += [Iter(it.extent // inside, 1, high), Iter(inside, it.stride, low)]
        else:
            return None
    return result


def unpack(self: TileLayout, count: int) -> TileLayout:
    """Return the layout of elements `count` times narrower: each becomes `count` (a power of two) in order."""
    count = _power_of_two(count)
    axis = next((it.axis for it in reversed(self.shard) if not it.axis.is_thread), m)
    fine = self.replace(
        shard=(*_scaled(self.shard, {axis: count}), Iter(count, 1, axis)),
        replica=_scaled(self.replica, {axis: count}),
        offset=[(a, v * count if a == axis else v) for a, v in self.offset],
    )
    return fine if fine.swizzle is None else fine.swizzled(fine.swizzle.repacked(count.bit_length() - 1))


def pack(self: TileLayout, count: int) -> TileLayout:
    """Return the layout of elements `count` times wider: `count` (a power of two) contiguous ones become one."""
    count = _power_of_two(count)
    last = max((k for k, it in enumerate(self.shard) if it.extent > 1), default=0)
    inner = self.shard[last]
    if inner.axis.is_thread or inner.stride != 1 or inner.extent % count != 0:
        raise LayoutError(
            f"can't pack {count} elements into one: the innermost iterator of {self!r} is {inner!r}",
            hint=f"use stride 1 in memory and an extent that is a multiple of {count}",
        )
    scale = {inner.axis: count}
    before = _divided(self.shard[:last], scale)
    replica = _divided(self.replica, scale)
    bad_offset = any(v % count != 0 for a, v in self.offset if a == inner.axis)
    if before is None or replica is None or bad_offset:
        raise LayoutError(
            f"can't pack {count} elements into one: not all outer strides and offsets on {inner.axis} of {self!r} "
            f"are multiples of {count}", hint=f"make them multiples of {count}",
        )
    coarse = self.replace(
        shard=(*before, Iter(inner.extent // count, 1, inner.axis), *self.shard[last + 1 :]),
        replica=replica,
        offset=[(a, v // count if a == inner.axis else v) for a, v in self.offset],
    )
    return coarse if coarse.swizzle is None else coarse.swizzled(coarse.swizzle.repacked(1 - count.bit_length()))


def _power_of_two(count: int) -> int:
    number = integer(count, "a number of elements", "give a power of two")
    if number < 1 or number & (number - 1):
        raise LayoutError(f"pack and unpack take a power of two; got {shown(number)}", hint="write 1, 2, 4, ...")
    return number
