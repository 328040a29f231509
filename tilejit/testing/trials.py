"""The runs of a judgement: which data, shapes, special values and layouts a candidate gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..dataclass import dataclass, field
from .bans import fill
from .bounds import Array, Computes, is_float

if TYPE_CHECKING:
    from .judging import JudgeOptions

TrialKind = Literal["first", "changed", "repeated", "shape", "special", "layout"]
#: maximum number of shapes that are drawn beside the given ones
_MOST_EDGES = 12
#: share of the elements that are special values
_SHARE = 0.1
_SPECIAL = {"nan": (np.nan,), "inf": (np.inf, -np.inf), "-0.0": (-0.0,)}


@dataclass(frozen=True, slots=True)
class JudgeTrial:
    """One run of a candidate. reuses: if it gets the buffers of the trial before it, with other contents."""

    kind: TrialKind
    name: str
    values: list[Any]
    layout: str = ""
    reuses: bool = False

    def room(self, value: Array) -> tuple[Array, Callable[[Any], Any]]:
        """Return memory that contains an array with this trial's layout, and the function that takes it from there."""
        if self.layout == "strided" and value.ndim and value.shape[-1] > 1:
            extent = 2 * value.shape[-1]
            room = np.empty((*value.shape[:-1], extent + 1), value.dtype)
            fill(room)
            return room, lambda whole: whole[..., :extent:2]
        if self.layout == "transposed" and value.ndim > 1:
            return np.ascontiguousarray(value.swapaxes(-1, -2)), lambda whole: whole.swapaxes(-1, -2)
        if self.layout == "misaligned":
            room = np.empty(value.size + 1, value.dtype)
            fill(room)
            return room, lambda whole: whole[1:].reshape(value.shape)
        return value, lambda whole: whole


@dataclass(slots=True)
class Plan:
    trials: list[JudgeTrial]
    notes: list[str] = field(default_factory=list)


def planned(draw: Callable[[int, int], list[Any]], options: JudgeOptions, compute: Computes) -> Plan:
    """Return the trials. compute: the reference, which must accept the inputs of a trial that the judge has changed."""
    seed = options.seed
    first, changed = draw(seed, 0), draw(seed + 1, 0)
    compute(first)
    is_equal_shape = _shapes(first) == _shapes(changed)
    plan = Plan([
        JudgeTrial("first", "first call", first),
        JudgeTrial("changed", "changed data in the same buffers", changed, reuses=is_equal_shape),
        JudgeTrial("repeated", "equal data in new buffers", first),
    ])
    for variant in range(1, options.variants):
        plan.trials.append(JudgeTrial("shape", f"shape variant {variant}", draw(seed + 1 + variant, variant)))
    base = draw(seed + 2, 0)
    candidates = [*_edges(base, options), *_special(base, options), *_layouts(base, options)]
    for trial in candidates:
        try:
            if trial.kind != "layout":
                compute(trial.values)
        except Exception as error:
            # the reference may refuse a shape or value in any way
            plan.notes.append(f"{trial.name}: the reference fails with {type(error).__name__}")
            continue
        plan.trials.append(trial)
    return plan


def _shapes(values: Sequence[Any]) -> list[Any]:
    return [x.shape if isinstance(x, np.ndarray) else None for x in values]


def _edges(values: list[Any], options: JudgeOptions) -> list[JudgeTrial]:
    """Return trials with other extents. Equal extents change together, as do scalars that are equal to them."""
    wanted = options.edges
    arrays = [x for x in values if isinstance(x, np.ndarray)]
    extents = list(dict.fromkeys(n for x in arrays for n in x.shape if n > 1))
    extents = [n for n in extents if (wanted if isinstance(wanted, bool) else n in wanted)]
    pairs = [*((n, n - 1) for n in extents), *((n, n + 1) for n in extents), *((n, 1) for n in extents)]
    trials = []
    for old, new in list(dict.fromkeys(pairs))[:_MOST_EDGES]:
        changed = [_resized(x, old, new) for x in values]
        trials.append(JudgeTrial("shape", f"extent {old} changed to {new}", changed))
    return trials


def _resized(value: Any, old: int, new: int) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return new if value == old else value
    if not isinstance(value, np.ndarray):
        return value
    shape = tuple(new if n == old else n for n in value.shape)
    # repeats the elements from the first on, if there are more
    return np.resize(value, shape) if shape != value.shape else value.copy()


def _special(values: list[Any], options: JudgeOptions) -> list[JudgeTrial]:
    trials = []
    if not any(map(is_float, values)):
        return []
    for number, name in enumerate(options.special):
        random = np.random.default_rng((options.seed, number))
        changed = [_strewn(x, _SPECIAL[name], random) if is_float(x) else x for x in values]
        trials.append(JudgeTrial("special", f"inputs with {name}", changed))
    return trials


def _strewn(array: Array, special: Sequence[float], random: np.random.Generator) -> Array:
    """Return a copy with special values at a share of the elements, at least at one."""
    result: Array = array.copy()
    if array.size:
        flat = result.reshape(-1)
        count = max(1, round(_SHARE * array.size))
        flat[random.permutation(array.size)[:count]] = np.resize(np.array(special), count).astype(array.dtype)
    return result


def _layouts(values: list[Any], options: JudgeOptions) -> list[JudgeTrial]:
    if not options.layouts:
        return []
    layouts = ("strided", "transposed", "misaligned")
    return [JudgeTrial("layout", f"{layout} arrays", values, layout) for layout in layouts]
