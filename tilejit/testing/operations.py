"""Tile operations of every kind, as the dispatcher is asked about them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Sequence

from hypothesis import assume
from hypothesis import strategies as st

from ..dataclass import dataclass, replace
from ..dtypes import DTYPES, DType, barrier, bfloat16, bool_, float16, float32, float64, int32, int64, uint64
from ..ir import allocation
from ..ir.arithmetic import build
from ..ir.combine import Combine
from ..ir.nodes import Buffer, Expr, Region, Special, Strided, TileOp, Var
from ..isa.atomics import has_type
from ..isa.mma import MMA, MMA_M, MMA_N
from ..isa.wgmma import WGMMA_M, FactorPlace, products
from ..layout import TCGEN05_SHAPES, Swizzle, TileLayout, atom_layout, datapath, swizzled_atom_layout, warpgroup
from ..layout.fragments import fragment_layout
from ..layout.swizzle import SWIZZLE_BITS
from ..ops.atomic import ATOMIC
from ..ops.copies import CAST, COPY, COPY_ASYNC, FILL, INDICES, RESHAPE
from ..ops.elementwise import ELEMENTWISE, result_type
from ..ops.fold import REDUCE
from ..ops.gemm import GEMM
from ..ops.gemm_async import GEMM_ASYNC
from ..ops.record import SCALAR, TILE, AttributeValue, TileOperation
from ..ops.reduce import REDUCTIONS
from ..ops.tile import TILE_OPERATIONS
from ..scopes import SCOPES
from ..target import WARP, WARPGROUP, Target
from ..target import target as find_target
from .arrays import dtypes
from .layouts import regions_of, register_layouts

__all__ = ["Operation", "operations", "ways_to_draw"]

#: one of each generation, the oldest, which has the fewest instructions, less often; the last has tensor memory
_TARGETS = ("sm_75", "sm_80", "sm_80", "sm_90a", "sm_90a", "sm_100a", "sm_100a")

#: data path of tensor memory -> its rows, and the shapes that move it
_PATHS: dict[str, tuple[int, tuple[str, ...]]] = {
    "D": (128, tuple(sorted(TCGEN05_SHAPES))),
    "F": (64, ("16x128b", "16x256b", "16x64b")),
    "B": (64, ("32x32b",)),
}

#: scope -> CTA sizes to try; a CTA need not be whole warps where no warp works alone
_LAUNCHES: dict[str, tuple[int, ...]] = {
    "thread": (1, 3, 32, 48),
    "warp": (32, 64, 96),
    "warpgroup": (128, 256),
    "cta": (1, 32, 48, 96, 128, 160),
}

#: scope -> (its threads, the id that tells instances apart)
_INSTANCES = {s.name: (s.size, s.number_id.name) for s in SCOPES.values() if s.size is not None and s.number_id}

#: a digit of a layout: (extent, stride, axis)
_Digit = tuple[int, int, str]


@dataclass(frozen=True)
class Operation:
    """A tile operation and for what it is dispatched.

    threads: of the CTA. values: of the run-time variables in its starts, extents, strides and scalars, by name.
    Instances of the scope write to places of their own, and what they read in common none of them writes.
    """

    op: TileOp
    target: Target
    threads: int
    values: dict[str, bool | int | float]

    def forced(self, variant: str) -> Operation:
        """The same with `variant=`."""
        return replace(self, op=replace(self.op, attrs=(*self.op.attrs, ("variant", variant))))


@st.composite
def operations(draw: st.DrawFn, names: Collection[str] = tuple(TILE_OPERATIONS)) -> Operation:
    """An operation among `names` on operands of any kind: memory, registers, fragments, tensor memory, scalars.

    Layouts have digits in any order, gaps, offsets, swizzles, thread axes and replicas; regions start at constants or
    at run time, and may pass a global tensor's edges. Most are accepted by some variant, not all.
    """
    name = draw(st.sampled_from(sorted(names)))
    return draw(st.sampled_from(ways_to_draw(TILE_OPERATIONS[name])))(draw, name)


class _Drawing:
    """An operation while it is drawn.

    tidy: whether memory lies and starts so that wide vectors are likely. values: as in `Operation`.
    """

    def __init__(self, draw: st.DrawFn, *launches: tuple[str, int]) -> None:
        self.draw = draw
        self.scope, self.threads = draw(st.sampled_from(launches or _EVERY_LAUNCH))
        self.tidy = draw(st.booleans())
        self.values: dict[str, bool | int | float] = {}

    def made(
        self, name: str, operands: Sequence[Region | Expr | None], target: str | None = None, **attrs: AttributeValue
    ) -> Operation:
        target = target or self.draw(st.sampled_from(_TARGETS))
        op = TileOp(name, self.scope, tuple(operands), tuple(attrs.items()))
        return Operation(op, find_target(target), self.threads, self.values)

    @property
    def instances(self) -> int:
        """How many instances of the scope the CTA has."""
        return self.threads // _INSTANCES[self.scope][0] if self.scope in _INSTANCES else 1

    def variable(self, name: str, dtype: DType, value: bool | int | float, multiple_of: int = 1) -> Var:
        self.values[name] = value
        return Var(name, dtype, multiple_of)

    def extents(self, most: int) -> tuple[int, ...]:
        """The extents of a region of at most `most` elements."""
        extents: list[int] = []
        for _ in range(self.draw(st.integers(1, 3))):
            listed = (4, 8, 16, 32, 64) if self.tidy else (1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 32, 64, 100)
            room = most // math.prod(extents)
            extents.append(self.draw(st.sampled_from([n for n in listed if n <= room] or [1])))
        return tuple(extents)

    def memory_shape(self) -> tuple[int, ...]:
        """The extents of a region of memory, of which each instance has its own."""
        return self.extents(max(1, 512 // self.instances))

    def memory(
        self, name: str, space: str, dtype: DType, shape: Sequence[int], *, written: bool = False, edges: bool = True,
        boxes: bool = False,
    ) -> Region:
        """A region of this shape.

        written: no two elements share a place, and each instance has its own. edges: it may pass those of a tensor.
        boxes: what a launch refuses of boxes that are stored isn't drawn.
        """
        strided = space == "global" and self.draw(st.booleans())
        is_apart = self.instances > 1 and (written or self.draw(st.booleans()))
        longest = max(range(len(shape)), key=lambda d: shape[d])
        windows = [
            self._window(
                f"{name}.start.{d}", e, apart=is_apart and d == longest, edges=strided and edges, in_front=not boxes
            )
            for d, e in enumerate(shape)
        ]
        sizes = [size for _, size in windows]
        assume(math.prod(sizes) <= 4096)
        if strided:
            buffer = self._strided(name, dtype, sizes, written, backward=not boxes)
        else:
            buffer = self._laid_out(name, space, dtype, sizes, written)
        return Region(buffer, tuple(start for start, _ in windows), tuple(shape))

    def _window(
        self, name: str, extent: int, *, apart: bool, edges: bool, in_front: bool = True
    ) -> tuple[Expr, int]:
        """Where a dimension's region starts, and the dimension's size.

        in_front: it may start in front of the tensor, and only a launch tell so.
        """
        grain = 16 if self.tidy else self.draw(st.sampled_from((1, 1, 2, 4, 8)))
        kind = self.draw(st.sampled_from(("static", "static", "multiple", "product", "sum")))
        steps = self.draw(st.integers(-1 if edges and (in_front or kind == "static") else 0, 2))
        first = steps * grain
        start: Expr = build.const(first, int64)
        if kind == "multiple":
            start = self.variable(name, int64, first, grain)
        elif kind != "static":
            start = build.mul(self.variable(name, int64, steps), grain)
        if kind == "sum" and not self.tidy:
            start, first = build.add(start, 3), first + 3
        count = 1
        if apart:
            number = build.cast(Special(_INSTANCES[self.scope][1]), int64)
            start, count = build.add(build.mul(number, extent), start), self.instances
        after = self.draw(st.sampled_from((0, 8) if self.tidy else (0, 0, 1, 3, 4, 8)))
        if edges and self.draw(st.booleans()):
            after = -self.draw(st.integers(0, extent))
        return start, max(first + extent * count + after, 1)

    def _laid_out(self, name: str, space: str, dtype: DType, sizes: Sequence[int], written: bool) -> Buffer:
        """A buffer with a layout: row-major, or dimensions cut into digits that lie in any order with gaps."""
        swizzle = self._swizzle(dtype) if self.draw(st.booleans()) else None
        if self.tidy:
            layout = TileLayout.row_major(tuple(sizes), swizzle)
        else:
            digits: list[int] = []
            for size in sizes:
                inner = self.draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
                digits += [n for n in (size // inner, inner) if n > 1] or [1]
            order = self.draw(st.permutations(range(len(digits))))
            strides, step = [0] * len(digits), 1
            for k in order:
                # what is only read may repeat itself
                if written or self.draw(st.integers(0, 11)):
                    strides[k] = step
                    step = step * digits[k] + self.draw(st.sampled_from((0, 0, 0, 0, 1, 4, 8)))
            offset = self.draw(st.sampled_from((0, 0, 0, 1, 4, 8)))
            shard = [(e, s, "m") for e, s in zip(digits, strides, strict=True)]
            layout = TileLayout.from_iters(shard, (), {"m": offset} if offset else None, swizzle)
        assume(layout.span() * dtype.bytes <= 32_000)
        align = 16 if self.tidy else self.draw(st.sampled_from([n for n in (1, 2, 4, 8, 16) if n >= dtype.bytes]))
        if space == "shared":
            align = allocation.alignment(space, dtype, layout)
        return Buffer(name, space, dtype, tuple(sizes), layout, align)

    def _swizzle(self, dtype: DType) -> Swizzle:
        bits = self.draw(st.integers(0, 3))
        if self.tidy:
            return Swizzle(bits, (128 // dtype.bits).bit_length() - 1, 3)
        inner = self.draw(st.integers(0, 4)) != 0
        return Swizzle(bits, self.draw(st.integers(0, 4)), self.draw(st.integers(bits, 3)), inner)

    def _strided(
        self, name: str, dtype: DType, sizes: Sequence[int], written: bool, *, backward: bool = True,
        order: Sequence[int] | None = None,
    ) -> Buffer:
        """A tensor whose size and strides are known only at launch: any order, padded, negative or 0.

        backward: strides may be negative. order: of the dimensions, fastest first; the first has stride 1.
        """
        listed = [n for n in (1, 2, 4, 8, 16) if n >= dtype.bytes]
        align = 16 if self.tidy else self.draw(st.sampled_from(listed))
        multiple = align // dtype.bytes
        is_ordered, unit = order is not None, None if order is None else order[0]
        if order is None:
            order = list(range(len(sizes)))[::-1] if self.tidy else self.draw(st.permutations(range(len(sizes))))
            unit = order[0] if self.tidy or self.draw(st.integers(0, 4)) else None
        strides: list[int | Var] = [1] * len(sizes)
        step = sizes[order[0]] if unit is not None else 1
        for d in order:
            if d == unit:
                continue
            stride = -(-step * self.draw(st.sampled_from((1, 1, 2))) // multiple) * multiple
            step = stride * sizes[d]
            if not written and self.draw(st.integers(0, 7)) == 0:
                stride = 0
            sign = self.draw(st.sampled_from((1, 1, 1, -1))) if backward else 1
            strides[d] = self.variable(f"{name}.stride.{d}", int64, sign * stride, multiple)
        whole = math.gcd(16, sizes[unit] * dtype.bytes) if unit is not None else 1
        # what TMA stores, it mostly must know
        alignments = [whole, whole, 1] if is_ordered else [n for n in (1, 2, 4, 8, 16) if n <= whole]
        extent_align = self.draw(st.sampled_from(alignments))
        along_unit = max(1, extent_align // dtype.bytes)
        shape: list[int | Var] = []
        for d, size in enumerate(sizes):
            extent = self.variable(f"{name}.shape.{d}", int64, size, along_unit if d == unit else 1)
            shape.append(replace(extent, bounds=(0, 2**40)))
        return Buffer(name, "global", dtype, tuple(shape), Strided(tuple(strides), align, extent_align), align)

    def atoms(self, name: str, dtype: DType, shape: tuple[int, int], *, is_turned: bool) -> Region:
        """Shared memory in atoms of a swizzle: one of several tiles, from a multiple of 8 rows on.

        is_turned: its first dimension lies together, not its second.
        """
        rows, columns = shape[::-1] if is_turned else shape
        modes = [mode for mode in SWIZZLE_BITS if columns * dtype.bytes % (16 << SWIZZLE_BITS[mode]) == 0]
        stages, first = self.draw(st.integers(1, 2)), 8 * self.draw(st.sampled_from((0, 0, 1, 2)))
        held = stages, first + rows, columns
        layout, ends = swizzled_atom_layout(held, dtype.bits, self.draw(st.sampled_from(modes))).group(held)
        order = (0, 2, 1) if is_turned else (0, 1, 2)
        turned = layout.permute_groups(ends, order)
        align = allocation.alignment("shared", dtype, turned)
        buffer = Buffer(name, "shared", dtype, tuple(held[d] for d in order), turned, align)
        starts = self.draw(st.integers(0, stages - 1)), first, 0
        return Region(buffer, tuple(build.const(starts[d], int64) for d in order), (None, *shape))

    def tile(self, name: str, dtype: DType, *, windowed: bool = False) -> Region:
        """A local tile that exactly the threads of the scope own. windowed: the region may be a part of it."""
        most = 16 if self.scope == "thread" else 8
        layout, shape = self.draw(
            register_layouts(self.scope, threads=self.threads, max_registers=most, rank=self.draw(st.integers(1, 3)))
        )
        region = self.draw(regions_of(shape)) if windowed else [(0, n) for n in shape]
        starts = tuple(build.const(start, int64) for start, _ in region)
        return Region(_local(name, dtype, shape, layout), starts, tuple(e for _, e in region))

    def padded(self, tile: Region) -> Region:
        """Perhaps the tile with fewer elements than its layout has slots."""
        if self.draw(st.integers(0, 3)):
            return tile
        shape = tuple(self.draw(st.integers(min(2, n), n)) for n in tile.shape)
        return _whole(replace(tile.buffer, shape=shape, slots=tile.shape if shape != tile.shape else ()))

    def part(self, tile: Region) -> Region:
        """Perhaps the tile as one of several beside each other, in registers or in threads that held the same."""
        if self.draw(st.integers(0, 3)):
            return tile
        buffer, layout = tile.buffer, tile.buffer.tile_layout
        replicas, count = _replicas(layout), self.draw(st.integers(2, 3))
        shard = [(it.extent, it.stride, it.axis.name) for it in layout.shard]
        if bool(replicas) and self.draw(st.booleans()):
            beside = self.draw(st.sampled_from(replicas))
            replicas.remove(beside)
        elif self.draw(st.booleans()):
            beside = (count, 1, "m")
            shard = [(extent, stride * count if axis == "m" else stride, axis) for extent, stride, axis in shard]
        else:
            beside = (count, layout.storage().span(), "m")
        made = replace(
            buffer,
            shape=(beside[0], *buffer.shape),
            layout=TileLayout.from_iters([beside, *shard], replicas),
            slots=(beside[0], *buffer.slots) if buffer.slots else (),
        )
        start = build.const(self.draw(st.integers(0, beside[0] - 1)), int64)
        return Region(made, (start, *tile.starts), (None, *tile.extents))

    def rearranged(self, name: str, dtype: DType, tile: Region) -> Region:
        """A tile in the same threads as `tile`, its registers in another order."""
        layout = tile.buffer.tile_layout
        shard = [(it.extent, it.stride, it.axis.name) for it in layout.shard]
        made = TileLayout.from_iters(self._packed(shard), _replicas(layout))
        return _whole(replace(_local(name, dtype, tile.shape, made), slots=tile.buffer.slots))

    def exchanged(self, name: str, dtype: DType, tile: Region) -> Region:
        """A tile in the places of `tile`, where elements have changed places."""
        layout = tile.buffer.tile_layout
        digits = [(prime, it.stride * step, it.axis.name) for it in layout.shard for prime, step in _primes(it.extent)]
        places = [(stride, axis) for _, stride, axis in digits]
        for prime in sorted({extent for extent, _, _ in digits}):
            alike = [k for k, (extent, _, _) in enumerate(digits) if extent == prime]
            for k, other in zip(alike, self.draw(st.permutations(alike)), strict=True):
                places[k] = digits[other][1:]
        made = [(extent, *place) for (extent, _, _), place in zip(digits, places, strict=True)]
        replaced = TileLayout.from_iters(made or [(1, 1, "m")], _replicas(layout))
        return _whole(replace(_local(name, dtype, tile.shape, replaced), slots=tile.buffer.slots))

    def broadcast(self, name: str, dtype: DType, tile: Region) -> Region:
        """A tile that broadcasts to `tile`: threads that held different elements along a dimension hold the same."""
        slots = [int(n) for n in tile.buffer.laid_out if isinstance(n, int)]
        layout, ends = tile.buffer.tile_layout.group(slots)
        replicas = _replicas(layout)
        shape: list[int] = []
        shard: list[_Digit] = []
        for extent, first, last in zip(tile.shape, ends, ends[1:], strict=False):
            group = [(it.extent, it.stride, it.axis.name) for it in layout.shard[first:last]]
            is_single = self.draw(st.booleans())
            shape.append(1 if is_single else extent)
            slots[len(shape) - 1] = 1 if is_single else slots[len(shape) - 1]
            if is_single:
                replicas += [digit for digit in group if digit[2] != "m" and digit[0] > 1]
            else:
                shard += group
        if shape[0] == 1 and len(shape) > 1 and self.draw(st.booleans()):
            shape, slots = shape[1:], slots[1:]
        made = TileLayout.from_iters(self._packed(shard) or [(1, 1, "m")], replicas)
        return _whole(replace(_local(name, dtype, tuple(shape), made), slots=tuple(slots) if slots != shape else ()))

    def projected(self, name: str, dtype: DType, tile: Region, axes: Collection[int]) -> Region:
        """What `tile` is without some axes: threads that held different elements along them hold the same."""
        slots = [int(n) for n in tile.buffer.laid_out if isinstance(n, int)]
        layout, ends = tile.buffer.tile_layout.group(slots)
        groups = [
            [(it.extent, it.stride, it.axis.name) for it in layout.shard[first:last]]
            for first, last in itertools.pairwise(ends)
        ]
        kept = [d for d in range(len(slots)) if d not in axes]
        shard = [digit for d in kept for digit in groups[d]]
        lost = [digit for d in axes for digit in groups[d] if digit[2] != "m" and digit[0] > 1]
        both = [(tile.shape[d], slots[d]) for d in kept]
        if not both or self.draw(st.integers(0, 3)) == 0:
            both.insert(self.draw(st.integers(0, len(both))), (1, 1))
        shape, holding = zip(*both, strict=True)
        made = TileLayout.from_iters(self._packed(shard) or [(1, 1, "m")], _replicas(layout) + lost)
        return _whole(replace(_local(name, dtype, shape, made), slots=holding if holding != shape else ()))

    def _packed(self, shard: Sequence[_Digit]) -> list[_Digit]:
        """The digits with new strides for those among registers, in any order."""
        strides, step = {}, 1
        for k in self.draw(st.permutations([k for k, (_, _, axis) in enumerate(shard) if axis == "m"])):
            strides[k], step = step, step * shard[k][0]
        return [(e, strides.get(k, s), axis) for k, (e, s, axis) in enumerate(shard)]

    def scalar(self, name: str, dtype: DType) -> Expr:
        """A small number, known now or at run time."""
        value: bool | int | float = self.draw(st.integers(0, 7))
        if dtype == bool_:
            value = value > 3
        elif dtype.is_float:
            value = value / 4
        if self.draw(st.booleans()) or dtype.is_fp8:
            return build.const(value, dtype)
        return self.variable(name, dtype, value)


_EVERY_LAUNCH = tuple((scope, threads) for scope, sizes in _LAUNCHES.items() for threads in sizes)


def _local(name: str, dtype: DType, shape: Sequence[int], layout: TileLayout) -> Buffer:
    return Buffer(name, "local", dtype, tuple(shape), layout, dtype.bytes)


def _whole(buffer: Buffer) -> Region:
    extents = tuple(n for n in buffer.shape if isinstance(n, int))
    return Region(buffer, tuple(build.const(0, int64) for _ in extents), extents)


def _replicas(layout: TileLayout) -> list[_Digit]:
    return [(it.extent, it.stride, it.axis.name) for it in layout.replica]


def _fill(draft: _Drawing, dtype: DType) -> tuple[Expr, ...]:
    """What lies outside reads as, or nothing."""
    value = draft.draw(st.sampled_from((None, None, 0, 1)))
    return () if value is None else (build.const(bool(value) if dtype == bool_ else value, dtype),)


def _copy_in_memory(draw: st.DrawFn, name: str) -> Operation:
    draft = _Drawing(draw)
    dtype, shape = draw(dtypes()), draft.memory_shape()
    inwards, within = ("shared", "global"), ("shared", "shared")
    others = [("global", "shared"), ("global", "global"), within, *([within] if name == COPY.name else [])]
    dst, src = draw(st.sampled_from([inwards] * (9 if name == COPY_ASYNC.name else 2) + others))
    boxes = name == COPY_ASYNC.name and src == "shared"
    sides = draft.memory("dst", dst, dtype, shape, written=True, boxes=boxes), draft.memory("src", src, dtype, shape)
    return draft.made(name, (*sides, *_fill(draft, dtype)))


def _copy_of_boxes(draw: st.DrawFn, name: str) -> Operation:
    """Between a tensor and a shared tile of swizzle atoms, or of plain rows, over the tensor's edges too.

    The tensor lies in any order, and has some dimensions of which the box has one element.
    """
    draft = _Drawing(draw, ("warp", 32), ("warpgroup", 128), ("cta", 64), ("cta", 48))
    dtype, loads = draw(dtypes()), draw(st.booleans())
    shared, outer = ("dst", "src") if loads else ("src", "dst")
    tile, unit = _stage_of_atoms(draw, shared, dtype)
    extents: list[int | None] = list(tile.shape)
    for _ in range(draw(st.sampled_from((0, 0, 1, 2)))):
        at = draw(st.integers(0, len(extents)))
        extents.insert(at, None)
        unit += at <= unit
    windows: list[tuple[Expr, int]] = []
    for d, extent in enumerate(extents):
        # along what lies together TMA counts in chunks of 16 bytes
        draft.tidy = d == unit
        start = f"{outer}.start.{d}"
        windows.append(draft._window(start, extent or 1, apart=False, edges=True, in_front=loads))
    sizes = [size for _, size in windows]
    if not loads and draw(st.integers(0, 3)):
        # what is stored is whole chunks
        chunk = 16 // dtype.bytes
        sizes[unit] = -(-sizes[unit] // chunk) * chunk
    assume(math.prod(sizes) <= 1 << 15)
    slower = draw(st.permutations([d for d in range(len(sizes)) if d != unit]))
    # TMA goes forward only and stores no box in front of a tensor, which only a launch can tell
    draft.tidy = True
    buffer = draft._strided(outer, dtype, sizes, not loads, backward=False, order=[unit, *slower])
    tensor = Region(buffer, tuple(start for start, _ in windows), tuple(extents))
    sides = (tile, tensor) if loads else (tensor, tile)
    return draft.made(name, (*sides, *_named_barrier(loads)), draw(st.sampled_from(_WITH_TMA)))


def _stage_of_atoms(draw: st.DrawFn, name: str, dtype: DType) -> tuple[Region, int]:
    """One of several shared tiles, and which of its dimensions has the columns: these in any order.

    In atoms of a swizzle, or plain; all of its columns, and some of its rows, from a multiple of 8 on.
    """
    mode = draw(st.sampled_from(("rows", *SWIZZLE_BITS)))
    columns = (128 << SWIZZLE_BITS.get(mode, 0)) // dtype.bits * draw(st.integers(1, 2))
    leading = draw(st.sampled_from(((), (), (), (2,), (3,), (2, 2))))
    rows, stages = 8 * draw(st.integers(1, 3)), draw(st.integers(1, 2))
    shape = (stages, *leading, rows, columns)
    layout = TileLayout.row_major(shape) if mode == "rows" else swizzled_atom_layout(shape, dtype.bits, mode)
    grouped, ends = layout.group(shape)
    first = 8 * draw(st.integers(0, rows // 8 - 1))
    some = first, draw(st.integers(1, rows - first))
    # where others follow them, a box takes all rows
    takes_all = bool(leading) and draw(st.integers(0, 3)) > 0
    windows = [*((0, n) for n in leading), (0, rows) if takes_all else some, (0, columns)]
    dims = range(len(windows))
    order: Sequence[int] = dims if draw(st.booleans()) else draw(st.permutations(dims))
    turned = grouped.permute_groups(ends, (0, *(1 + d for d in order)))
    align = allocation.alignment("shared", dtype, turned)
    buffer = Buffer(name, "shared", dtype, (stages, *(shape[1 + d] for d in order)), turned, align)
    starts = [draw(st.integers(0, stages - 1)), *(windows[d][0] for d in order)]
    extents = (None, *(windows[d][1] for d in order))
    return Region(buffer, tuple(build.const(start, int64) for start in starts), extents), order.index(dims[-1])


def _copy_of_runs(draw: st.DrawFn, name: str) -> Operation:
    """Between a tensor and a shared tile, both without gaps, inside the tensor."""
    draft = _Drawing(draw, ("warp", 32), ("cta", 64))
    dtype, loads = draw(dtypes()), draw(st.booleans())
    columns = 16 // dtype.bytes * draw(st.integers(1, 3))
    rows, start, after = (draw(st.integers(least, 4)) for least in (1, 0, 0))
    first = draw(st.sampled_from((0, 0, 2)))
    sides: list[Region] = []
    for side, space in (("dst", "shared" if loads else "global"), ("src", "global" if loads else "shared")):
        shape = (start + rows + after, columns) if space == "global" else (first + rows, columns)
        align = 16 if space == "global" else 128
        buffer = Buffer(side, space, dtype, shape, TileLayout.row_major(shape), align)
        at = start if space == "global" else first
        sides.append(Region(buffer, (build.const(at, int64), build.const(0, int64)), (rows, columns)))
    return draft.made(name, (*sides, *_named_barrier(loads)), draw(st.sampled_from(_WITH_TMA)))


#: the targets that have TMA
_WITH_TMA = ("sm_90", "sm_90a", "sm_100a")


def _named_barrier(loads: bool) -> tuple[None, Region] | tuple[()]:
    """A fill and a barrier for a load, on which it completes."""
    full = Buffer("full", "shared", barrier, (1,), TileLayout.row_major((1,)), barrier.bytes)
    return (None, Region(full, (build.const(0, int32),), (None,))) if loads else ()


def _copy_of_registers(draw: st.DrawFn, name: str) -> Operation:
    """Between a local tile and memory."""
    draft = _Drawing(draw)
    dtype, loads = draw(dtypes()), draw(st.booleans())
    windowed = draw(st.integers(0, 3)) == 0
    whole = draft.tile("dst" if loads else "src", dtype, windowed=windowed)
    whole = whole if windowed else draft.padded(whole)
    tile = draft.part(whole)
    space = draw(st.sampled_from(("global", "shared")))
    memory = draft.memory("src" if loads else "dst", space, dtype, tile.shape, written=not loads)
    sides = (tile, memory) if loads else (memory, tile)
    if windowed or name != COPY.name or draw(st.integers(0, 3)):
        return draft.made(name, (*sides, *_fill(draft, dtype)))
    fill = _fill(draft, dtype) or (None,)
    return draft.made(name, (*sides, *fill, draft.broadcast("mask", bool_, whole)))


def _update(draw: st.DrawFn, name: str) -> Operation:
    """Of memory, each element once, by a local tile."""
    draft = _Drawing(draw)
    dtype = draw(st.sampled_from((int32, uint64, float16, bfloat16, float32, float64)))
    operations = [op for op in ("add", "max", "exch") if has_type(op, dtype)]
    value = draft.part(draft.padded(draft.tile("value", dtype)))
    space = draw(st.sampled_from(("global", "shared")))
    place = draft.memory("place", space, dtype, value.shape, written=True, edges=False)
    return draft.made(name, (place, None, value), operation=draw(st.sampled_from(operations)))


def _copy_between_registers(draw: st.DrawFn, name: str) -> Operation:
    """Between two local tiles of one shape, in the same threads or in others."""
    if draw(st.booleans()):
        return _copy_between_lanes(draw, name)
    draft = _Drawing(draw)
    src = draft.padded(draft.tile("src", draw(dtypes())))
    make = draft.rearranged if draw(st.booleans()) else draft.exchanged
    return draft.made(name, (draft.part(make("dst", src.dtype, src)), draft.part(src)))


def _copy_between_lanes(draw: st.DrawFn, name: str) -> Operation:
    """Between two local tiles in which bits of lanes and of registers have changed places, in whole 32-bit words."""
    draft = _Drawing(draw, ("warp", 32), ("warp", 64), ("cta", 64))
    dtype = draw(dtypes())
    word, bits = max(1, 32 // dtype.bits), draw(st.integers(1, 2))
    before: list[_Digit] = [(2, 1 << bit, "laneid") for bit in range(5)]
    before += [(2, word << bit, "m") for bit in range(bits)]
    after = list(before)
    for _ in range(draw(st.integers(1, 3))):
        one, other = (draw(st.integers(0, len(after) - 1)) for _ in range(2))
        after[one], after[other] = after[other], after[one]
    fixed: list[_Digit] = [(3, word << bits, "m")] if draw(st.booleans()) else []
    fixed += [(2, 1, "warpid")] if draft.scope == "cta" else []
    order = draw(st.permutations(range(len(before) + len(fixed))))
    inner: list[_Digit] = [(word, 1, "m")] if word > 1 else []
    layouts = [TileLayout.from_iters([(digits + fixed)[k] for k in order] + inner) for digits in (after, before)]
    extents = [it.extent for it in layouts[0].shard]
    cut = draw(st.integers(1, len(extents)))
    shape = tuple(math.prod(part) for part in (extents[:cut], extents[cut:]) if part)
    dst, src = (_whole(_local(n, dtype, shape, made)) for n, made in zip(("dst", "src"), layouts, strict=True))
    return draft.made(name, (draft.part(dst), draft.part(src)))


def _reshape(draw: st.DrawFn, name: str) -> Operation:
    """Between two local tiles with the same elements in the same order, in other shapes."""
    draft = _Drawing(draw)
    src = draft.padded(draft.tile("src", draw(dtypes())))
    if src.buffer.slots:
        dst = draft.exchanged("dst", src.dtype, src)
        units = draw(st.integers(0, len(src.shape)))
        shape, slots = ((*n[:units], 1, *n[units:]) for n in (src.shape, src.buffer.slots))
        return draft.made(name, (_whole(replace(dst.buffer, shape=shape, slots=slots)), src))
    make = draft.rearranged if draw(st.booleans()) else draft.exchanged
    layout = make("dst", src.dtype, src).buffer.tile_layout
    extents = [it.extent for it in layout.shard]
    cuts = sorted(draw(st.sets(st.integers(1, len(extents)), max_size=2)))
    shape = tuple(math.prod(extents[a:b]) for a, b in itertools.pairwise([0, *cuts, len(extents)]))
    return draft.made(name, (draft.part(_whole(_local("dst", src.dtype, shape, layout))), src))


def _primes(extent: int) -> list[tuple[int, int]]:
    """Digits of prime extents that count as one of `extent` does, slowest first, each with its step."""
    primes: list[int] = []
    for prime in (2, 3, 5, 7, 11, 13):
        while extent % prime == 0:
            primes.append(prime)
            extent //= prime
    primes += [extent] if extent > 1 else []
    return [(prime, math.prod(primes[k + 1 :])) for k, prime in enumerate(primes)]


def _copy_of_matrices(draw: st.DrawFn, name: str) -> Operation:
    """Between shared memory and registers in the order in which ldmatrix deals out tiles of 8 rows of 16 bytes."""
    draft = _Drawing(draw, ("warp", 32), ("warpgroup", 128), ("cta", 64), ("cta", 96))
    dtype = draw(st.sampled_from([t for t in DTYPES.values() if t.bits == 16]))
    axis = "wid_in_wg" if draft.scope == "warpgroup" else "warpid"
    tiles = draw(st.lists(st.sampled_from((2, 2, 3, 4)), max_size=2))
    digits: dict[str, _Digit] = {"row": (8, 4, "laneid"), "pair": (4, 1, "laneid"), "half": (2, 1, "m")}
    if draft.threads > WARP:
        digits["warp"] = (draft.threads // WARP, 1, axis)
    step = 2
    for k in draw(st.permutations(range(len(tiles)))):
        digits[f"tile{k}"] = (tiles[k], step, "m")
        step *= tiles[k]
    strides = _matrix_strides(draw, {digit: extent for digit, (extent, _, _) in digits.items()})
    order = draw(st.permutations(sorted(digits)))
    shape = tuple(digits[digit][0] for digit in order)
    swizzle = Swizzle(draw(st.integers(1, 3)), 3, 3) if draw(st.booleans()) else None
    tile = TileLayout.from_iters([digits[digit] for digit in order])
    memory = TileLayout.from_iters([(digits[n][0], strides[n], "m") for n in order], (), None, swizzle)
    loads = draw(st.booleans())
    names = ("dst", "src") if loads else ("src", "dst")
    align = allocation.alignment("shared", dtype, memory)
    local, shared = _local(names[0], dtype, shape, tile), Buffer(names[1], "shared", dtype, shape, memory, align)
    sides = draft.part(_whole(local)), _whole(shared)
    return draft.made(name, sides if loads else sides[::-1])


def _matrix_strides(draw: st.DrawFn, extents: dict[str, int]) -> dict[str, int]:
    """Where each digit leads in memory: rows or columns of 8 elements together, all else in any order, with gaps."""
    by_column = draw(st.booleans())
    strides = {"row": 1} if by_column else {"half": 1, "pair": 2}
    step = 8
    for name in draw(st.permutations(sorted(n for n in extents if n not in strides and n != "pair"))):
        strides[name] = step
        if by_column and name == "half":
            strides["pair"] = 2 * step
        step *= 8 if by_column and name == "half" else extents[name]
        # a gap that isn't a multiple of 8 elements takes rows apart
        step += draw(st.sampled_from((0, 0, 0, 0, 0, 8, 8, 16, 4)))
    return strides


def _copy_of_tensor_memory(draw: st.DrawFn, name: str) -> Operation:
    """Between tensor memory and the registers of a warpgroup."""
    draft = _Drawing(draw, ("warpgroup", 128))
    dtype = draw(st.sampled_from([t for t in DTYPES.values() if t.bits in (8, 16, 32) and t != bool_]))
    packed = 32 // dtype.bits
    path = draw(st.sampled_from("DDFB"))
    rows, shapes = _PATHS[path]
    registers = atom_layout(draw(st.sampled_from(shapes)), draw(st.sampled_from((1, 2, 4))), dtype, rows)
    columns = registers.size() // rows
    # a part of a folded data path isn't one of its rows
    at = 0 if path == "B" else packed * draw(st.integers(0, 3))
    reach = at + columns + (0 if path == "B" else packed * draw(st.integers(0, 2)))
    there = datapath(path, rows, reach, draw(st.integers(0, 1)) if path == "F" else 0)
    zero = build.const(0, int64)
    start: Expr = build.const(at, int64)
    if path != "B" and draw(st.booleans()):
        start = draft.variable("tmem.start", int64, at, packed)
    loads = draw(st.booleans())
    to, what = ("dst", "src") if loads else ("src", "dst")
    tmem = Region(Buffer(what, "tmem", dtype, (rows, reach), there, 16), (zero, start), (rows, columns))
    local = _whole(_local(to, dtype, (rows, columns), registers))
    target = draw(st.sampled_from(("sm_100a", "sm_100a", "sm_100a", "sm_90a")))
    return draft.made(name, (local, tmem) if loads else (tmem, local), target)


def _types(draw: st.DrawFn, name: str) -> tuple[DType, tuple[DType, ...]]:
    """The types of the destination and of the inputs of an elementwise operation."""
    if name not in ELEMENTWISE:
        # fp8 has no scalars
        _, source = TILE_OPERATIONS[name].operands
        return draw(dtypes()), (draw(dtypes(fp8=TILE in source.kinds)),)
    rule = ELEMENTWISE[name]
    rows = [((bool_,) if rule.kind == "select" else (t,)) + (t,) * (rule.arity - 1) for t in DTYPES.values()]
    types = draw(st.sampled_from([row for row in rows if not isinstance(result_type(name, row), str)]))
    result = result_type(name, types)
    assert not isinstance(result, str)
    return result[1], types


def _elementwise_in_registers(draw: st.DrawFn, name: str) -> Operation:
    draft = _Drawing(draw)
    to, types = _types(draw, name)
    dst = draft.padded(draft.tile("dst", to))
    inputs: list[Region | Expr] = []
    for k, (rule, dtype) in enumerate(zip(TILE_OPERATIONS[name].operands[1:], types, strict=True)):
        kind = draw(st.sampled_from(("tile", "tile", "broadcast", "scalar", "in place")))
        if TILE not in rule.kinds or (kind == "scalar" and SCALAR in rule.kinds and not dtype.is_fp8):
            inputs.append(draft.scalar("abc"[k], dtype))
        elif kind == "in place" and dtype == to:
            inputs.append(dst)
        else:
            make = draft.broadcast if kind == "broadcast" else draft.rearranged
            inputs.append(draft.part(make("abc"[k], dtype, dst)))
    return draft.made(name, (dst if dst in inputs else draft.part(dst), *inputs))


def _elementwise_in_memory(draw: st.DrawFn, name: str) -> Operation:
    draft = _Drawing(draw)
    to, types = _types(draw, name)
    shape = draft.memory_shape()
    spaces = st.sampled_from(("shared", "global"))
    dst = draft.memory("dst", draw(spaces), to, shape, written=True)
    inputs: list[Region | Expr] = []
    for k, (rule, dtype) in enumerate(zip(TILE_OPERATIONS[name].operands[1:], types, strict=True)):
        if TILE not in rule.kinds or (SCALAR in rule.kinds and not dtype.is_fp8 and draw(st.integers(0, 3)) == 0):
            inputs.append(draft.scalar("abc"[k], dtype))
            continue
        some = tuple(draw(st.sampled_from((n, n, 1))) for n in shape)
        behind = draw(st.integers(0, len(shape) - 1)) if draw(st.booleans()) else 0
        inputs.append(draft.memory("abc"[k], draw(spaces), dtype, some[behind:]))
    return draft.made(name, (dst, *inputs))


def _reduction(draw: st.DrawFn, name: str) -> Operation:
    """Of a local tile to what is left of it, some to a tile in other threads."""
    draft, reduction = _Drawing(draw), REDUCTIONS[name]
    source = draw(dtypes(fp8=False))
    wider = [t for t in DTYPES.values() if reduction.type_fault(source, t) is None]
    result = draw(st.sampled_from((reduction.result_type(source), *wider)))
    src = draft.padded(draft.tile("src", source))
    axes = sorted(draw(st.sets(st.integers(0, len(src.shape) - 1), min_size=1)))
    dst = draft.projected("dst", result, src, axes)
    if draw(st.integers(0, 7)) == 0:
        dst = draft.tile("dst", result)
        assume(_kept(dst.shape) == _kept(n for d, n in enumerate(src.shape) if d not in axes))
    dst, src = draft.part(dst), draft.part(src)
    if len(axes) == len(src.shape) and draw(st.booleans()):
        return draft.made(name, (dst, src))
    return draft.made(name, (dst, src), axis=tuple(axes))


def _fold(draw: st.DrawFn, name: str) -> Operation:
    """A reduction by a function whose arguments can't be exchanged: what is left is the last value that isn't 0."""
    draft = _Drawing(draw)
    dtype = draw(dtypes(fp8=False))
    src = draft.padded(draft.tile("src", dtype))
    axes = sorted(draw(st.sets(st.integers(0, len(src.shape) - 1), min_size=1)))
    dst, src = draft.part(draft.projected("dst", dtype, src, axes)), draft.part(src)
    lower, higher = Var("lower", dtype), Var("higher", dtype)
    zero = build.const(False if dtype == bool_ else 0, dtype)
    last = build.where(build.not_equal(higher, zero), higher, lower)
    return draft.made(name, (dst, src), axis=tuple(axes), combine=Combine((lower,), (higher,), (), (last,)))


def _kept(shape: Iterable[int]) -> list[int]:
    return [n for n in shape if n != 1]


def _product(draw: st.DrawFn, name: str) -> Operation:
    """A product of any extents in the layouts of fragments, some in one that is none."""
    wm, wn = draw(st.sampled_from(((1, 1), (1, 1), (2, 1), (1, 2), (2, 2), (1, 4))))
    copies = draw(st.sampled_from((1, 1, 2) if wm * wn < 4 else (1,)))
    threads = wm * wn * copies * WARP
    draft = _Drawing(draw, ("cta", threads), *((s, n) for s, (n, _) in _INSTANCES.items() if n == threads))
    form = draw(st.sampled_from(MMA.forms()))
    # few products, so that they can be worked out one by one
    larger = [(2, 2, 3)] if threads == WARP else []
    tiles = draw(st.sampled_from([(1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2), *larger]))
    whole = [count * size for count, size in zip(tiles, (MMA_M * wm, MMA_N * wn, form.k), strict=True)]
    m, n, k = whole if draw(st.booleans()) else (draw(st.integers(1, extent)) for extent in whole)
    within = "warpgroup" if draft.scope == "warpgroup" else "cta"
    operands: list[Region] = []
    for operand, shape, dtype in (("acc", (m, n), form.acc), ("a", (m, k), form.a), ("b", (k, n), form.b)):
        made = fragment_layout(operand, shape, dtype, (wm, wn), copies, form.k, within)
        operands.append(_whole(replace(_local(operand, dtype, shape, made.layout), slots=made.slots)))
    if draw(st.integers(0, 7)) == 0:
        column = draw(st.integers(0, 2))
        region = operands[column]
        operands[column] = draft.rearranged(region.buffer.name, region.dtype, region)
    attrs = {"precision": "tf32"} if form.a == float32 else {}
    return draft.made(name, operands, draw(st.sampled_from(("sm_80", "sm_90a", "sm_100a"))), **attrs)


def _asynchronous_product(draw: st.DrawFn, name: str) -> Operation:
    """A product of a warpgroup, its factors in shared memory either way round, or a in registers."""
    draft = _Drawing(draw, ("warpgroup", WARPGROUP))
    columns = draw(st.sampled_from((8, 8, 24, 24, 32, 48, 64, 96, 256)))
    one = draw(st.sampled_from([each for each in products() if each.n == columns]))
    blocks, steps = draw(st.sampled_from([(1, 1), (1, 2), (1, 4), *([(2, 1), (2, 2)] if columns < 256 else [])]))
    m, n, k = WGMMA_M * blocks, one.n * draw(st.sampled_from((1, 1, 2) if columns < 96 else (1,))), one.k * steps
    acc = _whole(_local("acc", one.acc, (m, n), warpgroup.layout_c((m, n))))
    if one.a_place is FactorPlace.REGISTERS:
        a = _whole(_local("a", one.a, (m, k), warpgroup.layout_a((m, k), one.a)))
    else:
        a = draft.atoms("a", one.a, (m, k), is_turned=one.a_place is FactorPlace.MN_MAJOR)
    b = draft.atoms("b", one.b, (k, n), is_turned=one.b_place is FactorPlace.K_MAJOR)
    if draw(st.integers(0, 7)) == 0:
        acc = draft.rearranged("acc", one.acc, acc)
    attrs = {"precision": "tf32"} if one.a == float32 else {}
    accumulate = draw(st.sampled_from((None, build.const(False, bool_), draft.variable("accumulate", bool_, True))))
    operands = (acc, a, b) if accumulate is None else (acc, a, b, accumulate)
    return draft.made(name, operands, draw(st.sampled_from(("sm_90a", "sm_90a", "sm_90a", "sm_100a"))), **attrs)


def _indices(draw: st.DrawFn, name: str) -> Operation:
    draft = _Drawing(draw)
    dst = draft.padded(draft.tile("dst", draw(st.sampled_from([t for t in DTYPES.values() if t.is_integer]))))
    dst = draft.part(dst)
    return draft.made(name, (dst,), axis=draw(st.integers(0, len(dst.shape) - 1)))


_Way = Callable[[st.DrawFn, str], Operation]

_ELEMENT_BY_ELEMENT: tuple[_Way, ...] = (_elementwise_in_registers, _elementwise_in_memory)

#: name of an operation that isn't elementwise -> the ways to draw its operands
_WAYS: dict[str, tuple[_Way, ...]] = {
    COPY.name: (_copy_in_memory, _copy_in_memory, _copy_of_registers, _copy_of_matrices, _copy_between_registers),
    COPY_ASYNC.name: (
        *(_copy_in_memory,) * 3, *(_copy_of_boxes,) * 2, _copy_of_runs, *(_copy_of_tensor_memory,) * 2,
    ),
    GEMM.name: (_product,),
    GEMM_ASYNC.name: (_asynchronous_product,),
    FILL.name: _ELEMENT_BY_ELEMENT,
    CAST.name: _ELEMENT_BY_ELEMENT,
    INDICES.name: (_indices,),
    RESHAPE.name: (_reshape, _copy_between_lanes),
    ATOMIC.name: (_update,),
    **dict.fromkeys(REDUCTIONS, (_reduction,)),
    REDUCE.name: (_fold,),
}


def ways_to_draw(record: TileOperation) -> tuple[_Way, ...]:
    """The ways to draw an operation's operands, none where nobody has written one."""
    return _WAYS.get(record.name, () if record.elementwise is None else _ELEMENT_BY_ELEMENT)
