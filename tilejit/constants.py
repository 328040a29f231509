"""Compile-time values: their parts, copies of them, and the keys that distinguish them.

A key consists of None, integers, strings and tuples that begin with a class. Values have equal keys only if they have
equal types and equal bits, part by part. No `__eq__` and no `__hash__` of a user's class is called. A key refers to
classes, and to objects without a known content, by identity; `runtime.disk` writes classes by module and name.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Mapping
from enum import Enum, EnumMeta
from functools import lru_cache
from types import ModuleType, NoneType
from typing import Any

import numpy as np

from .dataclass import frozen_names
from .dtypes import DType, as_dtype
from .wording import cut, shown

#: modules of immutable numbers whose `repr` is exact
_EXACT = ("decimal", "fractions")


#: types whose objects never change, have no parts, and are the same in kernels
_PLAIN = frozenset((NoneType, bool, int, float, str, DType))


class Identity:
    """An object, compared by identity. It is kept alive, so that no other object gets its id."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def _field_names(cls: type) -> tuple[str, ...] | None:
    if issubclass(cls, tuple):
        return tuple(cls._fields) if hasattr(cls, "_fields") and hasattr(cls, "_make") else None
    # the package's own dataclasses, such as layouts, are values of the language
    return None if issubclass(cls, Enum) or _is_own(cls) else frozen_names(cls)


#: class -> the names of the fields of a NamedTuple or of a user's frozen dataclass; None for any other class
field_names: Callable[[type], tuple[str, ...] | None] = lru_cache(maxsize=256)(_field_names)


def fields_of(value: Any) -> Mapping[str, Any] | None:
    """Return the fields of a NamedTuple or of an object of a user's frozen dataclass; None for any other value."""
    names = field_names(type(value))
    if names is None:
        return None
    if isinstance(value, tuple):
        return dict(zip(names, value, strict=True))
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def parts_of(value: Any) -> list[tuple[str, Any]]:
    """Return the parts of a tuple, list, set, dict, enum member, enum class or record, each with its name's suffix."""
    fields = fields_of(value)
    if fields is not None:
        return [(f".{name}", part) for name, part in fields.items()]
    if isinstance(value, (tuple, list, set, frozenset)):
        return [(f"[{k}]", part) for k, part in enumerate(value)]
    if isinstance(value, dict):
        return [(f"[{key!r}]", part) for key, part in value.items()]
    if isinstance(value, Enum):
        return [(".value", value._value_)]
    return [(f".{name}", each) for name, each in _members(value).items()] if isinstance(value, EnumMeta) else []


def _members(kind: EnumMeta) -> Mapping[str, Enum]:
    return kind.__members__


def is_simple(value: Any) -> bool:
    """True for None, a Python number, a string, a type of the language, and a tuple of these."""
    return type(value) in _PLAIN or type(value) is tuple and all(map(is_simple, value))


def mapped(value: Any, change: Callable[[Any], Any] = lambda part: part) -> Any:
    """Return the value with `change` applied to all parts that aren't tuples, dicts or records. Dicts are copied."""
    if type(value) is dict:
        return {key: mapped(part, change) for key, part in value.items()}
    fields = fields_of(value)
    if fields is None and type(value) is not tuple:
        return change(value)
    old = tuple(value) if fields is None else tuple(fields.values())
    new = tuple([mapped(part, change) for part in old])
    if all(map(operator.is_, old, new)):
        return value
    if isinstance(value, tuple):
        return tuple.__new__(type(value), new)
    made = object.__new__(type(value))
    for name, part in zip(fields or (), new, strict=True):
        object.__setattr__(made, name, part)
    return made


def compile_time(value: Any) -> Any:
    """Return a copy of a constexpr argument as a kernel sees it.

    NumPy scalars become equivalent Python values, and NumPy dtypes and scalar types become tilejit's types, also within
    tuples, dicts and records. Every NaN becomes the same object, so that constants that contain NaN can compare equal.
    """
    return mapped(value, _plain)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        number = value.item()
        # `item` of an np.longdouble returns the scalar itself
        value = float(value) if isinstance(number, np.generic) else number
    if isinstance(value, float) and math.isnan(value):
        return math.nan
    return as_dtype(value) or value if isinstance(value, (np.dtype, type)) else value


def opaque(value: Any) -> Hashable:
    """Return the key of an object whose parts are unknown; objects of this package's classes are compared by `==`."""
    kind = type(value)
    return kind, value if _is_own(kind) else Identity(value)


def key_of(value: Any, other: Callable[[Any], Hashable] = opaque) -> Hashable:
    """Return the key of a value. other: returns the keys of objects of other classes than those handled here."""
    kind: type = type(value)
    # the most frequent cases, because some launches compute keys
    if value is None or kind is int or kind is str:
        same: Hashable = value
        return same
    if kind is tuple:
        return kind, tuple([key_of(part, other) for part in value])
    if kind is bool:
        return kind, value
    if kind is float:
        return kind, value.hex()
    if isinstance(value, Enum):
        return kind, value._name_, key_of(value._value_, other)
    if isinstance(value, EnumMeta):
        return kind, value, tuple([(name, key_of(each._value_, other)) for name, each in _members(value).items()])
    if isinstance(value, type):
        return kind, value
    if _is_own(kind) or isinstance(value, ModuleType):
        return other(value)
    if isinstance(value, np.dtype):
        return kind, repr(value)
    if field_names(kind) is not None:
        return kind, tuple([(name, key_of(part, other)) for name, part in (fields_of(value) or {}).items()])
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        number = value.item()
        return kind, str(value.dtype), repr(number) if isinstance(number, np.generic) else key_of(number, other)
    if isinstance(value, int):
        return kind, int.__int__(value)
    if isinstance(value, float):
        # all NaNs have one key, because kernels see one NaN (`compile_time`)
        return kind, float.hex(value)
    if isinstance(value, (str, bytes)):
        return kind, str.__str__(value) if isinstance(value, str) else bytes.hex(value)
    if isinstance(value, complex):
        return kind, key_of(value.real), key_of(value.imag)
    if kind is range:
        return kind, value.start, value.stop, value.step
    if isinstance(value, (tuple, frozenset)):
        # the order of a set is part of its key, because `tuple` of it shows it
        return kind, tuple([key_of(part, other) for part in value])
    if kind is dict:
        return kind, tuple([(key_of(key, other), key_of(part, other)) for key, part in value.items()])
    return (kind, repr(value)) if kind.__module__ in _EXACT else other(value)


def _is_own(kind: type) -> bool:
    module: str = kind.__module__
    return module.partition(".")[0] == __package__


def described(key: Any) -> str:
    """Return the text of a value in messages, from its key."""
    if not isinstance(key, tuple) or not key or not isinstance(key[0], type):
        return cut(repr(key))
    kind, *parts = key
    content = parts[-1]
    if isinstance(content, Identity):
        return shown(content.value)
    if issubclass(kind, Enum):
        return f"{kind.__qualname__}.{parts[0]}"
    if issubclass(kind, type):
        return f"another {parts[0].__qualname__}" if len(parts) > 1 else parts[0].__qualname__
    if issubclass(kind, float) and len(parts) == 1:
        return repr(float.fromhex(content))
    if kind is bool:
        return repr(content)
    if kind is tuple:
        return cut(f"({', '.join(map(described, content))}{',' * (len(content) == 1)})")
    if kind is dict:
        return cut(f"{{{', '.join(f'{described(name)}: {described(part)}' for name, part in content)}}}")
    if isinstance(content, tuple) and content and isinstance(content[0], tuple) and isinstance(content[0][0], str):
        return cut(f"{kind.__qualname__}({', '.join(f'{name}={described(part)}' for name, part in content)})")
    return described(content) if isinstance(content, tuple) else str(content)
