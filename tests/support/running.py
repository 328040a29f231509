"""Kernels made straight from operands, and their launches.

Around one tile operation a kernel fills every operand's whole storage with known bits, carries the operation out, and
writes the destination's whole storage back, so that an element too many is found as well as one too few.
"""

from __future__ import annotations

import numpy as np

from tests.support.operands import TMEM_LANES, Operand
from tilejit.compiled import Compiled
from tilejit.dtypes import int32, int64
from tilejit.frontend import Parameter, ParameterKind
from tilejit.ir import nodes
from tilejit.ir.arithmetic import build
from tilejit.ir.params import Param, PointerParam, ScalarParam
from tilejit.ir.types import ArgumentType, ArrayType, ScalarType, Signature
from tilejit.layout import TileLayout
from tilejit.pipeline import compile
from tilejit.runtime.device import Device, Launch
from tilejit.runtime.signature import Call
from tilejit.target import target as find_target


def wait_for(operation: nodes.TileOp) -> tuple[nodes.Stmt, ...]:
    """What waits for what an operation has started."""
    if operation.name == "gemm_async":
        return (nodes.Instruction("wgmma.wait", (), (build.const(0, int32),)),)
    if operation.name != "copy_async":
        return ()
    dst, src = (o.buffer.space for o in operation.operands[:2] if isinstance(o, nodes.Region))
    barrier = operation.operand("barrier")
    if isinstance(barrier, nodes.Region):
        place = nodes.Element(barrier.buffer, barrier.starts)
        return nodes.Arrive(place, operation.scope), nodes.WaitPhase(place, build.const(0, int32))
    if (dst, src) == ("global", "shared"):
        return (nodes.Instruction("bulk.wait", (), (build.const(0, int32),)),)
    if "tmem" in (dst, src):
        return (nodes.Instruction("tcgen05.wait.st" if dst == "tmem" else "tcgen05.wait.ld"),)
    return nodes.Instruction("cp.async.commit"), nodes.Instruction("cp.async.wait", (), (build.const(0, int32),))


def kernel_around(
    operation: nodes.TileOp, operands: list[Operand], threads: int, target: str, scalars: tuple[nodes.Var, ...] = ()
) -> nodes.Kernel:
    """The kernel that fills all operands, carries `operation` out and writes the first operand back."""
    body: list[nodes.Stmt] = []
    params: list[Param] = []
    for operand in operands:
        if operand.space == "global":
            params += operand.params(written=operand is operands[0])
            continue
        source = operand.host("in")
        params.append(PointerParam(source.name, source))
        body += [nodes.Alloc(operand.buffer), nodes.BufferView(operand.flat)]
        body += _transfer(operand, source, threads, "fill")
    for symbol in sorted({s for o in operands for s in o.symbols}):
        params.append(ScalarParam(symbol, nodes.Var(symbol, int64)))
    params += [ScalarParam(var.name, var) for var in scalars]
    barrier = operation.operand("barrier") if operation.name == "copy_async" else None
    if isinstance(barrier, nodes.Region):
        body.append(nodes.Alloc(barrier.buffer, arrivals=1))
    if operation.name == "gemm_async":
        body.append(nodes.Instruction("fence.proxy.async"))
    body += [nodes.Sync("cta"), operation, *wait_for(operation), nodes.Sync("cta")]
    if operands[0].space != "global":
        result = operands[0].host("out")
        params.append(PointerParam(result.name, result, written=True))
        body += _transfer(operands[0], result, threads, "dump")
    return nodes.Kernel("case", tuple(params), threads, target, tuple(body))


def _transfer(operand: Operand, host: nodes.Buffer, threads: int, way: str) -> list[nodes.Stmt]:
    """Word by word between an operand's storage and its copy in global memory."""
    thread = build.cast(nodes.Special("thread_id"), int64)

    def one(inside: nodes.Expr, outside: nodes.Expr, tag: str) -> list[nodes.Stmt]:
        near, far = nodes.Element(operand.flat, (inside,)), nodes.Element(host, (outside,))
        source, target = (far, near) if way == "fill" else (near, far)
        value = nodes.Var(f"{operand.name}_{way}_{tag}", operand.word)
        return [nodes.Let(value, nodes.Load(source)), nodes.Store(target, value)]

    if operand.space == "local":
        first = build.mul(thread, build.const(operand.elements, int64))
        places = [build.const(k, int64) for k in range(operand.elements)]
        moved = (one(k, build.add(first, k), str(k.value)) for k in places)
        return [statement for pair in moved for statement in pair]
    if operand.space == "tmem":
        return _transfer_lanes(operand, host, way)
    words = operand.words(operand.elements)
    i = nodes.Var(f"{operand.name}_{way}_i", int64, bounds=(0, words))
    limits = build.const(words, int64), build.const(threads, int64)
    return [nodes.For(i, thread, *limits, tuple(one(i, i, "v")))]


def _transfer_lanes(operand: Operand, host: nodes.Buffer, way: str) -> list[nodes.Stmt]:
    """Between tensor memory and its copy: each thread of a warpgroup the lane of its number."""
    count = operand.columns
    layout = TileLayout.from_iters([(TMEM_LANES, 1, "tid_in_wg"), (count, 1, "m")])
    name = f"{operand.name}_{way}_lane"
    lanes = nodes.Buffer(name, "local", operand.dtype, (TMEM_LANES, count), layout, operand.dtype.bytes)
    row = TileLayout.row_major((count,))
    registers = nodes.Buffer(f"{name}_own", "local", operand.dtype, (count,), row, operand.dtype.bytes, base=lanes)
    zero, first = build.const(0, int64), build.mul(build.cast(nodes.Special("thread_id"), int64), count)
    there, here = (nodes.Region(b, (zero, zero), (TMEM_LANES, count)) for b in (operand.flat, lanes))
    moves: list[nodes.Stmt] = []
    for k in range(count):
        near, far = nodes.Element(registers, (build.const(k, int64),)), nodes.Element(host, (build.add(first, k),))
        source, target = (far, near) if way == "fill" else (near, far)
        value = nodes.Var(f"{name}_{k}", operand.dtype)
        moves += [nodes.Let(value, nodes.Load(source)), nodes.Store(target, value)]
    copy = nodes.TileOp("copy_async", "warpgroup", (there, here) if way == "fill" else (here, there))
    moved = [copy, *wait_for(copy)]
    head: list[nodes.Stmt] = [nodes.Alloc(lanes), nodes.BufferView(registers)]
    return [*head, *moves, *moved] if way == "fill" else [*head, *moved, *moves]


def run(
    kernel: nodes.Kernel, arrays: dict[str, np.ndarray], scalars: dict[str, bool | int | float], device: Device
) -> Compiled:
    """Compiles a tile kernel for its target and launches one CTA of it on `device`; arrays are changed in place.

    arrays: by parameter, of its dtype.
    """
    kinds: list[tuple[str, ArgumentType]] = []
    parameters: list[Parameter] = []
    values: list[np.ndarray | bool | int | float] = []
    for param in kernel.params:
        if isinstance(param, PointerParam):
            array = arrays[param.of]
            kinds.append((param.of, ArrayType(param.buffer.dtype, array.ndim, None, 1, 1)))
            parameters.append(Parameter(param.of, ParameterKind.ARRAY))
            values.append(array)
        elif isinstance(param, ScalarParam):
            kinds.append((param.of, ScalarType(param.var.dtype)))
            parameters.append(Parameter(param.of, ParameterKind.SCALAR, param.var.dtype))
            values.append(scalars[param.of])
    made = compile(kernel, Signature(tuple(kinds)), find_target(kernel.target))
    device.load(made).launch(Launch((1, 1, 1), kernel.threads), Call(parameters, values))
    device.synchronize()
    return made


def launch(
    operation: nodes.TileOp,
    operands: list[Operand],
    held: dict[str, np.ndarray],
    device: Device,
    scalars: dict[nodes.Var, bool | int | float] | None = None,
    target: str | None = None,
) -> tuple[np.ndarray, Compiled]:
    """Runs the kernel around `operation`; returns the first operand's storage, as `held` has it, and what was compiled.

    held: each operand's storage before. scalars: further run-time parameters and their values.
    """
    dst, extra = operands[0], scalars or {}
    target = target or ("sm_90a" if device.number >= 0 else "sm_100a")
    kernel = kernel_around(operation, operands, dst.threads, target, tuple(extra))
    storages = {o.name: aligned(held[o.name], o.buffer.align if o.space == "global" else 0) for o in operands}
    arrays = {o.name if o.space == "global" else f"{o.name}_in": o.view(storages[o.name]) for o in operands}
    result = storages[dst.name]
    if dst.space != "global":
        result = aligned(np.zeros_like(held[dst.name]))
        arrays[f"{dst.name}_out"] = result.view(dst.word.numpy)
    values = {**{name: v for o in operands for name, v in o.symbols.items()}, **{v.name: n for v, n in extra.items()}}
    return result, run(kernel, arrays, values, device)


def aligned(array: np.ndarray, offset: int = 0) -> np.ndarray:
    """The same values `offset` bytes past a multiple of 128."""
    room = np.zeros(array.nbytes + 256, np.uint8)
    start = -room.ctypes.data % 128 + offset % 128
    placed = room[start : start + array.nbytes].view(array.dtype)
    placed[:] = array
    return placed
