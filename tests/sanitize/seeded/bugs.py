"""All seeded bugs."""

from __future__ import annotations

from .bug import FOLDER, OUTCOMES, Bug, changed, reported_text
from .cuda_bugs import BUGS as CUDA
from .missed import MISSED, Missed
from .numba_bugs import BUGS as NUMBA
from .triton_bugs import BUGS as TRITON

__all__ = [
    "BUGS", "CUDA", "FOLDER", "MISSED", "NUMBA", "OUTCOMES", "TRITON", "Bug", "Missed", "changed", "reported_text",
]

BUGS: tuple[Bug, ...] = (*TRITON, *NUMBA, *CUDA)
