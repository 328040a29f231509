"""Fences between ordinary and asynchronous accesses are placed before barriers, and only where needed."""

from __future__ import annotations

import re

import pytest

from tests.support.programs import tile_ir
from tilejit.dtypes import float16, int32
from tilejit.ir.text.printer import to_text
from tilejit.ir.types import ArrayType
from tilejit.ir.verify import verify
from tilejit.lower import lower
from tilejit.lower.passes import expects, fences
from tilejit.target import target

MATRIX = ArrayType(float16, 2, 1, 16, 16)
APART = """def k(A, B, n):
    a, b = tj.alloc_shared((64, 64), A.dtype, swizzle="128B"), tj.alloc_shared((64, 64), A.dtype)
    full, i = tj.alloc_barrier(), tj.thread_id()
"""
LOAD = "tj.cta.copy_async(a, A[0:64, 0:64], barrier=full)"
STORE = "tj.cta.copy_async(B[0:64, 0:64], a)"


def order(*body: str, overlaps: bool = False) -> str:
    """What a kernel does, a letter each.

    f, g: fences of shared and global memory, s: barriers, a: arrivals, w: waits, L, S: copies, o: ordinary stores,
    c: waits for cp.async.
    """
    text = APART + "".join(f"    {line}\n" for part in body for line in part.splitlines())
    matrix = ArrayType(float16, 2, 1, 16, 16, overlaps)
    tile = tile_ir(text, matrix, matrix, int32, threads=64)
    made = fences.with_fences(expects.lower_expects(lower(tile, target("sm_90a")).kernel))
    assert verify(made, "lane") == []
    letters = {
        "fence.proxy.async.shared": "f", "fence.proxy.async.global": "g", ".sync": "s", ".arrive": "a",
        "cp.async.wait": "c", "wait ": "w", "tma.load": "L", "tma.store": "S", "store ": "o", "for ": "(", "if n": "?",
    }
    pattern = re.compile("|".join(map(re.escape, letters)))
    found = [letters[m[0]] for line in to_text(made).splitlines()[1:] if (m := pattern.search(line)) is not None]
    return "".join(found)


def test_an_ordinary_write_is_fenced_before_the_barrier() -> None:
    assert order("a[i, 0] = 1.0", "tj.cta_sync()", STORE) == "ofsS"


def test_without_a_barrier_the_fence_comes_before_the_leaders_branch() -> None:
    assert order("a[i, 0] = 1.0", STORE) == "ofS"


def test_an_ordinary_read_is_fenced_where_a_copy_overwrites_it() -> None:
    read = "B[i, 0] = a[i, 0]"
    assert order(read, "tj.cta_sync()", LOAD, "tj.cta.arrive(full)") == "ofsLa"
    # a store only reads it
    assert order(read.replace("B[", "b["), "tj.cta_sync()", STORE) == "osS"


def test_what_the_copies_dont_touch_is_left_alone() -> None:
    assert order("b[i, 0] = 1.0", "tj.cta_sync()", STORE) == "osS"
    assert order("a[i, 0] = 1.0", "tj.cta_sync()") == "os"


def test_no_fence_comes_between_two_copies_or_after_a_wait() -> None:
    assert order(LOAD, "tj.cta.arrive(full)", "full.wait(0)", "tj.cta_sync()", STORE) == "LawsS"


def test_barriers_are_no_memory_that_a_copy_is_ordered_with() -> None:
    # the bytes are announced to the barrier before the copy, which reports to it
    assert order(LOAD, LOAD) == "LL"


def test_an_arrival_is_fenced_before_it_synchronises() -> None:
    assert order("a[i, 0] = 1.0", "tj.cta.arrive(full)", "full.wait(0)", STORE) == "ofawS"


def test_what_one_path_made_dirty_is_fenced_after_the_join() -> None:
    assert order("if n > 3:\n    a[i, 0] = 1.0", "tj.cta_sync()", STORE) == "?ofsS"


def test_what_a_loop_left_dirty_is_fenced_in_its_next_iteration() -> None:
    assert order("for j in range(n):\n    tj.cta_sync()\n    a[i, 0] = 1.0", "tj.cta_sync()", STORE) == "(fsofsS"


def test_cp_async_writes_where_it_is_waited_for() -> None:
    copy = "tj.cta.copy_async(a, A[0:64, 0:64])\ntj.cp_async.commit()\ntj.cp_async.wait(0)"
    assert order(copy, "tj.cta_sync()", STORE) == "(cfsS"
    early = copy.replace("commit()\n", "commit()\ntj.cta_sync()\n")
    assert order(early, "tj.cta_sync()", STORE) == "(fscfsS"


def test_global_memory_has_a_fence_of_its_own() -> None:
    load = "tj.cta.copy_async(a, A[0:64, 0:64], barrier=full)\ntj.cta.arrive(full)"
    assert order("A[i, 0] = 1.0", "tj.cta_sync()", load) == "ogsLa"
    assert order("B[i, 0] = 1.0", "tj.cta_sync()", load) == "osLa"
    assert order("B[i, 0] = 1.0", "tj.cta_sync()", load, overlaps=True) == "ogsLa"


def test_what_is_acquired_from_others_is_fenced_before_the_copy() -> None:
    assert order("x = tj.load_acquire(B[0, 0])", STORE) == "gS"
    # what it comes after may be of any memory
    assert order("x = tj.load_acquire(A[0, 0])", STORE) == "gS"
    assert order("x = A[0, 0]", STORE) == "S"


@pytest.mark.parametrize("release", ['tj.fence("gpu")', "tj.store_release(B[0, 0], 1.0)"])
def test_a_release_is_fenced(release: str) -> None:
    load = "tj.cta.copy_async(a, A[0:64, 0:64], barrier=full)\ntj.cta.arrive(full)"
    assert order("A[i, 0] = 1.0", release, load).startswith("og")
