"""Kernel parameters, from annotations and defaults."""

from __future__ import annotations

import ast
from enum import Enum
from functools import lru_cache
from types import CodeType
from typing import Any

from ..dataclass import dataclass
from ..dtypes import DType, as_dtype, bool_, float32
from ..errors import KernelSyntaxError, KernelTypeError
from .annotations import Tensor
from .language import Constexpr, Spec
from .source import KernelSource


class _NoDefault:
    def __repr__(self) -> str:
        return "no default"


NO_DEFAULT = _NoDefault()


class ParameterKind(Enum):
    """The kinds of arguments that a parameter accepts."""

    ARRAY = "array"
    SCALAR = "scalar"
    CONSTEXPR = "constexpr"
    #: determined by the argument
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel definition."""

    name: str
    kind: ParameterKind
    #: the type of a scalar; None if the argument determines it, as for `int`, which is int32 or int64
    dtype: DType | None = None
    #: the type that an array is pinned to
    spec: Spec | None = None
    default: Any = NO_DEFAULT


def parameters(source: KernelSource) -> tuple[Parameter, ...]:
    """Return a kernel's parameters, in order.

    raises: KernelSyntaxError for a method, *args or **kwargs; KernelTypeError for an unsupported annotation.
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
            is_wrapper = hasattr(source.function, "__wrapped__")
            raise KernelSyntaxError(
                f"a kernel can't have {stars}{star.arg}", span=source.span(star),
                hint="put @tj.kernel right above the def, below other decorators" if is_wrapper
                else "name every parameter",
            )
    defaults, annotations = source.defaults, _Annotations(source)
    listed = (*a.posonlyargs, *a.args, *a.kwonlyargs)
    return tuple([_parameter(source, arg, defaults.get(arg.arg, NO_DEFAULT), annotations.of(arg)) for arg in listed])


def _parameter(source: KernelSource, arg: ast.arg, default: Any, annotation: Any) -> Parameter:
    if isinstance(default, Spec):
        if annotation not in (None, Tensor):
            raise _error(source, arg, f"{arg.arg} has a tj.spec as default but is annotated {annotation!r}")
        return Parameter(arg.arg, ParameterKind.ARRAY, None, default)
    if annotation is None:
        return Parameter(arg.arg, ParameterKind.ANY, None, None, default)
    # compared by identity, because `np.dtype("float64") == float`
    if annotation is int or annotation is float or annotation is bool:
        return Parameter(arg.arg, ParameterKind.SCALAR, _PYTHON_TYPES[annotation], None, default)
    if annotation is Tensor:
        return Parameter(arg.arg, ParameterKind.ARRAY, None, None, default)
    if isinstance(annotation, Constexpr):
        return Parameter(arg.arg, ParameterKind.CONSTEXPR, None, None, default)
    dtype = as_dtype(annotation)
    if dtype is not None:
        return Parameter(arg.arg, ParameterKind.SCALAR, dtype, None, default)
    if annotation == Tensor | None:
        return Parameter(arg.arg, ParameterKind.ANY, None, None, default)
    if isinstance(annotation, Spec):
        message = f"the annotation of {arg.arg} is a tj.spec, which must be the default of a parameter"
        raise _error(source, arg, message, f"write {arg.arg}: tj.Tensor = {ast.unparse(arg.annotation or arg)}")
    raise _error(source, arg, f"the annotation of {arg.arg} is {annotation!r}, which tilejit doesn't support")


#: Python annotation -> the type of a scalar; None for `int`, whose type depends on the value
_PYTHON_TYPES = {int: None, float: float32, bool: bool_}

_KINDS = "write tj.Tensor, tj.constexpr, or a type such as tj.int32"


def _error(source: KernelSource, arg: ast.arg, message: str, hint: str = _KINDS) -> KernelTypeError:
    return KernelTypeError(message, span=source.span(arg.annotation or arg), hint=hint)


class _Annotations:
    """The annotations of a kernel's parameters; strings are evaluated once, in the function's globals and closure."""

    def __init__(self, source: KernelSource) -> None:
        self._source = source
        self._values: dict[str, Any] = {}

    def of(self, arg: ast.arg) -> Any:
        annotation = self._source.function.__annotations__.get(arg.arg)
        if not isinstance(annotation, str):
            return annotation
        if annotation not in self._values:
            self._values[annotation] = self._evaluated(arg, annotation)
        return self._values[annotation]

    def _evaluated(self, arg: ast.arg, annotation: Any) -> Any:
        fn = self._source.function
        closure = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=False))
        names = {name: cell.cell_contents for name, cell in closure.items() if _is_filled(cell)}
        try:
            # under `from __future__ import annotations`, a quoted annotation evaluates to a string
            for _ in range(2):
                if isinstance(annotation, str):
                    annotation = eval(_code(annotation), fn.__globals__, names)
            return annotation
        except (NameError, AttributeError, SyntaxError, TypeError) as error:
            message = f"the annotation {annotation!r} of {arg.arg} can't be evaluated: {error}"
            raise _error(self._source, arg, message) from None


@lru_cache(maxsize=256)
def _code(annotation: str) -> CodeType:
    code: CodeType = compile(annotation.lstrip(), "<annotation>", "eval")
    return code


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
