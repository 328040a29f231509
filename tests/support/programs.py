"""From Python functions, or their text, to tile IR; and tile IR on one thread."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import tilejit as tj
from tests.reference.threads import Threads
from tilejit import dtypes, frontend
from tilejit.dtypes import DType
from tilejit.frontend.kernel import build
from tilejit.ir import nodes as ir
from tilejit.ir.params import AssertionsParam, BarrierParam, ExtentParam, PointerParam, ScalarParam, StrideParam
from tilejit.ir.types import ArrayType, ConstexprType, ScalarType, Signature
from tilejit.target import target

_numbers = itertools.count()


def array(dtype: DType = dtypes.float32, rank: int = 1, **changes: Any) -> ArrayType:
    """The type of an aligned C-contiguous array."""
    promises: dict[str, Any] = {"unit_dim": rank - 1 if rank else None, "align": 16, "extent_align": 16}
    return ArrayType(dtype, rank, **(promises | changes))


def source_of(text: str, **names: Any) -> Callable[..., Any]:
    """The function that `text` defines last, with a source that linecache knows."""
    file = f"<kernel {next(_numbers)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"tj": tj, "np": np, **names}
    exec(compile(text, file, "exec", dont_inherit=True), scope)
    functions = [v for v in scope.values() if getattr(getattr(v, "__code__", None), "co_filename", "") == file]
    return functions[-1]


def tile_ir(
    fn: Callable[..., Any] | str, *types: Any, threads: int = 32, on: str = "sm_90a", cooperative: bool = False,
    cluster: tuple[int, int, int] | None = None, **names: Any,
) -> ir.Kernel:
    """The tile IR of a kernel; argument types in order: array and scalar types, a DType, or a constexpr's value."""
    function = source_of(fn, **names) if isinstance(fn, str) else fn
    source = frontend.KernelSource.of(function)
    arguments = [p.arg for p in source.node.args.args]
    signature = Signature(tuple(zip(arguments, map(_argument, types), strict=True)))
    return build(source, signature, threads=threads, target=target(on), cooperative=cooperative, cluster=cluster)


def _argument(value: Any) -> Any:
    if isinstance(value, DType):
        return ScalarType(value)
    return value if isinstance(value, (ArrayType, ScalarType)) else ConstexprType.of(value)


def statements(body: tuple[ir.Stmt, ...], kind: type[Any]) -> list[Any]:
    """All statements of a kind, those of nested bodies too, in order."""
    found: list[Any] = []
    for s in body:
        if isinstance(s, kind):
            found.append(s)
        for inner in ("then", "orelse", "body"):
            found += statements(getattr(s, inner, ()), kind)
    return found


def one_thread(
    kernel: ir.Kernel, arguments: Mapping[str, Any], number: int = 0, specials: Mapping[str, int] | None = None
) -> Threads:
    """One thread of one CTA carries out a kernel's scalar code; arrays are NumPy's, changed in place."""
    arrays: dict[str, np.ndarray] = {}
    scalars: dict[str, Any] = {}
    for param in kernel.params:
        assert not isinstance(param, (AssertionsParam, BarrierParam))
        argument = arguments[param.of]
        match param:
            case PointerParam():
                arrays[param.of] = argument
            case ExtentParam():
                scalars[param.var.name] = argument.shape[param.axis]
            case StrideParam():
                scalars[param.var.name] = argument.strides[param.axis] // argument.itemsize
            case ScalarParam():
                scalars[param.var.name] = np.asarray(argument).astype(param.var.dtype.numpy)[()]
    return Threads(kernel, arrays, scalars, specials=specials, numbers=(number,))


def run(fn: Callable[..., Any] | str, *arguments: Any, **names: Any) -> Threads:
    """Build a kernel for these arguments (arrays, or int32 and float32 scalars) and run it on one thread."""
    function = source_of(fn, **names) if isinstance(fn, str) else fn
    types = [_type_of(a) for a in arguments]
    kernel = tile_ir(function, *types)
    parameters = [p.arg for p in frontend.KernelSource.of(function).node.args.args]
    return one_thread(kernel, dict(zip(parameters, arguments, strict=True)))


def _type_of(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        dtype = dtypes.from_numpy(value.dtype)
        assert dtype is not None
        return array(dtype, value.ndim, align=dtype.bytes, extent_align=dtype.bytes)
    if isinstance(value, np.generic):
        found = dtypes.from_numpy(value.dtype)
        assert found is not None
        return found
    return {bool: dtypes.bool_, int: dtypes.int32, float: dtypes.float32}[type(value)]
