"""The mixed-radix digits of an index that several operands share, derived from the steps of each operand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from functools import lru_cache
from math import prod

from ...dataclass import lean
from ...dtypes import int64
from ...errors import LayoutError
from ...ir.arithmetic import build
from ...ir.nodes import Const, Expr
from ...layout.grouping import common_refinement
from ...layout.iters import weights
from ...remember import LIMIT
from .placement import DigitStep, Placement
from .strides import Folded, Scaled, Stride, Thread, goes_on, times


@lean(frozen=True, slots=True)
class Digit:
    """One mixed-radix digit of an index into a `views.Space`."""

    extent: int
    #: the digit's dimension of the space; None if it merges digits that aren't consecutive in one dimension
    dim: int | None
    #: the increment of the index in that dimension per step of the digit
    weight: int
    #: the stride in each operand, by name; 0 if the operand is broadcast
    strides: tuple[tuple[str, Stride], ...]

    def __getitem__(self, operand: str) -> Stride:
        for name, stride in self.strides:
            if name == operand:
                return stride
        raise KeyError(operand)

    @property
    def is_folded(self) -> bool:
        for _, stride in self.strides:
            if isinstance(stride, Folded):
                return True
        return False

    def is_spread(self, operand: str) -> bool:
        return isinstance(self[operand], Thread)

    def threads(self, operand: str) -> int:
        stride = self[operand]
        assert isinstance(stride, Thread)
        return stride.stride

    def elements(self, operand: str) -> int:
        """Return the stride of `operand` in memory or registers, which must be a constant."""
        stride = self[operand]
        assert isinstance(stride, int)
        return stride

    def split(self, inner: int) -> tuple[Digit, Digit]:
        """Return (slower, faster), where `faster` has `inner` values; `inner` must divide the extent."""
        return self._every(inner, self.extent // inner), Digit(inner, self.dim, self.weight, self.strides)

    def in_vectors(self, width: int) -> Digit:
        """Return the digit that counts vectors of `width` values; the last vector may be partial."""
        return self._every(width, -(-self.extent // width))

    def _every(self, count: int, extent: int) -> Digit:
        strides = tuple([(name, times(stride, count)) for name, stride in self.strides])
        return Digit(extent, self.dim, self.weight * count, strides)


def digits_of(index: Expr, extents: Sequence[int]) -> list[Expr]:
    """Return the digits of `index`, slowest first; `index` must be below the product of the extents."""
    values: list[Expr] = []
    weight = prod(extents)
    for k, extent in enumerate(extents):
        weight //= extent
        if isinstance(index, Const):
            number = int(index.value) // weight
            values.append(build.const(number % extent if k else number, index.dtype))
            continue
        value = build.floordiv(index, weight) if weight > 1 else index
        values.append(build.mod(value, extent) if k else value)
    return values


def joined_digits(digits: Iterable[Digit], edges: Set[int]) -> list[Digit]:
    """Merge adjacent digits that are contiguous in every operand, but no dimension in `edges` with another one."""
    run: list[Digit] = []
    for digit in digits:
        while run and _continues(run[-1], digit, edges):
            digit = _merged(run.pop(), digit)
        run.append(digit)
    return run


def counting(steps: tuple[DigitStep, ...], count: int, placement: Placement) -> tuple[DigitStep, ...]:
    """Extend `steps` to `count` values, or raise LayoutError if a local tile has fewer. Added values are masked."""
    counted = prod([step.extent for step in steps])
    if counted == count:
        return steps
    if placement.buffer.space == "local":
        raise LayoutError(
            f"{placement.buffer.name} has {counted} slots along a dimension; another tile has {count}",
            hint="copy it to a tile with the other's layout first",
        )
    slowest, *faster = steps
    inner = counted // slowest.extent
    if count % inner:
        return (DigitStep(count, _folded(steps)),)
    return (DigitStep(count // inner, slowest.stride), *faster)


def common_digits(there: Mapping[str, tuple[DigitStep, ...]], dim: int) -> tuple[Digit, ...] | None:
    """Return the coarsest common digits of the operands along `dim`; None if there are none or a stride is folded."""
    if max(map(len, there.values())) == 1:
        # fast path for most dimensions: every operand has one stride
        return _one_digit(there, dim)
    return _common_digits(tuple(there.items()), dim)


@lru_cache(LIMIT)
def _common_digits(operands: tuple[tuple[str, tuple[DigitStep, ...]], ...], dim: int) -> tuple[Digit, ...] | None:
    """Implement `common_digits`. Cached because the tiles of a kernel have few distinct layouts."""
    there = dict(operands)
    if Folded in {type(step.stride) for steps in there.values() for step in steps}:
        return None
    try:
        extents, marks = common_refinement([[s.extent for s in steps] for steps in there.values()])
    except LayoutError:
        return None
    strides = {
        name: _refined(steps, extents, mark) for (name, steps), mark in zip(there.items(), marks, strict=True)
    }
    return tuple([
        Digit(extent, dim, weight, tuple([(name, strides[name][k]) for name in there]))
        for k, (extent, weight) in enumerate(zip(extents, weights(extents), strict=True))
        if extent > 1
    ])


def _one_digit(there: Mapping[str, tuple[DigitStep, ...]], dim: int) -> tuple[Digit, ...] | None:
    """Implement `common_digits` for a dimension along which every operand has one step; () if its extent is 1."""
    strides: list[tuple[str, Stride]] = []
    for name, (step,) in there.items():
        if isinstance(step.stride, Folded):
            return None
        strides.append((name, step.stride))
    (extent,) = {step.extent for (step,) in there.values()}
    return (Digit(extent, dim, 1, tuple(strides)),) if extent > 1 else ()


def _refined(steps: tuple[DigitStep, ...], extents: tuple[int, ...], marks: tuple[int, ...]) -> list[Stride]:
    """Return the strides of `extents`, which refine `steps`: step k covers extents[marks[k] : marks[k + 1]]."""
    strides: list[Stride] = []
    for k, step in enumerate(steps):
        strides.extend(times(step.stride, weight) for weight in weights(extents[marks[k] : marks[k + 1]]))
    return strides


def folded_digit(there: Mapping[str, tuple[DigitStep, ...]], dim: int, extent: int) -> Digit:
    """Return a single digit for all of dimension `dim`, which no operand may spread over threads."""
    return Digit(extent, dim, 1, tuple((name, _folded(steps)) for name, steps in there.items()))


def _folded(steps: tuple[DigitStep, ...]) -> Stride:
    if len(steps) == 1 and isinstance(steps[0].stride, (int, Scaled, Folded)):
        return steps[0].stride
    parts = []
    for step, weight in zip(steps, weights([step.extent for step in steps]), strict=True):
        assert isinstance(step.stride, int)
        parts.append((weight, step.extent, step.stride))
    return Folded(Const(0, int64), tuple(parts))


def _continues(slow: Digit, fast: Digit, edges: Set[int]) -> bool:
    pairs = zip(slow.strides, fast.strides, strict=True)
    if not all(goes_on(a, b, fast.extent) for (_, a), (_, b) in pairs):
        return False
    return _one_dimension(slow, fast) or all(d.dim is None or d.dim not in edges for d in (slow, fast))


def _one_dimension(slow: Digit, fast: Digit) -> bool:
    return slow.dim is not None and slow.dim == fast.dim and slow.weight == fast.extent * fast.weight


def _merged(slow: Digit, fast: Digit) -> Digit:
    dim = fast.dim if _one_dimension(slow, fast) else None
    return Digit(slow.extent * fast.extent, dim, fast.weight, fast.strides)
