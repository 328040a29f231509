"""gemm by mma.sync: each warp multiplies the fragments that its lanes hold.

accepts: local operands of whole warps in the layouts of `tj.mma.layout_a/b/c`, or in others that give each lane the
    same elements up to the order of tiles and registers; types that an instruction of the target multiplies.
emits: one instruction for each tile of 16 x 8 x k of a warp, unrolled; for float32 before it a conversion to tf32.
source: DISPATCH 9.7; PTX ISA, "Multiply-and-Accumulate Instruction: mma" and "Matrix Fragments for mma.m16n8k16 ...".
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ...dtypes import float32, int32
from ...errors import LayoutError
from ...ir.arithmetic import build
from ...ir.arithmetic.evaluate import number
from ...ir.nodes import Buffer, Const, Expr, Instruction, Region, TileOp, Vector
from ...isa import Family
from ...isa.convert import TF32
from ...isa.mma import MMA, MMA_M, MMA_N, Mma, products
from ..builder import Builder
from ..schedule.fragments import Fragments, fragment, nearest, share
from ..schedule.views import Schedule
from ..variant import (
    KINDS,
    SCOPE,
    TYPES,
    WHOLE_WARPS,
    Condition,
    Decline,
    DispatchContext,
    Facts,
    Products,
    Variant,
    needs,
    outside,
)
from ..variant import Plan as PlanBase


@dataclass(frozen=True, slots=True)
class Plan(PlanBase):
    """For each step of k, each m and each n a warp adds one product of tiles.

    form: the instruction. threads: of the scope. fragments: how the operands' registers count tiles.
    """

    form: Mma
    threads: int
    fragments: Fragments

    @property
    def tiles(self) -> tuple[int, int, int]:
        """How many tiles a warp has along m, n and k."""
        return self.fragments.m.count, self.fragments.n.count, self.fragments.k.count

    @property
    def issues(self) -> int:
        """Instructions of a warp."""
        return prod(self.tiles)

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        """(mnemonic, times a thread)."""
        rounded = ((TF32.mnemonic, self._converted),) if self.form.a == float32 else ()
        return (*rounded, (MMA.row(self.form).mnemonic, self.issues))

    @property
    def _converted(self) -> int:
        m, n, k = self.tiles
        return (2 * m + n) * k * self.form.halves

    @property
    def acc_width(self) -> int:
        """Elements of the accumulator that lie together: a lane's two columns, or one."""
        return 2 if self.fragments.pair["acc"] == 1 else 1

    def facts(self) -> Facts:
        return Facts("-", self.issues)

    def acc_words(self, m: Expr, n: Expr) -> tuple[Expr, ...]:
        """Where an instruction's elements of the accumulator begin, `acc_width` at a time."""
        tile = self._at("acc", (self.fragments.m, m), (self.fragments.n, n))
        row, pair = self.fragments.row.elements("acc"), self.fragments.pair.elements("acc")
        columns = (0,) if self.acc_width == 2 else (0, pair)
        return tuple(build.add(tile, i * row + j) for i in range(2) for j in columns)

    def a_words(self, m: Expr, k: Expr) -> tuple[Expr, ...]:
        """The first element of each of the registers of A."""
        tile = self._at("a", (self.fragments.m, m), (self.fragments.k, k))
        row = self.fragments.row.elements("a")
        return tuple(build.add(tile, half + i * row) for half in self._halves("a") for i in range(2))

    def b_words(self, n: Expr, k: Expr) -> tuple[Expr, ...]:
        """The first element of each of the registers of B."""
        tile = self._at("b", (self.fragments.n, n), (self.fragments.k, k))
        return tuple(build.add(tile, half) for half in self._halves("b"))

    def _halves(self, operand: str) -> tuple[int, ...]:
        """Where the halves of an instruction's k begin, in a factor's registers."""
        half = self.fragments.half
        return (0,) if half is None else (0, half.elements(operand))

    def _at(self, operand: str, *tile: tuple[Schedule, Expr]) -> Expr:
        """Where an operand has a tile, from (digits, their value) of each of its dimensions."""
        start = self.fragments.m[operand].start
        return build.total([start, *(digits[operand].steps(index) for digits, index in tile)], int32)

    def schedule(self) -> np.ndarray:
        """One row an instruction, in order: (m, n, k, registers of acc ..., of a ..., of b ...), as elements."""
        rows = []
        for k, m, n in np.ndindex(self.tiles[2], *self.tiles[:2]):
            at_m, at_n, at_k = (build.const(int(x), int32) for x in (m, n, k))
            words = (*self.acc_words(at_m, at_n), *self.a_words(at_m, at_k), *self.b_words(at_n, at_k))
            rows.append([m, n, k, *map(number, words)])
        return np.array(rows, np.int64)

    def moves(self) -> Products:
        words = self.schedule()[:, 3:]
        sums, halves = 4 // self.acc_width, self.form.halves
        parts = np.split(words, (sums, sums + 2 * halves), axis=1)
        widths = (self.acc_width, self.form.pack, self.form.pack)
        # the elements of a register follow each other
        acc, a, b = (
            (first[:, :, None] + np.arange(width)).reshape(len(words), -1)
            for first, width in zip(parts, widths, strict=True)
        )
        return Products(MMA_M, MMA_N, self.form.k, self.form.a.bits, self.threads, acc, a, b)


def _operands(op: TileOp) -> tuple[Region, Region, Region]:
    return op.region("acc"), op.region("a"), op.region("b")


def _shapes(op: TileOp) -> tuple[tuple[int, ...], ...]:
    return tuple(r.shape for r in _operands(op))


def _local(op: TileOp, context: DispatchContext) -> str | None:
    strangers = outside(op, "local")
    return f"multiplies local tiles; {strangers} (load it first, with layout=tj.mma.layout_a/b)" if strangers else None


def _shape(op: TileOp, context: DispatchContext) -> str | None:
    fault = op.record.shape_fault(op.shapes, dict(op.attrs))
    return None if fault is None else fault.message


def _starts(op: TileOp, context: DispatchContext) -> str | None:
    for region in _operands(op):
        if not all(isinstance(start, Const) for start in region.starts):
            what = f"the region of {region.buffer.name} starts at a register known only at run time"
            return f"{what}: count with tj.static_range, whose index is known at compile time"
    return None


def _products(op: TileOp) -> Family[Mma]:
    acc, a, b = (r.dtype for r in _operands(op))
    return products(a, b, acc)


def _available(op: TileOp, context: DispatchContext) -> tuple[Mma, ...]:
    return tuple(_products(op).on(context.target))


def _sizes(op: TileOp, context: DispatchContext) -> str | None:
    if _shape(op, context) is not None:
        return None
    (rows, columns), (_, depth), _ = _shapes(op)
    steps = [f.k for f in _available(op, context)]
    wanted = [("M", rows, MMA_M), ("N", columns, MMA_N), *([("K", depth, min(steps))] if steps else [])]
    wrong = [f"{name} is {n}; needs a multiple of {tile}" for name, n, tile in wanted if n % tile]
    return "; ".join(wrong) or None


def _separate(op: TileOp, context: DispatchContext) -> str | None:
    acc, *factors = (r.buffer for r in _operands(op))
    shared = [f.name for f in factors if f.root == acc.root]
    return f"{acc.name} shares its registers with {shared[0]}" if shared else None


def plan(op: TileOp, context: DispatchContext) -> Plan | Decline:
    threads, regions = context.count(op.scope), op.tiles
    available, placements = _available(op, context), {}
    for name, region in regions.items():
        try:
            pack = available[0].acc_pack if name == "acc" else available[0].pack
            placements[name] = fragment(region, name, op.scope, threads, pack)
        except LayoutError as error:
            return Decline((error.message,), nearest(regions, (name,), op.scope, threads))
    form = next(f for f in available if regions["a"].shape[1] % f.k == 0)
    try:
        return Plan(form, threads, share(placements, form))
    except LayoutError as error:
        return Decline((error.message,), nearest(regions, tuple(regions), op.scope, threads))


def emit(plan: Plan, op: TileOp, b: Builder) -> None:
    m, n, k = plan.tiles
    acc, left, right = (region.buffer for region in _operands(op))
    if plan.form.a == float32:
        left, right = _rounded(plan, left, right, b)
    # products that follow each other go to different accumulators, so that none waits for the one before
    with (
        b.loop("k", k, unrolled=True) as at_k,
        b.loop("m", m, unrolled=True) as at_m,
        b.loop("n", n, unrolled=True) as at_n,
    ):
        sums = tuple(Vector(acc, at, plan.acc_width) for at in plan.acc_words(at_m, at_n))
        rows = (Vector(left, at, plan.form.pack) for at in plan.a_words(at_m, at_k))
        columns = (Vector(right, at, plan.form.pack) for at in plan.b_words(at_n, at_k))
        b.append(Instruction(MMA.row(plan.form).name, sums, (*rows, *columns, *sums), span=b.span))


def _rounded(plan: Plan, left: Buffer, right: Buffer, b: Builder) -> list[Buffer]:
    """Copies of A and B with their values rounded to tf32."""
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
    operands=(KINDS, Condition("memory", _local)),
    when=(
        SCOPE,
        WHOLE_WARPS,
        TYPES,
        Condition("shapes", _shape),
        needs(_products),
        Condition("sizes", _sizes),
        Condition("registers", _separate),
        Condition("starts", _starts),
    ),
    plan=plan,
    emit=emit,
)
