"""Sorts along an axis of a tile: `tj.sort`, `tj.argsort` and `tj.top_k`.

The operation `sort` compares unsigned integers, so each element is mapped to one, its key, whose order is the wanted
one: NaNs come last in both directions. Comparator networks aren't stable. If the order of ties can be seen, in indices
or other tiles, equal elements get equal keys, which the index along the axis follows, in one integer if it fits:

    elements                 without index   with index
    up to 16 bits            uint32          uint32: key, index
    32 bits                  uint32          uint64: key, index
    64 bits                  uint64          uint64: key; uint32: index

A float's bits can't be restored from a key without signs of zeros and bits of NaNs, so they move along with such a key,
as do the elements of other tiles. These are tiles of the layout that suits the network: rows over as many threads as
possible, the rest of the threads along the axis, whose slots are a power of two.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import NamedTuple

from ..dataclass import dataclass, replace
from ..dtypes import DTYPES, DType, bool_, float32, int32, uint8, uint32, uint64
from ..ir import nodes as ir
from ..ir.arithmetic import build
from ..layout import TileLayout
from ..ops.copies import COPY, FILL, INDICES
from ..ops.sort import INDEXED, KEYS, PAIRS, SORT
from ..scopes import SCOPES
from . import memory as mem
from . import tiles
from .arguments import Arguments, optional
from .context import Context
from .methods import permute, seen_as
from .values import Constant, Items, Memory, Value

#: the most tiles of a call: the operation also sorts an index and the bits of a float
_MOST = len(PAIRS) - 2


def sort(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.sort(x, axis=-1, descending=False)`; for a tuple of tiles, return a tuple."""
    value = ctx.evaluate(arguments["x"])
    values = value.items if isinstance(value, Items) else (value,)
    if not 1 <= len(values) <= _MOST:
        raise ctx.type_error(
            arguments["x"], f"sort can't take {len(values)} tiles",
            f"give one tile, or a tuple of 1 to {_MOST}; tj.argsort returns the indices that sort any number",
        )
    given = [tiles.local_tile(ctx, arguments["x"], "sort", each) for each in values]
    if any(tile.shape != given[0].shape for tile in given):
        shapes = " and ".join(dict.fromkeys(str(tile.shape) for tile in given))
        raise ctx.type_error(arguments["x"], f"the tiles have shapes {shapes}", "give tiles of one shape")
    made = _Sort.of(ctx, node, "sort", arguments, given, descending=_flag(ctx, arguments, "descending", False))
    results = made.results(keys=True, indices=False)
    return Items(tuple(results)) if isinstance(value, Items) else results[0]


def argsort(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.argsort(x, axis=-1, descending=False)`."""
    tile = tiles.local_tile(ctx, arguments["x"], "argsort", ctx.evaluate(arguments["x"]))
    made = _Sort.of(ctx, node, "argsort", arguments, [tile], descending=_flag(ctx, arguments, "descending", False))
    return made.results(keys=False, indices=True)[0]


def top_k(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.top_k(x, k, axis=-1, largest=True)`."""
    tile = tiles.local_tile(ctx, arguments["x"], "top_k", ctx.evaluate(arguments["x"]))
    k = ctx.integer(ctx.evaluate(arguments["k"]), arguments["k"], "k")
    made = _Sort.of(ctx, node, "top_k", arguments, [tile], descending=_flag(ctx, arguments, "largest", True))
    extent = made.shape[-1]
    if not 1 <= k <= extent:
        raise ctx.type_error(
            arguments["k"], f"top_k of {k} elements of an axis of extent {extent}",
            f"k is a number from 1 to {extent}" if extent else "leave top_k out where the axis is empty",
        )
    return Items(tuple(replace(made, kept=k).results(keys=True, indices=True)))


def _flag(ctx: Context, arguments: Arguments, name: str, default: bool) -> bool:
    value = optional(ctx, arguments, name)
    return default if value is None else bool(ctx.constant(value, arguments[name], f"{name}="))


class _Format(NamedTuple):
    """The encoding of a float. infinity: its bits. nans: the number of NaNs of each sign."""

    infinity: int
    nans: int

    @staticmethod
    def of(dtype: DType) -> _Format:
        mantissa = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}[dtype.name]
        return _Format((1 << dtype.bits - 1) - (1 << mantissa), (1 << mantissa) - 1)


@dataclass(frozen=True, slots=True)
class _Sort:
    ctx: Context
    node: ast.AST
    name: str
    scope: str
    #: the position of the sorted axis, which is the last of `given`
    axis: int
    given: tuple[Memory, ...]
    descending: bool
    #: number of elements in the result along the axis
    kept: int

    @staticmethod
    def of(
        ctx: Context, node: ast.AST, name: str, arguments: Arguments, given: Sequence[Memory], *, descending: bool
    ) -> _Sort:
        shape, axis = given[0].shape, -1
        if optional(ctx, arguments, "axis") is not None:
            axis = ctx.integer(ctx.evaluate(arguments["axis"]), arguments["axis"], "the axis")
        (axis,) = mem.axes_of(ctx, arguments.get("axis", node), Constant(axis), len(shape))
        scope = tiles.common_scope(ctx, node, name, given)
        order = (*(d for d in range(len(shape)) if d != axis), axis)
        moved = given if axis == len(shape) - 1 else [permute(ctx, node, tile, order) for tile in given]
        return _Sort(ctx, node, name, scope, axis, tuple(moved), descending, shape[axis])

    @property
    def shape(self) -> tuple[int, ...]:
        return self.given[0].shape

    def results(self, *, keys: bool, indices: bool) -> list[Value]:
        """Return the sorted elements of the first tile, if `keys`, and of the others; then indices, if `indices`."""
        first, *others = self.given
        if 0 in self.shape:
            dtypes = [*([tile.dtype for tile in self.given] if keys else []), *([int32] if indices else [])]
            return [self._back(self._tile((*self.shape[:-1], self.kept), dtype)) for dtype in dtypes]
        # fp8 is compared as float32, from which its bits aren't restored
        is_stable = indices or bool(others) or first.dtype.is_fp8
        compared, bits = self._compared(first, is_stable=is_stable)
        carries_bits = keys and is_stable and first.dtype.is_float
        carried = [self._widened(tile) for tile in ([first] if carries_bits else []) + others]
        made = self._sorted(compared, carried, is_indexed=is_stable)
        values: list[Memory] = []
        if keys and not carries_bits:
            values.append(self._restored(made[0], first.dtype, bits, is_stable=is_stable))
        moved = [*([first] if carries_bits else []), *others]
        values += [self._narrowed(x, tile.dtype) for x, tile in zip(made[len(compared) :], moved, strict=True)]
        if indices:
            index = made[len(compared) - 1]
            values.append(tiles.cast(self.ctx, self.node, self._index(index, bits), int32))
        return [self._back(value) for value in values]

    def _compared(self, tile: Memory, *, is_stable: bool) -> tuple[list[Memory], int]:
        """Return the tiles that are compared, and the number of bits of a key."""
        dtype = float32 if tile.dtype.is_fp8 else tile.dtype
        bits = _bits(dtype)
        key = self._key(self._unsigned(tile if dtype == tile.dtype else self._cast(tile, dtype)), dtype, is_stable)
        if not is_stable:
            return [self._cast(key, uint32) if bits < 32 else key], bits
        if bits == 64:
            return [key, self._indices(uint32)], bits
        wide = self._packed(bits)
        shifted = self._op("left_shift", self._cast(key, wide), wide.bits // 2)
        return [self._op("bitwise_or", shifted, self._indices(wide))], bits

    def _packed(self, bits: int) -> DType:
        return uint32 if bits <= 16 and self.shape[-1] <= 1 << 16 else uint64

    def _index(self, packed: Memory, bits: int) -> Memory:
        """Return the index of a key with an index."""
        if bits == 64:
            return packed
        return self._op("bitwise_and", packed, (1 << self._packed(bits).bits // 2) - 1)

    def _key(self, x: Memory, dtype: DType, is_stable: bool) -> Memory:
        """Return the key of an element with the bits `x`."""
        bits = x.dtype.bits
        sign, ones = 1 << bits - 1, (1 << bits) - 1
        if not dtype.is_float:
            flipped = (sign if dtype.kind == "int" else 0) ^ (ones if self.descending else 0)
            return self._op("bitwise_xor", x, flipped) if flipped else x
        form = _Format.of(dtype)
        is_negative = self._op("sub", Constant(0), self._op("right_shift", x, bits - 1))
        key = self._op("bitwise_xor", x, self._op("bitwise_or", is_negative, sign))
        if not is_stable:
            # the NaNs that come first come last after a rotation
            key = self._op("bitwise_xor", key, ones) if self.descending else key
            return self._op("sub", key, form.nans)
        magnitude = self._op("bitwise_and", x, ones - sign)
        key = self._op("where", self._op("equal", magnitude, 0), Constant(sign), key)
        key = self._op("bitwise_xor", key, ones) if self.descending else key
        return self._op("where", self._op("greater", magnitude, form.infinity), Constant(ones), key)

    def _restored(self, key: Memory, dtype: DType, bits: int, *, is_stable: bool) -> Memory:
        """Return the elements of some keys, as `_compared` returns them."""
        if is_stable and bits < 64:
            key = self._op("right_shift", key, key.dtype.bits // 2)
        unsigned = _unsigned(bits)
        x = key if key.dtype == unsigned else self._cast(key, unsigned)
        sign, ones = 1 << bits - 1, (1 << bits) - 1
        if dtype.is_float:
            x = self._op("add", x, _Format.of(dtype).nans)
            x = self._op("bitwise_xor", x, ones) if self.descending else x
            is_negative = self._op("sub", self._op("right_shift", x, bits - 1), 1)
            return self._as(self._op("bitwise_xor", x, self._op("bitwise_or", is_negative, sign)), dtype)
        flipped = (sign if dtype.kind == "int" else 0) ^ (ones if self.descending else 0)
        x = self._op("bitwise_xor", x, flipped) if flipped else x
        return self._as(x, dtype)

    def _sorted(self, compared: list[Memory], carried: list[Memory], *, is_indexed: bool) -> list[Memory]:
        """Emit the operation, and return its results."""
        ctx, span = self.ctx, self.ctx.span(self.node)
        threads = SCOPES[self.scope].threads(ctx.threads)
        slots = 1 << (self.kept - 1).bit_length()
        shape, sources, results = _layouts(self.scope, threads, self.shape, slots)
        operands: list[ir.Region] = []
        found: list[Memory] = []
        for tile in (*compared, *carried):
            stem = "keys" if len(found) < len(compared) else "values"
            src = ctx.tile(stem, self.scope, shape, tile.dtype, span, sources)
            if shape != self.shape:
                # padding comes last
                ones = build.const((1 << tile.dtype.bits) - 1, tile.dtype)
                ctx.emit(ir.TileOp(FILL.name, self.scope, (src.region(span), ones), (), span))
            self._copy(replace(src, extents=self.shape), tile)
            dst = ctx.tile("sorted", self.scope, (*shape[:-1], slots), tile.dtype, span, results)
            operands += [dst.region(span), src.region(span)]
            found.append(replace(dst, extents=(*self.shape[:-1], self.kept)))
        attrs = ((KEYS.name, len(compared)), (INDEXED.name, is_indexed))
        op = ir.TileOp(SORT.name, self.scope, tuple(operands), attrs, span)
        tiles.emit_sound(ctx, self.node, op)
        # open tiles, which take any layout where paths join
        return [self._copy(self._tile(tile.shape, tile.dtype), tile) for tile in found]

    def _copy(self, dst: Memory, src: Memory) -> Memory:
        span = self.ctx.span(self.node)
        self.ctx.emit(ir.TileOp(COPY.name, self.scope, (dst.region(span), src.region(span)), (), span))
        return dst

    def _unsigned(self, tile: Memory) -> Memory:
        """Return the bits of a tile's elements as unsigned integers; bool_ as 0 and 1."""
        if tile.dtype == bool_:
            return self._cast(tile, uint8)
        if tile.dtype.kind == "uint":
            return tile
        if tile.buffer.slots:
            # a padded tile in a given layout has no views of other types
            tile = self._copy(self._tile(tile.shape, tile.dtype), tile)
        return seen_as(self.ctx, self.node, tile, _unsigned(tile.dtype.bits))

    def _widened(self, tile: Memory) -> Memory:
        x = self._unsigned(tile)
        return self._cast(x, uint32) if x.dtype.bits < 32 else x

    def _narrowed(self, x: Memory, dtype: DType) -> Memory:
        bits = _bits(dtype)
        return self._as(self._cast(x, _unsigned(bits)) if bits < 32 else x, dtype)

    def _as(self, x: Memory, dtype: DType) -> Memory:
        """Return unsigned integers as elements with these bits; as bool_, of 0 and 1."""
        if dtype == bool_:
            return self._cast(x, dtype)
        return x if x.dtype == dtype else seen_as(self.ctx, self.node, x, dtype)

    def _back(self, tile: Memory) -> Memory:
        """Return a result with its sorted axis in place."""
        order = list(range(len(self.shape) - 1))
        order.insert(self.axis, len(self.shape) - 1)
        moved = tile if self.axis == len(self.shape) - 1 else permute(self.ctx, self.node, tile, tuple(order))
        return moved.at(self.ctx.span(self.node))

    def _indices(self, dtype: DType) -> Memory:
        made, span = self._tile(self.shape, dtype), self.ctx.span(self.node)
        attrs = (("axis", len(self.shape) - 1),)
        self.ctx.emit(ir.TileOp(INDICES.name, self.scope, (made.region(span),), attrs, span))
        return made

    def _tile(self, shape: tuple[int, ...], dtype: DType) -> Memory:
        return self.ctx.tile(self.name, self.scope, shape, dtype, self.ctx.span(self.node))

    def _cast(self, tile: Memory, dtype: DType) -> Memory:
        return tiles.cast(self.ctx, self.node, tile, dtype)

    def _op(self, name: str, *operands: Memory | Constant | int) -> Memory:
        values = [each if isinstance(each, (Memory, Constant)) else Constant(each) for each in operands]
        return tiles.elementwise(self.ctx, self.node, name, values)


def _bits(dtype: DType) -> int:
    return 8 if dtype == bool_ else dtype.bits


def _unsigned(bits: int) -> DType:
    return DTYPES[f"uint{bits}"]


def _layouts(
    scope: str, threads: int, shape: tuple[int, ...], kept: int
) -> tuple[tuple[int, ...], TileLayout, TileLayout]:
    """Return the shape with padding, and the layouts of a sort's sources and destinations.

    kept: the number of slots of a destination's row.
    """
    *rows, extent = shape
    slots, left = 1 << (extent - 1).bit_length(), threads & -threads
    odd, most = threads // left, max(rows, default=0)
    spread: list[tuple[int, int]] = []
    for n in rows:
        # the longest dimension is also divided by the odd factor of the number of threads
        of_threads = odd if n == most > 1 else 1
        binary = min(left, 1 << (-(-n // of_threads) - 1).bit_length())
        left, of_threads, odd = left // binary, of_threads * binary, odd if of_threads == 1 else 1
        spread.append((-(-n // of_threads), of_threads))
    along = min(left, slots)
    padded = (*(registers * of_threads for registers, of_threads in spread), slots)
    sources, results = (_layout(scope, threads, spread, along, slots // along, n) for n in (slots, kept))
    return padded, sources, results


def _layout(
    scope: str, threads: int, spread: Sequence[tuple[int, int]], along: int, registers: int, slots: int
) -> TileLayout:
    """Return the layout of a tile whose rows are spread over the threads of a scope.

    spread: for each dimension of rows, the number of registers and of threads. along, registers: those of a row.
    slots: number of slots of a row that the tile has; threads that only differ in later ones hold the same.
    """
    axis = SCOPES[scope].axis or "m"
    taken = max(min(along, slots // registers), 1)
    shard = [(taken, 1, axis), (min(registers, slots), 1, "m")]
    replicas = [(along // taken, taken, axis)]
    thread, register = along, shard[1][0]
    for of_registers, of_threads in reversed(spread):
        shard[:0] = [(of_registers, register, "m"), (of_threads, thread, axis)]
        thread, register = thread * of_threads, register * of_registers
    replicas.append((threads // thread, thread, axis))
    return TileLayout.from_iters(shard, [it for it in replicas if it[0] > 1])


HANDLERS = {"sort": sort, "argsort": argsort, "top_k": top_k}
