"""tcgen05: allocation of tensor memory, transfers between it and registers, and fences."""

from __future__ import annotations

from functools import partial

from ..dataclass import dataclass
from ..layout import TCGEN05_SHAPES
from ..scopes import WARP
from ..target import TENSOR_MEMORY_TARGETS
from .row import B32, AsyncWork, Direction, Family, Row, address, carried, register

TMEM_LOAD = AsyncWork(
    "loads from tensor memory", "copy_async", wait="tcgen05.wait_ld", fills=True, settles_at_joins=True
)
TMEM_STORE = AsyncWork("stores to tensor memory", "copy_async", wait="tcgen05.wait_st", reads=True)

_row = partial(
    Row, since=100, ptx=(8, 6), only=TENSOR_MEMORY_TARGETS, memory=True, convergent=True,
    source='PTX ISA, "TensorCore 5th Generation Instructions"',
)


@dataclass(frozen=True, slots=True)
class Transfer:
    """The form `.shape.xnum` of tcgen05.ld and tcgen05.st. shape: a key of `TCGEN05_SHAPES`."""

    shape: str
    num: int

    @property
    def registers(self) -> int:
        return self.num * TCGEN05_SHAPES[self.shape].registers


_TRANSFERS = tuple(
    Transfer(shape.name, 1 << power) for shape in TCGEN05_SHAPES.values() for power in range(shape.max_num.bit_length())
)


def _ld(form: Transfer) -> Row:
    size = f"{form.shape}.x{form.num}"
    return _row(
        name=f"tcgen05.ld.{size}", scope=WARP, starts=TMEM_LOAD,
        text=f"tcgen05.ld.sync.aligned.{size}.b32 {{$registers}}, [$place];",
        meaning="starts to load registers from tmem",
        operands=(register("registers", B32, Direction.OUT, form.registers), address("place", "tmem", Direction.IN)),
    )


def _st(form: Transfer) -> Row:
    size = f"{form.shape}.x{form.num}"
    return _row(
        name=f"tcgen05.st.{size}", scope=WARP, starts=TMEM_STORE,
        text=f"tcgen05.st.sync.aligned.{size}.b32 [$place], {{$registers}};",
        meaning="starts to store registers to tmem",
        operands=(address("place", "tmem", Direction.OUT), register("registers", B32, count=form.registers)),
    )


LD = Family.of("tcgen05.ld", _TRANSFERS, _ld)
ST = Family.of("tcgen05.st", _TRANSFERS, _st)

WAIT_LD = _row(
    name="tcgen05.wait.ld", text="tcgen05.wait::ld.sync.aligned;", scope=WARP,
    meaning="waits for this thread's loads", operands=(carried("registers"),), completes=TMEM_LOAD,
)
WAIT_ST = _row(
    name="tcgen05.wait.st", text="tcgen05.wait::st.sync.aligned;", scope=WARP,
    meaning="waits for this thread's stores", operands=(carried("registers"),), completes=TMEM_STORE,
)
ALLOC = _row(
    name="tcgen05.alloc", scope=WARP,
    text="tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [$to], $columns;",
    meaning="reserves $columns columns and writes their address to shared $to",
    operands=(address("to", "shared", Direction.OUT, 4), register("columns", B32)),
)
RELINQUISH = _row(
    name="tcgen05.relinquish", scope=WARP,
    text="tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
    meaning="this CTA allocates no more columns",
)
DEALLOC = _row(
    name="tcgen05.dealloc", scope=WARP,
    text="tcgen05.dealloc.cta_group::1.sync.aligned.b32 $place, $columns;",
    meaning="frees $columns columns",
    operands=(address("place", "tmem", Direction.INOUT), register("columns", B32)),
)
FENCE_BEFORE = _row(
    name="tcgen05.fence.before", text="tcgen05.fence::before_thread_sync;",
    meaning="orders earlier accesses to tensor memory before a barrier", elides_sync=True,
)
FENCE_AFTER = _row(
    name="tcgen05.fence.after", text="tcgen05.fence::after_thread_sync;",
    meaning="orders later accesses to tensor memory after a barrier", elides_sync=True,
)

ROWS = (
    *LD.rows(), *ST.rows(), WAIT_LD, WAIT_ST, ALLOC, RELINQUISH, DEALLOC, FENCE_BEFORE, FENCE_AFTER,
)
