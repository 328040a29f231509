"""A launch's checks that views in other shapes, `X.reshape(...)`, contain the elements of their arrays in order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..errors import LaunchError
from ..executable import Executable
from ..executable.record import Reshape
from ..ir.types import ScalarType
from ..wording import counted
from .arrays import Argument, ArrayView
from .signature import Call


def check_reshapes(executable: Executable, call: Call) -> None:
    """Raise LaunchError if an array can't be seen in a shape that the kernel gives it."""
    if not executable.reshapes:
        return
    # imported here, because few kernels need it
    from ..ir.arithmetic.evaluate import evaluate

    values, positions = values_of(executable, call.arguments), executable.positions
    for each in executable.reshapes:
        sides = each.shape, each.strides, each.new_shape, each.new_strides
        view = call.arguments[positions[each.of]]
        assert isinstance(view, ArrayView)
        _check(each, view, *[[int(evaluate(size, values)) for size in side] for side in sides])


def values_of(executable: Executable, arguments: Sequence[Argument]) -> dict[str, Any]:
    """Return the values of a launch's scalars, and of its arrays' extents and strides, by the names in the IR."""
    values: dict[str, Any] = {}
    for (name, _), argument in zip(executable.signature.arguments, arguments, strict=True):
        if isinstance(argument, ArrayView):
            facts = argument.facts
            values |= {f"{name}.shape.{d}": n for d, n in enumerate(facts.shape)}
            values |= {f"{name}.stride.{d}": n for d, n in enumerate(facts.passed_strides)}
        elif argument is not None:
            values[name] = argument
    return values


def reads_scalars(executable: Executable) -> bool:
    """True if the shape of a view, or of scratch, depends on scalars, which generated launchers don't look up."""
    if not executable.reshapes and not executable.scratch:
        return False
    from ..ir.names import names_in

    sizes = [size for each in executable.reshapes for size in each.new_shape]
    sizes += [size for each in executable.scratch for size in each.extents]
    names = {name for size in sizes for name in names_in(size)}
    return any(isinstance(kind, ScalarType) and name in names for name, kind in executable.signature.arguments)


def _check(
    reshape: Reshape, view: ArrayView, shape: list[int], strides: list[int], wanted: list[int], assumed: list[int]
) -> None:
    facts, new = view.facts, tuple(wanted)
    array = f"{reshape.of} of shape {facts.shape} and strides {facts.strides} (elements)"
    count, others = math.prod(shape), math.prod(wanted)
    if min(wanted, default=1) < 0:
        raise LaunchError(
            f"{array} can't be reshaped to {new}: extents aren't negative", span=reshape.span,
            hint="pass extents of at least 0, or one -1, which is computed from the others",
        )
    if count != others:
        raise LaunchError(
            f"{array} can't be reshaped to {new}: it has {counted(count, 'element')}, not {others}", span=reshape.span,
            hint="pass an array whose number of elements the extents divide",
        )
    fitting = strides_without_copy(shape, strides, wanted)
    if fitting is None or any(n > 1 and a != b for n, a, b in zip(wanted, fitting, assumed, strict=True)):
        why = "" if fitting is None else f", with strides {tuple(assumed)} as the kernel has been compiled,"
        raise LaunchError(
            f"{array} can't be reshaped to {new}{why} without a copy", span=reshape.span,
            hint="pass a contiguous copy, or write extents that stay the same as X.shape[d]",
        )


def strides_without_copy(shape: Sequence[int], strides: Sequence[int], wanted: Sequence[int]) -> list[int] | None:
    """Return the strides of an array in another shape with as many elements; None if elements have to move."""
    if 0 in shape:
        return [0] * len(wanted)
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    result = [0] * len(wanted)
    # the number of elements, `step` apart, that no later dimension has taken
    left, step = 1, 0
    for d in reversed(range(len(wanted))):
        if wanted[d] == 1:
            continue
        if left == 1:
            left, step = old.pop()
        while left % wanted[d]:
            extent, stride = old.pop() if old else (0, 0)
            if not extent or stride != left * step:
                return None
            left *= extent
        result[d] = step
        left, step = left // wanted[d], step * wanted[d]
    return result
