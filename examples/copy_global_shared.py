"""copy → gmem_smem: one warp moves a 32 × 32 tile from global to shared memory and back, 16 bytes a transfer.

For each element type it prints the vector width, the bytes per transfer and the number of iterations that the
dispatcher chose, runs the kernel and compares the result.
"""

import numpy as np

import tilejit as tj


@tj.kernel(threads=32)
def through_shared(A: tj.Tensor, B: tj.Tensor) -> None:
    staged = tj.alloc_shared((32, 32), A.dtype)
    tj.warp.copy(staged, A[0:32, 0:32])
    tj.cta_sync()
    tj.warp.copy(B[0:32, 0:32], staged)


def main() -> None:
    random = np.random.default_rng(0)
    print(f"{'dtype':10}{'vector width':>14}{'bytes':>8}{'rounds':>8}")
    for dtype in (tj.float32, tj.float16, tj.uint8):
        source = random.integers(0, 200, (32, 32)).astype(dtype.numpy)
        result = np.zeros_like(source)
        through_shared[1](source, result)
        assert (result == source).all()

        shared = tj.operand("shared", (32, 32), dtype)
        tensor = tj.operand("global", (32, 32), dtype, layout=tj.S[(32, 32) : (32, 1)])
        plan = tj.dispatch("copy", "warp", shared, tensor, threads=32, target="sm_90a").plan
        print(f"{dtype!r:10}{plan.vector_width:>14}{plan.vector_width * dtype.bytes:>8}{plan.rounds:>8}")


if __name__ == "__main__":
    main()
