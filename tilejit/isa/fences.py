"""Fences that no barrier brings along."""

from __future__ import annotations

from .row import Row

__all__ = ["PROXY_ASYNC", "ROWS"]

PROXY_ASYNC = Row(
    name="fence.proxy.async",
    text="fence.proxy.async;",
    meaning="orders ordinary accesses and those of the asynchronous proxy",
    since=90,
    ptx=(8, 0),
    memory=True,
    source='PTX ISA, "Parallel Synchronization and Communication Instructions: membar, fence"',
)

ROWS = (PROXY_ASYNC,)
