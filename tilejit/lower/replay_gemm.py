"""Proof by enumeration of a product: which elements each lane's registers hold when an instruction takes them.

What the instruction does with lanes and registers is written here as the PTX ISA says it; what they hold comes from
the layouts. Nothing here knows how plans are made.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..ir.nodes import Region, TileOp
from ..layout import TileLayout
from .gemm_mma import Plan

__all__ = ["replay_gemm"]

Array = np.ndarray

#: thread and register of each element of a region, one row a replica
Owners = Callable[[Region, str], tuple[Array, Array]]


def replay_gemm(plan: Plan, op: TileOp, owners_of: Owners) -> None:
    """Raise AssertionError unless each warp adds each product of its rows and columns to its sum once.

    source: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type": with lane 4g + t, rows of A and of
    the sums are those of g, columns of B those of g, columns of the sums those of t.
    """
    form = plan.form
    regions = [r for r in op.operands if isinstance(r, Region)]
    columns = [r.shape[1] for r in regions]
    steps = plan.schedule()[:, 3:]
    sums = 4 // plan.acc_width
    shapes = ((2, 2), (form.halves, 2, form.pack), (form.halves, form.pack))
    firsts = (steps[:, :sums], steps[:, sums : sums + 2 * form.halves], steps[:, sums + 2 * form.halves :])
    widths = (plan.acc_width, form.pack, form.pack)
    held = []
    for region, first, width, shape in zip(regions, firsts, widths, shapes, strict=True):
        registers = (first[:, :, None] + np.arange(width)).reshape(len(steps), -1)
        elements = _held(region, plan.threads, op.scope, owners_of)[:, registers]
        held.append(elements.reshape(-1, 8, 4, len(steps), *shape))
    # acc: warp, g, t, step, i, j; a: warp, g, t, step, h, i, p; b: warp, g, t, step, h, p
    acc, a, b = held
    assert all((x >= 0).all() for x in held), "an instruction takes registers that hold no element of the region"
    rows, depth = (x.transpose(0, 3, 1, 5, 2, 4, 6) for x in np.divmod(a, columns[1]))
    row = _only(rows.reshape(*rows.shape[:4], -1), "row of A")
    k = _only(np.moveaxis(depth, (2, 3), (5, 6)).reshape(*depth.shape[:2], 4, form.halves, form.pack, -1), "k of A")
    b_k, b_column = np.divmod(b, columns[2])
    assert (b_k.transpose(0, 3, 2, 4, 5, 1) == k[..., None]).all(), "A and B have different k in the same place"
    column = _only(b_column.transpose(0, 3, 1, 2, 4, 5).reshape(*k.shape[:2], 8, -1), "column of B")
    acc_row, acc_column = np.divmod(acc, columns[0])
    assert (acc_row.transpose(0, 3, 1, 4, 2, 5) == row[..., None, None]).all(), "A and the sums have different rows"
    wanted = column.reshape(*k.shape[:2], 4, 2)
    same = acc_column.transpose(0, 3, 1, 4, 2, 5) == wanted[:, :, None, None]
    assert same.all(), "B and the sums have different columns"
    _each_once(row, column, k, columns)


def _held(region: Region, threads: int, scope: str, owners_of: Owners) -> Array:
    """The flat index of the element in each register of each thread, -1 for none."""
    owners, registers = owners_of(region, scope)
    assert isinstance(region.buffer.layout, TileLayout)
    found = np.full((threads, region.buffer.layout.storage().span()), -1)
    found[owners, registers] = np.arange(owners.shape[1])
    return found


def _only(values: Array, what: str) -> Array:
    """The one value along the last axis."""
    assert (values == values[..., :1]).all(), f"lanes or registers that share a {what} have different ones"
    return np.asarray(values[..., 0])


def _each_once(row: Array, column: Array, k: Array, columns: list[int]) -> None:
    """Each warp's products, as (row, column, k), are all those of its sums, once each."""
    warps, steps = k.shape[:2]
    rows, cols, ks = (x.reshape(warps, steps, -1) for x in (row, column, k))
    sums = rows[:, :, :, None] * columns[0] + cols[:, :, None, :]
    products = sums[..., None] * columns[1] + ks[:, :, None, None, :]
    for own, made in zip(sums, products, strict=True):
        counts = np.unique(made)
        assert len(counts) == made.size, "a product is added twice"
        assert made.size == len(np.unique(own)) * columns[1], "a sum lacks products"
