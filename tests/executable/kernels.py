"""Kernels that differ in what a launch needs of them, each as what compiles it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tilejit as tj
from tilejit.compiled import Compiled

F32 = tj.spec((64, 48), tj.float32)


@tj.function
def helper(x, by):
    assert by > 0, "nothing to do"
    return x * by


@tj.kernel(threads=64)
def scalars(
    A: tj.Tensor, yes: tj.bool_, b: tj.int8, h: tj.float16, w: tj.bfloat16, e: tj.float8_e4m3fn, n: tj.int64,
    d: tj.float64, u: tj.uint16,
):
    """Every size of a parameter, so that some follow padding."""
    if yes:
        A[0, 0] = tj.float32(b) + tj.float32(h) + tj.float32(w) + tj.float32(e) + tj.float32(n) + tj.float32(u)
        A[1, 1] = tj.float32(d)


@tj.kernel(threads=128, debug=True)
def checked(A: tj.Tensor, B: tj.Tensor, by: tj.int32):
    row = tj.cta_id(0)
    B[row, tj.thread_id() % 48] = helper(A[row, by], by)
    tj.cta.store(B[row * 8 : row * 8 + 8, 0:48], tj.cta.load(A[row * 8 : row * 8 + 8, 0:48]))


@tj.kernel(threads=128, cooperative=True)
def together(A: tj.Tensor):
    A[0, 0] = 1
    tj.grid_sync()
    A[1, 0] = 2


@tj.kernel(threads=64, cluster=(2, 1, 1))
def clustered(A: tj.Tensor):
    A[tj.cta_id(0), 0] = 1


@tj.kernel(threads=128)
def large(A: tj.Tensor, B: tj.Tensor):
    """More shared memory than a kernel has without asking for it."""
    s = tj.alloc_shared((64, 256), tj.float32)
    tj.cta.copy(s[:, 0:48], A[0:64, 0:48])
    tj.cta_sync()
    tj.cta.copy(B[0:64, 0:48], s[:, 0:48])


class Weights(NamedTuple):
    w: tj.Tensor
    n: tj.int32
    K: tj.constexpr = 3


@tj.kernel(threads=32)
def contained(P, Q: Weights, P_0: tj.int32):
    """Items of containers, one of which has the name of a parameter in C."""
    if Q.n > P_0:
        P[0][0, 0] = Q.w[0, 0] * P[1][0] + Q.K


@tj.kernel(threads=32)
def reshaped(A: tj.Tensor, n: tj.int32):
    """Views whose shapes a launch checks."""
    A.reshape(-1)[n] = A.reshape(n // 2, -1, A.shape[1])[0, 0, 1]


@tj.kernel(threads=32, debug=True)
def scratched(A: tj.Tensor, n: tj.int32):
    """Scratch, some of which it must leave zero."""
    W = tj.scratch((tj.num_ctas(1), A.shape[0] * 2, n), tj.float16)
    Z = tj.scratch(4, tj.int32, zeroed=True)
    W[0, n - 1, 0] = A[0, 0]
    tj.atomic.add(Z[0], 1)


@tj.kernel(threads=32)
def register(A: tj.Tensor, int: tj.int32, A_extent_0: tj.int32, größe: tj.int32):
    """Names that C doesn't take, or that collide with those of extents."""
    if tj.int64(int) + A_extent_0 + größe < A.shape[0]:
        A[0, A.shape[1] - 1] = 1


@tj.kernel(threads=32)
def pinned(A: tj.Tensor = F32, N: tj.constexpr = (1, 2.5, None, "text", tj.float16, True)):
    A[0, 0] = N[1]


@tj.kernel(threads=32)
def indexed(A: tj.Tensor, n: tj.int32):
    """A tile in local memory."""
    r = tj.alloc_local((256,), tj.float32)
    for i in range(256):
        r[(i * n) % 256] = A[0, i % 48]
    A[0, 0] = r[n]


@tj.kernel(threads=256)
def roles(A: tj.Tensor):
    """Warpgroups that set their registers, and hand each other what they have done."""
    ring = tj.alloc_ring(2)
    if tj.warpgroup_id() == 0:
        tj.set_registers(24)
        tj.warpgroup.commit(ring[0])
    else:
        tj.set_registers(240)
        ring[0].wait()


@tj.kernel(threads=32)
def widened(A: tj.Tensor, x: tj.float32):
    """A scalar that is rounded before it is converted to float64."""
    A[0, 0] = tj.float32(tj.float64(x) * 3)


@tj.kernel(threads=32)
def nothing():
    pass


def numbers(kernel: tj.Kernel) -> dict[str, tj.DType]:
    """The types of its scalar parameters."""
    return {p.name: p.dtype for p in kernel.parameters if p.dtype is not None}


#: by name
EXECUTABLES: dict[str, Callable[[], Compiled]] = {
    "scalars": lambda: scalars.compile(F32, **numbers(scalars), target="sm_90a"),
    "checked": lambda: checked.compile(F32, F32, **numbers(checked), target="sm_90a"),
    "together": lambda: together.compile(F32, target="sm_90a"),
    "clustered": lambda: clustered.compile(F32, target="sm_90a"),
    "large": lambda: large.compile(F32, tj.spec((64, 48), tj.float32, (1, 64)), target="sm_80"),
    "contained": lambda: contained.compile((F32, (tj.float32,)), Weights(F32, tj.int32), tj.int32, target="sm_90a"),
    "reshaped": lambda: reshaped.compile(F32, tj.int32, target="sm_90a"),
    "scratched": lambda: scratched.compile(F32, tj.int32, target="sm_90a"),
    "register": lambda: register.compile(F32, **numbers(register), target="sm_75"),
    "pinned": lambda: pinned.compile(target="sm_100a"),
    "indexed": lambda: indexed.compile(F32, tj.int32, target="sm_90a"),
    "roles": lambda: roles.compile(F32, target="sm_90a"),
    "widened": lambda: widened.compile(F32, **numbers(widened), target="sm_90a"),
    "nothing": lambda: nothing.compile(target="sm_90a"),
}
