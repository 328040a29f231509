"""What a product's registers must hold when its instructions take them.

What an instruction does with lanes and registers is written here as the PTX ISA says it; what they hold comes from
the layouts.
"""

from __future__ import annotations

import numpy as np

from ...ir.nodes import Region, TileOp
from ..variant import Products
from .places import owners_of

__all__ = ["prove_products"]

Array = np.ndarray

_WARP = 32


def prove_products(products: Products, op: TileOp) -> None:
    """Raise AssertionError unless each warp adds each product of its rows and columns to its sum once."""
    regions = list(op.tiles.values())
    n, depth = regions[0].shape[1], regions[1].shape[1]
    acc, a, b = (
        _tile(region, op.scope, products.threads, registers, fragment)
        for region, registers, fragment in zip(
            regions, (products.acc, products.a, products.b), fragments(products), strict=True
        )
    )
    (acc_row, acc_column), (row, k), (b_k, column) = np.divmod(acc, n), np.divmod(a, depth), np.divmod(b, n)
    # of shape (warps, instructions, m, k, n): product i, l, j is that of A's i, l and B's l, j for the sum i, j
    assert (k[..., None] == b_k[:, :, None]).all(), "A and B have different k in the same place"
    assert (acc_row[:, :, :, None] == row[..., None]).all(), "A and the sums have different rows"
    assert (acc_column[:, :, :, None] == column[:, :, None]).all(), "B and the sums have different columns"
    every = acc[:, :, :, None] * depth + k[..., None]
    for sums, made in zip(acc, every, strict=True):
        added = np.unique(made)
        assert len(added) == made.size, "a product is added twice"
        assert made.size == len(np.unique(sums)) * depth, "a sum lacks products"


def fragments(products: Products) -> tuple[tuple[Array, Array], ...]:
    """(row, column) of each element of each lane's fragments of the sums, of A and of B, of shape (lanes, elements).

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


def _tile(region: Region, scope: str, threads: int, registers: Array, fragment: tuple[Array, Array]) -> Array:
    """Which element of `region` stands at each row and column of an instruction's operand.

    returns: elements of shape (warps, instructions, rows, columns).
    """
    owners, places = owners_of(region, scope)
    held = np.full((threads, region.buffer.tile_layout.span()), -1)
    held[owners, places] = np.arange(owners.shape[1])
    taken = held[:, registers].reshape(-1, _WARP, *registers.shape)
    assert (taken >= 0).all(), "an instruction takes registers that hold no element of the region"
    row, column = fragment
    tile = np.full((len(taken), len(registers), row.max() + 1, column.max() + 1), -1)
    tile[:, :, row, column] = taken.swapaxes(1, 2)
    assert (tile >= 0).all(), "the fragments don't cover the instruction's operand"
    return tile
