"""The 32-bit words of a copy between tensor memory and registers, with their places on both sides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from ... import scopes
from ...dataclass import dataclass
from ...dtypes import int32
from ...errors import LayoutError
from ...ir.arithmetic import build
from ...ir.arithmetic.evaluate import number
from ...ir.nodes import Const, Expr, Region
from ...target import TMEM_LANE, WARP, WARPGROUP
from ...wording import counted
from .placement import DigitStep, Placement, need_slice, place
from .strides import Thread, total_along

_BITS = 32

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a copy; word k of each thread is in the 32-bit register `registers[k]`."""

    #: elements per word
    packed: int
    registers: Array
    #: lane and 32-bit column of each word in the buffer's tensor memory, of shape (threads, words)
    lanes: Array
    columns: Array
    #: run-time offsets to add to `registers` and `columns`, in words
    moved_registers: Expr
    moved_columns: Expr


@dataclass(frozen=True, slots=True)
class Elements:
    """The places of a region's elements; run-time starts count as 0."""

    #: the owner's index in the scope; 0 for memory
    threads: Array
    #: the index in the thread's tile; in tensor memory, lane * TMEM_LANE + column, in elements
    places: Array

    @staticmethod
    def of(placement: Placement) -> Elements:
        """Return the places of all elements in row-major order. accepts: placements that `need_slice` accepts."""
        threads, places = np.zeros(1, np.int64), np.full(1, first_place(placement))
        for dim in Elements.along(placement):
            threads, places = _each(threads, dim.threads), _each(places, dim.places)
        return Elements(threads, places)

    @staticmethod
    def along(placement: Placement) -> list[Elements]:
        """Return, for each dimension, the distance of each index from index 0. accepts: the same as `of`."""
        # drop padding: slots past the extent
        return [
            Elements(_along(steps, _among_threads)[:extent], _along(steps, _in_tile)[:extent])
            for extent, steps in zip(placement.shape, placement.dims, strict=True)
        ]


def first_place(placement: Placement) -> int:
    """Return the place of a region's first element, as in `Elements`."""
    return number(total_along([(o.stride, o.index) for o in placement.offsets if isinstance(o.index, Const)], int32))


def _among_threads(step: DigitStep) -> int:
    return step.threads if isinstance(step.stride, Thread) else 0


def _in_tile(step: DigitStep) -> int:
    return step.stride if isinstance(step.stride, int) else 0


def _along(steps: Sequence[DigitStep], stride: Callable[[DigitStep], int]) -> Array:
    distance = np.zeros(1, np.int64)
    for step in steps:
        distance = _each(distance, stride(step) * np.arange(step.extent))
    return distance


def _each(slower: Array, faster: Array) -> Array:
    return np.asarray(np.add.outer(slower, faster).ravel())


def words(local: Region, tmem: Region) -> Words:
    """Return the words to move, or raise LayoutError, e.g. if threads hold their elements in different registers."""
    packed = _BITS // local.dtype.bits
    size = prod(local.shape)
    held, there = _placed(local), _placed(tmem)
    registers, memory = Elements.of(held), Elements.of(there)
    order = np.lexsort((registers.places, registers.threads))
    table = np.stack([registers.threads, registers.places, *np.divmod(memory.places, TMEM_LANE)])[:, order]
    each = size // WARPGROUP
    counts = np.bincount(registers.threads, minlength=WARPGROUP)
    if len(counts) > WARPGROUP or (counts != each).any() or each * WARPGROUP != size:
        raise _uneven(local, counts)
    thread, register, lane, column = table.reshape(4, WARPGROUP, each)
    if (register != register[0]).any():
        raise LayoutError(
            f"the threads of the warpgroup hold the region of {local.buffer.name} in different registers",
            hint="take a region that every thread holds in the same registers",
        )
    _need_packed(local, register[0], packed)
    _need_packed(tmem, column, packed)
    if (lane.reshape(WARPGROUP, -1, packed) != lane[:, ::packed, None]).any():
        raise LayoutError(f"the elements of one 32-bit register are in several lanes of {tmem.buffer.name}")
    return Words(
        packed, register[0, ::packed] // packed, lane[:, ::packed], column[:, ::packed] // packed,
        _moved(held, packed), _moved(there, packed),
    )


def _uneven(local: Region, counts: Array) -> LayoutError:
    owners = int((counts > 0).sum())
    if owners != WARPGROUP:
        return LayoutError(
            f"{'1 thread owns' if owners == 1 else f'{owners} threads own'} the region of {local.buffer.name}; "
            f"tcgen05.ld and .st need all {WARPGROUP} threads of the warpgroup",
            hint="take a region of which every thread owns a part, or use a layout such as tj.tcgen05.atom_layout(...)",
        )
    return LayoutError(
        f"threads own between {counts.min()} and {counts.max()} elements of {local.buffer.name}; "
        "tcgen05.ld and .st move the same number for each thread",
        hint="take a region of which every thread owns the same number of elements",
    )


def _need_packed(region: Region, places: Array, packed: int) -> None:
    if places.shape[-1] % packed:
        raise LayoutError(
            f"each thread has {counted(places.shape[-1], 'element')} of {region.buffer.name}; "
            f"{packed} {region.dtype} elements fill a 32-bit register",
            hint=f"move a multiple of {packed} columns",
        )
    groups = places.reshape(*places.shape[:-1], -1, packed)
    first = groups[..., :1]
    if (groups != first + np.arange(packed)).any() or (first % packed).any():
        what = "register" if region.buffer.space == "local" else "column"
        raise LayoutError(
            f"the region of {region.buffer.name} doesn't fill each 32-bit {what} with {packed} consecutive elements",
            hint=f"start at multiples of {packed}, and keep {packed} {region.dtype} elements of a row adjacent",
        )


def _moved(placement: Placement, packed: int) -> Expr:
    """Return the run-time offset of a region's start, in 32-bit registers or columns, or raise LayoutError."""
    total: Expr = build.const(0, int32)
    for offset in placement.offsets:
        if isinstance(offset.index, Const):
            continue
        assert isinstance(offset.stride, int)
        if placement.buffer.space == "tmem" and offset.stride % TMEM_LANE == 0:
            raise LayoutError(
                f"{offset.what} is known only at run time, and selects a lane of tensor memory",
                hint="start at a constant in each dimension over lanes",
            )
        if offset.multiple % packed:
            name, dtype = placement.buffer.name, placement.buffer.dtype
            raise LayoutError(
                f"{name} starts at an element offset that isn't known to be a multiple of {packed}: "
                f"{packed} {dtype} elements share a 32-bit word",
                hint=f"start at a known multiple of {packed}: tj.sym(..., multiple_of={packed}) or i * {packed}",
            )
        moved = build.mul(build.cast(offset.index, int32), offset.stride)
        total = build.add(total, build.floordiv(moved, packed))
    return total


def _placed(region: Region) -> Placement:
    layout = region.buffer.tile_layout
    if layout.replica or layout.swizzle is not None:
        what = "replicas" if layout.replica else "a swizzle"
        raise LayoutError(
            f"{region.buffer.name} has {what}; needs one place for each element, at constant strides",
            hint="use a layout without replicas or a swizzle",
        )
    axes = ("TLane", "TCol") if region.buffer.space == "tmem" else ("m", *scopes.WARPGROUP.steps)
    strange = [axis.name for axis in layout.axes() if axis.name not in axes]
    if strange:
        raise LayoutError(
            f"{region.buffer.name} has the axis {strange[0]}; supported axes are {', '.join(axes)}",
            hint="use tj.tmem.datapath(...) for tensor memory, tj.tcgen05.atom_layout(...) for registers",
        )
    placement = place(region, scopes.WARPGROUP.name)
    need_slice(placement)
    return placement


def lane_fault(moved: Words, tmem: Region) -> str | None:
    """Describe the first word outside the 32 lanes of its thread's warp, or return None if there is none."""
    warp = np.arange(WARPGROUP)[:, None] // WARP
    wrong = np.argwhere(moved.lanes // WARP != warp)
    if not len(wrong):
        return None
    thread, word = (int(x) for x in wrong[0])
    first = thread // WARP * WARP
    return (
        f"thread {thread} would need lane {int(moved.lanes[thread, word])} of {tmem.buffer.name}; "
        f"its warp reaches lanes {first} to {first + WARP - 1}"
    )
