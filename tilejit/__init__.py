"""GPU kernels as decorated Python functions, with tiles, layouts, and a dispatcher that explains its choices.

Public names are imported on first use, so a program loads only the modules that it needs.
"""

from __future__ import annotations

import importlib
import time as _time
from typing import Any

__version__ = "0.1.0"

#: when the import began, in seconds since the epoch; source files modified later may differ from the imported code
_IMPORTED = _time.time()

_TYPES = (
    "bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2",
    "int4x2", "uint4x2", "float4_e2m1fn_x2",
)

#: module -> the public names that are imported from it
_PUBLIC: dict[str, tuple[str, ...]] = {
    "dtypes": ("DType", *_TYPES),
    "errors": (
        "TilejitError", "KernelSyntaxError", "KernelTypeError", "LayoutError", "DispatchError", "ResourceError",
        "LaunchError", "DeviceError", "SimulationError", "OutOfBoundsError", "MisalignedError",
        "UninitializedReadError", "RaceError", "DeadlockError", "DivergenceError", "AsyncHazardError",
        "UnsupportedInstructionError", "SimulatedAssertionError", "DivisionByZeroError", "DeviceCheckError",
        "DeviceAssertionError", "PrecisionWarning", "OutsideWarning", "GridWarning", "PerformanceWarning",
        "CacheWarning",
    ),
    "layout": (
        "R", "S", "Swizzle", "TileLayout", "TCol", "TLane", "laneid", "m", "tid_in_wg", "tx", "warpid", "wgid",
        "wid_in_wg",
    ),
    "frontend.annotations": ("Region", "Scalar", "Tensor", "Tile"),
    "frontend.language": (
        "Spec", "cdiv", "constexpr", "function", "inf", "nan", "next_power_of_2", "spec", "static_assert",
        "tile_order",
    ),
    "nibbles": ("interleave4", "pack"),
    "lower.ask": ("dispatch", "operand", "sym"),
    "ahead": ("CompiledKernel", "load_compiled"),
    "compiled": ("Compiled",),
    "runtime.arrays": ("DeviceArray",),
    "runtime.devices": ("device", "empty", "num_sms", "release_scratch", "synchronize", "to_device", "use_device"),
    "jit": ("Kernel", "kernel", "no_recompile", "simulate"),
    "launches": ("PreparedLaunch",),
    "precompile": ("compile_many",),
    "tuning": ("Config", "autotune", "choose"),
}

#: parts of the package that are reached as attributes
_PARTS = ("kernels", "sanitize")

_HOME = {name: module for module, names in _PUBLIC.items() for name in names}

# type checkers and editors read `__init__.pyi`, which `pytest tests/types --bless` writes
__all__ = sorted(_HOME)


# inside the package write "from .frontend import ...": "from . import frontend" would call this function first, which
# imports the whole kernel language
def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is not None:
        from .forks import importing
        from .gc_pause import gc_paused

        with importing:
            value = getattr(gc_paused(importlib.import_module)(f".{home}", __name__), name)
    elif name in _PARTS:
        value = importlib.import_module(f".{name}", __name__)
    elif name.startswith("_"):
        raise AttributeError(f"module 'tilejit' has no attribute {name!r}")
    else:
        value = _intrinsic(name)
    globals()[name] = value
    return value


def _intrinsic(name: str) -> Any:
    """Return the intrinsic or namespace `tj.<name>` of the kernel language; raise AttributeError if there is none."""
    table = importlib.import_module(".frontend.words", __name__).intrinsics()
    if name not in table:
        word = importlib.import_module(".frontend.foreign", __name__).foreign_word(name)
        hint = "" if word is None else f"; in a kernel, {word.hint}"
        raise AttributeError(f"module 'tilejit' has no attribute {name!r}{hint}")
    return table[name]


def __dir__() -> list[str]:
    table = importlib.import_module(".frontend.words", __name__).intrinsics()
    return sorted({*(name for name in globals() if name.startswith("__")), *_HOME, *table})
