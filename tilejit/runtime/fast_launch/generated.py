"""The generated launchers of a kernel: one for each combination of argument types and number given by position."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...forks import renewed_at_fork
from ...frontend import Parameter
from ..captured import CapturedPlaces, CapturedValues
from ..device import LoadedKernel
from ..signature import Call

if TYPE_CHECKING:
    from .parts import Part
    from .text import LauncherText

#: functions for arguments of the same types whose kernel reads other captured places
_MOST_PLACES = 8

#: stands in a generated launcher for an argument that wasn't given, or that the launcher chooses
ABSENT = object()


class ResolvedLaunch(NamedTuple):
    """What the usual way found for a launch that succeeded.

    captured: the values that the kernel was compiled with. picked: those of parameters that the launcher chose.
    is_empty: its grid has no CTAs, so a tuned kernel may have picked any configuration.
    """

    call: Call
    function: LoadedKernel
    captured: CapturedValues
    picked: tuple[Any, ...] = ()
    is_empty: bool = False


class Choosing(NamedTuple):
    """What counts where launchers choose the values of some parameters: by it the same are chosen.

    numbers: names of parameters of whose numbers the value counts. besides: what else does, asked at each launch.
    """

    numbers: frozenset[str]
    besides: Callable[[], Hashable]


#: types of arguments: of those given by position, and of those given by name
GivenTypes = tuple[tuple[type, ...], frozenset[tuple[str, type]]]


class GeneratedLauncher(NamedTuple):
    """A generated function and what it was made of. places: of the captured values that it compares."""

    text: LauncherText
    places: CapturedPlaces
    launch: Callable[..., None]


class GeneratedLaunchers:
    """Those of one kernel. choosing: of one whose launchers choose."""

    def __init__(self, name: str, parameters: Sequence[Parameter], choosing: Choosing | None = None) -> None:
        self._name = name
        self._parameters = tuple(parameters)
        self._choosing = choosing
        # by their numbers
        self._all: list[tuple[GivenTypes, GeneratedLauncher]] = []
        self._newest: dict[GivenTypes, GeneratedLauncher] = {}
        self._launched: set[tuple[GivenTypes, LoadedKernel]] = set()
        self._without_parts: set[GivenTypes] = set()
        # by their numbers the captured values that were seen to come from their places
        self._fitting: dict[int, CapturedValues] = {}
        self._lock = renewed_at_fork(threading.RLock())

    def find(self, args: Sequence[Any], named: Mapping[str, Any]) -> GeneratedLauncher | None:
        """The one for such arguments, by position and by name."""
        return self._newest.get(_given(args, named))

    def notice(
        self, args: Sequence[Any], named: Mapping[str, Any], values: Sequence[Any], resolved: ResolvedLaunch
    ) -> GeneratedLauncher | None:
        """One that is made at the second launch of a variant with such arguments.

        Many are launched once; and a launch that has just compiled isn't made longer.
        values: of all parameters; ABSENT of those that the launcher chooses.
        """
        given = _given(args, named)
        if not _is_direct(resolved) or given in self._without_parts:
            return None
        if (given, resolved.function) not in self._launched:
            self._launched.add((given, resolved.function))
            return None
        from .compile_launcher import parts_of

        parts = parts_of(self._parameters, values, self._choosing)
        if parts is None:
            self._without_parts.add(given)
            return None
        return self._of_places(given, parts, resolved.captured) if can_be_direct(parts, resolved) else None

    def again(self, number: int, captured: CapturedValues) -> GeneratedLauncher | None:
        """The one for the arguments of one with this number; another where values are captured from other places."""
        if self._fitting.get(number) is captured:
            return self._all[number][1]
        given, generated = self._all[number]
        if not captured.is_fixed or not generated.places.are(captured.places):
            return self._of_places(given, generated.text.parts, captured)
        self._fitting[number] = captured
        return generated

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
            generated = same[0] if same else self._make(given, parts, captured.places)
            self._newest[given] = generated
            return generated

    def _make(self, given: GivenTypes, parts: Sequence[Part], places: CapturedPlaces) -> GeneratedLauncher:
        from .compile_launcher import made

        generated = made(len(self._all), self._name, self._parameters, parts, given, places, self._choosing)
        self._all.append((given, generated))
        return generated


def can_be_direct(parts: Sequence[Part], resolved: ResolvedLaunch) -> bool:
    """Whether a launch like this one needs no more than its parameters and the driver."""
    from .parts import ArrayPart

    stream = next(part.stream for part in parts if isinstance(part, ArrayPart))
    # arrays that name a producer are those of a framework whose stream is that producer's
    return _is_direct(resolved) and (not resolved.call.waits or bool(stream.unless))


def _is_direct(resolved: ResolvedLaunch) -> bool:
    call = resolved.call
    has_direct = resolved.function.direct is not None and not resolved.is_empty
    return has_direct and call.first is not None and not call.has_host


def _given(args: Sequence[Any], named: Mapping[str, Any]) -> GivenTypes:
    return tuple(map(type, args)), frozenset((name, type(v)) for name, v in named.items()) if named else frozenset()
