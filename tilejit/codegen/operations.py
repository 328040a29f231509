"""Emission of the operations that `Elementwise` records define, inline or as LLVM functions.

An operation without code for float16 and bfloat16 is computed in float32, and its result is rounded once. Functions use
only IEEE operations, so their results are the same on all targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from ..dtypes import DTYPES, DType, bool_, float32
from ..errors import KernelTypeError
from ..isa import Row
from ..ops.elementwise import ELEMENTWISE, Elementwise
from ..ops.scalar import BlockBuilder, Code, Number, Operand, ScalarBuilder, llvm_type, scalar_type
from ..source import Span
from .casts import cast
from .emission import Emission, LLVMValue
from .types import register_type
from .writer import called


class InlineBuilder(ScalarBuilder):
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


class FormBuilder(ScalarBuilder):
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


def operation(
    emission: Emission, name: str, dtype: DType, args: Sequence[str], proved: bool = False, span: Span | None = None
) -> LLVMValue:
    """Emit the operation `name` on values of type `dtype` and return the result.

    args: LLVM values, conditions first. proved: see `ScalarBuilder`.
    raises: KernelTypeError if the operation isn't defined for the type.
    """
    one = one_instruction(name, dtype, proved)
    if one is not None:
        if one.declaration:
            emission.writer.declarations[one.declaration] = None
        return LLVMValue(emission.writer.value(one.form.format(*args), pure=bool(one.declaration)), one.dtype)
    record = ELEMENTWISE.get(name)
    code = record.code(dtype) if record is not None else None
    if record is not None and code is not None:
        return _computed(emission, record, code, dtype, args, proved)
    if dtype.is_fp8:
        hint = "cast it first, for example to float32"
        raise KernelTypeError(f"{name} of {dtype}: fp8 is a storage type", span=span, hint=hint)
    if record is not None and record.floats is not None and dtype.is_float:
        return _of_halves(emission, record, dtype, args)
    raise KernelTypeError(
        f"{name} has no implementation for {dtype}",
        span=span,
        hint=f"cast to float32 first: {name}(x.astype(tj.float32))" if dtype.is_float else None,
    )


def _computed(
    emission: Emission, record: Elementwise, code: Code, dtype: DType, args: Sequence[str], proved: bool
) -> LLVMValue:
    b, kind = InlineBuilder(emission, dtype, proved), scalar_type(dtype)
    conditions = record.conditions
    numbers = [Number(b, "b1" if k < conditions else kind, a) for k, a in enumerate(args)]
    result = code.shortcut(b, *numbers) if code.shortcut is not None else None
    if result is None and code.called:
        return _call(emission, record.name, dtype, dtype, args)
    if result is None:
        result = code.write(b, *numbers)
    return LLVMValue(result.text, record.value_type(dtype))


class OneInstruction(NamedTuple):
    """The single instruction that computes an operation, whatever its arguments."""

    #: the instruction, with `{0}`, `{1}`, … for the arguments
    form: str
    dtype: DType
    #: the declaration of the intrinsic that it calls, or ""
    declaration: str


@cache
def one_instruction(name: str, dtype: DType, proved: bool) -> OneInstruction | None:
    """Return the instruction that computes `name` in type `dtype`, or None if it isn't always a single instruction."""
    record = ELEMENTWISE.get(name)
    code = record.code(dtype) if record is not None else None
    if record is None or code is None or code.called or code.shortcut is not None:
        return None
    b, kind = FormBuilder(dtype, proved), scalar_type(dtype)
    arguments = [Number(b, "b1" if k < record.conditions else kind, f"{{{k}}}") for k in range(record.arity)]
    form = b.form(code.write(b, *arguments))
    return None if form is None else OneInstruction(form, record.value_type(dtype), b.declaration)


def _call(emission: Emission, name: str, dtype: DType, computed: DType, args: Sequence[str]) -> LLVMValue:
    """Emit a call of the function of operation `name` for `dtype`. computed: the type of its arguments and result."""
    emission.functions[name, dtype.name] = None
    kind = register_type(computed)
    return LLVMValue(emission.writer.call(kind, symbol(name, dtype.name), *((kind, a) for a in args)), computed)


def _of_halves(emission: Emission, record: Elementwise, dtype: DType, args: Sequence[str]) -> LLVMValue:
    """Emit an operation on float16 or bfloat16 in float32, and return the result, converted back unless it's a bool."""
    wide = [cast(emission, LLVMValue(a, dtype), float32).text for a in args]
    if record.halves is not None:
        return cast(emission, _call(emission, record.name, dtype, float32, wide), dtype)
    result = operation(emission, record.name, float32, wide)
    if result.dtype == bool_:
        return result
    if dtype.name == "bfloat16" and record.kind == "exact":
        # the result is exact, so its lower half is zero, except perhaps that of a NaN
        bits = emission.writer.value(f"bitcast float {result.text} to i32")
        high = emission.writer.value(f"lshr i32 {bits}, 16")
        return LLVMValue(emission.writer.value(f"trunc i32 {high} to i16"), dtype)
    return cast(emission, result, dtype)


def function_code(op: str, dtype: DType) -> tuple[Code | None, DType]:
    """Return the code of `op` for `dtype`, and the type in which it computes."""
    record = ELEMENTWISE[op]
    if dtype.is_half and record.halves is not None:
        return record.halves, float32
    return record.code(dtype), dtype


def symbol(op: str, dtype: str) -> str:
    """Return the name of an operation's function, without `@`: for example, `tj.exp.f32` for "exp" and "float32"."""
    return f"tj.{op}.{scalar_type(DTYPES[dtype])}"


@cache
def definition(op: str, dtype: str) -> str:
    """Return a function's LLVM IR, without declarations of intrinsics, which LLVM's parser adds."""
    operands = ELEMENTWISE[op].operands
    code, computed = function_code(op, DTYPES[dtype])
    assert code is not None, f"{op} doesn't compute in {dtype}"
    b, kind = BlockBuilder(computed), scalar_type(computed)
    result = code.write(b, *(Number(b, kind, f"%{name}") for name in operands))
    b.ret(result)
    parameters = ", ".join(f"{llvm_type(kind)} %{name}" for name in operands)
    header = f"define internal {llvm_type(result.type)} @{symbol(op, dtype)}({parameters}) alwaysinline nounwind {{"
    return f"{header}\nentry:\n{b.body}\n}}\n"
