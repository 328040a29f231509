"""PTX source text, with line numbers for errors."""

from __future__ import annotations

import re
from bisect import bisect_right

from ...errors import UnsupportedInstructionError

_SPACE = re.compile(r"\s*")
_COMMENT = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/', re.S)
_BRACE = re.compile(r'"[^"\n]*"|[{}]')
_LIST = re.compile(r"\{([^{},;]*),[^{};]{40,},([^{},;]*)\}")
# Messages show only this number of the characters of longer lines.
_SHOWN = 240


class Source:
    """A PTX text. code: the text with blanks in place of comments, so that positions are the same."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.code = _COMMENT.sub(_blank_comment, text)
        self._newlines = [match.start() for match in re.finditer("\n", text)]

    def line_at(self, position: int) -> int:
        return bisect_right(self._newlines, position - 1) + 1

    def line_text(self, line: int) -> str:
        """Return a line, counted from 1, with runs of white space replaced by blanks; empty if it doesn't exist."""
        if not 0 < line <= len(self._newlines) + 1:
            return ""
        begin = self._newlines[line - 2] + 1 if line > 1 else 0
        end = self._newlines[line - 1] if line <= len(self._newlines) else len(self.text)
        return " ".join(self.text[begin:end].split())

    def shown(self, line: int) -> str:
        """Return a line for messages, without the middle of long lists and of long lines."""
        text = _LIST.sub(r"{\1, ...,\2}", self.line_text(line))
        return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]} ... {text[-_SHOWN // 2 :]}"

    def refusal(self, what: str, line: int) -> UnsupportedInstructionError:
        return UnsupportedInstructionError(f"{what}\n  PTX line {line}: {self.shown(line)}")

    def closing_brace(self, begin: int) -> int:
        """Return the position after the brace that closes the one just before `begin`; raise if there is none."""
        depth = 1
        for match in _BRACE.finditer(self.code, begin):
            depth += {"{": 1, "}": -1}.get(match[0], 0)
            if not depth:
                return match.end()
        raise self.refusal("a brace is not closed", self.line_at(begin - 1))


class Cursor:
    """A reading position in a PTX text."""

    def __init__(self, source: Source, at: int = 0) -> None:
        self.source = source
        self.code = source.code
        self.pos = at

    def refusal(self, what: str, at: int) -> UnsupportedInstructionError:
        return self.source.refusal(what, self.source.line_at(at))

    def skip(self) -> int:
        match = _SPACE.match(self.code, self.pos)
        self.pos = match.end() if match else self.pos
        return self.pos

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.code, self.pos)
        if match:
            self.pos = match.end()
        return match


def _blank_comment(match: re.Match[str]) -> str:
    text = match[0]
    if text[0] == '"':
        return text
    return re.sub(r"[^\n]", " ", text)
