"""Attention of several heads, softmax(Q @ K.T * scale) @ V, without the matrix of scores in memory.

A CTA takes BM queries of one head and goes through the keys and values BN at a time. As `softmax.py` does for long
rows, it keeps for each query the greatest score so far, the sum of exp(score - greatest) and the weighted sum of the
values, `acc`; the two sums are scaled down when a greater score appears. Products are mma instructions through `@`; the
scores never leave registers, and become the next product's operand there.

`causal` is compile-time: query q uses the keys k <= q + (keys - queries); there must not be more queries than keys.
Sequences may have any length: keys past the end are masked by their index, and queries past the end are never stored.
D is arbitrary, too: a product whose extents aren't multiples of the instruction's is padded with zeros.

Run it: `python examples/attention_small.py`.
"""

import numpy as np

import tilejit as tj

BM, BN = 64, 32
LOWEST = -1e30  # not -inf: -inf - -inf is NaN, in queries without a key so far


@tj.kernel(threads=128)
def attention(Q: tj.Tensor, K: tj.Tensor, V: tj.Tensor, Out: tj.Tensor, D: tj.constexpr, causal: tj.constexpr) -> None:
    """Q, Out: heads × queries × D. K, V: heads × keys × D."""
    block, head = tj.cta_id(0), tj.cta_id(1)
    queries, keys = Q.shape[1], K.shape[1]
    scale = 1.4426950408889634 / D**0.5  # with log2(e): the hardware has exp2, accurate enough for 16 bits
    q = tj.cta.load(Q[head, block * BM : block * BM + BM, 0:D])
    greatest = tj.cta.full((BM, 1), LOWEST, tj.float32)
    total = tj.cta.zeros((BM, 1), tj.float32)
    acc = tj.cta.zeros((BM, D), tj.float32)
    last = keys
    if causal:
        last = min(keys, (block + 1) * BM + keys - queries)
    for start in range(0, last, BN):
        k = tj.cta.load(K[head, start : start + BN, 0:D])
        v = tj.cta.load(V[head, start : start + BN, 0:D])
        scores = (q @ k.T) * scale
        column = tj.cta.indices((BM, BN), 1) + start
        seen = column < keys
        if causal:
            seen &= column <= tj.cta.indices((BM, BN), 0) + (block * BM + keys - queries)
        scores = tj.where(seen, scores, LOWEST)
        before = greatest
        greatest = tj.maximum(greatest, tj.max(scores, axis=1, keepdims=True))
        shrink = tj.fast.exp2(before - greatest)
        p = tj.fast.exp2(scores - greatest)
        total = total * shrink + tj.sum(p, axis=1, keepdims=True)
        acc = acc * shrink
        acc += p.astype(V.dtype) @ v
    tj.cta.store(Out[head, block * BM : block * BM + BM, 0:D], (acc / total).astype(Out.dtype))


def check(heads: int, queries: int, keys: int, d: int, causal: bool, dtype: tj.DType = tj.float16) -> None:
    random = np.random.default_rng(keys)
    q, k, v = (random.standard_normal((heads, n, d)).astype(dtype.numpy) for n in (queries, keys, keys))
    out = np.full_like(q, np.nan)

    attention[tj.cdiv(queries, BM), heads](q, k, v, out, D=d, causal=causal)

    q64, k64, v64 = (x.astype(np.float64) for x in (q, k, v))
    scores = q64 @ k64.transpose(0, 2, 1) / d**0.5
    if causal:
        scores = np.where(np.arange(keys) <= np.arange(queries)[:, None] + keys - queries, scores, -np.inf)
    e = np.exp(scores - scores.max(2, keepdims=True))
    expected = e / e.sum(2, keepdims=True) @ v64
    roundings: dict[tj.DType, float] = {tj.float16: 2e-3, tj.bfloat16: 1.6e-2}
    rounding = roundings[dtype]
    np.testing.assert_allclose(out.astype(np.float64), expected, rtol=rounding, atol=rounding)
    kind = "causal" if causal else "full"
    print(f"{heads} heads, {queries} queries, {keys} keys of {d} {dtype}, {kind}, on {tj.device()}: right")


def main() -> None:
    check(2, 64, 64, 64, causal=False)
    check(1, 101, 131, 64, causal=True, dtype=tj.bfloat16)
    x = tj.spec((16, 4096, 64), tj.float16)
    print(attention.explain(x, x, x, x, D=64, causal=True))


if __name__ == "__main__":
    main()
