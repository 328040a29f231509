"""The size of a cluster and the special registers that hold a CTA's rank in it."""

from __future__ import annotations

import math

#: CTAs per cluster in each dimension
Cluster = tuple[int, int, int]


def ctas_along(cluster: Cluster | None, axis: int | None) -> int:
    """Return the number of CTAs of a cluster along an axis; 1 without a cluster or an axis."""
    return 1 if cluster is None or axis is None else cluster[axis]


def has_one_axis(cluster: Cluster, axis: int) -> bool:
    """True if the cluster has one CTA in every dimension except `axis`."""
    return math.prod(cluster) == cluster[axis]


def rank_name(cluster: Cluster, axis: int | None = None) -> str:
    """Return the name of the special register with this CTA's rank along `axis`, or in the whole cluster if it is None.

    If the cluster has only this axis, both ranks are equal, and the name for the whole cluster is returned: the
    hardware has a register with that rank, while ptxas computes the rank along an axis by a division.
    """
    is_whole = axis is None or has_one_axis(cluster, axis)
    return "cluster_rank" if is_whole else f"cluster_rank.{axis}"
