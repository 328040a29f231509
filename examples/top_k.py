"""The 64 largest elements of each row of a matrix, and their indices: a running selection.

`tj.top_k` selects from a tile that fits the registers, with far fewer comparisons than a sort. A CTA per row keeps the
64 best elements so far. A block of the row without an element that is larger than the worst of them costs a maximum; of
any other, the 64 best are merged with those so far by a sort of 128 elements, whose indices move along.

The order is that of a stable sort: of equal elements the first ones are selected, and NaNs come last. Blocks are
visited in order, and the elements so far precede those of the block, so ties are decided within `tj.sort` and
`tj.top_k`. The row's last block is padded with NaNs, which lose to all other elements, and to earlier NaNs.

Run it: `python examples/top_k.py`.
"""

import numpy as np

import tilejit as tj

THREADS = 256
BLOCK = 8 * THREADS  # elements of a row at a time
K = 64


@tj.kernel(threads=THREADS)
def top_k(
    X: tj.Tensor, values: tj.Tensor, indices: tj.Tensor, K: tj.constexpr = K, BLOCK: tj.constexpr = BLOCK
) -> None:
    """X: floats, in rows of at least K elements. values: of X's type. indices: int32."""
    row = tj.cta_id(0)
    best, at = tj.top_k(tj.cta.load(X[row, 0:BLOCK], fill=tj.nan), K)
    for first in range(BLOCK, X.shape[1], BLOCK):
        x = tj.cta.load(X[row, first : first + BLOCK], fill=tj.nan)
        # a comparison with NaN is false
        if not tj.max(x) <= tj.min(best):
            found, index = tj.top_k(x, K)
            index += tj.int32(first)
            both, where = tj.sort((tj.cat(best, found, axis=0), tj.cat(at, index, axis=0)), descending=True)
            best, at = both[0:K], where[0:K]
    tj.cta.store(values[row, 0:K], best)
    tj.cta.store(indices[row, 0:K], at)


def check(rows: int, columns: int, k: int = K, ties: int = 0, block: int = BLOCK) -> None:
    """ties: the number of different values, or 0 for random ones."""
    random = np.random.default_rng(columns)
    x = random.standard_normal((rows, columns), np.float32)
    if ties:
        x = random.integers(0, ties, (rows, columns)).astype(np.float32)
        x[:, ::7] = np.nan
    values, indices = np.empty((rows, k), np.float32), np.empty((rows, k), np.int32)

    top_k[rows](x, values, indices, K=k, BLOCK=block)

    # NumPy sorts NaNs last, too
    wanted = np.argsort(-x, axis=1, kind="stable")[:, :k]
    assert np.array_equal(indices, wanted), "the indices are wrong"
    assert np.array_equal(values, np.take_along_axis(x, wanted, axis=1), equal_nan=True), "the values are wrong"
    print(f"{k} of {rows}x{columns} on {tj.device()}: right")


def main() -> None:
    check(2, 3_001)
    x = tj.spec((4096, 65_536), tj.float32)
    print(top_k.explain(x, tj.spec((4096, K), tj.float32), tj.spec((4096, K), tj.int32)))


if __name__ == "__main__":
    main()
