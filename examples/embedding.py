"""Rows of a table, named by tokens: gather, and its gradient by atomics.

One CTA a token. An index of a region may be a value from memory: `table[tokens[i], 0:N]` is the row that the i-th token
names. In the gradient several tokens may name one row, so its elements are added by atomics, in float32: the order of
such additions isn't fixed, and the last bits may differ from run to run.

Run it: `python examples/embedding.py`.
"""

import numpy as np

import tilejit as tj

THREADS = 256


@tj.kernel(threads=THREADS)
def embedding(table: tj.Tensor, tokens: tj.Tensor, Y: tj.Tensor, N: tj.constexpr):
    i = tj.cta_id(0)
    tj.cta.store(Y[i, 0:N], tj.cta.load(table[tokens[i], 0:N]))


@tj.kernel(threads=THREADS)
def embedding_backward(dY: tj.Tensor, tokens: tj.Tensor, dtable: tj.Tensor):
    """dtable: float32, to which is added."""
    i = tj.cta_id(0)
    token = tokens[i]
    for column in range(tj.thread_id(), dY.shape[1], THREADS):
        tj.atomic.add(dtable[token, column], dY[i, column].astype(tj.float32))


def check(count: int, rows: int, columns: int, dtype=tj.float16) -> None:
    random = np.random.default_rng(columns)
    table, dy = (random.standard_normal((n, columns)).astype(dtype.numpy) for n in (rows, count))
    tokens = random.integers(0, rows, count).astype(np.int64)
    y, dtable = np.full_like(dy, np.nan), np.zeros((rows, columns), np.float32)

    embedding[count](table, tokens, y, N=columns)
    embedding_backward[count](dy, tokens, dtable)

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


if __name__ == "__main__":
    main()
