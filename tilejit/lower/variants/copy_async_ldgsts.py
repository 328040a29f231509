"""copy_async from global to shared memory by cp.async: past the registers, done when the kernel has waited.

accepts: a global source and a shared destination; equal dtypes and shapes; 4, 8 or 16 bytes in a row on both sides,
    provably aligned; swizzles that keep them together; regions past the tensor's edges, which read as 0.
emits: the widest copies, shared out among the scope's threads, the last round predicated; at a tensor's edge with
    the number of bytes that lie inside. `.cg`, past the first-level cache, for 16 bytes, `.ca` for fewer. Commit and
    wait are the caller's.
source: tilejit/lower/README.md, "Asynchronous copies"; PTX ISA, "Data Movement and Conversion Instructions: cp.async".
"""

from __future__ import annotations

from math import copysign

from ...dataclass import dataclass
from ...dtypes import int32
from ...errors import LayoutError
from ...ir.arithmetic import build
from ...ir.nodes import TRUE, Const, Instruction, TileOp, Vector
from ...isa.cp_async import COPIES, CP_ASYNC, Copy
from ..builder import Builder
from ..moves.masked import MaskedVector
from ..moves.partition import Partition, each_vector
from ..moves.vectors import pieces
from ..variant import COPY_CONDITIONS, FILLS_ONE, KINDS, Condition, DispatchContext, Variant, from_to, lead_of, needs
from . import copy_gmem_smem

#: bytes of one copy, the narrowest first
_SIZES = sorted({form.size for form in COPIES.forms()})
_SIZES_LISTED = f"{', '.join(map(str, _SIZES[:-1]))} or {_SIZES[-1]}"


@dataclass(frozen=True, slots=True)
class Plan(Partition):
    """As a partition, each vector one cp.async."""

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        """(mnemonic, times a thread); the narrower copies of partial vectors aren't counted."""
        return ((COPIES.row(Copy(self.vector_bits // 8)).mnemonic, self.rounds),)


def _zero_fill(op: TileOp, context: DispatchContext) -> str | None:
    fill = op.value("fill")
    if fill is None or isinstance(fill, Const) and fill.value == 0 and copysign(1, fill.value) > 0:
        return None
    value = fill.value if isinstance(fill, Const) else "a value known only at run time"
    return f"fills with 0 what lies outside the tensor; got fill={value} (copy takes any)"


def plan(op: TileOp, context: DispatchContext) -> Plan:
    partition = Plan.of(
        copy_gmem_smem.slices(op), context.count(op.scope), lead_of(op.region("src")), vectorized=True
    )
    _need_wide(partition)
    return partition


def _need_wide(partition: Plan) -> None:
    """Raise LayoutError where some copy would be narrower than there is."""
    size = partition.vector_bits // 8
    if size < _SIZES[0]:
        raise LayoutError(
            f"cp.async moves {_SIZES_LISTED} bytes; at most {size} lie together and aligned here: {partition.limit}",
            hint="change what the reason names, or use copy, which moves any number of bytes",
        )
    bytes_each = size // partition.vector_width
    last = pieces(partition.tail)[-1][1] * bytes_each
    if last < _SIZES[0]:
        raise LayoutError(
            f"rows end in {last} bytes; cp.async moves {_SIZES_LISTED}",
            hint=f"make rows a multiple of {_SIZES[0]} bytes, or use copy, which moves any number of bytes",
        )


def emit(plan: Plan, op: TileOp, b: Builder) -> None:
    # rounds are written out so that addresses become constant offsets; a copy of one kind with a predicate is as fast
    # as a branch between two, and half the code
    for vectors in each_vector(plan, op, b, unrolled=b.unrolls(plan.rounds), twice=False):
        _emit_vector(b, vectors["dst"].place, vectors["src"])


def _emit_vector(b: Builder, to: Vector, source: MaskedVector) -> None:
    bytes_each = to.buffer.dtype.bytes
    size = source.width * bytes_each
    cond = source.inside(build.const(source.start, int32))
    if source.mask.whole and cond == TRUE:
        b.append(Instruction(COPIES.row(Copy(size)).name, (), (to, source.place), span=b.span))
        return
    if source.mask.whole:
        # a predicate is one to the hardware, too; a size that depends on one it has to compute
        row, outside = COPIES.row(Copy(size, "ignore")), build.logical_not(cond)
        b.append(Instruction(row.name, (), (to, source.place, outside), span=b.span))
        return
    # none of a vector lies before the tensor's beginning unless all do: aligned, it starts at a multiple of its width
    count = build.mul(source.mask.count_ahead(source.coordinate, source.start, source.width), bytes_each)
    row = COPIES.row(Copy(size, "zfill"))
    b.append(Instruction(row.name, (), (to, source.place, build.where(cond, count, 0)), span=b.span))


_TO_TARGET = 'compile for target="sm_80" or newer; copy does it on all, and waits itself'

VARIANT = Variant(
    name="ldgsts",
    operations=("copy_async",),
    priority=20,
    operands=(KINDS, from_to("global", "shared")),
    when=(*COPY_CONDITIONS, FILLS_ONE, needs(COPIES, hint=_TO_TARGET), Condition("fill", _zero_fill)),
    honours=("fill",),
    starts=(CP_ASYNC,),
    plan=plan,
    emit=emit,
)
