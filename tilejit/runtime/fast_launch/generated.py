"""The generated launchers of a kernel, by the types of the arguments and whether each is passed by keyword."""

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

#: the maximum number of functions for the same argument types but different places of captured values
_MOST_PLACES = 8

#: placeholder in generated launchers for an argument that wasn't passed, or that the launcher chooses
ABSENT = object()


class ResolvedLaunch(NamedTuple):
    """A launch that the slow path has resolved.

    captured: the values that the kernel was compiled with. picked: values of the parameters that the launcher chose.
    is_empty: True if a `Launcher`'s grid has no CTAs, so a tuned kernel may have picked any configuration.
    """

    call: Call
    function: LoadedKernel
    captured: CapturedValues
    picked: tuple[Any, ...] = ()
    is_empty: bool = False


class Choosing(NamedTuple):
    """The inputs of a tuned kernel's choice of a configuration that aren't in the lookup keys of all launchers.

    numbers: names of parameters whose values, if they are numbers, are inputs. extra_key: returns a key of the others.
    """

    numbers: frozenset[str]
    extra_key: Callable[[], Hashable]


#: types of the positional arguments, and names and types of the keyword arguments
GivenTypes = tuple[tuple[type, ...], frozenset[tuple[str, type]]]


class GeneratedLauncher(NamedTuple):
    """A generated function and its origin. places: the sources of the captured values that it compares."""

    text: LauncherText
    places: CapturedPlaces
    launch: Callable[..., None]


class GeneratedLaunchers:
    """The generated launchers of one kernel. choosing: None if its launchers choose no parameters."""

    def __init__(self, name: str, parameters: Sequence[Parameter], choosing: Choosing | None = None) -> None:
        self._name = name
        self._parameters = tuple(parameters)
        self._choosing = choosing
        # the index is the launcher's number
        self._all: list[tuple[GivenTypes, GeneratedLauncher]] = []
        self._newest: dict[GivenTypes, GeneratedLauncher] = {}
        self._launched: set[tuple[GivenTypes, LoadedKernel]] = set()
        self._without_parts: set[GivenTypes] = set()
        # launcher's number -> captured values that are known to come from its places
        self._fitting: dict[int, CapturedValues] = {}
        self._lock = renewed_at_fork(threading.RLock())

    def find(self, args: Sequence[Any], named: Mapping[str, Any]) -> GeneratedLauncher | None:
        return self._newest.get(_given(args, named))

    def notice(
        self, args: Sequence[Any], named: Mapping[str, Any], values: Sequence[Any], resolved: ResolvedLaunch
    ) -> GeneratedLauncher | None:
        """Record a launch; return a launcher, generated if necessary, or None.

        The result is None at the first launch of a variant, because many variants are launched only once, and the first
        launch, which compiles, should not take longer. It is also None if no generated function suits such launches.
        """
        given = _given(args, named)
        if not _is_direct(resolved) or given in self._without_parts:
            return None
        if (given, resolved.function) not in self._launched:
            self._launched.add((given, resolved.function))
            return None
        from .parts import parts_of

        parts = parts_of(self._parameters, values, self._choosing)
        if parts is None:
            self._without_parts.add(given)
            return None
        return self._of_places(given, parts, resolved.captured) if can_be_direct(parts, resolved) else None

    def again(self, number: int, captured: CapturedValues) -> GeneratedLauncher | None:
        """Return launcher `number` if it fits `captured`, else the result of `_of_places`, which may be None."""
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
        """Return the launcher for `captured`'s places; None if `captured` isn't fixed, or there are too many places."""
        if not captured.is_fixed:
            return None
        with self._lock:
            others = [generated for types, generated in self._all if types == given]
            same = [generated for generated in others if generated.places.are(captured.places)]
            if not same and len(others) >= _MOST_PLACES:
                return None
            generated = same[0] if same else self._make(given, parts, captured.places)
            self._newest[given] = generated
            return generated

    def _make(self, given: GivenTypes, parts: Sequence[Part], places: CapturedPlaces) -> GeneratedLauncher:
        from .text import generate

        generated = generate(len(self._all), self._name, self._parameters, parts, given, places, self._choosing)
        self._all.append((given, generated))
        return generated


def can_be_direct(parts: Sequence[Part], resolved: ResolvedLaunch) -> bool:
    """True if `resolved` needs only packed parameters and no wait for a stream, so a generated launcher suffices."""
    from .parts import ArrayPart

    stream = next(part.stream for part in parts if isinstance(part, ArrayPart))
    # if the stream part has an `unless`, the generated function launches only on the stream of the arrays' producer, so
    # it needn't wait
    return _is_direct(resolved) and (not resolved.call.waits or bool(stream.unless))


def _is_direct(resolved: ResolvedLaunch) -> bool:
    call = resolved.call
    has_direct = resolved.function.direct is not None and not resolved.is_empty
    return has_direct and call.first is not None and not call.has_host


def _given(args: Sequence[Any], named: Mapping[str, Any]) -> GivenTypes:
    return tuple(map(type, args)), frozenset((name, type(v)) for name, v in named.items()) if named else frozenset()
