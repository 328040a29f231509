"""copy between registers and shared memory by ldmatrix and stmatrix: a warp moves 8x8 tiles together.

accepts: one side local, the other shared; 16-bit elements; whole warps that own the registers, replicas over warps
    too. In registers lane l holds elements 2(l%4) and 2(l%4)+1 of row l//4 of each tile; in memory the rows or the
    columns of each tile are 16 aligned bytes, which a swizzle keeps together.
emits: an instruction for 4, 2 or 1 tiles, as many as fit, unrolled over all of a warp's tiles.
source: DISPATCH 6; PTX ISA, "Warp-level matrix load instruction: ldmatrix" and "... store instruction: stmatrix".
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ...dtypes import int32
from ...errors import LayoutError
from ...ir import build
from ...ir.nodes import TRUE, Const, Expr, Instruction, TileOp, Var, Vector
from ...isa import Family, Row, matrix
from ...layout import Swizzle
from ...target import WARP
from ..builder import Builder
from ..conditions import COPY, KINDS, copy_sides, memory_pair, needs
from ..engine import Condition, Context, Decline, Variant
from ..moves.register_copy import register_sides
from ..plan import Access, Facts, Moves
from ..plan import Plan as PlanBase
from ..schedule.addresses import advanced, along, digits, linear, offsets, origin, steps, swizzled
from ..schedule.evaluate import evaluate
from ..schedule.launch import launch_values
from ..schedule.matrix_tiles import ROW, Tiles, split_tiles
from ..schedule.owners import lowest_owner, thread_digit
from ..schedule.placement import Side, Step, Thread
from ..schedule.schedule import Atom

#: from here on the addresses of lanes beyond an instruction's last row are ignored; before, they must be valid
_IGNORES_ADDRESSES = 80


@dataclass(frozen=True, slots=True)
class Plan(PlanBase):
    """Issue m of each warp moves `num` tiles; lane 8j+i has the address of row i of tile j.

    trans: whether columns, not rows, lie together in memory. issues: instructions of a warp. threads: of the scope.
    loads: whether the registers are the destination. repeats: whether lanes beyond the last row repeat addresses.
    """

    num: int
    trans: bool
    issues: int
    threads: int
    tiles: Tiles
    registers: Side
    memory: Side
    loads: bool
    repeats: bool

    def facts(self) -> Facts:
        # a row is moved at once
        width = f"x{self.num}" + (".trans" if self.trans else "")
        return Facts(width, self.issues, ROW * self.memory.buffer.dtype.bits)

    @property
    def instruction(self) -> Row:
        return _family(self.loads).row(matrix.Tiles(self.num, self.trans))

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        """(mnemonic, trips a thread)."""
        return ((self.instruction.mnemonic, self.issues),)

    def base(self, thread: Expr) -> Expr:
        """The address that a thread gives in issue 0, before swizzling."""
        warps, inner = self.tiles.warps, self.tiles.inner
        tile = build.mod(build.floordiv(thread, ROW), self.num if self.repeats else WARP // ROW)
        return along(
            (
                *offsets(self.memory),
                *steps(1, warps, [_digit(thread, a) for a in warps]),
                *steps(1, inner, digits(tile, [a.extent for a in inner])),
                (self.tiles.pitch, build.mod(thread, ROW)),
            ),
            int32,
        )

    def moved(self, issue: Expr) -> Expr:
        """How far an issue's addresses lie from those of issue 0, before swizzling."""
        return linear(self.memory, 1, self.tiles.outer, self._outer(issue))

    def held(self, issue: Expr) -> list[Expr]:
        """For each tile of an issue the first of the two elements that a lane holds of it."""
        first = build.add(origin(self.registers), linear(self.registers, 0, self.tiles.outer, self._outer(issue)))
        return [build.add(first, offset) for offset in self.tiles.offsets()]

    def _outer(self, issue: Expr) -> list[Expr]:
        return digits(issue, [a.extent for a in self.tiles.outer])

    def words(self) -> list[list[int]]:
        """For each issue the 32-bit registers of a thread's tile that it moves, in the order of the instruction."""
        found: list[list[int]] = []
        for issue in range(self.issues):
            first = self.held(build.const(issue, int32))
            found.append([int(f.value) // 2 for f in first if isinstance(f, Const)])
        return found

    def schedule(self) -> np.ndarray:
        """One row an address: (issue, thread, shared element), issues outermost; run-time starts count as 0."""
        at = np.arange(self.issues * self.threads, dtype=np.int64)
        issue = Var("plan.issue", int32, bounds=(0, self.issues - 1))
        thread = Var("plan.thread", int32, bounds=(0, self.threads - 1))
        known: dict[str, np.ndarray | int] = {**launch_values((self.memory.region,))}
        known |= {"plan.issue": at // self.threads, "plan.thread": at % self.threads}
        address = swizzled(build.add(self.base(thread), self.moved(issue)), self.memory.swizzle)
        columns = (known["plan.issue"], known["plan.thread"], np.broadcast_to(evaluate(address, known), at.shape))
        return np.stack([np.asarray(c) for c in columns], axis=1)

    def moves(self) -> Moves:
        """As the instructions move them.

        source: PTX ISA, "ldmatrix": lane l gets elements 2(l%4) and 2(l%4)+1 of row l//4 of each tile.
        """
        given = self.schedule()[:, 2].reshape(self.issues, self.threads // WARP, WARP)
        issue, thread, tile, half = np.indices((self.issues, self.threads, self.num, 2)).reshape(4, -1)
        warp, lane = thread // WARP, thread % WARP
        row, column = lane // 4, 2 * (lane % 4) + half
        if self.trans:
            row, column = column, row
        starts = given[issue, warp, ROW * tile + row]
        register = 2 * np.array(self.words(), np.int64)[issue, tile] + half
        sides = (register, starts + column) if self.loads else (starts + column, register)
        lowest = lowest_owner(self.registers, Var("plan.thread", int32, bounds=(0, self.threads - 1)))
        takes_part = TRUE if self.loads else lowest
        rows = np.flatnonzero(np.broadcast_to(evaluate(takes_part, {"plan.thread": thread}), thread.shape))
        access = Access(1 if self.loads else 0, np.unique(starts[rows]), ROW)
        places, width = np.stack(sides, axis=1)[rows], np.ones(len(rows), np.int64)
        return Moves(issue[rows], thread[rows], places, width, (1, 1), access)


def _family(loads: bool) -> Family[matrix.Tiles]:
    return matrix.LDMATRIX if loads else matrix.STMATRIX


def _digit(thread: Expr, atom: Atom) -> Expr:
    stride = atom.strides[0]
    assert isinstance(stride, Thread)
    return thread_digit(thread, atom, stride)


# ---- conditions ---------------------------------------------------------------------------------------------


def _whole_warps(op: TileOp, context: Context) -> str | None:
    if op.scope == "thread":
        return "needs whole warps; called on one thread"
    threads = context.count(op.scope)
    return f"needs whole warps; the {op.scope} has {threads} threads" if threads % WARP else None


def _width(op: TileOp, context: Context) -> str | None:
    dtype = op.operands[0].dtype
    return None if dtype.bits == 16 else f"needs 16-bit elements; {dtype} has {dtype.bits} bits"


def _instruction(op: TileOp) -> Family[matrix.Tiles]:
    return _family(copy_sides(op)[0].buffer.space == "local")


# ---- plan and emission --------------------------------------------------------------------------------------


def plan(op: TileOp, context: Context) -> Plan | Decline:
    try:
        registers, memory, loads = register_sides(op, context)
        _need_replicas_over_warps(registers)
        tiles = split_tiles(registers, memory)
    except LayoutError as error:
        # `reg` takes what this declines: the hint stands in the reason, where `explain` shows it
        return Decline((f"{error.message} ({error.hint})" if error.hint else error.message,), error.hint)
    issues, threads = prod(a.extent for a in tiles.outer), context.count(op.scope)
    repeats = context.target.number < _IGNORES_ADDRESSES
    return Plan(tiles.num, tiles.trans, issues, threads, tiles, registers, memory, loads, repeats)


def _need_replicas_over_warps(registers: Side) -> None:
    for step in registers.replicas:
        if _is_within_warp(step):
            raise LayoutError(
                f"{step.extent} lanes of a warp hold the same elements of {registers.buffer.name}; "
                "in an 8x8 tile each lane holds its own",
                hint="replicate over whole warps",
            )


def _is_within_warp(step: Step) -> bool:
    return isinstance(step.stride, Thread) and step.stride.stride % WARP != 0


def emit(plan: Plan, op: TileOp, b: Builder) -> None:
    thread = b.thread(op.scope, plan.threads)
    swizzle = plan.memory.swizzle
    far, near = _apart(plan.base(thread), swizzle)
    tile = b.let("tile", far)
    row = b.let("row", swizzled(near, swizzle))
    # whole warps hold replicas, so the lanes of a warp agree
    mine = TRUE if plan.loads else lowest_owner(plan.registers, thread)
    with b.when(mine), b.loop("issue", plan.issues, unrolled=True) as issue:
        within = advanced(swizzle, row, near, plan.moved(issue))
        place = Vector(plan.memory.buffer, build.add(tile, within), ROW)
        words = tuple(Vector(plan.registers.buffer, first, 2) for first in plan.held(issue))
        if plan.loads:
            b.append(Instruction(plan.instruction.name, words, (place,), span=b.span))
        else:
            b.append(Instruction(plan.instruction.name, (), (place, *words), span=b.span))


def _apart(address: Expr, swizzle: Swizzle | None) -> tuple[Expr, Expr]:
    """What the swizzle doesn't see of an address, and the rest.

    Apart, the loops that choose a tile, a stage of a pipeline say, leave alone which row of it a thread addresses.
    """
    return (build.const(0, address.dtype), address) if swizzle is None else build.apart(address, swizzle.period)


VARIANT = Variant(
    "ldstmatrix",
    ("copy",),
    20,
    (KINDS, memory_pair("local <-> shared", ("local", "shared"), ("shared", "local"))),
    (
        *COPY,
        Condition("whole warps", _whole_warps),
        Condition("16-bit elements", _width),
        needs(_instruction),
    ),
    plan,
    emit,
)
