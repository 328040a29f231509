"""The records of tile operations: they are accurate, and every list of operations contains these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import array, source_of, statements, tile_ir
from tilejit.dtypes import DType, float16, float32, int32
from tilejit.errors import KernelTypeError
from tilejit.frontend.tileops import SHORTHANDS
from tilejit.ir import nodes as ir
from tilejit.ir.arithmetic import build
from tilejit.ir.verify.operations import tile_op_faults
from tilejit.ops.axes import REDUCTION
from tilejit.ops.elementwise import ELEMENTWISE
from tilejit.ops.record import SCALAR, TILE
from tilejit.ops.tile import CALLS, TILE_OPERATIONS, Shorthand
from tilejit.scopes import SCOPES

EVERY = pytest.mark.parametrize("name", TILE_OPERATIONS)
EVERY_SCOPE = pytest.mark.parametrize("scope", SCOPES)

#: what the examples of some records use
GIVEN = """def k(A, B):
    a = tj.warp.load(B[0:16, 0:16], layout=tj.mma.layout_a((16, 16), tj.float16))
    b = tj.warp.load(B[0:16, 0:8], layout=tj.mma.layout_b((16, 8), tj.float16))
"""


def type_of(name: str) -> DType:
    """The type of the array that an example reads."""
    elementwise = TILE_OPERATIONS[name].elementwise
    return float32 if elementwise is None or elementwise.takes_floats else int32


def example(name: str) -> ir.TileOp:
    """The operation that a record's example makes, the last of that name."""
    lines = "".join(f"    {line}\n" for line in TILE_OPERATIONS[name].example.splitlines())
    given = GIVEN if name == "gemm" else "def k(A, B):\n"
    kernel = tile_ir(given + lines, array(type_of(name), rank=2), array(float16, rank=2), threads=128)
    made: list[ir.TileOp] = [op for op in statements(kernel.body, ir.TileOp) if op.name == name]
    return made[-1]


@EVERY
def test_a_record_names_what_it_has_in_one_line_each(name: str) -> None:
    record = TILE_OPERATIONS[name]
    assert record.name == name
    assert record.meaning and "\n" not in record.meaning
    assert all(a.meaning and "\n" not in a.meaning for a in record.attrs)
    assert len(set(record.parameters)) == len(record.parameters)
    needed = [o for o in record.operands if not o.optional]
    assert [o.written for o in needed] == [True] + [False] * (len(needed) - 1)
    # a call has its optional arguments after the others
    assert not record.is_called or not any(o.optional for o in record.operands[: record.required])
    assert all(o.kinds for o in record.operands)
    for operand in record.operands:
        is_region = [kind.is_region for kind in operand.kinds]
        assert len(is_region) == len(set(is_region)), f"{operand.name}: which of its kinds is an operand?"
    assert record.scopes and len(record.example.splitlines()) == 2


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_an_elementwise_operation_has_a_destination_and_as_many_inputs_as_its_record(name: str) -> None:
    record = TILE_OPERATIONS[name]
    assert record.elementwise is ELEMENTWISE[name]
    conditions = ["cond"] * ELEMENTWISE[name].conditions
    letters = ["src"] if ELEMENTWISE[name].arity == 1 else ["a", "b", "c"][: ELEMENTWISE[name].arity - len(conditions)]
    assert [o.name for o in record.operands] == ["dst", *conditions, *letters]
    assert all(o.kinds == (TILE, SCALAR) for o in record.operands[1:])


@EVERY
def test_operands_are_found_by_name(name: str) -> None:
    op = example(name)
    for k, rule in enumerate(TILE_OPERATIONS[name].operands):
        assert op.operand(rule.name) is (op.operands[k] if k < len(op.operands) else None)
    rules = zip(TILE_OPERATIONS[name].operands, op.operands, strict=False)
    there = [(rule, operand) for rule, operand in rules if operand is not None]
    assert op.written == tuple(operand for rule, operand in there if rule.written)
    elements = [(rule, operand) for rule, operand in there if TILE in rule.kinds or SCALAR in rule.kinds]
    assert list(op.inputs.values()) == [operand for rule, operand in elements if not rule.written]
    with pytest.raises(KeyError, match="no operand 'colour'"):
        op.operand("colour")


def test_operands_by_name_are_ordered_with_none_for_omitted_ones() -> None:
    record = TILE_OPERATIONS["copy"]
    assert record.ordered({"src": 2, "dst": 1}) == (1, 2)
    assert record.ordered({"fill": 3, "dst": 1}) == (1, None, 3)
    with pytest.raises(KeyError, match="no operand 'colour'"):
        record.ordered({"colour": 1})


@EVERY
def test_operands_are_as_many_as_the_record_says(name: str) -> None:
    record = TILE_OPERATIONS[name]
    least, most = record.arity
    for count in range(most + 2):
        assert (record.count_fault(range(count)) is None) == (least <= count <= most)
    for k in [k for k, operand in enumerate(record.operands) if not operand.optional]:
        lacking = [None if j == k else j for j in range(most)]
        assert record.count_fault(lacking) == f"needs {record.operands[k].name}"


def test_an_attribute_that_is_not_given_has_its_default() -> None:
    assert example("cast").attr("saturate") is True
    assert replace(example("cast"), attrs=(("saturate", False),)).attr("saturate") is False
    assert example("copy").attr("variant") is None


@EVERY
def test_the_example_is_sound(name: str) -> None:
    assert list(tile_op_faults(example(name))) == []


@EVERY
def test_a_missing_or_additional_operand_is_a_violation(name: str) -> None:
    op = example(name)
    least, most = op.record.arity
    fewer = replace(op, operands=op.operands[: least - 1])
    more = replace(op, operands=(op.operands * (most + 1))[: most + 1])
    for changed in (fewer, more):
        assert any(f"; got {len(changed.operands)}" in fault for fault in tile_op_faults(changed))


@EVERY
def test_an_operand_of_the_wrong_kind_is_a_violation(name: str) -> None:
    op = example(name)
    wrong = {True: op.written[0], False: build.const(0, op.written[0].dtype)}
    given = (*op.operands, *(None for _ in op.record.operands[len(op.operands) :]))
    for k, rule in enumerate(op.record.operands):
        for as_region, kind in ((True, "region"), (False, "scalar")):
            if rule.kind(is_region=as_region) is not None:
                continue
            operands = tuple(wrong[as_region] if j == k else o for j, o in enumerate(given))
            changed = replace(op, operands=operands[: max(k + 1, len(op.operands))])
            assert f"{name}: {rule.name} can't be a {kind}" in tile_op_faults(changed)


@EVERY
def test_an_attribute_of_the_wrong_type_or_an_unknown_one_is_a_violation(name: str) -> None:
    op = example(name)
    for attribute in op.record.attrs:
        wrong = 1 if attribute.type is not int else True
        faults = tile_op_faults(replace(op, attrs=((attribute.name, wrong),)))
        assert f"{name}: {attribute.name}= takes {attribute.type.__name__}; got {wrong!r}" in faults
    faults = tile_op_faults(replace(op, attrs=(*op.attrs, ("colour", 1))))
    assert f"{name} has no attribute 'colour'" in faults


@EVERY
def test_a_scope_on_which_it_is_not_called_is_a_violation(name: str) -> None:
    op = example(name)
    for scope, record in SCOPES.items():
        faults = list(tile_op_faults(replace(op, scope=scope)))
        assert bool(faults) == (record not in op.record.scopes)
    assert f"{name} on unknown scope 'house'" in tile_op_faults(replace(op, scope="house"))


def wrong_shapes(op: ir.TileOp) -> Iterator[ir.TileOp]:
    """The operation with one region that lacks a row."""
    for k, operand in enumerate(op.operands):
        if not isinstance(operand, ir.Region):
            continue
        rows, *others = operand.extents
        assert rows is not None
        shorter = replace(operand, extents=(rows - 1, *others))
        yield replace(op, operands=tuple(shorter if j == k else o for j, o in enumerate(op.operands)))


@pytest.mark.parametrize("name", [name for name in TILE_OPERATIONS if name not in ("fill", "indices")])
def test_a_region_that_is_too_small_is_a_violation(name: str) -> None:
    op = example(name)
    for changed in wrong_shapes(op):
        assert list(tile_op_faults(changed)), changed


@EVERY_SCOPE
def test_a_scope_lists_what_works_on_it_and_no_more(scope: str) -> None:
    namespace = getattr(tj, scope)
    assert dir(namespace) == sorted(name for name, call in CALLS.items() if SCOPES[scope] in call.scopes)
    for name in dir(namespace):
        assert getattr(namespace, name).meaning == CALLS[name].meaning
        # a call without arguments gets as far as to ask for them
        with pytest.raises(KernelTypeError) as refused:
            tile_ir(f"def k(A):\n    tj.{scope}.{name}()\n", array())
        call = CALLS[name]
        assert f"tj.{scope}.{name} needs {', '.join(call.parameters[: call.required])}" in str(refused.value)
        assert f"its parameters: {', '.join(call.parameters)}" in str(refused.value)


@EVERY_SCOPE
def test_what_a_scope_does_not_list_is_refused(scope: str) -> None:
    namespace = getattr(tj, scope)
    for name in set(CALLS) - set(dir(namespace)):
        with pytest.raises(AttributeError, match=f"tj.{scope} has no"):
            getattr(namespace, name)
        with pytest.raises(KernelTypeError, match=f"tj.{scope} has no {name}"):
            tile_ir(f"def k(A):\n    tj.{scope}.{name}()\n", array())


def test_a_misspelled_operation_suggests_the_nearest() -> None:
    with pytest.raises(AttributeError, match="did you mean load"):
        tj.cta.laod  # noqa: B018
    with pytest.raises(KernelTypeError, match="did you mean load"):
        tile_ir("def k(A):\n    tj.cta.laod(A)\n", array())


def test_a_scope_has_its_aliases() -> None:
    for scope in SCOPES.values():
        assert all(getattr(tj, alias) == getattr(tj, scope.name) for alias in scope.aliases)
    assert tj.wg == tj.warpgroup


def test_every_shorthand_has_its_code() -> None:
    assert set(SHORTHANDS) == {name for name, call in CALLS.items() if isinstance(call, Shorthand)}


def inputs_of(name: str, A: np.ndarray) -> tuple[object, ...]:
    """The inputs of an example."""
    elementwise = TILE_OPERATIONS[name].elementwise
    if elementwise is not None:
        conditions = (np.ones((32, 8), bool),) * elementwise.conditions
        return (*conditions, *(A,) * (elementwise.arity - elementwise.conditions))
    return {"fill": (np.float32(1.5),), "indices": ()}.get(name, (A,))


#: those whose examples give no x of 32 x 8, and inline PTX, which NumPy has no meaning for
_OTHERS = ("gemm", "gemm_async", "atomic", "ptx")
EXAMPLES = [n for n, op in TILE_OPERATIONS.items() if n not in _OTHERS and op.relation is not REDUCTION]


def test_the_example_of_atomic_updates_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")
    record = TILE_OPERATIONS["atomic"]
    text = "def k(A):\n" + "".join(f"    {line}\n" for line in record.example.splitlines())
    A = np.arange(256, dtype=type_of("atomic").numpy).reshape(32, 8)
    wanted = record.reference(A, A)
    tj.kernel(threads=32)(source_of(text))[1](A)
    assert np.array_equal(A, wanted)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_computes_what_the_record_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")
    record = TILE_OPERATIONS[name]
    lines = [*record.example.splitlines(), "tj.cp_async.commit()", "tj.cp_async.wait(0)", "tj.cta_sync()"]
    text = "def k(A, OUT):\n" + "".join(f"    {line}\n" for line in [*lines, "tj.cta.copy(OUT[0:32, 0:8], x)"])
    A = (np.arange(256).reshape(32, 8) % 30 / 3 + 1).astype(type_of(name).numpy)
    dtype = example(name).written[0].dtype
    out = np.zeros((32, 8), dtype.numpy)
    tj.kernel(threads=32)(source_of(text))[1](A, out)
    attrs = {} if name != "scan" else dict(example(name).attrs)
    wanted = record.reference(np.zeros_like(out), *inputs_of(name, A), **attrs)
    assert wanted.dtype == out.dtype and wanted.shape == out.shape
    np.testing.assert_allclose(out, wanted, rtol=1e-6, equal_nan=True)
