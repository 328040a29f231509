"""Incremental construction of random tile operations: scopes, and operands of every kind."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence

from hypothesis import assume
from hypothesis import strategies as st

from tilejit.dataclass import dataclass, replace
from tilejit.dtypes import DType, bool_, int64
from tilejit.ir import allocation
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import Buffer, Expr, Region, Special, Strided, TileOp, Var
from tilejit.layout import Swizzle, TileLayout, swizzled_atom_layout
from tilejit.layout.swizzle import SWIZZLE_BITS
from tilejit.ops.record import AttributeValue
from tilejit.scopes import SCOPES
from tilejit.target import Target
from tilejit.target import target as find_target
from tilejit.testing.layouts import regions_of, register_layouts

#: a target of each generation; the oldest, which has the fewest instructions, is drawn less often than the others
_TARGETS = ("sm_75", "sm_80", "sm_80", "sm_90a", "sm_90a", "sm_100a", "sm_100a")

#: scope -> threads per CTA; only for scopes "warp" and "warpgroup" must a CTA consist of whole warps
_LAUNCHES: dict[str, tuple[int, ...]] = {
    "thread": (1, 3, 32, 48),
    "warp": (32, 64, 96),
    "warpgroup": (128, 256),
    "cta": (1, 32, 48, 96, 128, 160),
}

#: scope -> (threads per instance, name of the id that numbers the instances)
INSTANCES = {s.name: (s.size, s.number_id.name) for s in SCOPES.values() if s.size is not None and s.number_id}

#: a digit of a layout: (extent, stride, axis)
Digit = tuple[int, int, str]


@dataclass(frozen=True)
class Operation:
    """A tile operation and the target and launch for which it is dispatched.

    Instances of the scope write to disjoint locations, and no instance writes a location that others read.

    threads: threads per CTA.
    values: name -> value of each run-time variable in starts, extents, strides and scalars.
    """

    op: TileOp
    target: Target
    threads: int
    values: dict[str, bool | int | float]

    def forced(self, variant: str) -> Operation:
        return replace(self, op=replace(self.op, attrs=(*self.op.attrs, ("variant", variant))))


class OperationDraft:
    """An operation under construction.

    tidy: True to choose memory layouts and starts that make wide vectors likely.
    values: name -> value of each run-time variable.
    """

    def __init__(self, draw: st.DrawFn, *launches: tuple[str, int]) -> None:
        self.draw = draw
        self.scope, self.threads = draw(st.sampled_from(launches or _EVERY_LAUNCH))
        self.tidy = draw(st.booleans())
        self.values: dict[str, bool | int | float] = {}

    def finish(
        self, name: str, operands: Sequence[Region | Expr | None], target: str | None = None, **attrs: AttributeValue
    ) -> Operation:
        target = target or self.draw(st.sampled_from(_TARGETS))
        op = TileOp(name, self.scope, tuple(operands), tuple(attrs.items()))
        return Operation(op, find_target(target), self.threads, self.values)

    @property
    def instances(self) -> int:
        return self.threads // INSTANCES[self.scope][0] if self.scope in INSTANCES else 1

    def variable(self, name: str, dtype: DType, value: bool | int | float, multiple_of: int = 1) -> Var:
        self.values[name] = value
        return Var(name, dtype, multiple_of)

    def extents(self, most: int) -> tuple[int, ...]:
        extents: list[int] = []
        for _ in range(self.draw(st.integers(1, 3))):
            listed = (4, 8, 16, 32, 64) if self.tidy else (1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 32, 64, 100)
            room = most // math.prod(extents)
            extents.append(self.draw(st.sampled_from([n for n in listed if n <= room] or [1])))
        return tuple(extents)

    def memory_shape(self) -> tuple[int, ...]:
        return self.extents(max(1, 512 // self.instances))

    def memory(
        self, name: str, space: str, dtype: DType, shape: Sequence[int], *, written: bool = False, edges: bool = True,
        boxes: bool = False,
    ) -> Region:
        """Draw a region of `shape` in shared or global memory.

        written: elements have distinct locations, and each instance of the scope has its own region.
        edges: the region may extend past the edges of a tensor.
        boxes: exclude negative starts and strides, because a launch refuses them for box stores.
        """
        strided = space == "global" and self.draw(st.booleans())
        is_apart = self.instances > 1 and (written or self.draw(st.booleans()))
        longest = max(range(len(shape)), key=lambda d: shape[d])
        windows = [
            self.window(
                f"{name}.start.{d}", e, apart=is_apart and d == longest, edges=strided and edges, negative=not boxes
            )
            for d, e in enumerate(shape)
        ]
        sizes = [size for _, size in windows]
        assume(math.prod(sizes) <= 4096)
        if strided:
            buffer = self.strided(name, dtype, sizes, written, backward=not boxes)
        else:
            buffer = self._laid_out(name, space, dtype, sizes, written)
        return Region(buffer, tuple(start for start, _ in windows), tuple(shape))

    def window(
        self, name: str, extent: int, *, apart: bool, edges: bool, negative: bool = True
    ) -> tuple[Expr, int]:
        """Draw (start of a region in a dimension, size of the dimension). name: of a run-time start.

        apart: each instance of the scope has its own region. edges: the region may extend past the edges.
        negative: a run-time start may be negative, which only a launch can detect.
        """
        grain = 16 if self.tidy else self.draw(st.sampled_from((1, 1, 2, 4, 8)))
        kind = self.draw(st.sampled_from(("static", "static", "multiple", "product", "sum")))
        steps = self.draw(st.integers(-1 if edges and (negative or kind == "static") else 0, 2))
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
            number = build.cast(Special(INSTANCES[self.scope][1]), int64)
            start, count = build.add(build.mul(number, extent), start), self.instances
        after = self.draw(st.sampled_from((0, 8) if self.tidy else (0, 0, 1, 3, 4, 8)))
        if edges and self.draw(st.booleans()):
            after = -self.draw(st.integers(0, extent))
        return start, max(first + extent * count + after, 1)

    def _laid_out(self, name: str, space: str, dtype: DType, sizes: Sequence[int], written: bool) -> Buffer:
        """Draw a buffer: row-major if tidy, else with dimensions split into digits in any order, with gaps."""
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
                # Elements that are only read may share a location.
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

    def strided(
        self, name: str, dtype: DType, sizes: Sequence[int], written: bool, *, backward: bool = True,
        order: Sequence[int] | None = None,
    ) -> Buffer:
        """Draw a tensor with run-time extents and strides: in any order, padded, negative or 0.

        backward: strides may be negative.
        order: order of the dimensions, fastest first; the first one has stride 1.
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
        # TMA stores usually require that the alignment of the extent is known.
        alignments = [whole, whole, 1] if is_ordered else [n for n in (1, 2, 4, 8, 16) if n <= whole]
        extent_align = self.draw(st.sampled_from(alignments))
        along_unit = max(1, extent_align // dtype.bytes)
        shape: list[int | Var] = []
        for d, size in enumerate(sizes):
            extent = self.variable(f"{name}.shape.{d}", int64, size, along_unit if d == unit else 1)
            shape.append(replace(extent, bounds=(0, 2**40)))
        return Buffer(name, "global", dtype, tuple(shape), Strided(tuple(strides), align, extent_align), align)

    def atoms(self, name: str, dtype: DType, shape: tuple[int, int], *, is_transposed: bool) -> Region:
        """Draw a region of shared memory in swizzle atoms: one of 1 or 2 tiles, starting at a multiple of 8 rows.

        is_transposed: the first dimension is contiguous rather than the second.
        """
        rows, columns = shape[::-1] if is_transposed else shape
        modes = [mode for mode in SWIZZLE_BITS if columns * dtype.bytes % (16 << SWIZZLE_BITS[mode]) == 0]
        stages, first = self.draw(st.integers(1, 2)), 8 * self.draw(st.sampled_from((0, 0, 1, 2)))
        held = stages, first + rows, columns
        layout, ends = swizzled_atom_layout(held, dtype.bits, self.draw(st.sampled_from(modes))).group(held)
        order = (0, 2, 1) if is_transposed else (0, 1, 2)
        transposed = layout.permute_groups(ends, order)
        align = allocation.alignment("shared", dtype, transposed)
        buffer = Buffer(name, "shared", dtype, tuple(held[d] for d in order), transposed, align)
        starts = self.draw(st.integers(0, stages - 1)), first, 0
        return Region(buffer, tuple(build.const(starts[d], int64) for d in order), (None, *shape))

    def tile(self, name: str, dtype: DType, *, windowed: bool = False) -> Region:
        """Draw a local tile, or a part of one if windowed, distributed over exactly the threads of the scope."""
        most = 16 if self.scope == "thread" else 8
        layout, shape = self.draw(
            register_layouts(self.scope, threads=self.threads, max_registers=most, rank=self.draw(st.integers(1, 3)))
        )
        region = self.draw(regions_of(shape)) if windowed else [(0, n) for n in shape]
        starts = tuple(build.const(start, int64) for start, _ in region)
        return Region(local_buffer(name, dtype, shape, layout), starts, tuple(e for _, e in region))

    def padded(self, tile: Region) -> Region:
        """Return `tile` or, sometimes, a tile with fewer elements than its layout has slots."""
        if self.draw(st.integers(0, 3)):
            return tile
        shape = tuple(self.draw(st.integers(min(2, n), n)) for n in tile.shape)
        return whole_of(replace(tile.buffer, shape=shape, slots=tile.shape if shape != tile.shape else ()))

    def part(self, tile: Region) -> Region:
        """Return `tile` or, sometimes, one of several equal tiles of a buffer in different registers or threads."""
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
        """Return a tile in the threads of `tile`, with its registers in another order."""
        layout = tile.buffer.tile_layout
        shard = [(it.extent, it.stride, it.axis.name) for it in layout.shard]
        made = TileLayout.from_iters(self._packed(shard), _replicas(layout))
        return whole_of(replace(local_buffer(name, dtype, tile.shape, made), slots=tile.buffer.slots))

    def exchanged(self, name: str, dtype: DType, tile: Region) -> Region:
        """Return a tile in the threads and registers of `tile`, with elements permuted."""
        layout = tile.buffer.tile_layout
        digits = [(prime, it.stride * step, it.axis.name) for it in layout.shard for prime, step in _primes(it.extent)]
        places = [(stride, axis) for _, stride, axis in digits]
        for prime in sorted({extent for extent, _, _ in digits}):
            same = [k for k, (extent, _, _) in enumerate(digits) if extent == prime]
            for k, other in zip(same, self.draw(st.permutations(same)), strict=True):
                places[k] = digits[other][1:]
        made = [(extent, *place) for (extent, _, _), place in zip(digits, places, strict=True)]
        replaced = TileLayout.from_iters(made or [(1, 1, "m")], _replicas(layout))
        return whole_of(replace(local_buffer(name, dtype, tile.shape, replaced), slots=tile.buffer.slots))

    def broadcast(self, name: str, dtype: DType, tile: Region) -> Region:
        """Return a tile that broadcasts to `tile`; along broadcast dimensions, threads hold replicas."""
        slots = [int(n) for n in tile.buffer.laid_out if isinstance(n, int)]
        layout, ends = tile.buffer.tile_layout.group(slots)
        replicas = _replicas(layout)
        shape: list[int] = []
        shard: list[Digit] = []
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
        buffer = local_buffer(name, dtype, tuple(shape), made)
        return whole_of(replace(buffer, slots=tuple(slots) if slots != shape else ()))

    def projected(self, name: str, dtype: DType, tile: Region, axes: Collection[int]) -> Region:
        """Return a tile without some axes of `tile`; the threads along these axes hold replicas."""
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
        return whole_of(replace(local_buffer(name, dtype, shape, made), slots=holding if holding != shape else ()))

    def _packed(self, shard: Sequence[Digit]) -> list[Digit]:
        """Return `shard` with new dense strides for the register digits, in any order."""
        strides, step = {}, 1
        for k in self.draw(st.permutations([k for k, (_, _, axis) in enumerate(shard) if axis == "m"])):
            strides[k], step = step, step * shard[k][0]
        return [(e, strides.get(k, s), axis) for k, (e, s, axis) in enumerate(shard)]

    def scalar(self, name: str, dtype: DType) -> Expr:
        """Draw a small number, as a constant or a run-time variable."""
        value: bool | int | float = self.draw(st.integers(0, 7))
        if dtype == bool_:
            value = value > 3
        elif dtype.is_float:
            value = value / 4
        if self.draw(st.booleans()) or dtype.is_fp8:
            return build.const(value, dtype)
        return self.variable(name, dtype, value)


_EVERY_LAUNCH = tuple((scope, threads) for scope, sizes in _LAUNCHES.items() for threads in sizes)


def local_buffer(name: str, dtype: DType, shape: Sequence[int], layout: TileLayout) -> Buffer:
    return Buffer(name, "local", dtype, tuple(shape), layout, dtype.bytes)


def whole_of(buffer: Buffer) -> Region:
    extents = buffer.fixed_shape
    return Region(buffer, tuple(build.const(0, int64) for _ in extents), extents)


def _replicas(layout: TileLayout) -> list[Digit]:
    return [(it.extent, it.stride, it.axis.name) for it in layout.replica]


def _primes(extent: int) -> list[tuple[int, int]]:
    """Return (factor, stride) for prime factors of an extent, slowest first; one above 13 may be composite."""
    primes: list[int] = []
    for prime in (2, 3, 5, 7, 11, 13):
        while extent % prime == 0:
            primes.append(prime)
            extent //= prime
    primes += [extent] if extent > 1 else []
    return [(prime, math.prod(primes[k + 1 :])) for k, prime in enumerate(primes)]
