"""`matmul`: checks, batches, and the plans that calls with equal arguments share.

`heuristics.py` chooses the kernel, which has its own file.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import tilejit as tj

from ..dtypes import DType
from ..errors import LaunchError, entry_point
from ..runtime.arrays import ArrayView
from .arguments import (
    at,
    check_added,
    check_apart,
    check_factors,
    device_of,
    empty,
    expanded,
    function_of,
    merged,
    product_shape,
    reshaped,
    result_type,
    view,
)
from .heuristics import Choice, Problem, choose

ACTIVATIONS = {"relu": tj.relu, "gelu": tj.gelu, "silu": tj.silu}
#: the bytes at whose multiples the rows of an array must start for TMA
TMA_BYTES = 16


class Plan(NamedTuple):
    """The plan of calls with arrays of equal properties. launcher: None if the arrays aren't passed as they are."""

    shape: tuple[int, ...]
    dtype: DType
    launcher: Any
    constexprs: dict[str, Any]


#: the properties of the arguments and the device -> the plan
_plans: dict[tuple[Any, ...], Plan] = {}
_MOST_PLANS = 4096


@entry_point
def matmul(
    a: Any, b: Any, *, bias: Any = None, activation: Any = None, residual: Any = None, out_dtype: Any = None,
    out: Any = None,
) -> Any:
    """Return activation(a @ b + bias) + residual, for a of shape (..., M, K) and b of shape (..., K, N).

    a and b are float16 or bfloat16, with any strides: weights stored N × K are passed as `w.T`. Leading dimensions
    broadcast as in NumPy. Everything after the products is computed in float32 and rounded once.

    bias: of shape (N,). residual: of the result's shape; it may be `out` itself.
    activation: "relu", "gelu" (with the error function), "silu", or a `@tj.function` of a float32 tile.
    out_dtype: float16, bfloat16 or float32, by default that of `out`, else that of `a`.
    out: the array to write, which is returned; by default a new one of a's library, on its device.

    If |a| and |b| contain absolute values, the error before the activation is at most (K / 8 + 8) * 2**-23 times an
    element of |a| @ |b| + |bias|; see each kernel's file. Rows of a and b that start at multiples of 16 bytes are
    copied by TMA on Hopper; all others, and other GPUs, take a slower kernel.

    Example:
        from tilejit import kernels

        x, w = np.ones((3, 64), np.float16), np.ones((8, 64), np.float16)
        y = kernels.matmul(x, w.T, bias=np.ones(8, np.float16), activation="relu")
        assert y.shape == (3, 8) and (y == 65).all()
    """
    A, B = view("a", a), view("b", b)
    added = None if bias is None else view("bias", bias)
    kept = None if residual is None else view("residual", residual)
    C = None if out is None else view("out", out)
    function = function_of(activation, ACTIVATIONS)
    dtype = None if out_dtype is None else result_type(out_dtype)
    device = device_of(A)
    key = (
        A.facts.number, B.facts.number, (A.pointer | B.pointer) % TMA_BYTES, function, dtype, device,
        *[None if each is None else (each.facts.number, each.pointer % TMA_BYTES) for each in (added, kept, C)],
    )
    plan = _plans.get(key)
    if plan is None:
        plan = _planned(A, B, added, kept, C, dtype, device)
        if len(_plans) >= _MOST_PLANS:
            _plans.clear()
        _plans[key] = plan
    if C is None:
        out = empty(a, plan.shape, plan.dtype)
    else:
        check_apart(C, {"a": A, "b": B, "bias": added, "residual": kept})
    if plan.launcher is not None:
        plan.launcher(a, b, out, bias, residual, activation=function, **plan.constexprs)
    elif 0 not in plan.shape:
        _launch_views(A, B, view("out", out), added, kept, function, device)
    return out


def _planned(
    A: ArrayView, B: ArrayView, bias: ArrayView | None, residual: ArrayView | None, C: ArrayView | None,
    dtype: DType | None, device: Any,
) -> Plan:
    """Return the plan of a product; raise LaunchError if its arguments don't fit together."""
    check_factors(A, B)
    shape = product_shape(A.facts.shape, B.facts.shape)
    check_added("bias", bias, shape[-1:])
    check_added("residual", residual, shape)
    check_added("out", C, shape)
    if C is not None and dtype not in (None, C.facts.dtype):
        message = f"out is {C.facts.dtype} and out_dtype {dtype}"
        raise LaunchError(message, hint="pass one of them, or equal types")
    result = dtype or (A if C is None else C).facts.dtype
    if len(shape) > 2 or 0 in shape or _is_column(B):
        return Plan(shape, result, None, {})
    choice = _choice(A, B, C, bias, shape, result, device)
    return Plan(shape, result, choice.kernel[(choice.grid,), choice.threads], choice.constexprs)


def _choice(
    A: ArrayView, B: ArrayView, C: ArrayView | None, bias: ArrayView | None, shape: tuple[int, ...], dtype: DType,
    device: Any,
) -> Choice:
    """Return the kernel for a product, or a batch with one leading dimension. C: None if it will be allocated."""
    a_by_k, b_by_k = _by_k(A, -1), _by_k(B, -2)
    is_aligned = C is None or (C.facts.unit_dim == len(shape) - 1 and C.align >= TMA_BYTES)
    m, n = shape[-2:]
    return choose(Problem(
        math.prod(shape[:-2]), m, n, A.facts.shape[-1], bool(a_by_k), bool(b_by_k),
        is_tma=a_by_k is not None and b_by_k is not None and device.target.name == "sm_90a",
        out_by_tma=is_aligned and n * dtype.bytes % TMA_BYTES == 0, out_bytes=dtype.bytes,
        bias_bytes=0 if bias is None else bias.facts.dtype.bytes, sms=device.multiprocessors,
    ))


def _by_k(each: ArrayView, k_axis: int) -> bool | None:
    """Return True if K is contiguous and False if the other dimension is; None if TMA can't copy the factor."""
    unit, rank = each.facts.unit_dim, len(each.facts.shape)
    if unit is None or unit < rank - 2 or each.align < TMA_BYTES:
        return None
    return unit == rank + k_axis


def _is_column(B: ArrayView) -> bool:
    """True if b is a column whose elements are adjacent: it has two contiguous dimensions, of which K matters."""
    return B.facts.shape[-1] == 1 and B.facts.strides[-2] == 1


def _launch_views(
    A: ArrayView, B: ArrayView, C: ArrayView, bias: ArrayView | None, residual: ArrayView | None, function: Any,
    device: Any,
) -> None:
    """Compute products with leading dimensions: as one product of all rows, as one batch, or as several batches."""
    if _is_column(B):
        B = reshaped(B, 0, B.facts.shape, (*B.facts.strides[:-1], TMA_BYTES))
    leading = C.facts.shape[:-2]
    count = len(leading)
    a, b, c = (expanded(each, leading) for each in (A, B, C))
    r = None if residual is None else expanded(residual, leading)
    if not any(b.facts.strides[:count]):  # every product has the same b
        rows = [each and merged(each, count + 1) for each in (a, c, r)]
        if rows[0] is not None and rows[1] is not None and (r is None or rows[2] is not None):
            _launch(rows[0], at(b, count), rows[1], bias, rows[2], function, device)
            return
    batches = [each and merged(each, count) for each in (a, b, c, r)]
    if None in (batches if r is not None else batches[:3]):
        for i in range(leading[0]):
            parts = [at(each, 1, i) for each in (a, b, c)]
            _launch_views(parts[0], parts[1], parts[2], bias, r and at(r, 1, i), function, device)
        return
    A, B, C = batches[:3]  # type: ignore[assignment]
    _launch(A, B, C, bias, batches[3], function, device)


def _launch(
    A: ArrayView, B: ArrayView, C: ArrayView, bias: ArrayView | None, residual: ArrayView | None, function: Any,
    device: Any,
) -> None:
    choice = _choice(A, B, C, bias, C.facts.shape, C.facts.dtype, device)
    launcher = choice.kernel[(choice.grid,), choice.threads]
    launcher(A, B, C, bias, residual, activation=function, **choice.constexprs)
