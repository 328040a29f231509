"""Proof that emitted lane IR carries out an operation, by tracing it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...fast_unique import fast_unique
from ...ir.nodes import Const, Stmt, TileOp
from ...ops.atomic import ATOMIC
from ...ops.inline import PTX
from ..builder import Builder
from ..moves.fold import Folding
from ..moves.network import Network
from ..moves.scan import Scanning
from ..plans import Plan
from . import contents, folds
from .contents import Tile
from .networks import Comparisons, prove_sorted
from .places import elements_of_threads, whole
from .sums import Sums
from .tags import TAG, Array, mixed, tag
from .trace import Finer, Trace


def prove(plan: Plan, op: TileOp, threads: int, b: Builder, body: Sequence[Stmt]) -> None:
    """Raise AssertionError unless the emitted lane IR carries out the operation.

    threads: number of threads of the operation's scope. b: the builder, whose head defines variables. body: the
    operation's lane IR.

    Each element of the destination gets its value in each place that holds it. Nothing outside the destination is
    written, an element in memory is written once, and memory accesses are aligned. A matrix product adds each product
    of elements of A and B once. A reduction combines each element of a result once, and in order if that matters. A
    sort passes the tests of `networks.py`.
    """
    if isinstance(plan, Scanning):
        folds.prove_scan(plan, op)
    elif isinstance(plan, Folding):
        folds.prove_folds(plan.combined_order(), op)
    units: dict[str, int] = {}
    for region in op.tiles.values():
        units[region.buffer.root.name] = min(units.get(region.buffer.root.name, 16), region.dtype.bytes)
    numbers = contents.numbers_of(op)
    outside = contents.at_edges(op, numbers)
    for values in [numbers] if outside == numbers else [numbers, outside]:
        while contents.can_trace(op, values, plan.ranks):
            try:
                _traced(plan, op, threads, b, body, units, values)
                break
            except Finer as finer:
                units[finer.root] = finer.size


def _traced(
    plan: Plan, op: TileOp, threads: int, b: Builder, body: Sequence[Stmt], units: Mapping[str, int],
    numbers: dict[str, int],
) -> None:
    trace = Trace(threads, numbers)
    trace.units |= units
    reduction = op.record.reduction
    if reduction is not None:
        dtype = reduction.combines_in(op.region("src").dtype, op.region("dst").dtype)
        trace.sums = Sums(reduction, dtype)
    tiles = {name: Tile(name, region, op, trace, numbers) for name, region in op.tiles.items()}
    for tile in tiles.values():
        tile.read(trace)
    initial = {name: dict(trace.registers.get(tile.root, {})) for name, tile in tiles.items()}
    trace.maps = {param.var.name: param.map for param in b.params}
    trace.roots = {tile.root: tile.region.buffer.root for tile in tiles.values()}
    trace.has_plain_casts = isinstance(plan, Folding)
    trace.comparisons = Comparisons() if isinstance(plan, Network) else None
    trace.block(b.head)
    # a copy that CTAs share is carried out by each of them
    for rank in plan.ranks:
        trace.values |= rank
        trace.block(body)
    changed = {region.buffer.root.name for region in op.written}
    for tile in tiles.values():
        if tile.root not in changed:
            assert tile.root not in trace.changed, f"{tile.region.buffer.name} is changed"
            memory = trace.memory.get(tile.root)
            assert memory is None or not memory.count, f"{tile.region.buffer.name} is changed"
    if isinstance(plan, Folding):
        for name, tags in folds.fold_values(plan, op, tiles, trace, initial).items():
            _compare_registers(tiles[name], trace, tags[None], initial[name])
        return
    if isinstance(plan, Network):
        assert trace.comparisons is not None
        before = [tag(tiles[of].values) for _, of in plan.pairs]
        prove_sorted(plan, trace.comparisons, before, [_found(tiles[to], trace) for to, _ in plan.pairs])
        return
    if op.name == PTX.name:
        for name, outputs in contents.inline_outputs(op, tiles, trace).items():
            _compare_registers(tiles[name], trace, outputs[None, None], initial[name])
        return
    condition = getattr(plan, "condition", None) or getattr(plan, "offset", None)
    values, written = contents.expected(op, tiles, trace, condition)
    wanted = np.broadcast_to(tag(values), written.shape)
    dst = next(iter(tiles.values()))
    if dst.region.buffer.space == "local":
        possible = [wanted]
        is_shared = len({tile.root for tile in tiles.values()}) < len(tiles)
        if is_shared or not all(isinstance(start, Const) for tile in tiles.values() for start in tile.region.starts):
            # regions that differ may be the same registers, of which the compiler simplifies x + x
            other, _ = contents.expected(op, tiles, trace, condition, by_place=True)
            possible.append(np.broadcast_to(tag(other), wanted.shape))
        _compare_registers(dst, trace, np.stack(possible)[:, None], initial[next(iter(tiles))])
    elif op.name == ATOMIC.name:
        # a place that several elements of a gathered region share is updated by each of them, in any order
        _, which, counts = np.unique(dst.places, return_inverse=True, return_counts=True)
        free = counts[which] > 1
        if "before" in tiles and op.attr("returns"):
            old = np.broadcast_to(tag(contents.old_values(op, tiles)), written.shape)
            _compare_registers(tiles["before"], trace, old[None, None], initial["before"], free)
        _compare_memory(dst, trace, wanted, written, free)
    else:
        overlaps = [tile.overlaps(dst) for tile in tiles.values() if tile is not dst]
        _compare_memory(dst, trace, wanted, written, np.any([np.zeros(len(written), bool), *overlaps], axis=0))


def _compare_registers(
    dst: Tile, trace: Trace, wanted: Array, before: dict[int, Any], free: Array | bool = False
) -> None:
    """Compare registers with their possible contents.

    wanted: of shape (possibilities, replicas or 1, elements). free: the elements that may have any.
    """
    name, columns, threads = dst.region.buffer.name, trace.registers[dst.root], trace.thread
    rows = np.stack([_of_all(columns[k], dst, len(threads)) for k in range(len(before))])
    wrong = np.argwhere((_found(dst, trace) != wanted).all(axis=0) & ~np.asarray(free))
    if len(wrong):
        copy, element = wrong[0]
        raise AssertionError(
            f"{len(wrong)} elements of {name} aren't those of the operation, such as element {element}, in register "
            f"{dst.places[copy, element]} of thread {dst.threads[copy, element]}"
        )
    _need_no_stray_write(dst, rows, before, columns)


def _found(dst: Tile, trace: Trace) -> Array:
    """Return the tag of each element of a local tile in each of its places, of shape (replicas, elements)."""
    columns, parts = trace.registers[dst.root], dst.parts
    rows = np.stack([_of_all(columns[k], dst, len(trace.thread)) for k in sorted(columns)])
    if parts == 1:
        return np.asarray(rows[dst.places, dst.threads])
    made = np.stack([rows[dst.places * parts + p, dst.threads].ravel() for p in range(parts)])
    return tag(made).reshape(dst.places.shape)


def _of_all(column: Any, dst: Tile, threads: int) -> Array:
    return np.broadcast_to(tag(column), (threads,))


def _need_no_stray_write(dst: Tile, rows: Array, before: dict[int, Any], columns: dict[int, Any]) -> None:
    region = dst.region
    if region.extents == region.buffer.shape:
        return
    size, unit = region.dtype.bytes, region.dtype.bytes // dst.parts
    held, part = (elements_of_threads(each, dst.scope, rows.shape[1], len(before) // dst.parts)
                  for each in (whole(region), region))
    changed = [k for k, column in before.items() if columns[k] is not column]
    for k in changed:
        stray = (rows[k] != _of_all(before[k], dst, rows.shape[1]))
        register = k * unit // size
        stray &= (held[:, register] >= 0) & (part[:, register] < 0)
        assert not stray.any(), (
            f"thread {np.flatnonzero(stray)[0]} writes register {register} of {region.buffer.name}, "
            "which holds an element outside the region"
        )


def _compare_memory(dst: Tile, trace: Trace, wanted: Array, written: Array, free: Array) -> None:
    """Compare memory with its contents. free: elements that may have any."""
    name, memory = dst.region.buffer.name, trace.memory[dst.root]
    places = (dst.places[written, None] * dst.parts + np.arange(dst.parts)).T
    is_written = memory.written(places)
    missing = np.argwhere(~is_written)
    assert len(missing) == 0, f"element {np.flatnonzero(written)[missing[0][1]]} of {name} isn't written"
    found = tag(memory.read(places))
    is_right = (found == wanted[written]) | free[written]
    if fast_unique(places).size < places.size:
        # of several elements that are stored to one place, any may remain
        own = mixed(places[0].astype(TAG))
        is_right |= np.isin(own + found, own + wanted[written])
    wrong = np.flatnonzero(~is_right)
    assert len(wrong) == 0, (
        f"{len(wrong)} elements of {name} aren't those of the operation, such as element "
        f"{np.flatnonzero(written)[wrong[0]]}, at {places[0, wrong[0]]}"
    )
    if dst.region.gathered is None:
        assert memory.count == places.size, f"{memory.count} elements of {name} are written; {places.size} should be"
