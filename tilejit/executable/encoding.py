"""Conversion of an executable to a JSON record and back. The record is stored with the PTX but doesn't contain it.

Reading a record doesn't load the tile IR parser.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, get_args

from ..constants import compile_time, fields_of
from ..dataclass import dataclass
from ..dtypes import MEMORY_TYPES, DType
from ..ir.params import BoxShare, Param, TensorMapSpec
from ..ir.text.layout_text import layout_from_text, swizzle_from_text
from ..ir.types import ArrayType, ConstexprType, ContainerType, ScalarType, Signature
from ..ir.values import Buffer, Cast, Const, Op, Special, Strided, Var
from ..ir.watched import WatchedRegion
from ..layout import Swizzle, TileLayout
from ..source import Span
from ..target import target
from .record import Assertion, Executable, Reshape, ScratchArray, SharedPlace, Usage

#: a `.file` directive whose name contains no escapes
_FILE = re.compile(r"^(\t\.file\t\d+ )\"([ !#-\[\]-~]*)\"$", re.MULTILINE)

#: incremented whenever the format of the record changes
FORMAT = 9


@dataclass(frozen=True, slots=True)
class Opaque:
    """Represents a compile-time value that can't be loaded from a file, such as a function. Compared by its `text`."""

    text: str

    def __repr__(self) -> str:
        return self.text


def saved(value: Any) -> Any:
    """Return `value` with enum members, dicts and records, also in tuples, each replaced by an `Opaque`."""
    kind, fields = type(value), fields_of(value)
    if isinstance(value, Enum):
        return Opaque(f"{kind.__module__}.{kind.__qualname__}.{value._name_} = {value._value_!r}")
    if fields is not None:
        inside = ", ".join(f"{name}={saved(part)!r}" for name, part in fields.items())
        return Opaque(f"{kind.__module__}.{kind.__qualname__}({inside})")
    if kind is dict:
        return Opaque(f"{{{', '.join(f'{key!r}: {saved(part)!r}' for key, part in value.items())}}}")
    return tuple(map(saved, value)) if kind is tuple else value


#: name -> class, of the objects that are encoded as a list of their fields
_CLASSES: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        ArrayType, ScalarType, ConstexprType, ContainerType, Opaque, Buffer, Strided, Var, BoxShare, TensorMapSpec,
        *get_args(Param), Assertion, WatchedRegion, SharedPlace, Usage, Reshape, Const, Op, Cast,
        Special, ScratchArray,
    )
}

#: name of a class whose objects are encoded as text -> the function that reads it
_READ: dict[str, Callable[[str], Any]] = {
    # `compile_time` makes every NaN the same object, so that values that contain NaN compare equal
    "float": lambda text: compile_time(float.fromhex(text)),
    "DType": MEMORY_TYPES.__getitem__,
    "TileLayout": layout_from_text,
    "Swizzle": swizzle_from_text,
}


def _opaque(value: Any) -> Any:
    return {"Opaque": [repr(saved(value))]}


def encoded(value: Any, other: Callable[[Any], Any] = _opaque, classes: Mapping[str, type[Any]] = _CLASSES) -> Any:
    """Return a JSON value from which `decoded` restores the type and value.

    other: encodes objects of all classes except those in `classes` and `_READ`; by default, as an `Opaque`.
    """
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is tuple:
        return [encoded(item, other, classes) for item in value]
    if kind is float:
        return {"float": value.hex()}
    if kind in (DType, TileLayout, Swizzle):
        return {kind.__name__: repr(value)}
    if classes.get(kind.__name__) is not kind:
        return other(value)
    return {kind.__name__: [encoded(getattr(value, name), other, classes) for name in kind.__match_args__]}


def decoded(value: Any, spans: Sequence[Span] = (), classes: Mapping[str, type[Any]] = _CLASSES) -> Any:
    """Return the value for which `encoded` returned `value`. spans: by their numbers."""
    if isinstance(value, list):
        return tuple([decoded(item, spans, classes) for item in value])
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "Span":
        return spans[content]
    return _READ[kind](content) if kind in _READ else classes[kind](*decoded(content, spans, classes))


#: the fields of an executable that a record contains; the signature, the PTX and the machine code are kept beside it
_FIELDS = tuple(
    name for name in Executable.__match_args__ if name not in ("target", "signature", "ptx", "machine_code")
)


def executable_to_json(executable: Executable) -> dict[str, Any]:
    """Return a record of all fields except the signature, the PTX and the machine code."""
    spans = _SpanTable()

    def other(value: Any) -> Any:
        return {"Span": spans.number(value)} if type(value) is Span else _opaque(value)

    return {
        "format": FORMAT,
        "target": executable.target.name,
        **{name: encoded(getattr(executable, name), other) for name in _FIELDS},
        "files": list(spans.files),
        "lines": list(spans.lines),
        "places": spans.places,
    }


def executable_from_json(
    record: Mapping[str, Any], signature: Signature, ptx: str, files: Sequence[str] | None = None
) -> Executable:
    """Decode the result of `executable_to_json`. files: current paths of the record's source files, if they moved."""
    spans = _spans(record, record["files"] if files is None else files)
    fields = {name: decoded(record[name], spans) for name in _FIELDS}
    return Executable(target=target(record["target"]), signature=signature, ptx=ptx, **fields)


def moved_ptx(ptx: str, old: Sequence[str], new: Sequence[str]) -> str:
    """Return `ptx` with the files `old` in its `.file` directives renamed to `new`, except names that need escapes."""
    pairs = zip(old, new, strict=True)
    moved = {was: now for was, now in pairs if was != now and _FILE.fullmatch(f'\t.file\t1 "{now}"')}
    return _FILE.sub(lambda line: f'{line[1]}"{moved.get(line[2], line[2])}"', ptx) if moved else ptx


class _SpanTable:
    """Assigns indices to spans. Files, lines of text and callers are stored as indices, too."""

    def __init__(self) -> None:
        self.files: dict[str, int] = {}
        self.lines: dict[str, int] = {}
        self.places: list[list[int | None]] = []
        self._numbers: dict[Span, int] = {}

    def number(self, span: Span) -> int:
        number = self._numbers.get(span)
        if number is not None:
            return number
        caller = None if span.caller is None else self.number(span.caller)
        file = self.files.setdefault(span.file, len(self.files))
        text = self.lines.setdefault(span.text, len(self.lines))
        self.places.append([file, span.line, span.column, span.end_line, span.end_column, text, caller])
        self._numbers[span] = len(self.places) - 1
        return len(self.places) - 1


def _spans(record: Mapping[str, Any], files: Sequence[str]) -> list[Span]:
    spans: list[Span] = []
    for file, line, column, end_line, end_column, text, caller in record["places"]:
        # callers precede their callees
        called_from = None if caller is None else spans[caller]
        spans.append(Span(files[file], line, column, end_line, end_column, record["lines"][text], called_from))
    return spans
