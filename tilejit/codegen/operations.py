"""The elementwise operations as LLVM instructions: each as its record says.

An operation computes in one type. float16 and bfloat16 compute in float32 and round once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from ..dtypes import DType, bool_, float32
from ..errors import KernelTypeError
from ..ops.elementwise import ELEMENTWISE, Elementwise
from ..ops.scalar import Code, Number, scalar_type
from ..source import Span
from .builders import FormBuilder, InlineBuilder
from .casts import cast
from .emission import Emission, LLVMValue
from .functions import symbol
from .types import register_type


def operation(
    emission: Emission, name: str, dtype: DType, args: Sequence[str], proved: bool = False, span: Span | None = None
) -> LLVMValue:
    """The result of the operation `name` on values of type `dtype`, in which it computes.

    args: LLVM values; that of a `where`'s condition first. proved: see `Builder`.
    raises: KernelTypeError where there is no such operation of that type.
    """
    record = ELEMENTWISE.get(name)
    code = record.code(dtype) if record is not None else None
    if record is not None and code is not None:
        return _computed(emission, record, code, dtype, args, proved)
    if dtype.is_fp8:
        raise KernelTypeError(f"{name} of {dtype}: fp8 is storage", span=span, hint="cast it first, to float32 say")
    if record is not None and record.floats is not None and dtype.is_float:
        return _of_halves(emission, record, record.floats, dtype, args)
    raise KernelTypeError(
        f"{name} has no implementation for {dtype}",
        span=span,
        hint=f"cast to float32 first: {name}(x.astype(tj.float32))" if dtype.is_float else None,
    )


def _computed(
    emission: Emission, record: Elementwise, code: Code, dtype: DType, args: Sequence[str], proved: bool = False
) -> LLVMValue:
    one = _one_instruction(record, dtype, proved)
    if one is not None:
        if one.declaration:
            emission.writer.declarations[one.declaration] = None
        return LLVMValue(emission.writer.value(one.form.format(*args), pure=bool(one.declaration)), one.dtype)
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
    """An operation that is one instruction whatever its arguments are.

    form: its text, in which `{0}` and `{1}` stand for the arguments. dtype: its value's. declaration: of the intrinsic
    that it calls, "" where it calls none.
    """

    form: str
    dtype: DType
    declaration: str


@cache
def one_instruction(name: str, dtype: DType, proved: bool) -> OneInstruction | None:
    """The one instruction that the operation `name` is in a type, or None."""
    record = ELEMENTWISE.get(name)
    return None if record is None else _one_instruction(record, dtype, proved)


@cache
def _one_instruction(record: Elementwise, dtype: DType, proved: bool) -> OneInstruction | None:
    """As `one_instruction`. Most operations are additions and products of indices: none needs a builder of its own."""
    code = record.code(dtype)
    if code is None or code.called or code.shortcut is not None:
        return None
    b, kind = FormBuilder(dtype, proved), scalar_type(dtype)
    arguments = [Number(b, "b1" if k < record.conditions else kind, f"{{{k}}}") for k in range(record.arity)]
    form = b.form(code.write(b, *arguments))
    return None if form is None else OneInstruction(form, record.value_type(dtype), b.declaration)


def _call(emission: Emission, name: str, dtype: DType, computed: DType, args: Sequence[str]) -> LLVMValue:
    """The function's value: of `name` for `dtype`, on values of the type in which it computes."""
    emission.functions[name, dtype.name] = None
    kind = register_type(computed)
    return LLVMValue(emission.writer.call(kind, symbol(name, dtype.name), *((kind, a) for a in args)), computed)


def _of_halves(emission: Emission, record: Elementwise, code: Code, dtype: DType, args: Sequence[str]) -> LLVMValue:
    """An operation on float16 or bfloat16, by way of float32.

    An exact operation gives the value of one of its operands, so that its result needs no rounding.
    """
    wide = [cast(emission, LLVMValue(a, dtype), float32).text for a in args]
    if record.halves is not None:
        return cast(emission, _call(emission, record.name, dtype, float32, wide), dtype)
    result = _computed(emission, record, code, float32, wide)
    if result.dtype == bool_:
        return result
    if dtype.name == "bfloat16" and record.kind == "exact":
        bits = emission.writer.value(f"bitcast float {result.text} to i32")
        high = emission.writer.value(f"lshr i32 {bits}, 16")
        return LLVMValue(emission.writer.value(f"trunc i32 {high} to i16"), dtype)
    return cast(emission, result, dtype)
