"""Tokenizer for the IR's text: lines of tokens with a cursor, and errors with a location."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from ...dataclass import dataclass
from ...errors import KernelSyntaxError
from ...source import Span
from .grammar import NAME

T = TypeVar("T")

_TOKEN = re.compile(
    rf"""
    (?P<blank>\s+)
  | (?P<string>"(?:\\.|[^"\\])*")
  | (?P<quoted>`[^`]*`)
  | (?P<float>\d+\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+)
  | (?P<int>0x[0-9a-f]+|0|[1-9]\d*)
  | (?P<special>%[A-Za-z]\w*(?:\.\d+)?)
  | (?P<name>{NAME.pattern})
  | (?P<sign>\+:|<-|->|\.\.|//|<<|>>|<=|>=|==|!=|[-+*/%&|^~<>=()\[\],:;.@'])
""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A token. kind: "string", "name", "quoted" (without backquotes), "float", "int", "special", "sign" or "end"."""

    kind: str
    text: str
    column: int


class Line:
    """One line with a cursor over its tokens."""

    def __init__(self, text: str, number: int) -> None:
        self.text = text
        self.number = number
        self.indent = len(text) - len(text.lstrip())
        self.at = 0
        self.tokens = self._scan()

    def _scan(self) -> list[Token]:
        tokens: list[Token] = []
        column = self.indent
        while column < len(self.text):
            match = _TOKEN.match(self.text, column)
            if match is None:
                self.fail(f"unexpected {self.text[column]!r}", column)
            kind = match.lastgroup or ""
            if kind == "quoted":
                tokens.append(Token("quoted", self._unquoted(match[0], column), column))
            elif kind != "blank":
                tokens.append(Token(kind, match[0], column))
            column = match.end()
        tokens.append(Token("end", "", column))
        return tokens

    def _unquoted(self, text: str, column: int) -> str:
        try:
            return str(json.loads(f'"{text[1:-1]}"'))
        except json.JSONDecodeError:
            self.fail(f"malformed escape in {text}", column)

    def fail(self, message: str, column: int | None = None) -> NoReturn:
        """Raise KernelSyntaxError at a column, by default that of the next token."""
        at = self.peek.column if column is None else column
        span = Span("<tile IR>", self.number, at, self.number, at + 1, self.text)
        raise KernelSyntaxError(message, span=span, hint="see the grammar in tilejit/ir/text/printer.py")

    @property
    def peek(self) -> Token:
        return self.tokens[self.at]

    @property
    def is_done(self) -> bool:
        return self.peek.kind == "end"

    def take(self) -> Token:
        token = self.peek
        if token.kind != "end":
            self.at += 1
        return token

    def sees(self, *texts: str) -> bool:
        """True if the next tokens have these texts, and each is a sign or an unquoted name."""
        ahead = self.tokens[self.at : self.at + len(texts)]
        return [t.text for t in ahead] == list(texts) and all(t.kind in ("sign", "name") for t in ahead)

    def accept(self, text: str) -> bool:
        """Take the next token if it is this sign or unquoted name; return True if so."""
        if self.sees(text):
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.fail(f"expected {text!r}; got {'the end of the line' if self.is_done else repr(self.peek.text)}")

    def kind(self, kind: str, what: str) -> str:
        """Take a token of this kind and return its text; fail on any other. what: the kind's name in the message."""
        if self.peek.kind != kind:
            self.fail(f"expected {what}; got {'the end of the line' if self.is_done else repr(self.peek.text)}")
        return self.take().text

    def name(self) -> str:
        return self.kind("quoted" if self.peek.kind == "quoted" else "name", "a name")

    def integer(self) -> int:
        sign = -1 if self.accept("-") else 1
        return sign * int(self.kind("int", "an integer"), 0)

    def string(self) -> str:
        column = self.peek.column
        return self._unquoted(self.kind("string", "a string"), column)

    def separated(self, read: Callable[[], T], end: str) -> list[T]:
        """Parse a comma-separated list and the token `end` that follows it."""
        items: list[T] = []
        while not self.accept(end):
            if items:
                self.expect(",")
            items.append(read())
        return items


def lines_of(text: str) -> list[Line]:
    """Return the lines that aren't blank, tokenized."""
    return [Line(line, number) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
