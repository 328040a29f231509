"""Lower scalar expressions from IR nodes to LLVM values."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from ..dtypes import DType, bool_, int32, uint64
from ..ir.arithmetic import build, facts
from ..ir.clusters import Cluster, rank_name
from ..ir.nodes import SPECIALS, Cast, Const, Element, Expr, Load, Op, Special, Var
from ..ops.elementwise.random import BLOCK, RANDOM_BITS
from ..remember import lasting, remembered
from ..scopes import THREAD_IDS
from . import memory
from .casts import cast
from .emission import Emission, LLVMValue, OffsetParts
from .operations import operation
from .types import literal


def evaluate(emission: Emission, expr: Expr) -> LLVMValue:
    """Return the value of `expr`, emitted at the writer's position unless it is already available there."""
    if isinstance(expr, Const):
        return integer(int(expr.value), expr.dtype) if expr.dtype.is_integer else constant(expr)
    if isinstance(expr, Var):
        known = emission.scalars.get(expr.name)
        return _changing(emission, expr) if known is None else known
    if isinstance(expr, Special):
        emission.specials.add(expr.name)
        return special(emission, expr.name)
    w = emission.writer
    value = w.results.get(id(expr))
    if value is not None:
        return value
    compute, was_impure = _COMPUTED[type(expr)], emission.is_impure
    emission.is_impure = False
    if expr.span is None:
        value = compute(emission, expr)
    else:
        before = w.at(expr.span)
        value = compute(emission, expr)
        w.restore(before)
    if not emission.is_impure:
        w.results[id(expr)] = value
    emission.is_impure = emission.is_impure or was_impure
    return value


def offset_of(emission: Emission, expr: Expr) -> OffsetParts:
    """Emit the run-time part of an integer, such as an element offset, and return it with the constant part."""
    if type(expr) is Const:
        return OffsetParts(None, int(expr.value))
    if not isinstance(expr, Op) or expr.name != "add" or not isinstance(expr.args[1], Const):
        return OffsetParts(evaluate(emission, expr), 0)
    if expr.dtype.bits < 64 and not _proved(expr):
        # pointers have 64 bits, so a sum that may wrap in its own type must be computed before it is extended
        return OffsetParts(evaluate(emission, expr), 0)
    return OffsetParts(evaluate(emission, expr.args[0]), int(expr.args[1].value))


def _loaded(emission: Emission, load: Load) -> LLVMValue:
    assert not isinstance(load.place, Element), "lowering leaves no Element"
    emission.is_impure = True
    return memory.load(emission, load.place.buffer, offset_of(emission, load.place.offset), load.order)


def _converted(emission: Emission, conversion: Cast) -> LLVMValue:
    return cast(emission, evaluate(emission, conversion.x), conversion.dtype, conversion.saturate)


def _changing(emission: Emission, var: Var) -> LLVMValue:
    emission.is_impure = True
    slot = emission.slots[var.name]
    return LLVMValue(emission.writer.read(slot, slot.kind), var.dtype)


def _operation(emission: Emission, op: Op) -> LLVMValue:
    order = _ORDERS.get(op.name)
    if order is not None:
        compared = _compared(emission, op, order)
        if compared is not None:
            return compared
    texts: list[str] = []
    for arg in _random_operands(op) if op.name == RANDOM_BITS.name else op.args:
        # a comprehension would cost another call before Python 3.12; the last `value` is also used below
        value = evaluate(emission, arg)
        texts.append(value.text)
    proved, computed = op.dtype.is_integer and _proved(op), value.dtype
    result = operation(emission, op.name, computed, texts, proved, op.span)
    return result if result.dtype is op.dtype else cast(emission, result, op.dtype)


def _random_operands(op: Op) -> tuple[Expr, ...]:
    """Return the seed, the offset of the block and, if known, the word in the block: blocks are then computed once.

    Conversions keep the sum: an extension because the lowest bits of the block's offset are 0, so that the sum can't
    wrap, and a truncation because it keeps the lowest bits.
    """
    seed, offset = op.args
    plain = offset.x if isinstance(offset, Cast) and offset.x.dtype.is_integer else offset
    block, word = build.apart(plain, BLOCK)
    return (seed, build.cast(block, uint64), build.cast(word, uint64)) if isinstance(word, Const) else op.args


#: comparison -> its predicate, and the predicate if the operands are exchanged
_ORDERS = {
    "less": ("slt", "sgt"), "less_equal": ("sle", "sge"), "greater": ("sgt", "slt"), "greater_equal": ("sge", "sle"),
}


def _compared(emission: Emission, op: Op, order: tuple[str, str]) -> LLVMValue | None:
    """Emit the comparison of a sum `x + constant` with a limit so that one side is a constant.

    It becomes `x < limit - constant` if the limit is constant, otherwise `limit - x > constant`: unrolled iterations
    then compare one shared value with different constants.
    returns: the result; None if the left side isn't such a signed sum, a difference might wrap, or the limit has 64
    bits and isn't constant. Such a limit is usually the size of an array, in a bounds test: there are few tests per
    array, and those of several arrays share the sum, so a difference per limit would cost more.
    """
    left, right = op.args
    if left.dtype.kind != "int" or not _is_near(left) or not _is_near(right):
        return None
    offset = offset_of(emission, left)
    if offset.part is None or not offset.past or abs(offset.past) > _far(left.dtype):
        return None
    w, kind, limit = emission.writer, f"i{left.dtype.bits}", evaluate(emission, right)
    if limit.const is not None:
        compared = f"icmp {order[0]} {kind} {offset.part.text}, {int(limit.const.value) - offset.past}"
    elif left.dtype.bits > 32:
        return None
    else:
        left_over = w.value(f"sub nsw {kind} {limit.text}, {offset.part.text}")
        compared = f"icmp {order[1]} {kind} {left_over}, {offset.past}"
    return LLVMValue(w.value(compared), bool_)


@remembered
def _is_near(expr: Expr) -> bool:
    far, (low, high) = _far(expr.dtype), facts.bounds(expr)
    return low is not None and high is not None and -far <= low and high <= far


@cache
def _far(dtype: DType) -> int:
    """Return a bound such that the sum of three numbers of at most this magnitude can't wrap."""
    return 1 << (dtype.bits - 3)


_COMPUTED: dict[type, Callable[[Emission, Any], LLVMValue]] = {Op: _operation, Cast: _converted, Load: _loaded}


@lasting
def constant(const: Const) -> LLVMValue:
    """Return a non-integer constant as an LLVM value. Cached: unrolled loops repeat it, and formatting takes 8 µs."""
    return LLVMValue(literal(const), const.dtype, const)


@lru_cache(4096)
def integer(value: int, dtype: DType) -> LLVMValue:
    """Return an integer constant as an LLVM value, wrapped to the width of `dtype`."""
    wrapped = value & (2**dtype.bits - 1)
    if dtype.kind == "int" and wrapped >> (dtype.bits - 1):
        wrapped -= 2**dtype.bits
    const = Const(wrapped, dtype)
    return LLVMValue(literal(const), dtype, const)


def _proved(op: Op) -> bool:
    """True if known bounds allow a cheaper integer operation.

    They must show that a signed sum, difference or product can't overflow, that `floordiv` or `mod` has a nonnegative
    dividend and a positive divisor, or that a shift count is less than the width.
    """
    if not op.dtype.is_integer or len(op.args) != 2:
        return False
    if op.name in ("left_shift", "right_shift"):
        least, most = facts.bounds(op.args[1])
        return least is not None and least >= 0 and most is not None and most < op.dtype.bits
    if op.name in ("floordiv", "mod"):
        low, divisor = facts.bounds(op.args[0])[0], facts.bounds(op.args[1])[0]
        return low is not None and low >= 0 and divisor is not None and divisor > 0
    if op.name not in ("add", "sub", "mul") or op.dtype.kind != "int":
        return False
    low, high = facts.bounds(op)
    least, most = facts.full_range(op.dtype)
    # The bounds of a result that may wrap are the type's full range.
    return low is not None and high is not None and least <= low and high <= most and (low, high) != (least, most)


def specials_along(axis: int, cluster: Cluster | None) -> frozenset[str]:
    """Return the names of the specials that depend on a CTA's position along a grid axis, or on the axis's extent.

    If a cluster has several CTAs along the axis, the CTA's rank in the cluster is one of them.
    """
    of_cluster = () if cluster is None or cluster[axis] == 1 else (rank_name(cluster),)
    return frozenset((*(name for name in SPECIALS if name.endswith(f".{axis}")), *of_cluster))


def special(emission: Emission, name: str) -> LLVMValue:
    """Return the value of the `Special` of this name: a special register, or an id computed from the thread index."""
    known = SPECIALS[name]
    if known.register:
        number = _special_register(emission, known.register, known.least, known.greatest + 1)
        wide = known.dtype.bits > int32.bits
        return LLVMValue(emission.writer.value(f"zext i32 {number} to i64") if wide else number, known.dtype)
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
