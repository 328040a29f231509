"""Translation of `breakpoint()`: the names in scope become operands of a statement.

`Breakpoint.names` lists the functions, innermost first, as `[function, {name: value}]`. A value is a list: `constant`
and its `repr`, `text`, `scalar` and an index in the statement's values, `items` with names and values, `dict` with keys
and values, or `memory` with an index, the buffer's shape (null for a tensor), and the start and the extent of a part in
each dimension: a number, a scalar's list or null.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable
from types import NoneType
from typing import Any

from ..dtypes import DType
from ..ir.arithmetic import build
from ..ir.nodes import Breakpoint, Const, Expr, Region
from ..layout import TileLayout
from .context import Context, Frame
from .values import Binding, Closure, Constant, Items, Memory, Record, Scalar, Table, Unset, Value, describe

#: the types of constants whose values are shown; a captured constant of another type, such as a module, is left out
_SHOWN = (bool, int, float, str, DType, TileLayout, NoneType)


def stop(ctx: Context, node: ast.Call) -> Value:
    """Translate `breakpoint()`."""
    if node.args or node.keywords:
        raise ctx.syntax_error(node, "breakpoint in a kernel takes no arguments", "write breakpoint()")
    operands: dict[Expr | Region, int] = {}
    frames = []
    frame: Frame | None = ctx.frame
    while frame is not None:
        names = {name: _described(ctx, operands, value) for name, value in _in_scope(ctx, frame)}
        frames.append([frame.node.name, names])
        frame = frame.back
    ctx.emit(Breakpoint(json.dumps(frames), tuple(operands), ctx.span(node)))
    return Constant(None)


def _in_scope(ctx: Context, frame: Frame) -> Iterable[tuple[str, Value]]:
    """Yield the captured constants that were read so far, and the local names of enclosing functions and of `frame`."""
    for (source, name), value in ctx.outside.items():
        if source is frame.source and (not isinstance(value, Constant) or isinstance(value.value, _SHOWN)):
            yield name, value
    envs: list[dict[str, Binding]] = []
    enclosing: Frame | None = frame
    while enclosing is not None:
        envs.append(enclosing.env)
        enclosing = enclosing.outer
    for env in reversed(envs):
        yield from [(k, b.value) for k, b in env.items() if k.isidentifier() and not isinstance(b.value, Closure)]


def _described(ctx: Context, operands: dict[Expr | Region, int], value: Value) -> list[Any]:
    def number(operand: Expr | Region) -> int:
        return operands.setdefault(operand, len(operands))

    def size(extent: int | Expr | None) -> int | list[Any] | None:
        if isinstance(extent, Const):
            return int(extent.value)
        return extent if extent is None or isinstance(extent, int) else ["scalar", number(extent)]

    if isinstance(value, Constant) and isinstance(value.value, _SHOWN):
        return ["constant", repr(value.value)]
    if isinstance(value, Scalar):
        return ["scalar", number(value.expr)]
    if isinstance(value, (Items, Record)):
        return ["items", value.names, [_described(ctx, operands, item) for item in value.items]]
    if isinstance(value, Table):
        return ["dict", [repr(k.value) for k in value.keys], [_described(ctx, operands, item) for item in value.items]]
    if isinstance(value, Memory) and _is_seen(ctx, value):
        buffer = value.buffer
        zeros = (build.const(0, buffer.index_dtype),) * len(buffer.shape)
        extents = buffer.fixed_shape if value.is_local else (None,) * len(zeros)
        shape = None if buffer.space == "global" else buffer.shape
        operand = number(Region(buffer, zeros, extents))
        part = [[size(start), size(extent)] for start, extent in zip(value.starts, value.extents, strict=True)]
        return ["memory", operand, shape, [] if value.is_whole else part]
    # the `repr` of a function contains its address
    name = getattr(value.value, "__name__", "") if isinstance(value, Constant) else ""
    return ["text", value.reason if isinstance(value, Unset) else name or describe(value)]


def _is_seen(ctx: Context, memory: Memory) -> bool:
    """True for memory whose elements are shown: tiles, shared memory and tensors, but not tensors' views."""
    buffer = memory.buffer
    if 0 in buffer.shape or buffer.space == "tmem" or (buffer.space == "global" and buffer.base is not None):
        return False
    return memory.is_local or ctx.phi(buffer) is None
