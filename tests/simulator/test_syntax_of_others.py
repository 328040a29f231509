"""What other compilers write and ours doesn't: scopes, sections, inlined places, modifiers in any order."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.simulator.small_kernels import HEADER, evaluate, interesting, kernel, pointer, same_bits, simulate
from tilejit.errors import MisalignedError, OutOfBoundsError, UnsupportedInstructionError
from tilejit.simulator import run
from tilejit.simulator.decode.parser import parse
from tilejit.simulator.decode.roles import roles_of
from tilejit.simulator.decode.statements import parse_kernel
from tilejit.simulator.opcodes import lookup


def result(body, n=1, out=np.uint32, **options):
    """What a kernel leaves in its one array; %x1 is its address."""
    array = np.zeros(n, out)
    simulate(f"ld.param.u64 %x1, [p0];\n{body}\nret;", array, block=1, **options)
    return array.tolist()


def refuse(body, match):
    with pytest.raises(UnsupportedInstructionError, match=match) as e:
        simulate(body + "\nret;", block=1)
    assert "PTX line" in str(e.value)


def test_a_label_may_precede_its_statement():
    assert result("mov.u32 %r1, 0; again:add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 5; @%p1 bra again;"
                  "done: st.global.u32 [%x1], %r1;") == [5]


def test_labels_of_scopes_that_have_one_name_are_different():
    loop = "{ loop: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, %r2; @%p1 bra loop; }"
    body = f"mov.u32 %r1, 0; mov.u32 %r2, 3; {loop} mov.u32 %r2, 10; {loop} st.global.u32 [%x1], %r1;"
    assert result(body) == [10]


def test_the_innermost_label_counts_also_ahead_of_it():
    body = """mov.u32 %r1, 1;
    { { bra skip; add.u32 %r1, %r1, 10; skip: } add.u32 %r1, %r1, 100; bra skip; add.u32 %r1, %r1, 1000; skip: }
    st.global.u32 [%x1], %r1;"""
    assert result(body) == [101]


def test_a_branch_may_leave_its_scope():
    assert result("mov.u32 %r1, 1; { bra out; mov.u32 %r1, 2; } out: st.global.u32 [%x1], %r1;") == [1]


def test_a_label_of_another_scope_is_not_defined():
    refuse("{ inner: add.u32 %r1, %r1, 1; } bra inner;", "label inner is not defined")


def test_two_labels_of_one_scope_with_one_name_are_refused():
    refuse("{ twice: add.u32 %r1, %r1, 1; twice: }", "twice is defined twice")


@pytest.mark.parametrize("index", range(3))
def test_tables_of_labels_belong_to_scopes(index):
    body = f"""mov.u32 %r1, {index};
    {{ table: .branchtargets a, b, out;
      brx.idx %r1, table;
      a: mov.u32 %r2, 10; bra out;
      b: mov.u32 %r2, 20; }}
    out: st.global.u32 [%x1], %r2;"""
    assert result("mov.u32 %r2, 30;" + body) == [(10, 20, 30)[index]]


NAMES = {"a": ".b32", "%b2": ".b32", "$c": ".b32", "q_p": ".pred", "%wide": ".b64"}


@pytest.mark.parametrize("text", [
    "add.u32 a, %b2, $c;", "setp.eq.u32 q_p, a, 0x1F;", "@!q_p bra OUT;", "@q_p mov.b32 a, %r1;",
    "ld.shared.v2.u32 {a, _}, [$c+4];", "st.global.u32 [%wide], {a};", "atom.shared.add.u32 a, [$c], %b2;",
    "addc.cc.u32 a, %b2, 0f3F800000;", "setp.lt.and.u32 q_p|%p1, a, $c, !%p2;", "mov.b64 %wide, {a, %tid.x};",
    "mbarrier.try_wait.parity.shared::cta.b64 q_p, [a], $c;", "elect.sync a|q_p, -1;",
])
def test_registers_of_an_inner_scope_are_read_and_written_like_others(text):
    declared = " ".join(f".reg {kind} {name};" for name, kind in NAMES.items())

    def steps(body):
        module = parse(kernel(body + "\nOUT: ret;"))
        instructions = parse_kernel(module, module.kernels["k"]).body
        return [roles_of(0, x) for x in instructions]

    renamed = {f"{x if x.startswith('%') else f'%{x}'}@{i}": x for i, x in enumerate(NAMES, 1)}
    inner = repr(steps(f"{{ {declared} {text} }}"))
    for unique, name in renamed.items():
        inner = inner.replace(f"'{unique}'", f"'{name}'")
    assert inner == repr(steps(f"{declared} {text}"))


def test_variables_of_scopes_that_have_one_name_are_different():
    scope = "{{ .shared .b32 s[{n}]; mov.u32 %r1, {n}; st.shared.u32 [s+4], %r1; mov.u32 %r{out}, s; }}"
    body = scope.format(n=3, out=2) + scope.format(n=50, out=3)
    body += "ld.shared.u32 %r4, [%r2+4]; ld.shared.u32 %r5, [%r3+4]; st.global.v2.u32 [%x1], {%r4, %r5};"
    assert result(body, 2) == [3, 50]


def test_a_type_may_follow_without_a_blank():
    assert result(".reg.b32 %q; .shared.align 4.b8 buffer[4]; mov.b32 %q, 6; st.shared.b32 [buffer], %q;"
                  "ld.shared.b32 %r1, [buffer]; st.global.b32 [%x1], %r1;") == [6]


def test_sections_are_skipped_with_their_contents():
    section = "\t.section\t.debug_info\n\t{\n.b32 12 // {\n.b32 .debug_line\n$L__x:\n.b8 1\n\t}\n"
    section += ".section .debug_loc { }\n"
    run(HEADER + section + kernel("ret;")[len(HEADER) :] + section, "k", (1,), (1,), [])
    with pytest.raises(UnsupportedInstructionError, match="PTX line 4"):
        run(HEADER + ".section .text\n" + kernel("ret;")[len(HEADER) :], "k", (1,), (1,), [])


TABLES = """
.global .align 4 .b8 first[8] = {1, 0, 0, 0, 2};
.const .u32 second[2] = {7, 8};
.global .u64 places[3] = {generic(first)+4, generic(second), first};
"""


def test_variables_may_hold_addresses_with_offsets():
    body = "ld.global.u64 %x2, [places]; ld.u32 %r1, [%x2]; ld.global.u64 %x2, [places+8]; ld.u32 %r2, [%x2+4];" \
           "ld.global.u64 %x2, [places+16]; ld.global.u32 %r3, [%x2];" \
           "st.global.u32 [%x1], %r1; st.global.u32 [%x1+4], %r2; st.global.u32 [%x1+8], %r3;"
    array = np.zeros(3, np.uint32)
    module = kernel(f"ld.param.u64 %x1, [p];\n{body}\nret;", ".param .u64 p", header=HEADER + TABLES)
    run(module, "k", (1,), (1,), [pointer(array)])
    assert array.tolist() == [2, 8, 1]


def test_an_address_of_what_is_not_there_is_refused():
    with pytest.raises(UnsupportedInstructionError, match="missing, which the PTX doesn't define\n  PTX line 4"):
        run(kernel("ret;", header=HEADER + ".global .u64 x = generic(missing);\n"), "k", (1,), (1,), [])


FUNCTIONS = """
.func (.param .b32 r) first(.param .b32 a) { ret; }
.extern .func second (.param .b32 a) ;
.global .u64 table[4] = {first, 0, generic(second), k};
"""


def test_functions_have_addresses():
    body = """ld.global.u64 %x2, [table]; ld.global.u64 %x3, [table+16]; ld.global.u64 %x4, [table+24];
    ld.global.u64 %x9, [table+8]; mov.u64 %x5, first;
    sub.u64 %x6, %x3, %x2; sub.u64 %x7, %x4, %x2; sub.u64 %x8, %x5, %x2;
    st.global.v2.u64 [%x1], {%x6, %x7}; st.global.v2.u64 [%x1+16], {%x8, %x9};"""
    array = np.zeros(4, np.uint64)
    module = kernel(f"ld.param.u64 %x1, [p];\n{body}\nret;", ".param .u64 p", header=HEADER + FUNCTIONS)
    run(module, "k", (1,), (1,), [pointer(array)])
    second, k, again, null = array.tolist()
    assert 0 < second != k > 0
    assert again == null == 0


def test_code_is_no_memory():
    body = "mov.u64 %x1, first; ld.u32 %r1, [%x1]; ret;"
    with pytest.raises(OutOfBoundsError):
        run(kernel(body, header=HEADER + FUNCTIONS), "k", (1,), (1,), [])


def test_a_buffer_of_another_kernel_takes_no_memory():
    module = HEADER + ".shared .b8 big[100000000];\n" + kernel("ret;")[len(HEADER) :]
    run(module, "k", (64,), (256,), [])


INLINED = """.file 1 "user.py"
.file 2 "library.py"
"""


def test_reports_name_the_calls_through_which_a_line_was_inlined():
    body = """.loc 1 10 5
    mov.u64 %x1, 0;
    .loc 2 200 9, function_name $L__info_string0, inlined_at 1 10 5
    mov.u64 %x2, 8;
    .loc 2 300 1, function_name $L__info_string1+12, inlined_at 2 200 9
    mov.u64 %x3, 8;
    .loc 1 0 0, function_name $L__info_string0, inlined_at 1 10 5
    mov.u64 %x3, 8;
    .loc 2 300 1
    ld.global.u32 %r1, [%x1]; ret;"""
    with pytest.raises(OutOfBoundsError) as e:
        run(kernel(body, header=HEADER + INLINED), "k", (1,), (1,), [])
    places = re.findall(r"(?:from|called from) (\S+)", str(e.value))
    assert places == ["library.py:300", "library.py:200", "user.py:10"]


def test_findings_in_one_inlined_line_are_distinguished_by_the_lines_that_call_it():
    body = "mov.u64 %x1, 0;\n" + "".join(
        f".loc 1 {line} 5\nmov.u64 %x2, {line};\n"
        f".loc 2 200 9, function_name $L__info_string0, inlined_at 1 {line} 5\nld.global.u32 %r1, [%x1];\n"
        for line in (10, 20, 10)
    )
    report = run(kernel(body + "ret;", header=HEADER + INLINED), "k", (1,), (1,), [], on_finding="collect")
    assert [(x.rule, x.count) for x in report.findings] == [("bounds", 2), ("bounds", 1)]
    for finding, line in zip(report.findings, (10, 20), strict=True):
        places = re.findall(r"(?:from|called from) (\S+)", finding.message)
        assert places == ["library.py:200", f"user.py:{line}"]


@pytest.mark.parametrize("first", ["", ".loc 1 80 17"])
@pytest.mark.parametrize("outer", [80, 70])
def test_an_inline_assembly_comes_from_one_line(first, outer):
    """LLVM counts a line on for each line of the assembly; after its end the first line still holds."""
    body = f""".loc 1 {outer if first else 80} 17
    // begin inline asm
    {first}
    @%p1 mov.u64 %x1, 8;
    .loc 1 81 17
    ld.global.u32 %r1, [%x2];
    .loc 1 82 17
    ld.global.u32 %r1, [%x3];
    // end inline asm
    ld.global.u32 %r1, [%x4];
    .loc 1 90 1
    ld.global.u32 %r1, [%x5]; ret;"""
    start = "setp.eq.u32 %p1, 0, 0; mov.u64 %x2, 0; mov.u64 %x3, 0; mov.u64 %x4, 0; mov.u64 %x5, 0;\n"
    report = run(kernel(start + body, header=HEADER + INLINED), "k", (1,), (1,), [], on_finding="collect")
    assert [x.first.location.line for x in report.findings] == [80, 90]
    assert report.findings[0].count == 3


def test_a_profile_counts_inlined_code_for_the_line_that_calls_it():
    body = """.loc 1 10 5
    mov.u32 %r1, 0;
    .loc 2 200 9, function_name $L__info_string0, inlined_at 1 10 5
    add.u32 %r1, %r1, 1;
    .loc 1 11 5
    ret;"""
    report = run(kernel(body, header=HEADER + INLINED), "k", (1,), (1,), [])
    assert {line: count.instructions for line, count in report.lines.items()} == {10: 2, 11: 1}


@pytest.mark.parametrize(("root", "suffix", "expected"), [
    ("ld", ".global.acquire.gpu.b32", {"space": "global", "sem": ".acquire", "scope": ".gpu", "t": "b32"}),
    ("ld", ".gpu.acquire.global.v2.b32", {"space": "global", "sem": ".acquire", "scope": ".gpu", "vec": "v2"}),
    ("ld", ".nc.global.L1::evict_last.v4.f32", {"space": "global", "nc": ".nc", "vec": "v4"}),
    ("st", ".sys.release.global.u32", {"space": "global", "sem": ".release", "scope": ".sys"}),
    ("atom", ".global.gpu.acq_rel.cas.b32", {"sem": ".acq_rel", "scope": ".gpu", "op": "cas", "t": "b32"}),
    ("atom", ".add.global.relaxed.u32", {"sem": ".relaxed", "space": "global", "op": "add", "t": "u32"}),
    ("red", ".global.v2.f32.add", {"space": "global", "vec": "v2", "op": "add", "t": "f32"}),
    ("red", ".global.add.noftz.v4.bf16x2", {"op": "add", "vec": "v4", "t": "bf16x2"}),
])
def test_modifiers_come_in_any_order(root, suffix, expected):
    entry = lookup(root, suffix)
    assert entry is not None
    assert {name: entry[1][name] for name in expected} == expected


@pytest.mark.parametrize(("root", "suffix"), [
    ("ld", ".acquire.acquire.gpu.b32"), ("ld", ".global.shared.b32"), ("ld", ".cta.gpu.relaxed.b32"),
    ("ld", ".b32.b32"),
    ("st", ".acquire.gpu.b32"), ("atom", ".global.add.cas.b32"), ("atom", ".global.b32"), ("atom", ".global.add"),
    ("red", ".relaxed.gpu.relaxed.add.u32"), ("atom", ".const.add.u32"),
])
def test_a_modifier_comes_once_and_what_is_needed_comes(root, suffix):
    assert lookup(root, suffix) is None


@pytest.mark.parametrize("text", [
    "ld.global.u32 %r1, [%x1], %x2;", "st.global.u32 [%x1], %r1, %x2;", "ld.global.L2::cache_hint.u32 %r1, [%x1];",
    "atom.global.add.u32 %r1, [%x1], 1, %x2;", "red.global.add.u32 %r1, [%x1], 1;",
])
def test_operands_are_counted(text):
    refuse("mov.u64 %x1, 0; mov.u64 %x2, 0; mov.u32 %r1, 0; " + text, "operands")


def test_cache_policies_are_read_and_change_nothing():
    body = "createpolicy.fractional.L2::evict_first.b64 %x2, 1.0; mov.u32 %r1, 5;" \
           "st.global.L2::cache_hint.u32 [%x1], %r1, %x2; atom.global.add.L2::cache_hint.u32 %r2, [%x1], 2, %x2;" \
           "ld.global.L1::evict_last.L2::cache_hint.b32 {%r3}, [%x1 + 0], %x2; st.global.u32 [%x1+4], %r3;"
    assert result(body, 2) == [7, 7]
    refuse("mov.u64 %x1, 0; ld.global.L2::cache_hint.b32 %r3, [%x1], %nothing;", "neither declared")


class TestVectorAtomics:
    def test_each_element_is_updated_and_the_old_ones_are_returned(self):
        sums, old = np.array([[1, 2, 3, 4]] * 2, np.float32), np.zeros((64, 4), np.float32)
        body = """mov.u32 %r1, %tid.x; cvt.u64.u32 %x3, %r1; shl.b64 %x3, %x3, 4;
        ld.param.u64 %x1, [p0]; ld.param.u64 %x2, [p1]; add.u64 %x2, %x2, %x3;
        and.b32 %r2, %r1, 1; shl.b32 %r2, %r2, 4; cvt.u64.u32 %x4, %r2; add.u64 %x1, %x1, %x4;
        mov.f32 %r5, 0f3F800000; mov.f32 %r6, 0f40000000;
        atom.global.add.v4.f32 {%r10, %r11, %r12, %r13}, [%x1], {%r5, %r6, %r5, %r6};
        st.global.v4.b32 [%x2], {%r10, %r11, %r12, %r13}; ret;"""
        simulate(body, sums, old, block=64)
        np.testing.assert_array_equal(sums, [[33, 66, 35, 68]] * 2)
        order = np.arange(64) // 2
        np.testing.assert_array_equal(old, np.stack([1 + order, 2 + 2 * order, 3 + order, 4 + 2 * order], 1))

    @pytest.mark.parametrize("root", ["atom", "red"])
    def test_halves(self, root):
        array = np.array([1, 2, 3, 4], np.float16)
        sink = "_, " if root == "atom" else ""
        body = f"ld.param.u64 %x1, [p0]; mov.b32 %r1, 0x40003C00; mov.b32 %r2, 0xC0003C00;" \
               f"{root}.global.add.noftz.v2.f16x2 {sink}[%x1], {{%r1, %r2}}; ret;"
        simulate(body, array, block=3)
        np.testing.assert_array_equal(array, [4, 8, 6, -2])

    def test_the_whole_vector_is_aligned(self):
        with pytest.raises(MisalignedError, match="not a multiple of 16"):
            result("add.u64 %x1, %x1, 8; mov.b32 %r1, 0; red.global.add.v4.f32 [%x1], {%r1, %r1, %r1, %r1};", 8)

    @pytest.mark.parametrize("text", [
        "red.shared.add.v2.f32 [%r1], {%r1, %r2};", "red.global.add.v8.f32 [%x1], {%r1, %r2};",
        "red.global.max.v2.f32 [%x1], {%r1, %r2};", "red.global.add.v2.u32 [%x1], {%r1, %r2};",
        "red.global.add.v4.f32 [%x1], {%r1, %r2};",
    ])
    def test_others_are_refused(self, text):
        refuse("mov.u64 %x1, 0; mov.u32 %r1, 0; mov.u32 %r2, 0; " + text, "supported|global memory|vectors of 4")


def test_an_unread_destination_is_left_alone():
    """Its old value needn't be fetched; one that is read is."""
    body = "mov.u32 %r5, 9; atom.global.add.u32 %r5, [%x1], 1; atom.global.add.u32 %r6, [%x1], 1;" \
           "st.global.u32 [%x1+4], %r6;"
    assert result(body, 2) == [2, 1]


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("part", ["lo", "hi"])
def test_multiply_add_with_carry(kind, part):
    bits = int(kind[1:])
    values = interesting(np.dtype(f"u{bits // 8}"), 3, 60)
    rng = np.random.default_rng(4)
    a, b, c = (rng.permutation(np.tile(values, 4)) for _ in range(3))
    zero = f"%{'r' if bits == 32 else 'x'}40"
    text = (f"mad.{part}.cc.{kind} {{d}}, {{a}}, {{b}}, {{c}}; mov.b{bits} {zero}, 0;"
            f"madc.{part}.{kind} {{d}}, {zero}, {zero}, {{d}};")
    got = evaluate(text, a, b, c, out=a.dtype)

    def number(x):
        return int(x) - (1 << bits) if kind[0] == "s" and int(x) >> (bits - 1) else int(x)

    def expected(x, y, z):
        product = number(x) * number(y)
        piece = (product if part == "lo" else product >> bits) & ((1 << bits) - 1)
        total = piece + int(z)
        return (total + (total >> bits)) & ((1 << bits) - 1)

    same_bits(got, np.array([expected(*v) for v in zip(a, b, c, strict=True)], a.dtype))


def test_the_carry_goes_through_a_chain_of_multiply_adds():
    """The 128-bit product of two 64-bit numbers, as compilers write it."""
    rng = np.random.default_rng(5)
    a, b = rng.integers(0, 2**64, (2, 200), np.uint64)
    a[:2] = b[:2] = 2**64 - 1
    text = """mov.b64 {{%r1, %r2}}, {a}; mov.b64 {{%r3, %r4}}, {b};
    mul.lo.u32 %r10, %r1, %r3; mul.hi.u32 %r11, %r1, %r3;
    mad.lo.cc.u32 %r11, %r2, %r3, %r11; madc.hi.u32 %r12, %r2, %r3, 0;
    mad.lo.cc.u32 %r11, %r1, %r4, %r11; madc.hi.cc.u32 %r12, %r1, %r4, %r12; addc.u32 %r13, 0, 0;
    mad.lo.cc.u32 %r12, %r2, %r4, %r12; madc.hi.u32 %r13, %r2, %r4, %r13;
    mov.b64 {d}, {{%r12, %r13}};"""
    got = evaluate(text, a, b, out=np.uint64)
    same_bits(got, np.array([int(x) * int(y) >> 64 for x, y in zip(a, b, strict=True)], np.uint64))


def test_div_approx_flushes_the_reciprocal_of_large_divisors():
    f4 = np.float32
    a = np.array([1, -1, np.inf, 8, np.nan, 3, 3], f4)
    b = np.array([2.0**127, 2.0**127, -(2.0**127), 2.0**126, 2.0**127, np.inf, 2], f4)
    got = evaluate("div.approx.f32 {d}, {a}, {b};", a, b, out=f4)
    same_bits(got, np.array([0, -0.0, np.nan, 2.0**-123, np.nan, 0, 1.5], f4))
    full = evaluate("div.full.f32 {d}, {a}, {b};", a, b, out=f4)
    assert full[0] == f4(2.0**-127)


def test_rcp_approx_ftz_f64_keeps_upper_halves_and_flushes():
    a = np.array([3.0, 2.0**1023, -(2.0**1023), 5e-324, -5e-324, np.inf, 0.0], np.float64)
    got = evaluate("rcp.approx.ftz.f64 {d}, {a};", a, out=np.float64)
    assert got.view(np.uint64)[0] & 0xFFFFFFFF == 0 and abs(got[0] * 3 - 1) < 2.0**-19
    same_bits(got[1:], np.array([0.0, -0.0, np.inf, -np.inf, 0.0, np.inf]))


@pytest.mark.parametrize("op", ["add", "sub", "mul", "fma"])
def test_packed_floats_flush_subnormals_where_asked(op):
    f4 = np.float32
    tiny, one = f4(1e-40), f4(1)
    a = np.array([[tiny, one]], f4).view(np.uint64)[:, 0]
    b = np.array([[one, f4(1e-39)]], f4).view(np.uint64)[:, 0]
    third = ", {b}" if op == "fma" else ""
    for modifier, kept in (("", True), (".ftz", False)):
        got = evaluate(f"{op}.rn{modifier}.f32x2 {{d}}, {{a}}, {{b}}{third};", a, b, out=np.uint64).view(f4)
        values = [f4(x) if kept else f4(0) if abs(x) < 1e-38 else f4(x) for x in (tiny, one, one, f4(1e-39))]
        x, y = np.array(values[:2], f4), np.array(values[2:], f4)
        want = {"add": x + y, "sub": x - y, "mul": x * y, "fma": (x.astype(float) * y + y).astype(f4)}[op]
        if not kept:
            want = np.where(np.abs(want) < 1e-38, np.copysign(f4(0), want), want)
        same_bits(got, want)
