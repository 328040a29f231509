"""Translation of PTX kernels into one Python function per basic block. Translated kernels are cached."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ...dataclass import dataclass
from ...gc_pause import gc_paused
from ..numerics import FUNCTIONS
from ..opcodes import lookup
from ..opcodes.memory import Site
from .blocks import JUMP_ROOTS, BasicBlock, live_after, liveness, split
from .control_flow import ControlFlow
from .emitter import BlockWriter
from .functions import load_kernel
from .names import SPECIAL, KernelNames
from .ordering import Ordering
from .parser import parse
from .ptx import Module, PtxFunction
from .roles import all_roles
from .variables import Placed, place_all


@dataclass(frozen=True, slots=True)
class TranslatedBlock:
    """A basic block and its function."""

    block: BasicBlock
    #: (machine, *inputs) → (extra, *outputs); extra: a branch's predicate, a switch's index or a barrier's arguments
    run: Callable[..., tuple[Any, ...]]
    #: slots of the registers that the function takes and returns
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    #: slot of the result of a barrier with reduction
    result: int | None
    #: instructions to count per thread: those in `block.pcs`, and one for the terminator even if there is none
    steps: int


@dataclass(frozen=True, slots=True)
class Program:
    """A translated kernel."""

    module: Module
    function: PtxFunction
    blocks: tuple[TranslatedBlock, ...]
    sites: tuple[Site, ...]
    #: variables with their addresses in their state spaces
    placed: tuple[Placed, ...]
    #: state space → log2 of the size in bytes of the cells of `checks/records.py`
    cell_shift: dict[str, int]
    shared_bytes: int
    local_bytes: int
    #: for each slot, a zero of its home dtype
    initial: tuple[Any, ...]
    #: (name, slot) of special registers
    special: tuple[tuple[str, int], ...]
    #: (slot, dtype, byte offset) of each element that the kernel loads from its parameters
    params: tuple[tuple[int, np.dtype[Any], int], ...]
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


# the cache lookup is cheap for a string that was passed before, because strings cache their hashes
@lru_cache(maxsize=256)
@gc_paused
def translate(ptx: str, entry: str, dynamic_shared_bytes: int, events: bool = False) -> Program:
    """Parse and translate kernel `entry`; raise UnsupportedInstructionError if it is missing or isn't supported.

    events: as for `blocks.split`.
    """
    module = parse(ptx)
    function = load_kernel(module, entry)
    return _Translator(module, function, dynamic_shared_bytes).program(events)


class _Translator:
    def __init__(self, module: Module, function: PtxFunction, dynamic_shared_bytes: int) -> None:
        self.module = module
        self.function = function
        self.placed, self.shared_bytes, self.local_bytes = place_all(module, function, dynamic_shared_bytes)

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

    def program(self, events: bool) -> Program:
        self.check_labels()
        blocks = split(self.function, events)
        emitters, names, live = self.emit(blocks, frozenset())
        undefined = names.undefined(self.function, live[0] if live else 0)
        if undefined:
            emitters, names, live = self.emit(blocks, undefined)
        return self.assemble(blocks, emitters, names, live)

    def emit(
        self, blocks: list[BasicBlock], undefined: frozenset[str]
    ) -> tuple[list[BlockWriter], KernelNames, list[int]]:
        """Return the emitted blocks, the names in them, and the registers live into each, as bit sets of slots."""
        function = self.function
        addresses = {v.name: at for v, at in self.placed}
        # addresses are relative to the state space of the variable or parameter; cvta makes them generic
        params = {p.name: p.offset for p in function.params}
        addresses = self.module.code_addresses | addresses | params
        names = KernelNames(function, addresses, params)
        names.namespace.update(FUNCTIONS)
        if prod(function.bounds.cluster or (1,)) > 1:
            names.shared = frozenset(v.name for v, _ in self.placed if v.space == "shared")
        if undefined:
            names.set_undefined(undefined, all_roles(function))
        emitters = [self.emit_block(block, names) for block in blocks]
        uses = [sum(1 << s for s in e.inputs) for e in emitters]
        defs = [sum(1 << s for s in e.written) for e in emitters]
        return emitters, names, liveness(blocks, uses, defs)

    def emit_block(self, block: BasicBlock, names: KernelNames) -> BlockWriter:
        e = BlockWriter(names, self.module)
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
            e.extra = e.read(block.predicate, dtype)
            e.check_defined(block.predicate)
        return e

    def assemble(
        self, blocks: list[BasicBlock], emitters: list[BlockWriter], names: KernelNames, live: list[int]
    ) -> Program:
        sources = []
        outputs: list[tuple[int, ...]] = []
        for block, e in zip(blocks, emitters, strict=True):
            after = live_after(block, live)
            outputs.append(tuple(s for s in e.written if after >> s & 1))
            sources.append(e.finish(f"b{block.index}", outputs[-1]))
        exec(compile("".join(sources), f"<ptx {self.function.name}>", "exec"), names.namespace)
        compiled = tuple(
            TranslatedBlock(b, names.namespace[f"b{b.index}"], tuple(e.inputs), out, e.result_slot, len(b.pcs) + 1)
            for b, e, out in zip(blocks, emitters, outputs, strict=True)
        )
        body = self.function.body
        return Program(
            module=self.module,
            function=self.function,
            blocks=compiled,
            sites=tuple(names.sites),
            placed=self.placed,
            cell_shift=_cell_shift(names.sites),
            shared_bytes=self.shared_bytes,
            local_bytes=self.local_bytes,
            initial=names.initial(),
            special=tuple((n, s) for n, s in names.slots.items() if n in SPECIAL),
            params=tuple(names.loaded_params),
            events=tuple((b.index, body[pc].events) for b in blocks for pc in b.pcs if body[pc].events),
            ordering=Ordering.of(body, names.sites),
            product_registers=tuple(names.product_rows),
            skippable=names.skippable,
            of_warpgroups=frozenset(b.index for b in blocks if b.warps > 1),
            control_flow=ControlFlow(self.function, blocks, names.sites, names.slots, live),
        )


def _cell_shift(sites: list[Site]) -> dict[str, int]:
    """Return the log2 of the size in bytes of the narrowest access to each state space: at most 4; 2 without accesses.

    Generic accesses count for each space; parts of wider accesses and of copies don't count.
    """
    result = {}
    for space in ("shared", "global", "local"):
        shifts = [s.shift for s in sites if s.space in (space, "") and not s.part]
        result[space] = min(min(shifts, default=2), 4)
    return result
