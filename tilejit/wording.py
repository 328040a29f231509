"""Formatting of nouns, counts and values in messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

#: minimum similarity of a name and a suggestion; it is 0.75 if two adjacent letters of four are transposed
_SIMILARITY = 0.7

#: maximum number of characters of a value that a message shows
_SHOWN = 60

#: prefixes of words that begin with a vowel letter but a consonant sound
_CONSONANTS = ("uint", "uni", "use")
#: words that begin with a consonant letter but a vowel sound
_VOWELS = ("f-string", "mbarrier", "ndarray")
_PLURALS = {"axis": "axes", "index": "indices", "launch": "launches"}

#: attributes of arrays; the arrays of any supported library have at least one
_PROTOCOLS = ("__array_interface__", "__cuda_array_interface__", "__dlpack__")


def with_article(noun: str) -> str:
    """Return the noun with its indefinite article: `an ndarray`, `a tile`."""
    word = noun.lower()
    is_vowel = word.startswith(_VOWELS) or (word[:1] in "aeiou" and not word.startswith(_CONSONANTS))
    return f"{'an' if is_vowel else 'a'} {noun}"


def counted(number: int, noun: str) -> str:
    """Return the number with its noun: `1 index`, `3 indices`."""
    return f"{number} {noun}" if number == 1 else f"{number} {_PLURALS.get(noun, noun + 's')}"


def guessed(name: str, names: Iterable[str], otherwise: str) -> str:
    """Return a hint for an unknown name: the most similar of `names`, or `otherwise` if none is similar."""
    # takes 2 ms to import, and only errors need it
    import difflib

    close = difflib.get_close_matches(name, names, 1, _SIMILARITY)
    return f"did you mean {close[0]}?" if close else otherwise


def is_array(value: Any) -> bool:
    """True for an array of any library with at least one dimension; False for NumPy scalars and 0-d arrays."""
    # looked up in the class, because on the object an attribute may be a property that is slow or raises
    has_protocol = any(hasattr(type(value), protocol) for protocol in _PROTOCOLS)
    return has_protocol and getattr(value, "shape", None) != ()


def shown(value: object) -> str:
    """Format a value for a message: arrays by type, shape and dtype, also in a tuple or list; truncate long text."""
    if isinstance(value, (tuple, list)) and any(map(is_array, value)):
        inside = ", ".join(map(shown, value))
        return cut(f"({inside}{',' * (len(value) == 1)})" if isinstance(value, tuple) else f"[{inside}]")
    return array(value) if is_array(value) else cut(repr(value))


def typed(value: object) -> str:
    """Format a value with its type: `int 200`, `ndarray of shape (3, 4) and float32`."""
    return array(value) if is_array(value) else f"{type(value).__name__} {shown(value)}"


def array(value: Any) -> str:
    """Format an array: `ndarray of shape (3, 4) and float32`."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    facts = [*([] if shape is None else [f"shape {tuple(shape)}"]), *([] if dtype is None else [str(dtype)])]
    return f"{type(value).__name__} of {' and '.join(facts)}" if facts else type(value).__name__


def cut(text: str) -> str:
    """Return the text, truncated if it is longer than a message shows."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
