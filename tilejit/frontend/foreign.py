"""What kernels can't call, and what they write instead: functions of other libraries, plain ones, other kernels."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import FunctionType
from typing import Any

from ..ops.elementwise import ELEMENTWISE
from ..wording import shown
from .context import Context

__all__ = ["INSTEAD", "instead", "is_kernel", "launched", "not_callable"]

#: name of a function of Python's, math's, NumPy's or another library's -> what there is at run time, where that is no
#: elementwise operation of the same name
INSTEAD: Mapping[str, str] = {
    "absolute": "tj.abs",
    "add": "x + y",
    "around": "tj.round",
    "arctan2": "tj.atan2",
    "bitwise_and": "x & y",
    "bitwise_or": "x | y",
    "bitwise_xor": "x ^ y",
    "clip": "tj.clamp",
    "divide": "x / y",
    "dot": "tj.warp.gemm(acc, a, b)",
    "empty": "tj.alloc_local(shape, dtype)",
    "fabs": "tj.abs",
    "floor_divide": "x // y",
    "full": "tj.cta.full(shape, value, dtype)",
    "invert": "~x",
    "isnan": "x != x",
    "len": "the extents of memory: .shape",
    "matmul": "tj.warp.gemm(acc, a, b)",
    "multiply": "x * y",
    "negative": "-x",
    "ones": "tj.cta.full(shape, 1, dtype)",
    "pow": "x ** y",
    "power": "x ** y",
    "remainder": "x % y",
    "rint": "tj.round",
    "square": "x * x",
    "subtract": "x - y",
    "sum": "tj.sum, of tiles",
    "trunc": "int(x)",
    "zeros": "tj.cta.zeros(shape, dtype)",
}


#: packages whose functions nobody decorates
_LIBRARIES = frozenset(("cupy", "jax", "numpy", "scipy", "torch"))


def _package(function: FunctionType) -> str:
    return function.__module__.partition(".")[0]


def instead(callee: Any) -> str | None:
    """What there is at run time for a function of Python's or of another library's; None for one without a match."""
    name = getattr(callee, "__name__", "")
    written = INSTEAD.get(name) or (f"tj.{name}" if name in ELEMENTWISE else None)
    return None if written is None else f"at run time there is {written}"


def not_callable(ctx: Context, node: ast.Call, callee: Any) -> Exception:
    """The error for a call of what no kernel can call."""
    if isinstance(callee, FunctionType) and _package(callee) == __package__.partition(".")[0]:
        return ctx.syntax_error(
            node, f"{callee.__name__} is a function of tilejit for the host: a kernel can't call it",
            "call it outside, and pass or capture what it gives",
        )
    if is_kernel(callee):
        return launched(ctx, node, callee)
    if isinstance(callee, FunctionType) and _package(callee) not in _LIBRARIES:
        return ctx.syntax_error(
            node, f"{callee.__name__} is a plain Python function: a kernel can't call it",
            f"decorate {callee.__name__} with @tj.function",
        )
    if callable(callee):
        name = ast.unparse(node.func) if isinstance(node.func, (ast.Name, ast.Attribute)) else repr(callee)
        hints = filter(None, (instead(callee), "compute it outside and capture the value"))
        return ctx.syntax_error(node, f"{name} can't be called in a kernel", "; or ".join(hints))
    return ctx.type_error(node, f"{shown(callee)} can't be called", "call a @tj.function or an operation of tilejit")


def is_kernel(callee: Any) -> bool:
    """Whether `@tj.kernel` made it; that class is defined above the frontend, which can't import it."""
    return hasattr(callee, "signatures") and hasattr(callee, "source")


def launched(ctx: Context, node: ast.AST, callee: Any) -> Exception:
    """The error for a kernel that is called in a kernel, with a grid or without."""
    return ctx.syntax_error(
        node, f"{callee.__name__} is a kernel: a kernel can't launch another",
        "launch them one after the other, or make it a @tj.function that both call",
    )
