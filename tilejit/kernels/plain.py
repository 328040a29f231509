"""The product of matrices of any strides, on any target: tiles as values, products by mma.sync.

Each CTA computes a tile of C, and loads its factors from global memory, in vectors as wide as their alignment allows:

    acc = 0;  for each slice of K:  acc += A[tile's rows, slice] @ B[slice, tile's columns]

It is for what TMA can't copy (rows whose starts are no multiples of 16 bytes, factors without a contiguous dimension),
for an empty K, and for targets without wgmma. It is correct, not fast.

Accuracy: products are exact and sums are float32, in the order of K, 16 at a time. See `matmul`.
"""

from __future__ import annotations

import tilejit as tj

from .parts import finished, part

BM, BN, BK = 64, 64, 32


@tj.kernel(threads=128)
def plain(
    A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, bias: tj.Tensor | None, residual: tj.Tensor | None,
    activation: tj.constexpr,
) -> None:
    columns = tj.cdiv(C.shape[-1], BN)
    each = tj.cdiv(C.shape[-2], BM) * columns
    z = tj.cta_id(0) // each
    row, column = tj.cta_id(0) % each // columns * BM, tj.cta_id(0) % columns * BN
    acc = tj.cta.zeros((BM, BN), tj.float32)
    for k in range(0, A.shape[-1], BK):
        acc += tj.cta.load(part(A, z, row, BM, k, BK)) @ tj.cta.load(part(B, z, k, BK, column, BN))
    added = None if bias is None else tj.cta.load(bias[column : column + BN])[None, :]
    kept = None if residual is None else tj.cta.load(part(residual, z, row, BM, column, BN))
    tj.cta.store(part(C, z, row, BM, column, BN), finished(acc, activation, added, kept).astype(C.dtype))
