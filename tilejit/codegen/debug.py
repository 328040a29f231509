"""Source locations: spans as LLVM debug metadata, which becomes `.loc` directives in PTX."""

from __future__ import annotations

import os

from ..source import Span

#: the greatest column number that LLVM represents; a span with a greater index gets column 0, which refers to no span
MAX_COLUMN = 65535


class LineTable:
    """The debug metadata of one kernel.

    The line of a location is that of its span; the column is the span's 1-based index in `spans`, 0 past
    `MAX_COLUMN`. Locations have no `inlinedAt`: only the span holds the chain of call sites of an inlined helper.
    """

    def __init__(self, kernel_name: str, span: Span | None) -> None:
        self.spans: list[Span] = []
        self._lines: list[str] = []
        self._locations: dict[Span, str] = {}
        # id(span) -> the span, kept alive so that its id stays unique, and its attachment; hashing a span takes 1 µs
        self._attachments: dict[int, tuple[Span, str]] = {}
        self._scopes: dict[str, str] = {}
        self.enabled = span is not None
        if span is None:
            return
        file = self._file(span.file)
        unit = self._add(
            f"distinct !DICompileUnit(language: DW_LANG_C, file: {file}, emissionKind: DebugDirectivesOnly)"
        )
        types = self._add("!DISubroutineType(types: !{})")
        self._subprogram = self._add(
            f'distinct !DISubprogram(name: "{quoted(kernel_name)}", file: {file}, line: {span.line}, '
            f"type: {types}, unit: {unit}, spFlags: DISPFlagDefinition)"
        )
        self._unit = unit
        self._scopes[span.file] = self._subprogram

    @property
    def function_attachment(self) -> str:
        """The debug attachment of the function: ` !dbg !n`, or "" if the kernel has no span."""
        return f" !dbg {self._subprogram}" if self.enabled else ""

    def attachment(self, span: Span | None) -> str:
        """Return an instruction's debug attachment, `, !dbg !n`; "" if `span` is None or the kernel has no span."""
        if span is None or not self.enabled:
            return ""
        attachment = self._attachments.get(id(span))
        if attachment is not None:
            return attachment[1]
        location = self._locations.get(span)
        if location is None:
            location = self._locations[span] = self._locate(span)
        self._attachments[id(span)] = span, location
        return location

    def metadata(self) -> list[str]:
        if not self.enabled:
            return []
        version = self._add('!{i32 2, !"Debug Info Version", i32 3}')
        return [f"!llvm.dbg.cu = !{{{self._unit}}}", f"!llvm.module.flags = !{{{version}}}", *self._lines]

    def _locate(self, span: Span) -> str:
        self.spans.append(span)
        column = len(self.spans) if len(self.spans) <= MAX_COLUMN else 0
        scope = self._scopes.get(span.file)
        if scope is None:
            file = self._file(span.file)
            scope = self._add(f"!DILexicalBlockFile(scope: {self._subprogram}, file: {file}, discriminator: 0)")
            self._scopes[span.file] = scope
        return ", !dbg " + self._add(f"!DILocation(line: {span.line}, column: {column}, scope: {scope})")

    def _file(self, path: str) -> str:
        directory, name = os.path.split(path)
        return self._add(f'!DIFile(filename: "{quoted(name)}", directory: "{quoted(directory)}")')

    def _add(self, text: str) -> str:
        name = f"!{len(self._lines)}"
        self._lines.append(f"{name} = {text}")
        return name


def quoted(text: str) -> str:
    """Escape a string for LLVM IR: `"`, `\\` and all UTF-8 bytes that aren't printable ASCII become `\\XX` (hex)."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return text
    return "".join(
        chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}" for b in text.encode("utf-8", "surrogatepass")
    )
