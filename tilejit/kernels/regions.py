"""Parts that the products share: regions of factors and results, stages of rings, and the epilogue.

All are `@tj.function`s, so a kernel of your own can use them. Matrices may have a leading batch dimension.
"""

from __future__ import annotations

from typing import Any

import tilejit as tj

__all__ = ["factor", "fetch", "finished", "part"]


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
