"""Types of registers, and the names in a kernel's generated code: its registers, constants and addresses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .ptx import PtxFunction, vector
from .roles import LOAD_ROOTS, Roles, all_roles, roles_of

DTYPES: dict[str, Any] = {
    "u1": np.dtype(np.uint8), "u2": np.dtype(np.uint16), "u4": np.dtype(np.uint32), "u8": np.dtype(np.uint64),
    "i1": np.dtype(np.int8), "i2": np.dtype(np.int16), "i4": np.dtype(np.int32), "i8": np.dtype(np.int64),
    "f2": np.dtype(np.float16), "f4": np.dtype(np.float32), "f8": np.dtype(np.float64), "p": np.dtype(np.bool_),
    # NumPy copies elements of 16 bytes fastest as complex numbers; it has no portable numeric type of 32 bytes.
    "V16": np.dtype(np.complex128), "V32": np.dtype("V32"),
}

# PTX type → dtype of the value. NumPy has no bf16 and no packed types, so their values are kept as bits.
PTX_DTYPE = {
    "b8": "u1", "u8": "u1", "s8": "i1", "b16": "u2", "u16": "u2", "s16": "i2", "f16": "f2", "bf16": "u2",
    "b32": "u4", "u32": "u4", "s32": "i4", "f32": "f4", "f16x2": "u4", "bf16x2": "u4",
    "b64": "u8", "u64": "u8", "s64": "i8", "f64": "f8", "pred": "p", "f32x2": "u8",
}

SPECIAL = {
    **{f"%{name}.{axis}": "u4" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"},
    **{f"%cluster{name}.{axis}": "u4" for name in ("id", "_ctaid", "_nctaid") for axis in "xyz"},
    **{f"%nclusterid.{axis}": "u4" for axis in "xyz"},
    **dict.fromkeys(("%cluster_ctarank", "%cluster_nctarank"), "u4"), "%is_explicit_cluster": "p",
    **{f"%lanemask_{rel}": "u4" for rel in ("eq", "lt", "le", "gt", "ge")},
    **dict.fromkeys(("%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid", "%clock_hi"), "u4"),
    **dict.fromkeys(("%total_smem_size", "%dynamic_smem_size", "%envreg1", "%envreg2"), "u4"),
    **{f"%reserved_smem_offset_{x}": "u4" for x in ("begin", "end", "cap", "0", "1")},
}

#: the special registers that return the simulated time, which no register holds
TIMERS = ("%clock", "%clock64", "%globaltimer", "%globaltimer_lo")

#: the value of the constant WARP_SZ
WARP_SIZE = 32

SIZE = {name: dtype.itemsize for name, dtype in DTYPES.items()}


class KernelNames:
    """State shared by all blocks of a kernel: constants, addresses of symbols, registers' slots and home dtypes."""

    def __init__(self, function: PtxFunction, addresses: dict[str, int], params: dict[str, int]) -> None:
        self.slots: dict[str, int] = {}
        self.bits: list[int] = []
        self.home: list[str] = []
        self.register_bits = {**function.registers, "%carry": 32}
        self.addresses = {"WARP_SZ": WARP_SIZE, **addresses}
        self.params = params
        self.call_params = function.call_params
        #: (slot, dtype, byte offset) of each element that the kernel loads from its parameters
        self.loaded_params: list[tuple[int, np.dtype[Any], int]] = []
        self.namespace: dict[str, Any] = dict(DTYPES)
        self.sites: list[Any] = []
        self.maybe_undefined: frozenset[str] = frozenset()
        self.never_written: frozenset[str] = frozenset()
        # register that some path reads unwritten → index of the first predicated instruction or load that writes it
        self.skippable: dict[str, int] = {}
        # the destinations of tcgen05.ld, which are valid only after a wait
        loads = (x for x in function.body if x.root == "tcgen05" and x.suffix.startswith(".ld."))
        self.loaded_later = frozenset(name for ins in loads for name in roles_of(0, ins).writes)
        self.unread = unread_results(function)
        # variables whose addresses differ between the CTAs of a cluster
        self.shared: frozenset[str] = frozenset()
        # True if tensor maps may be in memory that the kernel writes
        self.changes_maps = any(ins.root == "tensormap" for ins in function.body)
        # True if generic addresses may be those of other CTAs of a cluster
        self.peers = any(ins.root == "mapa" for ins in function.body)
        # register that holds D or A of a wgmma → its row in the tables of `ProductRegisters`
        products = (x for x in function.body if x.root == "wgmma" and ".mma_async" in x.suffix)
        vectors = (vector(operand) for ins in products for operand in ins.operands[:2] if operand[0] == "{")
        self.product_rows = {x: row for row, x in enumerate(dict.fromkeys(x for each in vectors for x in each))}
        self.constants: dict[tuple[int, str], str] = {}

    def undefined(self, function: PtxFunction, live: int) -> frozenset[str]:
        """Return the registers that some path reads unwritten, except those that LLVM declares undefined.

        live: the registers live into the first block, as a bit set.
        """
        return frozenset(
            name
            for name, slot in self.slots.items()
            if live >> slot & 1 and name not in SPECIAL and name not in function.undefined
            and not name.startswith(("%param:", "%tid", "%carry"))
        )

    def set_undefined(self, undefined: frozenset[str], every: Sequence[Roles]) -> None:
        """Declare that some paths read the registers `undefined` unwritten. every: the roles of all instructions."""
        self.maybe_undefined = undefined
        self.never_written = undefined.difference(*(x.writes for x in every))
        # Other writes don't count: compilers may leave a register undefined on a path that doesn't use its value.
        for x in every:
            if x.predicate or x.root in LOAD_ROOTS:
                for name in undefined.intersection(x.writes):
                    self.skippable.setdefault(name, x.pc)

    def slot(self, name: str) -> int:
        """Return the slot of a register or special register. raises: KeyError if it isn't declared."""
        slot = self.slots.get(name)
        if slot is None:
            special = SPECIAL.get(name)
            bits = self.register_bits[name] if special is None else 1 if special == "p" else 8 * SIZE[special]
            slot = self.slots[name] = len(self.bits)
            self.bits.append(bits)
            self.home.append(special or ("p" if bits == 1 else ""))
        return slot

    def constant(self, bits: int, dtype: str) -> str:
        key = (bits, dtype)
        name = self.constants.get(key)
        if name is None:
            name = self.constants[key] = f"k{len(self.constants)}"
            size = SIZE[dtype]
            raw = (bits & ((1 << 8 * size) - 1)).to_bytes(size, "little")
            self.namespace[name] = np.frombuffer(raw, DTYPES[dtype])[0]
        return name

    def value(self, value: Any) -> str:
        name = f"o{len(self.namespace)}"
        self.namespace[name] = value
        return name

    def initial(self) -> tuple[Any, ...]:
        """Return a zero of each slot's home dtype; the machine then sets special registers and loaded parameters."""
        homes = [home or f"u{bits // 8}" for home, bits in zip(self.home, self.bits, strict=True)]
        return tuple(DTYPES[home].type(0) for home in homes)


def unread_results(function: PtxFunction) -> frozenset[str]:
    """Return the destinations of atomics that no instruction reads."""
    if not any(ins.root == "atom" for ins in function.body):
        return frozenset()
    every = all_roles(function)
    results = {name for x in every if x.root == "atom" for name in x.writes}
    return frozenset(results.difference(*((*x.reads, *x.addresses, *x.updates, x.predicate) for x in every)))
