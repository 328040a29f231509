"""Allocation of memory, and accesses to single elements."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import Any

from ..dtypes import DType, as_dtype
from ..errors import LayoutError, ResourceError
from ..ir import allocation
from ..ir.nodes import Alloc, Buffer, Element, Store
from ..layout import Swizzle, TileLayout
from ..layout.build import swizzled_atom_layout
from ..scopes import THREAD
from ..target import TENSOR_MEMORY_TARGETS
from ..wording import counted, shown
from .arguments import Arguments, optional
from .buffer_choices import REMEDY
from .context import Context, Located
from .flow import Construct
from .scalars import as_scalar, held, load
from .values import Constant, Items, Memory, Scalar, Value, describe, owner_scope

#: the hint for a write to the result of an expression
REBIND = "rebind the name: x = tj.where(condition, value, x), acc += a @ b; or allocate a buffer with tj.alloc_local"


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
        hint = "write tj.int32, or another width" if name is int else "write tj.float32, or A.dtype of an array A"
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


def layout_argument(ctx: Context, arguments: Arguments, shape: tuple[int, ...], space: str) -> TileLayout | None:
    """Return the `layout=` argument of a call that creates memory or a tile; None if it is omitted or None.

    raises: LayoutError if it doesn't fit or maps two elements to one location, KernelTypeError if it isn't a layout.
    """
    value = optional(ctx, arguments, "layout")
    if value is None:
        return None
    layout = buffer_layout(ctx, arguments["layout"], value, shape, space)
    if not _is_injective(layout):
        raise LayoutError(
            f"{layout!r} maps several elements of a buffer of shape {shape} to one location",
            span=ctx.span(arguments["layout"]), hint="give strides that map each element to a different location",
        )
    return layout


def alloc(space: str, ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.alloc_<space>(shape, dtype, layout=None)`; `alloc_shared` also takes `swizzle=`."""
    shape = static_shape(ctx, arguments["shape"], ctx.evaluate(arguments["shape"]))
    with Located(ctx, arguments["shape"]):
        allocation.check_rank(shape)
        allocation.check_extents(shape)
    dtype = element_type(ctx, arguments["dtype"], ctx.evaluate(arguments["dtype"]))
    if space == "tmem":
        need_tensor_memory(ctx, node)
    given = layout_argument(ctx, arguments, shape, space)
    with Located(ctx, node):
        layout = given or allocation.default_layout(space, shape)
        allocation.check_element_type(space, dtype)
    mode = optional(ctx, arguments, "swizzle")
    if mode is not None:
        swizzle = ctx.constant(mode, arguments["swizzle"], "a swizzle")
        layout = _swizzled(ctx, arguments["swizzle"], swizzle, layout, shape, dtype, has_layout=given is not None)
    align = allocation.alignment(space, dtype, layout)
    buffer = Buffer(ctx.unique(ctx.hint or space), space, dtype, shape, layout, align, None, ctx.span(node))
    ctx.allocate(Alloc(buffer, span=ctx.span(node)))
    loops = [each.span for each in ctx.enclosures if each.construct is Construct.LOOP]
    ctx.allocated_in[buffer.name] = tuple(loops)
    return Memory.whole(buffer)


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
            node, f"swizzle={swizzle!r} determines the layout, so layout= can't be passed too",
            "leave layout= out, or pass a tj.Swizzle(...)",
        )
    with Located(ctx, node):
        return swizzled_atom_layout(shape, dtype.bits, swizzle)


def need_tensor_memory(ctx: Context, node: ast.AST) -> None:
    """Raise ResourceError if the target has no tensor memory."""
    if not ctx.target.has_tensor_memory:
        having = " or ".join(TENSOR_MEMORY_TARGETS)
        raise ResourceError(
            f"{ctx.target.name} has no tensor memory", span=ctx.span(node), hint=f"compile for {having}"
        )


def axes_of(ctx: Context, node: ast.AST, value: Value, rank: int) -> tuple[int, ...]:
    """Return the axes given as an integer or a tuple, in ascending order; negative axes count from the last."""
    items = value.items if isinstance(value, Items) else (value,)
    if any(isinstance(item, Constant) and isinstance(item.value, float) for item in items):
        hint = "write a whole number; for the maximum or minimum of two values, tj.maximum(a, b) or tj.minimum(a, b)"
        raise ctx.type_error(node, "an axis must be an integer", hint)
    numbers = [ctx.integer(item, node, "an axis") for item in items]
    wrong = [n for n in numbers if not -rank <= n < rank]
    if wrong:
        raise ctx.type_error(
            node, f"axis {wrong[0]} is out of range for {counted(rank, 'dimension')}",
            f"the axes are {-rank} to {rank - 1}" if rank else "leave axis= out, or use at least one dimension",
        )
    axes = sorted(n % rank for n in numbers)
    twice = [a for a, b in zip(axes, axes[1:], strict=False) if a == b]
    if twice:
        raise ctx.type_error(node, f"axis {twice[0]} is named twice", "name each axis once")
    return tuple(axes)


def axis_of(ctx: Context, node: ast.expr, rank: int) -> int:
    return axes_of(ctx, node, Constant(ctx.integer(ctx.evaluate(node), node, "the axis")), rank)[0]


def element(ctx: Context, node: ast.AST, memory: Memory) -> Element:
    """Return an element as an operand of a load or store; raise KernelTypeError for a distributed or empty tile."""
    scope = owner_scope(memory.buffer) if memory.is_local else THREAD.name
    if scope != THREAD.name:
        raise ctx.type_error(
            node,
            f"{memory.buffer.name} is distributed over the threads of a {scope}; single elements can't be accessed",
            "use .registers for the calling thread's elements, or copy the tile to shared memory",
        )
    if memory.is_local and 0 in memory.buffer.shape:
        raise ctx.type_error(
            node, f"{memory.buffer.name} of shape {memory.buffer.shape} has no elements",
            "leave the access out if there is nothing to access",
        )
    return Element(memory.buffer, memory.starts, ctx.span(node))


def load_element(ctx: Context, node: ast.AST, memory: Memory, order: str = "") -> Scalar:
    """Load an element. order: one of `ir.values.ORDERS["load"]`."""
    return load(ctx, element(ctx, node, memory), ctx.span(node), order)


def store_element(ctx: Context, node: ast.AST, memory: Memory, value: Value, order: str = "") -> None:
    """Store a scalar, converted to the type of the memory. order: one of `ir.values.ORDERS["store"]`."""
    require_writable(ctx, node, memory)
    value = as_scalar(ctx, node, value)
    if isinstance(value, Memory):
        raise ctx.type_error(
            node, f"one element takes a scalar; this is {describe(value)}",
            "for more elements, write tj.cta.store(region, tile)",
        )
    converted = held(ctx, node, value, memory.dtype)
    ctx.emit(Store(element(ctx, node, memory), converted.expr, order, ctx.span(node)))


def require_writable(ctx: Context, node: ast.AST, memory: Memory) -> None:
    choice = ctx.buffer_choices.get(memory.buffer.root.name)
    if choice is not None:
        raise ctx.type_error(node, f"{choice}: a name that differs between paths may only be read", REMEDY)
    if not memory.writable:
        raise ctx.type_error(
            node, f"{memory.buffer.root.name} is the result of an expression: it can't be written",
            REBIND,
        )
