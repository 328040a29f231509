"""Conversion of an executable to a JSON record and back. The record is stored with the PTX but doesn't contain it.

Reading a record doesn't load the tile IR parser.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..dtypes import DTYPES
from ..errors import assert_never
from ..ir.params import (
    AddressParam,
    AssertionsParam,
    BarrierParam,
    BoxShare,
    ExtentParam,
    Param,
    PointerParam,
    ScalarParam,
    StrideParam,
    TensorMapParam,
    TensorMapSpec,
)
from ..ir.text.layout_text import layout_from_text
from ..ir.types import Signature
from ..ir.values import Buffer, Strided, Var
from ..ir.watched import WatchedRegion
from ..source import Span
from ..target import target
from .record import Assertion, Executable, SharedPlace, Usage

#: a `.file` directive whose name contains no escapes
_FILE = re.compile(r"^(\t\.file\t\d+ )\"([ !#-\[\]-~]*)\"$", re.MULTILINE)

#: incremented whenever the format of the record changes
FORMAT = 6


def executable_to_json(executable: Executable) -> dict[str, Any]:
    """Return a record of all fields except the signature, the PTX and the machine code."""
    e = executable
    spans = _SpanTable()
    return {
        "format": FORMAT,
        "name": e.name,
        "entry": e.entry,
        "target": e.target.name,
        "threads": e.threads,
        "cluster": e.cluster,
        "cooperative": e.cooperative,
        "params": [param_to_json(param) for param in e.params],
        "shared_bytes": e.shared_bytes,
        "dynamic_shared": e.dynamic_shared,
        "local_bytes": e.local_bytes,
        "spans": [spans.number(span) for span in e.spans],
        "assertions": [[a.rule, a.message, spans.number(a.span)] for a in e.assertions],
        "watched": [[w.text, spans.number(w.span), w.threads, w.instances, w.inside, w.tensor] for w in e.watched],
        "shared_map": [[p.name, p.variable, p.first, p.bytes, spans.number(p.span)] for p in e.shared_map],
        "entry_registers": e.entry_registers,
        "grid_axes": e.grid_axes,
        "widened": e.widened,
        "usage": None if e.usage is None else [e.usage.registers, e.usage.spill_bytes, e.usage.is_estimate],
        "files": list(spans.files),
        "lines": list(spans.lines),
        "places": spans.places,
    }


#: the fields of an executable that a record contains unchanged
_PLAIN = (
    "name", "entry", "threads", "cooperative", "shared_bytes", "dynamic_shared", "local_bytes", "entry_registers",
)


def executable_from_json(
    record: Mapping[str, Any], signature: Signature, ptx: str, files: Sequence[str] | None = None
) -> Executable:
    """Decode the result of `executable_to_json`. files: current paths of the record's source files, if they moved."""
    cluster = record["cluster"]
    places = _places(record, record["files"] if files is None else files)
    return Executable(
        **{name: record[name] for name in _PLAIN},
        target=target(record["target"]),
        signature=signature,
        cluster=None if cluster is None else tuple(cluster),
        params=tuple([param_from_json(param) for param in record["params"]]),
        ptx=ptx,
        spans=tuple([places[n] for n in record["spans"]]),
        assertions=tuple([Assertion(rule, message, _place(places, n)) for rule, message, n in record["assertions"]]),
        watched=tuple([WatchedRegion(text, _place(places, n), *counts) for text, n, *counts in record["watched"]]),
        shared_map=tuple([SharedPlace(p[0], p[1], p[2], p[3], _place(places, p[4])) for p in record["shared_map"]]),
        grid_axes=tuple(record["grid_axes"]),
        widened=tuple(record["widened"]),
        usage=None if record["usage"] is None else Usage(*record["usage"]),
    )


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

    def number(self, span: Span | None) -> int | None:
        if span is None:
            return None
        number = self._numbers.get(span)
        if number is not None:
            return number
        caller = self.number(span.caller)
        file = self.files.setdefault(span.file, len(self.files))
        text = self.lines.setdefault(span.text, len(self.lines))
        self.places.append([file, span.line, span.column, span.end_line, span.end_column, text, caller])
        self._numbers[span] = len(self.places) - 1
        return len(self.places) - 1


def _places(record: Mapping[str, Any], files: Sequence[str]) -> list[Span]:
    places: list[Span] = []
    for file, line, column, end_line, end_column, text, caller in record["places"]:
        # callers precede their callees
        called_from = None if caller is None else places[caller]
        places.append(Span(files[file], line, column, end_line, end_column, record["lines"][text], called_from))
    return places


def _place(places: Sequence[Span], number: int | None) -> Span | None:
    return None if number is None else places[number]


def param_to_json(param: Param) -> list[Any]:
    """Return the parameter as a list whose first item is its kind."""
    match param:
        case PointerParam():
            return ["pointer", param.of, _buffer(param.buffer), param.written, param.noalias]
        case ScalarParam():
            return ["scalar", param.of, _var(param.var)]
        case ExtentParam():
            return ["extent", param.of, _var(param.var), param.axis]
        case StrideParam():
            return ["stride", param.of, _var(param.var), param.axis]
        case AddressParam():
            return ["address", param.of, _var(param.var)]
        case AssertionsParam():
            return ["assertions"]
        case BarrierParam():
            return ["barrier", _buffer(param.buffer)]
        case TensorMapParam(map=spec):
            shape = [spec.dtype.name, spec.axes, spec.box, spec.swizzle]
            shares = [[share.coordinates, share.bytes] for share in param.shares]
            return ["tensormap", param.of, _var(param.var), *shape, param.written, shares]
        case _:
            return assert_never(param)


def param_from_json(parts: list[Any]) -> Param:
    """Decode the result of `param_to_json`."""
    kind, *rest = parts
    return _READ[kind](*rest)


_READ: dict[str, Callable[..., Param]] = {
    "pointer": lambda of, buffer, written, noalias: PointerParam(of, _read_buffer(buffer), written, noalias),
    "scalar": lambda of, var: ScalarParam(of, _read_var(var)),
    "extent": lambda of, var, axis: ExtentParam(of, _read_var(var), axis),
    "stride": lambda of, var, axis: StrideParam(of, _read_var(var), axis),
    "address": lambda of, var: AddressParam(of, _read_var(var)),
    "assertions": AssertionsParam,
    "barrier": lambda buffer: BarrierParam(_read_buffer(buffer)),
    "tensormap": lambda of, var, dtype, axes, box, swizzle, written, shares: TensorMapParam(
        _read_var(var), TensorMapSpec(of, DTYPES[dtype], tuple(axes), tuple(box), swizzle), written,
        tuple([BoxShare(tuple(coordinates), bytes_) for coordinates, bytes_ in shares]),
    ),
}


def _var(var: Var) -> list[Any]:
    return [var.name, var.dtype.name, var.multiple_of, var.bounds, var.uniform, var.data]


def _read_var(parts: list[Any]) -> Var:
    name, dtype, multiple_of, bounds, uniform, data = parts
    return Var(name, DTYPES[dtype], multiple_of, None if bounds is None else tuple(bounds), uniform=uniform, data=data)


def _buffer(buffer: Buffer) -> list[Any]:
    layout = buffer.layout
    assert buffer.base is None and not buffer.slots, f"the parameter {buffer.name} is a view or padded"
    if isinstance(layout, Strided):
        laid_out: Any = [_sizes(layout.strides), layout.align, layout.extent_align]
    else:
        laid_out = repr(buffer.tile_layout)
    return [buffer.name, buffer.space, buffer.dtype.name, _sizes(buffer.shape), laid_out, buffer.align]


def _read_buffer(parts: list[Any]) -> Buffer:
    name, space, dtype, shape, laid_out, align = parts
    if isinstance(laid_out, str):
        return Buffer(name, space, DTYPES[dtype], _read_sizes(shape), layout_from_text(laid_out), align)
    strides, stride_align, extent_align = laid_out
    layout = Strided(_read_sizes(strides), stride_align, extent_align)
    return Buffer(name, space, DTYPES[dtype], _read_sizes(shape), layout, align)


def _sizes(sizes: tuple[int | Var, ...]) -> list[Any]:
    return [_var(size) if isinstance(size, Var) else size for size in sizes]


def _read_sizes(sizes: list[Any]) -> tuple[int | Var, ...]:
    return tuple([_read_var(size) if isinstance(size, list) else size for size in sizes])
