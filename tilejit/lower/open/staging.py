"""Copies of tiles with fixed layouts that access memory in a better layout, with a conversion between the layouts.

    cta.copy b[...], B[...]        b is a fragment: 2 bytes per access, four rows per warp
    ---
    cta.copy b.1[...], B[...]      16 bytes per access
    cta.copy b[...], b.1[...]      through shared memory
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...errors import LayoutError
from ...ir.nodes import Region
from ...layout import TileLayout
from ...layout.grid import WIDEST_BYTES, Projection
from ...layout.iters import Iter, merged, refined
from ...ops.copies import COPY, INDEX, MASK
from ...scopes import SCOPES
from ...target import WARP
from ..weights import ACCESS, BARRIER, STAGED, WAVEFRONT
from .axes import AxisJoin, Survey, TileUse, Use
from .choose import choose
from .cost import AccessCost, Demand, touched
from .demand import access


def staged(survey: Survey, fixed: Mapping[TileUse, Projection], threads: int) -> dict[int, Projection]:
    """Map the id of a copy to the layout in which it accesses memory instead, if that saves at least a quarter."""
    made: dict[int, Projection] = {}
    chosen: dict[tuple[AccessCost, TileLayout, str], Projection | None] = {}
    for step in survey.steps:
        use = step.home
        if use is None or use.tile not in fixed or not use.tile.is_open or not _may_be(step, use):
            continue
        name = "src" if use.name == "dst" else "dst"
        asked = _asked(step, name)
        layout = _over(use, fixed[use.tile], step.labels[name])
        if asked is None or layout is None:
            continue
        key = asked, layout.layout, step.op.scope
        if key not in chosen:
            chosen[key] = _cheaper(asked, layout, step.op.scope, threads)
        stage = chosen[key]
        if stage is not None:
            made[id(step.op)] = _for_tile(stage, step, use, name)
    return made


def _may_be(step: AxisJoin, use: Use) -> bool:
    op = step.op
    is_plain = op.name == COPY.name and not op.attrs and len(step.uses) == 1
    is_plain = is_plain and {MASK.name, INDEX.name}.isdisjoint(op.options)
    return is_plain and not use.cuts and "global" in (region.buffer.space for region in op.tiles.values())


def _asked(step: AxisJoin, name: str) -> AccessCost | None:
    """Return the access of the operand `name` to memory, or None. Its axes number the region's labelled dimensions."""
    region: Region = step.op.region(name)
    labels = [label for label in step.labels[name] if label is not None]
    axes = [None if label is None else labels.index(label) for label in step.labels[name]]
    return access(region, axes, step.op.scope, is_store=name == "dst")


def _over(use: Use, layout: Projection, labels: Sequence[int | None]) -> Projection | None:
    """Return the layout over the labelled dimensions of the region in memory, or None if it can't be projected."""
    try:
        return layout.along(use.tile.shape, [use.labels.index(label) for label in labels if label is not None])
    except (LayoutError, ValueError):
        return None


def _for_tile(stage: Projection, step: AxisJoin, use: Use, name: str) -> Projection:
    labels = [label for label in step.labels[name] if label is not None]
    dims = [None if label is None else labels.index(label) for label in step.labels[use.name]]
    return stage.along(stage.slots, dims)


def _cheaper(asked: AccessCost, layout: Projection, scope: str, threads: int) -> Projection | None:
    """Return the cheapest layout if it saves at least a quarter of the cost, conversion included; otherwise None."""
    count = SCOPES[scope].threads(threads)
    if count % WARP or not asked.tile:
        return None
    direct = _direct(asked, layout, count // WARP)
    extents = [extent for _, extent in asked.tile]
    best = choose(scope, count, extents, range(len(extents)), Demand({asked: 1}))
    wide = best.grid.project(range(len(extents)), extents)
    conversion = _conversion(asked.bytes, wide.layout, layout.layout) * (count // WARP)
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


def _conversion(size: int, one: TileLayout, other: TileLayout) -> int:
    """Return a conversion's cost per warp: 16-byte accesses for `one`, words for `other`, and two barriers."""
    wide, narrow = (layout.storage().size() * size for layout in (one, other))
    vectors, words = -(-wide // WIDEST_BYTES), -(-narrow // 4)
    return 2 * BARRIER + vectors * (ACCESS + 4 * WAVEFRONT) + words * (ACCESS + WAVEFRONT)
