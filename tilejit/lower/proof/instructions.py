"""PTX instructions carried out on tags.

source: PTX ISA, "shfl.sync", "ldmatrix", "stmatrix", "cp.async".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...dtypes import float32
from ...ir.nodes import Instruction, Vector
from ...isa import matrix, row_called
from ...isa.atomics import RED_VECTOR
from ...isa.barriers import VOTES
from ...isa.convert import NARROW_PAIR, PAIRS, SPLIT_TF32, TF32
from ...isa.cp_async import COPIES, Copy
from ...isa.inline import is_inline
from ...isa.mma import MMA
from ...isa.opaque import CTA_DEPTH, XOR
from ...isa.tcgen05 import LD, ST, WAIT_LD, WAIT_ST
from ...isa.tma import BULK_COMMIT, BULK_LOAD, BULK_STORE, LOADS, STORES
from ...isa.warp import ELECT, REDUX, SHUFFLE_INDEX, SHUFFLE_XOR
from ...scopes import Scope
from ...target import WARP
from . import tags
from .bulk import box, run, tensor_memory
from .matrices import mma, wgmma
from .trace import Active, Trace

_Step = Callable[[Trace, Instruction, Active], None]


def carry_out(trace: Trace, stmt: Instruction, active: Active) -> None:
    step = _STEPS.get(stmt.name) or (wgmma if stmt.name.startswith("wgmma.m") else None)
    row = row_called(stmt.name)
    if step is None and row is not None and is_inline(row):
        step = _inline
    assert step is not None, f"the proof can't trace the instruction {stmt.name}"
    step(trace, stmt, active)


def _vector(operand: Any) -> Vector:
    assert isinstance(operand, Vector), f"{operand} should be a place"
    return operand


def _shuffle(lanes: Callable[[Any, Any], Any], trace: Trace, stmt: Instruction, active: Active) -> None:
    source, by = _vector(stmt.inputs[0]), trace.number(stmt.inputs[1])  # type: ignore[arg-type]
    (value,) = trace.read(source)
    sender = trace.thread // WARP * WARP + lanes(trace.thread % WARP, by) % WARP
    assert sender.max() < len(trace.thread), "a lane receives from one that doesn't exist"
    assert active is None or active[sender[active]].all(), "a lane receives from one that doesn't send"
    made = value[..., sender] if isinstance(value, np.ndarray) and value.shape[-1] > 1 else value
    trace.write(stmt.outputs[0], [made], active)


def _pair(name: str, trace: Trace, stmt: Instruction, active: Active) -> None:
    """Carry out an elementwise operation on two elements."""
    args = [trace.read(_vector(operand)) for operand in stmt.inputs]
    trace.write(stmt.outputs[0], [trace.operation(name, list(each)) for each in zip(*args, strict=True)], active)


def _narrow(dtype: Any, trace: Trace, stmt: Instruction, active: Active) -> None:
    values = trace.read(_vector(stmt.inputs[0]))
    trace.write(stmt.outputs[0], [tags.combined(f"{float32} to {dtype}", [tags.tag(v)]) for v in values], active)


def _async_copy(form: Copy, trace: Trace, stmt: Instruction, active: Active) -> None:
    dst, src = _vector(stmt.inputs[0]), _vector(stmt.inputs[1])
    size = src.buffer.dtype.bytes
    assert dst.width * size == src.width * size == form.size, f"{stmt.name} doesn't copy {src.width} elements"
    values, zero = trace.read(src), tags.zero(src.buffer.dtype)
    if form.edge:
        limit: Any = trace.number(stmt.inputs[2])  # type: ignore[arg-type]
        kept = [limit == 0 if form.edge == "ignore" else limit >= (k + 1) * size for k in range(src.width)]
        values = [tags.chosen(each, value, zero) for each, value in zip(kept, values, strict=True)]
    trace.write(dst, values, active)


def _matrix(form: matrix.MatrixForm, loads: bool, trace: Trace, stmt: Instruction, active: Active) -> None:
    """Move 8x8 tiles of 16-bit elements: lane 8j + i has the address of row i of tile j.

    Lane l has elements 2(l%4) and 2(l%4)+1 of row l//4 of each tile, or of column l//4 if transposed.
    """
    place, words = _vector(stmt.inputs[0]), stmt.outputs if loads else stmt.inputs[1:]
    _, start, parts, _ = trace.places(place)
    assert parts == 1 and len(words) == form.num, f"{stmt.name} takes {form.num} words of 16-bit elements"
    warp, lane = trace.thread // WARP * WARP, trace.thread % WARP
    if active is not None:
        assert (active.reshape(-1, WARP).all(axis=1) == active.reshape(-1, WARP).any(axis=1)).all(), "a warp diverges"
    giving = lane < 8 * form.num
    start = np.broadcast_to(start, trace.thread.shape)
    trace.check(place, start[giving if active is None else giving & active])
    for tile, word in enumerate(words):
        values = trace.read(_vector(word)) if not loads else []
        for half in range(2):
            row, column = lane // 4, 2 * (lane % 4) + half
            row, column = (column, row) if form.trans else (row, column)
            at = start[warp + 8 * tile + row] + column
            if loads:
                values.append(trace.read_memory(place, at))
            else:
                trace.write_memory(place, at, values[half], active)
        if loads:
            trace.write(_vector(word), values, active)


def _redux(trace: Trace, stmt: Instruction, active: Active) -> None:
    assert trace.sums is not None, f"{stmt.name} combines elements that aren't reduced"
    value = np.broadcast_to(tags.tag(trace.value(stmt.inputs[0])), trace.thread.shape)  # type: ignore[arg-type]
    trace.write(stmt.outputs[0], [trace.sums.across(value, WARP)], active)


def _vote(scope: Scope, trace: Trace, stmt: Instruction, active: Active) -> None:
    assert trace.sums is not None and stmt.var is not None, f"{stmt.name} combines elements that aren't reduced"
    value = np.broadcast_to(tags.tag(trace.value(stmt.inputs[-1])), trace.thread.shape)  # type: ignore[arg-type]
    trace.values[stmt.var.name] = trace.sums.across(value, scope.threads(len(value)))


def _move(trace: Trace, stmt: Instruction, active: Active) -> None:
    trace.write(stmt.outputs[0], trace.read(_vector(stmt.inputs[0])), active)


def _depth(trace: Trace, stmt: Instruction, active: Active) -> None:
    trace.registers[stmt.outputs[0].buffer.name] = {0: 1}


def _xor(trace: Trace, stmt: Instruction, active: Active) -> None:
    """Move a value, as `xor` with an opaque zero does."""
    (mask,) = trace.read(_vector(stmt.inputs[1]))
    assert (tags.tag(mask) == tags.tag(0)).all(), f"{stmt.name} changes data"
    _move(trace, stmt, active)


def _elect(trace: Trace, stmt: Instruction, active: Active) -> None:
    assert stmt.var is not None
    trace.values[stmt.var.name] = trace.thread % WARP == 0


def _inline(trace: Trace, stmt: Instruction, active: Active) -> None:
    inputs = [trace.value(each) for each in stmt.inputs]  # type: ignore[arg-type]
    for k, output in enumerate(stmt.outputs):
        # an output of 8 bits is the first of the two elements of a register
        trace.write(output, [tags.of_inline(f"{stmt.name} {k}.{e}", inputs) for e in range(output.width)], active)


def _split(trace: Trace, stmt: Instruction, active: Active) -> None:
    """Give the first part the element's tag, and the second one 0, which adds nothing to sums of products."""
    big, small = stmt.outputs
    trace.write(big, trace.read(_vector(stmt.inputs[0])), active)
    trace.write(small, [np.zeros_like(trace.thread, tags.TAG)], active)


def _nothing(trace: Trace, stmt: Instruction, active: Active) -> None:
    pass


def _red(trace: Trace, stmt: Instruction, active: Active) -> None:
    place, registers = (_vector(each) for each in stmt.inputs)
    trace.update("add", place, [trace.read(registers)], active)


_STEPS: dict[str, _Step] = {
    **{RED_VECTOR.row(form).name: _red for form in RED_VECTOR.forms()},
    ELECT.name: _elect,
    **{row.name: _nothing for row in (BULK_COMMIT, WAIT_LD, WAIT_ST)},
    BULK_LOAD.name: run, BULK_STORE.name: run,
    **{LOADS.row(form).name: partial(box, form, True) for form in LOADS.forms()},
    **{STORES.row(form).name: partial(box, form, False) for form in STORES.forms()},
    **{LD.row(form).name: partial(tensor_memory, form, True) for form in LD.forms()},
    **{ST.row(form).name: partial(tensor_memory, form, False) for form in ST.forms()},
    CTA_DEPTH.name: _depth, XOR.name: _xor, TF32.name: _move, SPLIT_TF32.name: _split,
    **{MMA.row(form).name: partial(mma, form) for form in MMA.forms()},
    **{REDUX.row(form).name: _redux for form in REDUX.forms()},
    **{row.name: partial(_vote, scope) for (_, scope), row in VOTES.items()},
    SHUFFLE_XOR.name: partial(_shuffle, np.bitwise_xor),
    SHUFFLE_INDEX.name: partial(_shuffle, lambda lane, by: by + 0 * lane),
    **{PAIRS.row(pair).name: partial(_pair, pair.operation) for pair in PAIRS.forms()},
    **{NARROW_PAIR.row(dtype).name: partial(_narrow, dtype) for dtype in NARROW_PAIR.forms()},
    **{COPIES.row(form).name: partial(_async_copy, form) for form in COPIES.forms()},
    **{matrix.LDMATRIX.row(form).name: partial(_matrix, form, True) for form in matrix.LDMATRIX.forms()},
    **{matrix.STMATRIX.row(form).name: partial(_matrix, form, False) for form in matrix.STMATRIX.forms()},
}
