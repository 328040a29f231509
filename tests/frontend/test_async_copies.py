"""copy_async, its commit and its wait in tile IR."""

from __future__ import annotations

import pytest

import tilejit as tj
from tests.support.programs import array, statements, tile_ir
from tilejit.dtypes import float16, int32
from tilejit.errors import DispatchError, KernelTypeError
from tilejit.ir.nodes import Const, Instruction, Kernel, TileOp, Vector
from tilejit.ir.text.parser import from_text
from tilejit.ir.text.printer import to_text
from tilejit.ir.verify import verify
from tilejit.isa import ASYNC_CALLS
from tilejit.lower import lower
from tilejit.target import target

KERNEL = """def k(A, n):
    s = tj.alloc_shared((32, 32), A.dtype)
    for i in range(n):
        tj.warp.copy_async(s, A[i * 32 : i * 32 + 32, 0:32], fill=0)
        tj.cp_async.commit()
    tj.cp_async.wait({groups})
    tj.warp_sync()
"""


def build(groups: str = "1") -> Kernel:
    return tile_ir(KERNEL.format(groups=groups), array(float16, 2), int32)


def test_commit_and_wait_keep_their_places() -> None:
    found = statements(build().body, Instruction)
    assert found == [Instruction("cp.async.commit"), Instruction("cp.async.wait", (), (Const(1, int32),))]
    assert [op.name for op in statements(build().body, TileOp)] == ["copy_async"]
    assert all(i.span is not None for i in found)


@pytest.mark.parametrize("call", ASYNC_CALLS)
def test_every_wait_and_commit_of_the_table_is_a_call(call: str) -> None:
    row = ASYNC_CALLS[call]
    count = "" if row.leaves is None else "2"
    on = row.only[0] if row.only else "sm_100a"
    (made,) = statements(tile_ir(f"def k():\n    tj.{call}({count})\n", on=on, threads=128).body, Instruction)
    assert made.name == row.name and [x.value for x in made.inputs] == [int(n) for n in count]
    group, _, name = call.partition(".")
    assert repr(getattr(getattr(tj, group), name)) == f"tj.{call}"


def test_a_kernel_with_them_is_valid_and_round_trips() -> None:
    kernel = build()
    assert verify(kernel, "tile") == []
    assert from_text(to_text(kernel)) == kernel


def test_the_number_of_groups_may_be_a_constexpr() -> None:
    kernel = tile_ir("def k(A, stages: tj.constexpr):\n    tj.cp_async.wait(stages - 2)\n", array(float16, 2), 4)
    assert statements(kernel.body, Instruction)[0].inputs == (Const(2, int32),)


def test_instructions_that_touch_memory_are_of_the_lane_level() -> None:
    kernel = build()
    (copy,) = statements(kernel.body, TileOp)
    place = Vector(copy.operands[0].buffer, Const(0, int32), 8)
    touching = Instruction("ldmatrix.x1", (), (place,))
    changed = Kernel(kernel.name, kernel.params, kernel.threads, kernel.target, (*kernel.body, touching))
    assert any("so it is valid only at lane level" in v.message for v in verify(changed, "tile"))


def copied(barrier: str) -> Kernel:
    call = f"tj.warp.copy_async(s, A[0:32, 0:32], barrier={barrier})"
    made = ("s = tj.alloc_shared((32, 32), A.dtype)", "b = tj.alloc_barrier(stages=4)", "ring = tj.alloc_ring(3)", call)
    return tile_ir("def k(A, n):\n" + "".join(f"    {line}\n" for line in made), array(float16, 2), int32)


def test_what_completes_on_a_call_needs_no_barrier() -> None:
    for barrier, name in (("b[n]", "b"), ("ring[n]", "ring.full"), ("ring[n].empty", "ring.empty")):
        with pytest.raises(DispatchError) as error:
            lower(copied(barrier), target("sm_80"))
        assert error.value.declines["ldgsts"] == (f"completes on tj.cp_async.wait; needs no barrier, got {name}",)


def test_a_barrier_is_one_that_the_kernel_has_made() -> None:
    for barrier, reason in (
        ("n", "barrier= must be a barrier or a step of a ring; this is a scalar of int32"),
        ("b", "b is an array of 4 barriers"),
        ("s", "barrier= must be a barrier or a step of a ring; this is a shared region"),
    ):
        with pytest.raises(KernelTypeError, match=reason):
            copied(barrier)


def test_copy_has_no_barrier() -> None:
    text = "def k(A):\n    s = tj.alloc_shared((32, 32), A.dtype)\n    tj.warp.copy(s, A[0:32, 0:32], barrier=1)\n"
    with pytest.raises(KernelTypeError, match="no parameter barrier"):
        tile_ir(text, array(float16, 2))


def test_waiting_is_per_thread_and_allowed_in_any_branch() -> None:
    text = "def k(n):\n    if tj.lane_id() < n:\n        tj.cp_async.commit()\n        tj.cp_async.wait(0)\n"
    assert len(statements(tile_ir(text, int32).body, Instruction)) == 2


def test_a_copy_in_a_branch_that_not_all_threads_take_is_refused() -> None:
    text = """def k(A, n):
    s = tj.alloc_shared((32, 32), A.dtype)
    if tj.lane_id() < n:
        tj.warp.copy_async(s, A[0:32, 0:32])
"""
    with pytest.raises(DispatchError):
        tile_ir(text, array(float16, 2), int32)
