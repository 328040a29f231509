"""PTX source with line numbers for errors, parsed modules, kernels and instructions, and the parser of literals."""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from ...dataclass import dataclass, field
from ...errors import UnsupportedInstructionError

if TYPE_CHECKING:
    from .functions import Linked

_SPACE = re.compile(r"\s*")
_COMMENT = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/', re.S)
_BRACE = re.compile(r'"[^"\n]*"|[{}]')
_LIST = re.compile(r"\{([^{},;]*),[^{};]{40,},([^{},;]*)\}")
# Messages show at most this number of characters of a line.
_SHOWN = 240


class Source:
    """PTX source. code: `text` with comments replaced by spaces, so that positions in both are the same."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.code = _COMMENT.sub(_blank_comment, text)
        self._newlines = [match.start() for match in re.finditer("\n", text)]

    def line_at(self, position: int) -> int:
        return bisect_right(self._newlines, position - 1) + 1

    def line_text(self, line: int) -> str:
        """Return a line, counted from 1, with white space replaced by single spaces; empty if it doesn't exist."""
        if not 0 < line <= len(self._newlines) + 1:
            return ""
        begin = self._newlines[line - 2] + 1 if line > 1 else 0
        end = self._newlines[line - 1] if line <= len(self._newlines) else len(self.text)
        return " ".join(self.text[begin:end].split())

    def shown(self, line: int) -> str:
        """Return a line for messages, without the middle of long lists and of long lines."""
        text = _LIST.sub(r"{\1, ...,\2}", self.line_text(line))
        return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]} ... {text[-_SHOWN // 2 :]}"

    def refusal(self, what: str, line: int) -> UnsupportedInstructionError:
        """Return an error at a line, with the column of the last `.loc` before that line."""
        error = UnsupportedInstructionError(f"{what}\n  PTX line {line}: {self.shown(line)}")
        begin = self._newlines[line - 2] if 1 < line <= len(self._newlines) + 1 else 0
        columns = _LOC_COLUMN.findall(self.code, 0, begin)
        error.column = int(columns[-1]) if columns else 0
        return error

    def closing_brace(self, begin: int) -> int:
        """Return the position after the brace that closes the one just before `begin`; raise if there is none."""
        depth = 1
        for match in _BRACE.finditer(self.code, begin):
            depth += {"{": 1, "}": -1}.get(match[0], 0)
            if not depth:
                return match.end()
        raise self.refusal("a brace is not closed", self.line_at(begin - 1))


class Cursor:
    """A reading position in PTX source."""

    def __init__(self, source: Source, at: int = 0) -> None:
        self.source = source
        self.code = source.code
        self.pos = at

    def refusal(self, what: str, at: int) -> UnsupportedInstructionError:
        return self.source.refusal(what, self.source.line_at(at))

    def skip(self) -> int:
        match = _SPACE.match(self.code, self.pos)
        self.pos = match.end() if match else self.pos
        return self.pos

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.code, self.pos)
        if match:
            self.pos = match.end()
        return match


_LOC_COLUMN = re.compile(r"^\s*\.loc\s+\d+\s+\d+\s+(\d+)", re.MULTILINE)


def _blank_comment(match: re.Match[str]) -> str:
    text = match[0]
    if text[0] == '"':
        return text
    return re.sub(r"[^\n]", " ", text)


# the first code address, above all windows of the generic address space (opcodes/move.py)
CODE_ADDRESS = 5 << 44

#: matches a name in an operand, with the `@` suffix of inner scopes, but not the letters of a literal
NAME = re.compile(r"(?<![\w$%@])[%$A-Za-z_][\w$.@]*")
_NAMES = re.compile(r"[%\w$.@]+")
_ADDRESS = re.compile(r"\[\s*([%$\w@]+)\s*(?:\+\s*(-?\w+))?\s*\]")


class Loc(NamedTuple):
    """A `.loc`: a source location and, if its function was inlined, the location of the call."""

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
    """One PTX instruction. `root` and `suffix` are the opcode and its modifiers."""

    root: str
    suffix: str
    #: as written, except that names from inner scopes are made unique in the function
    operands: tuple[str, ...]
    #: line number in the PTX source, from 1
    line: int
    loc: Loc | None
    guard: str | None = None
    guard_negated: bool = False

    def names(self) -> list[str]:
        return [name for operand in self.operands for name in NAME.findall(operand)]

    @property
    def events(self) -> int:
        """The bit mask of the performance events that a pmevent triggers; 0 for other instructions."""
        if self.root != "pmevent":
            return 0
        number = parse_number(self.operands[0])
        return number if self.suffix else 1 << number


def call_operands(ins: PtxInstruction) -> tuple[tuple[str, ...], str, tuple[str, ...], str]:
    """Return the results, the target, the arguments and the prototype ("" for a direct call) of a call."""
    operands = list(ins.operands)
    results = tuple(_NAMES.findall(operands.pop(0))) if operands and operands[0][0] == "(" else ()
    target = operands.pop(0) if operands else ""
    arguments = tuple(_NAMES.findall(operands.pop(0))) if operands and operands[0][0] == "(" else ()
    return results, target, arguments, operands[0] if operands else ""


@dataclass(frozen=True, slots=True)
class SymbolAddress:
    """An initializer that is an address, `offset` bytes into a variable or function."""

    #: byte offset in the initialized variable
    at: int
    size_bytes: int
    name: str
    offset: int
    #: True for a generic address, False for one in the variable's state space
    generic: bool


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable: its state space, layout and initial bytes."""

    name: str
    space: str
    size_bytes: int
    align: int
    data: bytes | None = None
    external: bool = False
    #: initializers that are addresses
    symbols: tuple[SymbolAddress, ...] = ()
    line: int = 0


@dataclass(frozen=True, slots=True)
class PtxParam:
    """A kernel parameter, and its byte offset in the parameter space."""

    name: str
    offset: int
    size_bytes: int
    align: int = 1


@dataclass(frozen=True, slots=True)
class LaunchBounds:
    """The launch bounds in a kernel's directives; 0, or None for `cluster`, if not specified."""

    #: maximum per CTA
    threads: int = 0
    #: maximum per thread
    registers: int = 0
    #: minimum per SM
    ctas: int = 0
    #: CTAs per cluster along x, y and z
    cluster: tuple[int, int, int] | None = None


@dataclass(slots=True)
class PtxFunction:
    """A parsed kernel or device function."""

    name: str
    params: tuple[PtxParam, ...]
    #: name → width in bits, 1 for predicates
    registers: dict[str, int] = field(default_factory=dict)
    call_params: dict[str, Variable] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    body: list[PtxInstruction] = field(default_factory=list)
    #: name → index in `body`
    labels: dict[str, int] = field(default_factory=dict)
    branch_tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: registers that LLVM declares undefined, by `implicit-def` comments
    undefined: set[str] = field(default_factory=set)
    bounds: LaunchBounds = LaunchBounds()
    #: of a device function
    results: tuple[PtxParam, ...] = ()
    #: the functions whose bodies are part of a kernel's; None if it calls none
    linked: Linked | None = None


@dataclass(frozen=True, slots=True)
class KernelText:
    """A kernel or function whose body has not been parsed: its parameters, and the extent of its body in the source."""

    name: str
    params: tuple[PtxParam, ...]
    begin: int
    end: int
    bounds: LaunchBounds = LaunchBounds()
    results: tuple[PtxParam, ...] = ()


@dataclass(slots=True)
class Module:
    """A PTX module. The bodies of kernels are parsed on demand."""

    source: Source
    kernels: dict[str, KernelText] = field(default_factory=dict)
    #: name of a `.func` → True if it has a body
    functions: dict[str, bool] = field(default_factory=dict)
    #: the functions with bodies
    texts: dict[str, KernelText] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)

    def kernel(self, name: str) -> KernelText:
        """Return a kernel; raise UnsupportedInstructionError if there is none of this name."""
        if name not in self.kernels:
            names = ", ".join(self.kernels) or "none"
            raise UnsupportedInstructionError(f"the PTX has no kernel {name}; it has: {names}")
        return self.kernels[name]

    @property
    def code_addresses(self) -> dict[str, int]:
        """The addresses of functions and kernels. The simulator has no memory there."""
        return {name: CODE_ADDRESS + 16 * i for i, name in enumerate((*self.functions, *self.kernels))}


def parse_address(operand: str) -> tuple[str, int] | None:
    """Return the base and the constant offset of an address operand, or None if it isn't one."""
    match = _ADDRESS.fullmatch(operand)
    if match is None:
        return None
    offset = parse_number(match[2]) if match[2] else 0
    return match[1], offset - (1 << 64) if offset >> 63 else offset


def vector(operand: str) -> list[str]:
    """Return the elements of `{a, b}`, or the operand alone."""
    if operand[0] != "{":
        return [operand]
    return [x.strip() for x in operand[1:-1].split(",")]


def parse_number(text: str, type_name: str = "b64") -> int:
    """Return the bits of a literal of type `type_name`, as a non-negative integer. raises: ValueError if malformed."""
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
