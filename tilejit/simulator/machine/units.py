"""What instructions call: the units of a CTA's processor that a chunk's threads share, and what a thread does alone.

Generated code has it as `S`, with what the machine adds: blocks, barriers, and who runs when.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ...errors import OutOfBoundsError, SimulationError, UninitializedReadError
from ..checks.order import HappensBefore
from ..checks.places import PtxPlaces
from ..decode.translate import Program
from ..numerics.floats import from_sort_keys, sort_keys
from .access import Access
from .lanes import Lanes
from .matrix import Matrices
from .mbarriers import MBarriers
from .operations import Operations
from .register_pool import RegisterPool
from .settings import Settings
from .warp import Warps

if TYPE_CHECKING:
    from .bulk import BulkCopies
    from .clusters import Clusters
    from .copies import AsyncCopies
    from .far_arrivals import FarArrivals
    from .groups import WgmmaGroups
    from .tensor_memory import TensorMemory


class Units:
    """The units of a chunk, for the threads that execute now."""

    def __init__(
        self, program: Program, lanes: Lanes, access: Access, order: HappensBefore | None, places: PtxPlaces,
        printer: Any,
        settings: Settings,
    ) -> None:
        self.program = program
        self.lanes = lanes
        self.access = access
        self.order = order
        self.places = places
        self.printer = printer
        self.alive = np.ones(lanes.total, bool)
        self.warps = Warps(lanes, self.alive, places, settings.schedule)
        self.matrices = Matrices(lanes, self.warps, access)
        self.made_copies: AsyncCopies | None = None
        self.made_tmem: TensorMemory | None = None
        self.made_pool: RegisterPool | None = None
        self.made_products: WgmmaGroups | None = None
        self.made_bulk: BulkCopies | None = None
        self.made_clusters: Clusters | None = None
        self.made_far: FarArrivals | None = None
        self.mbarriers = MBarriers(program, lanes, access, order, places)
        self.operations = Operations(settings.delivery, self.mbarriers.delivered)
        self.mbarriers.operations = self.operations
        self.load = access.load
        self.store = access.store
        self.atomic = access.atomic
        self.n = lanes.total
        self.definedness = access.checker.report.definedness if access.checker is not None else None

    @property
    def copies(self) -> AsyncCopies:
        """Made at the first use, and what it takes imported."""
        if self.made_copies is None:
            from .copies import AsyncCopies

            self.made_copies = AsyncCopies(self.access, self.lanes, self.places)
        return self.made_copies

    @property
    def tmem(self) -> TensorMemory:
        """Made at the first use, and what it takes imported."""
        if self.made_tmem is None:
            from .tensor_memory import TensorMemory

            self.made_tmem = TensorMemory(self.lanes, self.warps, self.access, self.order, self.places)
        return self.made_tmem

    @property
    def pool(self) -> RegisterPool:
        """Made at the first use."""
        if self.made_pool is None:
            self.made_pool = RegisterPool(self.lanes, self.program.function.bounds, self.places, self.access.findings)
        return self.made_pool

    @property
    def bulk(self) -> BulkCopies:
        """Made at the first use, and what it takes imported."""
        if self.made_bulk is None:
            from .bulk import BulkCopies

            self.made_bulk = BulkCopies(
                self.access.memory, self.lanes, self.access, self.operations, self.mbarriers, self.far_arrivals,
                self.places,
            )
        return self.made_bulk

    @property
    def products(self) -> WgmmaGroups:
        """Made at the first use, and what it takes imported."""
        if self.made_products is None:
            from .groups import WgmmaGroups

            self.made_products = WgmmaGroups(
                self.program.product_registers, self.lanes, self.warps, self.access, self.operations, self.places
            )
        return self.made_products

    @property
    def clusters(self) -> Clusters:
        """Made at the first use, and what it takes imported."""
        if self.made_clusters is None:
            from .clusters import Clusters

            self.made_clusters = Clusters(
                self.lanes, self.warps, self.access, self.order, self.places, self.access.findings
            )
        return self.made_clusters

    @property
    def far_arrivals(self) -> FarArrivals:
        """Made at the first use, and what it takes imported."""
        if self.made_far is None:
            from .far_arrivals import FarArrivals

            self.made_far = FarArrivals(self.mbarriers, self.alive)
        return self.made_far

    def selects(self, pc: int, predicate: Any) -> None:
        """A selection of the current block chooses so."""
        if self.definedness is not None and self.definedness.active:
            self.definedness.selected[pc] = predicate

    def shfl(self, mode: str, value: Any, b: Any, c: Any, mask: Any, pc: int) -> tuple[Any, Any]:
        self.members(mask, pc)
        if self.definedness is not None and self.definedness.active:
            self.definedness.shuffles[pc] = lambda marks: self.warps.shfl(mode, marks, b, c)[0]
        return self.warps.shfl(mode, value, b, c)

    def vote(self, mode: str, predicate: Any, mask: Any, pc: int) -> Any:
        return self.warps.vote(mode, predicate, self.members(mask, pc))

    def match(self, mode: str, value: Any, mask: Any, pc: int) -> tuple[Any, Any]:
        return self.warps.match(mode, value, self.members(mask, pc))

    def redux(self, op: str, value: Any, mask: Any, pc: int, absolute: bool, nan: bool) -> Any:
        value, members = np.abs(value) if absolute else value, self.members(mask, pc)
        if value.dtype.kind != "f":
            return self.warps.redux(op, value, members)
        # without .NaN a number wins, so NaN is the largest operand of min
        keys = sort_keys(value, nan_is_largest=(op == "min") != nan)
        return from_sort_keys(self.warps.redux(op, keys, members))

    def elect(self, mask: Any, pc: int) -> tuple[Any, Any]:
        # it waits for its lanes, but orders none of their accesses
        leader, leads = self.warps.elect(self.warps.require(mask, pc))
        if self.mbarriers.laggards is not None:
            self.mbarriers.laggards.note_led(leader, pc)
        return leader, leads

    def set_registers(self, how: str, count: int, pc: int) -> None:
        """setmaxnreg, which a block begins with."""
        self.warps.whole_groups(pc)
        self.pool.set(how, count, pc)
        if self.access.watched is not None:
            self.access.watched.written_elsewhere()

    def activemask(self) -> Any:
        return self.warps.spread(self.warps.active())

    def members(self, mask: Any, pc: int) -> Any:
        """Check the member mask of a collective, which orders its lanes' memory accesses unless the check is strict."""
        if mask is None:
            return self.warps.spread(self.warps.active())
        masks = self.warps.require(mask, pc)
        if self.order is not None and self.order.collectives_order:
            self.meet(self.order, mask, masks)
        return masks

    def meet(self, order: HappensBefore, mask: Any, masks: Any) -> None:
        """The lanes of each mask have met."""
        positions = self.lanes.positions()
        if not np.ndim(mask) and int(mask) == 0xFFFFFFFF:
            order.warp_barrier(positions)
            return
        living = self.warps.spread(self.warps.living())
        whole = (masks & living) == living
        if np.count_nonzero(whole):
            order.warp_barrier(positions[whole])
        part = np.flatnonzero(~whole)
        if part.size:
            warp = self.lanes.get("chunk_warp")[part]
            order.lanes_meet(positions[part], warp << 32 | masks[part].astype(np.int64))

    def fence(self, sem: str, wide: bool) -> None:
        if self.order is not None:
            self.order.flags.fence(self.lanes.positions(), sem, wide)

    def fence_proxy(self, space: str) -> None:
        self.mbarriers.fence_proxy()
        if self.order is not None:
            self.order.fence_proxy(self.lanes.positions(), space)

    def vprintf(self, pc: int, form: Any, arguments: Any) -> Any:
        try:
            self.printer.vprintf(self, form, arguments)
        except OutOfBoundsError as error:
            message = f"{error.message}\n  {self.places.describe(pc)}"
            raise OutOfBoundsError(message, instructions=(pc,), threads=self.executing()) from None
        return np.uint32(0)

    def assertfail(self, pc: int, *values: Any) -> None:
        texts = [self.printer.string(int(np.ravel(v)[0])) for v in values[:2]]
        who = self.lanes.describe_position(int(self.lanes.positions()[0]))
        message = f"assertion `{texts[0]}` failed for {who}\n  {self.places.describe(pc)}"
        raise SimulationError(message, instructions=(pc,), threads=self.executing())

    def trap(self, pc: int) -> NoReturn:
        who = self.lanes.describe_position(int(self.lanes.positions()[0]))
        message = f"{who} executed trap\n  {self.places.describe(pc)}"
        raise SimulationError(message, instructions=(pc,), threads=self.executing())

    def executing(self) -> list[int]:
        """The executing threads as findings name them."""
        return self.lanes.numbers(self.lanes.positions())

    def never_written(self, name: str, pc: int) -> NoReturn:
        self.report_register(0, name, pc)

    def skipped(self, flags: Any, name: str) -> None:
        """Threads are about to read a register; `flags` says which of them have written it."""
        if self.definedness is not None and np.count_nonzero(flags) < np.size(flags):
            positions = self.lanes.positions()
            self.definedness.skipped(name, positions[~np.broadcast_to(flags, positions.shape)])

    def check_defined(self, flags: Any, name: str, pc: int) -> None:
        missing = np.flatnonzero(~np.atleast_1d(flags))
        if missing.size:
            self.report_register(int(missing[0]), name, pc)

    def report_register(self, at: int, name: str, pc: int) -> NoReturn:
        who = self.lanes.describe_position(int(self.lanes.positions()[at]))
        raise UninitializedReadError(
            f"{who} uses register {name}, which nothing has written\n  {self.places.describe(pc)}",
            instructions=(pc,), threads=self.executing()[at : at + 1],
        )
