"""Where each 32-bit word of a copy between tensor memory and registers lies, on both sides."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ... import scopes
from ...dtypes import int32
from ...errors import LayoutError
from ...ir.arithmetic import build, facts
from ...ir.nodes import Const, Expr, Region
from ...layout import TileLayout
from ...layout.iters import Iter, merged, refined, weights
from ...target import WARP, WARPGROUP

__all__ = ["Words", "lane_fault", "words"]

_BITS = 32

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a copy: word k of thread t is its 32-bit register registers[k].

    lanes, columns: of shape (threads, words), where in the buffer's tensor memory each lies.
    moved_registers, moved_columns: what to add that is known only at run time, 32 bits each.
    """

    registers: Array
    lanes: Array
    columns: Array
    moved_registers: Expr
    moved_columns: Expr


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the elements of a region lie, in row-major order: axis name -> coordinates along it.

    moved: (index, stride) terms that come on top, known only at run time.
    """

    along: dict[str, Array]
    moved: tuple[tuple[Expr, int], ...]

    def sum(self, names: dict[str, int], size: int) -> Array:
        total = np.zeros(size, np.int64)
        for name, scale in names.items():
            total = total + self.along.get(name, 0) * scale
        return total


def words(local: Region, tmem: Region) -> Words:
    """The words that a warpgroup moves between a local and a tensor memory region of equal shapes.

    raises: LayoutError where the elements of a word don't lie together on both sides, or not all threads take part
    with the same registers.
    """
    packed = _BITS // local.dtype.bits
    size = prod(local.shape)
    held, there = _places(local), _places(tmem)
    thread = held.sum(scopes.WARPGROUP.steps, size)
    register = held.sum({"m": 1}, size)
    order = np.lexsort((register, thread))
    table = np.stack([thread, register, there.sum({"TLane": 1}, size), there.sum({"TCol": 1}, size)])[:, order]
    each = size // WARPGROUP
    counts = np.bincount(thread, minlength=WARPGROUP)
    if len(counts) > WARPGROUP or (counts != each).any() or each * WARPGROUP != size:
        raise _uneven(local, counts)
    thread, register, lane, column = table.reshape(4, WARPGROUP, each)
    if (register != register[0]).any():
        raise LayoutError(
            f"the threads of the warpgroup hold the region of {local.buffer.name} in different registers",
            hint="take a region that cuts all threads alike",
        )
    _need_packed(local, register[0], packed)
    _need_packed(tmem, column, packed)
    if (lane.reshape(WARPGROUP, -1, packed) != lane[:, ::packed, None]).any():
        raise LayoutError(f"the elements of one 32-bit register come from several lanes of {tmem.buffer.name}")
    return Words(
        register[0, ::packed] // packed, lane[:, ::packed], column[:, ::packed] // packed,
        _moved(held, local, packed), _moved(there, tmem, packed),
    )


def _uneven(local: Region, counts: Array) -> LayoutError:
    owners = int((counts > 0).sum())
    if owners != WARPGROUP:
        return LayoutError(
            f"{owners} threads own the region of {local.buffer.name}; tcgen05.ld and .st need all {WARPGROUP} "
            "of the warpgroup",
            hint="take a region that all threads share",
        )
    return LayoutError(
        f"threads own between {counts.min()} and {counts.max()} elements of {local.buffer.name}; "
        "tcgen05.ld and .st move as many for each",
        hint="take a region that cuts all threads alike",
    )


def _need_packed(region: Region, places: Array, packed: int) -> None:
    """Raise LayoutError unless every `packed` elements fill one register, or column, in order."""
    if places.shape[-1] % packed:
        raise LayoutError(
            f"each thread has {places.shape[-1]} elements of {region.buffer.name}; {packed} {region.dtype} fill "
            "a 32-bit register",
            hint=f"move a multiple of {packed} columns",
        )
    groups = places.reshape(*places.shape[:-1], -1, packed)
    first = groups[..., :1]
    if (groups != first + np.arange(packed)).any() or (first % packed).any():
        what = "register" if region.buffer.space == "local" else "column"
        raise LayoutError(
            f"the {packed} elements of one 32-bit {what} of {region.buffer.name} aren't neighbours from its "
            "beginning on",
            hint=f"start at multiples of {packed}, and keep {packed} {region.dtype} of a row together",
        )


def _moved(places: _Places, region: Region, packed: int) -> Expr:
    """Registers, or columns, of 32 bits that a run-time start moves."""
    total: Expr = build.const(0, int32)
    for index, stride in places.moved:
        if facts.multiple_of(index) * stride % packed:
            raise LayoutError(
                f"{region.buffer.name} starts at an element that isn't known to be a multiple of {packed}: "
                f"{packed} {region.dtype} share 32 bits",
                hint=f"start at a multiple of {packed}, known as such: tj.sym(..., multiple_of=) or i * {packed}",
            )
        total = build.add(total, build.floordiv(build.mul(build.cast(index, int32), stride), packed))
    return total


def _places(region: Region) -> _Places:
    """The places of a region's elements; of a run-time start what it moves."""
    layout = region.buffer.layout
    shape = tuple(n for n in region.buffer.shape if isinstance(n, int))
    assert isinstance(layout, TileLayout) and len(shape) == len(region.extents)
    if layout.replica or layout.swizzle is not None:
        what = "replicas" if layout.replica else "a swizzle"
        raise LayoutError(
            f"{region.buffer.name} has {what}; each element of tensor memory goes to one register",
            hint="use a layout of strides only",
        )
    axes = ("TLane", "TCol") if region.buffer.space == "tmem" else ("m", *scopes.WARPGROUP.steps)
    strange = [axis.name for axis in layout.axes() if axis.name not in axes]
    if strange:
        raise LayoutError(
            f"{region.buffer.name} lies along {strange[0]}; a warpgroup moves {', '.join(axes)}",
            hint="use tj.tmem.datapath(...) for tensor memory, tj.tcgen05.atom_layout(...) for registers",
        )
    layout = layout.adapted(shape) if prod(shape) != layout.size() else layout
    extents = tuple(1 if e is None else e for e in region.extents)
    along: dict[str, Array] = {axis.name: np.full(1, value) for axis, value in layout.offset}
    moved: list[tuple[Expr, int]] = []
    for d, group in enumerate(refined(layout.shard, shape)):
        run = merged(group)
        start = region.starts[d]
        index = np.arange(extents[d], dtype=np.int64)
        if isinstance(start, Const):
            index = index + int(start.value)
        elif run:
            moved.append(_moving(region, d, run))
        along_dim = [-1 if k == d else 1 for k in range(len(extents))]
        for k, (it, worth) in enumerate(zip(run, weights([it.extent for it in run]), strict=True)):
            digit = index // worth % it.extent if k else index // worth
            spread = (digit * it.stride).reshape(along_dim)
            along[it.axis.name] = along.get(it.axis.name, np.zeros(1, np.int64)) + spread
    flat = {name: np.broadcast_to(values, extents).ravel() for name, values in along.items()}
    return _Places(flat, tuple(moved))


def _moving(region: Region, dim: int, run: tuple[Iter, ...]) -> tuple[Expr, int]:
    """What a run-time start adds: an index along the slowest iterator, and its stride."""
    start, inner = region.starts[dim], prod(it.extent for it in run[1:])
    if run[0].axis.name not in ("TCol", "m"):
        raise LayoutError(
            f"start {dim} of {region.buffer.name} is known only at run time, and moves along {run[0].axis}",
            hint="slice rows, and what is spread over threads or lanes, at constants",
        )
    if facts.multiple_of(start) % inner:
        raise LayoutError(
            f"start {dim} of {region.buffer.name} isn't known to be a multiple of {inner}, which threads share out",
            hint=f"start at tj.sym(..., multiple_of={inner}), or i * {inner}",
        )
    return build.floordiv(start, build.const(inner, start.dtype)), run[0].stride


def lane_fault(moved: Words, tmem: Region) -> str | None:
    """Why some warp would reach into other lanes than its own 32, or None."""
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
