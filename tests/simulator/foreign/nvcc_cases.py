"""The kernels of nvcc, from all files of cases."""

from __future__ import annotations

from importlib import import_module

from .nvcc_entries import CASES

for file in (
    "elementwise", "cooperation", "calls", "tables", "slow_paths", "wmma", "packed", "pipelines", "groups", "bulk",
    "arrays", "sorting", "searching", "science",
):
    import_module(f".nvcc_{file}_cases", __package__)

__all__ = ["CASES"]
