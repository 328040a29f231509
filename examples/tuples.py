"""One step of AdamW for many weights in one launch: tuples, named tuples and dataclasses as parameters.

A kernel takes a tuple, a named tuple or a frozen dataclass of arrays and scalars as one argument. Here `weights` is a
tuple of `Weight`s, of any number, shapes and types; the kernel is compiled once per structure, and its loop over the
tuple is unrolled. `how` is a named tuple of numbers, whose annotations have the same meaning as those of parameters:
`BLOCK` is a compile-time value. Messages and `k.signatures` name the arrays `weights[0].value`, `weights[0].gradient`.

`reshape(-1)` sees each array as one row, without a copy. A launch checks that its elements are adjacent, and raises a
LaunchError with shape, strides and line if they aren't. The CTAs are divided among the weights: each weight has as
many as it has blocks, and a CTA skips the weights before its own.

Run it: `python examples/tuples.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import tilejit as tj

THREADS = 256


@dataclass(frozen=True)
class Weight:
    value: tj.Tensor
    gradient: tj.Tensor
    mean: tj.Tensor
    square: tj.Tensor


class AdamW(NamedTuple):
    rate: float
    beta1: float
    beta2: float
    decay: float
    step: int
    BLOCK: tj.constexpr = 1024


@tj.function
def block(x: tj.Tensor, i: int, how: AdamW) -> tj.Region:
    return x.reshape(-1).tile(how.BLOCK, i)


@tj.function
def update(w: Weight, i: int, how: AdamW) -> None:
    """Update block i of the elements of `w`."""
    value = tj.cta.load(block(w.value, i, how)).astype(tj.float32)
    gradient = tj.cta.load(block(w.gradient, i, how)).astype(tj.float32)
    mean, square = tj.cta.load(block(w.mean, i, how)), tj.cta.load(block(w.square, i, how))
    mean = mean * how.beta1 + gradient * (1.0 - how.beta1)
    square = square * how.beta2 + gradient * gradient * (1.0 - how.beta2)
    # the means begin at 0, which these divisors correct
    n = float(how.step)
    direction = mean / (1.0 - tj.pow(how.beta1, n)) / (tj.sqrt(square / (1.0 - tj.pow(how.beta2, n))) + 1e-8)
    value -= how.rate * (direction + how.decay * value)
    tj.cta.store(block(w.value, i, how), value.astype(w.value.dtype))
    tj.cta.store(block(w.mean, i, how), mean)
    tj.cta.store(block(w.square, i, how), square)


@tj.kernel(threads=THREADS)
def adamw(weights: tuple[Weight, ...], how: AdamW) -> None:
    i = tj.cta_id(0)
    for w in weights:
        blocks = tj.cdiv(w.value.size, how.BLOCK)
        if i >= 0 and i < blocks:
            update(w, i, how)
        i -= blocks


def expected(w: Weight, how: AdamW) -> tuple[Any, ...]:
    """Return the value, the mean and the square after the step, in double precision."""
    value, gradient, mean, square = (np.asarray(x, np.float64) for x in (w.value, w.gradient, w.mean, w.square))
    mean = how.beta1 * mean + (1 - how.beta1) * gradient
    square = how.beta2 * square + (1 - how.beta2) * gradient**2
    direction = mean / (1 - how.beta1**how.step) / (np.sqrt(square / (1 - how.beta2**how.step)) + 1e-8)
    return value - how.rate * (direction + how.decay * value), mean, square


def weight(random: np.random.Generator, shape: tuple[int, ...], dtype: tj.DType) -> Weight:
    value, gradient, mean = (random.standard_normal(shape) for _ in range(3))
    arrays: list[Any] = [value.astype(dtype.numpy), gradient.astype(dtype.numpy), mean.astype(np.float32)]
    square: Any = random.random(shape, np.float32)
    return Weight(arrays[0], arrays[1], arrays[2], square)


def check(shapes: Sequence[tuple[int, ...]], size: int = 1024, dtype: tj.DType = tj.float32) -> None:
    random = np.random.default_rng(size)
    weights = tuple(weight(random, shape, dtype) for shape in shapes)
    how = AdamW(1e-2, 0.9, 0.999, 0.1, 3, size)
    wanted = [expected(w, how) for w in weights]

    adamw[sum(tj.cdiv(w.value.size, size) for w in weights)](weights, how)

    for w, results in zip(weights, wanted, strict=True):
        for x, result in zip((w.value, w.mean, w.square), results, strict=True):
            np.testing.assert_allclose(x.astype(np.float64), result, rtol=1e-2 if dtype.bits == 16 else 1e-4, atol=1e-3)
    print(f"{len(shapes)} weights of {dtype} on {tj.device()}: right")


def main() -> None:
    check([(64, 129), (7,), (3, 5, 7, 11)])
    check([(1021, 4), (2, 1021)], 512, tj.bfloat16)
    matrix = tj.spec((4096, 4096), tj.float32)
    print(adamw.explain((Weight(matrix, matrix, matrix, matrix),), AdamW(1e-2, 0.9, 0.999, 0.1, 3)))


if __name__ == "__main__":
    main()
