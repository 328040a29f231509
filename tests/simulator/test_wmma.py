"""wmma and mma in double precision against longhand oracles, and every check on a wrong use of them."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tests.simulator import wmma_programs as programs
from tests.simulator.small_kernels import aligned, evaluate, kernel, pointer, same_bits, simulate
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
from tilejit.simulator import run as launch

SPACES = ("global", "shared", "generic", "generic shared")


@pytest.mark.parametrize("form", programs.LOADS, ids="-".join)
def test_lanes_hold_the_elements_of_the_tables(form):
    role, shape, t = form
    rows, columns = programs.extents(role, shape)
    count = rows * columns
    numbers = np.random.default_rng(1).integers(0, 2 ** min(programs.BITS[t], 10), count).reshape(rows, columns)
    numbers = numbers - 4 * (t[0] == "s")
    for order in programs.orders(role, t):
        length = columns if order == "row" else rows
        stride = length + 256 // programs.BITS[t]
        expected = programs.fragments_of(numbers, role, shape, t)
        out = np.zeros_like(expected)
        simulate(programs.load_text(role, shape, t, order, stride),
                 aligned(programs.stored(numbers, order, stride, t)), out)
        assert (out == expected).all()


def run(program, **options):
    arrays = [aligned(x) for x in program.arrays]
    simulate(program.text, *arrays, **options)
    program.arrays = arrays
    return program.result()


@pytest.mark.parametrize("form", programs.PRODUCTS, ids="-".join)
@pytest.mark.parametrize("space", SPACES)
def test_products_of_integers_are_exact(form, space):
    shape, t, d, c = form
    for seed, orders in enumerate(product(programs.orders("a", t), programs.orders("b", t), ("row", "col"))):
        op = ("xor", "and")[seed % 2] if t == "b1" else ""
        program = programs.Program(shape, t, d, c, orders, space, (None, 0, 1)[seed % 3], op=op, seed=seed)
        assert (run(program) == program.expected(op)).all()


def test_integer_sums_wrap_around_or_saturate():
    for sign, end in product((1, -1), ("", ".satfinite")):
        program = programs.Program("m16n16k16", "s8", "s32", "s32", end=end)
        a, b = np.full((16, 16), 127 * sign), np.full((16, 16), 127)
        c = np.full((16, 16), sign * (2**31 - 1000))
        program.matrices = [a, b, c]
        program.arrays[:3] = [
            programs.stored(x, order, 16, t)
            for x, order, t in zip((a, b, c), ("row", "col", "row"), ("s8", "s8", "s32"), strict=True)
        ]
        exact = program.expected()
        limited = np.clip(exact, -(2**31), 2**31 - 1)
        assert (run(program) == (limited if end else exact.astype(np.int32))).all()
        assert (limited != exact).all()


def test_tf32_operands_lose_their_lower_13_bits():
    program = programs.Program("m16n16k8", "tf32", "f32", "f32")
    a = np.zeros((16, 8), np.float32)
    a[:, 0] = 1 + 2.0**-12
    program.arrays[:3] = [programs.words(x, "f32") for x in (a, np.ones((8, 16)), np.zeros((16, 16)))]
    assert (run(program) == 1).all()


def test_a_chain_of_products_in_a_block_adds_up():
    """As if each product were in a block of its own."""
    for shape, operand, acc in (("m16n16k16", "f16", "f32"), ("m8n32k16", "f16", "f16"), ("m8n8k4", "f64", "f64")):
        program = programs.Program(shape, operand, acc, acc)
        once = program.expected() - program.matrices[2]
        lines = program.text.split("\n")
        at = next(i for i, line in enumerate(lines) if line.startswith("wmma.mma"))
        results = lines[at].partition(" ")[2].partition("}")[0] + "}"
        again = lines[at][: lines[at].rindex("{")] + results + ";"
        for between in ("", "setp.eq.u32 %p2, %r1, 99; @%p2 bra S{0}; S{0}:"):
            program.text = "\n".join([
                *lines[: at + 1], between.format(1), again, between.format(2), again, *lines[at + 1 :]
            ])
            assert (run(program) == program.matrices[2] + 3 * once).all()


def test_warps_move_their_own_matrices():
    every = [programs.Program("m32n8k16", "f16", "f32", "f32", seed=10 * i) for i in range(6)]
    text = every[0].text.replace("mov.u32 %r1, %tid.x;", """mov.u32 %r1, %tid.x; mov.u32 %r60, %ctaid.x;
    mov.u32 %r61, %ntid.x; mad.lo.u32 %r60, %r60, %r61, %r1; div.u32 %r60, %r60, WARP_SZ;""")
    for i, array in enumerate(every[0].arrays):
        start = f"ld.param.u64 %x{i + 1}, [p{i}];"
        text = text.replace(start, f"{start} mad.wide.u32 %x{i + 1}, %r60, {4 * array.size}, %x{i + 1};")
    arrays = [aligned(np.concatenate([x.arrays[i] for x in every])) for i in range(4)]
    simulate(text, *arrays, grid=3, block=64)
    for i, x in enumerate(every):
        x.arrays[3] = arrays[3].reshape(6, -1)[i]
        assert (x.result() == x.expected()).all()


def test_warp_sz_is_32():
    one = np.arange(40, dtype="u4")
    same_bits(evaluate("mov.u32 %r20, WARP_SZ; mad.lo.u32 {d}, {a}, WARP_SZ, %r20;", one, out="u4"), 32 * one + 32)


# -- double precision


def rounded(x, mode):
    """The float64 next to a fraction, in this mode of rounding."""
    near = x.numerator / x.denominator
    error = x - Fraction(near)
    if mode == "rn" or error == 0:
        return near
    up = {"rm": False, "rp": True, "rz": x < 0}[mode]
    if (error > 0) == up:
        return float(np.nextafter(near, np.inf if up else -np.inf))
    return near


@pytest.mark.parametrize("shape", ["m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"])
@pytest.mark.parametrize("mode", ["", "rn", "rz", "rm", "rp"])
def test_products_in_double_precision_are_chains_of_fma(shape, mode):
    a, b, c = programs.double_matrices(shape, 5)
    program = programs.DoubleProduct(shape, mode, a, b, c)
    simulate(program.text, *program.arrays)
    expected = np.array([[float(x) for x in row] for row in c])
    for i, j in np.ndindex(expected.shape):
        for k in range(a.shape[1]):
            exact = Fraction(a[i, k]) * Fraction(b[k, j]) + Fraction(expected[i, j])
            expected[i, j] = rounded(exact, mode or "rn")
    same_bits(program.result().reshape(-1), expected.reshape(-1))


@pytest.mark.parametrize("mode", ["", ".rn", ".rz", ".rm", ".rp"])
def test_wmma_and_mma_agree_in_double_precision(mode):
    a, b, c = programs.double_matrices("m8n8k4", 6)
    mma = programs.DoubleProduct("m8n8k4", mode[1:], a, b, c)
    simulate(mma.text, *mma.arrays)
    for form in (f"m8n8k4.f64.f64.f64.f64{mode}", f"m8n8k4{mode}.f64.f64.f64.f64"):
        program = programs.Program("m8n8k4", "f64", "f64", "f64")
        program.text = program.text.replace("m8n8k4.f64.f64.f64.f64", form)
        program.arrays[:3] = [programs.words(x, "f64") for x in (a, b.T, c)]
        same_bits(run(program).reshape(-1), mma.result().reshape(-1))


def test_infinities_and_nans_pass_through_doubles():
    a, b, c = np.zeros((8, 4)), np.ones((4, 8)), np.zeros((8, 8))
    a[3, 1], a[4, 0], a[5, 0], b[0, 2], c[6, 6] = np.inf, np.nan, np.inf, 0, -np.inf
    program = programs.DoubleProduct("m8n8k4", "", a, b, c)
    simulate(program.text, *program.arrays)
    with np.errstate(invalid="ignore"):
        assert np.array_equal(program.result(), a @ b + c, equal_nan=True)


# -- faults


TILE = ".shared .align 32 .b8 tile[2048];"
FILL = """mov.u32 %r1, %tid.x; mov.u32 %r2, tile; shl.b32 %r3, %r1, 5; add.u32 %r3, %r3, %r2; mov.u32 %r5, 7;
st.shared.v4.b32 [%r3], {%r5, %r5, %r5, %r5}; st.shared.v4.b32 [%r3+16], {%r5, %r5, %r5, %r5};
"""
EIGHT = "{%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}"
FIVES = "{%r5, %r5, %r5, %r5, %r5, %r5, %r5, %r5}"
LOAD = f"wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {EIGHT}, [%r2];\n"
LOAD_C = f"wmma.load.c.sync.aligned.row.m16n16k16.shared.f32 {EIGHT}, [%r2];\n"
STORE = f"wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r2], {FIVES};\n"
STORE_HALF = "wmma.store.d.sync.aligned.row.m16n16k16.shared.f16 [%r2], {%r5, %r5, %r5, %r5};\n"
MULTIPLY = f"wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {EIGHT}, {FIVES}, {FIVES}, {FIVES};\n"


def attempt(body, block=32, fill=FILL, **options):
    return simulate(fill + body + "\nret;", block=block, registers=TILE, **options)


@pytest.mark.parametrize("instruction", [LOAD, STORE, MULTIPLY], ids=["load", "store", "mma"])
class TestLanes:
    def test_a_branch_around_it_that_some_lanes_take_is_divergence(self, instruction):
        body = "bar.sync 0; setp.lt.u32 %p1, %r1, 5; @%p1 bra END;\n" + instruction + "END: bar.sync 0;"
        with pytest.raises(DivergenceError, match=r"lanes 0, 1, 2, 3, 4 of warp 0"):
            attempt(body)

    def test_lanes_that_have_exited_are_missed(self, instruction):
        with pytest.raises(DivergenceError, match="some have exited or don't exist: 30, 31"):
            attempt("bar.sync 0; setp.ge.u32 %p1, %r1, 30; @%p1 ret;\n" + instruction)

    def test_a_cta_that_isnt_whole_warps_cant_execute_it(self, instruction):
        with pytest.raises(DivergenceError, match=r"warp 1, lane 0.* don't exist: 8, 9"):
            attempt("bar.sync 0;" + instruction, 40)

    def test_a_branch_that_whole_warps_take_is_none(self, instruction):
        attempt("bar.sync 0; setp.lt.u32 %p1, %r1, 32; @%p1 bra END;\n" + instruction + "END: bar.sync 0;", 64)

    def test_lanes_that_come_late_are_waited_for(self, instruction):
        loop = "mov.u32 %r30, 0; LOOP: add.u32 %r30, %r30, 1; setp.le.u32 %p1, %r30, %r1; @%p1 bra LOOP;\n"
        attempt("bar.sync 0;" + loop + instruction)


@pytest.mark.parametrize("instruction", [LOAD, LOAD_C, STORE, STORE_HALF], ids=["a", "c", "store", "half"])
class TestMatrices:
    def test_lines_must_be_aligned(self, instruction):
        with pytest.raises(MisalignedError, match="16 bytes .* not a multiple of 16"):
            attempt("bar.sync 0; add.u32 %r2, %r2, 8;" + instruction)
        with pytest.raises(MisalignedError, match="16 bytes .* not a multiple of 16"):
            attempt("bar.sync 0;" + instruction.replace(";", ", 18;"))

    def test_all_of_a_matrix_must_be_in_bounds(self, instruction):
        size = 512 if instruction in (LOAD, STORE_HALF) else 1024
        attempt(f"bar.sync 0; add.u32 %r2, %r2, {2048 - size};" + instruction, 64)
        with pytest.raises(OutOfBoundsError, match=r"tile\+2048 bytes"):
            attempt(f"bar.sync 0; add.u32 %r2, %r2, {2064 - size};" + instruction, 64)

    def test_all_lanes_must_name_one_matrix(self, instruction):
        with pytest.raises(SimulationError, match="the same value for the address of a matrix: thread 5 "):
            attempt("bar.sync 0; setp.eq.u32 %p1, %r1, 5; selp.u32 %r4, 32, 0, %p1; add.u32 %r2, %r2, %r4;"
                    + instruction)
        with pytest.raises(SimulationError, match="the same value for the stride of a matrix: thread 5 "):
            attempt("bar.sync 0; setp.eq.u32 %p1, %r1, 5; selp.u32 %r4, 32, 16, %p1;"
                    + instruction.replace(";", ", %r4;"))

    def test_the_lanes_that_filled_it_must_have_synchronized(self, instruction):
        with pytest.raises(RaceError, match="(?s)st.shared.*wmma|wmma.*st.shared"):
            attempt(instruction)
        attempt("bar.warp.sync -1;" + instruction)

    def test_other_warps_must_have_synchronized(self, instruction):
        store, load = "st.shared.u32 [%r3], %r1;", "ld.shared.u32 %r6, [%r3]; st.shared.u32 [%r3+1024], %r6;"
        other = "sub.u32 %r3, %r3, 1024;" + (store if "load" in instruction else load)
        for order in ("{0} SYNC @!%p1 bra END; {1}", "@!%p1 bra NEXT; {1} NEXT: SYNC @%p1 bra END; {0}"):
            own = f"@%p1 bra LATER; {instruction} LATER:"
            body = "bar.sync 0; setp.ge.u32 %p1, %r1, 32;" + order.format(own, other)
            with pytest.raises(RaceError, match="wmma"):
                attempt(body.replace("SYNC", "bar.warp.sync -1;") + "END:", 64)
            attempt(body.replace("SYNC", "bar.sync 0;") + "END:", 64)


def test_a_result_that_becomes_an_operand_needs_a_barrier():
    for operand in (LOAD, LOAD.replace(".a.", ".b."), LOAD.replace("row", "col")):
        with pytest.raises(RaceError, match="wmma.load"):
            attempt("bar.sync 0;" + STORE_HALF + operand)
        attempt("bar.sync 0;" + STORE_HALF + "bar.warp.sync -1;" + operand)


def test_an_accumulator_is_updated_in_place_without_one():
    attempt("bar.sync 0;" + LOAD_C + STORE + LOAD_C + STORE)


def test_warps_that_store_different_matrices_to_one_place_race():
    different = STORE.replace("%r5", "%r1")
    with pytest.raises(RaceError, match="wmma.store"):
        attempt("bar.sync 0;" + different, 64)
    attempt("bar.sync 0;" + STORE, 64)


def test_lines_that_overlap_race_when_stored():
    with pytest.raises(RaceError, match="wmma.store"):
        attempt("bar.sync 0;" + STORE.replace("%r5", "%r1").replace(";", ", 12;"))


def test_matrices_must_have_been_written():
    for instruction in (LOAD, LOAD_C):
        with pytest.raises(UninitializedReadError, match="tile.*(?s:.*)wmma.load"):
            attempt("mov.u32 %r2, tile;" + instruction, fill="")
    with pytest.raises(UninitializedReadError, match="tile"):
        attempt("bar.sync 0; add.u32 %r2, %r2, 768;" + LOAD)


def test_undefined_registers_cant_be_stored_or_multiplied():
    for instruction in (STORE, MULTIPLY):
        with pytest.raises(UninitializedReadError):
            attempt("bar.sync 0; ld.shared.u32 %r5, [%r2+1024];" + instruction)


def test_asynchronous_copies_must_have_been_waited_for():
    body = "bar.sync 0; ld.param.u64 %x1, [p0]; cp.async.cg.shared.global [%r3], [%x1], 16; cp.async.commit_group; "
    for wait, ends in (("", ""), ("cp.async.wait_group 0;", "bar.sync 0;")):
        text = FILL + body + wait + ends + LOAD + "ret;"
        if wait:
            simulate(text, aligned(np.zeros(4, "u4")), registers=TILE)
            continue
        with pytest.raises(AsyncHazardError, match="wmma.load"):
            simulate(text, aligned(np.zeros(4, "u4")), registers=TILE)


def test_matrices_in_local_memory_are_refused():
    body = "mov.u64 %x1, own; cvta.local.u64 %x1, %x1; mov.u32 %r5, 7;"
    for instruction in (STORE.replace(".shared", ""), LOAD_C.replace(".shared", "")):
        with pytest.raises(SimulationError, match="a matrix in local memory; it must be in global or shared memory"):
            simulate(body + "st.local.u32 [own], %r5;" + instruction.replace("[%r2]", "[%x1]") + "ret;",
                     registers=".local .align 16 .b8 own[1024];", checks=False)


def test_outputs_may_be_read_only():
    program = programs.Program("m16n16k16", "f16", "f32", "f32")
    arrays = [aligned(x) for x in program.arrays]
    with pytest.raises(SimulationError, match="read-only"):
        simulate(program.text, *arrays[:3], pointer(arrays[3], "d", writable=False))


@pytest.mark.parametrize("text", [
    f"wmma.load.a.sync.aligned.row.m16n16k8.shared.f16 {EIGHT}, [%r3];",
    f"wmma.load.a.sync.aligned.row.m16n16k16.shared.f32 {EIGHT}, [%r3];",
    "wmma.load.a.sync.aligned.row.m16n16k16.shared.bf16 " + EIGHT + ", [%r3];",
    "wmma.load.a.sync.aligned.col.m8n8k32.shared.s4 {%r1}, [%r3];",
    "wmma.load.b.sync.aligned.row.m8n8k128.shared.b1 {%r1}, [%r3];",
    f"wmma.load.a.sync.aligned.m16n16k16.shared.f16 {EIGHT}, [%r3];",
    f"wmma.load.a.sync.aligned.row.m16n16k16.local.f16 {EIGHT}, [%r3];",
    f"wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {EIGHT}, [%r3], 16, 16;",
    f"wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {EIGHT};",
    f"wmma.load.c.sync.aligned.row.m8n8k4.shared.f32 {EIGHT}, [%r3];",
    f"wmma.store.d.sync.aligned.row.m16n16k16.shared.bf16 [%r3], {EIGHT};",
    f"wmma.store.d.sync.aligned.row.m16n16k16.shared.f16 [%r3], {EIGHT};",
    f"wmma.mma.sync.aligned.row.col.m16n16k8.f32.f32 {EIGHT}, {EIGHT}, {EIGHT}, {EIGHT};",
    f"wmma.mma.sync.aligned.row.col.m16n16k16.f32.bf16.tf32.f32 {EIGHT}, {EIGHT}, {EIGHT}, {EIGHT};",
    f"wmma.mma.sync.aligned.row.col.m16n16k16.f16.f32 {EIGHT}, {EIGHT}, {EIGHT}, {EIGHT};",
    f"wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {EIGHT}, {EIGHT}, {EIGHT};",
    "wmma.mma.sync.aligned.row.row.m8n8k32.s32.s4.s4.s32 {%r1, %r2}, {%r3}, {%r3}, {%r1, %r2};",
    f"wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.u8.s32 {EIGHT}, {{%r1, %r2}}, {{%r1, %r2}}, {EIGHT};",
    "wmma.mma.sync.aligned.row.col.m8n8k4.rn.f64.f64.f64.f64.rz {%x1, %x2}, {%x3}, {%x4}, {%x1, %x2};",
    "wmma.mma.or.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32 {%r1, %r2}, {%r3}, {%r3}, {%r1, %r2};",
    "mma.sync.aligned.m16n8k8.row.row.f64.f64.f64.f64 {%x1, %x2, %x3, %x4}, {%x1, %x2, %x3, %x4}, {%x1, %x2}, "
    "{%x1, %x2, %x3, %x4};",
    "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%x1, %x2, %x3, %x4}, {%x1}, {%x2}, {%x1, %x2, %x3, %x4};",
])
def test_forms_that_dont_exist_are_refused(text):
    with pytest.raises(UnsupportedInstructionError, match="PTX line"):
        launch(kernel(text + " ret;"), "k", (1,), (32,), [])


@pytest.mark.parametrize("pitch, factor", [(16, 1), (24, 2), (32, 2), (64, 4), (128, 4)])
def test_lines_cost_as_many_wavefronts_as_their_banks_collide(pitch, factor):
    """Each quarter-warp loads four lines of two chunks."""
    body = f".loc 1 7 1\n{LOAD.replace(';', f', {pitch};')}"
    tile = ".shared .align 32 .b8 tile[4096];"
    text = "mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mad.lo.u32 %r3, %r1, 128, %r2; mov.u32 %r5, 1;"
    text += "".join(f"st.shared.v4.b32 [%r3+{16 * i}], {{%r5, %r5, %r5, %r5}};" for i in range(8)) + "bar.sync 0;\n"
    report = simulate(text + body + "ret;", registers=tile, profile=True)
    traffic = report.line(7).traffic
    assert traffic.ideal_wavefronts == 4
    assert traffic.wavefronts == 4 * factor
