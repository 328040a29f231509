"""Arguments of the library's functions: their checks, views of their memory, and the allocation of results."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..dtypes import DType, as_dtype, bfloat16, float16, float32
from ..errors import LaunchError
from ..frontend.language import Function, Intrinsic
from ..runtime import devices
from ..runtime.arrays import SIMULATOR, ArrayView, DeviceArray, device_name, facts_of, view_of_memory
from ..runtime.readers import view_of
from ..runtime.signature import overlaps
from ..wording import shown

FACTORS = (float16, bfloat16)
RESULTS = (*FACTORS, float32)


def view(name: str, value: Any) -> ArrayView:
    """Return the view of an array; raise LaunchError with its name if it can't be passed."""
    if getattr(value, "requires_grad", False) and sys.modules["torch"].is_grad_enabled():
        message = f"{name} requires a gradient, which matmul doesn't compute"
        raise LaunchError(message, hint=f"call it under torch.no_grad(), or pass {name}.detach()")
    try:
        return view_of(value)
    except LaunchError as error:
        raise LaunchError(f"{name}: {error.message}", hint=error.hint) from None


def check_factors(a: ArrayView, b: ArrayView) -> None:
    """Raise LaunchError unless both are matrices, or batches of them, of one type that is multiplied."""
    for name, each in (("a", a), ("b", b)):
        if len(each.facts.shape) < 2:
            hint = "pass a[None], a matrix of one row" if name == "a" else "pass b[:, None], a matrix of one column"
            raise LaunchError(f"{name} has shape {each.facts.shape}, which is no matrix", hint=hint)
        if each.facts.dtype not in FACTORS:
            message = f"{name} is {each.facts.dtype}; matmul multiplies float16 and bfloat16"
            raise LaunchError(message, hint="convert it")
    if a.facts.dtype is not b.facts.dtype:
        message = f"a is {a.facts.dtype} and b is {b.facts.dtype}"
        raise LaunchError(message, hint="convert one of them: both must have one type")


def product_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the product of arrays of these shapes."""
    if a[-1] != b[-2]:
        hint = "the last extent of a must equal the last but one of b"
        if a[-1] == b[-1] and len(b) == 2:
            hint = "pass b.T: weights stored N × K are transposed"
        raise LaunchError(f"a has K = {a[-1]} and b has K = {b[-2]}: their shapes are {a} and {b}", hint=hint)
    try:
        return (*np.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1])
    except ValueError:
        raise LaunchError(
            f"the leading dimensions of a, {a[:-2]}, and b, {b[:-2]}, don't broadcast",
            hint="make them equal, or 1, or leave them out",
        ) from None


def result_type(out_dtype: Any) -> DType:
    # torch's types are read by their names
    dtype = as_dtype(out_dtype) or as_dtype(str(out_dtype).removeprefix("torch."))
    if dtype is None or dtype not in RESULTS:
        raise LaunchError(f"out_dtype is {shown(out_dtype)}", hint="pass float16, bfloat16 or float32, as tj.float32")
    return dtype


def check_added(name: str, each: ArrayView | None, shape: tuple[int, ...]) -> None:
    """Raise LaunchError if the bias, the residual or the result has another shape or a type that isn't supported."""
    if each is not None and each.facts.shape != shape:
        hint = "pass one number per column" if name == "bias" else "pass an array of the result's shape"
        raise LaunchError(f"{name} has shape {each.facts.shape}, not {shape}", hint=hint)
    if each is not None and each.facts.dtype not in RESULTS:
        raise LaunchError(f"{name} is {each.facts.dtype}", hint="convert it to float16, bfloat16 or float32")


def check_apart(out: ArrayView, inputs: Mapping[str, ArrayView | None]) -> None:
    """Raise LaunchError if the memory of the result overlaps that of an input, unless it is the residual itself."""
    for name, each in inputs.items():
        is_same = each is not None and each.pointer == out.pointer and each.facts is out.facts
        if each is not None and not (name == "residual" and is_same) and overlaps([_bytes(out, 0), _bytes(each, 1)]):
            raise LaunchError(f"out overlaps {name}, which is read while out is written", hint="pass another array")


def _bytes(each: ArrayView, position: int) -> tuple[int, int, int]:
    return each.pointer + each.facts.low_bytes, each.pointer + each.facts.high_bytes, position


def function_of(activation: Any, named: Mapping[str, Any]) -> Any:
    """Return the function of the kernel language that an activation is or names; None for None."""
    if activation is None or isinstance(activation, (Function, Intrinsic)):
        return activation
    if isinstance(activation, str) and activation in named:
        return named[activation]
    hint = f"pass {', '.join(map(repr, named))} or a @tj.function of a tile"
    if callable(activation):
        hint = "decorate it with @tj.function"
    raise LaunchError(f"activation is {shown(activation)}", hint=hint)


def empty(like: Any, shape: tuple[int, ...], dtype: DType) -> Any:
    """Return an uninitialized array of the library of another one, on its device."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and isinstance(like, torch.Tensor):
        return like.new_empty(shape, dtype=getattr(torch, dtype.name))
    if isinstance(like, np.ndarray):
        return np.empty(shape, dtype.numpy)
    if isinstance(like, DeviceArray):
        return devices.empty(shape, dtype, like.device)
    if cupy is not None and isinstance(like, cupy.ndarray):
        with like.device:
            return cupy.empty(shape, dtype.numpy)
    message = f"a is {type(like).__name__}, of a library in which matmul can't allocate the result"
    raise LaunchError(message, hint="pass out=, a writable array")


def device_of(each: ArrayView) -> Any:
    """Return the device of a launch with this array."""
    number = each.facts.device
    if number is None or number == SIMULATOR:
        chosen = devices.default()
        if number in (None, chosen.number):
            return chosen
    return devices.named(device_name(number))


def reshaped(each: ArrayView, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> ArrayView:
    """Return a view of the memory of another one. offset, strides: in elements."""
    facts = facts_of(each.facts.dtype, shape, strides, each.facts.device)
    pointer = each.pointer + offset * each.facts.dtype.bytes
    return view_of_memory(each.owner, pointer, facts, each.writable, each.producer)


def expanded(each: ArrayView, leading: tuple[int, ...]) -> ArrayView:
    """Return the view with these leading dimensions; extents of 1, and absent ones, are repeated."""
    shape, strides = each.facts.shape, each.facts.strides
    absent = len(leading) + 2 - len(shape)
    steps = tuple(0 if n == 1 else s for n, s in zip(shape[:-2], strides[:-2], strict=True))
    return reshaped(each, 0, (*leading, *shape[-2:]), (*[0] * absent, *steps, *strides[-2:]))


def at(each: ArrayView, dims: int, index: int = 0) -> ArrayView:
    """Return the view without its first `dims` dimensions, at `index` of the first and 0 of the others."""
    return reshaped(each, index * each.facts.strides[0], each.facts.shape[dims:], each.facts.strides[dims:])


def merged(each: ArrayView, dims: int) -> ArrayView | None:
    """Return the view with its first `dims` dimensions as one, or None if their elements aren't equally far apart."""
    shape, strides = each.facts.shape, each.facts.strides
    step, outer = None, 0
    for n, s in reversed(list(zip(shape[:dims], strides[:dims], strict=True))):
        if n == 1:
            continue
        if step is None:
            step = s
        elif s != outer:
            return None
        outer = s * n
    return reshaped(each, 0, (math.prod(shape[:dims]), *shape[dims:]), (step or 0, *strides[dims:]))
