"""Mistakes with clusters: what is said, where, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import tilejit as tj
from tests.support.programs import source_of
from tilejit.errors import DispatchError, KernelTypeError, ResourceError, TilejitError

PREPARED = """def k(A, n):
    a = tj.alloc_shared((2, 64, 64), A.dtype, swizzle="128B")
    run = tj.alloc_shared((64, 64), A.dtype)
    full = tj.alloc_barrier()
    ring = tj.alloc_ring(2, multicast=0)
    plain = tj.alloc_ring(2)
"""
COPY = "tj.warp.copy_async(a[0], A[0:64, 0:64]"


@dataclass(frozen=True)
class Mistake:
    """at: the text at which the caret stands. cluster, target: of the kernel."""

    line: str
    kind: type[TilejitError]
    says: str
    at: str
    help: str
    cluster: tuple[int, int] | None = (2, 1)
    target: str = "sm_90a"


RING0 = "tj.alloc_ring(..., multicast=0)"
MISTAKES = (
    Mistake("x = tj.cluster.rank(3)", KernelTypeError, "axis 3 of the cluster", "3", "three axes"),
    Mistake("x = tj.cluster.size(axis=n)", KernelTypeError, "the axis must be known at compile time", "n", "constexpr"),
    Mistake("x = tj.cluster.count()", KernelTypeError, "tj.cluster has no attribute count", "tj.cluster.count",
            "id, rank, size"),
    Mistake("x = a.in_cta(1)", KernelTypeError, "no attribute in_cta", "a.in_cta", RING0),
    Mistake("tj.warp.arrive(full, cta=1)", KernelTypeError, "arrive with cta= is not available", "cta=1",
            "a release reaches the others"),
    Mistake("r = tj.alloc_ring(2, multicast=4)", KernelTypeError, "axis 4 of the cluster", "4", "three axes"),
    Mistake(f"{COPY}, barrier=ring[0], multicast=1)", KernelTypeError,
            "multicast=1, but ring has multicast=0: a stage must be free in all", "1", "multicast=1)"),
    Mistake(f"{COPY}, barrier=plain[0], multicast=0)", KernelTypeError, "but plain has no multicast=", "0", RING0),
    Mistake(f"{COPY}, barrier=plain[0], multicast=0)", KernelTypeError, "but plain has no multicast=", "0", RING0,
            None),
    Mistake(f"{COPY}, barrier=full, multicast=0)", KernelTypeError, "but full has no multicast=", "0", RING0),
    Mistake(f"{COPY}, barrier=ring[0].empty, multicast=0)", KernelTypeError,
            "a copy reports to a step, not to ring.empty", "0", "barrier=ring[i]"),
    Mistake(f"{COPY}, multicast=0)", KernelTypeError, "multicast= without barrier=", "0", "barrier=ring[i]"),
    Mistake(f"{COPY}, barrier=ring[0], multicast=3)", KernelTypeError, "multicast= is 0 or 1 or 2; got 3", "3",
            "leave"),
    Mistake(f"{COPY}, barrier=ring[0], multicast=n)", KernelTypeError, "must be known at compile time", "n",
            "constexpr"),
    Mistake(f"{COPY}, barrier=ring[0], multicast=0)", DispatchError,
            "3 CTAs can't share 64 rows in 1 block of columns evenly", COPY, "copy 24 rows or a multiple", (3, 1)),
    Mistake("tj.warp.copy_async(run, tj.assume_in_bounds(A[0:64, 0:64]), barrier=ring[0], multicast=0, variant='bulk')",
            DispatchError, "fills the memory of one CTA; got multicast=0", "tj.warp.copy_async", ""),
    Mistake("tj.warp.copy_async(A[0:64, 0:64], a[0], barrier=ring[0], multicast=0)", DispatchError,
            "moves global -> shared; got shared -> global", "tj.warp.copy_async", ""),
    Mistake("if tj.warp_id() == 0:\n        tj.cluster_sync()", DispatchError, "cluster_sync at", "tj.warp_id() == 0",
            "move it out of the branch"),
    Mistake("tj.cta.commit(ring[0])", KernelTypeError, "4 CTAs release it, and only such a copy keeps more than two",
            "tj.cta.commit", "copy with multicast= in front of it", (4, 1)),
    Mistake("tj.cluster_sync()", ResourceError, "needs sm_90|they need sm_90|no barriers in shared memory",
            "", "sm_90", (2, 1), "sm_80"),
)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.line[:60])
def test_a_mistake_is_refused_where_it_stands(mistake: Mistake) -> None:
    kernel = tj.kernel(threads=64, cluster=mistake.cluster)(source_of(f"{PREPARED}    {mistake.line}\n"))
    with pytest.raises(mistake.kind, match=mistake.says) as error:
        kernel.compile(tj.spec((256, 256), tj.float16), 3, target=mistake.target)
    span = error.value.span
    assert span is not None and mistake.help in (error.value.hint or ""), str(error.value)
    assert span.text[span.column :].startswith(mistake.at) or mistake.at in span.text, str(error.value)


def test_without_a_cluster_there_is_one_cta_in_it() -> None:
    text = """def k(A):
    r = tj.cluster.rank() + tj.cluster.rank(1)
    tj.static_assert(tj.cluster.size() == 1 and tj.cluster.size(2) == 1)
    tj.cluster_sync()
    A[r, tj.cluster.id(0)] = 1.0
"""
    for cluster in (None, (1, 1)):
        ptx = tj.kernel(threads=64, cluster=cluster)(source_of(text)).compile(
            tj.spec((256, 256), tj.float16), target="sm_90a"
        ).ptx
        assert "bar.sync" in ptx and "barrier.cluster" not in ptx and "ctarank" not in ptx
