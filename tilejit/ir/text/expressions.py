"""Parser for expressions and places, by precedence climbing. The grammar is in `printer`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

from ...dataclass import dataclass, field
from ...dtypes import DTYPES, MEMORY_TYPES, DType, bool_
from ...ops.elementwise import ELEMENTWISE
from .. import nodes as ir
from .grammar import INFIX, NOT, default_dtype, derived_dtype, literal_dtypes
from .tokens import Line

T = TypeVar("T")


@dataclass(slots=True)
class Names:
    """The variables and buffers defined so far."""

    vars: dict[str, ir.Var] = field(default_factory=dict)
    buffers: dict[str, ir.Buffer] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Bare:
    value: int | float

    def typed(self, dtype: DType | None) -> ir.Const:
        is_float = isinstance(self.value, float)
        return ir.Const(self.value, dtype or default_dtype(is_float))


_Raw = ir.Expr | _Bare

_OPERATIONS = {sign: (name, level) for name, (sign, level) in INFIX.items()}


def expression(line: Line, names: Names, wanted: DType | None = None) -> ir.Expr:
    """Parse an expression. wanted: the type of an untyped literal in this context, or None."""
    return _typed(_climb(line, names, 0), wanted)


def place(line: Line, names: Names) -> ir.Vector | ir.Element:
    """Parse a vector, NAME[OFFSET +: WIDTH], or an element, NAME[INDEX, …]."""
    buffer, dims = _box(line, names)
    first, width = dims[0] if len(dims) == 1 else ((), None)
    if width is not None and not isinstance(first, tuple):
        return ir.Vector(buffer, _typed(first, buffer.index_dtype), width)
    starts = [start for start, extent in dims if extent is None and not isinstance(start, tuple)]
    if len(starts) < len(dims):
        line.fail("expected an element or a vector; got a region")
    return ir.Element(buffer, tuple(_typed(start, buffer.index_dtype) for start in starts))


def region(line: Line, names: Names) -> ir.Region:
    """Parse NAME[DIM, …] [inside], with DIM as START +: EXTENT, START or, at most once, `at (EXTENT, …)`."""
    buffer, dims = _box(line, names)
    starts = tuple(_typed(_Bare(0) if isinstance(start, tuple) else start, buffer.index_dtype) for start, _ in dims)
    gathered = [ir.Gathered(dim, start) for dim, (start, _) in enumerate(dims) if isinstance(start, tuple)]
    if len(gathered) > 1:
        line.fail("only one dimension can be gathered")
    extents = tuple(extent for _, extent in dims)
    return ir.Region(buffer, starts, extents, line.accept("inside"), gathered=gathered[0] if gathered else None)


def ends_after_place(line: Line) -> bool:
    """True if the next operand, which ends at a separator or at the end of the line, is only a place."""
    ahead = line.tokens[line.at :]
    if len(ahead) < 2 or ahead[0].kind not in ("name", "quoted") or ahead[1].text != "[":
        return False
    depth = 0
    for number, token in enumerate(ahead):
        if token.kind == "sign":
            depth += (token.text in ("[", "(")) - (token.text in ("]", ")"))
        if number > 0 and depth == 0:
            after = ahead[number + 1]
            return after.kind == "end" or after.text in (",", ";", "inside", "as")
    return False


def dtype_name(line: Line) -> DType:
    name = line.name()
    if name not in MEMORY_TYPES:
        line.fail(f"{name!r} isn't an element type; expected one of {', '.join(MEMORY_TYPES)}")
    return MEMORY_TYPES[name]


def looked_up(line: Line, table: Mapping[str, T], what: str) -> T:
    """Parse a name and return its entry in a table, which must contain it. what: describes the entry in the message."""
    column = line.peek.column
    name = line.name()
    if name not in table:
        line.fail(f"{what} {name!r} isn't defined", column)
    return table[name]


def _typed(raw: _Raw, wanted: DType | None) -> ir.Expr:
    return raw.typed(wanted) if isinstance(raw, _Bare) else raw


def _box(line: Line, names: Names) -> tuple[ir.Buffer, list[tuple[_Raw | tuple[int, ...], int | None]]]:
    """Parse a buffer and its bracketed dimensions: (start, extent or None), or (shape of an index, None)."""
    buffer = looked_up(line, names.buffers, "buffer")
    line.expect("[")
    return buffer, line.separated(lambda: _dimension(line, names), "]")


def _dimension(line: Line, names: Names) -> tuple[_Raw | tuple[int, ...], int | None]:
    if line.sees("at", "("):
        line.expect("at")
        line.expect("(")
        return tuple(line.separated(line.integer, ")")), None
    start = _climb(line, names, 0)
    return start, line.integer() if line.accept("+:") else None


def _climb(line: Line, names: Names, least: int) -> _Raw:
    left = _prefixed(line, names)
    while line.peek.kind in ("sign", "name") and line.peek.text in _OPERATIONS:
        name, level = _OPERATIONS[line.peek.text]
        if level < least:
            break
        line.take()
        left = _op(name, (left, _climb(line, names, level + 1)))
    return left


def _prefixed(line: Line, names: Names) -> _Raw:
    if line.accept("not"):
        return _op("logical_not", (_climb(line, names, NOT),))
    if line.accept("~"):
        return _op("bitwise_not", (_prefixed(line, names),))
    return _primary(line, names)


def _primary(line: Line, names: Names) -> _Raw:
    token = line.peek
    if line.accept("("):
        inner = _climb(line, names, 0)
        line.expect(")")
        return inner
    if token.kind in ("int", "float") or line.sees("-") or line.sees("inf") or line.sees("nan"):
        return _literal(line)
    if token.kind == "special":
        line.take()
        if token.text[1:] not in ir.SPECIALS:
            line.fail(f"unknown special register {token.text}", token.column)
        return ir.Special(token.text[1:])
    if line.sees("True") or line.sees("False"):
        return ir.Const(line.take().text == "True", bool_)
    if token.kind == "name" and line.sees(token.text, "("):
        return _call(line, names)
    if token.kind in ("name", "quoted") and line.tokens[line.at + 1].text == "[":
        return ir.Load(place(line, names), order(line))
    return looked_up(line, names.vars, "variable")


def order(line: Line) -> str:
    """Parse a memory order, as in `@ acquire.gpu`; return "" if there is none."""
    return line.name() if line.accept("@") else ""


def _literal(line: Line) -> _Raw:
    sign = -1 if line.accept("-") else 1
    token = line.take()
    if token.text in ("inf", "nan"):
        value: int | float = sign * (math.inf if token.text == "inf" else math.nan)
    elif token.kind in ("int", "float"):
        value = sign * (int(token.text, 0) if token.kind == "int" else float(token.text))
    else:
        line.fail(f"expected a number; got {token.text or 'the end of the line'!r}", token.column)
    return ir.Const(value, dtype_name(line)) if line.accept(":") else _Bare(value)


def _call(line: Line, names: Names) -> ir.Expr:
    token = line.take()
    line.expect("(")
    args: list[_Raw] = []
    saturate = True
    while not line.accept(")"):
        if args:
            line.expect(",")
        if line.sees("saturate", "="):
            saturate = _saturate(line)
            continue
        args.append(_climb(line, names, 0))
    if token.text in DTYPES and len(args) == 1:
        return ir.Cast(_typed(args[0], None), DTYPES[token.text], saturate)
    if token.text not in ELEMENTWISE:
        line.fail(f"unknown operation {token.text!r}", token.column)
    op = _op(token.text, tuple(args))
    return ir.Op(op.name, op.args, dtype_name(line)) if line.accept(":") else op


def _saturate(line: Line) -> bool:
    line.expect("saturate")
    line.expect("=")
    word = line.name()
    if word not in ("True", "False"):
        line.fail(f"saturate must be True or False; got {word}")
    return word == "True"


def _op(name: str, args: tuple[_Raw, ...]) -> ir.Op:
    typed = tuple(_typed(a, wanted) for a, wanted in zip(args, literal_dtypes(name, args), strict=True))
    return ir.Op(name, typed, derived_dtype(name, typed))
