"""The kernels of nvcc, from all files of cases."""

from __future__ import annotations

from . import nvcc_calls_cases, nvcc_cooperation_cases, nvcc_elementwise_cases
from .nvcc_entries import CASES

__all__ = ["CASES", "nvcc_calls_cases", "nvcc_cooperation_cases", "nvcc_elementwise_cases"]
