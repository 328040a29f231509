"""copy_async → tcgen05_ldst: a warpgroup moves tiles between registers and Blackwell's tensor memory.

First a round trip of 128 × 8 float16, with a row per thread. Then a redistribution: a tile held as fragments, four
lanes per row, is stored in one shape and loaded in another, so that each thread has a row. Both run on the simulator of
sm_100a. For each copy the program prints the chosen shape and the PTX.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

import tilejit as tj
from tilejit import S, tid_in_wg

COLUMNS = 16
ROW_EACH = S[(128, COLUMNS) : (1 @ tid_in_wg, 1)]
FRAGMENTS = tj.tcgen05.atom_layout("16x256b", COLUMNS // 8, tj.float32)


@tj.kernel(threads=128)
def round_trip(A: tj.Tensor, B: tj.Tensor) -> None:
    r = tj.alloc_local((128, 8), A.dtype, layout=S[(128, 8) : (1 @ tid_in_wg, 1)])
    t = tj.alloc_tmem((128, 8), A.dtype)
    tj.wg.copy(r, A[0:128, 0:8])
    tj.wg.copy_async(t, r)
    tj.tcgen05.wait_st()
    tj.cta_sync()
    tj.wg.fill(r, 0)
    tj.wg.copy_async(r, t)
    tj.tcgen05.wait_ld()
    tj.wg.copy(B[0:128, 0:8], r)


@tj.kernel(threads=128)
def transpose(A: tj.Tensor, B: tj.Tensor) -> None:
    thread = tj.thread_id()
    fragments = tj.alloc_local((128, COLUMNS), A.dtype, layout=FRAGMENTS)
    rows = tj.alloc_local((128, COLUMNS), A.dtype, layout=ROW_EACH)
    t = tj.alloc_tmem((128, COLUMNS), A.dtype)
    for k in tj.static_range(COLUMNS):
        fragments.registers[k] = A[thread, k]
    tj.wg.copy_async(t, fragments)
    tj.tcgen05.wait_st()
    tj.wg.copy_async(rows, t)
    tj.tcgen05.wait_ld()
    for k in tj.static_range(COLUMNS):
        B[thread, k] = rows.registers[k]


def rows_of(registers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The rows of a tile of which thread t holds registers[t] as 16x256b fragments.

    Lane 4a + b of warp w holds row 32w + 16s + 8h + a, columns 8n + 2b + p, in register 4(Ns + n) + 2h + p.
    """
    w, a, b, s, n, h, p = range(7)
    digits: npt.NDArray[Any] = registers.reshape(4, 8, 4, 2, COLUMNS // 8, 2, 2)
    rows: npt.NDArray[Any] = digits.transpose(w, s, h, a, n, b, p).reshape(128, COLUMNS)
    return rows


def show(kernel: tj.Kernel, a: npt.NDArray[Any], b: npt.NDArray[Any]) -> None:
    """Print the shapes and instructions of the kernel's asynchronous copies."""
    compiled = kernel.compile(a, b, target="sm_100a")
    print(f"{compiled.name}:")
    for verdict in compiled.verdicts:
        if verdict.variant == "tcgen05_ldst":
            plan, source = verdict.plan, verdict.span.text.strip() if verdict.span else ""
            print(f"  .{plan.shape}, num {plan.num}, slabs {plan.slabs}, issues {plan.issues}: {source}")
    for line in compiled.ptx.splitlines():
        if "tcgen05." in line:
            print("   ", line.strip())


def main() -> None:
    random = np.random.default_rng(0)
    with tj.use_device("sim:sm_100a"):
        a = random.standard_normal((128, 8)).astype(np.float16)
        b = np.zeros_like(a)
        round_trip[1](a, b)
        assert (a == b).all()
        show(round_trip, a, b)

        x = random.standard_normal((128, COLUMNS)).astype(np.float32)
        y = np.zeros_like(x)
        transpose[1](x, y)
        assert (y == rows_of(x)).all()
        show(transpose, x, y)


if __name__ == "__main__":
    main()
