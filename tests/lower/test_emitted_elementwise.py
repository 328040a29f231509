"""Elementwise operations as lane IR, carried out thread by thread, against the operation's NumPy meaning."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.threads import Threads
from tests.support.proving import prove_verdict
from tilejit.dtypes import DTYPES, DType, bool_, float16, float32, int32
from tilejit.ir.nodes import Alloc, Const, Kernel, Region, TileOp
from tilejit.ir.verify import verify
from tilejit.layout import TileLayout
from tilejit.lower import lower
from tilejit.lower.ask import operand
from tilejit.lower.engine import Verdict
from tilejit.lower.proof import owners_of
from tilejit.ops.cast import convert
from tilejit.ops.elementwise import ELEMENTWISE, reference, result_type
from tilejit.target import target

Array = np.ndarray


def outcome(op: TileOp, threads: int) -> Verdict:
    """Lowers and carries out one operation on random registers, and compares all of them with what it means."""
    tiles = [o for o in op.operands if isinstance(o, Region)]
    buffers = {r.buffer.name: r.buffer for r in tiles}
    made = lower(Kernel("case", (), threads, "sm_90a", (*map(Alloc, buffers.values()), op)), target("sm_90a"))
    assert verify(made.kernel, "lane") == []
    (verdict,) = made.verdicts
    prove_verdict(verdict, op)
    random = np.random.default_rng(2)
    before = {n: values(random, b.dtype, (threads, b.layout.storage().span())) for n, b in buffers.items()}
    step = {"thread": 1, "warp": 32, "warpgroup": 128}.get(op.scope, threads)
    groups = [{n: v[first : first + step] for n, v in before.items()} for first in range(0, threads, step)]
    for r, own in ((r, own) for r in tiles[1:] for own in groups):
        agree(own[r.buffer.name], r, op.scope)
    after = Threads(made.kernel, {}, {}, {n: v.copy() for n, v in before.items()}).registers
    expected = [meaning(op, own) for own in groups]
    for name in buffers:
        whole = np.concatenate([own[name] for own in expected])
        np.testing.assert_array_equal(after[name].view(np.uint8), whole.view(np.uint8))
    return verdict


def values(random: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    if dtype == bool_:
        return random.integers(0, 2, shape).astype(np.bool_)
    return random.integers(1, 20, shape).astype(dtype.numpy)


def agree(registers: Array, region: Region, scope: str) -> None:
    """Gives all owners of a replicated element one value."""
    owners, places = owners_of(region, scope)
    for owner, place in zip(owners[1:], places[1:], strict=True):
        registers[owner, place] = registers[owners[0], places[0]]


def meaning(op: TileOp, before: dict[str, Array]) -> dict[str, Array]:
    dst = op.operands[0]
    assert isinstance(dst, Region)
    inputs = [_input(o, dst, op.scope, before) for o in op.operands[1:]]
    if op.name in ELEMENTWISE:
        rule = result_type(op.name, tuple(o.dtype for o in op.operands[1:]))
        assert not isinstance(rule, str)
        conditions = ELEMENTWISE[op.name].conditions
        inputs = [v if k < conditions else convert(v, rule[0]) for k, v in enumerate(inputs)]
        found = reference(op.name, *inputs)
    else:
        found = inputs[0]
    found = convert(np.broadcast_to(found, dst.shape).ravel(), dst.dtype)
    after = {name: v.copy() for name, v in before.items()}
    for owner, place in zip(*owners_of(dst, op.scope), strict=True):
        after[dst.buffer.name][owner, place] = found
    return after


def _input(operand: object, dst: Region, scope: str, before: dict[str, Array]) -> Array:
    if isinstance(operand, Const):
        return np.asarray(operand.value, operand.dtype.numpy)
    assert isinstance(operand, Region)
    owners, places = owners_of(operand, scope)
    return before[operand.buffer.name][owners[0], places[0]].reshape(operand.shape)


def row_tile(name: str, dtype: DType, columns: int = 8, start: int = 0, count: int | None = None) -> Region:
    layout = TileLayout.from_iters([(32, 1, "laneid"), (columns, 1, "m")])
    window = [(0, 32), (start, columns if count is None else count)]
    return operand("local", (32, columns), dtype, layout, region=window).named(name)



@pytest.mark.parametrize("name", ELEMENTWISE)
def test_every_operation_runs_on_registers(name: str) -> None:
    record = ELEMENTWISE[name]
    dtype = float32 if record.takes_floats else int32
    inputs = [row_tile(n, dtype) for n in "abc"[: record.arity]]
    if record.kind == "select":
        inputs[0] = row_tile("a", bool_)
    rule = result_type(name, tuple(i.dtype for i in inputs))
    assert not isinstance(rule, str)
    outcome(TileOp(name, "warp", (row_tile("dst", rule[1]), *inputs)), 32)


@pytest.mark.parametrize("to", ["float16", "bfloat16", "int8", "uint32", "bool_", "float64", "float8_e4m3fn"])
@pytest.mark.parametrize("source", ["float32", "float16", "int32", "bool_"])
def test_casts_convert_as_numpy_does(source: str, to: str) -> None:
    outcome(TileOp("cast", "warp", (row_tile("dst", DTYPES[to]), row_tile("src", DTYPES[source]))), 32)


def test_a_fill_sets_every_register_of_the_region_only() -> None:
    outcome(TileOp("fill", "warp", (row_tile("dst", float16, 8, 2, 5), Const(1.5, float16))), 32)


def test_a_row_replicated_over_lanes_broadcasts_down_the_rows() -> None:
    layout = TileLayout.from_iters([(1, 1, "m"), (8, 1, "m")], [(32, 1, "laneid")])
    row = operand("local", (1, 8), float32, layout).named("b")
    outcome(TileOp("add", "warp", (row_tile("dst", float32), row_tile("a", float32), row)), 32)


def test_a_column_broadcasts_along_each_lanes_row() -> None:
    column = operand("local", (32, 1), float32, TileLayout.from_iters([(32, 1, "laneid"), (1, 1, "m")])).named("b")
    outcome(TileOp("mul", "warp", (row_tile("dst", float32), row_tile("a", float32), column)), 32)


def test_an_input_that_overlaps_the_destination_is_read_before_it_is_written() -> None:
    whole = row_tile("r", float32)
    early, late = (Region(whole.buffer, (whole.starts[0], Const(s, whole.starts[1].dtype)), (32, 4)) for s in (0, 2))
    outcome(TileOp("neg", "warp", (late, early)), 32)
    outcome(TileOp("neg", "warp", (early, late)), 32)
    outcome(TileOp("copy", "warp", (late, early)), 32)


def fragment(dtype: DType, name: str, order: list[int], gap: int) -> Region:
    """A 16x16 tile over a warp as tensor cores have it, its registers in some order with gaps."""
    strides, size = {}, 1
    for k in reversed(order):
        strides[k] = size
        size = size * 2 + gap
    shard = [(2, strides[0], "m"), (8, 4, "laneid"), (2, strides[1], "m"), (4, 1, "laneid"), (2, strides[2], "m")]
    return operand("local", (16, 16), dtype, TileLayout.from_iters(shard)).named(name)


@given(st.data())
def test_inputs_may_keep_their_registers_in_another_order(data: st.DataObject) -> None:
    orders = st.permutations([0, 1, 2])
    types = st.sampled_from([DTYPES[n] for n in ("float32", "float16", "int32", "uint8")])
    dst, a, b = (
        fragment(data.draw(types), name, data.draw(orders), data.draw(st.integers(0, 2)))
        for name in ("dst", "a", "b")
    )
    scope, threads = data.draw(st.sampled_from([("warp", 32), ("warp", 64), ("cta", 32)]))
    verdict = outcome(TileOp("add", scope, (dst, a, b)), threads)
    assert verdict.plan.rounds * verdict.plan.vector_width == prod(dst.shape) // 32
