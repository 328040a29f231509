"""Translation of PTX kernels into one Python function per basic block, and placement of their variables.

Translated kernels are cached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ...dataclass import dataclass
from ...errors import UnsupportedInstructionError
from ...gc_pause import gc_paused
from ..machine import memory
from ..numerics import FUNCTIONS
from ..opcodes import lookup
from ..opcodes.memory import Site
from ..opcodes.move import WINDOWS
from . import emitter
from .blocks import JUMP_ROOTS, BasicBlock, liveness, split
from .control_flow import ControlFlow
from .ordering import Ordering
from .parser import parse
from .ptx import Module, PtxFunction, Variable
from .roles import all_roles, roles_of
from .statements import parse_kernel

RUNTIME: dict[str, Any] = {
    **FUNCTIONS, "V16": memory.ELEMENTS["V16"], "V32": memory.ELEMENTS["V32"],
    "elements": memory.elements, "joined": memory.joined,
}

# These are below the addresses of arguments (machine/memory.py) and of a device's memory (device.py).
_FIRST_ADDRESS = {"const": 1 << 16, "global": 1 << 33}
_RED_ZONE_BYTES = 64

Placed = tuple[Variable, int]


@dataclass(frozen=True, slots=True)
class TranslatedBlock:
    """A basic block and its function."""

    block: BasicBlock
    #: run(machine, *inputs) returns (extra, *outputs); extra: the predicate's value, or a barrier's arguments
    run: Callable[..., tuple[Any, ...]]
    #: slots of the registers that the function takes and returns
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    #: slot and dtype of the result of a barrier with reduction
    result: tuple[int, str] | None
    #: number of instructions that each thread executes, counting one for the terminator
    steps: int


@dataclass(frozen=True, slots=True)
class Program:
    """A translated kernel."""

    module: Module
    function: PtxFunction
    blocks: tuple[TranslatedBlock, ...]
    #: register name → slot
    slots: dict[str, int]
    sites: tuple[Site, ...]
    #: variables with their addresses in their state spaces
    placed: tuple[Placed, ...]
    #: state space → log2 of the size in bytes of the cells of `checks/records.py`
    cell_shift: dict[str, int]
    shared_bytes: int
    local_bytes: int
    #: registers live into each block, as bit sets of slots
    live: tuple[int, ...]
    #: value of each slot at the kernel's start
    initial: tuple[Any, ...]
    #: (name, slot) of special registers
    special: tuple[tuple[str, int], ...]
    #: (slot, dtype, offset) of parameters
    params: tuple[tuple[int, np.dtype[Any], int], ...]
    param_parts: tuple[memory.MemoryPart, ...]
    #: (block, bit mask of performance events) for each instruction that triggers any
    events: tuple[tuple[int, int], ...]
    ordering: Ordering
    #: registers that hold D or A of a wgmma
    product_registers: tuple[str, ...]
    #: register that some path reads unwritten → index of the first predicated instruction or load that writes it
    skippable: dict[str, int]
    #: blocks whose first instruction must be executed by whole warpgroups together
    of_warpgroups: frozenset[int]
    control_flow: ControlFlow


def translate(ptx: str, entry: str, dynamic_shared_bytes: int) -> Program:
    """Parse and translate kernel `entry`. raises: UnsupportedInstructionError if anything in it isn't supported."""
    # a cache lookup is cheap, because strings cache their hashes
    return _translate(ptx, entry, dynamic_shared_bytes)


def clear_cache() -> None:
    """Clear the caches of parsed modules and translated kernels."""
    _translate.cache_clear()
    parse.cache_clear()


@lru_cache(maxsize=256)
@gc_paused
def _translate(ptx: str, entry: str, dynamic_shared_bytes: int) -> Program:
    module = parse(ptx)
    if entry not in module.kernels:
        names = ", ".join(module.kernels) or "none"
        raise UnsupportedInstructionError(f"the PTX has no kernel {entry}; it has: {names}")
    function = parse_kernel(module, module.kernels[entry])
    return _Translator(module, function, dynamic_shared_bytes).program()


class _Translator:
    def __init__(self, module: Module, function: PtxFunction, dynamic_shared_bytes: int) -> None:
        self.module = module
        self.function = function
        self.dynamic_shared_bytes = dynamic_shared_bytes
        self.sizes: dict[str, int] = {}
        self.placed = self.place_variables()
        self.product_registers = _product_registers(function)

    def place_variables(self) -> tuple[Placed, ...]:
        placed, places = place_lasting(self.module)
        places.next_free.update(shared=memory.SHARED_BASE, local=memory.LOCAL_BASE)
        variables = [*self.module_buffers(), *self.function.variables.values()]
        # dynamic shared memory comes last, as on a GPU
        placed.extend(places.place(v) for v in sorted(variables, key=lambda v: v.external))
        ends = [at + self.dynamic_shared_bytes for v, at in placed if v.external and v.space == "shared"]
        self.sizes["shared"] = max(places.next_free["shared"], *ends, 0)
        self.sizes["local"] = places.next_free["local"]
        return tuple(placed)

    def module_buffers(self) -> list[Variable]:
        buffers = [v for v in self.module.variables.values() if v.space in ("shared", "local")]
        if not buffers:
            return []
        named = {x for ins in self.function.body for x in ins.names()}
        return [v for v in buffers if v.name in named]

    def check_labels(self) -> None:
        """Raise an error for unsupported forms of jumps and undefined labels. Emission doesn't check jumps."""
        tables = self.function.branch_tables
        for ins in self.function.body:
            if ins.root not in JUMP_ROOTS:
                continue
            names: tuple[str, ...] = ins.operands if ins.root == "bra" else ()
            if ins.root == "brx":
                names = tables.get(ins.operands[-1], (ins.operands[-1],))
            missing = [x for x in names if x not in self.function.labels]
            count = {"bra": 1, "brx": 2}.get(ins.root, 0)
            if missing or len(ins.operands) != count or lookup(ins.root, ins.suffix) is None:
                what = f"label {missing[0]} is not defined" if missing else f"this form of {ins.root} is not supported"
                raise self.module.source.refusal(what, ins.line)

    def program(self) -> Program:
        self.check_labels()
        blocks = split(self.function)
        emitters, names = self.emit(blocks, frozenset())
        live = self.live(blocks, emitters)
        undefined = self.undefined(names, live[0] if live else 0)
        if undefined:
            emitters, names = self.emit(blocks, undefined)
            live = self.live(blocks, emitters)
        return self.assemble(blocks, emitters, names, live)

    def undefined(self, names: emitter.KernelNames, live: int) -> frozenset[str]:
        """Return the registers that some path reads unwritten, except those that LLVM declares undefined."""
        return frozenset(
            name
            for name, slot in names.slots.items()
            if live >> slot & 1 and name not in emitter.SPECIAL and name not in self.function.undefined
            and not name.startswith(("%param:", "%tid", "%carry"))
        )

    def emit(
        self, blocks: list[BasicBlock], undefined: frozenset[str]
    ) -> tuple[list[emitter.BlockWriter], emitter.KernelNames]:
        function = self.function
        addresses = {v.name: at for v, at in self.placed}
        # addresses are relative to the state space of the variable or parameter; cvta makes them generic
        params = {p.name: p.offset for p in function.params}
        addresses = self.module.code_addresses | addresses | params
        names = emitter.KernelNames({**function.registers, "%carry": 32}, addresses, params)
        names.namespace.update(RUNTIME)
        names.loaded_later = _loaded_later(function)
        names.unread = _unread(function)
        if prod(function.bounds.cluster or (1,)) > 1:
            names.shared = frozenset(v.name for v, _ in self.placed if v.space == "shared")
        names.product_rows = {name: row for row, name in enumerate(self.product_registers)}
        if undefined:
            names.set_undefined(undefined, all_roles(function))
        return [self.emit_block(block, names) for block in blocks], names

    def emit_block(self, block: BasicBlock, names: emitter.KernelNames) -> emitter.BlockWriter:
        e = emitter.BlockWriter(names, self.module)
        e.call_params = self.function.call_params
        body = self.function.body
        for pc in block.pcs:
            ins = body[pc]
            e.begin(ins, pc)
            entry = lookup(ins.root, ins.suffix)
            if entry is None:
                e.fail(f"{ins.root}{ins.suffix} is not supported")
            write, match = entry
            try:
                write(e, match)
            except IndexError:
                e.fail("an operand is missing")
            e.end()
        if block.predicate:
            e.begin(body[block.end_pc], block.end_pc)
            dtype = "p" if block.kind == "branch" else "u4"
            value = e.read(block.predicate, dtype)
            e.check_defined(block.predicate, value)
            e.extra = value
        return e

    def live(self, blocks: list[BasicBlock], emitters: list[emitter.BlockWriter]) -> list[int]:
        uses = [sum(1 << s for s in e.inputs) for e in emitters]
        defs = [sum(1 << s for s in e.written) for e in emitters]
        return liveness(blocks, uses, defs)

    def assemble(
        self, blocks: list[BasicBlock], emitters: list[emitter.BlockWriter], names: emitter.KernelNames, live: list[int]
    ) -> Program:
        sources = []
        outputs: list[tuple[int, ...]] = []
        for block, e in zip(blocks, emitters, strict=True):
            after = 0
            for target in block.targets:
                after |= live[target] if target >= 0 else 0
            out = [s for s in e.written if after >> s & 1]
            outputs.append(tuple(out))
            sources.append(e.finish(f"b{block.index}", out, e.extra))
        exec(compile("".join(sources), f"<ptx {self.function.name}>", "exec"), names.namespace)
        compiled = tuple(
            TranslatedBlock(
                block, names.namespace[f"b{block.index}"], tuple(e.inputs), out, e.result_slot,
                len(block.pcs) + 1,
            )
            for block, e, out in zip(blocks, emitters, outputs, strict=True)
        )
        body = self.function.body
        homes = [h or f"u{b // 8}" for h, b in zip(names.home, names.bits, strict=True)]
        return Program(
            module=self.module,
            function=self.function,
            blocks=compiled,
            slots=dict(names.slots),
            sites=tuple(names.sites),
            placed=self.placed,
            cell_shift=_cell_shift(names.sites),
            shared_bytes=self.sizes["shared"] - memory.SHARED_BASE,
            local_bytes=self.sizes["local"] - memory.LOCAL_BASE,
            live=tuple(live),
            initial=tuple(memory.ELEMENTS[h].type(0) for h in homes),
            special=tuple((n, s) for n, s in names.slots.items() if n in emitter.SPECIAL),
            params=_params(names.slots),
            param_parts=tuple(memory.MemoryPart(p.name, p.offset, p.size_bytes, False) for p in self.function.params),
            events=tuple((b.index, body[pc].events) for b in blocks for pc in b.pcs if body[pc].events),
            ordering=Ordering.of(body, names.sites),
            product_registers=self.product_registers,
            skippable=names.skippable,
            of_warpgroups=frozenset(b.index for b in blocks if b.warps > 1),
            control_flow=ControlFlow(self.function, blocks, names.sites, names.slots, live),
        )


def _cell_shift(sites: list[Site]) -> dict[str, int]:
    """Return the log2 of the size in bytes of the narrowest access to each state space: at most 4; 2 without accesses.

    Parts of wider accesses and of copies don't count.
    """
    result = {}
    for space in ("shared", "global", "local"):
        shifts = [s.shift for s in sites if s.space in (space, "") and not s.part]
        result[space] = min(min(shifts, default=2), 4)
    return result


def _params(slots: dict[str, int]) -> tuple[tuple[int, np.dtype[Any], int], ...]:
    named = ((name.split(":"), slot) for name, slot in slots.items() if name.startswith("%param:"))
    return tuple((slot, memory.ELEMENTS[dtype], int(offset)) for (_, offset, dtype), slot in named)


def _loaded_later(function: PtxFunction) -> frozenset[str]:
    """Return the destinations of tcgen05.ld, which are valid only after a wait."""
    loads = (x for x in function.body if x.root == "tcgen05" and x.suffix.startswith(".ld."))
    return frozenset(name for ins in loads for name in roles_of(0, ins).writes)


def _product_registers(function: PtxFunction) -> tuple[str, ...]:
    products = [x for x in function.body if x.root == "wgmma" and ".mma_async" in x.suffix]
    vectors = [operand for ins in products for operand in ins.operands[:2] if operand[0] == "{"]
    return tuple(dict.fromkeys(x for operand in vectors for x in emitter.vector(operand)))


def _unread(function: PtxFunction) -> frozenset[str]:
    """Return the destinations of atomics that no instruction reads."""
    if not any(ins.root == "atom" for ins in function.body):
        return frozenset()
    every = all_roles(function)
    results = {name for x in every if x.root == "atom" for name in x.writes}
    return frozenset(results.difference(*((*x.reads, *x.addresses, *x.updates, x.predicate) for x in every)))


class Places:
    """Assigns addresses to variables, by state space, with a red zone after each variable that isn't external."""

    def __init__(self, next_free: Mapping[str, int]) -> None:
        self.next_free = dict(next_free)

    def place(self, variable: Variable) -> Placed:
        align = max(variable.align, 16)
        at = -(-self.next_free[variable.space] // align) * align
        if not variable.external:
            self.next_free[variable.space] = at + variable.size_bytes + _RED_ZONE_BYTES
        return variable, at


def place_lasting(module: Module) -> tuple[list[Placed], Places]:
    """Place a module's global and constant variables, which its kernels share; return them and the allocator."""
    places = Places(_FIRST_ADDRESS)
    return [places.place(v) for v in module.variables.values() if v.space in _FIRST_ADDRESS], places


def initial_bytes(module: Module, variable: Variable, placed: Iterable[Placed]) -> bytearray:
    """Return a variable's initial bytes with resolved addresses; raise an error if a symbol is unknown."""
    data = bytearray(variable.data or bytes(variable.size_bytes))
    addresses = {name: (at, 0) for name, at in module.code_addresses.items()} if variable.symbols else {}
    addresses.update((v.name, (at, WINDOWS[v.space])) for v, at in placed)
    for symbol in variable.symbols:
        if symbol.name not in addresses:
            what = f"{variable.name} is initialized with {symbol.name}, which the PTX doesn't define"
            raise module.source.refusal(what, variable.line)
        at, window = addresses[symbol.name]
        value = at + symbol.offset + (window if symbol.generic else 0)
        data[symbol.at : symbol.at + symbol.size_bytes] = value.to_bytes(symbol.size_bytes, "little")
    return data
