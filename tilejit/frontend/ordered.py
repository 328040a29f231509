"""Memory accesses and fences with an order: `tj.load_acquire` and others."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from ..ir.nodes import Buffer, Instruction
from ..ir.values import MEMORY_SCOPES
from ..isa.fences import FENCE
from ..wording import counted
from .arguments import Arguments, Handler, optional
from .context import Context
from .operands import memory_operand
from .regions import load_element, store_element
from .values import Constant, Memory, Value


def _load_acquire(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    scope = memory_scope(ctx, node, arguments)
    return load_element(ctx, node, shared_place(ctx, arguments["place"]), f"acquire.{scope}")


def _store_release(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    scope = memory_scope(ctx, node, arguments)
    value = ctx.evaluate(arguments["value"])
    store_element(ctx, node, shared_place(ctx, arguments["place"]), value, f"release.{scope}")
    return Constant(None)


def _load_volatile(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    return load_element(ctx, node, shared_place(ctx, arguments["place"]), "volatile")


def _fence(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    scope = memory_scope(ctx, node, arguments)
    ctx.emit(Instruction(FENCE.row(scope).name, (), (), ctx.span(node)))
    return Constant(None)


def shared_place(ctx: Context, node: ast.expr) -> Memory:
    """Return the element in an argument; raise KernelTypeError unless it is one element of global or shared memory."""
    memory = memory_operand(ctx, node, "the place")
    if memory.dims:
        raise ctx.type_error(
            node, f"the place must be one element; this is a region of {counted(len(memory.dims), 'dimension')}",
            "index every dimension, as in A[i, j]",
        )
    need_shared(ctx, node, memory.buffer)
    return memory


def need_shared(ctx: Context, node: ast.expr, buffer: Buffer) -> None:
    """Raise KernelTypeError unless the buffer is in global or shared memory."""
    if buffer.space not in ("global", "shared"):
        raise ctx.type_error(
            node, f"other threads can't access {buffer.name}, which is in {buffer.space} memory",
            "use an element of a tensor or of shared memory",
        )


def memory_scope(ctx: Context, node: ast.Call, arguments: Mapping[str, ast.expr]) -> str:
    """Return the memory scope in a call, "gpu" by default, after checking that the target supports it."""
    value = optional(ctx, arguments.get("scope"))
    scope = "gpu" if value is None else ctx.constant(value, node, "the scope")
    if scope not in MEMORY_SCOPES:
        raise ctx.type_error(node, f"{scope!r} is not a memory scope", f"write one of {', '.join(MEMORY_SCOPES)}")
    FENCE.row(scope).need(ctx.target, ctx.span(node))
    return str(scope)


ORDERED: dict[str, Handler] = {
    "load_acquire": _load_acquire,
    "store_release": _store_release,
    "load_volatile": _load_volatile,
    "fence": _fence,
}
