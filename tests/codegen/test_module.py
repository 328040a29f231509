"""The module around a kernel: entry, parameters, shared memory, line information, print and assert."""

from __future__ import annotations

import re

import pytest

from tests.support.lane_kernels import THREAD, array, kernel, pointer, shared
from tests.support.ptx import locations, made
from tilejit.codegen import Generated, generate
from tilejit.dtypes import (
    float32,
    float64,
    int8,
    int32,
)
from tilejit.errors import TilejitError
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import (
    Alloc,
    Assert,
    Const,
    Kernel,
    Let,
    Load,
    Op,
    Print,
    Special,
    Stmt,
    Store,
    Sync,
    Var,
    Vector,
)
from tilejit.ir.params import (
    AssertionsParam,
    PointerParam,
    ScalarParam,
)
from tilejit.ir.placements import DYNAMIC, STATIC, total
from tilejit.source import Span
from tilejit.target import target


def test_the_kernel_is_an_entry_with_its_limits() -> None:
    a = array("A", float32, 4096)
    ptx = made(kernel([Store(Vector(a, THREAD), Const(1.0, float32))], [pointer(a, True)], max_registers=40)).ptx
    assert ".visible .entry k(" in ptx and ".maxntid 128" in ptx and ".maxnreg 40" in ptx
    assert ".param .u64 .ptr .global .align 16 k_param_0" in ptx


def test_a_cluster_is_part_of_the_entry() -> None:
    a = array("A", float32, 4096)
    ptx = made(kernel([Store(Vector(a, THREAD), Const(1.0, float32))], [pointer(a, True)], cluster=(2, 1, 1))).ptx
    assert ".reqnctapercluster 2, 1, 1" in ptx


@pytest.mark.parametrize("name", ["softmax", "größe", "_private", "abs", "ret", "add", "bar", "reg", "func"])
def test_any_python_name_becomes_a_legal_entry(name: str) -> None:
    a = array("A", float32, 4096)
    generated = made(kernel([Store(Vector(a, THREAD), Const(1.0, float32))], [pointer(a, True)], name=name))
    assert f".visible .entry {generated.entry}(" in generated.ptx
    assert generated.entry.isascii()


@pytest.mark.parametrize("noalias", [True, False])
def test_only_what_is_proved_to_stay_the_same_is_noalias_and_its_loads_stay_where_they_are(noalias: bool) -> None:
    a, b = (array(n, float32, 4096) for n in "AB")
    value = Var("v", float32)
    body = [Let(value, Load(Vector(b, THREAD))), Sync("cta"), Store(Vector(a, THREAD), value)]
    params = [PointerParam("A", a, written=True, noalias=noalias), PointerParam("B", b, noalias=noalias)]
    generated = made(kernel(body, params))
    (signature,) = [line for line in generated.llvm_ir.splitlines() if line.startswith("define")]
    assert ["noalias" in text for text in signature.split(", ")] == [False, noalias]
    # `.nc` would let ptxas move it past the barrier
    assert ".nc" not in generated.ptx


def test_shared_memory_beyond_48_kb_is_dynamic() -> None:
    def with_shared(*sizes: int) -> tuple[Kernel, Generated]:
        buffers = [shared(f"s{n}", float32, size) for n, size in enumerate(sizes)]
        a, v = array("A", float32, 4096), Var("v", float32)
        body: list[Stmt] = [Alloc(b) for b in buffers]
        body += [Store(Vector(b, THREAD), Const(1.0, float32)) for b in buffers]
        body += [
            Sync("cta"),
            Let(v, Load(Vector(buffers[-1], build.bitwise_xor(THREAD, 1)))),
            Store(Vector(a, THREAD), v),
        ]
        lane = kernel(body, [pointer(a, True)])
        return lane, made(lane)

    lane, small = with_shared(100, 4096)
    assert [(p.name, p.where, p.first) for p in lane.memory] == [("s0", STATIC, 0), ("s1", STATIC, 512)]
    assert ".extern" not in small.ptx and ".align 128 .b8 shared1_s1[16384]" in small.ptx
    in_variables = [("shared0_s0", 0, 400), ("shared1_s1", 0, 4 * 4096)]
    assert [(p.variable, p.first, p.bytes) for p in small.shared_map] == in_variables
    lane, large = with_shared(100, 16384)
    assert [(p.name, p.where, p.first) for p in lane.memory] == [("s0", DYNAMIC, 0), ("s1", DYNAMIC, 512)]
    assert total(lane.memory, DYNAMIC) == 512 + 4 * 16384
    assert [(p.variable, p.first) for p in large.shared_map] == [("dynamic_shared", 0), ("dynamic_shared", 512)]
    assert ".extern .shared .align 128 .b8 dynamic_shared[];" in large.ptx
    assert "dynamic_shared+512" in large.ptx or "+512]" in large.ptx


def test_lines_are_the_statements_and_columns_count_spans() -> None:
    helper = Span("h.py", 40, 0, 40, 5, "x", caller=Span("k.py", 11, 0, 11, 5, "y"))
    spans = [Span("k.py", 10, 0, 10, 5, "z"), helper]
    a = array("A", float32, 4096)
    body = [
        Store(Vector(a, THREAD), Const(1.0, float32), span=spans[0]),
        Sync("cta"),
        Store(Vector(a, THREAD), Const(2.0, float32), span=spans[1]),
    ]
    generated = made(kernel(body, [pointer(a, True)], span=Span("k.py", 9, 0, 9, 5, "def")))
    files = dict(re.findall(r'\.file\t(\d+) "([^"]+)"', generated.ptx))
    places = [
        (files[f], line, generated.spans[column - 1]) for f, line, column in locations(generated.ptx, "st.global")
    ]
    assert places == [("k.py", 10, spans[0]), ("h.py", 40, helper)]
    assert ".section\t.debug_info" not in generated.ptx and ", debug" not in generated.ptx


def test_print_passes_its_values_in_a_row() -> None:
    n = Var("n", int8)
    body = [Print(("n% =", build.greater(n, 0), n, Const(1.5, float32), THREAD, Special("cta_id.0"), "\n"))]
    ptx = made(kernel(body, [ScalarParam("n", n)])).ptx
    assert "vprintf" in ptx
    texts = re.findall(r"text\d+\[\d+\] = \{([\d, ]+)\}", ptx)
    strings = [bytes(int(x) for x in text.split(",")).rstrip(b"\0") for text in texts]
    assert strings == [b"True", b"False", b"n%% =%s%d%g%d%lld\n"]


def test_an_assertion_records_and_ends_the_thread_only_in_debug() -> None:
    a, span = array("A", int32, 4096), Span("k.py", 5, 0, 5, 5, "assert n > 0")
    check = Assert(build.greater(Var("n", int32), 0), "n must be positive", span=span)
    body = [check, Store(Vector(a, THREAD), Var("n", int32))]
    params = [pointer(a, True), ScalarParam("n", Var("n", int32))]
    plain = made(kernel(body, params))
    assert "atom" not in plain.ptx and plain.assertions == ()
    debug = made(kernel(body, [*params, AssertionsParam()], debug=True))
    assert debug.ptx.count("atom.global.cas.b32") == 1 and "trap" not in debug.ptx
    assert debug.assertions == (check,) and debug.assertions[0].span == span


def test_an_operation_without_implementation_is_an_error_that_names_it() -> None:
    span = Span("k.py", 5, 0, 5, 5, "tj.gamma(x)")
    x = Var("x", float64)
    out = array("out", float64, 4096)
    body = [Store(Vector(out, THREAD), Op("gamma", (x,), float64, span=span))]
    with pytest.raises(TilejitError, match="gamma has no implementation for float64") as raised:
        generate(kernel(body, [pointer(out, True), ScalarParam("x", x)]), target("sm_90"))
    assert raised.value.span is span
