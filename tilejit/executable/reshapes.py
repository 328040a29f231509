"""The views in other shapes that a launch checks, and the scratch that it allocates, from a kernel's tile IR."""

from __future__ import annotations

from collections.abc import Sequence

from ..dataclass import replace
from ..dtypes import int64
from ..ir import walk
from ..ir.nodes import Buffer, BufferView, Cast, Const, Expr, Kernel, Let, Op, Special, Strided, Var
from ..ir.params import AssertionsParam, BarrierParam, Param, PointerParam
from .record import Reshape, ScratchArray


def reshapes(kernel: Kernel) -> tuple[Reshape, ...]:
    """Return the views whose dimensions aren't a selection of those of their base, in the order of the text.

    Views for slices with steps are not among them: their last step may end outside, like other regions.
    """
    # extents and strides are parameters, or are computed from them at the kernel's entry
    defined: dict[str, Expr] = {}
    found: list[Reshape] = []
    # scratch is row-major, so its views need no check
    scratch = {each.of for each in scratch_of(kernel, kernel.params)}
    for stmt in kernel.body:
        if isinstance(stmt, Let):
            defined[stmt.var.name] = stmt.value
        elif isinstance(stmt, BufferView) and isinstance(stmt.buffer.layout, Strided):
            base = stmt.buffer.base
            assert base is not None
            if ".steps" in stmt.buffer.name or base.root.name in scratch:
                continue
            before, after = _dims(base), _dims(stmt.buffer)
            if not all(dim in before for dim in after):
                sides = [_exprs(side, defined) for side in (*_columns(before), *_columns(after))]
                found.append(Reshape(base.root.name, sides[0], sides[1], sides[2], sides[3], stmt.span))
    return tuple(found)


def scratch_of(kernel: Kernel, params: Sequence[Param]) -> tuple[ScratchArray, ...]:
    """Return the arrays from `tj.scratch` to which `params` refer."""
    used = {param.of for param in params if not isinstance(param, (AssertionsParam, BarrierParam))}
    return tuple([
        ScratchArray(p.of, p.buffer.dtype, p.scratch.extents, p.scratch.zeroed, p.buffer.span)
        for p in kernel.params if isinstance(p, PointerParam) and p.scratch is not None and p.of in used
    ])


def specials_of(scratch: Sequence[ScratchArray]) -> frozenset[str]:
    """Return the names of the special registers in the extents of arrays."""
    parts = [part for each in scratch for extent in each.extents for part in walk.subexpressions(extent)]
    return frozenset([part.name for part in parts if isinstance(part, Special)])


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
