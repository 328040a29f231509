"""The table of functions: which exist, for which types, and their LLVM text."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from . import error_function, exponential, integer, logarithm, remainder, trigonometric
from .emitter import Emitter, Value
from .formats import FORMATS

__all__ = ["definition", "dependencies", "has", "symbol"]

_FLOAT_UNARY: dict[str, Callable[[Emitter, Value], Value]] = {
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "sigmoid": exponential.sigmoid,
    "silu": exponential.silu,
    "tanh": exponential.tanh,
    "log": logarithm.log,
    "log2": logarithm.log2,
    "sin": trigonometric.sin,
    "cos": trigonometric.cos,
    "erf": error_function.erf,
    "gelu": error_function.gelu,
    "rsqrt": lambda e, x: 1.0 / e.intrinsic("sqrt", x),
    "reciprocal": lambda e, x: 1.0 / x,
}

_FLOAT_BINARY: dict[str, Callable[[Emitter, Value, Value], Value]] = {
    "pow": logarithm.power,
    "mod": remainder.mod,
    "floordiv": remainder.floordiv,
}

#: The last argument says whether the integers are signed.
_INTEGER_BINARY: dict[str, Callable[[Emitter, Value, Value, bool], Value]] = {
    "floordiv": integer.floordiv,
    "mod": integer.mod,
    "pow": integer.power,
    "left_shift": integer.left_shift,
    "right_shift": integer.right_shift,
}

#: dtype -> (LLVM type, symbol suffix)
_INTEGERS = {
    f"{prefix}int{bits}": (f"i{bits}", f"{prefix or 'i'}{bits}") for prefix in ("", "u") for bits in (8, 16, 32, 64)
}


def has(op: str, dtype: str) -> bool:
    """Whether the library defines `op` for `dtype` (a type's name, as in `float32`)."""
    if dtype in FORMATS:
        return op in _FLOAT_UNARY or op in _FLOAT_BINARY
    return dtype in _INTEGERS and op in _INTEGER_BINARY


def symbol(op: str, dtype: str) -> str:
    """The function's name without its `@`, as in `tj.exp.f32`."""
    suffix = FORMATS[dtype].suffix if dtype in FORMATS else _INTEGERS[dtype][1]
    return f"tj.{op}.{suffix}"


def dependencies(op: str, dtype: str) -> tuple[tuple[str, str], ...]:
    """The other functions that `definition(op, dtype)` calls: none does, each is complete in itself."""
    return ()


@cache
def definition(op: str, dtype: str) -> str:
    """The function as LLVM text; LLVM's parser declares the intrinsics it calls.

    raises: KeyError where `has(op, dtype)` is false.
    """
    return _float_definition(op, dtype) if dtype in FORMATS else _integer_definition(op, dtype)


def _float_definition(op: str, dtype: str) -> str:
    e = Emitter(FORMATS[dtype])
    kind = e.format.llvm
    x, y = e.argument(kind, "x"), e.argument(kind, "y")
    if op in _FLOAT_UNARY:
        e.ret(_FLOAT_UNARY[op](e, x))
        return _function(symbol(op, dtype), kind, f"{kind} %x", e)
    e.ret(_FLOAT_BINARY[op](e, x, y))
    return _function(symbol(op, dtype), kind, f"{kind} %x, {kind} %y", e)


def _integer_definition(op: str, dtype: str) -> str:
    kind, _ = _INTEGERS[dtype]
    e = Emitter()
    x, y = e.argument(kind, "x"), e.argument(kind, "y")
    e.ret(_INTEGER_BINARY[op](e, x, y, not dtype.startswith("u")))
    return _function(symbol(op, dtype), kind, f"{kind} %x, {kind} %y", e)


def _function(name: str, kind: str, parameters: str, e: Emitter) -> str:
    header = f"define internal {kind} @{name}({parameters}) alwaysinline nounwind {{"
    return f"{header}\nentry:\n{e.body}\n}}\n"
