"""Kernels with rings, TMA and wgmma, launched again and again on a GPU. Prints how many launches there were:

    timeout 300 python -m tests.kernels.many_launches 10000
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

import tilejit as tj
from tests.kernels.ring_programs import Product, Ring, Sum
from tilejit.dtypes import bfloat16, float16, float32, int8

#: launches between two looks at what they left
TURN = 250

_UNEVEN = (3, 1, 6, 2, 9, 4, 1, 7)
_SOME_EMPTY = (0, 4, 0, 0, 7, 1, 0, 5)

PROGRAMS: tuple[Ring, ...] = (
    *(Product(_UNEVEN, 4, stages, 1, 2, float16, "128B", 64, False, True, True, False) for stages in (2, 3, 5)),
    Product(_SOME_EMPTY, 8, 4, 2, 2, bfloat16, "128B", 128, True, True, True, True),
    Product(_UNEVEN, 1, 1, 2, 1, float16, "64B", 24, True, True, False, False),
    Product(_UNEVEN, 8, 2, 1, 2, float16, "128B", 64, False, False, True, False),
    Product(_UNEVEN, 3, 3, 1, 1, bfloat16, "32B", 64, False, False, False, False),
    Sum(_SOME_EMPTY, 8, 1, 1, 1, float16, "128B", False, True),
    Sum(_UNEVEN, 4, 3, 3, 3, float32, "128B", False, False),
    Sum(_SOME_EMPTY, 8, 2, 3, 2, int8, "64B", True, True),
)


def launched(program: Ring, count: int) -> None:
    """Launches one `count` times; each launch must leave what NumPy computes."""
    kernel, threads, arrays, wanted, constexprs = program.launched()
    on_device = [tj.to_device(np.ascontiguousarray(x)) for x in (*arrays, np.zeros_like(wanted), *program.tables)]
    out = on_device[len(arrays)]
    launch = kernel[(program.ctas,), threads].bind(*on_device, **constexprs)
    for first in range(0, count, TURN):
        for _ in range(min(TURN, count - first)):
            launch()
        np.testing.assert_array_equal(out.numpy(), wanted)


def main(arguments: Sequence[str]) -> None:
    each = -(-int(arguments[0]) // len(PROGRAMS))
    with tj.use_device("cuda"):
        for program in PROGRAMS:
            launched(program, each)
            print(f"{each:,} launches of {program}", flush=True)
    print(f"{each * len(PROGRAMS):,} launches, none hangs")


if __name__ == "__main__":
    main(sys.argv[1:])
