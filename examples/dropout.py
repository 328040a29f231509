"""Dropout: y = x / (1 - p) for a random share 1 - p of the elements, and 0 for the others.

`tj.rand(seed, offset)` is a function: the number at an offset is the same in any kernel, on any device and whatever the
layout. So the backward pass draws the forward pass's numbers again instead of reading a mask from memory, and a mask
costs neither memory nor time: both passes read and write each element once, like a copy.

The numbers come from Philox, whose blocks have four of them. A thread holds four elements of consecutive offsets in a
vector, and computes one block for them: 26 instructions per element, which the multiprocessors execute while they wait
for memory. The compiler has to know that the four are in one block; here the offset of a CTA's first element is a
multiple of BLOCK.

Run it: `python examples/dropout.py`.
"""

import numpy as np

import tilejit as tj

BLOCK = 2048  # elements of a CTA: 256 threads with 2 vectors of 4 float32


@tj.kernel(threads=256)
def dropout(X: tj.Tensor, Y: tj.Tensor, p: float, seed: tj.int64) -> None:
    i = tj.cta_id(0)
    x = tj.cta.load(X.tile(BLOCK, i))
    keep = tj.rand(seed, i * BLOCK + tj.cta.indices(BLOCK, 0)) >= p
    y = tj.where(keep, x.astype(tj.float32) * (1 / (1 - p)), 0.0)
    tj.cta.store(Y.tile(BLOCK, i), y.astype(Y.dtype))


@tj.kernel(threads=256)
def noisy(X: tj.Tensor, Y: tj.Tensor, scale: float, seed: tj.int64) -> None:
    """Y = X plus normally distributed noise."""
    i = tj.cta_id(0)
    noise = tj.randn(seed, i * BLOCK + tj.cta.indices(BLOCK, 0)) * scale
    tj.cta.store(Y.tile(BLOCK, i), (tj.cta.load(X.tile(BLOCK, i)).astype(tj.float32) + noise).astype(Y.dtype))


def grid(count: int) -> int:
    return tj.cdiv(count, BLOCK)


def check(count: int, dtype: tj.DType = tj.float32, p: float = 0.25) -> None:
    x = np.random.default_rng(count).uniform(1, 2, count).astype(dtype.numpy)
    y, dx = np.full_like(x, np.nan), np.full_like(x, np.nan)

    dropout[grid(count)](x, y, p, 7)
    dropout[grid(count)](np.ones_like(x), dx, p, 7)  # the backward pass, with a gradient of 1

    is_kept = y != 0
    np.testing.assert_array_equal(dx != 0, is_kept)
    roundings: dict[tj.DType, float] = {tj.float32: 1e-6, tj.float16: 1e-3, tj.bfloat16: 8e-3}
    wanted = np.where(is_kept, x.astype(np.float64) / (1 - p), 0)
    np.testing.assert_allclose(y.astype(np.float64), wanted, rtol=roundings[dtype])
    assert abs(is_kept.mean() - (1 - p)) <= 5 * np.sqrt(p * (1 - p) / count)

    noisy[grid(count)](np.zeros_like(x), y, 1.0, 7)
    assert abs(y.astype(np.float64).mean()) <= 5 / np.sqrt(count)
    print(f"{count} {dtype} on {tj.device()}: right")


def main() -> None:
    check(4096)
    check(10_007, tj.bfloat16)
    x = tj.spec((2**28,), tj.float32)
    print(dropout.explain(x, x, 0.25, np.int64(7)))


if __name__ == "__main__":
    main()
