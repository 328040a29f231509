"""Scalar expressions: IR nodes to LLVM values."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from ..dtypes import DType, bool_, int32, int64
from ..ir import walk
from ..ir.arithmetic import facts
from ..ir.nodes import Cast, Const, Declare, Element, Expr, For, Load, Op, Special, Var
from ..ir.walk import Block
from ..remember import lasting, remembered
from ..scopes import THREAD_IDS
from . import memory
from .casts import cast
from .emission import ConstantIndex, Emission, LLVMValue, OffsetSum, Recipe
from .offsets import total
from .operations import one_instruction, operation


def evaluate(emission: Emission, expr: Expr) -> LLVMValue:
    """The value of `expr` where the writer stands."""
    leaf = _LEAVES.get(type(expr))
    if leaf is not None:
        return leaf(emission, expr)
    w = emission.writer
    value = w.results.get(id(expr))
    if value is not None:
        return value
    if expr.dtype.is_integer:
        number = _constant(emission, expr)
        if number is not None:
            return integer(number, expr.dtype)
    compute = _COMPUTED[type(expr)]
    if expr.span is None:
        value = compute(emission, expr)
    else:
        before = w.at(expr.span)
        value = compute(emission, expr)
        w.restore(before)
    settled = emission.settled.get(id(expr))
    if settled is None:
        settled = emission.settled[id(expr)] = _is_settled(emission, expr)
    if settled:
        w.results.setdefault(id(expr), value)
    return value


def _is_settled(emission: Emission, expr: Expr) -> bool:
    """Whether the expression has the same value wherever it stands. What it is made of has been computed."""
    if isinstance(expr, Var):
        return expr.name not in emission.changing
    if isinstance(expr, (Const, Special)):
        return True
    settled = emission.settled.get(id(expr))
    if settled is not None:
        return settled
    return not isinstance(expr, Load) and all(_is_settled(emission, part) for part in walk.operands(expr))


def changing(body: Block) -> Iterator[str]:
    """The variables that have several values where they are in scope: those that are assigned, and unrolled ones."""
    for stmt in walk.statements(body):
        if isinstance(stmt, Declare):
            yield stmt.var.name
        elif isinstance(stmt, For) and stmt.unrolled:
            yield from (named.name for each in walk.within(stmt) if isinstance(named := walk.defines(each), Var))


def index_value(emission: Emission, expr: Expr) -> LLVMValue:
    """The value of an index; where unrolling has made it constant, no text is written for its parts."""
    constant = _constant(emission, expr)
    return evaluate(emission, expr) if constant is None else integer(constant, expr.dtype)


def offset_of(emission: Emission, expr: Expr) -> OffsetSum:
    """An index as a sum of parts and one constant."""
    constant = _constant(emission, expr)
    if constant is not None:
        return OffsetSum((), constant)
    if isinstance(expr, Var) and expr.name in emission.sums:
        return emission.sums[expr.name]
    if isinstance(expr, Op) and expr.name == "add":
        left, right = expr.args
        a, b = offset_of(emission, left), offset_of(emission, right)
        wraps = expr.dtype.bits < 64 and not _recipe(expr).proved
        return OffsetSum(a.parts + b.parts, a.past + b.past, a.wraps or b.wraps or wraps)
    value = evaluate(emission, expr)
    return OffsetSum((value,), 0) if value.const is None else OffsetSum((), int(value.const.value))


def _constant(emission: Emission, expr: Expr) -> int | None:
    """An index that is constant here."""
    if isinstance(expr, Const):
        return int(expr.value)
    constants = emission.constants
    if isinstance(expr, Var):
        return constants.get(expr.name)
    index = _index(expr) if constants else None
    if index is None:
        return None
    for name in index.variables:
        if name not in constants:
            return None
    return index.fold(constants)


@remembered
def _index(expr: Expr) -> ConstantIndex | None:
    """An integer as a sum, product, quotient or remainder of constants and variables; None for other expressions."""
    if isinstance(expr, Const):
        value = int(expr.value)
        return ConstantIndex(frozenset(), lambda constants: value)
    if isinstance(expr, Var):
        return ConstantIndex(frozenset((expr.name,)), operator.itemgetter(expr.name))
    if isinstance(expr, Cast):
        source, dtype = expr.x.dtype, expr.dtype
        return _index(expr.x) if source.kind == dtype.kind == "int" and source.bits <= dtype.bits else None
    fold = _INDEX_FOLDS.get(expr.name) if isinstance(expr, Op) and expr.dtype.is_integer else None
    if fold is None or not isinstance(expr, Op):
        return None
    left, right = expr.args
    a, b = _index(left), _index(right)
    if a is None or b is None:
        return None
    variables, first, second = a.variables | b.variables, a.fold, b.fold
    if not isinstance(right, Const):
        joined = None if fold in _DIVISIONS else lambda constants: fold(first(constants), second(constants))
    else:
        number = int(right.value)
        joined = None if fold in _DIVISIONS and number <= 0 else lambda constants: fold(first(constants), number)
    return None if joined is None else ConstantIndex(variables, joined)


def _loaded(emission: Emission, load: Load) -> LLVMValue:
    assert not isinstance(load.place, Element), "lowering leaves no Element"
    return memory.load(emission, load.place.buffer, offset_of(emission, load.place.offset), load.order)


def _converted(emission: Emission, conversion: Cast) -> LLVMValue:
    x, dtype = evaluate(emission, conversion.x), conversion.dtype
    if x.const is not None and x.dtype.is_integer and dtype.is_integer:
        return integer(int(x.const.value), dtype)
    return cast(emission, x, dtype, conversion.saturate)


def _variable(emission: Emission, var: Var) -> LLVMValue:
    slot = emission.slots.get(var.name)
    if slot is not None:
        return LLVMValue(emission.writer.read(slot, slot.kind), var.dtype)
    offset = emission.sums.get(var.name)
    if offset is None:
        return emission.scalars[var.name]
    past = [integer(offset.past, var.dtype)] if offset.past else []
    return total(emission, [*offset.parts, *past])


def _operation(emission: Emission, op: Op) -> LLVMValue:
    order = _ORDERS.get(op.name)
    if order is not None:
        compared = _compared(emission, op, order)
        if compared is not None:
            return compared
    args = [evaluate(emission, a) for a in op.args]
    recipe = _recipe(op)
    if recipe.folds and (args[0].const is not None or args[1].const is not None):
        simplified = _simplified(emission, op, *args)
        if simplified is not None:
            return simplified
    texts = [a.text for a in args]
    if recipe.instruction is not None:
        form, dtype = recipe.instruction
        result = LLVMValue(emission.writer.value(form.format(*texts)), dtype)
    else:
        result = operation(emission, op.name, args[-1].dtype, texts, recipe.proved, op.span)
    return cast(emission, result, op.dtype)


#: how a sum is compared with a number, and that number with the sum
_ORDERS = {
    "less": ("slt", "sgt"), "less_equal": ("sle", "sge"), "greater": ("sgt", "slt"), "greater_equal": ("sge", "sle"),
}


def _compared(emission: Emission, op: Op, order: tuple[str, str]) -> LLVMValue | None:
    """A sum that ends in a constant, compared without adding that: what it is compared with is that much less.

    Of unrolled turns each then compares one value with a constant of its own. None where it isn't such a sum, or where
    a difference might wrap around. Numbers of 64 bits that aren't constant are the ends of windows of few tests, and
    several arrays have tests of one sum: there a difference for each would be more.
    """
    left, right = op.args
    if left.dtype.kind != "int" or not _is_near(left) or not _is_near(right):
        return None
    offset = offset_of(emission, left)
    if not offset.parts or not offset.past or offset.wraps or abs(offset.past) > _far(left.dtype):
        return None
    w, kind = emission.writer, f"i{left.dtype.bits}"
    parts, limit = total(emission, offset.parts), evaluate(emission, right)
    if limit.const is not None:
        compared = f"icmp {order[0]} {kind} {parts.text}, {int(limit.const.value) - offset.past}"
    elif left.dtype.bits > 32:
        return None
    else:
        left_over = w.value(f"sub nsw {kind} {limit.text}, {parts.text}")
        compared = f"icmp {order[1]} {kind} {left_over}, {offset.past}"
    return LLVMValue(w.value(compared), bool_)


@remembered
def _is_near(expr: Expr) -> bool:
    """Whether its differences from others that are near don't wrap around."""
    far, (low, high) = _far(expr.dtype), facts.bounds(expr)
    return low is not None and high is not None and -far <= low and high <= far


def _far(dtype: DType) -> int:
    """Sums of four numbers up to this don't wrap around."""
    return 1 << (dtype.bits - 3)


#: what computes the expressions that are made of others
_COMPUTED: dict[type, Callable[[Emission, Any], LLVMValue]] = {Op: _operation, Cast: _converted, Load: _loaded}


@remembered
def _recipe(op: Op) -> Recipe:
    """How an operation is written, which all turns of an unrolled loop share."""
    first, last, proved = op.args[0].dtype, op.args[-1].dtype, _proved(op)
    return Recipe(op.name in _FOLDS and not first.is_float, proved, one_instruction(op.name, last, proved))


def _simplified(emission: Emission, op: Op, x: LLVMValue, y: LLVMValue) -> LLVMValue | None:
    """The value of an operation of two arguments where no instruction is needed for it."""
    folded = _folded(op.name, x, y)
    if folded is not None:
        return LLVMValue.of(Const(bool(folded), bool_)) if op.dtype == bool_ else integer(folded, op.dtype)
    kept = _kept(op.name, x, y) if op.dtype.is_integer else None
    return None if kept is None else cast(emission, kept, op.dtype)


@lasting
def constant(const: Const) -> LLVMValue:
    """A constant as a value; by identity, as 0.0 and -0.0 are equal.

    Unrolled loops name one many times, and the bits of a float take 8 µs.
    """
    return integer(int(const.value), const.dtype) if const.dtype.is_integer else LLVMValue.of(const)


@lru_cache(4096)
def integer(value: int, dtype: DType) -> LLVMValue:
    """The constant that an integer becomes in a type."""
    wrapped = value & (2**dtype.bits - 1)
    if dtype.kind == "int" and wrapped >> (dtype.bits - 1):
        wrapped -= 2**dtype.bits
    return LLVMValue.of(Const(wrapped, dtype))


#: what gives the expressions that aren't made of others
_LEAVES: dict[type, Callable[[Emission, Any], LLVMValue]] = {
    Const: lambda emission, expr: constant(expr),
    Var: _variable,
    Special: lambda emission, expr: _asked(emission, expr.name),
}

_FOLDS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv, "mod": operator.mod,
    "bitwise_and": operator.and_, "bitwise_or": operator.or_, "bitwise_xor": operator.xor, "minimum": min,
    "maximum": max, "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt, "less_equal": operator.le,
    "greater": operator.gt, "greater_equal": operator.ge, "logical_and": operator.and_, "logical_or": operator.or_,
}


#: the operations that an index is made of; its value never wraps around
_INDEX_FOLDS = {name: _FOLDS[name] for name in ("add", "sub", "mul", "floordiv", "mod")}
_DIVISIONS = (operator.floordiv, operator.mod)


def _folded(name: str, x: LLVMValue, y: LLVMValue) -> int | None:
    """The result where unrolling has made the arguments constants: registers are named by constants only."""
    if x.const is None or y.const is None:
        return None
    fold, a, b = _FOLDS[name], int(x.const.value), int(y.const.value)
    return None if fold in _DIVISIONS and b == 0 else int(fold(a, b))


def _kept(name: str, x: LLVMValue, y: LLVMValue) -> LLVMValue | None:
    """The argument that an integer operation returns: x + 0, x * 1, x * 0, …, of which unrolling makes many."""
    a = None if x.const is None else x.const.value
    b = None if y.const is None else y.const.value
    if name == "mul":
        if a == 0 or b == 1:
            return x
        return y if b == 0 or a == 1 else None
    if name in ("add", "bitwise_xor", "bitwise_or"):
        return y if a == 0 else x if b == 0 else None
    return x if name == "sub" and b == 0 else None


def _proved(op: Op) -> bool:
    """Whether facts prove what makes an integer operation cheaper.

    That is, of sums and products, that they don't overflow; of divisions, that the dividend isn't negative and the
    divisor is positive.
    """
    if not op.dtype.is_integer or len(op.args) != 2:
        return False
    if op.name in ("floordiv", "mod"):
        low, divisor = facts.bounds(op.args[0])[0], facts.bounds(op.args[1])[0]
        return low is not None and low >= 0 and divisor is not None and divisor > 0
    if op.name not in ("add", "sub", "mul") or op.dtype.kind != "int":
        return False
    low, high = facts.bounds(op)
    least, most = facts.full_range(op.dtype)
    # A result that may wrap around has the whole type's range as its bounds.
    return low is not None and high is not None and least <= low and high <= most and (low, high) != (least, most)


def _asked(emission: Emission, name: str) -> LLVMValue:
    emission.asked.add(name)
    return special(emission, name)


def special(emission: Emission, name: str) -> LLVMValue:
    """A hardware id or size."""
    if name.startswith(("cta_id", "num_ctas")):
        register = "ctaid" if name.startswith("cta_id") else "nctaid"
        axis = "xyz"[int(name[-1])]
        low = 0 if register == "ctaid" else 1
        most = 2**31 - 1 if axis == "x" else 65535
        number = _special_register(emission, f"{register}.{axis}", low, most + low)
        return LLVMValue(emission.writer.value(f"zext i32 {number} to i64"), int64)
    thread = _special_register(emission, "tid.x", 0, emission.kernel.threads)
    thread_id = THREAD_IDS[name]
    if thread_id.divisor > 1:
        thread = emission.writer.value(f"lshr i32 {thread}, {thread_id.divisor.bit_length() - 1}")
    if thread_id.modulus is not None:
        thread = emission.writer.value(f"and i32 {thread}, {thread_id.modulus - 1}")
    return LLVMValue(thread, int32)


def _special_register(emission: Emission, register: str, low: int, end: int) -> str:
    symbol = f"llvm.nvvm.read.ptx.sreg.{register}"
    emission.writer.declarations[f"declare i32 @{symbol}()"] = None
    return emission.writer.value(f"call range(i32 {low}, {end}) i32 @{symbol}()", pure=True)
