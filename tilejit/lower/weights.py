"""Costs of instructions for comparing layouts and variants: integers, in quarter cycles of a multiprocessor.

Most are ratios of documented throughputs; `tests/bench/bench_layouts.py` measures operations and accesses. The costs
choose well on an H100: for 8 kernels the three cheapest grids were timed, and the chosen one was always among the
fastest (within 4 %). But they overrate shared memory relative to global memory: a transpose through shared memory is
rated at 2.0 to 2.7 times the cost of one in registers, but takes 0.95 to 0.97 of the time.

source: CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions"; "Device Memory Accesses".
"""

from __future__ import annotations

#: per warp: a memory access, each 32-byte sector and 128-byte line of global memory, each wavefront of shared memory
ACCESS, SECTOR, LINE, WAVEFRONT = 4, 1, 1, 4

#: per register of a warp: an elementwise operation of issue weight 1, a select between two registers, and a shuffle
#: (with the operation that combines its result in reductions)
ELEMENT, SELECT, SHUFFLE = 1, 1, 5

#: per warp: a CTA-wide barrier; an exchange through shared memory takes two
BARRIER = 40

#: per warp, for each result that is reduced across warps: its store, and each load of four partial results
PARTIAL = 8

#: registers of a thread kept for purposes other than tiles; and the cost per warp of each missing register
FREE_REGISTERS, SPILL = 32, 64

#: memory is accessed in another layout, with a conversion, if that costs at most 3/4 of the direct access
STAGED = (3, 4)
