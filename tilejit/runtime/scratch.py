"""The arrays that a launch allocates for `tj.scratch`: their shapes, and their places in two blocks of memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from ..errors import LaunchError, TilejitError
from ..executable import Executable
from .arrays import Argument, ArrayFacts, ArrayView, facts_of, row_major
from .reshapes import values_of

if TYPE_CHECKING:
    from .cuda_scratch import ScratchBlock

E = TypeVar("E", bound=TilejitError)

#: alignment in bytes of each array, as of memory from the driver
ALIGN_BYTES = 256


class ScratchLayout(NamedTuple):
    """The arrays of one launch.

    places: for each array, its facts, its block (0 for undefined contents, 1 for zeroed ones), and its offset there in
    bytes. sizes: the bytes that the launch needs of both blocks.
    """

    places: tuple[tuple[ArrayFacts, int, int], ...]
    sizes: tuple[int, int]

    def views(self, blocks: Sequence[ScratchBlock]) -> list[ArrayView]:
        """Return the arrays in these blocks."""
        return [ArrayView(blocks[block].pointer + offset, facts, True, None) for facts, block, offset in self.places]


def scratch_layout(
    executable: Executable, grid: tuple[int, int, int], arguments: Sequence[Argument], device: int
) -> ScratchLayout:
    """Return the layout of a launch's scratch; raise LaunchError if an extent is out of range."""
    # imported here, because few kernels need it
    from ..ir.arithmetic.evaluate import evaluate

    values = values_of(executable, arguments) | {f"num_ctas.{axis}": n for axis, n in enumerate(grid)}
    places, sizes = list[tuple[ArrayFacts, int, int]](), [0, 0]
    for array in executable.scratch:
        shape = tuple([int(evaluate(extent, values)) for extent in array.extents])
        if any(extent < 0 for extent in shape):
            raise LaunchError(
                f"{array.of}, scratch of {executable.name}, can't have shape {shape}", span=array.span,
                hint="pass arguments, and launch a grid, for which all extents are at least 0",
            )
        block = int(array.zeroed)
        places.append((facts_of(array.dtype, shape, row_major(shape), device), block, sizes[block]))
        size = math.prod(shape) * array.dtype.bytes
        sizes[block] += -(-size // ALIGN_BYTES) * ALIGN_BYTES
    layout = ScratchLayout(tuple(places), (sizes[0], sizes[1]))
    if sum(sizes) >= 2**63:
        raise too_large(executable, layout)
    return layout


def too_large(executable: Executable, layout: ScratchLayout) -> LaunchError:
    """Return the error for scratch for which there is no memory."""
    arrays, size = zip(executable.scratch, layout.places, strict=True), sum(layout.sizes)
    listed = ", ".join(f"{array.of} of shape {facts.shape} and type {facts.dtype}" for array, (facts, _, _) in arrays)
    return LaunchError(
        f"{executable.name} needs {size:,} bytes of scratch, and the device has too little memory: {listed}",
        span=executable.scratch[0].span,
        hint="launch fewer CTAs or less work at once, free arrays, or call tj.release_scratch()",
    )


def check_zeroed(executable: Executable, index: int, memory: np.ndarray[Any, Any], error: type[E]) -> None:
    """Raise `error` if the kernel left an array nonzero that it must leave zero. memory: of array `index`, in bytes."""
    nonzero, array = np.flatnonzero(memory), executable.scratch[index]
    if nonzero.size:
        raise error(
            f"{executable.name} left element {nonzero[0] // array.dtype.bytes} of {array.of} nonzero",
            span=array.span,
            hint="with zeroed=True, store 0 to all elements before the last CTA ends: later launches rely on it",
        )
