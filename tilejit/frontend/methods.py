"""Properties and methods of memory, tiles and scalars: strides, registers, views, new shapes, indexing, conversion."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence

from ..dataclass import replace
from ..dtypes import DType, as_dtype
from ..errors import LayoutError
from ..ir.nodes import Const, Open, Store, Strided, TileOp
from ..layout import TileLayout
from ..layout.iters import groups_to
from ..ops.copies import RESHAPE
from ..scopes import THREAD
from ..wording import counted, shown
from . import barriers, buffers, context, regions, reshapes, tiles
from . import memory as mem
from .arguments import bind, optional, positional_values, with_one_shape
from .containers import declaration
from .values import Constant, Items, Memory, Scalar, Value, describe, is_number, owner_scope


def strides_of(ctx: context.Context, node: ast.AST, memory: Memory) -> tuple[Value, ...]:
    """Return the strides of the region's dimensions, in elements.

    raises: KernelTypeError for an open tile, or if a dimension has no single stride.
    """
    layout, shape = memory.buffer.layout, memory.buffer.shape
    if isinstance(layout, Strided):
        every = [Constant(s) if isinstance(s, int) else Scalar(s) for s in layout.strides]
        return tuple(every[d] for d in memory.dims)
    if isinstance(layout, Open):
        raise ctx.type_error(
            node, f"{memory.buffer.name} has no strides: the compiler chooses the layout of this {layout.scope}'s tile",
            "read its .layout instead",
        )
    with context.Located(ctx, node):
        grouped, ends = layout.group([int(e) for e in shape if isinstance(e, int)])
    strides: list[Value] = []
    for dim in memory.dims:
        iters = TileLayout(grouped.shard[ends[dim] : ends[dim + 1]] or grouped.shard[:1]).canonical(fuse=False).shard
        if len(iters) > 1 or layout.swizzle is not None or iters[0].axis.is_thread:
            raise ctx.type_error(
                node, f"dimension {dim} of {memory.buffer.name} has no single stride: {layout}",
                "only a dimension with equally spaced elements, and without swizzle or thread axes, has a stride",
            )
        strides.append(Constant(iters[0].stride))
    return tuple(strides)


def registers(ctx: context.Context, node: ast.AST, memory: Memory) -> Memory:
    """Return the calling thread's registers of a whole local tile, as a tile of rank 1."""
    if not memory.is_local or not memory.is_whole:
        raise ctx.type_error(
                node, f"only a whole local tile has .registers; this is {describe(memory)}",
                "take .registers of the result of tj.alloc_local or a load",
        )
    count = buffers.fixed_layout(ctx, ctx.span(node), memory).span()
    view = buffers.reinterpreted(ctx, ctx.span(node), memory, (count,), memory.dtype, TileLayout.row_major((count,)))
    return Memory.whole(view.buffer, writable=memory.writable, constant_indices=True)


def permute(ctx: context.Context, node: ast.AST, memory: Memory, axes: tuple[int, ...]) -> Memory:
    """Return the region with its dimensions reordered; negative axes count from the last."""
    rank = len(memory.dims)
    wanted = tuple(a + rank if -rank <= a < 0 else a for a in axes)
    if sorted(wanted) != list(range(rank)):
        raise ctx.type_error(
            node, f"{axes} doesn't permute the {counted(rank, 'dimension')} of {memory.buffer.name}",
            f"list each of {tuple(range(rank))} once" if rank else "leave .permute out",
        )
    dropped = [d for d in range(len(memory.extents)) if memory.extents[d] is None]
    order = (*dropped, *(memory.dims[a] for a in wanted))
    layout = memory.buffer.layout
    if isinstance(layout, Strided):
        layout = replace(layout, strides=tuple(layout.strides[d] for d in order))
    elif isinstance(layout, TileLayout):
        with context.Located(ctx, node):
            grouped, ends = layout.group(memory.buffer.fixed_shape)
            layout = grouped.permute_groups(ends, order)
    return replace(buffers.rearranged(ctx, ctx.span(node), memory, order, layout), in_bounds=memory.in_bounds)


def _view(ctx: context.Context, node: ast.Call, receiver: Value) -> Value:
    """Translate `.view(shape, layout=None)`, `.view(*extents)` or `.view(dtype)`."""
    if isinstance(receiver, Scalar):
        return _view_of_scalar(ctx, node, receiver)
    assert isinstance(receiver, Memory)
    memory = receiver
    arguments = bind(ctx, _with_shape(ctx, node), ".view", ("shape", "layout"), 1)
    first = arguments["shape"]
    value = ctx.evaluate(first)
    if isinstance(value, Constant) and as_dtype(value.value) is not None:
        if "layout" in arguments:
            raise ctx.type_error(node, ".view(dtype) takes no layout", "chain them: .view(dtype).view(shape, layout)")
        dtype = mem.element_type(ctx, first, value)
        if memory.is_local and dtype.bits == memory.dtype.bits and not memory.buffer.slots:
            return seen_as(ctx, node, memory, dtype)
        return _with_element_type(ctx, node, memory, _sliced_layout(ctx, node, memory), dtype)
    base = _known_layout(ctx, node, memory)
    shape = mem.static_shape(ctx, first, value)
    user_layout = optional(ctx, arguments, "layout")
    if user_layout is not None:
        layout = mem.buffer_layout(ctx, arguments["layout"], user_layout, shape, memory.buffer.space)
        _check_storage(ctx, node, memory, layout)
        return buffers.reinterpreted(ctx, ctx.span(node), memory, shape, memory.dtype, layout)
    return _in_shape(ctx, node, memory, base, shape)


def _view_of_scalar(ctx: context.Context, node: ast.Call, scalar: Scalar) -> Scalar:
    """Translate `x.view(dtype)` of a scalar, which reinterprets its bits."""
    wanted = bind(ctx, node, ".view", ("dtype",), 1)["dtype"]
    dtype = mem.element_type(ctx, wanted, ctx.evaluate(wanted))
    if dtype.bits != scalar.dtype.bits:
        raise ctx.type_error(
            node, f"a scalar of {scalar.dtype} has {scalar.dtype.bits} bits; {dtype} has {dtype.bits}",
            "name a type of the same width; .astype(dtype) converts the value",
        )
    span = ctx.span(node)
    register = ctx.tile("bits", THREAD.name, (1,), scalar.dtype, span)
    place = replace(register, extents=(None,))
    ctx.emit(Store(mem.element(ctx, node, place), scalar.expr, span=span))
    seen = buffers.reinterpreted(ctx, ctx.span(node), register, (1,), dtype, register.buffer.tile_layout)
    return mem.load_element(ctx, node, replace(seen, extents=(None,)))


def _shape_of(ctx: context.Context, given: ast.expr, size: int) -> tuple[int, ...]:
    """Return the shape that `given` denotes; an extent of -1 is computed from `size`, the number of elements."""
    value = ctx.evaluate(given)
    items = value.items if isinstance(value, Items) else (value,)
    extents = [ctx.integer(item, given, "an extent of a shape") for item in items]
    others = math.prod(n for n in extents if n != -1)
    if -1 not in extents:
        return mem.static_shape(ctx, given, value)
    if extents.count(-1) > 1 or others < 1 or size % others:
        raise ctx.type_error(
            given, f"can't reshape {counted(size, 'element')} to {shown(tuple(extents))}",
            "one extent may be -1, if the product of the others divides the number of elements",
        )
    return tuple(size // others if n == -1 else n for n in extents)


def _known_layout(ctx: context.Context, node: ast.AST, memory: Memory) -> TileLayout:
    if isinstance(memory.buffer.layout, Strided):
        raise ctx.type_error(
            node, f"{memory.buffer.name} has run-time strides: it can't take another shape",
            _pinned(memory),
        )
    layout = _sliced_layout(ctx, node, memory)
    assert not isinstance(layout, Strided)
    return layout


def _in_shape(ctx: context.Context, node: ast.AST, memory: Memory, base: TileLayout, shape: tuple[int, ...]) -> Memory:
    is_padded = memory.is_local and math.prod(memory.shape) != base.size()
    if math.prod(shape) != base.size():
        raise ctx.type_error(
            node, f"shape {shape} has {math.prod(shape)} elements; {'' if memory.is_whole else 'this region of '}"
            f"{memory.buffer.name} has {base.size()}{' with padding' if is_padded else ''}",
            "write .reshape, which ignores padding" if is_padded else "give a shape with the same number of elements",
        )
    with context.Located(ctx, node):
        return buffers.reinterpreted(ctx, ctx.span(node), memory, shape, memory.dtype, _regrouped(base, shape))


def _with_shape(ctx: context.Context, node: ast.Call) -> ast.Call:
    """Return `x.view(8, 8)` as `x.view((8, 8))`; other calls, such as `x.view(shape, layout)`, are unchanged."""
    has_layout = len(node.args) == 2 and not is_number(ctx.evaluate(node.args[1]))
    return node if has_layout else with_one_shape(node)


def _pinned(memory: Memory) -> str:
    return f"pin its type: {declaration(memory.buffer.root.name, 'tj.Tensor')} = tj.spec(shape, dtype)"


def _regrouped(layout: TileLayout, shape: tuple[int, ...]) -> TileLayout:
    """Return an equal layout that can be grouped by `shape`; raise LayoutError if an iterator can't be split."""
    if groups_to(layout.shard, shape):
        return layout
    joined = layout.canonical(fuse=False)
    joined.group(shape)
    return joined


def _check_storage(ctx: context.Context, node: ast.AST, memory: Memory, layout: TileLayout) -> None:
    have = buffers.fixed_layout(ctx, ctx.span(node), memory)
    if not memory.is_whole:
        raise ctx.type_error(node, ".view with a layout takes a whole buffer", "view first, then slice")
    if layout.footprint() > have.footprint():
        raise ctx.type_error(
            node, f"{layout!r} needs {layout.footprint()} elements of storage; "
            f"{memory.buffer.name} has {have.footprint()}", "allocate more, or give a layout that needs less",
        )


def _sliced_layout(ctx: context.Context, node: ast.AST, memory: Memory) -> TileLayout | Strided:
    """Return the layout of a region's elements, including the offset of its start.

    raises: KernelTypeError for a part with run-time starts, extents or strides.
    """
    layout = memory.buffer.layout
    layout = layout if isinstance(layout, Strided) else buffers.fixed_layout(ctx, ctx.span(node), memory)
    if memory.is_whole:
        return layout
    if isinstance(layout, Strided) or not all(isinstance(s, Const) for s in memory.starts):
        raise ctx.type_error(
            node, "a region with run-time starts or strides can't be reinterpreted",
            "reinterpret the whole buffer first, then slice it",
        )
    region = memory.region(ctx.span(node))
    box = [(int(s.value), n) for s, n in zip(region.starts, region.counts, strict=True) if isinstance(s, Const)]
    with context.Located(ctx, node):
        return layout.slice(memory.buffer.fixed_shape, box)


def seen_as(ctx: context.Context, node: ast.AST, tile: Memory, dtype: DType) -> Memory:
    """Return a local tile as one of another type of the same width."""
    shape, layout = tile.buffer.shape, tile.buffer.layout
    if isinstance(layout, Open):
        layout = Open(layout.scope, tuple(range(len(shape))))
    return replace(tile, buffer=buffers.reinterpreted(ctx, ctx.span(node), tile, shape, dtype, layout).buffer)


def _with_element_type(
    ctx: context.Context, node: ast.AST, memory: Memory, layout: TileLayout | Strided, dtype: DType
) -> Memory:
    shape = memory.buffer.shape if memory.is_whole else memory.shape
    if memory.is_local and isinstance(layout, TileLayout) and layout.size() != math.prod(memory.shape):
        raise ctx.type_error(
            node, f"a tile of shape {memory.shape} with {layout.size()} slots in registers can't be viewed as {dtype}",
            f"view the memory: tj.cta.load(A.view(tj.{dtype})[...]); or give the tile a layout without padding",
        )
    before, after = memory.dtype.bits, dtype.bits
    if before == after:
        return buffers.reinterpreted(ctx, ctx.span(node), memory, shape, dtype, layout)
    if isinstance(layout, Strided) or not shape or not isinstance(shape[-1], int):
        raise ctx.type_error(
            node, f"{memory.buffer.name} has {'run-time strides' if shape else 'no dimensions'}, and {dtype} has "
            f"a different width than {memory.dtype}", _pinned(memory) if shape else "name a type of the same width",
        )
    last = shape[-1] * before
    if last % after != 0:
        raise ctx.type_error(
            node, f"rows of {last} bits don't divide into elements of {dtype}", f"make rows a multiple of {after} bits"
        )
    with context.Located(ctx, node):
        changed = layout.unpack(before // after) if before > after else layout.pack(after // before)
    return buffers.reinterpreted(ctx, ctx.span(node), memory, (*shape[:-1], last // after), dtype, changed)


def with_shape(ctx: context.Context, node: ast.AST, tile: Memory, shape: tuple[int, ...]) -> Memory:
    """Return a local tile in another shape: a view if provably no element has to move, else a new tile."""
    if shape == tile.shape:
        return tile
    scope, span = owner_scope(tile.buffer), ctx.span(node)
    view = _view_in_shape(ctx, node, tile, shape)
    if view is not None:
        return view
    result = ctx.tile("reshaped", scope, shape, tile.dtype, span)
    tiles.emit_sound(ctx, node, TileOp(RESHAPE.name, scope, (result.region(span), tile.region(span)), (), span))
    return result


def _view_in_shape(ctx: context.Context, node: ast.AST, tile: Memory, shape: tuple[int, ...]) -> Memory | None:
    """Return a view of a tile in another shape; None if elements may have to move."""
    if isinstance(tile.buffer.layout, Open):
        return _open_view(ctx, node, tile, shape)
    layout = tile.buffer.tile_layout
    if not tile.is_whole or tile.buffer.slots or math.prod(shape) != layout.size():
        return None
    try:
        return buffers.reinterpreted(ctx, ctx.span(node), tile, shape, tile.dtype, _regrouped(layout, shape))
    except LayoutError:
        return None


def _open_view(ctx: context.Context, node: ast.AST, tile: Memory, shape: tuple[int, ...]) -> Memory | None:
    """Return a view of an open tile that adds or removes only dimensions of extent 1; None for any other shape."""
    kept = [d for d in tile.dims if tile.extents[d] != 1]
    if [n for n in shape if n != 1] != [tile.extents[d] for d in kept]:
        return None
    following = iter(kept)
    dims = [None if n == 1 else next(following) for n in shape]
    # a dimension from which `tile` selects one of several elements remains in the view, as a leading dropped dimension
    dropped = [d for d, n in enumerate(tile.buffer.shape) if d not in kept and n != 1]
    view = buffers.rearranged(ctx, ctx.span(node), tile, [*dropped, *dims], tile.buffer.layout)
    return replace(view, extents=(*(None for _ in dropped), *shape))


def _astype(ctx: context.Context, node: ast.Call, receiver: Value) -> Value:
    arguments = bind(ctx, node, ".astype", ("dtype", "saturate"), 1)
    wanted = arguments["dtype"]
    dtype = mem.element_type(ctx, wanted, ctx.evaluate(wanted))
    flag = optional(ctx, arguments, "saturate")
    saturate = True if flag is None else bool(ctx.constant(flag, node, "saturate="))
    return tiles.converted(ctx, node, receiver, dtype, saturate)


def _tile(ctx: context.Context, node: ast.Call, receiver: Value) -> Value:
    assert isinstance(receiver, Memory)
    if len(node.args) > 2:
        raise ctx.type_error(
            node, f".tile takes a shape and an index; got {counted(len(node.args), 'argument')}",
            f"write each as a tuple: {_with_tuples(node.args)}",
        )
    arguments = bind(ctx, node, ".tile", ("shape", "index"), 2)
    shape_node, index_node = arguments["shape"], arguments["index"]
    shape = mem.static_shape(ctx, shape_node, ctx.evaluate(shape_node))
    at = ctx.evaluate(index_node)
    items = at.items if isinstance(at, Items) else (at,)
    coordinates = [regions.index_value(ctx, index_node, item, receiver.buffer) for item in items]
    return regions.tile(ctx, node, receiver, shape, coordinates)


def _with_tuples(written: Sequence[ast.expr]) -> str:
    rank, odd = divmod(len(written), 2)
    if odd or any(isinstance(argument, ast.Starred) for argument in written):
        return ".tile((rows, columns), (i, j))"
    shape, index = (", ".join(map(ast.unparse, half)) for half in (written[:rank], written[rank:]))
    return f".tile(({shape}), ({index}))"


def _at(ctx: context.Context, node: ast.Call, receiver: Value) -> Value:
    assert isinstance(receiver, Memory)
    arguments = bind(ctx, node, ".at", ("index", "axis"), 1)
    rank = len(receiver.dims)
    if not rank:
        raise ctx.type_error(node, f"{describe(receiver)} has no dimension to index", "take a region that has one")
    if "axis" in arguments and isinstance(ctx.evaluate(arguments["axis"]), Memory):
        raise ctx.type_error(
            node, ".at takes one tile of indices; got two",
            "slice the columns: A.at(rows)[:, 0:N]; for single elements, A[row, column] in each thread",
        )
    axis = mem.axis_of(ctx, arguments["axis"], rank) if "axis" in arguments else 0
    return regions.rows(ctx, arguments["index"], receiver, ctx.evaluate(arguments["index"]), axis)


def _permute(ctx: context.Context, node: ast.Call, receiver: Value) -> Value:
    assert isinstance(receiver, Memory)
    values = positional_values(ctx, node)
    if len(values) == 1 and isinstance(values[0], Items):
        values = list(values[0].items)
    return permute(ctx, node, receiver, tuple(ctx.integer(v, node, "a dimension") for v in values))


def _reshape(ctx: context.Context, node: ast.Call, receiver: Value) -> Value:
    """Translate `.reshape(shape)` or `.reshape(*extents)`, which keep the elements in row-major order."""
    assert isinstance(receiver, Memory)
    given = bind(ctx, with_one_shape(node), ".reshape", ("shape",), 1)["shape"]
    if receiver.is_local:
        return with_shape(ctx, node, receiver, _shape_of(ctx, given, math.prod(receiver.shape)))
    if isinstance(receiver.buffer.layout, Strided):
        return reshapes.reshaped(ctx, node, given, receiver, receiver.buffer.layout.strides)
    layout = _known_layout(ctx, node, receiver)
    return _in_shape(ctx, node, receiver, layout, _shape_of(ctx, given, layout.size()))


METHODS: dict[str, Callable[[context.Context, ast.Call, Value], Value]] = {
    **barriers.METHODS,
    "astype": _astype,
    "at": _at,
    "tile": _tile,
    "permute": _permute,
    "reshape": _reshape,
    "view": _view,
}
