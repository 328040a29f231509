"""tcgen05 allocation, loads and stores: values against the ISA's figures, and every check on a wrong use."""

import numpy as np
import pytest

from tests.simulator import tensor_programs as t
from tests.simulator.small_kernels import simulate
from tilejit.errors import (
    AsyncHazardError,
    DeadlockError,
    DivergenceError,
    MisalignedError,
    OutOfBoundsError,
    RaceError,
    SimulationError,
    UninitializedReadError,
    UnsupportedInstructionError,
)

WAIT_LD, WAIT_ST = t.WAIT_LD, t.WAIT_ST
EVERY = [(shape, num) for shape, nums in t.NUMS.items() for num in nums]


def attempt(body, *arrays, columns=64, block=128, **options):
    text = t.START + t.allocate(columns) + body + t.free(columns) + "ret;"
    return simulate(text, *arrays, block=block, registers=t.DATA, **options)


def fill(columns=64):
    """Store something to `columns` columns of every warp's lanes."""
    body = "".join(f"mov.u32 %d{i}, {i};" for i in range(columns))
    return body + t.st("32x32b", columns, 0) + WAIT_ST


def enough(columns):
    return next(n for n in (32, 64, 128, 256, 512) if n >= columns)


def stored(shape, num, values, split=0, packed=False):
    """What a store leaves in 128 lanes × 512 columns, from threads × registers; None for untouched elements."""
    memory = np.full((128, 512), None, object)
    for thread in range(128):
        for register in range(t.registers_of(shape, num)):
            row, column = t.cell(shape, thread % 32, register, 0 if packed else split)
            row += thread // 32 * 32
            value = int(values[thread, register])
            if packed:
                column = 2 * column + (split if shape == "16x32bx2" and thread % 32 >= 16 else 0)
                memory[row, column], memory[row, column + 1] = value & 0xFFFF, value >> 16
            else:
                memory[row, column] = value
    return memory


# -- values


@pytest.mark.parametrize("shape, num", EVERY)
@pytest.mark.parametrize("checks", [True, False])
def test_a_load_finds_what_the_same_shape_stored(shape, num, checks):
    count = t.registers_of(shape, num)
    split = num if shape == "16x32bx2" else 0
    values = np.random.default_rng(num).integers(0, 2**32, (128, count), dtype=np.uint32)
    out = np.zeros_like(values)
    body = t.read_input("p0", 0, count) + t.st(shape, num, 0, split=split) + WAIT_ST
    body += t.ld(shape, num, 200, split=split) + WAIT_LD + t.write_output("p1", 200, count)
    attempt(body, values, out, columns=enough(t.columns_of(shape, num, split)), checks=checks)
    assert (out == values).all()


@pytest.mark.parametrize("shape, num", EVERY)
@pytest.mark.parametrize("half", [0, 16])
def test_stores_put_registers_where_the_figures_show(shape, num, half):
    if half and shape == "32x32b":
        half = 0
    split = num if shape == "16x32bx2" else 0
    count, span = t.registers_of(shape, num), t.columns_of(shape, num, split)
    columns = enough(span)
    values = np.random.default_rng(num).integers(1, 2**32, (128, count), dtype=np.uint32)
    out = np.zeros((128, columns), np.uint32)
    body = f"add.u32 %r9, %r5, {half << 16};" + "".join(f"mov.u32 %d{i}, 0;" for i in range(min(columns, 128)))
    for start in range(0, columns, 128):
        body += f"add.u32 %r10, %r5, {start};" + t.st("32x32b", min(columns, 128), 0, "%r10")
    body += WAIT_ST + t.read_input("p0", 0, count) + t.st(shape, num, 0, "%r9", split=split) + WAIT_ST
    for start in range(0, columns, 128):
        width = min(columns, 128)
        body += f"add.u32 %r10, %r5, {start};" + t.ld("32x32b", width, 130, "%r10") + WAIT_LD
        body += f"ld.param.u64 %x1, [p1]; mad.wide.u32 %x1, %r1, {4 * columns}, %x1;"
        body += "".join(f"st.global.b32 [%x1+{4 * (start + i)}], %d{130 + i};" for i in range(width))
    attempt(body, values, out, columns=columns)
    memory = np.roll(stored(shape, num, values, split), half, axis=0)[:, :columns]
    assert (out == np.where(memory == None, 0, memory).astype(np.uint32)).all()  # noqa: E711
    assert np.count_nonzero(out) == values.size


@pytest.mark.parametrize("shape", list(t.NUMS))
@pytest.mark.parametrize("other", list(t.NUMS))
def test_a_load_of_any_shape_finds_what_another_stored(shape, other):
    num, count = 4 if shape != "16x256b" else 2, t.registers_of(shape, 4 if shape != "16x256b" else 2)
    values = np.random.default_rng(1).integers(1, 2**32, (128, count), dtype=np.uint32)
    split = num if shape == "16x32bx2" else 0
    memory = stored(shape, num, values, split)
    out = np.zeros((128, t.registers_of(other, 2)), np.uint32)
    body = "mov.u32 %d0, 0;" * 1 + "".join(f"mov.u32 %d{i}, 0;" for i in range(32)) + t.st("32x32b", 32, 0) + WAIT_ST
    body += t.read_input("p0", 0, count) + t.st(shape, num, 0, split=split) + WAIT_ST
    body += t.ld(other, 2, 200, split=3) + WAIT_LD + t.write_output("p1", 200, out.shape[1])
    attempt(body, values, out, columns=32)
    for thread in range(128):
        for register in range(out.shape[1]):
            row, column = t.cell(other, thread % 32, register, 3)
            assert out[thread, register] == (memory[row + thread // 32 * 32, column] or 0)


@pytest.mark.parametrize("shape", list(t.NUMS))
@pytest.mark.parametrize("num", [1, 2, 8])
def test_packed_registers_hold_the_lower_halves_of_neighbouring_columns(shape, num):
    count, split = t.registers_of(shape, num), 2 * num if shape == "16x32bx2" else 0
    columns = enough(t.columns_of(shape, num, split, packed=True))
    values = np.random.default_rng(2).integers(0, 2**32, (128, count), dtype=np.uint32)
    out, wide = np.zeros_like(values), np.zeros((128, columns), np.uint32)
    zero = "".join(f"mov.u32 %d{i}, 0;" for i in range(columns)) + t.st("32x32b", columns, 0) + WAIT_ST
    body = zero + t.read_input("p0", 0, count) + t.st(shape, num, 0, packed=True, split=split) + WAIT_ST
    body += t.ld(shape, num, 200, packed=True, split=split) + WAIT_LD + t.write_output("p1", 200, count)
    body += t.ld("32x32b", columns, 200) + WAIT_LD + t.write_output("p2", 200, columns)
    attempt(body, values, out, wide, columns=columns, checks=False)
    assert (out == values).all()
    memory = stored(shape, num, values, split, packed=True)[:, :columns]
    assert (wide == np.where(memory == None, 0, memory).astype(np.uint32)).all()  # noqa: E711


def test_the_upper_halves_are_unknown_after_an_unpacking_store():
    body = "mov.u32 %d0, 5;" + t.st("32x32b", 1, 0, packed=True) + WAIT_ST
    with pytest.raises(UninitializedReadError, match=r"lane 0, column .* only the lower 16 bits"):
        attempt(body + t.ld("32x32b", 1, 8) + WAIT_LD)
    attempt(body + t.ld("32x32b", 1, 8, packed=True) + WAIT_LD)


def test_every_cta_has_its_own_tensor_memory():
    values = np.arange(7 * 128, dtype=np.uint32).reshape(-1, 1)
    out = np.zeros_like(values)
    body = t.read_input("p0", 0, 1) + t.st("32x32b", 1, 0) + WAIT_ST + t.ld("32x32b", 1, 8) + WAIT_LD
    attempt(body + t.write_output("p1", 8, 1), values, out, grid=7)
    assert (out == values).all()


def test_two_warpgroups_reach_the_same_lanes():
    # Warps 0-3 store, warps 4-7 load.
    body = """
    setp.ge.u32 %p2, %r2, 4; @%p2 bra WAIT; mov.u32 %d0, %r1; STORE
    BEFORE WAIT: bar.sync 0; AFTER setp.lt.u32 %p2, %r2, 4; @%p2 bra DONE; LOAD OUTPUT
    DONE:
    """
    parts = {
        "STORE": t.st("32x32b", 1, 0) + WAIT_ST, "LOAD": t.ld("32x32b", 1, 8) + WAIT_LD,
        "BEFORE": "tcgen05.fence::before_thread_sync;", "AFTER": "tcgen05.fence::after_thread_sync;",
        "OUTPUT": t.write_output("p0", 8, 1),
    }

    def variant(**changes):
        text = body
        for key, value in (parts | changes).items():
            text = text.replace(key, value, 1)
        out = np.zeros(256, np.uint32)
        attempt(text, out, block=256)
        return out[128:].tolist()

    assert variant() == list(range(128))
    with pytest.raises(RaceError, match="before_thread_sync"):
        variant(BEFORE="")
    with pytest.raises(RaceError, match="after_thread_sync"):
        variant(AFTER="")
    with pytest.raises(AsyncHazardError, match="wait::st"):
        variant(STORE=t.st("32x32b", 1, 0))


def test_warps_that_share_lanes_need_a_barrier():
    body = "setp.ge.u32 %p2, %r2, 4; mov.u32 %d0, 1; @%p2 bra LATER;" + t.st("32x32b", 1, 0) + WAIT_ST
    body += "LATER: tcgen05.fence::before_thread_sync; tcgen05.fence::after_thread_sync;"
    body += "setp.lt.u32 %p2, %r2, 4; @%p2 bra DONE;" + t.ld("32x32b", 1, 8) + WAIT_LD + "DONE:"
    with pytest.raises(RaceError, match="no barrier"):
        attempt(body, block=256)


# -- hazards


def test_registers_of_a_load_cant_be_read_before_the_wait():
    body = fill() + ".loc 1 5 1\n" + t.ld("32x32b", 2, 100) + ".loc 1 6 1\nadd.u32 %d110, %d101, 1;" + WAIT_LD
    with pytest.raises(AsyncHazardError) as e:
        attempt(body)
    text = str(e.value)
    assert "thread 0 (warp 0, lane 0) of CTA (0, 0, 0) reads register %d101" in text
    assert "add.u32 %d110, %d101, 1;" in text and "tcgen05.ld.sync" in text
    assert ":5" in text and ":6" in text and "wait::ld" in text
    attempt(fill() + t.ld("32x32b", 2, 100) + WAIT_LD + "add.u32 %d110, %d101, 1;")


@pytest.mark.parametrize("use", [
    "mov.b32 %d110, %d100;", "mov.b64 %x5, {%d100, %d101};", "st.global.b32 [%x9], %d100;", "cvt.u64.u32 %x5, %d100;",
    "setp.eq.u32 %p5, %d100, 0;", "mov.u32 %d100, 5;", "add.u32 %d100, %r1, 1;", t.ld("32x32b", 1, 100),
    "mov.b32 %d100, %r1;", "selp.b32 %d110, %d100, %r1, %p1;", "ld.shared.b32 %d100, [slot];",
    "shfl.sync.idx.b32 %d110, %d100, 0, 31, -1;", t.st("32x32b", 2, 100, "%r9"),
])
@pytest.mark.parametrize("apart", [False, True])
def test_every_use_of_a_register_in_flight_is_a_hazard(use, apart):
    out = np.zeros(1, np.uint32)
    start = "ld.param.u64 %x9, [p0]; add.u32 %r9, %r5, 8;"
    between = "setp.eq.u32 %p6, %r1, 99999; @%p6 bra NEXT; NEXT:" if apart else ""
    with pytest.raises(AsyncHazardError, match=r"%d100 before its load"):
        attempt(start + fill() + t.ld("32x32b", 2, 100) + between + use + WAIT_LD, out)
    attempt(start + fill() + t.ld("32x32b", 2, 100) + WAIT_LD + between + use + WAIT_LD + WAIT_ST, out)


def test_the_wait_must_come_after_the_load():
    with pytest.raises(AsyncHazardError):
        attempt(fill() + WAIT_LD + t.ld("32x32b", 2, 100) + "add.u32 %d110, %d101, 1;" + WAIT_LD)
    with pytest.raises(AsyncHazardError):
        attempt(fill() + t.ld("32x32b", 2, 100) + WAIT_ST + "add.u32 %d110, %d101, 1;" + WAIT_LD)


def test_one_wait_completes_several_loads():
    body = fill() + t.ld("32x32b", 2, 100) + t.ld("16x64b", 2, 110) + WAIT_LD + "add.u32 %d120, %d101, %d110;"
    attempt(body)


def test_a_wait_of_one_warp_completes_no_others_load():
    body = fill() + t.ld("32x32b", 2, 100) + "@%p1 bra SKIP;" + WAIT_LD + "SKIP: add.u32 %d110, %d101, 1;" + WAIT_LD
    with pytest.raises(AsyncHazardError, match="warp 1"):
        attempt(body)


def test_cells_of_a_store_cant_be_touched_before_the_wait():
    store = "mov.u32 %d0, 1; mov.u32 %d1, 2;" + t.st("32x32b", 2, 0)
    for touch in (t.ld("32x32b", 1, 100), t.st("32x32b", 1, 0), t.ld("16x64b", 1, 100)):
        with pytest.raises(AsyncHazardError, match="(?s)before the store there was waited for.*tcgen05.st.*wait::st"):
            attempt(store + touch + WAIT_LD + WAIT_ST)
    attempt(fill() + store + t.ld("32x32b", 1, 100, "%r9").replace("%r9", "%r5+2") + WAIT_LD + WAIT_ST)


def test_cells_of_a_load_cant_be_stored_to_before_the_wait():
    with pytest.raises(AsyncHazardError, match="(?s)before the load there was waited for.*wait::ld"):
        attempt(fill() + t.ld("32x32b", 2, 100) + t.st("32x32b", 1, 0) + WAIT_ST + WAIT_LD)
    attempt(fill() + t.ld("32x32b", 2, 100) + t.ld("32x32b", 2, 110) + WAIT_LD + t.st("32x32b", 1, 0) + WAIT_ST)


def test_nothing_lands_before_the_wait():
    out = np.zeros((128, 2), np.uint32)
    body = fill(2) + "mov.u32 %d0, 77; mov.u32 %d1, 78;" + t.st("32x32b", 2, 0) + t.ld("32x32b", 2, 100) + WAIT_LD
    attempt(body + t.write_output("p0", 100, 2) + WAIT_ST, out, checks=False)
    assert (out == [0, 1]).all()


def test_columns_cant_be_freed_while_something_is_in_flight():
    with pytest.raises(AsyncHazardError, match="(?s)frees columns .*while a store .*wait::st"):
        attempt("mov.u32 %d0, 1;" + t.st("32x32b", 1, 0))
    with pytest.raises(AsyncHazardError, match="(?s)frees columns .*while a load .*wait::ld"):
        attempt(fill() + t.ld("32x32b", 1, 100))


def test_columns_cant_be_freed_before_other_warps_are_done():
    body = t.START + t.allocate(64) + fill() + t.free(64).replace("bar.sync 0;", "") + "ret;"
    with pytest.raises(RaceError, match=r"(?s)frees columns .*no barrier follows their use by thread 32 \(warp 1"):
        simulate(body, block=128, registers=t.DATA)


def test_cells_must_have_been_written():
    with pytest.raises(UninitializedReadError, match=r"lane 0, column 4\d\d of tensor memory"):
        attempt(t.ld("32x32b", 1, 100) + WAIT_LD)
    with pytest.raises(UninitializedReadError, match="column 450"):
        attempt(fill(2) + t.ld("32x32b", 4, 100) + WAIT_LD)
    attempt(t.ld("32x32b", 1, 100) + WAIT_LD, checks=False)


def test_freed_columns_are_forgotten():
    again = t.free(64) + t.allocate(64).replace("ALLOCATED", "AGAIN").split("tcgen05.relinquish")[0] + "AGAIN: "
    again += "bar.sync 0; ld.shared.b32 %r6, [slot]; add.u32 %r5, %r6, %r3;" + t.ld("32x32b", 1, 100) + WAIT_LD
    start = t.START + t.allocate(64).replace("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;", "")
    with pytest.raises(UninitializedReadError):
        simulate(start + fill() + again + t.free(64).replace("FREED", "FREED2") + "ret;", block=128, registers=t.DATA)


# -- lanes and columns


@pytest.mark.parametrize("shape", ["32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"])
def test_a_warp_reaches_only_its_own_lanes(shape):
    for where in ("%r6", "%r9"):
        with pytest.raises(OutOfBoundsError, match=r"warp \d reaches lanes"):
            attempt(fill() + f"add.u32 %r9, %r5, {32 << 16};" + t.ld(shape, 1, 100, where) + WAIT_LD)


def test_a_store_to_another_warps_lanes_is_out_of_bounds():
    with pytest.raises(OutOfBoundsError, match=r"thread 32 .* stores to lanes 0 to 31 .*warp 1 reaches lanes 32 to 63"):
        attempt("mov.u32 %d0, 1;" + t.st("32x32b", 1, 0, "%r6") + WAIT_ST)


def test_addresses_start_at_lanes_of_the_shapes_height():
    for shape, lane, error in (("16x64b", 8, MisalignedError), ("16x64b", 24, OutOfBoundsError),
                               ("32x32b", 16, OutOfBoundsError)):
        with pytest.raises(error):
            attempt(fill() + f"add.u32 %r9, %r5, {lane << 16};" + t.ld(shape, 1, 100, "%r9") + WAIT_LD)


def test_columns_must_be_allocated():
    for offset in (-1, 63):
        with pytest.raises(OutOfBoundsError, match="(?s)not all allocated.*columns 448 to 511"):
            attempt(fill() + t.ld("32x32b", 2, 100, f"%r5+{offset}") + WAIT_LD)
    attempt(fill() + t.ld("32x32b", 2, 100, "%r5+62") + WAIT_LD)
    with pytest.raises(OutOfBoundsError):
        attempt(fill() + t.ld("16x32bx2", 2, 100, "%r5+10", split=60) + WAIT_LD)
    with pytest.raises(OutOfBoundsError, match="(?s)allocated:.*nothing"):
        body = "and.b32 %r9, %r5, 0xFF0000;" + t.ld("32x32b", 1, 100, "%r9") + WAIT_LD + "ret;"
        simulate(t.START + "mov.u32 %r5, %r3;" + body, block=128, registers=t.DATA)


def test_addresses_are_the_same_for_a_whole_warp():
    with pytest.raises(SimulationError, match="(?s)same value for the tensor memory address.*lane 1"):
        attempt(fill() + "and.b32 %r9, %r1, 31; add.u32 %r9, %r9, %r5;" + t.ld("32x32b", 1, 100, "%r9") + WAIT_LD)


# -- allocation


def test_columns_dont_start_at_0_and_two_allocations_differ():
    out = np.zeros(4, np.uint32)
    body = t.START + """
    .shared .align 4 .b8 slots[16]; @%p1 bra NEXT;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slots], 256;
    tcgen05.alloc.cta_group::1.sync.aligned.b32 [%x5], 128;
    ld.shared.b32 %r10, [slots]; ld.shared.b32 %r11, [slots+4];
    ld.param.u64 %x1, [p0]; st.global.b32 [%x1], %r10; st.global.b32 [%x1+4], %r11;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r11, 128; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r10, 256;
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
    NEXT: ret;
    """.replace("@%p1 bra NEXT;", "mov.u32 %r9, slots; cvt.u64.u32 %x5, %r9; add.u64 %x5, %x5, 4; "
                "cvta.shared.u64 %x5, %x5; @%p1 bra NEXT;")
    simulate(body, out, block=64)
    assert out.tolist() == [256, 128, 0, 0]


@pytest.mark.parametrize("columns", [0, 16, 33, 48, 1024])
def test_sizes_are_powers_of_two_from_32_to_512(columns):
    with pytest.raises(SimulationError, match=f"allocates {columns} columns .* power of two from 32 to 512"):
        attempt("", columns=columns)


def test_all_512_columns_can_be_had():
    attempt("", columns=512)


def one_warp(text):
    return simulate(t.START + "@%p1 bra END;\n" + text + "\nEND: ret;", block=64, registers=t.DATA)


ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], {}; ld.shared.b32 %r{}, [slot];\n"
DEALLOC = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r{}, {};\n"


def test_more_than_512_columns_would_wait_for_ever():
    with pytest.raises(DeadlockError, match="(?s)128 adjacent columns .* 0 of 512 are free.*columns 256 to 511"):
        one_warp(ALLOC.format(256, 10) + ALLOC.format(256, 11) + ALLOC.format(128, 12))


def test_sizes_of_later_allocations_must_not_grow():
    with pytest.raises(SimulationError, match="64 columns of tensor memory after 32: sizes must not grow"):
        one_warp(ALLOC.format(32, 10) + ALLOC.format(64, 11))


def test_everything_must_be_freed():
    with pytest.raises(SimulationError, match="(?s)exits without freeing 64 columns .* thread 0 .*tcgen05.alloc"):
        one_warp(ALLOC.format(64, 10))
    one_warp(ALLOC.format(64, 10) + DEALLOC.format(10, 64))


def test_what_is_freed_must_have_been_allocated_so():
    with pytest.raises(SimulationError, match="where no allocation starts"):
        one_warp(ALLOC.format(64, 10) + "add.u32 %r10, %r10, 32;" + DEALLOC.format(10, 32))
    with pytest.raises(SimulationError, match="frees 32 columns of an allocation of 64"):
        one_warp(ALLOC.format(64, 10) + DEALLOC.format(10, 32))
    with pytest.raises(SimulationError, match="(?s)where no allocation starts.*nothing"):
        one_warp(ALLOC.format(64, 10) + DEALLOC.format(10, 64) + DEALLOC.format(10, 64))


def test_nothing_is_allocated_after_the_permit_was_given_up():
    give = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n"
    with pytest.raises(SimulationError, match="relinquished the permit"):
        one_warp(give + ALLOC.format(64, 10))


def test_two_warps_cant_allocate():
    body = t.START + ".shared .align 4 .b8 two[8]; mov.u32 %r9, two; mad.lo.u32 %r9, %r2, 4, %r9;"
    body += "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r9], 32; ret;"
    with pytest.raises(SimulationError, match=r"(?s)thread 32 \(warp 1.*one warp of a CTA"):
        simulate(body, block=64)


def test_another_warp_cant_free():
    body = t.START + t.allocate(32) + "setp.eq.u32 %p1, %r2, 0;" + t.free(32) + "ret;"
    with pytest.raises(SimulationError, match="frees tensor memory of another warp"):
        simulate(body, block=64)


def test_the_address_reaches_other_warps_through_a_barrier():
    body = t.START + t.allocate(32).replace("bar.sync 0;", "") + t.free(32) + "ret;"
    with pytest.raises(RaceError, match="tcgen05.alloc"):
        simulate(body, block=64)


@pytest.mark.parametrize("instruction", [
    WAIT_LD, WAIT_ST, t.ld("32x32b", 1, 100), "mov.u32 %d100, 1;" + t.st("32x32b", 1, 100),
])
def test_all_lanes_of_a_warp_execute_it(instruction):
    body = fill() + "setp.eq.u32 %p2, %r1, 3; @%p2 bra SKIP;" + instruction + WAIT_LD + WAIT_ST + "SKIP: bar.sync 0;"
    with pytest.raises(DivergenceError, match="lane 3 of warp 0"):
        attempt(body)


@pytest.mark.parametrize("text", [
    "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 32;",
    "tcgen05.alloc.cta_group::1.sync.aligned.b32 [%r1], 32;", "tcgen05.wait::ld.sync.aligned %r1;",
    "tcgen05.ld.sync.aligned.32x32b.x3.b32 {%r1}, [%r2];", "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1}, [%r2];",
    "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%x2];", "tcgen05.ld.sync.aligned.16x32bx2.x1.b32 {%r1}, [%r2];",
    "tcgen05.ld.sync.aligned.16x32bx2.x1.b32 {%r1}, [%r2], %r3;", "tcgen05.alloc.cta_group::1.sync.aligned.b32 [%x1];",
    "tcgen05.ld.sync.aligned.16x32bx2.x1.b32 {%r1}, [%r2], -1;", t.ld("16x128b", 128, 0), t.ld("16x256b", 64, 0),
    "tcgen05.st.sync.aligned.32x32b.x1.pack::16b.b32 [%r2], {%r1};",
    "tcgen05.mma.cta_group::1.kind::f16 [%r1], %x1, %x2, %r2, %p1;",
])
def test_forms_that_dont_exist_are_refused(text):
    with pytest.raises(UnsupportedInstructionError, match="PTX line"):
        simulate(".shared .align 4 .b8 slot[4];" + text + "ret;", registers=t.DATA)
