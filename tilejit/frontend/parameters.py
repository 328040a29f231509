"""Kernel parameters: what annotations and defaults say, and what the IR's parameters become."""

from __future__ import annotations

import ast
import inspect
from enum import Enum
from typing import Any

from ..dataclass import dataclass, replace
from ..dtypes import DType, as_dtype, int64
from ..errors import KernelSyntaxError, KernelTypeError
from ..ir.nodes import Buffer, ExtentParam, Kernel, Param, PointerParam, ScalarParam, Strided, StrideParam, Var
from ..ir.types import ArgumentType, ArrayType, ConstexprType, ScalarType, Signature
from ..layout import TileLayout
from ..layout.axes import m
from ..layout.iters import Iter
from .language import Constexpr, Spec, Tensor
from .source import KernelSource
from .values import Binding, Memory, Scalar, Value, from_python

__all__ = ["NO_DEFAULT", "KernelParams", "Parameter", "ParameterKind", "kernel_params", "parameters", "with_overlaps"]

_LARGEST_EXTENT = 2**40


class _NoDefault:
    def __repr__(self) -> str:
        return "no default"


NO_DEFAULT = _NoDefault()


class ParameterKind(Enum):
    """What a parameter takes, as its annotation and default say."""

    ARRAY = "array"
    SCALAR = "scalar"
    CONSTEXPR = "constexpr"
    #: whatever the argument is
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel, as its definition says.

    dtype: of a scalar.
    spec: the type that an array is pinned to. default: `NO_DEFAULT` where there is none.
    """

    name: str
    kind: ParameterKind
    dtype: DType | None = None
    spec: Spec | None = None
    default: Any = NO_DEFAULT


def parameters(source: KernelSource) -> tuple[Parameter, ...]:
    """The kernel's parameters, in order.

    raises: KernelSyntaxError for methods, *args and **kwargs, KernelTypeError for annotations that mean nothing.
    """
    a = source.node.args
    first = next(iter((*a.posonlyargs, *a.args)), None)
    inside = source.function.__qualname__.rpartition(".")[0]
    if first is not None and first.arg in ("self", "cls") and inside and not inside.endswith("<locals>"):
        raise KernelSyntaxError(
            f"{source.name} is a method: a kernel has no {first.arg}", span=source.span(first),
            hint="define it outside the class, and pass what it needs",
        )
    for stars, star in (("*", a.vararg), ("**", a.kwarg)):
        if star is not None:
            raise KernelSyntaxError(
                f"a kernel can't have {stars}{star.arg}", span=source.span(star), hint="name every parameter"
            )
    listed = (*a.posonlyargs, *a.args, *a.kwonlyargs)
    signature = inspect.signature(source.function)
    return tuple(_parameter(source, arg, signature.parameters[arg.arg].default) for arg in listed)


def _parameter(source: KernelSource, arg: ast.arg, declared: Any) -> Parameter:
    default = NO_DEFAULT if declared is inspect.Parameter.empty else declared
    annotation = _annotation(source, arg)
    if isinstance(default, Spec):
        if annotation not in (None, Tensor):
            raise _error(source, arg, f"{arg.arg} has a tj.spec as default but is annotated {annotation!r}")
        return Parameter(arg.arg, ParameterKind.ARRAY, None, default)
    if annotation is None or annotation in (int, float, bool):
        return Parameter(arg.arg, ParameterKind.ANY, None, None, default)
    if annotation is Tensor:
        return Parameter(arg.arg, ParameterKind.ARRAY, None, None, default)
    if isinstance(annotation, Constexpr):
        return Parameter(arg.arg, ParameterKind.CONSTEXPR, None, None, default)
    dtype = as_dtype(annotation)
    if dtype is not None:
        return Parameter(arg.arg, ParameterKind.SCALAR, dtype, None, default)
    raise _error(source, arg, f"the annotation of {arg.arg} is {annotation!r}, which says nothing to tilejit")


def _error(source: KernelSource, arg: ast.arg, message: str) -> KernelTypeError:
    return KernelTypeError(
        message,
        span=source.span(arg.annotation or arg),
        hint="write tj.Tensor, tj.constexpr, or a type such as tj.int32",
    )


def _annotation(source: KernelSource, arg: ast.arg) -> Any:
    """The annotation's value; strings are evaluated where the kernel was defined."""
    fn = source.function
    annotation = fn.__annotations__.get(arg.arg)
    closure = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=False))
    names = {name: cell.cell_contents for name, cell in closure.items() if _is_filled(cell)}
    try:
        # a quoted annotation under `from __future__ import annotations` is a string twice
        for _ in range(2):
            annotation = eval(annotation, fn.__globals__, names) if isinstance(annotation, str) else annotation
        return annotation
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise _error(source, arg, f"the annotation {annotation!r} of {arg.arg} can't be evaluated: {error}") from None


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class KernelParams:
    """The IR's parameters, in order, and what the names stand for inside."""

    params: tuple[Param, ...]
    env: dict[str, Binding]


def kernel_params(source: KernelSource, signature: Signature) -> KernelParams:
    """The kernel's parameters for argument types: pointers, extents, strides, scalars; constexprs are values."""
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
            var = Var(name, argument.dtype)
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
    """The kernel for a signature that differs from its own only in which arrays overlap."""
    types = dict(signature.arguments)
    params = tuple(
        replace(p, noalias=_is_apart(types[p.of])) if isinstance(p, PointerParam) else p for p in kernel.params
    )
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
