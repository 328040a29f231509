"""Y[i] = sum of row i of X, with the fastest number of rows and of threads per CTA.

`tj.autotune` decorates the kernel with a list of configurations: values of its constexpr parameters, which launches
then omit, and numbers of threads. The first launch with a new shape of X (`key`) compiles all of them, times each, and
launches the fastest; later launches use it directly, also in later processes, since the table is kept on disk. The grid
is a function, because the number of CTAs depends on the configuration.

Run it: `python examples/autotune.py`. The simulator estimates the cost of each configuration.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

import tilejit as tj


@tj.autotune(
    configs=[tj.Config({"ROWS": rows}, threads=threads) for rows in (1, 4, 16) for threads in (32, 128)],
    key=["X"],
)
@tj.kernel
def row_sums(X: tj.Tensor, Y: tj.Tensor, N: tj.constexpr, ROWS: tj.constexpr) -> None:
    first = tj.cta_id(0) * ROWS
    x = tj.cta.load(X[first : first + ROWS, 0:N])
    tj.cta.store(Y[first : first + ROWS], tj.sum(x, axis=1))


def grid(meta: Mapping[str, Any]) -> int:
    return tj.cdiv(meta["X"].shape[0], meta["ROWS"])


def check(m: int, n: int) -> None:
    x = np.random.default_rng(n).integers(0, 100, (m, n)).astype(np.float32)
    y = np.full(m, np.nan, np.float32)

    row_sums[grid](x, y, N=n)

    assert np.array_equal(y, x.sum(axis=1)), "the result is wrong"
    print(f"{m} sums of {n} on {tj.device()}: right\n\n{row_sums.tuning[-1]}\n")


def main() -> None:
    check(60, 500)
    check(200, 32)
    # the kernel without its configurations
    print(row_sums.kernel.explain(tj.spec((60, 500), tj.float32), tj.spec((60,), tj.float32), N=500, ROWS=4))


if __name__ == "__main__":
    main()
