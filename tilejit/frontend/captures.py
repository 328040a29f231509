"""Cache keys of the values that a kernel captures."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from enum import Enum, EnumMeta
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

from ..dtypes import DType
from ..layout import Swizzle, TileLayout
from ..wording import shown, with_article
from .language import Function, LanguageName
from .source import KernelSource

_MISSING = object()

#: types whose values are compared with ==
_COMPARED = (bool, int, str, DType, TileLayout, Swizzle, LanguageName)


def captures(source: KernelSource) -> Hashable:
    """Return a key of the captured values and of the source of every `@tj.function` reachable from them.

    Numbers are compared by type and value, with -0.0 different from 0.0; modules, plain functions and classes except
    enums by name; other values by type and, if they are hashable, by equality.
    """
    return _captures(source, ())


def _captures(source: KernelSource, inside: tuple[KernelSource, ...]) -> Hashable:
    return tuple([(chain, token(value, inside)) for chain, value in _referenced(source).items()])


def _referenced(source: KernelSource) -> dict[tuple[str, ...], Any]:
    """Return the values that a function captures, by the parts of their dotted names.

    Only attributes of modules are looked up: for `a.b` where `a` is not a module, the value is that of `a`.
    """
    values: dict[tuple[str, ...], Any] = {}
    for chain in source.references:
        exists, head = source.lookup(chain[0])
        # the members of the library itself don't change, so the module represents them
        used = chain[:1] if exists and isinstance(head, ModuleType) and head.__name__ == "tilejit" else chain
        if used not in values:
            values[used] = _resolve(exists, head, used[1:])
    return values


def _resolve(exists: bool, value: Any, attributes: tuple[str, ...]) -> Any:
    if not exists:
        return _MISSING
    for name in attributes:
        if not isinstance(value, ModuleType):
            break
        value = getattr(value, name, _MISSING)
    return value


def token(value: Any, inside: tuple[KernelSource, ...] = ()) -> Hashable:
    """Return the key of a captured value. inside: the functions whose keys are being computed, to detect recursion."""
    if value is _MISSING:
        return "missing"
    if isinstance(value, Function):
        return _function(value.source, inside)
    if isinstance(value, Enum):
        return "enum", type(value), value._name_, token(value._value_)
    if isinstance(value, EnumMeta):
        members: Mapping[str, Enum] = value.__members__
        return "enum class", value, tuple([(name, token(member._value_)) for name, member in members.items()])
    if isinstance(value, float):
        return "float", value.hex()
    if type(value) is tuple:
        return "tuple", tuple(token(item, inside) for item in value)
    if value is None or isinstance(value, _COMPARED):
        return type(value).__qualname__, value
    if isinstance(value, (ModuleType, BuiltinFunctionType, FunctionType, type)):
        name = getattr(value, "__qualname__", value.__name__)
        return type(value).__qualname__, getattr(value, "__module__", None), name
    if isinstance(value, np.dtype):
        return type(value).__qualname__, repr(value)
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        # the `repr` of a number is exact; that of an array shows only eight digits
        number = value.item()
        exact = token(number) if isinstance(number, (bool, int, float)) else repr(number)
        return type(value).__qualname__, str(value.dtype), exact
    try:
        hash(value)
    except TypeError:
        return "opaque", type(value).__qualname__
    return "opaque", type(value).__qualname__, value


def _function(source: KernelSource, inside: tuple[KernelSource, ...]) -> Hashable:
    if source in inside:
        return "recursive", source.name
    defaults = tuple([token(value, inside) for value in source.defaults.values()])
    return "function", source.text, defaults, _captures(source, (*inside, source))


def functions(source: KernelSource, values: Iterable[Any] = ()) -> tuple[KernelSource, ...]:
    """Return the function and every `@tj.function` reachable from it or from `values`, without duplicates."""
    visited: dict[KernelSource, None] = {}
    _visit(source, visited)
    for value in values:
        _visit_value(value, visited)
    return tuple(visited)


def _visit(source: KernelSource, visited: dict[KernelSource, None]) -> None:
    if source in visited:
        return
    visited[source] = None
    for value in _referenced(source).values():
        _visit_value(value, visited)
    for value in source.defaults.values():
        _visit_value(value, visited)


def _visit_value(value: Any, visited: dict[KernelSource, None]) -> None:
    if isinstance(value, Function):
        _visit(value.source, visited)
    elif type(value) is tuple:
        for item in value:
            _visit_value(item, visited)


def changes(old: Hashable, new: Hashable) -> list[str]:
    """Return sorted lines, one per value that a function or its helpers capture and that differs between two keys."""
    was, now = (dict(key) for key in (old, new))  # type: ignore[call-overload]
    lines: list[str] = []
    for chain in now.keys() | was.keys():
        a, b = was.get(chain, "missing"), now.get(chain, "missing")
        if a != b:
            lines.extend(_changed(".".join(chain), a, b))
    return sorted(lines)


def _changed(name: str, was: Any, now: Any) -> list[str]:
    if was[:2] == now[:2] and was[0] == "function" and was[2] == now[2]:
        # the same helper with other captured values
        return [f"{change} (in {name})" for change in changes(was[3], now[3])]
    before, after = _described(was), _described(now)
    return [f"{name}, which has changed" if before == after else f"{name} {after}, compiled with {before}"]


def _described(token: Any) -> str:
    if token == "missing":
        return "without a value"
    kind, *parts = token
    if kind == "function":
        lines: list[str] = [line.strip() for line in parts[0].splitlines()]
        return next(line.rstrip(":") for line in lines if line.startswith("def "))
    if kind in ("enum", "enum class"):
        return f"{parts[0].__qualname__}.{parts[1]}" if kind == "enum" else f"another {parts[0].__qualname__}"
    if kind == "float":
        return repr(float.fromhex(parts[0]))
    if kind == "tuple":
        return f"({', '.join(map(_described, parts[0]))})"
    if kind == "opaque":
        return shown(parts[1]) if len(parts) == 2 else with_article(parts[0])
    if kind == "str":
        return repr(parts[0])
    return _described(parts[-1]) if isinstance(parts[-1], tuple) else str(parts[-1])
