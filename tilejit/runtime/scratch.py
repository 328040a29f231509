"""The arrays that a launch allocates for `tj.scratch`: their shapes, and their places in two blocks of memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..errors import LaunchError, TilejitError
from ..executable import Executable
from .arrays import Argument, ArrayFacts, ArrayView, facts_of, row_major
from .reshapes import values_of

E = TypeVar("E", bound=TilejitError)

#: alignment in bytes of each array, as of memory from the driver
ALIGN_BYTES = 256


class ScratchLayout(NamedTuple):
    """The arrays of one launch. All tuples but `sizes` have an item for each array.

    blocks: 0 for the block with undefined contents, 1 for the zeroed one. offsets: in that block, in bytes.
    sizes: the bytes that the launch needs of both blocks.
    """

    facts: tuple[ArrayFacts, ...]
    blocks: tuple[int, ...]
    offsets: tuple[int, ...]
    sizes: tuple[int, int]

    def views(self, pointers: Sequence[int]) -> tuple[ArrayView, ...]:
        """Return the arrays in the blocks at these addresses."""
        return tuple([
            ArrayView(pointers[block] + offset, facts, True, None)
            for facts, block, offset in zip(self.facts, self.blocks, self.offsets, strict=True)
        ])


def scratch_layout(
    executable: Executable, grid: tuple[int, int, int], arguments: Sequence[Argument], device: int
) -> ScratchLayout:
    """Return the layout of a launch's scratch; raise LaunchError if an extent is out of range."""
    # imported here, because few kernels need it
    from ..ir.arithmetic.evaluate import evaluate

    values = values_of(executable, arguments) | {f"num_ctas.{axis}": n for axis, n in enumerate(grid)}
    facts, blocks, offsets, sizes = list[ArrayFacts](), list[int](), list[int](), [0, 0]
    for param in executable.scratch:
        assert param.scratch is not None
        shape = tuple([int(evaluate(extent, values)) for extent in param.scratch.extents])
        if any(extent < 0 for extent in shape):
            raise LaunchError(
                f"{param.of}, scratch of {executable.name}, can't have shape {shape}", span=param.buffer.span,
                hint="pass arguments, and launch a grid, for which all extents are at least 0",
            )
        facts.append(facts_of(param.buffer.dtype, shape, row_major(shape), device))
        blocks.append(int(param.scratch.zeroed))
        offsets.append(sizes[blocks[-1]])
        size = math.prod(shape) * param.buffer.dtype.bytes
        sizes[blocks[-1]] += -(-size // ALIGN_BYTES) * ALIGN_BYTES
    if sum(sizes) >= 2**63:
        raise too_large(executable, tuple(facts), sum(sizes))
    return ScratchLayout(tuple(facts), tuple(blocks), tuple(offsets), (sizes[0], sizes[1]))


def too_large(executable: Executable, facts: Sequence[ArrayFacts], size: int) -> LaunchError:
    """Return the error for arrays with these facts, of `size` bytes in total, for which there is no memory."""
    arrays = zip(executable.scratch, facts, strict=True)
    listed = ", ".join(f"{param.of} of shape {each.shape} and type {each.dtype}" for param, each in arrays)
    return LaunchError(
        f"{executable.name} needs {size:,} bytes of scratch, and the device has too little memory: {listed}",
        span=executable.scratch[0].buffer.span,
        hint="launch fewer CTAs or less work at once, free arrays, or call tj.release_scratch()",
    )


def check_zeroed(executable: Executable, index: int, memory: np.ndarray[Any, Any], error: type[E]) -> None:
    """Raise `error` if the kernel left an array nonzero that it must leave zero. memory: of array `index`, in bytes."""
    nonzero, param = np.flatnonzero(memory), executable.scratch[index]
    if nonzero.size:
        raise error(
            f"{executable.name} left element {nonzero[0] // param.buffer.dtype.bytes} of {param.of} nonzero",
            span=param.buffer.span,
            hint="with zeroed=True, store 0 to all elements before the last CTA ends: later launches rely on it",
        )
