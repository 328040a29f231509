"""`TileLayout`: a function from the elements of a tile to places."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from types import NoneType

import numpy as np
from numpy.typing import NDArray

from ..dataclass import dataclass
from ..errors import LayoutError
from ..remember import lasting
from ..svg import Picture
from ..wording import counted, shown
from . import arguments, iters, places, tiling
from .axes import Axis, Term, fusion, m, scope_of
from .draw import draw
from .iters import Iter, common_refinement, digits, merged, refined, steps, weights
from .swizzle import Swizzle

IterTriple = tuple[int, int, str]

_EXTENT_AND_STRIDE = operator.attrgetter("extent", "stride")


@dataclass(frozen=True, slots=True, repr=False)
class Replica:
    """`R[extents : strides]`: additional places of every element."""

    iters: tuple[Iter, ...]

    def __repr__(self) -> str:
        return f"R[{iters.source(self.iters)}]"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class TileLayout:
    """A function from a logical index to a place: a coordinate on each axis.

    The index is split into digits over the extents of `shard`, the last fastest; each digit times its iterator's stride
    is added to the coordinate on its iterator's axis. Then `offset` is added, `replica` gives every element additional
    places, and `swizzle` permutes the memory coordinate m.

        S[(4, 8, 2) : (1 @ warpid, 4 @ laneid, 1)] at 37
        digits of 37     2      2      1
        times stride     2      8      1
        axis             warpid laneid m        37 is in warp 2, lane 8, register 1

    source: the tile layouts of Apache TVM's TIRx.

    Example:
        layout = tj.TileLayout(S[(32, 8) : (8, 1)])
        assert layout.shape == (32, 8) and layout.is_bijective()
    """

    shard: tuple[Iter, ...]
    replica: tuple[Iter, ...]
    offset: tuple[tuple[Axis, int], ...]
    swizzle: Swizzle | None

    def __hash__(self) -> int:
        # layouts are keys of many tables; extents and strides distinguish most of them cheaply
        return hash(tuple(map(_EXTENT_AND_STRIDE, self.shard)))

    def __init__(
        self,
        shard: TileLayout | Iterable[Iter],
        replica: Iterable[Iter] = (),
        offset: Iterable[tuple[Axis, int]] = (),
        swizzle: Swizzle | None = None,
    ) -> None:
        if isinstance(shard, TileLayout):
            given = shard
            shard, replica = given.shard, (*given.replica, *replica)
            offset, swizzle = (*given.offset, *offset), swizzle or given.swizzle
        if swizzle is not None:
            arguments.instance(swizzle, Swizzle, "a layout's swizzle", "write Swizzle(bits, base, shift)")
        if not isinstance(shard, Iterable):
            raise LayoutError(f"{shown(shard)} is not a layout", hint="write S[extents : strides]")
        object.__setattr__(self, "shard", tuple(shard))
        object.__setattr__(self, "replica", arguments.items(replica, "a layout's replica", "give a tuple of iterators"))
        object.__setattr__(self, "offset", iters.summed(offset))
        object.__setattr__(self, "swizzle", swizzle)
        if {*map(type, self.shard), *map(type, self.replica)} - {Iter}:
            raise LayoutError(
                f"shard and replica must consist of iterators; got {shown(self.shard)} and {shown(self.replica)}",
                hint="write S[extents : strides], or use from_iters for (extent, stride, axis name) triples",
            )
        if not self.shard and not self.replica:
            raise LayoutError("a layout needs at least one iterator", hint="a single element is S[1]")

    @classmethod
    def from_iters(
        cls,
        shard: Iterable[IterTriple],
        replica: Iterable[IterTriple] = (),
        offset: Mapping[str, int] | None = None,
        swizzle: Swizzle | None = None,
    ) -> TileLayout:
        """Return the layout of (extent, stride, axis name) triples, an {axis name: offset} mapping and a swizzle."""
        if not isinstance(offset, (Mapping, NoneType)):
            raise LayoutError(f"an offset must be a mapping; got {shown(offset)}", hint='write {"laneid": 3}')
        return cls(
            tuple(map(iters.iter_of, arguments.items(shard, "the shard", iters.TRIPLES))),
            tuple(map(iters.iter_of, arguments.items(replica, "the replica", iters.TRIPLES))),
            tuple((Axis(name), value) for name, value in (offset or {}).items()),
            swizzle,
        )

    @classmethod
    def row_major(cls, shape: Sequence[int], swizzle: Swizzle | None = None) -> TileLayout:
        """Return the layout of contiguous memory in row-major order, the last dimension fastest, before any swizzle."""
        checked = arguments.extents(shape)
        return cls(tuple(Iter(n, w, m) for n, w in zip(checked, weights(checked), strict=True)), swizzle=swizzle)

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the shard: the radices of the index."""
        return tuple(it.extent for it in self.shard)

    @property
    def scope(self) -> tuple[str, str] | None:
        """(finest unit, level): ("thread", "warp") if the lanes of a warp own the elements; None without thread axes.

        Axes of replicas and offsets count, too: a value that every lane holds belongs to the warp.
        """
        return scope_of(self.axes())

    @property
    def is_bare(self) -> bool:
        """True if the layout is only a swizzle of contiguous memory; `adapted` fits it to a tile's shape."""
        plain = not self.replica and not self.offset and len(self.shard) == 1
        return self.swizzle is not None and plain and self.shard[0].stride == 1 and self.shard[0].axis == m

    def size(self, axis: Axis | str | None = None) -> int:
        """Return the number of logical elements; with an axis, the product of the shard's extents on it."""
        wanted = _axis(axis)
        return math.prod([it.extent for it in self.shard if wanted is None or it.axis == wanted])

    def span(self, axis: Axis | str | None = None) -> int:
        """Return one more than the highest coordinate on `axis`, before swizzling.

        Without an axis, the coordinates of a place on all memory axes are summed.
        """
        return _memory_span(self) if axis is None else _span(self, _axis(axis))

    def lowest(self, axis: Axis | str) -> int:
        """Return the lowest coordinate on `axis`, which may be negative, before swizzling."""
        wanted = _axis(axis)
        down = [(it.extent - 1) * min(it.stride, 0) for it in (*self.shard, *self.replica) if it.axis == wanted]
        return sum(down) + sum([value for a, value in self.offset if a == wanted])

    def footprint(self) -> int:
        """Return the number of elements of memory to allocate: the span, rounded up to whole swizzle periods."""
        return _footprint(self)

    def storage(self) -> TileLayout:
        """Return the layout without its thread axes: that of the elements that one thread holds."""
        shard = tuple(it for it in self.shard if not it.axis.is_thread)
        replica = tuple(it for it in self.replica if not it.axis.is_thread)
        offset = tuple((a, v) for a, v in self.offset if not a.is_thread)
        return TileLayout(shard or (Iter(1, 1, m),), replica, offset, self.swizzle)

    def axes(self) -> tuple[Axis, ...]:
        """Return the axes in order of appearance, each once."""
        return _axes(self)

    def apply(self, *coord: int, shape: Sequence[int] | None = None) -> dict[str, int] | list[dict[str, int]]:
        """Return the place of one element as {axis name: coordinate}, or a list of its places if there are replicas.

        coord: a flat index, one coordinate per iterator, or, with `shape`, one per dimension.
            The first coordinate has no upper limit, so an index may be past the end.
        """
        at = digits(self.flat_index(coord, shape), self.shape)
        base = dict.fromkeys(self.axes(), 0) | ({m: 0} if self.swizzle else {})
        for axis, value in (*self.offset, *steps(self.shard, at).items()):
            base[axis] += value
        if not self.replica:
            return self._place(base, {})
        counts = [it.extent for it in self.replica]
        copies = (digits(k, counts) for k in range(math.prod(counts)))
        return [self._place(base, steps(self.replica, copy)) for copy in copies]

    __call__ = apply

    def flat_index(self, coord: Sequence[int], shape: Sequence[int] | None = None) -> int:
        """Return the flat row-major index of the coordinates that `apply` takes."""
        coord = arguments.integers(coord, "a coordinate", "write apply(i, j)")
        if shape is not None:
            shape = arguments.extents(shape)
            self._fitted(shape)
        elif len(coord) == 1 != len(self.shard):
            shape = (self.size(),)
        elif len(coord) == len(self.shard):
            shape = self.shape
        else:
            raise LayoutError(
                f"{self!r} takes a flat index or {counted(len(self.shard), 'coordinate')}; got {shown(coord)}",
                hint="pass the logical shape as well, such as shape=(rows, columns)",
            )
        _check_coord(coord, shape)
        return sum(x * w for x, w in zip(coord, weights(shape), strict=True))

    def map_all(self, shape: Sequence[int] | None = None) -> dict[str, NDArray[np.int64]]:
        """Return the coordinates of all elements: axis name -> array over the flat row-major index.

        The arrays have shape (elements,), or (replicas, elements) if the layout is replicated.
        """
        return places.map_all(self._fitted(shape))

    def canonical(self, fuse: bool = True) -> TileLayout:
        """Return an equivalent layout with the fewest iterators in the shard, in the same order; replicas are sorted.

        fuse: also fuse thread axes, such as laneid and warpid into tx.
        raises: LayoutError if `fuse` is True and the thread axes don't nest.
        """
        arguments.instance(fuse, bool, "fuse", "write True or False")
        scope_of(self.axes() if fuse else ())
        moving = [it.axis for it in (*self.shard, *self.replica) if it.extent > 1]
        to = fusion([*moving, *(a for a, _ in self.offset)]) if fuse else {}
        shard = merged(_fused(it, to) for it in self.shard)
        replica = [_fused(it, to) for it in self.replica if it.extent > 1]
        replica.sort(key=lambda it: (it.axis.name, -it.stride, -it.extent))
        offset = tuple((to[a][0], v * to[a][1]) if a in to else (a, v) for a, v in self.offset)
        if not shard and (self.shard or not replica):
            axis = _fused((*self.shard, *self.replica)[0], to).axis
            threads = [a for a in (*(it.axis for it in replica), *(a for a, _ in offset)) if a.is_thread]
            shard = (Iter(1, 1, threads[0] if axis.is_thread and threads else axis),)
        return TileLayout(shard, replica, offset, self.swizzle)

    def group(self, shape: Sequence[int]) -> tuple[TileLayout, tuple[int, ...]]:
        """Return the layout with iterators split so that extents of consecutive groups multiply to those of `shape`.

        returns: the layout, and separators: the iterators of dimension k are shard[separators[k] : separators[k + 1]].
            If `shape` is empty, a layout without replicas keeps an iterator of extent 1.
        raises: LayoutError if an iterator can't be split so, or the sizes differ and the layout isn't bare.
        """
        shape = arguments.extents(shape)
        fitted = self._fitted(shape)
        groups = refined(fitted.shard, shape)
        ends = [0]
        for group in groups:
            ends.append(ends[-1] + len(group))
        shard = tuple(it for group in groups for it in group)
        return fitted.replace(shard=shard if shard or fitted.replica else fitted.shard[:1]), tuple(ends)

    def group_many(self, shapes: Sequence[Sequence[int]]) -> tuple[TileLayout, tuple[tuple[int, ...], ...]]:
        """Return the layout split just enough for all `shapes`, and the separators of each shape."""
        refinement, positions = common_refinement(shapes)
        grouped, separators = self.group(refinement)
        return grouped, tuple(tuple(separators[k] for k in at) for at in positions)

    def permute_groups(self, separators: Sequence[int], perm: Sequence[int]) -> TileLayout:
        """Return the layout with groups of iterators reordered: group k of the result is group perm[k].

        Iterators before the first separator, or from the last one on, are dropped.
        """
        separators = arguments.integers(separators, "separators", "pass the separators that group(shape) returned")
        perm = arguments.integers(perm, "an order", "name each group once")
        count = max(len(separators) - 1, 0)
        if [0, *separators, len(self.shard)] != sorted((0, *separators, len(self.shard))):
            raise LayoutError(
                f"separators {shown(separators)} don't split the {len(self.shard)} iterators of {self!r}",
                hint="pass the separators that group(shape) returned",
            )
        if sorted(perm) != list(range(count)):
            got = f"{shown(perm)} is not a permutation of {counted(count, 'group')}"
            hint = f"name each group from 0 to {count - 1} once" if count else "pass the separators of group(shape)"
            raise LayoutError(got, hint=hint)
        chosen = (self.shard[separators[k] : separators[k + 1]] for k in perm)
        return self.replace(shard=tuple(it for group in chosen for it in group))

    def slice(self, shape: Sequence[int], region: Sequence[tuple[int, int]]) -> TileLayout:
        """Return the layout of a window: slice(shape, region)(x) == self(start + x), except that thread axes are fused.

        A swizzle is kept, and applies after the window's offset is added.
        region: (start, extent) per dimension.
        raises: LayoutError if the region doesn't fit the shape, or the window has no layout.
        """
        shape, region = arguments.extents(shape), iters.windows(region)
        if len(region) != len(shape):
            raise LayoutError(
                f"a region of {counted(len(region), 'dimension')} can't slice shape {tuple(shape)}",
                hint="give (start, extent) for each dimension",
            )
        for dim, ((start, extent), full) in enumerate(zip(region, shape, strict=True)):
            if start < 0 or extent < 1 or start + extent > full:
                raise LayoutError(
                    f"[{start}, {start + extent}) is empty or out of bounds for dimension {dim} of extent {full}",
                    hint="choose a nonempty window inside the shape",
                )
        fitted = self._fitted(shape).canonical()
        shard: list[Iter] = []
        offset = list(fitted.offset)
        for dim, (group, (start, extent)) in enumerate(zip(refined(fitted.shard, shape), region, strict=True)):
            try:
                run, moved = iters.sliced(group, start, extent)
            except LayoutError as error:
                raise LayoutError(f"dimension {dim} of {self!r}: {error.message}", hint=error.hint) from None
            shard.extend(run)
            offset.extend(moved.items())
        return fitted.replace(shard=tuple(shard), offset=tuple(offset))

    def window(
        self, shape: Sequence[int], window: Sequence[int], multiples: Sequence[int]
    ) -> tuple[TileLayout, tuple[Iter, ...]]:
        """Return the layout of a window whose start is, in each dimension, a run-time multiple of that in `multiples`.

        returns: the layout of the window at zero, and for each dimension the iterator along which it
            moves: starting at i * multiple adds i * stride to the coordinate on its axis, before swizzling.
        raises: LayoutError if the window at zero has no layout, or different starts move it along several iterators.
        """
        shape, wide = arguments.extents(shape), arguments.extents(window, "a window's extents")
        multiples = arguments.extents(multiples, "the multiples")
        if not len(shape) == len(wide) == len(multiples):
            ranks = f"{counted(len(wide), 'extent')} and {counted(len(multiples), 'multiple')}"
            raise LayoutError(f"a window of {ranks} doesn't fit shape {shape}", hint="give one of each per dimension")
        zero = self.slice(shape, [(0, n) for n in wide])
        groups = refined(self._fitted(shape).canonical().shard, shape)
        moves = tuple(iters.moved_along(g, k, dim) for dim, (g, k) in enumerate(zip(groups, multiples, strict=True)))
        return zero, moves

    def broadcast(self, extent: int, position: int) -> TileLayout:
        """Return the layout with an iterator of stride 0 inserted at `position`, whose values all share a place."""
        position = arguments.integer(position, "a position", "count the iterators from 0")
        if not 0 <= position <= len(self.shard):
            raise LayoutError(
                f"position {shown(position)} is not between 0 and {len(self.shard)}",
                hint="count the iterators from 0; one past the last appends it",
            )
        return self.replace(shard=(*self.shard[:position], Iter(extent, 0, m), *self.shard[position:]))

    unpack, pack = tiling.unpack, tiling.pack
    tile, direct_sum = tiling.tile, tiling.direct_sum
    is_tile_inner, is_tile_outer = tiling.is_tile_inner, tiling.is_tile_outer
    is_direct_sum_left = tiling.is_direct_sum_left
    owners, inverse = places.owners, places.inverse
    is_injective, is_bijective, equivalent = places.is_injective, places.is_bijective, places.equivalent

    def verify_well_formed(self) -> None:
        """Raise LayoutError if thread axes don't nest, or one has a coordinate below 0 or not below its limit."""
        self.scope  # noqa: B018
        for axis in self.axes():
            if axis.is_thread and self.lowest(axis) < 0:
                raise LayoutError(
                    f"{self!r} reaches {axis} {self.lowest(axis)}; thread axes start at 0",
                    hint=f"count from the other end: add {-self.lowest(axis)} @ {axis}",
                )
            if axis.limit is not None and self.span(axis) > axis.limit:
                raise LayoutError(
                    f"{self!r} reaches {axis} {self.span(axis) - 1}; a {axis.within} has {axis.limit} {axis.unit}s",
                    hint=f"use an axis of a wider scope, such as {'tx' if axis.unit == 'thread' else 'warpid'}",
                )

    def replace(
        self,
        *,
        shard: Iterable[Iter] | None = None,
        replica: Iterable[Iter] | None = None,
        offset: Iterable[tuple[Axis, int]] | None = None,
    ) -> TileLayout:
        """Return the layout with some parts replaced; the swizzle is kept."""
        return TileLayout(
            self.shard if shard is None else shard,
            self.replica if replica is None else replica,
            self.offset if offset is None else offset,
            self.swizzle,
        )

    def swizzled(self, swizzle: Swizzle | None) -> TileLayout:
        """Return the layout with its swizzle replaced, or removed if `swizzle` is None."""
        return TileLayout(self.shard, self.replica, self.offset, swizzle)

    def adapted(self, shape: Sequence[int]) -> TileLayout:
        """Return a bare swizzle applied to `shape` in row-major order, and any other layout unchanged."""
        return TileLayout.row_major(shape, self.swizzle) if self.is_bare else self

    def __add__(self, other: Replica | Term | Axis | int) -> TileLayout:
        if isinstance(other, Replica):
            return self.replace(replica=(*self.replica, *other.iters))
        if isinstance(other, Axis):
            return self.replace(offset=(*self.offset, (other, 1)))
        if isinstance(other, Term):
            return self.replace(offset=(*self.offset, (other.axis, other.value)))
        try:
            return self.replace(offset=(*self.offset, (m, operator.index(other))))
        except TypeError:
            raise LayoutError(
                f"can't add {shown(other)} to a layout", hint="add R[...], an offset such as 3 @ laneid, or a number"
            ) from None

    def __radd__(self, other: object) -> TileLayout:
        raise LayoutError(f"can't add a layout to {shown(other)}", hint="the layout comes first: S[...] + R[...]")

    def __repr__(self) -> str:
        text = f"S[{iters.source(self.shard)}]"
        if self.replica:
            text += f" + R[{iters.source(self.replica)}]"
        for axis, value in self.offset:
            text += f" + {Term(value, axis)!r}"
        if self.swizzle is None:
            return text
        return f"({text}).swizzled({self.swizzle!r})" if " + " in text else f"{text}.swizzled({self.swizzle!r})"

    def draw(self, shape: Sequence[int] | None = None, dtype: object = None) -> Picture:
        """Draw the tile: `layout.draw((8, 8), tj.float16)`. dtype: the element type, which determines the banks."""
        return draw(self, shape, dtype)

    def _repr_svg_(self) -> str:
        return draw(self).svg

    def _fitted(self, shape: Sequence[int] | None) -> TileLayout:
        if shape is None:
            return self
        shape = arguments.extents(shape)
        if math.prod(shape) == self.size():
            return self
        if self.is_bare:
            return self.adapted(shape)
        raise LayoutError(
            f"{self!r} has {self.size()} elements; shape {tuple(shape)} has {math.prod(shape)}",
            hint="give a shape whose extents multiply to the layout's size",
        )

    def _place(self, base: Mapping[Axis, int], more: Mapping[Axis, int]) -> dict[str, int]:
        place = {axis.name: value + more.get(axis, 0) for axis, value in base.items()}
        if self.swizzle is not None:
            place["m"] = self.swizzle.apply(place["m"])
        return place


# cached, because a compilation queries the footprints of a kernel's buffers again and again
@lasting
def _footprint(layout: TileLayout) -> int:
    span = layout.span()
    if layout.swizzle is None or layout.swizzle.is_identity:
        return span
    return -(-span // layout.swizzle.period) * layout.swizzle.period


def _span(layout: TileLayout, axis: Axis | None) -> int:
    chosen = [it for it in (*layout.shard, *layout.replica) if _selected(it.axis, axis)]
    offset = sum([value for a, value in layout.offset if _selected(a, axis)])
    return 1 + sum([(it.extent - 1) * max(it.stride, 0) for it in chosen]) + offset


@lasting
def _memory_span(layout: TileLayout) -> int:
    return _span(layout, None)


@lasting
def _axes(layout: TileLayout) -> tuple[Axis, ...]:
    named = [it.axis for it in (*layout.shard, *layout.replica)] + [axis for axis, _ in layout.offset]
    return tuple(dict.fromkeys(named))


def _check_coord(coord: Sequence[int], shape: Sequence[int]) -> None:
    if len(coord) != len(shape):
        raise LayoutError(
            f"{counted(len(coord), 'coordinate')} {shown(coord)} can't index shape {tuple(shape)}",
            hint="give one per dimension",
        )
    for dim, (x, extent) in enumerate(zip(coord, shape, strict=True)):
        if x < 0 or (dim > 0 and x >= extent):
            raise LayoutError(
                f"coordinate {shown(x)} is out of bounds for dimension {dim} of extent {extent}",
                hint="count from 0" if x < 0 else f"give at most {extent - 1}",
            )


def _fused(it: Iter, to: Mapping[Axis, tuple[Axis, int]]) -> Iter:
    if it.axis not in to:
        return it
    axis, factor = to[it.axis]
    return Iter(it.extent, it.stride * factor, axis)


def _axis(axis: Axis | str | None) -> Axis | None:
    if axis is None or isinstance(axis, Axis):
        return axis
    return Axis(axis)


def _selected(axis: Axis, wanted: Axis | None) -> bool:
    return not axis.is_thread if wanted is None else axis == wanted
