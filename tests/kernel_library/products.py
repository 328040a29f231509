"""Operands of products inside NaN, and the bound on the error of `tilejit.kernels.matmul`."""

from __future__ import annotations

from collections.abc import Callable
from math import erf
from typing import Any

import numpy as np

import tilejit as tj

Array = np.ndarray[Any, Any]

#: relative and absolute error of rounding to each type of result
ROUNDING = {"float16": (2.0**-11, 2.0**-25), "bfloat16": (2.0**-8, 0.0), "float32": (2.0**-24, 0.0)}
#: activation -> the function, and the most that it stretches an error
ACTIVATIONS: dict[Any, tuple[Callable[[Array], Array], float]] = {
    None: (lambda x: x, 1.0),
    "relu": (lambda x: np.maximum(x, 0), 1.0),
    "gelu": (lambda x: x * (1 + np.vectorize(erf, otypes=[float])(x / 2**0.5)) / 2, 1.13),
    "silu": (lambda x: x / (1 + np.exp(-x)), 1.1),
}


def inside(values: Array, dtype: tj.DType, *, by_rows: bool = True, pad: int = 8, shift: int = 0) -> Array:
    """Return the values as a part of an array of NaN, so that what is read outside them shows.

    by_rows: rows are contiguous, not columns. pad: rows (columns) start at multiples of `pad` elements.
    shift: elements before the first.
    """
    turned = values if by_rows else values.swapaxes(-1, -2)
    *outer, rows, columns = turned.shape
    stride = -(-(columns + shift + 1) // pad) * pad
    whole = np.full((*outer, rows + 2, stride), np.nan, dtype.numpy)
    cut = whole[..., :rows, shift : shift + columns]
    cut[...] = turned
    return cut if by_rows else cut.swapaxes(-1, -2)


def drawn(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


def check(
    c: Array, a: Array, b: Array, bias: Array | None = None, activation: Any = None, residual: Array | None = None
) -> None:
    """Fail unless each element is within the bound that `matmul` states of activation(a @ b + bias) + residual."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    wanted = a @ b
    bound = (a.shape[-1] / 8 + 8) * 2.0**-23 * (abs(a) @ abs(b))
    if bias is not None:
        wanted = wanted + bias.astype(np.float64)
        bound = bound + 8 * 2.0**-23 * abs(bias.astype(np.float64))
    function, stretch = ACTIVATIONS[activation]
    wanted = function(wanted)
    # the functions themselves err by at most 4 units in the last place
    bound = stretch * bound + 4 * 2.0**-23 * abs(wanted)
    if residual is not None:
        wanted = wanted + residual.astype(np.float64)
        bound = bound + 2.0**-23 * abs(wanted)
    relative, absolute = ROUNDING[c.dtype.name]
    bound = bound + relative * (abs(wanted) + bound) + absolute
    assert c.shape == wanted.shape
    error = abs(c.astype(np.float64) - wanted)
    assert (error <= bound).all(), f"off by {np.max(error / np.maximum(bound, 1e-300), initial=0)} times the bound"
