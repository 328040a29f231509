"""The units that execute instructions for the threads of a chunk of CTAs.

`Machine` runs basic blocks, and adds CTA barriers and scheduling; generated code refers to the machine as `S`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ...errors import OutOfBoundsError, SimulationError, UninitializedReadError
from ..decode.functions import STACK
from ..decode.translate import Program
from ..numerics import products
from .access import Access
from .lanes import WARP
from .mbarriers import MBarriers
from .operations import Delivery
from .printf import Printer
from .warp import Warps

if TYPE_CHECKING:
    from .bulk import BulkCopies
    from .clusters import Clusters
    from .copies import AsyncCopies
    from .far_accesses import FarAccesses
    from .matrix_tiles import MatrixTiles
    from .register_pool import RegisterPool
    from .tensor_maps import TensorMaps
    from .tensor_memory import TensorMemory
    from .wgmma import WgmmaGroups

# rows, and 32-bit words per row, of the matrices that ldmatrix and stmatrix move: 8 x 8 elements of 16 bits
MATRIX_ROWS, MATRIX_ROW_WORDS = 8, 4

#: the number of callers that an error about the stack shows
MOST_CALLS = 8


def lazy(name: str, *arguments: str) -> Any:
    """Return a unit that is created at its first use. name: module and class. arguments: attributes of `Units`."""

    def create(units: Units) -> Any:
        module, _, kind = name.partition(".")
        return getattr(import_module(f".{module}", __package__), kind)(*(attrgetter(x)(units) for x in arguments))

    return cached_property(create)


class Units:
    """The units of a chunk of CTAs. They act on the executing threads; most are created at their first use."""

    def __init__(
        self, program: Program, access: Access, printer: Printer, schedule: int, delivery: Delivery
    ) -> None:
        self.program = program
        self.access = access
        self.lanes = access.lanes
        self.order = access.order
        self.places = access.places
        self.printer = printer
        self.alive = np.ones(self.lanes.total, bool)
        self.warps = Warps(access, self.alive, schedule)
        self.mbarriers = MBarriers(program, access, delivery)
        self.operations = self.mbarriers.operations
        self.load = access.load
        self.store = access.store
        self.atomic = access.atomic
        self.n = self.lanes.total
        self.definedness = access.checker.report.definedness if access.checker is not None else None

    copies: AsyncCopies = lazy("copies.AsyncCopies", "access", "mbarriers")
    tmem: TensorMemory = lazy("tensor_memory.TensorMemory", "warps", "access")
    pool: RegisterPool = lazy("register_pool.RegisterPool", "access", "program.function.bounds")
    bulk: BulkCopies = lazy("bulk.BulkCopies", "access", "operations", "mbarriers", "far", "tensor_maps")
    tensor_maps: TensorMaps = lazy("tensor_maps.TensorMaps", "access", "warps")
    products: WgmmaGroups = lazy("wgmma.WgmmaGroups", "program.product_registers", "warps", "access", "operations")
    tiles: MatrixTiles = lazy("matrix_tiles.MatrixTiles", "warps", "access")
    clusters: Clusters = lazy("clusters.Clusters", "warps", "access")
    far: FarAccesses = lazy("far_accesses.FarAccesses", "mbarriers", "alive")

    def selects(self, pc: int, predicate: Any) -> None:
        if self.definedness is not None and self.definedness.active:
            self.definedness.selected[pc] = predicate

    def shfl(self, mode: str, value: Any, b: Any, c: Any, mask: Any, pc: int) -> tuple[Any, Any]:
        masks = self.warps.members(mask, pc)
        if self.definedness is not None:
            self.definedness.shuffle(pc, masks, lambda values: self.warps.shfl(mode, values, b, c)[0])
        return self.warps.shfl(mode, value, b, c)

    def elect(self, mask: Any, pc: int) -> tuple[Any, Any]:
        leader, leads = self.warps.elect(mask, pc)
        if self.mbarriers.phase_waits is not None:
            self.mbarriers.phase_waits.note_led(leader, pc)
        return leader, leads

    def set_registers(self, how: str, count: int, pc: int) -> None:
        self.warps.whole_groups(pc)
        self.pool.set(how, count, pc)
        self.access.memory_changed()

    def ldmatrix(self, number: int, address: Any, num: int, trans: bool, pc: int) -> NDArray[np.uint32]:
        """ldmatrix: load row i of matrix m from lane 8·m + i's address; its word j goes to register m of lane 4·i + j.

        Return an array of `num` registers × threads. trans: transpose each matrix after loading it.
        """
        self.warps.whole(pc)
        group = self.lanes.group
        address = self.select_matrix_rows(self.lanes.each(address), num)
        rows = np.ascontiguousarray(self.access.load(number, address))
        self.lanes.select(group)
        words = rows.view(np.uint32).reshape(-1, num, MATRIX_ROWS, MATRIX_ROW_WORDS)
        if trans:
            words = transposed(words)
        registers: products.WordArray = words.swapaxes(0, 1).reshape(num, -1)
        return registers

    def stmatrix(self, number: int, address: Any, values: Sequence[Any], trans: bool, pc: int) -> None:
        """stmatrix: the inverse of `ldmatrix`."""
        self.warps.whole(pc)
        group = self.lanes.group
        num = len(values)
        words = products.stacked(values, self.lanes.n, np.uint32).reshape(num, -1, MATRIX_ROWS, MATRIX_ROW_WORDS)
        words = np.ascontiguousarray(words.swapaxes(0, 1))
        if trans:
            words = transposed(words)
        address = self.select_matrix_rows(self.lanes.each(address), num)
        self.access.store(number, address, words.reshape(-1).view(np.complex128))
        self.lanes.select(group)

    def select_matrix_rows(self, address: NDArray[Any], num: int) -> NDArray[Any]:
        lanes = MATRIX_ROWS * num
        if lanes == WARP:
            return address
        self.lanes.select(self.lanes.positions().reshape(-1, WARP)[:, :lanes].reshape(-1))
        return address.reshape(-1, WARP)[:, :lanes].reshape(-1)

    def fence(self, sem: str, wide: bool) -> None:
        if self.order is not None:
            self.order.flags.fence(self.lanes.positions(), sem, wide)

    def fence_proxy(self, space: str | None) -> None:
        self.mbarriers.fence(publishes=False)
        if self.order is not None:
            self.order.fence_proxy(self.lanes.positions(), space)

    def check_stack(self, pc: int, frame: Any, link: Any, site: int, size: int) -> None:
        """Raise an error, with the chain of calls, if the frame of a callee may not fit into a thread's stack.

        frame: the address of the caller's frame, of `size` bytes. link: the caller's link register. site: of the call.
        """
        linked = self.program.function.linked
        assert linked is not None, "only linked kernels have stacks"
        start = next(at for v, at in self.program.placed if v.name == STACK)
        deep = np.flatnonzero(np.broadcast_to(frame, (self.n,)) + np.uint64(size) > start + linked.last_frame)
        if not deep.size:
            return
        positions = self.lanes.positions()[deep]
        position = int(positions[0])
        region = self.access.memory.find("local", start)
        assert region is not None, "the stack is placed in local memory"

        def read(address: int) -> int:
            offset = position * region.stride + address - region.base
            return int(region.memory[offset : offset + 4].view(np.uint32)[0])

        own_link, own_frame = (int(np.broadcast_to(x, (self.n,))[deep[0]]) for x in (link, frame))
        chain = linked.chain(site, own_link, own_frame, read)
        shown = [self.places.describe(x.linked_pc) for x in chain[1 : 1 + MOST_CALLS]]
        left = len(chain) - 1 - len(shown)
        more = "".join(f"\ncalled by\n  {x}" for x in shown) + (f"\nafter {left} other calls" if left else "")
        name = self.lanes.describe_position(position)
        what = f"{name} is {len(chain) - 1} calls deep: its stack has no room for another frame"
        raise self.access.failure(SimulationError, positions, what, pc, "end the recursion earlier", more=more)

    def index_of_callee(self, pc: int, address: Any, functions: Any) -> Any:
        """Return the indices of function addresses in `functions`; raise SimulationError if one isn't there."""
        order = np.argsort(functions)
        index = np.minimum(np.searchsorted(functions, address, sorter=order), functions.size - 1)
        wrong = np.flatnonzero(np.broadcast_to(functions[order[index]] != address, (self.n,)))
        if wrong.size:
            value = int(np.broadcast_to(address, (self.n,))[wrong[0]])
            what = f"calls the address {value:#x}, at which there is no function with these parameters"
            raise self.access.error(SimulationError, self.lanes.positions()[wrong], what, pc)
        return order[index].astype(np.uint32)

    def vprintf(self, pc: int, form: Any, arguments: Any) -> Any:
        try:
            self.printer.vprintf(self.lanes, form, arguments)
        except OutOfBoundsError as error:
            raise self.access.failure(OutOfBoundsError, self.lanes.positions(), error.message, pc) from None
        return np.uint32(0)

    def assertfail(self, pc: int, *values: Any) -> None:
        texts = [self.printer.string(int(np.ravel(v)[0])) for v in values[:2]]
        positions = self.lanes.positions()
        message = f"assertion `{texts[0]}` failed for {self.lanes.describe_position(int(positions[0]))}"
        raise self.access.failure(SimulationError, positions, message, pc)

    def trap(self, pc: int) -> NoReturn:
        missing = "%envreg2" in dict(self.program.special) and not self.access.memory.workspace
        hint = "launch this kernel cooperatively: it synchronizes its grid" if missing else None
        raise self.access.error(SimulationError, self.lanes.positions(), "executed trap", pc, hint)

    def skipped(self, flags: Any, name: str) -> None:
        """Record threads that read register `name` without having written it. flags: True for threads that wrote it."""
        if self.definedness is not None and np.count_nonzero(flags) < np.size(flags):
            positions = self.lanes.positions()
            self.definedness.skipped(name, positions[~np.broadcast_to(flags, positions.shape)])

    def check_defined(self, flags: Any, name: str, pc: int) -> None:
        missing = np.flatnonzero(~np.atleast_1d(flags))
        if missing.size:
            self.report_register(int(missing[0]), name, pc)

    def report_register(self, at: int, name: str, pc: int) -> NoReturn:
        what = f"uses register {name}, which nothing has written"
        positions = self.lanes.positions()[at : at + 1]
        raise self.access.error(UninitializedReadError, positions, what, pc)


def transposed(words: products.WordArray) -> products.WordArray:
    """Transpose matrices of 8 x 8 elements of 16 bits. words: 32-bit words, in dimensions …, row, word of the row."""
    result: products.WordArray = np.ascontiguousarray(words.view(np.uint16).swapaxes(-1, -2)).view(np.uint32)
    return result
