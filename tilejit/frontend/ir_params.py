"""The IR parameters of a kernel, and the initial bindings of its Python parameters."""

from __future__ import annotations

from ..dataclass import dataclass, replace
from ..dtypes import int64
from ..errors import KernelTypeError
from ..ir.nodes import Buffer, Kernel, Strided, Var
from ..ir.params import ExtentParam, Param, PointerParam, ScalarParam, StrideParam
from ..ir.types import ArgumentType, ArrayType, ConstexprType, ScalarType, Signature
from ..layout import TileLayout
from ..layout.axes import m
from ..layout.iters import Iter
from .source import KernelSource
from .values import Binding, Memory, Scalar, Value, from_python

_LARGEST_EXTENT = 2**40


@dataclass(frozen=True, slots=True)
class KernelParams:
    """The IR parameters of a kernel, in order, and the bindings of its Python parameters."""

    params: tuple[Param, ...]
    env: dict[str, Binding]


def kernel_params(source: KernelSource, signature: Signature) -> KernelParams:
    """Return the IR parameters for a signature, and the bindings of the kernel's Python parameters."""
    a = source.node.args
    nodes = {arg.arg: arg for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs)}
    params: list[Param] = []
    env: dict[str, Binding] = {}
    for name, argument in signature.arguments:
        span = source.span(nodes[name])
        value: Value
        if isinstance(argument, ArrayType):
            buffer = _buffer(name, argument)
            params.extend(_array_params(name, argument, buffer))
            value = Memory.whole(buffer)
        elif isinstance(argument, ScalarType):
            var = Var(name, argument.dtype, data=argument.dtype is int64)
            params.append(ScalarParam(name, var))
            value = Scalar(var)
        else:
            assert isinstance(argument, ConstexprType)
            try:
                value = from_python(argument.value)
            except KernelTypeError as error:
                error.span = span
                raise
        env[name] = Binding(value, span)
    return KernelParams(tuple(params), env)


def with_overlaps(kernel: Kernel, signature: Signature) -> Kernel:
    """Return the kernel adapted to a signature that differs from its own only in which arrays overlap."""
    types = dict(signature.arguments)
    params = tuple([
        replace(p, noalias=not p.noalias) if isinstance(p, PointerParam) and p.noalias != _is_apart(types[p.of]) else p
        for p in kernel.params
    ])
    return kernel if params == kernel.params else replace(kernel, params=params)


def _is_apart(argument: ArgumentType) -> bool:
    return isinstance(argument, ArrayType) and not argument.overlaps


def _buffer(name: str, array: ArrayType) -> Buffer:
    itemsize = array.dtype.bytes
    shape: tuple[int | Var, ...] = array.shape or tuple(
        Var(
            f"{name}.shape.{d}", int64,
            max(1, array.extent_align // itemsize) if d == array.unit_dim else 1, (0, _LARGEST_EXTENT),
        )
        for d in range(array.rank)
    )
    if array.shape is not None and array.strides is not None and all(e > 0 for e in array.shape):
        iters = (Iter(e, s, m) for e, s in zip(array.shape, array.strides, strict=True))
        return Buffer(name, "global", array.dtype, shape, TileLayout(tuple(iters) or (Iter(1, 1, m),)), array.align)
    strides: tuple[int | Var, ...] = array.strides or tuple(
        1 if d == array.unit_dim else Var(f"{name}.stride.{d}", int64, max(1, array.align // itemsize))
        for d in range(array.rank)
    )
    return Buffer(name, "global", array.dtype, shape, Strided(strides, array.align, array.extent_align), array.align)


def _array_params(name: str, array: ArrayType, buffer: Buffer) -> list[Param]:
    params: list[Param] = [PointerParam(name, buffer, noalias=_is_apart(array))]
    for axis, extent in enumerate(buffer.shape):
        if isinstance(extent, Var):
            params.append(ExtentParam(name, extent, axis))
    if isinstance(buffer.layout, Strided):
        for axis, stride in enumerate(buffer.layout.strides):
            if isinstance(stride, Var):
                params.append(StrideParam(name, stride, axis))
    return params
