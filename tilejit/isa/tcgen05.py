"""tcgen05: allocation of tensor memory, and transfers to and from it."""

from __future__ import annotations

from ..dataclass import dataclass
from ..layout import TCGEN05_SHAPES
from ..scopes import THREAD, WARP, Scope
from ..target import TENSOR_MEMORY_TARGETS
from .row import B32, AsyncWork, Direction, Family, Operand, Row, address, carried, register

__all__ = [
    "ALLOC", "DEALLOC", "FENCE_AFTER", "FENCE_BEFORE", "LD", "RELINQUISH", "ROWS", "ST", "TMEM_LOAD", "TMEM_STORE",
    "WAIT_LD", "WAIT_ST", "Transfer",
]

TMEM_LOAD = AsyncWork(
    "loads from tensor memory", "copy_async", wait="tcgen05.wait_ld", fills=True, settles_at_joins=True
)
TMEM_STORE = AsyncWork("stores to tensor memory", "copy_async", wait="tcgen05.wait_st", reads=True)


def _row(
    name: str,
    text: str,
    meaning: str,
    operands: tuple[Operand, ...] = (),
    scope: Scope = WARP,
    starts: AsyncWork | None = None,
    completes: AsyncWork | None = None,
    elides_sync: bool = False,
) -> Row:
    return Row(
        name=name,
        text=text,
        meaning=meaning,
        operands=operands,
        since=100,
        ptx=(8, 6),
        only=TENSOR_MEMORY_TARGETS,
        scope=scope,
        starts=starts,
        completes=completes,
        elides_sync=elides_sync,
        memory=True,
        convergent=True,
        source='PTX ISA, "TensorCore 5th Generation Instructions"',
    )


@dataclass(frozen=True, slots=True)
class Transfer:
    """`.shape.xN` of tcgen05.ld and tcgen05.st. shape: one of `TCGEN05_SHAPES`."""

    shape: str
    num: int

    @property
    def registers(self) -> int:
        """The 32-bit registers per thread."""
        return self.num * TCGEN05_SHAPES[self.shape].registers


_TRANSFERS = tuple(
    Transfer(shape.name, 1 << power) for shape in TCGEN05_SHAPES.values() for power in range(shape.max_num.bit_length())
)


def _ld(form: Transfer) -> Row:
    size = f"{form.shape}.x{form.num}"
    return _row(
        f"tcgen05.ld.{size}",
        f"tcgen05.ld.sync.aligned.{size}.b32 {{$registers}}, [$place];",
        "starts to load registers from tmem",
        (register("registers", B32, Direction.OUT, form.registers), address("place", "tmem", Direction.IN)),
        starts=TMEM_LOAD,
    )


def _st(form: Transfer) -> Row:
    size = f"{form.shape}.x{form.num}"
    return _row(
        f"tcgen05.st.{size}",
        f"tcgen05.st.sync.aligned.{size}.b32 [$place], {{$registers}};",
        "starts to store registers to tmem",
        (address("place", "tmem", Direction.OUT), register("registers", B32, count=form.registers)),
        starts=TMEM_STORE,
    )


LD = Family.of("tcgen05.ld", _TRANSFERS, _ld)
ST = Family.of("tcgen05.st", _TRANSFERS, _st)

WAIT_LD = _row(
    "tcgen05.wait.ld",
    "tcgen05.wait::ld.sync.aligned;",
    "waits for this thread's loads",
    (carried("registers"),),
    completes=TMEM_LOAD,
)
WAIT_ST = _row(
    "tcgen05.wait.st",
    "tcgen05.wait::st.sync.aligned;",
    "waits for this thread's stores",
    (carried("registers"),),
    completes=TMEM_STORE,
)
ALLOC = _row(
    "tcgen05.alloc",
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [$to], $columns;",
    "reserves $columns columns and writes their address to shared $to",
    (address("to", "shared", Direction.OUT, 4), register("columns", B32)),
)
RELINQUISH = _row(
    "tcgen05.relinquish",
    "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
    "this CTA allocates no more columns",
)
DEALLOC = _row(
    "tcgen05.dealloc",
    "tcgen05.dealloc.cta_group::1.sync.aligned.b32 $place, $columns;",
    "frees $columns columns",
    (address("place", "tmem", Direction.INOUT), register("columns", B32)),
)
FENCE_BEFORE = _row(
    "tcgen05.fence.before", "tcgen05.fence::before_thread_sync;", "orders accesses before a barrier", scope=THREAD,
    elides_sync=True,
)
FENCE_AFTER = _row(
    "tcgen05.fence.after", "tcgen05.fence::after_thread_sync;", "orders accesses after a barrier", scope=THREAD,
    elides_sync=True,
)

ROWS = (
    *LD.rows(), *ST.rows(), WAIT_LD, WAIT_ST, ALLOC, RELINQUISH, DEALLOC, FENCE_BEFORE, FENCE_AFTER,
)
