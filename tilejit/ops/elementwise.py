"""The one table of elementwise operations: names, arity, type rule, NumPy meaning.

Tile operations, scalar `Op`s, code generation and tests use the same names. Of an operation on values of types
`dtypes`, `result_type` says in which type it computes and what it returns: every argument is converted to the
first (but the condition of `where`, which is bool_), the operation gives a value of that type (comparisons and
logical operations: bool_), and this is converted to the second. float16 and bfloat16 thus compute in float32 and
round once, unless the operation is exact anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, reduce

import numpy as np

from ..dtypes import DType, bfloat16, bool_, float16, float32, from_numpy, int32, promote
from . import formulas as f
from .cast import convert

__all__ = ["ELEMENTWISE", "Elementwise", "reference", "result_type", "value_type"]

Array = np.ndarray
Formula = Callable[..., Array]


@dataclass(frozen=True, slots=True)
class Elementwise:
    """One elementwise operation.

    kind: its type rule, a key of `RULES`. meaning: one line.
    formula: its NumPy meaning on arrays that are already of the type in which it computes.
    """

    name: str
    arity: int
    kind: str
    meaning: str
    formula: Formula

    def reference(self, *arrays: Array) -> Array:
        """The NumPy meaning on arrays of any types, which are converted as `result_type` says."""
        return reference(self.name, *arrays)


#: kind -> what it takes and gives
RULES: dict[str, str] = {
    "function": "of floats; integers and bool_ are converted to float32",
    "arithmetic": "of integers and floats in the promoted type; bool_ counts as int32",
    "exact": "as arithmetic, and never rounds: float16 and bfloat16 are not converted",
    "bits": "of integers and bool_ in the promoted type",
    "shift": "of integers in the promoted type; bool_ counts as int32",
    "comparison": "of values in the promoted type; gives bool_",
    "logical": "of values converted to bool_; gives bool_",
    "select": "a bool_ condition, then two values in the promoted type",
}

#: name -> operation, in the order of the documentation
ELEMENTWISE: dict[str, Elementwise] = {
    op.name: op
    for op in (
        Elementwise("sqrt", 1, "function", "square root, correctly rounded", f.sqrt),
        Elementwise("rsqrt", 1, "function", "1 / sqrt(x)", f.rsqrt),
        Elementwise("exp", 1, "function", "e to the power x", f.exp),
        Elementwise("exp2", 1, "function", "2 to the power x", f.exp2),
        Elementwise("log", 1, "function", "natural logarithm", f.log),
        Elementwise("log2", 1, "function", "logarithm to base 2", f.log2),
        Elementwise("sin", 1, "function", "sine of x radians", f.sin),
        Elementwise("cos", 1, "function", "cosine of x radians", f.cos),
        Elementwise("tanh", 1, "function", "hyperbolic tangent", f.tanh),
        Elementwise("erf", 1, "function", "error function", f.erf),
        Elementwise("sigmoid", 1, "function", "1 / (1 + exp(-x))", f.sigmoid),
        Elementwise("silu", 1, "function", "x / (1 + exp(-x)); nan at -inf", f.silu),
        Elementwise("relu", 1, "exact", "x where x > 0, else 0; nan stays nan", f.relu),
        Elementwise("gelu", 1, "function", "x/2 * (1 + erf(x / sqrt(2))); nan at -inf", f.gelu),
        Elementwise("reciprocal", 1, "function", "1 / x, correctly rounded", f.reciprocal),
        Elementwise("neg", 1, "exact", "-x; integers wrap", np.negative),
        Elementwise("abs", 1, "exact", "|x|; the least integer stays itself", np.abs),
        Elementwise("floor", 1, "function", "the greatest whole number that isn't greater", np.floor),
        Elementwise("ceil", 1, "function", "the least whole number that isn't less", np.ceil),
        Elementwise("round", 1, "function", "the nearest whole number, ties to even", np.rint),
        Elementwise("bitwise_not", 1, "bits", "~x; of bool_ its negation", np.invert),
        Elementwise("logical_not", 1, "logical", "not x", np.logical_not),
        Elementwise("add", 2, "arithmetic", "x + y; integers wrap", np.add),
        Elementwise("sub", 2, "arithmetic", "x - y; integers wrap", np.subtract),
        Elementwise("mul", 2, "arithmetic", "x * y; integers wrap", np.multiply),
        Elementwise("div", 2, "function", "x / y, correctly rounded; of integers in float32", np.divide),
        Elementwise("floordiv", 2, "arithmetic", "x // y rounds down; of integers by zero 0", f.floordiv),
        Elementwise("mod", 2, "arithmetic", "x % y, with the sign of y; of integers by zero 0", f.mod),
        Elementwise("maximum", 2, "exact", "the greater; nan if either is nan", np.maximum),
        Elementwise("minimum", 2, "exact", "the less; nan if either is nan", np.minimum),
        Elementwise("pow", 2, "arithmetic", "x to the power y; integers wrap, negative y truncates", f.power),
        Elementwise("bitwise_and", 2, "bits", "x & y", np.bitwise_and),
        Elementwise("bitwise_or", 2, "bits", "x | y", np.bitwise_or),
        Elementwise("bitwise_xor", 2, "bits", "x ^ y", np.bitwise_xor),
        Elementwise("left_shift", 2, "shift", "x << y; 0 where y isn't in 0 .. bits-1", np.left_shift),
        Elementwise("right_shift", 2, "shift", "x >> y; x < 0 ? -1 : 0 where y isn't in 0 .. bits-1", np.right_shift),
        Elementwise("equal", 2, "comparison", "x == y", np.equal),
        Elementwise("not_equal", 2, "comparison", "x != y; true of nan", np.not_equal),
        Elementwise("less", 2, "comparison", "x < y", np.less),
        Elementwise("less_equal", 2, "comparison", "x <= y", np.less_equal),
        Elementwise("greater", 2, "comparison", "x > y", np.greater),
        Elementwise("greater_equal", 2, "comparison", "x >= y", np.greater_equal),
        Elementwise("logical_and", 2, "logical", "x and y", np.logical_and),
        Elementwise("logical_or", 2, "logical", "x or y", np.logical_or),
        Elementwise("fma", 3, "arithmetic", "x * y + z, rounded once in the type in which it computes", f.fma),
        Elementwise("where", 3, "select", "y where the condition x holds, else z", np.where),
        Elementwise("clamp", 3, "exact", "minimum(maximum(x, lo), hi)", f.clamp),
    )
}


@cache
def result_type(name: str, dtypes: tuple[DType, ...]) -> tuple[DType, DType] | str:
    """The types in which the operation computes and which it returns, or why it can't take `dtypes`."""
    op = ELEMENTWISE[name]
    if len(dtypes) != op.arity:
        return f"{name} takes {op.arity} operands; got {len(dtypes)}"
    fp8 = [d for d in dtypes if d.is_fp8]
    if fp8:
        return f"{name} of {fp8[0]}: fp8 is storage; cast it first, for example to float32"
    if op.kind == "logical":
        return bool_, bool_
    if op.kind == "select":
        if dtypes[0] != bool_:
            return f"the condition of {name} must be bool_; got {dtypes[0]}"
        promoted = promote(dtypes[1], dtypes[2])
        return promoted, promoted
    promoted = reduce(promote, dtypes)
    if op.kind == "comparison":
        return promoted, bool_
    return _arithmetic_type(op, promoted)


def _arithmetic_type(op: Elementwise, promoted: DType) -> tuple[DType, DType] | str:
    if op.kind in ("bits", "shift") and promoted.is_float:
        return f"{op.name} takes integers or bool_; got {promoted}"
    if op.kind == "bits":
        return promoted, promoted
    if op.kind == "function" and not promoted.is_float:
        return float32, float32
    if promoted == bool_:
        return int32, int32
    if op.kind != "exact" and promoted in (float16, bfloat16):
        return float32, promoted
    return promoted, promoted


def value_type(name: str, compute: DType) -> DType:
    """The type of the value that the operation gives when it computes in `compute`: that, or bool_."""
    return bool_ if ELEMENTWISE[name].kind in ("comparison", "logical") else compute


def reference(name: str, *arrays: Array) -> Array:
    """The NumPy meaning of the operation on arrays of any of our types; they broadcast.

    raises: TypeError where the operation can't take these types.
    """
    op = ELEMENTWISE[name]
    values = [np.asarray(a) for a in arrays]
    dtypes = tuple(_dtype(v) for v in values)
    rule = result_type(name, dtypes)
    if isinstance(rule, str):
        raise TypeError(rule)
    compute, result = rule
    keep = 1 if op.kind == "select" else 0
    converted = values[:keep] + [convert(v, compute) for v in values[keep:]]
    with np.errstate(all="ignore"):
        value = np.asarray(op.formula(*converted))
    return convert(value, result)


def _dtype(values: Array) -> DType:
    dtype = from_numpy(values.dtype)
    if dtype is None:
        raise TypeError(f"no element type for NumPy's {values.dtype}")
    return dtype
