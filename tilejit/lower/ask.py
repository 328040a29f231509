"""Dispatch queries without a kernel: `tj.operand`, `tj.sym`, `tj.dispatch`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import DTypeLike

from .. import target as targets
from ..dataclass import dataclass
from ..dtypes import DType, as_dtype, bool_, float32, int32, int64
from ..errors import DispatchError, KernelTypeError, entry_point
from ..ir import allocation
from ..ir.arithmetic import build
from ..ir.nodes import Buffer, Cast, Const, Expr, Op, Region, Special, Strided, TileOp, Var
from ..ir.values import SPACES
from ..layout import Swizzle, TileLayout
from ..ops.record import TILE, AttributeValue, TileOperation
from ..ops.tile import TILE_OPERATIONS
from ..scopes import SCOPES
from ..wording import counted, shown
from . import VARIANTS
from .engine import Verdict
from .engine import dispatch as _dispatch
from .variant import DispatchContext

Start = int | Var

#: alignment in bytes assumed for global tensors by default; allocators of array frameworks guarantee at least this much
_GLOBAL_ALIGN = 16
_OPERANDS = "pass tj.operand(...), numbers and tj.sym(...), the destination first"


@dataclass(frozen=True, slots=True)
class OperandSpec:
    """A buffer, or a region of a buffer, as an operand of `dispatch`.

    region: (start, extent) per dimension, or None for the whole buffer.
    strides: of a global tensor, in elements; None to use `layout`; "runtime" if known only at launch (the last is 1).
    align: the alignment of the base address and of run-time strides, in bytes.
    """

    space: str
    shape: tuple[int, ...]
    dtype: DType
    layout: TileLayout
    region: tuple[tuple[Start, int], ...] | None
    strides: str | tuple[int, ...] | None
    align: int

    def named(self, name: str) -> Region:
        """Return the operand as a region of a buffer called `name`."""
        buffer = Buffer(name, self.space, self.dtype, self.shape, self._layout(name), self.align)
        window = self.region or tuple((0, n) for n in self.shape)
        starts = tuple(build.const(s, buffer.index_dtype) if isinstance(s, int) else s for s, _ in window)
        return Region(buffer, starts, tuple(e for _, e in window))

    def _layout(self, name: str) -> TileLayout | Strided:
        if self.strides is None:
            return self.layout
        if isinstance(self.strides, tuple):
            return Strided(self.strides, self.align)
        multiple = max(1, self.align // self.dtype.bytes)
        outer = tuple(Var(f"{name}.stride.{d}", int64, multiple) for d in range(len(self.shape) - 1))
        return Strided((*outer, 1), self.align)


@entry_point
def operand(
    space: str,
    shape: Sequence[int],
    dtype: DType | DTypeLike,
    layout: TileLayout | Swizzle | None = None,
    region: Sequence[tuple[Start, int]] | None = None,
    *,
    strides: str | Sequence[int] | None = None,
    align: int | None = None,
) -> OperandSpec:
    """Return a description of a buffer, or of a region of a buffer, for `dispatch`.

    space: "global", "shared", "local" or "tmem". region: (start, extent) per dimension; a start may be a `sym`.
    strides: of a global tensor, in elements; "runtime" if known only at launch, except the last, 1. align: in bytes.
    raises: KernelTypeError or LayoutError if an argument is invalid or doesn't fit the others.

    Example:
        tile = tj.operand("local", (32, 8), tj.float32, layout=S[(32, 8) : (1 @ laneid, 1)])
    """
    if space not in SPACES:
        raise KernelTypeError(f"no memory space {space!r}", hint=f"use one of {', '.join(SPACES)}")
    element = as_dtype(dtype)
    if element is None:
        raise KernelTypeError(f"{shown(dtype)} is not an element type", hint="write tj.float32, or another type")
    extents = tuple(int(n) for n in shape)
    allocation.check_extents(extents)
    if space != "global":
        allocation.check_rank(extents)
    if layout is None:
        placed = allocation.default_layout(space, extents)
    else:
        placed = allocation.fitting_layout(layout, extents, space)
    allocation.check_element_type(space, element)
    window = None if region is None else tuple((s if isinstance(s, Var) else int(s), int(e)) for s, e in region)
    if window is not None and len(window) != len(extents):
        raise KernelTypeError(
            f"a region of {counted(len(window), 'dimension')} doesn't fit shape {extents}",
            hint="give one (start, extent) per dimension",
        )
    if window is not None and space != "global":
        _check_inside(window, extents, space)
    if strides is not None and space != "global":
        raise KernelTypeError(
            f"only global tensors have strides; {space} buffers have a layout", hint="give layout=S[...] instead"
        )
    if isinstance(strides, str) and strides != "runtime":
        raise KernelTypeError(f"strides={strides!r} is not valid", hint='give "runtime", or one number per dimension')
    steps = strides if strides is None or isinstance(strides, str) else tuple(int(s) for s in strides)
    if align is None:
        align = _GLOBAL_ALIGN if space == "global" else allocation.alignment(space, element, placed)
    return OperandSpec(space, extents, element, placed, window, steps, align)


def _check_inside(window: Sequence[tuple[Start, int]], shape: tuple[int, ...], space: str) -> None:
    for dim, ((start, extent), size) in enumerate(zip(window, shape, strict=True)):
        first, name = (start, str(start)) if isinstance(start, int) else (0, start.name)
        if first < 0 or first + extent > size:
            raise KernelTypeError(
                f"[{name} : {name} + {extent}] is out of bounds for dimension {dim} of the {space} buffer, "
                f"whose extent is {size}",
                hint="only regions of global tensors may extend past the edge",
            )


def sym(name: str, *, multiple_of: int = 1, dtype: DType = int64) -> Var:
    """Return a variable whose value is known only at run time and is a multiple of `multiple_of`.

    Example:
        part = tj.operand("global", (64, 64), tj.float16, region=((tj.sym("i", multiple_of=8), 8), (0, 64)))
    """
    return Var(name, dtype, multiple_of)


@entry_point
def dispatch(
    name: str,
    scope: str,
    *operands: OperandSpec | Expr | bool | int | float | None,
    threads: int = 128,
    target: str | targets.Target = "sm_90a",
    **attrs: AttributeValue,
) -> Verdict[Any]:
    """Return the variant chosen for an operation, its plan, and the reasons why other variants weren't chosen.

    operands: in the operation's order, destination first. A scalar may be a number; None omits an optional operand.
    threads: number of threads of the CTA.
    attrs: the operation's attributes, such as variant="reg", require_bits=128, or precision="tf32" of a gemm.
    raises: DispatchError if no variant accepts the operation, or its name, scope, operand count or an attribute is
    invalid; KernelTypeError if a value isn't an operand; DeviceError if the target is unknown.

    Example:
        dst, src = (tj.operand(space, (32, 32), tj.float16) for space in ("shared", "global"))
        assert tj.dispatch("copy", "warp", dst, src, threads=32, target="sm_90a").variant == "gmem_smem"
    """
    if name not in TILE_OPERATIONS:
        raise DispatchError(f"no tile operation {name!r}", hint=f"use one of {', '.join(TILE_OPERATIONS)}")
    if scope not in SCOPES:
        raise DispatchError(f"no scope {scope!r}", hint=f"use one of {', '.join(SCOPES)}")
    record = TILE_OPERATIONS[name]
    fault = record.count_fault(operands)
    if fault is not None:
        raise DispatchError(f"{name} {fault}", hint=_OPERANDS)
    tile_types = [
        o.dtype
        for rule, o in zip(record.operands, operands, strict=False)
        if isinstance(o, OperandSpec) and rule.kind(is_region=True) is TILE
    ]
    named = tuple(
        o.named(rule.name) if isinstance(o, OperandSpec) else None if o is None else _scalar(o, tile_types)
        for rule, o in zip(record.operands, operands, strict=False)
    )
    op = TileOp(name, scope, named, _attributes(record, attrs))
    return _dispatch(op, DispatchContext(targets.target(target), threads), VARIANTS)


def _attributes(record: TileOperation, attrs: Mapping[str, AttributeValue]) -> tuple[tuple[str, AttributeValue], ...]:
    """Return the attributes that aren't None, in the record's order. raises: DispatchError if one is invalid."""
    stated = {name: value for name, value in attrs.items() if value is not None}
    for name, value in stated.items():
        fault = record.attribute_fault(name, value)
        if fault is not None:
            raise DispatchError(fault, hint=f"its attributes are {', '.join(a.name for a in record.attrs)}")
    return tuple((a.name, stated[a.name]) for a in record.attrs if a.name in stated)


def _scalar(value: Expr | bool | int | float, tile_types: Sequence[DType]) -> Expr:
    """Return `value` as an expression.

    A bool becomes a bool_ constant. An int becomes a constant of the last tile's type (wrapped, or rounded for a float
    type), or of int32 if there is no tile or that type is bool_. A float becomes a constant of the last tile's type if
    that is a float type, else of float32.

    raises: KernelTypeError if `value` is neither a number nor an expression, or is a load.
    """
    if isinstance(value, (Var, Const, Special, Op, Cast)):
        return value
    if not isinstance(value, (bool, int, float)):
        raise KernelTypeError(f"{shown(value)} is not an operand", hint=_OPERANDS)
    if isinstance(value, bool):
        return Const(value, bool_)
    wanted = tile_types[-1] if tile_types else int32
    if isinstance(value, int):
        return build.const(value, wanted if wanted != bool_ else int32)
    return build.const(value, wanted if wanted.is_float else float32)
