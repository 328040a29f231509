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


@tj.function
def both(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    return a[0] + b[0], a[1]


@tj.kernel(threads=128)
def right(A: tj.Tensor, B: tj.Tensor, n: tj.int32, N: tj.constexpr) -> None:
    """Everything in here is right."""
    row = tj.cta_id(0)
    x = tj.cta.load(A[row, 0:N], fill=-tj.inf).astype(tj.float32)
    y = tj.where(x > 0, half(x), n * 2)
    if row + 1 < A.shape[0] and n > 0:
        y = tj.maximum(y, 0.0)
    last = min(A.shape[0], n * 4)
    for k in range(row, last, tj.num_ctas()):
        tj.cta.store(B.tile((1, N), (k, 0)), y.astype(B.dtype))
    tj.atomic.add(B[0, 0], y[0])


@tj.kernel
def also_right(A: tj.Tensor = tj.spec((128, 64), tj.float16), bias: tj.Tensor | None = None, n: int = 3) -> None:
    """Everything in here is right, too."""
    shared = tj.alloc_shared((128, 64), A.dtype, swizzle="128B")
    fragment = tj.mma.layout_c((128, 64), tj.float32, warps=(4, 1))
    sums = tj.alloc_local((128, 64), tj.float32, layout=fragment)
    tj.cta.copy_async(shared, A[:, :], variant="ldgsts")
    tj.cp_async.commit()
    tj.cp_async.wait(0)
    tj.cta_sync()
    tj.cta.fill(sums, 0)
    x = tj.cta.load(shared)
    sums += x @ tj.cta.load(shared[0:64].T)
    column = tj.cta.indices((64,), 0)
    x = tj.where((column[None, :] < n) & (x != 0), x, -x / 2)
    if bias is not None:
        x = x + tj.cta.load(bias[0:64], mask=column >= 4, cache="evict_last")
    greatest, total = -1e30, 0.0
    for k in tj.static_range(4):
        greatest = max(greatest, tj.max(x[:, k]))
        total += tj.sum(x[:, k], dtype=tj.float32)
    values, weights = tj.reduce((x, x), 1, both)
    lane: tj.Scalar = tj.shuffle_xor(tj.lane_id(), 1) * 2 + 1
    low = tj.minimum(lane, 3.0).astype(tj.int32) // 2
    while tj.load_acquire(A[0, 0]) == 0 or tj.vote_any(low > 1):
        sums.registers[0] = A[low % 4, n] * 2.0 + total
    rows = A.at(column, axis=0)[:, 0:32]
    tj.atomic.add(rows, tj.cta.load(rows), order="acq_rel")
    tj.thread.exp(sums.registers, tj.fast.exp(greatest))
    assert values.shape == weights.shape and tj.cdiv(A.shape[0], 2) > 0, "extents"
    tj.cta.cast(shared, sums.reshape((128, -1)))
    parity: tj.uint32 = tj.uint32(lane)
    best, packed = A[0, 0], tj.uint32(0)
    for d in tj.static_range(3):
        packed = (packed << 8) | A[0, d].astype(tj.uint32) | tj.int32(d).astype(tj.uint32)
        best = tj.maximum(best * 2, tj.load_volatile(A[0, d]))
    scaled: tj.Tile = tj.float16(x)
    factor: tj.Scalar = A.dtype(n + parity)
    tj.cta.store(A.reshape(-1, 8)[0:8], tj.bfloat16(shared.reshape(64, 128)[0:8, 0:8]) * factor + scaled[0, 0])


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
    tj.uint32("7")  # mistake


tj.cdiv("7", 2)  # mistake
right.complie(np.zeros(4))  # mistake
tj.spec((32, 8))  # mistake
S[(32, 8) : (1 @ laneid, 1)].inverze(0, 0)  # mistake
