"""Translation of `print` of scalars, strings, local tiles, and tuples of these.

Each instance of a tile's scope prints the tile once: it copies the elements to shared memory, from which its first
thread prints them. Of a tile of many elements only the first and last along each axis are printed.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence

from ..dataclass import dataclass, replace
from ..dtypes import float32, int32
from ..ir import allocation
from ..ir.arithmetic import build
from ..ir.nodes import Alloc, Buffer, Const, Element, Expr, If, Print, Region, Special, Sync, TileOp
from ..ops.copies import COPY
from ..scopes import SCOPES, THREAD
from . import tiles
from .barriers import ring_number_hint
from .context import Context, EmitInto
from .flow import sealed
from .scalars import as_scalar, load, scalar_of
from .values import Constant, Items, Memory, Scalar, Value, describe

#: a tile of more elements is abbreviated to this many at each end of each axis
_MOST_ELEMENTS, _ENDS = 64, 3

#: the most arguments of one call of `vprintf`
_MOST_ARGUMENTS = 32

#: characters that a C string in UTF-8 can't contain
_UNPRINTABLE = re.compile("[\\0\ud800-\udfff]")

#: text, the value of a scalar, or a tile
_Part = str | Expr | Memory


@dataclass(frozen=True, slots=True)
class _Shown:
    """The elements of a tile that are printed. element: loads one of them by its index. note: what follows them."""

    shape: tuple[int, ...]
    element: Callable[[tuple[int, ...]], Expr]
    note: tuple[str | Expr, ...] = ()

    def parts(self, gaps: Sequence[bool], at: tuple[int, ...] = ()) -> Iterator[str | Expr]:
        """Yield nested lists, with dots where an axis is abbreviated. gaps: for each axis, whether it is."""
        if len(at) == len(self.shape):
            yield self.element(at)
            return
        axis = len(at)
        yield "["
        for k in range(self.shape[axis]):
            yield ", " if k else ""
            yield "..., " if gaps[axis] and k == _ENDS else ""
            yield from self.parts(gaps, (*at, k))
        yield "]"


def print_values(ctx: Context, node: ast.Call) -> Value:
    """Translate `print(...)` with `sep=` and `end=`."""
    separators = {"sep": " ", "end": "\n"}
    for keyword in node.keywords:
        if keyword.arg not in separators:
            raise ctx.syntax_error(keyword, f"print in a kernel can't take {keyword.arg or '**'}", "use sep= and end=")
        text = ctx.constant(ctx.evaluate(keyword.value), keyword.value, f"{keyword.arg}=")
        separators[keyword.arg] = separators[keyword.arg] if text is None else str(text)
    parts: list[_Part] = []
    for k, argument in enumerate(node.args):
        parts.extend([separators["sep"]] if k else [])
        parts.extend(_parts(ctx, argument, ctx.evaluate(argument), quoted=False))
    parts.append(separators["end"])
    printed = [part for part in parts if isinstance(part, Memory)]
    scope = tiles.common_scope(ctx, node, "print", printed) if printed else THREAD.name
    shown = {id(tile): _shown(ctx, node, tile, scope) for tile in printed}
    span = ctx.span(node)
    with EmitInto(ctx, []) as block:
        _emit(ctx, node, parts, shown)
    if scope == THREAD.name:
        ctx.block.append(block)
        return Constant(None)
    first = SCOPES[scope].thread_id
    assert first is not None
    ctx.emit(Sync(scope, span))
    ctx.emit(If(build.equal(Special(first.name, span), 0), sealed(block), span=span))
    # another print may write the same memory, in the next iteration of a loop
    ctx.emit(Sync(scope, span))
    return Constant(None)


def _parts(ctx: Context, node: ast.AST, value: Value, *, quoted: bool) -> list[_Part]:
    value = as_scalar(ctx, node, value)
    if isinstance(value, Constant):
        return [repr(value.value) if quoted else str(value.value)]
    if isinstance(value, Scalar):
        return [value.expr]
    if isinstance(value, Memory) and value.is_local:
        return [tiles.local_tile(ctx, node, "print", value)]
    if isinstance(value, Items):
        inner: list[_Part] = ["("]
        for k, item in enumerate(value.items):
            inner.extend([", "] if k else [])
            inner.extend(_parts(ctx, node, item, quoted=True))
        return [*inner, ",)" if len(value.items) == 1 else ")"]
    hint = "index it: print(A[i, j]), or load it: print(tj.cta.load(region))"
    if not isinstance(value, Memory):
        hint = ring_number_hint(value) or "print a scalar or a tile, such as an element or the result of a call"
    raise ctx.type_error(
        node, f"print takes scalars, strings, local tiles and tuples of these; this is {describe(value)}", hint
    )


def _emit(ctx: Context, node: ast.AST, parts: Sequence[_Part], shown: dict[int, _Shown]) -> None:
    """Emit `Print` statements of the parts, each with at most `_MOST_ARGUMENTS` values."""
    merged: list[str | Expr] = []
    count = 0
    for part in _expanded(parts, shown):
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        elif part != "":
            if not isinstance(part, str) and count % _MOST_ARGUMENTS == 0 and count:
                _emit_one(ctx, node, merged)
                merged.clear()
            count += not isinstance(part, str)
            merged.append(part)
    _emit_one(ctx, node, merged)


def _emit_one(ctx: Context, node: ast.AST, parts: Sequence[str | Expr]) -> None:
    for part in parts:
        if isinstance(part, str) and _UNPRINTABLE.search(part):
            raise ctx.type_error(
                node, f"a GPU can't print {part!r}: text must be UTF-8 without the character \\0",
                "leave invalid characters out",
            )
    ctx.emit(Print(tuple(parts), ctx.span(node)))


def _expanded(parts: Sequence[_Part], shown: dict[int, _Shown]) -> Iterator[str | Expr]:
    for part in parts:
        if isinstance(part, Memory):
            one = shown[id(part)]
            yield from one.parts([n > m for n, m in zip(part.shape, one.shape, strict=True)])
            yield from one.note
        else:
            yield part


def _shown(ctx: Context, node: ast.AST, tile: Memory, scope: str) -> _Shown:
    """Emit the copies of a tile's printed elements to shared memory, and its extremes if it is abbreviated."""
    if tile.dtype.is_fp8:
        tile = tiles.cast(ctx, node, tile, float32)
    is_whole = math.prod(tile.shape) <= _MOST_ELEMENTS
    shape = tile.shape if is_whole else tuple([min(n, 2 * _ENDS) for n in tile.shape])
    along = [[*range(n)] if n == m else [*range(_ENDS), *range(n - _ENDS, n)]
             for n, m in zip(tile.shape, shape, strict=True)]
    note = () if is_whole else _note(ctx, node, tile, scope)
    span = ctx.span(node)
    if scope == THREAD.name or 0 in tile.shape:
        def held(at: tuple[int, ...]) -> Expr:
            part = _part(tile, [indices[k] for indices, k in zip(along, at, strict=True)], (None,) * len(at))
            return load(ctx, Element(part.buffer, part.starts, span), span).expr

        return _Shown(shape, held, note)
    counter = SCOPES[scope].number_id
    instances = 1 if counter is None else -(-ctx.threads // SCOPES[scope].threads(ctx.threads))
    instance: Expr = Special(counter.name, span) if counter is not None and instances > 1 else build.const(0, int32)
    layout = allocation.default_layout("shared", (instances, *shape))
    align = allocation.alignment("shared", tile.dtype, layout)
    buffer = Buffer(ctx.unique("printed"), "shared", tile.dtype, (instances, *shape), layout, align, None, span)
    ctx.allocate(Alloc(buffer, span=span))
    for runs in itertools.product(*map(_runs, along)):
        starts = tuple([Const(to, int32) for to, _, _ in runs])
        extents = tuple([count for _, _, count in runs])
        to = Region(buffer, (instance, *starts), (None, *extents), span=span)
        part = _part(tile, [start for _, start, _ in runs], extents)
        tiles.emit_sound(ctx, node, TileOp(COPY.name, scope, (to, part.region(span)), (), span))
    return _Shown(
        shape, lambda at: load(ctx, Element(buffer, (instance, *[Const(k, int32) for k in at]), span), span).expr, note
    )


def _runs(indices: list[int]) -> list[tuple[int, int, int]]:
    """Split indices into runs: (position of the first, the first index, number of indices)."""
    if not indices or indices[-1] - indices[0] < len(indices):
        return [(0, indices[0] if indices else 0, len(indices))]
    return [(0, 0, _ENDS), (_ENDS, indices[_ENDS], _ENDS)]


def _part(tile: Memory, firsts: Sequence[int], extents: Sequence[int | None]) -> Memory:
    """Return a part of a tile. firsts: the first index along each dimension. extents: None to drop the dimension."""
    starts, counts = list(tile.starts), list(tile.extents)
    for d, first, count in zip(tile.dims, firsts, extents, strict=True):
        starts[d], counts[d] = build.add(starts[d], first), count
    return replace(tile, starts=tuple(starts), extents=tuple(counts))


def _note(ctx: Context, node: ast.AST, tile: Memory, scope: str) -> tuple[str | Expr, ...]:
    """Emit the extremes of a tile and the number of its NaNs, and return them with its shape and type."""
    note: list[str | Expr] = [f" shape {tile.shape} {tile.dtype}"]
    wanted = {"min": tile, "max": tile}
    if tile.dtype.is_float:
        unequal = tiles.apply(ctx, node, "not_equal", (tile, tile))
        assert isinstance(unequal, Memory)
        wanted["sum"] = unequal
    for name, of in wanted.items():
        span, axes = ctx.span(node), tuple(range(len(of.shape)))
        result = ctx.tile(name, scope, (), int32 if name == "sum" else of.dtype, span)
        operands = result.region(span), of.region(span)
        tiles.emit_sound(ctx, node, TileOp(name, scope, operands, (("axis", axes),), span))
        note += [f" {'nan' if name == 'sum' else name} ", scalar_of(ctx, result, span).expr]
    return tuple(note)
