"""A local tile is read only where some path has written it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ir.paths import TWO, N, programs, run
from tests.support.profiles import times
from tilejit.dtypes import float32, int32
from tilejit.errors import KernelTypeError
from tilejit.ir import nodes as ir
from tilejit.ir.analyses.initialized import check, doubts
from tilejit.ir.text.parser import from_text
from tilejit.layout import TileLayout

HEAD = """\
kernel k threads=32 target=sm_90a
  param A: global float32[8] strides(1; align 16; extent_align 16) align 16 written
  param n: int32 scalar of n
  alloc r: local float32[8] S[8 : 1] align 16
"""
READ = "thread.copy A[0 +: 8], r[0 +: 8]"
WRITE = "thread.fill r[0 +: 8], 0.0"
UPDATE = "thread.add r[0 +: 8], r[0 +: 8], 1.0"

ACCEPTED = {
    "after a write": f"{WRITE}\n{READ}",
    "an element after its write": "store r[3] <- 1.0\nlet x: float32 = r[3]",
    "after all elements' writes": "\n".join([*(f"store r[{i}] <- 1.0" for i in range(8)), READ]),
    "after writes of both halves": f"thread.fill r[0 +: 4], 0.0\nthread.fill r[4 +: 4], 0.0\n{READ}",
    "an element after a write somewhere": "store r[n] <- 1.0\nlet x: float32 = r[3]",
    "an element somewhere after a write": "store r[3] <- 1.0\nlet x: float32 = r[n]",
    "after a write somewhere": f"store r[n] <- 1.0\n{READ}",
    "a branch may have written": f"if n == 0\n  {WRITE}\n{READ}",
    "a loop may have written": f"for i: int32 in 0 .. n step 1\n  {WRITE}\n{READ}",
    "a branch, after an earlier turn": f"for i: int32 in 0 .. n step 1\n  if i > 0\n    {READ}\n  {WRITE}",
    "after the turn that wrote and went on":
        f"for i: int32 in 0 .. n step 1\n  if i == 0\n    {WRITE}\n    continue\n  {UPDATE}",
    "the other branch wrote in an earlier turn":
        f"for i: int32 in 0 .. n step 1\n  if i == 0\n    {WRITE}\n  else\n    {READ}",
    "an inner loop that may be empty in the first iteration of the outer":
        f"for i: int32 in 0 .. n step 1\n  for j: int32 in 0 .. i step 1\n    {READ}\n  {WRITE}",
    "after a loop that wrote before it was left": f"loop\n  if n == 0\n    break\n  {WRITE}\n{READ}",
}

REFUSED = {
    "nothing before": READ,
    "an update": UPDATE,
    "an element": "let x: float32 = r[0]",
    "written afterwards": f"{READ}\n{WRITE}",
    "in a loop, written afterwards in the same turn": f"for i: int32 in 0 .. n step 1\n  {READ}\n  {WRITE}",
    "in a while loop, written afterwards in the same turn":
        f"loop\n  if n == 0\n    break\n  {READ}\n  {WRITE}",
    "in an inner loop that has an iteration":
        f"for i: int32 in 0 .. n step 1\n  for j: int32 in 0 .. 4 step 1\n    {READ}\n  {WRITE}",
    "in an inner downward loop that has an iteration":
        f"for i: int32 in 0 .. n step 1\n  for j: int32 in 3 .. -1 step -1\n    {READ}\n  {WRITE}",
    "only the other branch has written": f"if n == 0\n  {WRITE}\nelse\n  {READ}",
    "what wrote has returned": f"if n == 0\n  {WRITE}\n  return\n{READ}",
    "what wrote has left the loop": f"loop\n  if n == 0\n    {READ}\n  if n == 1\n    {WRITE}\n    break",
}

PARTLY = {
    "part of an element": (
        "store r[0] <- 1.0\nview h: local float16[16] S[16 : 1] align 16 of r\nlet x: float16 = h[2]", "[1]"
    ),
    "after an element's write": (f"store r[0] <- 1.0\n{READ}", "[1]"),
    "another element": ("store r[0] <- 1.0\nlet x: float32 = r[3]", "[3]"),
    "after a write of half": (f"thread.fill r[0 +: 4], 0.0\n{READ}", "[4]"),
    "half in each branch": (
        f"if n == 0\n  thread.fill r[0 +: 5], 0.0\nelse\n  thread.fill r[2 +: 4], 0.0\n{READ}", "[6]"
    ),
    "an element of the other half": (
        "for i: int32 in 0 .. n step 1\n  thread.fill r[0 +: 4], 0.0\nlet x: float32 = r[5]", "[5]"
    ),
}


def kernel(text: str) -> ir.Kernel:
    return from_text(HEAD + "".join(f"  {line}\n" for line in text.splitlines()))


@pytest.mark.parametrize("text", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_a_read_that_a_write_may_come_before_is_accepted(text: str) -> None:
    check(kernel(text))


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_a_read_that_no_write_comes_before_is_refused(text: str) -> None:
    with pytest.raises(KernelTypeError, match="r is read before anything has been written to it"):
        check(kernel(text))


@pytest.mark.parametrize(("text", "element"), PARTLY.values(), ids=PARTLY.keys())
def test_the_first_element_that_no_write_comes_before_is_named(text: str, element: str) -> None:
    with pytest.raises(KernelTypeError) as caught:
        check(kernel(text))
    assert caught.value.message == f"r{element} is read before anything has been written to it"


OUT = ir.Buffer("A", "global", float32, (8,), ir.Strided((1,), 16), 16)
TILES = [ir.Buffer(name, "local", float32, (8,), TileLayout.row_major((8,)), 4) for name in ("r", "q")]


def whole(buffer: ir.Buffer) -> ir.Region:
    return ir.Region(buffer, (ir.Const(0, int32),), (8,))


READS = {ir.TileOp("copy", "thread", (whole(OUT), whole(tile))): tile.name for tile in TILES}
WRITES = {ir.TileOp("fill", "thread", (whole(tile), ir.Const(0.0, float32))): tile.name for tile in TILES}


def first_refused(body: tuple[ir.Stmt, ...]) -> int | None:
    """The line of the first read that some path comes to, and none that has written the tile."""
    return min((line for tile in TILES for line in refused(body, tile.name)), default=None)


def refused(body: tuple[ir.Stmt, ...], tile: str) -> set[int]:
    """The lines of the reads of one tile that paths come to, and none after a write."""
    reached: dict[bool, set[int]] = {True: set(), False: set()}

    def step(stmt: ir.Stmt, written: bool) -> bool | None:
        if READS.get(stmt) != tile:
            return written or WRITES.get(stmt) == tile
        assert stmt.span is not None
        reached[written].add(stmt.span.line)
        return written or None

    run(body, {False}, step)
    return reached[False] - reached[True]


@given(programs(st.sampled_from([*READS, *WRITES]), stops=(N, TWO)))
@settings(max_examples=times(7))
def test_reads_are_refused_that_no_path_comes_to_after_a_write(body: tuple[ir.Stmt, ...]) -> None:
    kernel = ir.Kernel("k", (), 32, "sm_90a", (*map(ir.Alloc, TILES), *body))
    expected = first_refused(body)
    try:
        check(kernel)
    except KernelTypeError as error:
        assert error.span is not None and error.span.line == expected
    else:
        assert expected is None


@pytest.mark.parametrize(("stop", "is_doubted"), [(32, False), (31, True)])
def test_a_loop_from_the_thread_id_runs_in_every_thread_if_the_stop_allows(stop: int, is_doubted: bool) -> None:
    loop = f"for i: int32 in %thread_id .. {stop} step 32\n  {WRITE}"
    text = "".join(f"  {line}\n" for line in f"{loop}\n{READ}".splitlines())
    found = [doubt for doubts_here in doubts(from_text(HEAD + text)) for doubt in doubts_here]
    assert bool(found) == is_doubted
