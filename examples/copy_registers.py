"""copy → reg: each lane of a warp reads its own row of shared memory into registers and writes it back.

The register layout assigns elements to lanes: in `S[(32, k) : (1 @ laneid, 1)]` lane i owns row i, in k registers.
The program fills shared memory, loads it, clears it, stores the registers back, and must restore the contents.
"""

import numpy as np

import tilejit as tj
from tilejit import S, laneid


@tj.kernel(threads=32)
def round_trip(out: tj.Tensor, K: tj.constexpr) -> None:
    lane = tj.lane_id()
    smem = tj.alloc_shared((32, K), out.dtype)
    r = tj.alloc_local((32, K), out.dtype, layout=S[(32, K) : (1 @ laneid, 1)])

    for k in tj.static_range(K):
        smem[lane, k] = (lane * 100 + k + 1).astype(out.dtype)
    tj.cta_sync()
    tj.warp.copy(r, smem)
    tj.cta_sync()
    for k in tj.static_range(K):
        smem[lane, k] = 0
    tj.cta_sync()
    tj.warp.copy(smem, r)
    tj.cta_sync()
    tj.warp.copy(out[0:32, 0:K], smem)


def main() -> None:
    print(f"{'dtype':10}{'k':>4}{'registers':>11}{'vector width':>14}{'rounds':>8}")
    for dtype, k in ((tj.float32, 8), (tj.float32, 16), (tj.float16, 8), (tj.float16, 16)):
        out = np.zeros((32, k), dtype.numpy)
        round_trip[1](out, K=k)
        expected = (np.arange(32)[:, None] * 100 + np.arange(k) + 1).astype(dtype.numpy)
        assert (out == expected).all()

        local = tj.operand("local", (32, k), dtype, layout=S[(32, k) : (1 @ laneid, 1)])
        shared = tj.operand("shared", (32, k), dtype)
        plan = tj.dispatch("copy", "warp", local, shared, threads=32, target="sm_90a").plan
        print(f"{dtype!r:10}{k:>4}{k:>11}{plan.vector_width:>14}{plan.rounds:>8}")


if __name__ == "__main__":
    main()
