"""Tools for testing kernels and layouts: hypothesis strategies, `check`, `judge`, and `do_bench` for timing.

All but `do_bench` and those of `judge` require hypothesis, which `pip install tilejit[test]` installs.
"""

from ..runtime.timing import do_bench
from .candidates import CudaCandidate, CudaLaunch
from .judging import judge
from .modules import judge_modules
from .verdicts import Judgement, Reason

try:
    import hypothesis  # noqa: F401
except ImportError as error:
    _missing = error

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'tilejit.testing' has no attribute {name!r}")
        raise ImportError(
            f"tilejit.testing.{name} needs hypothesis; install it: pip install hypothesis"
        ) from _missing
else:
    from .arrays import Array, array_of, arrays, assert_equal, dtypes, ulps
    from .comparing import DrawnLaunch, check, launches
    from .layouts import (
        AXIS_FAMILIES,
        dense_layouts,
        iters,
        layouts,
        memory_layouts,
        regions_of,
        register_layouts,
        shapes_of,
        swizzles,
    )

__all__ = [
    "AXIS_FAMILIES", "Array", "CudaCandidate", "CudaLaunch", "DrawnLaunch", "Judgement", "Reason", "array_of", "arrays",
    "assert_equal", "check", "dense_layouts", "do_bench", "dtypes", "iters", "judge", "judge_modules", "launches",
    "layouts", "memory_layouts", "regions_of", "register_layouts", "shapes_of", "swizzles", "ulps",
]
