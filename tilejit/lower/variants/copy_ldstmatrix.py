"""copy between registers and shared memory by ldmatrix and stmatrix, with which a warp moves 8x8 tiles.

accepts: one side local, the other shared; 16-bit elements; whole warps that own the registers, possibly with replicas
    over warps. In registers lane l holds elements 2(l%4) and 2(l%4)+1 of row l//4 of each tile. In memory each row, or
    each column, of a tile consists of 16 aligned bytes, which a swizzle keeps together.
emits: instructions that move 4, 2 or 1 tiles, as many as possible, unrolled over all of a warp's tiles.
source: tilejit/lower/README.md, "Copies"; PTX ISA, "Warp-level matrix load instruction: ldmatrix" and "... store
    instruction: stmatrix".
"""

from __future__ import annotations

import numpy as np

from ...dataclass import dataclass
from ...dtypes import int32
from ...errors import LayoutError
from ...ir.arithmetic import build
from ...ir.arithmetic.evaluate import number
from ...ir.nodes import Expr, Instruction, TileOp, Vector
from ...isa import Family, Row, matrix
from ...layout import Swizzle
from ...target import WARP
from ..builder import Builder
from ..moves.vectors import register_copy
from ..plans import Facts, Moves
from ..plans import Plan as PlanBase
from ..schedule.iterations import Iterations
from ..schedule.matrix_tiles import ROW, Tiles, split_tiles
from ..variant import COPY_CONDITIONS, WHOLE_WARPS, Condition, DispatchContext, Variant, between, needs

#: first target that ignores the addresses of lanes without a row; on earlier targets they must be valid
_IGNORES_ADDRESSES = 80


@dataclass(frozen=True, slots=True)
class Plan(PlanBase):
    """In each issue a warp moves `num` tiles; lane 8j+i passes the address of row i of tile j.

    loads: True if the registers are the destination. repeats: True if lanes without a row pass other lanes' addresses.
    """

    issues: int
    threads: int
    tiles: Tiles
    loads: bool
    repeats: bool

    @property
    def num(self) -> int:
        return self.tiles.num

    @property
    def trans(self) -> bool:
        return self.tiles.trans

    @property
    def vector_width(self) -> int:
        """The number of elements in a row, which are contiguous in memory."""
        return ROW

    def facts(self) -> Facts:
        width = f"x{self.num}" + (".trans" if self.trans else "")
        return Facts(width, self.issues, self.vector_width * self.tiles.memory.buffer.dtype.bits)

    @property
    def instruction(self) -> Row:
        return _family(self.loads).row(matrix.MatrixForm(self.num, self.trans))

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        return ((self.instruction.mnemonic, self.issues),)

    def base(self, thread: Expr) -> Expr:
        """Return a thread's address in issue 0, before swizzling."""
        tiles = self.tiles
        warp = tiles.warps["registers"].of_thread(thread)
        tile = build.mod(build.floordiv(thread, ROW), tiles.num if self.repeats else WARP // ROW)
        row = build.mul(build.mod(thread, ROW), tiles.pitch)
        among = tiles.inner["memory"].distance(tiles.inner.digits_of(tile))
        return build.total([tiles.warps["memory"].at(warp), among, row], int32)

    def moved(self, issue: Expr) -> Expr:
        """Return the offset of an issue's addresses from those of issue 0, before swizzling."""
        return self.tiles.memory.distance(self.tiles.outer.digits_of(issue))

    def address(self, thread: Expr, issue: Expr) -> Expr:
        """Return a thread's swizzled address in an issue."""
        return self.tiles.memory.swizzled(build.add(self.base(thread), self.moved(issue)))

    def gives_address(self, thread: Expr, issue: Expr) -> Expr:
        """Return the condition that a thread's address is that of a row to move."""
        row = build.less(build.mod(thread, WARP), ROW * self.num)
        return build.logical_and(row, self.is_mover(thread))

    def held(self, issue: Expr) -> list[Expr]:
        """Return, for each tile of an issue, the index in a thread's buffer of the first of the lane's two elements."""
        first = build.add(self.tiles.registers.start, self.tiles.registers.distance(self.tiles.outer.digits_of(issue)))
        return [build.add(first, offset) for offset in self.tiles.offsets()]

    def is_mover(self, thread: Expr) -> Expr:
        return self.tiles.registers.placement.is_mover(thread, self.loads)

    def words(self) -> list[list[int]]:
        """Return the indices of the 32-bit registers that each issue moves, in the instruction's order."""
        firsts = (self.held(build.const(issue, int32)) for issue in range(self.issues))
        return [[number(register) // 2 for register in held] for held in firsts]

    def _iterations(self) -> Iterations:
        return Iterations(self.issues, self.threads, (self.tiles.memory.placement.region,))

    def schedule(self) -> np.ndarray:
        """Return one row per address: (issue, thread, element index).

        Variables in starts take their possible values nearest 0.
        """
        iterations = self._iterations()
        addresses = iterations.values(self.address(*iterations.variables))
        return np.column_stack([iterations.rounds_of, iterations.threads_of, addresses])

    def moves(self) -> Moves:
        # PTX ISA, "ldmatrix": lane l holds elements 2(l%4) and 2(l%4)+1 of row l//4 of each tile
        iterations = self._iterations()
        row_starts = self.schedule()[:, 2].reshape(self.issues, self.threads // WARP, WARP)
        issue, thread, tile, half = np.indices((self.issues, self.threads, self.num, 2)).reshape(4, -1)
        warp, lane = thread // WARP, thread % WARP
        row, column = lane // 4, 2 * (lane % 4) + half
        if self.trans:
            row, column = column, row
        starts = row_starts[issue, warp, ROW * tile + row]
        register = 2 * np.array(self.words(), np.int64)[issue, tile] + half
        sides = (register, starts + column) if self.loads else (starts + column, register)
        is_moved = np.zeros(self.issues * self.threads, bool)
        is_moved[iterations.holding(self.is_mover(iterations.thread))] = True
        rows = np.flatnonzero(is_moved[issue * self.threads + thread])
        places, width = np.stack(sides, axis=1)[rows], np.ones(len(rows), np.int64)
        return Moves(issue[rows], thread[rows], places, width, (1, 1))


def _family(loads: bool) -> Family[matrix.MatrixForm]:
    return matrix.LDMATRIX if loads else matrix.STMATRIX


def _width(op: TileOp, context: DispatchContext) -> str | None:
    dtype = op.region("dst").dtype
    return None if dtype.bits == 16 else f"needs 16-bit elements; {dtype} has {dtype.bits} bits"


def _instruction(op: TileOp) -> Family[matrix.MatrixForm]:
    return _family(op.region("dst").buffer.space == "local")


def plan(op: TileOp, context: DispatchContext) -> Plan:
    try:
        copy, loads = register_copy(op, context.count(op.scope))
        tiles = split_tiles(copy)
    except LayoutError as error:
        # usually `reg` is used instead, so no error shows the hint; `explain` shows reasons, so the reason includes it
        raise LayoutError(f"{error.message} ({error.hint})" if error.hint else error.message, hint=error.hint) from None
    repeats = context.target.number < _IGNORES_ADDRESSES
    return Plan(tiles.outer.count, context.count(op.scope), tiles, loads, repeats)


def emit(plan: Plan, op: TileOp, b: Builder) -> None:
    thread = b.thread(op.scope, plan.threads)
    registers, memory = plan.tiles.registers, plan.tiles.memory
    unswizzled, swizzled_part = _split_at_swizzle(plan.base(thread), memory.placement.swizzle)
    tile = b.let("tile", unswizzled)
    row = b.let("row", memory.swizzled(swizzled_part))
    # replicas are held by whole warps, so the condition is uniform in a warp
    with b.when(plan.is_mover(thread)), b.loop("issue", plan.issues, unrolled=True) as issue:
        within = memory.advanced(row, swizzled_part, plan.moved(issue))
        place = Vector(memory.buffer, build.add(tile, within), ROW)
        words = tuple(Vector(registers.buffer, first, 2) for first in plan.held(issue))
        outputs, inputs = (words, (place,)) if plan.loads else ((), (place, *words))
        b.append(Instruction(plan.instruction.name, outputs, inputs, span=b.span))


def _split_at_swizzle(address: Expr, swizzle: Swizzle | None) -> tuple[Expr, Expr]:
    """Split an address into a part that the swizzle leaves unchanged, such as a pipeline stage, and the remainder."""
    return (build.const(0, address.dtype), address) if swizzle is None else build.apart(address, swizzle.period)


VARIANT = Variant(
    name="ldstmatrix",
    operations=("copy",),
    priority=20,
    operands=(between("local", "shared"),),
    when=(*COPY_CONDITIONS, WHOLE_WARPS, Condition("16-bit elements", _width), needs(_instruction)),
    # neither side is a global tensor, so no element is outside and filled
    honours=("fill",),
    plan=plan,
    emit=emit,
)
