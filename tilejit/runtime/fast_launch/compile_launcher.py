"""Compiles generated launchers from their text, and binds the names in it.

A function is generated at the second launch of a variant, so the first launch of a process doesn't import this module.
"""

from __future__ import annotations

import itertools
import linecache
import os
import struct
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ...errors import entry_point
from ...frontend import Parameter
from .. import devices
from ..captured import MISSING, CapturedPlaces
from ..grid import stream_handle
from . import guards
from .entries import overlapping_pairs
from .generated import ABSENT, Choosing, GeneratedLauncher, GivenTypes
from .parts import ArrayPart, ChosenPart, Part, part_of
from .text import LauncherText

_FOLDER = os.path.join(os.path.dirname(__file__), "")
_files = itertools.count(1)

#: values of names in the generated text, except those that depend on the arguments
_NAMES: dict[str, Any] = {
    "absent": ABSENT,
    "missing": MISSING,
    "type": type,
    "Exception": Exception,
    "IndexError": IndexError,
    "ValueError": ValueError,
    "chosen": devices.chosen,
    "is_simulator": devices.is_simulator,
    "overlapping_pairs": overlapping_pairs,
    "stream_handle": entry_point(stream_handle),
    # errors for numbers outside the range of the type in which they are packed
    "out_of_range": (struct.error, OverflowError),
}


def parts_of(
    parameters: Sequence[Parameter], values: Sequence[Any], choosing: Choosing | None = None
) -> list[Part] | None:
    """Return the part of each argument; None if an argument has no part."""
    numbers = frozenset() if choosing is None else choosing.numbers
    parts = [part_of(p, i, v, p.name in numbers) for i, (p, v) in enumerate(zip(parameters, values, strict=True))]
    of_all = [part for part in parts if part is not None]
    return of_all if len(of_all) == len(parts) else None


def generate(
    number: int, kernel: str, parameters: Sequence[Parameter], parts: Sequence[Part], given: GivenTypes,
    places: CapturedPlaces, choosing: Choosing | None = None,
) -> GeneratedLauncher:
    """Return a generated launcher. number: its index. kernel: the kernel's name. given: types of the arguments."""
    is_guarded = guards.are_available() and all(p.is_guarded for p in parts if isinstance(p, ArrayPart))
    captured, by_name = [name for _, name in places.names], frozenset(name for name, _ in given[1])
    text = LauncherText(
        number, parameters, parts, len(given[0]), by_name, captured, len(places.cells), is_guarded,
        chooses=choosing is not None,
    )
    return GeneratedLauncher(text, places, _compiled(text, kernel, _names(text, given, places, choosing)))


def _compiled(text: LauncherText, kernel: str, names: dict[str, Any]) -> Callable[..., None]:
    source, file = text.render(), f"{_FOLDER}<{kernel} {next(_files)}>"
    namespace = {text.prefix + name: value for name, value in names.items()}
    exec(compile(source, file, "exec"), namespace)
    launch: Callable[..., None] = namespace["launch"]
    # tracebacks show the text while the function exists
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    weakref.finalize(launch, linecache.cache.pop, file, None).atexit = False
    return launch


def _names(text: LauncherText, given: GivenTypes, places: CapturedPlaces, choosing: Choosing | None) -> dict[str, Any]:
    types = {**dict(zip((p.name for p in text.given), given[0], strict=False)), **dict(given[1])}
    names = dict(_NAMES)
    if choosing is not None:
        names["extra_key"] = choosing.extra_key
    names |= {f"type{i}": types.get(p.name) for i, p in enumerate(text.parameters)}
    names |= {f"default{i}": p.default for i, p in enumerate(text.parameters)}
    names |= {f"get{n}": namespace.get for n, (namespace, _) in enumerate(places.names)}
    names |= {f"cell{n}": cell for n, cell in enumerate(places.cells)}
    names |= text.arrays[0][1].stream.names
    for part in text.parts:
        names |= {} if isinstance(part, (ArrayPart, ChosenPart)) else part.names
    return names
