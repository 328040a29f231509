"""Elementwise operations as LLVM functions. They use only IEEE operations, so results are the same on all targets."""

from __future__ import annotations

from functools import cache

from ..dtypes import DTYPES, DType, float32
from ..ops.elementwise import ELEMENTWISE
from ..ops.scalar import FORMATS, Code, Number, scalar_type
from .builders import FunctionBuilder, llvm_type


def has(op: str, dtype: str) -> bool:
    """True if `op` is emitted as a function for `dtype`, a name such as "float32", rather than inline."""
    code, _ = _code(op, DTYPES[dtype])
    return code is not None and code.called


def _code(op: str, dtype: DType) -> tuple[Code | None, DType]:
    record = ELEMENTWISE[op]
    if dtype.is_half and record.halves is not None:
        return record.halves, float32
    return record.code(dtype), dtype


def symbol(op: str, dtype: str) -> str:
    """Return the function's name without its `@`, for example `tj.exp.f32`."""
    return f"tj.{op}.{scalar_type(DTYPES[dtype])}"


@cache
def definition(op: str, dtype: str) -> str:
    """Return the function's LLVM IR, without declarations of intrinsics, which LLVM's parser adds."""
    operands = ELEMENTWISE[op].operands
    code, computed = _code(op, DTYPES[dtype])
    assert code is not None, f"{op} doesn't compute in {dtype}"
    b, kind = FunctionBuilder(FORMATS.get(computed.name)), scalar_type(computed)
    result = code.write(b, *(Number(b, kind, f"%{name}") for name in operands))
    b.ret(result)
    parameters = ", ".join(f"{llvm_type(kind)} %{name}" for name in operands)
    header = f"define internal {llvm_type(result.type)} @{symbol(op, dtype)}({parameters}) alwaysinline nounwind {{"
    return f"{header}\nentry:\n{b.body}\n}}\n"
