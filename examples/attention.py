"""Attention for Hopper, softmax(Q @ K.T / sqrt(D)) @ V, with the log-sum-exp of each query's scores.

As in `attention_small.py` each query keeps its greatest score, the sum of exp(score - greatest) and weighted values.
Here three warpgroups share the work of a CTA: a warp of the first fetches tiles of K and V through rings, ahead of the
other two, which have 64 queries each. Products are asynchronous: while the tensor cores multiply one block's weights
with V, the next block's scores are on their way, and exponentials are computed beside them.

Q and Out are batch × heads × queries × D, K and V batch × (heads / group) × keys × D, of float16 or bfloat16, D = 64 or
128; rows start at multiples of 16 bytes, other strides are free: (batch, sequence, heads, D) needs no copy. `causal`:
key k counts for query q where k <= q + (keys - queries). A query that no key counts for gives 0, and -inf.

TMA cuts every tile at the tensor's edges: past the last key it reads 0, which is masked by its index, and past the last
query it writes nothing. Exponentials are the hardware's (`tj.fast.exp2`). Run it: `python examples/attention.py`.
"""

import numpy as np

import tilejit as tj

BM, BN = 128, 128  # queries of a CTA, 64 for each of two warpgroups; keys of a step
WARPS = 4  # of a warpgroup: each says for itself that it is done with a stage
LOG2_E, LN_2 = 1.4426950408889634, 0.6931471805599453
LOWEST = -1e30  # not -inf: -inf - -inf is NaN, in queries that no key counts for


@tj.function
def place_of(t: int, tiles: int, heads: int, rows: int) -> tuple[int, int, int]:
    """Batch, head, and the first query of the t-th tile; of each head those with most keys, if causal, come first.

    CTAs take tiles by turns, and in every second turn the last one first: else one of them had the longest each time.
    """
    ctas = tj.num_ctas(0)
    turn = t // ctas
    if turn % 2 == 1 and (turn + 1) * ctas <= tiles:
        t = (2 * turn + 1) * ctas - 1 - t
    return t // (heads * rows), t // rows % heads, (rows - 1 - t % rows) * BM


@tj.function
def steps_of(first: int, queries: int, keys: int, causal: bool) -> int:
    """How many blocks of keys count for the BM queries from `first` on; at least one, so that all tiles go one way."""
    last = min(keys, first + BM + keys - queries) if causal else keys
    return max(tj.cdiv(last, BN), 1)


@tj.kernel(threads=384, target="sm_90a")
def attention(
    Q: tj.Tensor, K: tj.Tensor, V: tj.Tensor, Out: tj.Tensor, lse: tj.Tensor, D: tj.constexpr, causal: tj.constexpr
) -> None:
    """lse: batch × heads × queries, float32."""
    tj.static_assert(D == 64 or D == 128, f"heads of {D}: 64 and 128 are here, attention_small.py takes others")
    tj.static_assert(Q.dtype == tj.float16 or Q.dtype == tj.bfloat16, f"{Q.dtype}: convert Q, K and V to 16 bits")
    q = tj.alloc_shared((2, 64, D), Q.dtype, swizzle="128B")
    way_out = tj.alloc_shared((2, 64, D), Out.dtype, swizzle="128B")
    k = tj.alloc_shared((3, BN, D), K.dtype, swizzle="128B")
    v = tj.alloc_shared((2, BN, D), V.dtype, swizzle="128B")
    q_ring = tj.alloc_ring(1, consumers=2 * WARPS)
    k_ring = tj.alloc_ring(3, consumers=2 * WARPS)
    v_ring = tj.alloc_ring(2, consumers=2 * WARPS)
    heads, queries, keys = tj.int32(Q.shape[1]), tj.int32(Q.shape[2]), tj.int32(K.shape[2])
    group = heads // tj.int32(K.shape[1])
    rows = tj.cdiv(queries, BM)
    tiles = tj.int32(Q.shape[0]) * heads * rows
    i = 0  # blocks of keys so far, in all tiles: the step of k_ring and v_ring
    n = 0  # tiles so far: the step of q_ring
    if tj.warpgroup_id() == 0:
        tj.set_registers(24)
        if tj.warp_id() == 0:
            for t in range(tj.cta_id(0), tiles, tj.num_ctas(0)):
                batch, head, first = place_of(t, tiles, heads, rows)
                q_ring[n].acquire()
                for w in tj.static_range(2):
                    at = first + w * 64
                    tj.warp.copy_async(q[w], Q[batch, head, at : at + 64, 0:D], barrier=q_ring[n])
                tj.warp.commit(q_ring[n])
                n += 1
                steps = steps_of(first, queries, keys, causal)
                for j in range(steps + 1):  # K runs one block ahead of V
                    if j < steps:
                        at = j * BN
                        k_ring[i + j].acquire()
                        tj.warp.copy_async(
                            k[k_ring[i + j].stage], K[batch, head // group, at : at + BN, 0:D], barrier=k_ring[i + j]
                        )
                        tj.warp.commit(k_ring[i + j])
                    if j > 0:
                        at = (j - 1) * BN
                        b = i + j - 1
                        v_ring[b].acquire()
                        tj.warp.copy_async(
                            v[v_ring[b].stage], V[batch, head // group, at : at + BN, 0:D], barrier=v_ring[b]
                        )
                        tj.warp.commit(v_ring[b])
                i += steps
    else:
        tj.set_registers(240)
        w = tj.warpgroup_id() - 1
        s = tj.alloc_local((64, BN), tj.float32, layout=tj.wgmma.layout_c((64, BN)))
        acc = tj.alloc_local((64, D), tj.float32, layout=tj.wgmma.layout_c((64, D)))
        p = tj.alloc_local((64, BN), V.dtype, layout=tj.wgmma.layout_a((64, BN), V.dtype))
        o = tj.alloc_local((64, D), Out.dtype, layout=tj.wgmma.layout_c((64, D)))
        scale = LOG2_E / D**0.5
        for t in range(tj.cta_id(0), tiles, tj.num_ctas(0)):
            batch, head, first = place_of(t, tiles, heads, rows)
            steps = steps_of(first, queries, keys, causal)
            first += w * 64
            certain = min(keys, first + 1 + keys - queries) if causal else keys  # so many keys count for all queries
            q_ring[n].wait()
            k_ring[i].wait()
            tj.wg.gemm_async(s, q[w], k[k_ring[i].stage].T, accumulate=False)
            tj.wgmma.wait(0)
            tj.warp.release(k_ring[i])
            if certain < BN:
                mask(s, 0, first, queries, keys, causal)
            greatest = tj.maximum(tj.max(s, axis=1), LOWEST)
            tj.wg.copy(s, tj.fast.exp2(tj.fma(s, scale, -(greatest * scale)[:, None])))
            parts = sums(s)
            tj.wg.cast(p, s)
            for j in range(1, steps):
                k_ring[i + 1].wait()
                v_ring[i].wait()
                tj.wg.gemm_async(s, q[w], k[k_ring[i + 1].stage].T, accumulate=False)  # the next scores
                tj.wg.gemm_async(acc, p, v[v_ring[i].stage], accumulate=j > 1)  # this block's product
                tj.wgmma.wait(1)  # the scores are there; the product runs on
                tj.warp.release(k_ring[i + 1])
                if certain < (j + 1) * BN:
                    mask(s, j * BN, first, queries, keys, causal)
                greater = tj.maximum(greatest, tj.max(s, axis=1))
                shrink = tj.fast.exp2((greatest - greater) * scale)
                tj.wg.copy(s, tj.fast.exp2(tj.fma(s, scale, -(greater * scale)[:, None])))
                parts = tj.fma(parts, shrink[:, None], sums(s))
                greatest = greater
                tj.wgmma.wait(0)
                tj.warp.release(v_ring[i])
                tj.wg.mul(acc, acc, shrink[:, None])
                tj.wg.cast(p, s)
                i += 1
            tj.warp.release(q_ring[n])
            v_ring[i].wait()
            tj.wg.gemm_async(acc, p, v[v_ring[i].stage], accumulate=steps > 1)
            tj.wgmma.wait(0)
            tj.warp.release(v_ring[i])
            total = tj.sum(parts, axis=1)
            seen = total > 0
            tj.wg.store(
                lse[batch, head, first : first + 64],
                tj.where(seen, (tj.fast.log2(total) + greatest * scale) * LN_2, -tj.inf),
            )
            tj.wg.cast(o, acc * tj.where(seen, 1.0 / total, 0.0)[:, None])
            tj.bulk.wait_read(0)
            tj.warpgroup_sync()
            tj.wg.copy(way_out[w], o)
            tj.warpgroup_sync()
            tj.wg.copy_async(Out[batch, head, first : first + 64, 0:D], way_out[w])
            i += 1
            n += 1
        tj.bulk.wait(0)


@tj.function
def sums(e: tj.Tile) -> tj.Tile:
    """64 × 4: of each row four sums, each of columns that one thread has, so that no thread needs another's."""
    return tj.sum(e.reshape((64, BN // 8, 4, 2)), axis=(1, 3))


@tj.function
def mask(s: tj.Tile, start: int, first: int, queries: int, keys: int, causal: bool) -> None:
    """Takes away the scores of keys that don't count: s is those of 64 queries from `first`, BN keys from `start`."""
    end = tj.wg.full((64,), keys - start, tj.int32)
    if causal:
        end = tj.minimum(end, tj.wg.indices((64,), 0) + (first + 1 + keys - queries - start))
    tj.wg.copy(s, tj.where(tj.wg.indices((64, BN), 1) < end[:, None], s, -tj.inf))


def check(
    shape: tuple[int, int, int, int], keys: int, group: int, d: int, causal: bool, dtype: tj.DType = tj.float16
) -> None:
    """shape: batch, heads, queries, and CTAs of the grid."""
    batch, heads, queries, ctas = shape
    random = np.random.default_rng(keys)
    q = random.standard_normal((batch, heads, queries, d)).astype(dtype.numpy)
    k, v = (random.standard_normal((batch, heads // group, keys, d)).astype(dtype.numpy) for _ in range(2))
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
    x = tj.spec((4, 32, 4096, 128), tj.float16)
    print(attention.explain(x, x, x, x, tj.spec((4, 32, 4096), tj.float32), D=128, causal=False, target="sm_90a"))


if __name__ == "__main__":
    main()
