"""ldmatrix, stmatrix and mma.sync against longhand oracles, and every check on a wrong use of them."""

import re

import numpy as np
import pytest

from tests.simulator import matrix_programs as programs
from tests.simulator.small_kernels import aligned, kernel, pointer, simulate
from tilejit.errors import (
    DivergenceError,
    MisalignedError,
    OutOfBoundsError,
    RaceError,
    UninitializedReadError,
    UnsupportedInstructionError,
)
from tilejit.simulator import run

TILE = ".shared .align 16 .b8 tile[2048];"
ROWS = "mov.u32 %r1, %tid.x; mov.u32 %r2, tile; shl.b32 %r3, %r1, 4; add.u32 %r3, %r3, %r2;\n"
FILL = "mov.u32 %r5, 7; st.shared.v4.b32 [%r3], {%r5, %r5, %r5, %r5};\n"
LOAD = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r3];\n"
STORE = "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r3], {%r5, %r5, %r5, %r5};\n"


def attempt(body, block=32, registers=TILE, **options):
    return simulate(ROWS + body + "\nret;", block=block, registers=registers, **options)


# -- values


@pytest.mark.parametrize("num", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
def test_ldmatrix_delivers_what_the_isa_says(num, trans):
    tile = aligned(np.random.default_rng(num).integers(0, 2**32, 512, dtype=np.uint32))
    offsets = programs.row_offsets(num, 5)
    out = np.zeros((32, num), np.uint32)
    simulate(programs.ldmatrix_text(num, trans), tile, offsets, out)
    expected = programs.ldmatrix_expected(tile, offsets, num, trans)
    assert (out.view(np.uint16).reshape(32, num, 2) == expected).all()


@pytest.mark.parametrize("num", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
def test_stmatrix_stores_what_the_isa_says(num, trans):
    words = np.random.default_rng(num).integers(0, 2**32, (32, num), dtype=np.uint32)
    offsets = programs.row_offsets(num, 6)
    out = aligned(np.zeros(512, np.uint32))
    simulate(programs.stmatrix_text(num, trans), words, offsets, out)
    assert (out.view(np.uint16) == programs.stmatrix_expected(words, offsets, num, trans)).all()


def test_a_matrix_comes_back_from_a_generic_address_in_every_warp_and_cta():
    body = """
    mov.u32 %r6, %ctaid.x; mad.lo.u32 %r7, %r6, 96, %r1; cvta.shared.u64 %x9, 0; cvt.u64.u32 %x3, %r3;
    add.u64 %x3, %x3, %x9; stmatrix.sync.aligned.m8n8.x1.b16 [%x3], {%r7}; bar.warp.sync -1;
    ldmatrix.sync.aligned.m8n8.x1.b16 {%r10}, [%x3];
    ld.param.u64 %x1, [p0]; mad.wide.u32 %x1, %r7, 4, %x1; st.global.u32 [%x1], %r10; ret;
    """
    out = np.zeros(5 * 96, np.uint32)
    simulate(ROWS + body, out, grid=5, block=96, registers=".shared .align 16 .b8 tile[2048];")
    assert out.tolist() == list(range(5 * 96))


@pytest.mark.parametrize("product", [*programs.PRODUCTS, *programs.NEW_PRODUCTS], ids="-".join)
@pytest.mark.parametrize("checks", [True, False])
def test_products_of_small_integers_are_exact(product, checks):
    program, expected = programs.product_of(*product)
    simulate(program.text, *program.arrays, checks=checks)
    assert (program.result() == expected).all()


def test_warps_multiply_their_own_matrices():
    pairs = [programs.product_of("m16n8k16", "f16", "f16", "f32", seed=i) for i in range(6)]
    arrays = [np.concatenate([p.arrays[i] for p, _ in pairs]) for i in range(4)]
    text = pairs[0][0].text.replace("mov.u32 %r60, %tid.x;", """
    mov.u32 %r60, %tid.x; mov.u32 %r61, %ctaid.x; mov.u32 %r62, %ntid.x; mad.lo.u32 %r60, %r61, %r62, %r60;""")
    simulate(text, *arrays, grid=3, block=64)
    for i, (program, expected) in enumerate(pairs):
        program.arrays[3] = arrays[3][32 * i : 32 * i + 32]
        assert (program.result() == expected).all()


def test_integer_sums_wrap_around_or_saturate():
    a = np.full((16, 32), 127, np.int8)
    b = np.full((32, 8), 127, np.int8)
    c = np.full((16, 8), 2**31 - 1000, np.int32)
    for saturate in (False, True):
        program = programs.Product("m16n8k32", "s8", "s8", "s32", a, b, c, saturate)
        simulate(program.text, *program.arrays)
        total = 32 * 127 * 127 + 2**31 - 1000
        assert (program.result() == (2**31 - 1 if saturate else total - 2**32)).all()


@pytest.mark.parametrize("shape, element, acc", [
    ("m16n8k16", "f16", "f32"), ("m16n8k16", "f16", "f16"), ("m16n8k16", "bf16", "f32"), ("m16n8k32", "s8", "s32"),
])
def test_products_that_follow_each_other_add_up(shape, element, acc):
    program, once = programs.product_of(shape, element, element, acc)
    start = program.arrays[2].copy()
    *loads, multiply, rest = re.split(r"(?=mma|ld.param.u64 %x1, \[p3\])", program.text)
    sums = re.findall(r"%r4\d", multiply)
    again = re.sub(r", \{[^}]*\};\n$", f", {{{', '.join(sums)}}};\n", multiply)
    simulate("".join([*loads, multiply, again, again, rest]), *program.arrays)
    c = programs.gather(start.view(programs.ELEMENTS[acc]), programs.c_m16n8, (16, 8)).astype(float)
    assert (program.result() == c + 3 * (once.astype(float) - c)).all()
    # Sums in another order of registers, or one of them changed: as if they came from another block.
    swapped = re.sub(r", \{[^}]*\};\n$", f", {{{', '.join([sums[1], sums[0], *sums[2:]])}}};\n", multiply)
    split = "setp.eq.u32 %p1, %r60, 99; @%p1 bra S; S:\n"
    for between, second in (("", again), ("", swapped), (f"mov.b32 {sums[0]}, 0;\n", again)):
        whole, apart = [x.copy() for x in program.arrays], [x.copy() for x in program.arrays]
        simulate("".join([*loads, multiply, between, second, rest]), *whole)
        simulate("".join([*loads, multiply, between, split, second, rest]), *apart)
        assert (whole[3] == apart[3]).all()
        assert (whole[3] != program.arrays[3]).any()


def test_infinities_and_nans_pass_through_products():
    a, b, c = np.zeros((16, 16), np.float16), np.ones((16, 8), np.float16), np.zeros((16, 8), np.float32)
    a[3, 5], a[4, 0], a[5, 0] = np.inf, np.nan, np.inf
    b[0, 2] = 0
    program = programs.Product("m16n8k16", "f16", "f16", "f32", a, b, c)
    simulate(program.text, *program.arrays)
    with np.errstate(invalid="ignore"):
        expected = a.astype(float) @ b.astype(float)
    assert np.array_equal(program.result(), expected, equal_nan=True)
    assert program.result().view(np.uint32)[4, 0] == 0x7FFFFFFF


def test_tf32_operands_lose_their_lower_13_bits():
    a, b = np.zeros((16, 8), np.float32), np.ones((8, 8), np.float32)
    a[:, 0] = 1 + 2.0**-12
    program = programs.Product("m16n8k8", "tf32", "tf32", "f32", a, b, np.zeros((16, 8), np.float32))
    simulate(program.text, *program.arrays)
    assert (program.result() == 1).all()


def test_sums_are_rounded_once():
    a, b = np.zeros((16, 16), np.float16), np.zeros((16, 8), np.float16)
    a[:, :2], b[0], b[1] = 1, 4096, 1
    program = programs.Product("m16n8k16", "f16", "f16", "f32", a, b, np.full((16, 8), 2.0**24, np.float32))
    simulate(program.text, *program.arrays)
    assert (program.result() == 2.0**24 + 4096).all()


FOUR, TWO = "{%r1, %r2, %r3, %r4}", "{%r1, %r2}"


@pytest.mark.parametrize("text", [
    f"mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32 {FOUR}, {FOUR}, {TWO}, {FOUR};",
    f"mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32 {FOUR}, {FOUR}, {TWO}, {FOUR};",
    f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f16 {FOUR}, {FOUR}, {TWO}, {TWO};",
    f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {FOUR}, {TWO}, {TWO}, {FOUR};",
    f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {FOUR}, {FOUR}, {TWO};",
    f"mma.sync.aligned.m16n8k16.row.col.f16.bf16.bf16.f16 {TWO}, {FOUR}, {TWO}, {TWO};",
    f"mma.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {FOUR}, {FOUR}, {TWO}, {FOUR};",
    f"mma.sync.aligned.m16n8k16.row.col.f32.s8.s8.f32 {FOUR}, {TWO}, {{%r1}}, {FOUR};",
    f"mma.sync.aligned.m16n8k16.row.col.satfinite.f32.f16.f16.f32 {FOUR}, {FOUR}, {TWO}, {FOUR};",
    f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {TWO}, [%r3];", "ldmatrix.sync.aligned.m8n8.x3.shared.b16 {%r1}, [%r3];",
    "ldmatrix.sync.aligned.m8n8.x1.b16 {%r1}, [%r3];", "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r3];",
])
def test_forms_that_dont_exist_are_refused(text):
    with pytest.raises(UnsupportedInstructionError, match="PTX line"):
        run(kernel(text + " ret;"), "k", (1,), (32,), [])


# -- all lanes of the warp


FIVES = "{%r5, %r5, %r5, %r5}"
MMA = f"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {{%r20, %r21, %r22, %r23}}, {FIVES}, {{%r5, %r5}}, {FIVES};"


@pytest.mark.parametrize("instruction", [LOAD, STORE, MMA], ids=["ldmatrix", "stmatrix", "mma"])
class TestLanes:
    def test_a_branch_around_it_that_some_lanes_take_is_divergence(self, instruction):
        body = FILL + "bar.sync 0; setp.lt.u32 %p1, %r1, 5; @%p1 bra END;\n" + instruction + "END: bar.sync 0;"
        with pytest.raises(DivergenceError, match=r"lanes 0, 1, 2, 3, 4 of warp 0"):
            attempt(body)

    def test_a_branch_that_whole_warps_take_is_none(self, instruction):
        attempt(FILL + "bar.sync 0; setp.lt.u32 %p1, %r1, 32; @%p1 bra END;\n" + instruction + "END: bar.sync 0;", 96)

    def test_lanes_that_have_exited_are_missed(self, instruction):
        with pytest.raises(DivergenceError, match="some have exited or don't exist: 30, 31"):
            attempt(FILL + "bar.sync 0; setp.ge.u32 %p1, %r1, 30; @%p1 ret;\n" + instruction)

    def test_a_cta_that_isnt_whole_warps_cant_execute_it(self, instruction):
        with pytest.raises(DivergenceError, match=r"warp 1, lane 0.* don't exist: 8, 9"):
            attempt(FILL + "bar.sync 0;" + instruction, 40)

    def test_a_predicate_that_differs_between_lanes_is_divergence(self, instruction):
        with pytest.raises(DivergenceError):
            attempt(FILL + "bar.sync 0; setp.lt.u32 %p1, %r1, 5; @%p1 " + instruction + "bar.sync 0;")

    def test_lanes_that_come_late_are_waited_for(self, instruction):
        loop = "mov.u32 %r30, 0; LOOP: add.u32 %r30, %r30, 1; setp.le.u32 %p1, %r30, %r1; @%p1 bra LOOP;\n"
        attempt(FILL + "bar.sync 0;" + loop + instruction, 64)

    def test_several_in_one_block_may_follow_a_partial_shuffle(self, instruction):
        shuffle = "setp.ge.u32 %p1, %r1, 16; @%p1 bra S; shfl.sync.idx.b32 %r9, %r1, 0, 31, 0xFFFF;\nS: "
        attempt(FILL + "bar.sync 0;" + shuffle + instruction + instruction)


# -- memory


def test_rows_start_at_multiples_of_16_bytes():
    for instruction in (LOAD, STORE):
        with pytest.raises(MisalignedError, match="16 bytes .* not a multiple of 16"):
            attempt(FILL + "bar.sync 0; add.u32 %r3, %r3, 8;" + instruction)


def test_rows_have_bounds():
    for instruction in (LOAD, STORE):
        with pytest.raises(OutOfBoundsError, match=r"thread 16 .* tile\+256 bytes"):
            attempt(FILL + "bar.sync 0;" + instruction, registers=".shared .align 16 .b8 tile[256];")


def test_lanes_past_the_rows_name_no_addresses():
    narrow = "ldmatrix.sync.aligned.m8n8.x{}.shared.b16 {{{}}}, [%r3];"
    for num in (1, 2):
        text = narrow.format(num, ", ".join(f"%r{10 + i}" for i in range(num)))
        outside = f"setp.ge.u32 %p1, %r1, {8 * num}; selp.b32 %r3, 99999999, %r3, %p1;"
        attempt(FILL + "bar.sync 0;" + outside + text)
        outside = f"setp.ge.u32 %p1, %r1, {8 * num - 1}; selp.b32 %r3, 99999999, %r3, %p1;"
        with pytest.raises(OutOfBoundsError):
            attempt(FILL + "bar.sync 0;" + outside + text)


def test_generic_addresses_must_be_of_shared_memory():
    body = "ld.param.u64 %x3, [p0]; ldmatrix.sync.aligned.m8n8.x4.b16 {%r10, %r11, %r12, %r13}, [%x3]; ret;"
    with pytest.raises(OutOfBoundsError):
        simulate(body, aligned(np.zeros(512, np.uint32)))


def test_rows_must_have_been_written():
    with pytest.raises(UninitializedReadError, match="tile"):
        attempt(LOAD)
    half = "mov.u32 %r5, 7; st.shared.v2.b32 [%r3], {%r5, %r5}; bar.sync 0;"
    with pytest.raises(UninitializedReadError, match="tile"):
        attempt(half + LOAD)


def test_rows_of_other_lanes_need_a_barrier_before_ldmatrix():
    reverse = "xor.b32 %r4, %r1, 31; shl.b32 %r4, %r4, 4; add.u32 %r3, %r4, %r2;"
    with pytest.raises(RaceError, match="(?s)st.shared.*ldmatrix|ldmatrix.*st.shared"):
        attempt(FILL + reverse + LOAD)
    attempt(FILL + "bar.warp.sync -1;" + reverse + LOAD)


def test_rows_of_other_warps_need_a_barrier():
    other = "xor.b32 %r4, %r1, 32; shl.b32 %r4, %r4, 4; add.u32 %r3, %r4, %r2;"
    for first, second in ((FILL, LOAD), ("mov.u32 %r5, 7;" + STORE, LOAD), (FILL + "bar.sync 0;" + LOAD, STORE)):
        with pytest.raises(RaceError):
            attempt(first + "bar.warp.sync -1;" + other + second, 64)
        attempt(first + "bar.sync 0;" + other + second, 64)


def test_matrices_of_equal_words_stored_to_one_place_dont_race():
    attempt("mov.u32 %r5, 7; mov.u32 %r3, tile;" + STORE, 64)
    with pytest.raises(RaceError):
        attempt("mov.u32 %r5, %r1; mov.u32 %r3, tile;" + STORE, 64)


# -- cost


@pytest.mark.parametrize("pitch, factor", [(16, 1), (32, 2), (48, 1), (64, 4), (80, 1), (128, 8), (256, 8)])
@pytest.mark.parametrize("num", [1, 2, 4])
def test_each_matrix_is_one_phase_of_eight_rows(pitch, factor, num):
    registers = ", ".join(f"%r{10 + i}" for i in range(num))
    tile = ".shared .align 16 .b8 tile[8192];"
    address = f"mad.lo.u32 %r3, %r1, {pitch}, %r2; mov.u32 %r5, 1; mov.u32 %r{10 + num - 1}, 1; mov.u32 %r10, 1;"
    for i in range(num):
        address += f"mov.u32 %r{10 + i}, 1;"
    store = f".loc 1 7 1\nstmatrix.sync.aligned.m8n8.x{num}.shared.b16 [%r3], {{{registers}}};"
    load = f".loc 1 8 1\nldmatrix.sync.aligned.m8n8.x{num}.shared.b16 {{{registers}}}, [%r3];"
    report = attempt(address + store + "\nbar.sync 0;" + load, registers=tile, profile=True)
    for line in (7, 8):
        assert report.line(line).traffic.wavefronts == num * factor
        assert report.line(line).traffic.ideal_wavefronts == num


def test_lines_name_what_a_wrong_row_came_from():
    module = kernel(ROWS + ".loc 1 7 0\n" + LOAD + "ret;", registers=TILE) + '.file 1 "dir/kernel.py"\n'
    with pytest.raises(UninitializedReadError, match="dir/kernel.py:7"):
        run(module, "k", (1,), (32,), [])


def test_an_output_that_was_not_written_cant_feed_a_product():
    program, _ = programs.product_of("m16n8k16", "f16", "f16", "f32")
    arrays = [pointer(program.arrays[0], "a", initialized=False), *program.arrays[1:]]
    with pytest.raises(UninitializedReadError, match="a"):
        simulate(program.text, *arrays)
