"""wgmma against longhand oracles: forms, descriptors, fragments, and every check on registers and waits."""

import numpy as np
import pytest

from tests.simulator.small_kernels import aligned, pointer
from tests.simulator.wgmma_programs import SHARED, Product, descriptor
from tilejit.errors import (
    AsyncHazardError,
    DivergenceError,
    OutOfBoundsError,
    SimulationError,
    UnsupportedInstructionError,
)
from tilejit.simulator import run
from tilejit.simulator.machine.wgmma import decode

FORMS = [
    ("f16", "f16", "f32", 64, 64), ("f16", "f16", "f16", 24, 64), ("bf16", "bf16", "f32", 256, 64),
    ("tf32", "tf32", "f32", 8, 32), ("e4m3", "e5m2", "f32", 40, 128), ("e5m2", "e5m2", "f16", 64, 128),
    ("s8", "u8", "s32", 48, 128), ("u8", "s8", "s32", 24, 128),
]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: "-".join(map(str, form)))
@pytest.mark.parametrize("a_registers", [False, True], ids=["shared", "registers"])
def test_products_of_small_integers_are_exact(form, a_registers):
    product = Product(*form, a_registers=a_registers)
    for adds in (True, False):
        got, expected = product.run(adds)
        assert (got == expected).all()


@pytest.mark.parametrize("mode", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("trans", [(False, False), (True, False), (False, True), (True, True)], ids=str)
def test_operands_in_every_layout(mode, trans):
    got, expected = Product("f16", "f16", "f32", 128, 64, mode, mode, trans).run()
    assert (got == expected).all()


def test_both_signs_and_a_column_of_blocks():
    product = Product("f16", "f16", "f32", 64, 128)
    product.signs = (-1, 1)
    got, expected = product.run()
    assert (got == expected).all()


def test_half_accumulators_round_once():
    product = Product("f16", "f16", "f16", 8, 16, "none", "none")
    product.a = (product.a * np.float16(0.3)).astype(np.float16)
    got, _ = product.run(adds=False)
    exact = product.a.astype(np.float64) @ product.b.astype(np.float64).T
    assert (got == product.scattered(exact.astype(np.float16))).all()


def test_integers_saturate_or_wrap_around():
    for sat in ("", ".satfinite"):
        product = Product("s8", "s8", "s32", 8, 32)
        product.a[:], product.b[:], product.c[:] = 127, 127, 2**31 - 1000
        text = product.text.replace("k32.s32", f"k32{sat}.s32")
        got, _ = product.run(text=text)
        assert (got.view(np.int32) == (2**31 - 1 if sat else 32 * 127 * 127 - 1000 - 2**31)).all()


def test_a_descriptor_decodes_as_the_isa_says():
    got = decode(0x4000004000010244)
    assert (got.start, got.leading, got.stride, got.mode.name) == (0x2440, 16, 1024, "128B")
    got = decode(0x40000040020004C0)
    assert (got.start, got.leading, got.stride, got.mode.name) == (0x4C00, 0x2000, 1024, "128B")
    for bit in (14, 15, 30, 31, 46, 48, 52, 61):
        assert "must be 0" in decode(descriptor(1024, 16, 1024, "128B") | 1 << bit)
    assert "base offset" in decode(1 << 49)


# -- checks

PRODUCT = Product("f16", "f16", "f32", 8, 64)


def edited(old, new, product=PRODUCT):
    assert old in product.text
    return product.text.replace(old, new)


def reported(text, kind=AsyncHazardError, product=PRODUCT):
    with pytest.raises(kind) as error:
        product.run(text=text)
    return str(error.value)


WAIT = "wgmma.wait_group.sync.aligned 0;"
FENCE = "wgmma.fence.sync.aligned;"


def test_a_result_before_its_wait_is_reported_with_both_lines():
    for other in ("", "wgmma.wait_group.sync.aligned 1;"):
        message = reported(edited(WAIT, other))
        assert "not waited for" in message and "wgmma.mma_async" in message and "st.global" in message
    assert "not waited for" in reported(edited("wgmma.commit_group.sync.aligned;", ""))


def test_a_group_is_waited_for_by_its_age():
    again = "wgmma.commit_group.sync.aligned; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 1;"
    PRODUCT.run(text=edited("wgmma.commit_group.sync.aligned;", again))
    text = edited("wgmma.commit_group.sync.aligned;", again.replace("d 1", "d 2")).replace(WAIT, "")
    assert "not waited for" in reported(text)


def test_registers_may_not_be_written_before_the_wait():
    text = edited(WAIT, "mov.f32 %d3, 0f00000000;" + WAIT)
    assert "writes register %d3" in reported(text)
    product = Product("f16", "f16", "f32", 8, 16, a_registers=True)
    text = edited(WAIT, "mov.b32 %a2, 0;" + WAIT, product)
    assert "writes register %a2" in reported(text, product=product)
    product.run(text=edited(WAIT, "add.u32 %r30, %a2, 1;" + WAIT, product))


def test_a_product_needs_a_fence_after_accesses_to_its_registers():
    assert "no wgmma.fence precedes a product" in reported(edited(FENCE, ""))
    message = reported(edited(FENCE, FENCE + "mov.f32 %d2, 0f00000000;"))
    assert "register %d2" in message and "without a wgmma.fence since" in message
    product = Product("f16", "f16", "f32", 8, 16, a_registers=True)
    assert "register %a1" in reported(edited(FENCE, FENCE + "mov.b32 %a1, 0;", product), product=product)


def test_accumulators_in_flight_keep_their_places():
    products = [x for x in PRODUCT.text.splitlines() if x.startswith("wgmma.mma_async")]
    swapped = products[1].replace("%d0, %d1", "%d1, %d0")
    assert "uses differently" in reported(edited(products[1], swapped))


def test_all_threads_of_a_warpgroup_must_come():
    text = edited(FENCE, "setp.lt.u32 %p3, %r1, 32; @%p3 exit;" + FENCE)
    assert "all 128 threads" in reported(text, DivergenceError)
    text = edited(FENCE, f"{FENCE} setp.lt.u32 %p3, %r1, 32; @%p3 bra OVER;")
    text = text.replace("wgmma.commit_group", "bar.sync 0; OVER: bar.sync 0;\nwgmma.commit_group")
    assert "waits forever for lanes 0, 1, 2" in reported(text, DivergenceError)


def test_descriptors_must_be_uniform_and_in_bounds():
    text = edited("shr.u32 %r10, %r2, 4;", "shr.u32 %r10, %r2, 4; and.b32 %r11, %r1, 1; add.u32 %r10, %r10, %r11;")
    assert "same value for the descriptor" in reported(text, SimulationError)
    text = edited("shr.u32 %r10, %r2, 4;", "shr.u32 %r10, %r2, 4; add.u32 %r10, %r10, 2000;")
    reported(text, OutOfBoundsError)


@pytest.mark.parametrize("edit", [
    ("m64n8k16", "m64n12k16"), ("m64n8k16", "m64n8k8"), ("f32.f16.f16", "f32.f16.bf16"), ("f32.f16.f16", "s32.f16.f16"),
    (", 1, 1, 0, 0;", ", 1, 2, 0, 0;"), (", 1, 1, 0, 0;", ", 1, 1, 0;"), ("%d0, %d1", "%d0"),
    ("k16.f32", "k16.satfinite.f32"),
], ids=str)
def test_forms_that_dont_exist_are_refused(edit):
    with pytest.raises(UnsupportedInstructionError, match="PTX line"):
        PRODUCT.run(text=edited(*edit))


@pytest.mark.parametrize("cta", range(3))
@pytest.mark.parametrize(
    ("left_out", "says"), [("fence.proxy.async.shared::cta;", "fence.proxy.async"), ("bar.sync 0;", "orders the two")]
)
def test_each_cta_orders_its_own_operands(left_out, says, cta):
    """Operands of several CTAs are examined together."""
    ordering = "fence.proxy.async.shared::cta; bar.sync 0;"
    skipped = f"mov.u32 %r11, %ctaid.x; setp.eq.u32 %p3, %r11, {cta}; @%p3 bra SKIP; {left_out} SKIP:"
    text = edited(ordering, ordering.replace(left_out, skipped))
    arrays = [aligned(PRODUCT.shared()), PRODUCT.scattered(PRODUCT.c), np.zeros((PRODUCT.n // 2, 128), np.uint32)]
    args = [*(pointer(x, f"p{i}") for i, x in enumerate(arrays)), pointer(arrays[0], "p3"), np.uint32(1)]
    report = run(text, "k", (3,), (128,), args, dynamic_shared_bytes=SHARED, on_finding="collect")
    assert report.findings
    for finding in report.findings:
        assert says in finding.message and {t // 128 for t in finding.threads} == {cta}, finding.message
