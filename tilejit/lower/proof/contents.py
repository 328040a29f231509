"""The contents of an operation's tiles before it is traced, and the contents that it should leave."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import gcd, lcm, prod
from typing import Any

import numpy as np

from ...dtypes import bool_, int8, int16, int32, uint16
from ...ir.arithmetic import build
from ...ir.arithmetic.evaluate import evaluate
from ...ir.nodes import TRUE, Buffer, Const, Expr, Load, Region, Special, Strided, TileOp, Var, Vector
from ...ir.walk import subexpressions
from ...layout import TileLayout
from ...ops.atomic import ATOMIC
from ...ops.copies import COPY, INDEX, INDICES, MASK, RESHAPE
from ...ops.gemm import GEMM
from ...ops.inline import OUTPUTS, form_of
from ...scopes import THREAD_IDS
from ..builder import Builder
from ..plans import launch_values
from ..rematerialized import value_of
from ..schedule.placement import inside
from . import tags
from .matrices import multiplied
from .places import addresses, owners_of, tmem_places
from .sums import results
from .tags import Array, Value, tag
from .trace import TMEM_PITCH, TaggedMemory, Trace

#: starts of regions from which on addresses may wrap around
_FAR = 1 << 40

_COPIES = (COPY.name, "copy_async", RESHAPE.name)


def numbers_of(op: TileOp) -> dict[str, int]:
    """Return values of the variables in the shapes and strides of tiles: all regions are inside their tensors."""
    regions = tuple(op.tiles.values())
    numbers = launch_values(regions)
    for region in regions:
        for start, count, extent in zip(region.starts, region.counts, region.buffer.shape, strict=True):
            if isinstance(extent, Var):
                least = max(int(evaluate(start, numbers)) + count, numbers.get(extent.name, 0), 1)
                numbers[extent.name] = -(-least // max(extent.multiple_of, 1)) * max(extent.multiple_of, 1)
    return numbers


def can_trace(op: TileOp, numbers: dict[str, int], ranks: Sequence[Mapping[str, int]]) -> bool:
    """True if `numbers` are values with which a correct program may carry out the operation.

    Regions must be inside their buffers, except in global tensors. Addresses must not wrap around. If CTAs share a
    copy, all must name the same regions, so these must not depend on the CTA's rank.
    """
    shared = {name for rank in ranks for name in rank}
    starts = [start for region in op.tiles.values() for start in region.starts]
    leaves = {leaf.name for start in starts for leaf in subexpressions(start) if isinstance(leaf, (Var, Special))}
    is_near = all(abs(int(evaluate(start, numbers))) < _FAR for start in starts)
    # the owners of a local tile's elements are computed without `numbers`
    fits = all(_fits(region, {} if region.buffer.space == "local" else numbers) for region in op.tiles.values())
    return is_near and fits and shared.isdisjoint(leaves)


def at_edges(op: TileOp, numbers: dict[str, int]) -> dict[str, int]:
    """Return values with which regions extend past their tensors' ends, as far as `numbers` can be changed so."""
    changed = dict(numbers)
    for region in op.tiles.values():
        if region.buffer.space != "global" or region.in_bounds:
            continue
        for d in region.box_dims:
            start, count, extent = region.starts[d], region.counts[d], region.buffer.shape[d]
            if inside(region, d) == TRUE:
                continue
            first = int(evaluate(start, changed))
            if isinstance(extent, Var):
                last = (first + count - 1) // _multiple(region, d) * _multiple(region, d)
                if changed[extent.name] == numbers[extent.name] and last > max(first, 0):
                    changed[extent.name] = last
            elif 0 <= first <= extent - count:
                crossing = changed | _crossing(start, extent, changed)
                changed = crossing if all(_fits(other, crossing) for other in op.tiles.values()) else changed
    return changed


def _fits(region: Region, numbers: dict[str, int]) -> bool:
    """True if a region is inside its buffer, as it must be except in a global tensor."""
    sides = zip(region.starts, region.counts, region.buffer.shape, strict=True)
    return region.buffer.space == "global" or all(
        isinstance(extent, int) and 0 <= int(evaluate(start, numbers)) <= extent - count
        for start, count, extent in sides
    )


def _multiple(region: Region, d: int) -> int:
    """Return a known divisor of a run-time extent."""
    extent, layout = region.buffer.shape[d], region.buffer.layout
    assert isinstance(extent, Var)
    is_last = isinstance(layout, Strided) and layout.unit_dim == d
    return lcm(max(extent.multiple_of, 1), layout.extent_align // gcd(layout.extent_align, region.dtype.bytes)
               if is_last and isinstance(layout, Strided) else 1)


def _crossing(start: Expr, extent: int, numbers: dict[str, int]) -> dict[str, int]:
    """Return the value of a variable with which `start` is the last possible one inside the tensor; {} without one."""
    for leaf in subexpressions(start):
        if not isinstance(leaf, (Var, Special)) or leaf.name in THREAD_IDS:
            continue
        step = max(leaf.multiple_of, 1) if isinstance(leaf, Var) else 1
        at, further = (int(evaluate(start, numbers | {leaf.name: k * step})) for k in range(2))
        if further > at >= 0:
            value = (extent - 1 - at) // (further - at) * step
            if not isinstance(leaf, Var) or leaf.bounds is None or leaf.bounds[0] <= value <= leaf.bounds[1]:
                return {leaf.name: value}
    return {}


class Tile:
    """A tile of an operation: the places and the values of its elements before the operation."""

    def __init__(self, name: str, region: Region, op: TileOp, trace: Trace, numbers: dict[str, int]) -> None:
        self.name, self.region, self.scope = name, region, op.scope
        buffer = region.buffer
        self.root, size = buffer.root.name, region.dtype.bytes
        self.parts = size // trace.units[self.root]
        self.inside = _inside(region, numbers)
        self.values: Value
        if buffer.space == "local":
            self.threads, self.places = owners_of(region, op.scope)
            self._enter(op, trace)
        else:
            if buffer.space == "tmem":
                (self.places,) = tmem_places(region, numbers, TMEM_PITCH)
            else:
                boxes = None if region.gathered is None else _boxes(op, region, trace)
                self.places = np.broadcast_to(addresses(region, numbers, boxes), (prod(region.shape),))
            units = self.places[:, None] * self.parts + np.arange(self.parts)
            low, high = int(units.min()), int(units.max()) + 1
            memory = trace.memory.get(self.root)
            if memory is not None:
                low, high = min(low, memory.low), max(high, memory.high)
            trace.memory[self.root] = memory = TaggedMemory(tags.of_name(self.root), low, high)
            self.values = tag(memory.initial(units.T))

    def _enter(self, op: TileOp, trace: Trace) -> None:
        """Fill the registers with tags, or with numbers if they decide which elements are moved."""
        threads = max(len(trace.thread), int(self.threads.max()) + 1)
        columns = trace.registers.setdefault(self.root, {})
        count = max(self.region.buffer.root.tile_layout.storage().span() * self.region.buffer.root.dtype.bytes
                    // trace.units[self.root], (int(self.places.max()) + 1) * self.parts)
        if not columns:
            every = tags.mixed(np.arange(count * threads).astype(tags.TAG) + tags.of_name(self.root))
            columns.update(enumerate(every.reshape(count, threads)))
        table = np.stack([columns[k] for k in range(count)])
        if self.name in (MASK.name, INDEX.name):
            random = np.random.default_rng(1)
            shape = self.region.shape
            gathered = op.gathered
            numbers = random.random(prod(shape)) < 0.5 if gathered is None or self.name == MASK.name else (
                _indices(gathered)
            )
            table = np.zeros(table.shape, numbers.dtype)
            table[self.places, self.threads] = numbers
        else:
            for p in range(self.parts):
                at = self.places * self.parts + p
                table[at, self.threads] = table[at[0], self.threads[0]]
        columns.update(enumerate(table))

    def read(self, trace: Trace) -> None:
        """Read the values of a local tile, after all tiles were entered: several may be one tile."""
        if self.region.buffer.space != "local":
            return
        columns = trace.registers[self.root]
        table = np.stack([columns[k] for k in range(len(columns))])
        found = np.stack([table[self.places[0] * self.parts + p, self.threads[0]] for p in range(self.parts)])
        self.values = found[0] if self.name in (MASK.name, INDEX.name) else tag(found)

    def over(self, shape: tuple[int, ...], leads: bool = False) -> Value:
        """Return the value for each element of a destination of `shape`, to which the tile is broadcast."""
        values = np.asarray(self.values)
        return self._broadcast(values, shape, leads)

    def inside_over(self, shape: tuple[int, ...]) -> Array:
        return self._broadcast(self.inside, shape, False)

    def overlaps(self, dst: Tile) -> Array:
        """Return whether a copy or an operation in place may overwrite each element of an input before it is read."""
        shape = dst.region.shape
        is_same = self.root != dst.root or self.region.buffer.space == "local"
        if is_same or np.array_equal(self._broadcast(self.places, shape, False), dst.places):
            return np.zeros(prod(shape), bool)
        return self._broadcast(np.isin(self.places, dst.places), shape, False)

    def _broadcast(self, values: Array, shape: tuple[int, ...], leads: bool) -> Array:
        if len(values) == prod(shape):
            return values
        trailing = (1,) * (len(shape) - len(self.region.shape)) if leads else ()
        return np.broadcast_to(values.reshape(self.region.shape + trailing), shape).ravel()


def _boxes(op: TileOp, region: Region, trace: Trace) -> Array:
    """Return the index of each box of a gathered region."""
    index = op.index
    assert index is not None
    return _indices(region) if isinstance(index, Region) else np.array([trace.number(index)])


def _indices(gathered: Region) -> Array:
    """Return the contents of an index that is a tile."""
    assert gathered.gathered is not None
    extent = gathered.buffer.shape[gathered.gathered.dim]
    every = np.arange(prod(gathered.index_shape))[::-1]
    return every % extent if isinstance(extent, int) else every


def _inside(region: Region, numbers: dict[str, int]) -> Array:
    """Return whether each element of a region is inside its tensor."""
    if region.in_bounds or region.buffer.space != "global":
        return np.ones(prod(region.shape), bool)
    boxes, whole = prod(region.index_shape), np.ones((), bool)
    for d, (start, count, extent) in enumerate(zip(region.starts, region.counts, region.buffer.shape, strict=True)):
        at = int(evaluate(start, numbers)) + np.arange(count)
        limit = numbers[extent.name] if isinstance(extent, Var) else extent
        fits = (at >= 0) & (at < limit)
        if region.gathered is not None and d == region.gathered.dim:
            fits = np.ones(count, bool)
        whole = whole[..., None] & fits
    return np.tile(whole.ravel(), boxes)


def expected(
    op: TileOp, tiles: dict[str, Tile], trace: Trace, condition: Any, *, by_place: bool = False
) -> tuple[Value, Array]:
    """Return the value that each element of the destination should get, and whether it is written at all.

    condition: the `IndexCondition` by which the mask, or the offset of random numbers, is computed, or None. by_place:
    as for `_computed`.
    """
    dst = next(iter(tiles.values()))
    shape, written = dst.region.shape, dst.inside
    if op.name == INDICES.name:
        axis = op.attr("axis")
        assert isinstance(axis, int)
        index = np.indices(shape or (1,))[axis].ravel()
        return tags.wrapped(index, dst.region.dtype), written
    if op.name == ATOMIC.name:
        return _updated(op, tiles, trace)
    if "acc" in tiles:
        return _products(op, tiles, trace), written
    if op.record.reduction is not None:
        return results(op, np.asarray(tiles["src"].values)), written
    if op.name not in _COPIES:
        return _computed(op, tiles, trace, condition, by_place), written
    src = tiles["src"]
    allowed = tiles[MASK.name].over(shape) if MASK.name in tiles else None
    if condition is not None:
        allowed = _of_index(condition, shape, trace, dst if dst.region.buffer.space == "local" else src)
    if dst.region.buffer.space != "local" and allowed is not None:
        return src.values, written & np.asarray(allowed)
    kept = src.inside if allowed is None else src.inside & np.asarray(allowed)
    if kept.all():
        return src.values, written
    fill = op.value("fill")
    filled = tags.zero(dst.region.dtype) if fill is None else trace.value(build.cast(fill, dst.region.dtype))
    return tags.chosen(kept, src.values, filled), written


def _of_index(condition: Any, shape: tuple[int, ...], trace: Trace, holder: Tile) -> Array:
    """Return the value of an `IndexCondition` for each element of a tile of `shape`, for its owner in `holder`."""
    axes = [np.arange(n) for n in shape if n != 1]
    index = np.meshgrid(*axes, indexing="ij") if axes else []
    at = {var.name: each.ravel() for var, each in zip(condition.index, index, strict=True)}
    own = Trace(prod(shape), trace.values | at)
    own.values |= {name: _of_owners(trace.values[name], holder) for name in THREAD_IDS}
    return np.broadcast_to(own.number(condition.cond), (prod(shape),))


def _updated(op: TileOp, tiles: dict[str, Tile], trace: Trace) -> tuple[Value, Array]:
    """Return the values of a place after atomic updates, and which of its elements are updated."""
    place, name = tiles["place"], str(op.attr("operation"))
    shape = place.region.shape
    updated = place.inside & (tiles[MASK.name].over(shape) if MASK.name in tiles else True)
    operands = [
        tag(tiles[each].over(shape) if each in tiles else trace.value(op.elements[each]))  # type: ignore[arg-type]
        for each in (("value", "desired") if "desired" in op.elements else ("value",))
    ]
    return tags.combined(f"atomic {name}", [tag(place.values), *operands]), updated


def old_values(op: TileOp, tiles: dict[str, Tile]) -> Value:
    """Return the values of the registers that get the old values of an atomic update: 0 without an update."""
    place = tiles["place"]
    updated = place.inside & (tiles[MASK.name].over(place.region.shape) if MASK.name in tiles else True)
    return tags.chosen(updated, place.values, tags.zero(place.region.dtype))


def _products(op: TileOp, tiles: dict[str, Tile], trace: Trace) -> Array:
    """Return the values of an accumulator after a matrix product."""
    acc, a, b = (np.asarray(tiles[name].values).reshape(op.region(name).shape) for name in ("acc", "a", "b"))
    accumulates = op.name == GEMM.name or bool(trace.number(op.condition("accumulate")))
    gained = multiplied(a, b, (op.region("a").dtype, op.region("b").dtype))
    return np.asarray(acc + gained if accumulates else gained).ravel()


def _computed(op: TileOp, tiles: dict[str, Tile], trace: Trace, offset: Any, by_place: bool) -> Array:
    """Return the values of an elementwise operation's results, by carrying it out on the tags of each element.

    offset: the `IndexCondition` by which the offset of random numbers is computed, or None. by_place: True
    if code is emitted for the starts that the regions have here, so that equal registers are known.
    """
    own, values = _elements(op, tiles, trace, offset, by_place)
    shape = tiles["dst"].region.shape
    return np.broadcast_to(tag(own.value(value_of(op, values, op.region("dst").dtype))), (prod(shape),))


def inline_outputs(op: TileOp, tiles: dict[str, Tile], trace: Trace) -> dict[str, Array]:
    """Return the values of the destinations of inline PTX, by name."""
    own, values = _elements(op, tiles, trace, None, by_place=False)
    count, form = prod(tiles["dst"].region.shape), form_of(op.dtypes, dict(op.attrs))
    if not form.outputs:
        return {"dst": np.broadcast_to(tag(own.value(build.const(0, op.region("dst").dtype))), (count,))}
    wide = {bool_: uint16, int8: int16}
    inputs = [own.value(build.cast(value, wide.get(value.dtype, value.dtype))) for value in values]
    made: dict[str, Array] = {}
    for k, (name, dtype) in enumerate(zip([name for name in OUTPUTS if name in tiles], form.outputs, strict=True)):
        value = tags.of_inline(f"{form.name} {k}.0", inputs)
        if dtype is bool_:
            own.registers["word"] = {0: value}
            word = Vector(Buffer("word", "local", uint16, (1,), _ONE, uint16.bytes), build.const(0, int32))
            value = tag(own.value(build.cast(Load(word), bool_)))
        made[name] = np.broadcast_to(value, (count,))
    return made


def _elements(
    op: TileOp, tiles: dict[str, Tile], trace: Trace, offset: Any, by_place: bool
) -> tuple[Trace, list[Expr]]:
    """Return a trace with a thread per element of the destination, and the inputs.

    offset, by_place: as for `_computed`.
    """
    shape = tiles["dst"].region.shape
    own, b, values = Trace(prod(shape), {}), Builder(), list[Expr]()
    own.values = trace.values | own.values
    leaves: dict[Hashable, str] = {}
    for name, operand in op.inputs.items():
        if isinstance(operand, Region):
            tile = tiles[name]
            inside = tile.inside_over(shape)
            given: Value = tile.over(shape)
            given = tag(given) if inside.all() else tags.chosen(inside, given, tags.zero(operand.dtype))
            is_offset = offset is not None and name == "b"
            if is_offset and isinstance(offset.cond, Const):
                # as emitted: random numbers of constants are folded
                values.append(offset.cond)
                continue
            if is_offset:
                given = _of_index(offset, shape, trace, tiles["dst"])
            # equal registers are one leaf, since `x <= x` is simplified
            same: Hashable = (tile.root, tile.places.tobytes()) if by_place else operand
            is_leaf = operand.buffer.space == "local" and not is_offset
            leaf = leaves.setdefault(same, name) if is_leaf else name
            buffer = Buffer(f"element.{leaf}", "local", operand.dtype, (1,), _ONE, operand.dtype.bytes)
            own.registers[buffer.name] = {0: given}
            values.append(Load(Vector(buffer, build.const(0, int32))))
        else:
            made = b.let("scalar", operand)
            if isinstance(made, Special) or (isinstance(made, Var) and made is not operand):
                own.values[made.name] = _of_owners(trace.value(operand), next(iter(tiles.values())))
            values.append(made)
    return own, values


def _of_owners(value: Value, tile: Tile) -> Value:
    """Return a scalar as the first owner of each element of a local tile sees it, if threads have several values."""
    if np.size(value) == 1 or tile.region.buffer.space != "local":
        return value
    return np.asarray(value)[tile.threads[0]]


_ONE = TileLayout.row_major((1,))
