"""wmma.load and wmma.store: moves of matrices between memory and the registers of whole warps.

A matrix consists of lines, its rows or columns, whose starts are `stride` elements apart. A warp accesses a line in
chunks of at most 16 bytes. The ISA leaves open which lane accesses which bytes. Here chunk c of an operand belongs to
lane c xor 16, and chunk c of an accumulator to lane c xor 31: a matrix that is loaded, updated and stored is safe
without a barrier, but one that other lanes have stored, or this warp as another operand, isn't.

Lines must be aligned to their chunks. CUDA demands that strides are multiples of 16 bytes and that the first line is
aligned to 32 bytes; the PTX ISA, that each line is aligned to a lane's bytes of the fragment, up to 32.

source: PTX ISA, "Matrix Storage for WMMA"; CUDA C++ Programming Guide, "Warp Matrix Functions".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import SimulationError
from ..decode.names import DTYPES
from ..numerics.fragments import MatrixTile
from .access import Access
from .lanes import WARP, Index
from .warp import Warps


class MatrixTiles:
    """Moves matrices for the executing warps; generated code calls its methods."""

    def __init__(self, warps: Warps, access: Access) -> None:
        self.warps = warps
        self.access = access
        self.lanes = access.lanes

    def load(self, number: int, address: Any, stride: Any, tile: MatrixTile) -> NDArray[Any]:
        """wmma.load: return registers × threads. number: of the accesses to chunks."""
        self.warps.whole(self.access.sites[number].pc)
        parts = [
            self.access.load(number, at).reshape(-1, tile.lanes.size)
            for _, at in self.passes(number, address, stride, tile)
        ]
        chunks = np.empty((parts[0].shape[0], tile.order.size), parts[0].dtype)
        chunks[:, tile.order.reshape(-1)] = np.concatenate(parts, axis=1)
        lines = chunks.view(tile.fragment.dtype).reshape(chunks.shape[0], tile.lines, -1)
        return tile.fragment.registers(tile.exchange(lines))

    def store(self, number: int, address: Any, stride: Any, tile: MatrixTile, values: Sequence[Any]) -> None:
        """wmma.store: the inverse of `load`. values: registers."""
        self.warps.whole(self.access.sites[number].pc)
        lines = tile.exchange(tile.fragment.matrix(values, self.lanes.n))
        chunks = lines.reshape(lines.shape[0], -1).view(DTYPES[self.access.sites[number].dtype])
        for order, at in self.passes(number, address, stride, tile):
            self.access.store(number, at, chunks[:, order].reshape(-1))

    def passes(
        self, number: int, address: Any, stride: Any, tile: MatrixTile
    ) -> Iterator[tuple[Index, NDArray[Any]]]:
        """Select the lanes of each pass; yield the chunks of each warp's lanes, and each executing lane's address.

        raises: SimulationError, after a pass, if the matrix isn't in global or shared memory.
        """
        pc = self.access.sites[number].pc
        starts = self.access.uniform(address, WARP, "the address of a matrix", pc)
        strides = self.access.uniform(stride, WARP, "the stride of a matrix", pc).astype(np.uint64)
        per_line = np.uint64(tile.order.size // tile.lines)
        group, positions = self.lanes.group, self.lanes.positions().reshape(-1, WARP)
        for order in tile.order:
            line, part = np.divmod(order.astype(np.uint64), per_line)
            offset = line * strides[:, None] * np.uint64(tile.bits) >> np.uint64(3)
            at = starts[:, None] + (offset + part * np.uint64(tile.chunk_bytes)).astype(starts.dtype)
            if order.size < WARP:
                self.lanes.select(positions[:, tile.lanes].reshape(-1))
            yield order, at.reshape(-1)
            self.lanes.select(group)
            bound = self.access.bound[number]
            if bound is not None and bound.region.space not in ("global", "shared"):
                what = f"accesses a matrix in {bound.region.space} memory; it must be in global or shared memory"
                raise self.access.error(SimulationError, self.lanes.positions(), what, pc)
