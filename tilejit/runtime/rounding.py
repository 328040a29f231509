"""Warnings about numbers that are rounded to float32 when passed, although the kernel uses them as float64."""

from __future__ import annotations

import struct
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..callers import stack_level
from ..errors import PrecisionWarning
from ..executable import Executable
from ..frontend.containers import declaration

_FLOAT32 = struct.Struct("f")


def is_rounded(value: Any) -> bool:
    """True if `value` is a number that float32 can't represent exactly; False for NaN and for any np.longdouble."""
    number = value.item() if isinstance(value, np.generic) else value
    if not isinstance(number, (int, float)):
        return False
    try:
        return bool(_FLOAT32.unpack(_FLOAT32.pack(number))[0] != number and number == number)
    except OverflowError:
        return True


def warn_of_rounding(executable: Executable, values: Sequence[Any], warned: set[str]) -> None:
    """Warn about arguments rounded to float32 but used as float64, except those in `warned`; add their names to it."""
    for name in executable.widened:
        _warn(executable.name, name, values[executable.positions[name]], warned)


def checked_packer(
    pack: Callable[..., None], executable: Executable, of_arguments: dict[int, int], warned: set[str]
) -> Callable[..., None]:
    """Return a packer that also warns like `warn_of_rounding`. of_arguments: argument's position -> value's index."""
    watched = [(name, of_arguments[executable.positions[name]]) for name in executable.widened]

    def packed(memory: Any, at: int, *values: Any) -> None:
        pack(memory, at, *values)
        for name, number in watched:
            _warn(executable.name, name, values[number], warned)

    return packed


def _warn(kernel: str, name: str, value: Any, warned: set[str]) -> None:
    if name not in warned and is_rounded(value):
        with np.errstate(over="ignore"):
            passed = np.float32(value)
        warnings.warn(
            f"{name} of {kernel} is {value}, which is passed as float32 ({float(passed)!r}) and used as float64\n"
            f"help: annotate it, `{declaration(name, 'tj.float64')}`; "
            f"or pass np.float32({value}) if float32 is intended",
            PrecisionWarning, stacklevel=stack_level(),
        )
        warned.add(name)
