"""Checks of the registers of wgmma products that haven't been waited for.

Until the wait, only another product of the same shape may use an accumulator, and registers of A are read-only.
wgmma.fence must separate an access to such a register from the next product that uses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from ...errors import AsyncHazardError
from ...fast_unique import fast_unique
from ..decode.emitter import Touched
from ..numerics.warpgroup import ProductForm
from .access import Access
from .lanes import WARP, Index


class ProductRegisters:
    """The state of a chunk's product registers: arrays with a row for each register and a column for each warp."""

    def __init__(self, names: Sequence[str], warps: int, access: Access) -> None:
        self.names = names
        self.lanes = access.lanes
        self.places = access.places
        table = (len(names), warps)
        #: per register: the last group, from 1, that writes it, and that reads it; the instruction of its last product
        self.fills, self.reads, self.issued = np.zeros((3, *table), np.int64)
        #: the shape code of the product that writes a register; the instruction (plus 1) of an access since the fence
        self.shapes, self.touches = np.zeros((2, *table), np.int64)
        #: the number of groups that each warp has committed, and has waited for
        self.committed, self.complete = np.zeros((2, warps), np.int64)
        #: True for warps that have executed a fence
        self.fenced = np.zeros(warps, bool)

    def fence(self, here: Index) -> None:
        self.fenced[here] = True
        self.touches[:, here] = 0

    def touched(self, touched: Touched) -> None:
        """Check and record accesses to the registers of products by instructions other than wgmma."""
        here = self.warps_here()
        rows = np.array(touched.read + touched.wrote, np.int64)[:, None]
        wrote = np.arange(rows.size)[:, None] >= len(touched.read)
        early = self.fills[rows, here] > self.complete[here]
        if np.count_nonzero(early):
            self.report_early(touched, early, "is an accumulator of", "put wgmma.wait_group between the two")
        changed = (self.reads[rows, here] > self.complete[here]) & wrote
        if np.count_nonzero(changed):
            self.report_early(touched, changed, "is still read by", "put wgmma.wait_group before the change")
        self.touches[rows, here] = np.array(touched.at, np.int64)[:, None] + 1

    def take(self, form: ProductForm, here: Index, d_rows: Index, a_rows: Index, pc: int) -> None:
        """Check that the registers of a product are free and fenced, and mark them as used by it."""
        if not self.fenced[here].all():
            self.fail(f"no wgmma.fence precedes a product\n  {self.places.describe(pc)}", pc)
        rows = np.concatenate((d_rows, a_rows))[:, None]
        stale = np.argwhere(self.touches[rows, here])
        if stale.size:
            row, warp = rows[stale[0][0], 0], here[stale[0][1]]
            other = int(self.touches[row, warp]) - 1
            self.fail(
                f"{self.warp_name(warp)} multiplies with register {self.names[row]}\n  {self.places.describe(pc)}\n"
                f"which was accessed, without a wgmma.fence since, at\n  {self.places.describe(other)}", pc, other,
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
        """Check that no product in flight writes these registers, except as accumulators of `shape` (-1 for none)."""
        busy = self.fills[rows, here] > self.complete[here]
        if shape >= 0:
            busy &= self.shapes[rows, here] != shape + np.arange(rows.size)[:, None]
        wrong = np.argwhere(busy)
        if wrong.size:
            self.report_product(int(rows[wrong[0][0], 0]), int(here[wrong[0][1]]), pc)

    def report_product(self, row: int, warp: int, pc: int) -> NoReturn:
        other = int(self.issued[row, warp])
        self.fail(
            f"{self.warp_name(warp)} multiplies with register {self.names[row]}\n  {self.places.describe(pc)}\n"
            f"which a product in flight uses differently\n  {self.places.describe(other)}",
            pc, other, "put wgmma.wait_group between the two",
        )

    def report_early(self, touched: Touched, wrong: NDArray[np.bool_], what: str, hint: str) -> NoReturn:
        at, column = (int(x) for x in np.argwhere(wrong)[0])
        row, warp = (touched.read + touched.wrote)[at], int(self.warps_here()[column])
        verb = "reads" if at < len(touched.read) else "writes"
        pc, other = touched.at[at], int(self.issued[row, warp])
        self.fail(
            f"{self.warp_name(warp)} {verb} register {self.names[row]}\n  {self.places.describe(pc)}\n"
            f"which {what} a product that was not waited for\n  {self.places.describe(other)}", pc, other, hint,
        )

    def fail(
        self, message: str, pc: int, other: int | None = None, hint: str = "put wgmma.fence before the product"
    ) -> NoReturn:
        pcs = [pc] if other is None else [pc, other]
        threads = self.lanes.numbers(self.lanes.positions())
        raise AsyncHazardError(message, hint=hint, instructions=pcs, threads=threads)

    def warps_here(self) -> Index:
        warp = self.lanes.get("chunk_warp")
        if self.lanes.whole_warps():
            return warp.reshape(-1, WARP)[:, 0]
        return fast_unique(warp)

    def warp_name(self, warp: int) -> str:
        cta, inside = divmod(int(warp), self.lanes.warps_per_cta)
        return self.lanes.describe_position(cta * self.lanes.threads + inside * WARP)


def _shape_code(form: ProductForm) -> int:
    """Return a code for the shape and type of accumulators, to which the index of a register can be added."""
    return 1000 * (form.n * 3 + ("f32", "f16", "s32").index(form.d))
