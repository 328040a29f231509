"""Rows of a table, selected by tokens: gather, and its gradient by atomics.

`table.at(tokens)` is a gathered region: the row of the table for each token of a tile, like `table[tokens]` in NumPy.
It can be loaded, stored to and updated: `tj.atomic.add(dtable.at(tokens)[:, 0:N], dy)` atomically adds a tile to the
rows, element by element, so that a row for which there are several tokens gets the sum of all. As the old values aren't
used, it is a reduction (`red`), of four float32 by one instruction on targets that have it (sm_90).

One CTA has TOKENS tokens. The last one may have fewer: past the end tokens read as 0, and a mask excludes their
gradients. The order of the additions isn't fixed, so the last bits may differ from run to run.

Run it: `python examples/embedding.py`.
"""

import numpy as np

import tilejit as tj

THREADS = 256
TOKENS = 4  # of a CTA


@tj.kernel(threads=THREADS)
def embedding(table: tj.Tensor, tokens: tj.Tensor, Y: tj.Tensor, N: tj.constexpr) -> None:
    i = tj.cta_id(0)
    rows = tj.cta.load(tokens.tile(TOKENS, i))
    tj.cta.store(Y.tile((TOKENS, N), (i, 0)), tj.cta.load(table.at(rows)[:, 0:N]))


@tj.kernel(threads=THREADS)
def embedding_backward(dY: tj.Tensor, tokens: tj.Tensor, dtable: tj.Tensor, N: tj.constexpr) -> None:
    """dtable: float32, updated in place."""
    i = tj.cta_id(0)
    rows = tj.cta.load(tokens.tile(TOKENS, i))
    is_token = i * TOKENS + tj.cta.indices((TOKENS,), 0) < tokens.shape[0]
    dy = tj.cta.load(dY.tile((TOKENS, N), (i, 0)))
    tj.atomic.add(dtable.at(rows)[:, 0:N], dy.astype(tj.float32), mask=is_token[:, None])


def check(count: int, rows: int, columns: int, dtype: tj.DType = tj.float16) -> None:
    random = np.random.default_rng(columns)
    table, dy = (random.standard_normal((n, columns)).astype(dtype.numpy) for n in (rows, count))
    tokens = random.integers(0, rows, count).astype(np.int64)
    y, dtable = np.full_like(dy, np.nan), np.zeros((rows, columns), np.float32)

    embedding[tj.cdiv(count, TOKENS)](table, tokens, y, N=columns)
    embedding_backward[tj.cdiv(count, TOKENS)](dy, tokens, dtable, N=columns)

    expected = np.zeros((rows, columns))
    np.add.at(expected, tokens, dy.astype(np.float64))
    assert np.array_equal(y, table[tokens]), "the result is wrong"
    np.testing.assert_allclose(dtable, expected, rtol=1e-5, atol=1e-5)
    print(f"{count} of {rows} rows of {columns} {dtype} on {tj.device()}: right")


def main() -> None:
    check(20, 7, 256)
    check(13, 100, 509, tj.bfloat16)
    table, y = tj.spec((128256, 4096), tj.float16), tj.spec((8192, 4096), tj.float16)
    print(embedding.explain(table, tj.spec((8192,), tj.int64), y, N=4096))
    dtable = tj.spec((128256, 4096), tj.float32)
    print(embedding_backward.explain(y, tj.spec((8192,), tj.int64), dtable, N=4096))


if __name__ == "__main__":
    main()
