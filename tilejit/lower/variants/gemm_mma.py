"""gemm by mma.sync: each warp multiplies the fragments that its lanes hold.

accepts: local tiles, or parts at constant starts, owned by whole warps, in the layouts of `tj.mma.layout_a/b/c`, or in
    others that give each lane the same elements up to the order of tiles and registers; extents that are whole tiles,
    including padding, or 1 with the element replicated over lanes; types that an instruction of the target multiplies.
emits: one instruction per 16 x 8 x k tile of a warp, unrolled; for float32 preceded by a conversion to tf32, or
    three instructions and a split of each float32 into two tf32 (precision="tf32x3"); for float64 before sm_90 two
    instructions of 8 rows. Padding along k counts as 0 in A and B; along m and n it is multiplied like any element.
source: tilejit/lower/README.md, "Matrix products"; PTX ISA, "Multiply-and-Accumulate Instruction: mma" and "Matrix
    Fragments for mma.m16n8k16 ...".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from math import prod

import numpy as np

from ...dataclass import dataclass
from ...dtypes import float32, int32
from ...errors import LayoutError
from ...ir.arithmetic import build
from ...ir.arithmetic.evaluate import number
from ...ir.nodes import FALSE, TRUE, Buffer, Expr, Instruction, Region, Store, TileOp, Vector
from ...isa import Family
from ...isa.convert import SPLIT_TF32, TF32
from ...isa.mma import MMA, MMA_M, MMA_N, Mma, products
from ...isa.opaque import XOR
from ...ops.gemm import TF32X3
from ..builder import Builder
from ..plans import Plan as PlanBase
from ..schedule.fragments import Fragments, fragment, nearest, share
from ..schedule.views import Digit, DigitSchedule
from ..variant import (
    KNOWN_STARTS,
    RULE_CONDITIONS,
    SHAPES,
    WHOLE_WARPS,
    Condition,
    DispatchContext,
    Variant,
    needs,
    tiles_in,
)


class Within(Enum):
    """The lanes in which an element isn't padding."""

    ALL = "all"
    SOME = "some"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Plan(PlanBase):
    """For each step along k and each accumulator tile (m, n), a warp executes one instruction, or two of 8 rows."""

    form: Mma
    #: True for the products of both tf32 parts of float32
    splits: bool
    threads: int
    fragments: Fragments

    @property
    def tiles(self) -> tuple[int, int, int]:
        """The numbers of a warp's tiles along m, n and k."""
        return self.fragments.m.count, self.fragments.n.count, self.fragments.k.count

    @property
    def issues(self) -> int:
        return prod(self.tiles) * MMA_M // self.form.m

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        row = SPLIT_TF32 if self.splits else TF32
        rounded = ((row.name, self._converted),) if self.form.a == float32 else ()
        chosen = ((f"where.{self.form.a}", self._chosen),) if self._chosen else ()
        return (*rounded, *chosen, (MMA.row(self.form).mnemonic, self.issues * (3 if self.splits else 1)))

    @property
    def _converted(self) -> int:
        m, n, k = self.tiles
        return (2 * m + n) * k * self.form.halves

    @property
    def _chosen(self) -> int:
        """The number of registers with an element that is padding along k in some lanes but not in all."""
        m, n, k = self.tiles
        every = [self.within(step, half) for step in range(self.whole_steps, k) for half in range(self.form.halves)]
        return (2 * m + n) * sum(Within.SOME in each for each in every)

    @property
    def gathers(self) -> bool:
        """True if the accumulator lacks registers for some results; all results are then in scratch registers."""
        return self.fragments.row is None or self.fragments.pair is None

    @property
    def acc_width(self) -> int:
        """The elements per accumulator vector: 2 if a lane's two columns are in adjacent registers, else 1."""
        pair = self.fragments.pair
        return 2 if pair is not None and pair.elements("acc") == 1 else 1

    @property
    def whole_steps(self) -> int:
        k = self.tiles[2]
        partly = (step for step in range(k) if any(self.within(step, half) for half in range(self.form.halves)))
        return next(partly, k)

    def within(self, step: int, half: int) -> tuple[Within, ...]:
        """Return, by element of a register of A or B, the lanes where it isn't padding along k; () without padding."""
        depth = self.fragments.depth
        every = tuple(
            Within.ALL if last < depth.count else Within.SOME if first < depth.count else Within.NONE
            for first, last in depth.elements(step, half)
        )
        return every if set(every) != {Within.ALL} else ()

    def sums(self, m: Expr, n: Expr) -> tuple[Expr | None, ...]:
        """Return the registers of an instruction's results, two columns in each of two rows; None for missing ones."""
        tile = self._at("acc", (self.fragments.m, m), (self.fragments.n, n))
        row, pair = self._steps(self.fragments.row, "acc"), self._steps(self.fragments.pair, "acc")
        return tuple(None if i is None or j is None else build.add(tile, i + j) for i in (0, row) for j in (0, pair))

    def acc_words(self, m: Expr, n: Expr) -> tuple[Expr, ...]:
        """Return the first register of each vector of `acc_width` results."""
        return tuple(at for at in self.sums(m, n)[:: self.acc_width] if at is not None)

    def a_words(self, m: Expr, k: Expr) -> tuple[Expr, ...]:
        """Return the index in a thread's tile of the first element of each 32-bit register of A."""
        tile = self._at("a", (self.fragments.m, m), (self.fragments.k, k))
        row = self._steps(self.fragments.row, "a") or 0
        return tuple(build.add(tile, half + i * row) for half in self._halves("a") for i in range(2))

    def b_words(self, n: Expr, k: Expr) -> tuple[Expr, ...]:
        """Return the index in a thread's tile of the first element of each 32-bit register of B."""
        tile = self._at("b", (self.fragments.n, n), (self.fragments.k, k))
        return tuple(build.add(tile, half) for half in self._halves("b"))

    def _halves(self, operand: str) -> tuple[int, ...]:
        upper = self._steps(self.fragments.half, operand) or 0
        return tuple(half * upper for half in range(self.form.halves))

    def _steps(self, digit: Digit | None, operand: str) -> int | None:
        return None if digit is None else digit.elements(operand)

    def _at(self, operand: str, *tile: tuple[DigitSchedule, Expr]) -> Expr:
        """Return the index of a tile's first element. tile: (digits over tiles, index of the tile) per dimension."""
        start = self.fragments.m[operand].start
        return build.total([start, *(digits[operand].steps(index) for digits, index in tile)], int32)

    def schedule(self) -> np.ndarray:
        """Return one row per tile and step: (m, n, k in tiles, registers of acc ..., a ..., b ...); -1 if missing."""
        rows = []
        for k, m, n in np.ndindex(self.tiles[2], *self.tiles[:2]):
            at_m, at_n, at_k = (build.const(int(x), int32) for x in (m, n, k))
            sums = self.sums(at_m, at_n) if self.gathers else self.acc_words(at_m, at_n)
            words = (*sums, *self.a_words(at_m, at_k), *self.b_words(at_n, at_k))
            rows.append([m, n, k, *(-1 if at is None else number(at) for at in words)])
        return np.array(rows, np.int64)


def _operands(op: TileOp) -> tuple[Region, Region, Region]:
    return op.region("acc"), op.region("a"), op.region("b")


def _products(op: TileOp) -> Family[Mma]:
    acc, a, b = (r.dtype for r in _operands(op))
    return products(a, b, acc)


def _available(op: TileOp, context: DispatchContext) -> tuple[Mma, ...]:
    return tuple(_products(op).on(context.target))


def _sizes(op: TileOp, context: DispatchContext) -> str | None:
    if SHAPES.test(op, context) is not None or WHOLE_WARPS.test(op, context) is not None:
        return None
    (rows, columns), (_, depth) = (_laid_out(region) for region in _operands(op)[:2])
    steps = [f.k for f in _available(op, context)]
    wanted = [("M", rows, MMA_M), ("N", columns, MMA_N), *([("K", depth, min(steps))] if steps else [])]
    wrong = [f"{name} is {n}; needs a multiple of {tile}" for name, n, tile in wanted if n % tile and n > 1]
    return "; ".join(wrong) or None


def _laid_out(region: Region) -> list[int]:
    """Return the region's extents, including padding in dimensions that it covers as a whole."""
    whole = region.buffer.laid_out if region.buffer.slots else region.counts
    pairs = zip(region.extents, region.counts, region.buffer.shape, whole, strict=True)
    extents = (slots if count == n else count for extent, count, n, slots in pairs if extent is not None)
    return [extent for extent in extents if isinstance(extent, int)]


def _separate(op: TileOp, context: DispatchContext) -> str | None:
    acc, *factors = (r.buffer for r in _operands(op))
    shared = [f.name for f in factors if f.root == acc.root]
    return f"{acc.name} shares its registers with {shared[0]}" if shared else None


def plan(op: TileOp, context: DispatchContext) -> Plan:
    threads, regions = context.count(op.scope), op.tiles
    available, placements = _available(op, context), {}
    for name, region in regions.items():
        try:
            pack = available[0].acc_pack if name == "acc" else available[0].pack
            placements[name] = fragment(region, name, op.scope, threads, pack)
        except LayoutError as error:
            raise LayoutError(error.message, hint=nearest(regions, (name,), op.scope, threads)) from None
    depth = _laid_out(regions["a"])[1]
    form = next(f for f in available if depth % f.k == 0 or (depth == 1 and f is available[-1]))
    try:
        return Plan(form, op.attr("precision") == TF32X3, threads, share(placements, form))
    except LayoutError as error:
        raise LayoutError(error.message, hint=nearest(regions, tuple(regions), op.scope, threads)) from None


def emit(plan: Plan, op: TileOp, b: Builder) -> None:
    m, n, k = plan.tiles
    acc, left, right = (region.buffer for region in _operands(op))
    if plan.form.a == float32 and not plan.splits:
        left, right = _rounded_to_tf32(plan, left, right, b)
    sums = _Sums.of(plan, acc, b)
    sums.gather(b)
    # k is the outer loop, so that consecutive products have different accumulators if there are several
    if plan.whole_steps:
        with b.loop("k", plan.whole_steps, unrolled=True) as at_k:
            left_now, right_now = _factor(plan, "a", left, at_k), _factor(plan, "b", right, at_k)
            _multiply(plan, sums, left_now, right_now, b)
    for step in range(plan.whole_steps, k):
        _multiply(plan, sums, _masked(plan, "a", left, step, op, b), _masked(plan, "b", right, step, op, b), b)
    sums.scatter(b)


def _multiply(plan: Plan, sums: _Sums, left: _Factor, right: _Factor, b: Builder) -> None:
    m, n, _ = plan.tiles
    if plan.form.a.is_float and plan.form.a.bits == 8:
        left, right = _opaque(left, "a", m, b), _opaque(right, "b", n, b)
    if not plan.splits:
        _multiply_tiles(plan, sums, left, right, b)
        return
    (big_left, small_left), (big, small) = _split(left, "a", m, b), _split(right, "b", n, b)
    for pair in ((small_left, big), (big_left, small), (big_left, big)):
        _multiply_tiles(plan, sums, *pair, b)


def _multiply_tiles(plan: Plan, sums: _Sums, left: _Factor, right: _Factor, b: Builder) -> None:
    m, n, _ = plan.tiles
    with b.loop("m", m, unrolled=True) as at_m, b.loop("n", n, unrolled=True) as at_n:
        to = sums.at(at_m, at_n)
        factors, parts = left(at_m), MMA_M // plan.form.m
        for i in range(parts):
            part = to[i * len(to) // parts : (i + 1) * len(to) // parts]
            words = (*part, *factors[i::parts], *right(at_n))
            b.append(Instruction(MMA.row(plan.form).name, part, words, span=b.span))


@dataclass(frozen=True, slots=True)
class _Sums:
    """The instructions' accumulators. registers: `acc`, or scratch registers if `acc` has none for some results."""

    plan: Plan
    acc: Buffer
    registers: Buffer

    @staticmethod
    def of(plan: Plan, acc: Buffer, b: Builder) -> _Sums:
        m, n, _ = plan.tiles
        return _Sums(plan, acc, b.scratch("sums", acc.dtype, 4 * m * n) if plan.gathers else acc)

    def at(self, m: Expr, n: Expr) -> tuple[Vector, ...]:
        if not self.plan.gathers:
            width = self.plan.acc_width
            return tuple(Vector(self.acc, at, width) for at in self.plan.acc_words(m, n))
        first = self._first(m, n)
        return Vector(self.registers, first, 2), Vector(self.registers, build.add(first, 2), 2)

    def _first(self, m: Expr, n: Expr) -> Expr:
        return build.mul(build.add(build.mul(m, self.plan.tiles[1]), n), 4)

    def gather(self, b: Builder) -> None:
        for at, register in self._each(b):
            if register is None:
                b.append(Store(at, build.const(0, self.acc.dtype), span=b.span))
            else:
                b.move(at, register)

    def scatter(self, b: Builder) -> None:
        for at, register in self._each(b):
            if register is not None:
                b.move(register, at)

    def _each(self, b: Builder) -> Iterator[tuple[Vector, Vector | None]]:
        """Yield each scratch register, if any, and its accumulator register (None if missing), in a loop over tiles."""
        if not self.plan.gathers:
            return
        m, n, _ = self.plan.tiles
        with b.loop("m", m, unrolled=True) as at_m, b.loop("n", n, unrolled=True) as at_n:
            for j, at in enumerate(self.plan.sums(at_m, at_n)):
                in_scratch = Vector(self.registers, build.add(self._first(at_m, at_n), j))
                yield in_scratch, None if at is None else Vector(self.acc, at)


#: maps the index of a tile to its registers of A or B in one step along k
_Factor = Callable[[Expr], tuple[Vector, ...]]


def _factor(plan: Plan, name: str, source: Buffer, step: Expr) -> _Factor:
    words = plan.a_words if name == "a" else plan.b_words
    return lambda tile: tuple(Vector(source, at, plan.form.pack) for at in words(tile, step))


def _in_scratch(registers: Buffer, words: int, pack: int) -> _Factor:
    """Return the map from tiles to consecutive registers of a scratch buffer: `words`, each of `pack` elements."""

    def at(tile: Expr) -> tuple[Vector, ...]:
        first = build.mul(tile, words * pack)
        return tuple(Vector(registers, build.add(first, word * pack), pack) for word in range(words))

    return at


def _opaque(factor: _Factor, name: str, tiles: int, b: Builder) -> _Factor:
    """Return a copy of `factor`, in registers whose values are opaque to ptxas.

    For sm_90 ptxas converts 8-bit floats to float16. If it knows that the upper half of a register is zero, it
    wrongly converts 0x60, which is 32 in e4m3 (ptxas 13.0 and 13.5 emit `F2FP.F16.E4M3.UNPACK_B R6, 0x60` for RZ.H1).
    """
    first, *others = factor(build.const(0, int32))
    pack, words = first.width, 1 + len(others)
    copies = b.scratch(f"{name}.hidden", first.buffer.dtype, tiles * words * pack)
    made, zero = _in_scratch(copies, words, pack), b.opaque_zero()
    with b.loop(name, tiles, unrolled=True) as tile:
        for copy, word in zip(made(tile), factor(tile), strict=True):
            b.append(Instruction(XOR.name, (copy,), (word, zero), span=b.span))
    return made


def _split(factor: _Factor, name: str, tiles: int, b: Builder) -> list[_Factor]:
    """Return the big and the small tf32 parts of the registers of `factor`."""
    words = len(factor(build.const(0, int32)))
    parts = [_in_scratch(b.scratch(f"{name}.{part}", float32, tiles * words), words, 1) for part in ("big", "small")]
    with b.loop(name, tiles, unrolled=True) as tile:
        for big, small, word in zip(*(part(tile) for part in parts), factor(tile), strict=True):
            b.append(Instruction(SPLIT_TF32.name, (big, small), (word,), span=b.span))
    return parts


def _masked(plan: Plan, name: str, source: Buffer, step: int, op: TileOp, b: Builder) -> _Factor:
    """Copy the registers of A or B for a step along k that has padding; in the copy, padding is 0."""
    pack, halves = plan.form.pack, plan.form.halves
    tiles, rows = (plan.tiles[0], 2) if name == "a" else (plan.tiles[1], 1)
    masked = b.scratch(f"{source.name}.masked", source.dtype, tiles * rows * halves * pack)
    made = _in_scratch(masked, rows * halves, pack)
    inside = [_inside(plan, step, half, op, b) for half in range(halves)]
    taken = _factor(plan, name, source, build.const(step, int32))
    with b.loop(name, tiles, unrolled=True) as tile:
        for word, (to, registers) in enumerate(zip(made(tile), taken(tile), strict=True)):
            _move_inside(to, registers, inside[word // rows], b)
    return made


def _inside(plan: Plan, step: int, half: int, op: TileOp, b: Builder) -> list[Expr]:
    """Return for each element of a register of A or B the condition that it isn't padding along k."""
    depth, within = plan.fragments.depth, plan.within(step, half)
    conditions: list[Expr] = [TRUE] * plan.form.pack
    for p, ((first, _), where) in enumerate(zip(depth.elements(step, half), within, strict=False)):
        if where is Within.NONE:
            conditions[p] = FALSE
        elif where is Within.SOME:
            lane = depth.of_lane(b.thread(op.scope, plan.threads))
            # rounding the limit up to a multiple of `step`, which divides `lane`, often makes conditions equal
            step = depth.lane_step
            conditions[p] = build.less(lane, -(-(depth.count - first) // step) * step)
    return conditions


def _move_inside(to: Vector, registers: Vector, inside: Sequence[Expr], b: Builder) -> None:
    zero = build.const(0, to.buffer.dtype)
    if len(set(inside)) == 1 and inside[0] != FALSE:
        b.move(to, registers, inside[0], zero)
        return
    for p, condition in enumerate(inside):
        element = Vector(to.buffer, build.add(to.offset, p))
        if condition == FALSE:
            b.append(Store(element, zero, span=b.span))
        else:
            b.move(element, Vector(registers.buffer, build.add(registers.offset, p)), condition, zero)


def _rounded_to_tf32(plan: Plan, left: Buffer, right: Buffer, b: Builder) -> list[Buffer]:
    m, n, k = plan.tiles
    copies: list[Buffer] = []
    for source, words, count in ((left, plan.a_words, m), (right, plan.b_words, n)):
        rounded = b.scratch(f"{source.name}.tf32", float32, source.tile_layout.span())
        copies.append(rounded)
        with b.loop("k", k, unrolled=True) as at_k, b.loop("tile", count, unrolled=True) as tile:
            for at in words(tile, at_k):
                b.append(Instruction(TF32.name, (Vector(rounded, at),), (Vector(source, at),), span=b.span))
    return copies


VARIANT = Variant(
    name="mma",
    operations=("gemm",),
    priority=10,
    operands=(
        tiles_in("local", does="multiplies local tiles", remedy=" (load it first, with layout=tj.mma.layout_a/b)"),
    ),
    when=(
        *RULE_CONDITIONS,
        WHOLE_WARPS,
        needs(_products),
        Condition("sizes", _sizes),
        Condition("registers", _separate),
        KNOWN_STARTS,
    ),
    plan=plan,
    emit=emit,
)
