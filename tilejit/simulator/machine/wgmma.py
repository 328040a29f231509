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

from ...errors import SimulationError
from ..checks.agents import Agents, Start
from ..checks.clocks import products_of
from ..decode.emitter import Touched
from ..numerics.products import Doubles
from ..numerics.warpgroup import ROWS, ProductForm, from_chunks, matrix_a, matrix_d, multiplied, registers_d
from .access import Access
from .descriptor import decode
from .lanes import WARP, WARPGROUP, Index
from .operations import Operations
from .product_registers import ProductRegisters
from .reach import AddressRun, Reach
from .warp import Warps


class WgmmaGroups:
    """The wgmma instructions of a chunk's warpgroups, called by generated code."""

    def __init__(self, names: Sequence[str], warps: Warps, access: Access, operations: Operations) -> None:
        self.lanes = access.lanes
        self.warps = warps
        self.registers = ProductRegisters(names, warps.count, access)
        self.access = access
        self.reach = Reach(access)
        self.agents = Agents(access.checker, operations) if access.checker is not None else None
        #: the event of each warp's last read of an operand
        self.latest: Index = np.zeros(warps.count, np.int64)
        #: for each warp, the event of the last product in each group
        self.events: list[list[int]] = [[] for _ in range(warps.count)]

    def fence(self, pc: int) -> None:
        self.registers.fence(self.here(pc))

    def commit(self, pc: int) -> None:
        here = self.here(pc)
        self.registers.committed[here] += 1
        for warp in here.tolist():
            self.events[warp].append(int(self.latest[warp]))

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
        right = self.operand(b, "B", form.b, form.n, form.trans_b, number, pc)
        if isinstance(a, tuple):
            left = matrix_a(a, lanes.n, form)
        else:
            left = self.operand(a, "A", form.a, ROWS, form.trans_a, number, pc)
        adds = self.access.uniform(scale, WARPGROUP, "scale-d", pc).astype(bool)
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

    def operand(
        self, descriptor: Any, what: str, element: str, extent: int, transposed: bool, number: int, pc: int
    ) -> Doubles:
        """Return an operand in shared memory as warpgroups × (M or N) × K; raise SimulationError if it is invalid."""
        bits = self.access.uniform(descriptor, WARPGROUP, f"the descriptor of {what}", pc)
        ctas = self.lanes.get("chunk_cta").reshape(-1, WARPGROUP)[:, 0]
        leaders = self.lanes.positions().reshape(-1, WARPGROUP)[:, 0]
        runs, shape = [], (0, 0)
        for one, cta, leader in zip(bits.tolist(), ctas.tolist(), leaders.tolist(), strict=True):
            decoded = decode(one)
            if isinstance(decoded, str):
                raise SimulationError(
                    f"the descriptor of {what}, {one:#018x}, is invalid or not supported: {decoded}\n"
                    f"  {self.access.places.describe(pc)}",
                    instructions=(pc,), threads=self.lanes.numbers(np.array([leader])),
                )
            chunks = decoded.chunks(extent, transposed)
            shape = chunks.shape
            runs.append(self.reach.run(self.access.sites[number], cta, chunks.reshape(-1), leader))
        self.note_reads(runs, ctas, leaders)
        return np.stack([from_chunks(run.read().reshape(shape), element, transposed) for run in runs])

    def note_reads(self, runs: Sequence[AddressRun], ctas: Index, leaders: Index) -> None:
        """Check and record the reads of products. The first and the last lane represent each warp of a warpgroup."""
        if self.agents is None:
            return
        warps = leaders[:, None] + WARP * np.arange(WARPGROUP // WARP)
        issuers = np.concatenate([warps, warps + WARP - 1], axis=1)
        groups = (leaders - ctas * self.lanes.threads) // WARPGROUP
        events = self.agents.read_each([
            (run.spans(), Start("product", lanes, run.site), products_of(group), cta)
            for run, lanes, group, cta in zip(runs, issuers, groups.tolist(), ctas.tolist(), strict=True)
        ])
        self.latest[self.lanes.full["chunk_warp"][warps]] = events[:, None]
