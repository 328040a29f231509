"""Every variant has the properties of a variant; a wrong one is caught, by the property's name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from tests.lower import properties
from tests.support.operations import Operation, operations
from tilejit.errors import LayoutError
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import Instruction, Move, Stmt, TileOp
from tilejit.ir.walk import rewrite
from tilejit.lower import VARIANTS, Decline, DispatchContext, Variant
from tilejit.lower.builder import Builder
from tilejit.lower.moves.partition import Partition, copy_vectors
from tilejit.lower.variants import copy_gmem_smem
from tilejit.ops.tile import TILE_OPERATIONS
from tilejit.target import target

Variants = tuple[Variant[Any], ...]

each_variant = pytest.mark.parametrize("variant", VARIANTS, ids=[f"{v.name}-{v.operations[0]}" for v in VARIANTS])

#: the first failure as it is, the same in every run
AS_DRAWN = settings(derandomize=True, database=None, phases=(Phase.generate,), report_multiple_bugs=False)
AS_SEEDED = settings(AS_DRAWN, derandomize=False)


def check_drawn(variant: Variant[Any], variants: Variants, how: settings | None = None) -> None:
    """Raise AssertionError where some drawn operation shows that a property doesn't hold."""

    # half as many examples as of other properties: each is drawn for all variants of its operation, and asked of all;
    # a few operations at a time: some variants take one in ten
    @given(st.lists(operations(variant.operations), min_size=4, max_size=4))
    def holds(drawn: list[Operation]) -> None:
        properties.check(variant, drawn, variants)

    (how or settings(max_examples=settings.default.max_examples // 2))(holds)()


@each_variant
def test_a_variant_answers_ties_with_none_and_does_what_numpy_does(variant: Variant[Any]) -> None:
    check_drawn(variant, VARIANTS)


@each_variant
def test_some_golden_file_chooses_a_variant(variant: Variant[Any]) -> None:
    properties.has_a_golden(variant, VARIANTS)


#: hypothesis stays near its first examples; several seeds spread a sample
SEEDS = 4


@cache
def sample(names: tuple[str, ...], count: int = 100) -> tuple[Operation, ...]:
    """Drawn operations of these names, the same in every run: of 60 copies none shows that its fill is dropped."""
    drawn: list[Operation] = []

    def keep(operation: Operation) -> None:
        drawn.append(operation)

    for number in range(SEEDS):
        seed(number)(settings(AS_SEEDED, max_examples=count // SEEDS)(given(operations(names))(keep)))()
    return tuple(drawn)


@each_variant
def test_a_decent_share_of_the_drawn_operations_is_accepted(variant: Variant[Any]) -> None:
    answers = [properties.plan_of(variant, operation) is not None for operation in sample(variant.operations, 200)]
    share = sum(answers) / len(answers)
    assert share > 0.06, f"{variant.name} accepts {sum(answers)} of {len(answers)} drawn operations"


#: every variant with each optional operand of its operations
OPTIONS = [(v, o.name) for v in VARIANTS for name in v.operations for o in TILE_OPERATIONS[name].operands if o.optional]


def with_option(variant: Variant[Any], option: str) -> tuple[str, ...]:
    """The variant's operations that have an optional operand of this name."""
    return tuple(name for name in variant.operations if option in [o.name for o in TILE_OPERATIONS[name].operands])


@pytest.mark.parametrize(("variant", "option"), OPTIONS, ids=[f"{v.name}-{option}" for v, option in OPTIONS])
def test_an_optional_operand_is_carried_out_or_declined_by_its_name(variant: Variant[Any], option: str) -> None:
    for operation in sample(with_option(variant, option)):
        properties.drops_none(variant, operation, option)


def test_an_optional_operand_that_is_dropped_is_found() -> None:
    def emit(plan: Partition, op: TileOp, b: Builder) -> None:
        copy_vectors(plan, replace(op, operands=op.operands[:2]), b)

    forgetful = emitting("forgetful", emit)
    with pytest.raises(AssertionError, match="^forgetful drops fill"):
        test_an_optional_operand_is_carried_out_or_declined_by_its_name(forgetful, "fill")


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_what_a_variant_honours_are_optional_operands_of_its_operations(variant: Variant[Any]) -> None:
    assert set(variant.honours) <= {option for v, option in OPTIONS if v is variant}


def emitting(name: str, emit: Callable[[Partition, TileOp, Builder], None]) -> Variant[Any]:
    """gmem_smem with other lane IR, before all others."""
    return replace(copy_gmem_smem.VARIANT, name=name, priority=30, emit=emit)


def read_the_next_element(plan: Partition, op: TileOp, b: Builder) -> None:
    with b.block() as made:
        copy_vectors(plan, op, b)
    for stmt in rewrite(tuple(made), lambda stmt: (_one_further(stmt),)):
        b.append(stmt)


def _one_further(stmt: Stmt) -> Stmt:
    if not isinstance(stmt, Move) or stmt.src.buffer.space == "local":
        return stmt
    return replace(stmt, src=replace(stmt.src, offset=build.add(stmt.src.offset, 1)))


def skip_the_first_round(plan: Partition, op: TileOp, b: Builder) -> None:
    copy_vectors(replace(plan, rounds=1, count=min(plan.count, plan.threads) - 1), op, b)


def name_a_missing_instruction(plan: Partition, op: TileOp, b: Builder) -> None:
    copy_vectors(plan, op, b)
    b.append(Instruction("copy.no.such.thing"))


def raising(*_: object) -> Any:
    raise KeyError("no such layout")


def declining(*_: object) -> Any:
    raise LayoutError("")


WRONG = {
    "reads the next element": (emitting("next", read_the_next_element), "is_proved: AssertionError: .*"),
    "writes less than it should": (emitting("less", skip_the_first_round), "is_proved: .* isn't written"),
    "names a missing instruction": (
        emitting("missing", name_a_missing_instruction), "is_proved: .* can't trace the instruction copy.no.such.thing",
    ),
    "ties": (replace(copy_gmem_smem.VARIANT, name="twin"), "ties_with_none: AssertionError: .*gmem_smem and twin"),
    "raises": (replace(copy_gmem_smem.VARIANT, name="raises", plan=raising), "answers: KeyError: 'no such layout'"),
    "declines without a reason": (
        replace(copy_gmem_smem.VARIANT, name="mute", plan=declining),
        "answers: AssertionError: declines without a reason",
    ),
}


def test_a_plan_that_raises_layout_error_declines_with_its_message_and_hint() -> None:
    def plan(*_: object) -> Any:
        raise LayoutError("rows of a overlap", hint="take fewer")

    variant = replace(copy_gmem_smem.VARIANT, plan=plan)
    answer = variant.planned(TileOp("copy", "warp", ()), DispatchContext(target("sm_90a"), 32))
    assert answer == Decline("rows of a overlap", "take fewer")


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_variant_is_caught_by_the_name_of_a_property(what: str) -> None:
    variant, message = WRONG[what]
    with pytest.raises(AssertionError, match=f"^{variant.name}, {message}"):
        check_drawn(variant, (*VARIANTS, variant), AS_DRAWN)
