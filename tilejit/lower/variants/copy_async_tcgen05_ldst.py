"""copy_async between tensor memory and registers by tcgen05.ld and tcgen05.st, on a warpgroup.

accepts: one side local, the other tmem; elements of 8, 16 or 32 bits, packed the same way on both sides; the same
    registers in all 128 threads; words placed as in one of the instruction's shapes. Warp w accesses only lanes
    32w to 32w+31. Columns and registers may start at run-time values.
emits: instructions of the widest shape that all registers match, as few as possible with powers of two as repeat
    counts. With a `.16x*b` shape, each accesses 16 of a warp's 32 lanes. The caller waits, except for a tile in local
    memory: its values pass through registers, and the wait is emitted here.
source: tilejit/lower/README.md, "Asynchronous copies"; PTX ISA, "Data Movement Shape" and "tcgen05.ld".
"""

from __future__ import annotations

from math import prod

import numpy as np

from ... import scopes
from ...dataclass import dataclass
from ...dtypes import int32
from ...errors import LayoutError
from ...ir.arithmetic import build
from ...ir.arithmetic.evaluate import evaluate
from ...ir.nodes import Buffer, Const, Expr, Instruction, Region, TileOp, Vector
from ...isa import Row
from ...isa.tcgen05 import LD, ST, TMEM_LOAD, TMEM_STORE, WAIT_LD, WAIT_ST, Transfer
from ...layout.tensor_memory import TCGEN05_SHAPES, Tcgen05Shape
from ...ops.copies import FETCH, L2_CACHE
from ...target import TMEM_COLUMNS, TMEM_LANE, WARP, WARPGROUP
from ...wording import counted
from ..builder import Builder, RegisterRun
from ..plans import Facts, Moves
from ..plans import Plan as PlanBase
from ..schedule.fragments import Elements
from ..schedule.placement import Placement, need_slice, place
from ..variant import (
    COPY_CONDITIONS,
    FILLS_ONE,
    Condition,
    DispatchContext,
    Variant,
    between,
    local_side,
    needs,
    on_warpgroup,
    without,
)

_BITS = 32

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a copy; word k of each thread is in the 32-bit register `registers[k]`."""

    #: elements per word
    packed: int
    registers: Array
    #: lane and 32-bit column of each word in the buffer's tensor memory, of shape (threads, words)
    lanes: Array
    columns: Array
    #: run-time offsets to add to `registers` and `columns`, in words
    moved_registers: Expr
    moved_columns: Expr


def words(local: Region, tmem: Region) -> Words:
    """Return the words to move, or raise LayoutError, e.g. if threads hold their elements in different registers."""
    packed = _BITS // local.dtype.bits
    size = prod(local.shape)
    held, there = _placed(local), _placed(tmem)
    registers, memory = Elements.of(held), Elements.of(there)
    order = np.lexsort((registers.places, registers.threads))
    table = np.stack([registers.threads, registers.places, *np.divmod(memory.places, TMEM_LANE)])[:, order]
    each = size // WARPGROUP
    counts = np.bincount(registers.threads, minlength=WARPGROUP)
    if len(counts) > WARPGROUP or (counts != each).any() or each * WARPGROUP != size:
        raise _uneven(local, counts)
    thread, register, lane, column = table.reshape(4, WARPGROUP, each)
    if (register != register[0]).any():
        raise LayoutError(
            f"the threads of the warpgroup hold the region of {local.buffer.name} in different registers",
            hint="take a region that every thread holds in the same registers",
        )
    _need_packed(local, register[0], packed)
    _need_packed(tmem, column, packed)
    if (lane.reshape(WARPGROUP, -1, packed) != lane[:, ::packed, None]).any():
        raise LayoutError(f"the elements of one 32-bit register are in several lanes of {tmem.buffer.name}")
    return Words(
        packed, register[0, ::packed] // packed, lane[:, ::packed], column[:, ::packed] // packed,
        _moved(held, packed), _moved(there, packed),
    )


def _uneven(local: Region, counts: Array) -> LayoutError:
    owners = int((counts > 0).sum())
    if owners != WARPGROUP:
        return LayoutError(
            f"{'1 thread owns' if owners == 1 else f'{owners} threads own'} the region of {local.buffer.name}; "
            f"tcgen05.ld and .st need all {WARPGROUP} threads of the warpgroup",
            hint="take a region of which every thread owns a part, or use a layout such as tj.tcgen05.atom_layout(...)",
        )
    return LayoutError(
        f"threads own between {counts.min()} and {counts.max()} elements of {local.buffer.name}; "
        "tcgen05.ld and .st move the same number for each thread",
        hint="take a region of which every thread owns the same number of elements",
    )


def _need_packed(region: Region, places: Array, packed: int) -> None:
    if places.shape[-1] % packed:
        raise LayoutError(
            f"each thread has {counted(places.shape[-1], 'element')} of {region.buffer.name}; "
            f"{packed} {region.dtype} elements fill a 32-bit register",
            hint=f"move a multiple of {packed} columns",
        )
    groups = places.reshape(*places.shape[:-1], -1, packed)
    first = groups[..., :1]
    if (groups != first + np.arange(packed)).any() or (first % packed).any():
        what = "register" if region.buffer.space == "local" else "column"
        raise LayoutError(
            f"the region of {region.buffer.name} doesn't fill each 32-bit {what} with {packed} consecutive elements",
            hint=f"start at multiples of {packed}, and keep {packed} {region.dtype} elements of a row adjacent",
        )


def _moved(placement: Placement, packed: int) -> Expr:
    """Return the run-time offset of a region's start, in 32-bit registers or columns, or raise LayoutError."""
    total: Expr = build.const(0, int32)
    for offset in placement.offsets:
        if isinstance(offset.index, Const):
            continue
        assert isinstance(offset.stride, int)
        if placement.buffer.space == "tmem" and offset.stride % TMEM_LANE == 0:
            raise LayoutError(
                f"{offset.what} is known only at run time, and selects a lane of tensor memory",
                hint="start at a constant in each dimension over lanes",
            )
        if offset.multiple % packed:
            name, dtype = placement.buffer.name, placement.buffer.dtype
            raise LayoutError(
                f"{name} starts at an element offset that isn't known to be a multiple of {packed}: "
                f"{packed} {dtype} elements share a 32-bit word",
                hint=f"start at a known multiple of {packed}: tj.sym(..., multiple_of={packed}) or i * {packed}",
            )
        moved = build.mul(build.cast(offset.index, int32), offset.stride)
        total = build.add(total, build.floordiv(moved, packed))
    return total


def _placed(region: Region) -> Placement:
    layout = region.buffer.tile_layout
    if layout.replica or layout.swizzle is not None:
        what = "replicas" if layout.replica else "a swizzle"
        raise LayoutError(
            f"{region.buffer.name} has {what}; needs one place for each element, at constant strides",
            hint="use a layout without replicas or a swizzle",
        )
    axes = ("TLane", "TCol") if region.buffer.space == "tmem" else ("m", *scopes.WARPGROUP.steps)
    strange = [axis.name for axis in layout.axes() if axis.name not in axes]
    if strange:
        raise LayoutError(
            f"{region.buffer.name} has the axis {strange[0]}; supported axes are {', '.join(axes)}",
            hint="use tj.tmem.datapath(...) for tensor memory, tj.tcgen05.atom_layout(...) for registers",
        )
    placement = place(region, scopes.WARPGROUP.name)
    need_slice(placement)
    return placement


def lane_fault(moved: Words, tmem: Region) -> str | None:
    """Describe the first word outside the 32 lanes of its thread's warp, or return None if there is none."""
    warp = np.arange(WARPGROUP)[:, None] // WARP
    wrong = np.argwhere(moved.lanes // WARP != warp)
    if not len(wrong):
        return None
    thread, word = (int(x) for x in wrong[0])
    first = thread // WARP * WARP
    return (
        f"thread {thread} would need lane {int(moved.lanes[thread, word])} of {tmem.buffer.name}; "
        f"its warp reaches lanes {first} to {first + WARP - 1}"
    )


@dataclass(frozen=True, slots=True)
class Issue:
    """One instruction, executed by every warp."""

    num: int
    #: first lane, relative to the warp's first
    row: int
    #: first 32-bit column in the buffer
    column: int
    #: first 32-bit register of a thread's tile
    register: int
    registers: int


@dataclass(frozen=True, slots=True)
class Plan(PlanBase):
    """The instructions, in the order of the registers."""

    #: the shape, such as "32x32b"
    shape: str
    #: largest N of `.xN`
    num: int
    #: 2 if the instructions access the halves of a warp's lanes separately, else 1
    slabs: int
    steps: tuple[Issue, ...]
    loads: bool
    #: elements per 32-bit word
    packed: int
    #: run-time offsets, in units of 32 bits
    registers: Expr
    columns: Expr

    @property
    def issues(self) -> int:
        return len(self.steps)

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        names = [self.instruction(step).mnemonic for step in self.steps]
        return tuple((name, names.count(name)) for name in dict.fromkeys(names))

    def instruction(self, step: Issue) -> Row:
        return (LD if self.loads else ST).row(Transfer(self.shape, step.num))

    def facts(self) -> Facts:
        return Facts(f"{self.shape}.x{self.num}", self.issues)

    def schedule(self) -> np.ndarray:
        """Return one row per instruction: (its index, first lane, first column, first register, register count).

        Lanes are relative to the warp's first; columns and registers have 32 bits, and run-time offsets aren't added.
        """
        rows = [(i, s.row, s.column, s.register, s.registers) for i, s in enumerate(self.steps)]
        return np.array(rows, dtype=np.int64)

    def moves(self) -> Moves:
        form = TCGEN05_SHAPES[self.shape]
        lane, column = pattern(form)
        # with all variables 0, a run-time offset such as z + 8 isn't 0
        registers, columns = (int(evaluate(e, {})) for e in (self.registers, self.columns))
        rows = []
        for i, step in enumerate(self.steps):
            for k in range(step.registers):
                unit, r = divmod(k, form.registers)
                there = (step.row + lane[:, r]) * TMEM_LANE + self.packed * (
                    columns + step.column + unit * form.columns + column[:, r]
                )
                held = np.full(WARPGROUP, self.packed * (registers + step.register + k))
                places = (held, there) if self.loads else (there, held)
                rows.append(np.stack([np.full(WARPGROUP, i), np.arange(WARPGROUP), *places], axis=1))
        table = np.concatenate(rows)
        return Moves(table[:, 0], table[:, 1], table[:, 2:], np.full(len(table), self.packed), (1, 1))


def _width(op: TileOp, context: DispatchContext) -> str | None:
    dtype = op.region("dst").dtype
    return None if dtype.bits in (8, 16, 32) else f"needs elements of 8, 16 or 32 bits; {dtype} has {dtype.bits}"


def plan(op: TileOp, context: DispatchContext) -> Plan:
    local, tmem, loads = local_side(op)
    moved = words(local, tmem)
    last = int(moved.columns.max())
    if last >= TMEM_COLUMNS:
        raise LayoutError(
            f"the region of {tmem.buffer.name} reaches column {last}; tensor memory has columns 0 to "
            f"{TMEM_COLUMNS - 1}",
            hint=f"use fewer columns: all tiles of a CTA share {TMEM_COLUMNS} of 32 bits",
        )
    for form in sorted(TCGEN05_SHAPES.values(), key=lambda f: f.columns, reverse=True):
        steps = _steps(form, moved)
        if steps is not None:
            num, slabs = max(s.num for s in steps), len({s.row for s in steps})
            return Plan(form.name, num, slabs, steps, loads, moved.packed, moved.moved_registers, moved.moved_columns)
    shapes = ", ".join(f".{name}" for name in TCGEN05_SHAPES)
    raise LayoutError(
        lane_fault(moved, tmem) or f"the registers of {local.buffer.name} match none of the shapes {shapes}",
        hint=f"give {local.buffer.name} the layout tj.tcgen05.atom_layout(shape, num, dtype) or "
        f"S[(128, n) : (1 @ tid_in_wg, 1)], and {tmem.buffer.name} the layout "
        "tj.tmem.datapath(path, rows, columns) with the same rows",
    )


def _steps(form: Tcgen05Shape, moved: Words) -> tuple[Issue, ...] | None:
    """Return the instructions of one shape that move all words, or None if some don't fit."""
    lane, column = pattern(form)
    units: list[tuple[int, int, int]] = []
    for at in range(0, len(moved.registers), form.registers):
        upto = at + form.registers
        registers = moved.registers[at:upto]
        if len(registers) < form.registers or registers[-1] - registers[0] != form.registers - 1:
            return None
        row, first = moved.lanes[:, at:upto] - lane, moved.columns[:, at:upto] - column
        if np.ptp(row) or np.ptp(first) or row[0, 0] not in range(0, WARP, form.lanes):
            return None
        units.append((int(row[0, 0]), int(first[0, 0]), int(registers[0])))
    steps: list[Issue] = []
    while units:
        start, left, held = units[0]
        # a `.xN` moves units of one row in consecutive registers and columns; N is a power of two
        run = 1
        while run < len(units) and units[run] == (start, left + run * form.columns, held + run * form.registers):
            run += 1
        num = min(form.max_num, 1 << (run.bit_length() - 1))
        steps.append(Issue(num, start, left, held, num * form.registers))
        units = units[num:]
    return tuple(steps)


def pattern(form: Tcgen05Shape) -> tuple[np.ndarray, np.ndarray]:
    """Return the lane and column of each register for `.x1` at row 0, as arrays of shape (threads, registers)."""
    # PTX ISA, "Matrix fragments for shape .32x32b" and the following sections
    t, r = np.indices((WARPGROUP, form.registers))
    warp, x = t // WARP, t % WARP
    row, column = {
        "32x32b": (x, r),
        "16x64b": (x // 4 + 8 * (x % 2), x // 2 % 2),
        "16x128b": (x // 4 + 8 * r, x % 4),
        "16x256b": (x // 4 + 8 * (r // 2), r % 2 + 2 * (x % 4)),
    }[form.name]
    return WARP * warp + row, column


def emit(plan: Plan, op: TileOp, b: Builder) -> None:
    local, tmem = (region.buffer for region in local_side(op)[:2])
    columns = b.let("column", plan.columns)
    reach = plan.packed * max(step.register + step.registers for step in plan.steps)
    for (first,) in b.each_start(RegisterRun(local, build.mul(plan.registers, plan.packed), reach)):
        place = Vector(local, first, reach)
        if b.is_addressed(local):
            _emit_staged(plan, b, tmem, columns, place)
        else:
            _emit_issues(plan, b, tmem, columns, place)


def _emit_staged(plan: Plan, b: Builder, tmem: Buffer, columns: Expr, place: Vector) -> None:
    """Move a tile in local memory through registers, which the instructions require, and wait at once."""
    staged = Vector(b.scratch("tcgen05", place.buffer.dtype, place.width), build.const(0, int32), place.width)
    runs = [_registers(plan, step) for step in plan.steps]
    if not plan.loads:
        for at, width in runs:
            b.move(_part(staged, at, width), _part(place, at, width))
    _emit_issues(plan, b, tmem, columns, staged)
    b.append(Instruction((WAIT_LD if plan.loads else WAIT_ST).name, span=b.span))
    if plan.loads:
        for at, width in runs:
            b.move(_part(place, at, width), _part(staged, at, width))


def _registers(plan: Plan, step: Issue) -> tuple[int, int]:
    """Return the index in a thread's tile of the first element that an instruction moves, and how many it moves."""
    return step.register * plan.packed, step.registers * plan.packed


def _part(vector: Vector, start: int, width: int) -> Vector:
    return Vector(vector.buffer, build.add(vector.offset, start), width)


def _emit_issues(plan: Plan, b: Builder, tmem: Buffer, columns: Expr, local: Vector) -> None:
    for step in plan.steps:
        place = Vector(tmem, build.add(columns, build.const(step.row * TMEM_LANE + step.column, int32)))
        registers = _part(local, *_registers(plan, step))
        outputs, inputs = ((registers,), (place,)) if plan.loads else ((), (place, registers))
        b.append(Instruction(plan.instruction(step).name, outputs, inputs, span=b.span))


VARIANT = Variant(
    name="tcgen05_ldst",
    operations=("copy_async",),
    priority=10,
    operands=(between("tmem", "local"),),
    when=(
        *COPY_CONDITIONS, FILLS_ONE, Condition("warpgroup", on_warpgroup), Condition("width", _width),
        needs(LD, "tensor memory"), *(without(each, "moves nothing through L2") for each in (L2_CACHE, FETCH)),
    ),
    # neither side is a global tensor, so no element is out of bounds and nothing is filled
    honours=("fill",),
    starts=(TMEM_LOAD, TMEM_STORE),
    plan=plan,
    emit=emit,
)
