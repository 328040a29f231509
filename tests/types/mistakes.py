# ruff: noqa
"""Mistakes of types that users make: each line that a checker must refuse ends with `# mistake`.

It is read by type checkers and never imported.
"""

import numpy as np

import tilejit as tj
from tilejit import S, laneid


@tj.function
def half(x: tj.Tile) -> tj.Tile:
    return x * 0.5


@tj.kernel(threads=128)
def right(A: tj.Tensor, B: tj.Tensor, n: tj.int32, N: tj.constexpr) -> None:
    """All that stands here is right."""
    row = tj.cta_id(0)
    x = tj.cta.load(A[row, 0:N], fill=-tj.inf).astype(tj.float32)
    y = tj.where(x > 0, half(x), n * 2)
    if row + 1 < A.shape[0] and n > 0:
        y = tj.maximum(y, 0.0)
    last = min(A.shape[0], n * 4)
    for k in range(row, last, tj.num_ctas()):
        tj.cta.store(B.tile((1, N), (k, 0)), y.astype(B.dtype))
    tj.atomic.add(B[0, 0], y[0])


@tj.kernel(threads=128)
def wrong(A: tj.Tensor, B: tj.Tensor, n: tj.int32) -> None:
    tj.cta.laod(A[0:32, 0:8])  # mistake
    A.tlie((32, 8), (0, 0))  # mistake
    z = tj.cta.load(A[0:32, 0:8])
    z.as_type(tj.float16)  # mistake
    tj.cta.store(z)  # mistake
    tj.cta.store(B[0:32, 0:8], B[0:32, 0:8])  # mistake
    tj.exq(z)  # mistake
    tj.exp(z, z)  # mistake
    tj.cta.load(A[0:32, 0:8], filling=0)  # mistake
    tj.cta.load(A[0:32, 0:8], cache="evict")  # mistake
    tj.alloc_shared((32, 8))  # mistake
    tj.alloc_shared((32, 8), tj.flaot32)  # mistake
    tj.alloc_local("rows", tj.float32)  # mistake
    tj.atomic.increment(B[0, 0])  # mistake
    tj.fence("warp")  # mistake
    tj.cp_async.wait()  # mistake
    half("x")  # mistake
    n.shape  # mistake
    tj.thread.gemm(z, z, z)  # mistake
    z["row"]  # mistake
    tj.cta_sync(1)  # mistake


tj.cdiv("7", 2)  # mistake
right.complie(np.zeros(4))  # mistake
tj.spec((32, 8))  # mistake
S[(32, 8) : (1 @ laneid, 1)].inverze(0, 0)  # mistake
