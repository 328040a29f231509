"""Seeded bugs of Triton programs."""

from __future__ import annotations

from .bug import Bug
from .triton_memory_bugs import BUGS as MEMORY
from .triton_order_bugs import BUGS as ORDER

BUGS: tuple[Bug, ...] = (*MEMORY, *ORDER)
