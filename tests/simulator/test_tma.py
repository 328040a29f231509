"""Copies by TMA against longhand oracles: boxes in every mode over every edge, runs of bytes, groups and waits."""

import itertools
from contextlib import nullcontext

import numpy as np
import pytest

from tests.simulator import tma_programs as programs
from tests.simulator.small_kernels import aligned, pointer
from tilejit.errors import (
    AsyncHazardError,
    DeadlockError,
    LaunchError,
    MisalignedError,
    OutOfBoundsError,
    SimulationError,
    UninitializedReadError,
    UnsupportedInstructionError,
)
from tilejit.simulator import run
from tilejit.simulator.checks.clocks import Clocks
from tilejit.simulator.machine.tensor_map import SWIZZLES, MapShape
from tilejit.simulator.run_grid import CHUNK_THREADS

DELIVERIES = ("late", "early", *(f"random:{seed}" for seed in range(5)))
MODES = list(SWIZZLES)


def some(shape, dtype, seed=0):
    """Random bits of a type, none of them zero."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return aligned(np.random.default_rng(seed).integers(1, 256, count, dtype=np.uint8).view(dtype).reshape(shape))


def box_for(swizzle, size):
    return ((programs.WIDTH[swizzle] or 32) // size, 4, 3)


@pytest.mark.parametrize("swizzle", MODES)
@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_boxes_arrive_where_the_isa_says_over_every_edge(swizzle, size):
    array = some((5, 7, 256 // size), f"u{size}")
    box = box_for(swizzle, size)
    for at in [(0, 0, 0), (16 // size, 2, 1), (-32 // size, -2, -1), (240 // size, 5, 4), (-box[0], 0, 0), (0, -9, 0)]:
        got = programs.load(array, box, swizzle, at)
        for address, value in programs.box_bytes(array, box, swizzle, at).items():
            assert got[address] == value, (at, address)


@pytest.mark.parametrize("swizzle", MODES)
@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_stores_write_what_lies_inside_and_nothing_else(swizzle, size):
    box = box_for(swizzle, size)
    memory = some((programs.SHARED,), np.uint8, 1)
    for at in [(0, 0, 0), (16 // size, 2, 1), (240 // size, 5, 4), (0, 0, 9)]:
        array = aligned(np.zeros((5, 7, 256 // size), f"u{size}"))
        programs.store(array, box, swizzle, at, memory)
        # where each element of the tensor would lie in the box, found by a load of the elements' own numbers
        expected = np.zeros_like(array)
        for inside in itertools.product(*(range(n) for n in box[::-1])):
            where = tuple(c + i for c, i in zip(at[::-1], inside, strict=True))
            if all(0 <= w < n for w, n in zip(where, array.shape, strict=True)):
                row = inside[0] * box[1] + inside[1]
                address = row * (programs.WIDTH[swizzle] or box[0] * size) + inside[2] * size
                address ^= (address >> 7 & ((1 << programs.BITS[swizzle]) - 1)) << 4
                expected[where] = memory[address : address + size].view(f"u{size}")[0]
        assert (array == expected).all(), at


def test_boxes_begin_at_chunks_and_those_that_are_stored_not_in_front():
    array, memory = aligned(np.zeros((5, 7, 64), np.float32)), some((programs.SHARED,), np.uint8)
    with pytest.raises(MisalignedError, match="begins at element 1 of the tensor's rows, 4 bytes from their start"):
        programs.load(array, (8, 4, 3), "none", (1, 0, 0))
    with pytest.raises(MisalignedError, match="begins at element 2 of the tensor's rows"):
        programs.store(array, (8, 4, 3), "none", (2, 0, 0), memory)
    for axis in range(3):
        at = tuple(-4 * (d == axis) for d in range(3))
        programs.load(array, (8, 4, 3), "none", at)
        with pytest.raises(OutOfBoundsError, match=f"begins at -4 along dimension {axis}"):
            programs.store(array, (8, 4, 3), "none", at, memory)


@pytest.mark.parametrize("rank", [2, 3, 4, 5])
def test_every_rank(rank):
    array = some((3, 2, 3, 4, 32)[5 - rank :], np.uint16, rank)
    box, at = (16, 3, 2, 2, 2)[:rank], (8, 2, 1, 1, 2)[:rank]
    got = programs.load(array, box, "32B", at)
    assert all(got[a] == value for a, value in programs.box_bytes(array, box, "32B", at).items())


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_a_load_signals_its_barrier_whenever_it_lands(delivery):
    array = some((16, 64), np.float16)
    got = programs.load(array, (64, 8), "128B", (0, 4), checks=False, delivery=delivery)
    assert all(got[a] == v for a, v in programs.box_bytes(array, (64, 8), "128B", (0, 4)).items())


def test_a_byte_count_that_is_off_is_a_deadlock_that_says_what_is_missing():
    array = some((16, 64), np.float16)
    text = programs.load_text((64, 8), (0, 0), 2).replace("[%r3], 1024", "[%r3], 1040")
    with pytest.raises(DeadlockError, match="16 bytes missing; no operation in flight signals it"):
        programs.load(array, (64, 8), "128B", (0, 0), text)


# -- maps

GOOD = MapShape((64, 16), (128,), (64, 8), 2, "128B")


@pytest.mark.parametrize(("changes", "address", "words"), [
    ({}, 8, "multiple of 16"), ({"strides": (136,)}, 0, "multiples of 16"), ({"strides": (1 << 40,)}, 0, "2^40"),
    ({"box": (32, 257)}, 0, "257 elements"), ({"box": (0, 8)}, 0, "0 elements"), ({"box": (4, 8)}, 0, "8 bytes"),
    ({"box": (72, 8)}, 0, "144 bytes"), ({"dims": (0, 16)}, 0, "0 elements"),
    ({"dims": (64, (1 << 32) + 1)}, 0, "2^32"), ({"dims": (64,), "strides": (), "box": (64,)}, 0, "its rank is 1"),
    ({"dims": (8,) * 6, "strides": (16,) * 5, "box": (8,) * 6}, 0, "its rank is 6"),
    ({"element_bytes": 3}, 0, "3 bytes"),
    ({"dims": (64, 16, 8), "strides": (128, 2048), "box": (64, 256, 8)}, 0, "its box has 262,144 bytes"),
    ({"dims": (64, 16, 8), "strides": (128, 2048), "box": (40, 255, 12)}, 0, "its box has 244,800 bytes"),
], ids=str)
def test_maps_that_the_driver_refuses_are_refused(changes, address, words):
    shape = MapShape(**{**{x: getattr(GOOD, x) for x in GOOD.__slots__}, **changes})
    assert words in (shape.refusal(address) or "")


@pytest.mark.parametrize("changes", [
    {}, {"strides": (0,)}, {"strides": (16,)}, {"box": (64, 256)}, {"box": (8, 8)}, {"dims": (64, 1 << 32)},
    {"dims": (64, 16, 8), "strides": (128, 2048), "box": (64, 256, 7)},
    {"dims": (64, 16, 8), "strides": (128, 2048), "box": (48, 256, 9)},
], ids=str)
def test_maps_that_the_driver_accepts_are_accepted(changes):
    assert MapShape(**{**{x: getattr(GOOD, x) for x in GOOD.__slots__}, **changes}).refusal(16) is None


def test_a_launch_with_a_map_that_none_can_be_made_of_names_the_array():
    array = some((16, 64), np.float16)
    with pytest.raises(LaunchError, match="cannot create a tensor map of t: its box"):
        programs.load(array, (64, 300), "128B", (0, 0))


def test_a_maps_bytes_are_opaque():
    array = some((16, 64), np.float16)
    text = programs.load_text((64, 8), (0, 0), 2)
    for read in ("ld.b32 %r20, [%x2+4];", "ld.param.b32 %r20, [map+8];"):
        with pytest.raises(SimulationError, match="tensor map of t, which only TMA copies may use"):
            edited = text.replace("prefetch.tensormap", f"{read} prefetch.tensormap")
            programs.load(array, (64, 8), "128B", (0, 0), edited)


def test_what_is_no_map_is_reported():
    array = some((16, 64), np.float16)
    text = programs.load_text((64, 8), (0, 0), 2).replace("prefetch.tensormap [%x2];", "add.u64 %x2, %x2, 64;")
    with pytest.raises(SimulationError, match="as the address of a tensor map, but no map is there"):
        programs.load(array, (64, 8), "128B", (0, 0), text)


# -- places


def test_boxes_must_begin_at_128_bytes_and_lie_inside_shared_memory():
    array = some((16, 64), np.float16)
    text = programs.load_text((64, 8), (0, 0), 2)
    with pytest.raises(MisalignedError, match="multiple of 128"):
        programs.load(array, (64, 8), "128B", (0, 0), text.replace("bytes [%r2]", "bytes [%r2+16]"))
    with pytest.raises(OutOfBoundsError, match="out of bounds"):
        programs.load(array, (64, 8), "128B", (0, 0), text.replace("bytes [%r2]", f"bytes [%r2+{programs.SHARED}]"))


def test_a_tensor_may_not_reach_past_its_array():
    array = some((16, 64), np.float16)
    text = programs.load_text((64, 8), (0, 12), 2)
    args = [programs.tensor_map(array, (64, 8), "128B", dims=(64, 18)), pointer(np.zeros(1 << 15, np.uint8))]
    with pytest.raises(OutOfBoundsError, match="reads 2 bytes out of bounds"):
        run(text, "k", (1,), (32,), args)


# -- runs of bytes

BULK = """
mov.u32 %r1, %tid.x; mov.u32 %r2, sm; add.u32 %r3, %r2, 1024; setp.ne.u32 %p1, %r1, 0; ld.param.u64 %x3, [out];
@%p1 bra READY; mbarrier.init.shared::cta.b64 [%r3], 1; fence.mbarrier_init.release.cluster; READY: bar.sync 0;
@%p1 bra WAIT; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 256;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%x3+32], 256, [%r3];
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra WAIT;
@%p1 bra DONE; cp.async.bulk.global.shared::cta.bulk_group [%x3+512], [%r2+16], 64;
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
DONE:
"""


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_runs_of_bytes_go_to_shared_memory_and_back(delivery):
    memory = some((1024,), np.uint8)
    before = memory.copy()
    run(programs.kernel(BULK).replace(".param .align 64 .b8 map[128], ", ""), "k", (1,), (32,), [pointer(memory)],
        delivery=delivery)
    before[512:576] = before[48:112]
    assert (memory == before).all()


@pytest.mark.parametrize(("old", "new"), [
    ("], 64;", "], 72;"), ("[%r2+16], 64", "[%r2+8], 64"), ("[%x3+32]", "[%x3+40]"),
])
def test_runs_move_whole_aligned_chunks(old, new):
    text = programs.kernel(BULK).replace(".param .align 64 .b8 map[128], ", "").replace(old, new)
    with pytest.raises(MisalignedError):
        run(text, "k", (1,), (32,), [pointer(some((1024,), np.uint8))])


# -- groups

def stores(text, **options):
    array = aligned(np.zeros((16, 64), np.float16))
    programs.store(array, (64, 8), "128B", (0, 0), some((programs.SHARED,), np.uint8), text, **options)
    return array


@pytest.mark.parametrize("checks", [True, False])
def test_a_thread_may_not_exit_before_its_store_has_been_read(checks):
    text = programs.store_text((64, 8), (0, 0), 2)
    assert stores(text).any()
    for new in ("", "cp.async.bulk.wait_group.read 1;"):
        with pytest.raises(AsyncHazardError, match="exits before its TMA store was waited for"):
            stores(text.replace("cp.async.bulk.wait_group.read 0;", new), checks=checks)
    with pytest.raises(AsyncHazardError, match="exits before its TMA store was waited for"):
        stores(text.replace("cp.async.bulk.commit_group;", ""), checks=checks)


def test_only_the_thread_that_stored_can_wait():
    text = programs.store_text((64, 8), (0, 0), 2)
    elsewhere = text.replace("cp.async.bulk.wait_group.read 0;", "").replace(
        "DONE:", "DONE: @!%p1 bra OUT; cp.async.bulk.wait_group.read 0; OUT:")
    with pytest.raises(AsyncHazardError, match="exits before its TMA store"):
        stores(elsewhere)


@pytest.mark.parametrize(("old", "new"), [
    ("tensor.2d", "tensor.6d"), ("tensor.2d", "tensor.3d"), (".tile.mbarrier", ".im2col.mbarrier"),
    ("::bytes [", "::bytes.multicast::cluster ["), ("[%x2, {%r40, %r41}]", "[%x2]"),
])
def test_forms_that_are_not_supported_are_refused(old, new):
    text = programs.load_text((64, 8), (0, 0), 2)
    assert old in text
    with pytest.raises(UnsupportedInstructionError, match="PTX line"):
        programs.load(some((16, 64), np.float16), (64, 8), "128B", (0, 0), text.replace(old, new))


WRITE = "mul.wide.u32 %x5, %r1, 4; add.u64 %x5, %x5, %x3; st.global.b32 [%x5], %r1;\n"
KEEP = "ld.shared.b32 %r6, [%r2+4]; setp.eq.u32 %p4, %r1, 0; @%p4 st.global.b32 [%x3+1024], %r6;\n"


def written_then_loaded(fence):
    """A row that the kernel itself has written goes through shared memory, and so does an element past its end."""
    array = aligned(np.zeros((16, 64), np.float16))
    body = programs.filled(programs.START + WRITE + fence + "bar.sync 0;\n" + programs.LOAD + KEEP, (64, 8), (0, 0), 2)
    run(programs.kernel(body), "k", (1,), (32,), [programs.tensor_map(array, (64, 8), "128B"), pointer(array, "t")])
    return array.view(np.uint32).reshape(-1)[256]


def test_global_memory_needs_a_proxy_fence_of_its_own():
    for fence in ("fence.proxy.async.global;", "fence.proxy.async;"):
        assert written_then_loaded(fence) == 1
    for fence in ("", "fence.proxy.async.shared::cta;"):
        with pytest.raises(AsyncHazardError, match="(?s)TMA load that reads t.*wrote it, with no fence.proxy.async"):
            written_then_loaded(fence)


REUSED = """
mov.u32 %r1, %tid.x; mov.u32 %r2, sm; add.u32 %r3, %r2, 8192; setp.ne.u32 %p1, %r1, 0; ld.param.u64 %x3, [out];
@%p1 bra READY; mbarrier.init.shared.b64 [%r3], 1; mbarrier.init.shared.b64 [%r3+8], 64; READY: bar.sync 0;
mad.lo.u32 %r5, %r1, 4, %r2; mov.u32 %r6, 0; mov.u32 %r7, 0;
AGAIN: @%p1 bra WAIT;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 256;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%x3], 256, [%r3];
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], %r7; @!%p2 bra WAIT;
{access}
add.u32 %r7, %r7, 1; setp.lt.u32 %p4, %r7, 2; @%p4 bra AGAIN;
"""
RELEASED = """mbarrier.arrive.shared.b64 _, [%r3+8];
FREE: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3+8], %r7; @!%p2 bra FREE;"""
READ, WROTE = "ld.shared.u32 %r6, [%r5];", "st.shared.u32 [%r5], %r6;"


@pytest.mark.parametrize(("access", "levels"), [
    (READ + "bar.sync 0;", {"warning"}), (READ + "barrier.sync 3, 64;", {"warning"}),
    (READ + "fence.proxy.async; bar.sync 0;", set()), (READ + RELEASED, {"error"}),
    (WROTE + "bar.sync 0;", {"error"}), (WROTE + READ + "bar.sync 0;", {"error", "warning"}),
    ("bar.sync 0; setp.lt.u32 %p5, %r1, 32; @%p5 bra MINE; " + READ + RELEASED.replace("FREE", "F2") +
     " bra MERGED; MINE: " + RELEASED + " MERGED:", {"error"}),
])
def test_a_stage_read_before_a_barrier_of_the_cta_may_be_copied_to_as_nvidia_does(access, levels):
    text = programs.kernel(REUSED.format(access=access))
    args = [programs.tensor_map(some((16, 64), np.float16), (64, 8), "128B"), pointer(np.zeros(256, np.uint8))]
    report = run(text, "k", (1,), (64,), args, on_finding="collect")
    assert {x.level for x in report.findings} == levels
    assert all("with no fence.proxy.async between the two" in x.message for x in report.findings)


@pytest.mark.parametrize("checks", [True, False])
def test_a_load_without_a_wait_is_in_flight_at_the_exit(checks):
    """Without the checks, too, where it is late; one that has landed by then is known to them alone."""
    text = programs.load_text((64, 8), (0, 0), 2)
    alone = text[: text.index("WAIT:")] + "WAIT: ret;\n}\n"
    args = [programs.tensor_map(some((16, 64), np.float16), (64, 8), "128B"), pointer(np.zeros(256, np.uint8))]
    for delivery in DELIVERIES if checks else ("late",):
        with pytest.raises(AsyncHazardError, match="exits while a TMA load to its shared memory may be in flight"):
            run(alone, "k", (1,), (32,), args, delivery=delivery, checks=checks)


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_a_load_is_in_flight_at_the_exit_of_its_cta_though_another_goes_on(delivery):
    """The second CTA waits for its load; the first one's may land meanwhile."""
    text = programs.load_text((64, 8), (0, 0), 2)
    first = "WAIT: mov.u32 %r9, %ctaid.x; setp.eq.u32 %p5, %r9, 0; @%p5 ret; AGAIN:"
    alone = text[: text.index("COPY:")].replace("WAIT:", first).replace("bra WAIT;", "bra AGAIN;")
    alone = alone.replace("@%p1 bra AGAIN;", "@%p1 bra WAIT;", 1) + "ret;\n}\n"
    args = [programs.tensor_map(some((16, 64), np.float16), (64, 8), "128B"), pointer(np.zeros(256, np.uint8))]
    for schedule in range(6):
        with pytest.raises(AsyncHazardError, match=r"exits while a TMA load .* of CTA \(0, 0, 0\)"):
            run(alone, "k", (2,), (32,), args, schedule=schedule, delivery=delivery)


EACH_STORES = """
mov.u32 %r1, %tid.x; mov.u32 %r2, sm; mov.u32 %r5, %ctaid.x; mad.lo.u32 %r3, %r1, 16, %r2; ld.param.u64 %x3, [out];
st.shared.v4.b32 [%r3], {%r5, %r5, %r5, %r5}; fence.proxy.async.shared::cta;
mad.lo.u32 %r4, %r5, 32, %r1; mad.wide.u32 %x3, %r4, 16, %x3;
cp.async.bulk.global.shared::cta.bulk_group [%x3], [%r3], 16; cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0;
"""


def test_what_is_kept_of_stores_does_not_grow_with_the_grid(monkeypatch):
    """A thread's stores have the same columns in all CTAs: each one costs time wherever threads synchronise."""
    widths, agent = [], Clocks.agent

    def watched(self, name):
        number = agent(self, name)
        widths.append(len(self.agents))
        return number

    monkeypatch.setattr(Clocks, "agent", watched)
    for grid in (1, 5):
        widths.clear()
        out = aligned(np.zeros((grid, 32, 4), np.uint32))
        args = [programs.tensor_map(some((16, 64), np.float16), (64, 8), "128B"), pointer(out)]
        run(programs.kernel(EACH_STORES), "k", (grid,), (32,), args)
        assert (out == np.arange(grid)[:, None, None]).all()
        assert max(widths) == 2 * 32


def test_stores_land_without_a_wait():
    array = aligned(np.zeros((16, 64), np.float16))
    text = programs.store_text((64, 8), (0, 0), 2).replace("cp.async.bulk.wait_group.read 0;", "")
    memory = some((programs.SHARED,), np.uint8)
    programs.store(array, (64, 8), "128B", (0, 0), memory, text, on_finding="collect")
    assert array[:8].all()


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_cells_of_a_store_that_lie_outside_the_tensor_may_be_undefined(delivery):
    # the first four rows of a box of eight
    half = "mad.lo.u32 %r5, %r1, 16, %r2; st.shared.v4.b32 [%r5], {{%r2, %r2, %r2, %r2}};\n"
    fill = half + "fence.proxy.async.shared::cta; bar.sync 0;\n"
    for row, defined in ((12, True), (0, False)):
        text = programs.kernel(programs.filled(programs.START + fill + programs.STORE, (64, 8), (0, row), 2))
        array = aligned(np.zeros((16, 64), np.float16))
        report = None if defined else pytest.raises(UninitializedReadError, match="nothing has written")
        with report or nullcontext():
            programs.store(array, (64, 8), "128B", (0, row), np.zeros(16, np.uint8), text, delivery=delivery)
        assert array[12:].any() == defined


RUNS = """
mov.u32 %r1, %tid.x; mov.u32 %r2, sm; mov.u32 %r5, %ctaid.x; mov.u32 %r20, 1; ld.param.u64 %x3, [out];
setp.ne.u32 %p1, %r1, 0; @!%p1 st.shared.u32 [%r2+8192], %r5;
mad.lo.u32 %r6, %r1, 4, %r2; st.shared.u32 [%r6], %r1;
"""
ROW = "cp.async.bulk.global.shared::cta.bulk_group [%x3], [%r2], 256; cp.async.bulk.commit_group;\n"
WAITED = "cp.async.bulk.wait_group 0; // before\n"


def ran(body, grid, block=64, elements=256, **options):
    """The output of a kernel that stores runs of bytes."""
    out = aligned(np.zeros(elements, np.uint32))
    args = [programs.tensor_map(some((16, 64), np.float16), (64, 8), "128B"), pointer(out, "out")]
    run(programs.kernel(RUNS + body), "k", (grid,), (block,), args, **options)
    return out


ACROSS = f"""
fence.proxy.async.shared::cta; bar.sync 0;
setp.ne.u32 %p2, %r5, 0; @%p2 bra OTHER; @%p1 bra DONE;
{ROW}{WAITED}st.release.gpu.global.u32 [%x3+512], %r20; cp.async.bulk.wait_group 0; bra DONE;
OTHER: @%p1 bra READY;
SPIN: ld.acquire.gpu.global.u32 %r21, [%x3+512]; setp.eq.u32 %p3, %r21, 0; @%p3 bra SPIN;
READY: bar.sync 0; mad.wide.u32 %x5, %r1, 4, %x3; ld.global.u32 %r22, [%x5]; st.global.u32 [%x5+256], %r22;
DONE:
"""


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_a_flag_tells_another_cta_of_stores_that_were_waited_for(delivery):
    for schedule in range(3):
        out = ran(ACROSS, 2, delivery=delivery, schedule=schedule)
        assert out[64:128].tolist() == list(range(64))
        for wait in ("", "cp.async.bulk.wait_group.read 0;\n"):
            with pytest.raises(AsyncHazardError, match="(?s)CTA .1, 0, 0. reads .*before the copy that writes it"):
                ran(ACROSS.replace(WAITED, wait), 2, delivery=delivery, schedule=schedule)


INSIDE = f"""
{{fence}}setp.eq.u32 %p2, %r1, 32; bar.sync 1, 64; @%p2 bra OTHER; @%p1 bra DONE;
st.shared.u32 [%r2], %r20; {{fence}}st.release.cta.shared.u32 [%r2+8192], %r20; bra DONE;
OTHER: ld.acquire.cta.shared.u32 %r21, [%r2+8192]; setp.eq.u32 %p3, %r21, 0; @%p3 bra OTHER;
{{after}}{ROW}cp.async.bulk.wait_group.read 0;
DONE:
"""


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_a_flag_in_a_cta_tells_of_what_was_fenced(delivery):
    fence = "fence.proxy.async.shared::cta;\n"
    for schedule in range(3):
        for before, after in ((fence, ""), ("", fence)):
            out = ran(INSIDE.format(fence=before, after=after), 1, delivery=delivery, schedule=schedule)
            assert out[:64].tolist() == [1, *range(1, 64)]
        with pytest.raises(AsyncHazardError, match="with no fence.proxy.async between the two"):
            ran(INSIDE.format(fence="", after=""), 1, delivery=delivery, schedule=schedule)


def test_stores_of_ctas_that_are_far_apart_race():
    """Each waits for a store of its own first: that tells nothing of what another CTA's threads stored."""
    far = CHUNK_THREADS // 1024
    body = f"""
    fence.proxy.async.shared::cta; bar.sync 0; @%p1 bra DONE; mov.u64 %x6, %x3;
    mad.lo.u32 %r7, %r5, 256, 256; cvt.u64.u32 %x5, %r7; add.u64 %x3, %x6, %x5; {ROW}{WAITED}mov.u64 %x3, %x6;
    setp.ne.u32 %p4, %r5, 0; setp.ne.and.u32 %p4, %r5, {far}, %p4; @%p4 bra DONE;
    {ROW}{WAITED}DONE:
    """
    assert ran(body.replace(f"%r5, {far}, %p4", "%r5, 0, %p4"), 2 * far, 1024, 4096).any()
    with pytest.raises(SimulationError, match=rf"CTA .{far}, 0, 0. starts a bulk copy that writes out\+0 bytes"):
        ran(body, 2 * far, 1024, 4096)
