"""Programs that the tests of commands send and explain."""

COPY = """
import tilejit as tj

@tj.kernel(threads=32, target="sm_90a")
def copy(A: tj.Tensor = tj.spec((32, 8), tj.float32), B: tj.Tensor = tj.spec((32, 8), tj.float32)):
    smem = tj.alloc_shared((32, 8), A.dtype)
    tj.warp.copy(smem, A[0:32, 0:8])
    tj.cta_sync()
    tj.warp.copy(B[0:32, 0:8], smem)
"""

LAUNCHED = """
import numpy as np
import tilejit as tj

@tj.kernel(threads=32)
def store(A: tj.Tensor):
    A[tj.thread_id()] = 1

if __name__ == "__main__":
    print("launching")
    store[1](np.zeros(32, np.float32))
"""

#: explanations with everything that one may have
VARIED = """
import tilejit as tj

@tj.kernel(threads=64, target="sm_90a")
def boxes(X: tj.Tensor = tj.spec((512, 512), tj.float16), n: tj.int32 = 1):
    s = tj.alloc_shared((64, 128), X.dtype, swizzle="128B")
    full = tj.alloc_barrier()
    s[tj.thread_id(), 0] = 1.0
    tj.cta_sync()
    tj.cta.copy_async(s, X[0:64, 0:128], barrier=full)
    tj.cta.arrive(full)
    full.wait(0)

@tj.kernel(threads=32)
def apart(X: tj.Tensor = tj.spec((64, 64), tj.float32), Y: tj.Tensor = tj.spec((64, 10), tj.float32), n: tj.int32 = 1):
    r = tj.alloc_local((32, 8), tj.float32, layout=tj.S[(32, 8) : (1 @ tj.laneid, 1)])
    odd = tj.alloc_shared((32, 8), tj.float32)
    t = tj.alloc_local((64,), tj.float32, layout=tj.S[(64,) : (1,)])
    tj.thread.fill(t, 1.0)
    tj.warp.copy(r, X[0:32, 0:8])
    tj.warp.copy(odd, Y[0:32, 2:10])
    Y[tj.thread_id(), 8] = t[n] + odd[0, 0]
"""

#: a kernel whose threads read what others store to shared memory, with no barrier between
RACE_PTX = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry shift(.param .u64 y)
{
.reg .b32 %r<8>; .reg .b64 %x<4>; .reg .pred %p<2>;
.shared .align 4 .b8 tile[1024];
mov.u32 %r1, %tid.x; mov.u32 %r2, tile; shl.b32 %r3, %r1, 2; add.u32 %r4, %r2, %r3;
st.shared.u32 [%r4], %r1;
xor.b32 %r5, %r3, 1020; add.u32 %r5, %r2, %r5;
ld.shared.u32 %r6, [%r5];
ld.param.u64 %x1, [y]; mul.wide.u32 %x2, %r1, 4; add.u64 %x1, %x1, %x2;
st.global.u32 [%x1], %r6;
ret;
}
"""
