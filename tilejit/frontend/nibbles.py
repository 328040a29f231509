"""`tj.unpack` and `tj.pack`, which convert tiles of bytes of two 4-bit numbers.

`unpack` computes in the registers of the thread that holds the bytes, four of them at a time. It makes a float out of a
number n by setting the low bits of the mantissa of 2**k, whose unit is 1, to n; the sum is exact, and so is subtracting
2**k. float16 has room for 16n, too: in interleaved order, a multiplication by 1/16 replaces every other shift.
The codes of `float4_e2m1fn_x2` become a float16 by moving exponent and mantissa to their places, and a multiplication
by 2**14, the difference of the biases.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import numpy as np

from ..dataclass import replace
from ..dtypes import DTYPES, PACKED_TYPES, DType, bfloat16, float4_e2m1fn_x2, float16, float32, int8, int32, uint32
from ..ir.arithmetic import build
from ..ir.nodes import Alloc, Buffer, Const, Expr, Instruction, TileOp, Var
from ..isa.convert import LOGIC, MULTIPLY_ADD, PERMUTE
from ..layout import TileLayout
from ..nibbles import E2M1_BOUNDS, ORDERS
from ..ops.copies import CAST, COPY
from . import buffers, methods, tiles
from . import memory as mem
from .arguments import Arguments, bind, optional
from .context import Context
from .values import Constant, Memory, Scalar, Value, describe, owner_scope

#: the table of (a & b) ^ c for `LOGIC`
_AND_XOR = (0xF0 & 0xCC) ^ 0xAA


def unpack(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.unpack(x, dtype, order="natural")`."""
    x = tiles.local_tile(ctx, arguments["x"], "unpack", ctx.evaluate(arguments["x"]))
    if x.dtype.kind != "packed" or not x.shape:
        raise ctx.type_error(
            arguments["x"], f"unpack takes a tile of packed numbers; this is {describe(x)}",
            "load it from a view of the memory, as in tj.cta.load(X.view(tj.int4x2)[0:32, 0:16])",
        )
    dtype = mem.element_type(ctx, arguments["dtype"], ctx.evaluate(arguments["dtype"]))
    is_float = x.dtype is float4_e2m1fn_x2
    possible = (float16, bfloat16, float32) if is_float else (int8, float16, bfloat16)
    if dtype not in possible:
        raise ctx.type_error(
            arguments["dtype"], f"{x.dtype} doesn't unpack to {dtype}", f"give one of {', '.join(map(str, possible))}"
        )
    order, span = _order(ctx, arguments), ctx.span(node)
    if order == "interleaved" and x.shape[-1] % 4:
        raise ctx.type_error(node, f"rows of {x.shape[-1]} bytes have no groups of four", "use a multiple of 4")
    if 0 in x.shape:
        return ctx.tile("unpacked", owner_scope(x.buffer), (*x.shape[:-1], 2 * x.shape[-1]), dtype, span)
    if not x.is_whole:
        whole = ctx.tile("packed", owner_scope(x.buffer), x.shape, x.dtype, span)
        ctx.emit(TileOp(COPY.name, owner_scope(x.buffer), (whole.region(span), x.region(span)), (), span))
        x = whole
    # float16 is exact, and the only float that all targets compute in pairs
    made = dtype if dtype is int8 or (dtype is bfloat16 and not is_float and ctx.target.number >= 80) else float16
    layout = buffers.fixed_layout(ctx, span, x)
    slots = buffers.laid_out(x.buffer, ctx.fixed).slots
    count = layout.span()
    is_apart = order == "interleaved" and not _has_groups(layout, slots or x.shape)
    if is_apart:
        order = "natural"
    name, shape = ctx.unique(ctx.hint or "unpacked"), (*x.shape[:-1], 2 * x.shape[-1])
    doubled = (*slots[:-1], 2 * slots[-1]) if slots else ()
    result, cast = (
        Buffer(unique, "local", each, shape, layout.unpack(2), 16, None, span, slots=doubled)
        for unique, each in ((f"{name}.{made}", made), (name, dtype))
    )
    ctx.allocate(Alloc(result, span=span))
    _unpack_words(ctx, node, x, result, count, order)
    tile = Memory.whole(result, writable=False)
    if made is not dtype:
        ctx.allocate(Alloc(cast, span=span))
        converted = Memory.whole(cast, writable=False)
        op = TileOp(CAST.name, owner_scope(cast), (converted.region(span), tile.region(span)), (), span)
        tiles.emit_sound(ctx, node, op)
        tile = converted
    # if the four bytes of a group are in several threads, the numbers move after they are unpacked
    return _interleaved(ctx, node, tile, shape) if is_apart else tile


def _unpack_words(ctx: Context, node: ast.AST, x: Memory, result: Buffer, count: int, order: str) -> None:
    """Unpack the `count` bytes that each thread holds of `x` into its registers of `result`.

    A word of bytes gives 4 words of floats, or 2 of integers; a single byte gives half a word of integers.
    """
    made = result.dtype
    is_whole, wide = count % 4 == 0, made is not int8
    to = uint32 if is_whole or wide else DTYPES["uint16"]
    source = _seen(ctx, node, methods.registers(ctx, node, x), uint32 if is_whole else DTYPES["uint8"])
    places = _seen(ctx, node, methods.registers(ctx, node, Memory.whole(result)), to)
    for place in source:
        word = build.cast(mem.load_element(ctx, node, place).expr, uint32)
        words = _floats(ctx, node, word, x.dtype, made, order) if wide else _integers(ctx, node, word, x.dtype, order)
        for each in words if is_whole else [next(words)]:
            mem.store_element(ctx, node, next(places), Scalar(build.cast(each, to)))


def _interleaved(ctx: Context, node: ast.AST, tile: Memory, shape: tuple[int, ...]) -> Memory:
    """Return numbers that were unpacked in natural order from interleaved bytes, in the order of the numbers."""
    rows = len(shape) - 1
    tile = methods.with_shape(ctx, node, tile, (*shape[:-1], shape[-1] // 8, 2, 2, 2))
    axes = (*range(rows + 1), rows + 2, rows + 3, rows + 1)
    return methods.with_shape(ctx, node, methods.permute(ctx, node, tile, axes), shape)


def _floats(ctx: Context, node: ast.AST, word: Expr, packed: DType, made: DType, order: str) -> Iterator[Expr]:
    """Yield the eight numbers of a word as four pairs of the 16-bit float `made`, one after the other."""
    flip = 8 if packed.name.startswith("int") else 0
    for k in range(4):
        if packed is float4_e2m1fn_x2:
            # the codes in the upper four bits of each half
            upper = build.left_shift(word, 12 - 4 * k) if order == "interleaved" else _spread(ctx, node, word, k, 4)
            moved = build.bitwise_and(build.right_shift(upper, 3), _word(0x0E00, 0x0E00))
            yield _scaled(ctx, node, made, _masked(ctx, node, upper, 0x8000, moved), 2.0**14, -0.0)
            continue
        # the number of bits by which the numbers stay shifted
        stays = 4 * (k % 2) if made is float16 and order == "interleaved" else 0
        base = 1024.0 if made is float16 else 128.0
        moved = build.right_shift(word, 4 * k - stays) if order == "interleaved" else _spread(ctx, node, word, k, -4)
        one, mask = int(np.asarray(base, made.numpy).view(np.uint16)) | flip << stays, 15 << stays
        # by its name, because ptxas makes two instructions of `&` and `^` with two constants
        bits = _masked(ctx, node, moved, mask, _word(one, one))
        factor = 2.0**-stays
        yield _scaled(ctx, node, made, bits, factor, -(base * factor + flip))


def _integers(ctx: Context, node: ast.AST, word: Expr, packed: DType, order: str) -> Iterator[Expr]:
    """Yield the eight numbers of a word as two words of four int8."""
    halves = []
    for shift in (0, 4):
        half = build.bitwise_and(build.right_shift(word, shift), _word(0x0F0F, 0x0F0F))
        if packed.name.startswith("int"):
            # n ^ 8 - 8 in each byte; the highest bit keeps the difference from borrowing from the next byte
            high = build.bitwise_or(build.bitwise_xor(half, _word(0x0808, 0x0808)), _word(0x8080, 0x8080))
            half = build.bitwise_xor(build.sub(high, _word(0x0808, 0x0808)), _word(0x8080, 0x8080))
        halves.append(half)
    for picked in ((0, 4, 1, 5), (2, 6, 3, 7)) if order == "natural" else ((0, 2, 4, 6), (1, 3, 5, 7)):
        yield _permuted(ctx, node, halves[0], halves[1], picked)


def _spread(ctx: Context, node: ast.AST, word: Expr, k: int, shift: int) -> Expr:
    """Return byte k in both halves of a word: shifted (to the left if positive) in one of them.

    A left shift brings the low number to the upper four bits, and is used for the lower half; a right shift brings the
    high number to the lower four, and is used for the upper half.
    """
    if shift > 0:
        return _permuted(ctx, node, build.left_shift(word, shift), word, (k, k, 4 + k, 4 + k))
    return _permuted(ctx, node, word, build.right_shift(word, -shift), (k, k, 4 + k, 4 + k))


def _word(low: int, high: int) -> Const:
    """Return a word of two halves."""
    return build.const(high << 16 | low, uint32)


def _permuted(ctx: Context, node: ast.AST, low: Expr, high: Expr, picked: tuple[int, int, int, int]) -> Expr:
    """Return the four bytes `picked`, lowest first; 0 to 3 are those of `low`, 4 to 7 those of `high`."""
    selector = sum(byte << 4 * k for k, byte in enumerate(picked))
    return _computed(ctx, node, PERMUTE.name, low, high, build.const(selector, uint32))


def _masked(ctx: Context, node: ast.AST, word: Expr, mask: int, flipped: Expr) -> Expr:
    """Return the bits `mask` of both halves of a word, XOR `flipped`."""
    return _computed(ctx, node, LOGIC.name, word, _word(mask, mask), flipped, build.const(_AND_XOR, int32))


def _scaled(ctx: Context, node: ast.AST, dtype: DType, bits: Expr, factor: float, added: float) -> Expr:
    """Return bits · factor + added of two floats."""
    constants = [_word(*[int(np.asarray(x, dtype.numpy).view(np.uint16))] * 2) for x in (factor, added)]
    return _computed(ctx, node, MULTIPLY_ADD[dtype].name, bits, *constants)


def _computed(ctx: Context, node: ast.AST, name: str, *inputs: Expr) -> Var:
    var = Var(ctx.unique("word"), uint32, span=ctx.span(node))
    ctx.emit(Instruction(name, (), inputs, ctx.span(node), var))
    return var


def _order(ctx: Context, arguments: Arguments) -> str:
    value = optional(ctx, arguments, "order")
    order = "natural" if value is None else ctx.constant(value, arguments["order"], "the order")
    if order not in ORDERS:
        raise ctx.type_error(arguments["order"], f"{order!r} is not an order of packed numbers", f"one of {ORDERS}")
    return str(order)


def _has_groups(layout: TileLayout, shape: tuple[int, ...]) -> bool:
    """True if each four bytes of a row are in consecutive registers of a thread."""
    grouped, ends = layout.group(shape)
    last = grouped.shard[ends[-2]:][-1]
    return not last.axis.is_thread and last.stride == 1 and last.extent % 4 == 0 and shape[-1] % 4 == 0


def _seen(ctx: Context, node: ast.AST, registers: Memory, dtype: DType) -> Iterator[Memory]:
    """Yield a thread's registers, seen as elements of `dtype`."""
    count = registers.shape[0] * registers.dtype.bits // dtype.bits
    layout = TileLayout.row_major((count,))
    view = replace(buffers.reinterpreted(ctx, ctx.span(node), registers, (count,), dtype, layout), writable=True)
    zero = view.starts[0]
    for k in range(count):
        yield replace(view, starts=(build.add(zero, k),), extents=(None,))


def pack(ctx: Context, node: ast.Call) -> Value:
    """Translate `tj.pack(x, dtype, order="natural")`."""
    arguments = bind(ctx, node, "tj.pack", ("x", "dtype", "order"), 2)
    x = tiles.local_tile(ctx, arguments["x"], "pack", ctx.evaluate(arguments["x"]))
    dtype, order = mem.element_type(ctx, arguments["dtype"], ctx.evaluate(arguments["dtype"])), _order(ctx, arguments)
    if dtype not in PACKED_TYPES:
        raise ctx.type_error(arguments["dtype"], f"pack gives packed numbers, not {dtype}", f"one of {PACKED_TYPES}")
    multiple = 2 if order == "natural" else 8
    if not x.shape or x.shape[-1] % multiple:
        raise ctx.type_error(
            arguments["x"], f"a tile of shape {x.shape} has no whole groups of {multiple}", f"use rows of {multiple} n"
        )

    def computed(name: str, *values: Value | float) -> Memory:
        operands = [value if isinstance(value, (Memory, Scalar)) else Constant(value) for value in values]
        return tiles.elementwise(ctx, node, name, operands)

    if dtype is float4_e2m1fn_x2:
        wide = tiles.cast(ctx, node, x, float32)
        size = computed("abs", wide)
        codes = [computed("greater_equal" if k % 2 else "greater", size, b) for k, b in enumerate(E2M1_BOUNDS)]
        code = tiles.cast(ctx, node, codes[0], int32)
        for each in codes[1:]:
            code = computed("add", code, tiles.cast(ctx, node, each, int32))
        bits = methods.seen_as(ctx, node, wide, int32)
        sign = computed("bitwise_and", computed("right_shift", bits, 28), 8)
        code = computed("where", computed("equal", wide, wide), computed("bitwise_or", code, sign), 0)
    else:
        code = computed("bitwise_and", tiles.cast(ctx, node, x, int32), 15)
    rows, n = x.shape[:-1], x.shape[-1]
    shape = (*rows, n // 2, 2) if order == "natural" else (*rows, n // 8, 2, 2, 2)
    code = methods.with_shape(ctx, node, code, shape)
    dim = -1 if order == "natural" else -2
    low, high = (_at(code, len(shape) + dim, k) for k in range(2))
    made = tiles.cast(ctx, node, computed("bitwise_or", low, computed("left_shift", high, 4)), DTYPES["uint8"])
    if order == "interleaved":
        axes = (*range(len(rows) + 1), len(rows) + 2, len(rows) + 1)
        made = methods.with_shape(ctx, node, methods.permute(ctx, node, made, axes), (*rows, n // 2))
    return methods.seen_as(ctx, node, made, dtype)


def _at(tile: Memory, dim: int, k: int) -> Memory:
    """Return the part of a tile at index k of a dimension, which is dropped."""
    d = tile.dims[dim]
    starts = (*tile.starts[:d], build.add(tile.starts[d], k), *tile.starts[d + 1 :])
    return replace(tile, starts=starts, extents=(*tile.extents[:d], None, *tile.extents[d + 1 :]))
