"""`X.reshape(...)` of a tensor with run-time strides: a view whose extents and strides are computed at entry.

Dimensions are matched in order by their products, compared as products of a number and parameters. So
`X.reshape(-1, X.shape[2])` keeps the last dimension, whatever its stride, and merges only the others. A launch computes
the same sizes (`executable/reshapes.py`), and raises LaunchError unless they address the elements in order.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ..dtypes import int64
from ..ir import walk
from ..ir.arithmetic import build
from ..ir.arithmetic.facts import multiple_of
from ..ir.nodes import Const, Expr, Let, Load, Op, Special, Strided, Var
from ..source import Span
from ..wording import counted
from . import buffers
from .context import Context
from .regions import expanded
from .values import LARGEST_EXTENT, Items, Memory, Scalar, Value, describe

#: the stride of a new dimension of extent 1, in elements: a multiple of all alignments
_UNUSED_STRIDE = 32
#: in bytes, the largest alignment that an extent is known to have
_EXTENT_ALIGN = 16


class Monomial(NamedTuple):
    """A product of a number and other expressions, sorted by their text."""

    number: int = 1
    factors: tuple[Expr, ...] = ()

    @staticmethod
    def of(extent: int | Expr) -> Monomial:
        if isinstance(extent, int):
            return Monomial(extent)
        if isinstance(extent, Const):
            return Monomial(int(extent.value))
        if isinstance(extent, Op) and extent.name == "mul":
            return product(map(Monomial.of, extent.args))
        return Monomial(1, (extent,))

    def over(self, other: Monomial) -> Monomial | None:
        """Return the quotient if it is known to be exact, else None."""
        factors = list(self.factors)
        if not other.number or self.number % other.number:
            return None
        for factor in other.factors:
            if factor not in factors:
                return None
            factors.remove(factor)
        return Monomial(self.number // other.number, tuple(factors))

    @property
    def expr(self) -> Expr:
        value: Expr = build.const(self.number, int64)
        for factor in self.factors:
            value = build.mul(value, factor)
        return value


def product(parts: Iterable[Monomial]) -> Monomial:
    number, factors = 1, list[Expr]()
    for part in parts:
        number *= part.number
        factors += part.factors
    return Monomial(number, tuple(sorted(factors, key=repr)))


def reshaped(ctx: Context, node: ast.Call, given: ast.expr, memory: Memory, strides: Sequence[int | Var]) -> Memory:
    """Return a view of a whole tensor in another shape. strides: the tensor's, in elements."""
    if memory.buffer.root.name in ctx.scratch:
        raise ctx.type_error(
            node, "memory from tj.scratch with run-time extents can't be reshaped",
            "allocate it in the shape that you use",
        )
    if not memory.is_whole:
        raise ctx.type_error(
            node, "a region with run-time starts or strides can't be reinterpreted",
            "reshape the whole tensor first, then slice it",
        )
    shape = memory.buffer.shape
    old = [Monomial.of(n if isinstance(n, int) else expanded(ctx, n)) for n in shape]
    new = _extents(ctx, given, product(old))
    span = ctx.span(node)
    extents: list[int | Var] = [0] * len(new)
    steps: list[int | Var] = [_UNUSED_STRIDE] * len(new)
    for d, each in enumerate(new):
        extents[d] = _at_entry(ctx, f"{memory.buffer.root.name}.extent", each.expr, span, (0, LARGEST_EXTENT))
    for before, after in _groups(old, new):
        if len(before) == len(after) == 1 and old[before[0]] == new[after[0]]:
            # the parameter itself, about which more may be known
            extents[after[0]] = shape[before[0]]
        step = _innermost(shape, strides, before)
        for d in reversed(after):
            steps[d] = _at_entry(ctx, f"{memory.buffer.root.name}.step", step, span, None)
            step = build.mul(step, new[d].expr)
    base = memory.buffer.layout
    align = base.align if isinstance(base, Strided) else memory.buffer.align
    layout = strided(memory.dtype.bytes, align, tuple(extents), tuple(steps))
    return buffers.reinterpreted(ctx, span, memory, tuple(extents), memory.dtype, layout)


def _extents(ctx: Context, given: ast.expr, total: Monomial) -> list[Monomial]:
    """Return the extents that `given` denotes. total: the number of elements, by which -1 is replaced."""
    value = ctx.evaluate(given)
    items = value.items if isinstance(value, Items) else (value,)
    wanted = [_extent(ctx, given, item) for item in items]
    free = [d for d, each in enumerate(wanted) if each == Monomial(-1)]
    others = product(each for d, each in enumerate(wanted) if d not in free)
    is_static = not total.factors and not others.factors
    rest = total.over(others)
    if len(free) > 1 or any(each.number < 0 for d, each in enumerate(wanted) if d not in free):
        raise ctx.type_error(given, f"can't reshape to {ast.unparse(given)}", "one extent may be -1, none less")
    if is_static and (rest is None or not free and rest != Monomial()):
        raise ctx.type_error(
            given, f"can't reshape {counted(total.number, 'element')} to {ast.unparse(given)}",
            "one extent may be -1, if the product of the others divides the number of elements",
        )
    for d in free:
        wanted[d] = rest or Monomial(1, (build.floordiv(total.expr, others.expr),))
    return wanted


def _extent(ctx: Context, given: ast.expr, value: Value) -> Monomial:
    return Monomial.of(launch_extent(
        ctx, given, value, (), "an extent of a tensor's shape must be computed from the kernel's arguments: launches "
        "check it", "compute it from scalar parameters, X.shape and constants",
    ))


def launch_extent(
    ctx: Context, given: ast.expr, value: Value, specials: Sequence[str], message: str, hint: str
) -> Expr:
    """Return an extent as an int64 expression that a launch can evaluate; raise KernelTypeError for any other value.

    specials: the special registers that it may contain. message, hint: of the error.
    """
    if not isinstance(value, Scalar):
        return build.const(ctx.integer(value, given, "an extent of a shape"), int64)
    if not value.dtype.is_integer:
        raise ctx.type_error(given, f"an extent of a shape must be an integer; this is {describe(value)}", "convert it")
    extent = build.cast(expanded(ctx, value.expr), int64)
    for part in walk.subexpressions(extent):
        is_local = isinstance(part, Var) and part.name not in ctx.parameters
        if is_local or isinstance(part, Load) or isinstance(part, Special) and part.name not in specials:
            raise ctx.type_error(given, message, hint)
    return extent


def _at_entry(ctx: Context, name: str, value: Expr, span: Span, bounds: tuple[int, int] | None) -> int | Var:
    """Return a value that is computed at the kernel's entry; bounds: those of a launch that passes the checks."""
    if isinstance(value, Const):
        return int(value.value)
    if isinstance(value, Var) and not value.data:
        return value
    var = Var(ctx.unique(name), int64, multiple_of(value), bounds, span)
    ctx.allocations.append(Let(var, value, span))
    ctx.definitions[var.name] = value
    return var


def _groups(old: Sequence[Monomial], new: Sequence[Monomial]) -> Iterator[tuple[list[int], list[int]]]:
    """Yield pairs of adjacent dimensions, of the old and of the new shape, that contain the same elements.

    Equal products are matched from the first dimensions on, then from the last ones; what remains is one pair. Extents
    of 1 are left out.
    """
    left, right = ([d for d, extent in enumerate(extents) if extent != Monomial()] for extents in (old, new))
    for step in (1, -1):
        found = True
        while found:
            found = False
            for n, k in _by_length(len(left), len(right)):
                sides = [left[:n], right[:k]] if step == 1 else [left[-n:], right[-k:]]
                if product(old[d] for d in sides[0]) == product(new[d] for d in sides[1]):
                    yield sides[0], sides[1]
                    left, right = (left[n:], right[k:]) if step == 1 else (left[:-n], right[:-k])
                    found = True
                    break
    if left or right:
        yield left, right


def _by_length(n: int, k: int) -> list[tuple[int, int]]:
    return sorted([(a, b) for a in range(1, n + 1) for b in range(1, k + 1)], key=sum)


def _innermost(shape: Sequence[int | Var], strides: Sequence[int | Var], dims: Sequence[int]) -> Expr:
    """Return the stride of the last of the dimensions whose extent isn't 1; the last one's if that is known."""
    last = strides[dims[-1]] if dims else 1
    if isinstance(last, int):
        return build.const(last, int64)
    step = _number(strides[dims[0]])
    for d in dims[1:]:
        step = build.where(build.equal(_number(shape[d]), 1), step, _number(strides[d]))
    return step


def _number(value: int | Var) -> Expr:
    return build.const(value, int64) if isinstance(value, int) else value


def strided(size: int, align: int, shape: tuple[int | Var, ...], strides: tuple[int | Var, ...]) -> Strided:
    """Return the layout of a tensor whose elements have `size` bytes. align: of its first element, in bytes."""
    for stride in strides:
        align = min(align, _power_of_two(stride.multiple_of * size) if isinstance(stride, Var) else align)
    layout = Strided(strides, align)
    if layout.unit_dim is None:
        return layout
    extent = shape[layout.unit_dim]
    multiple = extent.multiple_of if isinstance(extent, Var) else extent
    return Strided(strides, align, min(_EXTENT_ALIGN, _power_of_two(multiple * size)))


def _power_of_two(number: int) -> int:
    """Return the largest power of two that divides a number, and `_EXTENT_ALIGN` for 0."""
    return number & -number or _EXTENT_ALIGN
