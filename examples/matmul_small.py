"""C = A @ B in fifteen lines: tiles as values, products on tensor cores.

`a @ b` on loaded tiles becomes mma instructions, and `acc += a @ b` adds in the accumulator's registers, in float32 for
all types of operands. The tiles are loaded in the layouts that mma needs. M, N and K are run-time values; past the
edges tiles read as zeros and aren't written. BM, BN and BK may be any numbers; multiples of 16, 8 and 16 need no
padding.

This is the simple form: each warp fetches its operands from global memory (mostly L2), and waits for them. `matmul.py`
shows a fast kernel, with stages in shared memory that are filled while others are multiplied.

Run it: `python examples/matmul_small.py`.
"""

import numpy as np

import tilejit as tj

BM, BN, BK = 64, 64, 32


@tj.kernel(threads=128)
def matmul(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor) -> None:
    row, column = tj.cta_id(1), tj.cta_id(0)
    acc = tj.cta.zeros((BM, BN), tj.float32)
    for k in range(tj.cdiv(A.shape[1], BK)):
        a = tj.cta.load(A.tile((BM, BK), (row, k)))
        b = tj.cta.load(B.tile((BK, BN), (k, column)))
        acc += a @ b
    tj.cta.store(C.tile((BM, BN), (row, column)), acc.astype(C.dtype))


def grid(m: int, n: int) -> tuple[int, int]:
    return tj.cdiv(n, BN), tj.cdiv(m, BM)


def check(m: int, n: int, k: int, dtype: tj.DType = tj.float16) -> None:
    random = np.random.default_rng(k)
    a, b = (random.standard_normal(shape).astype(dtype.numpy) for shape in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, a.dtype)

    matmul[grid(m, n)](a, b, c)

    expected = a.astype(np.float64) @ b.astype(np.float64)
    roundings: dict[tj.DType, float] = {tj.float16: 1e-3, tj.bfloat16: 8e-3}
    rounding = roundings[dtype]
    np.testing.assert_allclose(c.astype(np.float64), expected, rtol=rounding, atol=rounding)
    print(f"{m} x {n} x {k} {dtype} on {tj.device()}: right")


def main() -> None:
    check(128, 64, 64)
    check(101, 67, 131, tj.bfloat16)
    a = tj.spec((4096, 4096), tj.float16)
    print(matmul.explain(a, a, a))


if __name__ == "__main__":
    main()
