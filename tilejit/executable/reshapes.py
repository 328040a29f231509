"""The views of tensors in other shapes that a launch checks, from a kernel's tile IR."""

from __future__ import annotations

from ..dataclass import replace
from ..dtypes import int64
from ..ir.nodes import Buffer, BufferView, Cast, Const, Expr, Kernel, Let, Op, Strided, Var
from .record import Reshape


def reshapes(kernel: Kernel) -> tuple[Reshape, ...]:
    """Return the views whose dimensions aren't a selection of those of their base, in the order of the text.

    Views for slices with steps are not among them: their last step may end outside, like other regions.
    """
    # extents and strides are parameters, or are computed from them at the kernel's entry
    defined: dict[str, Expr] = {}
    found: list[Reshape] = []
    for stmt in kernel.body:
        if isinstance(stmt, Let):
            defined[stmt.var.name] = stmt.value
        elif isinstance(stmt, BufferView) and isinstance(stmt.buffer.layout, Strided):
            base = stmt.buffer.base
            if ".steps" in stmt.buffer.name:
                continue
            assert base is not None
            before, after = _dims(base), _dims(stmt.buffer)
            if not all(dim in before for dim in after):
                sides = [_exprs(side, defined) for side in (*_columns(before), *_columns(after))]
                found.append(Reshape(base.root.name, sides[0], sides[1], sides[2], sides[3], stmt.span))
    return tuple(found)


def _dims(buffer: Buffer) -> list[tuple[int | Var, int | Var]]:
    assert isinstance(buffer.layout, Strided)
    return list(zip(buffer.shape, buffer.layout.strides, strict=True))


def _columns(dims: list[tuple[int | Var, int | Var]]) -> tuple[list[int | Var], list[int | Var]]:
    return [extent for extent, _ in dims], [stride for _, stride in dims]


def _exprs(sizes: list[int | Var], defined: dict[str, Expr]) -> tuple[Expr, ...]:
    return tuple([Const(size, int64) if isinstance(size, int) else _expanded(size, defined) for size in sizes])


def _expanded(expr: Expr, defined: dict[str, Expr]) -> Expr:
    if isinstance(expr, Op):
        return replace(expr, args=tuple([_expanded(arg, defined) for arg in expr.args]))
    if isinstance(expr, Cast):
        return replace(expr, x=_expanded(expr.x, defined))
    value = defined.get(expr.name) if isinstance(expr, Var) else None
    return expr if value is None else _expanded(value, defined)
