"""Grammar shared by the printer and the parser: operators, names, and the types of untyped literals and of results."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence

from ...dtypes import DType, bool_, float32, int32
from ...ops.elementwise import ELEMENTWISE
from ..nodes import Cast, Expr, Load, Op, Special, Var

#: operation -> (operator, precedence); left-associative, but the printer parenthesizes comparisons of comparisons
INFIX: dict[str, tuple[str, int]] = {
    "logical_or": ("or", 1),
    "logical_and": ("and", 2),
    "less": ("<", 4),
    "less_equal": ("<=", 4),
    "greater": (">", 4),
    "greater_equal": (">=", 4),
    "equal": ("==", 4),
    "not_equal": ("!=", 4),
    "bitwise_or": ("|", 5),
    "bitwise_xor": ("^", 6),
    "bitwise_and": ("&", 7),
    "left_shift": ("<<", 8),
    "right_shift": (">>", 8),
    "add": ("+", 9),
    "sub": ("-", 9),
    "mul": ("*", 10),
    "div": ("/", 10),
    "floordiv": ("//", 10),
    "mod": ("%", 10),
}
COMPARISON = 4
NOT = 3
INVERT = 11
ATOM = 12

#: words that the printer encloses in backquotes if they are names
RESERVED = frozenset((
    *keyword.kwlist, "inf", "nan", "in", "of", "when", "otherwise", "cache", "step", "align", "inside",
    "descriptor",
))

#: the classes of expressions that aren't literals; they determine the types of untyped literals (`literal_dtypes`)
TYPED = (Var, Special, Op, Cast, Load)

NAME = re.compile(r"[^\W\d]\w*(?:\.\w+)*")


def default_dtype(is_float: bool) -> DType:
    """Return the type of an untyped literal if the context determines none."""
    return float32 if is_float else int32


def literal_dtypes(name: str, args: Sequence[object]) -> list[DType | None]:
    """Return, for each argument, the type that it has if it is an untyped literal.

    It is bool_ for a condition; for others, the type of the first of them that isn't a literal, or None if all are.
    """
    conditions = ELEMENTWISE[name].conditions if name in ELEMENTWISE else 0
    dtype = next((a.dtype for a in args[conditions:] if isinstance(a, TYPED)), None)
    return [bool_ if k < conditions else dtype for k in range(len(args))]


def derived_dtype(name: str, args: tuple[Expr, ...]) -> DType:
    """Return the type of an operation's result if the text specifies none."""
    if not args or name not in ELEMENTWISE:
        return int32
    return ELEMENTWISE[name].value_type(args[-1].dtype)


def says_its_type(op: Op) -> bool:
    """True if the text must specify the type of this operation's result."""
    return op.dtype != derived_dtype(op.name, op.args)
