"""Bulk copies, TMA and copies of tensor memory on tags.

source: PTX ISA, "cp.async.bulk", "Tensors" (a box is contiguous in shared memory, apart from swizzling), "tcgen05.ld"
and "tcgen05.st".
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...ir.nodes import Instruction, Var, Vector
from ...isa.tcgen05 import Transfer
from ...isa.tma import BoxForm
from ...layout import Swizzle
from ...layout.tensor_memory import TCGEN05_SHAPES
from ...target import TMEM_LANE
from ..schedule.placement import global_strides
from ..variants.copy_async_tcgen05_ldst import pattern
from . import tags
from .tags import Array, tag
from .trace import TMEM_PITCH, Active, Trace

#: bytes to which both sides of a bulk copy and the rows of a box are aligned
_UNIT = 16


def run(trace: Trace, stmt: Instruction, active: Active) -> None:
    """Copy contiguous bytes, by one thread."""
    dst, src, size = stmt.inputs[:3]
    assert isinstance(dst, Vector) and isinstance(src, Vector)
    thread = _one_thread(trace, stmt, active)
    assert trace.number(size) == src.width * src.buffer.dtype.bytes == dst.width * dst.buffer.dtype.bytes  # type: ignore[arg-type]
    sides = [_starts(trace, side, thread) + np.arange(side.width) for side in (dst, src)]
    for side, places in zip((dst, src), sides, strict=True):
        _need_aligned(side, places[:1])
    trace.memory_of(dst).write(sides[0], trace.read_memory(src, sides[1]))


def box(form: BoxForm, loads: bool, trace: Trace, stmt: Instruction, active: Active) -> None:
    """Copy a box of a tensor, by one thread; elements outside the tensor are 0, or aren't stored."""
    thread, inputs = _one_thread(trace, stmt, active), list(stmt.inputs)
    at: Any = inputs.pop(0) if loads else None
    name = inputs.pop(0)
    assert isinstance(name, Var), f"{name} should be a tensor map"
    spec = trace.maps[name.name]
    coordinates = [_of_thread(trace.number(each), thread) for each in inputs[: form.rank]]  # type: ignore[arg-type]
    at = at if loads else inputs[form.rank]
    assert isinstance(at, Vector) and at.width == prod(spec.box), f"{at} should be a box"
    tensor = trace.roots[spec.of]
    strides = global_strides(tensor)
    assert strides is not None and spec.dtype == at.buffer.dtype
    start = _starts(trace, at, thread)
    _need_aligned(at, start)
    shared = Swizzle.for_dtype(spec.dtype, spec.swizzle).apply(start + np.arange(at.width))
    within = [index.ravel() for index in np.indices(tuple(reversed(spec.box)))][::-1]
    places, inside = np.zeros(at.width, np.int64), np.ones(at.width, bool)
    for axis, first, index in zip(spec.axes, coordinates, within, strict=False):
        stride, extent = (x if isinstance(x, int) else trace.number(x) for x in (strides[axis], tensor.shape[axis]))
        places += (first + index) * stride
        inside &= (first + index >= 0) & (first + index < extent)
    assert coordinates[0] * spec.dtype.bytes % _UNIT == 0, f"a box starts at {coordinates[0]}, unaligned"
    memory = trace.memory[tensor.name]
    if loads:
        values = np.where(inside, memory.read(places), tag(tags.zero(spec.dtype)))
        trace.memory_of(at).write(shared, values)
    else:
        memory.write(places[inside], trace.read_memory(at, shared)[inside])


def tensor_memory(transfer: Transfer, loads: bool, trace: Trace, stmt: Instruction, active: Active) -> None:
    """Move words between registers and tensor memory."""
    assert active is None, f"{stmt.name} is executed by some threads only"
    form = TCGEN05_SHAPES[transfer.shape]
    (place, *_), registers = stmt.inputs, (stmt.outputs if loads else stmt.inputs[1:])[0]
    assert isinstance(place, Vector) and isinstance(registers, Vector)
    packed = 4 // registers.buffer.dtype.bytes
    count = registers.width // packed
    assert count == transfer.num * form.registers, f"{stmt.name} moves {count} registers"
    lane, column = pattern(form)
    first = np.broadcast_to(trace.number(place.offset), trace.thread.shape)
    row, start = first // TMEM_LANE, first % TMEM_LANE
    unit, k = np.divmod(np.arange(count)[:, None], form.registers)
    columns = start + unit * form.columns + column[trace.thread, k]
    there = (row + lane[trace.thread, k]) * TMEM_PITCH + packed * columns
    places = (there[:, None] + np.arange(packed)[:, None]).reshape(-1, len(trace.thread))
    if loads:
        trace.write(registers, list(trace.read_memory(place, places)), active)
    else:
        values = [np.broadcast_to(tag(value), trace.thread.shape) for value in trace.read(registers)]
        trace.write_memory(place, places, np.stack(values), active)


def _one_thread(trace: Trace, stmt: Instruction, active: Active) -> int:
    threads = np.flatnonzero(np.ones(len(trace.thread), bool) if active is None else active)
    assert len(threads) == 1, f"{len(threads)} threads execute {stmt.name}"
    return int(threads[0])


def _of_thread(value: Any, thread: int) -> int:
    # a scope of one thread has arrays of one number
    return int(value[thread]) if isinstance(value, np.ndarray) and value.size > 1 else int(np.asarray(value).item())


def _starts(trace: Trace, vector: Vector, thread: int) -> Array:
    _, start, parts, _ = trace.places(vector)
    assert parts == 1, f"{vector.buffer.name} is copied in parts of elements"
    return np.array([_of_thread(start, thread)])


def _need_aligned(vector: Vector, start: Array) -> None:
    size, align = vector.buffer.dtype.bytes, vector.buffer.align
    is_aligned = start[0] * size % _UNIT == 0 and align % _UNIT == 0
    assert is_aligned, f"{vector.buffer.name} is accessed at {start[0]}, unaligned"
