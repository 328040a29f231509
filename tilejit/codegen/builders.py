"""Builders that emit scalar formulas as LLVM IR, inline or as functions."""

from __future__ import annotations

import struct
from abc import abstractmethod
from functools import cache

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
    """Return the predicate of `fcmp` or `icmp`. letter: the first of the operands' type, "i" for signed integers."""
    if letter == "f":
        return {"==": "oeq", "!=": "une", "unordered": "uno"}.get(comparison) or "o" + _ORDERS[comparison]
    known = {"==": "eq", "!=": "ne", "u<": "ult"}.get(comparison)
    return known or ("s" if letter == "i" else "u") + _ORDERS[comparison]


class _TextBuilder(ScalarBuilder):
    def __init__(self, dtype: DType) -> None:
        self._format = FORMATS.get(dtype.name)

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
        other = self.operand(left.type, right)
        assert other.type == left.type, f"{opcode} of {left.type} and {other.type}"
        opcodes = _FLOAT_OPCODES if left.is_float else _SIGNED_OPCODES if left.is_signed else _UNSIGNED_OPCODES
        text = opcodes.get(opcode, opcode)
        flags = "nsw " if self.proved and text in ("add", "sub", "mul") else ""
        return self.write(left.type, f"{text} {flags}{llvm_type(left.type)} {left.text}, {other.text}")

    def negative(self, x: Number) -> Number:
        return self.write(x.type, f"fneg {llvm_type(x.type)} {x.text}")

    def compare(self, comparison: Comparison, left: Number, right: Operand) -> Number:
        other, predicate = self.operand(left.type, right), _predicate(comparison, left.type[0])
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
        if name in ("maximum", "minimum") and not first.is_float:
            name = f"{'s' if first.is_signed else 'u'}{name[:3]}"
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


class FunctionBuilder(_TextBuilder, BlockBuilder):
    """Builder of the body of an LLVM function."""

    def __init__(self, dtype: DType) -> None:
        super().__init__(dtype)
        self._lines: list[str] = []
        self._count = 0
        self.block = "entry"

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

    def start(self, block: str) -> None:
        self._lines.append(f"{block}:")
        self.block = block

    def jump(self, block: str) -> None:
        self._lines.append(f"  br label %{block}")

    def branch(self, condition: Number, yes: str, no: str) -> None:
        self._lines.append(f"  br i1 {condition.text}, label %{yes}, label %{no}")

    def phi(self, *sources: tuple[Number, str]) -> Number:
        type = sources[0][0].type
        pairs = ", ".join(f"[ {number.text}, %{block} ]" for number, block in sources)
        return self.write(type, f"phi {llvm_type(type)} {pairs}")

    def add_incoming(self, phi: Number, value: Number, block: str) -> None:
        index = next(i for i, line in enumerate(self._lines) if line.startswith(f"  {phi.text} = phi "))
        self._lines[index] += f", [ {value.text}, %{block} ]"

    def ret(self, result: Number) -> None:
        self._lines.append(f"  ret {llvm_type(result.type)} {result.text}")


class InlineBuilder(_TextBuilder):
    """Builder that emits an operation inline, at the writer's position, without new blocks."""

    def __init__(self, emission: Emission, dtype: DType, proved: bool) -> None:
        super().__init__(dtype)
        self._emission = emission
        self.proved = proved

    def write(self, type: str, text: str) -> Number:
        return Number(self, type, self._emission.writer.value(text))

    def machine(self, row: Row, *operands: Number) -> Number:
        (result,) = self._emission.machine(row, *(operand.text for operand in operands))
        return Number(self, operands[0].type, result)

    def call(self, type: str, name: str, *operands: tuple[str, str]) -> Number:
        return Number(self, type, self._emission.writer.intrinsic(llvm_type(type), name, *operands))


class FormBuilder(_TextBuilder):
    """Builder that only detects whether an operation is a single instruction, the same for all arguments."""

    def __init__(self, dtype: DType, proved: bool) -> None:
        super().__init__(dtype)
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
        # rows are inline assembly, and some targets lack some of them
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
