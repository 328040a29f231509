"""Assignments to names, to elements of memory, and to tuples of these."""

from __future__ import annotations

import ast

from ..dtypes import DType
from ..ir import walk
from ..scopes import CTA
from ..wording import counted
from . import memory as mem
from .context import Context, Hinted
from .kinds import converts_to
from .operators import binary
from .products import plus_product
from .regions import unloaded
from .scalars import as_scalar, convert
from .values import Binding, Constant, Items, Memory, Rows, Scalar, Table, Value, describe, is_number, owner_scope


def assign(ctx: Context, node: ast.Assign) -> bool:
    """Translate `target = value`; always return True, because control reaches the next statement."""
    name = node.targets[0].id if isinstance(node.targets[0], ast.Name) else None
    with Hinted(ctx, name):
        value = ctx.evaluate(node.value)
    for target in node.targets:
        assign_to(ctx, target, value)
    return True


def annotated(ctx: Context, node: ast.AnnAssign) -> bool:
    """Translate `target: annotation = value`; an annotation that is an element type converts a scalar value."""
    if node.value is None:
        raise ctx.syntax_error(node, "a declaration without a value can't be used in a kernel", "assign a value")
    name = node.target.id if isinstance(node.target, ast.Name) else None
    with Hinted(ctx, name):
        value = ctx.evaluate(node.value)
    annotation = ctx.evaluate(node.annotation)
    if isinstance(annotation, Constant) and isinstance(annotation.value, DType) and not isinstance(value, Memory):
        value = convert(ctx, node, value, annotation.value)
    assign_to(ctx, node.target, value)
    return True


def augmented(ctx: Context, node: ast.AugAssign) -> bool:
    """Translate `target += value` and the other augmented assignments; always return True."""
    if isinstance(node.target, ast.Subscript):
        memory = _place(ctx, node.target, node)
        old: Value = mem.load_element(ctx, node.target, memory)
        mem.store_element(ctx, node.target, memory, binary(ctx, node, node.op, old, ctx.evaluate(node.value)))
        return True
    if not isinstance(node.target, ast.Name):
        raise ctx.syntax_error(node.target, "an attribute can't be assigned in a kernel", "use a variable")
    old = ctx.evaluate(ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))
    with Hinted(ctx, node.target.id):
        value = _augmented(ctx, node, old)
    assign_to(ctx, node.target, value)
    return True


def _augmented(ctx: Context, node: ast.AugAssign, old: Value) -> Value:
    """Return the new value of a name; `old += a @ b`, or of `tj.matmul`, accumulates if `old` is a local tile."""
    if isinstance(node.op, ast.Add) and isinstance(old, Memory) and old.is_local:
        result = plus_product(ctx, node, old)
        if result is not None:
            return result
    return binary(ctx, node, node.op, old, ctx.evaluate(node.value))


def assign_to(ctx: Context, target: ast.expr, value: Value) -> None:
    """Assign a value to a name, an element, or a tuple or list of targets."""
    if isinstance(target, ast.Name):
        value = named(ctx, target, target.id, _in_loops_type(ctx, target, value))
        ctx.frame.env[target.id] = Binding(value, ctx.span(target))
        return
    if isinstance(target, (ast.Tuple, ast.List)):
        _unpack(ctx, target, value)
        return
    if isinstance(target, ast.Subscript):
        mem.store_element(ctx, target, _place(ctx, target, value), value)
        return
    if isinstance(target, ast.Attribute):
        raise ctx.syntax_error(target, "an attribute can't be assigned in a kernel", "keep the value in a variable")
    raise ctx.syntax_error(target, "this can't be assigned to in a kernel", "assign to names and elements")


def _in_loops_type(ctx: Context, target: ast.Name, value: Value) -> Value:
    """Return `value`, converted if possible to the loop-carried type of `target`; record the type of a typed scalar."""
    carried = ctx.frame.carried.get(target.id)
    if carried is None:
        return value
    value = as_scalar(ctx, target, value)
    if not (isinstance(value, Scalar) or is_number(value)):
        return value
    if isinstance(value, Scalar) and not value.weak:
        carried.assigned.add(value.dtype)
    dtype = carried.dtype
    return value if dtype is None or not converts_to(value, dtype) else convert(ctx, target, value, dtype)


def named(ctx: Context, node: ast.AST, name: str, value: Value) -> Value:
    """Return the value to bind to `name`, after emitting a `Let` for each computed scalar."""
    if isinstance(value, Scalar):
        is_computed = not isinstance(value.expr, walk.LEAVES)
        return Scalar(ctx.let(name, value.expr, ctx.span(node)), value.weak) if is_computed else value
    if isinstance(value, Items):
        items = [named(ctx, node, f"{name}.{k}", item) for k, item in enumerate(value.items)]
        return Items(tuple(items), value.names, value.container)
    return value


def _unpack(ctx: Context, target: ast.Tuple | ast.List, value: Value) -> None:
    if not isinstance(value, Items):
        hint = "assign it to one name"
        if isinstance(value, Scalar):
            hint += "; the index along each axis is tj.cta_id(0), tj.cta_id(1)"
        elif isinstance(value, Memory):
            hint += "; tj.split(x, 2, axis) splits a tile, tj.argmax(x) returns the index of the maximum"
        raise ctx.type_error(target, f"only a tuple can be unpacked; this is {describe(value)}", hint)
    if ast.Starred in map(type, target.elts):
        raise ctx.syntax_error(target, "* can't be used in an assignment in a kernel", "name every item")
    if len(value.items) != len(target.elts):
        raise ctx.type_error(
            target, f"can't unpack {counted(len(value.items), 'item')} into {counted(len(target.elts), 'name')}",
            "write one name per item; _ takes an item that isn't used",
        )
    for inner, item in zip(target.elts, value.items, strict=True):
        assign_to(ctx, inner, item)


def _place(ctx: Context, node: ast.Subscript, value: Value | ast.AugAssign) -> Memory:
    memory = unloaded(ctx, node)
    base = None if isinstance(memory, Memory) else ctx.evaluate(node.value)
    if isinstance(memory, Items) or isinstance(base, (Items, Table)):
        what = "a dict" if isinstance(base, Table) else "a tuple"
        raise ctx.type_error(node, f"{what} can't be changed", "make a new tuple, or use tj.alloc_local")
    if not isinstance(memory, Memory):
        raise ctx.type_error(
            node, f"{describe(memory)} can't be assigned to", f"write tj.cta.store({ast.unparse(node)}, tile)"
            if isinstance(memory, Rows) else "assign to elements of tensors and buffers",
        )
    if memory.dims:
        raise ctx.type_error(
            node, f"only single elements can be assigned; this is {describe(memory)}",
            f"write {_instead(ast.unparse(node), memory, value)}" if memory.writable else mem.REBIND,
        )
    return memory


def _instead(place: str, memory: Memory, value: Value | ast.AugAssign) -> str:
    """Return the source of a call that writes a whole region, for a hint. place: the source of the region."""
    scope = owner_scope(memory.buffer) if memory.is_local else CTA.name
    if isinstance(value, ast.AugAssign):
        loaded = ast.Name(place if memory.is_local else f"tj.{scope}.load({place})")
        result = ast.unparse(ast.BinOp(loaded, value.op, value.value))
        return f"tj.{scope}.{'copy' if memory.is_local else 'store'}({place}, {result})"
    if not isinstance(value, Memory):
        return f"tj.{scope}.fill({place}, value)"
    return f"tj.{scope}.{'copy' if memory.is_local or not value.is_local else 'store'}({place}, tile)"
