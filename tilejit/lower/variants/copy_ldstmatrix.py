"""copy between registers and shared memory by ldmatrix and stmatrix, with which a warp moves 8x8 tiles.

accepts: one side local, the other shared; 16-bit elements; whole warps that own the registers, possibly with replicas
    over warps. In registers lane l holds elements 2(l%4) and 2(l%4)+1 of row l//4 of each tile. In memory each row, or
    each column, of a tile consists of 16 aligned bytes, which a swizzle keeps together.
emits: instructions that move 4, 2 or 1 tiles, as many as possible, unrolled over all of a warp's tiles.
source: tilejit/lower/README.md, "Copies"; PTX ISA, "Warp-level matrix load instruction: ldmatrix" and "... store
    instruction: stmatrix".

The digits of a tile are row (8 lanes, 4 apart), quad (4 lanes) and pair (2 elements of a 32-bit register). With .trans,
columns are contiguous in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import gcd, prod

import numpy as np

from ...dataclass import dataclass
from ...dtypes import int32
from ...errors import LayoutError
from ...ir.arithmetic import build
from ...ir.arithmetic.evaluate import number
from ...ir.nodes import Const, Expr, Instruction, TileOp, Vector
from ...isa import Family, Row, matrix
from ...layout import Swizzle
from ...target import WARP
from ..builder import Builder
from ..moves.vectors import register_copy
from ..plans import Facts, Iterations, Moves
from ..plans import Plan as PlanBase
from ..schedule.access import misaligned
from ..schedule.placement import Placement
from ..schedule.views import Digit, DigitSchedule, View
from ..variant import COPY_CONDITIONS, WHOLE_WARPS, Condition, DispatchContext, Variant, between, needs

#: number of elements in a row or a column of a tile; they take 16 bytes
ROW = 8

#: maximum number of tiles per instruction
_MOST = 4

#: number of lanes that share a row of a tile; each holds one register of the row
_QUAD = 4


@dataclass(frozen=True, slots=True)
class Tiles:
    """The digits of a copy of 8x8 tiles between the operands "registers" and "memory"."""

    #: True if columns are contiguous in memory, not rows
    trans: bool
    #: elements from one row to the next in memory, or from one column to the next if `trans`
    pitch: int
    warps: DigitSchedule
    #: the digits over the tiles of one instruction, slowest first
    inner: DigitSchedule
    #: the digits over instructions, slowest first
    outer: DigitSchedule

    @property
    def registers(self) -> View:
        return self.outer["registers"]

    @property
    def memory(self) -> View:
        return self.outer["memory"]

    @property
    def num(self) -> int:
        return self.inner.count

    def offsets(self) -> list[int]:
        """Return each tile's register offset from the first tile of an instruction, in elements."""
        offsets = [0]
        for digit in self.inner.digits:
            offsets = [offset + k * _register(digit) for offset in offsets for k in range(digit.extent)]
        return offsets


def split_tiles(copy: DigitSchedule) -> Tiles:
    """Split the digits of a copy that whole warps carry out into `Tiles`, or raise LayoutError."""
    registers, memory = copy["registers"].placement, copy["memory"].placement
    for step in registers.replicas:
        if step.threads % WARP:
            raise LayoutError(
                f"{step.extent} threads hold the same elements of {registers.buffer.name}; "
                "in an 8x8 tile each lane holds different ones",
                hint="replicate over whole warps",
            )
    if memory.replicas:
        raise LayoutError(f"{memory.buffer.name} holds each element in several places")
    for d in copy.padded:
        have, count = copy.extents[d], copy.counted[d]
        raise LayoutError(
            f"{registers.buffer.name} has {have} elements in {count} slots along a dimension; 8x8 tiles must be full",
            hint="use extents without padding",
        )
    lanes = _by_lane((d for d in copy.digits if d.is_spread("registers")), registers)
    words, pair = _words([d for d in copy.digits if not d.is_spread("registers")], registers)
    quads = _even_step([d for d in lanes if _thread(d) < _QUAD], memory, "4 adjacent lanes")
    rows = _even_step([d for d in lanes if _QUAD <= _thread(d) < WARP], memory, "lanes that are 4 apart")
    warps = [d for d in lanes if _thread(d) >= WARP]
    trans, pitch = _orientation((rows, quads, _step(pair)), memory)
    reason = misaligned(memory, [pitch, *(d.strides["memory"] for d in (*warps, *words))], ROW)
    if reason is not None:
        raise LayoutError(reason, hint=f"align runs of {ROW} elements to 16 bytes, and use no swizzle that splits one")
    # if transposed, prefer tiles that are consecutive in registers: they form one operand of a product without moves
    inner, outer = _instructions(words, _register if trans else _step)
    return Tiles(trans, pitch, copy.over(warps), copy.over(inner), copy.over(outer))


def _thread(digit: Digit) -> int:
    return digit.threads("registers")


def _register(digit: Digit) -> int:
    return digit.elements("registers")


def _step(digit: Digit) -> int:
    return digit.elements("memory")


def _fitting(placement: Placement) -> str:
    axis = next((a.name for a in placement.buffer.tile_layout.axes() if a.is_thread), "laneid")
    return f"lay registers out as S[(8, 4, n, 2) : (4@{axis}, 1@{axis}, 2, 1)]"


def _by_lane(digits: Iterable[Digit], placement: Placement) -> list[Digit]:
    """Return the digits over threads, fastest first, split at quad and warp boundaries, or raise LayoutError."""
    by_lane: list[Digit] = []
    uncut = sorted(digits, key=_thread, reverse=True)
    while uncut:
        digit = uncut.pop()
        first, end = _thread(digit), _thread(digit) * digit.extent
        cuts = [c for c in (_QUAD, WARP) if first < c < end]
        if not cuts:
            by_lane.append(digit)
            continue
        if cuts[0] % first or digit.extent % (cuts[0] // first):
            raise LayoutError(
                f"{digit.extent} threads {first} apart in {placement.buffer.name} don't form groups of {cuts[0]} lanes",
                hint=_fitting(placement),
            )
        outer, inner = digit.split(cuts[0] // first)
        by_lane.append(inner)
        uncut.append(outer)
    return by_lane


def _words(digits: Sequence[Digit], registers: Placement) -> tuple[list[Digit], Digit]:
    """Return the digits over 32-bit registers and the digit over the pair in a register, or raise LayoutError."""
    name = registers.buffer.name
    pairs = [d for d in digits if d.strides["registers"] == 1]
    if not pairs or pairs[0].extent % 2:
        what = f"runs of {pairs[0].extent} elements" if pairs else "no two consecutive elements"
        raise LayoutError(f"each thread has {what} of {name}; a 32-bit register holds 2", hint=_fitting(registers))
    outer, pair = pairs[0].split(2)
    words = [d for d in (outer, *(d for d in digits if d is not pairs[0])) if d.extent > 1]
    odd = [_register(d) for d in words if _register(d) % 2]
    if odd:
        what = f"pairs of {name} start every {odd[0]} elements"
        raise LayoutError(f"{what}; needs a multiple of 2", hint=_fitting(registers))
    first = registers.start
    if not isinstance(first, Const):
        raise LayoutError(f"the region of {name} starts at a register known only at run time")
    if int(first.value) % 2:
        raise LayoutError(f"the region of {name} starts at element {first.value} of a thread; needs a multiple of 2")
    return words, pair


def _even_step(digits: Sequence[Digit], memory: Placement, which: str) -> int:
    """Return the stride in memory of digits over lanes, or raise LayoutError if they have no single stride."""
    for near, far in zip(digits, digits[1:], strict=False):
        if _step(far) != near.extent * _step(near):
            raise LayoutError(
                f"the elements of {which} have strides of {_step(near)} and {_step(far)} in {memory.buffer.name}; "
                "needs a single stride",
                hint=f"lay {memory.buffer.name} out as S[(8, 4, n, 2) : (8*n, 2, 8, 1)], or with contiguous columns",
            )
    return _step(digits[0])


def _orientation(steps: tuple[int, int, int], memory: Placement) -> tuple[bool, int]:
    """Return (trans, pitch) for the strides of rows, of pairs of columns and of columns, or raise LayoutError."""
    rows, quads, pair = steps
    name, bytes_each = memory.buffer.name, memory.buffer.dtype.bytes
    if (quads, pair) == (2, 1):
        _need_pitch("rows", rows, name, bytes_each)
        return False, rows
    if rows == 1:
        _need_pitch("columns", pair, name, bytes_each)
        if quads != 2 * pair:
            raise LayoutError(
                f"columns of {name} are {pair} elements apart, and pairs of columns {quads}; needs {2 * pair}"
            )
        return True, pair
    raise LayoutError(
        f"the elements of a row of 8 are {pair} apart in {name}, pairs of them {quads}, and rows {rows}; "
        "needs 1 and 2 (contiguous rows), or rows 1 apart (contiguous columns, .trans)",
        hint=f"lay {name} out as S[(8, 4, n, 2) : (8*n, 2, 8, 1)], or with contiguous columns",
    )


def _need_pitch(what: str, pitch: int, name: str, bytes_each: int) -> None:
    if pitch > 0 and pitch % ROW == 0:
        return
    fits = max(ROW, -(-pitch // ROW) * ROW) * bytes_each
    raise LayoutError(
        f"{what} of {name} start every {pitch * bytes_each} bytes; "
        f"needs a {'' if pitch > 0 else 'positive '}multiple of {ROW * bytes_each}",
        hint=f"use {fits} bytes or a swizzled layout",
    )


def _instructions(words: Sequence[Digit], distance: Callable[[Digit], int]) -> tuple[list[Digit], list[Digit]]:
    """Split the digits over tiles into those of an instruction, the smallest by `distance`, and the others."""
    inner: list[Digit] = []
    outer: list[Digit] = []
    for digit in sorted(words, key=distance):
        taken = gcd(digit.extent, _MOST // prod(d.extent for d in inner)) if _step(digit) > 0 else 1
        others, part = digit.split(taken)
        inner += [part] if taken > 1 else []
        outer += [others] if others.extent > 1 else []
    inner.sort(key=_register, reverse=True)
    outer.sort(key=_step, reverse=True)
    return inner, outer


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
