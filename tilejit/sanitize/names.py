"""Readable names of C++ symbols, by the part of the Itanium C++ ABI that kernels and their variables use."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

# source: Itanium C++ ABI, 5.1.5.2, "Builtin types"
_BUILTIN = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
    "t": "unsigned short", "i": "int", "j": "unsigned", "l": "long", "m": "unsigned long", "x": "long long",
    "y": "unsigned long long", "n": "__int128", "o": "unsigned __int128", "f": "float", "d": "double", "z": "...",
    "Dh": "half", "Dn": "nullptr_t", "Da": "auto", "Di": "char32_t", "Ds": "char16_t",
}
_AFTER = {"P": "*", "R": "&", "O": "&&", "K": " const", "V": " volatile", "r": " restrict"}
_SYMBOL = re.compile(r"\b_Z[\w$.]+")
_QUALIFIERS = re.compile("[KVr]*")
_LENGTH = re.compile(r"\d+")
_SUBSTITUTION = re.compile(r"S(?:[0-9A-Z]*_|[tabsiod])|T\d*_")
_LITERAL = re.compile(r"L([a-z])(n?\d+)E")


class _UnreadableError(Exception):
    """A symbol has a construct that isn't decoded."""


@lru_cache(maxsize=1024)
def readable(symbol: str) -> str:
    """Return the qualified name in a mangled symbol, such as `a::step` for `_ZN1a4stepEPfif`, or else the symbol.

    The types of a function's parameters are left out.
    """
    if not symbol.startswith("_Z"):
        return symbol
    try:
        return _Decoder(symbol).name()
    except (_UnreadableError, RecursionError):
        return symbol


def with_readable_names(text: str) -> str:
    """Return `text` with each mangled symbol replaced by its readable name."""
    return _SYMBOL.sub(lambda match: readable(match[0]), text)


class _Decoder:
    """A position in a symbol; the methods return the text of what begins there, and move past it."""

    def __init__(self, symbol: str) -> None:
        self.text = symbol
        self.at = len("_Z")

    def take(self, prefix: str) -> bool:
        found = self.text.startswith(prefix, self.at)
        self.at += len(prefix) * found
        return found

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
        return match

    def until_end(self, item: Callable[[], str]) -> list[str]:
        """Return the items up to the letter E, without empty ones."""
        items = []
        while not self.take("E"):
            items.append(item())
        return [text for text in items if text]

    def name(self) -> str:
        if self.take("Z"):
            # a variable in a function
            outer = self.name()
            self.until_end(self.type)
            return f"{outer}::{self.name()}"
        if self.take("N"):
            self.match(_QUALIFIERS)
            return "::".join(self.until_end(lambda: "" if self.match(_SUBSTITUTION) else self.part()))
        self.take("St")
        self.take("L")
        return self.part()

    def part(self) -> str:
        """Return an identifier and its template arguments, without ABI tags."""
        identifier = self.identifier()
        while self.take("B"):
            self.identifier()
        return identifier + self.arguments()

    def identifier(self) -> str:
        length = self.match(_LENGTH)
        if length is None or self.at + int(length[0]) > len(self.text):
            raise _UnreadableError
        start, self.at = self.at, self.at + int(length[0])
        return "(anonymous)" if self.text.startswith("_GLOBAL__N", start) else self.text[start : self.at]

    def arguments(self) -> str:
        return f"<{', '.join(self.until_end(self.argument))}>" if self.take("I") else ""

    def argument(self) -> str:
        if self.take("J"):
            return ", ".join(self.until_end(self.argument))
        literal = self.match(_LITERAL)
        if literal is None:
            return self.type()
        value = literal[2].replace("n", "-")
        return str(bool(int(value))).lower() if literal[1] == "b" else value

    def type(self) -> str:
        for prefix, suffix in _AFTER.items():
            if self.take(prefix):
                return self.type() + suffix
        for code, name in _BUILTIN.items():
            if self.take(code):
                return name
        if self.match(_SUBSTITUTION) is not None:
            return "…" + self.arguments()
        if self.at < len(self.text) and self.text[self.at] in "N0123456789":
            return self.name()
        raise _UnreadableError
