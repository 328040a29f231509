"""How far a counted loop goes: computed so that nothing overflows, whatever its ends and its step are."""

from __future__ import annotations

from typing import NamedTuple

from ..dtypes import DType
from ..ir.arithmetic import facts
from ..ir.nodes import Expr, For
from .writer import Writer


class Range(NamedTuple):
    """A loop's turns, as LLVM values.

    has_a_turn: whether there is one. Where the sign of the step is known, another turn follows while the index is
    `before` (a comparison) `last_to_go_on`. Where it isn't, `distance` is how far the end is at first, and another turn
    follows while more than `stride` remains of it.
    """

    has_a_turn: str
    before: str = ""
    last_to_go_on: str = ""
    distance: str = ""
    stride: str = ""


def falls(stmt: For) -> bool:
    """Whether the step is known not to be positive."""
    _, greatest = facts.bounds(stmt.step)
    return greatest is not None and greatest <= 0


def _rises(stmt: For) -> bool:
    least, _ = facts.bounds(stmt.step)
    return least is not None and least >= 0


def _may_be_zero(stmt: For) -> bool:
    least, greatest = facts.bounds(stmt.step)
    return (least is None or least <= 0) and (greatest is None or greatest >= 0)


def stays_inside(stmt: For, dtype: DType) -> bool:
    """Whether the step is known not to be zero, with its sign, and the index one step past the end fits a type."""
    if _may_be_zero(stmt):
        return False
    low, high = facts.full_range(dtype)
    (least_step, greatest_step), (least_stop, greatest_stop) = _ends(stmt.step), _ends(stmt.stop)
    if falls(stmt):
        return least_stop + 1 + least_step >= low
    return greatest_stop - 1 + greatest_step <= high


def _ends(expr: Expr) -> tuple[int, int]:
    """The least and the greatest value, at worst those of the type."""
    (low, high), (least, greatest) = facts.bounds(expr), facts.full_range(expr.dtype)
    return least if low is None else low, greatest if high is None else high


def counted(w: Writer, stmt: For, dtype: DType, start: str, stop: str, step: str) -> Range:
    """The turns of a loop whose index could leave its type, or whose step's sign isn't known.

    A distance between two numbers of a type fits the unsigned type of that width.
    """
    kind, sign = f"i{dtype.bits}", "u" if dtype.kind == "uint" else "s"

    def compare(comparison: str, x: str, y: str) -> str:
        return w.value(f"icmp {comparison} {kind} {x}, {y}")

    def minus(x: str, y: str) -> str:
        return w.value(f"sub {kind} {x}, {y}")

    def select(condition: str, of: str, yes: str, no: str) -> str:
        return w.value(f"select i1 {condition}, {of} {yes}, {of} {no}")

    if not _rises(stmt) and not falls(stmt):
        up, down = compare("sgt", step, "0"), compare("slt", step, "0")
        below, above = compare(f"{sign}lt", start, stop), compare(f"{sign}gt", start, stop)
        distance = select(up, kind, minus(stop, start), minus(start, stop))
        stride = select(up, kind, step, minus("0", step))
        has_a_turn = select(up, "i1", below, w.value(f"and i1 {down}, {above}"))
        return Range(has_a_turn, distance=distance, stride=stride)
    before = f"{sign}gt" if falls(stmt) else f"{sign}lt"
    distance, stride = (minus(start, stop), minus("0", step)) if falls(stmt) else (minus(stop, start), step)
    has_a_turn = compare(before, start, stop)
    if _may_be_zero(stmt):
        has_a_turn = w.value(f"and i1 {has_a_turn}, {compare('ne', step, '0')}")
    last_to_go_on = select(compare("ugt", distance, stride), kind, minus(stop, step), start)
    return Range(has_a_turn, before, last_to_go_on)
