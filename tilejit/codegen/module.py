"""Compilation of a lane-level kernel to an LLVM module and to PTX."""

from __future__ import annotations

import time

from ..dataclass import dataclass
from ..errors import assert_never
from ..executable import SharedPlace
from ..ir import walk
from ..ir.analyses.register_pool import sets_registers
from ..ir.nodes import Assert, Buffer, Instruction, Kernel
from ..ir.params import (
    AddressParam,
    AssertionsParam,
    BarrierParam,
    ExtentParam,
    PointerParam,
    ScalarParam,
    StrideParam,
    TensorMapParam,
)
from ..ir.placements import TMEM, within
from ..isa import ROWS, Row
from ..isa.inline import is_inline
from ..source import Span
from ..target import Target
from . import barriers, memory, storage
from .debug import LineTable
from .emission import Emission, LLVMValue
from .operations import definition
from .ptxas_faults import without_faults
from .registers import Registers
from .statements import block
from .target_machine import TRIPLE, FrontPasses, compile_text
from .tensor_memory import ADDRESS_WORD, release, reserve
from .types import memory_type, register_type
from .writer import Writer


@dataclass(frozen=True, slots=True)
class Generated:
    """The result of code generation for one kernel."""

    llvm_ir: str
    ptx: str
    #: the kernel's name in the PTX
    entry: str
    #: column c of a `.loc` (1-based) refers to spans[c - 1]
    spans: tuple[Span, ...]
    shared_map: tuple[SharedPlace, ...]
    #: code c of an assertion record refers to assertions[c - 1]
    assertions: tuple[Assert, ...]
    specials: frozenset[str]
    timings: dict[str, float]


def generate(kernel: Kernel, target: Target) -> Generated:
    """Compile a lane-level kernel whose buffers have been placed.

    raises: KernelTypeError for an operation without an implementation, DispatchError for an instruction that the target
    doesn't have, DeviceError if LLVM can't be used.
    """
    began = time.perf_counter()
    buffers = tuple(storage.allocations(kernel.body))
    entry = storage.legal(kernel.name)
    table = LineTable(entry, kernel.span)
    emission = Emission(kernel, target, Writer(table), storage.uses_of_views(kernel.body))
    text = _module(emission, buffers, entry)
    written = time.perf_counter()
    # most of the examples' kernels need no passes
    passes = FrontPasses(bool(emission.functions), emission.writer.foldable or emission.tests_first)
    ptx, timings = compile_text(text, target, version(emission), passes)
    return Generated(
        llvm_ir=text,
        ptx=without_faults(ptx),
        entry=entry,
        spans=tuple(table.spans),
        shared_map=_shared_map(kernel, buffers),
        assertions=tuple(emission.assertions),
        specials=frozenset(emission.specials),
        timings={"emit": 1e3 * (written - began), **timings},
    )


def _shared_map(kernel: Kernel, buffers: tuple[Buffer, ...]) -> tuple[SharedPlace, ...]:
    spans = {buffer.name: buffer.span for buffer in buffers}
    return tuple([
        SharedPlace(placement.name, variable[1:], first, placement.count, spans[placement.name])
        for placement, variable, first in storage.shared_variables(kernel.memory)
    ])


def version(emission: Emission) -> tuple[int, int]:
    """Return the lowest PTX version, at least 6.3, that supports the target and all capabilities used."""
    return max(emission.target.ptx, *(instruction.ptx for instruction in emission.used), (6, 3))


def _module(emission: Emission, buffers: tuple[Buffer, ...], entry: str) -> str:
    kernel, table = emission.kernel, emission.writer.line_table
    shared, bases = storage.shared_globals(kernel.memory)
    emission.bases.update(bases)
    _bind_parameters(emission)
    addressed = storage.local_memory(kernel.body)
    for buffer in addressed:
        kind = f"[{buffer.size_bytes} x i8]"
        emission.bases[buffer.name] = emission.writer.alloca(kind, memory.WIDEST_BYTES)
    emission.moved_on = storage.moved_on(kernel.body)
    for buffer in buffers:
        if buffer.space == "local" and buffer not in addressed:
            emission.registers[buffer.name] = _registers(buffer)
    _name_sums(emission)
    emission.writer.at(kernel.span)
    shared += _body(emission)
    return "\n".join([
        f'target triple = "{TRIPLE}"',
        *emission.strings.values(),
        *shared,
        *emission.writer.declarations,
        f"define ptx_kernel void @{entry}({_parameters(emission)}) #0{table.function_attachment} {{",
        "entry:",
        *emission.writer.entry,
        *(registers.declaration for registers in emission.registers.values() if registers.prefix),
        *emission.writer.lines(),
        "}",
        *(definition(*key) for key in reversed(emission.functions)),
        f"attributes #0 = {{ {_attributes(kernel)} }}",
        *table.metadata(),
        "",
    ])


def _body(emission: Emission) -> list[str]:
    """Emit the kernel's body and return the definitions of shared variables that it needs for tensor memory."""
    barriers.set_up(emission)
    has_tensor_memory = bool(within(emission.kernel.memory, TMEM))
    address = reserve(emission) if has_tensor_memory else ""
    block(emission, emission.kernel.body, is_last=True)
    emission.writer.leave()
    if not has_tensor_memory:
        return []
    release(emission, address)
    return [ADDRESS_WORD]


def _attributes(kernel: Kernel) -> str:
    parts = ["nounwind", f'"nvvm.maxntid"="{kernel.threads}"']
    if sets_registers(kernel):
        # lets ptxas determine the register count at entry; otherwise it ignores setmaxnreg (warning C7508)
        parts.append('"nvvm.minctasm"="1"')
    if kernel.max_registers is not None:
        parts.append(f'"nvvm.maxnreg"="{kernel.max_registers}"')
    if kernel.cluster is not None:
        parts.append(f'"nvvm.cluster_dim"="{",".join(map(str, kernel.cluster))}"')
    return " ".join(parts)


def _bind_parameters(emission: Emission) -> None:
    for number, param in enumerate(emission.kernel.params):
        name = f"%p{number}"
        match param:
            case PointerParam(buffer=buffer):
                emission.bases[buffer.name] = name
            case ScalarParam(var=var) | ExtentParam(var=var) | StrideParam(var=var) | AddressParam(var=var):
                text = emission.writer.value(f"icmp ne i8 {name}, 0") if var.dtype.kind == "bool" else name
                emission.scalars[var.name] = LLVMValue(text, var.dtype)
            case BarrierParam(buffer):
                emission.bases[buffer.name] = name
            case TensorMapParam(var=var):
                emission.scalars[var.name] = LLVMValue(emission.writer.value(f"ptrtoint ptr {name} to i64"), var.dtype)
            case AssertionsParam():
                emission.record = name
            case _:
                assert_never(param)


def _parameters(emission: Emission) -> str:
    """Return the parameter list. The body must have been emitted: its loads determine the attributes of pointers."""
    texts: list[str] = []
    # volatile inline PTX may write where an integer parameter points
    has_inline = any(row.memory and is_inline(row) for row in emission.used if isinstance(row, Row))
    for number, param in enumerate(emission.kernel.params):
        match param:
            case PointerParam(buffer=buffer):
                is_read = param.noalias and not param.written and not has_inline
                constant = is_read and buffer.name not in emission.ordered
                texts.append(f"ptr addrspace(1) {_pointer_attributes(buffer, constant)}%p{number}")
            case ScalarParam(var=var) | ExtentParam(var=var) | StrideParam(var=var) | AddressParam(var=var):
                texts.append(f"{memory_type(var.dtype)} %p{number}")
            case AssertionsParam() | BarrierParam():
                texts.append(f"ptr addrspace(1) %p{number}")
            case TensorMapParam():
                kind = f"byval([{param.size_bytes} x i8]) align {param.align_bytes}"
                texts.append(f'ptr {kind} "nvvm.grid_constant" %p{number}')
            case _:
                assert_never(param)
    return ", ".join(texts)


def _pointer_attributes(buffer: Buffer, constant: bool) -> str:
    """Return the attributes of a pointer: its alignment, and `noalias` if `constant`.

    constant: the kernel writes neither the array nor one that overlaps it, has no volatile inline PTX, and no load of
    the array is volatile or has a memory order.

    On a written array `noalias` would be wrong even without overlap: LLVM assumes that no other thread writes it, and
    reuses values that were loaded before a barrier. `readonly` is omitted because LLVM would emit `ld.global.nc`, and
    ptxas moves such loads past barriers to their uses. That slows down layernorm's backward pass, which prefetches
    a row: from 0.94 of a copy's speed to 0.87 at 8,192 columns. `readonly` made no kernel faster.
    """
    align = f"align {buffer.align} "
    return f"noalias {align}" if constant else align


def _registers(buffer: Buffer) -> Registers:
    size = buffer.size_bytes
    # a buffer of two bytes gets a 16-bit register: a lone 16-bit value then needs no packing
    bits = 16 if size == 2 else max(buffer.dtype.bits, 32)
    narrow = buffer.dtype.bits < bits
    words, kind = -(-size * 8 // bits), f"i{bits}" if narrow else register_type(buffer.dtype)
    # elements of padding may never be written, but computations read them like the others
    return Registers(words, bits, kind, zeroed=bool(buffer.slots))


def _name_sums(emission: Emission) -> None:
    """Give PTX names to the registers of the buffers that instructions accumulate into.

    A buffer's registers get no names if an accumulated vector doesn't consist of whole registers, or if an asynchronous
    instruction also fills the buffer without accumulating: a move before the wait would read a stale register.
    """
    rows = [(stmt, ROWS[stmt.name]) for stmt in walk.each(emission.kernel.body, Instruction)]
    sums = [vector for stmt, row in rows if row.accumulates for vector in stmt.outputs]
    others = {vector.buffer.root.name for vector in sums if memory.whole_registers(emission, vector) is None}
    filling = [s for s, row in rows if row.starts is not None and row.starts.fills and not row.accumulates]
    others |= {vector.buffer.root.name for stmt in filling for vector in stmt.outputs}
    for name in dict.fromkeys([vector.buffer.root.name for vector in sums]):
        if name not in others:
            emission.registers[name].give_names(f"%{storage.legal(name)}_".replace("$", "$$"))
