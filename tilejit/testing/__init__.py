"""For tests of kernels, layouts and variants: hypothesis strategies, and `check`, which runs a kernel against NumPy.

Needs hypothesis, which `pip install tilejit[test]` brings.
"""

try:
    import hypothesis  # noqa: F401
except ImportError as missing:
    raise ImportError("tilejit.testing needs hypothesis; install it: pip install hypothesis") from missing

from .arrays import arrays, assert_equal, dtypes, ulps
from .comparing import check
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
from .operations import Operation, operations

__all__ = [
    "AXIS_FAMILIES", "Operation", "arrays", "assert_equal", "check", "dense_layouts", "dtypes", "iters", "layouts",
    "memory_layouts", "operations", "regions_of", "register_layouts", "shapes_of", "swizzles", "ulps",
]
