"""Convert an executable to a JSON record, which is stored beside its PTX, and back. The record contains no code."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..ir.types import Signature
from ..ir.watched import WatchedRegion
from ..register_usage import Usage
from ..source import Span
from ..target import target
from .params import param_from_json, param_to_json
from .record import Assertion, Executable, SharedPlace

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


def executable_from_json(
    record: Mapping[str, Any], signature: Signature, ptx: str, files: Sequence[str] | None = None
) -> Executable:
    """Decode the result of `executable_to_json`. files: current paths of the record's source files, if they moved."""
    cluster = record["cluster"]
    places = _places(record, record["files"] if files is None else files)
    return Executable(
        name=record["name"],
        entry=record["entry"],
        target=target(record["target"]),
        signature=signature,
        threads=record["threads"],
        cluster=None if cluster is None else tuple(cluster),
        cooperative=record["cooperative"],
        params=tuple([param_from_json(param) for param in record["params"]]),
        shared_bytes=record["shared_bytes"],
        dynamic_shared=record["dynamic_shared"],
        local_bytes=record["local_bytes"],
        ptx=ptx,
        spans=tuple([places[n] for n in record["spans"]]),
        assertions=tuple([Assertion(rule, message, _place(places, n)) for rule, message, n in record["assertions"]]),
        watched=tuple([WatchedRegion(text, _place(places, n), *counts) for text, n, *counts in record["watched"]]),
        shared_map=tuple([SharedPlace(p[0], p[1], p[2], p[3], _place(places, p[4])) for p in record["shared_map"]]),
        entry_registers=record["entry_registers"],
        grid_axes=tuple(record["grid_axes"]),
        widened=tuple(record["widened"]),
        usage=None if record["usage"] is None else Usage(*record["usage"]),
    )


def moved_ptx(ptx: str, old: Sequence[str], new: Sequence[str]) -> str:
    """Return `ptx` with the files `old` in its `.file` directives renamed to `new`, unless that needs escapes."""
    pairs = zip(old, new, strict=True)
    moved = {was: now for was, now in pairs if was != now and _FILE.fullmatch(f'\t.file\t1 "{now}"')}
    return _FILE.sub(lambda line: f'{line[1]}"{moved.get(line[2], line[2])}"', ptx) if moved else ptx


class _SpanTable:
    """Assigns numbers to spans; files, lines of text and callers are stored by number."""

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
