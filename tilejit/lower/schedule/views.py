"""One index over several operands at once: its digits, and the stride of each digit in every operand.

A copy of 8 x 32 elements from shared memory with rows of 40 to a warp's registers, a quarter of a row per lane:

    digit                  row          quarter      element
    extent                 8            4            8
    dim, weight            0, 1         1, 8         1, 1
    stride in registers    Thread(4)    Thread(1)    1            lane 4*row + quarter, register element
    stride in memory       40           8            1            address 40*row + 8*quarter + element
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import count
from math import prod
from operator import attrgetter

from ...dataclass import field, lean
from ...dtypes import DType
from ...errors import LayoutError
from ...ir.arithmetic import build
from ...ir.nodes import Buffer, Const, Expr
from ...remember import LIMIT, remembered
from .digits import Digit, common_digits, counting, digits_of, folded_digit, joined_digits
from .placement import DigitStep, Placement, need_slice
from .registers import RegisterRun
from .strides import Folded, Stride, Term, Thread, goes_on, total_along
from .swizzles import advanced, swizzled


@lean(frozen=True, slots=True)
class Space:
    """The index space of an operation."""

    #: (m, n, k) for products; otherwise the extents other than 1 of the destination, or of a reduction's source
    dims: tuple[int, ...]
    #: number of values that the digits have in each dimension; those past the extent are padding
    counted: tuple[int, ...]
    padded: tuple[int, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        every = enumerate(zip(self.dims, self.counted, strict=True))
        object.__setattr__(self, "padded", tuple([d for d, (n, count) in every if n < count]))


#: used with `map`, which avoids the Python frame of a comprehension
_NAME, _EXTENT = attrgetter("name"), attrgetter("extent")


@lru_cache(LIMIT)
def broadcast_along(shape: tuple[int, ...], to: tuple[int, ...]) -> tuple[int | None, ...]:
    """Map each non-unit dimension of `to` to a non-unit dimension of `shape`, or to None if `shape` is broadcast."""
    leading, kept = len(to) - len(shape), count()
    return tuple(
        next(kept) if k >= leading and shape[k - leading] != 1 else None for k, extent in enumerate(to) if extent != 1
    )


@lean(frozen=True, slots=True)
class View:
    """One operand of a schedule, with its stride along each digit."""

    name: str
    placement: Placement
    #: for each dimension of the space, the buffer's dimension along it; None if the operand is broadcast
    dims: tuple[int | None, ...]
    digits: tuple[Digit, ...]
    space: Space
    strides: tuple[Stride, ...] = field(init=False, compare=False, repr=False)
    buffer: Buffer = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "strides", tuple([dict(digit.strides)[self.name] for digit in self.digits]))
        object.__setattr__(self, "buffer", self.placement.buffer)

    def then(self, faster: View) -> View:
        return View(self.name, self.placement, self.dims, (*self.digits, *faster.digits), self.space)

    @property
    def start(self) -> Expr:
        return self.placement.start

    @property
    def reach(self) -> int:
        """The distance from the first to the last element along positive constant strides."""
        reach = 0
        for digit, stride in zip(self.digits, self.strides, strict=True):
            if isinstance(stride, int) and stride > 0:
                reach += (digit.extent - 1) * stride
        return reach

    def access(self, verb: str, width: int) -> str:
        dtype = self.buffer.dtype
        bits = width * dtype.bits
        lane = 64 if dtype.bits == 64 else min(bits, 32)
        count = bits // lane
        return f"{verb}.{self.buffer.space}" + (f".v{count}" if count > 1 else "") + f".b{lane}"

    def touched(self, length: int) -> RegisterRun:
        """Return the registers that the operand covers if its digits count vectors of `length` registers each."""
        return RegisterRun(self.buffer, self.start, self.reach + length)

    def at(self, values: Sequence[Expr]) -> Expr:
        """Return the unswizzled address at these values of the digits."""
        return total_along((*self.placement.terms, *self._terms(values)), self.buffer.index_dtype)

    def distance(self, values: Sequence[Expr]) -> Expr:
        """Return the unswizzled distance of these values of the digits from the operand's start."""
        return total_along(self._terms(values), self.buffer.index_dtype)

    def _terms(self, values: Sequence[Expr]) -> list[Term]:
        return list(zip(self.strides, values, strict=True))

    def located(self, index: Expr) -> Expr:
        """Return the unswizzled address of a flat index, which counts all digits."""
        return total_along((*self.placement.terms, *self._counted(index)), self.buffer.index_dtype)

    def steps(self, index: Expr) -> Expr:
        """Return the unswizzled distance of a flat index from the operand's start."""
        if isinstance(index, Const) and index.value == 0 and Folded not in map(type, self.strides):
            return build.const(0, self.buffer.index_dtype)
        return total_along(self._counted(index), self.buffer.index_dtype)

    def address(self, index: Expr) -> Expr:
        return self.swizzled(self.located(index))

    def adds_up(self, step: int, count: int) -> bool:
        """True only if steps(a + b) = steps(a) + steps(b) whenever a + b < `count`, b < `step` and `step` divides a."""
        extents, strides = _chained(self)
        below = [prod(extents[k:]) for k in range(1, len(extents))]
        folded = any(isinstance(stride, Folded) for stride in strides)
        return not folded and all(step % b == 0 or b % step == 0 or b >= count for b in below)

    def _counted(self, index: Expr) -> list[Term]:
        extents, strides = _chained(self)
        return list(zip(strides, digits_of(index, extents), strict=True))

    def swizzled(self, address: Expr) -> Expr:
        return swizzled(address, self.placement.swizzle)

    def advanced(self, base: Expr, plain: Expr, moved: Expr) -> Expr:
        return advanced(self.placement.swizzle, base, plain, moved)

    def of_thread(self, thread: Expr) -> list[Expr]:
        """Return a thread's values of the digits, which must all be over threads."""
        return [DigitStep(d.extent, s).of_thread(thread) for d, s in zip(self.digits, self.strides, strict=True)]

    def coordinate(self, dim: int, values: Sequence[Expr], dtype: DType) -> Expr:
        """Return the index in dimension `dim` of the space at these values of the digits."""
        along = [(build.cast(v, dtype), d.weight) for d, v in zip(self.digits, values, strict=True) if d.dim == dim]
        # fast path for dimensions of one digit
        return build.mul(*along[0]) if len(along) == 1 else build.weighted_sum(along, dtype)


@lean(frozen=True, slots=True)
class Side:
    """An operand of a schedule, without its strides. dims: as in `View`."""

    name: str
    placement: Placement
    dims: tuple[int | None, ...]


@lean(frozen=True, slots=True)
class DigitSchedule:
    """An index into a space: its digits, slowest first, and the operands that it addresses."""

    space: Space
    digits: tuple[Digit, ...]
    operands: tuple[Side, ...]
    _views: dict[str, View] | None = field(default=None, init=False, compare=False, repr=False)

    @staticmethod
    def of(extents: tuple[int, ...], operands: Mapping[str, tuple[Placement, Sequence[int | None]]]) -> DigitSchedule:
        """Return the coarsest digits in which every operand has a single stride per digit.

        A dimension for which the operands have no common digits becomes one digit with `Folded` strides.
        extents: the space's extents. operands: for each name, the placement, and for each dimension of the space the
        placement's dimension along it, or None if the operand is broadcast.
        raises: LayoutError if a dimension without common digits is over threads, or a local tile lacks slots.
        """
        digits: list[Digit] = []
        counted: list[int] = []
        for dim, extent in enumerate(extents):
            moving: dict[str, tuple[DigitStep, ...]] = {}
            counts: dict[str, int] = {}
            for name, (placement, dims) in operands.items():
                d = dims[dim]
                if d is not None:
                    steps = moving[name] = placement.dims[d]
                    # fast path for dimensions of one step
                    counts[name] = steps[0].extent if len(steps) == 1 else prod([s.extent for s in steps])
            count = max(counts.values(), default=extent)
            there = dict(moving)
            if len(moving) < len(operands):
                there = {name: moving.get(name, (DigitStep(count, 0),)) for name in operands}
            for name, fewer in counts.items():
                if fewer < count:
                    there[name] = counting(moving[name], count, operands[name][0])
            counted.append(count)
            common = common_digits(there, dim)
            if common is None:
                _need_no_threads({name: operands[name][0] for name in moving}, there)
                common = (folded_digit(there, dim, count),)
            digits.extend(common)
        return DigitSchedule(
            Space(extents, tuple(counted)),
            tuple(digits),
            tuple([
                Side(name, placement, tuple([None if d is None else placement.places[d] for d in dims]))
                for name, (placement, dims) in operands.items()
            ]),
        )

    @staticmethod
    def of_same_shape(operands: Mapping[str, Placement]) -> DigitSchedule:
        """Return the schedule of operands of equal shapes, or raise LayoutError, e.g. if their shapes differ."""
        (first, shape), *others = ((name, placement.shape) for name, placement in operands.items())
        for name, other in others:
            if other != shape:
                raise LayoutError(
                    f"{first} has shape {shape}, but {name} has shape {other}",
                    hint="take operands of one shape; dimensions of 1 don't count",
                )
        return DigitSchedule.of(shape, {name: (each, range(len(shape))) for name, each in operands.items()})

    def __getitem__(self, name: str) -> View:
        return (self._views or self._viewed())[name]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(_NAME, self.operands))

    @property
    def views(self) -> tuple[View, ...]:
        return tuple((self._views or self._viewed()).values())

    def _viewed(self) -> dict[str, View]:
        space, digits = self.space, self.digits
        views = {each.name: View(each.name, each.placement, each.dims, digits, space) for each in self.operands}
        object.__setattr__(self, "_views", views)
        return views

    @property
    def is_folded(self) -> bool:
        for digit in self.digits:
            if digit.is_folded:
                return True
        return False

    @property
    def count(self) -> int:
        return prod(map(_EXTENT, self.digits))

    def digits_of(self, index: Expr) -> list[Expr]:
        return digits_of(index, tuple(map(_EXTENT, self.digits)))

    def over(self, digits: Iterable[Digit]) -> DigitSchedule:
        return DigitSchedule(self.space, tuple(digits), self.operands)

    def where(self, holds: Callable[[Digit], bool]) -> DigitSchedule:
        return self.over(filter(holds, self.digits))

    def split_by_owner(self, owner: str) -> tuple[DigitSchedule, DigitSchedule]:
        """Split the schedule into the digits that are spread over threads in operand `owner`, and the others."""
        spread: list[Digit] = []
        held: list[Digit] = []
        for digit in self.digits:
            (spread if digit.is_spread(owner) else held).append(digit)
        return self.over(spread), self.over(held)

    def then(self, faster: DigitSchedule) -> DigitSchedule:
        return self.over((*self.digits, *faster.digits))

    def ordered(self, by: Callable[[Digit], float]) -> DigitSchedule:
        return self.over(sorted(self.digits, key=by, reverse=True)) if len(self.digits) > 1 else self

    def joined(self) -> DigitSchedule:
        """Merge adjacent contiguous digits, but no dimension with padding or edges, which masks test, with another."""
        if len(self.digits) < 2:
            return self
        edges = set(self.space.padded) | {
            dim
            for each in self.operands
            for dim, place in enumerate(each.dims)
            if place is not None and place in each.placement.edges
        }
        return self.over(joined_digits(self.digits, edges))

    def in_vectors(self, width: int) -> DigitSchedule:
        """Return the schedule that counts vectors of `width` along the last digit; the last vector may be partial."""
        if width == 1:
            return self
        *slower, last = self.digits
        counted = last.in_vectors(width)
        return self.over((*slower, *([counted] if counted.extent > 1 else [])))

    @property
    def run_length(self) -> int:
        """The extent of the last digit if its stride is 1 in every operand, else 1."""
        if not self.digits:
            return 1
        last = self.digits[-1]
        for _, stride in last.strides:
            if stride != 1:
                return 1
        return last.extent

    def among(self, names: Sequence[str]) -> DigitSchedule:
        if tuple(names) == self.names:
            return self
        digits = [Digit(d.extent, d.dim, d.weight, tuple([(name, d[name]) for name in names])) for d in self.digits]
        return DigitSchedule(self.space, tuple(digits), tuple([each for each in self.operands if each.name in names]))


@remembered
def _chained(view: View) -> tuple[list[int], list[Stride]]:
    """Return the extents and strides of the digits, merged wherever this operand is contiguous."""
    extents: list[int] = []
    strides: list[Stride] = []
    for digit, stride in zip(view.digits, view.strides, strict=True):
        extent = digit.extent
        while strides and goes_on(strides[-1], stride, extent):
            extent *= extents.pop()
            strides.pop()
        extents.append(extent)
        strides.append(stride)
    return extents, strides


def _need_no_threads(operands: Mapping[str, Placement], there: Mapping[str, tuple[DigitStep, ...]]) -> None:
    if not any(isinstance(s.stride, Thread) for steps in there.values() for s in steps):
        return
    for placement in operands.values():
        need_slice(placement)
    split = {name: "·".join(str(s.extent) for s in steps) for name, steps in there.items()}
    listed = " and ".join(f"{placement.buffer.name} as {split[name]}" for name, placement in operands.items())
    raise LayoutError(
        f"a dimension over threads has no digits common to the operands: {listed}",
        hint="choose layouts and regions whose extents divide each other",
    )
