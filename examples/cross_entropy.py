"""Cross entropy over a long vocabulary, loss and gradient: an online sum without a barrier in its loop.

The loss of a row is log(sum(exp(x))) - x[target]. As in `softmax.py`, one pass keeps the greatest element so far and
the sum of exp(x - greatest). But there all threads wait for each other in every turn, for the maximum. Here each place
of the tile keeps a maximum and a sum of its own, of the elements that came by there: nothing but arithmetic on tiles.
Of x and the maximum so far one is the greater; exp(-|x - greatest|) scales the sum down, or is added to it. Only behind
the loop are the places' sums combined, by two reductions.

The gradient, exp(x - log(sum(exp(x)))) with 1 taken from the target's, needs no reduction: tiles of rows, where
`tj.cta.indices` says which column each element is.

Run it: `python examples/cross_entropy.py`.
"""

import numpy as np

import tilejit as tj

BLOCK = 8192  # elements of a row in a turn: two vectors of 16-bit elements a thread
WIDE = 4096  # columns of a CTA of the gradient
LOWEST = -1e30  # not -inf: -inf - -inf is NaN


@tj.kernel(threads=512)
def cross_entropy(X: tj.Tensor, targets: tj.Tensor, losses: tj.Tensor, log_sums: tj.Tensor):
    """losses, log_sums: of each row, in float32."""
    row = tj.cta_id(0)
    greatest = tj.cta.full((BLOCK,), LOWEST, tj.float32)
    total = tj.cta.zeros((BLOCK,), tj.float32)
    for start in range(0, X.shape[1], BLOCK):
        x = tj.cta.load(X[row, start : start + BLOCK], fill=-tj.inf).astype(tj.float32)
        e = tj.exp(-tj.abs(x - greatest))
        total = tj.where(x > greatest, total * e + 1, total + e)
        greatest = tj.maximum(greatest, x)
    top = tj.max(greatest)
    log_sum = top + tj.log(tj.sum(total * tj.exp(greatest - top)))
    losses[row] = log_sum - X[row, targets[row]].astype(tj.float32)
    log_sums[row] = log_sum


@tj.kernel(threads=512)
def cross_entropy_backward(X, targets, log_sums, dlosses, dX):
    row, start = tj.cta_id(1), tj.cta_id(0) * WIDE
    x = tj.cta.load(X[row, start : start + WIDE]).astype(tj.float32)
    p = tj.exp(x - log_sums[row])
    is_target = tj.cta.indices((WIDE,), 0) == targets[row] - start
    dx = tj.where(is_target, p - 1, p) * dlosses[row]
    tj.cta.store(dX[row, start : start + WIDE], dx.astype(dX.dtype))


def check(rows: int, columns: int, dtype=tj.float32) -> None:
    random = np.random.default_rng(columns)
    x = (5 * random.standard_normal((rows, columns))).astype(dtype.numpy)
    x[0, : columns // 2] = -np.inf
    targets = random.integers(columns // 2, columns, rows).astype(np.int32)
    losses, log_sums, dx = np.full(rows, np.nan, np.float32), np.full(rows, np.nan, np.float32), np.full_like(x, np.nan)
    dlosses = random.standard_normal(rows).astype(np.float32)

    cross_entropy[rows](x, targets, losses, log_sums)
    cross_entropy_backward[tj.cdiv(columns, WIDE), rows](x, targets, log_sums, dlosses, dx)

    wide, each = x.astype(np.float64), np.arange(rows)
    top = wide.max(1, keepdims=True)
    log_sum = top + np.log(np.exp(wide - top).sum(1, keepdims=True))
    p = np.exp(wide - log_sum)
    p[each, targets] -= 1
    rounding = {tj.float32: 1e-5, tj.float16: 1e-3, tj.bfloat16: 8e-3}[dtype]
    np.testing.assert_allclose(losses, log_sum[:, 0] - wide[each, targets], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(dx.astype(np.float64), p * dlosses[:, None], rtol=rounding, atol=1e-6)
    print(f"{rows} x {columns} {dtype} on {tj.device()}: right")


def main() -> None:
    check(3, 1000)
    check(2, 40_009, tj.bfloat16)
    x, targets, one = tj.spec((8192, 128256), tj.bfloat16), tj.spec((8192,), tj.int32), tj.spec((8192,), tj.float32)
    print(cross_entropy.explain(x, targets, one, one))


if __name__ == "__main__":
    main()
