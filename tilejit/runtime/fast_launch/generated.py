"""The generated launchers of a kernel, by the types of the arguments and whether each is passed by keyword."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ...forks import renewed_at_fork
from ...frontend import Parameter, ParameterKind
from ...frontend.containers import items_of
from ..captured import CapturedPlaces, CapturedValues
from ..device import LoadedKernel
from ..reshapes import reads_scalars
from ..signature import Call, flattened

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


#: the type of an argument; for a container, its type followed by those of its items
GivenType: TypeAlias = "type | tuple[GivenType, ...]"

#: types of the positional arguments, and names and types of the keyword arguments
GivenTypes = tuple[tuple[GivenType, ...], frozenset[tuple[str, GivenType]]]


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
        # types of containers among the arguments so far
        self._containers: set[type] = set()
        # launcher's number -> captured values that are known to come from its places
        self._fitting: dict[int, CapturedValues] = {}
        self._lock = renewed_at_fork(threading.RLock())

    def find(self, args: Sequence[Any], named: Mapping[str, Any]) -> GeneratedLauncher | None:
        return self._newest.get(self._given(args, named))

    def _given(self, args: Sequence[Any], named: Mapping[str, Any]) -> GivenTypes:
        type_of: Callable[[Any], Any] = self._nested if self._containers else type
        return tuple(map(type_of, args)), frozenset((n, type_of(v)) for n, v in named.items()) if named else frozenset()

    def _nested(self, value: Any) -> GivenType:
        cls = type(value)
        return cls if cls not in self._containers else (cls, *map(self._nested, items_of(value)))

    def notice(
        self, args: Sequence[Any], named: Mapping[str, Any], values: Sequence[Any], resolved: ResolvedLaunch
    ) -> GeneratedLauncher | None:
        """Record a launch; return a launcher, generated if necessary, or None.

        The result is None at the first launch of a variant, because many variants are launched only once, and the first
        launch, which compiles, should not take longer. It is also None if no generated function suits such launches.
        """
        call = resolved.call
        if ParameterKind.CONTAINER in call.kinds:
            pairs = zip(call.flat, call.kinds, strict=True)
            self._containers |= {type(value) for value, kind in pairs if kind is ParameterKind.CONTAINER}
        given = self._given(args, named)
        if not _is_direct(resolved) or given in self._without_parts:
            return None
        if (given, resolved.function) not in self._launched:
            self._launched.add((given, resolved.function))
            return None
        from .parts import parts_of

        leaves, flat, _ = flattened(self._parameters, values)
        parts = parts_of(leaves, flat, self._choosing)
        if parts is None:
            self._without_parts.add(given)
            return None
        return self._of_places(given, leaves, parts, resolved.captured) if can_be_direct(parts, resolved) else None

    def again(self, number: int, captured: CapturedValues) -> GeneratedLauncher | None:
        """Return launcher `number` if it fits `captured`, else the result of `_of_places`, which may be None."""
        if self._fitting.get(number) is captured:
            return self._all[number][1]
        given, generated = self._all[number]
        if not captured.is_fixed or not generated.places.are(captured.places):
            return self._of_places(given, generated.text.leaves, generated.text.parts, captured)
        self._fitting[number] = captured
        return generated

    def _of_places(
        self, given: GivenTypes, leaves: Sequence[Parameter], parts: Sequence[Part], captured: CapturedValues
    ) -> GeneratedLauncher | None:
        """Return the launcher for `captured`'s places; None if `captured` isn't fixed, or there are too many places."""
        if not captured.is_fixed:
            return None
        with self._lock:
            others = [generated for types, generated in self._all if types == given]
            same = [generated for generated in others if generated.places.are(captured.places)]
            if not same and len(others) >= _MOST_PLACES:
                return None
            generated = same[0] if same else self._make(given, leaves, parts, captured.places)
            self._newest[given] = generated
            return generated

    def _make(
        self, given: GivenTypes, leaves: Sequence[Parameter], parts: Sequence[Part], places: CapturedPlaces
    ) -> GeneratedLauncher:
        from .text import generate

        generated = generate(
            len(self._all), self._name, self._parameters, leaves, parts, given, places, self._choosing
        )
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
    is_simple = has_direct and call.first is not None and not call.has_host
    return is_simple and not reads_scalars(resolved.function.compiled.executable)
