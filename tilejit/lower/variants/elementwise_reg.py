"""Elementwise operations, casts and fills in registers, each thread on its own.

accepts: a local destination owned by exactly the threads of the scope; local inputs that broadcast to it and lie in
    the same threads, scalars; any of the operations in `tilejit.ops`.
emits: one scalar operation a register, unrolled; pairs where one instruction takes two and registers are adjacent.
source: DISPATCH 8 and 13.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import prod

import numpy as np

from ...dtypes import DType, float32, int32
from ...errors import LayoutError
from ...ir import build
from ...ir.nodes import Expr, Instruction, Load, Move, Region, Store, TileOp, Var, Vector
from ...isa import Row
from ...isa.convert import NARROW_PAIR, PAIRS
from ...ops.elementwise import result_type
from ...target import Target
from ..builder import Builder
from ..conditions import KINDS, outside, tiles
from ..elementwise import ELEMENTWISE_CONDITIONS, OPERATIONS, arity, broadcast, value_of
from ..engine import Condition, Context, Decline, Variant
from ..plan import Moves, VectorPlan
from ..schedule.addresses import located, reached
from ..schedule.evaluate import evaluate
from ..schedule.owners import need_all_threads
from ..schedule.placement import Side, Thread, side
from ..schedule.registers import RegisterRun, each_start
from ..schedule.schedule import Atom, joined, reach, refine, vectors
from ..schedule.width import run_length, vector_width


@dataclass(frozen=True, slots=True)
class Plan(VectorPlan):
    """In round r each thread computes its step r, counted along the destination's registers.

    sides: destination, then the inputs that are tiles. atoms: the digits of r on them.
    packed: the instruction that computes a step of two, None where each element has its own.
    """

    operation: str
    atoms: tuple[Atom, ...]
    sides: tuple[Side, ...]
    packed: str | None = None

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        """(mnemonic, or operation and type where LLVM chooses; trips a thread)."""
        if self.packed is not None:
            return ((self.packed, self.rounds),)
        dtype = self.sides[0].buffer.dtype
        return ((f"{self.operation}.{dtype.name}", self.rounds * self.vector_width),)

    def register(self, column: int, trip: Expr) -> Expr:
        """The register of side `column` that a thread uses in a round."""
        return located(self.sides[column], column, self.atoms, trip)

    def moves(self) -> Moves:
        at = np.arange(self.rounds * self.threads, dtype=np.int64)
        trip = Var("plan.trip", int32, bounds=(0, self.rounds - 1))
        names = {"plan.trip": at // self.threads}
        registers = [evaluate(self.register(k, trip), names) for k in range(len(self.sides))]
        places = np.stack([np.broadcast_to(r, at.shape) for r in registers], axis=1)
        width = np.full_like(at, self.vector_width)
        return Moves(at // self.threads, at % self.threads, places, width, (1,) * len(self.sides))


def _local(op: TileOp, context: Context) -> str | None:
    strangers = outside(op, "local")
    return f"works on local tiles; {strangers} (load it first)" if strangers else None


# ---- plan ---------------------------------------------------------------------------------------------------


def plan(op: TileOp, context: Context) -> Plan | Decline:
    try:
        dst, *inputs = (side(r, op.scope) for r in tiles(op))
        sides = (dst, *(broadcast(i, dst) for i in inputs))
        found = plan_sides(op.name, sides, op.scope, context.count(op.scope))
    except LayoutError as error:
        return Decline((error.message,), error.hint)
    return _paired(found, op, context)


def plan_sides(operation: str, sides: tuple[Side, ...], scope: str, threads: int) -> Plan:
    """One step a register of the destination, the first of `sides`, which all have its shape.

    raises: LayoutError where they don't lie in the same threads, those of the whole scope.
    """
    for given in sides:
        need_all_threads(given, scope, threads)
    found = refine(sides)
    _need_equal_threads(found, sides)
    own = [a for a in found if not isinstance(a.strides[0], Thread)]
    own.sort(key=lambda a: abs(a.strides[0]) if isinstance(a.strides[0], int) else 0, reverse=True)
    atoms = joined(own, [True] * len(sides[0].shape))
    return Plan(1, prod(a.extent for a in atoms), threads, "", operation, atoms, sides)


def _paired(plan: Plan, op: TileOp, context: Context) -> Plan:
    """The plan with two elements a step, where registers are adjacent and an instruction or a word holds two."""
    run = run_length(plan.atoms)
    if run % 2:
        return plan
    packed = _packed_arithmetic(plan, op, context.target)
    if packed is None:
        if op.name != "cast" or vector_width(plan.sides, plan.atoms, ragged=False).elements < 2:
            return plan
        source, dtype = plan.sides[1].buffer.dtype, plan.sides[0].buffer.dtype
        row = _NARROWING.get((source, dtype)) or _NARROWING.get((dtype, source))
        if row is None or row.missing(context.target) is not None:
            return plan
        # a wider pair has a register for each half
        packed = row.name if (source, dtype) in _NARROWING else None
    atoms = vectors(plan.atoms, 2)
    return replace(plan, vector_width=2, rounds=plan.rounds // 2, atoms=atoms, packed=packed)


#: (source, destination) types of which one 32-bit register holds a pair -> the instruction that converts one
_NARROWING: dict[tuple[DType, DType], Row] = {(float32, dtype): NARROW_PAIR.row(dtype) for dtype in NARROW_PAIR.forms()}


def _packed_arithmetic(plan: Plan, op: TileOp, target: Target) -> str | None:
    """The instruction for two float32 at once, rounding to nearest even as the scalar one does."""
    if op.name not in PAIRS.forms() or PAIRS.row(op.name).missing(target) is not None:
        return None
    rule = result_type(op.name, tuple(o.dtype for o in op.operands[1:]))
    tiles = all(given.buffer.dtype == float32 for given in plan.sides)
    return PAIRS.row(op.name).name if tiles and rule == (float32, float32) else None


def _need_equal_threads(atoms: Sequence[Atom], sides: Sequence[Side]) -> None:
    """Every input's element lies in the threads that own the destination's.

    All sides are owned by the whole scope, so where an input doesn't move along one of the destination's thread
    digits, its replicas do.
    """
    name = sides[0].buffer.name
    for atom in atoms:
        own, *others = atom.strides
        if atom.is_folded:
            raise LayoutError(f"{name} and an input split a dimension over registers so differently that none fit")
        for stride, given in zip(others, sides[1:], strict=True):
            if stride == own or (isinstance(own, Thread) and stride == 0):
                continue
            if isinstance(own, Thread) or isinstance(stride, Thread):
                raise LayoutError(
                    f"{given.buffer.name} and {name} give dimension {atom.dim} to different threads",
                    hint="copy it to a tile with the destination's layout first",
                )


# ---- emission -----------------------------------------------------------------------------------------------


def emit(plan: Plan, op: TileOp, b: Builder) -> None:
    operands = [o if isinstance(o, Region) else b.let("scalar", o) for o in op.operands[: arity(op.name) + 1]]
    touched = [
        RegisterRun(s.buffer, plan.register(k, build.const(0, int32)), reach(plan.atoms, k) + plan.vector_width)
        for k, s in enumerate(plan.sides)
    ]
    for starts in each_start(b, *touched):
        _emit_rounds(plan, op, b, operands, starts)


def _emit_rounds(
    plan: Plan, op: TileOp, b: Builder, operands: Sequence[Region | Expr], starts: Sequence[Expr]
) -> None:
    dst, width = plan.sides[0].buffer, plan.vector_width

    def place(column: int, trip: Expr) -> Vector:
        moved = reached(plan.sides[column], column, plan.atoms, trip)
        return Vector(plan.sides[column].buffer, build.add(starts[column], moved), width)

    staged = b.passage(op.name, dst.dtype, plan.rounds * width, dst) if _overlaps(plan) else None
    given = _inputs(plan, operands[1:], b)
    touched = [s.buffer for s in plan.sides] + [v.buffer for v in given if isinstance(v, Vector)]
    with b.rounds(plan.rounds, *touched, *([] if staged is None else [staged])) as trip:
        columns = count(1)
        values = [place(next(columns), trip) if isinstance(v, Region) else v for v in given]
        to = place(0, trip) if staged is None else Vector(staged, build.mul(trip, width), width)
        _emit_step(plan, op, b, to, values)
    if staged is not None:
        with b.rounds(plan.rounds, dst, staged) as trip:
            b.append(Move(place(0, trip), Vector(staged, build.mul(trip, width), width), span=b.span))


def _inputs(plan: Plan, operands: Sequence[Region | Expr], b: Builder) -> list[Region | Expr | Vector]:
    """The inputs; scalars twice, in registers, where an instruction takes pairs."""
    if plan.packed is None:
        return list(operands)
    found: list[Region | Expr | Vector] = []
    for operand in operands:
        if isinstance(operand, Region):
            found.append(operand)
            continue
        pair = b.scratch("pair", float32, 2)
        for k in range(2):
            b.append(Store(Vector(pair, build.const(k, int32)), build.cast(operand, float32), span=b.span))
        found.append(Vector(pair, build.const(0, int32), 2))
    return found


def _emit_step(plan: Plan, op: TileOp, b: Builder, to: Vector, values: Sequence[Region | Expr | Vector]) -> None:
    if plan.packed is not None:
        pairs = tuple(v for v in values if not isinstance(v, Region))
        b.append(Instruction(plan.packed, (to,), pairs, span=b.span))
        return
    for k in range(plan.vector_width):
        scalars = [_one(v, k) if isinstance(v, Vector) else v for v in values if not isinstance(v, Region)]
        place = Vector(to.buffer, build.add(to.offset, k))
        loaded = [Load(v) if isinstance(v, Vector) else v for v in scalars]
        b.append(Store(place, value_of(op, loaded, to.buffer.dtype), span=b.span))


def _one(vector: Vector, step: int) -> Vector:
    return Vector(vector.buffer, build.add(vector.offset, step))


def _overlaps(plan: Plan) -> bool:
    """Whether an input shares registers with the destination in another order than its own."""
    trip = Var("trip", int32, bounds=(0, max(plan.rounds - 1, 0)))
    dst = plan.register(0, trip)
    return any(
        given.buffer.root == plan.sides[0].buffer.root and plan.register(k, trip) != dst
        for k, given in enumerate(plan.sides)
    )


VARIANT = Variant(
    "reg",
    OPERATIONS,
    10,
    (KINDS, Condition("memory", _local)),
    ELEMENTWISE_CONDITIONS,
    plan,
    emit,
)
