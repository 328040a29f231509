"""Throughput of ldmatrix and mma alone: products of tiles that stay in shared memory, by how much of K a step loads.

Run on a machine with a GPU, torch and the CUDA tools: `python tests/bench/bench_fragments.py`. Each of two CTAs an SM
multiplies 128 x 64 by 64 x 128 float16 again and again; the best of four runs counts. The moves are counted in SASS:
an mma takes four registers of A and two of B that follow each other, and ptxas moves what ldmatrix left elsewhere.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from pathlib import Path

import tilejit as tj

M, N, K = 128, 128, 64
WARPS = (2, 2)
ROUNDS = 4000


@tj.kernel(threads=128)
def again(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, rounds: tj.int32, STEP: tj.constexpr):
    sa = tj.alloc_shared((M, K), A.dtype, swizzle="128B")
    sb = tj.alloc_shared((K, N), A.dtype, swizzle="128B")
    tj.cta.copy(sa, A[0:M, 0:K])
    tj.cta.copy(sb, B[0:K, 0:N])
    acc = tj.alloc_local((M, N), tj.float32, layout=tj.mma.layout_c((M, N), warps=WARPS))
    tj.cta.fill(acc, 0)
    for _ in range(rounds):
        tj.cta_sync()
        for k in tj.static_range(0, K, STEP):
            a = tj.cta.load(sa[:, k : k + STEP], layout=tj.mma.layout_a((M, STEP), A.dtype, warps=WARPS))
            b = tj.cta.load(sb[k : k + STEP, :], layout=tj.mma.layout_b((STEP, N), A.dtype, warps=WARPS))
            tj.cta.gemm(acc, a, b)
    tj.cta.copy(C[0:M, 0:N], acc)


def instructions(ptx: str) -> dict[str, int]:
    """How often the kernel's SASS has some instructions."""
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "k.ptx", Path(folder) / "k.cubin"
        source.write_text(ptx)
        subprocess.run(["ptxas", "-arch=sm_90a", "-o", cubin, source], check=True)
        sass = subprocess.run(["cuobjdump", "-sass", cubin], capture_output=True, text=True, check=True).stdout
    return {name: len(re.findall(rf"\b{name}\b", sass)) for name in ("HMMA", "LDSM", "MOV")}


def main() -> None:
    import torch

    ctas = 2 * torch.cuda.get_device_properties(0).multi_processor_count
    a = torch.randint(-2, 3, (M, K), device="cuda").half()
    b = torch.randint(-2, 3, (K, N), device="cuda").half()
    c = torch.zeros((M, N), device="cuda")
    for step in (16, 32, 64):
        again[ctas](a, b, c, 1, STEP=step)
        assert torch.equal(c, a.float() @ b.float())
        best = float("inf")
        for _ in range(4):
            torch.cuda.synchronize()
            start = time.perf_counter()
            again[ctas](a, b, c, ROUNDS, STEP=step)
            torch.cuda.synchronize()
            best = min(best, time.perf_counter() - start)
        rate = ctas * ROUNDS * 2 * M * N * K / best / 1e12
        made = again.compile(a, b, c, ROUNDS, STEP=step, target="sm_90a")
        print(f"K in steps of {step}: {rate:.0f} TFLOPS, {instructions(made.ptx)}")


if __name__ == "__main__":
    main()
