"""Builders that emit scalar formulas as LLVM IR, inline or as functions."""

from __future__ import annotations

import struct
from abc import abstractmethod
from functools import cache
from typing import Literal

from ..dtypes import DTYPES, DType
from ..isa import Row
from ..ops.scalar import (
    FORMATS,
    BlockBuilder,
    Comparison,
    Conversion,
    Format,
    Number,
    Opcode,
    Operand,
    ScalarBlock,
    ScalarBuilder,
    scalar_type,
)
from .emission import Emission
from .types import register_type
from .writer import called

#: type of a `Number`, such as f32 or u8 -> LLVM type
_LLVM_TYPES = {scalar_type(d): register_type(d) for d in DTYPES.values()} | {"i128": "i128"}

_FLOAT_OPCODES = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_SIGNED_OPCODES = {"div": "sdiv", "rem": "srem", "shr": "ashr"}
_UNSIGNED_OPCODES = {"div": "udiv", "rem": "urem", "shr": "lshr"}

_ORDERS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def llvm_type(type: str) -> str:
    """Return the LLVM type of a `Number` of type `type`: for example, float for f32."""
    return _LLVM_TYPES[type]


@cache
def _predicate(comparison: Comparison, letter: str) -> str:
    """Return the predicate of `fcmp` (`letter` is "f") or `icmp` ("i" for signed integers, else unsigned)."""
    if letter == "f":
        return {"==": "oeq", "!=": "une"}.get(comparison) or "o" + _ORDERS[comparison]
    return {"==": "eq", "!=": "ne"}.get(comparison) or ("s" if letter == "i" else "u") + _ORDERS[comparison]


class _TextBuilder(ScalarBuilder):
    def __init__(self, number_format: Format | None) -> None:
        self._format = number_format

    @property
    def format(self) -> Format:
        assert self._format is not None, "only float32 and float64 have a format"
        return self._format

    @abstractmethod
    def write(self, type: str, text: str) -> Number:
        """Emit the instruction `text` and return its result, of type `type`."""

    @abstractmethod
    def call(self, type: str, name: str, *operands: tuple[str, str]) -> Number:
        """Emit a call of an intrinsic or function and return its result. operands: (LLVM type, text) pairs."""

    def constant(self, type: str, number: float) -> Number:
        if type[0] != "f":
            return Number(self, type, str(bool(number)).lower() if type == "b1" else str(number))
        if type == "f32" and number == number:
            assert struct.unpack("f", struct.pack("f", number))[0] == number, f"{number!r} is not a float32"
        return Number(self, type, f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}")

    def literal(self, x: Operand) -> int | None:
        text = x.text if isinstance(x, Number) else str(x)
        return int(text) if text.isdigit() else None

    def binary(self, opcode: Opcode, left: Number, right: Operand) -> Number:
        if left.is_float:
            return self._binary(_FLOAT_OPCODES[opcode], left, right)
        opcodes = _SIGNED_OPCODES if left.is_signed else _UNSIGNED_OPCODES
        return self._binary(opcodes.get(opcode, opcode), left, right)

    def unsigned(self, opcode: Literal["div", "rem"], left: Number, right: Operand) -> Number:
        return self._binary(_UNSIGNED_OPCODES[opcode], left, right)

    def _binary(self, opcode: str, left: Number, right: Operand) -> Number:
        other = self.operand(left.type, right)
        assert other.type == left.type, f"{opcode} of {left.type} and {other.type}"
        flags = "nsw " if self.proved and opcode in ("add", "sub", "mul") else ""
        return self.write(left.type, f"{opcode} {flags}{llvm_type(left.type)} {left.text}, {other.text}")

    def negative(self, x: Number) -> Number:
        return self.write(x.type, f"fneg {llvm_type(x.type)} {x.text}")

    def compare(self, comparison: Comparison, left: Number, right: Operand) -> Number:
        return self._compare(_predicate(comparison, left.type[0]), left, right)

    def below(self, left: Number, right: Operand) -> Number:
        return self._compare("ult", left, right)

    def unordered(self, left: Number, right: Operand) -> Number:
        return self._compare("uno", left, right)

    def _compare(self, predicate: str, left: Number, right: Operand) -> Number:
        other = self.operand(left.type, right)
        opcode = "fcmp" if left.is_float else "icmp"
        return self.write("b1", f"{opcode} {predicate} {llvm_type(left.type)} {left.text}, {other.text}")

    def intrinsic(self, name: str, first: Number, *others: Operand) -> Number:
        kind = llvm_type(first.type)
        arguments = [(kind, first.text)]
        for operand in others:
            arguments.append((kind, self.operand(first.type, operand).text))
        if name in ("abs", "ctlz"):
            # with `false`, abs of the least integer and ctlz of 0 are not poison
            arguments.append(("i1", "false"))
        return self.call(first.type, f"llvm.{name}.{first.type if first.is_float else kind}", *arguments)

    def convert(self, conversion: Conversion, x: Number, to: str) -> Number:
        if x.type == to:
            return x
        return self.write(to, f"{conversion} {llvm_type(x.type)} {x.text} to {llvm_type(to)}")

    def select(self, condition: Number, yes: Operand, no: Operand) -> Number:
        typed = yes if isinstance(yes, Number) else no
        assert isinstance(typed, Number)
        first, second = self.operand(typed.type, yes), self.operand(typed.type, no)
        kind = llvm_type(first.type)
        return self.write(first.type, f"select i1 {condition.text}, {kind} {first.text}, {kind} {second.text}")

    def maximum(self, x: Number, y: Operand) -> Number:
        return self._extreme("max", x, y)

    def minimum(self, x: Number, y: Operand) -> Number:
        return self._extreme("min", x, y)

    def capped(self, x: Number, limit: Operand) -> Number:
        return self.intrinsic("minnum", x, limit)

    def _extreme(self, which: str, x: Number, y: Operand) -> Number:
        if not x.is_float:
            return self.intrinsic(f"{'s' if x.is_signed else 'u'}{which}", x, y)
        return self.intrinsic(f"{which}imum", x, y)


class FunctionBuilder(_TextBuilder, BlockBuilder):
    """Builder of the body of an LLVM function."""

    def __init__(self, number_format: Format | None = None) -> None:
        super().__init__(number_format)
        self._lines: list[str] = []
        self._count = 0
        self.block = ScalarBlock("entry")

    @property
    def body(self) -> str:
        return "\n".join(self._lines)

    def machine(self, row: Row, *operands: Number) -> Number:
        raise AssertionError(f"{row.name} in a function, which must also run on a host")

    def write(self, type: str, text: str) -> Number:
        name = f"%t{self._count}"
        self._count += 1
        self._lines.append(f"  {name} = {text}")
        return Number(self, type, name)

    def call(self, type: str, name: str, *operands: tuple[str, str]) -> Number:
        arguments = ", ".join(f"{kind} {text}" for kind, text in operands)
        return self.write(type, f"call {llvm_type(type)} @{name}({arguments})")

    def start(self, block: ScalarBlock) -> None:
        self._lines.append(f"{block.name}:")
        self.block = block

    def jump(self, block: ScalarBlock) -> None:
        self._lines.append(f"  br label %{block.name}")

    def branch(self, condition: Number, yes: ScalarBlock, no: ScalarBlock) -> None:
        self._lines.append(f"  br i1 {condition.text}, label %{yes.name}, label %{no.name}")

    def phi(self, *sources: tuple[Number, ScalarBlock]) -> Number:
        type = sources[0][0].type
        pairs = ", ".join(f"[ {number.text}, %{block.name} ]" for number, block in sources)
        return self.write(type, f"phi {llvm_type(type)} {pairs}")

    def add_incoming(self, phi: Number, value: Number, block: ScalarBlock) -> None:
        index = next(i for i, line in enumerate(self._lines) if line.startswith(f"  {phi.text} = phi "))
        self._lines[index] += f", [ {value.text}, %{block.name} ]"

    def ret(self, result: Number) -> None:
        self._lines.append(f"  ret {llvm_type(result.type)} {result.text}")


class InlineBuilder(_TextBuilder):
    """Builder that emits an operation inline, at the writer's position, without new blocks."""

    def __init__(self, emission: Emission, dtype: DType, proved: bool = False) -> None:
        super().__init__(FORMATS.get(dtype.name))
        self._emission = emission
        self.proved = proved

    def write(self, type: str, text: str) -> Number:
        return Number(self, type, self._emission.writer.value(text))

    def machine(self, row: Row, *operands: Number) -> Number:
        (result,) = self._emission.machine(row, *(operand.text for operand in operands))
        return Number(self, operands[0].type, result)

    def call(self, type: str, name: str, *operands: tuple[str, str]) -> Number:
        return Number(self, type, self._emission.writer.intrinsic(llvm_type(type), name, *operands))


class FormBuilder(InlineBuilder):
    """Builder that only detects whether an operation is a single instruction, the same for all arguments."""

    def __init__(self, dtype: DType, proved: bool) -> None:
        _TextBuilder.__init__(self, FORMATS.get(dtype.name))
        self.proved = proved
        #: declaration of the function that was called last, "" if none was
        self.declaration = ""
        self._written: list[tuple[Number, str]] = []
        self._is_form = True

    def write(self, type: str, text: str) -> Number:
        result = Number(self, type, "")
        self._written.append((result, text))
        return result

    def call(self, type: str, name: str, *operands: tuple[str, str]) -> Number:
        if not name.startswith("llvm."):
            # only intrinsics are known to be pure
            self._is_form = False
        text, self.declaration = called(llvm_type(type), name, operands)
        return self.write(type, text)

    def machine(self, row: Row, *operands: Number) -> Number:
        # not every target has the instruction
        self._is_form = False
        return operands[0]

    def literal(self, x: Operand) -> int | None:
        # the operation may emit other instructions for a constant
        self._is_form = False
        return None

    def form(self, result: Number) -> str | None:
        """Return the instruction that computes `result`; None if the operation isn't always one pure instruction."""
        is_one = self._is_form and len(self._written) == 1 and self._written[0][0] is result
        return self._written[0][1] if is_one else None
