"""Matrix and asynchronous instructions on the threads of `tests.reference.threads`, written from the PTX ISA.

Row i of tile j lies at the address of lane 8j+i; lane l holds elements 2(l%4) and 2(l%4)+1 of row l//4. With `.trans`
the tile is transposed on its way. A cp.async lands when its group has been waited for, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tests.reference.products import multiply, rounded, split
from tilejit.ir import nodes as ir
from tilejit.ops.cast import convert
from tilejit.ops.elementwise import ELEMENTWISE

if TYPE_CHECKING:
    from tests.reference.threads import Threads

Array = np.ndarray

#: (array, index, value) of one element that is on its way
Landing = tuple[Array, int, object]


def carry_out(cta: Threads, stmt: ir.Instruction, active: Array) -> None:
    """One instruction by the active threads."""
    if stmt.name.startswith(("ldmatrix", "stmatrix")):
        matrix(cta, stmt, active)
    elif stmt.name.startswith(("shfl.", "vote.")) and stmt.var is not None:
        lanes(cta, stmt, active)
    elif stmt.name.startswith("mma."):
        multiply(cta, stmt, active)
    elif stmt.name == "cvt.rna.tf32.f32":
        rounded(cta, stmt, active)
    elif stmt.name == "split.tf32.f32":
        split(cta, stmt, active)
    elif stmt.name == "cp.async.commit":
        cta.copies.commit()
    elif stmt.name == "cp.async.wait":
        (count,) = stmt.inputs
        assert isinstance(count, ir.Const)
        cta.copies.wait(int(count.value))
    elif stmt.name.startswith("cp.async"):
        cta.copies.start(cta, stmt, active)
    elif stmt.name in BITWISE:
        bitwise(cta, stmt, active)
    elif stmt.name == "elect" and stmt.var is not None:
        # which lane it is, the instruction doesn't say
        cta.assign(stmt.var, cta.numbers % 32 == 0, active)
    elif stmt.name == "mov.u32.ntid.z":
        cta.put(place(stmt.outputs[0]), [np.ones(cta.threads, np.uint32)], active)
    else:
        pair(cta, stmt, active)


BITWISE = {"xor.b32": np.bitwise_xor, "and.b32": np.bitwise_and}


def place(output: object) -> ir.Vector:
    assert isinstance(output, ir.Vector)
    return output


def bitwise(cta: Threads, stmt: ir.Instruction, active: Array) -> None:
    """An operation on the 32 bits of two registers, whatever elements these hold."""
    inputs = [np.stack(cta.get(v, active), axis=1).view(np.uint32) for v in stmt.inputs if isinstance(v, ir.Vector)]
    output = place(stmt.outputs[0])
    elements = BITWISE[stmt.name](*inputs).view(output.buffer.dtype.numpy)
    cta.put(output, list(elements.T), active)


def pair(cta: Threads, stmt: ir.Instruction, active: Array) -> None:
    """Instructions that compute a pair of elements, each as the operation on its own."""
    opcode = stmt.name.split(".")[0]
    name = {"cvt": "cast", "max": "maximum", "min": "minimum"}.get(opcode, opcode)
    inputs = [cta.get(v, active) for v in stmt.inputs if isinstance(v, ir.Vector)]
    (output,) = stmt.outputs
    pairs = list(zip(*inputs, strict=True))
    if name == "cast":
        cta.put(output, [convert(x, output.buffer.dtype) for (x,) in pairs], active)
    else:
        cta.put(output, [np.asarray(ELEMENTWISE[name].formula(*values)) for values in pairs], active)


def lanes(cta: Threads, stmt: ir.Instruction, active: Array) -> None:
    """A shuffle or a vote by all whole warps that are active."""
    assert stmt.var is not None
    kind, mode, *_ = stmt.name.split(".")
    values = [cta.value(i, active) for i in stmt.inputs if not isinstance(i, ir.Vector)]
    result = np.zeros(cta.threads, stmt.var.dtype.numpy)
    for first in range(0, cta.threads, 32):
        warp = np.arange(first, first + 32)
        assert active[warp].all() == active[warp].any(), f"a part of a warp carries out {stmt.name}"
        if kind == "vote":
            ballot = sum(int(holds) << lane for lane, holds in enumerate(values[0][warp]))
            result[warp] = {"any": ballot != 0, "all": ballot == 2**32 - 1, "ballot": ballot}[mode]
            continue
        own, by = np.arange(32), values[1][warp]
        source = {"idx": by, "bfly": own ^ by, "up": own - by, "down": own + by}[mode]
        inside = (source >= 0) & (source < 32)
        result[warp] = values[0][first + np.where(inside, source, own)]
    cta.assign(stmt.var, result, active)


def matrix(cta: Threads, stmt: ir.Instruction, active: Array) -> None:
    """ldmatrix or stmatrix by all whole warps that are active."""
    mnemonic, size, *trans = stmt.name.split(".")
    loads = mnemonic == "ldmatrix"
    row, *words = (v for v in (*stmt.inputs, *stmt.outputs) if isinstance(v, ir.Vector))
    assert size == f"x{len(words)}" and row.buffer.space == "shared" and all(w.width == 2 for w in words)
    memory = cta.memory[row.buffer.root.name]
    addresses = cta.value(row.offset, active)
    registers = [(cta.registers[w.buffer.root.name], cta.value(w.offset, active)) for w in words]
    for first in range(0, cta.threads, 32):
        warp = active[first : first + 32]
        assert len(warp) == 32 and warp.all() == warp.any(), f"a part of a warp carries out {stmt.name}"
        if not warp.any():
            continue
        for tile, (values, at) in enumerate(registers):
            for i in range(8):
                place = int(addresses[first + 8 * tile + i])
                assert place % 8 == 0 and 0 <= place <= len(memory) - 8, f"{stmt.name}: row at element {place}"
                for k in range(8):
                    r, c = (k, i) if trans else (i, k)
                    lane = first + 4 * r + c // 2
                    register = int(at[lane]) + c % 2
                    if loads:
                        values[lane, register] = memory[place + k]
                    else:
                        memory[place + k] = values[lane, register]


class AsyncCopies:
    """The cp.async of one CTA, all threads in step: those not committed, and the groups that haven't landed."""

    def __init__(self) -> None:
        self.open: list[Landing] = []
        self.groups: list[list[Landing]] = []

    def start(self, cta: Threads, stmt: ir.Instruction, active: Array) -> None:
        dst, src = (v for v in stmt.inputs[:2] if isinstance(v, ir.Vector))
        each = dst.buffer.dtype.bytes
        size = int(stmt.name.split(".")[2])
        assert dst.width * each == size and src.width == dst.width
        whole = np.full(cta.threads, size)
        counts = cta.value(stmt.inputs[2], active) if len(stmt.inputs) == 3 else whole  # type: ignore[arg-type]
        if stmt.name.endswith(".ignore"):
            counts = np.where(counts, 0, size)
        targets, sources = (cta.value(v.offset, active) for v in (dst, src))
        memory, outside = cta.memory[dst.buffer.root.name], cta.memory[src.buffer.root.name]
        for thread in np.flatnonzero(active):
            count, to, at = int(counts[thread]), int(targets[thread]), int(sources[thread])
            assert 0 <= count <= size and count % each == 0
            assert to % dst.width == 0 and 0 <= to <= len(memory) - dst.width
            for k in range(dst.width):
                inside = k * each < count
                assert not inside or 0 <= at + k < len(outside), f"{src} leaves the tensor"
                self.open.append((memory, to + k, outside[at + k] if inside else 0))
            assert at % src.width == 0 or count == 0

    def commit(self) -> None:
        self.groups.append(self.open)
        self.open = []

    def wait(self, unfinished: int) -> None:
        landing = self.groups[: len(self.groups) - unfinished]
        self.groups = self.groups[len(landing) :]
        for group in landing:
            for memory, at, value in group:
                memory[at] = value
