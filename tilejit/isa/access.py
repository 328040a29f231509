"""Plain accesses, which LLVM writes, as far as not every target has them."""

from __future__ import annotations

from .row import Capability

__all__ = ["GLOBAL_256"]

#: ld.global and st.global of 32 bytes. source: PTX ISA, "Data Movement and Conversion Instructions: ld, st"
GLOBAL_256 = Capability(name="global.256", since=100, ptx=(8, 8))
