"""The generated launchers of a kernel: one for each combination of argument types and number given by position."""

from __future__ import annotations

import itertools
import linecache
import os
import struct
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ...errors import entry_point
from ...frontend import Parameter
from .. import devices
from ..captured import MISSING, CapturedPlaces, CapturedValues
from ..device import LoadedKernel
from ..grid import stream_handle
from ..signature import Call
from . import guards
from .entries import meetings
from .parts import ArrayPart, Part, part_of
from .text import LauncherText

#: functions for arguments of the same types whose kernel reads other captured places
_MOST_PLACES = 8

_FOLDER = os.path.join(os.path.dirname(__file__), "")
_files = itertools.count(1)

#: stands in a generated launcher for an argument that wasn't given
ABSENT = object()

#: what the text means by its own names, whatever the arguments
_NAMES: dict[str, Any] = {
    "absent": ABSENT,
    "missing": MISSING,
    "type": type,
    "Exception": Exception,
    "IndexError": IndexError,
    "ValueError": ValueError,
    "chosen": devices.chosen,
    "is_simulator": devices.is_simulator,
    "meetings": meetings,
    "stream_handle": entry_point(stream_handle),
    # of numbers that don't fit what they are packed as
    "out_of_range": (struct.error, OverflowError),
}


class ResolvedLaunch(NamedTuple):
    """What the usual way found for a launch that succeeded. captured: the values that the kernel was compiled with."""

    call: Call
    function: LoadedKernel
    captured: CapturedValues


#: types of arguments: of those given by position, and of those given by name
GivenTypes = tuple[tuple[type, ...], frozenset[tuple[str, type]]]


class GeneratedLauncher(NamedTuple):
    """A generated function and what it was made of. places: of the captured values that it compares."""

    text: LauncherText
    places: CapturedPlaces
    launch: Callable[..., None]


class GeneratedLaunchers:
    """Those of one kernel."""

    def __init__(self, name: str, parameters: Sequence[Parameter]) -> None:
        self._name = name
        self._parameters = tuple(parameters)
        # by their numbers
        self._all: list[tuple[GivenTypes, GeneratedLauncher]] = []
        self._newest: dict[GivenTypes, GeneratedLauncher] = {}
        self._launched: set[GivenTypes] = set()
        self._without_parts: set[GivenTypes] = set()
        self._lock = threading.RLock()

    def find(self, args: Sequence[Any], named: Mapping[str, Any]) -> GeneratedLauncher | None:
        """The one for such arguments, by position and by name."""
        return self._newest.get(_given(args, named))

    def notice(
        self, args: Sequence[Any], named: Mapping[str, Any], values: Sequence[Any], resolved: ResolvedLaunch
    ) -> GeneratedLauncher | None:
        """One that is made at the second launch with such arguments, because many kernels are launched once.

        values: of all parameters.
        """
        given = _given(args, named)
        if given not in self._launched:
            self._launched.add(given)
            return None
        if not _is_direct(resolved) or given in self._without_parts:
            return None
        parts = [part_of(p, i, v) for i, (p, v) in enumerate(zip(self._parameters, values, strict=True))]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            self._without_parts.add(given)
            return None
        return self._of_places(given, known, resolved.captured) if can_be_direct(known, resolved) else None

    def again(self, number: int, captured: CapturedValues) -> GeneratedLauncher | None:
        """The one for the arguments of one with this number; another where values are captured from other places."""
        given, generated = self._all[number]
        if captured.is_fixed and generated.places.are(captured.places):
            return generated
        return self._of_places(given, generated.text.parts, captured)

    def _of_places(
        self, given: GivenTypes, parts: Sequence[Part], captured: CapturedValues
    ) -> GeneratedLauncher | None:
        """None where captured values have no places that tell their changes, or too many others were seen."""
        if not captured.is_fixed:
            return None
        with self._lock:
            alike = [generated for types, generated in self._all if types == given]
            same = [generated for generated in alike if generated.places.are(captured.places)]
            if not same and len(alike) >= _MOST_PLACES:
                return None
            generated = same[0] if same else self._generate(given, parts, captured.places)
            self._newest[given] = generated
            return generated

    def _generate(self, given: GivenTypes, parts: Sequence[Part], places: CapturedPlaces) -> GeneratedLauncher:
        is_guarded = guards.are_there() and all(p.is_guarded for p in parts if isinstance(p, ArrayPart))
        captured = [name for _, name in places.names]
        text = LauncherText(
            len(self._all), self._parameters, parts, len(given[0]), frozenset(name for name, _ in given[1]), captured,
            len(places.cells), is_guarded,
        )
        generated = GeneratedLauncher(text, places, self._compiled(text, _names(text, given, places)))
        self._all.append((given, generated))
        return generated

    def _compiled(self, text: LauncherText, names: dict[str, Any]) -> Callable[..., None]:
        source, file = text.render(), f"{_FOLDER}<{self._name} {next(_files)}>"
        namespace = {text.prefix + name: value for name, value in names.items()}
        exec(compile(source, file, "exec"), namespace)
        launch: Callable[..., None] = namespace["launch"]
        # tracebacks show the text for as long as there is the function
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        weakref.finalize(launch, linecache.cache.pop, file, None).atexit = False
        return launch


def can_be_direct(parts: Sequence[Part], resolved: ResolvedLaunch) -> bool:
    """Whether a launch like this one needs no more than its parameters and the driver."""
    arrays = [part for part in parts if isinstance(part, ArrayPart)]
    # arrays that name a producer are those of a framework whose stream is that producer's
    return _is_direct(resolved) and (not resolved.call.waits or bool(arrays[0].stream.unless))


def _is_direct(resolved: ResolvedLaunch) -> bool:
    call = resolved.call
    return resolved.function.direct is not None and call.first is not None and not call.has_host


def _given(args: Sequence[Any], named: Mapping[str, Any]) -> GivenTypes:
    return tuple(map(type, args)), frozenset((name, type(v)) for name, v in named.items()) if named else frozenset()


def _names(text: LauncherText, given: GivenTypes, places: CapturedPlaces) -> dict[str, Any]:
    """What the text means by its own names."""
    by_position, by_name = given[0], dict(given[1])
    names = dict(_NAMES)
    for i, parameter in enumerate(text.parameters):
        names[f"type{i}"] = by_position[i] if i < len(by_position) else by_name.get(parameter.name)
    names |= {f"default{i}": p.default for i, p in enumerate(text.parameters)}
    names |= {f"get{n}": namespace.get for n, (namespace, _) in enumerate(places.names)}
    names |= {f"cell{n}": cell for n, cell in enumerate(places.cells)}
    names |= text.arrays[0][1].stream.names
    for part in text.parts:
        names |= {} if isinstance(part, ArrayPart) else part.names
    return names
