"""Seeded bugs of CUDA C++ programs."""

from __future__ import annotations

from .bug import Bug

BUGS: tuple[Bug, ...] = ()
