"""copy and copy_async between global and shared memory, distributed over the scope's threads.

gmem_smem: copy, through registers.
  accepts: one side global, the other shared; equal dtypes and shapes; regions of any size that `need_slice` accepts,
    which may extend past a global tensor's edges; any scope.
  emits: a loop with a load and a store of the widest provably aligned vectors. A partial last iteration is predicated;
    ends of rows that don't fill a vector take narrower accesses.

ldgsts: copy_async from global to shared memory by cp.async, bypassing registers. The caller commits and waits.
  accepts: a global source and a shared destination; equal dtypes and shapes; 4, 8 or 16 contiguous bytes on both sides,
    provably aligned; swizzles that keep them together; regions that may extend past the tensor's edges, where elements
    read as 0.
  emits: the widest copies, predicated in a partial last iteration. A copy at a tensor's edge takes a predicate, or the
    number of bytes inside the tensor. Copies of 16 bytes bypass the L1 cache (`.cg`), narrower ones don't (`.ca`).
    `lower/lowering.py` adds the hints of cache= and l2=, here and to the copies of `copy_async_bulk.py`.

source: tilejit/lower/README.md, "Copies" and "Asynchronous copies"; Apache TVM, TIRx `vec_auto`; PTX ISA, "Data
    Movement and Conversion Instructions: cp.async".
"""

from __future__ import annotations

from ...dtypes import int32
from ...errors import LayoutError
from ...ir.arithmetic import build
from ...ir.nodes import TRUE, Instruction, TileOp, Vector
from ...isa.cp_async import COPIES, CP_ASYNC, Copy
from ...wording import counted
from ..builder import Builder
from ..moves.masked import MaskedVector
from ..moves.partition import Partition, copy_vectors, each_vector
from ..moves.vectors import pieces
from ..schedule.placement import need_slice, place
from ..schedule.views import DigitSchedule
from ..variant import COPY_CONDITIONS, FILLS_ONE, DispatchContext, Variant, between, fills_zero, from_to, needs

#: possible sizes of one copy, in bytes, ascending
_SIZES = sorted({form.size for form in COPIES.forms()})
_SIZES_LISTED = f"{', '.join(map(str, _SIZES[:-1]))} or {_SIZES[-1]}"


def slices(op: TileOp) -> DigitSchedule:
    """Return the common digits of both sides, or raise LayoutError, e.g. if `need_slice` rejects a region."""
    placements = {name: place(region, op.scope) for name, region in op.tiles.items()}
    for placement in placements.values():
        need_slice(placement)
    return DigitSchedule.of_same_shape(placements)


def plan(op: TileOp, context: DispatchContext) -> Partition:
    return Partition.of(slices(op), context.count(op.scope))


def plan_async(op: TileOp, context: DispatchContext) -> Partition:
    partition = Partition.of(slices(op), context.count(op.scope), is_async=True)
    _need_wide(partition)
    return partition


def _need_wide(partition: Partition) -> None:
    size = partition.vector_bits // 8
    if size < _SIZES[0]:
        raise LayoutError(
            f"cp.async moves {_SIZES_LISTED} bytes; at most {size} {'is' if size == 1 else 'are'} contiguous and "
            f"aligned here: {partition.limit}",
            hint="remove the stated cause, or use copy, which moves any number of bytes",
        )
    bytes_each = size // partition.vector_width
    last = pieces(partition.tail)[-1][1] * bytes_each
    if last < _SIZES[0]:
        raise LayoutError(
            f"rows end with a piece of {counted(last, 'byte')}; cp.async moves {_SIZES_LISTED}",
            hint=f"make rows a multiple of {_SIZES[0]} bytes, or use copy, which moves any number of bytes",
        )


def emit_async(plan: Partition, op: TileOp, b: Builder) -> None:
    # unrolled so that offsets are constant; predicated copies at edges are as fast as a second version of the loop for
    # regions inside the tensor, and halve the code
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
        # `ignore` takes the predicate itself; the size for `zfill` would have to be computed from it
        row, outside = COPIES.row(Copy(size, "ignore")), build.logical_not(cond)
        b.append(Instruction(row.name, (), (to, source.place, outside), span=b.span))
        return
    # an aligned vector starts at a multiple of its width, so it can't cross the tensor's beginning
    count = build.mul(source.mask.count_ahead(source.coordinate, source.start, source.width), bytes_each)
    row = COPIES.row(Copy(size, "zfill"))
    b.append(Instruction(row.name, (), (to, source.place, build.where(cond, count, 0)), span=b.span))


_TO_TARGET = 'compile for target="sm_80" or newer; copy works on all targets, and waits itself'

VARIANT = Variant(
    name="gmem_smem",
    operations=("copy",),
    priority=10,
    operands=(between("global", "shared"),),
    when=COPY_CONDITIONS,
    honours=("fill",),
    plan=plan,
    emit=copy_vectors,
)
ASYNC = Variant(
    name="ldgsts",
    operations=("copy_async",),
    priority=20,
    operands=(from_to("global", "shared"),),
    when=(
        *COPY_CONDITIONS, FILLS_ONE, needs(COPIES, hint=_TO_TARGET),
        fills_zero("fills with 0 outside the tensor; got fill={value} (copy takes any value)"),
    ),
    honours=("fill",),
    starts=(CP_ASYNC,),
    plan=plan_async,
    emit=emit_async,
)
