"""Tensor memory that one warpgroup hands over to another, by whatever orders threads."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import source_of

HEAD = """
def k(A, B, F):
    t = tj.alloc_tmem((128, 16), tj.float32)
    ring = tj.alloc_ring(1)
    ready = tj.alloc_barrier(1)
    r = tj.alloc_local((128, 16), tj.float32, layout=tj.S[(128, 16) : (1 @ tj.tid_in_wg, 1)])
    if tj.warpgroup_id() == 0:
        for i in range(3):
            {acquire}
            tj.wg.copy(r, A[i, 0:128, 0:16])
            tj.wg.copy_async(t, r)
            tj.tcgen05.wait_st()
            {give}
    else:
        for i in range(3):
            {take}
            tj.wg.copy_async(r, t)
            tj.tcgen05.wait_ld()
            tj.wg.copy(B[i, 0:128, 0:16], r)
            {release}
"""

RING = {
    "acquire": "ring[i].acquire()", "give": "tj.wg.commit(ring[i])", "take": "ring[i].wait()",
    "release": "tj.wg.release(ring[i])",
}
NAMED = "tj.named_barrier({}, 256)"
AWAITED = (
    "while tj.load_acquire(F[{}], scope='cta') < {}:\n                pass\n            tj.warpgroup_sync()"
)
RAISED = (
    "tj.warpgroup_sync()\n            if tj.thread_id() == {}:\n"
    "                tj.store_release(F[{}], i + 1, scope='cta')"
)
WAYS = {
    "ring": RING,
    "barrier": RING | {"give": "tj.wg.arrive(ready)", "take": "ready.wait(i)"},
    "named": {
        "acquire": f"if i > 0:\n                {NAMED.format(2)}.sync()", "give": f"{NAMED.format(1)}.arrive()",
        "take": f"{NAMED.format(1)}.sync()", "release": f"if i < 2:\n                {NAMED.format(2)}.arrive()",
    },
    "one thread": RING | {
        "give": "tj.warpgroup_sync()\n            if tj.elect() and tj.warp_id() == 0:\n"
                "                tj.thread.arrive(ready)",
        "take": "if tj.elect() and tj.warp_id() == 4:\n                ready.wait(i)\n            tj.warpgroup_sync()",
    },
    "flag": {"acquire": AWAITED.format(1, "i"), "give": RAISED.format(0, 0), "take": AWAITED.format(0, "i + 1"),
             "release": RAISED.format(128, 1)},
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_handed_over_is_fenced(way: str) -> None:
    kernel = tj.kernel(threads=256)(source_of(HEAD.format(**WAYS[way])))
    a = np.random.default_rng(0).standard_normal((3, 128, 16)).astype(np.float32)
    for schedule in range(4):
        b, f = np.zeros_like(a), np.zeros(2, np.int32)
        tj.simulate(kernel, 1, a, b, f, target="sm_100a", schedule=schedule)
        np.testing.assert_array_equal(a, b)


def test_fences_are_placed_directly_before_an_arrival_and_directly_after_a_wait() -> None:
    kernel = tj.kernel(threads=256)(source_of(HEAD.format(**RING)))
    ptx = kernel.compile(*[tj.spec((3, 128, 16), tj.float32)] * 2, tj.spec((2,), tj.int32), target="sm_100a").ptx
    order = re.findall(r"tcgen05\.(?:ld|st|fence::\w+)|mbarrier\.(?:arrive|try_wait)", ptx)[2:-1]
    text = " ".join(word.removeprefix("tcgen05.").removeprefix("mbarrier.") for word in order)
    assert text.count("fence::before_thread_sync arrive") == text.count("arrive") == 2
    assert text.count("try_wait fence::after_thread_sync") == text.count("try_wait") == 2


def test_threads_that_touch_no_tensor_memory_have_no_fences() -> None:
    text = HEAD.format(**RING) + """
    if tj.warpgroup_id() == 2:
        for i in range(3):
            ready.wait(i)
            A[i, 0, 0] = 1.0
"""
    kernel = tj.kernel(threads=384)(source_of(text.replace("    else:", "    elif tj.warpgroup_id() == 1:")))
    ptx = kernel.compile(*[tj.spec((3, 128, 16), tj.float32)] * 2, tj.spec((2,), tj.int32), target="sm_100a").ptx
    assert ptx.count("try_wait") == 3 and ptx.count("fence::after") == 2 + 2
