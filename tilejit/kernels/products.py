"""`matmul`: arguments, batches and the result's memory. `heuristics.py` chooses the kernel, which has its own file."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import tilejit as tj

from ..dtypes import DType, as_dtype
from ..errors import LaunchError, entry_point
from ..frontend.language import Function, Intrinsic
from ..runtime import devices
from ..runtime.arrays import SIMULATOR, ArrayView, DeviceArray, device_name, facts_of, view_of_memory
from ..runtime.readers import view_of
from ..runtime.signature import overlaps
from ..wording import shown
from .flex import flex
from .heuristics import Problem, choose

_FACTORS = (tj.float16, tj.bfloat16)
_RESULTS = (*_FACTORS, tj.float32)
_ACTIVATIONS = {"relu": tj.relu, "gelu": tj.gelu, "silu": tj.silu}
#: the bytes at whose multiples the rows of an array must start for TMA
_TMA_BYTES = 16


@entry_point
def matmul(
    a: Any, b: Any, *, bias: Any = None, activation: Any = None, residual: Any = None, out_dtype: Any = None,
    out: Any = None,
) -> Any:
    """Return activation(a @ b + bias) + residual, for a of shape (..., M, K) and b of shape (..., K, N).

    a and b are float16 or bfloat16, with any strides: weights stored N × K are passed as `w.T`. Leading dimensions
    broadcast as in NumPy. Everything after the products is computed in float32 and rounded once.

    bias: of shape (N,). residual: of the result's shape.
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
    A, B = _factor("a", a), _factor("b", b)
    if A.facts.dtype is not B.facts.dtype:
        raise LaunchError(
            f"a is {A.facts.dtype} and b is {B.facts.dtype}", hint="convert one of them: both must have one dtype"
        )
    shape = _shape(A.facts.shape, B.facts.shape)
    if shape[-1] == 1 and B.facts.strides[-2] == 1:
        # a column has two contiguous dimensions: only K matters
        b = B = _reshaped(B, 0, B.facts.shape, (*B.facts.strides[:-1], _TMA_BYTES))
    added = None if bias is None else _added("bias", bias, shape[-1:])
    kept = None if residual is None else _added("residual", residual, shape)
    dtype = None if out_dtype is None else _result_type(out_dtype)
    if out is None:
        out = _empty(a, shape, dtype or A.facts.dtype)
        C = view_of(out)
    else:
        C = _checked(out, shape, dtype, {"a": A, "b": B, "bias": added})
    function = _function(activation)
    if 0 in shape:
        return out
    if len(shape) == 2:
        _launch((A, B, C, kept), (a, b, out, bias, residual), function)
    else:
        _launch_batch(A, B, C, bias, kept, function)
    return out


def _view(name: str, value: Any) -> ArrayView:
    try:
        return view_of(value)
    except LaunchError as error:
        raise LaunchError(f"{name}: {error.message}", hint=error.hint) from None


def _factor(name: str, value: Any) -> ArrayView:
    view = _view(name, value)
    if len(view.facts.shape) < 2:
        hint = "pass a[None], a matrix of one row" if name == "a" else "pass b[:, None], a matrix of one column"
        raise LaunchError(f"{name} has shape {view.facts.shape}, which is no matrix", hint=hint)
    if view.facts.dtype not in _FACTORS:
        raise LaunchError(f"{name} is {view.facts.dtype}; matmul multiplies float16 and bfloat16", hint="convert it")
    return view


def _shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the product of arrays of these shapes."""
    if a[-1] != b[-2]:
        hint = "pass b.T: weights stored N × K are transposed" if a[-1] == b[-1] and len(b) == 2 else (
            "the last extent of a must equal the last but one of b"
        )
        raise LaunchError(f"a has K = {a[-1]} and b has K = {b[-2]}: their shapes are {a} and {b}", hint=hint)
    try:
        return (*np.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1])
    except ValueError:
        raise LaunchError(
            f"the leading dimensions of a, {a[:-2]}, and b, {b[:-2]}, don't broadcast",
            hint="make them equal, or 1, or leave them out",
        ) from None


def _result_type(out_dtype: Any) -> DType:
    # torch's dtypes are read by their names
    dtype = as_dtype(out_dtype) or as_dtype(str(out_dtype).removeprefix("torch."))
    if dtype is None or dtype not in _RESULTS:
        raise LaunchError(f"out_dtype is {shown(out_dtype)}", hint="pass float16, bfloat16 or float32, as tj.float32")
    return dtype


def _added(name: str, value: Any, shape: tuple[int, ...]) -> ArrayView:
    view = _view(name, value)
    if view.facts.shape != shape:
        hint = "pass one number per column" if name == "bias" else "pass an array of the result's shape"
        raise LaunchError(f"{name} has shape {view.facts.shape}, not {shape}", hint=hint)
    if view.facts.dtype not in _RESULTS:
        raise LaunchError(f"{name} is {view.facts.dtype}", hint="convert it to float16, bfloat16 or float32")
    return view


def _checked(
    out: Any, shape: tuple[int, ...], dtype: DType | None, inputs: dict[str, ArrayView | None]
) -> ArrayView:
    """Return the view of an array that the user passed for the result. dtype: the one that the user passed."""
    view = _added("out", out, shape)
    if dtype not in (None, view.facts.dtype):
        raise LaunchError(f"out is {view.facts.dtype} and out_dtype {dtype}", hint="pass one of them, or equal types")
    for name, each in inputs.items():
        if each is not None and overlaps([_range(view, 0), _range(each, 1)]):
            raise LaunchError(f"out overlaps {name}, which is read while out is written", hint="pass another array")
    return view


def _range(view: ArrayView, position: int) -> tuple[int, int, int]:
    return view.pointer + view.facts.low_bytes, view.pointer + view.facts.high_bytes, position


def _function(activation: Any) -> Any:
    """Return the function of the kernel language that an activation names or is."""
    if activation is None or isinstance(activation, (Function, Intrinsic)):
        return activation
    if isinstance(activation, str) and activation in _ACTIVATIONS:
        return _ACTIVATIONS[activation]
    hint = "decorate it with @tj.function" if callable(activation) else (
        f"pass {', '.join(map(repr, _ACTIVATIONS))} or a @tj.function of a tile"
    )
    raise LaunchError(f"activation is {shown(activation)}", hint=hint)


def _empty(like: Any, shape: tuple[int, ...], dtype: DType) -> Any:
    """Return an uninitialized array of the library of another one, on its device."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and isinstance(like, torch.Tensor):
        return like.new_empty(shape, dtype=getattr(torch, dtype.name))
    if cupy is not None and isinstance(like, cupy.ndarray):
        with like.device:
            return cupy.empty(shape, dtype.numpy)
    if isinstance(like, np.ndarray):
        return np.empty(shape, dtype.numpy)
    if isinstance(like, DeviceArray):
        return devices.empty(shape, dtype, like.device)
    raise LaunchError(
        f"a is {type(like).__name__}, of a library in which matmul can't allocate the result", hint="pass out="
    )


def _device(number: int | None) -> Any:
    """Return the device of a launch with an array on device `number`."""
    chosen = devices.default() if number is None or number == SIMULATOR else None
    return chosen if chosen is not None and number in (None, chosen.number) else devices.named(device_name(number))


def _by_k(view: ArrayView, k_axis: int) -> bool | None:
    """Return True if K is contiguous and False if the other dimension is; None if TMA can't copy the factor."""
    unit, rank = view.facts.unit_dim, len(view.facts.shape)
    if unit is None or unit < rank - 2 or view.align < _TMA_BYTES:
        return None
    return unit == rank + k_axis


def _launch(views: Sequence[ArrayView | None], arguments: Sequence[Any], activation: Any) -> None:
    """Compute one product, or a batch of them with one leading dimension.

    views: of a, b, out and residual, where a or b without a leading dimension is multiplied by all of the other.
    arguments: a, b, out, bias and residual, as the user's arrays or as views.
    """
    A, B, C, _ = views
    assert A is not None and B is not None and C is not None
    a_by_k, b_by_k, facts = _by_k(A, -1), _by_k(B, -2), C.facts
    device = _device(A.facts.device)
    batch, (m, n) = math.prod(facts.shape[:-2]), facts.shape[-2:]
    bias = arguments[3]
    choice = choose(Problem(
        batch, m, n, A.facts.shape[-1], bool(a_by_k), bool(b_by_k),
        is_tma=a_by_k is not None and b_by_k is not None and device.target.name == "sm_90a",
        out_bytes=facts.dtype.bytes, bias_bytes=0 if bias is None else view_of(bias).facts.dtype.bytes,
        sms=device.multiprocessors,
    ))
    constexprs = choice.constexprs
    if choice.kernel is flex:
        is_whole = n * facts.dtype.bytes % _TMA_BYTES == 0
        by_tma = is_whole and facts.unit_dim == len(facts.shape) - 1 and C.align >= _TMA_BYTES
        constexprs = {**constexprs, "by_tma": by_tma}
    choice.kernel[(choice.grid,), choice.threads](*arguments, activation=activation, **constexprs)


def _launch_batch(
    A: ArrayView, B: ArrayView, C: ArrayView, bias: Any, residual: ArrayView | None, activation: Any
) -> None:
    """Compute products with leading dimensions: as one product of all rows, as one batch, or as several batches."""
    leading = C.facts.shape[:-2]
    operands = [None if view is None else _expanded(view, leading) for view in (A, B, C, residual)]
    a, b, c, r = operands
    assert a is not None and b is not None and c is not None
    count = len(leading)
    if not any(b.facts.strides[:count]):  # every product has the same b
        rows = [None if view is None else _merged(view, count + 1) for view in (a, c, r)]
        if rows[0] is not None and rows[1] is not None and (residual is None or rows[2] is not None):
            views = rows[0], _at(b, count), rows[1], rows[2]
            _launch(views, (*views[:3], bias, views[3]), activation)
            return
    batches = [None if view is None else _merged(view, count) for view in operands]
    if any(view is not None and batch is None for view, batch in zip(operands, batches, strict=True)):
        for i in range(leading[0]):
            parts = [None if view is None else _at(view, 1, i) for view in operands]
            _launch_batch(parts[0], parts[1], parts[2], bias, parts[3], activation)  # type: ignore[arg-type]
        return
    _launch(batches, (*batches[:3], bias, batches[3]), activation)


def _reshaped(view: ArrayView, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> ArrayView:
    """Return a view of the memory of another one. offset, strides: in elements."""
    facts = facts_of(view.facts.dtype, shape, strides, view.facts.device)
    pointer = view.pointer + offset * view.facts.dtype.bytes
    return view_of_memory(view.owner, pointer, facts, view.writable, view.producer)


def _expanded(view: ArrayView, leading: tuple[int, ...]) -> ArrayView:
    """Return the view with these leading dimensions, along which what has no extent is repeated."""
    shape, strides = view.facts.shape, view.facts.strides
    absent = len(leading) + 2 - len(shape)
    steps = tuple(0 if n == 1 else s for n, s in zip(shape[:-2], strides[:-2], strict=True))
    return _reshaped(view, 0, (*leading, *shape[-2:]), (*[0] * absent, *steps, *strides[-2:]))


def _at(view: ArrayView, dims: int, index: int = 0) -> ArrayView:
    """Return the view without its first `dims` dimensions, at `index` of the first and 0 of the others."""
    return _reshaped(view, index * view.facts.strides[0], view.facts.shape[dims:], view.facts.strides[dims:])


def _merged(view: ArrayView, dims: int) -> ArrayView | None:
    """Return the view with its first `dims` dimensions as one, or None if no stride reaches all their elements."""
    shape, strides = view.facts.shape, view.facts.strides
    step, outer = None, 0
    for n, s in reversed(list(zip(shape[:dims], strides[:dims], strict=True))):
        if n == 1:
            continue
        if step is None:
            step = s
        elif s != outer:
            return None
        outer = s * n
    return _reshaped(view, 0, (math.prod(shape[:dims]), *shape[dims:]), (step or 0, *strides[dims:]))
