"""Seeded bugs of Numba programs."""

from __future__ import annotations

from .bug import Bug

BUGS: tuple[Bug, ...] = ()
