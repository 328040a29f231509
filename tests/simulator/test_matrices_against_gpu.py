"""Matrix instructions and cp.async against a real GPU, bit for bit; with small integers any order of sums is exact."""

from itertools import product

import numpy as np
import pytest

from tests.simulator import matrix_programs as programs
from tests.simulator import wmma_programs as wmma
from tests.simulator.small_kernels import aligned, kernel, simulate

pytestmark = pytest.mark.gpu


def agree(gpu, text, arrays, version="8.0", block=32, grid=1):
    """Run a kernel on both devices over copies of the arrays and compare every byte of every array."""
    simulated, real = [aligned(x) for x in arrays], [np.ascontiguousarray(x).copy() for x in arrays]
    simulate(text, *simulated, block=block, grid=grid)
    header = f".version {version}\n.target sm_90\n.address_size 64\n"
    params = ", ".join(f".param .u64 p{i}" for i in range(len(arrays)))
    gpu(kernel(text, params, header=header), real, grid, block)
    for i, (a, b) in enumerate(zip(simulated, real, strict=True)):
        different = np.flatnonzero(a.reshape(-1).view(np.uint8) != b.reshape(-1).view(np.uint8))
        assert not different.size, f"array {i}: {different.size} bytes differ, the first at {different[0]}\n{text}"


@pytest.mark.parametrize("num", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
def test_ldmatrix(gpu, num, trans):
    for seed in range(4):
        tile = np.random.default_rng(seed).integers(0, 2**32, 512, dtype=np.uint32)
        offsets = programs.row_offsets(num, seed)
        agree(gpu, programs.ldmatrix_text(num, trans), [tile, offsets, np.zeros((32, num), np.uint32)])


@pytest.mark.parametrize("num", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
def test_stmatrix(gpu, num, trans):
    for seed in range(4):
        words = np.random.default_rng(seed).integers(0, 2**32, (32, num), dtype=np.uint32)
        offsets = programs.row_offsets(num, seed)
        agree(gpu, programs.stmatrix_text(num, trans), [words, offsets, np.zeros(512, np.uint32)])


@pytest.mark.parametrize("form", programs.PRODUCTS, ids="-".join)
def test_products(gpu, form):
    version = "8.4" if form[1] in ("e4m3", "e5m2") else "8.0"
    for seed in range(3):
        program, _ = programs.product_of(*form, seed=seed)
        agree(gpu, program.text, program.arrays, version)


def test_saturating_integer_products(gpu):
    a, b = np.full((16, 32), 127, np.int8), np.full((32, 8), 127, np.int8)
    b[:, 4:] = -128
    for c in (2**31 - 1000, -(2**31) + 1000, 5):
        for saturate in (False, True):
            start = np.full((16, 8), c, np.int32)
            program = programs.Product("m16n8k32", "s8", "s8", "s32", a, b, start, saturate)
            agree(gpu, program.text, program.arrays)


@pytest.mark.parametrize("form", wmma.LOADS, ids="-".join)
def test_wmma_loads(gpu, form):
    role, shape, t = form
    for order in wmma.orders(role, t):
        numbers = wmma.drawn(wmma.extents(role, shape), t, 3)
        memory = wmma.stored(numbers, order, 256, t)
        agree(gpu, wmma.load_text(role, shape, t, order, 256),
              [memory, np.zeros_like(wmma.fragments_of(numbers, role, shape, t))])


@pytest.mark.parametrize("form", wmma.PRODUCTS, ids="-".join)
@pytest.mark.parametrize("space", ["global", "shared", "generic", "generic shared"])
def test_wmma_products(gpu, form, space):
    shape, t, d, c = form
    for seed, orders in enumerate(product(wmma.orders("a", t), wmma.orders("b", t), ("row", "col"))):
        for op in ("xor", "and") if t == "b1" else ("",):
            program = wmma.Program(shape, t, d, c, orders, space, (None, 0, 1)[seed % 3], op=op, seed=seed)
            agree(gpu, program.text, program.arrays)


def test_saturating_wmma(gpu):
    for t, end in product(("s8", "u8"), ("", ".satfinite")):
        program = wmma.Program("m16n16k16", t, "s32", "s32", end=end)
        program.arrays[2] = np.full(256, 2**31 - 1000, np.uint32)
        agree(gpu, program.text, program.arrays)


@pytest.mark.parametrize("shape", ["m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"])
@pytest.mark.parametrize("mode", ["", "rn", "rz", "rm", "rp"])
def test_products_in_double_precision(gpu, shape, mode):
    for seed in range(3):
        program = wmma.DoubleProduct(shape, mode, *wmma.double_matrices(shape, seed))
        agree(gpu, program.text, program.arrays)


@pytest.mark.parametrize("mode", ["", ".rn", ".rz", ".rm", ".rp"])
def test_wmma_in_double_precision(gpu, mode):
    program = wmma.Program("m8n8k4", "f64", "f64", "f64", end=mode)
    program.arrays[:3] = [wmma.words(x, "f64") for x in wmma.double_matrices("m8n8k4", 4)]
    agree(gpu, program.text, program.arrays)


def test_infinities_and_nans(gpu):
    a, b = np.zeros((16, 16), np.float16), np.ones((16, 8), np.float16)
    a[3, 5], a[4, 0], a[5, 0], b[0, 2] = np.inf, np.nan, np.inf, 0
    for acc in ("f32", "f16"):
        c = np.zeros((16, 8), programs.ELEMENTS[acc])
        program = programs.Product("m16n8k16", "f16", "f16", acc, a, b, c)
        agree(gpu, program.text, program.arrays)


@pytest.mark.parametrize("size, cache", [(16, "cg"), (16, "ca"), (8, "ca"), (4, "ca")])
@pytest.mark.parametrize("form", ["", ", %r6", ", %p1", ", !%p1", ", 3", ", 0"])
def test_async_copies(gpu, size, cache, form):
    text = f"""
    .shared .align 16 .b8 tile[2048];
    mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mad.lo.u32 %r3, %r1, 16, %r2; mov.u32 %r5, 77;
    ld.param.u64 %x1, [p0]; mad.wide.u32 %x1, %r1, 16, %x1; ld.param.u64 %x2, [p1]; mad.wide.u32 %x2, %r1, 16, %x2;
    st.shared.v4.b32 [%r3], {{%r5, %r5, %r5, %r5}}; bar.sync 0;
    rem.u32 %r6, %r1, {size + 1}; setp.lt.u32 %p1, %r6, 3;
    cp.async.{cache}.shared.global [%r3], [%x1], {size}{form}; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;
    xor.b32 %r4, %r1, 33; mad.lo.u32 %r3, %r4, 16, %r2; ld.shared.v4.b32 {{%r10, %r11, %r12, %r13}}, [%r3];
    st.global.v4.b32 [%x2], {{%r10, %r11, %r12, %r13}}; ret;
    """
    source = np.random.default_rng(0).integers(1, 2**32, 512, dtype=np.uint32)
    agree(gpu, text, [source, np.zeros(512, np.uint32)], block=128)


def test_a_pipeline_of_groups(gpu):
    text = """
    .shared .align 16 .b8 tile[8192];
    mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mad.lo.u32 %r3, %r1, 16, %r2; mov.u32 %r20, 0; mov.u32 %r21, 0;
    ld.param.u64 %x1, [p0]; mad.wide.u32 %x1, %r1, 16, %x1; ld.param.u64 %x2, [p1]; mad.wide.u32 %x2, %r1, 4, %x2;
    cp.async.cg.shared.global [%r3], [%x1], 16; cp.async.commit_group;
    cp.async.cg.shared.global [%r3+2048], [%x1+2048], 16; cp.async.commit_group;
    LOOP: add.u64 %x1, %x1, 2048; setp.ge.u32 %p1, %r20, 4; @%p1 bra SKIP;
    add.u32 %r22, %r20, 2; rem.u32 %r22, %r22, 4; mad.lo.u32 %r23, %r22, 2048, %r3;
    cp.async.cg.shared.global [%r23], [%x1+2048], 16;
    SKIP: cp.async.commit_group; cp.async.wait_group 2; bar.sync 0;
    rem.u32 %r24, %r20, 4; xor.b32 %r25, %r1, 77; mad.lo.u32 %r26, %r25, 16, %r2; mad.lo.u32 %r26, %r24, 2048, %r26;
    ld.shared.b32 %r27, [%r26]; add.u32 %r21, %r21, %r27; add.u32 %r20, %r20, 1; bar.sync 0;
    setp.lt.u32 %p2, %r20, 6; @%p2 bra LOOP; st.global.b32 [%x2], %r21; ret;
    """
    source = np.random.default_rng(0).integers(0, 2**32, 6 * 512, dtype=np.uint32)
    agree(gpu, text, [source, np.zeros(128, np.uint32)], block=128)
