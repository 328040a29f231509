"""C = A @ B of float32 with almost all its bits, on tensor cores: three products of tf32 parts of each factor.

`tj.matmul(a, b, precision="tf32x3")` splits fragments in registers, next to the products that use them. cp.async
fetches STAGES - 1 slices of K ahead. A is swizzled in shared memory and the rows of B are padded, so that the lanes of
a warp read their elements of a fragment from 32 different banks. Run it: `python examples/matmul_float32.py`.
"""

import numpy as np

import tilejit as tj
from tilejit import S

BM, BN, BK = 128, 128, 16
STAGES = 4
STEP = 8  # columns of A that one mma instruction multiplies
GROUP = 8  # rows of CTA tiles that are processed together, so that their part of B stays in L2
B_ROW = BN + 8  # elements from one row of B to the next


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

    a_stages = tj.alloc_shared((STAGES, BM, BK), A.dtype, swizzle="64B")
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


def check(m: int, n: int, k: int, precision: str = "tf32x3") -> None:
    random = np.random.default_rng(0)
    # rows start at multiples of 16 bytes, as cp.async needs
    a = random.standard_normal((m, tj.cdiv(k, 4) * 4)).astype(np.float32)[:, :k]
    b = random.standard_normal((k, tj.cdiv(n, 4) * 4)).astype(np.float32)[:, :n]
    c = np.empty((m, n), np.float32)
    matmul[grid(m, n)](a, b, c, precision=precision)
    exact, size = a.astype(np.float64) @ b, np.abs(a).astype(np.float64) @ np.abs(b)
    error = float((np.abs(c - exact) / size).max())
    assert error <= {"tf32": 2.0**-10, "tf32x3": 2.0**-20, "ieee": 0.0}[precision] + k * 2.0**-22, error
    print(f"{m} x {n} x {k} {precision} on {tj.device()}: right, largest error {error:.1e} of |a| @ |b|")


def main() -> None:
    check(136, 264, 72, "tf32")
    check(136, 264, 72)
    a = tj.spec((4096, 4096), tj.float32)
    print(matmul.explain(a, a, a))


if __name__ == "__main__":
    main()
