"""Allocation of memory, and its reinterpretation: views, permutations, registers."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from ..dataclass import replace
from ..dtypes import DType, as_dtype
from ..errors import LayoutError, ResourceError
from ..ir import allocation
from ..ir.nodes import Alloc, Buffer, Const, Open, Store, Strided
from ..layout import Swizzle, TileLayout
from ..layout.iters import groups_to
from ..layout.stock import swizzled_atom_layout
from ..scopes import THREAD
from ..target import TENSOR_MEMORY_TARGETS
from ..wording import counted, shown
from .arguments import Arguments, bind, optional, with_one_shape
from .buffers import fixed_layout
from .context import Context, Located
from .flow import Construct
from .regions import element, load_element, reinterpreted
from .values import Constant, Items, Memory, Scalar, Value, describe, is_number


def static_shape(ctx: Context, node: ast.AST, value: Value) -> tuple[int, ...]:
    """Return the shape that a tuple of compile-time extents or a single extent denotes."""
    items = value.items if isinstance(value, Items) else (value,)
    shape = tuple(ctx.integer(item, node, "an extent of a shape") for item in items)
    with Located(ctx, node):
        allocation.check_tile_extents(shape)
    return shape


def element_type(ctx: Context, node: ast.AST, value: Value) -> DType:
    """Return the element type that a value such as `tj.float32` denotes; raise KernelTypeError for anything else."""
    name = ctx.constant(value, node, "the element type")
    dtype = as_dtype(name)
    if dtype is None:
        hint = "write tj.int32, or another width" if name is int else "write tj.float32, or A.dtype"
        raise ctx.type_error(node, f"{shown(name)} is not an element type", hint)
    return dtype


def buffer_layout(ctx: Context, node: ast.AST, value: Value, shape: tuple[int, ...], space: str) -> TileLayout:
    """Return the layout that the user passed, checked against the shape and the memory space."""
    memory_hint = "load one region with x = tj.cta.load(region); copy memory with copy(dst, src)"
    layout = ctx.constant(value, node, "a layout", memory_hint if isinstance(value, Memory) else "")
    with Located(ctx, node):
        return allocation.fitting_layout(layout, shape, space)


@lru_cache(maxsize=256)
def _is_injective(layout: TileLayout) -> bool:
    return layout.is_injective()


def injective_layout(ctx: Context, node: ast.AST, value: Value, shape: tuple[int, ...], space: str) -> TileLayout:
    """Like `buffer_layout`, for an allocation: the layout must not map two elements to one location."""
    layout = buffer_layout(ctx, node, value, shape, space)
    if not _is_injective(layout):
        raise LayoutError(
            f"{layout!r} maps several elements of a buffer of shape {shape} to one location", span=ctx.span(node),
            hint="give strides that map each element to a different location",
        )
    return layout


def layout_argument(ctx: Context, argument: ast.expr | None, shape: tuple[int, ...], space: str) -> TileLayout | None:
    """Return the layout passed as an argument, which must be injective; None if the argument is missing or None."""
    value = optional(ctx, argument)
    return None if value is None or argument is None else injective_layout(ctx, argument, value, shape, space)


def alloc_shared(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.alloc_shared(shape, dtype, layout=None, swizzle=None)`."""
    shape, dtype = _shape_and_type(ctx, arguments)
    user_layout = layout_argument(ctx, arguments.get("layout"), shape, "shared")
    layout = user_layout or allocation.default_layout("shared", shape)
    mode = optional(ctx, arguments.get("swizzle"))
    if mode is not None:
        swizzle_node = arguments["swizzle"]
        swizzle = ctx.constant(mode, swizzle_node, "a swizzle")
        layout = _swizzled(ctx, swizzle_node, swizzle, layout, shape, dtype, has_layout=user_layout is not None)
    return _allocated(ctx, node, "shared", shape, dtype, layout)


def _swizzled(
    ctx: Context, node: ast.AST, swizzle: Any, layout: TileLayout, shape: tuple[int, ...], dtype: DType,
    *, has_layout: bool,
) -> TileLayout:
    if isinstance(swizzle, Swizzle):
        return layout.swizzled(swizzle)
    if not isinstance(swizzle, str):
        hint = 'write swizzle="128B", or tj.Swizzle(bits, base, shift)'
        raise ctx.type_error(node, f"{swizzle!r} is not a swizzle", hint)
    if has_layout:
        raise ctx.type_error(
            node, f"swizzle={swizzle!r} determines the layout", "leave layout= out, or give a tj.Swizzle(...)"
        )
    with Located(ctx, node):
        return swizzled_atom_layout(shape, dtype.bits, swizzle)


def _shape_and_type(ctx: Context, arguments: dict[str, ast.expr]) -> tuple[tuple[int, ...], DType]:
    shape_node, dtype_node = arguments["shape"], arguments["dtype"]
    shape = static_shape(ctx, shape_node, ctx.evaluate(shape_node))
    with Located(ctx, shape_node):
        allocation.check_rank(shape)
        allocation.check_extents(shape)
    return shape, element_type(ctx, dtype_node, ctx.evaluate(dtype_node))


def _allocated(
    ctx: Context, node: ast.Call, space: str, shape: tuple[int, ...], dtype: DType, layout: TileLayout
) -> Memory:
    align = allocation.alignment(space, dtype, layout)
    buffer = Buffer(ctx.unique(ctx.hint or space), space, dtype, shape, layout, align, None, ctx.span(node))
    ctx.allocate(Alloc(buffer, span=ctx.span(node)))
    loops = tuple([each.span for each in ctx.enclosures if each.construct is Construct.LOOP])
    ctx.journal.put(ctx.allocated_in, buffer.name, loops)
    return Memory.whole(buffer)


def alloc_local(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.alloc_local(shape, dtype, layout=None)`."""
    shape, dtype = _shape_and_type(ctx, arguments)
    layout = layout_argument(ctx, arguments.get("layout"), shape, "local") or allocation.default_layout("local", shape)
    return _allocated(ctx, node, "local", shape, dtype, layout)


def alloc_tmem(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.alloc_tmem(shape, dtype, layout=None)`; by default, row r is in lane r."""
    shape, dtype = _shape_and_type(ctx, arguments)
    need_tensor_memory(ctx, node)
    layout = layout_argument(ctx, arguments.get("layout"), shape, "tmem")
    with Located(ctx, node):
        layout = layout or allocation.default_layout("tmem", shape)
        allocation.check_element_type("tmem", dtype)
    return _allocated(ctx, node, "tmem", shape, dtype, layout)


def need_tensor_memory(ctx: Context, node: ast.AST) -> None:
    """Raise ResourceError if the target has no tensor memory."""
    if not ctx.target.has_tensor_memory:
        having = " or ".join(TENSOR_MEMORY_TARGETS)
        raise ResourceError(
            f"{ctx.target.name} has no tensor memory", span=ctx.span(node), hint=f"compile for {having}"
        )


def registers(ctx: Context, node: ast.AST, memory: Memory) -> Memory:
    """Return the calling thread's registers of a whole local tile, as a tile of rank 1."""
    if not memory.is_local or not memory.is_whole:
        raise ctx.type_error(
                node, f"only a whole local tile has .registers; this is {describe(memory)}",
                "take .registers of the result of tj.alloc_local or a load",
        )
    count = fixed_layout(ctx, ctx.span(node), memory).span()
    view = reinterpreted(ctx, node, memory, (count,), memory.dtype, TileLayout.row_major((count,)))
    return Memory.whole(view.buffer, writable=memory.writable, constant_indices=True)


def permute(ctx: Context, node: ast.AST, memory: Memory, axes: tuple[int, ...]) -> Memory:
    """Return the region with its dimensions reordered; negative axes count from the last."""
    rank = len(memory.dims)
    wanted = tuple(a + rank if -rank <= a < 0 else a for a in axes)
    if sorted(wanted) != list(range(rank)):
        raise ctx.type_error(
            node, f"{axes} doesn't permute the {counted(rank, 'dimension')} of {memory.buffer.name}",
            f"list each of {tuple(range(rank))} once",
        )
    # dropped dimensions come first
    dropped = [d for d in range(len(memory.extents)) if memory.extents[d] is None]
    order = (*dropped, *(memory.dims[a] for a in wanted))
    buffer = memory.buffer
    layout = buffer.layout
    if isinstance(layout, Strided):
        strides = tuple(layout.strides[d] for d in order)
        moved: TileLayout | Strided | Open = Strided(strides, layout.align, layout.extent_align)
    elif isinstance(layout, Open):
        moved = Open(layout.scope, order)
    else:
        with Located(ctx, node):
            grouped, ends = buffer.tile_layout.group(buffer.fixed_shape)
            moved = grouped.permute_groups(ends, order)
    shape = tuple(buffer.shape[d] for d in order)
    view = reinterpreted(ctx, node, memory, shape, memory.dtype, moved)
    return Memory(
        view.buffer, tuple(memory.starts[d] for d in order), tuple(memory.extents[d] for d in order),
        memory.writable, memory.in_bounds, memory.constant_indices, ctx.span(node),
    )


def view_along(ctx: Context, node: ast.AST, tile: Memory, dims: Sequence[int | None]) -> Memory:
    """Return a view of an open tile with the dimensions `dims` of its buffer; None adds a dimension of extent 1."""
    layout = tile.buffer.layout
    assert isinstance(layout, Open) and tile.buffer.space == "local"
    shape = tuple(1 if d is None else tile.buffer.shape[d] for d in dims)
    return reinterpreted(ctx, node, tile, shape, tile.dtype, Open(layout.scope, tuple(dims)))


def axes_of(ctx: Context, node: ast.AST, value: Value, rank: int) -> tuple[int, ...]:
    """Return the axes that an integer or a tuple lists, in ascending order; negative axes count from the last."""
    items = value.items if isinstance(value, Items) else (value,)
    if any(isinstance(item, Constant) and isinstance(item.value, float) for item in items):
        hint = "for two values, element by element, write tj.maximum(a, b) or tj.minimum(a, b)"
        raise ctx.type_error(node, "an axis must be an integer", hint)
    numbers = [ctx.integer(item, node, "an axis") for item in items]
    wrong = [n for n in numbers if not -rank <= n < rank]
    if wrong:
        raise ctx.type_error(
            node, f"axis {wrong[0]} is outside a tile of {counted(rank, 'dimension')}",
            f"its axes are {-rank} to {rank - 1}" if rank else "leave axis= out",
        )
    axes = sorted(n % rank for n in numbers)
    twice = [a for a, b in zip(axes, axes[1:], strict=False) if a == b]
    if twice:
        raise ctx.type_error(node, f"axis {twice[0]} is named twice", "name each axis once")
    return tuple(axes)


def axis_of(ctx: Context, node: ast.expr, rank: int) -> int:
    return axes_of(ctx, node, Constant(ctx.integer(ctx.evaluate(node), node, "the axis")), rank)[0]


def view(ctx: Context, node: ast.Call, memory: Memory) -> Memory:
    """Translate `.view(shape, layout=None)`, `.view(*extents)` or `.view(dtype)`."""
    arguments = bind(ctx, _with_shape(ctx, node), ".view", ("shape", "layout"), 1)
    first = arguments["shape"]
    value = ctx.evaluate(first)
    if isinstance(value, Constant) and as_dtype(value.value) is not None:
        if "layout" in arguments:
            raise ctx.type_error(node, ".view(dtype) takes no layout", "chain them: .view(dtype).view(shape, layout)")
        dtype = element_type(ctx, first, value)
        if memory.is_local and dtype.bits == memory.dtype.bits and not memory.buffer.slots:
            return _seen_as(ctx, node, memory, dtype)
        return _with_element_type(ctx, node, memory, _sliced_layout(ctx, node, memory), dtype)
    base = _known_layout(ctx, node, memory)
    shape = static_shape(ctx, first, value)
    user_layout = optional(ctx, arguments.get("layout"))
    if user_layout is not None:
        layout = buffer_layout(ctx, arguments["layout"], user_layout, shape, memory.buffer.space)
        _check_storage(ctx, node, memory, layout)
        return reinterpreted(ctx, node, memory, shape, memory.dtype, layout)
    return _in_shape(ctx, node, memory, base, shape)


def view_of_scalar(ctx: Context, node: ast.Call, scalar: Scalar) -> Scalar:
    """Translate `x.view(dtype)` of a scalar, which reinterprets its bits."""
    wanted = bind(ctx, node, ".view", ("dtype",), 1)["dtype"]
    dtype = element_type(ctx, wanted, ctx.evaluate(wanted))
    if dtype.bits != scalar.dtype.bits:
        raise ctx.type_error(
            node, f"a scalar of {scalar.dtype} has {scalar.dtype.bits} bits; {dtype} has {dtype.bits}",
            "name a type of the same width; .astype(dtype) converts the value",
        )
    span = ctx.span(node)
    register = ctx.tile("bits", THREAD.name, (1,), scalar.dtype, span)
    place = replace(register, extents=(None,))
    ctx.emit(Store(element(ctx, node, place), scalar.expr, span=span))
    seen = reinterpreted(ctx, node, register, (1,), dtype, register.buffer.tile_layout)
    return load_element(ctx, node, replace(seen, extents=(None,)))


def reshape(ctx: Context, node: ast.AST, memory: Memory, given: ast.expr) -> Memory:
    """Translate `.reshape(shape)` of memory; `given` is the shape, in which one extent may be -1."""
    layout = _known_layout(ctx, node, memory)
    return _in_shape(ctx, node, memory, layout, shape_of(ctx, given, layout.size()))


def shape_of(ctx: Context, given: ast.expr, size: int) -> tuple[int, ...]:
    """Return the shape that `given` denotes; an extent of -1 is computed from `size`, the number of elements."""
    value = ctx.evaluate(given)
    items = value.items if isinstance(value, Items) else (value,)
    extents = [ctx.integer(item, given, "an extent of a shape") for item in items]
    others = math.prod(n for n in extents if n != -1)
    if -1 not in extents:
        return static_shape(ctx, given, value)
    if extents.count(-1) > 1 or others < 1 or size % others:
        raise ctx.type_error(
            given, f"can't reshape {counted(size, 'element')} to {shown(tuple(extents))}",
            "one extent may be -1, if the product of the others divides the number of elements",
        )
    return tuple(size // others if n == -1 else n for n in extents)


def _known_layout(ctx: Context, node: ast.AST, memory: Memory) -> TileLayout:
    if isinstance(memory.buffer.layout, Strided):
        raise ctx.type_error(
            node, f"{memory.buffer.name} has run-time strides: it can't take another shape",
            _pinned(memory),
        )
    layout = _sliced_layout(ctx, node, memory)
    assert not isinstance(layout, Strided)
    return layout


def _in_shape(ctx: Context, node: ast.AST, memory: Memory, base: TileLayout, shape: tuple[int, ...]) -> Memory:
    if math.prod(shape) != base.size():
        raise ctx.type_error(
            node, f"shape {shape} has {math.prod(shape)} elements; {memory.buffer.name} has {base.size()}",
            "give a shape with the same number of elements",
        )
    with Located(ctx, node):
        return reinterpreted(ctx, node, memory, shape, memory.dtype, regrouped(base, shape))


def _with_shape(ctx: Context, node: ast.Call) -> ast.Call:
    """Return `x.view(8, 8)` as `x.view((8, 8))`; other calls, such as `x.view(shape, layout)`, are unchanged."""
    has_layout = len(node.args) == 2 and not is_number(ctx.evaluate(node.args[1]))
    return node if has_layout else with_one_shape(node)


def _pinned(memory: Memory) -> str:
    return f"pin its type: {memory.buffer.root.name}: tj.Tensor = tj.spec(shape, dtype)"


def regrouped(layout: TileLayout, shape: tuple[int, ...]) -> TileLayout:
    """Return the layout over another shape of equal size; raise LayoutError if its iterators can't be split to fit."""
    if groups_to(layout.shard, shape):
        return layout
    joined = layout.canonical(fuse=False)
    joined.group(shape)
    return joined


def _check_storage(ctx: Context, node: ast.AST, memory: Memory, layout: TileLayout) -> None:
    have = fixed_layout(ctx, ctx.span(node), memory)
    if not memory.is_whole:
        raise ctx.type_error(node, ".view with a layout takes a whole buffer", "view first, then slice")
    if layout.footprint() > have.footprint():
        raise ctx.type_error(
            node, f"{layout!r} needs {layout.footprint()} elements of storage; "
            f"{memory.buffer.name} has {have.footprint()}", "allocate more, or give a layout that needs less",
        )


def _sliced_layout(ctx: Context, node: ast.AST, memory: Memory) -> TileLayout | Strided:
    """Return the layout of a region's elements, including the offset of its start.

    raises: KernelTypeError for a part with run-time starts, extents or strides.
    """
    layout = memory.buffer.layout
    layout = layout if isinstance(layout, Strided) else fixed_layout(ctx, ctx.span(node), memory)
    if memory.is_whole:
        return layout
    if isinstance(layout, Strided) or not all(isinstance(s, Const) for s in memory.starts):
        raise ctx.type_error(
            node, "a region with run-time starts or strides can't be reinterpreted", "view first, then slice"
        )
    region = memory.region(ctx.span(node))
    box = [(int(s.value), n) for s, n in zip(region.starts, region.counts, strict=True) if isinstance(s, Const)]
    with Located(ctx, node):
        return layout.slice(memory.buffer.fixed_shape, box)


def _seen_as(ctx: Context, node: ast.AST, tile: Memory, dtype: DType) -> Memory:
    shape, layout = tile.buffer.shape, tile.buffer.layout
    if isinstance(layout, Open):
        layout = Open(layout.scope, tuple(range(len(shape))))
    return replace(tile, buffer=reinterpreted(ctx, node, tile, shape, dtype, layout).buffer)


def _with_element_type(
    ctx: Context, node: ast.AST, memory: Memory, layout: TileLayout | Strided, dtype: DType
) -> Memory:
    shape = memory.buffer.shape if memory.is_whole else memory.shape
    if memory.is_local and isinstance(layout, TileLayout) and layout.size() != math.prod(memory.shape):
        raise ctx.type_error(
            node, f"a tile of shape {memory.shape} with {layout.size()} slots in registers can't be viewed as {dtype}",
            f"view the memory: tj.cta.load(A.view(tj.{dtype})[...]); or give it a layout of that size",
        )
    before, after = memory.dtype.bits, dtype.bits
    if before == after:
        return reinterpreted(ctx, node, memory, shape, dtype, layout)
    if isinstance(layout, Strided) or not shape or not isinstance(shape[-1], int):
        raise ctx.type_error(
            node, f"{memory.buffer.name} has {'run-time strides' if shape else 'no dimensions'}, and {dtype} has "
            f"a different width than {memory.dtype}", _pinned(memory) if shape else "name a type of the same width",
        )
    last = shape[-1] * before
    if last % after != 0:
        raise ctx.type_error(
            node, f"rows of {last} bits don't divide into {dtype}", f"make rows a multiple of {after} bits"
        )
    with Located(ctx, node):
        changed = layout.unpack(before // after) if before > after else layout.pack(after // before)
    return reinterpreted(ctx, node, memory, (*shape[:-1], last // after), dtype, changed)
