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
from ..wording import counted
from .schema import ParameterData

#: short name -> name in DTYPES
_SHORT = {
    "b8": "bool_", "bool": "bool_", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
    **{f"{name[0]}{bits}": f"{name}{bits}" for name in ("int", "uint") for bits in (8, 16, 32, 64)},
}
#: forms of an argument, for hints
FORMS = (
    "write f32[1000] or NAME:f32[10,20] for random data, f32[256]=0 for one value, out:f32[1000] for an output, "
    "i32:1000 for a scalar, bytes:0a00ff for a structure, or FILE.npy"
)
#: names; then the digits of a structure, a file, an array and its value, or a scalar. A drive of a path is no name.
_ARGUMENT = re.compile(
    r"(?P<names>(?:[A-Za-z_]\w*:(?![\\/])\s*)*)"
    r"(?:bytes:(?P<digits>.*)|(?P<file>.*\.npy)|(?P<type>\w+)\s*"
    r"(?:\[(?P<extents>[^\]]*)\]\s*(?:=\s*(?P<fill>.+))?|:\s*(?P<scalar>[^:\[\]]+)))",
    re.DOTALL,
)
#: the largest array, in bytes
LARGEST = 1 << 32
#: random integers are smaller than this
_INTEGERS = 100


@dataclass(frozen=True, slots=True)
class WrittenArgument:
    """An argument. name: "" if none is given. value: that of a scalar, a structure or all elements; None if random."""

    text: str
    name: str
    kind: Literal["array", "output", "scalar"]
    dtype: np.dtype[Any] | None = None
    shape: tuple[int, ...] = ()
    value: Any = None

    @property
    def size_bytes(self) -> int:
        """The size of the kernel's parameter: that of an address, or of the value."""
        if self.kind != "scalar":
            return 8
        return len(self.value) if isinstance(self.value, bytes) else int(self.value.nbytes)

    def make(self, seed: int, position: int) -> NDArray[Any] | np.generic | bytes:
        """Return a new value. Random floats are standard normal, integers 0 to 99, booleans 0 or 1.

        They depend on `seed`, `position`, the type and the shape only. The contents of an output are unspecified.
        """
        if self.dtype is None:
            scalar: np.generic | bytes = self.value
            return scalar
        if self.kind == "output":
            return np.empty(self.shape, self.dtype)
        if self.value is not None:
            return np.full(self.shape, self.value, self.dtype)
        random = np.random.default_rng((seed, position))
        if self.dtype.kind in "biu":
            values = random.integers(0, 2 if self.dtype.kind == "b" else _INTEGERS, self.shape)
        else:
            values = np.asarray(random.standard_normal(self.shape))
        return values.astype(self.dtype)


def parsed(text: str) -> WrittenArgument:
    """Parse an argument. raises: LaunchError if it is invalid, or names a file that NumPy can't load."""
    match = _ARGUMENT.fullmatch(text.strip())
    if match is None:
        raise _invalid(text, "it has none of the known forms")
    first, *others = re.findall(r"\w+", match["names"]) or [""]
    is_output = first == "out"
    names = others if is_output else [first, *others]
    if len(names) > 1:
        raise _invalid(text, f"it has two names, {names[0]} and {names[1]}")
    name = "".join(names)
    if is_output and (match["extents"] is None or match["fill"] is not None):
        raise _invalid(text, "only an array without a value can be an output")
    if match["digits"] is not None:
        return WrittenArgument(text, name, "scalar", value=_structure(text, match["digits"]))
    if match["file"] is not None:
        values = _file(text, match["file"])
        return WrittenArgument(text, name, "array", values.dtype, values.shape, values)
    dtype = _dtype(text, match["type"])
    if match["scalar"] is not None:
        return WrittenArgument(text, name, "scalar", value=_value(text, match["scalar"].strip(), dtype))
    value = None if match["fill"] is None else _value(text, match["fill"].strip(), dtype)
    shape = _shape(text, match["extents"], dtype)
    return WrittenArgument(text, name, "output" if is_output else "array", dtype, shape, value)


def _invalid(text: str, reason: str) -> LaunchError:
    shown = text if len(text) <= 80 else f"{text[:80]}…"
    return LaunchError(f"--arg {shown}: {reason}", hint=FORMS)


def _dtype(text: str, name: str) -> np.dtype[Any]:
    dtype = DTYPES.get(_SHORT.get(name, name))
    if dtype is None:
        raise _invalid(text, f"{name} is not an element type; these are: {', '.join(_SHORT)}")
    try:
        return dtype.numpy
    except ImportError as error:
        raise _invalid(text, f"{name} requires the package {error.name}") from None


def _shape(text: str, extents: str, dtype: np.dtype[Any]) -> tuple[int, ...]:
    try:
        shape = tuple([int(part) for part in extents.split(",") if part.strip()])
    except ValueError:
        raise _invalid(text, f"the extents [{extents}] are not integers") from None
    if min(shape, default=0) < 0:
        raise _invalid(text, "an extent is negative")
    size = prod(shape) * dtype.itemsize
    if size > LARGEST:
        raise _invalid(text, f"the array has {size:,} bytes; at most {LARGEST:,} are possible")
    return shape


def _value(text: str, value: str, dtype: np.dtype[Any]) -> np.generic:
    try:
        if dtype.kind == "b":
            truth = {"true": True, "1": True, "false": False, "0": False}
            return np.bool_(truth[value.lower()])
        # NumPy raises an error for an integer outside the range of the type
        number = np.array([int(value, 0)], dtype) if dtype.kind in "iu" else np.array([float(value)]).astype(dtype)
    except (KeyError, ValueError, OverflowError):
        raise _invalid(text, f"{value} is not a value of {dtype.name}") from None
    item: np.generic = number[0]
    return item


def _structure(text: str, digits: str) -> bytes:
    try:
        return bytes.fromhex(digits)
    except ValueError:
        raise _invalid(text, "the bytes must be pairs of hexadecimal digits") from None


def _file(text: str, path: str) -> NDArray[Any]:
    try:
        loaded = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, SyntaxError, MemoryError) as error:
        raise _invalid(text, f"NumPy can't load {path}: {error}") from None
    if not isinstance(loaded, np.ndarray):
        raise _invalid(text, f"{path} holds several arrays")
    return loaded


def described(parameter: ParameterData) -> str:
    """Return a parameter's declaration, or its name, and its size."""
    return f"{parameter['declaration'] or parameter['name']}, {counted(parameter['bytes'], 'byte')}"


def fitting(kernel: str, parameters: Sequence[ParameterData], texts: Sequence[str]) -> list[WrittenArgument]:
    """Parse the arguments of a kernel. raises: LaunchError if they don't fit its parameters, which the error shows."""
    arguments = [parsed(text) for text in texts]
    lines = [f"  {i}: {described(parameter)}" for i, parameter in enumerate(parameters)] or ["  none"]
    shown = "\n".join([f"the parameters of {kernel} are:", *lines])
    if len(arguments) != len(parameters):
        takes = counted(len(parameters), "argument")
        raise LaunchError(f"{kernel} takes {takes}, got {len(arguments)}; {shown}", hint=FORMS)
    known = {p["name"] for p in parameters if p["declaration"]}
    for position, (argument, parameter) in enumerate(zip(arguments, parameters, strict=True)):
        if argument.size_bytes != parameter["bytes"]:
            what = "a value" if argument.kind == "scalar" else "an address"
            raise LaunchError(
                f"--arg {argument.text}, argument {position}, is {what} of {counted(argument.size_bytes, 'byte')}, "
                f"but {parameter['name']} has {parameter['bytes']}; {shown}", hint=FORMS,
            )
        if argument.name in known - {parameter["name"]}:
            raise LaunchError(
                f"--arg {argument.text} is argument {position}, which is {parameter['name']}; {shown}",
                hint="write the arguments in the order of the parameters",
            )
    return arguments
