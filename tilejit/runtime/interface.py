"""A reader of `__cuda_array_interface__`.

source: Numba's documentation, "CUDA Array Interface (Version 3)".
"""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any

import numpy as np

from ..errors import LaunchError
from ..wording import with_article

NAME = "__cuda_array_interface__"


def of(value: Any) -> Any:
    """Return an object's `__cuda_array_interface__`, or None; raise LaunchError if reading the attribute fails."""
    try:
        return getattr(value, NAME, None)
    except Exception as error:
        # the object's own code can raise anything
        raise LaunchError(
            f"{NAME} of {with_article(type(value).__name__)} can't be read: {type(error).__name__}: {error}",
            hint="pass an array that reports its address, shape and type",
        ) from error


def read(value: Any, interface: Any) -> tuple[int, bool, np.dtype[Any], tuple[int, ...], Any]:
    """Return (address, is read-only, dtype, shape, byte strides or None); raise LaunchError if an entry is invalid."""
    def refused(name: str, wanted: str) -> LaunchError:
        entry = f"{name} is {interface[name]!r}" if name in interface else f"{name} is missing"
        return LaunchError(
            f"{NAME} of {with_article(type(value).__name__)} is broken: {entry}", hint=f"{name} must be {wanted}"
        )

    if not isinstance(interface, Mapping):
        raise LaunchError(
            f"{NAME} of {with_article(type(value).__name__)} is {interface!r}",
            hint="it must be a dict with data, shape, typestr",
        )
    data: Any = interface.get("data")
    shape: Any = interface.get("shape")
    strides: Any = interface.get("strides")
    if not isinstance(data, (tuple, list)) or len(data) != 2 or not isinstance(data[0], (int, np.integer, NoneType)):
        raise refused("data", "a tuple of the address and a read-only flag")
    pointer = int(data[0] or 0)
    if not 0 <= pointer < 2**64:
        raise refused("data", "a tuple of the address, from 0 to 2**64 - 1, and a read-only flag")
    if not _is_integers(shape) or any(n < 0 for n in shape):
        raise refused("shape", "a tuple of non-negative integers")
    if strides is not None and not (_is_integers(strides) and len(strides) == len(shape)):
        raise refused("strides", "None or a tuple with one integer per dimension")
    try:
        if not isinstance(interface.get("typestr"), str):
            raise TypeError
        dtype = np.dtype(interface["typestr"])
    except (TypeError, ValueError):
        raise refused("typestr", "a string such as '<f4'") from None
    return pointer, bool(data[1]), dtype, tuple(shape), strides


def _is_integers(values: Any) -> bool:
    return isinstance(values, (tuple, list)) and all(hasattr(n, "__index__") for n in values)
