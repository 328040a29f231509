"""Mistakes with clusters: what is said, where, and what to do."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import source_of
from tilejit.errors import AsyncHazardError, DispatchError, KernelTypeError, ResourceError, TilejitError

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
    """at: the text that the caret points at. cluster, target: of the kernel."""

    line: str
    kind: type[TilejitError]
    says: str
    at: str
    help: str
    cluster: tuple[int, int] | None = (2, 1)
    target: str = "sm_90a"


RING0 = "tj.alloc_ring(..., multicast=0)"
MISTAKES = (
    Mistake("x = tj.cluster.rank(3)", KernelTypeError, "a cluster has no axis 3", "3", "three axes"),
    Mistake("x = tj.cluster.size(axis=n)", KernelTypeError, "the axis must be known at compile time", "n", "constexpr"),
    Mistake("x = tj.cluster.count()", KernelTypeError, "tj.cluster has no attribute count", "tj.cluster.count",
            "id, rank, size"),
    Mistake("x = a.in_cta(1)", KernelTypeError, "no attribute in_cta", "a.in_cta", RING0),
    Mistake("tj.warp.arrive(full, cta=1)", KernelTypeError, "arrive with cta= is not available", "cta=1",
            "a release reaches the other CTAs"),
    Mistake("r = tj.alloc_ring(2, multicast=4)", KernelTypeError, "a cluster has no axis 4", "4", "three axes"),
    Mistake(f"{COPY}, barrier=ring[0], multicast=1)", KernelTypeError,
            "multicast=1, but ring has multicast=0: a stage must be free in all", "1", "multicast=1)"),
    Mistake(f"{COPY}, barrier=plain[0], multicast=0)", KernelTypeError, "but plain has no multicast=", "0", RING0),
    Mistake(f"{COPY}, barrier=plain[0], multicast=0)", KernelTypeError, "but plain has no multicast=", "0", RING0,
            None),
    Mistake(f"{COPY}, barrier=full, multicast=0)", KernelTypeError, "but full has no multicast=", "0", RING0),
    Mistake(f"{COPY}, barrier=ring[0].empty, multicast=0)", KernelTypeError,
            "a copy reports to a step, not to ring.empty", "0", "barrier=ring[i]"),
    Mistake(f"{COPY}, multicast=0)", KernelTypeError, "multicast= needs barrier=", "0", "barrier=ring[i]"),
    Mistake(f"{COPY}, barrier=ring[0], multicast=3)", KernelTypeError, "multicast= is 0 or 1 or 2; got 3", "3",
            "leave"),
    Mistake(f"{COPY}, barrier=ring[0], multicast=n)", KernelTypeError, "must be known at compile time", "n",
            "constexpr"),
    Mistake(f"{COPY}, barrier=ring[0], multicast=0)", DispatchError,
            "3 CTAs can't share 64 rows in 1 block of columns evenly", COPY, "copy a multiple of 24 rows", (3, 1)),
    Mistake("tj.warp.copy_async(run[0], A[0, 0:64], barrier=ring[0], multicast=0)", DispatchError,
            "2 CTAs can't share 1 row in 1 block of columns evenly", "tj.warp.copy_async",
            "copy a multiple of 16 rows"),
    Mistake("tj.warp.copy_async(run, tj.assume_in_bounds(A[0:64, 0:64]), barrier=ring[0], multicast=0, variant='bulk')",
            DispatchError, "fills the memory of one CTA; got multicast=0", "tj.warp.copy_async", ""),
    Mistake("tj.warp.copy_async(A[0:64, 0:64], a[0], barrier=ring[0], multicast=0)", DispatchError,
            "moves global -> shared; got shared -> global", "tj.warp.copy_async", ""),
    Mistake("if tj.warp_id() == 0:\n        tj.cluster_sync()", DispatchError, "cluster_sync at", "tj.warp_id() == 0",
            "move it out of the branch"),
    Mistake("tj.cta.commit(ring[0])", KernelTypeError, "4 CTAs release it, and only such a copy keeps more than two",
            "tj.cta.commit", "copy with multicast= before it", (4, 1)),
    Mistake("tj.cluster_sync()", ResourceError, "needs sm_90|which need sm_90|no barriers in shared memory",
            "", "sm_90", (2, 1), "sm_80"),
)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.line[:60])
def test_a_mistake_is_refused_at_its_location(mistake: Mistake) -> None:
    kernel = tj.kernel(threads=64, cluster=mistake.cluster)(source_of(f"{PREPARED}    {mistake.line}\n"))
    with pytest.raises(mistake.kind, match=mistake.says) as error:
        kernel.compile(tj.spec((256, 256), tj.float16), 3, target=mistake.target)
    span = error.value.span
    assert span is not None and mistake.help in (error.value.hint or ""), str(error.value)
    assert span.text[span.column :].startswith(mistake.at) or mistake.at in span.text, str(error.value)


SHARED = """def k(A, B):
    ring = tj.alloc_ring(2, multicast=0)
    s = tj.alloc_shared((2, 16, 64), A.dtype, swizzle="128B")
    rank = tj.cluster.rank()
    for i in range(4):
        t = ring[i]
        t.acquire()
        tj.warp.copy_async(s[t.stage], A[i * 16 : i * 16 + 16, 0:64], barrier=t, multicast=0)
        tj.warp.commit(t)
        t.wait()
        tj.warp.copy_async(B[rank, i * 16 : i * 16 + 16, 0:64], s[t.stage])
        tj.bulk.wait_read(0)
        tj.warp.release(t)
    tj.bulk.wait(0)
"""
COPIED = "tj.warp.copy_async(s[t.stage], A[i * 16 : i * 16 + 16, 0:64], barrier=t, multicast=0)"
CARET = f"""    {COPIED}
    {'^' * len(COPIED)}
help: all CTAs that share a copy must name the same region and destination: compute both from what these CTAs \
have in common, such as the id of their cluster, and not from their own ids or ranks"""
#: (old text, new text)s -> the message
DIFFERENT = {
    ("A[i * 16 :", "A[rank * 4 + i * 16 :", "i * 16 + 16, 0:64], b", "rank * 4 + i * 16 + 16, 0:64], b"): """\
CTAs of a cluster share a copy and name different regions: \
thread 0 (warp 0, lane 0) of CTA (1, 0, 0) copies A from (4, 0) on to s+0 bytes, element 0 of 2 bytes
  PTX line …
    from FILE:8: COPY
and thread 0 (warp 0, lane 0) of CTA (0, 0, 0) copies A from (0, 0) on to s+0 bytes, element 0 of 2 bytes
  at FILE:8:9""",
    ("s[t.stage], A", "s[(t.stage + rank) % 2], A"): """\
CTAs of a cluster share a copy and name different places: \
thread 0 (warp 0, lane 0) of CTA (1, 0, 0) copies A from (0, 0) on to s+2048 bytes, element 1024 of 2 bytes
  PTX line …
    from FILE:8: COPY
and thread 0 (warp 0, lane 0) of CTA (0, 0, 0) copies A from (0, 0) on to s+0 bytes, element 0 of 2 bytes
  at FILE:8:9""",
}


@pytest.mark.parametrize("edits", DIFFERENT, ids=str)
def test_ctas_that_name_different_things_in_a_copy_that_they_share_are_both_named(edits: tuple[str, ...]) -> None:
    text, copy = SHARED, COPIED
    for old, new in zip(edits[::2], edits[1::2], strict=True):
        assert copy.count(old) == 1
        text, copy = text.replace(copy, copy.replace(old, new)), copy.replace(old, new)
    out = np.zeros((2, 64, 64), np.float16)
    with pytest.raises(AsyncHazardError) as error:
        tj.simulate(tj.kernel(threads=32, cluster=(2, 1))(source_of(text)), 2, np.ones((128, 64), np.float16), out)
    assert error.value.span is not None
    report = re.sub(r"PTX line .*", "PTX line …", str(error.value)).replace(error.value.span.file, "FILE")
    assert report == DIFFERENT[edits].replace("COPY", copy) + "\n" + CARET.replace(COPIED, copy).replace(
        "^" * len(COPIED), "^" * len(copy))


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
