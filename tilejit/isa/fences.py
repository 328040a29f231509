"""Explicit memory fences."""

from __future__ import annotations

from .row import Family, Row

__all__ = ["FENCE", "PROXY_ASYNC", "PROXY_ASYNC_OF", "ROWS"]


def _fence(scope: str) -> Row:
    cluster = scope == "cluster"
    return Row(
        name=f"fence.acq_rel.{scope}",
        text=f"fence.acq_rel.{scope};",
        meaning=f"orders this thread's accesses before and after it for observers in its {scope}",
        since=90 if cluster else 75,
        ptx=(7, 8) if cluster else (6, 0),
        memory=True,
        source='PTX ISA, "Parallel Synchronization and Communication Instructions: membar, fence"',
    )


#: by scope of the memory model
FENCE = Family.of("fence.acq_rel", ("cta", "cluster", "gpu", "sys"), _fence)

PROXY_ASYNC = Row(
    name="fence.proxy.async",
    text="fence.proxy.async;",
    meaning="orders ordinary accesses and those of the asynchronous proxy",
    since=90,
    ptx=(8, 0),
    memory=True,
    source='PTX ISA, "Parallel Synchronization and Communication Instructions: membar, fence"',
)


def _of_space(space: str, state_space: str) -> Row:
    return Row(
        name=f"fence.proxy.async.{space}",
        text=f"fence.proxy.async.{state_space};",
        meaning=f"orders ordinary accesses of {space} memory and those of the asynchronous proxy",
        since=90,
        ptx=(8, 0),
        memory=True,
        source='PTX ISA, "Parallel Synchronization and Communication Instructions: membar, fence"',
    )


#: by memory space
PROXY_ASYNC_OF = {"shared": _of_space("shared", "shared::cta"), "global": _of_space("global", "global")}

ROWS = (*FENCE.rows(), PROXY_ASYNC, *PROXY_ASYNC_OF.values())
