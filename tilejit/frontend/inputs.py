"""The inputs of a kernel: its parameters, from annotations and defaults, and cache keys of the values it captures."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterable
from enum import Enum
from functools import lru_cache, partial
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType, NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from ..constants import described, field_names, key_of, opaque, parts_of
from ..dataclass import dataclass
from ..dtypes import DType, as_dtype, bool_, float32
from ..errors import KernelSyntaxError, KernelTypeError, LaunchError
from .annotations import Tensor
from .containers import annotations_of
from .language import Constexpr, Function, Spec
from .source import KernelSource, parameter_nodes


class _NoDefault:
    def __repr__(self) -> str:
        return "no default"


NO_DEFAULT = _NoDefault()


class ParameterKind(Enum):
    """The kinds of arguments that a parameter accepts."""

    ARRAY = "array"
    SCALAR = "scalar"
    CONSTEXPR = "constexpr"
    #: a tuple, a named tuple or a frozen dataclass, whose items are arguments
    CONTAINER = "container"
    #: determined by the argument
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel definition, or an item of a container, such as `P[0]` or `P.w`."""

    name: str
    kind: ParameterKind
    #: the type of a scalar; None if the argument determines it, as for `int`, which is int32 or int64
    dtype: DType | None = None
    #: the type that an array must have; None for any
    spec: Spec | None = None
    default: Any = NO_DEFAULT
    #: the class that a container must have; None for any
    container: type | None = None
    #: the parameters of a container's items; None if its class determines them
    items: tuple[Parameter, ...] | None = None


class _Unsupported(Exception):
    """An annotation that can't be used. hint: how to write it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def parameters(source: KernelSource) -> tuple[Parameter, ...]:
    """Return a kernel's parameters, in order.

    raises: KernelSyntaxError for a method, *args or **kwargs; KernelTypeError for an invalid annotation.
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
    defaults, evaluated = source.defaults, dict[str, Any]()
    return tuple([
        _parameter(source, arg, defaults.get(arg.arg, NO_DEFAULT), _annotation(source, arg, evaluated))
        for arg in parameter_nodes(source.node)
    ])


def _parameter(source: KernelSource, arg: ast.arg, default: Any, annotation: Any) -> Parameter:
    try:
        return _declared(arg.arg, default, annotation, ast.unparse(arg.annotation) if arg.annotation else "")
    except _Unsupported as error:
        raise _error(source, arg, str(error), error.hint) from None


def _declared(name: str, default: Any, annotation: Any, written: str) -> Parameter:
    """Return a parameter with this annotation; raise _Unsupported. written: the annotation's text."""
    field = name.rpartition(".")[2]
    if isinstance(default, Spec):
        if annotation not in (None, Any, Tensor):
            message = f"{name} has a tj.spec as its default but is annotated {annotation!r}"
            raise _Unsupported(message, f"write {field}: tj.Tensor = tj.spec(...)")
        return Parameter(name, ParameterKind.ARRAY, None, default)
    if annotation is None or annotation is Any:
        return Parameter(name, ParameterKind.ANY, None, None, default)
    # compared by identity, because `np.dtype("float64") == float`
    if annotation is int or annotation is float or annotation is bool:
        return Parameter(name, ParameterKind.SCALAR, _PYTHON_TYPES[annotation], None, default)
    if annotation is Tensor:
        return Parameter(name, ParameterKind.ARRAY, None, None, default)
    if isinstance(annotation, Constexpr):
        return Parameter(name, ParameterKind.CONSTEXPR, None, None, default)
    dtype = as_dtype(annotation)
    if dtype is not None and dtype.kind == "packed":
        message = f"{name} is annotated {dtype}, which is two numbers in a byte, not a scalar"
        raise _Unsupported(message, f"write {field}: tj.Tensor = tj.spec(shape, tj.{dtype}), or {field}: tj.uint8")
    if dtype is not None:
        return Parameter(name, ParameterKind.SCALAR, dtype, None, default)
    if get_origin(annotation) in (Union, UnionType) and _is_optional(get_args(annotation)):
        return Parameter(name, ParameterKind.ANY, None, None, default)
    if _is_container_class(annotation):
        return Parameter(name, ParameterKind.CONTAINER, None, None, default, annotation)
    if get_origin(annotation) is tuple:
        given = get_args(annotation)
        # `tuple[X, ...]` has any length
        items = None if ... in given else tuple([
            _declared(f"{name}[{k}]", NO_DEFAULT, item, "") for k, item in enumerate(given)
        ])
        return Parameter(name, ParameterKind.CONTAINER, None, None, default, tuple, items)
    if isinstance(annotation, Spec):
        message = f"the annotation of {name} is a tj.spec, which must be the default of a parameter"
        raise _Unsupported(message, f"write {field}: tj.Tensor = {written or 'tj.spec(...)'}")
    if isinstance(annotation, type) and hasattr(annotation, "__dataclass_fields__"):
        raise _Unsupported(
            f"{name} is annotated {annotation.__name__}, a dataclass that isn't frozen",
            f"write @dataclass(frozen=True) above {annotation.__name__}",
        )
    raise _Unsupported(f"the annotation of {name} is {annotation!r}, which tilejit doesn't support", _KINDS)


def _is_optional(choices: tuple[Any, ...]) -> bool:
    others = [each for each in choices if each is not NoneType]
    return len(others) == 1 < len(choices) and (others[0] is Tensor or _is_container_class(others[0]))


def _is_container_class(annotation: Any) -> bool:
    return isinstance(annotation, type) and (annotation is tuple or field_names(annotation) is not None)


@lru_cache(maxsize=1024)
def fields(cls: type, name: str) -> tuple[Parameter, ...]:
    """Return the parameters of the fields of the container `name`, by the annotations of its class.

    raises: LaunchError for an annotation that can't be used.
    """
    found: list[Parameter] = []
    try:
        annotations = annotations_of(cls)
        defaults = getattr(cls, "_field_defaults", None) or getattr(cls, "__dataclass_fields__", {})
        for field in field_names(cls) or ():
            # a named tuple has defaults, a dataclass has descriptions of fields; only specs matter, which pin a field
            default = defaults.get(field)
            found.append(_declared(f"{name}.{field}", getattr(default, "default", default), annotations.get(field), ""))
    except _Unsupported as error:
        raise LaunchError(str(error), hint=error.hint) from None
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise LaunchError(
            f"an annotation of {cls.__qualname__}, the class of {name}, can't be evaluated: {error}", hint=_KINDS
        ) from None
    return tuple(found)


#: Python annotation -> the type of a scalar; None for `int`, whose type depends on the value
_PYTHON_TYPES = {int: None, float: float32, bool: bool_}

_KINDS = "write tj.Tensor, tj.constexpr, or a type such as tj.int32"


def _error(source: KernelSource, arg: ast.arg, message: str, hint: str) -> KernelTypeError:
    return KernelTypeError(message, span=source.span(arg.annotation or arg), hint=hint)


def _annotation(source: KernelSource, arg: ast.arg, evaluated: dict[str, Any]) -> Any:
    """Return the annotation of a parameter; a string is evaluated in the function's globals and closure, and cached."""
    fn = source.function
    text = fn.__annotations__.get(arg.arg)
    if not isinstance(text, str):
        return text
    if text not in evaluated:
        closure = {name: source.lookup(name) for name in fn.__code__.co_freevars}
        names = {name: value for name, (exists, value) in closure.items() if exists}
        annotation: Any = text
        try:
            # under `from __future__ import annotations`, a quoted annotation evaluates to a string
            for _ in range(2):
                if isinstance(annotation, str):
                    annotation = eval(_code(annotation), fn.__globals__, names)
        except (NameError, AttributeError, SyntaxError, TypeError) as error:
            message = f"the annotation {annotation!r} of {arg.arg} can't be evaluated: {error}"
            raise _error(source, arg, message, _KINDS) from None
        evaluated[text] = annotation
    return evaluated[text]


@lru_cache(maxsize=256)
def _code(annotation: str) -> CodeType:
    code: CodeType = compile(annotation.lstrip(), "<annotation>", "eval")
    return code


_MISSING = object()

def captures(source: KernelSource, inside: tuple[KernelSource, ...] = ()) -> Hashable:
    """Return a key that covers the captured values and the source of every `@tj.function` reachable from them.

    Modules and plain functions are compared by name, other values by `constants.key_of`. inside: see `token`.
    """
    return tuple([(chain, token(value, inside)) for chain, value in _referenced(source).items()])


def _referenced(source: KernelSource) -> dict[tuple[str, ...], Any]:
    """Return the values that a function captures, by the parts of their dotted names.

    Only attributes of modules are looked up: for `a.b` where `a` is not a module, the value is `a`.
    """
    values: dict[tuple[str, ...], Any] = {}
    for chain in source.references:
        exists, head = source.lookup(chain[0])
        # the members of the library itself don't change, so the module represents them
        used = chain[:1] if exists and isinstance(head, ModuleType) and head.__name__ == "tilejit" else chain
        if used not in values:
            values[used] = _resolve(head if exists else _MISSING, used[1:])
    return values


def _resolve(value: Any, attributes: tuple[str, ...]) -> Any:
    for name in attributes:
        if not isinstance(value, ModuleType):
            break
        value = getattr(value, name, _MISSING)
    return value


def token(value: Any, inside: tuple[KernelSource, ...] = ()) -> Hashable:
    """Return the key of a captured value. inside: the functions whose keys are being computed, to detect recursion."""
    return key_of(value, partial(_other, inside) if inside else _outermost)


def _other(inside: tuple[KernelSource, ...], value: Any) -> Hashable:
    if value is _MISSING:
        return "missing", ""
    if isinstance(value, Function):
        return _function(value.source, inside)
    if isinstance(value, (ModuleType, BuiltinFunctionType, FunctionType)):
        name = getattr(value, "__qualname__", value.__name__)
        return type(value).__qualname__, getattr(value, "__module__", None), name
    # kernels refuse lists, sets and arrays
    return opaque(value) if type(value).__hash__ is not None else (type(value), "")


_outermost = partial(_other, ())


def _function(source: KernelSource, inside: tuple[KernelSource, ...]) -> Hashable:
    if source in inside:
        return "recursive", source.name
    defaults = tuple([token(value, inside) for value in source.defaults.values()])
    return "function", source.text, defaults, captures(source, (*inside, source))


def functions(source: KernelSource, values: Iterable[Any] = ()) -> tuple[KernelSource, ...]:
    """Return the function and every `@tj.function` reachable from it or from `values`, without duplicates."""
    visited: dict[KernelSource, None] = {}
    pending: list[Any] = [*reversed(tuple(values)), source]
    while pending:
        value = pending.pop()
        pending.extend(reversed([part for _, part in parts_of(value)]))
        each = value.source if isinstance(value, Function) else value
        if isinstance(each, KernelSource) and each not in visited:
            visited[each] = None
            pending.extend(reversed([*_referenced(each).values(), *each.defaults.values()]))
    return tuple(visited)


def changes(old: Hashable, new: Hashable) -> list[str]:
    """Return sorted phrases, at least one for each captured value that differs between two keys from `captures`."""
    was, now = (dict(key) for key in (old, new))  # type: ignore[call-overload]
    lines: list[str] = []
    for chain in now.keys() | was.keys():
        a, b = was.get(chain, _ABSENT), now.get(chain, _ABSENT)
        if a != b:
            lines.extend(_changed(".".join(chain), a, b))
    return sorted(lines)


_ABSENT = token(_MISSING)


def _changed(name: str, was: Any, now: Any) -> list[str]:
    if _is_function(was) and _is_function(now) and was[1:3] == now[1:3]:
        # the same helper with other captured values
        return [f"{change} (in {name})" for change in changes(was[3], now[3])]
    before, after = _described(was), _described(now)
    return [f"{name}, which has changed" if before == after else f"{name} {after}, compiled with {before}"]


def _is_function(key: Any) -> bool:
    return isinstance(key, tuple) and key[0] == "function"


def _described(key: Any) -> str:
    if key == _ABSENT:
        return "without a value"
    if not _is_function(key):
        return str(key[-1]) if isinstance(key, tuple) and isinstance(key[0], str) else described(key)
    lines: list[str] = [line.strip() for line in key[1].splitlines()]
    return next(line.rstrip(":") for line in lines if line.startswith("def "))
