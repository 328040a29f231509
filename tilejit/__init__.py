"""tilejit: GPU kernels as decorated Python functions, with tiles, layouts, and a dispatcher that says why.

Names are looked up at their first use, so that `import tilejit` costs nothing that a program doesn't need.
"""

# ruff: noqa: F401
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_TYPES = (
    "bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2",
)

#: module -> the public names that live there
_PUBLIC: dict[str, tuple[str, ...]] = {
    "dtypes": ("DType", *_TYPES),
    "errors": (
        "TilejitError", "KernelSyntaxError", "KernelTypeError", "LayoutError", "DispatchError", "ResourceError",
        "LaunchError", "DeviceError", "SimulationError", "OutOfBoundsError", "MisalignedError",
        "UninitializedReadError", "RaceError", "DeadlockError", "DivergenceError", "AsyncHazardError",
        "UnsupportedInstructionError",
    ),
    "layout": (
        "R", "S", "Swizzle", "TileLayout", "TCol", "TLane", "laneid", "m", "tid_in_wg", "tx", "warpid", "wgid",
        "wid_in_wg",
    ),
    "frontend.language": (
        "Spec", "Tensor", "cdiv", "constexpr", "function", "inf", "nan", "next_power_of_2", "spec", "static_assert",
    ),
    "lower.ask": ("dispatch", "operand", "sym"),
    "ahead": ("CompiledKernel", "load_compiled"),
    "compiled": ("Compiled",),
    "runtime.arrays": ("DeviceArray",),
    "runtime.devices": ("device", "empty", "synchronize", "to_device", "use_device"),
    "jit": ("Kernel", "PreparedLaunch", "kernel", "no_recompile", "simulate"),
    "precompile": ("compile_many",),
    "tuning": ("Config", "autotune"),
}

_HOME = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = list(_HOME)

if TYPE_CHECKING:
    from .ahead import CompiledKernel, load_compiled
    from .compiled import Compiled
    from .errors import (
        AsyncHazardError,
        DeadlockError,
        DeviceError,
        DispatchError,
        DivergenceError,
        KernelSyntaxError,
        KernelTypeError,
        LaunchError,
        LayoutError,
        MisalignedError,
        OutOfBoundsError,
        RaceError,
        ResourceError,
        SimulationError,
        TilejitError,
        UninitializedReadError,
        UnsupportedInstructionError,
    )
    from .frontend.language import Spec, Tensor, cdiv, function, inf, nan, next_power_of_2, spec, static_assert
    from .jit import Kernel, PreparedLaunch, kernel, no_recompile, simulate
    from .layout import R, S, Swizzle, TCol, TileLayout, TLane, laneid, m, tid_in_wg, tx, warpid, wgid, wid_in_wg
    from .lower.ask import dispatch, operand, sym
    from .precompile import compile_many
    from .runtime.arrays import DeviceArray
    from .runtime.devices import device, empty, synchronize, to_device, use_device
    from .tuning import Config, autotune

    # annotations that are values to Python: type checkers read them as Any, as they do the names inside kernels
    constexpr = Any
    bool_ = int8 = int16 = int32 = int64 = uint8 = uint16 = uint32 = uint64 = Any
    float16 = bfloat16 = float32 = float64 = float8_e4m3fn = float8_e5m2 = Any


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is not None:
        value = getattr(importlib.import_module(f".{home}", __name__), name)
    elif name.startswith("_"):
        raise AttributeError(f"module 'tilejit' has no attribute {name!r}")
    else:
        value = _intrinsic(name)
    globals()[name] = value
    return value


def _intrinsic(name: str) -> Any:
    """A name that exists inside kernels: `tj.cta_id`, `tj.warp`, `tj.exp`."""
    table = importlib.import_module(".frontend.vocabulary", __name__).intrinsics()
    if name not in table:
        raise AttributeError(f"module 'tilejit' has no attribute {name!r}")
    return table[name]


def __dir__() -> list[str]:
    table = importlib.import_module(".frontend.vocabulary", __name__).intrinsics()
    return sorted({*globals(), *_HOME, *table})
