"""What a kernel reads from outside, as a key: it changes whenever a captured value does."""

from __future__ import annotations

from collections.abc import Hashable
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from ..dtypes import DType
from ..layout import Swizzle, TileLayout
from .language import Function, Intrinsic, Namespace, Scope
from .source import KernelSource

__all__ = ["captures"]

_Place = tuple[KernelSource, tuple[str, ...]]

# the last key of each kernel, with the very objects it was made from: a launch compares identities only
_LAST: WeakKeyDictionary[KernelSource, tuple[tuple[tuple[_Place, Any], ...], Hashable]] = WeakKeyDictionary()

_MISSING = object()


def captures(source: KernelSource) -> Hashable:
    """The captured values and, transitively, the text of every `@tj.function` among them.

    Numbers are told apart by type and bits. What a kernel can't use counts by its type only.
    """
    last = _LAST.get(source)
    if last is not None and all(_resolve(place) is value for place, value in last[0]):
        return last[1]
    read: dict[_Place, Any] = {}
    key = _captures(source, (), read)
    _LAST[source] = (tuple(read.items()), key)
    return key


def _captures(source: KernelSource, inside: tuple[KernelSource, ...], read: dict[_Place, Any]) -> Hashable:
    tokens: dict[tuple[str, ...], Hashable] = {}
    for chain in source.references:
        known, head = source.lookup(chain[0])
        # the language itself doesn't change
        used = chain[:1] if known and isinstance(head, ModuleType) and head.__name__ == "tilejit" else chain
        if used not in tokens:
            value = read[source, used] = _resolve((source, used))
            tokens[used] = _token(value, inside, read)
    return tuple(tokens.items())


def _resolve(place: _Place) -> Any:
    """What a chain of attributes stands for, as far as it goes through modules; `_MISSING` where it ends nowhere."""
    source, chain = place
    known, value = source.lookup(chain[0])
    if not known:
        return _MISSING
    for name in chain[1:]:
        if not isinstance(value, ModuleType):
            break
        value = getattr(value, name, _MISSING)
    return value


def _token(value: Any, inside: tuple[KernelSource, ...], read: dict[_Place, Any]) -> Hashable:
    if value is _MISSING:
        return "missing"
    if isinstance(value, Function):
        return _function(value.source, inside, read)
    if isinstance(value, float):
        return "float", value.hex()
    if type(value) is tuple:
        return "tuple", tuple(_token(item, inside, read) for item in value)
    if value is None or isinstance(value, (bool, int, str, DType, TileLayout, Swizzle, Intrinsic, Scope, Namespace)):
        return type(value).__qualname__, value
    if isinstance(value, (ModuleType, BuiltinFunctionType, FunctionType, type)):
        name = getattr(value, "__qualname__", value.__name__)
        return type(value).__qualname__, getattr(value, "__module__", None), name
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return type(value).__qualname__, repr(value)
    return "opaque", type(value).__qualname__


def _function(source: KernelSource, inside: tuple[KernelSource, ...], read: dict[_Place, Any]) -> Hashable:
    if source in inside:
        return "recursive", source.name
    fn = source.function
    values = (*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values())
    defaults = tuple(_token(d, inside, read) for d in values)
    return "function", source.text, defaults, _captures(source, (*inside, source), read)
