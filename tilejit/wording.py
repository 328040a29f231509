"""How messages say values and numbers: a noun with its article, a count with its noun, a value in a few words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["array", "counted", "guessed", "is_array", "shown", "typed", "with_article"]

#: how alike a name and a guess are at least: 0.75 is two letters of four that have changed places
_ALIKE = 0.7

#: how much of a value a message shows
_SHOWN = 60

#: beginnings of words whose first letter is a vowel and whose first sound is none
_CONSONANTS = ("uint", "uni", "use")
#: words whose first letter is no vowel and whose first sound is one
_VOWELS = ("f-string", "mbarrier", "ndarray")
_PLURALS = {"axis": "axes", "index": "indices"}

#: what arrays have, of whichever library
_PROTOCOLS = ("__array_interface__", "__cuda_array_interface__", "__dlpack__")


def with_article(noun: str) -> str:
    """The noun with its article: `an ndarray`, `a tile`."""
    word = noun.lower()
    is_vowel = word.startswith(_VOWELS) or (word[:1] in "aeiou" and not word.startswith(_CONSONANTS))
    return f"{'an' if is_vowel else 'a'} {noun}"


def counted(number: int, noun: str) -> str:
    """The number with its noun: `1 index`, `3 indices`."""
    return f"{number} {noun}" if number == 1 else f"{number} {_PLURALS.get(noun, noun + 's')}"


def guessed(name: str, names: Iterable[str], otherwise: str) -> str:
    """What a hint says of a name that isn't there: which of these is much like it, else something else."""
    # 2 ms to import, and only mistakes need it
    import difflib

    close = difflib.get_close_matches(name, names, 1, _ALIKE)
    return f"did you mean {close[0]}?" if close else otherwise


def is_array(value: Any) -> bool:
    """Whether it is an array, of any library; a number of NumPy's is none."""
    # asks the class: an interface that is a property computes it, and may raise
    has_protocol = any(hasattr(type(value), protocol) for protocol in _PROTOCOLS)
    return has_protocol and getattr(value, "shape", None) != ()


def shown(value: object) -> str:
    """A value as messages show it: arrays by type, shape and dtype, also in tuples; what is long cut short."""
    if isinstance(value, (tuple, list)) and any(map(is_array, value)):
        inside = ", ".join(map(shown, value))
        return _cut(f"({inside}{',' * (len(value) == 1)})" if isinstance(value, tuple) else f"[{inside}]")
    return array(value) if is_array(value) else _cut(repr(value))


def typed(value: object) -> str:
    """A value with its type: `int 200`, `ndarray of shape (3, 4) and float32`."""
    return array(value) if is_array(value) else f"{type(value).__name__} {shown(value)}"


def array(value: Any) -> str:
    """An array as messages show it: `ndarray of shape (3, 4) and float32`."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    facts = [*([] if shape is None else [f"shape {tuple(shape)}"]), *([] if dtype is None else [str(dtype)])]
    return f"{type(value).__name__} of {' and '.join(facts)}" if facts else type(value).__name__


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
