"""wgmma: asynchronous products of warpgroups, which form groups (commit) that complete in order (wait).

A product is computed when it is issued, so a missing wait never changes a value: it is only reported. For a GPU, ptxas
inserts the wait.

source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions": wgmma.mma_async, fence, commit_group, wait_group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks.agents import Agents
from ..checks.places import PtxPlaces
from ..decode.emitter import Touched
from ..numerics.warpgroup import ROWS, ProductForm, matrix_a, matrix_d, multiplied, registers_d
from .access import Access
from .lanes import WARPGROUP, Index, Lanes
from .operations import Operations
from .product_operands import Operands
from .product_registers import ProductRegisters
from .warp import Warps


class WgmmaGroups:
    """The wgmma instructions of a chunk's warpgroups, called by generated code."""

    def __init__(
        self, names: Sequence[str], lanes: Lanes, warps: Warps, access: Access, operations: Operations,
        places: PtxPlaces,
    ) -> None:
        self.lanes = lanes
        self.warps = warps
        self.registers = ProductRegisters(names, warps.count, lanes, places)
        self.agents = Agents(access.checker, operations) if access.checker is not None else None
        self.operands = Operands(access, lanes, warps.count, places, self.agents)
        #: for each warp, the event of the last product in each group
        self.events: list[list[int]] = [[] for _ in range(warps.count)]

    def fence(self, pc: int) -> None:
        self.registers.fence(self.here(pc))

    def commit(self, pc: int) -> None:
        here = self.here(pc)
        self.registers.committed[here] += 1
        for warp in here.tolist():
            self.events[warp].append(int(self.operands.latest[warp]))

    def wait(self, newest: int, pc: int) -> None:
        """wgmma.wait_group: complete all but the `newest` groups of each warp."""
        here = self.here(pc)
        registers = self.registers
        registers.complete[here] = np.maximum(registers.complete[here], registers.committed[here] - newest)
        here = here[registers.complete[here] > 0]
        if self.agents is not None and here.size:
            complete = registers.complete[here].tolist()
            events = [self.events[warp][n - 1] for warp, n in zip(here.tolist(), complete, strict=True)]
            self.agents.order.need_clocks().learn_products(here, np.array(events))

    def touched(self, touched: Touched) -> None:
        if self.agents is not None:
            self.registers.touched(touched)

    def multiply(
        self, form: ProductForm, a: Any, b: Any, scale: Any, start: Sequence[Any], d_rows: Index, a_rows: Index,
        number: int, pc: int,
    ) -> NDArray[Any]:
        """wgmma.mma_async: return the registers of D. a: a descriptor or registers. scale: the predicate scale-d."""
        self.warps.whole_groups(pc)
        lanes = self.lanes
        if self.agents is not None:
            self.registers.take(form, self.registers.warps_here(), d_rows, a_rows, pc)
        groups = lanes.n // WARPGROUP
        right = self.operands.load(b, "B", form.b, form.n, form.trans_b, number, pc)
        if isinstance(a, tuple):
            left = matrix_a(a, lanes.n, form)
        else:
            left = self.operands.load(a, "A", form.a, ROWS, form.trans_a, number, pc)
        adds = self.operands.uniform(scale, "scale-d", pc).astype(bool)
        c = None
        if adds.any():
            c = matrix_d(start, lanes.n, form)
            if not adds.all():
                c = np.where(adds[:, None, None], c, np.zeros((), c.dtype))
        result = registers_d(multiplied(form, left, right, c), form)
        assert result.shape[1] == groups * WARPGROUP, "a register has an element for each thread"
        return result

    def here(self, pc: int) -> Index:
        """Return the executing warps; all their lanes must be executing."""
        self.warps.whole(pc)
        return self.registers.warps_here()
