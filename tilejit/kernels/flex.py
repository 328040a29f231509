"""The product of any matrices: persistent CTAs, tiles of 128 × BN, with BN such that the tiles fill whole waves.

    warpgroup 0     ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒   copies, up to STAGES slices ahead
    warpgroups 1, 2   ███████████░░░███████████░░░  multiplies a tile, writes it

    warpgroup 0      its first warp copies slices of K by TMA into a ring of STAGES stages, for one tile after the other
    warpgroups 1, 2  multiply them by wgmma, 64 rows each, and write C

While a tile is written, the slices of the next one arrive. The widest tiles read the least per element, but if they
leave multiprocessors idle in the last wave, narrower ones may take less time in total: `heuristics.py` chooses BN, any
multiple of 32. CTAs take tiles in the order of `tj.tile_order`: those that run at the same time share
rows of A and columns of B in the L2 cache.

The sums leave through SLOTS slots of 64 × 32 per warpgroup in shared memory, so that BN need be no multiple of what a
swizzle spans, and rows are written in whole sectors: by TMA if C's rows start and end at multiples of 16 bytes, else by
the warpgroup.

Accuracy: products are exact and sums are float32, in the order of K, 16 at a time. See `matmul`.
"""

from __future__ import annotations

import tilejit as tj

from .parts import factor, fetch, finished, part

WARPS = 4  # of a warpgroup; each releases a stage separately
BM = 128
CONSUMERS = 2
SLOTS = 4
SLICE = 32  # columns of a slot


@tj.kernel(threads=384)
def flex(
    A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, bias: tj.Tensor | None, residual: tj.Tensor | None,
    activation: tj.constexpr, a_by_k: tj.constexpr, b_by_k: tj.constexpr, by_tma: tj.constexpr,
    BN: tj.constexpr, BK: tj.constexpr, STAGES: tj.constexpr, GROUP: tj.constexpr,
) -> None:
    """a_by_k, b_by_k: K is contiguous in that factor. by_tma: TMA can write C. GROUP: see `tj.tile_order`."""
    a = tj.alloc_shared((STAGES, BM, BK) if a_by_k else (STAGES, BK, BM), A.dtype, swizzle="128B")
    b = tj.alloc_shared((STAGES, BN, BK) if b_by_k else (STAGES, BK, BN), B.dtype, swizzle="128B")
    out = tj.alloc_shared((CONSUMERS, SLOTS, 64, SLICE), C.dtype, swizzle="64B" if C.dtype.bytes == 2 else "128B")
    near = None if bias is None else tj.alloc_shared((CONSUMERS, BN), bias.dtype)  # the bias of a tile's columns
    ring = tj.alloc_ring(STAGES, consumers=CONSUMERS * WARPS)
    shape = tj.uint32(tj.cdiv(C.shape[-2], BM)), tj.uint32(tj.cdiv(C.shape[-1], BN))
    each = shape[0] * shape[1]
    tiles = each if len(C.shape) == 2 else each * tj.uint32(C.shape[0])
    steps = max(tj.int32(tj.cdiv(A.shape[-1], BK)), 1)  # tells the compiler that it is never 0
    i = 0
    if tj.warpgroup_id() == 0:
        tj.set_registers(24)
        if tj.warp_id() == 0:
            for tile in range(tj.uint32(tj.cta_id(0)), tiles, tj.uint32(tj.num_ctas(0))):
                z = tj.uint32(0) if len(C.shape) == 2 else tile // each
                row, column = tj.tile_order(tile - z * each, shape, group=GROUP)
                for k in range(steps):
                    t = ring[i]
                    t.acquire()
                    fetch(b[t.stage], factor(B, z, True, column * BN, BN, k * BK, BK), b_by_k, t)
                    fetch(a[t.stage], factor(A, z, False, row * BM, BM, k * BK, BK), a_by_k, t)
                    tj.warp.commit(t)
                    i += 1
    else:
        tj.set_registers(240)
        g = tj.warpgroup_id() - 1
        acc = tj.alloc_local((64, BN), tj.float32, layout=tj.wgmma.layout_c((64, BN)))
        for tile in range(tj.uint32(tj.cta_id(0)), tiles, tj.uint32(tj.num_ctas(0))):
            z = tj.uint32(0) if len(C.shape) == 2 else tile // each
            row, column = tj.tile_order(tile - z * each, shape, group=GROUP)
            r, c = row * BM + g * 64, column * BN
            for k in range(steps):
                t = ring[i]
                t.wait()
                rows = a[t.stage, g * 64 : g * 64 + 64, :] if a_by_k else a[t.stage, :, g * 64 : g * 64 + 64].T
                tj.wg.gemm_async(acc, rows, b[t.stage].T if b_by_k else b[t.stage], accumulate=k > 0)
                if bias is not None and near is not None and k == 0:  # while the first product runs
                    tj.wg.copy(near[g], bias[c : c + BN])
                tj.wgmma.wait(1)
                if k > 0:
                    tj.warp.release(ring[i - 1])
                i += 1
            tj.wgmma.wait(0)
            tj.warp.release(ring[i - 1])
            for s in tj.static_range(0, BN // SLICE):
                if s % SLOTS == 0:
                    tj.bulk.wait_read(0)
                    tj.warpgroup_sync()  # the slots have been read; `near` is there
                at = c + s * SLICE
                added = None if near is None else tj.wg.load(near[g, s * SLICE : s * SLICE + SLICE])[None, :]
                kept = None if residual is None else tj.wg.load(part(residual, z, r, 64, at, SLICE))
                v = finished(acc[:, s * SLICE : s * SLICE + SLICE], activation, added, kept)
                tj.wg.copy(out[g, s % SLOTS], v.astype(C.dtype))
                if s % SLOTS == SLOTS - 1 or s == BN // SLICE - 1:
                    tj.warpgroup_sync()
                    for d in tj.static_range(s // SLOTS * SLOTS, s + 1):
                        to = part(C, z, r, 64, c + d * SLICE, SLICE)
                        if by_tma:
                            tj.wg.copy_async(to, out[g, d % SLOTS])
                        else:
                            tj.wg.copy(to, out[g, d % SLOTS])
        tj.bulk.wait_read(0)
