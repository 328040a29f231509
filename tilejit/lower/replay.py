"""Proof by enumeration: what a plan moves, against what the layouts say.

Nothing here knows how plans are made; places come from the layouts, element by element.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from ..ir.nodes import Buffer, Region, Strided, TileOp
from ..layout import TileLayout
from . import copy_async_tcgen05_ldst, copy_ldstmatrix, copy_reg, elementwise_reg, gemm_mma
from .evaluate import evaluate
from .launch import launch_values
from .matrix_tiles import ROW
from .owner_copy import OwnerCopy
from .partition import Partition
from .regions import THREADS
from .replay_gemm import replay_gemm

__all__ = ["addresses", "owners_of", "replay"]

Array = np.ndarray


def replay(plan: object, op: TileOp) -> None:
    """Raise AssertionError unless each element of the operation is moved once, from and to the right place.

    Variables in starts count as 0, run-time strides as `launch_values` says.
    """
    if isinstance(plan, Partition):
        _replay_memory(plan)
    elif isinstance(plan, copy_reg.Plan):
        _replay_registers(plan, plan.memory.region, plan.registers.region, op.scope)
        _aligned(plan.transfers()[:, [2 if plan.loads else 3]], plan.vector_width)
    elif isinstance(plan, copy_ldstmatrix.Plan):
        _replay_registers(plan, plan.memory.region, plan.registers.region, op.scope)
        _aligned(plan.schedule()[:, 2:], ROW)
    elif isinstance(plan, copy_async_tcgen05_ldst.Plan):
        _replay_tensor_memory(plan, op)
    elif isinstance(plan, OwnerCopy):
        _replay_registers(plan, plan.memory, plan.registers, op.scope)
    elif isinstance(plan, elementwise_reg.Plan):
        _replay_elementwise(plan, op)
    elif isinstance(plan, gemm_mma.Plan):
        replay_gemm(plan, op, owners_of)


def _replay_memory(plan: Partition) -> None:
    dst, *sources = (s.region for s in plan.sides)
    known = launch_values((dst, *sources))
    expected = np.stack([*(_along(r, dst, known) for r in sources), addresses(dst, known)], axis=1)
    rows = plan.transfers()
    last = rows.shape[1] - 2
    moving = [c for c in range(2, last) if not plan.single[c - 1]]
    _same("(sources, destination)", _expanded(rows, (*moving, last))[:, 2:-1], expected)
    _aligned(rows[:, [*moving, last]], plan.vector_width)
    assert rows[:, 1].max(initial=0) < plan.threads, "a thread that the scope doesn't have"
    assert len(rows) == 0 or rows[:, 0].max() == plan.rounds - 1, "more rounds than the plan says"


def _along(region: Region, dst: Region, known: Mapping[str, int]) -> Array:
    """The address of the element of `region` that goes with each of `dst`."""
    found = addresses(region, known)
    if len(found) == prod(dst.shape):
        return found
    return np.broadcast_to(found.reshape(region.shape), dst.shape).ravel()


def _replay_registers(
    plan: copy_reg.Plan | copy_ldstmatrix.Plan | OwnerCopy, place: Region, tile: Region, scope: str
) -> None:
    memory = addresses(place)
    owners, registers = owners_of(tile, scope)
    if not plan.loads:
        first = owners.argmin(axis=0)
        owners, registers = (np.take_along_axis(x, first[None], axis=0) for x in (owners, registers))
    expected = np.stack([np.broadcast_to(memory, owners.shape), owners, registers], axis=-1).reshape(-1, 3)
    at, to = (2, 3) if plan.loads else (3, 2)
    rows = _expanded(plan.transfers(), (2, 3))
    _same("(memory, thread, register)", rows[:, [at, 1, to]], expected)


def _replay_tensor_memory(plan: copy_async_tcgen05_ldst.Plan, op: TileOp) -> None:
    dst, src = (o for o in op.operands[:2] if isinstance(o, Region))
    local, tmem = (dst, src) if plan.loads else (src, dst)
    owners, registers = owners_of(local, op.scope)
    assert isinstance(tmem.buffer.layout, TileLayout)
    there = _places(tmem.buffer.layout, tmem.buffer, _coordinates(tmem, {}))
    packed = 32 // tmem.dtype.bits
    none = np.zeros((1, 1), np.int64)
    columns = (owners, registers, there.get("TLane", none), there.get("TCol", none))
    expected = np.stack([c.ravel() for c in np.broadcast_arrays(*columns)], axis=1)
    rows = plan.transfers()[:, 1:] * (1, packed, 1, packed)
    every = _expanded(np.column_stack([rows, np.full(len(rows), packed)]), (1, 3))[:, :-1]
    _same("(thread, register, lane, column)", every, expected)


def _replay_elementwise(plan: elementwise_reg.Plan, op: TileOp) -> None:
    regions = [o for o in op.operands if isinstance(o, Region)]
    owners, registers = owners_of(regions[0], op.scope)
    steps = plan.schedule()
    rows = _expanded(
        np.column_stack([steps, np.full(len(steps), plan.vector_width)]), tuple(range(2, steps.shape[1]))
    )[:, :-1]
    expected = np.stack([owners.ravel(), registers.ravel()], axis=1)
    _same("(thread, register)", rows[:, [1, -1]], expected)
    found = {(int(r[1]), int(r[-1])): r[2:-1] for r in rows}
    for column, given in enumerate(regions[1:]):
        places = _holders(given, regions[0], op.scope)
        for thread, register, index in zip(owners.ravel(), registers.ravel(), _indices(owners), strict=True):
            held = places[int(index)]
            at = (int(thread), int(found[int(thread), int(register)][column]))
            assert at in held, f"thread {at[0]} computes with register {at[1]} of {given.buffer.name}, not {held}"


def _indices(owners: Array) -> Array:
    return np.broadcast_to(np.arange(owners.shape[1]), owners.shape).ravel()


def _holders(given: Region, dst: Region, scope: str) -> list[set[tuple[int, int]]]:
    """For each element of `dst` the places of the element of `given` that broadcasts to it."""
    owners, registers = owners_of(given, scope)
    flat = np.arange(prod(given.shape)).reshape(given.shape)
    wanted = np.broadcast_to(flat, dst.shape).ravel()
    return [set(zip(owners[:, i].tolist(), registers[:, i].tolist(), strict=True)) for i in wanted]


# ---- what the layouts say -----------------------------------------------------------------------------------


def _coordinates(region: Region, known: Mapping[str, int]) -> list[Array]:
    """Each element's index in every dimension of the buffer, the region's elements in row-major order."""
    spans = [
        np.arange(1 if e is None else e) + int(evaluate(s, known))
        for s, e in zip(region.starts, region.extents, strict=True)
    ]
    return [g.ravel() for g in np.meshgrid(*spans, indexing="ij")] if spans else []


def addresses(region: Region, values: Mapping[str, int] | None = None) -> Array:
    """Where each element of a region of memory lives.

    values: of variables, those of `launch_values` unless given; what they don't name is 0.
    """
    known = launch_values((region,)) if values is None else values
    layout, at = region.buffer.layout, _coordinates(region, known)
    if isinstance(layout, Strided):
        strides = [s if isinstance(s, int) else known[s.name] for s in layout.strides]
        return np.asarray(sum(x * s for x, s in zip(at, strides, strict=True)))
    places = _places(layout, region.buffer, at)
    return np.asarray(sum(places.values(), start=np.zeros(1, np.int64))[0])


def owners_of(region: Region, scope: str) -> tuple[Array, Array]:
    """(thread, register) of each element, one row a replica."""
    layout = region.buffer.layout
    assert isinstance(layout, TileLayout)
    zero = np.zeros((1, prod(region.shape)), np.int64)
    thread, register = zero, zero
    for name, values in _places(layout, region.buffer, _coordinates(region, {})).items():
        if name in THREADS["cta"]:
            thread = thread + values * THREADS[scope][name]
        else:
            register = register + values
    both = np.broadcast_arrays(thread, register)
    return both[0], both[1]


def _places(layout: TileLayout, buffer: Buffer, at: list[Array]) -> dict[str, Array]:
    """Axis name -> coordinate of each element, one row a replica."""
    shape = tuple(n for n in buffer.shape if isinstance(n, int))
    grouped, ends = layout.group(shape)
    here: dict[str, Array] = {axis.name: np.full(1, value) for axis, value in layout.offset}
    for index, first, last in zip(at, ends, ends[1:], strict=False):
        rest = index
        for k in reversed(range(first, last)):
            it = grouped.shard[k]
            digit, rest = (rest, rest) if k == first else (rest % it.extent, rest // it.extent)
            here[it.axis.name] = here.get(it.axis.name, np.zeros(1, np.int64)) + digit * it.stride
    here = {name: value[None] for name, value in here.items()}
    copy = np.arange(prod(it.extent for it in layout.replica))
    for it in layout.replica:
        digit, copy = copy % it.extent, copy // it.extent
        here[it.axis.name] = here.get(it.axis.name, np.zeros((1, 1), np.int64)) + digit[:, None] * it.stride
    if layout.swizzle is not None:
        here["m"] = layout.swizzle.apply(here.get("m", np.zeros((1, 1), np.int64)))
    return here


# ---- comparing ----------------------------------------------------------------------------------------------


def _expanded(rows: Array, columns: tuple[int, ...]) -> Array:
    """One row an element from one row a vector, whose width is the last column."""
    widths = rows[:, -1]
    every = np.repeat(rows, widths, axis=0)
    step = np.arange(len(every)) - np.repeat(np.cumsum(widths) - widths, widths)
    for c in columns:
        every[:, c] += step
    return every


def _same(what: str, found: Array, expected: Array) -> None:
    assert len(found) == len(expected), f"{len(found)} elements are moved; {len(expected)} should be"
    a, b = (x[np.lexsort(x.T[::-1])] for x in (found, expected))
    wrong = np.flatnonzero((a != b).any(axis=1))
    assert len(wrong) == 0, f"{what} {a[wrong[0]].tolist()} is moved where {b[wrong[0]].tolist()} should be"


def _aligned(starts: Array, width: int) -> None:
    wrong = starts[(starts % width).any(axis=1)]
    assert len(wrong) == 0, f"a vector of {width} starts at {wrong[0].tolist()}"
