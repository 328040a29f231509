"""The product of a matrix of few rows: one wave of CTAs, each of which walks all of K.

`few` is the factor with at most 128 rows, `many` the other one, whose rows the CTAs divide evenly among themselves:

                    many: BN rows per CTA
                  ┌────┬────┬─ ─ ─┬────┐
                K │    │    │     │    │     read once, by one CTA each
                  └────┴────┴─ ─ ─┴────┘
            K
         ┌─────┐  ┌────┬────┬─ ─ ─┬────┐
     few │     │  │CTA0│CTA1│     │    │     64 rows per warpgroup
         └─────┘  └────┴────┴─ ─ ─┴────┘

The time is that of reading `many`, if all multiprocessors read all the time. So no sums are exchanged, and BN is the
width with which the tiles fill whole waves (`heuristics.py`). A warp copies slices of K by TMA into a ring of STAGES
stages; CONSUMERS warpgroups multiply them by wgmma. `few` is A, or with `swapped` B, whose columns are then rows; the
tile of C is written from registers, transposed if `swapped`.

A box that hangs over an edge takes about 1 ns per row outside, so only ROWS rows of `few` are copied. The others of a
stage are filled with zeros once.

Accuracy: products are exact and sums are float32, in the order of K, 16 at a time. See `matmul`.
"""

from __future__ import annotations

import tilejit as tj

from .parts import factor, fetch, finished, part

WARPS = 4  # of a warpgroup; each releases a stage separately
SLICE = 32  # columns of sums that the epilogue processes at a time


@tj.kernel(threads=256)
def wide(
    A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, bias: tj.Tensor | None, residual: tj.Tensor | None,
    activation: tj.constexpr, swapped: tj.constexpr, few_by_k: tj.constexpr, many_by_k: tj.constexpr,
    CONSUMERS: tj.constexpr, ROWS: tj.constexpr, BN: tj.constexpr, BK: tj.constexpr, STAGES: tj.constexpr,
) -> None:
    """few_by_k, many_by_k: K is contiguous in that factor. threads: 128 * (1 + CONSUMERS)."""
    few, many = (B, A) if swapped else (A, B)
    BM = 64 * CONSUMERS
    x = tj.alloc_shared((STAGES, BM, BK) if few_by_k else (STAGES, BK, BM), few.dtype, swizzle="128B")
    w = tj.alloc_shared((STAGES, BN, BK) if many_by_k else (STAGES, BK, BN), many.dtype, swizzle="128B")
    near = None  # the bias of the tile's columns, or rows if `swapped`
    if bias is not None:
        near = tj.alloc_shared((CONSUMERS, 64 if swapped else BN), bias.dtype)
    ring = tj.alloc_ring(STAGES, consumers=CONSUMERS * WARPS)
    steps = max(tj.int32(tj.cdiv(A.shape[-1], BK)), 1)  # tells the compiler that it is never 0
    across = tj.cdiv(tj.uint32(C.shape[-2] if swapped else C.shape[-1]), BN)
    z = tj.uint32(tj.cta_id(0)) // across if len(C.shape) == 3 else tj.uint32(0)
    at = (tj.uint32(tj.cta_id(0)) - z * across) * BN
    if tj.warpgroup_id() == 0:
        tj.set_registers(24)
        if tj.warp_id() == 0:
            for i in range(steps):
                t = ring[i]
                t.acquire()
                fetch(w[t.stage], factor(many, z, not swapped, at, BN, i * BK, BK), many_by_k, t)
                rows = x[t.stage, 0:ROWS] if few_by_k else x[t.stage]
                fetch(rows, factor(few, z, swapped, 0, ROWS, i * BK, BK), few_by_k, t)
                tj.warp.commit(t)
    else:
        g = (tj.warpgroup_id() - 1) * 64
        mine = None if near is None else near[tj.warpgroup_id() - 1]
        acc = tj.alloc_local((64, BN), tj.float32, layout=tj.wgmma.layout_c((64, BN)))
        if ROWS < 64:
            for stage in tj.static_range(STAGES):
                if stage < steps:
                    tj.wg.fill(x[stage, ROWS:64], 0.0)
            tj.warpgroup_sync()
        for i in range(steps):
            t = ring[i]
            t.wait()
            b = w[t.stage].T if many_by_k else w[t.stage]
            if few_by_k:
                tj.wg.gemm_async(acc, x[t.stage, g : g + 64, :], b, accumulate=i > 0)
            elif CONSUMERS == 1:  # `g` is 0, which only this tells the compiler
                tj.wg.gemm_async(acc, x[t.stage].T, b, accumulate=i > 0)
            else:
                tj.wg.gemm_async(acc, x[t.stage, :, g : g + 64].T, b, accumulate=i > 0)
            if bias is not None and mine is not None and i == 0:  # while the first product runs
                tj.wg.copy(mine, bias[g : g + 64] if swapped else bias[at : at + BN])
                tj.warpgroup_sync()
            tj.wgmma.wait(1)
            if i > 0:
                tj.warp.release(ring[i - 1])
        tj.wgmma.wait(0)
        width = BN if activation is None else SLICE
        for s in tj.static_range(0, BN, width):
            n = min(width, BN - s)
            b = r = None
            if mine is not None and swapped:
                b = tj.wg.load(mine)[:, None]
            elif mine is not None:
                b = tj.wg.load(mine[s : s + n])[None, :]
            if residual is not None and swapped:
                r = tj.wg.load(part(residual, z, at + s, n, g, 64).T)
            elif residual is not None:
                r = tj.wg.load(part(residual, z, g, 64, at + s, n))
            v = finished(acc[:, s : s + n], activation, b, r).astype(C.dtype)
            tj.wg.store(part(C, z, at + s, n, g, 64).T if swapped else part(C, z, g, 64, at + s, n), v)
