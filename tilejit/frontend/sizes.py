"""Size limits of compile-time values, checked before Python computes a value whose size can be estimated."""

from __future__ import annotations

import builtins
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType
from typing import Any

from ..errors import KernelTypeError

#: the maximum number of bits of an integer
MAX_BITS = 4096
#: the maximum length of a string, and the maximum number of elements of a tuple and of the tuples nested in it
MAX_ELEMENTS = 65_536

_HINT = "use smaller numbers, or compute the value outside the kernel and capture it"


def check_elements(count: int, what: str = "tuple") -> None:
    """Raise KernelTypeError if a string or a tuple has too many elements. what: the name of its type."""
    if count > MAX_ELEMENTS:
        raise KernelTypeError(
            f"a {what} of {_shown(count)} elements at compile time; the limit is {MAX_ELEMENTS:,}", hint=_HINT
        )


def check_value(value: Any) -> None:
    """Raise KernelTypeError for an integer, a string or bytes above the size limits."""
    if isinstance(value, int):
        _check_bits(value.bit_length())
    elif isinstance(value, (str, bytes)):
        check_elements(len(value), type(value).__name__)


def check_call(compute: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Raise KernelTypeError if the estimated size of the result of a call exceeds a limit."""
    check = _CHECKS.get(compute) if isinstance(compute, BuiltinFunctionType) else None
    if check is not None:
        check(*arguments, **keywords)


def _check_bits(bits: int) -> None:
    if bits > MAX_BITS:
        raise KernelTypeError(
            f"an integer of {_shown(bits)} bits at compile time; the limit is {MAX_BITS:,}", hint=_HINT
        )


def _shown(count: int) -> str:
    return f"{count:,}" if count.bit_length() <= 64 else f"about 2**{count.bit_length() - 1}"


def _elements(items: tuple[Any, ...]) -> int:
    return sum(_elements(item) if type(item) is tuple else 1 for item in items)


def _mul(a: Any, b: Any) -> None:
    if isinstance(a, int) and isinstance(b, int):
        return
    for items, times in ((a, b), (b, a)):
        if hasattr(items, "__len__") and isinstance(times, int) and times > 0:
            count = _elements(items) if type(items) is tuple else len(items)
            check_elements(count * times, type(items).__name__)


def _pow(base: Any, exp: Any, mod: Any = None) -> None:
    if mod is not None or not isinstance(exp, int) or isinstance(base, (float, complex)):
        return
    # other numbers, such as a Fraction, are assumed to grow by a bit per multiplication
    bits = base.bit_length() - 1 if isinstance(base, int) else 1
    if exp > 0 and bits > 0:
        _check_bits(bits * exp)
    if exp < 0 and not isinstance(base, int):
        _check_bits(-exp)


def _lshift(number: Any, by: Any) -> None:
    if isinstance(number, int) and isinstance(by, int) and number:
        _check_bits(number.bit_length() + by)


def _mod(text: Any, values: Any) -> None:
    if not isinstance(text, (str, bytes)):
        return
    _check_widths(text if isinstance(text, str) else text.decode("latin-1"))
    # the width may be one of the values: "%*d"
    if "*" in str(text):
        for value in values if isinstance(values, tuple) else (values,):
            if isinstance(value, int):
                check_elements(value, "str")


def _format(_: Any, spec: Any = "") -> None:
    if isinstance(spec, str):
        _check_widths(spec)


def _check_widths(spec: str) -> None:
    """Check widths and precisions, which are the numbers in a format."""
    for digits in re.findall(r"\d+", spec):
        check_elements(int(digits) if len(digits) < 20 else 10 ** (min(len(digits), 4000) - 1), "str")


def _round(number: Any, ndigits: Any = None) -> None:
    if isinstance(number, int) and isinstance(ndigits, int) and ndigits < 0:
        _check_bits(-3 * ndigits)


def _perm(n: Any, k: Any = None) -> None:
    if isinstance(n, int) and isinstance(k, (int, type(None))) and n > 0:
        # the product has this many factors of at least n / 2
        factors = n // 2 if k is None else min(k, n // 2)
        _check_bits(factors * max(n.bit_length() - 2, 0))


def _comb(n: Any, k: Any) -> None:
    if isinstance(n, int) and isinstance(k, int) and 0 < k < n:
        # the result is at least (n / chosen) ** chosen
        chosen = min(k, n - k)
        _check_bits(chosen * max(n.bit_length() - 1 - chosen.bit_length(), 1))


def _prod(items: Any, start: Any = 1) -> None:
    factors = (*items, start) if isinstance(items, tuple) else ()
    if not all(isinstance(factor, (int, float, complex)) for factor in factors):
        raise TypeError("math.prod multiplies numbers")
    _check_bits(sum(factor.bit_length() - 1 for factor in factors if isinstance(factor, int) and factor))


def _lcm(*numbers: Any) -> None:
    least = 1
    for number in numbers:
        if not isinstance(number, int):
            return
        least = math.lcm(least, number)
        _check_bits(least.bit_length())


_CHECKS: dict[Any, Callable[..., None]] = {
    operator.mul: _mul,
    operator.pow: _pow,
    operator.lshift: _lshift,
    operator.mod: _mod,
    builtins.pow: _pow,
    builtins.format: _format,
    builtins.round: _round,
    math.factorial: _perm,
    math.perm: _perm,
    math.comb: _comb,
    math.prod: _prod,
    math.lcm: _lcm,
}
