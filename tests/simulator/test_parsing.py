"""What is not understood is refused with its PTX line, before anything runs."""

import numpy as np
import pytest

from tests.simulator.small_kernels import HEADER, kernel, pointer
from tilejit.errors import LaunchError, UnsupportedInstructionError
from tilejit.simulator import run


def refuse(body, match, module=None):
    module = kernel(body + "\nret;") if module is None else module
    with pytest.raises(UnsupportedInstructionError, match=match) as e:
        run(module, "k", (1,), (1,), [])
    assert "PTX line" in str(e.value)


@pytest.mark.parametrize("text", [
    "frobnicate.u32 %r1, %r2;", "add.u7 %r1, %r1, %r1;", "add.rn.u32 %r1, %r1, %r1;", "add.f32.rn %r1, %r1, %r1;",
    "ld.globl.u32 %r1, [%x1];", "cvt.f16.f64x %h1, %x1;", "mul.u32 %r1, %r1, %r1;",
    "shfl.sync.b32 %r1, %r1, 1, 31, -1;",
    "setp.foo.u32 %p1, %r1, %r2;",
    "atom.global.mul.u32 %r1, [%x1], 1;", "wgmma.fence.aligned;",
    "bra.frob END; END:", "exit.now;",
])
def test_unknown_opcodes_and_modifiers_are_refused(text):
    refuse(text, "not supported")


@pytest.mark.parametrize("text", [
    "add.u32 %r1, %q1, 1;", "add.u32 %nothere, %r1, 1;", "mov.u64 %x1, nowhere;", "st.global.u32 [nowhere], 1;",
])
def test_undeclared_names_are_refused(text):
    refuse(text, "not a declared|neither declared nor|not declared|not an address|cannot parse")


@pytest.mark.parametrize("text", [
    ".reg .b32 %z, %z;", ".reg .b32 %z<3>; .reg .f32 %z1;", "{ .reg .pred p; .reg .b32 p; }",
])
def test_registers_declared_twice_in_a_scope_are_refused(text):
    refuse(text, "is declared twice in one scope")


def test_a_name_may_be_another_register_in_an_inner_scope():
    body = ".reg .b32 %z; mov.u32 %z, 1; { .reg .f32 %z; mov.f32 %z, 0f00000000; } { .reg .pred %z; }\nret;"
    run(kernel(body), "k", (1,), (1,), [])


def test_unknown_labels_are_refused():
    refuse("bra NOWHERE;", "NOWHERE")


@pytest.mark.parametrize("text", ["add.u32 %x1, %r1, %r1, ;", "add.u64 %r1, %x1, %x1;", "mov.u32 %r1, 0x;"])
def test_operands_that_dont_fit_are_refused(text):
    refuse(text, "width|operand|literal")


def test_a_missing_operand_is_refused():
    refuse("add.u32 %r1, %r2;", "operand")


@pytest.mark.parametrize("text", [".frob 5;", ".reg .q32 %z;", "?"])
def test_unknown_directives_are_refused(text):
    refuse(text, "not supported|unknown|cannot parse")


def with_function(body):
    return HEADER + ".func f() { frobnicate; { ret; } }\n" + kernel(body)[len(HEADER) :]


def test_a_kernel_that_may_call_a_function_with_unknown_code_is_refused():
    refuse("", "frobnicate is not supported", with_function("call.uni f;\nret;"))


def test_a_function_that_the_kernel_doesnt_reach_doesnt_matter():
    other = kernel("frobnicate;")[len(HEADER) :].replace(".entry k", ".entry other")
    run(with_function("ret;") + other, "k", (1,), (1,), [])
    with pytest.raises(UnsupportedInstructionError, match="frobnicate"):
        run(with_function("ret;") + other, "other", (1,), (1,), [])


def test_calls_of_unknown_functions_are_refused():
    refuse("{ .param .b32 a; call.uni frob, (a); }", "frob")


def test_a_missing_kernel_names_those_there_are():
    with pytest.raises(UnsupportedInstructionError, match="it has: k"):
        run(kernel("ret;"), "other", (1,), (1,), [])


def test_the_refusal_shows_the_line():
    body = "mov.u32 %r1, 0;\nfrobnicate %r1;\nret;"
    with pytest.raises(UnsupportedInstructionError) as e:
        run(kernel(body), "k", (1,), (1,), [])
    line = kernel(body).splitlines().index("frobnicate %r1;") + 1
    assert f"PTX line {line}: frobnicate %r1;" in str(e.value)


def test_comments_of_both_kinds_are_skipped():
    run(kernel("mov.u32 %r1, 0; // frobnicate;\n/* frob\n;nicate */ ret;"), "k", (1,), (1,), [])


def test_arguments_must_fit_their_parameters():
    module = kernel("ret;", ".param .u64 p0, .param .u32 p1")
    with pytest.raises(LaunchError, match="takes 2 arguments, got 1"):
        run(module, "k", (1,), (1,), [pointer(np.zeros(1))])
    with pytest.raises(LaunchError, match="p1 has 4 bytes; its argument has 8"):
        run(module, "k", (1,), (1,), [pointer(np.zeros(1)), np.int64(3)])


def test_launches_beyond_the_limits_are_refused():
    with pytest.raises(LaunchError, match="1024"):
        run(kernel("ret;"), "k", (1,), (2048,), [])
    with pytest.raises(LaunchError, match="integers of at least"):
        run(kernel("ret;"), "k", (-1,), (32,), [])
