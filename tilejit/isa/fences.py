"""Explicit memory fences."""

from __future__ import annotations

from functools import partial

from .row import Family, Row

_row = partial(
    Row, memory=True, source='PTX ISA, "Parallel Synchronization and Communication Instructions: membar, fence"'
)


def _fence(scope: str) -> Row:
    return _row(
        name=f"fence.acq_rel.{scope}", text=f"fence.acq_rel.{scope};",
        meaning=f"orders this thread's accesses before and after it for observers in scope {scope}",
        since=90 if scope == "cluster" else 75,
        ptx=(7, 8) if scope == "cluster" else (6, 0),
    )


FENCE = Family.of("fence.acq_rel", ("cta", "cluster", "gpu", "sys"), _fence)

PROXY_ASYNC = _row(
    name="fence.proxy.async", text="fence.proxy.async;", since=90, ptx=(8, 0),
    meaning="orders ordinary accesses and those of the asynchronous proxy",
)


PROXY_ASYNC_OF = {
    space: _row(
        name=f"fence.proxy.async.{space}", text=f"fence.proxy.async.{state_space};", since=90, ptx=(8, 0),
        meaning=f"orders ordinary accesses of {space} memory and those of the asynchronous proxy",
    )
    for space, state_space in (("shared", "shared::cta"), ("global", "global"))
}

ROWS = (*FENCE.rows(), PROXY_ASYNC, *PROXY_ASYNC_OF.values())
