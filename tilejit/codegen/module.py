"""A kernel at lane level to an LLVM module, and that to PTX."""

from __future__ import annotations

import time

from ..dataclass import dataclass
from ..dtypes import DType
from ..errors import assert_never
from ..executable import SharedPlace
from ..ir.analyses.register_pool import sets_registers
from ..ir.nodes import Assert, Buffer, Kernel
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
from ..source import Span
from ..target import Target
from . import barriers, functions, memory, storage
from .debug import LineTable
from .emission import Emission, LLVMValue
from .ptxas_faults import without_faults
from .registers import Registers
from .statements import block
from .target_machine import TRIPLE, FrontPasses, compile_text
from .tensor_memory import release, reserve
from .types import memory_type, register_type
from .view_uses import uses_of_views
from .writer import Writer


@dataclass(frozen=True, slots=True)
class Generated:
    """What code generation makes of one kernel.

    entry: the kernel's name in the PTX. spans: column c of a `.loc` (1-based) stands for spans[c - 1].
    shared_map: what lies where in shared memory.
    assertions: those of the kernel; a record's code - 1 counts in it.
    asked: the hardware's numbers that the kernel asks for, by their names.
    timings: milliseconds by stage.
    """

    llvm_ir: str
    ptx: str
    entry: str
    spans: tuple[Span, ...]
    shared_map: tuple[SharedPlace, ...]
    assertions: tuple[Assert, ...]
    asked: frozenset[str]
    timings: dict[str, float]


def generate(kernel: Kernel, target: Target) -> Generated:
    """PTX of a kernel at lane level whose buffers have their places.

    raises: KernelTypeError for an operation without implementation, DispatchError for an instruction that the target
    doesn't have.
    """
    began = time.perf_counter()
    buffers = tuple(storage.allocations(kernel.body))
    entry = storage.legal(kernel.name)
    table = LineTable(entry, kernel.span)
    emission = Emission(kernel, target, Writer(table), view_uses=uses_of_views(kernel))
    text = _module(emission, buffers, entry)
    written = time.perf_counter()
    ptx, timings = compile_text(text, target, version(emission), _passes(emission))
    return Generated(
        llvm_ir=text,
        ptx=without_faults(ptx),
        entry=entry,
        spans=tuple(table.spans),
        shared_map=_shared_map(kernel, buffers),
        assertions=tuple(emission.assertions),
        asked=frozenset(emission.asked),
        timings={"emit": 1e3 * (written - began), **timings},
    )


def _shared_map(kernel: Kernel, buffers: tuple[Buffer, ...]) -> tuple[SharedPlace, ...]:
    spans = {buffer.name: buffer.span for buffer in buffers}
    return tuple([
        SharedPlace(placement.name, variable[1:], first, placement.count, spans[placement.name])
        for placement, variable, first in storage.shared_variables(kernel.memory)
    ])


def version(emission: Emission) -> tuple[int, int]:
    """The PTX version: the newest of what the target and the instructions used need, and no newer."""
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
        *(functions.definition(*key) for key in reversed(emission.functions)),
        f"attributes #0 = {{ {_attributes(kernel)} }}",
        *table.metadata(),
        "",
    ])


def _passes(emission: Emission) -> FrontPasses:
    """The passes that would find something in what was written.

    Of the 69 kernels of examples 39 need none, and 18 only the one that inlines functions: with all passes their SASS
    is as long.
    """
    return FrontPasses(bool(emission.functions), emission.writer.foldable or emission.tests_first)


def _body(emission: Emission) -> list[str]:
    """Writes the statements; returns the definitions of shared memory that they need."""
    barriers.set_up(emission)
    if not within(emission.kernel.memory, TMEM):
        block(emission, emission.kernel.body, is_last=True)
        emission.writer.leave()
        return []
    definition, address = reserve(emission)
    block(emission, emission.kernel.body, is_last=True)
    emission.writer.leave()
    release(emission, address)
    return [definition]


def _attributes(kernel: Kernel) -> str:
    parts = ["nounwind", f'"nvvm.maxntid"="{kernel.threads}"']
    if sets_registers(kernel):
        # else ptxas doesn't know how many registers a thread starts with, and leaves the instructions out
        parts.append('"nvvm.minctasm"="1"')
    if kernel.max_registers is not None:
        parts.append(f'"nvvm.maxnreg"="{kernel.max_registers}"')
    if kernel.cluster is not None:
        parts.append(f'"nvvm.cluster_dim"="{",".join(map(str, kernel.cluster))}"')
    return " ".join(parts)


def _bind_parameters(emission: Emission) -> None:
    """Binds each parameter to what it defines."""
    for number, param in enumerate(emission.kernel.params):
        name = f"%p{number}"
        match param:
            case PointerParam(buffer=buffer):
                emission.bases[buffer.name] = name
            case ScalarParam(var=var) | ExtentParam(var=var) | StrideParam(var=var) | AddressParam(var=var):
                emission.scalars[var.name] = _number(emission, var.dtype, name)
            case BarrierParam(buffer):
                emission.bases[buffer.name] = name
            case TensorMapParam(var=var):
                emission.scalars[var.name] = LLVMValue(emission.writer.value(f"ptrtoint ptr {name} to i64"), var.dtype)
            case AssertionsParam():
                emission.record = name
            case _:
                assert_never(param)


def _parameters(emission: Emission) -> str:
    """The parameter list, when it is known how the body uses the parameters."""
    texts: list[str] = []
    for number, param in enumerate(emission.kernel.params):
        match param:
            case PointerParam(buffer=buffer):
                constant = param.noalias and not param.written and buffer.name not in emission.ordered
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


def _number(emission: Emission, dtype: DType, name: str) -> LLVMValue:
    if dtype.kind == "bool":
        name = emission.writer.value(f"icmp ne i8 {name}, 0")
    return LLVMValue(name, dtype)


def _pointer_attributes(buffer: Buffer, constant: bool) -> str:
    """What LLVM may assume of the pointer: its alignment, and that nothing changes what it points at.

    It isn't said that the kernel only reads it: then LLVM makes `ld.global.nc` of its loads, and ptxas moves those
    behind barriers, next to their use. A row that was loaded ahead of the sums in front of it arrived too late:
    layernorm's backward pass of 8,192 columns reached 0.87 of a copy's speed, and 0.94 with plain loads. Else neither
    is faster.
    constant: nobody changes the array while the kernel runs; not so where a load of it is ordered, as then others do.
    `noalias` stands only on an array that the kernel never writes and that, as the signature proves, no other argument
    overlaps. On an array that is written it would be wrong even without overlap: LLVM assumes that no other thread
    writes it at a barrier, and uses the value from before.
    """
    align = f"align {buffer.align} "
    return f"noalias {align}" if constant else align


def _registers(buffer: Buffer) -> Registers:
    """A thread's part of a local buffer."""
    size = buffer.size_bytes
    # 16 bits by themselves have a register of that width: nothing is to be put together
    bits = 16 if size == 2 else max(buffer.dtype.bits, 32)
    narrow = buffer.dtype.bits < bits
    words, kind = -(-size * 8 // bits), f"i{bits}" if narrow else register_type(buffer.dtype)
    # padding may be written on no way, and is computed with like all else
    return Registers(words, bits, kind, zeroed=bool(buffer.slots))


def _name_sums(emission: Emission) -> None:
    """Gives names to the registers to which instructions add, where these are whole ones.

    Not to those that others fill later: what a move takes from a register in front of the wait isn't there yet.
    """
    sums = storage.sums(emission.kernel.body)
    others = {vector.buffer.root.name for vector in sums if memory.run_of(emission, vector) is None}
    others |= storage.filled_later(emission.kernel.body) if sums else set()
    for name in dict.fromkeys([vector.buffer.root.name for vector in sums]):
        if name not in others:
            emission.registers[name].give_names(f"%{storage.legal(name)}_".replace("$", "$$"))
