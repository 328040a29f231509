"""Arithmetic of PTX instructions on NumPy arrays and scalars; translated code calls these functions by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import convert, directed, floats, integer, products

FUNCTIONS: dict[str, Callable[..., Any]] = {
    **integer.FUNCTIONS, **floats.FUNCTIONS, **directed.FUNCTIONS, **convert.FUNCTIONS, **products.FUNCTIONS,
    "abs": abs,
}
