"""Tags: random-looking 64-bit numbers that represent the values of elements.

A value is a number that is known at compile time (an int, a bool, or an int64 or bool array over the threads), or tags
(a uint64 array over the threads). The elements of a wide register, such as the two of a word of 16-bit elements, are
tags of shape (parts, threads). Moving a value moves its tags; an operation's result has the tag that the operation's
name and its arguments' tags determine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from zlib import crc32

import numpy as np

from ...dtypes import DType
from ...ops.elementwise import ELEMENTWISE

Array = np.ndarray
#: an int, a bool, or an array of numbers or of tags
Value = Any

TAG = np.dtype(np.uint64)
_MULTIPLIER, _OTHER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_SHIFT = np.uint64(32)
#: added to the tags of integers, so that they differ from those of addresses
_OF_INTEGER, _OF_FLOAT = np.uint64(0x51ED270B), np.uint64(0x7A3C19E5)
#: difference between the tags of adjacent parts of one element
_PART = np.uint64(0x2545F4914F6CDD1D)

#: operations whose arguments may be swapped
_COMMUTATIVE = frozenset({
    "add", "mul", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor", "equal", "not_equal", "logical_and",
    "logical_or",
})


def mixed(numbers: Array) -> Array:
    """Return a tag for each number (uint64); different numbers have unrelated tags."""
    made: Array = numbers * _MULTIPLIER
    made ^= made >> _SHIFT
    made *= _OTHER
    made ^= made >> _SHIFT
    return made


def is_tag(value: Value) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == TAG


def of_name(name: str) -> Array:
    """Return the tag of a variable, or of an operation."""
    return np.full(1, (crc32(name.encode()) << 32) + len(name), TAG)


def of_float(value: float | Array) -> Array:
    bits = np.atleast_1d(np.asarray(value, np.float64)).view(TAG)
    return mixed(bits + _OF_FLOAT)


def zero(dtype: DType) -> Value:
    return of_float(0.0) if dtype.is_float else 0


def tag(value: Value) -> Array:
    """Return the tags of a value: one per thread."""
    if isinstance(value, np.ndarray) and value.dtype == TAG:
        return np.asarray(value) if value.ndim == 1 else _whole(value)
    if isinstance(value, int):
        return mixed(np.full(1, value & (1 << 64) - 1, TAG) + _OF_INTEGER)
    return mixed(np.atleast_1d(np.asarray(value, np.int64)).view(TAG) + _OF_INTEGER)


def part(tags: Array, k: int) -> Array:
    """Return the tags of part `k` of elements."""
    return np.asarray(tags + np.uint64(k * int(_PART) & (1 << 64) - 1))


def _whole(parts: Array) -> Array:
    """Return the tags of elements with these parts; others if the parts aren't those of one element in order."""
    fits = (parts[1:] - parts[:-1] == _PART).all(axis=0)
    if fits.all():
        return np.asarray(parts[0])
    return np.where(fits, parts[0], combined("parts", list(parts)))


def combined(name: str, args: list[Array]) -> Array:
    """Return the tags of the results of an operation on tags."""
    if name in _COMMUTATIVE and len(args) == 2:
        total = args[0] + args[1]
        # the sum alone would be equal for other pairs of related tags
        total = total ^ mixed(args[0] ^ args[1])
    else:
        total = args[0]
        for each in args[1:]:
            total = mixed(total + _OF_FLOAT) + each
    return mixed(total + of_name(name))


def of_inline(output: str, inputs: list[Value]) -> Array:
    """Return the tags of an output of inline PTX."""
    return combined(output, [of_name(output), *map(tag, inputs)])


def computed(name: str, args: list[Value]) -> Value:
    """Return the result of an elementwise operation: a number if all arguments are, else tags."""
    if name == "where":
        return chosen(*args)
    if any(map(is_tag, args)) or ELEMENTWISE[name].kind == "random":
        return combined(name, [tag(a) for a in args])
    fast = _NUMBERS.get(name)
    if fast is not None:
        return fast(*args)
    made = ELEMENTWISE[name].formula(*[np.asarray(a) for a in args])
    return np.asarray(made) if np.ndim(made) else made.item()


def chosen(cond: Value, yes: Value, no: Value) -> Value:
    """Return `yes` where `cond` holds, else `no`."""
    if isinstance(cond, (bool, np.bool_, int)):
        return yes if cond else no
    if is_tag(cond):
        return combined("where", [tag(cond), tag(yes), tag(no)])
    if is_tag(yes) != is_tag(no) or (np.ndim(yes) > 1) != (np.ndim(no) > 1):
        yes, no = tag(yes), tag(no)
    return np.where(cond, yes, no)


#: comparisons, for which numbers of unsigned types must be `ordered`
ORDERED = frozenset({"less", "less_equal", "greater", "greater_equal"})


def wrapped(x: Value, dtype: DType) -> Value:
    """Return a number as one of an integer type. Unsigned numbers of 64 bits are kept as if they were signed."""
    if not dtype.is_integer or is_tag(x):
        return x
    if dtype.kind == "int":
        half = 1 << dtype.bits - 1
        return x if dtype.bits > 16 else (x + half & 2 * half - 1) - half
    if dtype.bits < 64:
        return x & (1 << dtype.bits) - 1
    return (x + (1 << 63)) % (1 << 64) - (1 << 63) if isinstance(x, int) else x


def ordered(x: Value, dtype: DType) -> Value:
    """Return a number that compares with others as the unsigned number `x` does."""
    return x if is_tag(x) or dtype.bits < 64 else x ^ -(1 << 63)


def _floordiv(x: Value, y: Value) -> Value:
    return x // y if _is_nonzero(y) else np.where(y == 0, 0, x // np.where(y == 0, 1, y))


def _mod(x: Value, y: Value) -> Value:
    return x % y if _is_nonzero(y) else np.where(y == 0, 0, x % np.where(y == 0, 1, y))


def _is_nonzero(y: Value) -> bool:
    return y != 0 if isinstance(y, int) else bool(np.all(y))


_NUMBERS: dict[str, Callable[..., Value]] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "floordiv": _floordiv,
    "mod": _mod, "less": lambda x, y: x < y, "less_equal": lambda x, y: x <= y, "greater": lambda x, y: x > y,
    "greater_equal": lambda x, y: x >= y, "equal": lambda x, y: x == y, "not_equal": lambda x, y: x != y,
    "logical_and": lambda x, y: x & y, "logical_or": lambda x, y: x | y, "logical_not": lambda x: x ^ True,
    "bitwise_and": lambda x, y: x & y, "bitwise_or": lambda x, y: x | y, "bitwise_xor": lambda x, y: x ^ y,
    "left_shift": lambda x, y: x << y, "right_shift": lambda x, y: x >> y, "neg": lambda x: -x,
    "minimum": np.minimum, "maximum": np.maximum, "abs": abs,
}
