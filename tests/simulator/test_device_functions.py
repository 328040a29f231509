"""Calls: parameters, results, frames, recursion, calls through addresses, and errors about them."""

import numpy as np
import pytest

from tests.simulator.small_kernels import HEADER, aligned, pointer
from tilejit.errors import RaceError, SimulationError, UninitializedReadError, UnsupportedInstructionError
from tilejit.simulator import run

START = """
.reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %x<8>;
mov.u32 %r1, %tid.x; ld.param.u64 %x1, [out]; mad.wide.u32 %x2, %r1, 4, %x1;
"""


def call(name, *arguments, result="%r2", guard=""):
    """A call sequence as compilers write it."""
    out = f"({'r'}), " if result else ""
    text = "{ .param .b32 r; " if result else "{ "
    for i, argument in enumerate(arguments):
        text += f".param .b32 a{i}; st.param.b32 [a{i}+0], {argument}; "
    text += f"{guard} call.uni {out}{name}, ({', '.join(f'a{i}' for i in range(len(arguments)))});"
    return text + (f" ld.param.b32 {result}, [r+0]; }}" if result else " }")


def function(name, body, count=1, registers=".reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %x<8>;"):
    """A function of `count` integers; %r1, %r2, ... hold them, and it returns %r9."""
    params = ", ".join(f".param .b32 {name}_{i}" for i in range(count))
    loads = " ".join(f"ld.param.u32 %r{i + 1}, [{name}_{i}];" for i in range(count))
    head = f".func (.param .b32 out) {name}({params})"
    return f"{head} {{\n{registers}\n{loads}\n{body}\nst.param.b32 [out+0], %r9; ret;\n}}\n"


def launch(functions, body, threads=64, before="", **options):
    out = aligned(np.zeros(threads, "u4"))
    ptx = f"{HEADER}{before}{functions}.visible .entry k(.param .u64 out) {{\n{START}\n{body}\nret;\n}}\n"
    run(ptx, "k", (1,), (threads,), [pointer(out, "out")], **options)
    return out


STORE = "st.global.u32 [%x2], %r2;"
TWICE = function("twice", "add.u32 %r9, %r1, %r1;")
FACTORIAL = function("factorial", f"""
mov.u32 %r9, 1; setp.le.u32 %p1, %r1, 1; @%p1 bra DONE;
sub.u32 %r3, %r1, 1; setp.gt.u32 %p2, %r1, 3; cvt.u64.u32 %x1, %r1; {call("factorial", "%r3", result="%r4")}
cvt.u32.u64 %r5, %x1; mul.lo.u32 %r9, %r4, %r5; @%p2 add.u32 %r9, %r9, 1;
DONE: """)
schedules = pytest.mark.parametrize("schedule", range(3))


def longhand_factorial(n):
    return 1 if n <= 1 else n * longhand_factorial(n - 1) + (n > 3)


@schedules
def test_each_thread_gets_its_result(schedule):
    out = launch(TWICE, f"{call('twice', '%r1')} {STORE}", schedule=schedule)
    assert out.tolist() == [2 * t for t in range(64)]


def test_parameters_and_results_have_offsets_in_any_notation():
    functions = TWICE.replace("[twice_0]", "[twice_0+0x0]").replace("[out+0]", "[ out + 0x0 ]")
    out = launch(functions, f"{call('twice', '%r1')} {STORE}".replace("[a0+0]", "[a0+0x0]"))
    assert out.tolist() == [2 * t for t in range(64)]


@schedules
def test_registers_keep_their_values_across_recursive_calls(schedule):
    """A predicate and numbers of 32 and 64 bits are needed after the call; lanes recur to different depths."""
    out = launch(FACTORIAL, f"rem.u32 %r3, %r1, 9; {call('factorial', '%r3')} {STORE}", schedule=schedule)
    assert out.tolist() == [longhand_factorial(t % 9) for t in range(64)]


def test_functions_that_call_each_other():
    even = function("even", f"""
    mov.u32 %r9, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra DONE; sub.u32 %r3, %r1, 1; {call("odd", "%r3", result="%r9")}
    DONE: """)
    odd = function("odd", f"""
    mov.u32 %r9, 0; setp.eq.u32 %p1, %r1, 0; @%p1 bra DONE; sub.u32 %r3, %r1, 1; {call("even", "%r3", result="%r9")}
    DONE: """)
    declared = ".func (.param .b32 out) odd(.param .b32 odd_0);\n"
    out = launch(declared + even + odd, f"{call('even', '%r1')} {STORE}", threads=32)
    assert out.tolist() == [(t + 1) % 2 for t in range(32)]


@schedules
def test_only_lanes_with_the_predicate_call_and_return(schedule):
    early = function("early", "mov.u32 %r9, 7; setp.lt.u32 %p1, %r1, 20; st.param.b32 [out+0], %r9; @%p1 ret; "
                              "add.u32 %r9, %r9, %r1;")
    body = f"mov.u32 %r2, 5; setp.lt.u32 %p3, %r1, 40; {call('early', '%r1', result='', guard='@%p3')} {STORE}"
    body = body.replace("{ .param .b32 a0", "{ .param .b32 r; st.param.b32 [r+0], %r2; .param .b32 a0")
    body = body.replace("call.uni early", "call.uni (r), early").replace("(a0);", "(a0); ld.param.b32 %r2, [r+0];")
    out = launch(early, body, schedule=schedule)
    # lanes that don't call load what they have stored at the place of the result
    assert out.tolist() == [7 if t < 20 else 7 + t if t < 40 else 5 for t in range(64)]


@schedules
def test_calls_through_addresses_reach_each_lanes_function(schedule):
    functions = "".join(function(f"add{i}", f"add.u32 %r9, %r1, {i};") for i in range(3))
    table = ".global .align 8 .u64 table[3] = {add0, add1, add2};\n"
    body = f"""
    rem.u32 %r3, %r1, 3; mov.u64 %x3, table; mad.wide.u32 %x3, %r3, 8, %x3; ld.global.u64 %x4, [%x3];
    {{ .param .b32 a0; st.param.b32 [a0+0], %r1; .param .b32 r;
    prototype_0 : .callprototype (.param .b32 _) _ (.param .b32 _);
    call (r), %x4, (a0), prototype_0; ld.param.b32 %r2, [r+0]; }}
    {STORE}"""
    out = launch(functions, body, before=table, schedule=schedule)
    assert out.tolist() == [t + t % 3 for t in range(64)]
    direct = body + f"{call('add1', '%r2')} {STORE}"
    assert launch(functions, direct, before=table).tolist() == [t + t % 3 + 1 for t in range(64)]
    with pytest.raises(SimulationError, match="thread 5 .* calls the address 0x7b, at which there is no function with"):
        launch(functions, body.replace("ld.global.u64 %x4, [%x3];",
               "ld.global.u64 %x4, [%x3]; setp.eq.u32 %p1, %r1, 5; @%p1 mov.u64 %x4, 123;"), before=table)
    with pytest.raises(SimulationError, match="no function with these parameters"):
        wide = function("pair", "mov.u32 %r9, 0;", count=2)
        launch(functions + wide, body, before=table.replace("add2", "pair"))


def test_structures_arrays_and_narrow_values_are_passed_in_memory():
    swap = """
    .func (.param .align 8 .b8 out[16]) swap(.param .align 8 .b8 swap_0[12], .param .b32 swap_1) {
    .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .b64 %x<4>; .local .align 8 .b8 depot[16];
    ld.param.u32 %r1, [swap_0+8]; ld.param.v2.u32 {%r2, %r3}, [swap_0]; ld.param.u8 %h1, [swap_1];
    mov.u64 %x1, depot; cvta.local.u64 %x2, %x1; st.u32 [%x2+4], %r1; st.local.u32 [depot+8], %r2;
    ld.local.u32 %r4, [%x1+4]; ld.local.u32 %r5, [%x1+8]; cvt.u32.u16 %r6, %h1;
    st.param.v2.b32 [out+0], {%r4, %r5}; st.param.b32 [out+8], %r3; st.param.b32 [out+12], %r6; ret; }
    """
    body = f"""
    {{ .param .align 8 .b8 a[12]; add.u32 %r3, %r1, 100; add.u32 %r4, %r1, 200; add.u32 %r5, %r1, 1000;
    st.param.v2.b32 [a+0], {{%r1, %r3}}; st.param.b32 [a+8], %r4; .param .b32 b; st.param.b32 [b+0], %r5;
    .param .align 8 .b8 r[16]; call.uni (r), swap, (a, b);
    ld.param.v2.b32 {{%r6, %r7}}, [r+0]; ld.param.v2.b32 {{%r8, %r9}}, [r+8]; }}
    mul.lo.u32 %r6, %r6, 1000; add.u32 %r2, %r6, %r7; mul.lo.u32 %r8, %r8, 7; add.u32 %r2, %r2, %r8;
    mul.lo.u32 %r9, %r9, 5; add.u32 %r2, %r2, %r9; {STORE}"""
    out = launch(swap, body)
    assert out.tolist() == [(t + 200) * 1000 + t + 7 * (t + 100) + 5 * ((t + 1000) % 256) for t in range(64)]


def test_frames_belong_to_calls():
    """Each depth of a recursion has a local array of its own; the innermost writes to those of its callers."""
    inner = function("inner", f"""
    ld.param.u32 %r2, [inner_1]; cvt.u64.u32 %x1, %r2; mov.u64 %x2, depot; st.local.u32 [depot], %r1;
    setp.eq.u32 %p1, %r1, 0; @%p1 bra DONE; sub.u32 %r3, %r1, 1; cvt.u32.u64 %r4, %x2;
    {call("inner", "%r3", "%r4", result="%r5")}
    DONE: setp.eq.u32 %p2, %r2, 0; @%p2 bra LAST; ld.local.u32 %r6, [%x1]; add.u32 %r6, %r6, 100;
    st.local.u32 [%x1], %r6;
    LAST: ld.local.u32 %r9, [depot];
    """, count=2, registers=".reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %x<8>; .local .align 4 .b8 depot[4];")
    out = launch(inner, f"and.b32 %r3, %r1, 3; mov.u32 %r4, 0; {call('inner', '%r3', '%r4')} {STORE}")
    assert out.tolist() == [t % 4 + 100 * (t % 4 > 0) for t in range(64)]


@schedules
def test_barriers_shared_memory_and_loops_in_functions(schedule):
    body = """
    .shared .align 4 .b8 s[256];
    mov.u32 %r3, s; mad.lo.u32 %r4, %r1, 4, %r3; st.shared.u32 [%r4], %r1; bar.sync 0;
    xor.b32 %r5, %r1, 63; mad.lo.u32 %r4, %r5, 4, %r3; ld.shared.u32 %r9, [%r4]; bar.sync 0;
    """
    loop = f"""mov.u32 %r3, 0; mov.u32 %r2, %r1;
    LOOP: {call("mirror", "%r1", result="%r4")} add.u32 %r2, %r2, %r4; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 3;
    @%p1 bra LOOP; {STORE}"""
    out = launch(function("mirror", body), loop, schedule=schedule)
    assert out.tolist() == [t + 3 * (63 - t) for t in range(64)]
    with pytest.raises(RaceError, match="from|PTX line"):
        launch(function("mirror", body.replace("bar.sync 0;", "", 1)), loop, schedule=schedule)


def test_the_end_of_a_body_is_a_return():
    text = TWICE.replace("ret;\n}", "}")
    assert launch(text, f"{call('twice', '%r1')} {STORE}").tolist() == [2 * t for t in range(64)]


def test_a_recursion_that_is_too_deep_shows_its_calls():
    endless = function("endless", call("endless", "%r1", result="%r9"))
    with pytest.raises(SimulationError, match=r"thread 0 .* is \d+ calls deep: its stack has no room") as caught:
        launch(endless, f"{call('endless', '%r1')} {STORE}")
    lines = str(caught.value).splitlines()
    assert sum("call.uni (r), endless" in line for line in lines) == 9
    assert any(line.startswith("after ") and line.endswith(" other calls") for line in lines)
    assert lines[-1] == "help: end the recursion earlier"


def test_a_short_chain_of_calls_is_shown_whole(monkeypatch):
    from tilejit.simulator.decode import functions

    monkeypatch.setattr(functions, "STACK_BYTES", 96)
    with pytest.raises(SimulationError, match="is 4 calls deep") as caught:
        launch(FACTORIAL.replace("factorial", "product"), f"mov.u32 %r3, 9; {call('product', '%r3')} {STORE} // short")
    text = str(caught.value)
    assert text.count("call.uni (r), product") == 5 and "other calls" not in text and text.count("// short") == 1


def test_unwritten_results_and_parameters_are_reported():
    with pytest.raises(UninitializedReadError, match="which nothing has written"):
        launch(TWICE.replace("st.param.b32 [out+0], %r9;", ""), f"{call('twice', '%r1')} {STORE}")
    with pytest.raises(UninitializedReadError, match="which nothing has written"):
        launch(TWICE, f"{call('twice', '%r1')} {STORE}".replace("st.param.b32 [a0+0], %r1;", ""))


@pytest.mark.parametrize("body, message", [
    (call("malloc", "%r1"), "call of malloc, which the PTX doesn't define"),
    ("call.uni twice, (missing);", "missing is not declared"),
    ("call.uni (r), twice;", "r is not declared"),
    ("{ .param .b32 r; prototype_0 : .callprototype (.param .b32 _) _ (); call (r), %x1, (), prototype_0; }",
     "no function whose address is taken has parameters of these sizes"),
])
def test_calls_that_cannot_be_linked_are_refused(body, message):
    with pytest.raises(UnsupportedInstructionError, match=message):
        launch(".extern .func (.param .b32 out) malloc(.param .b32 m_0);\n" + TWICE, body)


def test_a_function_with_unsupported_code_is_refused_only_where_it_may_be_called():
    odd = function("odd", "frob.u32 %r9, %r1;")
    assert launch(TWICE + odd, f"{call('twice', '%r1')} {STORE}")[5] == 10
    with pytest.raises(UnsupportedInstructionError, match="frob.u32 is not supported"):
        launch(TWICE + odd, f"{call('odd', '%r1')} {STORE}")


def test_functions_print(capsys):
    text = '.global .align 1 .b8 form[7] = {120, 32, 37, 100, 10, 0, 0};\n'
    show = function("show", """
    .local .align 8 .b8 depot[8];
    mov.u64 %x1, depot; cvta.local.u64 %x2, %x1; st.u32 [%x2], %r1; mov.u64 %x3, form; cvta.global.u64 %x3, %x3;
    { .param .b64 a0; st.param.b64 [a0+0], %x3; .param .b64 a1; st.param.b64 [a1+0], %x2; .param .b32 r;
    call.uni (r), vprintf, (a0, a1); ld.param.b32 %r9, [r+0]; }
    """)
    declared = ".extern .func (.param .b32 out) vprintf(.param .b64 a, .param .b64 b);\n"
    launch(declared + show, f"{call('show', '%r1')} {STORE}", threads=3, before=text)
    assert capsys.readouterr().out == "x 0\nx 1\nx 2\n"
