"""What the PTX of small lane-level kernels looks like."""

from __future__ import annotations

import re

import pytest

from tests.support.lane_kernels import THREAD, array, const, kernel, local, pointer, shared, unrolled
from tests.support.ptx import instructions, made
from tilejit.codegen import generate
from tilejit.dtypes import (
    DType,
    bfloat16,
    bool_,
    float8_e4m3fn,
    float16,
    float32,
    float64,
    int16,
    int32,
    int64,
    uint8,
    uint32,
)
from tilejit.errors import TilejitError
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import (
    Alloc,
    Assign,
    Break,
    Buffer,
    BufferView,
    Const,
    Continue,
    Declare,
    Expr,
    For,
    If,
    Instruction,
    Load,
    Loop,
    Move,
    Return,
    Special,
    Stmt,
    Store,
    Sync,
    Var,
    Vector,
)
from tilejit.ir.params import (
    ScalarParam,
)
from tilejit.layout import TileLayout
from tilejit.source import Span
from tilejit.target import target

CONTAINERS = [
    (float32, 4, "v4.b32"), (float32, 2, "v2.b32"), (float32, 1, "b32"), (int32, 4, "v4.b32"), (float64, 2, "v2.b64"),
    (float64, 1, "b64"), (int64, 2, "v2.b64"), (float16, 8, "v4.b32"), (float16, 4, "v2.b32"), (float16, 2, "b32"),
    (float16, 1, "b16"), (bfloat16, 8, "v4.b32"), (uint8, 16, "v4.b32"), (uint8, 8, "v2.b32"), (uint8, 4, "b32"),
    (uint8, 2, "b16"), (uint8, 1, "b8"), (bool_, 4, "b32"), (float8_e4m3fn, 16, "v4.b32"), (int16, 2, "b32"),
]


@pytest.mark.parametrize(("dtype", "width", "container"), CONTAINERS, ids=lambda v: str(v))
def test_a_move_is_one_access_of_its_width(dtype: DType, width: int, container: str) -> None:
    a, b, r, s = array("A", dtype, 4096), array("B", dtype, 4096), local("r", dtype, width), shared("s", dtype, 4096)
    offset = build.mul(THREAD, width)
    there, here = Vector(s, offset, width), Vector(r, const(0), width)
    body = [
        Alloc(s),
        Alloc(r),
        Move(here, Vector(a, offset, width)),
        Move(there, here),
        Sync("cta"),
        Move(here, Vector(s, build.bitwise_xor(offset, width), width)),
        Move(Vector(b, offset, width), here),
    ]
    ptx = made(kernel(body, [pointer(a), pointer(b, written=True)])).ptx
    accesses = re.findall(r"\b(?:ld|st)\.(?:global|shared)\S*", ptx)
    assert accesses == [f"{way}.{container}" for way in ("ld.global", "st.shared", "ld.shared", "st.global")]


def test_32_bytes_are_one_access_from_sm_100a_and_two_before() -> None:
    a, b, r = array("A", float32, 4096, 32), array("B", float32, 4096, 32), local("r", float32, 8)
    offset = build.mul(THREAD, 8)
    body = [
        Alloc(r),
        Move(Vector(r, const(0), 8), Vector(a, offset, 8)),
        Move(Vector(b, offset, 8), Vector(r, const(0), 8)),
    ]
    params = [pointer(a), pointer(b, written=True)]
    older = made(kernel(body, params, "sm_90a")).ptx
    assert older.count("ld.global.v4.b32") == 2
    newer = made(kernel(body, params, "sm_100a")).ptx
    assert newer.count("ld.global.v4.b64") == 1 and ".version 8.8" in newer


@pytest.mark.parametrize(
    ("dtype", "width", "multiple", "accesses"),
    [
        (float32, 4, 4, ["v4.b32"]), (float32, 4, 2, ["v2.b32"] * 2), (float32, 4, 1, ["b32"] * 4),
        (float64, 2, 2, ["v2.b64"]), (float16, 8, 4, ["v2.b32"] * 2), (float16, 2, 1, ["b16"] * 2),
        (uint8, 16, 16, ["v4.b32"]), (float32, 3, 1, ["b32"] * 3),
    ],
)
def test_an_addressed_buffer_is_accessed_as_widely_as_its_place_allows(
    dtype: DType, width: int, multiple: int, accesses: list[str]
) -> None:
    a, r, q = array("A", dtype, 4096), local("r", dtype, 64), local("q", dtype, width)
    index = build.mul(THREAD, multiple)
    body: list[Stmt] = [Alloc(r, addressed=True), Alloc(q)]
    body += [Store(Vector(q, const(k)), Const(k, dtype)) for k in range(width)]
    body += [Move(Vector(r, index, width), Vector(q, const(0), width))]
    body += [Move(Vector(q, const(0), width), Vector(r, build.mul(THREAD, 2 * multiple), width))]
    body += [Store(Vector(a, build.cast(THREAD, int64)), Load(Vector(q, const(width - 1))))]
    ptx = made(kernel(body, [pointer(a, written=True)])).ptx
    assert re.findall(r"st\.local\.(\S*)", ptx) == accesses


def test_registers_leave_no_stack_frame() -> None:
    a, b, r, i = array("A", float16, 4096), array("B", float16, 4096), local("r", float16, 16), Var("i", int32)
    place = lambda buffer: Vector(buffer, build.add(build.mul(THREAD, 16), build.mul(i, 8)), 8)  # noqa: E731
    value = build.op("mul", Load(Vector(r, i)), Load(Vector(r, i)))
    body = [
        Alloc(r),
        unrolled(i, 2, Move(Vector(r, build.mul(i, 8), 8), place(a))),
        unrolled(i, 16, Store(Vector(r, i), value)),
        unrolled(i, 2, Move(place(b), Vector(r, build.mul(i, 8), 8))),
    ]
    ptx = made(kernel(body, [pointer(a), pointer(b, written=True)])).ptx
    assert ".local" not in ptx and "__local_depot" not in ptx
    assert ptx.count("ld.global.v4.b32") == ptx.count("st.global.v4.b32") == 2


def test_a_predicated_load_fills_the_registers_where_it_does_not_happen() -> None:
    a, b, r = array("A", float32, 4096), array("B", float32, 4096), local("r", float32, 4)
    n = Var("n", int32)
    inside = build.less(THREAD, n)
    load = Move(Vector(r, const(0), 4), Vector(a, build.mul(THREAD, 4), 4), inside, Const(float("-inf"), float32))
    body = [Alloc(r), load, Move(Vector(b, build.mul(THREAD, 4), 4), Vector(r, const(0), 4))]
    ptx = made(kernel(body, [pointer(a), ScalarParam("n", n), pointer(b, written=True)])).ptx
    lines = [line.strip() for line in ptx.splitlines()]
    (at,) = [i for i, line in enumerate(lines) if re.match(r"@%p\d+ ld\.global\.v4\.b32", line)]
    assert "bra" not in ptx and any(", -8388608;" in line for line in lines[:at]), "-inf isn't there before"


def test_a_predicated_load_of_what_is_computed_with_is_a_branch_and_so_is_one_between_memories() -> None:
    a, b, r, y = array("A", float32, 4096), array("B", float32, 4096), local("r", float32, 4), local("y", float32, 4)
    place, inside = build.mul(THREAD, 4), build.less(THREAD, 9)
    load = Move(Vector(r, const(0), 4), Vector(a, place, 4), inside, Const(0.0, float32))
    negated = [Store(Vector(y, const(k)), build.neg(Load(Vector(r, const(k))))) for k in range(4)]
    stored = Move(Vector(b, place, 4), Vector(y, const(0), 4), inside)
    params = [pointer(a), pointer(b, written=True)]
    ptx = made(kernel([Alloc(r), Alloc(y), load, *negated, stored], params)).ptx
    assert ptx.count("bra") == 1 and not re.search(r"@%p\d+ ld", ptx) and re.search(r"@%p\d+ st\.global\.v4", ptx)
    ptx = made(kernel([Move(Vector(b, place, 4), Vector(a, place, 4), inside)], params)).ptx
    assert ptx.count("bra") == 1 and not re.search(r"@%p\d+ (ld|st)", ptx)


def test_a_move_that_never_happens_is_no_access() -> None:
    a, b, r = array("A", uint8, 4096), array("B", uint8, 4096), local("r", uint8, 16)
    never = Move(Vector(r, const(0), 16), Vector(a, const(0), 16), Const(False, bool_), Const(7, uint8))
    body = [Alloc(r), never, Move(Vector(b, const(0), 16), Vector(r, const(0), 16))]
    ptx = made(kernel(body, [pointer(a), pointer(b, written=True)])).ptx
    assert "ld.global" not in ptx and str(0x07070707) in ptx


def test_a_view_is_its_roots_storage() -> None:
    a, r = array("A", uint32, 4096), local("r", float32, 4)
    bits = Buffer("bits", "local", uint32, (4,), TileLayout.row_major((4,)), 4, base=r)
    body = [
        Alloc(r),
        BufferView(bits),
        Store(Vector(r, const(2)), build.cast(THREAD, float32)),
        Store(Vector(a, THREAD), Load(Vector(bits, const(2)))),
    ]
    ptx = made(kernel(body, [pointer(a, written=True)])).ptx
    assert "cvt.rn.f32" in ptx and "st.global.b32" in ptx and ".local" not in ptx


def expression_ptx(value: Expr, result: DType, inputs: dict[str, DType], name: str = "sm_90a") -> str:
    """PTX of one thread's `out[thread] = value`, with scalar parameters."""
    out = array("out", result, 4096)
    params = [ScalarParam(n, Var(n, d)) for n, d in inputs.items()]
    return made(kernel([Store(Vector(out, THREAD), value)], [pointer(out, written=True), *params], name)).ptx


def test_nothing_is_contracted() -> None:
    x, y, z = (Var(n, float32) for n in "xyz")
    inputs = dict.fromkeys("xyz", float32)
    two = expression_ptx(build.add(build.mul(x, y), z), float32, inputs)
    assert "mul.rn.f32" in two and "add.rn.f32" in two and "fma" not in two
    one = expression_ptx(build.op("fma", x, y, z), float32, inputs)
    assert "fma.rn.f32" in one and "mul.rn" not in one


@pytest.mark.parametrize("dtype", [float32, float64])
def test_division_and_roots_are_the_rounded_ones_without_flushing(dtype: DType) -> None:
    x, y = Var("x", dtype), Var("y", dtype)
    suffix = f"f{dtype.bits}"
    ptx = expression_ptx(build.op("div", build.op("sqrt", x), y), dtype, {"x": dtype, "y": dtype})
    assert f"div.rn.{suffix}" in ptx and f"sqrt.rn.{suffix}" in ptx and ".ftz" not in ptx and ".approx" not in ptx


def test_half_types_compute_in_float32_and_round_once() -> None:
    x, y = Var("x", bfloat16), Var("y", bfloat16)
    ptx = expression_ptx(build.op("mul", x, y), bfloat16, {"x": bfloat16, "y": bfloat16})
    assert "mul.rn.f32" in ptx and ptx.count("cvt.rn.bf16.f32") == 1
    older = expression_ptx(build.op("mul", x, y), bfloat16, {"x": bfloat16, "y": bfloat16}, "sm_75")
    assert "mul.rn.f32" in older and "bf16" not in older


def test_division_of_what_is_not_negative_is_a_shift() -> None:
    ptx = expression_ptx(build.floordiv(THREAD, const(8)), int32, {})
    assert "shr" in ptx or "bfe" in ptx
    assert "div" not in ptx


@pytest.mark.parametrize("name", ["left_shift", "right_shift"])
@pytest.mark.parametrize("dtype", [int32, uint32])
def test_a_count_that_may_reach_the_width_is_compared_with_it(name: str, dtype: DType) -> None:
    x, y = Var("x", dtype), Var("y", dtype)

    def compares(limit: int) -> bool:
        shifted = build.op(name, x, build.op("mod", y, Const(limit, dtype)))
        ptx = expression_ptx(shifted, dtype, {"x": dtype, "y": dtype})
        return re.search(r"setp\.lt\.u32\s+%p\d+, %r\d+, 32;", ptx) is not None

    assert compares(33) and not compares(32)


def test_fp8_is_converted_by_the_hardware_from_sm_89() -> None:
    x = Var("x", float32)
    newer = expression_ptx(build.cast(x, float8_e4m3fn), float8_e4m3fn, {"x": float32}, "sm_89")
    assert "cvt.rn.satfinite.e4m3x2.f32" in newer
    older = expression_ptx(build.cast(x, float8_e4m3fn), float8_e4m3fn, {"x": float32}, "sm_86")
    assert "e4m3" not in older
    unsaturated = expression_ptx(build.cast(x, float8_e4m3fn, saturate=False), float8_e4m3fn, {"x": float32}, "sm_89")
    assert "e4m3" not in unsaturated


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), -0.0, 1e-45, 3.4e38, 1e300])
@pytest.mark.parametrize("dtype", [float16, bfloat16, float32, float64])
def test_any_float_can_be_a_literal(value: float, dtype: DType) -> None:
    assert "st.global" in expression_ptx(Const(value, dtype), dtype, {})


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 2**64 - 1, -1, 2**31])
def test_a_huge_integer_wraps_as_a_literal(value: int) -> None:
    wrapped = (value + 2**63) % 2**64 - 2**63
    assert str(wrapped) in expression_ptx(Const(value, int64), int64, {})


def test_a_loop_stays_a_loop_without_a_pragma() -> None:
    a, b, i = array("A", float32, 4096), array("B", float32, 4096), Var("i", int32, bounds=(0, 7))
    r = local("r", float32, 4)
    offset = build.add(build.mul(i, 512), build.mul(THREAD, 4))
    loop = For(i, const(0), const(8), const(1), (
        Move(Vector(r, const(0), 4), Vector(a, offset, 4)),
        Move(Vector(b, offset, 4), Vector(r, const(0), 4)),
    ))
    ptx = made(kernel([Alloc(r), loop], [pointer(a), pointer(b, written=True)])).ptx
    assert ptx.count("ld.global.v4.b32") == 1 and "pragma" not in ptx and ptx.count("bra") == 1


def test_a_unrolled_loop_is_written_out() -> None:
    a, i = array("A", int32, 4096), Var("i", int32)
    ptx = made(kernel([unrolled(i, 5, Store(Vector(a, i), i))], [pointer(a, written=True)])).ptx
    assert ptx.count("st.global.b32") == 5 and "bra" not in ptx


def test_break_continue_and_return_make_legal_blocks() -> None:
    a, i, n = array("A", int32, 4096), Var("i", int32), Var("n", int32)
    total = Var("total", int32)
    body = [
        Declare(total, const(0)),
        Declare(Var("left", int32), n),
        For(i, const(0), n, const(1), (
            If(build.equal(i, 3), (Continue(),)),
            If(build.greater(i, 10), (Break(), Store(Vector(a, i), i)), (Assign(total, build.add(total, i)),)),
            If(build.equal(total, 77), (Return(),)),
        )),
        Loop((
            Assign(Var("left", int32), build.sub(Var("left", int32), 1)),
            If(build.less(Var("left", int32), 0), (Break(),)),
            If(build.equal(build.mod(Var("left", int32), 2), 0), (Continue(),), (Assign(total, build.add(total, 1)),)),
        )),
        If(build.less(total, 0), (Return(),), (Store(Vector(a, THREAD), total), Return())),
        Store(Vector(a, const(0)), const(1)),
    ]
    ptx = made(kernel(body, [pointer(a, written=True), ScalarParam("n", n)])).ptx
    assert ".local" not in ptx and "ret;" in ptx


@pytest.mark.parametrize(("start", "stop", "step"), [(7, -1, -1), (0, 100, 7), (2**31 - 10, 2**31 - 1, 4)])
def test_loops_of_any_step_are_legal(start: int, stop: int, step: int) -> None:
    a, i = array("A", int32, 4096), Var("i", int32)
    loop = For(i, const(start), const(stop), const(step), (Store(Vector(a, build.mod(i, 64)), i),))
    assert "bra" in made(kernel([loop], [pointer(a, written=True)])).ptx


def test_a_loop_near_the_end_of_its_type_counts_in_it_and_never_passes_it() -> None:
    a, i, n = array("A", int32, 4096), Var("i", int32), Var("n", int32)
    loop = For(i, const(0), n, const(4), (Store(Vector(a, build.mod(i, 64)), i),))
    text = made(kernel([loop], [pointer(a, True), ScalarParam("n", n)])).llvm_ir
    assert "phi i32" in text and "phi i64" not in text
    # the index is compared with the last one that another iteration follows, not with the end
    (index,) = re.findall(r"(%\d+) = phi i32", text)
    assert re.search(rf"icmp slt i32 {index}, %\d+\n", text)
    loop = For(i, const(0), n, const(1), (Store(Vector(a, build.mod(i, 64)), i),))
    assert "phi i32" in made(kernel([loop], [pointer(a, True), ScalarParam("n", n)])).llvm_ir


def test_barriers_are_those_of_their_scope() -> None:
    a = array("A", int32, 4096)
    body = [Store(Vector(a, THREAD), const(1)), Sync("cta"), Sync("warp"), Sync("warpgroup")]
    listed = instructions(made(kernel(body, [pointer(a, True)], threads=256)).ptx)
    assert "bar.sync \t0;" in listed or "bar.sync 0;" in listed
    assert "bar.warp.sync -1;" in listed
    named = [line for line in listed if line.endswith(", 128;")]
    assert len(named) == 1 and named[0].startswith("bar.sync %r")


def test_an_instruction_that_the_target_lacks_is_an_error_with_its_place() -> None:
    s = shared("s", float16, 64)
    r = local("r", float16, 2)
    span = Span("k.py", 3, 4, 3, 9, "    tj.warp.copy(s, r)")
    store = Instruction("stmatrix.x1", (), (Vector(s, const(0), 8), Vector(r, const(0), 2)), span=span)
    with pytest.raises(TilejitError, match="stmatrix.x1: needs sm_90 or newer; target is sm_80") as raised:
        generate(kernel([Alloc(s), Alloc(r), store], [], "sm_80"), target("sm_80"))
    assert raised.value.span is span


def test_matrix_loads_take_a_shared_address_and_fill_registers() -> None:
    s, r, a = shared("s", float16, 512), local("r", float16, 8), array("A", float16, 4096)
    row = build.mul(Special("lane_id"), 8)
    body = [
        Alloc(s),
        Alloc(r),
        Store(Vector(s, THREAD), Const(1.0, float16)),
        Sync("cta"),
        Instruction("ldmatrix.x4.trans", (Vector(r, const(0), 8),), (Vector(s, row, 8),)),
        Move(Vector(a, build.mul(THREAD, 8), 8), Vector(r, const(0), 8)),
    ]
    ptx = made(kernel(body, [pointer(a, True)])).ptx
    assert re.search(
        r"ldmatrix\.sync\.aligned\.m8n8\.x4\.trans\.shared\.b16 \{%r\d+, %r\d+, %r\d+, %r\d+\}, \[%r\d+\];", ptx
    )
    assert "mov.b32 {" not in ptx, "registers go from the matrix load to the store as they are"


def test_pairs_of_registers_are_one_without_shifts() -> None:
    r, q, a, b = local("r", float32, 4), local("q", float32, 4), array("A", float32, 4096), array("B", float32, 4096)
    place = build.mul(THREAD, 4)
    body: list[Stmt] = [
        Alloc(r),
        Alloc(q),
        Move(Vector(r, const(0), 4), Vector(a, place, 4)),
        Move(Vector(q, const(0), 4), Vector(b, place, 4)),
    ]
    for n in (0, 2):
        pair = Vector(r, const(n), 2)
        body.append(Instruction("add.rn.f32x2", (pair,), (pair, Vector(q, const(n), 2))))
    body.append(Move(Vector(b, place, 4), Vector(r, const(0), 4)))
    ptx = made(kernel(body, [pointer(a), pointer(b, written=True)], "sm_100a")).ptx
    assert ptx.count("add.rn.f32x2") == 2 and "or.b64" not in ptx
    assert ptx.count("ld.global.v2.b64") == 2 and ptx.count("st.global.v2.b64") == 1


def test_loaded_tensor_memory_is_used_only_after_its_wait() -> None:
    r, a = local("r", float32, 4), array("A", float32, 4096)
    pending = Vector(r, const(0), 4)
    body = [
        Alloc(r),
        Instruction("tcgen05.ld.32x32b.x4", (pending,), (const(0),)),
        Instruction("tcgen05.wait.ld", (pending,), (pending,)),
        Move(Vector(a, build.mul(THREAD, 4), 4), pending),
    ]
    lines = instructions(made(kernel(body, [pointer(a, True)], "sm_100a")).ptx)
    order = [next(i for i, line in enumerate(lines) if key in line) for key in ("tcgen05.ld", "wait::ld", "st.global")]
    assert order == sorted(order)


def test_tensor_memory_is_reserved_and_freed_whichever_way_threads_end() -> None:
    layout = TileLayout.from_iters([(128, 1, "TLane"), (16, 1, "TCol")])
    first, second = (Buffer(n, "tmem", float16, (128, 16), layout, 32) for n in ("first", "second"))
    r, a = local("r", float16, 16), array("A", float16, 4096)
    here = Vector(r, const(0), 16)
    body = [
        Alloc(first),
        Alloc(second),
        Alloc(r),
        *(Store(Vector(r, const(n)), Const(n, float16)) for n in range(16)),
        Instruction("tcgen05.st.32x32b.x8", (), (Vector(second, const(0), 16), here)),
        Instruction("tcgen05.wait.st"),
        Sync("cta"),
        If(build.less(THREAD, 64), (Return(),)),
        Store(Vector(a, THREAD), Const(2.0, float16)),
    ]
    ptx = made(kernel(body, [pointer(a, True)], "sm_100a")).ptx
    lines = instructions(ptx)
    assert sum("tcgen05.alloc" in line for line in lines) == sum("tcgen05.dealloc" in line for line in lines) == 1
    assert sum(line == "ret;" for line in lines) == 1
    order = ("tcgen05.alloc", "tcgen05.relinquish", "tcgen05.st", "st.global", "tcgen05.dealloc", "ret")
    places = [next(i for i, line in enumerate(lines) if line.startswith(name)) for name in order]
    assert places == sorted(places)
    assert re.search(r"add\.s32 \t%r\d+, %r\d+, 8;", ptx), "the second buffer follows the first one's 8 columns"


def test_unrolled_accesses_share_an_address_and_add_constants_to_it() -> None:
    s, r, a = shared("s", float16, 4096), local("r", float16, 16), array("A", float16, 4096)
    i = Var("i", int32, bounds=(0, 1))
    row = build.mul(Special("lane_id"), 8)
    moved = build.add(build.add(build.mul(THREAD, 8), build.mul(i, 8)), build.mul(THREAD, 16))
    body = [
        Alloc(s),
        Alloc(r),
        Store(Vector(s, THREAD), Const(1.0, float16)),
        Sync("cta"),
        unrolled(i, 2, Instruction(
            "ldmatrix.x4", (Vector(r, build.mul(i, 8), 8),), (Vector(s, build.add(row, build.mul(i, 256)), 8),)
        )),
        unrolled(i, 2, Move(Vector(a, moved, 8), Vector(r, build.mul(i, 8), 8))),
    ]
    ptx = made(kernel(body, [pointer(a, True)])).ptx
    first, second = re.findall(r"ldmatrix.*, \[(%r\d+)(\+512)?\];", ptx)
    assert first[0] == second[0] and (first[1], second[1]) == ("", "+512")
    stores = re.findall(r"st\.global\.v4\.b32 \t\[(%rd\d+)(\+16)?\]", ptx)
    assert stores[0][0] == stores[1][0] and [past for _, past in stores] == ["", "+16"]
