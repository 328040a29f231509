"""Proof of a warp's matrix products: instructions read and write the right elements in registers.

The fragments of instructions follow the PTX ISA; the elements in registers follow the layouts.
"""

from __future__ import annotations

import numpy as np

from ...fast_unique import fast_unique
from ...ir.nodes import TileOp
from ..plans import Products
from .places import elements_of_threads

Array = np.ndarray

_WARP = 32

#: marks for no element (as in `elements_of_threads`), and for an element that counts as 0
_NONE, _ZERO = -1, -2


def prove_products(products: Products, op: TileOp) -> None:
    """Raise AssertionError unless each warp adds each product to the right accumulator element exactly once.

    Padding along k counts as 0 in both A and B. Other padding contributes to no accumulator element.
    """
    regions = list(op.tiles.values())
    n, depth = regions[0].shape[1], regions[1].shape[1]
    zeros = (np.zeros(1, bool), products.a_zeros, products.b_zeros)
    sides = (products.acc, products.a, products.b)
    held = [
        elements_of_threads(region, op.scope, products.threads, registers.max() + 1)
        for region, registers in zip(regions, sides, strict=True)
    ]
    acc, a, b = (
        _tile(np.where(zero, _ZERO, _taken(elements, registers)), fragment)
        for elements, zero, registers, fragment in zip(held, zeros, sides, fragments(products), strict=True)
    )
    span = held[0].shape[1]
    places = np.arange(products.threads)[:, None, None] * span + products.acc
    sums = _tile(np.where(_taken(held[0], products.acc) < 0, _NONE, places), fragments(products)[0])
    # of shape (warps, instructions, m, k, n): the product of A's (m, k) and B's (k, n), for the accumulator's (m, n)
    acc, sums, a, b = acc[:, :, :, None], sums[:, :, :, None], a[..., None], b[:, :, None]
    counts = np.broadcast_to(sums >= 0, np.broadcast_shapes(sums.shape, a.shape, b.shape))
    assert (((a == _ZERO) == (b == _ZERO)) | ~counts).all(), "one of A and B counts as 0 where the other doesn't"
    counts = counts & (a != _ZERO)
    assert ((a != _NONE) & (b != _NONE) | ~counts).all(), "a product takes padding, or a register without an element"
    assert (a % depth == b // n)[counts].all(), "A and B have different k in the same place"
    assert (acc // n == a // depth)[counts].all(), "A and the accumulator have different rows"
    assert (acc % n == b % n)[counts].all(), "B and the accumulator have different columns"
    every = sums * depth + a % depth
    owned = (held[0] >= 0).reshape(len(acc), -1).sum(1)
    for count, made, added in zip(owned, every, counts, strict=True):
        products_made = np.broadcast_to(made, added.shape)[added]
        assert len(fast_unique(products_made)) == products_made.size, "a product is added twice"
        assert products_made.size == count * depth, "an accumulator element lacks products"


def fragments(products: Products) -> tuple[tuple[Array, Array], ...]:
    """Return (row, column) of each element of a lane's fragments of acc, A and B, of shape (lanes, elements).

    source: PTX ISA, "Matrix Fragments for mma.m16n8k8", "... m16n8k16 with floating point type", "... m16n8k32".
    """
    pack = 32 // products.bits
    lane, i = np.indices((_WARP, 4))
    acc = lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2
    lane, i = np.indices((_WARP, products.m * products.k // _WARP))
    along = lane % 4 * pack + i % pack
    a = lane // 4 + 8 * (i // pack % 2), along + 4 * pack * (i // (2 * pack))
    lane, i = np.indices((_WARP, products.k * products.n // _WARP))
    b = lane % 4 * pack + i % pack + 4 * pack * (i // pack), lane // 4
    return acc, a, b


def _taken(held: Array, registers: Array) -> Array:
    return np.where(registers < 0, _NONE, held[:, registers])


def _tile(taken: Array, fragment: tuple[Array, Array]) -> Array:
    """Return an instruction's operand as a matrix, of shape (warps, instructions, rows, columns)."""
    row, column = fragment
    by_warp = taken.reshape(-1, _WARP, *taken.shape[1:])
    missing = _ZERO - 1
    tile = np.full((len(by_warp), taken.shape[1], row.max() + 1, column.max() + 1), missing)
    tile[:, :, row, column] = by_warp.swapaxes(1, 2)
    assert (tile != missing).all(), "the fragments don't cover the instruction's operand"
    return tile
