"""Layouts that don't depend on a choice of grid: the user's, those of products, and those that propagate from them.

Products are distributed over the warps of a scope, which determines the layouts of their operands. Examples, by the
extents of the accumulator (M x N):

    64 x 40 on 4 warps    16 rows each                48 x 40 on 4 warps    the last warp has padding only
    16 x 8 on 4 warps     every warp holds all of it  13 x 1 on 1 warp      3 rows of padding; 4 lanes hold each row

A copy of a tile with a fixed layout may access memory in a better layout (`staged`):

    cta.copy b[...], B[...]        b is a fragment: a warp accesses four rows at a time, 2 bytes per lane
    ---
    cta.copy b.1[...], B[...]      16 bytes per lane
    cta.copy b[...], b.1[...]      through shared memory
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod

from ...dataclass import dataclass
from ...errors import LayoutError
from ...ir.nodes import Kernel, Open
from ...isa.mma import MMA_M, MMA_N, products
from ...layout import TileLayout
from ...layout.axes import m
from ...layout.fragments import fragment_layout
from ...layout.grid import WIDEST_BYTES, Projection, packed, same_owners
from ...layout.iters import Iter, merged, refined
from ...ops import axes
from ...ops.axes import Labels
from ...ops.copies import COPY, INDEX, MASK
from ...scopes import SCOPES
from ...target import WARP, target
from ..weights import ACCESS, BARRIER, STAGED, WAVEFRONT
from .axes import AxisJoin, Survey, TileUse, Use
from .choose import AccessCost, Demand, access, choose, touched

#: cost of a warp's mma.sync in quarter cycles of a multiprocessor: 2,048 16-bit multiply-adds, at 1,024 per cycle
_MMA = 8


#: (wm, wn, copies): warps along M and along N, and the number of groups of wm * wn warps with the same results
_Split = tuple[int, int, int]


class ProductLayouts:
    """Distributes a kernel's products over the warps of each scope, and derives the layouts of their operands."""

    def __init__(self, kernel: Kernel, survey: Survey) -> None:
        steps = [step for step in survey.steps if step.op.record.relation is axes.PRODUCT]
        # the user's layouts, and those that propagate from them to other tiles
        self._by_hand, self._target = anchored(survey) if steps else {}, target(kernel.target)
        self._splits: dict[str, _Split] = {}
        self._lefts = {step.uses["a"].tile.axes for step in steps if "a" in step.uses}
        self._reductions = Counter(axis for step in survey.steps for axis in _reduced(step))
        for scope in dict.fromkeys(step.op.scope for step in steps):
            warps, rest = divmod(SCOPES[scope].threads(kernel.threads), WARP)
            if not rest:
                same = [step for step in steps if step.op.scope == scope]
                self._splits[scope] = min(_splits(warps), key=lambda split: self._order(same, split))

    def layout(self, step: AxisJoin, name: str) -> Projection | None:
        """Return the layout that a product requires for an operand, over its region's dimensions, or None."""
        split = self._splits.get(step.op.scope)
        return None if split is None else self._fragment(step, name, split)

    def of_tile(self, step: AxisJoin, use: Use) -> Projection | None:
        """Return the layout that a product requires for a tile; None if there is none, or for a part of a tile.

        A tile whose matrices are multiplied one by one has all of them in its threads' registers, one after the other.
        """
        batch = [dim for dim, start, extent in use.cuts if start is not None and extent == 1]
        if len(batch) < len(use.cuts) or batch != list(range(len(batch))):
            return None
        wanted = _over_tile(step, use, self.layout(step, use.name))
        return wanted if wanted is None or not batch else _repeated(wanted, use.tile, len(batch))

    def _order(self, steps: Iterable[AxisJoin], split: _Split) -> tuple[int, ...]:
        """Return a sort key: least time, fewest warps with distinct work, least A and B traffic, most warps along M."""
        time = traffic = 0
        wm, wn, copies = split
        for step in steps:
            (m, n), k = step.op.region("acc").shape, step.op.region("a").shape[1]
            issues = -(-m // (MMA_M * wm)) * -(-n // (MMA_N * wn)) * self._depth(step)[1]
            time += step.iterations * (_MMA * issues + sum(self._conversions(step, split)))
            traffic += copies * (m * k * wn + k * n * wm)
        return time, wm * wn, traffic, -wm

    def _conversions(self, step: AxisJoin, split: _Split) -> Iterable[int]:
        """Yield costs per warp: of operands with other layouts, and of accumulators reused as A if warps split rows."""
        for name, use in step.uses.items():
            there = self._by_hand.get(use.tile)
            is_cut = name == "acc" and split[1] > 1 and use.tile.axes in self._lefts
            wanted = self._fragment(step, name, split) if is_cut or there is not None else None
            if wanted is None:
                continue
            if there is not None and not _fits(_over_tile(step, use, wanted), there, use.tile):
                yield (2 if name == "acc" else 1) * _conversion(wanted, use)
            elif is_cut:
                # unless warps hold whole rows, reuse as A takes a conversion, and each reduction of rows two barriers
                axes = zip(use.tile.axes, use.labels, strict=True)
                crossed = sum(self._reductions[axis] for axis, label in axes if label == 1)
                yield _conversion(wanted, use) + 2 * BARRIER * crossed

    def _fragment(self, step: AxisJoin, name: str, split: _Split) -> Projection | None:
        region, (multiple, _) = step.op.region(name), self._depth(step)
        scope = "warpgroup" if step.op.scope == "warpgroup" else "cta"
        wm, wn, copies = split
        try:
            return fragment_layout(name, region.shape, region.dtype, (wm, wn), copies, multiple, scope)
        except LayoutError:
            return None

    def _depth(self, step: AxisJoin) -> tuple[int, int]:
        """Return (the multiple to which K is padded, instructions along K); (1, 1) if the target has no instruction."""
        k = step.op.region("a").shape[1]
        acc, a, b = (step.op.region(name).dtype for name in ("acc", "a", "b"))
        depths = [form.k for form in products(a, b, acc).on(self._target)]
        if not depths:
            return 1, 1
        multiple = min(depths)
        slots = -(-k // multiple) * multiple
        return multiple, slots // next(depth for depth in depths if slots % depth == 0)


def _reduced(step: AxisJoin) -> Iterator[int | None]:
    if step.op.record.relation is not axes.REDUCTION or "src" not in step.uses:
        return
    use = step.uses["src"]
    for axis, label in zip(use.tile.axes, use.labels, strict=True):
        if label is not None and label not in step.labels["dst"]:
            yield axis


def _splits(warps: int) -> list[_Split]:
    every = range(1, warps + 1)
    return [(wm, wn, warps // (wm * wn)) for wm in every for wn in every if warps % (wm * wn) == 0]


@dataclass(frozen=True, slots=True)
class LabelledLayout:
    """The layout of an operand's labelled dimensions, with explicit slots. labels: the label of each, in order."""

    layout: Projection
    labels: tuple[int, ...]

    @staticmethod
    def of(whole: Projection, shape: tuple[int, ...], labels: Labels) -> LabelledLayout | None:
        """Project a tile's layout to the labelled dimensions; return None if it doesn't split into the dimensions."""
        kept = [dim for dim, label in enumerate(labels) if label is not None]
        try:
            return LabelledLayout(whole.along(shape, kept), _given(labels))
        except LayoutError:
            return None

    def over(self, labels: Labels) -> Projection:
        """Return the layout of a tile with these labels, all among the layout's, or None for dimensions of extent 1."""
        dims = [None if label is None else self.labels.index(label) for label in labels]
        return self.layout.along(self.layout.slots, dims)


def _given(labels: Labels) -> tuple[int, ...]:
    return tuple([label for label in labels if label is not None])


def _over_tile(step: AxisJoin, use: Use, wanted: Projection | None) -> Projection | None:
    """Return `wanted` over the dimensions of the operand's tile; None if `wanted` is None or lacks one of them."""
    labels = step.labels[use.name]
    if wanted is None or not set(_given(use.labels)) <= set(labels):
        return None
    dims = [None if label is None else labels.index(label) for label in use.labels]
    return wanted.along(step.op.region(use.name).shape, dims).concise(use.tile.shape)


def _repeated(one: Projection, tile: TileUse, rank: int) -> Projection:
    """Return the layout of a tile of matrices, given that of one. rank: the number of dimensions that count matrices.

    Each matrix starts at a 32-bit register.
    """
    shape, in_word = tile.shape, max(1, 4 // tile.buffer.dtype.bytes)
    extents, step = shape[:rank], -(-one.layout.span() // in_word) * in_word
    count = [Iter(n, step * prod(extents[d + 1 :]), m) for d, n in enumerate(extents)]
    slots = (*extents, *one.padded((1,) * rank + shape[rank:])[rank:])
    return Projection(TileLayout((*count, *one.layout.shard), one.layout.replica), slots).concise(shape)


def _fits(wanted: Projection | None, there: Projection, tile: TileUse) -> bool:
    if wanted is None:
        return False
    sides = [
        (each.layout, [n for n, extent in zip(each.padded(tile.shape), tile.shape, strict=True) if extent > 1])
        for each in (wanted, there)
    ]
    return same_owners(*sides[0], *sides[1])


def _conversion(wanted: Projection, use: Use) -> int:
    words = -(-wanted.layout.storage().size() * use.region.dtype.bytes // 4)
    return 2 * BARRIER + 2 * words * (ACCESS + WAVEFRONT)


def anchored(survey: Survey, products: ProductLayouts | None = None) -> dict[TileUse, Projection]:
    """Map tiles to fixed layouts and those that propagate from them; without `products`, only the user's are fixed."""
    uses = [(step, use) for step in survey.steps for use in step.uses.values()]
    anchors = [(s, u.tile, layout) for s, u in uses if (layout := _fixed(s, u, products)) is not None]
    if not anchors:
        return {}
    fixed: dict[TileUse, Projection] = {}
    steps_of: dict[TileUse, list[AxisJoin]] = {}
    for step, use in uses:
        if step.op.record.relation.share_layouts:
            steps_of.setdefault(use.tile, []).append(step)
    for step, tile, layout in anchors:
        if tile not in fixed:
            fixed[tile] = layout
            by_dimension = len(layout.padded(tile.shape)) == len(tile.shape)
            if by_dimension and _covers_scope(layout.layout, SCOPES[step.op.scope].threads(survey.threads)):
                _spread(tile, fixed, steps_of)
    return fixed


def _covers_scope(layout: TileLayout, threads: int) -> bool:
    """True if every thread of a scope has elements or padding, or each has all. Only then can the layout propagate."""
    owners = [it.extent for it in (*layout.shard, *layout.replica) if it.axis.is_thread]
    return not owners or prod(owners) == threads


def _fixed(step: AxisJoin, use: Use, products: ProductLayouts | None) -> Projection | None:
    """Return the user's layout of a tile, or the one that a product requires; None if there is neither."""
    layout = use.tile.buffer.layout
    if isinstance(layout, TileLayout):
        return Projection(layout, use.tile.buffer.slots)
    if products is None or step.op.record.relation is not axes.PRODUCT:
        return None
    return products.of_tile(step, use)


def _spread(first: TileUse, fixed: dict[TileUse, Projection], steps_of: Mapping[TileUse, Sequence[AxisJoin]]) -> None:
    waiting = [first]
    while waiting:
        tile = waiting.pop()
        for step in steps_of.get(tile, ()):
            source = next(use for use in step.uses.values() if use.tile is tile)
            for use in step.uses.values():
                if use.tile in fixed or not use.tile.is_open:
                    continue
                layout = _reached(source, use, fixed[tile])
                if layout is not None:
                    fixed[use.tile] = layout
                    waiting.append(use.tile)


def _reached(source: Use, use: Use, layout: Projection) -> Projection | None:
    """Return the layout that propagates from `source`, whose tile has `layout`, to the tile of `use`, or None."""
    part = None if use.cuts else part_of(layout, source)
    if part is None:
        return None
    wanted = use.tile.buffer.layout
    if isinstance(wanted, Open) and any(
        axis.is_thread and axis.name not in SCOPES[wanted.scope].steps for axis in layout.layout.axes()
    ):
        return None
    axes = dict(zip(source.labels, source.tile.axes, strict=True))
    for label, axis in zip(use.labels, use.tile.axes, strict=True):
        # dimensions of extent 1 have neither label nor axis
        if axis is not None and (label is None or axes.get(label) != axis):
            return None
    pairs = zip(use.labels, use.tile.axes, strict=True)
    dims = [None if axis is None else source.labels.index(label) for label, axis in pairs]
    try:
        # a single projection: projecting twice could represent equal replicas differently
        return part.along(source.extents, dims).concise(use.tile.shape)
    except LayoutError:
        return None


def part_of(layout: Projection, use: Use) -> Projection | None:
    """Return the layout of the part of a tile that an operand uses.

    None if a cut starts at a run-time value, the part has no layout, or some owners of the tile own none of the part.
    """
    if not use.cuts:
        return layout
    extents, whole = use.extents, layout.padded(use.tile.shape)
    starts = {dim: start for dim, start, _ in use.cuts}
    if None in starts.values():
        return None
    box = tuple([
        (start := starts.get(d) or 0, slots - start if start + extents[d] == n else extents[d])
        for d, (n, slots) in enumerate(zip(use.tile.shape, whole, strict=True))
    ])
    try:
        made = layout.layout.slice(whole, box)
    except LayoutError:
        return None
    begins_later = any(axis.is_thread and value for axis, value in made.offset)
    if begins_later or _spread_over(made) != _spread_over(layout.layout):
        return None
    slots = tuple(extent for _, extent in box)
    return Projection(TileLayout(packed(made.shard), made.replica), slots).concise(extents)


def _spread_over(layout: TileLayout) -> int:
    return prod(it.extent for it in layout.shard if it.axis.is_thread)


def staged(survey: Survey, fixed: Mapping[TileUse, Projection], threads: int) -> dict[int, Projection]:
    """Map the id of a copy to another layout to access memory in, if that and a conversion cost at most 3/4 as much."""
    made: dict[int, Projection] = {}
    chosen: dict[tuple[AccessCost, TileLayout, str], Projection | None] = {}
    for step in survey.steps:
        use = step.home
        if use is None or use.tile not in fixed or not use.tile.is_open or not _may_be(step, use):
            continue
        name = "src" if use.name == "dst" else "dst"
        labels = _given(step.labels[name])
        asked, seen = _asked(step, name), LabelledLayout.of(fixed[use.tile], use.tile.shape, use.labels)
        if asked is None or seen is None or not set(labels) <= set(seen.labels):
            continue
        layout = seen.over(labels)
        key = asked, layout.layout, step.op.scope
        if key not in chosen:
            chosen[key] = _cheaper(asked, layout, step.op.scope, threads)
        stage = chosen[key]
        if stage is not None:
            made[id(step.op)] = LabelledLayout(stage, labels).over(step.labels[use.name])
    return made


def _may_be(step: AxisJoin, use: Use) -> bool:
    op = step.op
    is_plain = op.name == COPY.name and not op.attrs and len(step.uses) == 1
    is_plain = is_plain and {MASK.name, INDEX.name}.isdisjoint(op.options)
    return is_plain and not use.cuts and "global" in (region.buffer.space for region in op.tiles.values())


def _asked(step: AxisJoin, name: str) -> AccessCost | None:
    """Return the access to operand `name` in memory, or None. Axis k is the k-th labelled dimension of its region."""
    numbers = {label: axis for axis, label in enumerate(_given(step.labels[name]))}
    axes = [None if label is None else numbers[label] for label in step.labels[name]]
    return access(step.op.region(name), axes, step.op.scope, is_store=name == "dst")


def _cheaper(asked: AccessCost, layout: Projection, scope: str, threads: int) -> Projection | None:
    """Return the cheapest layout if it saves at least a quarter of the cost, conversion included; otherwise None."""
    count = SCOPES[scope].threads(threads)
    if count % WARP or not asked.tile:
        return None
    direct = _direct(asked, layout, count // WARP)
    extents = tuple([extent for _, extent in asked.tile])
    best = choose(scope, count, extents, range(len(extents)), Demand({asked: 1}))
    wide = best.grid.project(range(len(extents)), extents)
    conversion = _staged_conversion(asked.bytes, wide.layout, layout.layout) * (count // WARP)
    part, whole = STAGED
    is_cheaper = whole * (best.cost + conversion) <= part * direct
    return Projection(wide.layout, wide.padded(extents)) if is_cheaper else None


def _direct(asked: AccessCost, layout: Projection, warps: int) -> int:
    """Return the cost of the access in a layout: all vectors of one warp, times the number of warps that execute it."""
    run, times, lanes = asked.bytes, 1, []
    groups = refined(layout.layout.canonical().shard, layout.slots)
    shared = 1
    for group, (axis, _), stride in zip(groups, asked.tile, asked.strides, strict=True):
        worth = 1
        for it in reversed(merged(group)):
            step = None if stride is None else stride * worth
            if it.axis.is_thread:
                inside, outside = _in_a_warp(it)
                lanes += [(inside, step)] if inside > 1 else []
                shared *= outside
            elif axis == asked.unit and worth == 1 and it.stride == 1:
                width = max(w for w in (1, 2, 4, 8, 16) if it.extent % w == 0 and w * asked.bytes <= WIDEST_BYTES)
                width = min(width, asked.width)
                run, times = run * width, times * (it.extent // width)
            else:
                times *= it.extent
            worth *= it.extent
    return touched(run, tuple(lanes)) * times * (shared if asked.is_store else warps)


def _in_a_warp(it: Iter) -> tuple[int, int]:
    if it.axis.unit == "warp" or it.stride >= WARP:
        return 1, it.extent
    inside = min(it.extent, WARP // it.stride)
    return inside, it.extent // inside


def _staged_conversion(size: int, one: TileLayout, other: TileLayout) -> int:
    """Return a conversion's cost per warp: accesses of 16 bytes for `one`, of 4 bytes for `other`, and two barriers."""
    wide, narrow = (layout.storage().size() * size for layout in (one, other))
    vectors, words = -(-wide // WIDEST_BYTES), -(-narrow // 4)
    return 2 * BARRIER + vectors * (ACCESS + 4 * WAVEFRONT) + words * (ACCESS + WAVEFRONT)
