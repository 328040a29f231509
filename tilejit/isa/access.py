"""Plain accesses, which LLVM writes: how wide they are, and which of them not every target has."""

from __future__ import annotations

from .row import Capability

__all__ = ["GLOBAL_256", "WIDEST_BITS"]

#: of one thread's access, on every target and of every memory. From sm_100 on global memory has 256 (`GLOBAL_256`);
#: schedules don't know the target. source: PTX ISA, "Data Movement and Conversion Instructions: ld, st"
WIDEST_BITS = 128

#: ld.global and st.global of 32 bytes. source: PTX ISA, "Data Movement and Conversion Instructions: ld, st"
GLOBAL_256 = Capability(name="global.256", since=100, ptx=(8, 8))
