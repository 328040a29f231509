"""The scalar operations of the table of elementwise operations, each as LLVM instructions.

An operation computes in one type. float16 and bfloat16 compute in float32 and round once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..dtypes import DType, bool_, float32
from ..errors import KernelTypeError
from ..source import Span
from . import mathlib
from .casts import cast
from .context import Context, Value
from .types import register_type

#: operations whose 16-bit result is one of their operands' values, so that it needs no rounding
_EXACT = ("maximum", "minimum", "relu", "clamp")

_FLOAT_COMPARISONS = {
    "equal": "oeq", "not_equal": "une", "less": "olt", "less_equal": "ole", "greater": "ogt", "greater_equal": "oge",
}  # fmt: skip
_SIGNED_COMPARISONS = {
    "equal": "eq", "not_equal": "ne", "less": "slt", "less_equal": "sle", "greater": "sgt", "greater_equal": "sge",
}  # fmt: skip
_UNSIGNED_COMPARISONS = {name: test.replace("s", "u") for name, test in _SIGNED_COMPARISONS.items()}

_FLOAT_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_FLOAT_INTRINSICS = {
    "sqrt": "llvm.sqrt", "abs": "llvm.fabs", "floor": "llvm.floor", "ceil": "llvm.ceil", "round": "llvm.rint",
    "fma": "llvm.fma",
}  # fmt: skip
_INTEGER_BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor",
}  # fmt: skip

_SUFFIXES = {"float": "f32", "double": "f64"}


def operation(
    ctx: Context, name: str, dtype: DType, args: Sequence[str], flags: str = "", span: Span | None = None
) -> Value:
    """The result of the operation `name` on values of type `dtype`, in which it computes.

    args: LLVM values; that of a `where`'s condition first.
    flags: what facts allow: "nsw " and the like for integers.
    raises: KernelTypeError where there is no such operation of that type.
    """
    if name == "where":
        kind = register_type(dtype)
        text = ctx.writer.value(f"select i1 {args[0]}, {kind} {args[1]}, {kind} {args[2]}")
        return Value(text, dtype)
    if dtype.is_fp8:
        raise KernelTypeError(f"{name} of {dtype}: fp8 is storage", span=span, hint="cast it first, to float32 say")
    if dtype.kind == "bool":
        return _of_bool(ctx, name, args)
    if dtype.is_integer:
        return _of_integers(ctx, name, dtype, args, flags, span)
    if dtype.bits == 16:
        return _of_halves(ctx, name, dtype, args, span)
    return _of_floats(ctx, name, dtype, args, span)


# ---- bool ---------------------------------------------------------------------------------------------------

_BOOL_BINARY = {
    "bitwise_and": "and", "logical_and": "and", "bitwise_or": "or", "logical_or": "or", "bitwise_xor": "xor",
}  # fmt: skip


def _of_bool(ctx: Context, name: str, args: Sequence[str]) -> Value:
    if name in ("bitwise_not", "logical_not"):
        return Value(ctx.writer.value(f"xor i1 {args[0]}, true"), bool_)
    if name in _BOOL_BINARY:
        return Value(ctx.writer.value(f"{_BOOL_BINARY[name]} i1 {args[0]}, {args[1]}"), bool_)
    return Value(ctx.writer.value(f"icmp {_UNSIGNED_COMPARISONS[name]} i1 {args[0]}, {args[1]}"), bool_)


# ---- integers -----------------------------------------------------------------------------------------------


def _of_integers(ctx: Context, name: str, dtype: DType, args: Sequence[str], flags: str, span: Span | None) -> Value:
    w, kind = ctx.writer, f"i{dtype.bits}"
    signed = dtype.kind == "int"
    comparisons = _SIGNED_COMPARISONS if signed else _UNSIGNED_COMPARISONS
    if name in comparisons:
        return Value(w.value(f"icmp {comparisons[name]} {kind} {args[0]}, {args[1]}"), bool_)
    if name in _INTEGER_BINARY:
        return Value(w.value(f"{_INTEGER_BINARY[name]} {flags}{kind} {args[0]}, {args[1]}"), dtype)
    if name in ("floordiv", "mod") and flags:
        return Value(w.value(_unsigned_division(name, kind, args[0], args[1])), dtype)
    if name in ("left_shift", "right_shift") and args[1].isdigit() and int(args[1]) < dtype.bits:
        opcode = "shl" if name == "left_shift" else "ashr" if signed else "lshr"
        return Value(w.value(f"{opcode} {kind} {args[0]}, {args[1]}"), dtype)
    if name in _INTEGER_FORMS:
        return Value(_INTEGER_FORMS[name](ctx, dtype, args), dtype)
    return _from_mathlib(ctx, name, dtype, args, span)


def _unsigned_division(name: str, kind: str, x: str, divisor: str) -> str:
    """The quotient or remainder of what isn't negative: by a power of two a shift or a mask."""
    number = int(divisor) if divisor.isdigit() else 0
    if number & (number - 1) or number == 0:
        return f"{'udiv' if name == 'floordiv' else 'urem'} {kind} {x}, {divisor}"
    return f"lshr {kind} {x}, {number.bit_length() - 1}" if name == "floordiv" else f"and {kind} {x}, {number - 1}"


def _extreme(ctx: Context, dtype: DType, which: str, a: str, b: str) -> str:
    kind = f"i{dtype.bits}"
    prefix = "s" if dtype.kind == "int" else "u"
    return ctx.writer.intrinsic(kind, f"llvm.{prefix}{which}.{kind}", (kind, a), (kind, b))


def _integer_neg(ctx: Context, dtype: DType, args: Sequence[str]) -> str:
    return ctx.writer.value(f"sub i{dtype.bits} 0, {args[0]}")


def _integer_abs(ctx: Context, dtype: DType, args: Sequence[str]) -> str:
    if dtype.kind == "uint":
        return args[0]
    kind = f"i{dtype.bits}"
    return ctx.writer.intrinsic(kind, f"llvm.abs.{kind}", (kind, args[0]), ("i1", "false"))


def _integer_not(ctx: Context, dtype: DType, args: Sequence[str]) -> str:
    return ctx.writer.value(f"xor i{dtype.bits} {args[0]}, -1")


def _integer_clamp(ctx: Context, dtype: DType, args: Sequence[str]) -> str:
    return _extreme(ctx, dtype, "min", _extreme(ctx, dtype, "max", args[0], args[1]), args[2])


def _integer_fma(ctx: Context, dtype: DType, args: Sequence[str]) -> str:
    product = ctx.writer.value(f"mul i{dtype.bits} {args[0]}, {args[1]}")
    return ctx.writer.value(f"add i{dtype.bits} {product}, {args[2]}")


_INTEGER_FORMS: dict[str, Callable[[Context, DType, Sequence[str]], str]] = {
    "neg": _integer_neg,
    "abs": _integer_abs,
    "bitwise_not": _integer_not,
    "maximum": lambda ctx, dtype, args: _extreme(ctx, dtype, "max", args[0], args[1]),
    "minimum": lambda ctx, dtype, args: _extreme(ctx, dtype, "min", args[0], args[1]),
    "relu": lambda ctx, dtype, args: _extreme(ctx, dtype, "max", args[0], "0"),
    "clamp": _integer_clamp,
    "fma": _integer_fma,
}


# ---- floats -------------------------------------------------------------------------------------------------


def _of_halves(ctx: Context, name: str, dtype: DType, args: Sequence[str], span: Span | None) -> Value:
    if name in ("neg", "abs"):
        return Value(_sign_bit(ctx, name, dtype, args[0]), dtype)
    wide = [cast(ctx, Value(a, dtype), float32).text for a in args]
    result = _of_floats(ctx, name, float32, wide, span)
    if result.dtype == bool_:
        return result
    if dtype.name == "bfloat16" and name in _EXACT:
        bits = ctx.writer.value(f"bitcast float {result.text} to i32")
        high = ctx.writer.value(f"lshr i32 {bits}, 16")
        return Value(ctx.writer.value(f"trunc i32 {high} to i16"), dtype)
    return cast(ctx, result, dtype)


def _sign_bit(ctx: Context, name: str, dtype: DType, x: str) -> str:
    """-x or |x| of a 16-bit float, on its bits."""
    w, kind = ctx.writer, register_type(dtype)
    bits = w.value(f"bitcast {kind} {x} to i16")
    changed = w.value(f"xor i16 {bits}, -32768" if name == "neg" else f"and i16 {bits}, 32767")
    return w.value(f"bitcast i16 {changed} to {kind}")


def _of_floats(ctx: Context, name: str, dtype: DType, args: Sequence[str], span: Span | None) -> Value:
    w, kind = ctx.writer, register_type(dtype)
    if name in _FLOAT_COMPARISONS:
        return Value(w.value(f"fcmp {_FLOAT_COMPARISONS[name]} {kind} {args[0]}, {args[1]}"), bool_)
    if name in _FLOAT_BINARY:
        return Value(w.value(f"{_FLOAT_BINARY[name]} {kind} {args[0]}, {args[1]}"), dtype)
    if name in _FLOAT_INTRINSICS:
        symbol = f"{_FLOAT_INTRINSICS[name]}.{_SUFFIXES[kind]}"
        return Value(w.intrinsic(kind, symbol, *((kind, a) for a in args)), dtype)
    if name in _FLOAT_FORMS:
        return Value(_FLOAT_FORMS[name](ctx, kind, args), dtype)
    return _from_mathlib(ctx, name, dtype, args, span)


def _nan_extreme(ctx: Context, kind: str, which: str, a: str, b: str) -> str:
    """NumPy's maximum or minimum: NaN if either is; +0 is greater than -0."""
    w = ctx.writer
    if kind == "float" and ctx.target.number >= 80:
        return w.intrinsic(kind, f"llvm.{which}imum.f32", (kind, a), (kind, b))
    number = w.intrinsic(kind, f"llvm.{which}num.{_SUFFIXES[kind]}", (kind, a), (kind, b))
    unordered = w.value(f"fcmp uno {kind} {a}, {b}")
    return w.value(f"select i1 {unordered}, {kind} 0x7FF8000000000000, {kind} {number}")


def _float_clamp(ctx: Context, kind: str, args: Sequence[str]) -> str:
    return _nan_extreme(ctx, kind, "min", _nan_extreme(ctx, kind, "max", args[0], args[1]), args[2])


_FLOAT_FORMS: dict[str, Callable[[Context, str, Sequence[str]], str]] = {
    "neg": lambda ctx, kind, args: ctx.writer.value(f"fneg {kind} {args[0]}"),
    "reciprocal": lambda ctx, kind, args: ctx.writer.value(f"fdiv {kind} 1.0, {args[0]}"),
    "maximum": lambda ctx, kind, args: _nan_extreme(ctx, kind, "max", args[0], args[1]),
    "minimum": lambda ctx, kind, args: _nan_extreme(ctx, kind, "min", args[0], args[1]),
    "relu": lambda ctx, kind, args: _nan_extreme(ctx, kind, "max", args[0], "0.0"),
    "clamp": _float_clamp,
}


def _from_mathlib(ctx: Context, name: str, dtype: DType, args: Sequence[str], span: Span | None) -> Value:
    if not mathlib.has(name, dtype.name):
        raise KernelTypeError(
            f"{name} has no implementation for {dtype}",
            span=span,
            hint=f"cast to float32 first: {name}(x.astype(tj.float32))" if dtype.is_float else None,
        )
    ctx.functions[name, dtype.name] = None
    kind = register_type(dtype)
    return Value(ctx.writer.call(kind, mathlib.symbol(name, dtype.name), *((kind, a) for a in args)), dtype)
