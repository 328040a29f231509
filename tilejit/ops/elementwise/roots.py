"""Square roots and reciprocals."""

from __future__ import annotations

import numpy as np

from ..scalar import called, inline
from .record import INF, NAN, Accuracy, Elementwise, in_double

SQRT = Elementwise(
    name="sqrt",
    operands=("x",),
    kind="function",
    meaning="square root, correctly rounded",
    formula=in_double(np.sqrt),
    floats=inline(lambda b, x: b.intrinsic("sqrt", x)),
    special=((0.0, 0.0), (-0.0, -0.0), (INF, INF), (-1.0, NAN), (-INF, NAN), (NAN, NAN)),
)

RSQRT = Elementwise(
    name="rsqrt",
    operands=("x",),
    kind="function",
    meaning="1 / sqrt(x)",
    formula=in_double(lambda x: 1 / np.sqrt(x)),
    floats=called(lambda b, x: 1.0 / b.intrinsic("sqrt", x)),
    accuracy=Accuracy((1.5, 2.0), "1 / mp.sqrt(x)", ((0.25, 4),), ((0.25, 4),)),
    special=((0.0, INF), (-0.0, -INF), (INF, 0.0), (-INF, NAN), (NAN, NAN)),
)

RECIPROCAL = Elementwise(
    name="reciprocal",
    operands=("x",),
    kind="function",
    meaning="1 / x, correctly rounded",
    formula=in_double(lambda x: 1 / x),
    floats=inline(lambda b, x: 1.0 / x),
    special=((0.0, INF), (-0.0, -INF), (INF, 0.0), (-INF, -0.0), (NAN, NAN)),
    symmetry="odd",
)
