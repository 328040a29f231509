"""Conversion of signatures to JSON values and back, and a check of names."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from keyword import iskeyword
from typing import Any

from ..dataclass import dataclass
from ..dtypes import DTYPES, DType
from ..errors import LaunchError, assert_never
from ..ir.text.layout_text import layout_from_text, swizzle_from_text
from ..ir.types import ArgumentType, ArrayType, ConstexprType, ScalarType, Signature, compile_time
from ..layout import Swizzle, TileLayout
from ..wording import shown

#: types that JSON represents directly
_PLAIN = (bool, int, str, type(None))


def check_names(names: Sequence[str]) -> None:
    """Raise LaunchError unless all names are distinct, assignable in Python and in NFKC form."""
    for name in names:
        # Python refuses to assign to `__debug__`, although it is not a keyword
        is_plain = isinstance(name, str) and name.isidentifier() and not iskeyword(name) and name != "__debug__"
        if not is_plain or not _is_normal(name) or names.count(name) > 1:
            raise LaunchError(f"{shown(name)} can't be used as a name", hint="use distinct identifiers")


def _is_normal(name: str) -> bool:
    """True if the name equals its NFKC form, to which Python normalizes identifiers."""
    if name.isascii():
        return True
    from unicodedata import normalize

    return normalize("NFKC", name) == name


def signature_to_json(signature: Signature) -> list[Any]:
    """Return a list per argument: name, kind, and the kind's fields."""
    return [[name, *_argument(kind)] for name, kind in signature.arguments]


def signature_from_json(arguments: list[Any]) -> Signature:
    """Decode the result of `signature_to_json`."""
    return Signature(tuple([(name, _read(kind, parts)) for name, kind, *parts in arguments]))


def _argument(kind: ArgumentType) -> list[Any]:
    match kind:
        case ArrayType():
            return [
                "array", kind.dtype.name, kind.rank, kind.unit_dim, kind.align, kind.extent_align, kind.overlaps,
                kind.shape, kind.strides,
            ]
        case ScalarType():
            return ["scalar", kind.dtype.name]
        case ConstexprType():
            return ["constexpr", kind.type_name, _value(kind.value)]
        case _:
            return assert_never(kind)


def _read(kind: str, parts: list[Any]) -> ArgumentType:
    if kind == "array":
        dtype, *facts, shape, strides = parts
        static = [None if extents is None else tuple(extents) for extents in (shape, strides)]
        return ArrayType(DTYPES[dtype], *facts, *static)
    if kind == "scalar":
        return ScalarType(DTYPES[parts[0]])
    type_name, value = parts
    # `compile_time` makes every NaN the same object, so that values that contain NaN compare equal
    return ConstexprType(type_name, compile_time(_read_value(value)))


def saved(value: Any) -> Any:
    """Return `value` with each enum member, also in tuples, replaced by an `Opaque` with its class, name and value."""
    if isinstance(value, Enum):
        kind = type(value)
        return Opaque(f"{kind.__module__}.{kind.__qualname__}.{value._name_} = {value._value_!r}")
    return tuple(map(saved, value)) if type(value) is tuple else value


def _value(value: Any) -> Any:
    """Encode a compile-time value: unchanged if its type is in `_PLAIN`, else as a list of kind and text or items."""
    value = saved(value)
    if type(value) in _PLAIN:
        return value
    if type(value) is float:
        return ["float", value.hex()]
    if type(value) is tuple:
        return ["tuple", *[_value(item) for item in value]]
    if isinstance(value, DType):
        return ["dtype", value.name]
    if isinstance(value, TileLayout):
        return ["layout", repr(value)]
    if isinstance(value, Swizzle):
        return ["swizzle", repr(value)]
    return ["opaque", repr(value)]


def _read_value(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    kind, *parts = value
    if kind == "tuple":
        return tuple([_read_value(part) for part in parts])
    read = {
        "float": float.fromhex, "dtype": DTYPES.__getitem__, "layout": layout_from_text, "swizzle": swizzle_from_text,
        "opaque": Opaque,
    }
    return read[kind](parts[0])


@dataclass(frozen=True, slots=True)
class Opaque:
    """Represents a compile-time value that can't be loaded from a file, such as a function. Compared by its `text`."""

    text: str

    def __repr__(self) -> str:
        return self.text
