"""Parts that the products share: regions of factors and results, stages of rings, and the epilogue.

All are `@tj.function`s, so a kernel of your own can use them. Matrices may have a leading batch dimension.
"""

from __future__ import annotations

from typing import Any

import tilejit as tj

__all__ = ["factor", "fetch", "finished", "gelu_tanh", "part"]


@tj.function
def part(T: Any, z: Any, row: Any, rows: int, column: Any, columns: int) -> Any:
    """Return the rows × columns region at (row, column) of a matrix, or of matrix z of a batch."""
    if len(T.shape) == 2:
        return T[row : row + rows, column : column + columns]
    return T[z, row : row + rows, column : column + columns]


@tj.function
def factor(T: Any, z: Any, is_b: bool, at: Any, rows: int, k: Any, depth: int) -> Any:
    """Return rows of A, or columns of B as rows, from `at` on, and `depth` elements of K from k on."""
    return part(T, z, k, depth, at, rows).T if is_b else part(T, z, at, rows, k, depth)


@tj.function
def fetch(stage: Any, region: Any, by_k: bool, t: Any) -> None:
    """Start the copy of a factor's region into a stage of shape (rows, K), or (K, rows) unless K is contiguous."""
    tj.warp.copy_async(stage, region if by_k else region.T, barrier=t)


@tj.function
def finished(sums: Any, activation: Any, bias: Any, residual: Any) -> Any:
    """Return activation(sums + bias) + residual in float32. bias, residual: tiles that broadcast, or None."""
    v = sums
    if bias is not None:
        v = v + bias.astype(tj.float32)
    if activation is not None:
        v = activation(v)
    if residual is not None:
        v = v + residual.astype(tj.float32)
    return v


@tj.function
def gelu_tanh(x: Any) -> Any:
    """Return x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) of a float32 tile, by the hardware's tanh.

    Its error is at most 0.0005 + 0.0003 * |x|, as of cuBLASLt's epilogue, in 6 instructions per element. "gelu", by the
    error function, takes more than 50.
    """
    t = tj.fast.tanh(x * tj.fma(x * x, 0.0356774081, 0.7978845608))
    half = x * 0.5
    return tj.fma(half, t, half)
