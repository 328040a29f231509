"""Maps of tensors that kernels make, change and copy in memory, and changes that copies may miss."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.simulator.small_kernels import aligned, pointer
from tests.simulator.tma_programs import HEADER, box_bytes, tensor_map
from tilejit.errors import (
    AsyncHazardError,
    DivergenceError,
    MisalignedError,
    OutOfBoundsError,
    RaceError,
    SimulationError,
    UninitializedReadError,
    UnsupportedInstructionError,
)
from tilejit.simulator import Device, run

#: element type: (numpy type, value of .elemtype)
TYPES = {"u1": 0, "u2": 1, "u4": 2, "i4": 3, "u8": 4, "i8": 5, "f2": 6, "f4": 7, "f8": 9}
SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}
SHARED = 16384
# %x1: the array, %x2: memory for maps, %x3: the output; %r2: shared memory; %r3: a map in it; %p1: all but thread 0
START = """
mov.u32 %r1, %tid.x; mov.u32 %r2, sm; mov.u32 %r3, map; setp.ne.u32 %p1, %r1, 0;
ld.param.u64 %x1, [array]; ld.param.u64 %x2, [maps]; ld.param.u64 %x3, [out]; mov.u32 %r4, bar;
@%p1 bra READY; mbarrier.init.shared.b64 [%r4], 1; fence.mbarrier_init.release.cluster;
READY: mov.u32 %r5, 0; bar.warp.sync -1;
"""
ZERO = "mad.lo.u32 %r6, %r1, 4, %r3; st.shared.u32 [%r6], %r5; bar.warp.sync -1;\n"
PUBLISH = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%x2], [%r3], 128;\n"
# Triton writes addresses with spaces and offsets
ACQUIRE = "fence.proxy.tensormap::generic.acquire.gpu [ %x2 + 0 ], 0x80; bar.warp.sync -1;\n"
RELEASE = "fence.proxy.tensormap::generic.release.gpu;\n"
TAIL = """
mov.u32 %r7, %r1;
COPY: setp.ge.u32 %p3, %r7, CHUNKS; @%p3 bra OVER; mad.lo.u32 %r8, %r7, 16, %r2;
ld.shared.v4.b32 {%r10, %r11, %r12, %r13}, [%r8]; mul.wide.u32 %x4, %r7, 16;
add.u64 %x4, %x4, %x3; st.global.v4.b32 [%x4], {%r10, %r11, %r12, %r13}; add.u32 %r7, %r7, 32; bra COPY;
OVER: ret;
"""


def field(name, value, ordinal=None, space=".shared::cta", place="%r3"):
    bits = 64 if name in ("global_address", "global_stride") else 32
    at = "" if ordinal is None else f", {ordinal}"
    return f"tensormap.replace.tile.{name}{space}.b1024.b{bits} [{place}]{at}, {value};\n"


def made(array, box, swizzle="none", space=".shared::cta", place="%r3", address="%x1"):
    """Instructions that set all fields of a map of a C-ordered array. box: innermost dimension first."""
    dims, strides, rank = array.shape[::-1], array.strides[:-1][::-1], array.ndim
    text = field("global_address", address, None, space, place) + field("rank", rank - 1, None, space, place)
    vectors = {"global_dim": dims, "box_dim": box, "element_stride": [1] * rank, "global_stride": strides}
    for name, values in vectors.items():
        text += "".join(field(name, value, i, space, place) for i, value in enumerate(values))
    kind = TYPES[array.dtype.str[1:]]
    constants = {"elemtype": kind, "swizzle_mode": SWIZZLES[swizzle], "interleave_layout": 0, "fill_mode": 0}
    for name, value in constants.items():
        text += field(name, value, None, space, place)
    return f"@%p1 bra MADE; {text} MADE: bar.warp.sync -1;\n"


def load(at, size, place="%x2", label="W"):
    names = ", ".join(f"%r{40 + i}" for i in range(len(at)))
    text = "".join(f"mov.b32 %r{40 + i}, {c};" for i, c in enumerate(at))
    copy = f"cp.async.bulk.tensor.{len(at)}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    text += f"\n@!%p1 {copy} [%r2], [{place}, {{{names}}}], [%r4];\n"
    text += f"@!%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], {size};\n"
    return text + f"{label}: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4], 0; @!%p2 bra {label};\n"


def launch(body, array, maps=None, size=SHARED, parameter=None, grid=1, **options):
    """Run a kernel of one warp; return what it copies from shared memory to its output."""
    out = aligned(np.zeros(size, "u1"))
    maps = aligned(np.zeros((4, 128), "u1")) if maps is None else maps
    text = f"""{HEADER}.visible .entry k(.param .u64 array, .param .u64 maps, .param .u64 out,
    .param .align 64 .b8 given[128]) {{
    .reg .pred %p<8>; .reg .b32 %r<64>; .reg .b64 %x<16>; .shared .align 1024 .b8 sm[{SHARED}];
    .shared .align 128 .b8 map[256]; .shared .align 8 .b64 bar;
    {START}{body}{TAIL.replace('CHUNKS', str(size // 16))} }}"""
    args = [pointer(array, "array"), maps if not isinstance(maps, np.ndarray) else pointer(maps, "maps"),
            pointer(out, "out"), parameter or bytes(128)]
    run(text, "k", (grid,), (32,), args, **options)
    return out


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("swizzle", SWIZZLES)
@pytest.mark.parametrize("order", [{}, {"delivery": "early", "schedule": 1}, {"checks": False}], ids=str)
def test_a_map_made_by_the_kernel(dtype, swizzle, order):
    size = np.dtype(dtype).itemsize
    box, at = (32 // size, 5), (32 // size, -1)
    array = aligned(np.random.default_rng(1).integers(0, 256, (9, 4 * box[0] * size), "u1").view(dtype))
    body = ZERO + made(array, box, swizzle) + PUBLISH + ACQUIRE + load(at, 32 * 5)
    # what a swizzled box leaves out is not written
    got = launch(body, array, **{**order, "checks": False} if swizzle in ("64B", "128B") else order,
                 size=160 if swizzle in ("none", "32B") else 1024)
    expected = box_bytes(array, box, swizzle, at)
    assert all(got[address] == byte for address, byte in expected.items() if address < got.size)


@pytest.mark.parametrize("rank", [2, 3, 4, 5])
def test_maps_of_all_ranks(rank):
    rng = np.random.default_rng(rank)
    shape, box, at = (3,) * (rank - 1) + (8,), (4,) + (2,) * (rank - 1), (4,) + (2,) * (rank - 1)
    array = aligned(rng.integers(0, 2**31, shape).astype("i4"))
    body = ZERO + made(array, box) + PUBLISH + ACQUIRE + load(at, 4 * int(np.prod(box)))
    got = launch(body, array, size=4 * int(np.prod(box))).view("i4").reshape(box[::-1])
    for inside in itertools.product(*(range(n) for n in box[::-1])):
        where = tuple(c + i for c, i in zip(at[::-1], inside, strict=True))
        real = all(w < n for w, n in zip(where, shape, strict=True))
        assert got[inside] == (array[where] if real else 0)


ARRAY = np.arange(64, dtype="i4").reshape(8, 8)
MAKE = ZERO + made(ARRAY, (8, 4))
BOX = load((0, 0), 128)
SHORTER = "@!%p1 " + field("global_dim", 4, 1, ".global", "%x2") + "bar.warp.sync -1;"


def test_maps_in_global_memory_may_be_made_in_place():
    body = "mad.wide.u32 %x5, %r1, 4, %x2; st.global.u32 [%x5], %r5; bar.warp.sync -1;"
    body += made(ARRAY, (8, 4), space=".global", place="%x2") + RELEASE + ACQUIRE + BOX
    assert (launch(body, aligned(ARRAY), size=128).view("i4") == np.arange(32)).all()
    body = body.replace(".global.b1024", ".b1024")
    assert (launch(body, aligned(ARRAY), size=128).view("i4") == np.arange(32)).all()


def test_a_parameters_map_is_a_template():
    """The kernel copies the map that it is given, and changes its number of rows."""
    array = aligned(ARRAY)
    template = "mad.lo.u32 %r6, %r1, 4, %r3; mov.b64 %x6, given; cvta.param.u64 %x6, %x6;"
    template += "mad.wide.u32 %x6, %r1, 4, %x6;"
    template += "ld.u32 %r9, [%x6]; st.shared.u32 [%r6], %r9; bar.warp.sync -1; @!%p1 " + field("global_dim", 2, 1)
    got = launch(template + "bar.warp.sync -1;" + PUBLISH + ACQUIRE + BOX, array, size=128,
                 parameter=tensor_map(array, (8, 4)))
    assert (got.view("i4") == np.where(np.arange(32) < 16, np.arange(32), 0)).all()
    used = launch("mov.b64 %x6, given; cvta.param.u64 %x6, %x6;" + ZERO + MAKE.removeprefix(ZERO) + load(
        (0, 4), 128, "%x6"), array, size=128, parameter=tensor_map(array, (8, 4)))
    assert (used.view("i4") == np.arange(32, 64)).all()


def test_maps_outlive_a_launch():
    device = Device()
    array, maps, out = device.array(ARRAY), device.array(np.zeros((4, 128), "u1")), device.array(np.zeros(32, "i4"))
    text = f"""{HEADER}.visible .entry NAME(.param .u64 array, .param .u64 maps, .param .u64 out) {{
    .reg .pred %p<8>; .reg .b32 %r<64>; .reg .b64 %x<16>; .shared .align 1024 .b8 sm[{SHARED}];
    .shared .align 128 .b8 map[256]; .shared .align 8 .b64 bar; {START} BODY }}\n"""
    first = text.replace("NAME", "make").replace("BODY", MAKE + PUBLISH + "ret;")
    second = text.replace("NAME", "use").replace("BODY", BOX + TAIL.replace("CHUNKS", "8")).removeprefix(HEADER)
    module = device.load(first + second)
    for kernel in ("make", "use"):
        module.launch(kernel, (1,), (32,), [array, maps, out])
    assert (out.array == np.arange(32)).all()


@pytest.mark.parametrize("schedule", range(3))
@pytest.mark.parametrize(("body", "error", "text"), [
    (MAKE + PUBLISH + BOX, AsyncHazardError, "uses a tensor map with a change that wasn't acquired"),
    (MAKE + ACQUIRE + PUBLISH + BOX, AsyncHazardError, "with a change that wasn't acquired"),
    (MAKE + PUBLISH + ACQUIRE + SHORTER + ACQUIRE + BOX,
     AsyncHazardError, "with a change that wasn't released"),
    (MAKE + PUBLISH + ACQUIRE + SHORTER + RELEASE + BOX,
     AsyncHazardError, "with a change that wasn't acquired"),
    (MAKE.replace("MADE: bar.warp.sync -1;", "MADE:").replace("@%p1", "setp.ne.u32 %p4, %r1, 5; @%p4")
     + PUBLISH + ACQUIRE + BOX, RaceError, "nothing that orders the two"),
    (made(ARRAY, (8, 4)) + PUBLISH + ACQUIRE + BOX, UninitializedReadError, "which nothing has written"),
    (ZERO + PUBLISH + ACQUIRE + BOX, SimulationError, r"uses maps\+0 bytes, .* as a tensor map, which is invalid"),
    (MAKE + "@!%p1 " + field("element_stride", 2, 0) + "bar.warp.sync -1;" + PUBLISH + ACQUIRE + BOX, SimulationError,
     "element strides .2, 1. are not supported"),
    (MAKE + "@!%p1 " + field("fill_mode", 1) + "bar.warp.sync -1;" + PUBLISH + ACQUIRE + BOX, SimulationError,
     "fill_mode 1 is not supported"),
    (MAKE + "@!%p1 " + field("rank", 5) + "bar.warp.sync -1;" + PUBLISH + ACQUIRE + BOX, SimulationError,
     "its rank is 6"),
    (MAKE + "@!%p1 " + field("global_stride", 24, 0) + "bar.warp.sync -1;" + PUBLISH + ACQUIRE + BOX, SimulationError,
     "24 bytes apart; multiples of 16"),
    (MAKE + "@!%p1 " + field("global_dim", 9, 1) + "bar.warp.sync -1;" + PUBLISH + ACQUIRE + load((0, 8), 128),
     OutOfBoundsError, "reads 4 bytes out of bounds.*array.256 bytes"),
    (MAKE + "@%p1 bra ONE;" + PUBLISH + "ONE:" + ACQUIRE + BOX, DivergenceError, "waits forever for lane"),
    (MAKE + "add.u64 %x2, %x2, 32;" + PUBLISH, MisalignedError, "not a multiple of 64"),
    (MAKE + "add.u64 %x2, %x2, 512;" + PUBLISH, OutOfBoundsError, r"writes 16 bytes out of bounds.*maps\+512"),
    (field("rank", 1, place="%r3+256"), OutOfBoundsError, r"writes 4 bytes out of bounds.*map\+284"),
    (field("rank", 1, place="%r3+4"), MisalignedError, "not a multiple of 64"),
    (BOX, SimulationError, "is invalid"),
])
def test_faulty_programs(body, error, text, schedule):
    with pytest.raises(error, match=f"(?s){text}"):
        launch(body + ("" if "tensormap" in body else MAKE), aligned(ARRAY), size=128, schedule=schedule)


def test_the_thread_with_a_misaligned_map_is_named():
    move = "setp.eq.u32 %p4, %r1, 5; selp.b32 %r20, 4, 0, %p4; cvt.u64.u32 %x5, %r20; add.u64 %x5, %x5, %x2;\n"
    with pytest.raises(MisalignedError, match=r"^thread 5 .* uses 0x\w+4 as the address of a tensor map"):
        launch(move + field("global_dim", 4, 0, ".global", "%x5"), ARRAY)


@pytest.mark.parametrize("schedule", range(3))
def test_a_map_that_another_cta_may_be_changing(schedule):
    launch(MAKE + PUBLISH + ACQUIRE + BOX, aligned(ARRAY), size=128, grid=2, schedule=schedule)
    rows = "mov.u32 %r9, %ctaid.x; add.u32 %r9, %r9, 4; @!%p1 " + field("global_dim", "%r9", 1) + "bar.warp.sync -1;"
    with pytest.raises((RaceError, AsyncHazardError), match="nothing that orders the two|wasn't acquired"):
        launch(MAKE + rows + PUBLISH + ACQUIRE + BOX, aligned(ARRAY), size=128, grid=2, schedule=schedule)


@pytest.mark.parametrize("text", [
    field("rank", 1).replace("b32", "b64"), field("global_dim", 1), field("global_dim", 1, 5),
    field("global_stride", "%x1", 4),
    field("rank", 1, 0), field("swizzle_mode", "%r1"), field("elemtype", 99), PUBLISH.replace("128", "64"),
    ACQUIRE.replace("0x80", "256"), RELEASE.replace(";", " [%x2];"), PUBLISH.replace(".gpu", ""),
    field("rank", 1, space=".local"),
])
def test_bad_operands_are_refused(text):
    with pytest.raises(UnsupportedInstructionError):
        launch(text, aligned(ARRAY))
