"""The verifier takes every row's instruction, and none that differs from what the row says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.isa.rows import EVERY
from tests.isa.uses import Use, local, oldest, use
from tilejit.dtypes import DTYPES, float64, int32, int64
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import Alloc, Buffer, Const, Expr, Instruction, Special, Vector
from tilejit.ir.verify import verify
from tilejit.isa import ROWS, Kind, Operand, Row
from tilejit.isa.row import F64
from tilejit.layout import TileLayout
from tilejit.source import Span
from tilejit.target import TARGETS

Item = Expr | Vector

#: more memory for wrong operands
SHARED = Buffer("other_shared", "shared", int32, (64,), TileLayout.row_major((64,)), 128)
LOCAL = local("other_local", int32, 64)


def violations(made: Use, instruction: Instruction, target: str | None = None) -> list[str]:
    kernel = made.kernel(instruction)
    kernel = replace(kernel, target=target or kernel.target, body=(Alloc(SHARED), Alloc(LOCAL), *kernel.body))
    return [v.message for v in verify(kernel, "lane")]


@pytest.mark.parametrize("row", EVERY.values(), ids=lambda row: row.name)
def test_a_rows_own_instruction_is_sound(row: Row) -> None:
    made = use(row)
    assert violations(made, made.instruction) == []


def misspelt(made: Use) -> Iterator[Instruction]:
    yield replace(made.instruction, name=made.row.name + ".no")


def shortened(made: Use) -> Iterator[Instruction]:
    """Without its first or its last input or output; a wait may carry nothing, but what it takes it returns."""
    for what in ("inputs", "outputs"):
        items = getattr(made.instruction, what)
        if items:
            yield replace(made.instruction, **{what: items[1:]})
            yield replace(made.instruction, **{what: items[:-1]})


def lengthened(made: Use) -> Iterator[Instruction]:
    inputs, outputs = made.instruction.inputs, made.instruction.outputs
    yield replace(made.instruction, inputs=(*inputs, build.const(1, int32)))
    yield replace(made.instruction, inputs=(*inputs, Vector(SHARED, build.const(0, int32))))
    yield replace(made.instruction, outputs=(*outputs, Vector(LOCAL, build.const(0, int32))))


def resized(made: Use) -> Iterator[Instruction]:
    """A vector of twice or half the size, where the row says how large it is."""
    for instruction, operand, vector in vectors(made):
        if operand.count is None or (operand.kind is Kind.ADDRESS and not operand.access_bytes):
            continue
        yield instruction(replace(vector, width=2 * vector.width))
        if vector.width > 1:
            yield instruction(replace(vector, width=vector.width // 2))


def displaced(made: Use) -> Iterator[Instruction]:
    """Registers in place of an address, and memory in place of registers or of other memory."""
    for instruction, operand, vector in vectors(made):
        width = vector.width * vector.buffer.dtype.bytes // 4
        elsewhere = LOCAL if operand.kind is Kind.ADDRESS else SHARED
        yield instruction(Vector(elsewhere, build.const(0, int32), min(max(1, width), 32)))
        if operand.kind is Kind.ADDRESS and operand.space != "shared":
            yield instruction(Vector(SHARED, build.const(0, int32), vector.width))


def retyped(made: Use) -> Iterator[Instruction]:
    """Elements of another type and the same size, where the row says which."""
    for instruction, operand, vector in vectors(made):
        if operand.element is None or operand.kind is Kind.ADDRESS:
            continue
        for dtype in DTYPES.values():
            if dtype.bits == operand.element.bits and dtype != operand.element:
                other = replace(vector.buffer, dtype=dtype)
                yield instruction(replace(vector, buffer=other))


def scalars(made: Use) -> Iterator[Instruction]:
    """A float of 64 bits, which no operand is but some registers; for these an integer."""
    for at, operand in enumerate(arguments(made.row)):
        if operand.count is not None:
            is_double = operand.register is F64
            yield with_input(made, at, build.const(1, int64) if is_double else build.const(1.0, float64))


def varying(made: Use) -> Iterator[Instruction]:
    """A value known only at run time where the row wants a constant, an integer where it wants a predicate."""
    for at, operand in enumerate(arguments(made.row)):
        if operand.kind in (Kind.CONSTANT, Kind.PREDICATE):
            yield with_input(made, at, Special("lane_id"))
            yield with_input(made, at, Vector(LOCAL, build.const(0, int32)))


def arguments(row: Row) -> list[Operand]:
    return [o for o in row.operands if o.is_argument]


def with_input(made: Use, at: int, item: Item) -> Instruction:
    inputs = made.instruction.inputs
    return replace(made.instruction, inputs=(*inputs[:at], item, *inputs[at + 1 :]))


def vectors(made: Use) -> Iterator[tuple[Callable[[Vector], Instruction], Operand, Vector]]:
    """Each operand that is a vector, with what puts another in its place."""
    sides = {"outputs": [o for o in made.row.operands if o.is_result], "inputs": arguments(made.row)}
    for what, operands in sides.items():
        items = getattr(made.instruction, what)
        for at, (operand, item) in enumerate(zip(operands, items, strict=True)):
            if isinstance(item, Vector):
                yield (
                    lambda v, w=what, i=items, k=at: replace(made.instruction, **{w: (*i[:k], v, *i[k + 1 :])}),
                    operand,
                    item,
                )


KINDS = (misspelt, shortened, lengthened, resized, displaced, retyped, scalars, varying)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_verifier_refuses_what_a_row_does_not_say(kind: Callable[[Use], Iterator[Instruction]]) -> None:
    uses = [use(row) for row in EVERY.values()]
    wrong = [(made, instruction) for made in uses for instruction in kind(made)]
    assert wrong
    passed = [i for made, i in wrong if not about(made, violations(made, i))]
    assert passed == []


def about(made: Use, messages: list[str]) -> list[str]:
    """Those that name the instruction."""
    return [m for m in messages if made.row.name in m]


def test_the_verifier_refuses_every_row_for_a_target_without_it() -> None:
    for row in EVERY.values():
        made = use(row)
        for name, target in TARGETS.items():
            refused = bool(violations(made, made.instruction, name))
            assert refused == (row.missing(target) is not None), (row.name, name)


def one(name: str, *inputs: Item, outputs: tuple[Vector, ...] = (), span: Span | None = None) -> list[str]:
    made = use(EVERY.get(name, ROWS["bar.sync"]))
    return violations(made, Instruction(name, outputs, inputs, span))


def test_an_unknown_name_is_refused_with_similar_ones() -> None:
    (message,) = one("mma.no.such.thing")
    assert message == "unknown instruction 'mma.no.such.thing'"
    (message,) = one("cp.async.comit")
    assert message.startswith("unknown instruction 'cp.async.comit'; did you mean cp.async.commit")


def test_what_is_wrong_is_said_with_need_and_fact() -> None:
    place, registers = Vector(SHARED, build.const(0, int32), 4), Vector(LOCAL, build.const(0, int32), 3)
    assert one("ldmatrix.x4", place, outputs=(registers,)) == [
        "ldmatrix.x4: tiles must be 4 registers of 32 bits; 1 result value missing"
    ]
    assert one("ldmatrix.x1", registers, outputs=(replace(registers, width=1),)) == [
        "ldmatrix.x1: row must be a place of 16 bytes in shared memory; got 3 x int32 of other_local (local)"
    ]
    assert one("cp.async.wait", Special("lane_id")) == [
        "cp.async.wait: groups must be a constant of 32 bits; got a scalar of int32"
    ]
    assert one("cp.async.wait") == ["cp.async.wait: groups must be a constant of 32 bits; 1 operand value missing"]


def test_a_wait_returns_the_registers_that_it_takes() -> None:
    first, second = (Vector(LOCAL, Const(k, int32), 2) for k in (0, 2))
    assert one("tcgen05.wait.ld", first, outputs=(first,)) == []
    (message,) = one("tcgen05.wait.ld", first, outputs=(second,))
    assert "must be the same registers in outputs and inputs" in message


def test_a_violation_is_remembered_by_no_cache() -> None:
    for _ in range(2):
        assert one("cp.async.wait", Special("lane_id"))
        assert one("cp.async.wait", Const(0, int32)) == []


def test_all_violations_of_an_instruction_are_returned_with_its_place() -> None:
    made = use(ROWS["cp.async.16.zfill"])
    to, source, _ = made.instruction.inputs
    span = Span("k.py", 3, 1, 3, 5, "copy")
    wrong = replace(made.instruction, inputs=(source, to, build.const(1.0, float64)), span=span)
    found = verify(replace(made.kernel(wrong), target="sm_75"), "lane")
    assert len(found) == 4 and all(v.span == span for v in found)


def test_an_oldest_target_is_one_that_has_the_row() -> None:
    assert {oldest(row) for row in EVERY.values()} >= {"sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_100a"}
