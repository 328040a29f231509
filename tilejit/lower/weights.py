"""What instructions cost where layouts and variants are compared: integers, in quarter cycles of a multiprocessor.

The weights are ratios of documented throughputs; `tests/bench/bench_layouts.py` measures them, by these names. An H100
that does nothing else takes, an addition being 1: for a wavefront 3.7, with no more for the access; for a shuffle and
an addition 4.2; for a barrier 8.5 of each of 8 warps; and for a sector of global memory 5, which is what the whole
GPU's memory gives. The weights stay: of 8 kernels whose cheapest three grids were timed, the one that they choose was
always among the fastest (within 4 %). They are too high for shared memory beside global: a transpose through it, at 2.0
to 2.7 times the price of blocks in registers, takes 0.95 to 0.97 of its time.

source: CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions"; "Device Memory Accesses".
"""

from __future__ import annotations

__all__ = [
    "ACCESS", "BARRIER", "ELEMENT", "FREE_REGISTERS", "LINE", "PARTIAL", "SECTOR", "SELECT", "SHUFFLE", "SPILL",
    "STAGED", "WAVEFRONT",
]

#: of a warp: an access to memory, and for each 32-byte sector and 128-byte line of global memory, or for each wavefront
#: of shared memory
ACCESS, SECTOR, LINE, WAVEFRONT = 4, 1, 1, 4

#: of a warp, a register: an elementwise operation whose record has issue weight 1; a choice between two registers; a
#: shuffle, of which a reduction's combines, too
ELEMENT, SELECT, SHUFFLE = 1, 1, 5

#: of a warp, a barrier of all warps; what goes through shared memory takes two
BARRIER = 40

#: of a warp, a result that is reduced across warps: its store, and the loads of four partials at once
PARTIAL = 8

#: registers of a thread that are kept for other things than tiles; and of a warp, each that tiles take of these, or
#: that a thread hasn't got
FREE_REGISTERS, SPILL = 32, 64

#: memory is accessed in another layout, with a conversion, where that costs at most this part of the direct access
STAGED = (3, 4)
