"""C = A @ B of float32 with almost all its bits, on tensor cores: three products of tf32 parts of each factor.

`tj.matmul(a, b, precision="tf32x3")` splits fragments in registers, next to the products that use them. cp.async fetches
STAGES - 1 slices of K ahead. Rows of shared memory are padded so that a warp's lanes read their elements of a fragment
from 32 different banks. Run it: `python examples/matmul_float32.py`.
"""

import numpy as np

import tilejit as tj
from tilejit import S

BM, BN, BK = 128, 128, 16
STAGES = 4
STEP = 8  # columns of A that one mma instruction multiplies
GROUP = 8  # rows of CTA tiles that are processed together, so that their part of B stays in L2
A_ROW, B_ROW = BK + 4, BN + 8  # elements from one row to the next


@tj.function
def tile_of(cta: int, columns: int) -> tuple[int, int]:
    """The tile of C that a CTA computes: by groups of GROUP rows of tiles, so that neighbours share A and B in L2."""
    within = cta % (GROUP * columns)
    return cta // (GROUP * columns) * GROUP + within % GROUP, within // GROUP


@tj.kernel(threads=128)
def matmul(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, precision: tj.constexpr = "tf32x3") -> None:
    row, column = tile_of(tj.cta_id(0), tj.cdiv(C.shape[1], BN))
    if row * BM >= C.shape[0]:
        return  # the last group may have fewer rows

    a_stages = tj.alloc_shared((STAGES, BM, BK), A.dtype, layout=S[(STAGES, BM, BK) : (BM * A_ROW, A_ROW, 1)])
    b_stages = tj.alloc_shared((STAGES, BK, BN), B.dtype, layout=S[(STAGES, BK, BN) : (BK * B_ROW, B_ROW, 1)])
    for step in range(STAGES - 1):
        tj.cta.copy_async(a_stages[step], A.tile((BM, BK), (row, step)))
        tj.cta.copy_async(b_stages[step], B.tile((BK, BN), (step, column)))
        tj.cp_async.commit()

    sums = tj.cta.zeros((BM, BN), tj.float32)
    for step in range(tj.cdiv(A.shape[1], BK)):
        now = tj.int32(step % STAGES)
        tj.cp_async.wait(STAGES - 2)
        tj.cta_sync()  # this step's slices have arrived for all threads, and all have read the last one's
        coming, free = step + STAGES - 1, (now + STAGES - 1) % STAGES  # past the end of K, the tiles read as zeros
        tj.cta.copy_async(a_stages[free], A.tile((BM, BK), (row, coming)))
        tj.cta.copy_async(b_stages[free], B.tile((BK, BN), (coming, column)))
        tj.cp_async.commit()
        for k in tj.static_range(0, BK, STEP):
            a, b = tj.cta.load(a_stages[now, :, k : k + STEP]), tj.cta.load(b_stages[now, k : k + STEP, :])
            sums += tj.matmul(a, b, precision=precision)
    tj.cta.store(C.tile((BM, BN), (row, column)), sums)


def grid(m: int, n: int) -> int:
    """CTAs for an m × n product: whole groups."""
    return tj.cdiv(m, GROUP * BM) * GROUP * tj.cdiv(n, BN)


def main() -> None:
    random = np.random.default_rng(0)
    m, n, k = 136, 264, 72  # ragged: tiles extend past all edges
    a = random.standard_normal((m, k)).astype(np.float32)
    b = random.standard_normal((k, n)).astype(np.float32)
    exact, size = a.astype(np.float64) @ b, np.abs(a) @ np.abs(b)

    print(f"device {tj.device()}, {m} x {n} x {k} float32, {grid(m, n)} CTAs of 128 threads")
    for precision in ("tf32", "tf32x3"):
        c = np.empty((m, n), np.float32)
        matmul[grid(m, n)](a, b, c, precision=precision)
        error = (np.abs(c - exact) / size).max()
        print(f"{precision:7} largest error {error:.1e} of |a| @ |b|, against NumPy in float64")
    assert error < 2.0**-20 + k * 2.0**-22, "the result is wrong"


if __name__ == "__main__":
    main()
