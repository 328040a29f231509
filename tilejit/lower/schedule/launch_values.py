"""Placeholder values for run-time strides, so that schedules can be evaluated at compile time."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.nodes import Region, Strided, Var


def launch_values(regions: Sequence[Region]) -> dict[str, int]:
    """Return values of run-time strides by name, for contiguous tensors padded to the strides' known multiples."""
    values: dict[str, int] = {}
    for region in regions:
        layout = region.buffer.layout
        if isinstance(layout, Strided):
            values.update(_strides(region, layout))
    return values


def _strides(region: Region, layout: Strided) -> dict[str, int]:
    values: dict[str, int] = {}
    size = 1
    order = sorted(range(len(layout.strides)), key=lambda d: (d == layout.unit_dim, d))
    for d in reversed(order):
        stride, extent = layout.strides[d], region.buffer.shape[d]
        reach = extent if isinstance(extent, int) else region.counts[d]
        if isinstance(stride, Var):
            multiple = max(stride.multiple_of, 1)
            size = -(-size // multiple) * multiple
            values[stride.name] = size
        size = max(size, (size if isinstance(stride, Var) else stride) * reach)
    return values
