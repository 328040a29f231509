"""A hypothesis strategy for tile operations of every kind, in the form that the dispatcher receives."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Sequence

from hypothesis import assume
from hypothesis import strategies as st

from tilejit.dataclass import replace
from tilejit.dtypes import (
    DTYPES,
    DType,
    barrier,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint32,
    uint64,
)
from tilejit.ir import allocation
from tilejit.ir.arithmetic import build
from tilejit.ir.combine import Combine
from tilejit.ir.nodes import Buffer, Expr, Region, Var
from tilejit.isa.atomics import has_type
from tilejit.isa.mma import MMA, MMA_M, MMA_N
from tilejit.isa.wgmma import WGMMA_M, FactorPlace, products
from tilejit.layout import TCGEN05_SHAPES, Swizzle, TileLayout, atom_layout, datapath, swizzled_atom_layout, warpgroup
from tilejit.layout.fragments import fragment_layout
from tilejit.layout.swizzle import SWIZZLE_BITS
from tilejit.ops.atomic import ATOMIC
from tilejit.ops.copies import CAST, COPY, COPY_ASYNC, FILL, INDICES, RESHAPE
from tilejit.ops.elementwise import ELEMENTWISE, result_type
from tilejit.ops.fold import REDUCE, SCAN
from tilejit.ops.gemm import GEMM, GEMM_ASYNC, TF32X3
from tilejit.ops.inline import INPUTS, PTX
from tilejit.ops.record import SCALAR, TILE, TileOperation
from tilejit.ops.reduce import REDUCTIONS
from tilejit.ops.sort import SORT
from tilejit.ops.tile import TILE_OPERATIONS
from tilejit.scopes import SCOPES
from tilejit.target import WARP, WARPGROUP
from tilejit.testing.arrays import dtypes

from .drafts import INSTANCES, Digit, Operation, OperationDraft, local_buffer, whole_of

#: data path of tensor memory -> its rows, and the instruction shapes that access it
_PATHS: dict[str, tuple[int, tuple[str, ...]]] = {
    "D": (128, tuple(sorted(TCGEN05_SHAPES))),
    "F": (64, ("16x128b", "16x256b", "16x64b")),
    "B": (64, ("32x32b",)),
}

@st.composite
def operations(draw: st.DrawFn, names: Collection[str] = tuple(TILE_OPERATIONS)) -> Operation:
    """Draw one of the operations `names` on operands of any kind: memory, registers, fragments, tensor memory, scalars.

    Layouts have digits in any order, gaps, offsets, swizzles, thread axes and replicas; regions start at constants or
    run-time values, and may extend past the edges of a global tensor. No variant accepts some of them.
    """
    name = draw(st.sampled_from(sorted(names)))
    return draw(st.sampled_from(ways_to_draw(TILE_OPERATIONS[name])))(draw, name)


def _fill(draft: OperationDraft, dtype: DType) -> tuple[Expr, ...]:
    value = draft.draw(st.sampled_from((None, None, 0, 1)))
    return () if value is None else (build.const(bool(value) if dtype == bool_ else value, dtype),)


def _copy_in_memory(draw: st.DrawFn, name: str) -> Operation:
    draft = OperationDraft(draw)
    dtype, shape = draw(dtypes()), draft.memory_shape()
    inwards, within = ("shared", "global"), ("shared", "shared")
    others = [("global", "shared"), ("global", "global"), within, *([within] if name == COPY.name else [])]
    dst, src = draw(st.sampled_from([inwards] * (9 if name == COPY_ASYNC.name else 2) + others))
    boxes = name == COPY_ASYNC.name and src == "shared"
    sides = draft.memory("dst", dst, dtype, shape, written=True, boxes=boxes), draft.memory("src", src, dtype, shape)
    return draft.finish(name, (*sides, *_fill(draft, dtype)))


def _copy_of_boxes(draw: st.DrawFn, name: str) -> Operation:
    """Draw a copy between a tensor, possibly across its edges, and a shared tile in swizzle atoms or plain rows."""
    draft = OperationDraft(draw, ("warp", 32), ("warpgroup", 128), ("cta", 64), ("cta", 48))
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
        # TMA processes the contiguous dimension in chunks of 16 bytes, so its start is a multiple of 16 elements.
        draft.tidy = d == unit
        start = f"{outer}.start.{d}"
        windows.append(draft.window(start, extent or 1, apart=False, edges=True, negative=loads))
    sizes = [size for _, size in windows]
    if not loads and draw(st.integers(0, 3)):
        # Stores write whole chunks, so the extent is usually a multiple of a chunk.
        chunk = 16 // dtype.bytes
        sizes[unit] = -(-sizes[unit] // chunk) * chunk
    assume(math.prod(sizes) <= 1 << 15)
    slower = draw(st.permutations([d for d in range(len(sizes)) if d != unit]))
    # TMA requires nonnegative strides that are multiples of 16 bytes, as tidy tensors have.
    draft.tidy = True
    buffer = draft.strided(outer, dtype, sizes, not loads, backward=False, order=[unit, *slower])
    tensor = Region(buffer, tuple(start for start, _ in windows), tuple(extents))
    sides = (tile, tensor) if loads else (tensor, tile)
    return draft.finish(name, (*sides, *_named_barrier(loads)), draw(st.sampled_from(_WITH_TMA)))


def _stage_of_atoms(draw: st.DrawFn, name: str, dtype: DType) -> tuple[Region, int]:
    """Draw (region of a shared buffer in swizzle atoms or plain rows, index of its column dimension)."""
    mode = draw(st.sampled_from(("rows", *SWIZZLE_BITS)))
    columns = (128 << SWIZZLE_BITS.get(mode, 0)) // dtype.bits * draw(st.integers(1, 2))
    leading = draw(st.sampled_from(((), (), (), (2,), (3,), (2, 2))))
    rows, stages = 8 * draw(st.integers(1, 3)), draw(st.integers(1, 2))
    shape = (stages, *leading, rows, columns)
    layout = TileLayout.row_major(shape) if mode == "rows" else swizzled_atom_layout(shape, dtype.bits, mode)
    grouped, ends = layout.group(shape)
    first = 8 * draw(st.integers(0, rows // 8 - 1))
    some = first, draw(st.integers(1, rows - first))
    # With leading dimensions, a region is a box only if it covers all rows.
    takes_all = bool(leading) and draw(st.integers(0, 3)) > 0
    windows = [*((0, n) for n in leading), (0, rows) if takes_all else some, (0, columns)]
    dims = range(len(windows))
    order: Sequence[int] = dims if draw(st.booleans()) else draw(st.permutations(dims))
    transposed = grouped.permute_groups(ends, (0, *(1 + d for d in order)))
    align = allocation.alignment("shared", dtype, transposed)
    buffer = Buffer(name, "shared", dtype, (stages, *(shape[1 + d] for d in order)), transposed, align)
    starts = [draw(st.integers(0, stages - 1)), *(windows[d][0] for d in order)]
    extents = (None, *(windows[d][1] for d in order))
    return Region(buffer, tuple(build.const(start, int64) for start in starts), extents), order.index(dims[-1])


def _copy_of_runs(draw: st.DrawFn, name: str) -> Operation:
    draft = OperationDraft(draw, ("warp", 32), ("cta", 64))
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
    return draft.finish(name, (*sides, *_named_barrier(loads)), draw(st.sampled_from(_WITH_TMA)))


#: targets with TMA
_WITH_TMA = ("sm_90", "sm_90a", "sm_100a")


def _named_barrier(loads: bool) -> tuple[None, Region] | tuple[()]:
    """Return the operands after dst and src: for a load, no fill value and its barrier; for a store, none."""
    full = Buffer("full", "shared", barrier, (1,), TileLayout.row_major((1,)), barrier.bytes)
    return (None, Region(full, (build.const(0, int32),), (None,))) if loads else ()


def _copy_of_registers(draw: st.DrawFn, name: str) -> Operation:
    draft = OperationDraft(draw)
    dtype, loads = draw(dtypes()), draw(st.booleans())
    windowed = draw(st.integers(0, 3)) == 0
    whole = draft.tile("dst" if loads else "src", dtype, windowed=windowed)
    whole = whole if windowed else draft.padded(whole)
    tile = draft.part(whole)
    space = draw(st.sampled_from(("global", "shared")))
    memory = draft.memory("src" if loads else "dst", space, dtype, tile.shape, written=not loads)
    sides = (tile, memory) if loads else (memory, tile)
    if windowed or name != COPY.name or draw(st.integers(0, 3)):
        return draft.finish(name, (*sides, *_fill(draft, dtype)))
    fill = _fill(draft, dtype) or (None,)
    mask = tile if dtype == bool_ and draw(st.booleans()) else draft.broadcast("mask", bool_, whole)
    return draft.finish(name, (*sides, *fill, mask))


def _update(draw: st.DrawFn, name: str) -> Operation:
    draft = OperationDraft(draw)
    dtype = draw(st.sampled_from((DTYPES["int16"], int32, uint64, float16, bfloat16, float32, float64)))
    operations = [op for op in ("add", "max", "exch") if has_type(op, dtype)]
    value = draft.part(draft.padded(draft.tile("value", dtype)))
    space = draw(st.sampled_from(("global", "shared")))
    place = draft.memory("place", space, dtype, value.shape, written=True, edges=False)
    return draft.finish(name, (place, None, value), operation=draw(st.sampled_from(operations)))


def _copy_between_registers(draw: st.DrawFn, name: str) -> Operation:
    if draw(st.booleans()):
        return _copy_between_lanes(draw, name)
    draft = OperationDraft(draw)
    src = draft.padded(draft.tile("src", draw(dtypes())))
    make = draft.rearranged if draw(st.booleans()) else draft.exchanged
    return draft.finish(name, (draft.part(make("dst", src.dtype, src)), draft.part(src)))


def _copy_between_lanes(draw: st.DrawFn, name: str) -> Operation:
    """Draw a copy between local tiles that exchanges lane and register bits, in units of 32-bit words."""
    draft = OperationDraft(draw, ("warp", 32), ("warp", 64), ("cta", 64))
    dtype = draw(dtypes())
    word, bits = max(1, 32 // dtype.bits), draw(st.integers(1, 2))
    before: list[Digit] = [(2, 1 << bit, "laneid") for bit in range(5)]
    before += [(2, word << bit, "m") for bit in range(bits)]
    after = list(before)
    for _ in range(draw(st.integers(1, 3))):
        one, other = (draw(st.integers(0, len(after) - 1)) for _ in range(2))
        after[one], after[other] = after[other], after[one]
    fixed: list[Digit] = [(3, word << bits, "m")] if draw(st.booleans()) else []
    fixed += [(2, 1, "warpid")] if draft.scope == "cta" else []
    order = draw(st.permutations(range(len(before) + len(fixed))))
    inner: list[Digit] = [(word, 1, "m")] if word > 1 else []
    layouts = [TileLayout.from_iters([(digits + fixed)[k] for k in order] + inner) for digits in (after, before)]
    extents = [it.extent for it in layouts[0].shard]
    cut = draw(st.integers(1, len(extents)))
    shape = tuple(math.prod(part) for part in (extents[:cut], extents[cut:]) if part)
    dst, src = (whole_of(local_buffer(n, dtype, shape, made)) for n, made in zip(("dst", "src"), layouts, strict=True))
    return draft.finish(name, (draft.part(dst), draft.part(src)))


def _reshape(draw: st.DrawFn, name: str) -> Operation:
    draft = OperationDraft(draw)
    src = draft.padded(draft.tile("src", draw(dtypes())))
    if src.buffer.slots:
        dst = draft.exchanged("dst", src.dtype, src)
        units = draw(st.integers(0, len(src.shape)))
        shape, slots = ((*n[:units], 1, *n[units:]) for n in (src.shape, src.buffer.slots))
        return draft.finish(name, (whole_of(replace(dst.buffer, shape=shape, slots=slots)), src))
    make = draft.rearranged if draw(st.booleans()) else draft.exchanged
    layout = make("dst", src.dtype, src).buffer.tile_layout
    extents = [it.extent for it in layout.shard]
    cuts = sorted(draw(st.sets(st.integers(1, len(extents)), max_size=2)))
    shape = tuple(math.prod(extents[a:b]) for a, b in itertools.pairwise([0, *cuts, len(extents)]))
    return draft.finish(name, (draft.part(whole_of(local_buffer("dst", src.dtype, shape, layout))), src))


def _copy_of_matrices(draw: st.DrawFn, name: str) -> Operation:
    """Draw a copy between shared memory and registers in ldmatrix order: tiles of 8 rows of 16 bytes."""
    draft = OperationDraft(draw, ("warp", 32), ("warpgroup", 128), ("cta", 64), ("cta", 96))
    dtype = draw(st.sampled_from([t for t in DTYPES.values() if t.bits == 16]))
    axis = "wid_in_wg" if draft.scope == "warpgroup" else "warpid"
    tiles = draw(st.lists(st.sampled_from((2, 2, 3, 4)), max_size=2))
    digits: dict[str, Digit] = {"row": (8, 4, "laneid"), "pair": (4, 1, "laneid"), "half": (2, 1, "m")}
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
    local, shared = local_buffer(names[0], dtype, shape, tile), Buffer(names[1], "shared", dtype, shape, memory, align)
    sides = draft.part(whole_of(local)), whole_of(shared)
    return draft.finish(name, sides if loads else sides[::-1])


def _matrix_strides(draw: st.DrawFn, extents: dict[str, int]) -> dict[str, int]:
    """Draw strides for the digits: 8 contiguous elements in rows or columns, the rest in any order, with gaps."""
    by_column = draw(st.booleans())
    strides = {"row": 1} if by_column else {"half": 1, "pair": 2}
    step = 8
    for name in draw(st.permutations(sorted(n for n in extents if n not in strides and n != "pair"))):
        strides[name] = step
        if by_column and name == "half":
            strides["pair"] = 2 * step
        step *= 8 if by_column and name == "half" else extents[name]
        # A gap that is not a multiple of 8 elements misaligns the rows.
        step += draw(st.sampled_from((0, 0, 0, 0, 0, 8, 8, 16, 4)))
    return strides


def _copy_of_tensor_memory(draw: st.DrawFn, name: str) -> Operation:
    draft = OperationDraft(draw, ("warpgroup", 128))
    dtype = draw(st.sampled_from([t for t in DTYPES.values() if t.bits in (8, 16, 32) and t != bool_]))
    packed = 32 // dtype.bits
    path = draw(st.sampled_from("DDFB"))
    rows, shapes = _PATHS[path]
    registers = atom_layout(draw(st.sampled_from(shapes)), draw(st.sampled_from((1, 2, 4))), dtype, rows)
    columns = registers.size() // rows
    # Path B is only drawn whole: a part of its columns has another layout.
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
    local = whole_of(local_buffer(to, dtype, (rows, columns), registers))
    target = draw(st.sampled_from(("sm_100a", "sm_100a", "sm_100a", "sm_90a")))
    return draft.finish(name, (local, tmem) if loads else (tmem, local), target)


def _types(draw: st.DrawFn, name: str) -> tuple[DType, tuple[DType, ...]]:
    if name not in ELEMENTWISE:
        # fp8 scalars don't exist.
        _, source = TILE_OPERATIONS[name].operands
        return draw(dtypes()), (draw(dtypes(fp8=TILE in source.kinds)),)
    rule = ELEMENTWISE[name]
    rows = [((bool_,) if rule.kind == "select" else (t,)) + (t,) * (rule.arity - 1) for t in DTYPES.values()]
    types = draw(st.sampled_from([row for row in rows if not isinstance(result_type(name, row), str)]))
    result = result_type(name, types)
    assert not isinstance(result, str)
    return result[1], types


def _elementwise_in_registers(draw: st.DrawFn, name: str) -> Operation:
    draft = OperationDraft(draw)
    to, types = _types(draw, name)
    dst = draft.padded(draft.tile("dst", to))
    inputs: list[Region | Expr] = []
    for k, (rule, dtype) in enumerate(zip(TILE_OPERATIONS[name].operands[1:], types, strict=True)):
        kind = draw(st.sampled_from(("tile", "tile", "broadcast", "scalar", "in place", "again")))
        again = [each for each in inputs if isinstance(each, Region) and each.dtype == dtype]
        if TILE not in rule.kinds or (kind == "scalar" and SCALAR in rule.kinds and not dtype.is_fp8):
            inputs.append(draft.scalar("abc"[k], dtype))
        elif kind == "in place" and dtype == to:
            inputs.append(dst)
        elif kind == "again" and again:
            inputs.append(draw(st.sampled_from(again)))
        else:
            make = draft.broadcast if kind == "broadcast" else draft.rearranged
            inputs.append(draft.part(make("abc"[k], dtype, dst)))
    return draft.finish(name, (dst if dst in inputs else draft.part(dst), *inputs))


def _elementwise_in_memory(draw: st.DrawFn, name: str) -> Operation:
    draft = OperationDraft(draw)
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
        first = draw(st.integers(0, len(shape) - 1)) if draw(st.booleans()) else 0
        inputs.append(draft.memory("abc"[k], draw(spaces), dtype, some[first:]))
    return draft.finish(name, (dst, *inputs))


def _reduction(draw: st.DrawFn, name: str) -> Operation:
    draft, reduction = OperationDraft(draw), REDUCTIONS[name]
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
        return draft.finish(name, (dst, src))
    return draft.finish(name, (dst, src), axis=tuple(axes))


def _fold(draw: st.DrawFn, name: str) -> Operation:
    """Draw a reduction by a function that is not commutative: it returns the last value that isn't 0."""
    draft = OperationDraft(draw)
    dtype = draw(dtypes(fp8=False))
    src = draft.padded(draft.tile("src", dtype))
    axes = sorted(draw(st.sets(st.integers(0, len(src.shape) - 1), min_size=1)))
    dst, src = draft.part(draft.projected("dst", dtype, src, axes)), draft.part(src)
    return draft.finish(name, (dst, src), axis=tuple(axes), combine=_last(dtype))


def _last(dtype: DType) -> Combine:
    lower, higher = Var("lower", dtype), Var("higher", dtype)
    zero = build.const(False if dtype == bool_ else 0, dtype)
    last = build.where(build.not_equal(higher, zero), higher, lower)
    return Combine((lower,), (higher,), (), (last,))


def _scan(draw: st.DrawFn, name: str) -> Operation:
    """Draw a scan by the function of `_fold`."""
    draft = OperationDraft(draw)
    dtype = draw(dtypes(fp8=False))
    src = draft.padded(draft.tile("src", dtype))
    axis = draw(st.integers(0, len(src.shape) - 1))
    combine = _last(dtype)
    others = [lambda: replace(src, buffer=replace(src.buffer, name="dst")), lambda: draft.rearranged("dst", dtype, src)]
    dst, src = draft.part(draw(st.sampled_from(others))()), draft.part(src)
    flags = {flag: True for flag in ("reverse", "exclusive") if draw(st.booleans())}
    operands: tuple[Region | Expr | None, ...] = (dst, src)
    if "exclusive" in flags or draw(st.booleans()):
        operands = (dst, src, *(None,) * 6, build.const(draw(st.integers(0, 1)), dtype))
    return draft.finish(name, operands, axis=(axis,), combine=combine, **flags)


#: an elementwise operation and its type -> inline PTX with the same results
INLINE = {
    ("sub", "int32"): "sub.s32 $0, $1, $2;",
    ("sub", "int16"): "sub.s16 $0, $1, $2;",
    ("sub", "int8"): "{ .reg .s32 a, b; cvt.s32.s16 a, $1; cvt.s32.s16 b, $2; sub.s32 a, a, b; cvt.s16.s32 $0, a; }",
    ("sub", "float64"): "sub.rn.f64 $0, $1, $2;",
    ("maximum", "uint8"): "max.u16 $0, $1, $2;",
    ("bitwise_xor", "bool_"): "xor.b16 $0, $1, $2;",
    ("neg", "int64"): "neg.s64 $0, $1;",
    ("fma", "float32"): "fma.rn.f32 $0, $1, $2, $3;",
}


def _inline(draw: st.DrawFn, name: str) -> Operation:
    draft = OperationDraft(draw)
    (meaning, type_name), text = draw(st.sampled_from(sorted(INLINE.items())))
    dtype = DTYPES[type_name]
    dst = draft.padded(draft.tile("dst", dtype))
    operands: dict[str, Region | Expr] = {}
    for k, operand in enumerate(INPUTS[: ELEMENTWISE[meaning].arity]):
        kind = draw(st.sampled_from(("tile", "tile", "broadcast", "scalar")))
        make = draft.broadcast if kind == "broadcast" else draft.rearranged
        operands[operand] = (
            draft.scalar("abc"[k], dtype) if kind == "scalar" else draft.part(make("abc"[k], dtype, dst))
        )
    operands["dst"] = draft.part(dst)
    return draft.finish(name, PTX.ordered(operands), text=text, outputs=1, is_pure=draw(st.booleans()))


def _sort(draw: st.DrawFn, name: str) -> Operation:
    """Draw a sort of rows: the bits of positions are over registers and threads, in any order."""
    draft = OperationDraft(draw)
    threads, axis = INSTANCES.get(draft.scope, (draft.threads, ""))[0], SCOPES[draft.scope].axis or "m"
    distances = draw(st.permutations([1 << k for k in range((threads & -threads).bit_length() - 1)]))
    of_rows, along = sorted(draw(st.tuples(*[st.integers(0, len(distances))] * 2)))
    registers = draw(st.integers(0, 3))
    over = [(2, d, axis) for d in distances[of_rows:along]], [(2, 1 << k, "m") for k in range(registers)]
    bits = draw(st.permutations(over[0] + over[1]))
    rows = draw(st.integers(1, 3))
    row_digits = [(rows, 1 << registers, "m"), *((2, d, axis) for d in distances[:of_rows])]
    copies = [(2, d, axis) for d in distances[along:]] + [(threads // (threads & -threads), threads & -threads, axis)]
    kept = draw(st.one_of(st.just(len(bits)), st.integers(0, len(bits))))
    lost = [bit for bit in bits[: len(bits) - kept] if bit[2] != "m"]
    shape, dtype = (rows << of_rows, 1 << len(bits)), draw(st.sampled_from((uint32, uint64)))
    layouts = [
        TileLayout.from_iters([*row_digits, *some], [copy for copy in replicas if copy[0] > 1])
        for some, replicas in ((bits[len(bits) - kept :], copies + lost), (bits, copies))
    ]
    dst, src = (
        whole_of(local_buffer(n, dtype, (shape[0], columns), layout))
        for n, columns, layout in zip(("dst", "src"), (1 << kept, shape[1]), layouts, strict=True)
    )
    return draft.finish(name, (dst, src), keys=1)


def _kept(shape: Iterable[int]) -> list[int]:
    return [n for n in shape if n != 1]


def _product(draw: st.DrawFn, name: str) -> Operation:
    """Draw a product of any extents in fragment layouts; sometimes one operand has another layout."""
    wm, wn = draw(st.sampled_from(((1, 1), (1, 1), (2, 1), (1, 2), (2, 2), (1, 4))))
    copies = draw(st.sampled_from((1, 1, 2) if wm * wn < 4 else (1,)))
    threads = wm * wn * copies * WARP
    draft = OperationDraft(draw, ("cta", threads), *((s, n) for s, (n, _) in INSTANCES.items() if n == threads))
    form = draw(st.sampled_from(MMA.forms()))
    # The tiles are few, because the reference computes products one by one.
    larger = [(2, 2, 3)] if threads == WARP else []
    tiles = draw(st.sampled_from([(1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2), *larger]))
    whole = [count * size for count, size in zip(tiles, (MMA_M * wm, MMA_N * wn, form.k), strict=True)]
    m, n, k = whole if draw(st.booleans()) else (draw(st.integers(1, extent)) for extent in whole)
    within = "warpgroup" if draft.scope == "warpgroup" else "cta"
    operands: list[Region] = []
    for operand, shape, dtype in (("acc", (m, n), form.acc), ("a", (m, k), form.a), ("b", (k, n), form.b)):
        made = fragment_layout(operand, shape, dtype, (wm, wn), copies, form.k, within)
        operands.append(whole_of(replace(local_buffer(operand, dtype, shape, made.layout), slots=made.slots)))
    if draw(st.integers(0, 7)) == 0:
        column = draw(st.integers(0, 2))
        region = operands[column]
        operands[column] = draft.rearranged(region.buffer.name, region.dtype, region)
    attrs = {"precision": draw(st.sampled_from(("tf32", TF32X3)))} if form.a == float32 else {}
    return draft.finish(name, operands, draw(st.sampled_from(("sm_80", "sm_90a", "sm_100a"))), **attrs)


def _asynchronous_product(draw: st.DrawFn, name: str) -> Operation:
    """Draw a product of a warpgroup, with factors in shared memory in either order, or `a` in registers."""
    draft = OperationDraft(draw, ("warpgroup", WARPGROUP))
    columns = draw(st.sampled_from((8, 8, 24, 24, 32, 48, 64, 96, 256)))
    one = draw(st.sampled_from([each for each in products() if each.n == columns]))
    blocks, steps = draw(st.sampled_from([(1, 1), (1, 2), (1, 4), *([(2, 1), (2, 2)] if columns < 256 else [])]))
    m, n, k = WGMMA_M * blocks, one.n * draw(st.sampled_from((1, 1, 2) if columns < 96 else (1,))), one.k * steps
    acc = whole_of(local_buffer("acc", one.acc, (m, n), warpgroup.layout_c((m, n))))
    if one.a_place is FactorPlace.REGISTERS:
        a = whole_of(local_buffer("a", one.a, (m, k), warpgroup.layout_a((m, k), one.a)))
    else:
        a = draft.atoms("a", one.a, (m, k), is_transposed=one.a_place is FactorPlace.MN_MAJOR)
    b = draft.atoms("b", one.b, (k, n), is_transposed=one.b_place is FactorPlace.K_MAJOR)
    if draw(st.integers(0, 7)) == 0:
        acc = draft.rearranged("acc", one.acc, acc)
    attrs = {"precision": "tf32"} if one.a == float32 else {}
    accumulate = draw(st.sampled_from((None, build.const(False, bool_), draft.variable("accumulate", bool_, True))))
    operands = (acc, a, b) if accumulate is None else (acc, a, b, accumulate)
    return draft.finish(name, operands, draw(st.sampled_from(("sm_90a", "sm_90a", "sm_90a", "sm_100a"))), **attrs)


def _indices(draw: st.DrawFn, name: str) -> Operation:
    draft = OperationDraft(draw)
    dst = draft.padded(draft.tile("dst", draw(st.sampled_from([t for t in DTYPES.values() if t.is_integer]))))
    dst = draft.part(dst)
    return draft.finish(name, (dst,), axis=draw(st.integers(0, len(dst.shape) - 1)))


_Way = Callable[[st.DrawFn, str], Operation]

_ELEMENT_BY_ELEMENT: tuple[_Way, ...] = (_elementwise_in_registers, _elementwise_in_memory)

#: name of an operation that isn't elementwise -> the functions that draw it
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
    SCAN.name: (_scan,),
    PTX.name: (_inline,),
    SORT.name: (_sort,),
}


def ways_to_draw(record: TileOperation) -> tuple[_Way, ...]:
    """Return the functions that draw operations of `record`; empty if none exists."""
    return _WAYS.get(record.name, () if record.elementwise is None else _ELEMENT_BY_ELEMENT)
