"""gemm_async by wgmma: a warpgroup starts all products of a tile, which complete asynchronously.

accepts: on a warpgroup, acc in registers in the layout `tj.wgmma.layout_c`; b in shared memory; a in shared memory, or
    in registers in the layout `tj.wgmma.layout_a`. Operands in shared memory consist of swizzle atoms, or of groups of
    8 unswizzled rows of 16 bytes along k; in atoms of 16-bit elements either dimension may be contiguous, else k must
    be. Element types are those of wgmma; M is a multiple of 64, N of 8, and K of the number of elements in 32 bytes.
emits: one row of `isa.wgmma`: a fence; for each 32 bytes of k, products of 64 rows by as many columns as possible; and
    the commit that groups them. A descriptor is the operand's start address plus a constant.
source: PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions", "Matrix Descriptor Format".
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from ...dataclass import dataclass
from ...dtypes import int32
from ...errors import DispatchError, LayoutError
from ...ir.arithmetic import build
from ...ir.nodes import Buffer, Descriptor, Expr, Input, Instruction, Region, TileOp, Vector
from ...isa.wgmma import K_BYTES, WGMMA, WGMMA_M, FactorPlace, Product, WgmmaForm, is_column_count
from ..builder import Builder
from ..plans import Plan as PlanBase
from ..schedule.fragments import FragmentRun, runs, warpgroup_registers
from ..schedule.swizzle_atoms import Atoms, atoms_of
from ..variant import (
    KNOWN_STARTS,
    RULE_CONDITIONS,
    SHAPES,
    Condition,
    DispatchContext,
    Variant,
    needs,
    on_warpgroup,
)

#: swizzle mode in a descriptor, by the number of bits that the swizzle changes
_MODES = (0, 3, 2, 1)

#: unit of the address and the offsets in a descriptor, in bytes
_UNIT = 16

_CORE_BYTES = 16


@dataclass(frozen=True, slots=True)
class InMemory:
    """A or B in shared memory. tile: rows of A, or columns of B, per product. step: elements along k per product."""

    atoms: Atoms
    is_k_major: bool
    tile: int
    step: int

    @property
    def place(self) -> FactorPlace:
        return FactorPlace.K_MAJOR if self.is_k_major else FactorPlace.MN_MAJOR

    @property
    def fields(self) -> int:
        """A descriptor's fields for the strides and the swizzle mode."""
        lbo = _UNIT if self.is_k_major and self.atoms.bits else self.atoms.lbo_bytes
        return lbo // _UNIT << 16 | self.atoms.sbo_bytes // _UNIT << 32 | _MODES[self.atoms.bits] << 62

    def start(self, block: int, k: int) -> int:
        """Return a product's byte offset from the operand's start. block: index of its rows or columns. k: step."""
        at = (block * self.tile, k * self.step)
        return self.atoms.at(*(at if self.is_k_major else at[::-1])) * self.atoms.element_bits // 8

    def constant(self, block: int, k: int) -> int:
        """Return a product's descriptor for an operand that starts at address 0."""
        return self.fields + self.start(block, k) // _UNIT


@dataclass(frozen=True, slots=True)
class InRegisters:
    """A in registers. taken: the registers that each product reads, by (block of 64 rows, step along k)."""

    buffer: Buffer
    taken: tuple[tuple[tuple[FragmentRun, ...], ...], ...]

    @property
    def place(self) -> FactorPlace:
        return FactorPlace.REGISTERS


@dataclass(frozen=True, slots=True)
class Plan(PlanBase):
    """The products of a tile. sums: the registers of each product's D, by (block of rows, block of columns)."""

    form: WgmmaForm
    sums: tuple[tuple[tuple[FragmentRun, ...], ...], ...]
    a: InMemory | InRegisters
    b: InMemory

    @property
    def products(self) -> Iterator[tuple[int, int, int]]:
        """(block of rows, block of columns, step along k) of each product, in order."""
        for k, i, j in product(range(self.form.k), range(self.form.m), range(self.form.n)):
            yield i, j, k

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        return ((self.form.product.opcode, self.form.m * self.form.n * self.form.k),)

    def schedule(self) -> np.ndarray:
        """Return one row per product: (m, n, k, start of A, start of B), with m, n and k counted in products.

        A start is an offset in bytes from the operand's start; for A in registers, it is the index in a thread's tile
        of the first element that the product reads.
        """
        rows = []
        for i, j, k in self.products:
            a = self.a.start(i, k) if isinstance(self.a, InMemory) else self.a.taken[i][k][0].first
            rows.append((i, j, k, a, self.b.start(j, k)))
        return np.array(rows, np.int64)


def _places(op: TileOp, context: DispatchContext) -> str | None:
    wrong = []
    for name, spaces in (("acc", ("local",)), ("a", ("shared", "local")), ("b", ("shared",))):
        region = op.tiles.get(name)
        if region is not None and region.buffer.space not in spaces:
            wanted = " or ".join("registers" if space == "local" else "shared memory" for space in spaces)
            found = "registers" if region.buffer.space == "local" else f"{region.buffer.space} memory"
            wrong.append(f"{name} is in {found}; needs {wanted}")
    return "; ".join(wrong) or None


def _sizes(op: TileOp, context: DispatchContext) -> str | None:
    if SHAPES.test(op, context) is not None:
        return None
    (rows, columns), (_, depth), dtype = op.region("acc").shape, op.region("a").shape, op.region("a").dtype
    step = K_BYTES * 8 // dtype.bits
    wrong = []
    if rows % WGMMA_M:
        wrong.append(f"acc has {rows} rows; wgmma multiplies {WGMMA_M} at a time")
    if _columns(columns, op) is None:
        wrong.append(f"acc has {columns} columns; needs a multiple of 8")
    if depth % step:
        wrong.append(f"K is {depth}; needs a multiple of {step} ({K_BYTES} bytes)")
    return "; ".join(wrong) or None


def _columns(columns: int, op: TileOp) -> int | None:
    """Return the largest column count of a product that divides `columns`, or None."""
    dtype = op.region("a").dtype
    return next((n for n in range(256, 0, -8) if columns % n == 0 and is_column_count(n, dtype)), None)


def plan(op: TileOp, context: DispatchContext) -> Plan:
    acc, a, b = (op.region(name) for name in ("acc", "a", "b"))
    (rows, columns), depth = acc.shape, a.shape[1]
    n, step = _columns(columns, op), K_BYTES * 8 // a.dtype.bits
    assert n is not None, "`_sizes` rejects other column counts"
    counts = rows // WGMMA_M, columns // n, depth // step
    right = _in_memory(b, "b", n, step, is_k_major=0)
    left = _in_registers(a, counts[2]) if a.buffer.space == "local" else _in_memory(a, "a", WGMMA_M, step, is_k_major=1)
    if not right.is_k_major and counts[1] > 1 and n % right.atoms.row_elements:
        raise LayoutError(
            f"a product has {n} columns; needs a multiple of {right.atoms.row_elements}, the number of contiguous "
            f"columns of {b.buffer.name}",
            hint=f"multiply at most 256 columns at a time, in multiples of {right.atoms.row_elements}",
        )
    instruction = Product(n, a.dtype, b.dtype, acc.dtype, left.place, right.place)
    registers = warpgroup_registers(acc, "acc").reshape(counts[0], counts[1], -1)
    pack = 32 // acc.dtype.bits
    sums = tuple(tuple(runs(block, pack, acc.buffer.name) for block in line) for line in registers)
    return Plan(WgmmaForm(instruction, *counts), sums, left, right)


def _in_registers(a: Region, steps: int) -> InRegisters:
    registers = warpgroup_registers(a, "a")
    blocks = registers.reshape(len(registers), steps, -1)
    pack = 32 // a.dtype.bits
    return InRegisters(a.buffer, tuple(tuple(runs(step, pack, a.buffer.name) for step in line) for line in blocks))


def _in_memory(region: Region, name: str, tile: int, step: int, *, is_k_major: int) -> InMemory:
    """Return A or B in shared memory, or raise LayoutError. is_k_major: the operand's dimension along K."""
    atoms, buffer = atoms_of(region, is_k_major), region.buffer
    by_k = atoms.major == is_k_major
    other_major = "N" if name == "b" else "M"
    if not by_k and region.dtype.bits != 16:
        raise LayoutError(
            f"{name} is {other_major}-major and {region.dtype}; only 16-bit types support that",
            hint=f"store it as ({other_major}, K){' and pass .T' if name == 'b' else ''}",
        )
    if not atoms.bits and (not by_k or atoms.row_bytes != _CORE_BYTES):
        fault = f"has {atoms.row_bytes}-byte rows but no swizzle: its 8-row groups aren't core matrices"
        raise LayoutError(
            f"{name} {fault if by_k else f'is {other_major}-major and has no swizzle'}",
            hint=f'use {buffer.name} = tj.alloc_shared(..., swizzle="128B")',
        )
    return InMemory(atoms, by_k, tile, step)


def emit(plan: Plan, op: TileOp, b: Builder) -> None:
    acc, right = op.region("acc").buffer, op.region("b").buffer
    sums = [part for line in plan.sums for block in line for part in _vectors(acc, block, b)]
    left: list[Input] = []
    if isinstance(plan.a, InRegisters):
        left = [part for line in plan.a.taken for step in line for part in _vectors(plan.a.buffer, step, b)]
    else:
        left = _descriptors(plan.a, op.region("a").buffer, plan.form.m, plan.form.k, b)
    inputs = (*sums, *left, *_descriptors(plan.b, right, plan.form.n, plan.form.k, b), op.condition("accumulate"))
    b.append(Instruction(plan.form.name, tuple(sums), inputs, span=b.span))


def _vectors(buffer: Buffer, registers: tuple[FragmentRun, ...], b: Builder) -> list[Vector]:
    if b.is_addressed(buffer):
        raise DispatchError(
            f"{buffer.name} is in local memory, because it is indexed at run time; wgmma takes registers",
            span=b.span,
            hint="copy it to another tile, and index that one at run time",
        )
    return [Vector(buffer, build.const(run.first, int32), run.width) for run in registers]


def _descriptors(factor: InMemory, buffer: Buffer, blocks: int, steps: int, b: Builder) -> list[Input]:
    start: Expr = b.let("tile", factor.atoms.start)
    place = Vector(buffer, start)
    return [Descriptor(place, factor.constant(i, k)) for i, k in product(range(blocks), range(steps))]


_TO_PLACES = "copy a and b to shared memory first (a may also be in registers); acc must be a local tile"
_TO_SCOPE = "call it on tj.wg, in code that whole warpgroups execute"
_TO_TARGET = 'compile for target="sm_90a"; plain sm_90 has no wgmma'

VARIANT = Variant(
    name="wgmma",
    operations=("gemm_async",),
    priority=10,
    operands=(Condition("places", _places, _TO_PLACES),),
    when=(
        *RULE_CONDITIONS, Condition("warpgroup", on_warpgroup, _TO_SCOPE), Condition("sizes", _sizes),
        KNOWN_STARTS, needs(WGMMA.target, hint=_TO_TARGET),
    ),
    honours=("accumulate",),
    plan=plan,
    emit=emit,
)
