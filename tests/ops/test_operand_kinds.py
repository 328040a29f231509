"""An operand of another kind, given without the optional one before it, is taken neither for that nor for a tile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

import tilejit as tj
from tests.lower import properties
from tests.support.drafts import Operation
from tests.support.programs import array, statements, tile_ir
from tests.support.proving import prove_verdict
from tilejit.dtypes import DType, float32, int64
from tilejit.errors import DispatchError, KernelTypeError
from tilejit.ir import nodes as ir
from tilejit.ir import verify, walk
from tilejit.ir.analyses import collectives
from tilejit.ir.arithmetic import build
from tilejit.ir.text import parser, printer
from tilejit.ir.verify.operations import tile_op_faults
from tilejit.lower import DispatchContext, Variant, ask, lowering
from tilejit.lower.builder import Builder
from tilejit.lower.engine import dispatch
from tilejit.lower.moves.partition import Partition, copy_vectors
from tilejit.lower.schedule.placement import element_offset
from tilejit.lower.variant import COPY_CONDITIONS, from_to, tiles_in
from tilejit.lower.variants import VARIANTS, copy_fallback, copy_gmem_smem
from tilejit.ops.copies import COPY, COPY_ASYNC
from tilejit.ops.record import OperandKind, TileOperand, TileOperation
from tilejit.ops.tile import CALLS, TILE_OPERATIONS
from tilejit.target import target

BARRIER = OperandKind("barrier", is_region=True)

SIGNALLED = replace(
    COPY,
    name="copy_signalled",
    operands=(*COPY.operands[:3], TileOperand("barrier", kinds=(BARRIER,), optional=True)),
    meaning="as copy; the barrier says when it is done",
)



def emit(plan: Partition, op: ir.TileOp, b: Builder) -> None:
    copy_vectors(plan, op, b)
    if "barrier" in op.options:
        barrier = op.region("barrier")
        place = ir.Vector(barrier.buffer, element_offset(barrier.buffer, barrier.starts))
        b.append(ir.Store(place, build.const(1, int64)))


VARIANT = Variant(
    name="signalled",
    operations=(SIGNALLED.name,),
    priority=10,
    operands=(from_to("global", "shared"),),
    when=COPY_CONDITIONS,
    honours=("fill", "barrier"),
    plan=copy_gmem_smem.plan,
    emit=emit,
)

TEXT = """def k(A):
    b = tj.alloc_shared((4,), tj.int64)
    x = tj.alloc_shared((32, 8), tj.float32)
    tj.cta.copy_signalled({})
"""


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The record in its tables. Whatever else knows of operations reads it there."""
    monkeypatch.setitem(TILE_OPERATIONS, SIGNALLED.name, SIGNALLED)
    monkeypatch.setitem(CALLS, SIGNALLED.name, SIGNALLED)
    yield


def kernel(arguments: str) -> ir.Kernel:
    return tile_ir(TEXT.format(arguments), array(float32, rank=2), threads=64)


def operation(arguments: str) -> ir.TileOp:
    (op,) = statements(kernel(arguments).body, ir.TileOp)
    return op


NAMED = "x, A[0:32, 0:8], barrier=b[1]"


def test_a_call_binds_operands_by_name() -> None:
    op = operation(NAMED)
    assert op.operands[2] is None and len(op.operands) == 4
    assert op.value("fill") is None and op.region("barrier").buffer.name == "b"
    assert op == operation("x, A[0:32, 0:8], None, b[1]") == operation("x, A[0:32, 0:8], barrier=b[1], fill=None")
    both = operation("x, A[0:32, 0:8], 1, b[1]")
    assert both.value("fill") == build.const(1, float32) and both.region("barrier") == op.region("barrier")


def test_a_scalar_has_the_type_of_the_tile_before_it_not_of_the_barrier(monkeypatch: pytest.MonkeyPatch) -> None:
    dst, src, fill, barrier = SIGNALLED.operands
    other = replace(SIGNALLED, operands=(dst, src, barrier, fill))
    monkeypatch.setitem(TILE_OPERATIONS, SIGNALLED.name, other)
    monkeypatch.setitem(CALLS, SIGNALLED.name, other)
    assert operation("x, A[0:32, 0:8], b[1], 1").value("fill") == build.const(1, float32)


def test_what_is_left_out_at_the_end_takes_no_place() -> None:
    assert len(operation("x, A[0:32, 0:8]").operands) == 2
    assert len(operation("x, A[0:32, 0:8], 1.0, None").operands) == 3
    assert operation("x, A[0:32, 0:8], barrier=None") == operation("x, A[0:32, 0:8]")


def test_a_scalar_is_no_barrier_and_a_barrier_no_fill() -> None:
    with pytest.raises(KernelTypeError, match="barrier must be a buffer or a region; this is"):
        operation("x, A[0:32, 0:8], barrier=3")
    with pytest.raises(KernelTypeError):
        operation("x, A[0:32, 0:8], b[0:1]")


def test_a_barrier_is_no_tile() -> None:
    op = operation(NAMED)
    assert list(op.tiles) == list(op.elements) == list(op.shapes) == list(op.dtypes) == ["dst", "src"]
    assert op.inputs == {"src": op.region("src")}
    assert tiles_in("shared", "global", does="copies").test(op, DispatchContext(target("sm_90a"), 64)) is None
    # whatever looks for memory that an operation names still finds it
    assert op.given == (op.region("dst"), op.region("src"), op.region("barrier"))
    assert op.region("barrier") in list(walk.reads(op))
    assert set(op.region("barrier").starts) <= set(walk.expressions(op))


def test_the_text_says_what_is_left_out_and_reads_back() -> None:
    made = kernel(NAMED)
    text = printer.to_text(made)
    assert "cta.copy_signalled x[0 +: 32, 0 +: 8], A[0 +: 32, 0 +: 8], None, b[1]" in text
    assert parser.from_text(text) == made
    assert verify.verify(made, "tile") == []


def test_a_variable_may_be_called_none() -> None:
    called = ir.Var("None", float32)
    op = replace(operation("x, A[0:32, 0:8], 1.0, b[1]"))
    op = replace(op, operands=(*op.operands[:2], called, op.operands[3]))
    made = kernel("x, A[0:32, 0:8], 1.0, b[1]")
    body = tuple(op if isinstance(s, ir.TileOp) else s for s in made.body)
    made = replace(made, body=(ir.Let(called, build.const(1, float32)), *body))
    assert parser.from_text(printer.to_text(made)) == made


def test_the_verifier_finds_an_operand_in_a_wrong_place() -> None:
    op = operation(NAMED)
    dst, src, _, barrier = op.operands
    assert list(tile_op_faults(replace(op, operands=(dst, src, barrier)))) == [
        "copy_signalled: fill can't be a region"
    ]
    zero = build.const(0, int64)
    assert list(tile_op_faults(replace(op, operands=(dst, src, None, zero)))) == [
        "copy_signalled: barrier can't be a scalar"
    ]
    assert list(tile_op_faults(replace(op, operands=(dst, None, None, barrier)))) == ["copy_signalled needs src"]
    assert list(tile_op_faults(replace(op, operands=(dst, src, None)))) == [
        "copy_signalled ends with fill, which is omitted"
    ]
    narrow = replace(op, operands=(dst, src, build.const(0, int64), barrier))
    assert list(tile_op_faults(narrow)) == ["copy_signalled: types differ: the elements are float32, the fill int64"]


def test_threads_may_not_differ_in_the_tiles() -> None:
    collectives.check(kernel("x, A[0:32, 0:8], barrier=b[tj.thread_id() % 4]"))
    with pytest.raises(DispatchError, match="takes one region of A for its whole cta"):
        collectives.check(kernel("x, A[tj.thread_id() : tj.thread_id() + 32, 0:8], barrier=b[1]"))


def test_the_engine_plans_and_proves_a_copy_of_two_tiles() -> None:
    made = kernel(NAMED)
    (verdict,) = lowering.lower(made, target("sm_90a"), (VARIANT,)).verdicts
    assert verdict.plan.names == ("dst", "src")
    assert verdict.plan.moves().places.shape[1] == 2
    prove_verdict(verdict)


def test_a_copy_of_registers_has_one_input() -> None:
    text = """def k():
    b = tj.alloc_shared((4,), tj.int64)
    x, y = tj.alloc_local((8,), tj.float32), tj.alloc_local((8,), tj.float32)
    tj.thread.fill(y, 1.0)
    tj.thread.copy_signalled(x, y, barrier=b[1])
"""
    variant = replace(copy_fallback.VARIANT, operations=(SIGNALLED.name,), honours=("barrier",))
    lowered = lowering.lower(tile_ir(text), target("sm_90a"), (*VARIANTS, variant))
    verdict = lowered.verdicts[-1]
    prove_verdict(verdict)
    assert verify.verify(lowered.kernel, "lane") == []


def test_the_engine_declines_operands_of_wrong_kinds() -> None:
    op = operation(NAMED)
    dst, src, _, barrier = op.operands
    context = DispatchContext(target("sm_90a"), 64)
    for operands, reason in (
        ((dst, src, barrier), "needs a scalar as fill; got b, in shared memory"),
        ((dst, src, None, build.const(0, int64)), "needs a barrier as barrier; got a scalar"),
        ((dst, None, None, barrier), "needs src"),
    ):
        assert VARIANT.reasons(replace(op, operands=operands), context, {}) == (reason,)


def test_a_variant_that_says_that_it_takes_a_barrier_and_drops_it_is_found() -> None:
    made = Operation(operation(NAMED), target("sm_90a"), 64, {})
    properties.drops_none(VARIANT, made, "barrier")
    forgetful = replace(VARIANT, name="forgetful", emit=copy_gmem_smem.VARIANT.emit)
    with pytest.raises(AssertionError, match="^forgetful drops barrier"):
        properties.drops_none(forgetful, made, "barrier")


@pytest.mark.parametrize("record", [COPY, COPY_ASYNC], ids=lambda record: record.name)
def test_every_variant_declines_a_barrier_of_which_it_says_nothing(
    record: TileOperation, monkeypatch: pytest.MonkeyPatch
) -> None:
    further = replace(record, operands=SIGNALLED.operands)
    monkeypatch.setitem(TILE_OPERATIONS, record.name, further)
    op, context = replace(operation(NAMED), name=record.name), DispatchContext(target("sm_90a"), 64)
    silent = tuple(v for v in VARIANTS if "barrier" not in v.honours)
    with pytest.raises(DispatchError) as refused:
        dispatch(op, context, silent)
    assert set(refused.value.declines) == {v.name for v in silent if record.name in v.operations}
    assert all("takes no barrier; one is given" in reasons for reasons in refused.value.declines.values())
    # without it they are what they were
    assert dispatch(replace(op, operands=op.operands[:2]), context, VARIANTS)


def test_all_that_is_written_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    dst, src, fill, barrier = SIGNALLED.operands
    written = replace(SIGNALLED, operands=(dst, src, fill, replace(barrier, written=True)))
    monkeypatch.setitem(TILE_OPERATIONS, SIGNALLED.name, written)
    op = operation(NAMED)
    assert list(walk.writes(op)) == [op.region("dst"), op.region("barrier")]
    assert op.inputs == {"src": op.region("src")}
    silent = replace(SIGNALLED, operands=(replace(dst, written=False), src, fill, replace(barrier, read=False)))
    monkeypatch.setitem(TILE_OPERATIONS, SIGNALLED.name, silent)
    op = operation(NAMED)
    assert list(walk.writes(op)) == [] and op.region("barrier") not in list(walk.reads(op))
    assert op.inputs == {"dst": op.region("dst"), "src": op.region("src")}


def test_the_dispatcher_is_asked_without_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask, "VARIANTS", (VARIANT,))

    def spec(space: str, shape: tuple[int, ...], dtype: DType) -> ask.OperandSpec:
        return tj.operand(space, shape, dtype)

    dst, src = spec("shared", (32, 8), float32), spec("global", (32, 8), float32)
    barrier = spec("shared", (1,), int64)
    op = tj.dispatch(SIGNALLED.name, "cta", dst, src, None, barrier).op
    assert op.value("fill") is None and op.region("barrier").dtype == int64
    # a literal has the type of the tiles
    assert tj.dispatch(SIGNALLED.name, "cta", dst, src, 1, barrier).op.value("fill") == build.const(1, float32)
    with pytest.raises(DispatchError, match="copy_signalled needs src"):
        tj.dispatch(SIGNALLED.name, "cta", dst, None, 1, barrier)
