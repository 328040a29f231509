"""Proof of reductions by a user's function.

The plan's order must be that of the elements, and the emitted code must apply the function in the plan's order.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from ...fast_unique import fast_unique
from ...ir.nodes import Region, TileOp
from ...ops.fold import PAIRS
from ...ops.reduce import axes_of
from ..moves.fold import Folding, Key
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


def fold_values(plan: Folding, tiles: Mapping[str, Tile], trace: Trace, before: Mapping[str, Any]) -> dict[str, Array]:
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
    results = plan.carried_out(values, lambda value, thread: value[..., thread], merged)
    wanted: dict[str, Array] = {}
    for (to, _), of_value in zip(plan.pairs, results, strict=True):
        registers, tile = plan.registers(to), tiles[to]
        table = np.zeros((int(max(registers.max(), tile.places.max())) + 1, threads), TAG)
        table[registers] = of_value
        wanted[to] = table[tile.places, tile.threads]
    return wanted
