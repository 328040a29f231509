"""What both benchmarks of the simulator launch."""

from __future__ import annotations

import numpy as np

import tilejit as tj
from tilejit.simulator import Pointer

HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"
REGISTERS = ".reg .pred %p<4>; .reg .b32 %r<32>; .reg .f32 %f<32>; .reg .b64 %x<16>;\n"


@tj.kernel(threads=32)
def copy_line(A: tj.Tensor, B: tj.Tensor):
    line = tj.alloc_local((32,), A.dtype, layout=tj.S[(32,) : (1 @ tj.tx,)])
    tj.cta.copy(line, A[0:32])
    tj.cta.copy(B[0:32], line)


def pointer(array: np.ndarray, **options: bool) -> Pointer:
    return Pointer(array.reshape(-1).view(np.uint8), **options)


def look_back() -> str:
    """Each CTA waits for the flag of the one in front, adds to its sum, and sets its own flag."""
    return (
        f"{HEADER}.visible .entry k(.param .u64 p0, .param .u64 p1)\n{{\n{REGISTERS}"
        "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; ld.param.u64 %x1, [p0]; ld.param.u64 %x2, [p1];\n"
        "mul.wide.u32 %x3, %r2, 4; add.s64 %x4, %x1, %x3; add.s64 %x5, %x2, %x3; mov.u32 %r10, %r2;\n"
        "setp.ne.u32 %p1, %r1, 0; @%p1 bra END; setp.eq.u32 %p2, %r2, 0; @%p2 bra FIRST;\n"
        "WAIT: ld.acquire.gpu.global.u32 %r12, [%x5+-4]; setp.eq.u32 %p2, %r12, 0; @%p2 bra WAIT;\n"
        "ld.global.u32 %r11, [%x4+-4]; add.u32 %r10, %r10, %r11;\n"
        "FIRST: st.global.u32 [%x4], %r10; mov.u32 %r12, 1; st.release.gpu.global.u32 [%x5], %r12;\nEND: ret;\n}\n"
    )
