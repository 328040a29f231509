"""Values that nothing has written may be read, and are reported where they are used."""

import numpy as np
import pytest

from tests.simulator.small_kernels import simulate
from tilejit.errors import UninitializedReadError

TILE = ".shared .align 16 .b8 tile[512];"
START = """
mov.u32 %r1, %tid.x; ld.param.u64 %x1, [p0]; mad.wide.u32 %x2, %r1, 4, %x1; mov.u32 %r3, tile;
mad.lo.u32 %r4, %r1, 16, %r3; setp.lt.u32 %p1, %r1, 20; @!%p1 bra REST; st.shared.u32 [%r4], %r1;
REST: bar.sync 0; ld.shared.u32 %r2, [%r4];
"""


def attempt(body, **options):
    out = np.zeros(128, "u4")
    report = simulate(START + body + "\nret;", out, registers=TILE, **options)
    return out, report


@pytest.mark.parametrize("harmless", [
    "",
    "add.u32 %r5, %r2, 7;",
    "selp.b32 %r5, %r2, 0, %p1; st.global.u32 [%x2], %r5;",
    "@%p1 st.global.u32 [%x2], %r2;",
    "mov.u32 %r2, 5; st.global.u32 [%x2], %r2;",
    "mad.lo.u32 %r5, %r2, 3, %r1; selp.b32 %r5, %r5, %r1, %p1; shfl.sync.idx.b32 %r6, %r5, 0, 31, -1;",
    "st.shared.u32 [%r4+4], %r2; bar.sync 0; ld.shared.u32 %r5, [%r4+4]; @%p1 st.global.u32 [%x2], %r5;",
    "ld.shared.v2.u32 {%r5, %r6}, [%r4+8]; st.global.u32 [%x2], %r1;",
])
def test_what_is_read_and_not_used_is_no_error(harmless):
    assert attempt(harmless, on_finding="collect")[1].findings == ()


@pytest.mark.parametrize("use, how", [
    ("st.global.u32 [%x2], %r2;", "stores it"),
    ("add.u32 %r5, %r1, %r2; mul.lo.u32 %r5, %r5, 3; st.global.u32 [%x2], %r5;", "stores it"),
    ("selp.b32 %r5, 0, %r2, %p1; st.global.u32 [%x2], %r5;", "stores it"),
    ("and.b32 %r5, %r2, 3; mad.wide.u32 %x3, %r5, 4, %x1; ld.global.u32 %r6, [%x3];", "address"),
    ("setp.eq.u32 %p2, %r2, 5; @%p2 bra END; add.u32 %r5, %r1, 1;\nEND:", "branch"),
    ("setp.eq.u32 %p2, %r2, 5; selp.u32 %r5, 1, 2, %p2; st.global.u32 [%x2], %r5;", "stores it"),
    ("shfl.sync.idx.b32 %r5, %r2, 0, 31, -1;", "passes it on"),
    ("setp.eq.u32 %p2, %r2, 5; vote.sync.any.pred %p3, %p2, -1;", "passes it on"),
    ("red.global.add.u32 [%x1], %r2;", "passes it on"),
    ("st.shared.u32 [%r4+4], %r2; bar.sync 0; ld.shared.u32 %r5, [%r4+4]; st.global.u32 [%x2], %r5;", "stores it"),
    ("mov.u32 %r7, 0; L: add.u32 %r2, %r2, 1; add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, 3; @%p2 bra L;"
     "st.global.u32 [%x2], %r2;", "stores it"),
    ("st.shared.u32 [%r4+8], 1; bar.sync 0; ld.shared.v2.u32 {%r5, %r6}, [%r4+8]; st.global.u32 [%x2], %r6;",
     "stores it"),
])
def test_a_use_is_the_error_and_names_the_read_and_the_use(use, how):
    with pytest.raises(UninitializedReadError, match=how) as e:
        attempt(use)
    assert "nothing has written" in str(e.value) and "tile" in str(e.value)
    report = attempt(use, on_finding="collect")[1]
    assert {x.rule for x in report.findings} == {"undefined"}
    assert all("ld.shared" in x.first.text and x.second is not None for x in report.findings)


def test_the_threads_that_used_it_are_named():
    report = attempt("st.global.u32 [%x2], %r2;", on_finding="collect")[1]
    assert [x.threads for x in report.findings] == [tuple(range(20, 32))]
    assert report.findings[0].count == 12


def test_half_of_a_vector_may_be_unwritten():
    body = "st.shared.u32 [%r4+8], %r1; bar.sync 0; ld.shared.v2.u32 {%r5, %r6}, [%r4+8]; st.global.u32 [%x2], %r5;"
    out, _ = attempt(body)
    assert out[:32].tolist() == list(range(32))


def test_the_error_leaves_the_output_as_it_was():
    out = np.full(64, 9, "u4")
    with pytest.raises(UninitializedReadError):
        simulate(START + "st.global.u32 [%x2], %r2; ret;", out, registers=TILE)
    assert (out == 9).all()


SKIPPED = "@%p1 ld.global.u32 %r8, [%x2];"
AROUND = "@!%p1 bra AROUND; ld.global.u32 %r8, [%x2]; AROUND:"


@pytest.mark.parametrize("skips", [SKIPPED, AROUND, "@%p1 add.u32 %r8, %r1, 1;", "mov.u32 %r9, %r1; " + SKIPPED])
@pytest.mark.parametrize("use, how", [
    ("st.global.u32 [%x2], %r8;", "stores it"),
    ("mad.lo.u32 %r5, %r8, 3, %r1; bar.sync 0; mov.b32 %r6, %r5; st.global.u32 [%x2], %r6;", "stores it"),
    ("selp.b32 %r5, 0, %r8, %p1; st.global.u32 [%x2], %r5;", "stores it"),
    ("mov.b64 %x3, {%r8, %r8}; mad.wide.u32 %x4, %r1, 8, %x1; st.global.u64 [%x4+128], %x3;", "stores it"),
    ("and.b32 %r5, %r8, 3; mad.wide.u32 %x3, %r5, 4, %x1; ld.global.u32 %r6, [%x3];", "address"),
    ("setp.eq.u32 %p2, %r8, 5; @%p2 bra END; add.u32 %r5, %r1, 1;\nEND:", "branch"),
    ("shfl.sync.idx.b32 %r5, %r8, %r1, 31, -1; st.global.u32 [%x2], %r5;", "stores it"),
    ("shfl.sync.bfly.b32 %r5, %r8, 1, 31, -1; vote.sync.any.pred %p2, 1, -1; st.global.u32 [%x2], %r5;", "stores it"),
    ("setp.eq.u32 %p2, %r8, 5; vote.sync.any.pred %p3, %p2, -1;", "passes it on"),
    ("st.shared.u32 [%r4], %r8; bar.sync 0; ld.shared.u32 %r5, [%r4]; st.global.u32 [%x2], %r5;", "stores it"),
    ("mov.u32 %r7, 0; L: add.u32 %r8, %r8, 1; add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, 3; @%p2 bra L;"
     "st.global.u32 [%x2], %r8;", "stores it"),
])
def test_the_use_of_a_register_that_some_threads_skipped_is_reported(skips, use, how):
    with pytest.raises(UninitializedReadError, match=how) as e:
        attempt(skips + use)
    assert ("on every path" in e.value.hint) == ("ld.shared" not in use)
    report = attempt(skips + use, on_finding="collect")[1]
    assert {x.rule for x in report.findings} == {"undefined"}
    assert {x.threads for x in report.findings} == {tuple(range(20, 32))}
    assert all(x.second is not None for x in report.findings)


@pytest.mark.parametrize("skips", [SKIPPED, AROUND])
@pytest.mark.parametrize("harmless", [
    "add.u32 %r5, %r8, 7; shl.b32 %r6, %r5, 2; bar.sync 0;",
    "shfl.sync.idx.b32 %r5, %r8, 3, 31, -1; st.global.u32 [%x2], %r5;",
    "@%p1 st.global.u32 [%x2], %r8;",
    "selp.b32 %r5, %r8, 0, %p1; st.global.u32 [%x2], %r5;",
    "mad.lo.u32 %r5, %r8, 3, %r1; bar.sync 0; selp.b32 %r5, %r5, %r1, %p1; shfl.sync.idx.b32 %r6, %r5, 0, 31, -1;",
    "@!%p1 mov.u32 %r8, 0; st.global.u32 [%x2], %r8;",
    "mov.u32 %r8, 5; st.global.u32 [%x2], %r8;",
    "mad.wide.u32 %x4, %r1, 8, %x1; st.global.v2.u32 [%x4+128], {%r1, %r8};",
    "mov.b64 %x3, {%r1, %r8}; mad.wide.u32 %x4, %r1, 8, %x1; st.global.u64 [%x4+128], %x3;",
    "st.volatile.shared.u32 [%r4+4], %r8; bar.sync 0; ld.shared.u32 %r5, [%r4+4];",
])
def test_a_register_that_some_threads_skipped_may_be_read(skips, harmless):
    assert attempt(skips + harmless, on_finding="collect")[1].findings == ()


@pytest.mark.parametrize("mark", ["// implicit-def: %r8", ""])
def test_what_a_compiler_left_undefined_may_be_stored(mark):
    """What no predicated instruction writes, and what LLVM says is undefined."""
    skips = SKIPPED if mark else "@!%p1 bra AROUND; add.u32 %r8, %r1, 1; AROUND:"
    attempt(f"{mark}\n{skips} st.global.u32 [%x2], %r8;")


def test_registers_named_like_the_variables_of_generated_code():
    body = f".reg .b32 %v<300>; {SKIPPED.replace('%r8', '%v200')} add.u32 %v201, %v200, 1; " + "".join(
        f"add.u32 %v{i}, %r1, {i}; " for i in range(30))
    attempt(body + "st.global.u32 [%x2], %v29;")


def test_the_skipped_instruction_and_the_use_are_named():
    report = attempt("\n@%p1 ld.global.u32 %r8, [%x2];\nadd.u32 %r9, %r8, 1;\nst.global.u32 [%x2], %r9;",
                     on_finding="collect")[1]
    (finding,) = report.findings
    assert finding.first.text == "@%p1 ld.global.u32 %r8, [%x2];"
    assert finding.second.text == "st.global.u32 [%x2], %r9;"
    assert (finding.threads, finding.count) == (tuple(range(20, 32)), 12)


@pytest.mark.parametrize("barrier", ["bar.sync %r5;", "bar.sync %r5, 32;", "bar.sync 0, %r5;"])
def test_a_barriers_operand_that_nothing_wrote_is_an_error(barrier):
    with pytest.raises(UninitializedReadError, match="%r5"):
        simulate(f"{barrier} ret;", np.zeros(1, "u4"), block=32)


# lanes 0 to 15 shuffle, the others exit or go on
PART = "setp.lt.u32 %p1, %r1, 16; @!%p1 bra OTHERS;\n{}\nbra END;\nOTHERS: {}\nEND: ret;"


def lanes(body, others="", block=32):
    out = np.zeros(64, "u4")
    start = "mov.u32 %r1, %tid.x; ld.param.u64 %x1, [p0]; mad.wide.u32 %x2, %r1, 4, %x1;\n"
    return simulate(start + PART.format(body, others), out, block=block, on_finding="collect").findings


@pytest.mark.parametrize("shuffle, others, block, threads", [
    # lanes that aren't in the mask, that have exited, and that the CTA doesn't have
    ("shfl.sync.down.b32 %r2, %r1, 8, 31, 0xFFFF;", "bar.warp.sync 0xFFFF0000;", 32, range(8, 16)),
    ("shfl.sync.idx.b32 %r2|%p5, %r1, 20, 31, 0xFFFFFFFF;", "ret;", 32, range(16)),
    ("shfl.sync.bfly.b32 %r2, %r1, 8, 31, -1;", "", 12, range(4, 8)),
    # both halves of the warp shuffle, each with its own mask
    ("shfl.sync.bfly.b32 %r2, %r1, 16, 31, 0xFFFF;", "shfl.sync.bfly.b32 %r3, %r1, 1, 31, 0xFFFF0000;", 32, range(16)),
    ("shfl.down.b32 %r2, %r1, 8, 31;", "", 32, range(8, 16)),
])
def test_the_value_of_a_lane_that_does_not_participate_in_a_shuffle_is_undefined(shuffle, others, block, threads):
    findings = lanes(shuffle + "\nadd.u32 %r4, %r2, 1; st.global.u32 [%x2], %r4;", others, block)
    assert [(x.rule, x.threads) for x in findings] == [("undefined", tuple(threads))]
    assert "shuffles from a lane that has exited, doesn't execute the shuffle or isn't in its member mask" in \
        findings[0].message
    assert shuffle in findings[0].first.text and "st.global" in findings[0].second.text


@pytest.mark.parametrize("body", [
    # out of the segment of 16 lanes: each lane gets its own value
    "shfl.sync.down.b32 %r2, %r1, 8, 0x100F, 0xFFFF; st.global.u32 [%x2], %r2;",
    "shfl.sync.bfly.b32 %r2, %r1, 8, 31, 0xFFFF; st.global.u32 [%x2], %r2;",
    # a sum over 16 lanes: only lane 0's is used, for which all values are defined
    "mov.u32 %r2, %r1;" + "".join(
        f"shfl.sync.down.b32 %r3, %r2, {n}, 31, 0xFFFF; add.u32 %r2, %r2, %r3;" for n in (8, 4, 2, 1)
    ) + "setp.eq.u32 %p2, %r1, 0; @%p2 st.global.u32 [%x2], %r2;",
    # whether the lane is out of range doesn't depend on its value
    "shfl.sync.down.b32 %r2|%p5, %r1, 8, 31, 0xFFFF; selp.u32 %r3, 1, 2, %p5; st.global.u32 [%x2], %r3;",
])
def test_a_shuffle_among_some_lanes_is_defined_where_its_value_is_used(body):
    assert lanes(body) == ()
