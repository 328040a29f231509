"""Statements, run on the simulator and on a GPU, do what they say: random programs, moves, prints, assertions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codegen.devices import Runner
from tests.support.lane_kernels import array, kernel, pointer
from tests.support.profiles import times
from tilejit.codegen import generate
from tilejit.dtypes import DTYPES, DType, bool_, float16, float32, float64, int8, int32, int64, uint8, uint32
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import (
    Alloc,
    Assert,
    Assign,
    Break,
    Buffer,
    Const,
    Continue,
    Declare,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    Loop,
    Move,
    Op,
    Print,
    Return,
    Special,
    Stmt,
    Store,
    Sync,
    Var,
    Vector,
)
from tilejit.ir.params import (
    AssertionsParam,
    Param,
    PointerParam,
    ScalarParam,
)
from tilejit.layout import TileLayout
from tilejit.ops.elementwise import reference
from tilejit.simulator import run
from tilejit.target import target

THREADS = 32
THREAD = Special("thread_id")


def const(value: int) -> Const:
    return Const(value, int32)


VARIABLES = tuple(Var(name, int32) for name in "abc")
COMPARISONS = ("less", "equal", "greater_equal", "not_equal")
BINARY = ("add", "sub", "mul", "floordiv", "mod", "bitwise_xor", "minimum", "left_shift", "right_shift")


class _Leave(Exception):
    """Leaves a loop's body ("break", "continue") or the program ("return")."""


def expressions(loops: tuple[Var, ...]) -> st.SearchStrategy[Expr]:
    leaves = st.one_of(
        st.sampled_from((*VARIABLES, *loops, THREAD)),
        st.integers(-5, 40).map(const),
        st.sampled_from([2**31 - 1, -(2**31)]).map(const),
    )
    return st.recursive(
        leaves,
        lambda inner: st.builds(lambda n, x, y: Op(n, (x, y), int32), st.sampled_from(BINARY), inner, inner),
        max_leaves=4,
    )


def conditions(loops: tuple[Var, ...]) -> st.SearchStrategy[Expr]:
    value = expressions(loops)
    return st.builds(lambda n, x, y: Op(n, (x, y), bool_), st.sampled_from(COMPARISONS), value, value)


@st.composite
def blocks(draw: st.DrawFn, depth: int = 3, loops: tuple[Var, ...] = (), rolled: bool = False) -> tuple[Stmt, ...]:
    """Statements on three variables; loops are short, and end."""
    kinds = (
        ["assign", "assign"] + (["if", "for", "unrolled"] if depth else []) + (["break", "continue"] if rolled else [])
    )
    found: list[Stmt] = []
    for kind in draw(st.lists(st.sampled_from([*kinds, "return"] if depth < 3 else kinds), min_size=1, max_size=4)):
        if kind == "assign":
            found.append(Assign(draw(st.sampled_from(VARIABLES)), draw(expressions(loops))))
        elif kind == "if":
            inner = blocks(depth - 1, loops, rolled)
            found.append(If(draw(conditions(loops)), draw(inner), draw(st.one_of(st.just(()), inner))))
        elif kind in ("for", "unrolled"):
            var = Var(f"i{depth}_{len(loops)}_{len(found)}", int32)
            start, stop, step = draw(
                st.sampled_from([(0, 3, 1), (5, -1, -2), (2**31 - 8, 2**31 - 1, 5), (4, 4, 1), (-3, 3, 4)])
            )
            body = draw(blocks(depth - 1, (*loops, var), kind == "for"))
            found.append(For(var, const(start), const(stop), const(step), body, unrolled=kind == "unrolled"))
        else:
            found.append({"break": Break(), "continue": Continue(), "return": Return()}[kind])
    return tuple(found)


def interpret(body: tuple[Stmt, ...], state: dict[str, int]) -> None:
    """The meaning of the statements for one thread."""
    for stmt in body:
        if isinstance(stmt, Assign):
            state[stmt.var.name] = value_of(stmt.value, state)
        elif isinstance(stmt, If):
            interpret(stmt.then if value_of(stmt.cond, state) else stmt.orelse, state)
        elif isinstance(stmt, For):
            interpret_loop(stmt, state)
        else:
            raise _Leave(type(stmt).__name__)


def interpret_loop(stmt: For, state: dict[str, int]) -> None:
    bounds = (value_of(e, state) for e in (stmt.start, stmt.stop, stmt.step))
    for index in range(*bounds):
        state[stmt.var.name] = index
        try:
            interpret(stmt.body, state)
        except _Leave as leave:
            if str(leave) == "Break":
                return
            if str(leave) == "Return":
                raise


def value_of(expr: Expr, state: dict[str, int]) -> int:
    if isinstance(expr, Const):
        return int(expr.value)
    if isinstance(expr, Var):
        return state[expr.name]
    if isinstance(expr, Special):
        return state["thread"]
    assert isinstance(expr, Op)
    x, y = (np.int32(value_of(a, state)) for a in expr.args)
    return int(reference(expr.name, x, y))


@settings(max_examples=times(0.8))
@given(body=blocks())
def test_a_random_program_does_what_an_interpreter_does(device: Runner, body: tuple[Stmt, ...]) -> None:
    out = array("out", int32, 3 * THREADS)
    stores = tuple(Store(Vector(out, build.add(build.mul(THREAD, 3), const(n))), v) for n, v in enumerate(VARIABLES))
    starts = [Declare(v, build.add(THREAD, n)) for n, v in enumerate(VARIABLES)]
    once = Loop((*body, Break()))
    found = np.full(3 * THREADS, -77, np.int32)
    device.run(kernel([*starts, once, *stores], [pointer(out, written=True)], threads=THREADS), [found])
    wanted = np.full(3 * THREADS, -77, np.int32)
    for thread in range(THREADS):
        state = {"thread": thread} | {v.name: thread + n for n, v in enumerate(VARIABLES)}
        try:
            interpret(body, state)
        except _Leave:
            continue
        wanted[3 * thread : 3 * thread + 3] = [state[v.name] for v in VARIABLES]
    assert found.tolist() == wanted.tolist()


def counted(start: Expr, stop: Expr, step: int, *params: Param) -> tuple[Kernel, np.ndarray[Any, Any]]:
    """A kernel that counts the trips of a loop and adds up its index."""
    out, i, trips, total = array("out", int64, 2), Var("i", int32), Var("trips", int64), Var("total", int64)
    loop = For(i, start, stop, const(step), (
        Assign(trips, build.add(trips, 1)),
        Assign(total, build.add(total, build.cast(i, int64))),
    ))
    zero = Const(0, int64)
    body = [Declare(trips, zero), Declare(total, zero), loop]
    body += [Store(Vector(out, const(0)), trips), Store(Vector(out, const(1)), total)]
    return kernel(body, [pointer(out, written=True), *params], threads=1), np.zeros(2, np.int64)


@pytest.mark.parametrize("stop", [2**31 - 1, 2**31 - 2, 2**31 - 3])
def test_a_loop_to_the_end_of_its_type_ends(device: Runner, stop: int) -> None:
    n = Var("n", int32)
    k, found = counted(const(2**31 - 20), n, 4, ScalarParam("n", n))
    device.run(k, [found, np.int32(stop)])
    trips = range(2**31 - 20, stop, 4)
    assert found.tolist() == [len(trips), sum(trips)]


@pytest.mark.parametrize("start", [-(2**31) + 7, 10])
def test_a_loop_counts_down_to_a_run_time_stop(device: Runner, start: int) -> None:
    n = Var("n", int32)
    stop = max(start - 11, -(2**31))
    k, found = counted(const(start), n, -3, ScalarParam("n", n))
    device.run(k, [found, np.int32(stop)])
    trips = range(start, stop, -3)
    assert found.tolist() == [len(trips), sum(trips)]


WIDTHS = [(d, w) for d in DTYPES.values() for w in (1, 2, 4, 8, 16) if w * d.bytes <= 16]


def buffers(dtype: DType, width: int) -> tuple[Buffer, Buffer, Buffer, Buffer]:
    layout = TileLayout.row_major((THREADS * width,))
    registers = Buffer("r", "local", dtype, (width,), TileLayout.row_major((width,)), dtype.bytes)
    smem = Buffer("s", "shared", dtype, (THREADS * width,), layout, 128)
    return array("A", dtype, THREADS * width), array("B", dtype, THREADS * width), registers, smem


@pytest.mark.parametrize(("dtype", "width"), WIDTHS, ids=str)
def test_moves_carry_every_bit(device: Runner, dtype: DType, width: int) -> None:
    a, b, r, s = buffers(dtype, width)
    mine, other = build.mul(THREAD, width), build.mul(build.bitwise_xor(THREAD, 5), width)
    here = Vector(r, const(0), width)
    body = [
        Alloc(r), Alloc(s), Move(here, Vector(a, mine, width)), Move(Vector(s, mine, width), here), Sync("cta"),
        Move(here, Vector(s, other, width)), Move(Vector(b, mine, width), here),
    ]
    random = np.random.default_rng(1)
    data = random.integers(0, 2 if dtype.kind == "bool" else 256, (THREADS, width * dtype.bytes), dtype=np.uint8)
    found = np.zeros_like(data)
    device.run(
        kernel(body, [pointer(a), pointer(b, written=True)], threads=THREADS), [data.reshape(-1), found.reshape(-1)]
    )
    assert (found == data[np.arange(THREADS) ^ 5]).all()


@pytest.mark.parametrize(
    ("dtype", "width", "fill"),
    [(float32, 4, -2.5), (float16, 8, 1.5), (uint8, 16, 7), (float64, 1, 3.0), (int8, 2, -3)],
)
def test_what_lies_outside_is_filled_and_not_written(device: Runner, dtype: DType, width: int, fill: float) -> None:
    a, b, r, _ = buffers(dtype, width)
    n, given = Var("n", int32), Var("fill", dtype)
    inside = build.less(THREAD, n)
    mine, here = build.mul(THREAD, width), Vector(r, const(0), width)
    body = [
        Alloc(r),
        Move(here, Vector(a, mine, width), inside, given),
        Move(Vector(b, mine, width), here, build.less(THREAD, build.add(n, 3))),
    ]
    params = [
        pointer(a),
        ScalarParam("n", n),
        ScalarParam("fill", given),
        pointer(b, True),
    ]
    data = np.arange(1, 1 + THREADS * width).astype(dtype.numpy)
    found = np.full(THREADS * width, 99, dtype.numpy)
    device.run(kernel(body, params, threads=THREADS), [data, np.int32(20), dtype.numpy.type(fill), found])
    wanted = np.full((THREADS, width), 99, dtype.numpy)
    wanted[:20] = data.reshape(THREADS, width)[:20]
    wanted[20:23] = fill
    assert (found.reshape(THREADS, width) == wanted).all()


@pytest.mark.parametrize("dtype", [float16, uint8, bool_, int8, float32, float64], ids=str)
def test_a_threads_own_elements_need_no_order_and_no_neighbours(device: Runner, dtype: DType) -> None:
    r = Buffer("r", "local", dtype, (7,), TileLayout.row_major((7,)), dtype.bytes)
    out = array("out", dtype, 3 * THREADS)
    body: list[Stmt] = [Alloc(r)]
    body += [Store(Vector(r, const(n)), build.cast(build.bitwise_and(THREAD, n), dtype)) for n in (5, 2, 6)]
    place = build.mul(THREAD, 3)
    body += [Store(Vector(out, build.add(place, k)), Load(Vector(r, const(n)))) for k, n in enumerate((2, 5, 6))]
    found = np.zeros((THREADS, 3), dtype.numpy)
    device.run(kernel(body, [pointer(out, True)], threads=THREADS), [found.reshape(-1)])
    assert found.tolist() == [[dtype.numpy.type(t & n).item() for n in (2, 5, 6)] for t in range(THREADS)]


@pytest.mark.parametrize("space", ["global", "shared"])
def test_a_value_from_before_a_barrier_is_not_used_after_it(device: Runner, space: str) -> None:
    layout = TileLayout.row_major((4,))
    a = array("A", float32, 4) if space == "global" else Buffer("S", "shared", float32, (4,), layout, 16)
    out, before, after = array("out", float32, THREADS), Var("before", float32), Var("after", float32)
    first, one = Vector(a, const(0)), Const(1.0, float32)
    body: list[Stmt] = [
        If(build.equal(THREAD, 3), (Store(first, one),)),
        Sync("cta"),
        Let(before, Load(first)),
        Sync("cta"),
        If(build.equal(THREAD, 5), (Store(first, build.add(before, one)),)),
        Sync("cta"),
        Let(after, Load(first)),
        Store(Vector(out, THREAD), build.add(build.mul(after, Const(10.0, float32)), before)),
    ]
    params = [PointerParam(b.name, b, written=True, noalias=True) for b in (out, a)]
    found, memory = np.zeros(THREADS, np.float32), np.zeros(4, np.float32)
    if space == "shared":
        device.run(kernel([Alloc(a), *body], params[:1], threads=THREADS), [found])
    else:
        device.run(kernel(body, params, threads=THREADS), [found, memory])
    assert found.tolist() == [21.0] * THREADS


def test_dynamic_shared_memory_is_one_block_of_separate_buffers(device: Runner) -> None:
    layout = TileLayout.row_major((8192,))
    first, second = (Buffer(n, "shared", float32, (8192,), layout, 1024) for n in ("first", "second"))
    a, x, y = array("A", float32, THREADS), Var("x", float32), Var("y", float32)
    body = [
        Alloc(first), Alloc(second),
        Store(Vector(first, build.add(THREAD, 8192 - THREADS)), build.cast(THREAD, float32)),
        Store(Vector(second, THREAD), Const(100.0, float32)),
        Sync("cta"),
        Let(x, Load(Vector(first, build.sub(8191, THREAD)))),
        Let(y, Load(Vector(second, THREAD))),
        Store(Vector(a, THREAD), build.add(x, y)),
    ]
    found = np.zeros(THREADS, np.float32)
    device.run(kernel(body, [pointer(a, True)], threads=THREADS), [found])
    assert found.tolist() == [131.0 - t for t in range(THREADS)]


def test_ids_are_those_of_the_launch(device: Runner) -> None:
    names = (
        "thread_id",
        "lane_id",
        "warp_id",
        "warpgroup_id",
        "tid_in_wg",
        "cta_id.0",
        "num_ctas.0",
        "cta_id.1",
        "num_ctas.2",
    )
    a = array("A", int64, 2 * 256 * len(names))
    place = build.add(
        build.mul(Special("cta_id.0"), 256 * len(names)), build.mul(build.cast(THREAD, int64), len(names))
    )
    body = [Store(Vector(a, build.add(place, n)), build.cast(Special(name), int64)) for n, name in enumerate(names)]
    found = np.zeros(2 * 256 * len(names), np.int64)
    device.run(kernel(body, [pointer(a, True)], threads=256), [found], grid=2)
    rows = found.reshape(2, 256, len(names))
    for cta in range(2):
        for t in range(256):
            assert rows[cta, t].tolist() == [t, t % 32, t // 32, t // 128, t % 128, cta, 2, 0, 1]


def test_print_writes_as_python_does() -> None:
    n, small = Var("n", uint32), Var("small", int8)
    parts = (
        "100% of",
        n,
        " ",
        small,
        " ",
        Const(1.5, float32),
        " ",
        build.greater(n, 5),
        " ",
        Const(-(2**40), int64),
        "\n",
    )
    params = [ScalarParam("n", n), ScalarParam("small", small)]
    written: list[str] = []
    made = generate(kernel([Print(parts)], params, threads=1), target("sm_90"))
    run(made.ptx, made.entry, (1,), (1,), [np.uint32(4000000000), np.int8(-3)], write=written.append)
    assert "".join(written) == "100% of4000000000 -3 1.5 True -1099511627776\n"


def test_the_first_failed_assertion_leaves_a_record_and_its_thread_ends(device: Runner) -> None:
    a, limit = array("A", int32, 2 * THREADS), Var("limit", int32)
    cta = Special("cta_id.0")
    place = build.add(build.mul(build.cast(cta, int32), THREADS), THREAD)
    body = [
        Assert(build.greater(limit, 0), "a limit"),
        Assert(build.less(place, limit), "past the limit"),
        Store(Vector(a, place), const(1)),
    ]
    params = [
        pointer(a, True),
        ScalarParam("limit", limit),
        AssertionsParam(),
    ]
    found, record = np.zeros(2 * THREADS, np.int32), np.zeros(8, np.uint32)
    device.run(kernel(body, params, threads=THREADS, debug=True), [found, np.int32(40), record], grid=2)
    assert found.tolist() == [1] * 40 + [0] * 24
    assert record[0] == 2 and 8 <= record[1] < THREADS and record[2:5].tolist() == [1, 0, 0]
    record[:] = 0
    device.run(kernel(body, params, threads=THREADS, debug=True), [found, np.int32(64), record], grid=2)
    assert not record.any()
