"""Comparison of data with the types that describe it."""

from __future__ import annotations

import typing
from typing import Any


def conforming(value: Any, kind: Any, where: str = "document") -> list[str]:
    """Where a value differs from a type made of typed dictionaries, lists and literals."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if typing.is_typeddict(kind):
        hints = typing.get_type_hints(kind)
        if not isinstance(value, dict) or value.keys() != hints.keys():
            return [f"{where}: {sorted(value)} instead of {sorted(hints)}"]
        return [x for key in hints for x in conforming(value[key], hints[key], f"{where}.{key}")]
    if origin is list:
        return [x for i, item in enumerate(value) for x in conforming(item, arguments[0], f"{where}[{i}]")]
    if origin is typing.Literal:
        return [] if value in arguments else [f"{where}: {value!r}"]
    kinds = arguments or (kind,)
    return [] if type(value) in kinds else [f"{where}: {value!r} is not {kind}"]


def leaves(value: Any) -> list[Any]:
    """The strings, numbers and other values in nested dictionaries and lists, without versions."""
    if isinstance(value, dict):
        return [leaf for key, each in value.items() if key not in ("version", "tilejit") for leaf in leaves(each)]
    return [leaf for each in value for leaf in leaves(each)] if isinstance(value, list) else [value]
