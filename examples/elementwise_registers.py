"""elementwise → reg: sqrt, add and fma of a 32 × 8 tile, each lane on its own eight registers.

It prints the number of square roots in the PTX, and compares with NumPy.
"""

import numpy as np

import tilejit as tj
from tilejit import S, laneid

ROWS = S[(32, 8) : (1 @ laneid, 1)]


@tj.kernel(threads=32)
def three_operations(A: tj.Tensor, B: tj.Tensor) -> None:
    x = tj.alloc_local((32, 8), A.dtype, layout=ROWS)
    y = tj.alloc_local((32, 8), A.dtype, layout=ROWS)
    tj.warp.copy(x, A[0:32, 0:8])
    tj.warp.sqrt(y, x)
    tj.warp.add(y, y, 1.0)
    tj.warp.fma(y, y, 0.5, x)
    tj.warp.copy(B[0:32, 0:8], y)


def main() -> None:
    a = np.random.default_rng(0).random((32, 8), dtype=np.float32)
    b = np.empty_like(a)
    three_operations[1](a, b)

    y = (np.sqrt(a) + np.float32(1)).astype(np.float64)
    expected = (y * 0.5 + a).astype(np.float32)  # fma rounds once
    assert (b == expected).all()

    ptx = three_operations.compile(a, b, target="sm_90a").ptx
    print(f"sqrt.rn.f32 in the PTX, for eight registers a lane: {ptx.count('sqrt.rn.f32')}")
    print(three_operations.explain(a, b))


if __name__ == "__main__":
    main()
