"""The code of a generated launcher for one argument, by its parameter and type.

In strings of Python source, `@` marks the generated function's own names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any

import numpy as np

from ...dataclass import dataclass, field, replace
from ...frontend import Parameter, ParameterKind
from ...frontend.containers import is_inside
from ..arrays import DeviceArray
from ..cuda_driver import stream_of_framework
from ..packing import encoder
from ..readers import interface_facts, numpy_facts, tensor_facts
from ..signature import freeze, kind_with, scalar_dtype
from .generated import ABSENT, Choosing

#: Python's numbers, and NumPy scalars whose `item()` returns a Python number
_NUMBERS = (bool, int, float)
_NUMPY_NUMBERS = (
    np.bool_, np.float16, np.float32, np.float64,
    np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
)

#: types of constexprs whose value alone is in the key, because a generated function handles a single type
_KEYS = (int, str, bool)


@dataclass(frozen=True, slots=True)
class StreamPart:
    """The lookup of a framework's stream. handle: an expression. unless: a condition that selects the slow path."""

    handle: str
    unless: str = ""
    names: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ArrayPart:
    """The source code for an array.

    statements: executed first. pointer: an expression for the address. key: expressions for items of the lookup key.
    matches: compares facts with the values of these items. stream: the lookup of the framework's stream.
    unless: a condition that selects the slow path. is_guarded: True if torch's guards can compare the array.
    """

    pointer: str
    key: tuple[str, ...]
    matches: Callable[..., bool]
    stream: StreamPart
    statements: tuple[str, ...] = ()
    unless: str = ""
    is_guarded: bool = False


@dataclass(frozen=True, slots=True)
class ValuePart:
    """The source code for a number, a compile-time value or a container.

    packed: an expression for the number to pack, "" for a compile-time value or a container. key: expressions for items
    of the lookup key. names: the values of names in these expressions. length: that of a tuple whose items are
    arguments.
    """

    packed: str = ""
    key: tuple[str, ...] = ()
    names: Mapping[str, Any] = field(default_factory=dict)
    length: int | None = None


Part = ArrayPart | ValuePart

#: a compile-time value that the launcher chooses; the entry contains it
CHOSEN = ValuePart()

_LEGACY_STREAM = StreamPart("0")


def parts_of(
    parameters: Sequence[Parameter], values: Sequence[Any], choosing: Choosing | None = None
) -> list[Part] | None:
    """Return the part of each argument; None if an argument has no part. parameters, values: as from `flattened`."""
    numbers = frozenset() if choosing is None else choosing.numbers
    parts = [
        part_of(p, i, v, any(is_inside(p.name, name) for name in numbers))
        for i, (p, v) in enumerate(zip(parameters, values, strict=True))
    ]
    of_all = [part for part in parts if part is not None]
    return of_all if len(of_all) == len(parts) else None


def part_of(parameter: Parameter, number: int, value: Any, is_keyed: bool = False) -> Part | None:
    """Return the code for arguments of the value's type; None if launches with them need the slow path.

    number: the parameter's index. is_keyed: True if a number's value, not only its type, is part of the key.
    """
    if value is ABSENT:
        return CHOSEN
    kind, name = kind_with(parameter, value), parameter.name
    if kind is ParameterKind.ARRAY:
        return _array_part(name, number, value)
    if kind is ParameterKind.CONTAINER:
        return ValuePart(length=len(value) if type(value) is tuple else None)
    if kind is ParameterKind.CONSTEXPR:
        return _constexpr_part(name, type(value))
    part = _scalar_part(parameter, value)
    if part is None or not is_keyed:
        return part
    by_value = _constexpr_part(name, type(value))
    return replace(part, key=(*part.key, *by_value.key), names={**part.names, **by_value.names})


def _array_part(name: str, number: int, value: Any) -> ArrayPart | None:
    torch, cupy, jax = (sys.modules.get(module) for module in ("torch", "cupy", "jax"))
    if type(value) is DeviceArray:
        return ArrayPart(
            pointer=f"{name}._memory.pointer",
            key=(f"{name}._facts.number",),
            matches=lambda facts, number: bool(facts.number == number),
            stream=_LEGACY_STREAM,
        )
    if torch is not None and isinstance(value, torch.Tensor):
        return ArrayPart(
            pointer=f"{name}.data_ptr()",
            # not `device`: hashing and comparing it takes as long as all other items together
            key=(f"{name}.dtype", f"{name}.shape", f"{name}.stride()", f"{name}.get_device()"),
            matches=_is_tensor,
            stream=StreamPart("@raw_stream(@device)", names={"raw_stream": stream_of_framework(value)}),
            # takes 0.1 us; skipped if torch's guards pass, which check this, too. `get_device` is -1 for host memory,
            # which no entry has; checking `is_cuda` too would take another 0.05 us
            unless=f"{name}.is_neg()",
            is_guarded=True,
        )
    if cupy is not None and isinstance(value, cupy.ndarray):
        return ArrayPart(
            statements=(f"@memory{number} = {name}.data",),
            pointer=f"@memory{number}.ptr",
            key=(f"{name}.dtype", f"{name}.shape", f"{name}.strides", f"@memory{number}.device_id"),
            matches=lambda facts, *items: bool(facts == numpy_facts(*items)),
            stream=_cupy_stream(cupy),
        )
    if jax is not None and isinstance(value, jax.Array):
        # reading the address alone is faster, but doesn't wait until the contents are computed
        view = f"@interface{number}"
        return ArrayPart(
            statements=(f"{view} = {name}.__cuda_array_interface__",),
            pointer=f"{view}['data'][0]",
            # not `device`: reading it takes as long as all other items together
            key=(f"{view}['typestr']", f"{view}['shape']", f"{view}.get('strides')", f"{name}.sharding"),
            matches=_is_jax_array,
            stream=_LEGACY_STREAM,
        )
    return None


def _is_tensor(facts: Any, dtype: Any, shape: Any, strides: Any, ordinal: int) -> bool:
    return bool(facts == tensor_facts(dtype, shape, strides, f"cuda:{ordinal}"))


def _is_jax_array(facts: Any, typestr: str, shape: Any, strides: Any, sharding: Any) -> bool:
    ordinals = [device.id for device in sharding.device_set]
    return len(ordinals) == 1 and bool(facts == interface_facts(np.dtype(typestr), shape, strides, ordinals[0]))


def _cupy_stream(cupy: Any) -> StreamPart:
    """Return the lookup of CuPy's current stream; arrays report it as their producer, so other streams must wait."""
    return StreamPart(
        "@current_stream(@device).ptr",
        unless="@self.stream is not None or @current_device() != @device",
        names={"current_stream": cupy.cuda.get_current_stream, "current_device": cupy.cuda.runtime.getDevice},
    )


def _constexpr_part(name: str, kind: type) -> ValuePart:
    if kind is NoneType:
        return ValuePart()
    if kind in _KEYS:
        return ValuePart(key=(name,))
    return ValuePart(key=(f"@freeze({name}, {name!r})",), names={"freeze": freeze})


def _scalar_part(parameter: Parameter, value: Any) -> ValuePart | None:
    kind, name = type(value), parameter.name
    if kind not in _NUMBERS and kind not in _NUMPY_NUMBERS:
        return None
    # numbers outside the range of their type are rejected when they are packed
    number = name if kind in _NUMBERS else f"{name}.item()"
    has_two_types = parameter.dtype is None and (kind is int or parameter.kind is ParameterKind.SCALAR)
    key = (f"-2147483648 <= {number} <= 2147483647",) if has_two_types else ()
    dtype = parameter.dtype or scalar_dtype(parameter, value)
    encode = encoder(dtype)
    if encode is None:
        return ValuePart(number, key)
    return ValuePart(f"@{dtype.name}(@float({number}))", key, {dtype.name: encode, "float": float})
