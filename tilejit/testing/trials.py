"""The runs of a judgement: which data, shapes, special values and layouts a candidate gets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from ..dataclass import dataclass
from ..wording import counted
from .bounds import Computes, is_float

#: maximum number of changed extents
_MOST_EDGES = 12
#: share of the elements that are special values
_SHARE = 0.1
SPECIAL = {"nan": (np.nan,), "inf": (np.inf, -np.inf), "-0.0": (-0.0,)}


class TrialData:
    """Inputs, and the reference's results for them in their own types. It is hashed by identity."""

    def __init__(self, values: list[Any], compute: Computes) -> None:
        self.values = values
        self.results = compute(values)


@dataclass(frozen=True, slots=True)
class JudgeTrial:
    """One run of a candidate.

    kind: "first", "changed" for other data in the buffers of the first one, "repeated", "shape", "special" or "layout".
    """

    kind: str
    name: str
    data: TrialData
    layout: str = ""

    def array(self, shape: tuple[int, ...], allocate: Callable[[tuple[int, ...]], Any]) -> Any:
        """Return an array with this trial's layout. allocate: returns a contiguous array of a shape."""
        if self.layout == "strided" and shape:
            return allocate((*shape[:-1], 2 * shape[-1] + 1))[..., : 2 * shape[-1] : 2]
        if self.layout == "transposed" and len(shape) > 1:
            return allocate((*shape[:-2], shape[-1], shape[-2])).swapaxes(-1, -2)
        if self.layout == "misaligned":
            return allocate((int(np.prod(shape)) + 1,))[1:].reshape(shape)
        return allocate(shape)


def planned(
    draw: Callable[[int], list[Any]], compute: Computes, seed: int, edges: bool | Collection[int], layouts: bool,
    special: Sequence[str],
) -> tuple[list[JudgeTrial], list[str]]:
    """Return the trials, and notes on those that the reference refuses.

    draw: returns the inputs for a seed. compute: the reference. See `judge` for the other ones.
    """
    first, changed, base = (TrialData(draw(seed + i), compute) for i in range(3))
    if _types(first.values) == _types(changed.values):
        second = JudgeTrial("changed", "changed data in the same buffers", changed)
    else:
        second = JudgeTrial("shape", "changed data of another shape", changed)
    trials = [JudgeTrial("first", "first call", first), second]
    trials.append(JudgeTrial("repeated", "equal data in new buffers", first))
    pairs = _edges(base.values, edges)
    changes = [
        ("shape", f"extent {old} changed to {new}", [_resized(x, old, new) for x in base.values])
        for old, new in pairs[:_MOST_EDGES]
    ]
    for number, name in enumerate(special if any(map(is_float, base.values)) else ()):
        random = np.random.default_rng((seed, number))
        changes.append(("special", f"inputs with {name}", [_strewn(x, SPECIAL[name], random) for x in base.values]))
    notes = [f"{counted(len(pairs) - _MOST_EDGES, 'further change')} of extents"] if len(pairs) > _MOST_EDGES else []
    for kind, name, values in changes:
        try:
            trials.append(JudgeTrial(kind, name, TrialData(values, compute)))
        except Exception as error:
            # the reference may refuse a shape or value in any way
            notes.append(f"{name}: the reference fails with {type(error).__name__}")
    if layouts:
        trials += [JudgeTrial("layout", f"{x} arrays", base, x) for x in ("strided", "transposed", "misaligned")]
    return trials, notes


def _types(values: list[Any]) -> list[Any]:
    return [(x.shape, x.dtype) if isinstance(x, np.ndarray) else None for x in values]


def _edges(values: list[Any], wanted: bool | Collection[int]) -> list[tuple[int, int]]:
    """Return pairs of an extent and the one to which it changes."""
    extents = {n: None for x in values if isinstance(x, np.ndarray) for n in x.shape if n > 1}
    chosen = [n for n in extents if (wanted if isinstance(wanted, bool) else n in wanted)]
    pairs = [*((n, n - 1) for n in chosen), *((n, n + 1) for n in chosen), *((n, 1) for n in chosen)]
    return list(dict.fromkeys(pairs))


def _resized(value: Any, old: int, new: int) -> Any:
    """Return a copy with another extent, also of a scalar that is equal to the old one."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return type(value)(new) if value == old else value
    if not isinstance(value, np.ndarray):
        return value
    # repeats the elements from the first on, if there are more
    return np.resize(value, [new if n == old else n for n in value.shape]) if old in value.shape else value


def _strewn(value: Any, special: Sequence[float], random: np.random.Generator) -> Any:
    """Return a copy of an array of floats with special values at a share of the elements; other values as they are."""
    if not is_float(value):
        return value
    flat = value.flatten()
    count = min(max(1, round(_SHARE * value.size)), value.size)
    flat[random.permutation(value.size)[:count]] = np.resize(np.array(special), count).astype(value.dtype)
    return flat.reshape(value.shape)
