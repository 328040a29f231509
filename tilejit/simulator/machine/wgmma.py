"""wgmma: asynchronous matrix products of warpgroups. They form groups (commit_group), which complete in order.

A product is computed when it is issued, so a missing wait_group never changes a value; checks report it. For a GPU,
ptxas inserts the wait.

source: PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions"; in it, "Shared Memory Matrix
Layout" and "Matrix Descriptor Format".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass
from ...errors import AsyncHazardError, SimulationError
from ..checks.agents import Agents, Start
from ..checks.clocks import products_of
from ..decode.emitter import Touched
from ..numerics.fragments import fragment
from ..numerics.products import Doubles, ProductForm, from_chunks
from .access import Access
from .lanes import WARP, WARPGROUP, Index
from .operations import AddressRun, Operations, address_run
from .tensor_map import BY_CODE, CHUNK_BYTES, AddressSwizzle
from .warp import Warps

#: number of rows of A and D
ROWS = 64
CORE_ROWS = 8
# size of A and of B along K in one instruction, in bytes
STEP_BYTES = 32
_UNUSED = (0b11 << 14) | (0b11 << 30) | (0b111 << 46) | (0x3FF << 52)


class WgmmaGroups:
    """The wgmma instructions of a chunk's warpgroups. Generated code calls the methods."""

    def __init__(self, names: Sequence[str], warps: Warps, access: Access, operations: Operations) -> None:
        self.lanes = access.lanes
        self.warps = warps
        self.registers = ProductRegisters(names, warps.count, access)
        self.access = access
        self.agents = Agents(access.checker, operations) if access.checker is not None else None
        #: the event of each warp's last recorded read of operands in shared memory
        self.latest: Index = np.zeros(warps.count, np.int64)
        #: for each warp and each group that it has committed, the event of its last product before the commit
        self.events: list[list[int]] = [[] for _ in range(warps.count)]

    def fence(self, pc: int) -> None:
        self.registers.fence(self.here(pc))

    def commit(self, pc: int) -> None:
        here = self.here(pc)
        self.registers.committed[here] += 1
        for warp in here.tolist():
            self.events[warp].append(int(self.latest[warp]))

    def wait(self, newest: int, pc: int) -> None:
        """wgmma.wait_group: complete all but the last `newest` groups of each warp."""
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
        self,
        form: ProductForm,
        a: Any,
        b: Any,
        scale: Any,
        start: Sequence[Any],
        d_rows: Index,
        a_rows: Index,
        number: int,
        pc: int,
    ) -> NDArray[Any]:
        """wgmma.mma_async: return D's registers (old: `start`). a: a descriptor or registers. scale: scale-d."""
        self.warps.whole_groups(pc)
        lanes = self.lanes
        if self.agents is not None:
            self.registers.take(form, self.lanes.warps(), d_rows, a_rows, pc)
        groups = lanes.n // WARPGROUP
        right = self.operand(b, "B", form.b, form.n, form.trans_b, number, pc)
        if isinstance(a, tuple):
            left = fragment("a", f"m16n8k{form.k}", form.a).doubles(a, lanes.n).reshape(groups, ROWS, -1)
        else:
            left = self.operand(a, "A", form.a, ROWS, form.trans_a, number, pc)
        adds = self.access.uniform(scale, WARPGROUP, "scale-d", pc).astype(bool)
        accumulator = fragment("c", f"m16n{form.n}k{form.k}", form.d)
        c = None
        if adds.any():
            c = accumulator.matrix(start, lanes.n).reshape(groups, ROWS, -1)
            if not adds.all():
                c = np.where(adds[:, None, None], c, np.zeros((), c.dtype))
        return accumulator.registers(form.product(left, right, c))

    def here(self, pc: int) -> Index:
        """Return the indices of the executing warps, after checking that all their lanes are executing."""
        self.warps.whole(pc)
        return self.lanes.warps()

    def operand(
        self, descriptor: Any, what: str, element: str, extent: int, transposed: bool, number: int, pc: int
    ) -> Doubles:
        """Return a descriptor's operand, warpgroups × (M or N) × K. raises: SimulationError for a bad descriptor."""
        bits = self.access.uniform(descriptor, WARPGROUP, f"the descriptor of {what}", pc)
        ctas = self.lanes.get("chunk_cta").reshape(-1, WARPGROUP)[:, 0]
        leaders = self.lanes.positions().reshape(-1, WARPGROUP)[:, 0]
        runs, shape = [], (0, 0)
        for one, cta, leader in zip(bits.tolist(), ctas.tolist(), leaders.tolist(), strict=True):
            decoded = decode(one)
            if isinstance(decoded, str):
                message = f"the descriptor of {what}, {one:#018x}, is invalid or not supported: {decoded}"
                raise self.access.failure(SimulationError, np.array([leader]), message, pc)
            chunks = decoded.chunks(extent, transposed)
            shape = chunks.shape
            runs.append(address_run(self.access, self.access.sites[number], cta, chunks.reshape(-1), leader))
        self.note_reads(runs, ctas, leaders)
        return np.stack([from_chunks(run.read().reshape(shape), element, transposed) for run in runs])

    def note_reads(self, runs: Sequence[AddressRun], ctas: Index, leaders: Index) -> None:
        """Check and record reads of operands. Each warp of a warpgroup is represented by its first and last lanes."""
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


class ProductRegisters:
    """Checks of the registers of products that haven't been waited for, in tables of registers × warps.

    Until the wait, only products of the same shape and type may use an accumulator, at the same index; registers of A
    are read-only. wgmma.fence must separate accesses by other instructions from a register's next use in a product.
    """

    def __init__(self, names: Sequence[str], warps: int, access: Access) -> None:
        self.names = names
        self.access = access
        self.lanes = access.lanes
        table = (len(names), warps)
        #: per register and warp: the last group, counted from 1, that writes it; the last that reads it as A; the
        #: instruction of the last product that uses it
        self.fills, self.reads, self.issued = np.zeros((3, *table), np.int64)
        #: per register and warp: its index among the accumulators of the last product that has used it as one, plus
        #: that product's `_shape_code`; the index (plus 1) of another instruction that used it since the fence, or 0
        self.shapes, self.touches = np.zeros((2, *table), np.int64)
        #: the numbers of groups that each warp has committed, and that it has waited for
        self.committed, self.complete = np.zeros((2, warps), np.int64)
        #: True for warps that have executed wgmma.fence
        self.fenced = np.zeros(warps, bool)

    def fence(self, here: Index) -> None:
        self.fenced[here] = True
        self.touches[:, here] = 0

    def touched(self, touched: Touched) -> None:
        """Check and record how instructions other than wgmma access the registers of products."""
        here = self.lanes.warps()
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
            self.fail("no wgmma.fence precedes a product", pc)
        rows = np.concatenate((d_rows, a_rows))[:, None]
        stale = np.argwhere(self.touches[rows, here])
        if stale.size:
            row, warp = rows[stale[0][0], 0], here[stale[0][1]]
            other = int(self.touches[row, warp]) - 1
            what = self.describe(warp, "multiplies with", row)
            self.fail(what, pc, ("which was accessed, without a wgmma.fence since, at", other))
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
        """Check that no product in flight writes `rows`, except as the same accumulators of code `shape` (-1: none)."""
        busy = self.fills[rows, here] > self.complete[here]
        if shape >= 0:
            busy &= self.shapes[rows, here] != shape + np.arange(rows.size)[:, None]
        wrong = np.argwhere(busy)
        if wrong.size:
            self.report_product(int(rows[wrong[0][0], 0]), int(here[wrong[0][1]]), pc)

    def report_product(self, row: int, warp: int, pc: int) -> NoReturn:
        other = "which a product in flight uses differently", int(self.issued[row, warp])
        self.fail(self.describe(warp, "multiplies with", row), pc, other, "put wgmma.wait_group between the two")

    def report_early(self, touched: Touched, wrong: NDArray[np.bool_], what: str, hint: str) -> NoReturn:
        at, column = (int(x) for x in np.argwhere(wrong)[0])
        row, warp = (touched.read + touched.wrote)[at], int(self.lanes.warps()[column])
        verb = "reads" if at < len(touched.read) else "writes"
        other = f"which {what} a product that was not waited for", int(self.issued[row, warp])
        self.fail(self.describe(warp, verb, row), touched.at[at], other, hint)

    def describe(self, warp: int, verb: str, row: int) -> str:
        return f"{self.lanes.describe_warp(warp)} {verb} register {self.names[row]}"

    def fail(
        self, message: str, pc: int, then: tuple[str, int] | None = None,
        hint: str = "put wgmma.fence before the product",
    ) -> NoReturn:
        raise self.access.failure(AsyncHazardError, self.lanes.positions(), message, pc, hint, then)


def _shape_code(form: ProductForm) -> int:
    """Return a code for the shape and type of accumulators, to which the index of a register can be added."""
    return 1000 * (form.n * 3 + ("f32", "f16", "s32").index(form.d))


@dataclass(frozen=True, slots=True)
class MatrixDescriptor:
    """A decoded matrix descriptor, which locates an operand in shared memory. start, leading, stride: in bytes.

    A chunk contains 16 bytes along the contiguous dimension: K of a K-major operand, M or N of an MN-major one.

        bits 0-13    start >> 4                   bits 49-51    base offset
        bits 16-29   leading byte offset >> 4     bits 62-63    swizzle mode
        bits 32-45   stride byte offset >> 4

    Offsets in bytes before swizzling, of chunk c in row r (of M or N; of K if MN-major), for atom rows of w bytes:

        K-major, no swizzle      (r mod 8)·16 + (r div 8)·stride + c·leading
        K-major, swizzled        (r mod 8)·w + (r div 8)·stride + c·16
        MN-major, no swizzle     (r mod 8)·16 + (r div 8)·leading + c·stride
        MN-major, swizzled       (r mod 8)·w + (r div 8)·stride + (c mod w/16)·16 + (c div w/16)·leading
    """

    start: int
    leading: int
    stride: int
    mode: AddressSwizzle

    def chunks(self, extent: int, transposed: bool) -> Index:
        """Return the chunk addresses: (M or N) × 2 for a K-major operand, else (M or N) div 8 × 16 rows of K."""
        return self.mode.apply(self.start + _offsets(self.leading, self.stride, self.mode, extent, transposed))


@lru_cache(maxsize=256)
def _offsets(leading: int, stride: int, mode: AddressSwizzle, extent: int, transposed: bool) -> Index:
    if transposed:
        # elements have 16 bits: a chunk holds 8 of them along M or N, and the operand has 16 rows of K
        chunk, row = np.arange(extent // 8, dtype=np.int64)[:, None], np.arange(STEP_BYTES // 2)[None]
    else:
        row, chunk = np.arange(extent, dtype=np.int64)[:, None], np.arange(STEP_BYTES // CHUNK_BYTES)[None]
    within, block, width = row % CORE_ROWS, row // CORE_ROWS, mode.row_bytes
    if not width:
        per_block, per_chunk = (leading, stride) if transposed else (stride, leading)
        return within * CHUNK_BYTES + block * per_block + chunk * per_chunk
    per_row = width // CHUNK_BYTES
    return within * width + block * stride + chunk % per_row * CHUNK_BYTES + chunk // per_row * leading


def decode(bits: int) -> MatrixDescriptor | str:
    """Return the decoded descriptor, or the reason why it is invalid or not supported."""
    if bits & _UNUSED:
        return f"bits that must be 0 are set: {bits & _UNUSED:#018x}"
    offset = bits >> 49 & 7
    if offset:
        return f"its base offset is {offset}; only 0 is supported, for matrices at multiples of the swizzle's period"
    start, leading, stride = ((bits >> at & 0x3FFF) << 4 for at in (0, 16, 32))
    return MatrixDescriptor(start, leading, stride, BY_CODE[bits >> 62])
