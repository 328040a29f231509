"""What PTX text is parsed into: modules, kernels, instructions; and its literals."""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

from ...dataclass import dataclass, field
from .source import Source

# The windows of the generic address space end below (opcodes/move.py).
CODE_ADDRESS = 5 << 44

#: A name in an operand: as written, or with the `@` of a name declared in an inner scope. Not the letters of a literal.
NAME = re.compile(r"(?<![\w$%@])[%$A-Za-z_][\w$.@]*")


class Loc(NamedTuple):
    """A `.loc`: a place in a source file, and the call through which its function was inlined, None if it wasn't."""

    file: int
    line: int
    column: int
    caller: Loc | None = None


TYPE_BYTES = {
    "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4,
    "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16, "pred": 0,
}


@dataclass(frozen=True, slots=True)
class PtxInstruction:
    """One PTX instruction; `root` + `suffix` is the opcode with its modifiers.

    operands: their text, registers of inner scopes renamed so that names are unique in the function.
    line: in the PTX text, from 1.
    loc: the `.loc` in force, or None.
    """

    root: str
    suffix: str
    operands: tuple[str, ...]
    line: int
    loc: Loc | None
    guard: str | None = None
    guard_negated: bool = False

    def names(self, part: slice = slice(None)) -> list[str]:
        """Return the names in some of the operands."""
        return [name for operand in self.operands[part] for name in NAME.findall(operand)]

    @property
    def events(self) -> int:
        """The performance events that the instruction triggers, as bits; 0 for any other instruction."""
        if self.root != "pmevent":
            return 0
        number = parse_number(self.operands[0])
        return number if self.suffix else 1 << number


@dataclass(frozen=True, slots=True)
class SymbolAddress:
    """An initial value that is the address of a variable: `offset` bytes into it, stored `at` bytes into its holder.

    generic: a generic address, not one of the variable's own state space.
    """

    at: int
    size_bytes: int
    name: str
    offset: int
    generic: bool


@dataclass(frozen=True, slots=True)
class Variable:
    """A named piece of memory: its state space, layout and initial bytes.

    symbols: initial values that are addresses.
    """

    name: str
    space: str
    size_bytes: int
    align: int
    data: bytes | None = None
    external: bool = False
    symbols: tuple[SymbolAddress, ...] = ()
    line: int = 0


@dataclass(frozen=True, slots=True)
class PtxParam:
    """A kernel parameter: where it lies in the parameter space, in bytes."""

    name: str
    offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class LaunchBounds:
    """What a kernel's directives say of its launches; 0 for what they don't.

    threads: of a CTA at most; registers: of a thread at most; ctas: on an SM at least.
    cluster: the CTAs of a cluster along x, y and z, None where each is by itself.
    """

    threads: int = 0
    registers: int = 0
    ctas: int = 0
    cluster: tuple[int, int, int] | None = None


@dataclass(slots=True)
class PtxFunction:
    """A kernel: parameters, registers (name → bits, 1 for predicates), variables and code.

    body: instructions, with the labels that precede each position in `labels`.
    undefined: registers that LLVM marked as holding an undefined value on purpose.
    """

    name: str
    params: tuple[PtxParam, ...]
    registers: dict[str, int] = field(default_factory=dict)
    call_params: dict[str, int] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    body: list[PtxInstruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    branch_tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    undefined: set[str] = field(default_factory=set)
    bounds: LaunchBounds = LaunchBounds()


@dataclass(frozen=True, slots=True)
class KernelText:
    """A kernel that has been seen but not parsed: its parameters, and where its body begins and ends in the text."""

    name: str
    params: tuple[PtxParam, ...]
    begin: int
    end: int
    bounds: LaunchBounds


@dataclass(slots=True)
class Module:
    """A PTX file: what stands outside of functions; kernels are parsed when they are asked for.

    functions: name of each `.func` → whether it has a body.
    """

    source: Source
    kernels: dict[str, KernelText] = field(default_factory=dict)
    functions: dict[str, bool] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)

    @property
    def code_addresses(self) -> dict[str, int]:
        """The address of each function and kernel; no memory lies there."""
        return {name: CODE_ADDRESS + 16 * i for i, name in enumerate((*self.functions, *self.kernels))}


def parse_number(text: str, type_name: str = "b64") -> int:
    """The bits of a PTX literal read as `type_name`, as a non-negative integer."""
    bits = 8 * TYPE_BYTES.get(type_name, 8) or 1
    if text[:2] in ("0f", "0F"):
        value = int(text[2:], 16)
        return value if type_name != "f64" else _double_bits(struct.unpack("<f", value.to_bytes(4, "little"))[0])
    if text[:2] in ("0d", "0D"):
        value = int(text[2:], 16)
        if type_name != "f32":
            return value
        return _single_bits(struct.unpack("<d", value.to_bytes(8, "little"))[0])
    if type_name in ("f64", "f32") and re.fullmatch(r"-?\d+\.\d*(?:[eE][-+]?\d+)?", text):
        return _double_bits(float(text)) if type_name == "f64" else _single_bits(float(text))
    return _integer(text) & ((1 << bits) - 1)


def _integer(text: str) -> int:
    body = text.rstrip("U")
    negative = body.startswith("-")
    body = body.lstrip("-+")
    if body.startswith("0") and body[1:].isdigit():
        value = int(body, 8)
    else:
        value = int(body, 0)
    return -value if negative else value


def _double_bits(value: float) -> int:
    return int.from_bytes(struct.pack("<d", value), "little")


def _single_bits(value: float) -> int:
    return int.from_bytes(struct.pack("<f", value), "little")
