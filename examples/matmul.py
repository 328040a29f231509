"""C = activation(A @ B + bias) on tensor cores: cp.async stages → swizzled shared memory → ldmatrix → mma.sync.

A is M × K, B is K × N, both float16 or bfloat16 and row-major; M, N and K are run-time values, and tiles may extend
past every edge. Rows at multiples of 16 bytes give the widest copies, of 8 or 4 bytes narrower ones; pad all others,
which cp.async can't copy. It takes 160 KB of shared memory. Run it: `python examples/matmul.py`.

Each CTA of eight warps computes a 256 × 128 tile of C, each warp 64 × 64 of it. Three activities overlap: cp.async
fetches slices of K for later steps, ldmatrix loads the next 16 columns of this step, and the tensor cores multiply the
previous ones. So there are two sets of fragments, and STAGES slices in shared memory:

    step k      multiply stage k    arriving: stages k + 1 … k + STAGES - 1 (modulo STAGES)
"""

import numpy as np

import tilejit as tj

BM, BN, BK = 256, 128, 32
STAGES = 4
WARPS = (4, 2)
STEP = 16  # columns of A that one mma instruction multiplies
GROUP = 8  # rows of CTA tiles that are processed together, so that their part of B stays in L2


@tj.function
def tile_of(cta: int, columns: int) -> tuple[int, int]:
    """The tile of C that a CTA computes: by groups of GROUP rows of tiles, so that neighbours share A and B in L2."""
    within = cta % (GROUP * columns)
    return cta // (GROUP * columns) * GROUP + within % GROUP, within // GROUP


@tj.kernel(threads=256)
def matmul(A: tj.Tensor, B: tj.Tensor, bias: tj.Tensor | None, C: tj.Tensor, activation: tj.constexpr) -> None:
    """bias: M × N, where a repeated row of N has stride 0 (`np.broadcast_to`, `torch.expand`), or None."""
    row, column = tile_of(tj.cta_id(0), tj.cdiv(C.shape[1], BN))
    if row * BM >= C.shape[0]:
        return  # the last group may have fewer rows

    a_stages = tj.alloc_shared((STAGES, BM, BK), A.dtype, swizzle="64B")
    b_stages = tj.alloc_shared((STAGES, BK, BN), B.dtype, swizzle="128B")
    a_fragment = tj.mma.layout_a((BM, STEP), A.dtype, warps=WARPS)
    b_fragment = tj.mma.layout_b((STEP, BN), B.dtype, warps=WARPS)
    c_fragment = tj.mma.layout_c((BM, BN), tj.float32, warps=WARPS)
    a = tj.alloc_local((BM, STEP), A.dtype, layout=a_fragment), tj.alloc_local((BM, STEP), A.dtype, layout=a_fragment)
    b = tj.alloc_local((STEP, BN), B.dtype, layout=b_fragment), tj.alloc_local((STEP, BN), B.dtype, layout=b_fragment)
    sums = tj.alloc_local((BM, BN), tj.float32, layout=c_fragment)
    # Through shared memory, tiles are written to global memory in whole rows: 16 bytes per thread, edges in one loop.
    staged = tj.alloc_shared((BM, BN), C.dtype, swizzle="128B")
    out = tj.alloc_local((BM, BN), C.dtype, layout=c_fragment)

    for step in range(STAGES - 1):
        tj.cta.copy_async(a_stages[step], A.tile((BM, BK), (row, step)))
        tj.cta.copy_async(b_stages[step], B.tile((BK, BN), (step, column)))
        tj.cp_async.commit()
    if bias is None:
        tj.cta.fill(sums, 0)
    else:
        tj.cta.copy(staged, bias.tile((BM, BN), (row, column)))
        tj.cta_sync()
        tj.cta.copy(out, staged)
        tj.cta.cast(sums, out)
    tj.cp_async.wait(STAGES - 2)
    tj.cta_sync()
    tj.cta.copy(a[0], a_stages[0, :, 0:STEP])
    tj.cta.copy(b[0], b_stages[0, 0:STEP, :])

    for step in range(tj.cdiv(A.shape[1], BK)):
        now = tj.int32(step % STAGES)
        following = (now + 1) % STAGES
        tj.cta.copy(a[1], a_stages[now, :, STEP : 2 * STEP])
        tj.cta.copy(b[1], b_stages[now, STEP : 2 * STEP, :])
        coming = step + STAGES - 1  # past the end of K the tiles read as zeros, without memory accesses
        free = (now + STAGES - 1) % STAGES  # the last step's: since the barrier no thread reads it any more
        tj.cta.copy_async(a_stages[free], A.tile((BM, BK), (row, coming)))
        tj.cta.copy_async(b_stages[free], B.tile((BK, BN), (coming, column)))
        tj.cp_async.commit()
        tj.cta.gemm(sums, a[0], b[0])
        tj.cp_async.wait(STAGES - 2)
        tj.cta_sync()  # the next step's slices have arrived for all threads, and all have read this one's
        tj.cta.copy(a[0], a_stages[following, :, 0:STEP])
        tj.cta.copy(b[0], b_stages[following, 0:STEP, :])
        tj.cta.gemm(sums, a[1], b[1])

    if activation == "relu":
        tj.cta.relu(sums, sums)
    elif activation == "gelu":
        tj.cta.gelu(sums, sums)
    tj.cta.cast(out, sums)
    tj.cta.copy(staged, out)
    tj.cta_sync()
    tj.cta.copy(C.tile((BM, BN), (row, column)), staged)


def grid(m: int, n: int) -> int:
    """CTAs for an m × n product: whole groups."""
    return tj.cdiv(m, GROUP * BM) * GROUP * tj.cdiv(n, BN)


def main() -> None:
    random = np.random.default_rng(0)
    m, n, k = 200, 328, 136  # ragged: tiles extend past all edges
    a = random.standard_normal((m, k)).astype(np.float16)
    b = random.standard_normal((k, n)).astype(np.float16)
    bias = np.broadcast_to(random.standard_normal(n).astype(np.float16), (m, n))
    c = np.empty((m, n), np.float16)

    matmul[grid(m, n)](a, b, bias, c, "relu")

    expected = np.maximum(a.astype(np.float64) @ b.astype(np.float64) + bias, 0)
    error = np.abs(c - expected).max() / np.abs(expected).max()
    print(f"device {tj.device()}, {m} x {n} x {k} float16, {grid(m, n)} CTAs of 256 threads")
    print(matmul.explain(a, b, bias, c, "relu"))
    print(f"largest error {error:.1e} of the largest value, against NumPy in float64")
    assert error < 1e-3, "the result is wrong"


if __name__ == "__main__":
    main()
