"""One index over several operands at once: its digits, and the stride of each digit in every operand.

A copy of 8 x 32 elements from shared memory with rows of 40 to a warp's registers, a quarter of a row per lane:

    digit                  row          quarter      element
    extent                 8            4            8
    dim, weight            0, 1         1, 8         1, 1
    stride in registers    Thread(4)    Thread(1)    1            lane 4*row + quarter, register element
    stride in memory       40           8            1            address 40*row + 8*quarter + element
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import lru_cache
from itertools import count
from math import prod
from operator import attrgetter

from ...dataclass import field, lean
from ...dtypes import DType, int64
from ...errors import LayoutError
from ...ir.arithmetic import build
from ...ir.nodes import Buffer, Const, Expr, TileOp
from ...layout.iters import common_refinement, weights
from ...ops.copies import INDEX
from ...remember import LIMIT, remembered_pair
from ..builder import RegisterRun
from .addresses import Folded, Scaled, Stride, Term, Thread, advanced, goes_on, swizzled, times, total_along
from .placement import DigitStep, Placement, need_all_threads, need_slice, place

#: an operand's placement and, for each dimension of the schedule, the placement's dimension along it (None if the
#: operand is broadcast)
Operand = tuple[Placement, Sequence[int | None]]


@lean(frozen=True, slots=True)
class Digit:
    """One mixed-radix digit of an index into the space of a `DigitSchedule`."""

    extent: int
    #: the digit's dimension of the space; None if it counts replicas or merges digits not consecutive in one dimension
    dim: int | None
    #: the increment of the index in that dimension per step of the digit
    weight: int
    #: the stride in each operand, by name; 0 if the operand is broadcast
    strides: Mapping[str, Stride] = field(hash=False)

    def is_spread(self, operand: str) -> bool:
        return isinstance(self.strides[operand], Thread)

    def threads(self, operand: str) -> int:
        stride = self.strides[operand]
        assert isinstance(stride, Thread)
        return stride.stride

    def elements(self, operand: str) -> int:
        """Return the stride of `operand` in memory or registers, which must be a constant."""
        stride = self.strides[operand]
        assert isinstance(stride, int)
        return stride

    def split(self, inner: int) -> tuple[Digit, Digit]:
        """Return (slower, faster), where `faster` has `inner` values; `inner` must divide the extent."""
        return self.in_vectors(inner), Digit(inner, self.dim, self.weight, self.strides)

    def in_vectors(self, width: int) -> Digit:
        """Return the digit that counts vectors of `width` values; the last vector may be partial."""
        strides = {name: times(stride, width) for name, stride in self.strides.items()}
        return Digit(-(-self.extent // width), self.dim, self.weight * width, strides)


#: used with `map`, which executes no Python code per digit
_EXTENT = attrgetter("extent")


@lean(frozen=True, slots=True)
class DigitSchedule:
    """An index into a space: its digits, slowest first, and the operands that it addresses."""

    #: the extents of the space: (m, n, k) for products; otherwise the extents other than 1 of the largest operand, such
    #: as the destination, or the source of a reduction
    extents: tuple[int, ...]
    #: number of values that the digits have in each dimension; those past the extent are padding
    counted: tuple[int, ...]
    #: the dimensions without digits common to the operands; each has one digit, with a `Folded` stride in some operands
    folded: tuple[int, ...]
    digits: tuple[Digit, ...]
    operands: Mapping[str, Operand] = field(hash=False)

    @staticmethod
    def of(extents: tuple[int, ...], operands: Mapping[str, Operand]) -> DigitSchedule:
        """Return the coarsest digits in which every operand has a single stride per digit.

        A dimension without common digits becomes one digit, with `Folded` strides in the operands that need them.
        raises: LayoutError if a dimension without common digits is over threads, or a local tile has too few slots.
        """
        digits: list[Digit] = []
        counted: list[int] = []
        folded: list[int] = []
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
                    there[name] = _counting(moving[name], count, operands[name][0])
            counted.append(count)
            common = _common_digits(tuple(there.items()), dim)
            if common is None:
                _need_no_threads({name: operands[name][0] for name in moving}, there)
                common = (Digit(count, dim, 1, {name: _folded(steps) for name, steps in there.items()}),)
                folded.append(dim)
            digits.extend(common)
        return DigitSchedule(extents, tuple(counted), tuple(folded), tuple(digits), operands)

    @staticmethod
    def of_same_shape(operands: Mapping[str, Placement]) -> DigitSchedule:
        """Return the schedule of operands of equal shapes, or raise LayoutError, e.g. if their shapes differ."""
        (first, shape), *others = ((name, placement.shape) for name, placement in operands.items())
        for name, other in others:
            if other != shape:
                raise LayoutError(
                    f"{first} has shape {shape}, but {name} has shape {other}",
                    hint="take operands of the same shape; dimensions of extent 1 don't count",
                )
        return DigitSchedule.of(shape, {name: (each, range(len(shape))) for name, each in operands.items()})

    def __getitem__(self, name: str) -> View:
        return View(self, name, self.operands[name][0], tuple([digit.strides[name] for digit in self.digits]))

    @property
    def views(self) -> tuple[View, ...]:
        return tuple(map(self.__getitem__, self.operands))

    @property
    def padded(self) -> tuple[int, ...]:
        """The indices of the dimensions of the space that have padding."""
        every = enumerate(zip(self.extents, self.counted, strict=True))
        return tuple([d for d, (n, count) in every if n < count])

    @property
    def count(self) -> int:
        return prod(map(_EXTENT, self.digits))

    def digits_of(self, index: Expr) -> list[Expr]:
        return _digits_of(index, tuple(map(_EXTENT, self.digits)))

    def over(self, digits: Iterable[Digit]) -> DigitSchedule:
        return DigitSchedule(self.extents, self.counted, self.folded, tuple(digits), self.operands)

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
        return self.over(sorted(self.digits, key=by, reverse=True))

    def joined(self) -> DigitSchedule:
        """Merge adjacent digits that are contiguous in every operand.

        Digits that aren't consecutive in one dimension are merged only if their dimensions have neither padding nor
        edges, because masks test the index in such a dimension.
        """
        edges = set(self.padded)
        for view in self.views:
            edges.update([dim for dim, d in enumerate(view.dims) if d in view.placement.edges])
        run: list[Digit] = []
        for digit in self.digits:
            while run and _continues(run[-1], digit, edges):
                slow = run.pop()
                dim = digit.dim if _one_dimension(slow, digit) else None
                digit = Digit(slow.extent * digit.extent, dim, digit.weight, digit.strides)
            run.append(digit)
        return self.over(run)

    def in_vectors(self, width: int) -> DigitSchedule:
        """Return the schedule that counts vectors of `width` along the last digit; the last of a run may be partial."""
        if width == 1:
            return self
        *slower, last = self.digits
        counted = last.in_vectors(width)
        return self.over((*slower, counted) if counted.extent > 1 else slower)

    def run_length(self, names: Iterable[str]) -> int:
        """Return the extent of the last digit if its stride is 1 in all operands `names`, else 1."""
        if not self.digits:
            return 1
        last = self.digits[-1]
        for name in names:
            if last.strides[name] != 1:
                return 1
        return last.extent


@lean(frozen=True, slots=True)
class View:
    """One operand of a schedule, with its stride along each digit."""

    schedule: DigitSchedule
    name: str
    placement: Placement
    strides: tuple[Stride, ...]

    @property
    def buffer(self) -> Buffer:
        return self.placement.region.buffer

    @property
    def dims(self) -> tuple[int | None, ...]:
        """For each dimension of the space, the buffer's dimension along it; None if the operand is broadcast."""
        along = self.schedule.operands[self.name][1]
        return tuple([None if d is None else self.placement.places[d] for d in along])

    @property
    def start(self) -> Expr:
        return self.placement.start

    @property
    def reach(self) -> int:
        """The distance from the first to the last element along positive constant strides."""
        reach = 0
        for digit, stride in zip(self.schedule.digits, self.strides, strict=True):
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
        return total_along((*self.placement.terms, *zip(self.strides, values, strict=True)), self.buffer.index_dtype)

    def distance(self, values: Sequence[Expr]) -> Expr:
        """Return the unswizzled offset from the operand's start at these values of the digits."""
        return total_along(zip(self.strides, values, strict=True), self.buffer.index_dtype)

    def located(self, index: Expr) -> Expr:
        """Return the unswizzled address of a flat index over all digits, slowest first."""
        return total_along((*self.placement.terms, *self._counted(index)), self.buffer.index_dtype)

    def steps(self, index: Expr) -> Expr:
        """Return the unswizzled distance of a flat index from the operand's start."""
        if isinstance(index, Const) and index.value == 0 and Folded not in map(type, self.strides):
            return build.const(0, self.buffer.index_dtype)
        return total_along(self._counted(index), self.buffer.index_dtype)

    def _counted(self, index: Expr) -> Iterable[Term]:
        extents, strides = _chained(self.schedule.digits, self.name)
        return zip(strides, _digits_of(index, extents), strict=True)

    def address(self, index: Expr) -> Expr:
        return self.swizzled(self.located(index))

    def adds_up(self, step: int, count: int) -> bool:
        """True only if steps(a + b) = steps(a) + steps(b) whenever a + b < `count`, b < `step` and `step` divides a."""
        extents, strides = _chained(self.schedule.digits, self.name)
        below = [prod(extents[k:]) for k in range(1, len(extents))]
        return Folded not in map(type, strides) and all(step % b == 0 or b % step == 0 or b >= count for b in below)

    def swizzled(self, address: Expr) -> Expr:
        return swizzled(address, self.placement.swizzle)

    def advanced(self, base: Expr, plain: Expr, moved: Expr) -> Expr:
        return advanced(self.placement.swizzle, base, plain, moved)

    def of_thread(self, thread: Expr) -> list[Expr]:
        """Return a thread's values of the digits, which must all be over threads."""
        every = zip(self.schedule.digits, self.strides, strict=True)
        return [DigitStep(digit.extent, stride).of_thread(thread) for digit, stride in every]

    def coordinate(self, dim: int, values: Sequence[Expr], dtype: DType) -> Expr:
        """Return the index in dimension `dim` of the space at these values of the digits."""
        every = zip(self.schedule.digits, values, strict=True)
        return build.weighted_sum([(build.cast(value, dtype), d.weight) for d, value in every if d.dim == dim], dtype)


@remembered_pair
def _chained(digits: tuple[Digit, ...], operand: str) -> tuple[list[int], list[Stride]]:
    """Return the extents of the digits and an operand's strides, merged where the operand is contiguous."""
    extents: list[int] = []
    strides: list[Stride] = []
    for digit in digits:
        extent, stride = digit.extent, digit.strides[operand]
        while strides and goes_on(strides[-1], stride, extent):
            extent *= extents.pop()
            strides.pop()
        extents.append(extent)
        strides.append(stride)
    return extents, strides


def _digits_of(index: Expr, extents: Sequence[int]) -> list[Expr]:
    """Return the digits of `index`, slowest first; the slowest digit isn't limited by its extent."""
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


@lru_cache(LIMIT)
def broadcast_along(shape: tuple[int, ...], to: tuple[int, ...]) -> tuple[int | None, ...]:
    """Return, for each non-unit dimension of `to`, its index among the non-unit ones of `shape`; None if broadcast."""
    leading, kept = len(to) - len(shape), count()
    return tuple(
        next(kept) if k >= leading and shape[k - leading] != 1 else None for k, extent in enumerate(to) if extent != 1
    )


@lru_cache(LIMIT)
def _common_digits(operands: tuple[tuple[str, tuple[DigitStep, ...]], ...], dim: int) -> tuple[Digit, ...] | None:
    """Return the coarsest common digits of the operands along `dim`; None if there are none or a stride is folded.

    Cached because the tiles of a kernel have few distinct layouts.
    """
    if Folded in {type(step.stride) for _, steps in operands for step in steps}:
        return None
    try:
        extents, marks = common_refinement([[s.extent for s in steps] for _, steps in operands])
    except LayoutError:
        return None
    strides: dict[str, list[Stride]] = {}
    for (name, steps), mark in zip(operands, marks, strict=True):
        # step k covers extents[mark[k] : mark[k + 1]]
        parts = [(step.stride, extents[mark[k] : mark[k + 1]]) for k, step in enumerate(steps)]
        strides[name] = [times(stride, weight) for stride, part in parts for weight in weights(part)]
    return tuple([
        Digit(extent, dim, weight, {name: each[k] for name, each in strides.items()})
        for k, (extent, weight) in enumerate(zip(extents, weights(extents), strict=True))
        if extent > 1
    ])


def _counting(steps: tuple[DigitStep, ...], count: int, placement: Placement) -> tuple[DigitStep, ...]:
    """Extend `steps` to `count` values, the added ones masked, or raise LayoutError if the tile is local."""
    counted = prod([step.extent for step in steps])
    if placement.buffer.space == "local":
        raise LayoutError(
            f"{placement.buffer.name} has {counted} slots along a dimension; another tile has {count}",
            hint="copy it to a tile with the other tile's layout first",
        )
    slowest, *faster = steps
    inner = counted // slowest.extent
    if count % inner:
        return (DigitStep(count, _folded(steps)),)
    return (DigitStep(count // inner, slowest.stride), *faster)


def _folded(steps: tuple[DigitStep, ...]) -> Stride:
    """Return the stride of a dimension that becomes one digit and isn't over threads."""
    if len(steps) == 1 and isinstance(steps[0].stride, (int, Scaled, Folded)):
        return steps[0].stride
    parts = []
    for step, weight in zip(steps, weights([step.extent for step in steps]), strict=True):
        assert isinstance(step.stride, int)
        parts.append((weight, step.extent, step.stride))
    return Folded(Const(0, int64), tuple(parts))


def _continues(slow: Digit, fast: Digit, edges: Set[int]) -> bool:
    """True if two digits are contiguous in every operand, and consecutive in one dimension or both outside `edges`."""
    if not all(goes_on(stride, fast.strides[name], fast.extent) for name, stride in slow.strides.items()):
        return False
    return _one_dimension(slow, fast) or all(d.dim is None or d.dim not in edges for d in (slow, fast))


def _one_dimension(slow: Digit, fast: Digit) -> bool:
    return slow.dim is not None and slow.dim == fast.dim and slow.weight == fast.extent * fast.weight


def need_same_threads(schedule: DigitSchedule, owner: str, name: str) -> None:
    """Raise LayoutError unless each thread that owns an element of `owner` owns the corresponding element of `name`.

    The whole scope must own both tiles. So if `name` has a stride of 0 along a thread digit of `owner`, the replicas of
    `name` are spread over these threads.
    """
    for digit in schedule.digits:
        stride, of_owner = digit.strides[name], digit.strides[owner]
        is_spread = isinstance(of_owner, Thread)
        if stride == of_owner or (is_spread and stride == 0):
            continue
        if is_spread or isinstance(stride, Thread):
            one, other = schedule[owner].buffer, schedule[name].buffer
            raise LayoutError(
                f"{other.name} and {one.name} are distributed over threads differently",
                hint=_moved(one, other),
            )


def _moved(one: Buffer, other: Buffer) -> str:
    if one.slots or one.shape != other.shape:
        return f"copy {other.name} to shared memory and load it from there, so that it gets {one.name}'s layout"
    return (
        f"copy {other.name} to a tile with {one.name}'s layout first: t = tj.alloc_local({other.shape}, "
        f"tj.{other.dtype}, layout={one.tile_layout!r}), and then copy(t, {other.name})"
    )


def _need_no_threads(operands: Mapping[str, Placement], there: Mapping[str, tuple[DigitStep, ...]]) -> None:
    if not any(isinstance(s.stride, Thread) for steps in there.values() for s in steps):
        return
    for placement in operands.values():
        need_slice(placement)
    split = {name: "·".join(str(s.extent) for s in steps) for name, steps in there.items()}
    listed = " and ".join(f"{placement.buffer.name} as {split[name]}" for name, placement in operands.items())
    raise LayoutError(
        f"operands split a dimension over threads in incompatible ways: {listed}",
        hint="choose layouts and regions whose extents divide each other",
    )


def owned_schedule(op: TileOp, owner: str, other: str, threads: int) -> DigitSchedule:
    """Return the digits of an operation's tiles, with tile `owner` as operand "registers" and `other` as "memory"."""
    regions, (dst, *_) = op.tiles, op.tiles.values()
    registers, memory = place(regions[owner], op.scope), place(regions[other], op.scope)
    need_all_threads(registers, op.scope, threads)
    every, index = tuple(range(len(registers.shape))), regions[other].gathered
    # an index selects positions along the leading dimensions; only the others have strides in memory
    boxes = 0 if index is None else len([extent for extent in index.shape if extent != 1])
    tiles: dict[str, Operand] = {"registers": (registers, every)}
    tiles["memory"] = memory, (None,) * boxes + every[: len(every) - boxes]
    for name, region in regions.items():
        if name in (owner, other):
            continue
        along = broadcast_along(region.shape, dst.shape)
        if name == INDEX.name:
            along = every[:boxes] + (None,) * (len(every) - boxes)
        tiles[name] = place(region, op.scope), along
        need_all_threads(tiles[name][0], op.scope, threads)
    schedule = DigitSchedule.of(registers.shape, tiles)
    for name in list(tiles)[2:]:
        need_same_threads(schedule, "registers", name)
    return schedule
