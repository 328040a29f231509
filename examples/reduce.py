"""Sums of a matrix along rows, along columns, and of all elements.

Rows: one CTA per row. `tj.sum` sums the tile, in each thread first, then across lanes and warps.

Columns: rows are contiguous in memory, so a CTA takes a strip of rows of some columns, a tile at a time, and adds
tiles; only at the end does it add the tile's rows. The strips give partial sums, which a second launch of the same
kernel adds, with one strip.

All: each CTA adds every grid-th block to a tile in registers; then one CTA adds the CTAs' sums. Adding to a
loop-carried tile costs one addition per element, while a sum over it takes shuffles and a barrier. More CTAs than run
at once are faster than exactly that number: a new CTA loads while an old one computes its sum.
`sum_all` takes two launches. `sum_in_one_launch` counts the CTAs that are done, and the last one adds the sums. Its
`atomic.add` releases the CTA's sum to the others and acquires theirs, and the barrier extends this order to the CTA's
other threads.

Sums are never added by atomics, so the order of additions is fixed, whichever CTA is last, and sums are reproducible.

Run it: `python examples/reduce.py`.
"""

import numpy as np

import tilejit as tj

TALL, WIDE = 64, 128  # of the tiles that are added for sums along columns
BLOCK = 4096
CTAS = 64 * 132  # that share all elements: 64 for each multiprocessor of an H100, in several waves


@tj.kernel(threads=1024)
def sum_rows(X: tj.Tensor, Y: tj.Tensor, N: tj.constexpr) -> None:
    row = tj.cta_id(0)
    Y[row] = tj.sum(tj.cta.load(X[row, 0:N]))


@tj.kernel(threads=512)
def sum_columns(X: tj.Tensor, parts: tj.Tensor) -> None:
    """parts: strips × columns, the sums of each strip of rows."""
    column, strip = tj.cta_id(0), tj.cta_id(1)
    sums = tj.cta.zeros((TALL, WIDE), tj.float32)
    for k in range(strip, tj.cdiv(X.shape[0], TALL), tj.num_ctas(1)):
        sums += tj.cta.load(X.tile((TALL, WIDE), (k, column)))
    tj.cta.store(parts[strip, column * WIDE : column * WIDE + WIDE], tj.sum(sums, axis=0))


@tj.kernel(threads=512)
def sum_all(X: tj.Tensor, parts: tj.Tensor) -> None:
    """X: flat. parts: one sum for each CTA."""
    sums = tj.cta.zeros((BLOCK,), tj.float32)
    for k in range(tj.cta_id(0), tj.cdiv(X.shape[0], BLOCK), tj.num_ctas(0)):
        sums += tj.cta.load(X.tile(BLOCK, k))
    parts[tj.cta_id(0)] = tj.sum(sums)


@tj.kernel(threads=512)
def sum_in_one_launch(X: tj.Tensor, parts: tj.Tensor, counter: tj.Tensor, total: tj.Tensor) -> None:
    """parts: one element for each of at most CTAS CTAs. counter: one int32, 0 before and after."""
    sums = tj.cta.zeros((BLOCK,), tj.float32)
    for k in range(tj.cta_id(0), tj.cdiv(X.shape[0], BLOCK), tj.num_ctas(0)):
        sums += tj.cta.load(X.tile(BLOCK, k))
    part = tj.sum(sums)
    is_last = tj.alloc_shared((1,), tj.bool_)
    if tj.thread_id() == 0:
        parts[tj.cta_id(0)] = part
        is_last[0] = tj.atomic.add(counter[0], 1, order="acq_rel") == tj.num_ctas(0) - 1
    tj.cta_sync()
    if is_last[0]:
        total[0] = tj.sum(tj.cta.load(parts[0:CTAS]))
        counter[0] = 0


def check(rows: int, columns: int, strips: int = 3, ctas: int = CTAS) -> None:
    x = np.random.default_rng(columns).standard_normal((rows, columns), np.float32)
    by_row, by_column, total = (np.full(n, np.nan, np.float32) for n in (rows, columns, 1))

    sum_rows[rows](x, by_row, N=columns)

    parts = np.empty((strips, columns), np.float32)
    sum_columns[tj.cdiv(columns, WIDE), strips](x, parts)
    sum_columns[tj.cdiv(columns, WIDE), 1](parts, by_column[None, :])

    sums = np.empty(min(ctas, tj.cdiv(x.size, BLOCK)), np.float32)
    sum_all[len(sums)](x.reshape(-1), sums)
    sum_all[1](sums, total)

    of_ctas, counter, at_once = np.empty_like(sums), np.zeros(1, np.int32), np.full(1, np.nan, np.float32)
    for _ in range(2):
        sum_in_one_launch[len(of_ctas)](x.reshape(-1), of_ctas, counter, at_once)

    wide = x.astype(np.float64)
    np.testing.assert_allclose(by_row, wide.sum(1), rtol=1e-5, atol=1e-5 * columns**0.5)
    np.testing.assert_allclose(by_column, wide.sum(0), rtol=1e-5, atol=1e-5 * rows**0.5)
    np.testing.assert_allclose(total, wide.sum(), rtol=1e-5, atol=1e-5 * x.size**0.5)
    np.testing.assert_allclose(at_once, wide.sum(), rtol=1e-5, atol=1e-5 * x.size**0.5)
    print(f"sums of {rows} x {columns} on {tj.device()}: right")


def main() -> None:
    check(256, 512)
    check(131, 1009)
    x, y = tj.spec((16384, 16384), tj.float32), tj.spec((16384,), tj.float32)
    print(sum_rows.explain(x, y, N=16384))


if __name__ == "__main__":
    main()
