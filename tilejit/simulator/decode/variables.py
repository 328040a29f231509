"""Placement of a module's and a kernel's variables in their state spaces, and their initial bytes."""

from __future__ import annotations

from collections.abc import Iterable

from ..machine.memory import LOCAL_BASE, SHARED_BASE
from ..opcodes.move import WINDOWS
from .ptx import Module, PtxFunction, Variable

# These are below the addresses of arguments (machine/memory.py) and of a device's memory (device.py).
_FIRST_ADDRESS = {"const": 1 << 16, "global": 1 << 33}
_RED_ZONE_BYTES = 64

#: Shared memory of the system, at the address 0, in kernels that ask for its address: cooperative groups keep the
#: barriers of tiles of several warps in it. Its size, and the addresses in registers.py, were measured on an H200.
RESERVED = Variable("reserved shared memory", "shared", 288, 16)

Placed = tuple[Variable, int]


def _place(variable: Variable, next_free: dict[str, int]) -> Placed:
    """Place a variable at the next free address of its state space, with a red zone after it if it isn't external."""
    align = max(variable.align, 16)
    at = -(-next_free[variable.space] // align) * align
    if not variable.external:
        next_free[variable.space] = at + variable.size_bytes + _RED_ZONE_BYTES
    return variable, at


def place_lasting(module: Module) -> list[Placed]:
    """Place a module's global and constant variables, which its kernels share."""
    next_free = dict(_FIRST_ADDRESS)
    return [_place(v, next_free) for v in module.variables.values() if v.space in next_free]


def place_all(
    module: Module, function: PtxFunction, dynamic_shared_bytes: int
) -> tuple[tuple[Placed, ...], int, int]:
    """Place a module's and a kernel's variables; return them and the sizes in bytes of shared and local memory."""
    placed, next_free = place_lasting(module), {"shared": SHARED_BASE, "local": LOCAL_BASE}
    variables = [v for v in module.variables.values() if v.space in ("shared", "local")]
    if variables:
        named = {x for ins in function.body for x in ins.names()}
        variables = [v for v in variables if v.name in named]
    if any("%reserved_smem_offset" in x for ins in function.body for x in ins.operands):
        placed.append((RESERVED, 0))
    # dynamic shared memory is placed last, as on a GPU
    own = sorted([*variables, *function.variables.values()], key=lambda v: v.external)
    placed.extend(_place(v, next_free) for v in own)
    ends = [at + dynamic_shared_bytes for v, at in placed if v.external and v.space == "shared"]
    shared_end = max(next_free["shared"], *ends, 0)
    return tuple(placed), shared_end - SHARED_BASE, next_free["local"] - LOCAL_BASE


def initial_bytes(module: Module, variable: Variable, placed: Iterable[Placed]) -> bytearray:
    """Return a variable's initial bytes, including addresses; raise UnsupportedInstructionError for unknown symbols."""
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
