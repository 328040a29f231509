"""How many CTAs a cluster has, and the number that says where in it a CTA is."""

from __future__ import annotations

import math

__all__ = ["Cluster", "ctas_along", "has_one_axis", "rank_name"]

#: CTAs of a cluster in each dimension
Cluster = tuple[int, int, int]


def ctas_along(cluster: Cluster | None, axis: int | None) -> int:
    """How many CTAs of a cluster lie along an axis; 1 where there is none, or no axis is named."""
    return 1 if cluster is None or axis is None else cluster[axis]


def has_one_axis(cluster: Cluster, axis: int) -> bool:
    """Whether all CTAs of a cluster lie along an axis."""
    return math.prod(cluster) == cluster[axis]


def rank_name(cluster: Cluster, axis: int | None = None) -> str:
    """The special register of this CTA's index in its cluster along an axis, or in all.

    Where all CTAs lie along the axis these are the same, and the latter is in a register, while ptxas divides to find
    the former.
    """
    is_in_all = axis is None or has_one_axis(cluster, axis)
    return "cluster_rank" if is_in_all else f"cluster_rank.{axis}"
