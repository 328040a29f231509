"""Arguments of kernels as the command line writes them, such as `f32[1000]`, `out:f32[10, 20]` or `i32:7`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..dataclass import dataclass
from ..dtypes import DTYPES
from ..errors import LaunchError
from .schema import ParameterData

_NAMES = {
    "b8": "bool_", "bool": "bool_", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)}, **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}
#: forms of an argument, for hints
FORMS = (
    "write f32[1000] or NAME:f32[10,20] for random data, f32[256]=0 for one value, out:f32[1000] for an output, "
    "i32:1000 for a scalar, bytes:0a00ff for a structure, or FILE.npy"
)
_ARRAY = re.compile(r"(\w+)\s*\[([^\]]*)\]\s*(?:=\s*(.+))?")
_SCALAR = re.compile(r"(\w+)\s*:\s*([^:\[\]]+)")
#: a name, or `out`, before an argument
_PREFIX = re.compile(r"([A-Za-z_]\w*):(?![\\/])(.*[:\[].*|.*\.npy)", re.DOTALL)
_POINTER_BYTES = 8
#: the largest array, in bytes
LARGEST = 1 << 32
#: random integers are smaller than this
_INTEGERS = 100

Kind = Literal["random", "filled", "output", "file", "scalar", "bytes"]
Value = NDArray[Any] | np.generic | bytes


@dataclass(frozen=True, slots=True)
class WrittenArgument:
    """An argument. name: "" if none is given. value: that of a scalar or of each element; for a file, its contents."""

    text: str
    name: str
    kind: Kind
    dtype: np.dtype[Any] | None = None
    shape: tuple[int, ...] = ()
    value: Any = None

    @property
    def is_array(self) -> bool:
        return self.kind not in ("scalar", "bytes")

    @property
    def size_bytes(self) -> int:
        """The size of the kernel's parameter."""
        if self.kind == "bytes":
            return len(self.value)
        return self.dtype.itemsize if self.kind == "scalar" and self.dtype is not None else _POINTER_BYTES

    def make(self, seed: int, position: int) -> Value:
        """Return a new value. Random floats are standard normal, integers 0 to 99, booleans 0 or 1.

        They depend on `seed`, `position`, the type and the shape only. The contents of an output are unspecified.
        """
        if not self.is_array:
            result: Value = self.value
            return result
        if self.kind == "file":
            return np.array(self.value, order="C")
        assert self.dtype is not None
        if self.kind == "output":
            return np.empty(self.shape, self.dtype)
        if self.kind == "filled":
            return np.full(self.shape, self.value, self.dtype)
        random = np.random.default_rng((seed, position))
        if self.dtype.kind in "iu":
            return random.integers(0, _INTEGERS, self.shape).astype(self.dtype)
        if self.dtype.kind == "b":
            return random.integers(0, 2, self.shape).astype(self.dtype)
        return np.asarray(random.standard_normal(self.shape)).astype(self.dtype)


def parsed(text: str) -> WrittenArgument:
    """Parse an argument. raises: LaunchError if it is invalid, or names a file that NumPy can't load."""
    rest, name, is_output = text.strip(), "", False
    while (match := _PREFIX.fullmatch(rest)) is not None and match[1] not in _types() and match[1] != "bytes":
        if match[1] == "out" and not is_output and not name:
            is_output = True
        elif not name:
            name = match[1]
        else:
            raise _invalid(text, f"it has two names, {name} and {match[1]}")
        rest = match[2].strip()
    if rest.startswith("bytes:"):
        made = WrittenArgument(text, name, "bytes", value=_structure(text, rest[6:]))
    elif rest.endswith(".npy"):
        made = _file(text, name, rest)
    elif (array := _ARRAY.fullmatch(rest)) is not None:
        made = _array(text, name, array, is_output)
    elif (scalar := _SCALAR.fullmatch(rest)) is not None:
        dtype = _dtype(text, scalar[1])
        made = WrittenArgument(text, name, "scalar", dtype, value=_value(text, scalar[2].strip(), dtype))
    else:
        raise _invalid(text, "it has none of the known forms")
    if is_output and made.kind != "output":
        raise _invalid(text, "only an array without a value can be an output")
    return made


def _types() -> set[str]:
    return {*_NAMES, *DTYPES}


def _invalid(text: str, reason: str) -> LaunchError:
    shown = text if len(text) <= 80 else f"{text[:80]}…"
    return LaunchError(f"--arg {shown}: {reason}", hint=FORMS)


def _dtype(text: str, name: str) -> np.dtype[Any]:
    if name not in _types():
        raise _invalid(text, f"{name} is not an element type; these are: {', '.join(_NAMES)}")
    try:
        return DTYPES[_NAMES.get(name, name)].numpy
    except ImportError as error:
        raise _invalid(text, f"{name} requires the package {error.name}") from None


def _value(text: str, value: str, dtype: np.dtype[Any]) -> np.generic:
    try:
        if dtype.kind == "b":
            number: Any = {"true": 1, "false": 0}.get(value.lower())
            number = int(value, 0) if number is None else number
            if number not in (0, 1):
                raise OverflowError
        else:
            number = int(value, 0) if dtype.kind in "iu" else float(value)
        made = np.array([number]).astype(dtype) if dtype.kind not in "iu" else np.array([number], dtype)
    except (ValueError, OverflowError):
        raise _invalid(text, f"{value} is not a value of {dtype.name}") from None
    item: np.generic = made[0]
    return item


def _array(text: str, name: str, match: re.Match[str], is_output: bool) -> WrittenArgument:
    dtype = _dtype(text, match[1])
    try:
        shape = tuple([int(part) for part in match[2].split(",") if part.strip()])
    except ValueError:
        raise _invalid(text, f"the extents [{match[2]}] are not integers") from None
    if min(shape, default=0) < 0:
        raise _invalid(text, "an extent is negative")
    size = prod(shape) * dtype.itemsize
    if size > LARGEST:
        raise _invalid(text, f"the array has {size:,} bytes; at most {LARGEST:,} are possible")
    if match[3] is None:
        return WrittenArgument(text, name, "output" if is_output else "random", dtype, shape)
    return WrittenArgument(text, name, "filled", dtype, shape, _value(text, match[3].strip(), dtype))


def _structure(text: str, digits: str) -> bytes:
    try:
        return bytes.fromhex(digits)
    except ValueError:
        raise _invalid(text, "the bytes must be pairs of hexadecimal digits") from None


def _file(text: str, name: str, path: str) -> WrittenArgument:
    try:
        loaded = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, SyntaxError, MemoryError) as error:
        raise _invalid(text, f"NumPy can't load {path}: {error}") from None
    if not isinstance(loaded, np.ndarray):
        raise _invalid(text, f"{path} holds several arrays")
    return WrittenArgument(text, name, "file", loaded.dtype, loaded.shape, loaded)


def described(parameters: Sequence[ParameterData]) -> str:
    """Return a line for each parameter."""
    lines = [f"  {i}: {p['declaration'] or p['name']}, {p['bytes']} bytes" for i, p in enumerate(parameters)]
    return "\n".join(lines) or "  none"


def fitting(kernel: str, parameters: Sequence[ParameterData], texts: Sequence[str]) -> list[WrittenArgument]:
    """Parse the arguments of a kernel. raises: LaunchError if they don't fit its parameters, which the error shows."""
    arguments = [parsed(text) for text in texts]
    shown = f"the parameters of {kernel} are:\n{described(parameters)}"
    if len(arguments) != len(parameters):
        takes = f"{len(parameters)} argument{'s' * (len(parameters) != 1)}"
        raise LaunchError(f"{kernel} takes {takes}, got {len(arguments)}; {shown}", hint=FORMS)
    known = {p["name"] for p in parameters if p["declaration"]}
    for position, (argument, parameter) in enumerate(zip(arguments, parameters, strict=True)):
        if argument.size_bytes != parameter["bytes"]:
            is_a = "an address of 8 bytes" if argument.is_array else f"a value of {argument.size_bytes} bytes"
            raise LaunchError(
                f"--arg {argument.text}, argument {position}, is {is_a}, but {parameter['name']} has "
                f"{parameter['bytes']}; {shown}", hint=FORMS,
            )
        if argument.name in known - {parameter["name"]}:
            raise LaunchError(
                f"--arg {argument.text} is argument {position}, which is {parameter['name']}; {shown}",
                hint="write the arguments in the order of the parameters",
            )
    return arguments
