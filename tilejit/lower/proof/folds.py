"""Proof of reductions and scans by a user's function.

The plan's order must be that of the elements, and the emitted code must apply the function in the plan's order.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from ...fast_unique import fast_unique
from ...ir.nodes import Region, TileOp
from ...ops.fold import EXCLUSIVE, INITIAL, PAIRS, REVERSE
from ...ops.reduce import axes_of
from ..moves.fold import Folding, Key
from ..moves.scan import Scanning
from ..plans import Folds
from .contents import Tile
from .places import elements_of_threads
from .tags import TAG, tag
from .trace import Trace

Array = np.ndarray


def prove_folds(folds: Folds, op: TileOp) -> None:
    """Raise AssertionError unless each result is in all its places and combines its elements once, in their order."""
    result_of, threads = _results(op), len(folds.order)
    slots = folds.src.shape[2]
    pairs = [(to, of) for to, of in PAIRS if to in op.tiles]
    for (to, of), registers, sources in zip(pairs, folds.dst, folds.src, strict=True):
        dst, src = op.region(to), op.region(of)
        held_dst, held_src = elements_of_threads(dst, op.scope, threads), elements_of_threads(src, op.scope, threads)
        _need_written(registers, held_dst, dst)
        for thread, order in enumerate(folds.order):
            taken = order[order >= 0]
            for register, column in zip(registers, sources, strict=True):
                result = held_dst[thread, register]
                if result >= 0:
                    elements = held_src[taken // slots, column[taken % slots]]
                    wanted = np.flatnonzero(result_of == result)
                    _need_all(elements, wanted, f"result {result} of {dst.buffer.name}")
                    assert np.array_equal(elements, wanted), (
                        f"result {result} of {dst.buffer.name} combines elements {elements.tolist()} out of order"
                    )


def _need_written(registers: Array, held: Array, dst: Region) -> None:
    """Raise AssertionError unless each register that holds an element of a destination is written exactly once."""
    written = fast_unique(registers)
    assert len(written) == len(registers), "two results share a register"
    unwritten = np.setdiff1d(np.flatnonzero((held >= 0).any(axis=0)), written, assume_unique=True)
    assert len(unwritten) == 0, f"register {unwritten[0]} of {dst.buffer.name} isn't written"
    assert (written < held.shape[1]).all(), f"register {written[-1]} of {dst.buffer.name} doesn't exist"


def _need_all(elements: Array, wanted: Array, what: str) -> None:
    taken = np.sort(elements)
    assert (taken >= 0).all(), f"{what} is made of registers that hold no element"
    assert len(fast_unique(taken)) == len(taken), f"{what} has an element twice"
    assert np.array_equal(taken, wanted), f"{what} is made of elements {taken.tolist()} instead of {wanted.tolist()}"


def _results(op: TileOp) -> Array:
    """Return, for each element of the source, the element of the destination to which it contributes."""
    src = op.region("src")
    axes = axes_of(dict(op.attrs), len(src.shape))
    kept = [1 if d in axes else n for d, n in enumerate(src.shape)]
    return np.broadcast_to(np.arange(prod(kept)).reshape(kept), src.shape).ravel()


def prove_scan(plan: Scanning, op: TileOp) -> None:
    """Raise AssertionError unless each element of a destination combines the right elements of its row, in order.

    The plan is carried out on intervals, (first, last) element of a row in the direction of the scan: two are combined
    if the second begins where the first ends. Element 0 of a row is the initial value.
    """
    order, threads, is_exclusive = plan.order, plan.threads, bool(op.attr(EXCLUSIVE.name))
    for to, of in plan.pairs:
        src, dst = op.region(of), op.region(to)
        numbers = _numbers_of_rows(op, src.shape)
        held_src, held_dst = (elements_of_threads(each, op.scope, threads) for each in (src, dst))
        extent = src.shape[axes_of(dict(op.attrs), len(src.shape))[0]]

        def entered(slot: Key, of: str = of, held: Array = held_src, numbers: Array = numbers) -> Array:
            elements = held[:, plan.registers(of) + order.register(of, slot)].T
            return np.broadcast_to(np.where(elements < 0, -1, numbers[elements]), (2, *elements.shape))

        values = {slot: entered(slot) for slot in order.slots}
        rows = np.max([each[0] for each in values.values()], axis=0) // (extent + 1) * (extent + 1)
        made = plan.carried_out(values, lambda value, thread: value[..., thread], _adjacent, np.stack([rows, rows]))
        _need_written(np.concatenate([plan.registers(to) + order.register(to, slot) for slot in made]), held_dst, dst)
        for slot, interval in made.items():
            elements = held_dst[:, plan.registers(to) + order.register(to, slot)].T
            last = numbers[elements] - is_exclusive
            first = numbers[elements] // (extent + 1) * (extent + 1) + (INITIAL[0] not in op.options)
            wrong = np.argwhere((elements >= 0) & ((interval != (first, last)).any(axis=0)))
            if len(wrong):
                at = tuple(wrong[0])
                combined = [each[at].item() for each in interval]
                raise AssertionError(
                    f"element {elements[at]} of {dst.buffer.name} combines {combined} instead of "
                    f"{[int(first[at]), int(last[at])]}: the first and the last element, in the direction of the scan"
                )


def _numbers_of_rows(op: TileOp, shape: tuple[int, ...]) -> Array:
    """Return, for each element, its number: consecutive in each row along the axis, after one for the initial value."""
    (axis,) = axes_of(dict(op.attrs), len(shape))
    extent = shape[axis]
    rows = np.arange(prod(shape) // extent).reshape(shape[:axis] + shape[axis + 1 :])
    within = np.arange(extent, 0, -1) if op.attr(REVERSE.name) else np.arange(1, extent + 1)
    return np.moveaxis(rows[..., None] * (extent + 1) + within, -1, axis).ravel()


def _adjacent(low: Array, high: Array, counts: Array) -> Array:
    """Join intervals of shape (2, ...): -1 unless the higher one begins where the lower one ends."""
    fits = counts & (low[0] >= 0) & (low[1] + 1 == high[0])
    return np.where(fits, np.stack([low[0], high[1]]), -1)


def fold_values(
    plan: Folding, op: TileOp, tiles: Mapping[str, Tile], trace: Trace, before: Mapping[str, Any]
) -> dict[str, Array]:
    """Return the tag that each place of each destination should get. before: the registers of each tile before."""
    combine, order, threads = plan.combine, plan.order, len(trace.thread)
    numbers = [name for pair in plan.pairs for name in pair[1:]]

    def held(operand: str, slot: Key) -> Array:
        rows = plan.registers(operand) + order.register(operand, slot)
        parts = tiles[operand].parts
        return np.stack([tag(np.stack([before[operand][row * parts + p] for p in range(parts)])) if parts > 1
                         else tag(before[operand][row]) for row in rows.tolist()])

    def merged(low: Array, high: Array, counts: Array) -> Array:
        own = Trace(low[0].size, {})
        own.has_plain_casts = True
        own.values = {**trace.values, **own.values}
        for var, value in zip((*combine.lower, *combine.higher), (*low, *high), strict=True):
            own.values[var.name] = value.ravel()
        for step in combine.steps:
            own.values[step.var.name] = own.value(step.value)
        made = [np.broadcast_to(tag(own.value(result)), low[0].size) for result in combine.results]
        return np.where(counts, np.stack(made).reshape(low.shape), low)

    # of shape (values, results, threads)
    values = {slot: np.stack([held(name, slot) for name in numbers]) for slot in order.slots}
    shape = next(iter(values.values())).shape[1:]
    first = [np.broadcast_to(tag(trace.value(value)), shape) for value in plan.initial_values(op)]
    results = plan.carried_out(values, lambda value, thread: value[..., thread], merged, np.array(first))
    wanted: dict[str, Array] = {}
    for k, (to, _) in enumerate(plan.pairs):
        tile = tiles[to]
        at = {slot: plan.registers(to) + order.register(to, slot) for slot in results}
        table = np.zeros((int(max(tile.places.max(), *[each.max() for each in at.values()])) + 1, threads), TAG)
        for slot, value in results.items():
            table[at[slot]] = value[k]
        wanted[to] = table[tile.places, tile.threads]
    return wanted
