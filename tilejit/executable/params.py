"""Convert kernel parameters to JSON values and back, without loading the tile IR parser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dtypes import DTYPES
from ..errors import assert_never
from ..ir.params import (
    AddressParam,
    AssertionsParam,
    BarrierParam,
    BoxShare,
    ExtentParam,
    Param,
    PointerParam,
    ScalarParam,
    StrideParam,
    TensorMapParam,
    TensorMapSpec,
)
from ..ir.text.layout_text import layout_from_text
from ..ir.values import Buffer, Strided, Var


def param_to_json(param: Param) -> list[Any]:
    """Return the parameter as a list whose first item is its kind."""
    match param:
        case PointerParam():
            return ["pointer", param.of, _buffer(param.buffer), param.written, param.noalias]
        case ScalarParam():
            return ["scalar", param.of, _var(param.var)]
        case ExtentParam():
            return ["extent", param.of, _var(param.var), param.axis]
        case StrideParam():
            return ["stride", param.of, _var(param.var), param.axis]
        case AddressParam():
            return ["address", param.of, _var(param.var)]
        case AssertionsParam():
            return ["assertions"]
        case BarrierParam():
            return ["barrier", _buffer(param.buffer)]
        case TensorMapParam(map=spec):
            shape = [spec.dtype.name, spec.axes, spec.box, spec.swizzle]
            shares = [[share.coordinates, share.bytes] for share in param.shares]
            return ["tensormap", param.of, _var(param.var), *shape, param.written, shares]
        case _:
            return assert_never(param)


def param_from_json(parts: list[Any]) -> Param:
    """Decode the result of `param_to_json`."""
    kind, *rest = parts
    return _READ[kind](*rest)


_READ: dict[str, Callable[..., Param]] = {
    "pointer": lambda of, buffer, written, noalias: PointerParam(of, _read_buffer(buffer), written, noalias),
    "scalar": lambda of, var: ScalarParam(of, _read_var(var)),
    "extent": lambda of, var, axis: ExtentParam(of, _read_var(var), axis),
    "stride": lambda of, var, axis: StrideParam(of, _read_var(var), axis),
    "address": lambda of, var: AddressParam(of, _read_var(var)),
    "assertions": AssertionsParam,
    "barrier": lambda buffer: BarrierParam(_read_buffer(buffer)),
    "tensormap": lambda of, var, dtype, axes, box, swizzle, written, shares: TensorMapParam(
        _read_var(var), TensorMapSpec(of, DTYPES[dtype], tuple(axes), tuple(box), swizzle), written,
        tuple([BoxShare(tuple(coordinates), bytes_) for coordinates, bytes_ in shares]),
    ),
}


def _var(var: Var) -> list[Any]:
    return [var.name, var.dtype.name, var.multiple_of, var.bounds, var.uniform, var.data]


def _read_var(parts: list[Any]) -> Var:
    name, dtype, multiple_of, bounds, uniform, data = parts
    return Var(name, DTYPES[dtype], multiple_of, None if bounds is None else tuple(bounds), uniform=uniform, data=data)


def _buffer(buffer: Buffer) -> list[Any]:
    layout = buffer.layout
    assert buffer.base is None and not buffer.slots, f"the parameter {buffer.name} is a view or padded"
    if isinstance(layout, Strided):
        laid_out: Any = [_sizes(layout.strides), layout.align, layout.extent_align]
    else:
        laid_out = repr(buffer.tile_layout)
    return [buffer.name, buffer.space, buffer.dtype.name, _sizes(buffer.shape), laid_out, buffer.align]


def _read_buffer(parts: list[Any]) -> Buffer:
    name, space, dtype, shape, laid_out, align = parts
    if isinstance(laid_out, str):
        return Buffer(name, space, DTYPES[dtype], _read_sizes(shape), layout_from_text(laid_out), align)
    strides, stride_align, extent_align = laid_out
    layout = Strided(_read_sizes(strides), stride_align, extent_align)
    return Buffer(name, space, DTYPES[dtype], _read_sizes(shape), layout, align)


def _sizes(sizes: tuple[int | Var, ...]) -> list[Any]:
    return [_var(size) if isinstance(size, Var) else size for size in sizes]


def _read_sizes(sizes: list[Any]) -> tuple[int | Var, ...]:
    return tuple([_read_var(size) if isinstance(size, list) else size for size in sizes])
