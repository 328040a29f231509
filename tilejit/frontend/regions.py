"""Indexing of memory (elements, slices, tiles and gathered rows), of tuples and strings, and of `tj.S` and `tj.R`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from types import NoneType
from typing import Any

from ..dataclass import dataclass, replace
from ..dtypes import bool_, int32, int64
from ..errors import KernelTypeError
from ..ir.arithmetic import build
from ..ir.arithmetic.facts import bounds, is_data
from ..ir.nodes import (
    TRUE,
    Assert,
    Buffer,
    Cast,
    Const,
    Expr,
    Op,
    Var,
)
from ..layout import R, S
from ..wording import counted
from . import barriers, buffers, exchanges, records, scalars, steps
from .context import Context
from .foreign import is_kernel, launched
from .memory import load_element
from .values import Constant, Items, Memory, Rows, Scalar, Table, Unset, Value, describe

#: the maximum number of nodes that `expanded` visits
_BUDGET = 400


@dataclass(frozen=True, slots=True)
class _Slice:
    """A slice. Its ends keep their own types, because the extent is computed before they are converted."""

    lower: Expr | None
    upper: Expr | None
    node: ast.AST
    #: the extent if it is given instead of `upper`, which is then unused
    extent: int | None = None
    #: the step through the elements from `lower` to `upper`; if negative, it begins at the last of these
    step: int = 1


@dataclass(frozen=True, slots=True)
class _At:
    position: Expr
    node: ast.AST


def subscript(ctx: Context, node: ast.Subscript) -> Value:
    """Return the value of an indexed expression; an element of memory is returned as `Memory`, without loading it."""
    base = unloaded(ctx, node.value)
    if isinstance(base, Memory):
        return index(ctx, node, base)
    if isinstance(base, Items):
        return _item(ctx, node, base)
    if isinstance(base, Table):
        return records.subscript(ctx, node, base)
    if isinstance(base, Constant) and isinstance(base.value, str):
        return Constant(base.value[_places(ctx, node, "a string", len(base.value))])
    if isinstance(base, Constant) and isinstance(base.value, (type(S), type(R))):
        return _layout(ctx, node, base.value)
    if isinstance(base, Constant) and is_kernel(base.value):
        raise launched(ctx, node, base.value)
    if isinstance(base, Rows):
        return _part_of_rows(ctx, node, base)
    if isinstance(base, barriers.INDEXED):
        return barriers.subscript(ctx, node, base)
    raise ctx.type_error(node, f"{describe(base)} can't be indexed", "index a tensor, a buffer or a tuple")


def loaded(ctx: Context, node: ast.Subscript) -> Value:
    """Like `subscript`, but load an element of memory; a rank-0 tile in a tuple remains a tile."""
    value = subscript(ctx, node)
    if isinstance(value, Memory) and exchanges.is_apart(value):
        return exchanges.picked(ctx, node, value)
    if not isinstance(value, Memory) or value.dims or scalars.is_single(value):
        return value
    return load_element(ctx, node, value)


def unloaded(ctx: Context, node: ast.expr) -> Value:
    """Like `Context.evaluate`, but don't load an element `A[i, j]`."""
    return subscript(ctx, node) if isinstance(node, ast.Subscript) else ctx.evaluate(node)


def _layout(ctx: Context, node: ast.Subscript, builder: Any) -> Constant:
    parts = [node.slice.lower, node.slice.upper] if isinstance(node.slice, ast.Slice) else [node.slice]
    ends = [None if p is None else ctx.constant(ctx.evaluate(p), p, "a layout's extents and strides") for p in parts]
    return Constant(builder[ends[0]] if len(ends) == 1 else builder[ends[0] : ends[1]])


def _places(ctx: Context, node: ast.Subscript, what: str, length: int) -> int | slice:
    if isinstance(node.slice, ast.Slice):
        ends = [None if e is None else ctx.integer(ctx.evaluate(e), e, f"a number in {what}'s slice")
                for e in (node.slice.lower, node.slice.upper, node.slice.step)]
        if ends[2] == 0:
            raise ctx.type_error(node, "the step of a slice can't be 0", "leave it out, or write another step")
        return slice(*ends)
    position = ctx.integer(ctx.evaluate(node.slice), node.slice, f"the index of {what}")
    if not -length <= position < length:
        raise ctx.type_error(
            node, f"index {position} is outside {what} of length {length}",
            f"write an index i with {-length} <= i < {length}" if length else "it has no items: leave the index out",
        )
    return position


def _item(ctx: Context, node: ast.Subscript, base: Items) -> Value:
    places = _places(ctx, node, "a tuple", len(base.items))
    if isinstance(places, slice):
        return Items(base.items[places])
    item = base.items[places]
    if isinstance(item, Unset):
        raise ctx.type_error(node, item.reason, item.hint)
    return item


def index(ctx: Context, node: ast.Subscript, memory: Memory) -> Memory:
    """Return the region that an index selects."""
    parts, dims = _parts(ctx, node, memory), memory.dims
    indices = [part for part in parts if part is not None]
    axes = len(indices) < len(parts)
    if axes and not memory.is_local:
        raise ctx.type_error(
            node, "only local tiles take None, which adds a dimension", "load it first: tj.cta.load(region)[None]"
        )
    if len(indices) > len(dims):
        raise ctx.type_error(
            node,
            f"{counted(len(indices), 'index')} for {counted(len(dims), 'dimension')} of {memory.buffer.name}",
            "give at most one index or slice per dimension",
        )
    box = _box(ctx, node, memory, dims, indices)
    return _every(ctx, _with_axes(ctx, node, box, dims, parts) if axes else box, parts)


def rows(ctx: Context, node: ast.AST, memory: Memory, given: Value, axis: int) -> Rows:
    """Return the rows of memory that `given`, an integer or a local tile of integers, selects along `axis`."""
    dim, value = memory.dims[axis], scalars.as_scalar(ctx, node, given)
    if memory.buffer.space not in ("global", "shared"):
        raise ctx.type_error(
            node, f".at takes global or shared memory; this is {describe(memory)}",
            "write tj.gather(x, indices, axis), or copy it to shared memory first" if memory.is_local
            else "copy it to shared memory first",
        )
    if not memory.covers(dim):
        raise ctx.type_error(
            node, f".at indexes a whole dimension; this region covers part of dimension {dim} of {memory.buffer.name}",
            f"add the region's start to the index, and take {memory.buffer.name}.at(...)",
        )
    if isinstance(value, Memory):
        if not value.is_local or not value.dtype.is_integer:
            raise ctx.type_error(
                node, f"the index of .at must be an integer or a local tile of integers; this is {describe(value)}",
                "convert it: x.astype(tj.int32)" if value.is_local else "load it first: i = tj.cta.load(region)",
            )
        number: Memory | Expr = value
    else:
        number = build.cast(_integer(ctx, node, value, memory.buffer), int64)
        if isinstance(number, Const):
            _check_index(ctx, _At(number, node), memory, dim, memory.buffer.shape[dim])
    extents = (*memory.extents[:dim], None, *memory.extents[dim + 1 :])
    return Rows(replace(memory, extents=extents, span=ctx.span(node)), dim, number)


def _part_of_rows(ctx: Context, node: ast.Subscript, gathered: Rows) -> Rows:
    listed = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    numbers = len(gathered.index_shape)
    for dim, part in enumerate(listed[:numbers]):
        if not isinstance(part, ast.Slice) or part.lower or part.upper or part.step:
            raise ctx.type_error(
                part, f"dimension {dim} of {describe(gathered)} comes from its index and can't be indexed or sliced",
                "slice the index, and write : here",
            )
    rest = ast.copy_location(ast.Tuple(listed[numbers:], ast.Load()), node)
    return replace(gathered, memory=index(ctx, ast.copy_location(ast.Subscript(node.value, rest, node.ctx), node),
                                          gathered.memory))


def _parts(ctx: Context, node: ast.Subscript, memory: Memory) -> list[_Slice | _At | None]:
    listed = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    parts: list[_Slice | _At | None] = []
    for part in listed:
        if isinstance(part, ast.Slice):
            parts.append(_slice(ctx, part, memory))
            continue
        value = ctx.evaluate(part)
        if isinstance(value, Constant) and value.value is None:
            parts.append(None)
            continue
        for item in value.items if isinstance(value, Items) else (value,):
            parts.append(_At(index_value(ctx, part, item, memory.buffer), part))
    return parts


def _slice(ctx: Context, node: ast.Slice, memory: Memory) -> _Slice:
    step = steps.step_of(ctx, node, memory)
    ends = [
        None if end is None or value is None else _integer(ctx, end, value, memory.buffer)
        for end, value in zip((node.lower, node.upper), _ends(ctx, node), strict=True)
    ]
    if step < 0:
        ends = [None if end is None else build.add(end, 1) for end in reversed(ends)]
    return _Slice(ends[0], ends[1], node, step=step)


def _every(ctx: Context, memory: Memory, parts: Sequence[_Slice | _At | None]) -> Memory:
    """Return the elements that the steps of slices select."""
    for axis, part in enumerate([part for part in parts if not isinstance(part, _At)]):
        if part is not None and part.step != 1:
            memory = steps.every(ctx, part.node, memory, axis, part.step)
    return memory


def _ends(ctx: Context, node: ast.Slice) -> tuple[Value | None, Value | None]:
    """Return the ends of a slice; if both are arithmetic on names, a rank-0 tile that occurs in both is loaded once."""
    lower = None if node.lower is None else ctx.evaluate(node.lower)
    if node.upper is None:
        return lower, None
    if node.lower is None or lower is None or not scalars.is_single(lower):
        return lower, ctx.evaluate(node.upper)
    lower, upper = scalars.with_scalars(ctx, (node.lower, node.upper))
    return lower, upper


def index_value(ctx: Context, node: ast.AST, value: Value, buffer: Buffer) -> Expr:
    """Return an index, converted to the index type of the buffer."""
    return buffers.as_index(ctx, node, _integer(ctx, node, value, buffer), buffer)


def _integer(ctx: Context, node: ast.AST, value: Value, buffer: Buffer) -> Expr:
    """Return an index in its own type; a compile-time integer takes the index type of the buffer."""
    dtype = buffer.index_dtype
    value = scalars.as_scalar(ctx, node, value)
    if isinstance(value, Constant) and isinstance(value.value, int) and not isinstance(value.value, bool):
        return ctx.literal(value.value, dtype, node)
    if not isinstance(value, Scalar) or not value.dtype.is_integer:
        raise ctx.type_error(
            node, f"an index must be an integer; this is {describe(value)}",
            _other_index(value, buffer),
        )
    return value.expr


def _other_index(value: Value, buffer: Buffer) -> str:
    if isinstance(value, Scalar):
        return "convert it: int(x)"
    if isinstance(value, Constant) and callable(value.value):
        return "call it, and index with the result"
    if not isinstance(value, Memory):
        return barriers.ring_number_hint(value) or "index with integers and slices"
    if value.dtype == bool_:
        return "select element by element: tj.where(condition, x, y), or mask= of load and store"
    if buffer.space == "local":
        return "a tile can't index registers: write tj.gather(x, indices, axis), or select with tj.where"
    name = buffer.root.name
    place = f"{name}.at(indices)"
    rows = f"tj.cta.load({place}), tj.cta.store({place}, x)"
    return f"a tile of indices selects rows: {rows}; for single elements, index in each thread"


def _box(ctx: Context, node: ast.AST, memory: Memory, dims: Sequence[int], parts: Sequence[_Slice | _At]) -> Memory:
    """Return the region that `parts` select from the leading dimensions in `dims`; the others keep their extents."""
    starts, extents = list(memory.starts), list(memory.extents)
    inside = memory.in_bounds
    zero = build.const(0, memory.buffer.index_dtype)
    for dim, part in zip(dims, parts, strict=False):
        extent = extents[dim]
        assert extent is not None
        taken: int | Expr | None
        if isinstance(part, _At):
            start, taken = part.position, None
            _check_index(ctx, part, memory, dim, extent, node)
        else:
            _check_start(ctx, part, memory, dim, node)
            taken = _taken(ctx, part, zero, extent)
            start = zero
            if part.lower is not None:
                start = buffers.as_start(ctx, part.node, part.lower, taken, memory.buffer)
            _check_slice(ctx, part, memory, dim, start, taken, extent)
        inside &= _is_inside(start, 1 if taken is None else taken, extent)
        extents[dim] = taken
        if memory.covers(dim):
            starts[dim] = start
            continue
        _assert_inside(ctx, part.node, memory, dim, start, taken)
        starts[dim] = build.add(starts[dim], start)
    return replace(memory, starts=tuple(starts), extents=tuple(extents), in_bounds=inside, span=ctx.span(node))


def _is_inside(start: Expr, taken: int | Expr, extent: int | Expr) -> bool:
    if not isinstance(start, Const):
        return False
    if isinstance(taken, int) and isinstance(extent, int):
        return start.value >= 0 and start.value + taken <= extent
    return start.value == 0 and taken == extent


def _taken(ctx: Context, part: _Slice, zero: Expr, full: int | Expr) -> int | Expr:
    if part.extent is not None:
        return part.extent
    if part.lower is None and part.upper is None:
        return full
    lower = zero if part.lower is None else part.lower
    upper = part.upper
    if upper is None:
        upper = build.const(full, zero.dtype) if isinstance(full, int) else full
    extent = build.difference(upper, lower)
    if extent is None:
        extent = build.difference(expanded(ctx, upper), expanded(ctx, lower))
    if extent is None:
        raise ctx.type_error(
            part.node, "the extent of this slice is not known at compile time",
            "write A[i : i + N], where N is a constant or a tj.constexpr, or A.tile((N,), (i,))",
        )
    if extent < 0:
        most = "least" if part.step > 0 else "most"
        raise ctx.type_error(
            part.node, f"this slice has extent {extent}; it can't be negative",
            f"write a stop that is at {most} the start; negative indices don't count from the end",
        )
    return extent


def _check_index(
    ctx: Context, part: _At, memory: Memory, dim: int, extent: int | Expr, node: ast.AST | None = None
) -> None:
    """Check the bounds of a constant index, and that an index of registers is constant. node: the subscript, if any."""
    position = part.position
    if not isinstance(position, Const):
        if memory.constant_indices:
            raise ctx.type_error(
                part.node, "registers take only compile-time indices",
                "loop over tj.static_range, which makes the index a constant",
            )
        return
    if position.value < 0:
        raise _from_the_end(ctx, part.node, memory, dim, int(position.value), node)
    if isinstance(extent, int) and position.value >= extent and not _may_pass_edge(memory, dim):
        raise ctx.type_error(
            part.node, f"index {position.value} is outside dimension {dim} of {_title(memory, dim)}, whose extent is "
            f"{extent}", f"write an index from 0 to {extent - 1}" if extent else "leave the access out",
        )


def _check_start(ctx: Context, part: _Slice, memory: Memory, dim: int, node: ast.AST) -> None:
    """Reject slices such as `X[-2:]` and `X[-4:-2]`, which count from the end in Python, if the start is a literal."""
    start, stop = part.lower, part.upper
    written = part.node.lower if isinstance(part.node, ast.Slice) else None
    is_literal = isinstance(written, ast.UnaryOp) and isinstance(written.operand, ast.Constant)
    is_from_the_end = stop is None or isinstance(stop, Const) and stop.value < 0
    if written is not None and is_literal and is_from_the_end and isinstance(start, Const) and start.value < 0:
        raise _from_the_end(ctx, written, memory, dim, int(start.value), node)


def _from_the_end(
    ctx: Context, part: ast.AST, memory: Memory, dim: int, index: int, node: ast.AST | None
) -> KernelTypeError:
    extent, indexed = memory.extents[dim], node.value if isinstance(node, ast.Subscript) else None
    if isinstance(indexed, (ast.Name, ast.Attribute)):
        meant = f"{ast.unparse(indexed)}.shape[{memory.dims.index(dim)}] - {-index}"
    elif isinstance(extent, int):
        meant = str(max(extent + index, 0))
    else:
        meant = f"{memory.buffer.root.name}.shape[{dim}] - {-index}"
    return ctx.type_error(part, f"index {index} is negative: indices don't count from the end", f"write {meant}")


def _check_slice(
    ctx: Context, part: _Slice, memory: Memory, dim: int, lower: Expr, taken: int | Expr, extent: int | Expr
) -> None:
    if _may_pass_edge(memory, dim) or not isinstance(lower, Const) or not isinstance(taken, int):
        return
    start = int(lower.value)
    if isinstance(extent, int) and (start < 0 or start + taken > extent):
        hint = "only regions of global tensors may extend past the edge"
        if memory.buffer.space == "global":
            hint = f"a part of a region must be inside the region: slice {memory.buffer.name} itself"
        raise ctx.type_error(
            part.node,
            f"[{start} : {start + taken}] is out of bounds for dimension {dim} of {_title(memory, dim)}, "
            f"whose extent is {extent}",
            hint,
        )


def _may_pass_edge(memory: Memory, dim: int) -> bool:
    """True if a part may extend past the region in `dim`: accesses past a whole dimension of a tensor are masked."""
    return memory.buffer.space == "global" and memory.covers(dim)


def _title(memory: Memory, dim: int) -> str:
    return memory.buffer.name if memory.covers(dim) else f"a region of {memory.buffer.name}"


def _assert_inside(
    ctx: Context, node: ast.AST, memory: Memory, dim: int, start: Expr, taken: int | Expr | None
) -> None:
    """Emit a bounds check of a part of a region if the extents of both are static, unless it provably holds.

    taken: the extent of the part; None for an index.
    """
    extent = memory.extents[dim]
    if not isinstance(extent, int) or not isinstance(taken, (int, NoneType)):
        return
    end = build.add(start, 1 if taken is None else taken)
    # the start is compared, not the end, which may overflow
    below = build.less_equal(build.cast(start, int64), extent - (1 if taken is None else taken))
    cond = build.logical_and(build.greater_equal(start, 0), below)
    if cond == TRUE:
        return
    what = "index {0} is outside" if taken is None else "[{0} : {1}] leaves"
    message = f"{what} dimension {dim} of {_title(memory, dim)}, whose extent is {extent}"
    values = tuple(build.cast(e, int64) for e in (start, end))
    ctx.emit(Assert(cond, message, "bounds", values, ctx.span(node)))


def expanded(ctx: Context, expr: Expr) -> Expr:
    """Return `expr` with variables replaced by their definitions to cancel terms; visit at most `_BUDGET` nodes."""
    budget = [_BUDGET]

    def walk(e: Expr) -> Expr:
        budget[0] -= 1
        if budget[0] < 0:
            return e
        if isinstance(e, Var) and e.name in ctx.definitions:
            return walk(ctx.definitions[e.name])
        if isinstance(e, Cast):
            return build.cast(walk(e.x), e.dtype)
        return build.op(e.name, *(walk(a) for a in e.args)) if isinstance(e, Op) else e

    return walk(expr)


def tile(ctx: Context, node: ast.AST, memory: Memory, shape: Sequence[int], at: Sequence[Expr]) -> Memory:
    """Return the region at coordinates `at` in a grid of tiles of `shape`."""
    dims = memory.dims
    if len(shape) != len(dims) or len(at) != len(dims):
        raise ctx.type_error(
            node,
            f".tile takes {counted(len(dims), 'extent')} and {counted(len(dims), 'coordinate')} here; "
            f"got {len(shape)} and {len(at)}",
            "write A.tile((BM, BK), (i, k)) for an A with two dimensions",
        )
    parts = []
    for extent, coordinate in zip(shape, at, strict=True):
        start = build.mul(coordinate, extent)
        if is_data(coordinate):
            # the start of an out-of-bounds tile must not wrap to one that is in bounds
            most = (1 << start.dtype.bits - 2) // max(extent, 1)
            if start.dtype is int32:
                buffers.check_index_fits(ctx, node, coordinate, (-most, most), memory.buffer)
            elif None in bounds(start):
                start = build.mul(build.minimum(build.maximum(coordinate, -most), most), extent)
        parts.append(_Slice(start, None, node, extent))
    return _box(ctx, node, memory, dims, parts)


def _with_axes(
    ctx: Context, node: ast.Subscript, memory: Memory, dims: Sequence[int], parts: Sequence[_Slice | _At | None]
) -> Memory:
    """Return a local tile with a dimension of extent 1 inserted for each None in `parts`.

    memory: the region that the other parts select. dims: the tile's dimensions; these parts index the leading ones.
    """
    base = memory.buffer
    taken, added = 0, []
    for part in parts:
        if part is None:
            added.append((dims[taken] if taken < len(dims) else len(base.shape), False))
        else:
            taken += 1
    order = sorted([*added, *((d, True) for d in range(len(base.shape)))])
    return buffers.rearranged(ctx, ctx.span(node), memory, [d if is_old else None for d, is_old in order], base.layout)
