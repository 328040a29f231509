"""wgmma: products of warpgroups that run on until a warp waits for them, and what their registers may do meanwhile.

A warp's products form groups (commit), which complete in order (wait). Until then nothing but another product of the
same shape may name an accumulator, and registers of A may be read only. wgmma.fence must stand between an access to
such a register and the next product that names it.

Products are computed when they are issued. So a missing wait shows as an error, never as a wrong value, as on a GPU,
for which ptxas inserts it.

source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions": wgmma.mma_async, fence, commit_group, wait_group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ...errors import AsyncHazardError, SimulationError
from ..checks.order import Order
from ..checks.places import PtxPlaces
from ..decode.emitter import Touched
from ..numerics.products import Doubles
from ..numerics.warpgroup import ROWS, ProductForm, from_chunks, matrix_a, matrix_d, multiplied, registers_d
from .access import Access
from .descriptor import decode
from .lanes import WARP, WARPGROUP, Index, Lanes
from .reach import Reach
from .warp import Warps


class Products:
    """The products of a chunk's warpgroups; generated code calls its methods.

    names: of the registers that products name, by row. Arrays have a row for each and a column for each warp.
    fills, reads: the number (from 1) of the latest group that writes or reads a register; issued: its instruction.
    shapes: of the product that fills it. touched: the instruction (plus 1) that accessed it since the last fence.
    committed, complete: groups of each warp.
    """

    def __init__(
        self, names: Sequence[str], lanes: Lanes, warps: Warps, access: Access, order: Order | None, places: PtxPlaces
    ) -> None:
        self.names = names
        self.lanes = lanes
        self.warps = warps
        self.access = access
        self.order = order
        self.places = places
        self.reach = Reach(access, lanes)
        table = (len(names), warps.count)
        self.fills, self.reads, self.issued, self.shapes, self.touches = (np.zeros(table, np.int64) for _ in range(5))
        self.committed, self.complete = (np.zeros(warps.count, np.int64) for _ in range(2))
        self.fenced = np.zeros(warps.count, bool)

    # what generated code calls

    def fence(self, pc: int) -> None:
        """wgmma.fence."""
        here = self.here(pc)
        self.fenced[here] = True
        self.touches[:, here] = 0

    def commit(self, pc: int) -> None:
        """wgmma.commit_group."""
        self.committed[self.here(pc)] += 1

    def wait(self, newest: int, pc: int) -> None:
        """wgmma.wait_group: all but the `newest` groups are complete."""
        here = self.here(pc)
        self.complete[here] = np.maximum(self.complete[here], self.committed[here] - newest)

    def touched(self, touched: Touched) -> None:
        """Instructions other than wgmma have accessed registers of products."""
        if self.order is None:
            return
        here = self.warps_here()
        rows = np.array(touched.read + touched.wrote, np.int64)[:, None]
        wrote = np.arange(rows.size)[:, None] >= len(touched.read)
        early = self.fills[rows, here] > self.complete[here]
        if np.count_nonzero(early):
            self.report_early(touched, early, "is an accumulator of", "put wgmma.wait_group between the two")
        changed = (self.reads[rows, here] > self.complete[here]) & wrote
        if np.count_nonzero(changed):
            self.report_early(touched, changed, "is still read by", "put wgmma.wait_group in front of the change")
        self.touches[rows, here] = np.array(touched.at, np.int64)[:, None] + 1

    def multiply(
        self, form: ProductForm, a: Any, b: Any, scale: Any, start: Sequence[Any], d_rows: Index, a_rows: Index,
        number: int, pc: int,
    ) -> NDArray[Any]:
        """wgmma.mma_async; a: a descriptor or registers; scale: whether the accumulators are added. The registers."""
        self.warps.whole_groups(pc)
        lanes = self.lanes
        here = self.warps_here()
        if self.order is not None:
            self.check_registers(form, here, d_rows, a_rows, pc)
        groups = lanes.n // WARPGROUP
        right = self.operand(b, "B", form.b, form.n, form.trans_b, number, pc)
        if isinstance(a, tuple):
            left = matrix_a(a, lanes.n, form)
        else:
            left = self.operand(a, "A", form.a, ROWS, form.trans_a, number, pc)
        adds = self.uniform(scale, "scale-d", pc).astype(bool)
        c = None
        if adds.any():
            c = matrix_d(start, lanes.n, form)
            if not adds.all():
                c = np.where(adds[:, None, None], c, np.zeros((), c.dtype))
        result = registers_d(multiplied(form, left, right, c), form)
        assert result.shape[1] == groups * WARPGROUP, "a register has an element for each thread"
        return result

    # registers

    def check_registers(self, form: ProductForm, here: Index, d_rows: Index, a_rows: Index, pc: int) -> None:
        """Registers of a product must be free, and fenced since others accessed them; note that it has them now."""
        if not self.fenced[here].all():
            self.fail(f"a product without any wgmma.fence before it\n  {self.places.describe(pc)}", pc)
        rows = np.concatenate((d_rows, a_rows))[:, None]
        stale = np.argwhere(self.touches[rows, here])
        if stale.size:
            row, warp = rows[stale[0][0], 0], here[stale[0][1]]
            other = int(self.touches[row, warp]) - 1
            self.fail(
                f"{self.who(warp)} multiplies with register {self.names[row]}\n  {self.places.describe(pc)}\n"
                f"which was accessed with no wgmma.fence since\n  {self.places.describe(other)}", pc, other,
            )
        shape = _shape_code(form)
        self.check_free(d_rows[:, None], here, shape, pc)
        if a_rows.size:
            self.check_free(a_rows[:, None], here, -1, pc)
            self.reads[a_rows[:, None], here] = self.committed[here] + 1
            self.issued[a_rows[:, None], here] = pc
        read = np.argwhere(self.reads[d_rows[:, None], here] > self.complete[here])
        if read.size:
            self.report_product(int(d_rows[read[0][0]]), int(here[read[0][1]]), pc)
        at = d_rows[:, None]
        self.fills[at, here] = self.committed[here] + 1
        self.issued[at, here] = pc
        self.shapes[at, here] = shape + np.arange(d_rows.size)[:, None]

    def check_free(self, rows: Index, here: Index, shape: int, pc: int) -> None:
        """No product in flight fills these registers but one that has them in the same places."""
        busy = self.fills[rows, here] > self.complete[here]
        if shape >= 0:
            busy &= self.shapes[rows, here] != shape + np.arange(rows.size)[:, None]
        wrong = np.argwhere(busy)
        if wrong.size:
            self.report_product(int(rows[wrong[0][0], 0]), int(here[wrong[0][1]]), pc)

    def report_product(self, row: int, warp: int, pc: int) -> NoReturn:
        other = int(self.issued[row, warp])
        self.fail(
            f"{self.who(warp)} multiplies with register {self.names[row]}\n  {self.places.describe(pc)}\n"
            f"which a product in flight uses otherwise\n  {self.places.describe(other)}",
            pc, other, "put wgmma.wait_group between the two",
        )

    def report_early(self, touched: Touched, wrong: NDArray[np.bool_], what: str, hint: str) -> NoReturn:
        at, column = (int(x) for x in np.argwhere(wrong)[0])
        row, warp = (touched.read + touched.wrote)[at], int(self.warps_here()[column])
        verb = "reads" if at < len(touched.read) else "writes"
        pc, other = touched.at[at], int(self.issued[row, warp])
        self.fail(
            f"{self.who(warp)} {verb} register {self.names[row]}\n  {self.places.describe(pc)}\n"
            f"which {what} a product that was not waited for\n  {self.places.describe(other)}", pc, other, hint,
        )

    def fail(
        self, message: str, pc: int, other: int | None = None, hint: str = "put wgmma.fence in front of the product"
    ) -> NoReturn:
        pcs = [pc] if other is None else [pc, other]
        threads = self.lanes.numbers(self.lanes.positions())
        raise AsyncHazardError(message, hint=hint, instructions=pcs, threads=threads)

    # operands

    def operand(
        self, descriptor: Any, what: str, element: str, extent: int, transposed: bool, number: int, pc: int
    ) -> Doubles:
        """An operand in shared memory: warpgroups × M or N × k."""
        bits = self.uniform(descriptor, f"the descriptor of {what}", pc)
        ctas = self.lanes.get("chunk_cta").reshape(-1, WARPGROUP)[:, 0]
        leaders = self.lanes.positions().reshape(-1, WARPGROUP)[:, 0]
        matrices = []
        for one, cta, leader in zip(bits.tolist(), ctas.tolist(), leaders.tolist(), strict=True):
            decoded = decode(one)
            if isinstance(decoded, str):
                raise SimulationError(
                    f"the descriptor of {what}, {one:#018x}, is none: {decoded}\n  {self.places.describe(pc)}",
                    instructions=(pc,), threads=self.lanes.numbers(np.array([leader])),
                )
            chunks = decoded.chunks(extent, transposed)
            run = self.reach.run(self.access.sites[number], cta, chunks.reshape(-1), leader)
            matrices.append(from_chunks(run.read().reshape(chunks.shape), element, transposed))
        return np.stack(matrices)

    def uniform(self, value: Any, what: str, pc: int) -> NDArray[Any]:
        """One value per warpgroup, which all of its threads must share."""
        table = self.lanes.each(value).reshape(-1, WARPGROUP)
        wrong = np.argwhere(table != table[:, :1])
        if wrong.size:
            row, column = (int(x) for x in wrong[0])
            at = int(self.lanes.positions()[row * WARPGROUP + column])
            raise SimulationError(
                f"all threads of a warpgroup must give the same value for {what}: {self.lanes.describe_position(at)} "
                f"has {int(table[row, column]):#x}, the first {int(table[row, 0]):#x}\n  {self.places.describe(pc)}",
                instructions=(pc,), threads=self.lanes.numbers(np.array([at])),
            )
        first: NDArray[Any] = table[:, 0]
        return first

    def here(self, pc: int) -> Index:
        """The executing warps, which must be whole."""
        self.warps.whole(pc)
        return self.warps_here()

    def warps_here(self) -> Index:
        """The executing warps' numbers in the chunk."""
        warp = self.lanes.get("chunk_warp")
        if self.lanes.whole_warps():
            first: Index = warp.reshape(-1, WARP)[:, 0]
            return first
        return np.unique(warp)

    def who(self, warp: int) -> str:
        cta, inside = divmod(int(warp), self.lanes.warps_per_cta)
        return self.lanes.describe_position(cta * self.lanes.threads + inside * WARP)


def _shape_code(form: ProductForm) -> int:
    """A number that accumulators of one shape and type share; the lowest digits are free for the register."""
    return 1000 * (form.n * 3 + ("f32", "f16", "s32").index(form.d))
