"""Barriers and rings: what calls make of them in tile IR, and what is refused."""

from __future__ import annotations

import pytest

from tests.support.programs import array, statements, tile_ir
from tilejit.dtypes import float32, int32, int64
from tilejit.errors import DispatchError, KernelTypeError, ResourceError
from tilejit.ir import nodes as ir
from tilejit.ir.text.parser import from_text
from tilejit.ir.text.printer import to_text
from tilejit.ir.verify import verify

PREPARED = """    x = tj.alloc_shared((32,), tj.float32)
    b = tj.alloc_barrier(arrivals=2)
    many = tj.alloc_barrier(stages=4)
    ring = tj.alloc_ring(3, 4, consumers=4)
"""


def kernel(*lines: str, threads: int = 128, on: str = "sm_90a") -> ir.Kernel:
    text = "def k(A, n, wide):\n" + PREPARED + "".join(f"    {line}\n" for line in lines)
    return tile_ir(text, array(float32), int32, int64, threads=threads, on=on)


def shown(*lines: str) -> list[str]:
    """The statements that lines become, as text."""
    made = kernel(*lines)
    assert from_text(to_text(made)) == made and verify(made, "tile") == []
    text = to_text(made).splitlines()
    return [line.strip() for line in text if not line.startswith(("kernel", "  param", "  alloc"))]


def test_barriers_are_made_at_the_beginning() -> None:
    made = statements(kernel("if n > 0:", "    c = tj.alloc_barrier(7)").body, ir.Alloc)
    arrivals = {alloc.buffer.name: (alloc.buffer.shape, alloc.arrivals) for alloc in made}
    assert arrivals == {
        "x": ((32,), 0), "b": ((1,), 2), "many": ((4,), 1), "ring.full": ((3,), 4), "ring.empty": ((3,), 4),
        "c": ((1,), 7),
    }
    assert all(alloc.buffer.dtype.bytes == 8 for alloc in made[1:])


def test_arrivals_and_waits_name_a_barrier() -> None:
    assert shown("tj.warp.arrive(b)", "b.wait(n)", "tj.cta.arrive(many[n])", "many[3].wait(0)", "b.expect(16)") == [
        "warp.arrive b[0]", "wait b[0] phase n", "cta.arrive many[n]", "wait many[3] phase 0",
        "thread.expect b[0] bytes 16",
    ]
    assert shown("if b.test(n - 1):", "    A[0] = 1.0")[:2] == [
        "wait b[0] phase n + -1 as is_complete: bool_", "if is_complete",
    ]


def test_a_step_is_a_stage_and_how_often_it_was_used() -> None:
    assert shown("t = ring[n]", "t.wait()", "tj.warp.release(t)", "x[0] = A[t.stage]")[:4] == [
        "let ring.stage: int32 within 0..2 data = int32(uint32(n) % 3)",
        "let ring.use: int32 within 0..1431655765 = int32(uint32(n) // 3)",
        "wait ring.full[ring.stage] phase ring.use",
        "warp.arrive ring.empty[ring.stage]",
    ]
    assert shown("ring[7].acquire()", "tj.warp.commit(ring[7])", "tj.warp.arrive(ring[7].empty)") == [
        "wait ring.empty[1] phase 1", "warp.arrive ring.full[1]", "warp.arrive ring.empty[1]",
    ]
    assert "uint64(wide) % 3" in shown("tj.warp.commit(ring[wide])")[0]


REFUSED = [
    ("tj.alloc_barrier(arrivals=«n»)", "the number of arrivals that complete a phase must be known", ""),
    ("tj.alloc_barrier(arrivals=«0»)", "must be at least 1; got 0", ""),
    ("tj.alloc_ring(«0»)", "the number of stages must be at least 1", ""),
    ("tj.warp.copy(«b», A[0:32])", "must be a buffer or a region; this is a barrier", ""),
    ("tj.warp.copy(x, «b»)", "must be a buffer or a region; this is a barrier", ""),
    ("«x[0] = b»", "this is a barrier", ""),
    ("«many».wait(0)", "many is an array of 4 barriers", "many[i]"),
    ("«b[1]».wait(0)", "b is one barrier", "stages=4"),
    ("«many[1][2]».wait(0)", "many[1] is one barrier", "without an index"),
    ("tj.cta.arrive(«ring»)", "arrive takes a barrier; this is a ring of 3 stages", "commit and release"),
    ("«many[4]».wait(0)", "index 4 is outside many, an array of 4 barriers", "from 0 to 3"),
    ("«ring[-1]».wait()", "a ring has no step -1", "from 0"),
    ("«b.fill»(0)", "a barrier has no attribute fill", "expect, test, wait"),
    ("«ring.full»", "a ring of 3 stages has no attribute full", "ring[i]"),
    ("«ring[n].full.release»()", "a barrier has no attribute release", "a consumer calls ring[i].wait()"),
    ("«ring[n].empty.acquire»()", "a barrier has no attribute acquire", "a producer calls ring[i].acquire()"),
    ("«ring[n].producer».acquire()", "has no attribute producer", "a producer calls ring[n].acquire()"),
    ("«ring.consumer».wait()", "has no attribute consumer", "a consumer calls ring[i].wait()"),
    ("tj.warp.commit(«b»)", "commit takes a step of a ring", "arrive(b)"),
    ("tj.warp.release(«ring»)", "release takes a step of a ring; this is a ring of 3 stages", "ring[i]"),
    ("tj.warp.arrive(«ring[0]»)", "a step has two barriers", "commit(ring[0])"),
    ("tj.warp.arrive(b, «cta=0»)", "arrive with cta= is not available in this version", "this CTA"),
    ("tj.alloc_ring(2, multicast=«3»)", "a cluster has no axis 3", "three axes"),
    ("tj.alloc_ring(2, multicast=«n»)", "the axis must be known at compile time", ""),
    ("b.wait(«1.5»)", "1.5 is not an integer", ""),
]


def test_a_misuse_of_a_barrier_is_refused_at_its_location() -> None:
    for line, reason, hint in REFUSED:
        with pytest.raises(KernelTypeError) as error:
            kernel(line.replace("«", "").replace("»", ""))
        assert reason in error.value.message and hint in (error.value.hint or ""), f"{line}: {error.value}"
        assert error.value.span is not None and error.value.span.column == 4 + line.index("«"), line


def test_a_step_is_not_kept_across_an_assignment_to_its_counter() -> None:
    for lines in (
        ("i = 0", "t = ring[i]", "i += 1", "t.wait()"),
        ("i = 0", "t = ring[i]", "for k in range(n):", "    tj.warp.release(t)", "    i += 1"),
        ("i = 0", "t = ring[i + 1]", "if n > 3:", "    i = 2", "s = t.stage"),
    ):
        with pytest.raises(KernelTypeError, match="i has been reassigned since this step of ring was taken"):
            kernel(*lines)
    kernel("i = 0", "for k in range(n):", "    t = ring[i]", "    t.wait()", "    i += 1")


def test_a_step_of_either_path_is_no_value() -> None:
    with pytest.raises(KernelTypeError, match="t is a step of ring where line"):
        kernel("if n > 3:", "    t = ring[0]", "else:", "    t = ring[1]", "t.wait()")


def test_an_arrival_needs_its_whole_scope_and_one_barrier() -> None:
    with pytest.raises(DispatchError, match="warp.arrive.*needs all threads of its warp"):
        kernel("if tj.lane_id() == 0:", "    tj.warp.arrive(b)")
    with pytest.raises(DispatchError, match="its index in many may differ"):
        kernel("tj.warpgroup.arrive(many[tj.warp_id()])")
    copy = "copy_async(x, tj.assume_in_bounds(A[0:32]), barrier=many[tj.lane_id() % 4])"
    with pytest.raises(DispatchError, match="warp.copy_async reports to one barrier.*its index in many may"):
        kernel(f"tj.warp.{copy}")
    kernel("tj.warp.arrive(many[tj.warp_id()])", "tj.thread.arrive(many[tj.lane_id() % 4])", f"tj.thread.{copy}")
    kernel("if tj.lane_id() == 0:", "    b.wait(n)")


def test_more_than_a_barrier_counts_is_refused() -> None:
    with pytest.raises(ResourceError, match="1,048,576 arrivals in a phase of c; a barrier counts up to 1,048,575"):
        kernel("c = tj.alloc_barrier(1 << 20)")
    with pytest.raises(ResourceError, match="1,048,576 bytes in a phase of b"):
        kernel("b.expect(1 << 20)")
    with pytest.raises(ResourceError, match="-16 bytes in a phase of b; the number of bytes can't be negative"):
        kernel("b.expect(-16)")


def test_named_barriers_are_of_whole_warps_and_seven() -> None:
    made = shown(
        "tj.named_barrier(1, 64).sync()", "tj.named_barrier(7, 128).arrive()", "tj.named_barrier(n, 96).sync()"
    )
    assert made[:2] == ["instruction bar.sync.n <- 1, 64", "instruction bar.arrive.n <- 7, 128"]
    message = "named barrier {0} is out of range; named barriers are 1 to 7"
    assert any(line.startswith("assert ") and message in line for line in made)
    assert not any(line.startswith("assert") for line in shown("tj.named_barrier(1 + tj.warp_id() % 2, 128).sync()"))
    for line in ("tj.named_barrier(0, 64)", "tj.named_barrier(8, 64)", "tj.named_barrier(tj.lane_id() + 8, 64)"):
        with pytest.raises(ResourceError, match="is out of range; named barriers are 1 to 7"):
            kernel(line)
    with pytest.raises(ResourceError, match="named barrier -9 or less is out of range"):
        kernel("tj.named_barrier(tj.lane_id() - 40, 64)")
    for count in (0, 48, 160):
        with pytest.raises(KernelTypeError, match=f"{count} threads can't synchronize at a named barrier of a CTA"):
            kernel(f"tj.named_barrier(1, {count})")
    with pytest.raises(DispatchError, match=r"named_barrier\(...\).sync.*needs all threads of its warp"):
        kernel("if tj.lane_id() < 3:", "    tj.named_barrier(1, 128).sync()")
    with pytest.raises(DispatchError, match="takes one barrier for its whole warp"):
        kernel("tj.named_barrier(1 + tj.lane_id() % 2, 128).sync()")


def test_older_targets_have_no_barriers() -> None:
    with pytest.raises(ResourceError, match="sm_89 has no barriers in shared memory"):
        kernel(on="sm_89")


def step_counts(*lines: str, stages: int = 3, producers: int = 1, consumers: int = 1, threads: int = 384) -> None:
    head = f"    ring = tj.alloc_ring({stages}, {producers}, {consumers})"
    text = "\n".join(["def k(A, n):", head, "    i = 0", *(f"    {line}" for line in lines), ""])
    tile_ir(text, array(float32), int32, threads=threads)


RELEASE = ("for k in range(n):", "    tj.wg.release(ring[i])", "    i += 1")
BY_TWO = ("if tj.warpgroup_id() > 0:", *(f"    {line}" for line in RELEASE))

#: lines, the ring's shape, what is said of it
MISCOUNTED = [
    (BY_TWO, {}, "2 warpgroups release each step of ring, which was allocated with consumers=1: the", "consumers=2"),
    (
        RELEASE, {"consumers": 2}, "3 warpgroups release each step of ring, which was allocated with consumers=2",
        "consumers=3",
    ),
    (
        BY_TWO, {"consumers": 3},
        "2 warpgroups release each step of ring, which was allocated with consumers=3: threads", "",
    ),
    (
        ("if tj.warp_id() == 0:", "    for k in range(n):", "        tj.warp.commit(ring[k])"), {"producers": 2},
        "1 warp commits each step of ring, which was allocated with producers=2: threads that wait", "producers=1",
    ),
    (("if tj.warp_id() == 0 and n > 3:", "    tj.warp.commit(ring[n])"), {"producers": 2}, "1 warp commits", ""),
    (("tj.warp.commit(ring[n])",), {"producers": 2}, "12 warps commit each step", "producers=12"),
    (("if n > 3:", "    tj.warp.commit(ring[7])"), {"producers": 2}, "12 warps commit each step", ""),
    (("tj.warp.commit(ring[n])", "tj.wg.commit(ring[n])"), {"producers": 20}, "15 callers commit each", "producers=15"),
]


@pytest.mark.parametrize(("lines", "shape", "reason", "hint"), MISCOUNTED)
def test_a_step_is_committed_and_released_by_as_many_as_the_ring_was_allocated_for(
    lines: tuple[str, ...], shape: dict[str, int], reason: str, hint: str
) -> None:
    with pytest.raises(KernelTypeError) as error:
        step_counts(*lines, **shape)
    assert reason in error.value.message and hint in (error.value.hint or "")
    assert error.value.span is not None and "ring[" in error.value.span.text


def test_a_step_that_nothing_arrives_at_has_no_count_to_allocate() -> None:
    with pytest.raises(KernelTypeError, match="0 warps commit each step of ring") as error:
        step_counts("if tj.warp_id() == 20:", "    tj.warp.commit(ring[n])", producers=2)
    assert error.value.hint == "let exactly 2 warps commit each step"


COUNTED = [
    (BY_TWO, {"consumers": 2}),
    (RELEASE, {"consumers": 3}),
    # in turn, which only the steps' numbers say
    (("i = tj.warpgroup_id()", "while i < n:", "    tj.wg.release(ring[i])", "    i += 3"), {}),
    (("for k in range(n):", "    tj.wg.release(ring[3 * k + tj.warpgroup_id()])"), {}),
    (("for k in range(n):", "    if k % 3 == tj.warpgroup_id():", "        tj.wg.release(ring[k])"), {}),
    (("if tj.warpgroup_id() > 0:", "    i = 1", "for k in range(n):", "    tj.wg.release(ring[i])", "    i += 3"), {}),
    (("for k in range(n):", "    tj.wg.release(ring[k])"), {"stages": 1}),
    # twice each
    (("t = ring[n]", "for h in range(2):", "    tj.wg.release(t)"), {"consumers": 6}),
    (("tj.wg.release(ring[n])", "tj.wg.release(ring[n])"), {"consumers": 6}),
    # a stage of another step in each role
    (
        ("if tj.warpgroup_id() == 0:", "    tj.wg.release(ring[n])", "elif tj.warpgroup_id() == 1:",
         "    tj.wg.release(ring[n + 1])"), {},
    ),
    (("ring[n].wait()",), {"consumers": 5}),
]


@pytest.mark.parametrize(("lines", "shape"), COUNTED)
def test_what_may_add_up_is_taken(lines: tuple[str, ...], shape: dict[str, int]) -> None:
    step_counts(*lines, **shape)
