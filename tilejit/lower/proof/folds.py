"""Proof of the order in which a reduction by a user's function combines elements, as its plan states it."""

from __future__ import annotations

from math import prod

import numpy as np

from ...fast_unique import fast_unique
from ...ir.nodes import Region, TileOp
from ...ops.fold import PAIRS
from ...ops.reduce import axes_of
from ..plans import Folds
from .places import elements_of_threads, need_no_stray_write

Array = np.ndarray


def prove_folds(folds: Folds, op: TileOp) -> None:
    """Raise AssertionError unless each result is in all its places and combines its elements once, in their order."""
    result_of, threads = _results(op), len(folds.order)
    slots = folds.src.shape[2]
    pairs = [(to, of) for to, of in PAIRS if to in op.tiles]
    for (to, of), registers, sources in zip(pairs, folds.dst, folds.src, strict=True):
        dst, src = op.region(to), op.region(of)
        held_dst, held_src = elements_of_threads(dst, op.scope, threads), elements_of_threads(src, op.scope, threads)
        _need_written(registers, held_dst, dst, op.scope)
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


def _need_written(registers: Array, held: Array, dst: Region, scope: str) -> None:
    """Raise AssertionError unless each register that holds an element of a destination is written exactly once.

    All threads write these registers, so none may hold an element outside the destination there.
    """
    written = fast_unique(registers)
    assert len(written) == len(registers), "two results share a register"
    unwritten = np.setdiff1d(np.flatnonzero((held >= 0).any(axis=0)), written, assume_unique=True)
    assert len(unwritten) == 0, f"register {unwritten[0]} of {dst.buffer.name} isn't written"
    assert (written < held.shape[1]).all(), f"register {written[-1]} of {dst.buffer.name} doesn't exist"
    need_no_stray_write(dst, scope, *np.meshgrid(np.arange(len(held)), registers, indexing="ij"))


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
