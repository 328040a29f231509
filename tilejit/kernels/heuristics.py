"""The choice of kernel and tile for a product, by arithmetic on its sizes.

Nothing here is measured at run time, and equal sizes always give the same choice. A kernel's constexprs are few values
of each kind, so that programs with many sizes compile few variants.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from ..frontend.language import cdiv, next_power_of_2
from . import flex, plain, wide

#: shared memory of a CTA for stages and slots; the rest is for barriers and alignment
SHARED_BYTES = 226 * 1024
ITEM_BYTES = 2  # of a factor's element
#: bytes that a swizzle of 128B spans: a tile whose rows don't run along K is a multiple of it wide
SPAN = 128 // ITEM_BYTES
#: the widest tile: 128 registers per thread for sums
WIDEST = 256
#: the time for the rows of the other factor and for the start and end of a tile, as a number of columns
TILE_COST = 24
#: rows up to which `wide` computes a product: two warpgroups
FEW_ROWS = 128
#: the numbers of rows of which `wide` copies only those that exist; else it copies all 64 rows of a warpgroup
COPIED_ROWS = (1, 2, 4, 8, 16, 24, 32)
#: stages that hide the latency of a copy, and the slices of K that they hold if the shared memory suffices
ENOUGH_STAGES, MOST_STAGES = 3, 16
DEEP, SHALLOW = 128, 64
#: rows of tiles that `flex` processes together
GROUP = 16


class Problem(NamedTuple):
    """The properties of a product that determine how it is computed.

    a_by_k, b_by_k: K is contiguous in that factor. is_tma: TMA can copy both factors, and wgmma multiply them.
    out_by_tma: TMA can write the result. out_bytes, bias_bytes: of an element; bias_bytes is 0 without a bias.
    """

    batch: int
    m: int
    n: int
    k: int
    a_by_k: bool
    b_by_k: bool
    is_tma: bool
    out_by_tma: bool
    out_bytes: int
    bias_bytes: int
    sms: int


class Choice(NamedTuple):
    """A kernel, its grid, its threads per CTA and its constexprs but the epilogue's."""

    kernel: Any
    grid: int
    threads: int
    constexprs: dict[str, Any]


def width(rows: int, columns: int, sms: int, step: int) -> int:
    """Return the width of tiles with the least time in waves, a multiple of `step`. rows: rows of tiles.

    A wave takes as long as one tile: its width and TILE_COST. Of equally good widths the largest reads the least.
    """
    return min(
        range(step, WIDEST + 1, step),
        key=lambda each: (cdiv(rows * cdiv(columns, each), sms) * (each + TILE_COST), -each),
    )


def stages(rows: int, depth: int, k: int, free: int) -> int:
    """Return the number of stages of `rows` rows of both factors that fit into `free` bytes, few more than K needs."""
    fit = min(MOST_STAGES, free // (rows * depth * ITEM_BYTES))
    return int(min(fit, max(2, next_power_of_2(cdiv(k, depth)))))


@lru_cache(maxsize=4096)
def choose(p: Problem) -> Choice:
    """Return how to compute a product with elements."""
    if not p.is_tma or p.k == 0:
        tiles = p.batch * cdiv(p.m, plain.BM) * cdiv(p.n, plain.BN)
        return Choice(plain.plain, tiles, 128, {})
    return _wide(p) if min(p.m, p.n) <= FEW_ROWS else _flex(p)


def _wide(p: Problem) -> Choice:
    swapped = p.n < p.m
    few, many = (p.n, p.m) if swapped else (p.m, p.n)
    few_by_k, many_by_k = (p.b_by_k, p.a_by_k) if swapped else (p.a_by_k, p.b_by_k)
    consumers = cdiv(few, 64)
    bn = width(p.batch, many, p.sms, 8 if many_by_k else SPAN)
    rows = 64 * consumers + bn
    free = SHARED_BYTES - consumers * (64 if swapped else bn) * p.bias_bytes
    depth = DEEP if free // (rows * DEEP * ITEM_BYTES) >= ENOUGH_STAGES else SHALLOW
    return Choice(wide.wide, p.batch * cdiv(many, bn), 128 + 128 * consumers, {
        "swapped": swapped, "few_by_k": few_by_k, "many_by_k": many_by_k, "CONSUMERS": consumers,
        "ROWS": next((rows for rows in COPIED_ROWS if few <= rows and few_by_k), 64 * consumers),
        "BN": bn, "BK": depth, "STAGES": stages(rows, depth, p.k, free),
    })


def _flex(p: Problem) -> Choice:
    down = p.batch * cdiv(p.m, flex.BM)
    bn = width(down, p.n, p.sms, flex.SLICE if p.b_by_k else SPAN)
    tiles = down * cdiv(p.n, bn)
    held = flex.CONSUMERS * (flex.SLOTS * 64 * flex.SLICE * p.out_bytes + bn * p.bias_bytes)
    return Choice(flex.flex, cdiv(tiles, cdiv(tiles, p.sms)), 128 + 128 * flex.CONSUMERS, {
        "a_by_k": p.a_by_k, "b_by_k": p.b_by_k, "by_tma": p.out_by_tma, "BN": bn, "BK": SHALLOW,
        "STAGES": stages(flex.BM + bn, SHALLOW, p.k, SHARED_BYTES - held), "GROUP": GROUP,
    })
