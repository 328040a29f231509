"""Collective operations are accepted exactly where all threads of their scope execute them."""

from __future__ import annotations

import dataclasses
import re

import pytest

from tilejit.errors import DispatchError
from tilejit.ir import nodes as ir
from tilejit.ir.analyses.collectives import check
from tilejit.ir.text.parser import from_text
from tilejit.ir.verify import verify
from tilejit.source import Span

HEAD = """\
  param A: global float32[A.shape.0, 8] strides(8, 1; align 16; extent_align 4) align 16 written
  param I: global int32[64] strides(1; align 4; extent_align 4) align 4
  param A.shape.0: int64 extent 0 of A
  param n: int32 scalar of n
  alloc s: shared float32[32, 8] S[(32, 8) : (8, 1)] align 128
  alloc r: local int32[8] S[8 : 1] align 4
"""
COPY = "warp.copy s[0 +: 32, 0 +: 8], A[0 +: 32, 0 +: 8]"
WG_COPY = COPY.replace("warp.", "warpgroup.")
CTA_COPY = COPY.replace("warp.", "cta.")
THREAD_COPY = COPY.replace("warp.", "thread.")


def kernel(text: str, threads: int = 256) -> ir.Kernel:
    lines = [line for line in text.splitlines() if line.strip()]
    margin = min(len(line) - len(line.lstrip()) for line in lines)
    body = "\n".join("  " + line[margin:] for line in lines)
    made = from_text(f"kernel k threads={threads} target=sm_90a\n{HEAD}{body}\n")
    assert verify(made, "tile") == []
    return made


ACCEPTED = {
    "at the top": f"{COPY}\n{WG_COPY}\n{CTA_COPY}\ncta.sync",
    "a branch on a scalar argument": f"if n < 3\n  {CTA_COPY}\nelse\n  cta.sync",
    "a branch on the cta": f"if %cta_id.0 == 0\n  {CTA_COPY}",
    "one warp": f"if %warp_id == 0\n  {COPY}\n  warp.sync",
    "all other warps": f"if %warp_id == 0\n  pass\nelse\n  {COPY}",
    "one warpgroup": f"if %warpgroup_id == 0\n  {WG_COPY}\n  {COPY}\nelse\n  {WG_COPY}\n  warpgroup.sync",
    "four warps that are a warpgroup": f"if %warp_id < 4\n  {WG_COPY}",
    "the first 64 threads are two warps": f"if %thread_id < 64\n  {COPY}",
    "the thread's number by 32 is its warp": f"let w: int32 = %thread_id // 32\nif w % 2 == 0\n  {COPY}",
    "a warp and an argument": f"if %warp_id == 0 and n > 4\n  {COPY}",
    "a thread operation anywhere": f"if %lane_id % 2 == 0\n  {THREAD_COPY}",
    "a warp's role before a warpgroup's": f"if %warp_id == 0\n  {COPY}\nelse\n  if %warpgroup_id == 1\n    {WG_COPY}",
    "a warp that returns before a warpgroup's role":
        f"if %warp_id == 0\n  {COPY}\n  return\nif %warpgroup_id == 1\n  {WG_COPY}",
    "a warp that may return before a warpgroup's role":
        f"let e: int32 = I[%lane_id]\nif %warp_id == 0\n  if e < 3\n    return\nif %warpgroup_id == 1\n  {WG_COPY}",
    "a warp and an argument, before a warpgroup's role":
        f"if %warp_id == 0 and n > 4\n  {COPY}\nelse\n  if %warpgroup_id == 1\n    {WG_COPY}",
    "a lane and an element, before a warpgroup's role":
        f"let e: int32 = I[0]\nif %thread_id == 3 and e > n\n  {THREAD_COPY}\n"
        f"else\n  if %warpgroup_id == 1\n    {WG_COPY}",
    "roles in a loop that a warp leaves early": f"""
        for i: int32 in 0 .. n step 1
          if %warp_id == 0
            continue
          if %warpgroup_id == 1
            {WG_COPY}
        cta.sync
    """,
    "all but a warpgroup's other warps": f"""
        if %warp_id == 0
          pass
        else
          if %warp_id < 4
            {COPY}
          else
            {WG_COPY}
    """,
    "after a divergent branch": f"if %lane_id == 0\n  pass\n{CTA_COPY}",
    "a loop to an argument": f"for i: int32 in 0 .. n step 1\n  {CTA_COPY}",
    "a loop over the warps' shares": f"for i: int32 in %warp_id .. n step 8\n  {COPY}",
    "after a loop over the warps' shares": f"for i: int32 in %warp_id .. n step 8\n  {COPY}\ncta.sync",
    "after a divergent loop": f"for i: int32 in 0 .. %lane_id step 1\n  pass\n{CTA_COPY}",
    "a while loop on a uniform variable": """
        var i: int32 = 0
        loop
          if i >= n
            break
          COPY
          set i = i + 1
        COPY
        """.replace("COPY", CTA_COPY),
    "a load from a uniform address": f"let x: int32 = I[%cta_id.0]\nif x == 0\n  {CTA_COPY}",
    "a load from the warp's address": f"let x: int32 = I[int64(%warp_id)]\nif x == 0\n  {COPY}",
    "a uniform continue": f"for i: int32 in 0 .. n step 1\n  if i == 3\n    continue\n  {CTA_COPY}",
    "a uniform return": f"if n == 0\n  return\n{CTA_COPY}",
    "after a divergent continue's loop": f"for i: int32 in 0 .. n step 1\n  if %lane_id == i\n    continue\n{CTA_COPY}",
    "the head of a loop with a divergent continue":
        f"for i: int32 in 0 .. n step 1\n  {CTA_COPY}\n  if %lane_id == i\n    continue\n  {THREAD_COPY}",
    "a variable assigned the same value in both branches":
        f"var x: int32 = 0\nif n == 0\n  set x = 1\nelse\n  set x = 2\nif x == 1\n  {CTA_COPY}",
    "a variable that is uniform again": f"var x: int32 = %lane_id\nset x = 0\nif x == 0\n  {CTA_COPY}",
    "a vote of the warp": f"instruction vote.any <- %lane_id < n as x: bool_\nif x\n  {COPY}",
    "what is said to be the warp's": f"let x: int32 = r[0]\nlet w: int32 uniform warp = x\nif w == 0\n  {COPY}",
    "what is said to be the cta's": f"let x: int32 = r[0]\nlet w: int32 uniform cta = x\nif w == 0\n  {CTA_COPY}",
    "a region that depends on the warp": "warp.copy s[0 +: 1, 0 +: 8], A[%thread_id // 32 +: 1, 0 +: 8]".replace(
        "%thread_id // 32", "int64(%thread_id // 32)"),
}

REFUSED = {
    "half of the lanes": f"if %lane_id % 2 == 0\n  {COPY}",
    "the else of it": f"if %lane_id % 2 == 0\n  pass\nelse\n  {COPY}",
    "one warp for a warpgroup": f"if %warp_id == 0\n  {WG_COPY}",
    "one warpgroup for a cta": f"if %warpgroup_id == 0\n  {CTA_COPY}",
    "a barrier in one warp": "if %warp_id == 0\n  cta.sync",
    "48 threads are a warp and a half": f"if %thread_id < 48\n  {COPY}",
    "a load from the thread's address": f"let x: int32 = I[int64(%lane_id)]\nif x == 0\n  {COPY}",
    "a vote of one warp for the cta": f"instruction vote.any <- %lane_id < n as x: bool_\nif x\n  {CTA_COPY}",
    "a vote in half a warp": "if %lane_id < 16\n  instruction vote.any <- %lane_id < n as x: bool_",
    "a value of another lane": f"instruction shfl.idx <- n, %lane_id as x: int32\nif x == 0\n  {COPY}",
    "what is the warp's for the cta": f"let x: int32 = r[0]\nlet w: int32 uniform warp = x\nif w == 0\n  {CTA_COPY}",
    "what is said to be uniform of half a warp": "if %lane_id < 16\n  let w: int32 uniform warp = n",
    "what was there before": f"atomic add A[0, 0] @ relaxed.gpu <- 1.0 as x: float32\nif x == 0.0\n  {COPY}",
    "registers differ": f"let x: int32 = r[0]\nif x == 0\n  {COPY}",
    "in a divergent loop": f"for i: int32 in 0 .. %lane_id step 1\n  {COPY}",
    "a loop that starts at the thread": f"for i: int32 in %thread_id .. n step 256\n  {COPY}",
    "after a divergent break in the loop": f"loop\n  if %lane_id == 3\n    break\n  {COPY}",
    "before a divergent break in the loop": f"loop\n  {COPY}\n  if %lane_id == 3\n    break",
    "after a divergent continue": f"for i: int32 in 0 .. n step 1\n  if %lane_id == i\n    continue\n  {COPY}",
    "after a divergent return": f"if %lane_id == 3\n  return\n{COPY}",
    "after a divergent return in a loop": f"for i: int32 in 0 .. n step 1\n  if %lane_id == i\n    return\n{COPY}",
    "the head of a loop with a divergent return":
        f"for i: int32 in 0 .. n step 1\n  {COPY}\n  if %lane_id == i\n    return",
    "a variable assigned in a divergent branch":
        f"var x: int32 = 0\nif %lane_id == 0\n  set x = 1\nif x == 1\n  {COPY}",
    "a variable that becomes divergent in the loop":
        f"var x: int32 = 0\nfor i: int32 in 0 .. n step 1\n  if x == 1\n    {COPY}\n  set x = %lane_id",
    "through two variables and two rounds":
        f"var x: int32 = 0\nvar y: int32 = 0\nloop\n  if x == 1\n    {COPY}\n  set x = y\n  set y = %lane_id",
    "a variable that is divergent where a uniform continue takes it to the head":
        f"var x: int32 = 0\nfor i: int32 in 0 .. n step 1\n  if x == 1\n    {COPY}\n"
        "  if i == 3\n    set x = %lane_id\n    continue\n  set x = 0",
    "a count that ended at different times":
        f"var i: int32 = 0\nloop\n  if i >= %lane_id\n    break\n  set i = i + 1\nif i == 3\n  {COPY}",
    "a nested branch": f"if n == 0\n  if %lane_id < n\n    if n < 3\n      {COPY}",
    "a region that depends on the lane": "warp.copy s[0 +: 1, 0 +: 8], A[int64(%lane_id) +: 1, 0 +: 8]",
}


@pytest.mark.parametrize("text", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_a_collective_is_accepted_where_all_threads_execute_it(text: str) -> None:
    check(kernel(text))


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_where_some_threads_stay_away_it_may_not(text: str) -> None:
    with pytest.raises(DispatchError, match=r"needs all threads|takes one region"):
        check(kernel(text))


def test_the_branch_is_named() -> None:
    branch = Span("k.py", 7, 4, 7, 20, "    if tj.lane_id() == 0:")
    inside = Span("k.py", 8, 8, 8, 20, "        tj.warp.copy(s, A)")
    made = kernel(f"if %lane_id == 0\n  {COPY}")
    test = made.body[-1]
    assert isinstance(test, ir.If)
    copy = dataclasses.replace(test.then[0], span=inside)
    made = dataclasses.replace(made, body=(*made.body[:-1], dataclasses.replace(test, then=(copy,), span=branch)))
    with pytest.raises(DispatchError) as caught:
        check(made)
    assert caught.value.span is branch
    assert "warp.copy at k.py:8 needs all threads of its warp" in str(caught.value)
    assert "k.py:7:5" in str(caught.value) and "help:" in str(caught.value)


def test_the_cause_of_a_departure_is_named() -> None:
    with pytest.raises(DispatchError, match=re.escape("`return` in the `if`")):
        check(kernel(f"if %lane_id == 0\n  return\n{COPY}"))


ONE_WARP = (32, f"if %warp_id == 0\n  {CTA_COPY}")
ONE_WARPGROUP = (128, "if %warpgroup_id == 0\n  cta.sync")
WITHOUT_WARP_1 = ("%warp_id == 0", "%warp_id < 1", "%thread_id < 32", "%warp_id == 0 and n > 3", "not %thread_id >= 32")


@pytest.mark.parametrize(("threads", "text"), [ONE_WARP, ONE_WARPGROUP])
def test_a_cta_of_one_warp_or_warpgroup_agrees_as_a_whole(threads: int, text: str) -> None:
    check(kernel(text, threads))


@pytest.mark.parametrize("guard", WITHOUT_WARP_1)
def test_a_partial_warp_must_stay_away_from_warp_operations(guard: str) -> None:
    with pytest.raises(DispatchError, match="last warp of a CTA of 48 threads has 16"):
        check(kernel(COPY, 48))
    check(kernel(f"if {guard}\n  {COPY}", 48))
    with pytest.raises(DispatchError):
        check(kernel(f"if {guard}\n  pass\nelse\n  {COPY}", 48))


def test_a_partial_warp_that_returned_is_away() -> None:
    check(kernel(f"if %warp_id >= 1\n  return\n{COPY}", 48))
    with pytest.raises(DispatchError):
        check(kernel(f"if %warp_id >= 1\n  pass\n{COPY}", 48))


def test_a_warpgroup_operation_needs_whole_warpgroups() -> None:
    with pytest.raises(DispatchError, match="whole warpgroups of 128 threads"):
        check(kernel(WG_COPY, 192))
    check(kernel(f"if %warpgroup_id == 0\n  {WG_COPY}", 192))
    check(kernel(f"{COPY}\n{CTA_COPY}", 192))
