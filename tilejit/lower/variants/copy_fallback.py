"""copy, element by element and therefore slowly, if no faster variant accepts the operands.

accepts: both sides in global, shared or local memory; equal dtypes and shapes. Two local tiles must have the same
    owners; a single local tile must be owned by threads of the scope, with one register per element in each thread.
emits: between two tiles in memory, a loop over elements distributed over the scope's threads; with one local tile, of
    almost any layout, a loop in which each thread visits its registers; between local tiles, one move per register.
source: tilejit/lower/README.md, "Copies".
"""

from __future__ import annotations

from ...dataclass import dataclass
from ...dtypes import int64
from ...errors import LayoutError
from ...ir.arithmetic import build
from ...ir.nodes import Expr, Region, TileOp, Vector
from ..builder import Builder
from ..moves.partition import Partition, copy_vectors
from ..moves.vectors import fill_value
from ..plans import VectorPlan
from ..schedule.access import Edges
from ..schedule.placement import Placement, element_offset, need_own_registers, need_thread_axes, owned, place
from ..schedule.views import Digit, DigitSchedule, View
from ..variant import COPY_CONDITIONS, DispatchContext, Variant, among, local_side
from . import elementwise

#: name of the whole local tile in the schedules of an `OwnerCopy`
_TILE = "tile"


@dataclass(frozen=True, slots=True)
class OwnerCopy(VectorPlan):
    """In iteration r each thread moves its register r of the tile if the register's element is in the copied region."""

    #: the tile's digits over threads, slowest first, replicas included
    spread: DigitSchedule
    #: the tile's digits over registers
    held: DigitSchedule
    registers: Region
    #: the side in global or shared memory; its dimensions are those of the copied region
    memory: View
    #: True if the registers are the destination
    loads: bool

    @staticmethod
    def of(op: TileOp, threads: int) -> OwnerCopy:
        """Plan a copy that visits every register of the tile, or raise LayoutError if the layout doesn't allow that."""
        scope = op.scope
        registers, memory, loads = local_side(op)
        tile = owned(registers.buffer, scope)
        need_own_registers(tile)
        every = DigitSchedule.of_same_shape({_TILE: tile})
        spread, held = every.split_by_owner(_TILE)
        held = held.ordered(lambda digit: digit.elements(_TILE))
        replicas = (Digit(step.extent, None, 0, {_TILE: step.stride}) for step in tile.replicas)
        spread = spread.over((*spread.digits, *replicas)).ordered(lambda digit: digit.threads(_TILE))
        need_thread_axes(tile, scope, threads)
        _need_apart(tile, spread, scope, threads)
        return OwnerCopy(
            1,
            held.count,
            threads,
            "each register is tested separately",
            spread,
            held,
            registers,
            DigitSchedule.of_same_shape({"memory": place(memory, scope)})["memory"],
            loads,
        )

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        verb = "ld" if self.loads else "st"
        return ((self.memory.access(verb, 1), self.rounds),)

    def register(self, iteration: Expr) -> Expr:
        return self.held[_TILE].located(iteration)

    def element(self, thread: Expr, iteration: Expr) -> tuple[Expr, list[Expr]]:
        """Return when `thread` moves its register of `iteration`, and the register's element as an index in the region.

        The index has a coordinate for each dimension of extent other than 1.
        """
        left = build.sub(thread, self.spread[_TILE].placement.first_thread)
        is_active: Expr = build.greater_equal(left, 0)
        values: list[Expr] = []
        lowest: list[Expr] = []
        for digit in self.spread.digits:
            values.append(build.floordiv(left, digit.threads(_TILE)))
            is_active = build.logical_and(is_active, build.less(values[-1], digit.extent))
            left = build.mod(left, digit.threads(_TILE))
            if digit.dim is None and not self.loads:
                # only the lowest of the threads that hold a value stores it
                lowest.append(build.equal(values[-1], 0))
        for cond in (build.equal(left, 0), *lowest):
            is_active = build.logical_and(is_active, cond)
        tile, values = self.spread.then(self.held)[_TILE], [*values, *self.held.digits_of(iteration)]
        coordinates: list[Expr] = []
        for d, (start, count) in enumerate(zip(self.registers.starts, self.registers.counts, strict=True)):
            index: Expr = build.const(0, int64)
            if d in tile.dims:
                index = tile.coordinate(tile.dims.index(d), values, int64)
            at = build.sub(index, build.cast(start, int64))
            is_active = build.logical_and(is_active, build.greater_equal(at, 0))
            is_active = build.logical_and(is_active, build.less(at, count))
            coordinates.extend([at] if count != 1 else [])
        return is_active, coordinates

    def address(self, coordinates: list[Expr]) -> Expr:
        region, inner = self.memory.placement.region, iter(coordinates)
        indices = [
            build.cast(start, int64) if count == 1 else build.add(build.cast(start, int64), next(inner))
            for start, count in zip(region.starts, region.counts, strict=True)
        ]
        return element_offset(region.buffer, indices)

    @property
    def regions(self) -> tuple[Region, ...]:
        memory = self.memory.placement.region
        return (self.registers, memory) if self.loads else (memory, self.registers)

    def is_active(self, thread: Expr, iteration: Expr) -> Expr:
        return self.element(thread, iteration)[0]

    def places(self, thread: Expr, iteration: Expr) -> tuple[Expr, ...]:
        register, address = self.register(iteration), self.address(self.element(thread, iteration)[1])
        return (register, address) if self.loads else (address, register)

    def emit(self, op: TileOp, b: Builder) -> None:
        thread = b.thread(op.scope, self.threads)
        mask = Edges.of(self.memory, 1).mask(b, self.rounds)
        with b.rounds(self.rounds, self.registers.buffer) as iteration:
            is_active, coordinates = self.element(thread, iteration)
            with b.when(is_active):
                memory = Vector(self.memory.buffer, self.address(coordinates))
                register = Vector(self.registers.buffer, self.register(iteration))
                inside = mask.inside(lambda dim, dtype: build.cast(coordinates[dim], dtype))
                if self.loads:
                    b.move(register, memory, inside, fill_value(op))
                else:
                    b.move(memory, register, inside)


def _need_apart(tile: Placement, spread: DigitSchedule, scope: str, threads: int) -> None:
    reach, buffer = 1, tile.buffer
    for digit in reversed(spread.digits):
        if digit.threads(_TILE) < reach:
            raise LayoutError(f"several elements of {buffer.name} are in one register of a thread")
        reach += (digit.extent - 1) * digit.threads(_TILE)
    last = tile.first_thread + reach
    if last > threads:
        raise LayoutError(f"{buffer.name} is owned by threads up to {last - 1}; a {scope} has {threads}")


Plan = Partition | OwnerCopy | elementwise.ElementwisePlan


def plan(op: TileOp, context: DispatchContext) -> Plan:
    threads, regions = context.count(op.scope), op.tiles
    local = sum(r.buffer.space == "local" for r in regions.values())
    if local == 1:
        return OwnerCopy.of(op, threads)
    placements = {name: place(region, op.scope) for name, region in regions.items()}
    if local == 2:
        along = range(len(placements["dst"].shape))
        return elementwise.plan_tiles(op, {name: (p, tuple(along)) for name, p in placements.items()}, threads)
    return Partition.of(DigitSchedule.of_same_shape(placements), threads, vectorized=False)


def emit(plan: Plan, op: TileOp, b: Builder) -> None:
    if isinstance(plan, Partition):
        copy_vectors(plan, op, b)
    else:
        plan.emit(op, b)


VARIANT: Variant[Plan] = Variant(
    name="fallback",
    operations=("copy",),
    priority=0,
    operands=(among("global", "shared", "local"),),
    when=COPY_CONDITIONS,
    honours=("fill",),
    plan=plan,
    emit=emit,
)
