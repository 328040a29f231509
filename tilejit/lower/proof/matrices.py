"""Products of tensor cores on tags.

An element of the accumulator that gains the products of A[m, k] and B[k, n] gains the sum, modulo 2^64, of the products
of their tags: a missing product, or one too many, changes the sum. Padding along k is 0 in both factors or in neither.
source: PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f64 ...", "... m16n8k4", "... m16n8k8", "... m16n8k16 with
floating point type", "... m16n8k32"; "Register Fragments for wgmma.mma_async.m64nNk16" and those for other k; "Shared
Memory Matrix Layout", "Matrix Descriptor Format", "Strides", "Swizzling Modes".
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from ...dtypes import DType
from ...ir.nodes import Descriptor, Instruction, Vector
from ...isa.mma import MMA_N, Mma
from ...isa.wgmma import WGMMA_M, FactorPlace, WgmmaForm
from ...target import WARP, WARPGROUP
from . import tags
from .tags import TAG, Array, Value, tag
from .trace import Active, Trace

#: the factors' tags of 0: their product is 0 modulo 2^64, but that of one of them and another tag isn't
_ZEROS = np.uint64(0x9E3779B1 << 32), np.uint64(0x85EBCA6B << 32)


def multiplied(a: Array, b: Array, types: tuple[DType, DType]) -> Array:
    """Return what the accumulator gains from matrices of tags. types: those of A and B."""
    sides = zip((a, b), types, _ZEROS, strict=True)
    left, right = (np.where(each == tag(tags.zero(dtype)), zero, each) for each, dtype, zero in sides)
    # so that A @ B isn't B @ A, nor that of tags that are sums
    return np.asarray(left @ np.where(right == _ZEROS[1], right, tags.mixed(right)))


def mma(form: Mma, trace: Trace, stmt: Instruction, active: Active) -> None:
    assert active is None, f"{stmt.name} is executed by some threads only"
    read = iter(_elements(trace, stmt.inputs))
    pack, rows = form.pack, form.m // 8
    lane, i = np.indices((WARP, 2 * rows))
    places = lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2
    sums = _matrix(read, places, form.m, MMA_N)
    lane, i = np.indices((WARP, form.m * form.k // WARP))
    along = lane % 4 * pack + i % pack
    a = _matrix(read, (lane // 4 + 8 * (i // pack % rows), along + 4 * pack * (i // (rows * pack))), form.m, form.k)
    lane, i = np.indices((WARP, form.k * MMA_N // WARP))
    b = _matrix(read, (lane % 4 * pack + i % pack + 4 * pack * (i // pack), lane // 4), form.k, MMA_N)
    assert next(read, None) is None, f"{stmt.name} takes fewer registers"
    _write(trace, stmt.outputs, sums + multiplied(a, b, (form.a, form.b)), places)


def wgmma(trace: Trace, stmt: Instruction, active: Active) -> None:
    form = WgmmaForm.called(stmt.name)
    assert form is not None and active is None, f"the proof can't trace the instruction {stmt.name}"
    one = form.product
    count = len(stmt.outputs)
    thread, i = np.indices((WARPGROUP, WGMMA_M * one.n // WARPGROUP))
    row = thread // WARP * 16 + thread % WARP // 4
    places = row + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * (thread % 4) + i % 2
    blocks = list(product(range(form.m), range(form.n)))
    read = iter(_elements(trace, stmt.inputs[:count]))
    sums = {at: _matrix(read, places, WGMMA_M, one.n)[0] for at in blocks}
    rest = list(stmt.inputs[count:-1])
    split = len(rest) - form.n * form.k
    right = dict(zip(product(range(form.n), range(form.k)), rest[split:], strict=True))
    left: dict[tuple[int, int], Array] = {}
    if one.a_place is FactorPlace.REGISTERS:
        pack, read = 32 // one.a.bits, iter(_elements(trace, rest[:split]))
        thread, i = np.indices((WARPGROUP, WGMMA_M * one.k // WARPGROUP))
        row = thread // WARP * 16 + thread % WARP // 4 + 8 * (i // pack % 2)
        column = thread % 4 * pack + i % pack + 4 * pack * (i // (2 * pack))
        left = {at: _matrix(read, (row, column), WGMMA_M, one.k)[0] for at in product(range(form.m), range(form.k))}
    else:
        every = zip(product(range(form.m), range(form.k)), rest[:split], strict=True)
        left = {at: _in_memory(trace, each, one.a_place, (WGMMA_M, one.k)) for at, each in every}
    factors = {at: _in_memory(trace, each, one.b_place, (one.n, one.k)).T for at, each in right.items()}
    accumulate = trace.number(stmt.inputs[-1])  # type: ignore[arg-type]
    outputs = iter(stmt.outputs)
    for at in blocks:
        total = sums[at] if accumulate else np.zeros_like(sums[at])
        for k in range(form.k):
            total = total + multiplied(left[at[0], k], factors[at[1], k], (one.a, one.b))
        vectors, width = [], 0
        while width < places[0].shape[1]:
            vectors.append(next(outputs))
            width += vectors[-1].width
        _write(trace, vectors, total[None], places)


def _elements(trace: Trace, operands: Any) -> Iterator[Array]:
    """Yield the tags of each element of registers."""
    for operand in operands:
        assert isinstance(operand, Vector), f"{operand} should be registers"
        for value in trace.read(operand):
            yield np.broadcast_to(tag(value), trace.thread.shape)


def _matrix(read: Iterator[Array], places: tuple[Array, Array], rows: int, columns: int) -> Array:
    """Return the matrix, of shape (groups, rows, columns), of the next elements of each group of threads."""
    threads, count = places[0].shape
    taken = np.stack([next(read) for _ in range(count)], axis=-1).reshape(-1, threads, count)
    made = np.empty((len(taken), rows, columns), TAG)
    made[:, places[0], places[1]] = taken
    return made


def _write(trace: Trace, vectors: Any, matrix: Array, places: tuple[Array, Array]) -> None:
    values = iter(matrix[:, places[0], places[1]].reshape(len(trace.thread), -1).T)
    for vector in vectors:
        made: list[Value] = [next(values) for _ in range(vector.width)]
        trace.write(vector, made, None)


#: mode of a descriptor -> the bits of an address that are XORed with the bits three places higher
_SWIZZLED = {0: 0, 1: 0x70, 2: 0x30, 3: 0x10}

_FIELD = 0x3FFF


def _in_memory(trace: Trace, operand: Any, place: FactorPlace, shape: tuple[int, int]) -> Array:
    """Return the tags that an instruction reads by a descriptor. shape: (M or N, k)."""
    assert isinstance(operand, Descriptor), f"{operand} should be a descriptor"
    _, start, parts, size = trace.places(operand.place)
    (at,) = set(np.atleast_1d(start).tolist())
    constant = operand.constant + (at * size >> 4 & _FIELD)
    read = read_at(constant, place is FactorPlace.MN_MAJOR, shape, size)
    assert parts == 1 and (read % size == 0).all(), "a read starts inside an element"
    return trace.read_memory(operand.place, read // size)


def read_at(descriptor: int, is_mn_major: bool, shape: tuple[int, int], size: int) -> Array:
    """Return the address at which an instruction reads each element. shape: (M or N, k). size: bytes of an element."""
    start, lbo, sbo = (16 * (descriptor >> bit & _FIELD) for bit in (0, 16, 32))
    mode = descriptor >> 62
    width = (16 << (4 - mode if mode else 0)) // size
    other, k = np.indices(shape)
    if is_mn_major:
        address = start + other // width * lbo + k // 8 * sbo + (k % 8 * width + other % width) * size
    else:
        # with a swizzle, all k of an instruction are in one row of the swizzle's width
        address = start + other // 8 * sbo + (other % 8 * width + (k if mode else k % width)) * size
        address = address + (0 if mode else k // width * lbo)
    return np.asarray(address ^ (address >> 3 & _SWIZZLED[mode]))
