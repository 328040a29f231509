"""copy_async from global to shared memory by cp.async: past the registers, done when the kernel has waited.

accepts: a global source and a shared destination; equal dtypes and shapes; 4, 8 or 16 bytes in a row on both sides,
    provably aligned; swizzles that keep them together; regions past the tensor's edges, which read as 0.
emits: the widest copies, shared out among the scope's threads, the last round predicated; at a tensor's edge with
    the number of bytes that lie inside. `.cg`, past the first-level cache, for 16 bytes, `.ca` for fewer. Commit and
    wait are the caller's.
source: DISPATCH 9.3 and 13; PTX ISA, "Data Movement and Conversion Instructions: cp.async".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import copysign

from ...errors import LayoutError
from ...ir import build
from ...ir.nodes import TRUE, Const, Expr, Instruction, TileOp, Vector
from ...isa.cp_async import COPIES, Copy
from ..builder import Builder
from ..conditions import COPY, KINDS, copy_sides, lead_of, memory_pair, needs
from ..engine import Condition, Context, Decline, Variant
from ..moves.partition import Partition, emit_partition, plan_partition
from ..moves.vectors import Run, pieces
from ..schedule.placement import need_slice, side
from ..schedule.windows import Window, windows

_NARROWEST = min(form.size for form in COPIES.forms())

#: rounds up to which a loop is written out, so that addresses become constant offsets
_UNROLLED = 32


@dataclass(frozen=True, slots=True)
class Plan(Partition):
    """As a partition, each vector one cp.async."""

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        """(mnemonic, trips a thread); the narrower copies of partial vectors aren't counted."""
        return ((COPIES.row(Copy(self.vector_bits // 8)).mnemonic, self.rounds),)


def _zero_fill(op: TileOp, context: Context) -> str | None:
    fill = op.operands[2] if len(op.operands) > 2 else None
    if fill is None or isinstance(fill, Const) and fill.value == 0 and copysign(1, fill.value) > 0:
        return None
    given = fill.value if isinstance(fill, Const) else "a value known only at run time"
    return f"fills with 0 what lies outside the tensor; got fill={given} (copy takes any)"


def plan(op: TileOp, context: Context) -> Plan | Decline:
    regions = copy_sides(op)
    try:
        sides = tuple(side(r, op.scope) for r in regions)
        for part in sides:
            need_slice(part)
        found = plan_partition(sides, context.count(op.scope), lead_of(regions[1]), vectorized=True)
        _need_wide(found)
    except LayoutError as error:
        return Decline((error.message,), error.hint)
    return Plan(**{f.name: getattr(found, f.name) for f in fields(Partition)})


def _need_wide(found: Partition) -> None:
    """Raise LayoutError where some copy would be narrower than there is."""
    size = found.vector_bits // 8
    if size < _NARROWEST:
        raise LayoutError(
            f"cp.async moves 4, 8 or 16 bytes; at most {size} lie together and aligned here: {found.limit}",
            hint="change what the reason names, or use copy, which moves any number of bytes",
        )
    bytes_each = size // found.vector_width
    last = pieces(found.tail)[-1][1] * bytes_each
    if last < _NARROWEST:
        raise LayoutError(
            f"rows end in {last} bytes; cp.async moves 4, 8 or 16",
            hint="make rows a multiple of 4 bytes, or use copy, which moves any number of bytes",
        )


def emit(plan: Plan, op: TileOp, b: Builder) -> None:
    source = plan.sides[1]
    seen = windows(source, plan.edges[1].dims, b)

    def step(runs: Sequence[Run], start: int, width: int) -> None:
        to, what = (Vector(r.side.buffer, build.add(r.address, start), width) for r in runs)
        size = width * op.operands[0].dtype.bytes
        if not seen:
            b.append(Instruction(COPIES.row(Copy(size)).name, (), (to, what), span=b.span))
            return
        cond = _inside(runs[1], seen, start)
        if runs[1].edges.whole:
            # a predicate is one to the hardware, too; a size that depends on one it has to compute
            row, outside = COPIES.row(Copy(size, "ignore")), build.logical_not(cond)
            b.append(Instruction(row.name, (), (to, what, outside), span=b.span))
            return
        count = build.where(cond, _bytes_inside(runs[1], seen, start, width), 0)
        b.append(Instruction(COPIES.row(Copy(size, "zfill")).name, (), (to, what, count), span=b.span))

    # a copy of one kind with a predicate is as fast as a branch between two, and half the code
    emit_partition(plan, op, b, step, unrolled=plan.rounds <= _UNROLLED, twice=False)


def _inside(run: Run, seen: Sequence[Window], start: int) -> Expr:
    """Whether element `start` of a run lies inside the tensor."""
    cond: Expr = TRUE
    for window in seen:
        at = window.coordinate(run.atoms, run.values)
        along = window.dim is not None and window.dim == run.dim
        cond = build.logical_and(cond, window.holds(build.add(at, start) if along else at))
    return cond


def _bytes_inside(run: Run, seen: Sequence[Window], start: int, width: int) -> Expr:
    """How many bytes of elements [start, start + width) of a run lie before the edge that it runs towards.

    None of a vector lies before the tensor's beginning unless all do: aligned, it starts at a multiple of its width.
    """
    (ahead,) = (w for w in seen if w.dim is not None and w.dim == run.dim)
    at = build.add(ahead.coordinate(run.atoms, run.values), start)
    return build.mul(ahead.left(at, width), run.side.buffer.dtype.bytes)


VARIANT = Variant(
    "ldgsts",
    ("copy_async",),
    20,
    (KINDS, memory_pair("global -> shared", ("shared", "global"))),
    (*COPY, needs(COPIES), Condition("fill", _zero_fill)),
    plan,
    emit,
)
