"""Elementwise operations on memory: upstream's cases, and random ones carried out thread by thread."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lower.test_emitted_copies import inside, memory, parameters, span
from tests.lower.test_emitted_elementwise import values
from tests.reference.threads import Threads
from tests.support.proving import prove_verdict
from tests.support.upstream import Case, is_static, load, operand_of
from tilejit.dtypes import DTYPES, bool_, float16, float32, int32
from tilejit.errors import DispatchError
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import Alloc, Const, Kernel, Region, TileOp
from tilejit.ir.verify import verify
from tilejit.layout import TileLayout
from tilejit.lower import lower
from tilejit.lower.ask import dispatch, operand
from tilejit.lower.engine import Verdict
from tilejit.lower.plans import launch_values
from tilejit.lower.proof import addresses
from tilejit.ops.cast import convert
from tilejit.ops.elementwise import ELEMENTWISE, reference, result_type
from tilejit.target import target

CASES = [c for c in load("elementwise_smem") if "expect" in c and is_static(c)]
NAMES = {"fdiv": "div", "zero": "fill"}
ARITY = {"add": 2, "sub": 2, "mul": 2, "fdiv": 2, "maximum": 2, "fma": 3}


def outcome(op: TileOp, threads: int) -> Verdict:
    """Lowers and carries out one operation on random memory, and compares all of memory with what it means."""
    tiles = [o for o in op.operands if isinstance(o, Region)]
    buffers = {r.buffer.name: r.buffer for r in tiles}
    allocs = tuple(Alloc(b) for b in buffers.values() if b.space == "shared")
    made = lower(Kernel("case", parameters(*tiles), threads, "sm_90a", (*allocs, op)), target("sm_90a"))
    assert verify(made.kernel, "lane") == []
    random = np.random.default_rng(3)
    before = {r.buffer.name: values(random, r.buffer.dtype, (span(r),)) for r in tiles}
    machine = Threads(made.kernel, {n: v.copy() for n, v in before.items()}, launch_values(tiles))
    expected = before[tiles[0].buffer.name].copy()
    keep = inside(tiles[0])
    found = np.broadcast_to(_meaning(op, before), tiles[0].shape).ravel()
    expected[addresses(tiles[0])[keep]] = convert(found, tiles[0].dtype)[keep]
    np.testing.assert_array_equal(
        machine.memory[tiles[0].buffer.name].view(np.uint8), expected.view(np.uint8)
    )
    (verdict,) = made.verdicts
    prove_verdict(verdict, op)
    return verdict


def _meaning(op: TileOp, before: dict[str, np.ndarray]) -> np.ndarray:
    inputs = []
    for o in op.operands[1:]:
        if isinstance(o, Const):
            inputs.append(np.asarray(o.value, o.dtype.numpy))
            continue
        assert isinstance(o, Region)
        there = inside(o)
        read = before[o.buffer.name][np.where(there, addresses(o), 0)]
        inputs.append(np.where(there, read, np.zeros((), read.dtype)).reshape(o.shape))
    return reference(op.name, *inputs) if op.name in ELEMENTWISE else inputs[0]


def regions_of(case: Case) -> TileOp:
    inputs = [{"const": 0.0, "dtype": "float16"}] if case["op"] == "zero" else case["inputs"]
    operands = [operand_of(case["dst"]).named("dst")]
    for name, data in zip("abc", inputs[: ARITY.get(case["op"], 1)], strict=False):
        dtype = DTYPES[data["dtype"]]
        operands.append(build.const(data["const"], dtype) if "const" in data else operand_of(data).named(name))
    return TileOp(NAMES.get(case["op"], case["op"]), case["scope"], tuple(operands))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["id"])
def test_an_operation_on_shared_memory_is_shared_out_in_vectors(case: Case) -> None:
    found = outcome(regions_of(case), case["cta_threads"])
    assert found.variant == "smem"
    assert found.plan.vector_width >= case["expect"]["vec_elems"]
    assert found.plan.rounds <= case["expect"]["loops"][0][1]


def test_a_transposed_cast_goes_element_by_element() -> None:
    src = operand("shared", (32, 32), float32, TileLayout.from_iters([(32, 1, "m"), (32, 32, "m")]))
    op = TileOp("cast", "warp", (operand("shared", (32, 32), float16).named("dst"), src.named("src")))
    assert outcome(op, 32).plan.vector_width == 1


def test_a_row_broadcasts_over_a_shared_tile() -> None:
    tile, row = operand("shared", (16, 24), float32), operand("shared", (1, 24), float32)
    column = operand("shared", (16, 1), float32)
    for narrow in (row, column):
        op = TileOp("add", "warp", (tile.named("dst"), tile.named("dst"), narrow.named("b")))
        assert outcome(op, 32).plan.vector_width == 4


def test_a_fill_of_global_memory_stays_inside_the_tensor() -> None:
    outside = operand("global", (30, 10), float32, region=[(-1, 32), (3, 8)], strides="runtime", align=16)
    outcome(TileOp("fill", "cta", (outside.named("dst"), Const(1.5, float32))), 96)


def test_a_mixture_of_registers_and_memory_is_refused_by_both_variants() -> None:
    with pytest.raises(DispatchError) as refused:
        dispatch("sqrt", "thread", operand("local", (8,), float32), operand("shared", (8,), float32), threads=1)
    assert refused.value.declines == {
        "reg": ("works on local tiles; src is shared (load it first)",),
        "smem": ("works on shared and global memory; dst is local",),
    }


@given(st.data())
def test_any_layouts_work_together(data: st.DataObject) -> None:
    extents = data.draw(st.lists(st.sampled_from([2, 3, 4, 8, 16]), min_size=1, max_size=3).map(tuple))
    types = st.sampled_from([DTYPES[n] for n in ("float32", "float16", "int32")])
    spaces = st.sampled_from(["shared", "global"])
    scope, threads = data.draw(st.sampled_from([("thread", 1), ("warp", 32), ("cta", 48)]))
    dst, a, b = (data.draw(memory(data.draw(spaces), extents, data.draw(types))).named(n) for n in ("dst", "a", "b"))
    outcome(TileOp("add", scope, (dst, a, b)), threads)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_every_operation_runs_on_memory(name: str) -> None:
    record = ELEMENTWISE[name]
    dtype = float32 if record.takes_floats else int32
    types = [bool_] * record.conditions + [dtype] * (record.arity - record.conditions)
    rule = result_type(name, tuple(types))
    assert not isinstance(rule, str)
    named = zip(["dst", *"abc"], [rule[1], *types], strict=False)
    regions = [operand("shared", (16, 24), t).named(n) for n, t in named]
    assert outcome(TileOp(name, "warp", tuple(regions)), 32).variant == "smem"
