"""Validation of the arguments that users pass to layouts."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import TypeVar

from ..errors import LayoutError
from ..wording import shown, with_article

T = TypeVar("T")


def integer(value: object, what: str, hint: str, *, least: int | None = None) -> int:
    """Return `value` as an int; raise LayoutError if it isn't an integer or is below `least`. what: its name."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise LayoutError(f"{what} must be an integer; got {shown(value)}", hint=hint) from None
    if least is not None and number < least:
        raise LayoutError(f"{what} must be at least {least}; got {shown(number)}", hint=hint)
    return number


def items(values: object, what: str, hint: str) -> tuple[object, ...]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise LayoutError(f"{what} must be a tuple; got {shown(values)}", hint=hint)
    return tuple(values)


def integers(values: object, what: str, hint: str, *, least: int | None = None) -> tuple[int, ...]:
    if type(values) is tuple and all(type(n) is int and (least is None or n >= least) for n in values):
        return values
    return tuple(integer(n, f"each number of {what}", hint, least=least) for n in items(values, what, hint))


def extents(shape: object, what: str = "a shape") -> tuple[int, ...]:
    return integers(shape, what, "give a tuple of positive integers, such as (32, 8)", least=1)


def instance(value: object, kind: type[T], what: str, hint: str) -> T:
    if not isinstance(value, kind):
        raise LayoutError(f"{what} must be {with_article(kind.__name__)}; got {shown(value)}", hint=hint)
    return value


def other_layout(layout: T, other: T) -> T:
    """Return `other`; raise LayoutError if it isn't a layout like `layout`."""
    return instance(other, type(layout), "the other layout", "write S[extents : strides]")
