"""Attention for Hopper: softmax(Q @ K.T / sqrt(D)) @ V, and the log-sum-exp of each query's scores.

A CTA takes 192 queries of a head at a time, and iterates over the keys and values in blocks. As in `attention_small.py`
it keeps three values for each query: a base, which is one of its scores; the sum of its weights, exp(score - base); and
the weighted sum of the values. Four warpgroups share the work. One warp of the first one prefetches blocks of K and V
into rings in shared memory. The other three warpgroups compute, for 64 queries each.
Products are asynchronous: while the tensor cores multiply for one warpgroup, the others compute exponentials.

The result doesn't depend on the base, as long as the weights fit into float16. So the kernel computes the maximum score
of the first block only. In later blocks the sums show when weights have become too large; only then does the maximum
become the base, and the block's weights are recomputed. A maximum in every block would be slower, since threads would
exchange maxima and rescale all sums. On an H100 it reached 0.95 to 1.00 of cuDNN's speed; this kernel has 1.05 to 1.25.

All blocks run the same code: the first one, masked ones, and those whose weights are recomputed. With a copy of the
code for each case the kernel is no faster, and its compilation takes 1.5 times as long.

Q and Out are batch × heads × queries × D, K and V batch × (heads / group) × keys × D, of float16 or bfloat16, D = 64 or
128. Rows start at multiples of 16 bytes. Other strides are free: arrays of (batch, sequence, heads, D) need no copy.
`causal`: query q uses the keys k <= q + (keys - queries). For a query without keys Out is 0, and the log-sum-exp -inf.

TMA clips every tile at the tensor's edges: past the last key it reads 0, and these scores are masked by the key's
index; past the last query it writes nothing. Exponentials are the hardware's (`tj.fast.exp2`).

Run it: `python examples/attention.py`.
"""

import numpy as np

import tilejit as tj

CONSUMERS = 3  # warpgroups
BM = 64 * CONSUMERS  # queries of a tile, which one CTA computes
STAGES = 3  # blocks of K, and of V, that are in flight or in use
WARPS = 4  # of a warpgroup: each releases a stage separately
LOG2_E, LN_2 = 1.4426950408889634, 0.6931471805599453
LOWEST = -1e30  # not -inf: -inf - -inf is NaN, in queries without keys
LEAST = 1e-37  # replaces the sum of weights if it is 0, for a query without keys
MOST = 30000.0  # of a thread's sum of weights: float16 holds weights up to 65,504


@tj.function
def place_of(t: int, heads: int, tiles: tuple[int, int], causal: bool) -> tuple[int, int, int]:
    """Return the batch, head and first query of the t-th tile. tiles: the number of tiles in all, and in one head.

    The tiles of a head are consecutive, so that they share its keys in the cache. If causal, tiles with many keys come
    first, 32 heads at a time. In each iteration every CTA takes a tile, in reverse order in every second iteration, so
    that all CTAs have nearly equal work.
    """
    count, rows = tiles
    if causal:
        ctas = tj.uint32(tj.num_ctas(0))
        turn = t // ctas
        if turn % 2 == 1 and (turn + 1) * ctas <= count:
            t = (2 * turn + 1) * ctas - 1 - t
        sequence, row = tj.tile_order(t, (count // rows, rows), group=32)
    else:
        sequence, row = t // rows, t % rows
    return sequence // heads, sequence % heads, tj.int32(rows - 1 - row) * BM


@tj.function
def steps_of(first: int, queries: int, keys: int, causal: bool, bn: int) -> int:
    """Return the number of key blocks for the BM queries from `first` on; at least 1, so no tile is special."""
    last = min(keys, first + BM + keys - queries) if causal else keys
    return max(tj.cdiv(last, bn), 1)


@tj.kernel(threads=128 + 128 * CONSUMERS, target="sm_90a")
def attention(
    Q: tj.Tensor, K: tj.Tensor, V: tj.Tensor, Out: tj.Tensor, lse: tj.Tensor, D: tj.constexpr, causal: tj.constexpr
) -> None:
    """lse: batch × heads × queries, float32."""
    tj.static_assert(D == 64 or D == 128, f"heads of {D}: 64 and 128 are here, attention_small.py takes others")
    tj.static_assert(Q.dtype == tj.float16 or Q.dtype == tj.bfloat16, f"{Q.dtype}: convert Q, K and V to 16 bits")
    tj.static_assert(Out.dtype == Q.dtype, f"Out is {Out.dtype}: give it Q's type, {Q.dtype}")
    BN = 128 if D == 64 else 80  # keys of a block: the most that 160 registers per thread allow
    q = tj.alloc_shared((2, BM, D), Q.dtype, swizzle="128B")  # also stages results
    k = tj.alloc_shared((STAGES, BN, D), K.dtype, swizzle="128B")
    v = tj.alloc_shared((STAGES, BN, D), V.dtype, swizzle="128B")
    q_ring = tj.alloc_ring(2, consumers=CONSUMERS)
    k_ring = tj.alloc_ring(STAGES, consumers=CONSUMERS * WARPS)
    v_ring = tj.alloc_ring(STAGES, consumers=CONSUMERS * WARPS)
    heads, queries, keys = tj.uint32(Q.shape[1]), tj.int32(Q.shape[2]), tj.int32(K.shape[2])
    group = heads // tj.uint32(K.shape[1])
    rows = tj.cdiv(tj.uint32(queries), BM)
    tiles = tj.uint32(Q.shape[0]) * heads * rows
    i = 0  # blocks of keys so far, in all tiles: the step of k_ring and v_ring
    n = 0  # tiles so far: the step of q_ring
    if tj.warpgroup_id() == 0:
        tj.set_registers(32)
        if tj.warp_id() == 0:
            for t in range(tj.uint32(tj.cta_id(0)), tiles, tj.uint32(tj.num_ctas(0))):
                batch, head, first = place_of(t, heads, (tiles, rows), causal)
                q_step = q_ring[n]
                q_step.acquire()
                tj.warp.copy_async(q[q_step.stage], Q[batch, head, first : first + BM, 0:D], barrier=q_step)
                tj.warp.commit(q_step)
                for j in range(steps_of(first, queries, keys, causal, BN)):
                    at = j * BN
                    k_step, v_step = k_ring[i], v_ring[i]
                    k_step.acquire()
                    tj.warp.copy_async(k[k_step.stage], K[batch, head // group, at : at + BN, 0:D], barrier=k_step)
                    tj.warp.commit(k_step)
                    v_step.acquire()
                    tj.warp.copy_async(v[v_step.stage], V[batch, head // group, at : at + BN, 0:D], barrier=v_step)
                    tj.warp.commit(v_step)
                    i += 1
                n += 1
    else:
        tj.set_registers(160)
        w = tj.warpgroup_id() - 1
        s = tj.alloc_local((64, BN), tj.float32, layout=tj.wgmma.layout_c((64, BN)))
        e = tj.alloc_local((64, BN // 2), tj.float32, layout=tj.wgmma.layout_c((64, BN // 2)))
        acc = tj.alloc_local((64, D), tj.float32, layout=tj.wgmma.layout_c((64, D)))
        p = tj.alloc_local((64, BN), V.dtype, layout=tj.wgmma.layout_a((64, BN), V.dtype))
        scale = LOG2_E / D**0.5
        tj.wg.fill(acc, 0.0)  # the first product reads it and p
        tj.wg.fill(p, 0.0)
        for t in range(tj.uint32(tj.cta_id(0)), tiles, tj.uint32(tj.num_ctas(0))):
            batch, head, first = place_of(t, heads, (tiles, rows), causal)
            steps = steps_of(first, queries, keys, causal, BN)
            first += w * 64
            certain = min(keys, first + 1 + keys - queries) if causal else keys  # all queries use the keys before it
            q_step = q_ring[n]
            tile = q[q_step.stage, w * 64 : w * 64 + 64]
            base = tj.wg.full((64,), LOWEST, tj.float32)
            parts = tj.wg.full((64, 4), 0.0, tj.float32)
            q_step.wait()
            for j in range(steps):
                k_step, v_step = k_ring[i], v_ring[max(i - 1, 0)]
                k_step.wait()
                tj.wg.gemm_async(s, tile, k[k_step.stage].T, accumulate=False)  # scores of block j
                v_step.wait()
                # Weights of block j - 1, times values. When j is 0 these are of another tile, and are discarded.
                tj.wg.gemm_async(acc, p, v[v_step.stage], accumulate=j > 1)
                tj.wgmma.wait(1)  # for the scores; the other product continues
                tj.warp.release(k_step)
                if certain < (j + 1) * BN:
                    mask(s, j * BN, first, queries, keys, causal)
                tj.wgmma.wait(0)
                if i > 0:
                    tj.warp.release(v_step)
                if j == 0 and n > 0:
                    tj.bulk.wait_read(0)
                    tj.wg.release(q_ring[n - 1])  # the results of the previous tile have been read
                rise = j == 0  # True to raise the base to the greatest score
                while True:
                    if rise:
                        greater = tj.maximum(base, tj.max(s, axis=1) * scale)
                        shrink = tj.fast.exp2(base - greater)
                        base = greater
                        parts = parts * shrink[:, None]
                        tj.wg.mul(acc, acc, shrink[:, None])
                    more = weigh(p, e, s, base, scale)
                    if rise or not tj.any(more > MOST):
                        break
                    rise = True
                parts = parts + more
                i += 1
            v_ring[i - 1].wait()
            tj.wg.gemm_async(acc, p, v[v_ring[i - 1].stage], accumulate=steps > 1)
            total = tj.sum(parts, axis=1)
            tj.wg.store(lse[batch, head, first : first + 64], (tj.fast.log2(total) + base) * LN_2)
            tj.wgmma.wait(0)
            tj.wg.copy(tile, (acc * (1.0 / tj.maximum(total, LEAST))[:, None]).astype(Out.dtype))
            tj.warpgroup_sync()
            tj.wg.copy_async(Out[batch, head, first : first + 64, 0:D], tile)
            n += 1
        tj.bulk.wait(0)


@tj.function
def weigh(p: tj.Tile, e: tj.Tile, s: tj.Tile, base: tj.Tile, scale: float) -> tj.Tile:
    """Write the weights of the scores s to p; return their sums, four for each query.

    It processes half of the columns at a time, in e: all at once would need too many registers.
    """
    shift = -base[:, None]
    return weigh_half(p, e, s, shift, scale, 0) + weigh_half(p, e, s, shift, scale, e.shape[1])


@tj.function
def weigh_half(p: tj.Tile, e: tj.Tile, s: tj.Tile, shift: tj.Tile, scale: float, at: int) -> tj.Tile:
    """Like `weigh`, for the columns from `at` on. Four threads share a row; each sums its own elements."""
    n = e.shape[1]
    tj.wg.fma(e, s[:, at : at + n], scale, shift)
    tj.wg.fast_exp2(e, e)
    tj.wg.cast(p[:, at : at + n], e)
    return tj.sum(e.reshape((64, n // 8, 4, 2)), axis=(1, 3))


@tj.function
def mask(s: tj.Tile, start: int, first: int, queries: int, keys: int, causal: bool) -> None:
    """Set the scores of masked keys to -inf. s: those of the 64 queries from `first` on and the keys from `start` on.

    A thread has 2 adjacent keys of every 8: key 8 * a + 2 * b + c, where b is its index among four threads. With
    these digits as dimensions, a and c of each register are constants, and only b is computed.
    """
    end = tj.wg.full((64,), keys - start, tj.int32)
    if causal:
        end = tj.minimum(end, tj.wg.indices((64,), 0) + (first + 1 + keys - queries - start))
    blocks = s.shape[1] // 8
    own = tj.wg.indices((1, blocks, 1, 2), 1) * 8 + tj.wg.indices((1, blocks, 1, 2), 3)
    last = end[:, None, None, None] - tj.wg.indices((64, 1, 4, 1), 2) * 2
    parts = s.view((64, blocks, 4, 2))
    tj.wg.where(parts, own < last, parts, -tj.inf)


def check(
    shape: tuple[int, int, int, int], keys: int, group: int, d: int, causal: bool, dtype: tj.DType = tj.float16,
    growth: float = 1.0,
) -> None:
    """shape: batch, heads, queries, and CTAs of the grid. growth: factor by which the keys grow, from first to last."""
    batch, heads, queries, ctas = shape
    random = np.random.default_rng(keys)
    q = random.standard_normal((batch, heads, queries, d)).astype(dtype.numpy)
    k, v = (random.standard_normal((batch, heads // group, keys, d)).astype(dtype.numpy) for _ in range(2))
    k = (k * np.linspace(1, growth, keys)[:, None]).astype(dtype.numpy)
    o, lse = np.full_like(q, np.nan), np.full((batch, heads, queries), np.nan, np.float32)

    attention[ctas](q, k, v, o, lse, D=d, causal=causal)

    q64, k64, v64 = q.astype(np.float64), *(np.repeat(x.astype(np.float64), group, axis=1) for x in (k, v))
    scores = q64 @ k64.swapaxes(2, 3) / d**0.5
    if causal:
        scores = np.where(np.arange(keys) <= np.arange(queries)[:, None] + keys - queries, scores, -np.inf)
    greatest = np.maximum(scores.max(3, keepdims=True), LOWEST)
    e = np.exp(scores - greatest)
    total = e.sum(3, keepdims=True)
    with np.errstate(divide="ignore"):
        expected, expected_lse = e / np.where(total > 0, total, 1) @ v64, (np.log(total) + greatest)[..., 0]
    rounding = 2e-3 if dtype is tj.float16 else 1.6e-2
    np.testing.assert_allclose(o.astype(np.float64), expected, rtol=rounding, atol=rounding)
    np.testing.assert_allclose(lse, np.where(total[..., 0] > 0, expected_lse, -np.inf), rtol=1e-5, atol=1e-5)
    kind = "causal" if causal else "full"
    print(f"{batch} × {heads} heads, {queries} queries, {keys} keys of {d} {dtype}, {kind}, on {tj.device()}: right")


def main() -> None:
    check((1, 2, 256, 3), 256, 1, 128, causal=False)
    check((1, 2, 150, 2), 300, 2, 64, causal=True, dtype=tj.bfloat16)
    check((1, 1, 192, 1), 500, 1, 128, causal=False, growth=8.0)
    x = tj.spec((4, 32, 4096, 128), tj.float16)
    print(attention.explain(x, x, x, x, tj.spec((4, 32, 4096), tj.float32), D=128, causal=False, target="sm_90a"))


if __name__ == "__main__":
    main()
