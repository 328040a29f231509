"""Random integer expressions, values for their variables, and whether int64 overflows."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

from tests.reference.expressions import evaluate
from tilejit.dtypes import DType, bool_, int32, int64, uint8, uint32
from tilejit.ir.arithmetic.facts import full_range, is_data
from tilejit.ir.nodes import SPECIALS, Cast, Const, Expr, Op, Special, Var

Environment = Mapping[str, int]

#: variables with facts: name -> (variable, all that it may be)
VARIABLES: dict[str, Var] = {
    v.name: v
    for v in (
        Var("i", int32),
        Var("j", int32, 4, (0, 124)),
        Var("k", int32, 1, (-7, 9)),
        Var("m", int32, 6, (-600, 2**31 - 2)),
        Var("a", int64),
        Var("b", int64, 8, (0, 2**40)),
        Var("c", int64, 3, (-9, 9)),
        Var("d", int64, data=True),
        Var("e", int64, 6, (0, 2**63 - 2), data=True),
        Var("f", int32, 1, (0, 7), data=True),
        Var("u", uint32),
        Var("w", uint32, 2, (0, 100)),
        Var("s", uint8),
        Var("z", int32, 0, (0, 0)),
    )
}
SPECIAL_NAMES = ("thread_id", "lane_id", "cta_id.0", "num_ctas.1")
BINARY = (
    "add", "sub", "mul", "floordiv", "mod", "minimum", "maximum", "bitwise_and", "bitwise_or", "bitwise_xor",
    "left_shift", "right_shift",
)
COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")


def overflows_int64(expr: Expr, values: Environment) -> bool:
    """True if some int64 operation in `expr` overflows on values that are not data, which facts assume away."""
    if isinstance(expr, Cast):
        return overflows_int64(expr.x, values)
    if not isinstance(expr, Op):
        return False
    if any(overflows_int64(a, values) for a in expr.args):
        return True
    if expr.dtype != int64 or is_data(expr):
        return False
    if expr.name not in ("add", "sub", "mul", "neg", "abs", "left_shift", "floordiv"):
        return False
    true = _true_value(expr.name, [int(evaluate(a, values)) for a in expr.args])
    return not -(2**63) <= true < 2**63


def _true_value(name: str, args: list[int]) -> int:
    if name in ("neg", "abs"):
        return -args[0] if name == "neg" else abs(args[0])
    a, b = args
    if name == "left_shift":
        return a << b if 0 <= b < 64 else 0
    if name == "floordiv":
        return a // b if b else 0
    return {"add": a + b, "sub": a - b, "mul": a * b}[name]


@st.composite
def environments(draw: st.DrawFn) -> dict[str, int]:
    """Values that the facts of the variables allow."""
    found = {}
    for var in VARIABLES.values():
        low, high = var.bounds or full_range(var.dtype)
        step = max(var.multiple_of, 1)
        edge = st.sampled_from((-(-low // step) * step, high // step * step))
        inside = st.integers(-(-low // step), high // step).map(lambda n, step=step: n * step)
        near = st.integers(max(-3, -(-low // step)), min(40, high // step)).map(lambda n, step=step: n * step)
        found[var.name] = draw(st.one_of(near, inside, edge))
    for name in SPECIAL_NAMES:
        found[name] = draw(st.integers(SPECIALS[name].least, SPECIALS[name].greatest))
    return found


def leaves(dtype: DType) -> st.SearchStrategy[Expr]:
    """Variables, specials and constants of a type."""
    named = [v for v in VARIABLES.values() if v.dtype == dtype]
    special = [Special(n) for n in SPECIAL_NAMES if SPECIALS[n].dtype == dtype]
    low, high = full_range(dtype)
    small = st.integers(max(low, -9), 70)
    wide = st.integers(low, high)
    constants = st.one_of(small, st.sampled_from((1, 2, 4, 8, 32, 64)), wide).map(lambda v: Const(v, dtype))
    return st.one_of(st.sampled_from(named + special), constants) if named or special else constants


def integers(dtype: DType, depth: int = 3) -> st.SearchStrategy[Expr]:
    """Expressions of an integer type, built without folding."""
    if depth == 0:
        return leaves(dtype)
    part = integers(dtype, depth - 1)
    binary = st.builds(lambda n, a, b: Op(n, (a, b), dtype), st.sampled_from(BINARY), part, part)
    linear = st.builds(lambda n, a, b: Op(n, (a, b), dtype), st.sampled_from(("add", "sub", "mul")), part, part)
    unary = st.builds(lambda n, a: Op(n, (a,), dtype), st.sampled_from(("neg", "abs", "relu", "bitwise_not")), part)
    others = [t for t in (int32, int64, uint32, uint8) if t != dtype]
    casts = st.sampled_from(others).flatmap(lambda t: integers(t, depth - 1)).map(lambda x: Cast(x, dtype))
    chosen = st.builds(lambda c, a, b: Op("where", (c, a, b), dtype), conditions(depth - 1), part, part)
    return st.one_of(leaves(dtype), linear, binary, linear, unary, casts, chosen)


def conditions(depth: int = 2) -> st.SearchStrategy[Expr]:
    """Expressions of bool_."""
    constants = st.booleans().map(lambda v: Const(v, bool_))
    if depth == 0:
        return constants
    types = st.sampled_from((int32, int64, uint32))
    pairs = types.flatmap(lambda t: st.tuples(integers(t, depth - 1), integers(t, depth - 1)))
    compared = st.builds(lambda n, p: Op(n, p, bool_), st.sampled_from(COMPARISONS), pairs)
    part = conditions(depth - 1)
    joined = st.builds(lambda n, a, b: Op(n, (a, b), bool_), st.sampled_from(("logical_and", "logical_or")), part, part)
    negated = part.map(lambda x: Op("logical_not", (x,), bool_))
    return st.one_of(compared, compared, joined, negated, constants)


def any_integers() -> st.SearchStrategy[Expr]:
    return st.sampled_from((int32, int64, uint32, uint8)).flatmap(integers)
